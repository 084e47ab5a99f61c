package glassmq.compat;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.remoting.protocol.body.UnlockBatchRequestBody;

/** Orderly consumption: one member at a time has a queue's lock. */
final class OrderlyCases {
    private OrderlyCases() {
    }

    static void addTo(Cases cases) {
        cases.add("orderly.suspend_keeps_order", OrderlyCases::suspend);
        cases.add("orderly.dead_letter", OrderlyCases::deadLetter);
        cases.add("orderly.locks", OrderlyCases::locks);
        cases.add("orderly.member_leaves", OrderlyCases::memberLeaves);
        cases.add("orderly.member_joins", OrderlyCases::memberJoins);
        cases.addSlow("orderly.killed_member", OrderlyCases::killedMember);
    }

    private static DefaultMQPushConsumer orderly(World world, String group, String topic, Inbox inbox)
        throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.orderly());
        consumer.start();
        return consumer;
    }

    private static String suspend(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        List<String> failed = new ArrayList<>();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (given, context) -> {
            MessageExt message = given.get(0);
            context.setSuspendCurrentQueueTimeMillis(50);
            if (Integer.parseInt(Inbox.body(message)) % 5 == 2 && message.getReconsumeTimes() < 2) {
                failed.add(Inbox.body(message) + "/" + message.getReconsumeTimes());
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            inbox.messages.addAll(given);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        world.send(topic, "tag", 0, 10);
        inbox.awaitNumbers(0, 10, Check.PATIENCE);
        Check.same("order", List.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), inbox.byQueue().get(0));
        Check.same("failures", List.of("2/0", "2/1", "7/0", "7/1"), failed);
        return null;
    }

    private static String deadLetter(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (given, context) -> {
            inbox.messages.addAll(given);
            context.setSuspendCurrentQueueTimeMillis(50);
            return Inbox.body(given.get(0)).equals("0") ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                : ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        world.send(topic, "tag", 0, 2);
        Check.until("the message behind it", Check.PATIENCE, () -> inbox.bodies().contains("1"));
        MessageExt dead = world.read(world.onlyQueue("%DLQ%" + group), 0, 1).get(0);
        Check.same("body", "0", Inbox.body(dead));
        Check.same("topic that it came from", topic, dead.getProperty("RETRY_TOPIC"));
        return inbox.bodies() + " then dead with reconsumeTimes " + dead.getReconsumeTimes();
    }

    private static Set<MessageQueue> lock(World world, String group, String client, List<MessageQueue> queues)
        throws Exception {
        LockBatchRequestBody body = new LockBatchRequestBody();
        body.setConsumerGroup(group);
        body.setClientId(client);
        body.setMqSet(new HashSet<>(queues));
        return world.api().lockBatchMQ(world.brokerOf(queues.get(0).getTopic()), body, World.API_MILLIS);
    }

    private static void unlock(World world, String group, String client, List<MessageQueue> queues, boolean oneway)
        throws Exception {
        UnlockBatchRequestBody body = new UnlockBatchRequestBody();
        body.setConsumerGroup(group);
        body.setClientId(client);
        body.setMqSet(new HashSet<>(queues));
        world.api().unlockBatchMQ(world.brokerOf(queues.get(0).getTopic()), body, World.API_MILLIS, oneway);
    }

    private static String locks(World world) throws Exception {
        List<MessageQueue> queues = world.routed(world.topic(3), 3);
        String group = world.name("g");
        List<MessageQueue> two = queues.subList(0, 2);
        Check.same("the first", new HashSet<>(two), lock(world, group, "one", two));
        Check.same("again", new HashSet<>(two), lock(world, group, "one", two));
        Check.same("another gets the rest", Set.of(queues.get(2)), lock(world, group, "two", queues));
        Check.same("another group", new HashSet<>(queues), lock(world, world.name("g"), "two", queues));
        unlock(world, group, "two", two, false); // not its own: nothing happens
        Check.same("still locked", Set.of(queues.get(2)), lock(world, group, "two", queues));
        unlock(world, group, "one", List.of(queues.get(0)), false);
        Check.same("one is free", Set.of(queues.get(0), queues.get(2)), lock(world, group, "two", queues));
        unlock(world, group, "one", List.of(queues.get(1)), true);
        Check.until("the other is free", 5, () -> lock(world, group, "two", queues).size() == 3);
        return null;
    }

    private static String memberLeaves(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer one = orderly(world, group, topic, inbox);
        DefaultMQPushConsumer two = orderly(world, group, topic, inbox);
        Check.until("two queues each", Check.PATIENCE, () ->
            Inbox.heldBy(one, topic).size() == 2 && Inbox.heldBy(two, topic).size() == 2);
        world.send(topic, "tag", 0, 20);
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        long began = System.nanoTime();
        two.shutdown();
        Check.until("the other has all four", 25, () -> Inbox.heldBy(one, topic).size() == 4);
        long took = (System.nanoTime() - began) / 1_000_000;
        world.send(topic, "tag", 20, 20);
        inbox.awaitNumbers(0, 40, Check.PATIENCE);
        return "taken over in " + took + " ms";
    }

    private static String memberJoins(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        Inbox one = new Inbox();
        Inbox two = new Inbox();
        orderly(world, group, topic, one);
        world.send(topic, "tag", 0, 20);
        one.awaitNumbers(0, 20, Check.PATIENCE);
        DefaultMQPushConsumer joined = orderly(world, group, topic, two);
        Check.until("the newcomer holds a queue", Check.PATIENCE, () -> Inbox.heldBy(joined, topic).size() == 1);
        world.send(topic, "tag", 20, 20);
        Check.until("both together have everything", Check.PATIENCE, () -> {
            Set<String> all = new HashSet<>(one.bodies());
            all.addAll(two.bodies());
            return all.equals(Inbox.numbers(0, 40));
        });
        Check.same("of the newcomer", 10, two.messages.size());
        return null;
    }

    /** The locks of a member that died are free when they expire, a minute after they were renewed the last time. */
    private static String killedMember(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer one = orderly(world, group, topic, inbox);
        Process other = Member.start(world, group, topic, true);
        Check.until("one queue is left to this one", Check.PATIENCE, () -> Inbox.heldBy(one, topic).size() == 1);
        Thread.sleep(2000);
        long began = System.nanoTime();
        other.destroyForcibly();
        Check.until("the other's queue", Check.PATIENCE, () -> Inbox.heldBy(one, topic).size() == 2);
        long took = (System.nanoTime() - began) / 1_000_000;
        world.send(topic, "tag", 0, 20);
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        return "taken over in " + took + " ms";
    }
}
