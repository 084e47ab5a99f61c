package glassmq.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** What one case works with: names of its own, and clients that end with it. Not for several threads at once. */
final class World implements AutoCloseable {
    static final long API_MILLIS = 10_000;
    /** What a client has that nobody configured. */
    static final int STOCK_HEARTBEAT_MILLIS = 30_000;
    private static final AtomicInteger SERIAL = new AtomicInteger();
    final String namesrv;
    private final String run;
    private final Deque<Runnable> endings = new ArrayDeque<>();
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer reader;

    World(String namesrv, String caseName) {
        this.namesrv = namesrv;
        this.run = caseName.replace('.', '-') + "-" + Long.toString(System.currentTimeMillis() % 1_000_000_000L, 36)
            + Long.toString(ProcessHandle.current().pid(), 36);
    }

    /** A name that nobody else has. */
    String name(String what) {
        return what + "-" + run + "-" + SERIAL.incrementAndGet();
    }

    <T extends ClientConfig> T configured(T client) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName(name("i"));
        client.setMqClientApiTimeout((int) API_MILLIS); // a busy machine is not what is being tested
        // The stock client leaves a heartbeat out when another one is being sent, and then its pulls are refused
        // (SUBSCRIPTION_NOT_LATEST) until the next one, 30 s later by default.
        client.setHeartbeatBrokerInterval(1000);
        return client;
    }

    /** Calls it when the case is over, the last one first. */
    void atEnd(Runnable ending) {
        endings.push(ending);
    }

    DefaultMQProducer producer() throws MQClientException {
        if (producer == null) {
            producer = newProducer();
            producer.start();
        }
        return producer;
    }

    /** Not started. */
    DefaultMQProducer newProducer() {
        DefaultMQProducer created = configured(new DefaultMQProducer(name("pg")));
        created.setSendMsgTimeout(10_000);
        atEnd(created::shutdown);
        return created;
    }

    /** Not started; begins with the first message. */
    DefaultMQPushConsumer newPushConsumer(String group) {
        DefaultMQPushConsumer created = configured(new DefaultMQPushConsumer(group));
        created.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        created.setConsumeThreadMin(4);
        created.setConsumeThreadMax(4);
        atEnd(created::shutdown);
        return created;
    }

    /** Not started; begins with the first message. */
    DefaultLitePullConsumer newLitePullConsumer(String group) {
        DefaultLitePullConsumer created = configured(new DefaultLitePullConsumer(group));
        created.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        created.setPullThreadNums(4);
        atEnd(created::shutdown);
        return created;
    }

    DefaultMQPullConsumer pullConsumer(String group) throws MQClientException {
        DefaultMQPullConsumer created = configured(new DefaultMQPullConsumer(group));
        atEnd(created::shutdown);
        created.start();
        return created;
    }

    /** A topic with so many queues, known to the name server. */
    String topic(int queues) throws Exception {
        String topic = name("t");
        try {
            producer().createTopic("TBW102", topic, queues, new HashMap<>());
        } catch (NoSuchMethodError inRocketmq4) {
            DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class)
                .invoke(producer(), "TBW102", topic, queues);
        }
        routed(topic, queues);
        return topic;
    }

    /** The topic's queues, when the name server knows all of them. */
    List<MessageQueue> routed(String topic, int queues) throws Exception {
        List<MessageQueue> found = new ArrayList<>();
        Check.until("a route to " + queues + " queues of " + topic, Check.PATIENCE, () -> {
            found.clear();
            try {
                found.addAll(producer().fetchPublishMessageQueues(topic));
            } catch (MQClientException e) {
                return false;
            }
            return found.size() == queues;
        });
        found.sort(null);
        return found;
    }

    MessageQueue onlyQueue(String topic) throws Exception {
        return routed(topic, 1).get(0);
    }

    /** Sends bodies {@code first} to {@code first + count - 1}, tagged, to queues in turn. */
    List<SendResult> send(String topic, String tag, int first, int count) throws Exception {
        List<SendResult> results = new ArrayList<>();
        for (int i = first; i < first + count; i++) {
            results.add(producer().send(message(topic, tag, i)));
        }
        return results;
    }

    static Message message(String topic, String tag, int number) {
        return new Message(topic, tag, String.valueOf(number).getBytes(StandardCharsets.UTF_8));
    }

    /** The stock client's own calls, request by request. */
    MQClientAPIImpl api() throws MQClientException {
        return producer().getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
    }

    /** One request, whatever is in it. {@code address} null: to the name server; {@code body} null: none. */
    RemotingCommand call(String address, int code, Map<String, String> fields, byte[] body) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setExtFields(new HashMap<>(fields));
        request.setBody(body);
        return api().getRemotingClient().invokeSync(address, request, API_MILLIS);
    }

    /** The address of the one broker that has the topic. */
    String brokerOf(String topic) throws Exception {
        return api().getTopicRouteInfoFromNameServer(topic, API_MILLIS).getBrokerDatas().get(0).selectBrokerAddr();
    }

    /** So many messages of a queue from an offset on, waited for. */
    List<MessageExt> read(MessageQueue queue, long offset, int count) throws Exception {
        if (reader == null) {
            reader = pullConsumer(name("reader"));
        }
        List<MessageExt> found = new ArrayList<>();
        long[] next = {offset};
        Check.until(count + " messages in " + queue + " from " + offset, Check.PATIENCE, () -> {
            PullResult result = reader.pull(queue, "*", next[0], 32, API_MILLIS);
            if (result.getPullStatus() == PullStatus.FOUND) {
                found.addAll(result.getMsgFoundList());
                next[0] = result.getNextBeginOffset();
            }
            return found.size() >= count;
        });
        return found;
    }

    @Override
    public void close() {
        while (!endings.isEmpty()) {
            try {
                endings.pop().run();
            } catch (RuntimeException e) {
                e.printStackTrace(); // to the error output; the case has its result by now
            }
        }
    }
}
