package glassmq.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** The push consumer: what comes, and from where on. */
final class PushCases {
    private PushCases() {
    }

    static void addTo(Cases cases) {
        cases.add("push.concurrent", PushCases::concurrent);
        cases.add("push.batches", PushCases::batches);
        cases.add("push.orderly", PushCases::orderly);
        cases.add("push.broadcast", PushCases::broadcast);
        cases.add("push.two_groups", PushCases::twoGroups);
        cases.add("push.held_pull_is_woken", PushCases::held);
        cases.add("push.tags", world -> tags(world, "A || B", "A", "B", "C"));
        cases.add("push.tags_not_ascii", world -> tags(world, "标签 || Ünïcödé", "标签", "Ünïcödé", "ярлык"));
        cases.add("push.tags_outside_the_bmp", world -> tags(world, "\uD83D\uDE80||é", "\uD83D\uDE80", "é", "e"));
        cases.add("push.tags_with_one_hash", world -> tags(world, "AaAa", "AaAa", "AaAa", "BBBB"));
        cases.add("push.tag_among_many_others", PushCases::tagAmongManyOthers);
        cases.add("push.sql92", PushCases::sql92);
        cases.add("push.wrong_sql92", PushCases::wrongSql92);
        cases.add("push.held_pull_and_other_tags", PushCases::heldAndOtherTags);
        for (ConsumeFromWhere where : new ConsumeFromWhere[] {ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP}) {
            cases.add("push.young_topic_" + where.name().toLowerCase(), world -> youngTopic(world, where));
        }
        cases.add("push.message_between_the_first_questions", PushCases::messageBetweenTheFirstQuestions);
        cases.add("push.topic_that_does_not_exist_yet", PushCases::topicComesLater);
        cases.add("push.two_topics_and_unsubscribe", PushCases::twoTopics);
        cases.add("push.suspend_and_resume", PushCases::suspendAndResume);
        cases.add("push.heartbeat_v2", PushCases::heartbeatV2);
    }

