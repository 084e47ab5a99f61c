package glassmq.compat;

import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageQueue;

/** What is below the messages: connections, TLS, several requests at a time. */
final class TransportCases {
    private TransportCases() {
    }

    static void addTo(Cases cases) {
        cases.add("transport.offset_id_names_the_broker", TransportCases::offsetId);
        cases.add("transport.vip_channel", TransportCases::vip);
        cases.add("transport.tls", TransportCases::tls);
        cases.add("transport.many_held_pulls_and_sends_on_one_connection", TransportCases::manyHeld);
        cases.add("transport.garbage_harms_nobody", TransportCases::garbage);
    }

    private static String offsetId(World world) throws Exception {
        String topic = world.topic(1);
        String id = world.producer().send(World.message(topic, "tag", 0)).getOffsetMsgId();
        String host = MessageDecoder.decodeMessageId(id).getAddress().toString();
        Check.that(host.endsWith("/" + world.brokerOf(topic)), "it names " + host);
        return null;
    }

    private static String vip(World world) throws Exception {
        String topic = world.topic(2);
        DefaultMQProducer producer = world.newProducer();
        producer.setVipChannelEnabled(true);
        producer.setSendMessageWithVIPChannel(true);
        producer.start();
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setVipChannelEnabled(true);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        for (int i = 0; i < 20; i++) {
            Check.same("status", SendStatus.SEND_OK,
                producer.send(World.message(topic, "tag", i)).getSendStatus());
        }
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        Check.between("max offset", 0, 20, producer.maxOffset(world.routed(topic, 2).get(0)));
        return null;
    }

    private static String tls(World world) throws Exception {
        String topic = world.topic(2);
        DefaultMQProducer producer = world.newProducer();
        producer.setUseTLS(true);
        producer.start();
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.setUseTLS(true);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        for (int i = 0; i < 20; i++) {
            Check.same("status", SendStatus.SEND_OK,
                producer.send(World.message(topic, "tag", i)).getSendStatus());
        }
        inbox.awaitNumbers(0, 20, Check.PATIENCE);
        producer.send(new org.apache.rocketmq.common.message.Message(topic, new byte[3_000_000]));
        inbox.awaitCount(21, Check.PATIENCE);
        return null;
    }

    private static String manyHeld(World world) throws Exception {
        String topic = world.topic(16);
        DefaultMQPullConsumer consumer = world.pullConsumer(world.name("g"));
        CountDownLatch answered = new CountDownLatch(16);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (MessageQueue queue : world.routed(topic, 16)) {
            consumer.pullBlockIfNotFound(queue, "*", 0, 32, new PullCallback() {
                @Override
                public void onSuccess(PullResult result) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    failure.set(e);
                }
            });
        }
        Thread.sleep(500);
        Check.same("answered before anything was sent", 16L, answered.getCount());
        for (MessageQueue queue : world.routed(topic, 16)) {
            Check.same("max offset asked meanwhile", 0L, consumer.maxOffset(queue));
            world.producer().send(World.message(topic, "tag", 0), queue);
        }
        Check.that(answered.await(20, TimeUnit.SECONDS), answered.getCount() + " pulls were not answered");
        Check.same("failure", null, failure.get());
        return null;
    }

    private static String garbage(World world) throws Exception {
        String topic = world.topic(1);
        String[] address = world.brokerOf(topic).split(":");
        byte[][] texts = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n".getBytes(), {0, 0, 0, 8, 0, 0, 0, 4, 'x', 'x', 'x', 'x'},
            {0x7f, 0, 0, 0, 0, 0, 0, 4, 'x', 'x', 'x', 'x'}, {0, 0, 0, 8, 0, 0, 0, 99, 1, 2, 3, 4}};
        for (byte[] text : texts) {
            try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
                socket.setSoTimeout(10_000);
                socket.getOutputStream().write(text);
                socket.getOutputStream().flush();
                int answer = -1;
                try {
                    answer = socket.getInputStream().read();
                } catch (java.net.SocketException reset) {
                    continue;
                }
                Check.same("the connection's end", -1, answer);
            }
        }
        Check.same("others still work", SendStatus.SEND_OK,
            world.producer().send(World.message(topic, "tag", 0)).getSendStatus());
        return null;
    }
}
