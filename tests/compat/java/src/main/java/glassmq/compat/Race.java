package glassmq.compat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Messages sent around the moment in which a pull is being held: each up to {@code jitter} after the one before it was
 * received, while the client's next pull is on its way. Where reading and holding are two steps, one that comes between
 * them waits for the broker's next look at what it holds. One line: how many there were, and how long they took.
 */
final class Race {
    private static final long SLOW = TimeUnit.SECONDS.toNanos(1);
    private static final int WARM_UP = 200;
    private static final int SIZE = 16;

    private Race() {
    }

    static void run(Arguments arguments) throws Exception {
        int lanes = arguments.number("lanes", 4);
        int jitter = arguments.number("jitter-us", 1500) * 1000;
        AtomicInteger left = new AtomicInteger(arguments.number("messages", 100_000));
        try (World world = new World(arguments.text("namesrv"), "race")) {
            List<long[]> took = new ArrayList<>();
            List<Thread> threads = new ArrayList<>();
            ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
            long began = System.nanoTime();
            for (int lane = 0; lane < lanes; lane++) {
                Probe probe = new Probe(world, SIZE);
                long[] times = new long[left.get()];
                took.add(times);
                Thread thread = new Thread(() -> {
                    try {
                        warmUp(probe);
                        for (int i = 0; left.getAndDecrement() > 0; i++) {
                            times[i] = one(probe, jitter);
                        }
                    } catch (Throwable e) {
                        failures.add(e.toString());
                    }
                });
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            Check.that(failures.isEmpty(), "failures: " + failures);
            long[] all = took.stream().flatMapToLong(Arrays::stream).filter(time -> time > 0).sorted().toArray();
            Json.print("messages", all.length, "seconds", (System.nanoTime() - began) / 1e9,
                "slow_ns", Arrays.stream(all).filter(time -> time > SLOW).toArray(), "p50_ns", part(all, 0.5),
                "p99_ns", part(all, 0.99), "p999_ns", part(all, 0.999), "max_ns", all[all.length - 1]);
        }
    }

    private static long part(long[] sorted, double part) {
        return sorted[Math.min(sorted.length - 1, (int) (part * sorted.length))];
    }

    /** The first message waits until the consumer has its queue; those after it for compilers. */
    private static void warmUp(Probe probe) throws Exception {
        for (int i = 0; i < WARM_UP; i++) {
            one(probe, 1_000_000);
        }
    }

    private static long one(Probe probe, int jitter) throws Exception {
        LockSupport.parkNanos(ThreadLocalRandom.current().nextInt(jitter));
        probe.send();
        return probe.took;
    }
}
