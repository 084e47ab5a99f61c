package glassmq.compat;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Single requests that clients do not make, or not like that, and the response codes that they get. */
final class CodeCases {
    private static final int SEND = 10;
    private static final int PULL = 11;
    private static final int QUERY_MESSAGE = 12;
    private static final int QUERY_OFFSET = 14;
    private static final int UPDATE_OFFSET = 15;
    private static final int SEARCH_OFFSET = 29;
    private static final int MAX_OFFSET = 30;
    private static final int MIN_OFFSET = 31;
    private static final int VIEW = 33;
    private static final int HEARTBEAT = 34;
    private static final int UNREGISTER = 35;
    private static final int SEND_BACK = 36;
    private static final int MEMBERS = 38;
    private static final int ROUTE = 105;
    private static final int SEND_V2 = 310;
    private static final int SEND_BATCH = 320;
    /** For {@code expect}, success or the code: what is not understood is left out of what is stored, or refused. */
    private static final int DROPPED_OR_ILLEGAL = -13;
    /** RocketMQ stores a message for a topic without permission to write: it leaves the check to its clients. */
    private static final int STORED_OR_FORBIDDEN = -16;
    private static final int SYSTEM_BUSY = 2;
    private static final int SENDERS = 16;
    /** Messages of a batch that takes some milliseconds to store. */
    private static final int BATCH = 10_000;

    private final World world;
    private final String topic;
    private final String broker;
    private final Map<String, Integer> wrong = new LinkedHashMap<>();
    private final Map<String, Object> seen = new LinkedHashMap<>();

    private CodeCases(World world) throws Exception {
        this.world = world;
        this.topic = world.topic(2);
        this.broker = world.brokerOf(topic);
    }

    static void addTo(Cases cases) {
        cases.add("codes.send", world -> new CodeCases(world).send());
        cases.add("codes.send_batch", world -> new CodeCases(world).sendBatch());
        cases.add("codes.pull", world -> new CodeCases(world).pull());
        cases.add("codes.offsets", world -> new CodeCases(world).offsets());
        cases.add("codes.queries", world -> new CodeCases(world).queries());
        cases.add("codes.clients", world -> new CodeCases(world).clients());
        cases.add("codes.send_back", world -> new CodeCases(world).sendBack());
        cases.add("codes.name_server", world -> new CodeCases(world).nameServer());
        cases.add("codes.unknown_requests", world -> new CodeCases(world).unknown());
        cases.add("codes.permissions", world -> new CodeCases(world).permissions());
        cases.add("codes.subscriptions", world -> new CodeCases(world).subscriptions());
        cases.addAlone("codes.no_new_groups", world -> new CodeCases(world).noNewGroups());
        cases.addAlone("codes.system_busy", world -> new CodeCases(world).systemBusy());
    }

    private RemotingCommand call(String address, int code, Map<String, String> fields, byte[] body) throws Exception {
        return world.call(address, code, fields, body);
    }

    /** Fields out of {@code base}, with {@code changes} as name, value, name, value; a value of null takes it out. */
    static Map<String, String> with(Map<String, String> base, String... changes) {
        Map<String, String> fields = new HashMap<>(base);
        for (int i = 0; i < changes.length; i += 2) {
            if (changes[i + 1] == null) {
                fields.remove(changes[i]);
            } else {
                fields.put(changes[i], changes[i + 1]);
            }
        }
        return fields;
    }

    /** {@code expected} is null for what is RocketMQ's own affair: the code is only told. */
    private void expect(String what, Integer expected, RemotingCommand answer) {
        seen.put(what, answer.getCode());
        boolean right = expected == null || answer.getCode() == expected
            || expected < 0 && (answer.getCode() == 0 || answer.getCode() == -expected);
        if (!right) {
            wrong.put(what + ", " + answer.getRemark(), answer.getCode());
        }
    }

    private String done() {
        Check.that(wrong.isEmpty(), "other codes than expected: " + wrong + " of " + seen);
        return seen.toString();
    }

