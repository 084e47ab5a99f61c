package glassmq.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Fields and bodies of single requests, for {@code World.call}. */
final class Requests {
    static final int PULL = 11;
    static final int UPDATE_OPTIONS = 25;
    static final int HEARTBEAT = 34;
    static final int UNREGISTER = 35;
    static final int UPDATE_TOPIC = 17;
    static final int UPDATE_GROUP = 200;
    static final int DELETE_TOPIC = 215;
    static final int FORBID = 353;
    static final int LITE_PULL = 361;
    static final int SET_MODE = 401;
    static final int POP = 200_050;

    private Requests() {
    }

    /** A topic with so many queues to read and to write. {@code perm}: 2 write, 4 read, 6 both. */
    static Map<String, String> topic(String topic, int queues, int perm) {
        return topic(topic, queues, queues, perm);
    }

    static Map<String, String> topic(String topic, int readQueues, int writeQueues, int perm) {
        return Map.of("topic", topic, "defaultTopic", "TBW102", "readQueueNums", String.valueOf(readQueues),
            "writeQueueNums", String.valueOf(writeQueues), "perm", String.valueOf(perm),
            "topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "false");
    }

    /** The configuration of a group; what is not named is the broker's default. */
    static byte[] group(String group, String name, Object value) {
        return json(Map.of("groupName", group, name, value));
    }

    /** A member of a group that subscribes to all messages of some topics. */
    static byte[] heartbeat(String client, String group, String messageModel, String... topics) {
        List<Object> subscriptions = new ArrayList<>();
        for (String topic : topics) {
            subscriptions.add(Map.of("topic", topic, "subString", "*", "expressionType", "TAG", "subVersion", 1,
                "tagsSet", List.of(), "codeSet", List.of(), "classFilterMode", false));
        }
        Map<String, Object> consumer = Map.of("groupName", group, "consumeType", "CONSUME_PASSIVELY",
            "messageModel", messageModel, "consumeFromWhere", "CONSUME_FROM_LAST_OFFSET", "unitMode", false,
            "subscriptionDataSet", subscriptions);
        return json(Map.of("clientID", client, "producerDataSet", List.of(), "consumerDataSet", List.of(consumer)));
    }

    /** A pop of one message from any queue, which may be held for so long. */
    static Map<String, String> pop(String group, String topic, long pollMillis) {
        return Map.ofEntries(Map.entry("consumerGroup", group), Map.entry("topic", topic), Map.entry("queueId", "-1"),
            Map.entry("maxMsgNums", "1"), Map.entry("invisibleTime", "60000"),
            Map.entry("pollTime", String.valueOf(pollMillis)),
            Map.entry("bornTime", String.valueOf(System.currentTimeMillis())), Map.entry("initMode", "0"),
            Map.entry("expType", "TAG"), Map.entry("exp", "*"), Map.entry("order", "false"));
    }

    /** Members of a group that leave the queues to the broker pop. */
    static byte[] popMode(String group, String topic) {
        return json(Map.of("topic", topic, "consumerGroup", group, "mode", "POP", "popShareQueueNum", 0));
    }

    private static byte[] json(Object value) {
        return RemotingSerializable.toJson(value, false).getBytes(StandardCharsets.UTF_8);
    }
}
