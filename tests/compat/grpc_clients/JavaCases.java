import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * What the stock Java gRPC client does through Apache's proxy. It uses TLS, as is its default; the proxy's certificate is
 * self-signed. The case grpc.push.retry uses the topic java-grpc-push-retry and the group java-grpc-push-retry-group.
 *
 * <p>JavaCases.java ENDPOINTS prints {"name": .., "ok": .., "seconds": .., "detail": ..} for each case.
 */
public final class JavaCases {
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final Duration LONG = Duration.ofMinutes(1);
    private static final ClientServiceProvider CLIENTS = ClientServiceProvider.loadService();

    interface Case {
        void run(World world) throws Exception;
    }

    interface Question {
        boolean ask() throws Exception;
    }

    /** The topic and the group of a case, and its clients. They end with the process. */
    static final class World {
        final String topic;
        private final String group;
        private final ClientConfiguration configuration;

        World(String endpoints, String name) {
            topic = "java-" + name.replace('.', '-');
            group = topic + "-group";
            configuration =
                    ClientConfiguration.newBuilder()
                            .setEndpoints(endpoints)
                            .setRequestTimeout(Duration.ofSeconds(15))
                            .build();
        }

        Producer producer(TransactionChecker checker) throws Exception {
            return CLIENTS.newProducerBuilder()
                    .setClientConfiguration(configuration)
                    .setTopics(topic)
                    .setTransactionChecker(checker)
                    .build();
        }

        Producer producer() throws Exception {
            return producer(message -> TransactionResolution.UNKNOWN);
        }

        SimpleConsumer simple(FilterExpression filter) throws Exception {
            return CLIENTS.newSimpleConsumerBuilder()
                    .setClientConfiguration(configuration)
                    .setConsumerGroup(group)
                    .setAwaitDuration(Duration.ofSeconds(5))
                    .setSubscriptionExpressions(Map.of(topic, filter))
                    .build();
        }

        SimpleConsumer simple() throws Exception {
            return simple(FilterExpression.SUB_ALL);
        }

        /** A member of the group; {@code consumes} says whether a message was consumed. Returns the messages that it got. */
        List<MessageView> push(Predicate<MessageView> consumes) throws Exception {
            List<MessageView> got = Collections.synchronizedList(new ArrayList<>());
            CLIENTS.newPushConsumerBuilder()
                    .setClientConfiguration(configuration)
                    .setConsumerGroup(group)
                    .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                    .setMessageListener(
                            message -> {
                                got.add(message);
                                return consumes.test(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
                            })
                    .build();
            return got;
        }

        MessageBuilder message(String body) {
            return CLIENTS.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
        }
    }

    static String body(MessageView message) {
        ByteBuffer bytes = message.getBody();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return new String(copy, StandardCharsets.UTF_8);
    }

    static List<String> bodies(List<MessageView> messages) {
        List<String> bodies = new ArrayList<>();
        synchronized (messages) {
            messages.forEach(message -> bodies.add(body(message)));
        }
        return bodies;
    }

    static void check(boolean holds, Object seen) {
        if (!holds) {
            throw new AssertionError(String.valueOf(seen));
        }
    }

    static void await(String what, Question question) throws Exception {
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (!question.ask()) {
            check(System.nanoTime() < until, "not seen: " + what);
            Thread.sleep(50);
        }
    }

    static List<MessageView> receive(SimpleConsumer consumer, int wanted, Duration invisible) throws Exception {
        List<MessageView> got = new ArrayList<>();
        await(
                wanted + " messages",
                () -> {
                    got.addAll(consumer.receive(32, invisible));
                    return got.size() >= wanted;
                });
        check(got.size() == wanted, bodies(got));
        return got;
    }

    static final Map<String, Case> CASES = new LinkedHashMap<>();

    static {
        CASES.put("grpc.simple.properties", JavaCases::properties);
        CASES.put("grpc.simple.change_invisible_duration", JavaCases::changeInvisibleDuration);
        CASES.put("grpc.simple.tags", JavaCases::tags);
        CASES.put("grpc.simple.sql92", JavaCases::sql92);
        CASES.put("grpc.push.two_members", JavaCases::twoMembers);
        CASES.put("grpc.push.retry", JavaCases::retry);
        CASES.put("grpc.fifo.order", JavaCases::order);
        CASES.put("grpc.delay.recall", JavaCases::recall);
        CASES.put("grpc.transaction.ends", JavaCases::transactionEnds);
        CASES.put("grpc.transaction.check", JavaCases::transactionCheck);
    }

    static void properties(World world) throws Exception {
        SimpleConsumer consumer = world.simple();
        Message message =
                world.message("text €").setTag("blue").setKeys("one", "two").addProperty("kind", "a b").build();
        SendReceipt sent = world.producer().send(message);
        MessageView got = receive(consumer, 1, Duration.ofSeconds(10)).get(0);
        check(body(got).equals("text €") && got.getTag().get().equals("blue"), got);
        check(new TreeSet<>(got.getKeys()).equals(new TreeSet<>(List.of("one", "two"))), got);
        check(got.getProperties().get("kind").equals("a b") && got.getDeliveryAttempt() == 1, got);
        check(got.getMessageId().equals(sent.getMessageId()), got);
        consumer.ack(got);
        long until = System.nanoTime() + Duration.ofSeconds(15).toNanos();
        while (System.nanoTime() < until) {
            check(consumer.receive(32, LONG).isEmpty(), "it was acknowledged");
        }
    }

    static void changeInvisibleDuration(World world) throws Exception {
        SimpleConsumer consumer = world.simple();
        world.producer().send(world.message("a").build());
        consumer.changeInvisibleDuration(receive(consumer, 1, Duration.ofMinutes(10)).get(0), Duration.ofSeconds(1));
        MessageView second = receive(consumer, 1, LONG).get(0);
        check(second.getDeliveryAttempt() == 2, second);
        consumer.ack(second);
    }