    private Map<String, String> sendFields() {
        return Map.ofEntries(Map.entry("producerGroup", "pg"), Map.entry("topic", topic),
            Map.entry("defaultTopic", "TBW102"), Map.entry("defaultTopicQueueNums", "4"), Map.entry("queueId", "0"),
            Map.entry("sysFlag", "0"), Map.entry("bornTimestamp", String.valueOf(System.currentTimeMillis())),
            Map.entry("flag", "0"), Map.entry("properties", "TAGS\u0001a\u0002"), Map.entry("reconsumeTimes", "0"),
            Map.entry("unitMode", "false"), Map.entry("maxReconsumeTimes", "0"), Map.entry("batch", "false"));
    }

    private static final String[] LETTERS = {"a", "producerGroup", "b", "topic", "c", "defaultTopic", "d",
        "defaultTopicQueueNums", "e", "queueId", "f", "sysFlag", "g", "bornTimestamp", "h", "flag", "i", "properties",
        "j", "reconsumeTimes", "k", "unitMode", "l", "maxReconsumeTimes", "m", "batch"};

    private static Map<String, String> short_(Map<String, String> fields) {
        Map<String, String> letters = new HashMap<>();
        for (int i = 0; i < LETTERS.length; i += 2) {
            if (fields.containsKey(LETTERS[i + 1])) {
                letters.put(LETTERS[i], fields.get(LETTERS[i + 1]));
            }
        }
        return letters;
    }

    private String send() throws Exception {
        byte[] body = {'x'};
        Object[][] table = {
            {"as it should be", 0},
            {"any queue", 0, "queueId", "-1"},
            {"queue too high", 29, "queueId", "99"},
            {"topic with a blank", 29, "topic", "with blank"},
            {"topic with a slash", 29, "topic", "../x"},
            {"topic of 128 letters", 29, "topic", "x".repeat(128)},
            {"no topic", 29, "topic", ""},
            {"schedule topic", 16, "topic", "SCHEDULE_TOPIC_XXXX"},
            {"half topic", 16, "topic", "RMQ_SYS_TRANS_HALF_TOPIC"},
            {"unknown topic, no template", 17, "topic", world.name("x"), "defaultTopic", "no-such-template"},
            {"unknown topic, template is no template", 17, "topic", world.name("x"), "defaultTopic", topic},
            {"unknown topic", 0, "topic", world.name("x")},
            {"no properties", 0, "properties", null},
            {"empty properties", 0, "properties", ""},
            {"properties without a separator", DROPPED_OR_ILLEGAL, "properties", "nothing"}, // RocketMQ drops them
            {"too long properties", 13, "properties", "a\u0001" + "x".repeat(40_000) + "\u0002"},
            {"no optional fields", 0, "reconsumeTimes", null, "unitMode", null, "maxReconsumeTimes", null,
                "batch", null},
            {"a field too much", 0, "nobody", "knows"},
            {"no queue", 1, "queueId", null},
            {"queue is no number", 1, "queueId", "one"},
        };
        for (Object[] row : table) {
            String[] changes = new String[row.length - 2];
            System.arraycopy(row, 2, changes, 0, changes.length);
            Map<String, String> fields = with(sendFields(), changes);
            expect("10 " + row[0], (Integer) row[1], call(broker, SEND, fields, body));
            expect("310 " + row[0], (Integer) row[1], call(broker, SEND_V2, short_(fields), body));
        }
        RemotingCommand empty = call(broker, SEND, sendFields(), null);
        seen.put("no body", empty.getCode() + " " + empty.getRemark()); // RocketMQ fails inside, GlassMQ stores it
        expect("too large", 13, call(broker, SEND, sendFields(), new byte[5 * 1024 * 1024]));
        RemotingCommand answer = call(broker, SEND, sendFields(), body);
        seen.put("fields of the answer", new java.util.TreeSet<>(answer.getExtFields().keySet()));
        return done();
    }

    private String sendBatch() throws Exception {
        Map<String, String> fields = with(sendFields(), "batch", "true");
        byte[] lying = {0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0};
        byte[] honest = {0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0};
        expect("honest", 0, call(broker, SEND_BATCH, short_(fields), honest));
        RemotingCommand answer = call(broker, SEND_BATCH, short_(fields), lying);
        seen.put("inner length too large", answer.getCode() + " " + answer.getRemark()); // RocketMQ stores it
        expect("delayed batch", 13, call(broker, SEND_BATCH,
            short_(with(fields, "properties", "DELAY\u00011\u0002")), honest));
        expect("batch to a retry topic", 13, call(broker, SEND_BATCH,
            short_(with(fields, "topic", "%RETRY%g")), honest));
        return done();
    }

