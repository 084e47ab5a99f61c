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
 * there already. One line: messages and seconds, after the warm-up.
 */
final class Throughput {
    private static final byte[] BODY = new byte[128];
    private static final int QUEUES = 4;
    private static final int BATCH = 32;
    private static final int UNDER_WAY = 1024;

    /** Sends, and adds to what was acknowledged. */
    private interface Sender {
        void send(LongAdder acknowledged) throws Exception;
    }

    private Throughput() {
    }

    static void run(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "throughput")) {
            String topic = world.topic(QUEUES);
            DefaultMQProducer producer = world.producer();
            producer.setRetryTimesWhenSendFailed(0);
            producer.setRetryTimesWhenSendAsyncFailed(0);
            switch (arguments.text("mode")) {
                case "sync":
                    measure(arguments, acknowledged -> {
                        producer.send(new Message(topic, BODY));
                        acknowledged.increment();
                    });
                    break;
                case "async":
                    measure(arguments, async(producer, topic));
                    break;
                case "batch":
                    measure(arguments, acknowledged -> {
                        producer.send(batch(topic));
                        acknowledged.add(BATCH);
                    });
                    break;
                case "push":
                    push(world, topic, arguments);
                    break;
                default:
                    throw new IllegalArgumentException("no mode is called " + arguments.text("mode"));
            }
        }
    }

    private static List<Message> batch(String topic) {
        List<Message> messages = new ArrayList<>(BATCH);
        for (int i = 0; i < BATCH; i++) {
            messages.add(new Message(topic, BODY));
        }
        return messages;
    }

    private static Sender async(DefaultMQProducer producer, String topic) throws Exception {
        producer.send(new Message(topic, BODY)); // the connection is there before a thousand ask for it
        Semaphore places = new Semaphore(UNDER_WAY);
        return acknowledged -> {
            places.acquire();
            producer.send(new Message(topic, BODY), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    places.release();
                    acknowledged.increment();
                }

                @Override
                public void onException(Throwable e) {
                    places.release();
                    e.printStackTrace();
                }
            });
        };
    }

    private static void measure(Arguments arguments, Sender sender) throws Exception {
        LongAdder acknowledged = new LongAdder();
        AtomicInteger failures = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < arguments.number("threads", 1); i++) {
            Thread thread = new Thread(() -> {
                try {
                    while (!Thread.interrupted()) {
                        sender.send(acknowledged);
                    }
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                } catch (Exception e) {
                    if (!(e.getCause() instanceof InterruptedException)) {
                        e.printStackTrace();
                        failures.incrementAndGet();
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        Thread.sleep(arguments.number("warmup", 5) * 1000L);
        long began = System.nanoTime();
        long before = acknowledged.sum();
        Thread.sleep(arguments.number("seconds", 5) * 1000L);
        long messages = acknowledged.sum() - before;
        double seconds = (System.nanoTime() - began) / 1e9;
        Check.same("threads that failed", 0, failures.get());
        Json.print("messages", messages, "seconds", seconds);
        threads.forEach(Thread::interrupt);
    }

    private static void push(World world, String topic, Arguments arguments) throws Exception {
        int messages = arguments.number("messages", 300_000) / BATCH * BATCH;
        for (int i = 0; i < messages; i += BATCH) {
            world.producer().send(batch(topic));
        }
        AtomicLong first = new AtomicLong();
        AtomicInteger left = new AtomicInteger(messages);
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setConsumeThreadMin(20);
        consumer.setConsumeThreadMax(20);
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
        Json.print("messages", messages, "seconds", (System.nanoTime() - first.get()) / 1e9);
    }
}
