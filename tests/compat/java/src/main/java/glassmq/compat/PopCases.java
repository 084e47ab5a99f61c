package glassmq.compat;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.constant.ConsumeInitMode;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/** Push consumers that leave the queues to the broker, and are told to pop. */
final class PopCases {
    private PopCases() {
    }

    static void addTo(Cases cases) {
        cases.add("pop.members_share_the_messages", PopCases::shared);
        cases.add("pop.failed_message_comes_back", PopCases::comesBack);
        cases.add("pop.in_order_one_member_at_a_time", PopCases::inOrder);
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

    /** A push consumer never asks for the order; a proxy does, by these calls. */
    private static String inOrder(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        world.send(topic, "tag", 0, 6);
        PopResult first = popInOrder(world, topic, group, "one", 0).get();
        Check.same("first pop", List.of("0", "1", "2"), bodies(first));
        Check.same("other member", PopStatus.POLLING_NOT_FOUND, popInOrder(world, topic, group, "two", 0).get().getPopStatus());
        Check.same("same attempt", bodies(first), bodies(first = popInOrder(world, topic, group, "one", 0).get()));
        ack(world, topic, group, first.getMsgFoundList().get(1));
        ack(world, topic, group, first.getMsgFoundList().get(0));
        CompletableFuture<PopResult> held = popInOrder(world, topic, group, "two", 20_000);
        ack(world, topic, group, first.getMsgFoundList().get(2));
        List<MessageExt> second = held.get().getMsgFoundList();
        Check.same("second pop", List.of("3", "4", "5"), bodies(held.get()));
        Check.same("reconsume times", 0, second.get(0).getReconsumeTimes());
        ack(world, topic, group, second.get(0));
        hide(world, topic, group, second.get(1), 100);
        ack(world, topic, group, second.get(2));
        PopResult[] third = new PopResult[1];
        Check.until("the hidden message", Check.PATIENCE, () -> {
            third[0] = popInOrder(world, topic, group, "three", 0).get();
            return third[0].getPopStatus() == PopStatus.FOUND;
        });
        Check.same("third pop", List.of("4", "5"), bodies(third[0]));
        Check.same("reconsume times", 1, third[0].getMsgFoundList().get(0).getReconsumeTimes());
        return "in order";
    }

    private static List<String> bodies(PopResult popped) {
        return popped.getMsgFoundList().stream().map(Inbox::body).collect(Collectors.toList());
    }

    private static CompletableFuture<PopResult> popInOrder(World world, String topic, String group, String attempt,
        long pollMillis) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(-1);
        header.setMaxMsgNums(3);
        header.setInvisibleTime(60_000);
        header.setPollTime(pollMillis);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(ConsumeInitMode.MIN);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(true);
        header.setAttemptId(attempt);
        CompletableFuture<PopResult> answer = new CompletableFuture<>();
        world.api().popMessageAsync("broker-a", world.brokerOf(topic), header, 30_000, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                answer.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                answer.completeExceptionally(error);
            }
        });
        return answer;
    }

    private static void ack(World world, String topic, String group, MessageExt message) throws Exception {
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(message.getQueueId());
        header.setOffset(message.getQueueOffset());
        header.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
        Done done = new Done();
        world.api().ackMessageAsync(world.brokerOf(topic), World.API_MILLIS, done, header);
        Check.same("acknowledgement", AckStatus.OK, done.answer.get().getStatus());
    }

    private static void hide(World world, String topic, String group, MessageExt message, long millis) throws Exception {
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(message.getQueueId());
        header.setOffset(message.getQueueOffset());
        header.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
        header.setInvisibleTime(millis);
        Done done = new Done();
        world.api().changeInvisibleTimeAsync("broker-a", world.brokerOf(topic), header, World.API_MILLIS, done);
        Check.same("change of the invisible time", AckStatus.OK, done.answer.get().getStatus());
    }

    private static final class Done implements AckCallback {
        final CompletableFuture<AckResult> answer = new CompletableFuture<>();

        @Override
        public void onSuccess(AckResult result) {
            answer.complete(result);
        }

        @Override
        public void onException(Throwable error) {
            answer.completeExceptionally(error);
        }
    }
}