    private Map<String, String> pullFields(String group) {
        return Map.ofEntries(Map.entry("consumerGroup", group), Map.entry("topic", topic), Map.entry("queueId", "0"),
            Map.entry("queueOffset", "0"), Map.entry("maxMsgNums", "32"), Map.entry("sysFlag", "4"),
            Map.entry("commitOffset", "0"), Map.entry("suspendTimeoutMillis", "1000"),
            Map.entry("subscription", "*"), Map.entry("subVersion", "0"), Map.entry("expressionType", "TAG"));
    }

    private String pull() throws Exception {
        String group = world.name("g");
        DefaultMQPullConsumer consumer = world.pullConsumer(group);
        MessageQueue queue = world.routed(topic, 2).get(0);
        world.producer().send(World.message(topic, "a", 0), queue);
        world.read(queue, 0, 1);
        Object[][] table = {
            {"as it should be", 0},
            {"at the end", 19, "queueOffset", "1"},
            {"behind the end", 21, "queueOffset", "2"},
            {"before the beginning", 21, "queueOffset", "-1"},
            {"nothing that matches", 20, "subscription", "b"},
            {"queue too high", 29, "queueId", "99"},
            {"queue below 0", 29, "queueId", "-1"},
            {"unknown topic", 17, "topic", "no-such-topic"},
            {"unknown group", 0, "consumerGroup", world.name("new")},
            {"no subscription known to the broker", 24, "sysFlag", "0", "consumerGroup", world.name("new")},
            {"group that does not subscribe to the topic", 24, "sysFlag", "0"},
            {"empty expression", 0, "subscription", ""},
            {"no expression", 0, "subscription", null},
            {"SQL", 20, "expressionType", "SQL92", "subscription", "a > 1"},
            {"no offset", 1, "queueOffset", null},
            {"0 messages", 0, "maxMsgNums", "0"},
        };
        for (Object[] row : table) {
            String[] changes = new String[row.length - 2];
            System.arraycopy(row, 2, changes, 0, changes.length);
            RemotingCommand answer = call(broker, PULL, with(pullFields(group), changes), null);
            expect(String.valueOf(row[0]), (Integer) row[1], answer);
        }
        RemotingCommand none = call(broker, PULL, with(pullFields(group), "maxMsgNums", "0"), null);
        RemotingCommand wrong = call(broker, PULL,
            with(pullFields(group), "expressionType", "SQL92", "subscription", "a >"), null);
        seen.put("wrong SQL", wrong.getCode()); // RocketMQ does not filter at all
        seen.put("bytes when 0 messages are asked for", none.getBody() == null ? 0 : none.getBody().length);
        seen.put("its fields", none.getExtFields());
        RemotingCommand answer = call(broker, PULL, pullFields(group), null);
        seen.put("fields of the answer", new java.util.TreeMap<>(answer.getExtFields()) + " " + answer.getRemark());
        return done();
    }

    private String offsets() throws Exception {
        String group = world.name("g");
        call(broker, PULL, pullFields(group), null); // now the broker knows the group
        Map<String, String> query = Map.of("consumerGroup", group, "topic", topic, "queueId", "0");
        world.read(world.send(topic, "a", 0, 2).get(0).getMessageQueue(), 0, 1);
        expect("none stored, nothing deleted yet", 0, call(broker, QUERY_OFFSET, query, null));
        expect("none stored, and told so", 22,
            call(broker, QUERY_OFFSET, with(query, "setZeroIfNotFound", "false"), null));
        expect("unknown group", 0, call(broker, QUERY_OFFSET, with(query, "consumerGroup", world.name("g")), null));
        expect("unknown topic", 22, call(broker, QUERY_OFFSET, with(query, "topic", "no-such-topic"), null));
        Map<String, String> update = with(query, "commitOffset", "5");
        expect("update", 0, call(broker, UPDATE_OFFSET, update, null));
        Check.same("what is stored", "5", call(broker, QUERY_OFFSET, query, null).getExtFields().get("offset"));
        expect("update back", 0, call(broker, UPDATE_OFFSET, with(update, "commitOffset", "1"), null));
        Check.same("what is stored", "1", call(broker, QUERY_OFFSET, query, null).getExtFields().get("offset"));
        expect("update to -1", 0, call(broker, UPDATE_OFFSET, with(update, "commitOffset", "-1"), null));
        RemotingCommand after = call(broker, QUERY_OFFSET, query, null);
        seen.put("after -1", after.getCode() + " " + after.getExtFields());
        expect("update in an unknown topic", 17,
            call(broker, UPDATE_OFFSET, with(update, "topic", "no-such-topic"), null));
        expect("update of an unknown group", 26,
            call(broker, UPDATE_OFFSET, with(update, "consumerGroup", world.name("never")), null));
        expect("update of a queue too high", null, call(broker, UPDATE_OFFSET, with(update, "queueId", "99"), null));
        Map<String, String> place = Map.of("topic", topic, "queueId", "0");
        expect("max", 0, call(broker, MAX_OFFSET, place, null));
        expect("max of an unknown topic", null, call(broker, MAX_OFFSET, with(place, "topic", "no-such-topic"), null));
        expect("min", 0, call(broker, MIN_OFFSET, place, null));
        expect("search", 0, call(broker, SEARCH_OFFSET, with(place, "timestamp", "0"), null));
        expect("search upper", 0,
            call(broker, SEARCH_OFFSET, with(place, "timestamp", "0", "boundaryType", "upper"), null));
        return done();
    }

