package glassmq.compat;

import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * How long a message takes to a push consumer whose pull is held. A message is sent only when the one before it was
 * received, and the next pull had time to be held. One line: for each message the ns from just before send() to the
 * listener, and those of send() itself.
 */
final class Wakeup {
    private static final byte[] BODY = new byte[128];
    private static final int PATIENCE = 90;

    private final DefaultMQProducer producer;
    private final String topic;
    private final Semaphore received = new Semaphore(0);
    private volatile long arrival;
    private long took;

    private Wakeup(World world) throws Exception {
        topic = world.topic(1);
        producer = world.producer();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setHeartbeatBrokerInterval(30_000); // as everybody has it
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            arrival = System.nanoTime();
            received.release();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    static void run(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "wakeup")) {
            Wakeup wakeup = new Wakeup(world);
            int warmup = arguments.number("warmup", 1000);
            int messages = arguments.number("messages", 2000);
            long pause = arguments.number("pause-us", 20_000) * 1000L;
            for (int i = 0; i < warmup; i++) {
                wakeup.one(2_000_000);
            }
            long[] took = new long[messages];
            long[] sent = new long[messages];
            for (int i = 0; i < messages; i++) {
                sent[i] = wakeup.one(pause);
                took[i] = wakeup.took;
            }
            Json.print("took_ns", took, "sent_ns", sent);
        }
    }

    /** After the pause and up to a tenth more of it: a message there and received. Returns the ns of send(). */
    private long one(long pause) throws Exception {
        LockSupport.parkNanos(pause + ThreadLocalRandom.current().nextLong(pause / 10));
        long began = System.nanoTime();
        producer.send(new Message(topic, BODY));
        long sent = System.nanoTime() - began;
        Check.that(received.tryAcquire(PATIENCE, TimeUnit.SECONDS), "a message was not received");
        took = arrival - began;
        return sent;
    }
}
