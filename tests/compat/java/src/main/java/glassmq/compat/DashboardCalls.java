package glassmq.compat;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.CMResult;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.admin.api.MessageTrack;
import org.apache.rocketmq.tools.admin.api.TrackType;

/** The calls by which RocketMQ Dashboard and RocketMQ Studio show and change a cluster. */
final class DashboardCalls {
    private static final int NO_PERMISSION = 16;
    private static final int TOPIC_NOT_EXIST = 17;
    private static final int NO_CONSUMER = 206;
    private static final int INVALID_PARAMETER = 29;
    /** What the pages of RocketMQ Dashboard read of a broker's state, and divide at blanks if it is a rate. */
    private static final Set<String> SHOWN = Set.of("brokerVersionDesc", "bootTimestamp", "putTps", "getTotalTps",
        "getFoundTps", "getMissTps", "getTransferredTps", "msgPutTotalTodayNow", "msgGetTotalTodayNow",
        "msgPutTotalTodayMorning", "msgGetTotalTodayMorning", "msgPutTotalYesterdayMorning",
        "msgGetTotalYesterdayMorning", "commitLogDiskRatio", "consumeQueueDiskRatio", "pageCacheLockTimeMills",
        "sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills", "earliestMessageTimeStamp");

    private final World world;
    private final DefaultMQAdminExt admin;
    private final String broker;

    DashboardCalls(World world) throws Exception {
        this.world = world;
        admin = world.configured(new DefaultMQAdminExt(World.API_MILLIS));
        world.atEnd(admin::shutdown);
        admin.start();
        broker = world.brokerOf("TBW102");
    }

    private DefaultMQPushConsumer consumer(String group, String topic, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        return consumer;
    }

    String cluster() throws Exception {
        Check.same("name servers", List.of(world.namesrv), admin.getNameServerAddressList());
        var cluster = admin.examineBrokerClusterInfo();
        Check.same("clusters", Set.of("DefaultCluster"), cluster.getClusterAddrTable().keySet());
        Check.same("its brokers", Set.of("broker-a"), cluster.getClusterAddrTable().get("DefaultCluster"));
        var addresses = cluster.getBrokerAddrTable().get("broker-a").getBrokerAddrs();
        Check.same("address of the master", broker, addresses.get(0L));
        Map<String, String> state = admin.fetchBrokerRuntimeStats(broker).getTable();
        Set<String> missing = new HashSet<>(SHOWN);
        missing.removeAll(state.keySet());
        Check.same("missing figures", Set.of(), missing);
        for (String rate : List.of("putTps", "getTotalTps", "getTransferredTps")) {
            Check.that(Double.parseDouble(state.get(rate).split(" ")[0]) >= 0, rate + ": " + state.get(rate));
        }
        Properties options = admin.getBrokerConfig(broker);
        Check.same("brokerName", "broker-a", options.getProperty("brokerName"));
        Check.same("brokerClusterName", "DefaultCluster", options.getProperty("brokerClusterName"));
        return state.get("brokerVersionDesc");
    }

    /** clusterRT and sendMsgStatus send to them. */
    String ownTopics() throws Exception {
        StringBuilder seen = new StringBuilder();
        for (String topic : List.of("DefaultCluster", "broker-a")) {
            List<QueueData> queues = admin.examineTopicRouteInfo(topic).getQueueDatas();
            Check.same("brokers with " + topic, 1, queues.size());
            QueueData queue = queues.get(0);
            Check.same("broker of " + topic, "broker-a", queue.getBrokerName());
            Check.same("may be read and written", 6, queue.getPerm() & 6);
            seen.append(topic).append(' ').append(queue.getReadQueueNums()).append(' ').append(queue.getPerm())
                .append("; ");
        }
        Check.same("queues and permissions", "DefaultCluster 16 7; broker-a 1 7; ", seen.toString());
        world.producer().send(World.message("broker-a", "tag", 0));
        world.producer().send(World.message("DefaultCluster", "tag", 0));
        return seen.toString();
    }