    private String queries() throws Exception {
        Map<String, String> query = Map.of("topic", topic, "key", "nothing", "maxNum", "10",
            "beginTimestamp", "0", "endTimestamp", String.valueOf(Long.MAX_VALUE));
        expect("no such key", 22, call(broker, QUERY_MESSAGE, query, null));
        expect("no such id", 22, call(broker, QUERY_MESSAGE, with(query, "_UNIQUE_KEY_QUERY", "true"), null));
        String id = world.send(topic, "a", 0, 1).get(0).getOffsetMsgId();
        String offset = String.valueOf(MessageDecoder.decodeMessageId(id).getOffset());
        expect("view", 0, call(broker, VIEW, Map.of("offset", offset), null));
        expect("view far behind", 1, call(broker, VIEW, Map.of("offset", "9000000000000"), null));
        expect("view of a negative offset", 1, call(broker, VIEW, Map.of("offset", "-1"), null));
        expect("view in the middle of something", 1, call(broker, VIEW, Map.of("offset", "3"), null));
        return done();
    }

    private String clients() throws Exception {
        expect("members of an unknown group", 1, call(broker, MEMBERS, Map.of("consumerGroup", "nobody"), null));
        expect("goodbye of a stranger", 0, call(broker, UNREGISTER,
            Map.of("clientID", "nobody", "producerGroup", "p", "consumerGroup", "c"), null));
        RemotingCommand beat = call(broker, HEARTBEAT, Map.of(), ("{\"clientID\":\"" + world.name("c")
            + "\",\"consumerDataSet\":[],\"producerDataSet\":[{\"groupName\":\"" + world.name("p") + "\"}]}").getBytes());
        expect("heartbeat", 0, beat);
        seen.put("fields of its answer", new java.util.TreeMap<>(
            beat.getExtFields() == null ? Map.of() : beat.getExtFields()));
        RemotingCommand bad = call(broker, HEARTBEAT, Map.of(), "{".getBytes());
        seen.put("heartbeat that is no JSON", bad.getCode());
        Check.that(bad.getCode() != 0, "a heartbeat that is no JSON was taken");
        String group = world.name("g");
        expect("mode of a group", 0, call(broker, Requests.SET_MODE, Map.of(), Requests.popMode(group, topic)));
        expect("mode for an unknown topic", 17,
            call(broker, Requests.SET_MODE, Map.of(), Requests.popMode(group, "no-such-topic")));
        expect("mode for a retry topic", 16,
            call(broker, Requests.SET_MODE, Map.of(), Requests.popMode(group, "%RETRY%" + group)));
        return done();
    }

    private String sendBack() throws Exception {
        String group = world.name("g");
        Map<String, String> back = Map.of("offset", "9000000000000", "group", group, "delayLevel", "1",
            "originMsgId", "x", "originTopic", topic, "unitMode", "false", "maxReconsumeTimes", "3");
        expect("of an unknown group, which is made", 1, call(broker, SEND_BACK, back, null));
        DefaultMQPullConsumer consumer = world.pullConsumer(group);
        consumer.pull(world.routed(topic, 2).get(0), "*", 0, 1);
        expect("of a message that is not there", 1, call(broker, SEND_BACK, back, null));
        return done();
    }

