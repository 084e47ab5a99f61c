package glassmq.compat;

import java.nio.ByteBuffer;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A topic of one queue, a push consumer of it, and one message after the other. Each has a number, so that one which
 * comes twice is not taken for the next one. For one thread.
 */
final class Probe {
    /** Of the last message, in ns: from just before send() to the listener, and send() itself. */
    long took;
    long sent;
    private final DefaultMQProducer producer;
    private final String topic;
    private final int size;
    private final Semaphore received = new Semaphore(0);
    private volatile long number;
    private volatile long arrival;

    /** Messages have bodies of {@code size} bytes, 8 at least. */
    Probe(World world, int size) throws Exception {
        this.size = size;
        topic = world.topic(1);
        producer = world.producer();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setHeartbeatBrokerInterval(World.STOCK_HEARTBEAT_MILLIS);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : given) {
                if (ByteBuffer.wrap(message.getBody()).getLong() == number) {
                    arrival = now;
                    received.release();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    /** Sends a message and waits until it is received. */
    void send() throws Exception {
        Message message = new Message(topic, ByteBuffer.allocate(size).putLong(number + 1).array());
        received.drainPermits(); // of a message that came twice
        number++;
        long began = System.nanoTime();
        producer.send(message);
        sent = System.nanoTime() - began;
        Check.that(received.tryAcquire(Check.PATIENCE, TimeUnit.SECONDS), "a message was not received");
        took = arrival - began;
    }
}
