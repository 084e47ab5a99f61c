package glassmq.compat;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that a consumer could not deal with: again after a while, and at last to the dead letter queue. */
final class RetryCases {
    private RetryCases() {
    }

    static void addTo(Cases cases) {
        cases.add("retry.once", world -> retry(world, 1));
        cases.add("retry.twice", world -> retry(world, 2));
        cases.add("retry.listener_throws", RetryCases::throwing);
        cases.add("retry.part_of_a_batch", RetryCases::partOfBatch);
        cases.add("retry.compressed", RetryCases::compressed);
        cases.add("retry.dead_letter", world -> deadLetter(world, 1, 1, 2));
        cases.add("retry.dead_letter_after_two", world -> deadLetter(world, 2, 1, 3));
        cases.add("retry.dead_letter_at_once", world -> deadLetter(world, 16, -1, 1));
        cases.add("retry.while_the_group_is_away", RetryCases::whileAway);
        cases.add("retry.sent_back_by_a_pull_consumer", RetryCases::sentBack);
        cases.addSlow("retry.default_delay_is_ten_seconds", RetryCases::defaultDelay);
    }

    /** A consumer that fails each message so many times, with a delay level for the next try. */
    private static DefaultMQPushConsumer failing(World world, String group, String topic, int times, int level,
        Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            inbox.messages.addAll(given);
            context.setDelayLevelWhenNextConsume(level);
            return given.get(0).getReconsumeTimes() < times ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    private static String retry(World world, int times) throws Exception {
        String topic = world.topic(2);
        Inbox inbox = new Inbox();
        failing(world, world.name("g"), topic, times, 1, inbox).start();
        org.apache.rocketmq.common.message.Message message = World.message(topic, "tag", 5);
        message.setKeys("a b");
        message.putUserProperty("p", "v");
        message.setFlag(9);
        SendResult sent = world.producer().send(message);
        inbox.awaitCount(times + 1, Check.PATIENCE);
        long last = 0;
        for (int i = 0; i <= times; i++) {
            MessageExt seen = inbox.messages.get(i);
            Check.same("reconsume times", i, seen.getReconsumeTimes());
            Check.same("body", "5", Inbox.body(seen));
            Check.same("topic as the consumer sees it", topic, seen.getTopic());
            Check.same("tag", "tag", seen.getTags());
            Check.same("keys", "a b", seen.getKeys());
            Check.same("property", "v", seen.getUserProperty("p"));
            Check.same("flag", 9, seen.getFlag());
            Check.same("id", sent.getMsgId(), seen.getMsgId());
            Check.same("born", inbox.messages.get(0).getBornTimestamp(), seen.getBornTimestamp());
            if (i > 0) {
                Check.same("origin", sent.getOffsetMsgId(), seen.getProperty("ORIGIN_MESSAGE_ID"));
                Check.that(seen.getStoreTimestamp() - last >= 990, "came back too early");
            }
            last = seen.getStoreTimestamp();
        }
        return String.join(",", new java.util.TreeSet<>(inbox.messages.get(times).getProperties().keySet()));
    }

    private static String throwing(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            inbox.messages.addAll(given);
            context.setDelayLevelWhenNextConsume(1);
            if (given.get(0).getReconsumeTimes() == 0) {
                throw new IllegalStateException("a listener's mistake");
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        world.send(topic, "tag", 0, 1);
        inbox.awaitCount(2, Check.PATIENCE);
        Check.same("reconsume times", 1, inbox.messages.get(1).getReconsumeTimes());
        return null;
    }

    private static String partOfBatch(World world) throws Exception {
        String topic = world.topic(1);
        world.send(topic, "tag", 0, 5);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setConsumeMessageBatchMaxSize(5);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            inbox.messages.addAll(given);
            context.setDelayLevelWhenNextConsume(1);
            if (given.get(0).getReconsumeTimes() == 0) {
                context.setAckIndex(given.size() - 3); // the last two of them failed
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        inbox.awaitCount(7, Check.PATIENCE);
        List<String> again = new CopyOnWriteArrayList<>(inbox.bodies().subList(5, 7));
        again.sort(null);
        Check.same("those that came again", List.of("3", "4"), again);
        return null;
    }

    private static String compressed(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        failing(world, world.name("g"), topic, 1, 1, inbox).start();
        String body = "compresses well. ".repeat(2000);
        world.producer().send(new org.apache.rocketmq.common.message.Message(topic, body.getBytes()));
        inbox.awaitCount(2, Check.PATIENCE);
        Check.that(Inbox.body(inbox.messages.get(1)).equals(body), "the body is another");
        return null;
    }

    private static String deadLetter(World world, int most, int level, int deliveries) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = failing(world, group, topic, 99, level, inbox);
        consumer.setMaxReconsumeTimes(most);
        consumer.start();
        org.apache.rocketmq.common.message.Message message = World.message(topic, "tag", 5);
        message.setKeys("k");
        SendResult sent = world.producer().send(message);
        inbox.awaitCount(deliveries, Check.PATIENCE);
        MessageQueue dead = world.onlyQueue("%DLQ%" + group);
        MessageExt found = world.read(dead, 0, 1).get(0);
        Check.same("body", "5", Inbox.body(found));
        Check.same("id", sent.getMsgId(), found.getMsgId());
        Check.same("keys", "k", found.getKeys());
        Check.same("topic", "%DLQ%" + group, found.getTopic());
        Check.same("reconsume times", deliveries, found.getReconsumeTimes());
        Check.same("origin", sent.getOffsetMsgId(), found.getProperty("ORIGIN_MESSAGE_ID"));
        Check.same("topic that it came from", topic, found.getProperty("RETRY_TOPIC"));
        Check.same("not delivered once more", deliveries, inbox.messages.size());
        return String.join(",", new java.util.TreeSet<>(found.getProperties().keySet()));
    }

    private static String whileAway(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = failing(world, group, topic, 99, 1, inbox);
        consumer.start();
        world.send(topic, "tag", 0, 3);
        inbox.awaitCount(3, Check.PATIENCE);
        Check.until("all were sent back", Check.PATIENCE, () -> consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().values().stream().allMatch(queue -> queue.getMsgCount().get() == 0));
        consumer.shutdown();
        Inbox later = new Inbox();
        failing(world, group, topic, 0, 1, later).start();
        later.awaitNumbers(0, 3, Check.PATIENCE);
        later.messages.forEach(message -> Check.between("reconsume times", 1, 3, message.getReconsumeTimes()));
        return null;
    }

    private static String sentBack(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        world.send(topic, "tag", 0, 1);
        DefaultMQPullConsumer consumer = world.pullConsumer(group);
        MessageExt message = consumer.pull(world.onlyQueue(topic), "*", 0, 1).getMsgFoundList().get(0);
        consumer.sendMessageBack(message, 1);
        consumer.shutdown(); // as a member of the group it could get the retry topic's queue
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer push = failing(world, group, topic, 0, 1, inbox);
        push.start();
        Check.until("it came back", Check.PATIENCE,
            () -> inbox.messages.stream().anyMatch(m -> m.getReconsumeTimes() == 1));
        return null;
    }

    private static String defaultDelay(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        failing(world, world.name("g"), topic, 1, 0, inbox).start();
        world.send(topic, "tag", 0, 1);
        inbox.awaitCount(2, Check.PATIENCE);
        long waited = inbox.messages.get(1).getStoreTimestamp() - inbox.messages.get(0).getStoreTimestamp();
        Check.between("ms until it was stored again", 9_900, 60_000, waited);
        return waited + " ms";
    }
}
