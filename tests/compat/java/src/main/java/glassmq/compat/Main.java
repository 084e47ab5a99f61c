package glassmq.compat;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs the stock client against a name server and prints JSON lines.
 *
 * <pre>
 * cases   --namesrv A [--parallel 8] [--slow 1] [WORD...]   each case: name, ok, detail, seconds
 * member  --namesrv A --group G --topic T [--tags X] [--orderly 1]   a push consumer, until it reads a line or is killed
 * replier --namesrv A --topic T --asks U                    replies to T with the reply to its own request to U, until it is killed
 * mqadmin --namesrv A                                       commands from the standard input, see Mqadmin
 * outage  --namesrv A                                       see Outage
 * sharing --namesrv A --brokers N                           see Sharing
 * steady  --namesrv A --topic T --first-queue Q --queues N  for tests/torture, see Steady
 * wakeup  --namesrv A [--messages 2000] [--warmup 1000] [--pause-us 20000]           for benchmarks/, see Wakeup
 * race    --namesrv A [--messages 100000] [--lanes 4] [--jitter-us 1500]             see Race
 * throughput --namesrv A --mode sync|async|batch|push [--threads 1] [--seconds 5]    see Throughput
 * pop-throughput --namesrv A [--consumers 8] [--messages 120000]                     see PopThroughput
 * transaction-throughput --namesrv A [--threads 8] [--warmup 5] [--seconds 5]        see TransactionThroughput
 * </pre>
 */
public final class Main {
    /** The real standard output; what libraries print goes to the error output. */
    static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
    private static final int CASE_SECONDS = 300;

    private Main() {
    }

    public static void main(String[] given) throws Exception {
        System.setOut(System.err);
        Arguments arguments = new Arguments(Arrays.copyOfRange(given, 1, given.length));
        switch (given[0]) {
            case "cases":
                runCases(arguments);
                break;
            case "member":
                Member.run(arguments);
                break;
            case "replier":
                Replier.run(arguments);
                break;
            case "mqadmin":
                Mqadmin.run(arguments);
                break;
            case "outage":
                Outage.run(arguments);
                break;
            case "sharing":
                Sharing.run(arguments);
                break;
            case "steady":
                Steady.run(arguments);
                break;
            case "wakeup":
                Wakeup.run(arguments);
                break;
            case "race":
                Race.run(arguments);
                break;
            case "throughput":
                Throughput.run(arguments);
                break;
            case "pop-throughput":
                PopThroughput.run(arguments);
                break;
            case "transaction-throughput":
                TransactionThroughput.run(arguments);
                break;
            default:
                throw new IllegalArgumentException("no program is called " + given[0]);
        }
        OUT.flush();
        Runtime.getRuntime().halt(0); // threads that a client left behind do not matter any more
    }

    /** Ends the clients of cases. Each waits for up to 3 s for a thread of its own; no other case waits for that. */
    private static final ExecutorService ENDING = Executors.newCachedThreadPool();

    private static void runCases(Arguments arguments) throws Exception {
        Cases cases = Cases.all();
        List<String> names = cases.chosen(arguments.words, arguments.number("slow", 0) == 1);
        ExecutorService runners = Executors.newFixedThreadPool(arguments.number("parallel", 8));
        for (String name : names) {
            runners.submit(() -> runCase(name, cases.get(name), arguments.text("namesrv")));
        }
        runners.shutdown();
        runners.awaitTermination(1, TimeUnit.HOURS);
        ENDING.shutdown();
        ENDING.awaitTermination(1, TimeUnit.MINUTES);
    }

    private static void runCase(String name, Case test, String namesrv) {
        long began = System.nanoTime();
        String detail;
        boolean ok = false;
        ExecutorService alone = Executors.newSingleThreadExecutor(r -> new Thread(r, "case-" + name));
        World world = new World(namesrv, name);
        try {
            Future<String> running = alone.submit(() -> test.run(world));
            try {
                detail = running.get(CASE_SECONDS, TimeUnit.SECONDS);
                ok = true;
            } catch (TimeoutException e) {
                detail = "not done in " + CASE_SECONDS + " s" + where(alone, name);
            } catch (java.util.concurrent.ExecutionException e) {
                detail = trace(e.getCause());
            }
        } catch (Throwable e) {
            detail = trace(e);
        }
        alone.shutdownNow();
        ENDING.submit(world::close);
        Json.print("name", name, "ok", ok, "detail", detail == null ? "" : detail, "seconds", (System.nanoTime() - began) / 100_000_000L / 10.0);
    }

    private static String where(ExecutorService alone, String name) {
        StringBuilder stack = new StringBuilder();
        Thread.getAllStackTraces().forEach((thread, frames) -> {
            if (thread.getName().equals("case-" + name)) {
                Arrays.stream(frames).limit(12).forEach(frame -> stack.append("\n  at ").append(frame));
            }
        });
        return stack.toString();
    }

    private static String trace(Throwable e) {
        StringWriter text = new StringWriter();
        e.printStackTrace(new PrintWriter(text));
        String said = text.toString();
        return said.substring(0, Math.min(1500, said.length()));
    }
}
