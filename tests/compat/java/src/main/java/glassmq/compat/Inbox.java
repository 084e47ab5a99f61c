package glassmq.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What a consumer was given, in order of arrival. Bodies are numbers unless a case says otherwise. */
final class Inbox {
    final List<MessageExt> messages = new CopyOnWriteArrayList<>();

    static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    List<String> bodies() {
        return messages.stream().map(Inbox::body).collect(Collectors.toList());
    }

    /** A push consumer of this inbox that succeeds with each message; not started. */
    MessageListenerConcurrently concurrently() {
        return (given, context) -> {
            messages.addAll(given);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    MessageListenerOrderly orderly() {
        return (given, context) -> {
            messages.addAll(given);
            return ConsumeOrderlyStatus.SUCCESS;
        };
    }

    static Set<String> numbers(int first, int count) {
        Set<String> numbers = new HashSet<>();
        for (int i = first; i < first + count; i++) {
            numbers.add(String.valueOf(i));
        }
        return numbers;
    }

    /** Waits until exactly these bodies have come, in any order and each at least once. */
    void awaitBodies(Set<String> expected, long seconds) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        Set<String> seen = new HashSet<>(bodies());
        while (!seen.equals(expected)) {
            if (System.nanoTime() > end) {
                Set<String> missing = new HashSet<>(expected);
                missing.removeAll(seen);
                seen.removeAll(expected);
                throw new AssertionError("not within " + seconds + " s: missing " + missing + ", unexpected " + seen);
            }
            Thread.sleep(20);
            seen = new HashSet<>(bodies());
        }
    }

    void awaitNumbers(int first, int count, long seconds) throws Exception {
        awaitBodies(numbers(first, count), seconds);
    }

    void awaitCount(int count, long seconds) throws Exception {
        Check.until(count + " messages, of which came " + messages.size(), seconds, () -> messages.size() >= count);
        Check.same("messages", count, messages.size());
    }

    /** Bodies of each queue in order of arrival. */
    Map<Integer, List<Integer>> byQueue() {
        Map<Integer, List<Integer>> queues = new HashMap<>();
        for (MessageExt message : messages) {
            queues.computeIfAbsent(message.getQueueId(), id -> new ArrayList<>()).add(Integer.valueOf(body(message)));
        }
        return queues;
    }

    /** The queues of a topic that a push consumer holds at this moment. */
    static Set<MessageQueue> heldBy(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).collect(Collectors.toSet());
    }
}
