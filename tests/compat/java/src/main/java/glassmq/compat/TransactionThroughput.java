package glassmq.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactions a second, of 128 bytes on 4 queues: several threads of one producer send half messages and commit them, and
 * a push consumer gets them. A transaction counts when it is delivered; at most 1024 are under way. One line: messages and
 * seconds, after the warm-up, how many half messages were refused, and all messages.
 */
final class TransactionThroughput implements TransactionListener {
    private static final byte[] BODY = new byte[128];
    private static final int QUEUES = 4;
    private static final int UNDER_WAY = 1024;
    private static final int SECONDS = 120;

    private final Semaphore places = new Semaphore(UNDER_WAY);
    private final LongAdder delivered = new LongAdder();
    private final LongAdder refused = new LongAdder();
    private volatile boolean ending;

    private TransactionThroughput() {
    }

    static void run(Arguments arguments) throws Exception {
        new TransactionThroughput().measure(arguments);
    }

    private void measure(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "transactions")) {
            String topic = world.topic(QUEUES);
            consume(world, topic);
            TransactionMQProducer producer = world.configured(new TransactionMQProducer(world.name("pg")));
            producer.setHeartbeatBrokerInterval(World.STOCK_HEARTBEAT_MILLIS);
            producer.setRetryTimesWhenSendFailed(0); // a second try is a message more
            producer.setTransactionListener(this);
            world.atEnd(producer::shutdown);
            producer.start();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < arguments.number("threads", 8); i++) {
                Thread thread = new Thread(() -> sendOn(producer, topic));
                threads.add(thread);
                thread.start();
            }
            Thread.sleep(arguments.number("warmup", 5) * 1000L);
            long began = System.nanoTime();
            long deliveredBefore = delivered.sum();
            long refusedBefore = refused.sum();
            Thread.sleep(arguments.number("seconds", 5) * 1000L);
            long messages = delivered.sum() - deliveredBefore;
            double seconds = (System.nanoTime() - began) / 1e9;
            long refusals = refused.sum() - refusedBefore;
            ending = true;
            for (Thread thread : threads) {
                thread.join();
            }
            Check.that(places.tryAcquire(UNDER_WAY, SECONDS, TimeUnit.SECONDS),
                UNDER_WAY - places.availablePermits() + " committed messages were not delivered");
            Json.print("messages", messages, "seconds", seconds, "refused", refusals, "all", delivered.sum());
        }
    }

    private void consume(World world, String topic) throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setHeartbeatBrokerInterval(World.STOCK_HEARTBEAT_MILLIS);
        consumer.setConsumeMessageBatchMaxSize(Throughput.BATCH);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            delivered.add(given.size());
            places.release(given.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private void sendOn(TransactionMQProducer producer, String topic) {
        while (!ending) {
            places.acquireUninterruptibly();
            try {
                producer.sendMessageInTransaction(new Message(topic, BODY), null);
            } catch (Exception e) {
                places.release();
                refused.increment();
                if (refused.sum() <= Throughput.SHOWN) {
                    e.printStackTrace();
                }
            }
        }
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return LocalTransactionState.COMMIT_MESSAGE;
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        return LocalTransactionState.COMMIT_MESSAGE;
    }
}