    private String nameServer() throws Exception {
        RemotingCommand unknown = call(null, ROUTE, Map.of("topic", "no-such-topic"), null);
        expect("unknown topic", 17, unknown);
        RemotingCommand route = call(null, ROUTE, Map.of("topic", topic), null);
        expect("route", 0, route);
        RemotingCommand standard = call(null, ROUTE, Map.of("topic", topic, "acceptStandardJsonOnly", "true"), null);
        expect("route in standard JSON", 0, standard);
        String text = new String(standard.getBody());
        Check.that(text.contains("\"brokerAddrs\":{\"0\":\"" + broker + "\"}"), "brokerAddrs in " + text);
        expect("template", 0, call(null, ROUTE, Map.of("topic", "TBW102"), null));
        expect("cluster", 0, call(null, 106, Map.of(), null));
        expect("all topics", 0, call(null, 206, Map.of(), null));
        String space = world.name("space");
        expect("KV of nothing", 22, call(null, 101, Map.of("namespace", space, "key", "k"), null));
        expect("KV list of nothing", 22, call(null, 219, Map.of("namespace", space), null));
        expect("put KV", 0, call(null, 100, Map.of("namespace", space, "key", "k", "value", "v"), null));
        Check.same("KV", "v", call(null, 101, Map.of("namespace", space, "key", "k"), null).getExtFields().get("value"));
        expect("KV list", 0, call(null, 219, Map.of("namespace", space), null));
        expect("delete KV", 0, call(null, 102, Map.of("namespace", space, "key", "k"), null));
        return done() + " " + text;
    }

    /** What a topic or a group does not permit: NO_PERMISSION. */
    private String permissions() throws Exception {
        byte[] body = {'x'};
        byte[] batch = {0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0};
        Map<String, String> toBatch = short_(with(sendFields(), "batch", "true"));
        String group = world.name("g");
        expect("update of the topic", 0, call(broker, Requests.UPDATE_TOPIC, Requests.topic(topic, 2, 4), null));
        expect("pull from a topic that is only read", 19, call(broker, PULL, pullFields(group), null));
        expect("send to it", STORED_OR_FORBIDDEN, call(broker, SEND, sendFields(), body));
        expect("V2 of it", STORED_OR_FORBIDDEN, call(broker, SEND_V2, short_(sendFields()), body));
        expect("batch", STORED_OR_FORBIDDEN, call(broker, SEND_BATCH, toBatch, batch));
        expect("update of the topic", 0, call(broker, Requests.UPDATE_TOPIC, Requests.topic(topic, 2, 2), null));
        expect("send to a topic that is only written", 0, call(broker, SEND, sendFields(), body));
        expect("pull from it", 16, call(broker, PULL, pullFields(group), null));
        expect("pop from it", 16, call(broker, Requests.POP, Requests.pop(group, topic, 0), null));
        expect("update of the topic", 0, call(broker, Requests.UPDATE_TOPIC, Requests.topic(topic, 2, 6), null));
        expect("update of the group", 0, call(broker, Requests.UPDATE_GROUP, Map.of(),
            Requests.group(group, "consumeEnable", false)));
        expect("pull of a group that may not consume", 16, call(broker, PULL, pullFields(group), null));
        expect("its pop", 16, call(broker, Requests.POP, Requests.pop(group, topic, 0), null));
        return done();
    }

