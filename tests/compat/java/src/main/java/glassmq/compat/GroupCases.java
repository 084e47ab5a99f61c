package glassmq.compat;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageQueueAssignment;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Members of a group, and what the group remembers. */
final class GroupCases {
    /** Seconds within which a notice must have worked: without one it takes up to 20. */
    private static final int SOON = 12;

    private GroupCases() {
    }

    static void addTo(Cases cases) {
        cases.add("group.join_and_leave", GroupCases::joinAndLeave);
        cases.add("group.killed_member", GroupCases::killedMember);
        cases.add("group.more_members_than_queues", GroupCases::moreMembersThanQueues);
        cases.add("group.queues_shared_by_the_broker", GroupCases::sharedByTheBroker);
        cases.add("group.members_by_38", GroupCases::members);
        cases.add("group.unregister_producer", GroupCases::unregisterProducer);
        cases.add("group.offsets_survive_a_restart", GroupCases::offsetsSurvive);
        cases.add("group.reset_while_online_to_the_beginning", world -> resetOnline(world, true));
        cases.add("group.reset_while_online_to_a_time", world -> resetOnline(world, false));
        cases.add("group.reset_one_queue_to_an_offset", GroupCases::resetOneQueue);
        cases.add("group.reset_while_offline", GroupCases::resetOffline);
    }

    private static DefaultMQPushConsumer member(World world, String group, String topic, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        return consumer;
    }

    /** What each of the members must hold. */
    private static void awaitShares(String topic, int seconds, int each, DefaultMQPushConsumer... members)
        throws Exception {
        Check.until("each member holds " + each + " queues", seconds, () -> {
            Set<MessageQueue> all = new HashSet<>();
            for (DefaultMQPushConsumer member : members) {
                Set<MessageQueue> held = Inbox.heldBy(member, topic);
                if (held.size() != each || !all.addAll(held) || all.size() % each != 0) {
                    return false;
                }
            }
            return all.size() == each * members.length;
        });
    }

    private static String joinAndLeave(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer one = member(world, group, topic, inbox);
        awaitShares(topic, Check.PATIENCE, 4, one);
        long began = System.nanoTime();
        DefaultMQPushConsumer two = member(world, group, topic, inbox);
        awaitShares(topic, SOON, 2, one, two);
        long joined = (System.nanoTime() - began) / 1_000_000;
        world.send(topic, "tag", 0, 40);
        inbox.awaitNumbers(0, 40, Check.PATIENCE);
        began = System.nanoTime();
        two.shutdown();
        awaitShares(topic, SOON, 4, one);
        long left = (System.nanoTime() - began) / 1_000_000;
        world.send(topic, "tag", 40, 40);
        inbox.awaitNumbers(0, 80, Check.PATIENCE);
        return "joined in " + joined + " ms, left in " + left + " ms";
    }

    private static String killedMember(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer one = member(world, group, topic, inbox);
        Process other = Member.start(world, group, topic, false);
        awaitShares(topic, Check.PATIENCE, 2, one);
        long began = System.nanoTime();
        other.destroyForcibly();
        awaitShares(topic, SOON, 4, one);
        long took = (System.nanoTime() - began) / 1_000_000;
        world.send(topic, "tag", 0, 40);
        inbox.awaitNumbers(0, 40, Check.PATIENCE);
        return "taken over in " + took + " ms";
    }

    private static String moreMembersThanQueues(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer[] members = new DefaultMQPushConsumer[3];
        for (int i = 0; i < 3; i++) {
            members[i] = member(world, group, topic, inbox);
        }
        Check.until("two members hold one queue each, one none", SOON, () -> {
            int[] held = new int[3];
            for (int i = 0; i < 3; i++) {
                held[i] = Inbox.heldBy(members[i], topic).size();
            }
            java.util.Arrays.sort(held);
            return java.util.Arrays.equals(held, new int[] {0, 1, 1});
        });
        world.send(topic, "tag", 0, 20);
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        return null;
    }

    /** Members that do not share the queues among themselves, but ask the broker: clientRebalance=false. */
    private static String sharedByTheBroker(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer[] members = new DefaultMQPushConsumer[2];
        for (int i = 0; i < 2; i++) {
            members[i] = world.newPushConsumer(group);
            members[i].setClientRebalance(false);
            members[i].subscribe(topic, "*");
            members[i].registerMessageListener(inbox.concurrently());
            members[i].start();
        }
        awaitShares(topic, Check.PATIENCE, 2, members);
        for (DefaultMQPushConsumer member : members) {
            Set<MessageQueue> told = new HashSet<>();
            for (MessageQueueAssignment assignment : world.api().queryAssignment(world.brokerOf(topic), topic, group,
                member.buildMQClientId(), "AVG", MessageModel.CLUSTERING, World.API_MILLIS)) {
                Check.same("mode", MessageRequestMode.PULL, assignment.getMode());
                told.add(assignment.getMessageQueue());
            }
            Check.same("what the broker says", Inbox.heldBy(member, topic), told);
        }
        world.send(topic, "tag", 0, 40);
        inbox.awaitNumbers(0, 40, Check.PATIENCE);
        return null;
    }

