import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.List;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.util.ThreadPools;

/**
 * Runs the tasks of Iceberg's thread pools in the thread that submits them, as long as they are
 * short. Whoever submits tasks looks whether they are done, and sleeps for 10 ms if they are not.
 */
public final class ShortTasks {
    /** Let all of Iceberg's thread pools of this JVM run short tasks so. */
    public void settle() throws ReflectiveOperationException {
        settle(ThreadPools.getWorkerPool());
        settle(ThreadPools.getDeleteWorkerPool());
        Method ofFiles = HadoopFileIO.class.getDeclaredMethod("executorService", new Class[0]);
        ofFiles.setAccessible(true);
        HadoopFileIO files = new HadoopFileIO(new Configuration());
        settle((ExecutorService) ofFiles.invoke(files, new Object[0]));
    }

    private static void settle(ExecutorService shown) throws ReflectiveOperationException {
        Field inner = Class.forName("java.util.concurrent.Executors$DelegatedExecutorService")
            .getDeclaredField("e");
        inner.setAccessible(true);
        ExecutorService pool = (ExecutorService) inner.get(shown);
        // One JVM may open several lakes.
        if (!(pool instanceof Adaptive)) {
            inner.set(shown, new Adaptive(pool));
        }
    }

    private static final class Adaptive extends AbstractExecutorService {
        /** Longer tasks, such as reads of an object store, run beside others. */
        private static final long SHORT = 5000000L;

        private final ExecutorService pool;
        /** Nanoseconds: the longest of late. A slow task counts for some hundred quick ones. */
        private final AtomicLong longest = new AtomicLong();

        Adaptive(ExecutorService pool) {
            this.pool = pool;
        }

        public void execute(final Runnable task) {
            if (longest.get() <= SHORT) {
                run(task);
                return;
            }
            pool.execute(new Runnable() {
                public void run() {
                    Adaptive.this.run(task);
                }
            });
        }

        private void run(Runnable task) {
            long begin = System.nanoTime();
            try {
                task.run();
            } finally {
                long before = longest.get();
                longest.set(Math.max(System.nanoTime() - begin, before - before / 64));
            }
        }

        public void shutdown() {
            pool.shutdown();
        }

        public List shutdownNow() {
            return pool.shutdownNow();
        }

        public boolean isShutdown() {
            return pool.isShutdown();
        }

        public boolean isTerminated() {
            return pool.isTerminated();
        }

        public boolean awaitTermination(long time, TimeUnit unit) throws InterruptedException {
            return pool.awaitTermination(time, unit);
        }
    }
}
