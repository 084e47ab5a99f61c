package glassmq.compat;

import com.alibaba.fastjson2.JSON;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, several commands in one process, since each would need seconds to start. The standard input
 * has one command a line, a JSON list of its arguments; each is answered with one line: arguments, out.
 */
final class Mqadmin {
    private Mqadmin() {
    }

    static void run(Arguments arguments) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", arguments.text("namesrv"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream before = System.out;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> command = new ArrayList<>(JSON.parseArray(line, String.class));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            try {
                MQAdminStartup.main0(command.toArray(new String[0]), null);
            } finally {
                System.out.flush();
                System.setOut(before);
            }
            Json.print("arguments", command, "out", out.toString(StandardCharsets.UTF_8));
        }
    }
}
