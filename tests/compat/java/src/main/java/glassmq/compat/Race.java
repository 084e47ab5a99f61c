package glassmq.compat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages sent around the moment in which a pull is being held: each up to {@code jitter} after the one before it was
 * received, while the client's next pull is on its way. Where reading and holding are two steps, one that comes between
 * them waits for the broker's next look at what it holds. One line: how many there were, and how long they took.
 */
final class Race {
    private static final long SLOW = TimeUnit.SECONDS.toNanos(1);
    private static final int PATIENCE = 90;

    private final Semaphore received = new Semaphore(0);
    private volatile long arrival;

    static void run(Arguments arguments) throws Exception {
        int lanes = arguments.number("lanes", 4);
        int jitter = arguments.number("jitter-us", 1500) * 1000;
        AtomicInteger left = new AtomicInteger(arguments.number("messages", 100_000));
        try (World world = new World(arguments.text("namesrv"), "race")) {
            DefaultMQProducer producer = world.producer();
            List<long[]> took = new ArrayList<>();
            List<Thread> threads = new ArrayList<>();
            ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
            long began = System.nanoTime();
            for (int lane = 0; lane < lanes; lane++) {
                Race race = new Race();
                String topic = race.consume(world);
                long[] times = new long[left.get()];
                took.add(times);
                Thread thread = new Thread(() -> {
                    try {
                        race.warmUp(producer, topic);
                        for (int i = 0; left.getAndDecrement() > 0; i++) {
                            times[i] = race.one(producer, topic, jitter);
                        }
                    } catch (Throwable e) {
                        failures.add(e.toString());
                    }
                });
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            Check.that(failures.isEmpty(), "failures: " + failures);
            long[] all = took.stream().flatMapToLong(Arrays::stream).filter(time -> time > 0).sorted().toArray();
            Json.print("messages", all.length, "seconds", (System.nanoTime() - began) / 1e9,
                "slow_ns", Arrays.stream(all).filter(time -> time > SLOW).toArray(), "p50_ns", part(all, 0.5),
                "p99_ns", part(all, 0.99), "p999_ns", part(all, 0.999), "max_ns", all[all.length - 1]);
        }
    }

    private static long part(long[] sorted, double part) {
        return sorted[Math.min(sorted.length - 1, (int) (part * sorted.length))];
    }

    /** A topic of one queue, and its consumer. */
    private String consume(World world) throws Exception {
        String topic = world.topic(1);
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setHeartbeatBrokerInterval(30_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            arrival = System.nanoTime();
            received.release();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return topic;
    }

    /** The first message waits until the consumer has its queue; those after it for compilers. */
    private void warmUp(DefaultMQProducer producer, String topic) throws Exception {
        for (int i = 0; i < 200; i++) {
            one(producer, topic, 1_000_000);
        }
    }

    private long one(DefaultMQProducer producer, String topic, int jitter) throws Exception {
        LockSupport.parkNanos(ThreadLocalRandom.current().nextInt(jitter));
        long began = System.nanoTime();
        producer.send(new Message(topic, new byte[16]));
        Check.that(received.tryAcquire(PATIENCE, TimeUnit.SECONDS), "a message was not received");
        return arrival - began;
    }
}
