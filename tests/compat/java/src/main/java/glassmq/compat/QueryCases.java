package glassmq.compat;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Finding messages by key and by id. */
final class QueryCases {
    private static final int NO_MESSAGE = 208;

    private QueryCases() {
    }

    static void addTo(Cases cases) {
        cases.add("query.by_key", QueryCases::byKey);
        cases.add("query.by_keys_with_white_space_and_long_ones", QueryCases::strangeKeys);
        cases.add("query.by_key_newest_first_and_limited", QueryCases::limited);
        cases.add("query.by_key_of_a_time", QueryCases::ofTime);
        cases.add("query.by_offset_id", QueryCases::byOffsetId);
        cases.add("query.by_unique_id", QueryCases::byUniqueId);
        cases.add("query.by_unique_id_of_a_batch", QueryCases::byUniqueIdOfBatch);
        cases.add("query.nothing_there", QueryCases::nothing);
    }

    private static long hour() {
        return 3_600_000L;
    }

    /** Bodies found, waited for since the index is built behind the log. */
    private static List<String> query(World world, String topic, String key, int most, int expected) throws Exception {
        List<String> found = new ArrayList<>();
        long now = System.currentTimeMillis();
        Check.until(expected + " messages with key " + key, Check.PATIENCE, () -> {
            found.clear();
            try {
                QueryResult result = world.producer().queryMessage(topic, key, most, now - hour(), now + hour());
                result.getMessageList().forEach(message -> found.add(Inbox.body(message)));
            } catch (MQClientException e) {
                Check.same("code when there is nothing", NO_MESSAGE, e.getResponseCode());
            }
            return found.size() >= expected;
        });
        return found;
    }

    private static String byKey(World world) throws Exception {
        String topic = world.topic(2);
        for (int i = 0; i < 10; i++) {
            Message message = World.message(topic, "tag", i);
            message.setKeys("one" + i % 2 + " ключ" + i + " same");
            world.producer().send(message);
        }
        Check.same("a word of several", Set.of("0", "2", "4", "6", "8"),
            new HashSet<>(query(world, topic, "one0", 32, 5)));
        Check.same("not ascii", List.of("7"), query(world, topic, "ключ7", 32, 1));
        Check.same("of all", Inbox.numbers(0, 10), new HashSet<>(query(world, topic, "same", 32, 10)));
        String other = world.topic(1);
        Message message = World.message(other, "tag", 99);
        message.setKeys("same");
        world.producer().send(message);
        Check.same("of another topic", List.of("99"), query(world, other, "same", 32, 1));
        return null;
    }

    private static String strangeKeys(World world) throws Exception {
        String topic = world.topic(1);
        List<String> keys = List.of("a\tb", "c\u00a0d\u3000e", "f#g", "h".repeat(10_000), "\u00e9".repeat(5_000));
        Message message = World.message(topic, "tag", 0);
        message.setKeys(String.join(" ", keys));
        world.producer().send(message);
        for (String key : keys) {
            Check.same("with one of its keys", List.of("0"), query(world, topic, key, 32, 1));
        }
        return null;
    }

    private static String limited(World world) throws Exception {
        String topic = world.topic(1);
        for (int i = 0; i < 10; i++) {
            Message message = World.message(topic, "tag", i);
            message.setKeys("k");
            world.producer().send(message);
        }
        query(world, topic, "k", 32, 10);
        List<String> three = query(world, topic, "k", 3, 3);
        Check.same("messages", 3, three.size());
        three.sort(null);
        return three.toString();
    }

    private static String ofTime(World world) throws Exception {
        String topic = world.topic(1);
        for (int i = 0; i < 4; i++) {
            Message message = World.message(topic, "tag", i);
            message.setKeys("k");
            world.producer().send(message);
            if (i == 1) {
                Thread.sleep(2500); // the index counts seconds
            }
        }
        List<String> all = query(world, topic, "k", 32, 4);
        Check.same("messages", 4, all.size());
        long end = world.read(world.onlyQueue(topic), 2, 1).get(0).getStoreTimestamp() - 1200;
        QueryResult early = world.producer().queryMessage(topic, "k", 32, end - hour(), end);
        Check.same("the early ones", Set.of("0", "1"),
            early.getMessageList().stream().map(Inbox::body).collect(Collectors.toSet()));
        return null;
    }

    private static String byOffsetId(World world) throws Exception {
        String topic = world.topic(2);
        for (SendResult sent : world.send(topic, "tag", 0, 5)) {
            MessageExt found = world.producer().viewMessage(topic, sent.getOffsetMsgId());
            Check.same("id", sent.getMsgId(), found.getMsgId());
            Check.same("queue offset", sent.getQueueOffset(), found.getQueueOffset());
            Check.same("topic", topic, found.getTopic());
        }
        return null;
    }

    private static String byUniqueId(World world) throws Exception {
        String topic = world.topic(2);
        for (SendResult sent : world.send(topic, "tag", 0, 5)) {
            MessageExt[] found = new MessageExt[1];
            Check.until("the message by its id", Check.PATIENCE, () -> {
                try {
                    found[0] = world.producer().viewMessage(topic, sent.getMsgId());
                } catch (MQClientException e) {
                    return false;
                }
                return found[0] != null;
            });
            Check.same("id", sent.getMsgId(), found[0].getMsgId());
            Check.same("queue offset", sent.getQueueOffset(), found[0].getQueueOffset());
        }
        return null;
    }

    private static String byUniqueIdOfBatch(World world) throws Exception {
        String topic = world.topic(1);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            messages.add(World.message(topic, "tag", i));
        }
        String[] ids = world.producer().send(messages).getMsgId().split(",");
        Check.until("the last message by its id", Check.PATIENCE, () -> {
            try {
                return Inbox.body(world.producer().viewMessage(topic, ids[4])).equals("4");
            } catch (MQClientException e) {
                return false;
            }
        });
        return null;
    }

    private static String nothing(World world) throws Exception {
        String topic = world.topic(1);
        long now = System.currentTimeMillis();
        int byKey = Check.refusal(() -> world.producer().queryMessage(topic, "no-such-key", 32, now - hour(), now));
        Check.same("code by key", NO_MESSAGE, byKey);
        SendResult sent = world.send(topic, "tag", 0, 1).get(0);
        String id = sent.getOffsetMsgId().substring(0, 16) + "000000007FFFFFFF"; // a place far behind the log's end
        String shown;
        try {
            MessageExt found = world.producer().viewMessage(topic, id);
            shown = "found " + found;
        } catch (MQClientException e) {
            shown = "refused by the client with " + e.getResponseCode();
        }
        Check.that(!shown.startsWith("found Message"), shown);
        return shown;
    }
}
