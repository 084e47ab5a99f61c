package glassmq.compat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageQueue;

/** How long a pull is held, and what is checked again before it gets the message that it waited for. */
final class HoldCases {
    private static final int NO_PERMISSION = 16;
    private static final int TOPIC_NOT_EXIST = 17;
    private static final int SUBSCRIPTION_NOT_EXIST = 24;
    private static final int INVALID_PARAMETER = 29;
    /** Time for a request to reach the broker and be held. */
    private static final int HELD_MILLIS = 700;
    private static final int ANSWER_SECONDS = 15;
    private static final int SHORT_MILLIS = 2000;
    private static final int LONG_MILLIS = 35_000;

    private HoldCases() {
    }

    static void addTo(Cases cases) {
        cases.add("hold.group_may_not_consume_any_more", HoldCases::groupIsDisabled);
        cases.add("hold.push_consumer_waits_until_its_group_may_consume", HoldCases::groupIsEnabledAgain);
        cases.add("hold.topic_may_not_be_read_any_more", HoldCases::topicIsNotReadable);
        cases.add("hold.queue_may_not_be_read_any_more", HoldCases::queueIsNotReadable);
        cases.add("hold.topic_is_deleted", HoldCases::topicIsDeleted);
        cases.add("hold.member_no_longer_subscribes", HoldCases::subscriptionEnds);
        cases.add("hold.group_has_no_member_any_more", HoldCases::lastMemberLeaves);
        cases.add("hold.pop_of_a_group_that_may_not_consume_any_more", HoldCases::poppingGroupIsDisabled);
        cases.add("hold.pop_from_a_topic_that_may_not_be_read_any_more", HoldCases::poppedTopicIsNotReadable);
        cases.addSlow("hold.as_long_as_it_asks", HoldCases::asLongAsItAsks);
        cases.addAlone("hold.broker_may_not_be_read_any_more", HoldCases::brokerIsNotReadable);
        cases.addAlone("hold.lite_pulls_are_forbidden", HoldCases::litePullsAreForbidden);
        cases.addAlone("hold.short_polling", HoldCases::shortPolling);
    }

