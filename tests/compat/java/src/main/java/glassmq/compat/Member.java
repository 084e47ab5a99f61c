package glassmq.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** A push consumer in a process of its own, so that it can be killed. */
final class Member {
    private static final long WORK_NANOS = 10_000_000;

    private Member() {
    }

    /** Starts one and returns when it says that it runs. */
    static Process start(World world, String group, String topic, boolean orderly) throws Exception {
        List<String> command = new ArrayList<>(List.of(
            ProcessHandle.current().info().command().orElse("java"), "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1", "-Duser.home=" + System.getProperty("user.home"),
            "-cp", System.getProperty("java.class.path"), Main.class.getName(), "member",
            "--namesrv", world.namesrv, "--group", group, "--topic", topic, "--orderly", orderly ? "1" : "0"));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        world.atEnd(process::destroyForcibly);
        Check.same("first byte of the other process", (int) 'r', process.getInputStream().read());
        return process;
    }

    /** A listener that succeeds, that suspends its queue again and again, or that prints when it had which message. */
    private static MessageListenerOrderly orderly(String name) {
        switch (name) {
            case "printing":
                return (messages, context) -> {
                    long began = System.currentTimeMillis();
                    LockSupport.parkNanos(WORK_NANOS);
                    long ended = System.currentTimeMillis();
                    for (MessageExt message : messages) {
                        Main.OUT.printf("{\"queue\":%d,\"offset\":%d,\"began_ms\":%d,\"ended_ms\":%d}%n",
                            message.getQueueId(), message.getQueueOffset(), began, ended);
                    }
                    return ConsumeOrderlyStatus.SUCCESS;
                };
            case "well":
                return new Inbox().orderly();
            case "suspending":
                return (messages, context) -> ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            default:
                throw new IllegalArgumentException("no orderly listener is called " + name);
        }
    }

    /** A listener that succeeds, that never returns, that sends every message back, or that suspends its client. */
    private static MessageListenerConcurrently concurrently(String name, DefaultMQPushConsumer consumer) {
        switch (name) {
            case "well":
                return new Inbox().concurrently();
            case "blocked":
                return (messages, context) -> {
                    LockSupport.park();
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                };
            case "suspended":
                return (messages, context) -> {
                    consumer.suspend();
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                };
            case "failing":
                return (messages, context) -> ConsumeConcurrentlyStatus.RECONSUME_LATER;
            default:
                throw new IllegalArgumentException("no concurrent listener is called " + name);
        }
    }

    static void run(Arguments arguments) throws Exception {
        World world = new World(arguments.text("namesrv"), "member");
        DefaultMQPushConsumer consumer = world.newPushConsumer(arguments.text("group"));
        consumer.subscribe(arguments.text("topic"), arguments.text("tags", "*"));
        if (arguments.number("orderly", 0) == 1) {
            consumer.registerMessageListener(orderly(arguments.text("listener", "well")));
        } else {
            consumer.registerMessageListener(concurrently(arguments.text("listener", "well"), consumer));
        }
        consumer.start();
        Main.OUT.println("ready");
        if (System.in.read() >= 0) { // -1: the process that started it has ended
            consumer.shutdown();
        }
    }
}
