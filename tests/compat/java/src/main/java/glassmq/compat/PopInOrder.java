package glassmq.compat;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.common.constant.ConsumeInitMode;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * A push consumer never asks for the order; a proxy does, by these calls. RocketMQ 4 has no classes for them, so this
 * class is loaded only when the case is run.
 */
final class PopInOrder {
    private PopInOrder() {
    }

    static String run(World world) throws Exception {
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
