import java.lang.management.ManagementFactory;
import java.util.function.Supplier;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * What each of this process's Kafka consumers has read in all: a line with its name, messages and
 * bytes, by "Monitoring" of Kafka's documentation.
 */
public final class Consumed implements Supplier {
    public Object get() {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        StringBuilder lines = new StringBuilder();
        try {
            ObjectName all =
                new ObjectName("kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*");
            for (Object each : beans.queryNames(all, null)) {
                ObjectName name = (ObjectName) each;
                try {
                    Number messages = (Number) beans.getAttribute(name, "records-consumed-total");
                    Number bytes = (Number) beans.getAttribute(name, "bytes-consumed-total");
                    lines.append(name.getKeyProperty("client-id")).append('\t')
                        .append(messages.longValue()).append('\t')
                        .append(bytes.longValue()).append('\n');
                } catch (JMException error) {
                    // It was closed meanwhile.
                }
            }
        } catch (JMException error) {
            throw new IllegalStateException(error);
        }
        return lines.toString();
    }
}
