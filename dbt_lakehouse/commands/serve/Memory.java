import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;
import java.util.Iterator;
import java.util.function.BooleanSupplier;

/** Whether what is in use leaves little of the heap. */
public final class Memory implements BooleanSupplier {
    public synchronized boolean getAsBoolean() {
        Iterator pools = ManagementFactory.getMemoryPoolMXBeans().iterator();
        while (pools.hasNext()) {
            MemoryPoolMXBean pool = (MemoryPoolMXBean) pools.next();
            // Of the pools of the heap, only the one where objects grow old has a threshold.
            if (pool.getType() == MemoryType.HEAP && pool.isUsageThresholdSupported()
                && isFull(pool.getUsage())) {
                // Some of it may be of no use any more.
                System.gc();
                return isFull(pool.getUsage());
            }
        }
        return false;
    }

    private static boolean isFull(MemoryUsage memory) {
        return memory.getMax() > 0 && memory.getUsed() > 0.8 * memory.getMax();
    }
}
