package glassmq.compat;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Replies to requests, in a process of its own. Before it replies, it asks another consumer. */
final class Replier {
    private Replier() {
    }

    static void run(Arguments arguments) throws Exception {
        World world = new World(arguments.text("namesrv"), "replier");
        DefaultMQProducer producer = world.producer();
        String asked = arguments.text("asks");
        DefaultMQPushConsumer consumer = world.newPushConsumer("g-" + arguments.text("topic"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (given, context) -> {
            for (MessageExt request : given) {
                if (request.getProperty(MessageConst.PROPERTY_CORRELATION_ID) != null) {
                    reply(producer, asked, request);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Main.OUT.println("ready");
        System.in.read(); // until it is killed, or the process that started it ends
    }

    private static void reply(DefaultMQProducer producer, String asked, MessageExt request) {
        try {
            byte[] question = ("from Java: " + Inbox.body(request)).getBytes(StandardCharsets.UTF_8);
            Message answer = producer.request(new Message(asked, question), Check.PATIENCE * 1000L);
            producer.send(MessageUtil.createReplyMessage(request, answer.getBody()));
        } catch (Exception error) {
            error.printStackTrace();
        }
    }
}
