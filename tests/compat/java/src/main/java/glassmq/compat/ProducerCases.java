package glassmq.compat;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/** Sending. */
final class ProducerCases {
    private static final int MIB = 1024 * 1024;

    private ProducerCases() {
    }

    static void addTo(Cases cases) {
        cases.add("producer.sync", ProducerCases::sync);
        cases.add("producer.everything_comes_back", ProducerCases::everythingComesBack);
        cases.add("producer.async", ProducerCases::async);
        cases.add("producer.oneway", ProducerCases::oneway);
        cases.add("producer.batch", ProducerCases::batch);
        cases.add("producer.batch_async_to_a_queue", ProducerCases::batchAsyncToQueue);
        cases.add("producer.compressed_zlib", world -> compressed(world, CompressionType.ZLIB));
        cases.add("producer.compressed_lz4", world -> compressed(world, CompressionType.LZ4));
        cases.add("producer.compressed_zstd", world -> compressed(world, CompressionType.ZSTD));
        cases.add("producer.selector_keeps_order", ProducerCases::selectorKeepsOrder);
        cases.add("producer.auto_creation", ProducerCases::autoCreation);
        cases.add("producer.auto_creation_async", ProducerCases::autoCreationAsync);
        cases.add("producer.unknown_topic_without_template", ProducerCases::unknownTopic);
        cases.add("producer.bad_topic_names", ProducerCases::badTopicNames);
        cases.add("producer.too_large", ProducerCases::tooLarge);
        cases.add("producer.largest", ProducerCases::largest);
        cases.add("producer.properties_too_long", ProducerCases::propertiesTooLong);
        cases.add("producer.illegal_properties", ProducerCases::illegalProperties);
        cases.add("producer.no_such_queue", ProducerCases::noSuchQueue);
        cases.add("producer.send_to_retry_topic_of_unknown_group", ProducerCases::retryTopic);
    }

    private static String sync(World world) throws Exception {
        String topic = world.topic(4);
        List<MessageQueue> queues = world.routed(topic, 4);
        List<SendResult> results = world.send(topic, "tag", 0, 40);
        Set<String> ids = new HashSet<>();
        Set<String> places = new HashSet<>();
        Set<MessageQueue> used = new HashSet<>();
        for (SendResult result : results) {
            Check.same("status", SendStatus.SEND_OK, result.getSendStatus());
            Check.that(result.getMsgId().matches("([0-9A-F]{32}|[0-9A-F]{56})"), // of an IPv4 or IPv6 client
                "id " + result.getMsgId());
            Check.same("length of the offset id", 32, result.getOffsetMsgId().length());
            Check.same("region", "DefaultRegion", result.getRegionId());
            Check.same("trace", true, result.isTraceOn());
            ids.add(result.getMsgId());
            places.add(result.getMessageQueue().getQueueId() + "/" + result.getQueueOffset());
            used.add(result.getMessageQueue());
        }
        Check.same("different ids", 40, ids.size());
        Check.same("different places", 40, places.size());
        Check.same("queues in use", new HashSet<>(queues), used);
        long stored = 0;
        for (MessageQueue queue : queues) {
            stored += world.producer().maxOffset(queue);
            Check.same("first offset", 0L, world.producer().minOffset(queue));
        }
        Check.same("stored", 40L, stored);
        return null;
    }

