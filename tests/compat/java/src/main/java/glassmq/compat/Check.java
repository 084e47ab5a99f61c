package glassmq.compat;

import java.util.Objects;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/** What the cases claim. */
final class Check {
    /** Seconds for what happens at once on a free machine. */
    static final int PATIENCE = 90;

    private Check() {
    }

    static void that(boolean holds, String sentence) {
        if (!holds) {
            throw new AssertionError(sentence);
        }
    }

    static void same(String what, Object expected, Object seen) {
        that(Objects.equals(expected, seen), what + ": expected " + expected + ", saw " + seen);
    }

    static void between(String what, long least, long most, long seen) {
        that(least <= seen && seen <= most, what + ": expected " + least + " to " + most + ", saw " + seen);
    }

    /** Waits for it, looking ten times a second at first. */
    static void until(String what, long seconds, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (!holds.call()) {
            that(System.nanoTime() < end, "not within " + seconds + " s: " + what);
            Thread.sleep(50);
        }
    }

    /** What a call is refused with: the broker's response code, or the client's own. */
    static int refusal(Callable<?> call) throws Exception {
        Object result;
        try {
            result = call.call();
        } catch (MQBrokerException e) {
            return e.getResponseCode();
        } catch (MQClientException e) {
            return e.getResponseCode();
        }
        throw new AssertionError("not refused, but answered " + result);
    }
}