    /** Pulls by the subscription that the broker has from heartbeats, and expressions that are none. */
    private String subscriptions() throws Exception {
        String group = world.name("g");
        String client = world.name("c");
        String other = world.topic(1);
        Map<String, String> fields = with(pullFields(group), "sysFlag", "0", "subscription", null);
        expect("heartbeat", 0, call(broker, HEARTBEAT, Map.of(), Requests.heartbeat(client, group, "CLUSTERING", topic)));
        expect("a member's pull", 19, call(broker, PULL, fields, null));
        expect("a later subscription", 25, call(broker, PULL, with(fields, "subVersion", "9000000000000000"), null));
        expect("a topic without a subscription", 24, call(broker, PULL, with(fields, "topic", other), null));
        expect("tags without a tag", 23, call(broker, PULL,
            with(pullFields(group), "subscription", "||"), null));
        Map<String, String> reading = Map.of("group", group, "topic", topic, "readable", "false");
        expect("reading is forbidden", 0, call(broker, Requests.FORBID, reading, null));
        expect("a pull then", 16, call(broker, PULL, fields, null));
        expect("reading is allowed", 0, call(broker, Requests.FORBID, with(reading, "readable", "true"), null));
        expect("a pull then", 19, call(broker, PULL, fields, null));
        expect("goodbye", 0, call(broker, UNREGISTER, Map.of("clientID", client, "consumerGroup", group), null));
        expect("a group without members", 24, call(broker, PULL, fields, null));
        String everybody = world.name("g");
        expect("update of a group", 0, call(broker, Requests.UPDATE_GROUP, Map.of(),
            Requests.group(everybody, "consumeBroadcastEnable", false)));
        expect("heartbeat for broadcasting", 0, call(broker, HEARTBEAT, Map.of(),
            Requests.heartbeat(client, everybody, "BROADCASTING", topic)));
        expect("a group that may not broadcast", 16, call(broker, PULL, with(fields, "consumerGroup", everybody), null));
        return done();
    }

    /** With autoCreateSubscriptionGroup=false. */
    private String noNewGroups() throws Exception {
        String group = world.name("g");
        expect("pull of an unknown group", 26, call(broker, PULL, pullFields(group), null));
        expect("pop of an unknown group", 26, call(broker, Requests.POP, Requests.pop(group, topic, 0), null));
        expect("message sent back by it", 26, call(broker, SEND_BACK, Map.of("offset", "0", "group", group,
            "delayLevel", "1", "originMsgId", "x", "originTopic", topic, "unitMode", "false"), null));
        expect("its commit", 26, call(broker, UPDATE_OFFSET, Map.of("consumerGroup", group, "topic", topic,
            "queueId", "0", "commitOffset", "0"), null));
        expect("its mode", 26, call(broker, Requests.SET_MODE, Map.of(), Requests.popMode(group, topic)));
        expect("update of the group", 0, call(broker, Requests.UPDATE_GROUP, Map.of(),
            Requests.group(group, "consumeEnable", true)));
        expect("pull of the group", 19, call(broker, PULL, pullFields(group), null));
        return done();
    }

    /** With waitTimeMillsInSendQueue=1: what waits longer is refused, and not stored. */
    private String systemBusy() throws Exception {
        byte[] one = {0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0};
        ByteBuffer batch = ByteBuffer.allocate(BATCH * one.length);
        while (batch.hasRemaining()) {
            batch.put(one);
        }
        Map<String, String> fields = short_(with(sendFields(), "batch", "true"));
        long stored = 0;
        int refused = 0;
        ExecutorService senders = Executors.newFixedThreadPool(SENDERS);
        world.atEnd(senders::shutdownNow);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Check.PATIENCE);
        while (refused == 0) {
            Check.that(System.nanoTime() < end, "not one of " + stored / BATCH + " batches was refused");
            List<Future<RemotingCommand>> answers = new ArrayList<>();
            for (int i = 0; i < SENDERS; i++) {
                answers.add(senders.submit(() -> call(broker, SEND_BATCH, fields, batch.array())));
            }
            for (Future<RemotingCommand> answer : answers) {
                int code = answer.get().getCode();
                Check.that(code == 0 || code == SYSTEM_BUSY, "answer " + code + ", " + answer.get().getRemark());
                stored += code == 0 ? BATCH : 0;
                refused += code == 0 ? 0 : 1;
            }
        }
        Map<String, String> place = Map.of("topic", topic, "queueId", "0");
        String expected = String.valueOf(stored);
        Check.until(stored + " messages", Check.PATIENCE,
            () -> expected.equals(call(broker, MAX_OFFSET, place, null).getExtFields().get("offset")));
        return refused + " batches refused, " + stored / BATCH + " stored";
    }

    private String unknown() throws Exception {
        expect("broker", 3, call(broker, 31_999, Map.of(), null));
        expect("name server", 3, call(null, 31_999, Map.of(), null));
        RemotingCommand answer = call(broker, 31_999, Map.of(), null);
        Check.same("remark", " request type 31999 not supported", answer.getRemark());
        return done();
    }
}
