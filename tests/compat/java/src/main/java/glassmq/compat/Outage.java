package glassmq.compat;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends and consumes, in turn and in order, while the broker ends and comes back. It prints a line when it runs; a line
 * of input tells it that the broker is there again, and when more has been sent and everything has been consumed, it
 * prints what became of its messages.
 */
final class Outage {
    private static final int BEFORE = 100;
    private static final int AFTER = 200;
    private static final int SECONDS = 180;

    private Outage() {
    }

    static void run(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "outage")) {
            String topic = world.topic(4);
            Inbox[] inboxes = {new Inbox(), new Inbox()};
            for (Inbox inbox : inboxes) {
                DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
                consumer.subscribe(topic, "*");
                if (inbox == inboxes[0]) {
                    consumer.registerMessageListener(inbox.concurrently());
                } else {
                    consumer.registerMessageListener(inbox.orderly());
                }
                consumer.start();
            }
            DefaultMQProducer producer = world.newProducer();
            producer.start();
            Set<String> acknowledged = ConcurrentHashMap.newKeySet();
            AtomicInteger failed = new AtomicInteger();
            AtomicBoolean isBack = new AtomicBoolean();
            Thread sender = new Thread(() -> send(producer, topic, acknowledged, failed, isBack),
                "sender");
            sender.setDaemon(true);
            sender.start();
            Check.until("both consume", SECONDS, () -> seen(inboxes[0]).size() >= BEFORE
                && seen(inboxes[1]).size() >= BEFORE);
            Json.print("said", "running");
            System.in.read(); // the broker is back
            isBack.set(true);
            sender.join(SECONDS * 1000L);
            Check.that(!sender.isAlive(), "nothing is taken again: " + acknowledged.size() + " acknowledged, " + failed
                + " failed");
            List<Integer> lost = new ArrayList<>();
            for (Inbox inbox : inboxes) {
                await(inbox, acknowledged);
                Set<String> missing = new HashSet<>(acknowledged);
                missing.removeAll(seen(inbox));
                lost.add(missing.size());
            }
            Json.print("acknowledged", acknowledged.size(), "failed", failed.get(), "lost", lost, "ordered",
                isOrdered(inboxes[1]));
        }
    }

    /** Until the broker is back and has acknowledged many messages since, one after the other. */
    private static void send(DefaultMQProducer producer, String topic, Set<String> acknowledged, AtomicInteger failed,
                             AtomicBoolean isBack) {
        int since = 0;
        for (int i = 0; since < AFTER; i++) {
            boolean back = isBack.get();
            try {
                producer.send(World.message(topic, "tag", i));
                acknowledged.add(String.valueOf(i));
                since += back ? 1 : 0;
                LockSupport.parkNanos(5_000_000);
            } catch (Exception e) {
                failed.incrementAndGet();
                since = 0;
                LockSupport.parkNanos(100_000_000);
            }
        }
    }

    private static Set<String> seen(Inbox inbox) {
        return new HashSet<>(inbox.bodies());
    }

    private static void await(Inbox inbox, Set<String> acknowledged) throws InterruptedException {
        long end = System.nanoTime() + SECONDS * 1_000_000_000L;
        while (!seen(inbox).containsAll(acknowledged) && System.nanoTime() < end) {
            Thread.sleep(100);
        }
    }

    /** Whether each queue's messages came in its order; some may have come again. */
    private static boolean isOrdered(Inbox inbox) {
        Map<Integer, Long> latest = new ConcurrentHashMap<>();
        Set<String> ids = new HashSet<>();
        for (MessageExt message : inbox.messages) {
            if (ids.add(message.getMsgId())) {
                Long before = latest.put(message.getQueueId(), message.getQueueOffset());
                if (before != null && before > message.getQueueOffset()) {
                    return false;
                }
            }
        }
        return true;
    }
}
