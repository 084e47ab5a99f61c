package glassmq.compat;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that are committed or rolled back, by their producer or when it is asked. */
final class TransactionCases {
    private TransactionCases() {
    }

    static void addTo(Cases cases) {
        cases.add("transaction.commit_and_rollback", TransactionCases::ends);
        cases.add("transaction.compressed", TransactionCases::compressed);
        cases.addSlow("transaction.checked", TransactionCases::checked);
        cases.addSlow("transaction.listener_throws", TransactionCases::throwing);
        cases.addAlone("transaction.not_supported", TransactionCases::notSupported);
    }

    /** What the listener says to a body at first, and what when it is asked; asked messages are kept. */
    private static final class Listener implements TransactionListener {
        final List<MessageExt> asked = new CopyOnWriteArrayList<>();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            if (argument instanceof RuntimeException) {
                throw (RuntimeException) argument;
            }
            return (LocalTransactionState) argument;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            asked.add(message);
            return "rollback".equals(message.getTags()) ? LocalTransactionState.ROLLBACK_MESSAGE
                : LocalTransactionState.COMMIT_MESSAGE;
        }
    }

    private static TransactionMQProducer producer(World world, Listener listener) throws Exception {
        TransactionMQProducer producer = world.configured(new TransactionMQProducer(world.name("pg")));
        producer.setTransactionListener(listener);
        producer.setSendMsgTimeout(10_000);
        world.atEnd(producer::shutdown);
        producer.start();
        return producer;
    }

    /** With rejectTransactionMessage=true. */
    private static String notSupported(World world) throws Exception {
        String topic = world.topic(1);
        Listener listener = new Listener();
        TransactionMQProducer producer = producer(world, listener);
        try {
            Object sent = producer.sendMessageInTransaction(World.message(topic, "tag", 0),
                LocalTransactionState.COMMIT_MESSAGE);
            throw new AssertionError("not refused, but answered " + sent);
        } catch (MQClientException e) {
            Check.that(e.getCause() instanceof MQClientException, "not the failure of a send: " + e.getCause());
            Check.same("code", 16, ((MQClientException) e.getCause()).getResponseCode());
        }
        world.send(topic, "tag", 1, 1);
        Check.same("what is stored", "1", Inbox.body(world.read(world.onlyQueue(topic), 0, 1).get(0)));
        return null;
    }

    private static Inbox consume(World world, String topic) throws Exception {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        return inbox;
    }

    private static String ends(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = consume(world, topic);
        TransactionMQProducer producer = producer(world, new Listener());
        for (int i = 0; i < 6; i++) {
            Message message = World.message(topic, "tag", i);
            message.setKeys("k" + i);
            TransactionSendResult sent = producer.sendMessageInTransaction(message,
                i % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE);
            Check.same("status", "SEND_OK", sent.getSendStatus().name());
            Check.same("transaction", sent.getMsgId(), sent.getTransactionId());
        }
        world.send(topic, "tag", 6, 1);
        inbox.awaitCount(4, Check.PATIENCE);
        List<String> bodies = new CopyOnWriteArrayList<>(inbox.bodies());
        bodies.sort(null); // the ends are sent one-way, so they may overtake each other
        Check.same("what consumers see", List.of("0", "2", "4", "6"), bodies);
        MessageExt seen = inbox.messages.stream().filter(one -> "k0".equals(one.getKeys())).findAny().get();
        Check.same("flag of a commit", 8, seen.getSysFlag() & 12);
        Check.same("transaction", seen.getMsgId(), seen.getProperty("__transactionId__"));
        Check.same("body", "0", Inbox.body(seen));
        Check.same("REAL_TOPIC", null, seen.getProperty("REAL_TOPIC"));
        return String.join(",", new java.util.TreeSet<>(seen.getProperties().keySet()));
    }

    private static String compressed(World world) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = consume(world, topic);
        byte[] body = "long ".repeat(2000).getBytes();
        producer(world, new Listener()).sendMessageInTransaction(new Message(topic, body),
            LocalTransactionState.COMMIT_MESSAGE);
        inbox.awaitCount(1, Check.PATIENCE);
        Check.that(java.util.Arrays.equals(body, inbox.messages.get(0).getBody()), "another body");
        return null;
    }

    private static String checked(World world) throws Exception {
        return asked(world, LocalTransactionState.UNKNOW);
    }

    private static String throwing(World world) throws Exception {
        return asked(world, new IllegalStateException("a listener's mistake"));
    }

    /** The producer does not end two transactions; it is asked, commits one and rolls the other back. */
    private static String asked(World world, Object outcome) throws Exception {
        String topic = world.topic(1);
        Inbox inbox = consume(world, topic);
        Listener listener = new Listener();
        TransactionMQProducer producer = producer(world, listener);
        TransactionSendResult sent = producer.sendMessageInTransaction(World.message(topic, "commit", 1), outcome);
        producer.sendMessageInTransaction(World.message(topic, "rollback", 2), outcome);
        inbox.awaitCount(1, Check.PATIENCE);
        Check.until("both are asked about", Check.PATIENCE, () -> listener.asked.size() >= 2);
        Check.same("what consumers see", List.of("1"), inbox.bodies());
        Check.same("id", sent.getMsgId(), inbox.messages.get(0).getMsgId());
        MessageExt question = listener.asked.get(0);
        Check.same("topic of the question", topic, question.getTopic());
        Check.same("checks", "1", question.getProperty("TRANSACTION_CHECK_TIMES"));
        return String.join(",", new java.util.TreeSet<>(question.getProperties().keySet()));
    }
}
