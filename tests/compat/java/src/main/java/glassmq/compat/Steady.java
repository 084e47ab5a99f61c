package glassmq.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends to each of some queues, one message after the other, whatever becomes of the broker, and sends none twice. Each
 * line of input is answered by a line with the numbers that were acknowledged until then: for each queue its ranges,
 * first and last in turn. Ends with its input.
 */
final class Steady {
    private Steady() {
    }

    static void run(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "steady")) {
            DefaultMQProducer producer = world.newProducer();
            producer.start();
            List<Lane> lanes = new ArrayList<>();
            int first = arguments.number("first-queue", 0);
            for (int queue = first; queue < first + arguments.number("queues", 1); queue++) {
                Lane lane = new Lane(producer, new MessageQueue(arguments.text("topic"), "broker-a", queue));
                lanes.add(lane);
                Thread thread = new Thread(lane, "lane-" + queue);
                thread.setDaemon(true);
                thread.start();
            }
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            while (input.readLine() != null) {
                List<List<Long>> ranges = new ArrayList<>();
                for (Lane lane : lanes) {
                    ranges.add(lane.ranges());
                }
                Json.print("acknowledged", ranges);
            }
        }
    }

    private static final class Lane implements Runnable {
        private final DefaultMQProducer producer;
        private final MessageQueue queue;
        private final List<Long> ranges = new ArrayList<>();

        Lane(DefaultMQProducer producer, MessageQueue queue) {
            this.producer = producer;
            this.queue = queue;
        }

        @Override
        public void run() {
            for (long number = 0; ; number++) {
                byte[] body = (queue.getQueueId() + ":" + number).getBytes(StandardCharsets.UTF_8);
                try {
                    if (producer.send(new Message(queue.getTopic(), body), queue).getSendStatus() == SendStatus.SEND_OK) {
                        acknowledge(number);
                    }
                    LockSupport.parkNanos(5_000_000);
                } catch (Exception e) {
                    LockSupport.parkNanos(20_000_000);
                }
            }
        }

        private synchronized void acknowledge(long number) {
            int last = ranges.size() - 1;
            if (last > 0 && ranges.get(last) == number - 1) {
                ranges.set(last, number);
            } else {
                ranges.add(number);
                ranges.add(number);
            }
        }

        private synchronized List<Long> ranges() {
            return new ArrayList<>(ranges);
        }
    }
}
