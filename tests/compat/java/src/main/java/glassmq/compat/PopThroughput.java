package glassmq.compat;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;

/**
 * Messages a second, of 128 bytes on 8 queues, that push consumers pop and acknowledge. They are there already. A message
 * counts when the broker has answered its acknowledgement; the stock client acknowledges each in a request of its own.
 * One line: messages and seconds, after the first quarter, how many acknowledgements were refused, and all messages.
 */
final class PopThroughput {
    private static final int QUEUES = 8;
    private static final int SECONDS = 300;

    private final AtomicLong acknowledged = new AtomicLong();
    private final LongAdder refused = new LongAdder();
    private final AtomicLong began = new AtomicLong();
    private final CountDownLatch all = new CountDownLatch(1);
    private final int messages;

    private PopThroughput(int messages) {
        this.messages = messages;
    }

    static void run(Arguments arguments) throws Exception {
        int messages = arguments.number("messages", 120_000) / Throughput.BATCH * Throughput.BATCH;
        new PopThroughput(messages).measure(arguments.text("namesrv"), arguments.number("consumers", 8));
    }

    private void measure(String namesrv, int consumers) throws Exception {
        try (World world = new World(namesrv, "pop")) {
            String topic = world.topic(QUEUES);
            String group = world.name("g");
            world.api().setMessageRequestMode(world.brokerOf(topic), topic, group, MessageRequestMode.POP, 0,
                World.API_MILLIS);
            for (int i = 0; i < messages; i += Throughput.BATCH) {
                world.producer().send(Throughput.batch(topic));
            }
            for (int i = 0; i < consumers; i++) {
                start(world, topic, group);
            }
            Check.that(all.await(SECONDS, TimeUnit.SECONDS), acknowledged + " messages were acknowledged");
            double seconds = (System.nanoTime() - began.get()) / 1e9;
            Json.print("messages", messages - messages / 4, "seconds", seconds, "refused", refused.sum(),
                "all", messages);
        }
    }

    private void start(World world, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = world.configured(new DefaultMQPushConsumer(group, new Hook()));
        consumer.setHeartbeatBrokerInterval(World.STOCK_HEARTBEAT_MILLIS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setConsumeMessageBatchMaxSize(Throughput.BATCH);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (given, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        world.atEnd(consumer::shutdown);
        consumer.start();
    }

    /** Counts the answers to acknowledgements. */
    private final class Hook implements RPCHook {
        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
            if (request.getCode() != RequestCode.ACK_MESSAGE) {
                return;
            }
            if (response.getCode() != ResponseCode.SUCCESS) {
                refused.increment();
                return;
            }
            long count = acknowledged.incrementAndGet();
            if (count == messages / 4) {
                began.set(System.nanoTime());
            } else if (count == messages) {
                all.countDown();
            }
        }
    }
}