    private static String members(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        String broker = world.brokerOf(topic);
        Check.same("an unknown group", 1, Check.refusal(
            () -> world.api().getConsumerIdListByGroup(broker, group, World.API_MILLIS)));
        DefaultMQPushConsumer one = member(world, group, topic, new Inbox());
        DefaultMQPushConsumer two = member(world, group, topic, new Inbox());
        Set<String> expected = Set.of(one.buildMQClientId(), two.buildMQClientId());
        Check.until("both are members", SOON, () ->
            expected.equals(new HashSet<>(world.api().getConsumerIdListByGroup(broker, group, World.API_MILLIS))));
        one.shutdown();
        List<String> left = world.api().getConsumerIdListByGroup(broker, group, World.API_MILLIS);
        Check.same("members", List.of(two.buildMQClientId()), left);
        two.shutdown();
        Check.same("a group without members", 1, Check.refusal(
            () -> world.api().getConsumerIdListByGroup(broker, group, World.API_MILLIS)));
        return null;
    }

    private static String unregisterProducer(World world) throws Exception {
        String topic = world.topic(1);
        String broker = world.brokerOf(topic);
        org.apache.rocketmq.client.producer.DefaultMQProducer producer = world.newProducer();
        producer.start();
        producer.send(World.message(topic, "tag", 0));
        String group = producer.getProducerGroup();
        Check.until("the broker knows the producer", Check.PATIENCE, () -> {
            // not sent while another thread of the client sends one
            producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
            try {
                return world.api().getProducerConnectionList(broker, group, World.API_MILLIS)
                    .getConnectionSet().size() == 1;
            } catch (MQBrokerException e) {
                return false;
            }
        });
        producer.shutdown();
        Check.same("a group without producers", 1, Check.refusal(
            () -> world.api().getProducerConnectionList(broker, group, World.API_MILLIS)));
        return null;
    }

    private static String offsetsSurvive(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        world.send(topic, "tag", 0, 20);
        Inbox before = new Inbox();
        DefaultMQPushConsumer consumer = member(world, group, topic, before);
        before.awaitNumbers(0, 20, Check.PATIENCE);
        consumer.shutdown(); // commits
        world.send(topic, "tag", 20, 10);
        Inbox after = new Inbox();
        member(world, group, topic, after);
        after.awaitNumbers(20, 10, Check.PATIENCE);
        Thread.sleep(500);
        Check.same("nothing twice", 10, after.messages.size());
        return null;
    }

    private static String resetOnline(World world, boolean toBeginning) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        world.send(topic, "tag", 0, 10);
        Thread.sleep(50);
        long middle = System.currentTimeMillis();
        Thread.sleep(50);
        world.send(topic, "tag", 10, 10);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = member(world, group, topic, inbox);
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        consumer.getOffsetStore().persistAll(Inbox.heldBy(consumer, topic));
        inbox.messages.clear();
        Map<MessageQueue, Long> reset = world.api().invokeBrokerToResetOffset(
            world.brokerOf(topic), topic, group, toBeginning ? 0 : middle, true, World.API_MILLIS);
        Check.same("queues that were reset", 2, reset.size());
        inbox.awaitNumbers(toBeginning ? 0 : 10, toBeginning ? 20 : 10, Check.PATIENCE);
        return "to " + reset.values();
    }

    private static String resetOneQueue(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        world.send(topic, "tag", 0, 20);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = member(world, group, topic, inbox);
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        consumer.getOffsetStore().persistAll(Inbox.heldBy(consumer, topic));
        inbox.messages.clear();
        Map<MessageQueue, Long> reset = world.api().invokeBrokerToResetOffset(
            world.brokerOf(topic), topic, group, 0, 1, 7L, World.API_MILLIS);
        Check.same("what was reset", "[7]", reset.values().toString());
        inbox.awaitCount(3, Check.PATIENCE);
        inbox.messages.forEach(message -> Check.same("queue", 1, message.getQueueId()));
        return null;
    }

    private static long stored(World world, String group, MessageQueue queue) throws Exception {
        QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(queue.getTopic());
        header.setQueueId(queue.getQueueId());
        return world.api().queryConsumerOffset(world.brokerOf(queue.getTopic()), header, World.API_MILLIS);
    }

    private static String resetOffline(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        String group = world.name("g");
        world.send(topic, "tag", 0, 20);
        DefaultMQPullConsumer consumer = world.pullConsumer(group);
        consumer.updateConsumeOffset(queue, 20);
        Check.until("the offset is stored", Check.PATIENCE, () -> {
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
            return stored(world, group, queue) == 20;
        });
        consumer.shutdown();
        String seen;
        try {
            Map<MessageQueue, Long> reset = world.api().invokeBrokerToResetOffset(
                world.brokerOf(topic), topic, group, 0, true, World.API_MILLIS);
            seen = "reset to " + reset.values();
            Check.same("an offset asked for", 0L, stored(world, group, queue));
            Inbox inbox = new Inbox();
            member(world, group, topic, inbox);
            inbox.awaitNumbers(0, 20, Check.PATIENCE);
        } catch (MQClientException e) {
            seen = "refused with " + e.getResponseCode();
        } catch (MQBrokerException e) {
            seen = "refused with " + e.getResponseCode();
        }
        return seen;
    }
}