    static void tags(World world) throws Exception {
        SimpleConsumer consumer = world.simple(new FilterExpression("red || blue", FilterExpressionType.TAG));
        Producer producer = world.producer();
        for (String tag : List.of("red", "green", "blue")) {
            producer.send(world.message(tag).setTag(tag).build());
        }
        List<String> got = bodies(receive(consumer, 2, LONG));
        check(new TreeSet<>(got).equals(new TreeSet<>(List.of("blue", "red"))), got);
    }

    static void sql92(World world) throws Exception {
        SimpleConsumer consumer = world.simple(new FilterExpression("size > 5", FilterExpressionType.SQL92));
        Producer producer = world.producer();
        for (String size : List.of("3", "6")) {
            producer.send(world.message(size).addProperty("size", size).build());
        }
        List<String> got = bodies(receive(consumer, 1, LONG));
        check(got.equals(List.of("6")), got);
    }

    static void twoMembers(World world) throws Exception {
        List<MessageView> first = world.push(message -> true);
        List<MessageView> second = world.push(message -> true);
        Producer producer = world.producer();
        List<String> sent = new ArrayList<>();
        await(
                "messages for each of the members",
                () -> {
                    for (int n = 0; n < 50; n++) {
                        sent.add(String.format("%04d", sent.size()));
                        producer.send(world.message(sent.get(sent.size() - 1)).build());
                    }
                    return !first.isEmpty() && !second.isEmpty();
                });
        await("all messages", () -> first.size() + second.size() >= sent.size());
        List<String> got = bodies(first);
        got.addAll(bodies(second));
        Collections.sort(got);
        check(got.equals(sent), got);
    }

    static void retry(World world) throws Exception {
        List<MessageView> got = world.push(message -> message.getDeliveryAttempt() == 3);
        world.producer().send(world.message("a").build());
        await("the third attempt", () -> got.size() >= 3);
        check(bodies(got).equals(List.of("a", "a", "a")), bodies(got));
    }

    static void order(World world) throws Exception {
        List<String> done = Collections.synchronizedList(new ArrayList<>());
        Predicate<MessageView> consumes = message -> done.add(body(message));
        world.push(consumes);
        world.push(consumes);
        Producer producer = world.producer();
        List<String> groups = List.of("red", "green", "blue");
        for (int n = 0; n < 6; n++) {
            for (String group : groups) {
                producer.send(world.message(group + n).setMessageGroup(group).build());
            }
        }
        await("all messages", () -> done.size() >= 18);
        for (String group : groups) {
            List<String> got = new ArrayList<>(done);
            got.removeIf(body -> !body.startsWith(group));
            List<String> sorted = new ArrayList<>(got);
            Collections.sort(sorted);
            check(got.size() == 6 && got.equals(sorted), done);
        }
    }

    static void recall(World world) throws Exception {
        SimpleConsumer consumer = world.simple();
        Producer producer = world.producer();
        long due = System.currentTimeMillis() + 20_000;
        SendReceipt gone = producer.send(world.message("gone").setDeliveryTimestamp(due).build());
        producer.send(world.message("kept").setDeliveryTimestamp(due).build());
        producer.recallMessage(world.topic, gone.getRecallHandle());
        List<String> got = bodies(receive(consumer, 1, LONG));
        check(got.equals(List.of("kept")) && System.currentTimeMillis() >= due - 1000, got);
        check(consumer.receive(32, LONG).isEmpty(), "it was recalled");
    }

    static void transactionEnds(World world) throws Exception {
        SimpleConsumer consumer = world.simple();
        Producer producer = world.producer();
        for (String body : List.of("rolled back", "committed")) {
            Transaction transaction = producer.beginTransaction();
            producer.send(world.message(body).build(), transaction);
            if (body.equals("committed")) {
                transaction.commit();
            } else {
                transaction.rollback();
            }
        }
        List<String> got = bodies(receive(consumer, 1, LONG));
        check(got.equals(List.of("committed")), got);
        check(consumer.receive(32, LONG).isEmpty(), "it was rolled back");
    }

    static void transactionCheck(World world) throws Exception {
        SimpleConsumer consumer = world.simple();
        List<String> asked = Collections.synchronizedList(new ArrayList<>());
        Producer producer =
                world.producer(
                        message -> {
                            asked.add(body(message));
                            return TransactionResolution.COMMIT;
                        });
        producer.send(world.message("orphan").build(), producer.beginTransaction());
        List<String> got = bodies(receive(consumer, 1, LONG));
        check(got.equals(List.of("orphan")) && asked.contains("orphan"), got);
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            quoted.append(
                    letter < ' ' || letter > '~' || letter == '"' || letter == '\\'
                            ? String.format("\\u%04x", (int) letter)
                            : String.valueOf(letter));
        }
        return quoted.append('"').toString();
    }

    private static void run(String endpoints, String name) {
        long begin = System.nanoTime();
        String detail = "";
        try {
            CASES.get(name).run(new World(endpoints, name));
        } catch (Throwable error) {
            detail = error + " " + List.of(error.getStackTrace());
        }
        System.out.printf(
                "{\"name\": %s, \"ok\": %b, \"seconds\": %.1f, \"detail\": %s}%n",
                quoted(name), detail.isEmpty(), (System.nanoTime() - begin) / 1e9, quoted(detail));
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        CASES.keySet().forEach(name -> threads.submit(() -> run(arguments[0], name)));
        threads.shutdown();
        threads.awaitTermination(1, TimeUnit.HOURS);
        Runtime.getRuntime().halt(0); // the end of a push consumer waits for its receive
    }
}
