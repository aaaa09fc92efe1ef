import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.util.ThreadPools;

/**
 * Lets Iceberg wait for short tasks of its thread pools as long as they take. It looks whether they
 * are done right after it has submitted them, and then each 10 ms.
 */
public final class ShortTasks implements ThreadFactory {
    /** Longer tasks run beside others, as all did. */
    private static final long MOST_MILLIS = 5;

    private final String pool;
    private final AtomicInteger number = new AtomicInteger();

    /** Takes no part in pools. */
    public ShortTasks() {
        this("");
    }

    private ShortTasks(String pool) {
        this.pool = pool;
    }

    /** Let all of Iceberg's pools for files of this machine have short tasks. */
    public void settle() throws ReflectiveOperationException {
        settle(ThreadPools.getWorkerPool(), "iceberg-worker-pool");
        settle(ThreadPools.getDeleteWorkerPool(), "iceberg-delete-worker-pool");
        Method ofFiles = HadoopFileIO.class.getDeclaredMethod("executorService", new Class[0]);
        ofFiles.setAccessible(true);
        Object files = new HadoopFileIO(new org.apache.hadoop.conf.Configuration());
        settle((ExecutorService) ofFiles.invoke(files, new Object[0]), "iceberg-hadoopfileio-delete");
    }

    private static void settle(ExecutorService shown, String name)
            throws ReflectiveOperationException {
        Field inner = Class.forName("java.util.concurrent.Executors$DelegatedExecutorService")
            .getDeclaredField("e");
        inner.setAccessible(true);
        ThreadPoolExecutor pool = (ThreadPoolExecutor) inner.get(shown);
        pool.setThreadFactory(new ShortTasks(name));
        // A thread ends with its task, if none waits: its end is what is waited for.
        pool.setKeepAliveTime(1, TimeUnit.NANOSECONDS);
        pool.allowCoreThreadTimeOut(true);
    }

    /** A thread that whoever starts it waits for, for a moment. */
    public Thread newThread(Runnable tasks) {
        Thread thread = new Awaited(tasks, pool + "-" + number.getAndIncrement());
        thread.setDaemon(true);
        return thread;
    }

    private static final class Awaited extends Thread {
        Awaited(Runnable tasks, String name) {
            super(tasks, name);
        }

        public void start() {
            super.start();
            try {
                join(MOST_MILLIS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
