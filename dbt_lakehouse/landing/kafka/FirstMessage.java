import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Looks for one message, by a consumer of its own. */
public final class FirstMessage {
    /**
     * Whether one of several ranges certainly has a message. Each is a line: topic, partition, first
     * offset, and the one behind the last. False if none is found in so many milliseconds.
     */
    public boolean isIn(Properties settings, String ranges, long millis) {
        long until = System.currentTimeMillis() + millis;
        KafkaConsumer consumer = new KafkaConsumer(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            for (String line : ranges.split("\n")) {
                String[] range = line.split("\t");
                TopicPartition at = new TopicPartition(range[0], Integer.parseInt(range[1]));
                long end = Long.parseLong(range[3]);
                consumer.assign(Collections.singletonList(at));
                consumer.seek(at, Long.parseLong(range[2]));
                while (consumer.position(at) < end) {
                    long left = until - System.currentTimeMillis();
                    if (left <= 0) {
                        return false;
                    }
                    Iterator found = consumer.poll(Duration.ofMillis(left)).iterator();
                    if (found.hasNext() && ((ConsumerRecord) found.next()).offset() < end) {
                        return true;
                    }
                }
            }
            return false;
        } finally {
            consumer.close(Duration.ZERO);
        }
    }
}
