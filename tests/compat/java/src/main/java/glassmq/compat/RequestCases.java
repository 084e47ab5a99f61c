package glassmq.compat;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests that a consumer replies to. */
final class RequestCases {
    private static final long MILLIS = Check.PATIENCE * 1000L;

    private RequestCases() {
    }

    static void addTo(Cases cases) {
        cases.add("request.sync", RequestCases::sync);
        cases.add("request.async", RequestCases::async);
        cases.add("request.several_at_once", RequestCases::several);
        cases.add("request.nobody_replies", RequestCases::nobody);
        cases.add("request.reply_to_a_client_that_is_gone", RequestCases::gone);
        cases.add("request.reply_without_a_client", RequestCases::without);
    }

    /** A consumer that replies with the request's body and an exclamation mark. */
    private static void replying(World world, String topic, CompletableFuture<SendResult> replied) throws Exception {
        DefaultMQProducer answering = world.producer();
        DefaultMQPushConsumer consumer = world.newPushConsumer(world.name("g"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            for (MessageExt request : given) {
                try {
                    byte[] body = (Inbox.body(request) + "!").getBytes(StandardCharsets.UTF_8);
                    replied.complete(answering.send(MessageUtil.createReplyMessage(request, body)));
                } catch (Exception error) {
                    replied.completeExceptionally(error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static DefaultMQProducer asking(World world) throws Exception {
        DefaultMQProducer producer = world.newProducer();
        producer.start();
        return producer;
    }

    private static String sync(World world) throws Exception {
        String topic = world.topic(2);
        CompletableFuture<SendResult> replied = new CompletableFuture<>();
        replying(world, topic, replied);
        Message reply = asking(world).request(World.message(topic, "tag", 7), MILLIS);
        Check.same("reply", "7!", new String(reply.getBody(), StandardCharsets.UTF_8));
        Check.that(reply.getTopic().endsWith("_REPLY_TOPIC"), "topic " + reply.getTopic());
        Check.same("type", "reply", reply.getProperty("MSG_TYPE"));
        Check.that(reply.getProperty("PUSH_REPLY_TIME") != null, "no PUSH_REPLY_TIME");
        SendResult sent = replied.get(Check.PATIENCE, TimeUnit.SECONDS);
        Check.same("what the replier hears", "SEND_OK", sent.getSendStatus().name());
        return String.join(",", new java.util.TreeSet<>(reply.getProperties().keySet()));
    }

    private static String async(World world) throws Exception {
        String topic = world.topic(1);
        replying(world, topic, new CompletableFuture<>());
        CompletableFuture<Message> reply = new CompletableFuture<>();
        asking(world).request(World.message(topic, "tag", 8), new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                reply.complete(message);
            }

            @Override
            public void onException(Throwable error) {
                reply.completeExceptionally(error);
            }
        }, MILLIS);
        Message seen = reply.get(Check.PATIENCE, TimeUnit.SECONDS);
        if (seen != null) { // the client calls back with null if its request is acknowledged before the reply comes
            Check.same("reply", "8!", new String(seen.getBody(), StandardCharsets.UTF_8));
        }
        return null;
    }

    private static String several(World world) throws Exception {
        String topic = world.topic(2);
        replying(world, topic, new CompletableFuture<>());
        DefaultMQProducer producer = asking(world);
        for (int i = 0; i < 20; i++) {
            Message reply = producer.request(World.message(topic, "tag", i), MILLIS);
            Check.same("reply", i + "!", new String(reply.getBody(), StandardCharsets.UTF_8));
        }
        return null;
    }

    private static String nobody(World world) throws Exception {
        String topic = world.topic(1);
        try {
            asking(world).request(World.message(topic, "tag", 9), 5000);
            Check.that(false, "a reply came");
        } catch (RequestTimeoutException expected) {
            return null;
        }
        return null;
    }

    private static String gone(World world) throws Exception {
        return refused(world, "10.0.0.99@nobody");
    }

    private static String without(World world) throws Exception {
        return refused(world, null);
    }

    /** Sends a reply to this client by hand. */
    private static String refused(World world, String client) throws Exception {
        String topic = world.topic(1);
        Message reply = World.message(topic, "tag", 1);
        MessageAccessor.putProperty(reply, "MSG_TYPE", "reply");
        MessageAccessor.putProperty(reply, "CORRELATION_ID", "c-1");
        if (client != null) {
            MessageAccessor.putProperty(reply, "REPLY_TO_CLIENT", client);
        }
        try {
            world.producer().send(reply);
            Check.that(false, "the reply was taken");
        } catch (MQClientException refused) { // after the client's retries
            Check.same("code", 1, refused.getResponseCode());
        }
        return null;
    }
}
