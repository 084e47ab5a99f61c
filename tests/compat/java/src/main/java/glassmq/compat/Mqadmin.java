package glassmq.compat;

import com.alibaba.fastjson2.JSON;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, many commands in one process, since each would need seconds to start. The standard input has
 * one command a line, a JSON list of words; each is answered with one line: arguments, out, failure. Besides mqadmin's
 * there are
 *
 * <pre>
 * @producer GROUP                           starts one
 * @send TOPIC QUEUE TAG KEY BODY            by that producer: "id offset-id"
 * @consumer GROUP TOPIC                     starts one, and waits until the topic's messages are consumed and committed
 * @stop                                     ends all of them
 * @seconds N COMMAND...                     one of mqadmin's that does not end by itself: interrupts it after N s
 * </pre>
 */
final class Mqadmin {
    private static final int COMMAND_SECONDS = 60;
    private final World world;
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;
    private String topic;

    private Mqadmin(World world) {
        this.world = world;
    }

    static void run(Arguments arguments) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", arguments.text("namesrv"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        org.apache.rocketmq.logging.org.slf4j.LoggerFactory.getLogger("first"); // what it says at its start is not mqadmin's
        try (World world = new World(arguments.text("namesrv"), "mqadmin")) {
            Mqadmin mqadmin = new Mqadmin(world);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                List<String> command = JSON.parseArray(line, String.class);
                if (command.get(0).equals("@seconds")) {
                    stock(command.subList(2, command.size()), Integer.parseInt(command.get(1)));
                } else if (command.get(0).startsWith("@")) {
                    Json.print("arguments", command, "out", mqadmin.own(command), "failure", "");
                } else {
                    stock(command, COMMAND_SECONDS);
                }
            }
        }
    }

    private static void stock(List<String> command, int seconds) throws Exception {
        PrintStream before = System.out;
        PrintStream beforeErrors = System.err;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        FutureTask<Void> running = new FutureTask<>(() -> {
            MQAdminStartup.main0(command.toArray(new String[0]), null);
            return null;
        });
        String failure = "";
        try {
            Thread thread = new Thread(running, "mqadmin");
            thread.setDaemon(true);
            thread.start();
            awaitDone(running, thread, seconds);
        } catch (TimeoutException e) {
            running.cancel(true);
            failure = "not done in " + seconds + " s";
        } finally {
            System.setOut(before);
            System.setErr(beforeErrors);
        }
        // of a printed exception, the line that has the response code in it
        for (String line : errors.toString(StandardCharsets.UTF_8).split("\n")) {
            if (line.contains("CODE:")) {
                failure = line.substring(line.indexOf("CODE:"));
            }
        }
        Json.print("arguments", command, "out", out.toString(StandardCharsets.UTF_8), "failure", failure);
    }

    private static void awaitDone(FutureTask<Void> running, Thread thread, int seconds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (true) {
            try {
                running.get(50, TimeUnit.MILLISECONDS);
                return;
            } catch (TimeoutException e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
                endIdlePolls(thread);
            }
        }
    }

    /**
     * A client that shuts down waits for its NettyEventExecutor, which polls a queue for up to 3 s before it looks
     * whether it is to end. An interrupt ends the poll; in the executors of other clients it is a line in the log.
     */
    private static void endIdlePolls(Thread command) {
        boolean shutsDown = Arrays.stream(command.getStackTrace())
            .anyMatch(frame -> frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown"));
        if (shutsDown) {
            Thread[] threads = new Thread[2 * Thread.activeCount()];
            Arrays.stream(threads, 0, Thread.enumerate(threads))
                .filter(thread -> thread.getName().equals("NettyEventExecutor"))
                .forEach(Thread::interrupt);
        }
    }

    private String own(List<String> command) throws Exception {
        switch (command.get(0)) {
            case "@producer":
                producer = world.configured(new DefaultMQProducer(command.get(1)));
                world.atEnd(producer::shutdown);
                producer.start();
                return "";
            case "@send":
                List<MessageQueue> queues = producer.fetchPublishMessageQueues(command.get(1));
                queues.sort(null);
                SendResult sent = producer.send(new Message(command.get(1), command.get(3), command.get(4),
                    command.get(5).getBytes(StandardCharsets.UTF_8)), queues.get(Integer.parseInt(command.get(2))));
                return sent.getMsgId() + " " + sent.getOffsetMsgId();
            case "@consumer":
                consume(command.get(1), command.get(2));
                return "";
            case "@stop":
                awaitSettled();
                storeRetryOffset();
                world.close();
                return "";
            default:
                throw new IllegalArgumentException("no command is called " + command.get(0));
        }
    }

    private void consume(String group, String topic) throws Exception {
        Inbox inbox = new Inbox();
        this.topic = topic;
        consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        long[] stored = {0};
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            stored[0] += producer.maxOffset(queue);
        }
        Check.until("every message consumed", Check.PATIENCE, () -> inbox.messages.size() >= stored[0]);
        Thread.sleep(200); // the consumer removes them from its own table a moment after the listener returned
        consumer.getOffsetStore().persistAll(Inbox.heldBy(consumer, topic));
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
    }

    /** A consumer whose offsets were reset pauses for 10 s, gives its queues up, and begins them again. */
    private void awaitSettled() throws Exception {
        DefaultMQPushConsumerImpl pushed = consumer.getDefaultMQPushConsumerImpl();
        Check.until("every queue is held and consumed to its end", Check.PATIENCE, () -> {
            pushed.doRebalance();
            for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
                ProcessQueue held = pushed.getRebalanceImpl().getProcessQueueTable().get(queue);
                if (held == null || held.isDropped() || held.getMsgCount().get() != 0
                    || consumer.getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_MEMORY) != producer.maxOffset(queue)) {
                    return false;
                }
            }
            return true;
        });
    }

    /** The consumer itself stores the offset of its retry queue when its first pull is answered, after 15 s. */
    private void storeRetryOffset() throws Exception {
        String retries = "%RETRY%" + consumer.getConsumerGroup();
        Check.until("the retry queue is held", Check.PATIENCE, () -> !Inbox.heldBy(consumer, retries).isEmpty());
        for (MessageQueue queue : Inbox.heldBy(consumer, retries)) {
            consumer.getOffsetStore().updateOffset(queue, 0, true);
        }
        consumer.getOffsetStore().persistAll(Inbox.heldBy(consumer, retries));
    }
}
