package glassmq.compat;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Two members of a group share a topic's queues on several brokers. It prints who holds which queue when all messages
 * are consumed; at the next line of its input the second one leaves, and it prints that again when the first has all.
 */
final class Sharing {
    private static final int QUEUES = 4;
    private static final int MESSAGES = 240;

    private Sharing() {
    }

    static void run(Arguments arguments) throws Exception {
        try (World world = new World(arguments.text("namesrv"), "sharing")) {
            int queues = QUEUES * arguments.number("brokers", 1);
            String topic = world.name("t");
            String group = world.name("g");
            world.producer().createTopic("TBW102", topic, QUEUES, new HashMap<>());
            world.routed(topic, queues);
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer[] members = {member(world, group, topic, inbox), member(world, group, topic, inbox)};
            Check.until("each holds half of the queues", Check.PATIENCE,
                () -> Inbox.heldBy(members[0], topic).size() == queues / 2
                && Inbox.heldBy(members[1], topic).size() == queues / 2);
            world.send(topic, "tag", 0, MESSAGES);
            inbox.awaitNumbers(0, MESSAGES, Check.PATIENCE);
            tell(topic, group, inbox, members);
            System.in.read();
            members[1].shutdown();
            Check.until("the other holds all queues", Check.PATIENCE,
                () -> Inbox.heldBy(members[0], topic).size() == queues);
            world.send(topic, "tag", MESSAGES, MESSAGES);
            inbox.awaitNumbers(0, 2 * MESSAGES, Check.PATIENCE);
            tell(topic, group, inbox, members[0]);
        }
    }

    private static DefaultMQPushConsumer member(World world, String group, String topic, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = world.newPushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.concurrently());
        consumer.start();
        return consumer;
    }

    private static void tell(String topic, String group, Inbox inbox, DefaultMQPushConsumer... members) {
        Map<String, Set<String>> held = new TreeMap<>();
        for (DefaultMQPushConsumer member : members) {
            held.put(member.buildMQClientId(), Inbox.heldBy(member, topic).stream().map(Sharing::name)
                .collect(Collectors.toCollection(TreeSet::new)));
        }
        Json.print("topic", topic, "group", group, "held", held, "consumed", inbox.messages.size());
    }

    private static String name(MessageQueue queue) {
        return queue.getBrokerName() + "/" + queue.getQueueId();
    }
}