    private static String everythingComesBack(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        byte[] body = "ünïcödé 消息 \uD83D\uDE80".getBytes(UTF_8);
        Message message = new Message(topic, "标签 é", "key1 клю́ч-2 \uD83D\uDD11", 7, body, false);
        message.putUserProperty("имя", "значение \uD83C\uDF0D");
        message.setBuyerId("buyer");
        long before = System.currentTimeMillis();
        SendResult sent = world.producer().send(message, queue);
        MessageExt read = world.read(queue, sent.getQueueOffset(), 1).get(0);
        Check.that(Arrays.equals(body, read.getBody()), "the body is another");
        Check.same("topic", topic, read.getTopic());
        Check.same("tag", "标签 é", read.getTags());
        Check.same("keys", "key1 клю́ч-2 \uD83D\uDD11", read.getKeys());
        Check.same("flag", 7, read.getFlag());
        Check.same("WAIT", "false", read.getProperty("WAIT"));
        Check.same("property", "значение \uD83C\uDF0D", read.getUserProperty("имя"));
        Check.same("buyer", "buyer", read.getBuyerId());
        Check.same("id", sent.getMsgId(), read.getMsgId());
        Check.same("offset id", sent.getOffsetMsgId(), MessageDecoder.createMessageId(
            java.nio.ByteBuffer.allocate(16), read.getStoreHostBytes(), read.getCommitLogOffset()));
        Check.same("queue offset", sent.getQueueOffset(), read.getQueueOffset());
        Check.same("queue id", 0, read.getQueueId());
        Check.same("reconsume times", 0, read.getReconsumeTimes());
        Check.between("born", before, System.currentTimeMillis(), read.getBornTimestamp());
        Check.between("stored", before, System.currentTimeMillis(), read.getStoreTimestamp());
        Check.that(read.getBornHostString().equals("127.0.0.1"), "born at " + read.getBornHost());
        return String.join(",", new java.util.TreeSet<>(read.getProperties().keySet()));
    }

