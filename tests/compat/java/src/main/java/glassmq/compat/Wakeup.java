package glassmq.compat;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * How long a message takes to a push consumer whose pull is held. A message is sent only when the one before it was
 * received, and the next pull had time to be held. One line: for each message the ns from just before send() to the
 * listener, and those of send() itself.
 */
final class Wakeup {
    private static final int SIZE = 128;

    private Wakeup() {
    }

    static void run(Arguments arguments) throws Exception {
        int warmup = arguments.number("warmup", 1000);
        int messages = arguments.number("messages", 2000);
        long pause = arguments.number("pause-us", 20_000) * 1000L;
        long[] took = new long[messages];
        long[] sent = new long[messages];
        try (World world = new World(arguments.text("namesrv"), "wakeup")) {
            Probe probe = new Probe(world, SIZE);
            for (int i = 0; i < warmup; i++) {
                pause(2_000_000);
                probe.send();
            }
            for (int i = 0; i < messages; i++) {
                pause(pause);
                probe.send();
                took[i] = probe.took;
                sent[i] = probe.sent;
            }
        }
        Json.print("took_ns", took, "sent_ns", sent);
    }

    /** So many ns, and up to a tenth more. */
    private static void pause(long nanos) {
        LockSupport.parkNanos(nanos + ThreadLocalRandom.current().nextLong(1 + nanos / 10));
    }
}
