package interop;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** New clients that know nothing yet, for a fixed number of messages. */
final class Exchange {
    /** How often a client asks for routes, so that a short test sees many look-ups. */
    private static final int POLL_INTERVAL_MS = 1000;
    /**
     * How often a client sends its subscriptions to the brokers. A broker gives no message to a consumer whose heartbeat
     * with the newest subscription has not arrived, and the first one is left out while another thread holds its lock.
     */
    private static final int HEARTBEAT_INTERVAL_MS = 1000;
    private static final int SEND_TIMEOUT_MS = 5000;
    private static final int RECEIVE_TIMEOUT_S = 40;
    /**
     * A client that knows no route yet asks one nameserver of its list, a random one at first, and throws when that
     * one is down. An application tries again; so many misses in a row with one of three dead are no bad luck.
     */
    private static final int ATTEMPTS = 12;

    private Exchange() {
    }

    static boolean produce(String nameservers, String topic, int count, PrintStream out) throws Exception {
        DefaultMQProducer producer = startProducer(nameservers);
        int failed = 0;
        try {
            for (int i = 0; i < count; i++) {
                if (!send(producer, message(topic, "java-" + i), out)) {
                    failed++;
                }
            }
        } finally {
            producer.shutdown();
        }
        out.println("sent " + (count - failed) + " failed " + failed);
        return failed == 0;
    }

    private static boolean send(DefaultMQProducer producer, Message message, PrintStream out) {
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            try {
                producer.send(message);
                return true;
            } catch (Exception e) {
                out.println("send " + message.getKeys() + ", attempt " + attempt + ": " + e);
            }
        }
        return false;
    }

    static boolean consume(String nameservers, String topic, int count, String group, PrintStream out) throws Exception {
        Set<String> keys = ConcurrentHashMap.newKeySet();
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = startConsumer(nameservers, topic, group, message -> {
            if (keys.add(message.getMsgId())) {
                left.countDown();
            }
        });
        boolean all = left.await(RECEIVE_TIMEOUT_S, TimeUnit.SECONDS);
        consumer.shutdown();
        out.println("received " + keys.size() + " of " + count);
        return all;
    }

    static DefaultMQProducer startProducer(String nameservers) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer("interop_producer");
        producer.setNamesrvAddr(nameservers);
        producer.setInstanceName("producer-" + System.nanoTime());
        producer.setPollNameServerInterval(POLL_INTERVAL_MS);
        producer.setHeartbeatBrokerInterval(HEARTBEAT_INTERVAL_MS);
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.start();
        return producer;
    }

    /**
     * Starts a consumer, at most {@link #ATTEMPTS} times. Each further attempt has a consumer group of its own: a broker
     * that reads the heartbeat of a client whose start failed after the end of its connection keeps that client for two
     * minutes, and gives half of the group's queues to it.
     */
    static DefaultMQPushConsumer startConsumer(String nameservers, String topic, String group, Consumer<MessageExt> each)
        throws MQClientException {
        for (int attempt = 1;; attempt++) {
            DefaultMQPushConsumer consumer = newConsumer(nameservers, topic, attempt == 1 ? group : group + "_" + attempt, each);
            try {
                consumer.start();
                return consumer;
            } catch (IllegalStateException e) {
                if (attempt == ATTEMPTS) {
                    throw e;
                }
            }
        }
    }

    private static DefaultMQPushConsumer newConsumer(String nameservers, String topic, String group,
        Consumer<MessageExt> each) throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameservers);
        consumer.setInstanceName("consumer-" + System.nanoTime());
        consumer.setPollNameServerInterval(POLL_INTERVAL_MS);
        consumer.setHeartbeatBrokerInterval(HEARTBEAT_INTERVAL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    static Message message(String topic, String key) {
        return new Message(topic, "interop", key, key.getBytes(StandardCharsets.UTF_8));
    }
}
