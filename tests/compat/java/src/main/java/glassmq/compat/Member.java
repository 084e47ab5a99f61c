package glassmq.compat;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** A push consumer in a process of its own, so that it can be killed. */
final class Member {
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

    static void run(Arguments arguments) throws Exception {
        World world = new World(arguments.text("namesrv"), "member");
        DefaultMQPushConsumer consumer = world.newPushConsumer(arguments.text("group"));
        consumer.subscribe(arguments.text("topic"), "*");
        if (arguments.number("orderly", 0) == 1) {
            consumer.registerMessageListener(new Inbox().orderly());
        } else {
            consumer.registerMessageListener(new Inbox().concurrently());
        }
        consumer.start();
        Main.OUT.println("ready");
        System.in.read(); // until it is killed, or the process that started it ends
    }
}
