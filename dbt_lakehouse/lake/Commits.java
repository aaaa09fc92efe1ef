import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.List;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.TableMetadata;

/** What has come to a table's metadata, which list all of its snapshots. */
public final class Commits {
    private final ObjectMapper mapper = new ObjectMapper();

    /**
     * The metadata (JSON) with nothing older than a snapshot, where so many snapshots and log entries
     * were known, and the oldest of its ancestors. Null if any of these has gone, or the snapshot is
     * no ancestor.
     */
    public String since(
            TableMetadata metadata, String known, String oldest, int snapshots, int entries)
            throws IOException {
        StringBuilder commits = new StringBuilder();
        long last = Long.parseLong(known);
        int number = 0;
        Snapshot each = metadata.currentSnapshot();
        while (each != null && each.snapshotId() != last) {
            commits.append(number == 0 ? "" : ",").append(SnapshotParser.toJson(each, false));
            number++;
            each = each.parentId() == null ? null : metadata.snapshot(each.parentId().longValue());
        }
        List log = metadata.snapshotLog();
        boolean goesOn = each != null && metadata.snapshots().size() == snapshots + number
            && metadata.snapshot(Long.parseLong(oldest)) != null && log.size() == entries + number;
        if (!goesOn) {
            return null;
        }
        StringBuilder entriesSince = new StringBuilder();
        for (int at = entries; at < log.size(); at++) {
            HistoryEntry entry = (HistoryEntry) log.get(at);
            entriesSince.append(at == entries ? "" : ",")
                .append("{\"timestamp-ms\":").append(entry.timestampMillis())
                .append(",\"snapshot-id\":").append(entry.snapshotId()).append('}');
        }
        return "{\"format-version\":" + metadata.formatVersion()
            + ",\"table-uuid\":" + mapper.writeValueAsString(metadata.uuid())
            + ",\"current-schema-id\":" + metadata.schema().schemaId()
            + ",\"schemas\":[" + SchemaParser.toJson(metadata.schema(), false)
            + "],\"properties\":" + mapper.writeValueAsString(metadata.properties())
            + ",\"current-snapshot-id\":" + metadata.currentSnapshot().snapshotId()
            + ",\"snapshots\":[" + commits
            + "],\"snapshot-log\":[" + entriesSince + "]}";
    }

    /** The number of snapshots from before a moment (milliseconds since the epoch). */
    public int before(TableMetadata metadata, long moment) {
        int number = 0;
        for (Object each : metadata.snapshots()) {
            number += ((Snapshot) each).timestampMillis() < moment ? 1 : 0;
        }
        return number;
    }
}
