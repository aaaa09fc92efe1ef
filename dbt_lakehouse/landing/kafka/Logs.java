import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/**
 * What the brokers say of many partitions, as lines of text: from Python, each of its objects
 * costs a few calls.
 */
public final class Logs {
    /**
     * A line for each partition: topic, topic id and number. Without topics that could not be
     * described, or have a partition without a leader.
     */
    public String partitions(Admin admin, Collection topics) throws InterruptedException {
        StringBuilder lines = new StringBuilder();
        Map answers = admin.describeTopics(topics).topicNameValues();
        for (Iterator each = answers.values().iterator(); each.hasNext();) {
            try {
                TopicDescription topic = (TopicDescription) ((KafkaFuture) each.next()).get();
                lines.append(isLed(topic) ? partitionsOf(topic) : "");
            } catch (ExecutionException error) {
                // Python asks once more, and says why.
            }
        }
        return lines.toString();
    }

    private boolean isLed(TopicDescription topic) {
        for (Iterator each = topic.partitions().iterator(); each.hasNext();) {
            Node leader = ((TopicPartitionInfo) each.next()).leader();
            if (leader == null || leader.isEmpty()) {
                return false;
            }
        }
        return true;
    }

    private String partitionsOf(TopicDescription topic) {
        StringBuilder lines = new StringBuilder();
        for (Iterator each = topic.partitions().iterator(); each.hasNext();) {
            int partition = ((TopicPartitionInfo) each.next()).partition();
            lines.append(topic.name()).append('\t').append(topic.topicId()).append('\t')
                .append(partition).append('\n');
        }
        return lines.toString();
    }

    /**
     * A line for each partition, which are lines too (topic and number): topic, number, the first
     * offset, the one behind the last, and the leader's epoch (-1 if the broker has none).
     */
    public String offsets(Admin admin, ListOffsetsOptions options, String partitions)
            throws InterruptedException, ExecutionException {
        Map first = new HashMap();
        Map last = new HashMap();
        for (String line : partitions.split("\n")) {
            int tab = line.indexOf('\t');
            TopicPartition partition = new TopicPartition(
                line.substring(0, tab), Integer.parseInt(line.substring(tab + 1)));
            first.put(partition, OffsetSpec.earliest());
            last.put(partition, OffsetSpec.latest());
        }
        // Both are asked for before either is waited for.
        ListOffsetsResult starts = admin.listOffsets(first, options);
        ListOffsetsResult ends = admin.listOffsets(last, options);
        StringBuilder lines = new StringBuilder();
        for (Iterator each = first.keySet().iterator(); each.hasNext();) {
            TopicPartition partition = (TopicPartition) each.next();
            ListOffsetsResult.ListOffsetsResultInfo start =
                (ListOffsetsResult.ListOffsetsResultInfo) starts.partitionResult(partition).get();
            ListOffsetsResult.ListOffsetsResultInfo end =
                (ListOffsetsResult.ListOffsetsResultInfo) ends.partitionResult(partition).get();
            lines.append(partition.topic()).append('\t').append(partition.partition()).append('\t')
                .append(start.offset()).append('\t').append(end.offset()).append('\t')
                .append(end.leaderEpoch().isPresent() ? end.leaderEpoch().get().toString() : "-1")
                .append('\n');
        }
        return lines.toString();
    }
}
