package interop;

import java.io.PrintStream;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** A producer and a consumer that go on while nameservers die around them. */
final class Traffic {
    private static final long SEND_INTERVAL_MS = 20;
    private static final long START_TIMEOUT_MS = 30_000;
    private static final long DRAIN_TIMEOUT_MS = 30_000;

    private final String nameservers;
    private final String topic;
    private final Set<String> sent = ConcurrentHashMap.newKeySet();
    private final Set<String> received = ConcurrentHashMap.newKeySet();
    private final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;
    private Thread sender;
    private volatile boolean stopping;

    Traffic(String nameservers, String topic) {
        this.nameservers = nameservers;
        this.topic = topic;
    }

    /** True once messages flow from end to end. */
    boolean start(PrintStream out) throws Exception {
        producer = Exchange.startProducer(nameservers);
        consumer = Exchange.startConsumer(nameservers, topic, "interop_traffic_java",
            message -> received.add(message.getKeys()));
        sender = new Thread(this::send, "traffic");
        sender.setDaemon(true);
        sender.start();
        boolean flowing = await(START_TIMEOUT_MS, () -> !received.isEmpty());
        out.println("sent " + sent.size() + " received " + received.size() + " failed " + failures.size());
        return flowing && failures.isEmpty();
    }

    /** True when no send failed and all that was acknowledged has arrived. */
    boolean stop(PrintStream out) throws Exception {
        stopping = true;
        sender.join();
        boolean complete = await(DRAIN_TIMEOUT_MS, () -> received.containsAll(sent));
        producer.shutdown();
        consumer.shutdown();
        failures.stream().limit(5).forEach(out::println);
        out.println("sent " + sent.size() + " received " + received.size() + " failed " + failures.size());
        return complete && failures.isEmpty() && !sent.isEmpty();
    }

    private void send() {
        for (long number = 0; !stopping; number++) {
            String key = "traffic-" + number;
            try {
                producer.send(Exchange.message(topic, key));
                sent.add(key);
                Thread.sleep(SEND_INTERVAL_MS);
            } catch (Exception e) {
                failures.add(key + ": " + e);
            }
        }
    }

    private interface Condition {
        boolean holds();
    }

    private static boolean await(long timeoutMs, Condition condition) throws InterruptedException {
        long deadline = System.nanoTime() + timeoutMs * 1_000_000;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                return false;
            }
            Thread.sleep(50);
        }
        return true;
    }
}