    /** Runs it in a thread of its own, and returns while it waits at the broker. */
    private static <T> FutureTask<T> held(Callable<T> call) throws Exception {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task, "held");
        thread.setDaemon(true);
        thread.start();
        Thread.sleep(HELD_MILLIS);
        Check.that(!task.isDone(), "it was not held");
        return task;
    }

    /** A pull that is held; its result is the code that it is refused with. */
    private static FutureTask<Integer> heldPull(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        return held(() -> Check.refusal(() -> consumer.pullBlockIfNotFound(queue, "*", 0, 32)));
    }

    /** A pop that is held; its result is the code of the answer. */
    private static FutureTask<Integer> heldPop(World world, String group, String topic) throws Exception {
        String broker = world.brokerOf(topic);
        return held(() -> world.call(broker, Requests.POP, Requests.pop(group, topic, 9000), null).getCode());
    }

    private static <T> T answer(FutureTask<T> held) throws Exception {
        return held.get(ANSWER_SECONDS, TimeUnit.SECONDS);
    }

    private static void change(World world, String topic, int code, Map<String, String> fields, byte[] body)
        throws Exception {
        Check.same("answer to the change", 0, world.call(world.brokerOf(topic), code, fields, body).getCode());
    }

    private static String groupIsDisabled(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        FutureTask<Integer> pull = heldPull(world.pullConsumer(group), world.onlyQueue(topic));
        change(world, topic, Requests.UPDATE_GROUP, Map.of(), Requests.group(group, "consumeEnable", false));
        world.send(topic, "tag", 0, 1);
        Check.same("code", NO_PERMISSION, answer(pull));
        return null;
    }

    private static String groupIsEnabledAgain(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        world.send(topic, "tag", 0, 1);
        inbox.awaitNumbers(0, 1, Check.PATIENCE);
        Thread.sleep(HELD_MILLIS);
        change(world, topic, Requests.UPDATE_GROUP, Map.of(), Requests.group(group, "consumeEnable", false));
        world.send(topic, "tag", 1, 1);
        world.read(world.onlyQueue(topic), 1, 1);
        Thread.sleep(HELD_MILLIS);
        Check.same("messages while it may not consume", 1, inbox.messages.size());
        change(world, topic, Requests.UPDATE_GROUP, Map.of(), Requests.group(group, "consumeEnable", true));
        inbox.awaitNumbers(0, 2, Check.PATIENCE);
        return null;
    }

    private static String topicIsNotReadable(World world) throws Exception {
        String topic = world.topic(1);
        FutureTask<Integer> pull = heldPull(world.pullConsumer(world.name("g")), world.onlyQueue(topic));
        change(world, topic, Requests.UPDATE_TOPIC, Requests.topic(topic, 1, 2), null);
        world.send(topic, "tag", 0, 1);
        Check.same("code", NO_PERMISSION, answer(pull));
        return null;
    }

    private static String queueIsNotReadable(World world) throws Exception {
        String topic = world.topic(2);
        MessageQueue last = world.routed(topic, 2).get(1);
        FutureTask<Integer> pull = heldPull(world.pullConsumer(world.name("g")), last);
        change(world, topic, Requests.UPDATE_TOPIC, Requests.topic(topic, 1, 2, 6), null);
        world.producer().send(World.message(topic, "tag", 0), last);
        Check.same("code", INVALID_PARAMETER, answer(pull));
        return null;
    }

    /** Leaves brokerPermission at 2. */
    private static String brokerIsNotReadable(World world) throws Exception {
        String topic = world.topic(1);
        FutureTask<Integer> pull = heldPull(world.pullConsumer(world.name("g")), world.onlyQueue(topic));
        change(world, topic, Requests.UPDATE_OPTIONS, Map.of(), "brokerPermission=2\n".getBytes(StandardCharsets.UTF_8));
        world.send(topic, "tag", 0, 1);
        Check.same("code", NO_PERMISSION, answer(pull));
        return null;
    }

    private static String topicIsDeleted(World world) throws Exception {
        String topic = world.topic(1);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        consumer.setBrokerSuspendMaxTimeMillis(SHORT_MILLIS);
        FutureTask<Integer> pull = heldPull(consumer, world.onlyQueue(topic));
        change(world, topic, Requests.DELETE_TOPIC, Map.of("topic", topic), null);
        Check.same("code", TOPIC_NOT_EXIST, answer(pull));
        return null;
    }

    /** A pull by the subscription of the heartbeats that is held; its result is the code of the answer. */
    private static FutureTask<Integer> heldSubscribedPull(World world, int code, String group, String topic)
        throws Exception {
        String broker = world.brokerOf(topic);
        Map<String, String> fields = Map.ofEntries(Map.entry("consumerGroup", group), Map.entry("topic", topic),
            Map.entry("queueId", "0"), Map.entry("queueOffset", "0"), Map.entry("maxMsgNums", "32"),
            Map.entry("sysFlag", "2"), Map.entry("commitOffset", "-1"), Map.entry("suspendTimeoutMillis", "9000"),
            Map.entry("subVersion", "0"), Map.entry("expressionType", "TAG"));
        return held(() -> world.call(broker, code, fields, null).getCode());
    }

    private static String lastMemberLeaves(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        String client = world.name("c");
        change(world, topic, Requests.HEARTBEAT, Map.of(), Requests.heartbeat(client, group, "CLUSTERING", topic));
        FutureTask<Integer> pull = heldSubscribedPull(world, Requests.PULL, group, topic);
        change(world, topic, Requests.UNREGISTER, Map.of("clientID", client, "consumerGroup", group), null);
        world.send(topic, "tag", 0, 1);
        Check.same("code", SUBSCRIPTION_NOT_EXIST, answer(pull));
        return null;
    }

    /** Leaves litePullMessageEnable at false. */
    private static String litePullsAreForbidden(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        change(world, topic, Requests.HEARTBEAT, Map.of(),
            Requests.heartbeat(world.name("c"), group, "CLUSTERING", topic));
        FutureTask<Integer> pull = heldSubscribedPull(world, Requests.LITE_PULL, group, topic);
        change(world, topic, Requests.UPDATE_OPTIONS, Map.of(),
            "litePullMessageEnable=false\n".getBytes(StandardCharsets.UTF_8));
        world.send(topic, "tag", 0, 1);
        Check.same("code", NO_PERMISSION, answer(pull));
        return null;
    }

    /** A pull by the subscription of the heartbeats, which ends while the pull is held. */
    private static String subscriptionEnds(World world) throws Exception {
        String topic = world.topic(1);
        String other = world.topic(1);
        String group = world.name("g");
        String client = world.name("c");
        change(world, topic, Requests.HEARTBEAT, Map.of(),
            Requests.heartbeat(client, group, "CLUSTERING", topic, other));
        FutureTask<Integer> pull = heldSubscribedPull(world, Requests.PULL, group, topic);
        change(world, topic, Requests.HEARTBEAT, Map.of(), Requests.heartbeat(client, group, "CLUSTERING", other));
        world.send(topic, "tag", 0, 1);
        Check.same("code", SUBSCRIPTION_NOT_EXIST, answer(pull));
        return null;
    }

    private static String poppingGroupIsDisabled(World world) throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        FutureTask<Integer> pop = heldPop(world, group, topic);
        change(world, topic, Requests.UPDATE_GROUP, Map.of(), Requests.group(group, "consumeEnable", false));
        world.send(topic, "tag", 0, 1);
        Check.same("code", NO_PERMISSION, answer(pop));
        return null;
    }

    private static String poppedTopicIsNotReadable(World world) throws Exception {
        String topic = world.topic(1);
        FutureTask<Integer> pop = heldPop(world, world.name("g"), topic);
        change(world, topic, Requests.UPDATE_TOPIC, Requests.topic(topic, 1, 2), null);
        world.send(topic, "tag", 0, 1);
        Check.same("code", NO_PERMISSION, answer(pop));
        return null;
    }

    /** Pulls that find nothing; returns how long it was held, ms. */
    private static long emptyPull(DefaultMQPullConsumer consumer, MessageQueue queue, long offset) throws Exception {
        long began = System.nanoTime();
        PullResult result = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
        Check.same("status", PullStatus.NO_NEW_MSG, result.getPullStatus());
        return (System.nanoTime() - began) / 1_000_000;
    }

    private static String asLongAsItAsks(World world) throws Exception {
        MessageQueue queue = world.onlyQueue(world.topic(1));
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        consumer.setConsumerTimeoutMillisWhenSuspend(3 * LONG_MILLIS);
        consumer.setBrokerSuspendMaxTimeMillis(LONG_MILLIS);
        long took = emptyPull(consumer, queue, 0);
        Check.between("ms that it was held", LONG_MILLIS - 10, LONG_MILLIS + 15_000, took);
        return took + " ms";
    }

    /** With longPollingEnable=false and shortPollingTimeMills=2000: a pull waits that long, whatever it asks for. */
    private static String shortPolling(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        consumer.setConsumerTimeoutMillisWhenSuspend(3 * LONG_MILLIS);
        StringBuilder seen = new StringBuilder();
        for (long asked : new long[] {100, LONG_MILLIS}) {
            consumer.setBrokerSuspendMaxTimeMillis(asked);
            long took = emptyPull(consumer, queue, 0);
            Check.between("ms that it was held", SHORT_MILLIS - 10, SHORT_MILLIS + 15_000, took);
            seen.append("asked for ").append(asked).append(" ms, held for ").append(took).append(" ms; ");
        }
        FutureTask<PullResult> pull = held(() -> consumer.pullBlockIfNotFound(queue, "*", 0, 32));
        world.send(topic, "tag", 0, 1);
        Check.same("status", PullStatus.FOUND, answer(pull).getPullStatus());
        return seen.toString();
    }
}