    String topics() throws Exception {
        String topic = world.name("t");
        admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, 3, 2, 6));
        TopicConfig config = admin.examineTopicConfig(broker, topic);
        Check.same("queues", "3 2 6", config.getReadQueueNums() + " " + config.getWriteQueueNums() + " "
            + config.getPerm());
        Check.until("the name server lists it", Check.PATIENCE,
            () -> admin.fetchAllTopicList().getTopicList().contains(topic));
        world.send(topic, "tag", 0, 4);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        consumer(group, topic, inbox);
        inbox.awaitNumbers(0, 4, Check.PATIENCE);
        Check.until("the offsets of all messages", Check.PATIENCE, () -> admin.examineTopicStats(topic).getOffsetTable()
            .values().stream().mapToLong(offset -> offset.getMaxOffset() - offset.getMinOffset()).sum() == 4);
        Check.same("queues with offsets", 3, admin.examineTopicStats(topic).getOffsetTable().size());
        Check.same("groups", Set.of(group), new HashSet<>(admin.queryTopicConsumeByWho(topic).getGroupList()));
        admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, 4, 4, 6));
        Check.until("its route has the new queues", Check.PATIENCE,
            () -> admin.examineTopicRouteInfo(topic).getQueueDatas().get(0).getWriteQueueNums() == 4);
        admin.deleteTopicInBroker(Set.of(broker), topic);
        admin.deleteTopicInNameServer(Set.of(world.namesrv), topic);
        Check.same("the route of a deleted topic", TOPIC_NOT_EXIST,
            Check.refusal(() -> admin.examineTopicRouteInfo(topic)));
        Check.same("the configuration of a deleted topic", TOPIC_NOT_EXIST,
            Check.refusal(() -> admin.examineTopicConfig(broker, topic)));
        return null;
    }

    String groups() throws Exception {
        String group = world.name("g");
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        config.setRetryMaxTimes(3);
        config.setConsumeBroadcastEnable(false);
        admin.createAndUpdateSubscriptionGroupConfig(broker, config);
        SubscriptionGroupConfig found = admin.examineSubscriptionGroupConfig(broker, group);
        Check.same("as it was created", config, found);
        Check.same("in the table of all", config,
            admin.getAllSubscriptionGroup(broker, World.API_MILLIS).getSubscriptionGroupTable().get(group));
        config.setRetryMaxTimes(5);
        admin.createAndUpdateSubscriptionGroupConfig(broker, config);
        Check.same("retries", 5, admin.examineSubscriptionGroupConfig(broker, group).getRetryMaxTimes());
        admin.deleteSubscriptionGroup(broker, group, true);
        Check.that(!admin.getAllSubscriptionGroup(broker, World.API_MILLIS).getSubscriptionGroupTable()
            .containsKey(group), "a deleted group is listed");
        return null;
    }

    String consumers() throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = consumer(group, topic, inbox);
        List<SendResult> sent = world.send(topic, "tag", 0, 5);
        inbox.awaitNumbers(0, 5, Check.PATIENCE);
        var connection = admin.examineConsumerConnectionInfo(group);
        Check.same("members", 1, connection.getConnectionSet().size());
        Check.same("type", ConsumeType.CONSUME_PASSIVELY, connection.getConsumeType());
        Check.same("model", MessageModel.CLUSTERING, connection.getMessageModel());
        Check.same("subscriptions", Set.of(topic, "%RETRY%" + group), connection.getSubscriptionTable().keySet());
        Connection member = connection.getConnectionSet().iterator().next();
        Check.same("client id", consumer.buildMQClientId(), member.getClientId());
        ConsumerRunningInfo info = admin.getConsumerRunningInfo(group, member.getClientId(), false);
        Set<String> held = new HashSet<>();
        info.getMqTable().keySet().forEach(queue -> held.add(queue.getTopic()));
        Check.that(held.contains(topic), "the member's queues are of " + held);
        MessageQueue queue = world.onlyQueue(topic);
        Check.until("progress", Check.PATIENCE, () -> {
            consumer.getOffsetStore().persistAll(Set.of(queue));
            var offset = admin.examineConsumeStats(group, topic).getOffsetTable().get(queue);
            return offset.getBrokerOffset() == 5 && offset.getConsumerOffset() == 5;
        });
        Check.same("lag", 0L, admin.examineConsumeStats(group, topic).computeTotalDiff());
        Check.same("time spans", 1, admin.queryConsumeTimeSpan(topic, group).size());
        var result = admin.consumeMessageDirectly(group, member.getClientId(), topic, sent.get(2).getOffsetMsgId());
        Check.same("the message that is consumed directly", CMResult.CR_SUCCESS, result.getConsumeResult());
        inbox.awaitCount(6, Check.PATIENCE);
        Check.same("its body", "2", Inbox.body(inbox.messages.get(5)));
        MessageExt message = admin.viewMessage(topic, sent.get(0).getOffsetMsgId());
        List<MessageTrack> tracks = admin.messageTrackDetail(message);
        Check.same("groups of a message", 1, tracks.size());
        Check.same("a message's group", group + " " + TrackType.CONSUMED,
            tracks.get(0).getConsumerGroup() + " " + tracks.get(0).getTrackType());
        consumer.shutdown();
        Check.same("a group without members", NO_CONSUMER,
            Check.refusal(() -> admin.examineConsumerConnectionInfo(group)));
        return null;
    }

    String producers() throws Exception {
        String topic = world.topic(1);
        DefaultMQProducer producer = world.newProducer();
        producer.start();
        producer.send(World.message(topic, "tag", 0));
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        String group = producer.getProducerGroup();
        Set<String> ids = new HashSet<>();
        admin.examineProducerConnectionInfo(group, topic).getConnectionSet()
            .forEach(connection -> ids.add(connection.getClientId()));
        Check.same("clients of the group", Set.of(producer.buildMQClientId()), ids);
        var all = admin.getAllProducerInfo(broker).getData();
        Check.same("the group in the table of all", producer.buildMQClientId(), all.get(group).get(0).getClientId());
        return null;
    }

    String messages() throws Exception {
        String topic = world.topic(1);
        Message given = World.message(topic, "tag", 7);
        given.setKeys("order-7");
        SendResult sent = world.producer().send(given);
        world.read(world.onlyQueue(topic), 0, 1);
        MessageExt byOffsetId = admin.viewMessage(topic, sent.getOffsetMsgId());
        Check.same("by its offset id", "7", Inbox.body(byOffsetId));
        Check.until("by its id", Check.PATIENCE, () -> {
            try {
                return Inbox.body(admin.viewMessage(topic, sent.getMsgId())).equals("7");
            } catch (Exception notIndexedYet) {
                return false;
            }
        });
        List<MessageExt> byKey = admin.queryMessage(topic, "order-7", 32, 0, Long.MAX_VALUE).getMessageList();
        Check.same("by its key", 1, byKey.size());
        Check.same("its id", sent.getMsgId(), byKey.get(0).getMsgId());
        MessageQueue queue = world.onlyQueue(topic);
        Check.same("first offset", 0L, admin.minOffset(queue));
        Check.same("end", 1L, admin.maxOffset(queue));
        Check.same("offset of a time", 0L, admin.searchOffset(queue, byOffsetId.getStoreTimestamp()));
        return null;
    }

    /** The page of dead letters lists them by key, and sends one anew. */
    String deadLetters() throws Exception {
        String topic = world.topic(1);
        String group = world.name("g");
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently) (given, context) -> {
                context.setDelayLevelWhenNextConsume(-1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        consumer.start();
        world.send(topic, "tag", 3, 1);
        String letters = "%DLQ%" + group;
        Check.until("the topic of dead letters has a route", Check.PATIENCE,
            () -> admin.fetchAllTopicList().getTopicList().contains(letters));
        Check.until("a dead letter", Check.PATIENCE, () -> admin.examineTopicStats(letters).getOffsetTable().values()
            .stream().mapToLong(offset -> offset.getMaxOffset()).sum() == 1);
        MessageQueue queue = world.onlyQueue(letters);
        MessageExt letter = world.read(queue, 0, 1).get(0);
        Check.same("body", "3", Inbox.body(letter));
        Check.same("topic that it had", topic, letter.getProperty("RETRY_TOPIC"));
        return null;
    }

    String statistics() throws Exception {
        String topic = world.topic(1);
        Check.same("of a topic without messages", 1,
            Check.refusal(() -> admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", topic)));
        world.send(topic, "tag", 0, 10);
        Check.until("10 messages of the last minute", Check.PATIENCE,
            () -> admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", topic).getStatsMinute().getSum() == 10);
        return null;
    }

    /**
     * An option is read and changed. RocketMQ says success whatever it is told, and leaves out what it does not
     * understand; GlassMQ refuses what is not an option, or not a value of it.
     */
    String options() throws Exception {
        String before = admin.getBrokerConfig(broker).getProperty("transactionCheckMax");
        change("transactionCheckMax", "16");
        Check.same("after the change", "16", admin.getBrokerConfig(broker).getProperty("transactionCheckMax"));
        change("transactionCheckMax", before);
        StringBuilder seen = new StringBuilder();
        for (String[] wrong : new String[][] {{"noSuchOption", "1"}, {"transactionCheckMax", "many"}}) {
            int code = 0;
            try {
                change(wrong[0], wrong[1]);
            } catch (MQBrokerException e) {
                code = e.getResponseCode();
            }
            Check.that(code == 0 || code == INVALID_PARAMETER, wrong[0] + ": " + code);
            seen.append(wrong[0]).append('=').append(wrong[1]).append(' ').append(code).append("; ");
        }
        Check.same("an option that no request may change", NO_PERMISSION,
            Check.refusal(() -> {
                change("brokerConfigPath", "/tmp");
                return null;
            }));
        Properties after = admin.getBrokerConfig(broker);
        Check.same("after a value that is none", before, after.getProperty("transactionCheckMax"));
        Check.same("an option that is none", null, after.getProperty("noSuchOption"));
        return seen.toString();
    }

    private void change(String name, String value) throws Exception {
        Properties options = new Properties();
        options.setProperty(name, value);
        admin.updateBrokerConfig(broker, options);
    }
}
