package glassmq.compat;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.constant.PermName;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Topics with {@code queue.type=BatchCQ}: a batch is stored as one record, and consumed message by message. */
final class BatchQueueCases {
    private BatchQueueCases() {
    }

    static void addTo(Cases cases) {
        cases.add("batch_queue.each_message_is_consumed", BatchQueueCases::consumed);
        cases.add("batch_queue.auto_batch", BatchQueueCases::autoBatch);
        cases.add("batch_queue.one_message_comes_back", BatchQueueCases::oneComesBack);
    }

    private static String topic(World world) throws Exception {
        String topic = world.name("t");
        TopicConfig config = new TopicConfig(topic, 1, 1, PermName.PERM_READ | PermName.PERM_WRITE);
        config.setAttributes(Map.of("+queue.type", "BatchCQ")); // which the producer's own createTopic leaves out
        world.api().createTopic(world.brokerOf("TBW102"), "TBW102", config, World.API_MILLIS);
        world.onlyQueue(topic);
        return topic;
    }

    private static Collection<Message> batch(String topic, int first, int count) {
        List<Message> batch = new ArrayList<>();
        for (int i = first; i < first + count; i++) {
            batch.add(World.message(topic, "tag", i));
        }
        return batch;
    }

    private static String consumed(World world) throws Exception {
        String topic = topic(world);
        SendResult first = world.producer().send(batch(topic, 0, 5));
        SendResult single = world.producer().send(World.message(topic, "tag", 5));
        SendResult last = world.producer().send(batch(topic, 6, 3));
        Check.same("offsets", "0 5 6",
            first.getQueueOffset() + " " + single.getQueueOffset() + " " + last.getQueueOffset());
        Check.that(!first.getMsgId().contains(",") && !first.getOffsetMsgId().contains(","), "the batch has one id");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        inbox.awaitBodies(Inbox.numbers(0, 9), Check.PATIENCE);
        for (MessageExt message : inbox.messages) {
            Check.same("offset", Inbox.body(message), String.valueOf(message.getQueueOffset()));
            Check.same("tag", "tag", message.getTags());
        }
        MessageQueue queue = world.onlyQueue(topic);
        List<MessageExt> fromTheMiddle = world.read(queue, 7, 3); // the whole batch
        Check.same("a pull in the middle of a batch", "6 7 8",
            fromTheMiddle.stream().map(Inbox::body).collect(Collectors.joining(" ")));
        return "";
    }

    private static String autoBatch(World world) throws Exception {
        String topic = topic(world);
        DefaultMQProducer producer = world.newProducer();
        producer.setAutoBatch(true);
        producer.start();
        CountDownLatch done = new CountDownLatch(40);
        List<Throwable> failures = new java.util.concurrent.CopyOnWriteArrayList<>();
        for (int i = 0; i < 40; i++) {
            producer.send(World.message(topic, "tag", i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    done.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    failures.add(e);
                    done.countDown();
                }
            });
        }
        Check.that(done.await(Check.PATIENCE, TimeUnit.SECONDS), "not all messages were sent");
        Check.that(failures.isEmpty(), "a message was not sent: " + failures);
        List<MessageExt> read = world.read(world.onlyQueue(topic), 0, 40);
        Check.same("messages", Inbox.numbers(0, 40), read.stream().map(Inbox::body).collect(Collectors.toSet()));
        long records = read.stream().map(MessageExt::getCommitLogOffset).distinct().count();
        Check.that(records < 40, "no two messages share a record");
        return "";
    }

    private static String oneComesBack(World world) throws Exception {
        String topic = topic(world);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            inbox.messages.addAll(given);
            context.setDelayLevelWhenNextConsume(1);
            boolean fails = Inbox.body(given.get(0)).equals("1") && given.get(0).getReconsumeTimes() == 0;
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        world.producer().send(batch(topic, 0, 3));
        inbox.awaitCount(4, Check.PATIENCE);
        MessageExt again = inbox.messages.get(3);
        Check.same("the message that comes back", "1 1", Inbox.body(again) + " " + again.getReconsumeTimes());
        Check.same("topic as the consumer sees it", topic, again.getTopic());
        return "";
    }
}
