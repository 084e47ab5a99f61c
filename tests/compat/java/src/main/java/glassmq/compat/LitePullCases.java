package glassmq.compat;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The lite pull consumer, with queues of its group or with queues that it was told. */
final class LitePullCases {
    private LitePullCases() {
    }

    static void addTo(Cases cases) {
        cases.add("lite.subscribe", LitePullCases::subscribe);
        cases.add("lite.subscribe_tags", LitePullCases::subscribeTags);
        cases.add("lite.commit_and_continue", LitePullCases::commitAndContinue);
        cases.add("lite.two_members", LitePullCases::twoMembers);
        cases.add("lite.assign", LitePullCases::assign);
        cases.add("lite.assign_tags", LitePullCases::assignTags);
        cases.add("lite.seek", LitePullCases::seek);
        cases.add("lite.pause_and_resume", LitePullCases::pause);
        cases.add("lite.offset_for_timestamp", LitePullCases::offsetForTimestamp);
        cases.add("lite.large_batches", LitePullCases::largeBatches);
    }

    private static List<String> poll(DefaultLitePullConsumer consumer, int count, long seconds) {
        List<String> bodies = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (bodies.size() < count && System.nanoTime() < end) {
            for (MessageExt message : consumer.poll(200)) {
                bodies.add(Inbox.body(message));
            }
        }
        return bodies;
    }

    private static void awaitNumbers(DefaultLitePullConsumer consumer, int first, int count) {
        List<String> bodies = poll(consumer, count, Check.PATIENCE);
        Check.same("bodies", Inbox.numbers(first, count), new HashSet<>(bodies));
        Check.same("messages", count, bodies.size());
    }

    private static String subscribe(World world) throws Exception {
        String topic = world.topic(4);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.start();
        world.send(topic, "tag", 0, 40);
        long began = System.nanoTime();
        awaitNumbers(consumer, 0, 40);
        long first = (System.nanoTime() - began) / 1_000_000;
        Check.that(first < 15_000, "the first messages came after " + first + " ms: it was not told of its group");
        Thread.sleep(300);
        world.send(topic, "tag", 40, 40);
        awaitNumbers(consumer, 40, 40);
        return "first messages after " + first + " ms";
    }

    private static String subscribeTags(World world) throws Exception {
        String topic = world.topic(2);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.subscribe(topic, "A || é");
        consumer.start();
        world.send(topic, "A", 0, 10);
        world.send(topic, "B", 100, 10);
        world.send(topic, "é", 10, 10);
        awaitNumbers(consumer, 0, 20);
        Check.same("others", List.of(), poll(consumer, 1, 1));
        return null;
    }

    private static String commitAndContinue(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        world.send(topic, "tag", 0, 20);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(group);
        consumer.setAutoCommit(false);
        consumer.subscribe(topic, "*");
        consumer.start();
        awaitNumbers(consumer, 0, 20);
        consumer.commit();
        consumer.shutdown();
        world.send(topic, "tag", 20, 10);
        DefaultLitePullConsumer next = world.newLitePullConsumer(group);
        next.subscribe(topic, "*");
        next.start();
        awaitNumbers(next, 20, 10);
        Check.same("others", List.of(), poll(next, 1, 1));
        return null;
    }

    private static String twoMembers(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        DefaultLitePullConsumer one = world.newLitePullConsumer(group);
        one.subscribe(topic, "*");
        one.start();
        DefaultLitePullConsumer two = world.newLitePullConsumer(group);
        two.subscribe(topic, "*");
        two.start();
        Check.until("two queues each", Check.PATIENCE,
            () -> one.assignment().size() == 2 && two.assignment().size() == 2);
        world.send(topic, "tag", 0, 40);
        Set<String> all = new HashSet<>(poll(one, 20, Check.PATIENCE));
        all.addAll(poll(two, 20, Check.PATIENCE));
        Check.same("bodies", Inbox.numbers(0, 40), all);
        two.shutdown();
        Check.until("all queues", 10, () -> one.assignment().size() == 4);
        return null;
    }

    private static String assign(World world) throws Exception {
        String topic = world.topic(3);
        world.send(topic, "tag", 0, 30);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
        Check.same("queues", 3, queues.size());
        consumer.assign(queues);
        awaitNumbers(consumer, 0, 30);
        return null;
    }

    private static String assignTags(World world) throws Exception {
        String topic = world.topic(1);
        world.send(topic, "A", 0, 5);
        world.send(topic, "B", 5, 5);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.setSubExpressionForAssign(topic, "B");
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(topic));
        awaitNumbers(consumer, 5, 5);
        Check.same("others", List.of(), poll(consumer, 1, 1));
        return null;
    }

    private static String seek(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        world.send(topic, "tag", 0, 20);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.setAutoCommit(false);
        consumer.start();
        consumer.assign(List.of(queue));
        awaitNumbers(consumer, 0, 20);
        consumer.seek(queue, 15);
        awaitNumbers(consumer, 15, 5);
        consumer.seekToBegin(queue);
        awaitNumbers(consumer, 0, 20);
        consumer.seekToEnd(queue);
        world.send(topic, "tag", 20, 3);
        awaitNumbers(consumer, 20, 3);
        consumer.commitSync(java.util.Map.of(queue, 22L), true);
        Check.same("committed", 22L, consumer.committed(queue));
        int refused = Check.refusal(() -> {
            consumer.seek(queue, 1000);
            return "sought";
        });
        return "seek too far refused by the client with " + refused;
    }

    private static String pause(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        world.send(topic, "tag", 0, 5);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.start();
        consumer.assign(List.of(queue));
        awaitNumbers(consumer, 0, 5);
        consumer.pause(List.of(queue));
        world.send(topic, "tag", 5, 1);
        List<String> last = poll(consumer, 1, 2); // a pull that was held already may still bring this one
        world.send(topic, "tag", 6, 5);
        Check.same("while paused", List.of(), poll(consumer, 1, 1));
        consumer.resume(List.of(queue));
        awaitNumbers(consumer, 5 + last.size(), 6 - last.size());
        return null;
    }

    private static String offsetForTimestamp(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        world.send(topic, "tag", 0, 5);
        Thread.sleep(50);
        long middle = System.currentTimeMillis();
        Thread.sleep(50);
        world.send(topic, "tag", 5, 5);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.start();
        consumer.assign(List.of(queue));
        Check.same("offset of a time", 5L, consumer.offsetForTimestamp(queue, middle));
        Check.same("offset of the beginning", 0L, consumer.offsetForTimestamp(queue, 0L));
        return null;
    }

    private static String largeBatches(World world) throws Exception {
        String topic = world.topic(1);
        List<org.apache.rocketmq.common.message.Message> messages = new ArrayList<>();
        for (int i = 0; i < 500; i++) {
            messages.add(World.message(topic, "tag", i));
        }
        world.producer().send(messages);
        DefaultLitePullConsumer consumer = world.newLitePullConsumer(world.name("g"));
        consumer.setPullBatchSize(1000);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(topic));
        awaitNumbers(consumer, 0, 500);
        return null;
    }
}
