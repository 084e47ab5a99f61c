package glassmq.compat;

import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages for later. */
final class DelayCases {
    private DelayCases() {
    }

    static void addTo(Cases cases) {
        cases.add("delay.level_1", world -> level(world, 1, 1_000));
        cases.add("delay.level_2", world -> level(world, 2, 5_000));
        cases.add("delay.level_0_is_none", world -> level(world, 0, 0));
        cases.add("delay.several_at_once", DelayCases::several);
        cases.add("delay.batch_is_refused", DelayCases::batch);
        cases.add("timer.delay_ms", world -> timer(world, message -> message.setDelayTimeMs(2_345), 2_345));
        cases.add("timer.delay_sec", world -> timer(world, message -> message.setDelayTimeSec(2), 2_000));
        cases.add("timer.deliver_ms", world -> timer(
            world, message -> message.setDeliverTimeMs(System.currentTimeMillis() + 1_500), 1_500));
        cases.add("timer.recall", DelayCases::recall);
        cases.addAlone("timer.recalls_are_forbidden", DelayCases::recallsAreForbidden);
        cases.add("timer.too_far_away", DelayCases::tooFarAway);
    }

    private static Inbox consume(World world, String topic) throws Exception {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        return inbox;
    }

    private static String level(World world, int level, long delay) throws Exception {
        String topic = world.topic(2);
        Inbox inbox = consume(world, topic);
        Message message = World.message(topic, "tag", 3);
        message.setKeys("k");
        message.setDelayTimeLevel(level);
        long before = System.currentTimeMillis();
        SendResult sent = world.producer().send(message);
        inbox.awaitCount(1, Check.PATIENCE);
        MessageExt seen = inbox.messages.get(0);
        long late = seen.getStoreTimestamp() - before - delay;
        Check.between("ms after it was due", -20, 15_000, late);
        Check.same("topic", topic, seen.getTopic());
        Check.same("queue", sent.getMessageQueue().getQueueId(), seen.getQueueId());
        Check.same("id", sent.getMsgId(), seen.getMsgId());
        Check.same("tag", "tag", seen.getTags());
        Check.same("keys", "k", seen.getKeys());
        Check.same("reconsume times", 0, seen.getReconsumeTimes());
        Check.same("REAL_TOPIC", level == 0 ? null : topic, seen.getProperty("REAL_TOPIC"));
        Check.same("the level, which it keeps", level, seen.getDelayTimeLevel());
        return String.join(",", new java.util.TreeSet<>(seen.getProperties().keySet()));
    }

    private static String timer(World world, Consumer<Message> setTime, long delay) throws Exception {
        String topic = world.topic(2);
        Inbox inbox = consume(world, topic);
        Message message = World.message(topic, "tag", 3);
        message.setKeys("k");
        long before = System.currentTimeMillis();
        setTime.accept(message);
        SendResult sent = world.producer().send(message);
        inbox.awaitCount(1, Check.PATIENCE);
        MessageExt seen = inbox.messages.get(0);
        Check.between("ms after it was due", 0, 15_000, seen.getStoreTimestamp() - before - delay);
        Check.same("topic", topic, seen.getTopic());
        Check.same("id", sent.getMsgId(), seen.getMsgId());
        Check.same("tag", "tag", seen.getTags());
        Check.same("keys", "k", seen.getKeys());
        return String.join(",", new java.util.TreeSet<>(seen.getProperties().keySet()));
    }

    private static String tooFarAway(World world) throws Exception {
        Message message = World.message(world.topic(1), "tag", 1);
        message.setDelayTimeSec(40 * 24 * 3600);
        Check.same("code", 13, Check.refusal(() -> world.producer().send(message)));
        return null;
    }

    private static String recallsAreForbidden(World world) throws Exception {
        String topic = world.topic(1);
        Message message = World.message(topic, "tag", 1);
        message.setDelayTimeSec(60);
        String handle = world.producer().send(message).getRecallHandle();
        Check.same("code", 16, Check.refusal(() -> world.producer().recallMessage(topic, handle)));
        return null;
    }

    private static String recall(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = consume(world, topic);
        Message taken = World.message(topic, "tag", 1);
        Message stays = World.message(topic, "tag", 2);
        long due = System.currentTimeMillis() + 6_000;
        taken.setDeliverTimeMs(due);
        stays.setDeliverTimeMs(due + 3_000);
        SendResult sent = world.producer().send(taken);
        SendResult other = world.producer().send(stays);
        Check.same("recalled", sent.getMsgId(), world.producer().recallMessage(topic, sent.getRecallHandle()));
        Check.refusal(() -> world.producer().recallMessage(topic, "no handle"));
        inbox.awaitCount(1, Check.PATIENCE);
        Check.same("delivered", other.getMsgId(), inbox.messages.get(0).getMsgId());
        return null;
    }

    private static String several(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = consume(world, topic);
        for (int i = 0; i < 20; i++) {
            Message message = World.message(topic, i % 2 == 0 ? "even" : "odd", i);
            message.setDelayTimeLevel(i % 2 == 0 ? 1 : 2);
            world.producer().send(message);
        }
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        inbox.awaitCount(20, 1);
        for (int i = 0; i < 10; i++) {
            Check.same("tag of an early one", "even", inbox.messages.get(i).getTags());
        }
        return null;
    }

    private static String batch(World world) throws Exception {
        String topic = world.topic(1);
        Message message = World.message(topic, "tag", 0);
        message.setDelayTimeLevel(1);
        try {
            world.producer().send(java.util.List.of(message, World.message(topic, "tag", 1)));
        } catch (UnsupportedOperationException | org.apache.rocketmq.client.exception.MQClientException e) {
            return e.getMessage(); // the client itself refuses it
        }
        throw new AssertionError("sent");
    }
}
