package glassmq.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages a second, of 128 bytes on 4 queues: one producer with {@code threads} threads that send one after the other,
 * or without waiting ({@code async}, 1024 under way), or 32 at a time ({@code batch}); or a push consumer of what is
 * there already. One line: messages and seconds, after the warm-up, and how many calls were refused.
 */
final class Throughput {
    private static final byte[] BODY = new byte[128];
    private static final int QUEUES = 4;
    static final int BATCH = 32;
    private static final int UNDER_WAY = 1024;
    static final int SHOWN = 5;

    private final LongAdder acknowledged = new LongAdder();
    private final LongAdder refused = new LongAdder();
    private volatile boolean ending;

    /** Sends once, and counts what was acknowledged. */
    private interface Sender {
        void send() throws Exception;
    }

    private Throughput() {
    }

    static void run(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "throughput")) {
            String topic = world.topic(QUEUES);
            DefaultMQProducer producer = world.newProducer();
            producer.setHeartbeatBrokerInterval(World.STOCK_HEARTBEAT_MILLIS);
            producer.setRetryTimesWhenSendFailed(0); // a second try is a message more
            producer.setRetryTimesWhenSendAsyncFailed(0);
            producer.start();
            producer.send(new Message(topic, BODY)); // the connection is there before a thousand ask for it
            if (arguments.text("mode").equals("push")) {
                push(world, topic, arguments.number("messages", 500_000));
            } else {
                Throughput throughput = new Throughput();
                throughput.measure(arguments, throughput.sender(arguments.text("mode"), producer, topic));
            }
        }
    }

    private Sender sender(String mode, DefaultMQProducer producer, String topic) {
        switch (mode) {
            case "sync":
                return () -> {
                    producer.send(new Message(topic, BODY));
                    acknowledged.increment();
                };
            case "async":
                return async(producer, topic);
            case "batch":
                return () -> {
                    producer.send(batch(topic));
                    acknowledged.add(BATCH);
                };
            default:
                throw new IllegalArgumentException("no mode is called " + mode);
        }
    }

    static List<Message> batch(String topic) {
        List<Message> messages = new ArrayList<>(BATCH);
        for (int i = 0; i < BATCH; i++) {
            messages.add(new Message(topic, BODY));
        }
        return messages;
    }

    private Sender async(DefaultMQProducer producer, String topic) {
        Semaphore places = new Semaphore(UNDER_WAY);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                places.release();
                acknowledged.increment();
            }

            @Override
            public void onException(Throwable e) {
                places.release();
                refused(e);
            }
        };
        return () -> {
            places.acquire();
            try {
                producer.send(new Message(topic, BODY), callback);
            } catch (Exception e) {
                places.release();
                throw e;
            }
        };
    }

    private void measure(Arguments arguments, Sender sender) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < arguments.number("threads", 1); i++) {
            Thread thread = new Thread(() -> sendOn(sender));
            threads.add(thread);
            thread.start();
        }
        Thread.sleep(arguments.number("warmup", 5) * 1000L);
        long began = System.nanoTime();
        long acknowledgedBefore = acknowledged.sum();
        long refusedBefore = refused.sum();
        Thread.sleep(arguments.number("seconds", 5) * 1000L);
        long messages = acknowledged.sum() - acknowledgedBefore;
        double seconds = (System.nanoTime() - began) / 1e9;
        long refusals = refused.sum() - refusedBefore;
        ending = true;
        for (Thread thread : threads) {
            thread.join();
        }
        Json.print("messages", messages, "seconds", seconds, "refused", refusals);
    }

    /** Until the end. What a broker refuses, being busy, is counted and not sent again. */
    private void sendOn(Sender sender) {
        while (!ending) {
            try {
                sender.send();
            } catch (Exception e) {
                refused(e);
            }
        }
    }

    private void refused(Throwable e) {
        refused.increment();
        if (refused.sum() <= SHOWN) {
            e.printStackTrace();
        }
    }

    private static void push(World world, String topic, int wanted) throws Exception {
        int messages = wanted / BATCH * BATCH;
        for (int i = 0; i < messages; i += BATCH) {
            world.producer().send(batch(topic));
        }
        AtomicLong first = new AtomicLong();
        AtomicInteger left = new AtomicInteger(messages);
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setHeartbeatBrokerInterval(World.STOCK_HEARTBEAT_MILLIS);
        consumer.setConsumeMessageBatchMaxSize(BATCH);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            first.compareAndSet(0, System.nanoTime());
            if (left.addAndGet(-given.size()) <= 0) {
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Check.that(all.await(300, TimeUnit.SECONDS), left + " messages were not received");
        Json.print("messages", messages, "seconds", (System.nanoTime() - first.get()) / 1e9, "refused", 0);
    }
}
