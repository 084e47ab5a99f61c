package glassmq.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** The old pull consumer: single pulls and offsets, and what the broker makes of odd ones. */
final class PullCases {
    private PullCases() {
    }

    static void addTo(Cases cases) {
        cases.add("pull.statuses", PullCases::statuses);
        cases.add("pull.tags", PullCases::tags);
        cases.add("pull.empty_queue", PullCases::emptyQueue);
        cases.add("pull.block_is_woken", PullCases::blockIsWoken);
        cases.add("pull.block_runs_out", PullCases::blockRunsOut);
        cases.add("pull.async", PullCases::async);
        cases.add("pull.offsets", PullCases::offsets);
        cases.add("pull.search_min_max", PullCases::search);
        cases.add("pull.at_most_32_messages", PullCases::atMost32);
        cases.add("pull.at_most_256_kib", PullCases::atMost256Kib);
        cases.add("pull.a_large_message_alone", PullCases::large);
        cases.add("pull.balanced_queues", PullCases::balanced);
    }

    private static void expect(String what, PullStatus status, long next, int messages, PullResult seen) {
        Check.same(what + ": status", status, seen.getPullStatus());
        Check.same(what + ": next offset", next, seen.getNextBeginOffset());
        Check.same(what + ": messages", messages,
            seen.getMsgFoundList() == null ? 0 : seen.getMsgFoundList().size());
    }

    private static String statuses(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        world.send(topic, "tag", 0, 10);
        world.read(queue, 0, 10); // all of them can be read by now
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        expect("all", PullStatus.FOUND, 10, 10, consumer.pull(queue, "*", 0, 32));
        expect("some", PullStatus.FOUND, 5, 3, consumer.pull(queue, "*", 2, 3));
        expect("at the end", PullStatus.NO_NEW_MSG, 10, 0, consumer.pull(queue, "*", 10, 32));
        expect("behind the end", PullStatus.OFFSET_ILLEGAL, 10, 0, consumer.pull(queue, "*", 11, 32));
        expect("far behind", PullStatus.OFFSET_ILLEGAL, 10, 0, consumer.pull(queue, "*", 1L << 40, 32));
        PullResult result = consumer.pull(queue, "*", 4, 1);
        Check.same("min", 0L, result.getMinOffset());
        Check.same("max", 10L, result.getMaxOffset());
        return null;
    }

    private static String tags(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        world.send(topic, "A", 0, 3);
        world.send(topic, "B", 3, 3);
        world.read(queue, 0, 6);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        expect("B", PullStatus.FOUND, 6, 3, consumer.pull(queue, "B", 0, 32));
        expect("A || B", PullStatus.FOUND, 6, 6, consumer.pull(queue, "A || B", 0, 32));
        expect("A", PullStatus.FOUND, 6, 3, consumer.pull(queue, "A", 0, 32));
        expect("two of A", PullStatus.FOUND, 2, 2, consumer.pull(queue, "A", 0, 2));
        expect("none", PullStatus.NO_MATCHED_MSG, 6, 0, consumer.pull(queue, "C", 0, 32));
        expect("none at the end", PullStatus.NO_NEW_MSG, 6, 0, consumer.pull(queue, "C", 6, 32));
        return null;
    }

    private static String emptyQueue(World world) throws Exception {
        MessageQueue queue = world.onlyQueue(world.topic(1));
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        expect("0", PullStatus.NO_NEW_MSG, 0, 0, consumer.pull(queue, "*", 0, 32));
        expect("5", PullStatus.OFFSET_ILLEGAL, 0, 0, consumer.pull(queue, "*", 5, 32));
        return null;
    }