    private static String async(World world) throws Exception {
        String topic = world.topic(2);
        CountDownLatch done = new CountDownLatch(200);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Set<String> places = java.util.concurrent.ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 200; i++) {
            world.producer().send(World.message(topic, "tag", i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    places.add(result.getMessageQueue().getQueueId() + "/" + result.getQueueOffset());
                    done.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    failure.set(e);
                    done.countDown();
                }
            });
        }
        Check.that(done.await(30, TimeUnit.SECONDS), done.getCount() + " callbacks did not come");
        Check.same("failure", null, failure.get());
        Check.same("different places", 200, places.size());
        return null;
    }

    private static String oneway(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        for (int i = 0; i < 50; i++) {
            world.producer().sendOneway(World.message(topic, "tag", i));
        }
        List<MessageExt> read = world.read(queue, 0, 50);
        Set<String> bodies = new HashSet<>();
        read.forEach(message -> bodies.add(Inbox.body(message)));
        Check.same("bodies", Inbox.numbers(0, 50), bodies);
        return null;
    }

    private static List<Message> batchOf(String topic, int count) {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = World.message(topic, "tag" + i % 2, i);
            message.setKeys("key" + i);
            message.putUserProperty("number", "n" + i);
            messages.add(message);
        }
        return messages;
    }

    private static String batch(World world) throws Exception {
        String topic = world.topic(4);
        SendResult result = world.producer().send(batchOf(topic, 30));
        Check.same("status", SendStatus.SEND_OK, result.getSendStatus());
        String[] ids = result.getMsgId().split(",");
        String[] places = result.getOffsetMsgId().split(",");
        Check.same("ids", 30, ids.length);
        Check.same("offset ids", 30, places.length);
        List<MessageExt> read = world.read(result.getMessageQueue(), result.getQueueOffset(), 30);
        for (int i = 0; i < 30; i++) {
            MessageExt message = read.get(i);
            Check.same("body", String.valueOf(i), Inbox.body(message));
            Check.same("offset", result.getQueueOffset() + i, message.getQueueOffset());
            Check.same("id", ids[i], message.getMsgId());
            Check.same("tag", "tag" + i % 2, message.getTags());
            Check.same("keys", "key" + i, message.getKeys());
            Check.same("property", "n" + i, message.getUserProperty("number"));
            Check.same("physical offset", MessageDecoder.decodeMessageId(places[i]).getOffset(),
                message.getCommitLogOffset());
        }
        return String.join(",", new java.util.TreeSet<>(read.get(3).getProperties().keySet()));
    }

    private static String batchAsyncToQueue(World world) throws Exception {
        String topic = world.topic(4);
        MessageQueue queue = world.routed(topic, 4).get(2);
        CountDownLatch done = new CountDownLatch(1);
        AtomicReference<Object> outcome = new AtomicReference<>();
        world.producer().send(batchOf(topic, 10), queue, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                outcome.set(result);
                done.countDown();
            }

            @Override
            public void onException(Throwable e) {
                outcome.set(e);
                done.countDown();
            }
        });
        Check.that(done.await(20, TimeUnit.SECONDS), "no answer");
        Check.that(outcome.get() instanceof SendResult, "answered " + outcome.get());
        Check.same("queue", queue, ((SendResult) outcome.get()).getMessageQueue());
        Check.same("messages", 10, world.read(queue, 0, 10).size());
        return null;
    }

    private static String compressed(World world, CompressionType type) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        DefaultMQProducer producer = world.newProducer();
        producer.setCompressType(type);
        producer.start();
        byte[] body = "compresses well. ".repeat(10_000).getBytes(UTF_8);
        SendResult sent = producer.send(new Message(topic, "tag", body), queue);
        MessageExt read = world.read(queue, sent.getQueueOffset(), 1).get(0);
        Check.that(Arrays.equals(body, read.getBody()), "the body is another");
        Check.that(read.getStoreSize() < body.length / 10, "stored in " + read.getStoreSize() + " bytes");
        Check.same("type", type, MessageSysFlag.getCompressionType(read.getSysFlag()));
        return "stored in " + read.getStoreSize() + " of " + body.length + " bytes";
    }

    private static String selectorKeepsOrder(World world) throws Exception {
        String topic = world.topic(4);
        MessageQueueSelector byHash = new SelectMessageQueueByHash();
        for (int i = 0; i < 60; i++) {
            world.producer().send(World.message(topic, "tag", i), byHash, "order-" + i % 3);
        }
        int found = 0;
        for (MessageQueue queue : world.routed(topic, 4)) {
            int here = (int) world.producer().maxOffset(queue);
            Check.same("messages of whole orders in " + queue, 0, here % 20);
            int[] last = {-1, -1, -1};
            for (MessageExt message : world.read(queue, 0, here)) {
                int number = Integer.parseInt(Inbox.body(message));
                Check.that(last[number % 3] < number, "order " + number % 3 + " is not kept");
                last[number % 3] = number;
            }
            found += here;
        }
        Check.same("messages", 60, found);
        return null;
    }

    private static String autoCreation(World world) throws Exception {
        String topic = world.name("new");
        SendResult sent = world.producer().send(World.message(topic, "tag", 0));
        Check.same("status", SendStatus.SEND_OK, sent.getSendStatus());
        DefaultMQProducer other = world.newProducer();
        other.start();
        Check.until("another producer finds the topic", Check.PATIENCE, () -> {
            try {
                return other.fetchPublishMessageQueues(topic).size() == 4;
            } catch (MQClientException e) {
                return false;
            }
        });
        Check.same("body", "0", Inbox.body(world.read(sent.getMessageQueue(), 0, 1).get(0)));
        return null;
    }

    private static String autoCreationAsync(World world) throws Exception {
        String topic = world.name("new");
        DefaultMQProducer producer = world.newProducer();
        producer.setDefaultTopicQueueNums(2);
        producer.start();
        CountDownLatch done = new CountDownLatch(1);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        producer.send(World.message(topic, "tag", 0), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.countDown();
            }

            @Override
            public void onException(Throwable e) {
                failure.set(e);
                done.countDown();
            }
        });
        Check.that(done.await(20, TimeUnit.SECONDS), "no answer");
        Check.same("failure", null, failure.get());
        world.routed(topic, 2);
        return null;
    }

    private static String unknownTopic(World world) throws Exception {
        DefaultMQProducer producer = world.newProducer();
        producer.setCreateTopicKey(world.name("no-template"));
        producer.start();
        String topic = world.name("never");
        int code = Check.refusal(() -> producer.send(World.message(topic, "tag", 0)));
        Check.same("code", 17, code);
        return null;
    }

    private static String badTopicNames(World world) throws Exception {
        List<String> seen = new ArrayList<>();
        String[] names = {"with blank", "new/topic", "..", "a\nb", "x".repeat(128), "SCHEDULE_TOPIC_XXXX"};
        for (String name : names) {
            seen.add(name.substring(0, Math.min(8, name.length())).trim() + ": "
                + Check.refusal(() -> world.producer().send(World.message(name, "tag", 0))));
        }
        return seen.toString();
    }

    private static byte[] noise(int size) {
        byte[] noise = new byte[size];
        new Random(1).nextBytes(noise);
        return noise;
    }

    private static String tooLarge(World world) throws Exception {
        String topic = world.topic(1);
        DefaultMQProducer producer = world.newProducer();
        producer.start();
        int own = Check.refusal(() -> producer.send(new Message(topic, noise(4 * MIB + 1))));
        Check.same("the client's own code", 13, own);
        producer.setMaxMessageSize(10 * MIB);
        int brokers = Check.refusal(() -> producer.send(new Message(topic, noise(5 * MIB))));
        Check.same("the broker's code", 13, brokers);
        Check.same("the producer still works", SendStatus.SEND_OK,
            producer.send(World.message(topic, "tag", 1)).getSendStatus());
        return null;
    }

    private static String largest(World world) throws Exception {
        String topic = world.topic(1);
        byte[] body = noise(4 * MIB);
        world.producer().setCompressMsgBodyOverHowmuch(5 * MIB); // noise becomes longer by it
        SendResult sent = world.producer().send(new Message(topic, body));
        MessageExt read = world.read(sent.getMessageQueue(), 0, 1).get(0);
        Check.that(Arrays.equals(body, read.getBody()), "the body is another");
        return null;
    }

    private static String propertiesTooLong(World world) throws Exception {
        String topic = world.topic(1);
        Message message = World.message(topic, "tag", 0);
        message.putUserProperty("long", "x".repeat(40_000));
        Check.same("code", 13, Check.refusal(() -> world.producer().send(message)));
        Message fits = World.message(topic, "tag", 1);
        fits.putUserProperty("long", "x".repeat(32_000));
        Check.same("status", SendStatus.SEND_OK, world.producer().send(fits).getSendStatus());
        return null;
    }

    private static String illegalProperties(World world) throws Exception {
        String topic = world.topic(1);
        MessageQueue queue = world.onlyQueue(topic);
        Message message = World.message(topic, "tag", 0);
        // the separators of the properties' own text, which the client does not refuse
        message.putUserProperty("a\u0001b", "c\u0002d");
        message.putUserProperty("plain", "value");
        String seen;
        try {
            SendResult sent = world.producer().send(message, queue);
            MessageExt read = world.read(queue, sent.getQueueOffset(), 1).get(0);
            Check.same("another property", "value", read.getUserProperty("plain"));
            Check.same("what became of the name", null, read.getProperty("a\u0001b"));
            Check.same("what became of the value", "b\u0001c", read.getProperty("a"));
            seen = "stored, cut at the separators";
        } catch (MQBrokerException e) {
            seen = "refused with " + e.getResponseCode();
        }
        return seen;
    }

    private static String noSuchQueue(World world) throws Exception {
        String topic = world.topic(2);
        MessageQueue real = world.routed(topic, 2).get(0);
        MessageQueue wrong = new MessageQueue(topic, real.getBrokerName(), 9);
        int code = Check.refusal(() -> world.producer().send(World.message(topic, "tag", 0), wrong));
        return "refused with " + code;
    }

    private static String retryTopic(World world) throws Exception {
        String topic = "%RETRY%" + world.name("unknown");
        SendResult sent = world.producer().send(World.message(topic, "tag", 0));
        Check.same("body", "0", Inbox.body(world.read(sent.getMessageQueue(), 0, 1).get(0)));
        return null;
    }
}