    private static DefaultMQPushConsumer consume(World world, String group, String topic, String tags, Inbox inbox)
        throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, tags);
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        return consumer;
    }

    private static String concurrent(World world) throws Exception {
        String topic = world.topic(4);
        world.send(topic, "tag", 0, 100);
        Inbox inbox = new Inbox();
        consume(world, world.name("g"), topic, "*", inbox);
        inbox.awaitNumbers(0, 100, Check.PATIENCE);
        world.send(topic, "tag", 100, 100);
        inbox.awaitNumbers(0, 200, Check.PATIENCE);
        Thread.sleep(500);
        Check.same("messages", 200, inbox.messages.size());
        for (MessageExt message : inbox.messages) {
            Check.same("reconsume times", 0, message.getReconsumeTimes());
            Check.same("topic", topic, message.getTopic());
            Check.that(message.getProperty("MAX_OFFSET") != null, "no MAX_OFFSET");
        }
        return null;
    }

    private static String batches(World world) throws Exception {
        String topic = world.topic(1);
        world.send(topic, "tag", 0, 100);
        AtomicInteger largest = new AtomicInteger();
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setConsumeMessageBatchMaxSize(16);
        consumer.setPullBatchSize(64);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            largest.accumulateAndGet(given.size(), Math::max);
            inbox.messages.addAll(given);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        inbox.awaitNumbers(0, 100, Check.PATIENCE);
        Check.same("largest batch", 16, largest.get());
        return null;
    }

    private static String orderly(World world) throws Exception {
        String topic = world.topic(3);
        world.send(topic, "tag", 0, 60);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.orderly());
        consumer.start();
        inbox.awaitNumbers(0, 60, Check.PATIENCE);
        world.send(topic, "tag", 60, 60);
        inbox.awaitNumbers(0, 120, Check.PATIENCE);
        for (Map.Entry<Integer, List<Integer>> queue : inbox.byQueue().entrySet()) {
            List<Integer> sorted = new ArrayList<>(queue.getValue());
            sorted.sort(null);
            Check.same("order of queue " + queue.getKey(), sorted, queue.getValue());
        }
        return null;
    }

    private static String broadcast(World world) throws Exception {
        String topic = world.topic(4);
        String group = world.name("g");
        Inbox[] inboxes = {new Inbox(), new Inbox()};
        for (Inbox inbox : inboxes) {
            DefaultMQPushConsumer consumer = world.newPushConsumer(group);
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(inbox.concurrently());
            consumer.start();
        }
        Thread.sleep(1000);
        world.send(topic, "tag", 0, 40);
        for (Inbox inbox : inboxes) {
            inbox.awaitNumbers(0, 40, Check.PATIENCE);
            inbox.awaitCount(40, 1);
        }
        return null;
    }

    private static String twoGroups(World world) throws Exception {
        String topic = world.topic(2);
        Inbox one = new Inbox();
        Inbox two = new Inbox();
        consume(world, world.name("g1"), topic, "*", one);
        consume(world, world.name("g2"), topic, "*", two);
        world.send(topic, "tag", 0, 40);
        one.awaitNumbers(0, 40, Check.PATIENCE);
        two.awaitNumbers(0, 40, Check.PATIENCE);
        return null;
    }

    private static String held(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        consume(world, world.name("g"), topic, "*", inbox);
        world.send(topic, "tag", 0, 1);
        inbox.awaitNumbers(0, 1, Check.PATIENCE);
        long worst = 0;
        for (int i = 1; i <= 10; i++) {
            Thread.sleep(200); // the next pull is held by now
            long began = System.nanoTime();
            world.send(topic, "tag", i, 1);
            inbox.awaitNumbers(0, i + 1, Check.PATIENCE);
            worst = Math.max(worst, (System.nanoTime() - began) / 1_000_000);
        }
        // less than until a broker's next look at what it holds, 5 s after the last one
        Check.that(worst < 4000, "a message waited " + worst + " ms");
        return null;
    }

    private static String tags(World world, String expression, String one, String two, String other) throws Exception {
        String topic = world.topic(2);
        Inbox inbox = new Inbox();
        world.send(topic, one, 0, 10);
        world.send(topic, other, 100, 10);
        world.producer().send(new Message(topic, "without".getBytes()));
        consume(world, world.name("g"), topic, expression, inbox);
        world.send(topic, two, 10, 10);
        world.send(topic, other, 110, 10);
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        world.send(topic, other, 120, 5);
        world.send(topic, one, 20, 5);
        inbox.awaitNumbers(0, 25, Check.PATIENCE);
        inbox.awaitCount(25, 1);
        return null;
    }

    private static void sendSized(World world, String topic, int first, int count, String size) throws Exception {
        for (int i = first; i < first + count; i++) {
            Message message = World.message(topic, "A", i);
            message.putUserProperty("color", "red");
            message.putUserProperty("size", size);
            world.producer().send(message);
        }
    }

    private static String sql92(World world) throws Exception {
        String topic = world.topic(2);
        Inbox inbox = new Inbox();
        sendSized(world, topic, 0, 10, "11");
        sendSized(world, topic, 100, 10, "9");
        sendSized(world, topic, 200, 10, "large");
        world.send(topic, "A", 300, 10);
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, MessageSelector.bySql("color = 'red' AND size > 10"));
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        inbox.awaitNumbers(0, 10, Check.PATIENCE);
        sendSized(world, topic, 110, 5, "10");
        sendSized(world, topic, 10, 10, "12");
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        inbox.awaitCount(20, 1);
        return null;
    }

    private static String wrongSql92(World world) throws Exception {
        String topic = world.topic(1);
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, MessageSelector.bySql("size >"));
        consumer.registerMessageListener(new Inbox().concurrently());
        try {
            consumer.start();
        } catch (MQClientException refused) {
            Check.that(refused.getMessage().contains("CODE: 23"), "the text has the code: " + refused.getMessage());
            return null;
        }
        throw new AssertionError("it started");
    }

    private static String tagAmongManyOthers(World world) throws Exception {
        String topic = world.topic(1);
        List<Message> others = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            others.add(World.message(topic, "B", i));
        }
        for (int i = 0; i < 4; i++) {
            world.producer().send(others);
        }
        world.send(topic, "A", 7, 1);
        Inbox inbox = new Inbox();
        consume(world, world.name("g"), topic, "A", inbox);
        inbox.awaitNumbers(7, 1, Check.PATIENCE);
        return null;
    }

    private static String heldAndOtherTags(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        consume(world, world.name("g"), topic, "A", inbox);
        world.send(topic, "A", 0, 1);
        inbox.awaitNumbers(0, 1, Check.PATIENCE);
        for (int i = 1; i <= 5; i++) {
            Thread.sleep(200);
            world.send(topic, "B", 100 + i, 3);
            Thread.sleep(100);
            world.send(topic, "A", i, 1);
            inbox.awaitNumbers(0, i + 1, Check.PATIENCE);
        }
        return null;
    }

    /** Nothing has been deleted from such a topic; a group that is new to it then starts at its beginning. */
    private static String youngTopic(World world, ConsumeFromWhere where) throws Exception {
        String topic = world.topic(2);
        world.send(topic, "tag", 0, 20);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setConsumeFromWhere(where);
        consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(System.currentTimeMillis() + 60_000));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        return null;
    }

    /**
     * A new group's client asks for its offset in a queue that never had a message. The first message arrives before the
     * client sees the answer, and the next one when the client knows where it begins. Returns the code of the answer and
     * the messages that are consumed.
     */
    private static String messageBetweenTheFirstQuestions(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        AtomicReference<Integer> answer = new AtomicReference<>();
        RPCHook hook = new RPCHook() {
            @Override
            public void doBeforeRequest(String address, RemotingCommand request) {
            }

            @Override
            public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
                if (request.getCode() == RequestCode.QUERY_CONSUMER_OFFSET
                    && ((QueryConsumerOffsetRequestHeader) request.readCustomHeader()).getTopic().equals(topic)
                    && answer.compareAndSet(null, response.getCode())) {
                    try {
                        world.send(topic, "tag", 0, 1);
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                }
            }
        };
        DefaultMQPushConsumer consumer = world.configured(new DefaultMQPushConsumer(world.name("g"), hook));
        world.atEnd(consumer::shutdown);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        Check.until("the client holds its queue", Check.PATIENCE, () -> Inbox.heldBy(consumer, topic).size() == 1);
        world.send(topic, "tag", 1, 1);
        Check.until("the second message", Check.PATIENCE, () -> inbox.bodies().contains("1"));
        return answer.get() + " " + inbox.bodies();
    }

    private static String topicComesLater(World world) throws Exception {
        String topic = world.name("later");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setPollNameServerInterval(1000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        world.send(topic, "tag", 0, 10);
        inbox.awaitNumbers(0, 10, Check.PATIENCE); // at the client's next rebalance, 20 s after the last
        return null;
    }

    private static String twoTopics(World world) throws Exception {
        String one = world.topic(1);
        String two = world.topic(1);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(one, "*");
        consumer.subscribe(two, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        world.send(one, "tag", 0, 5);
        world.send(two, "tag", 5, 5);
        inbox.awaitNumbers(0, 10, Check.PATIENCE);
        consumer.unsubscribe(two);
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        consumer.getDefaultMQPushConsumerImpl().doRebalance();
        Check.until("no queue of the topic it left is held", 25, () -> Inbox.heldBy(consumer, two).isEmpty());
        world.send(two, "tag", 50, 5);
        world.send(one, "tag", 10, 5);
        inbox.awaitNumbers(0, 15, Check.PATIENCE);
        return null;
    }

    private static String suspendAndResume(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = consume(world, world.name("g"), topic, "*", inbox);
        world.send(topic, "tag", 0, 5);
        inbox.awaitNumbers(0, 5, Check.PATIENCE);
        consumer.suspend();
        Thread.sleep(300);
        consumer.resume();
        world.send(topic, "tag", 5, 5);
        inbox.awaitNumbers(0, 10, Check.PATIENCE);
        return null;
    }

    private static String heartbeatV2(World world) throws Exception {
        String topic = world.topic(2);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.setUseHeartbeatV2(true);
        consumer.subscribe(topic, "A || B");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        // When it has its queues the client sends a heartbeat with the subscription's new version, or leaves it out
        // when another one is being sent. Later ones do not say it again, and its pulls would be refused forever.
        Check.until("the queues are held", Check.PATIENCE, () -> Inbox.heldBy(consumer, topic).size() == 2);
        Check.until("the broker has heard of it", Check.PATIENCE, () -> consumer.getDefaultMQPushConsumerImpl()
            .getmQClientFactory().sendHeartbeatToAllBrokerWithLockV2(true));
        world.send(topic, "A", 0, 5);
        inbox.awaitNumbers(0, 5, Check.PATIENCE);
        Thread.sleep(3500); // some beats without subscriptions
        world.send(topic, "B", 5, 5);
        world.send(topic, "C", 50, 5);
        inbox.awaitNumbers(0, 10, Check.PATIENCE);
        Check.same("members", 1, world.api().getConsumerIdListByGroup(world.brokerOf(topic), group, 5000).size());
        return null;
    }
}
