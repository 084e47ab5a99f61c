package glassmq.compat;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;

/** Push consumers that leave the queues to the broker, and are told to pop. */
final class PopCases {
    private PopCases() {
    }

    static void addTo(Cases cases) {
        cases.add("pop.members_share_the_messages", PopCases::shared);
        cases.add("pop.failed_message_comes_back", PopCases::comesBack);
        // not a method reference, which would load the class: it needs RocketMQ 5
        cases.add("pop.in_order_one_member_at_a_time", world -> PopInOrder.run(world));
    }

    private static DefaultMQPushConsumer member(World world, String group, String topic, String tags,
        MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.setClientRebalance(false);
        consumer.subscribe(topic, tags);
        consumer.registerMessageListener(listener);
        consumer.start();
        Check.until("the member pops", Check.PATIENCE, () -> consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getPopProcessQueueTable().keySet().stream().anyMatch(queue -> queue.getTopic().equals(topic)));
        return consumer;
    }

    private static void letPop(World world, String group, String topic) throws Exception {
        world.api().setMessageRequestMode(world.brokerOf(topic), topic, group, MessageRequestMode.POP, 0, World.API_MILLIS);
    }

    private static String shared(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        letPop(world, group, topic);
        Inbox one = new Inbox();
        Inbox two = new Inbox();
        member(world, group, topic, "tag", one.concurrently());
        member(world, group, topic, "tag", two.concurrently());
        for (int i = 0; i < 100; i += 10) {
            world.send(topic, "tag", i, 10);
            world.send(topic, "other", 1000 + i, 1);
        }
        Check.until("100 messages", Check.PATIENCE, () -> one.messages.size() + two.messages.size() >= 100);
        Inbox both = new Inbox();
        both.messages.addAll(one.messages);
        both.messages.addAll(two.messages);
        both.awaitNumbers(0, 100, 0);
        Check.same("messages", 100, both.messages.size());
        return one.messages.size() + " and " + two.messages.size();
    }

    private static String comesBack(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        letPop(world, group, topic);
        Inbox inbox = new Inbox();
        Set<String> failed = ConcurrentHashMap.newKeySet();
        member(world, group, topic, "*", (given, context) -> {
            inbox.messages.addAll(given);
            return failed.add(Inbox.body(given.get(0))) ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        world.send(topic, "tag", 0, 1);
        inbox.awaitCount(2, Check.PATIENCE);
        MessageExt again = inbox.messages.get(1);
        Check.same("topic", topic, again.getTopic());
        Check.same("reconsume times", 1, again.getReconsumeTimes());
        Check.same("tag", "tag", again.getTags());
        long waited = again.getStoreTimestamp() - inbox.messages.get(0).getStoreTimestamp();
        Check.between("ms until it was stored again", 9_900, 60_000, waited);
        return waited + " ms";
    }
}