    private static String blockIsWoken(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        CompletableFuture<PullResult> pulled = CompletableFuture.supplyAsync(() -> {
            try {
                return consumer.pullBlockIfNotFound(queue, "*", 0, 32);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        Thread.sleep(700);
        Check.that(!pulled.isDone(), "it was not held");
        long began = System.nanoTime();
        world.send(topic, "tag", 0, 1);
        expect("held", PullStatus.FOUND, 1, 1, pulled.get(15, TimeUnit.SECONDS));
        return "woken within " + (System.nanoTime() - began) / 1_000_000 + " ms";
    }

    private static String blockRunsOut(World world) throws Exception {
        MessageQueue queue = world.onlyQueue(world.topic(1));
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        consumer.setBrokerSuspendMaxTimeMillis(1500);
        long began = System.nanoTime();
        expect("held", PullStatus.NO_NEW_MSG, 0, 0, consumer.pullBlockIfNotFound(queue, "*", 0, 32));
        long took = (System.nanoTime() - began) / 1_000_000;
        Check.between("ms that it was held", 1_490, 15_000, took);
        return took + " ms";
    }

    private static String async(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        CompletableFuture<PullResult> pulled = new CompletableFuture<>();
        consumer.pullBlockIfNotFound(queue, "*", 0, 32, new PullCallback() {
            @Override
            public void onSuccess(PullResult result) {
                pulled.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                pulled.completeExceptionally(e);
            }
        });
        Thread.sleep(300);
        world.send(topic, "tag", 0, 1);
        expect("held", PullStatus.FOUND, 1, 1, pulled.get(15, TimeUnit.SECONDS));
        return null;
    }

    private static String offsets(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        String group = world.name("g");
        DefaultMQPullConsumer consumer = world.pullConsumer(group);
        long empty = consumer.fetchConsumeOffset(queue, true);
        world.send(topic, "tag", 0, 10);
        world.read(queue, 0, 10);
        long young = consumer.fetchConsumeOffset(queue, true);
        consumer.updateConsumeOffset(queue, 7);
        Check.same("before it is sent", 7L, consumer.fetchConsumeOffset(queue, false));
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        Check.until("what the broker has", Check.PATIENCE, () -> consumer.fetchConsumeOffset(queue, true) == 7);
        DefaultMQPullConsumer other = world.pullConsumer(group);
        Check.same("for another member", 7L, other.fetchConsumeOffset(queue, true));
        other.updateConsumeOffset(queue, 3);
        other.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        Check.until("an offset may go back", Check.PATIENCE, () -> consumer.fetchConsumeOffset(queue, true) == 3);
        return "of an empty queue " + empty + ", of a queue with messages " + young;
    }

    private static String search(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        StringBuilder seen = new StringBuilder("empty: min " + consumer.minOffset(queue) + " max "
            + consumer.maxOffset(queue) + " search " + consumer.searchOffset(queue, System.currentTimeMillis())
            + " earliest " + consumer.earliestMsgStoreTime(queue));
        world.send(topic, "tag", 0, 5);
        Thread.sleep(50);
        long middle = System.currentTimeMillis();
        Thread.sleep(50);
        world.send(topic, "tag", 5, 5);
        world.read(queue, 0, 10);
        Check.same("min", 0L, consumer.minOffset(queue));
        Check.same("max", 10L, consumer.maxOffset(queue));
        Check.same("search for the middle", 5L, consumer.searchOffset(queue, middle));
        Check.same("search before everything", 0L, consumer.searchOffset(queue, 0));
        seen.append("; later than everything ")
            .append(consumer.searchOffset(queue, System.currentTimeMillis() + 100_000));
        Check.between("earliest", middle - 60_000, middle, consumer.earliestMsgStoreTime(queue));
        return seen.toString();
    }

    private static String atMost32(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            messages.add(World.message(topic, "tag", i));
        }
        world.producer().send(messages);
        world.read(queue, 0, 100);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        expect("asked for 1000", PullStatus.FOUND, 32, 32, consumer.pull(queue, "*", 0, 1000));
        expect("the last ones", PullStatus.FOUND, 100, 4, consumer.pull(queue, "*", 96, 1000));
        return null;
    }

    private static byte[] noise(int size) {
        byte[] noise = new byte[size];
        new java.util.Random(size).nextBytes(noise);
        return noise;
    }

    private static String atMost256Kib(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        for (int i = 0; i < 10; i++) {
            world.producer().send(new Message(topic, noise(60_000)));
        }
        world.read(queue, 0, 10);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        expect("of 60,000 bytes each", PullStatus.FOUND, 4, 4, consumer.pull(queue, "*", 0, 32));
        return null;
    }

    private static String large(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        for (int i = 0; i < 3; i++) {
            world.producer().send(new Message(topic, noise(3_000_000)));
        }
        world.read(queue, 0, 3);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        expect("of 3,000,000 bytes each", PullStatus.FOUND, 1, 1, consumer.pull(queue, "*", 0, 32));
        return null;
    }

    private static String balanced(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        DefaultMQPullConsumer[] members = new DefaultMQPullConsumer[2];
        for (int i = 0; i < 2; i++) {
            members[i] = world.configured(new DefaultMQPullConsumer(group));
            members[i].setRegisterTopics(java.util.Set.of(topic));
            world.atEnd(members[i]::shutdown);
            members[i].start();
        }
        Check.until("two queues each", 25, () -> members[0].fetchMessageQueuesInBalance(topic).size() == 2
            && members[1].fetchMessageQueuesInBalance(topic).size() == 2);
        return null;
    }
}
