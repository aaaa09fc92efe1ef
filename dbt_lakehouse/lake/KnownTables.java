import java.lang.ref.SoftReference;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.spark.SparkCatalog;

/**
 * The newest metadata of a lake's tables, for the catalogs of its sessions. Each load still asks the
 * database for the table's metadata file, and reads the file if it is another one than the last.
 */
public final class KnownTables {
    private static final int MOST = 1000;

    private final Map metadata = Collections.synchronizedMap(new LinkedHashMap(64, 0.75f, true) {
        protected boolean removeEldestEntry(Map.Entry eldest) {
            return size() > MOST;
        }
    });

    /** Let a session's catalog have what is known. One that is not in a database stays as it is. */
    public void settle(SparkCatalog session) throws ReflectiveOperationException {
        Field place = field(SparkCatalog.class, "icebergCatalog");
        Catalog opened = (Catalog) place.get(session);
        if (opened.getClass() == JdbcCatalog.class) {
            place.set(session, new Knowing(metadata, (JdbcCatalog) opened));
        }
    }

    private static Field field(Class of, String name) throws ReflectiveOperationException {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Function constant(final Object value) {
        return new Function() {
            public Object apply(Object ignored) {
                return value;
            }
        };
    }

    /** The catalog of a session, with the connections of the one that it was opened with. */
    private static final class Knowing extends JdbcCatalog {
        private final Map metadata;
        private final Method begin;

        Knowing(Map metadata, JdbcCatalog opened) throws ReflectiveOperationException {
            super(null, constant(field(JdbcCatalog.class, "connections").get(opened)), false);
            this.metadata = metadata;
            this.begin = BaseMetastoreTableOperations.class.getDeclaredMethod(
                "refreshFromMetadataLocation",
                new Class[] {String.class, Predicate.class, int.class, Function.class});
            this.begin.setAccessible(true);
            setConf(field(JdbcCatalog.class, "conf").get(opened));
            initialize(
                opened.name(), (Map) field(JdbcCatalog.class, "catalogProperties").get(opened));
        }

        protected TableOperations newTableOps(TableIdentifier table) {
            TableOperations own = super.newTableOps(table);
            SoftReference held = (SoftReference) metadata.get(table);
            TableMetadata known = held == null ? null : (TableMetadata) held.get();
            if (known != null) {
                try {
                    begin.invoke(own, new Object[] {
                        known.metadataFileLocation(), null, Integer.valueOf(0), constant(known)});
                    own.refresh();
                } catch (Exception error) {
                    // It was dropped, and there may be another one.
                    metadata.remove(table);
                    own = super.newTableOps(table);
                }
            }
            return new Remembering(metadata, table, own);
        }
    }

    /** The files of a table's operations, which write only metadata. */
    private static final class Noting implements FileIO {
        private final FileIO own;
        /** The file that was begun last. */
        private String begun = null;

        Noting(FileIO own) {
            this.own = own;
        }

        public InputFile newInputFile(String path) {
            return own.newInputFile(path);
        }

        public InputFile newInputFile(String path, long length) {
            return own.newInputFile(path, length);
        }

        public OutputFile newOutputFile(String path) {
            begun = path;
            return own.newOutputFile(path);
        }

        public void deleteFile(String path) {
            own.deleteFile(path);
        }

        public Map properties() {
            return own.properties();
        }
    }

    /**
     * The operations of a table, whose metadata are remembered as they are read. A commit that comes
     * too late takes its metadata away, which Iceberg's for databases leave.
     */
    private static final class Remembering implements TableOperations {
        private final Map metadata;
        private final TableIdentifier table;
        private final TableOperations own;
        private final Field files;
        private TableMetadata last = null;

        Remembering(Map metadata, TableIdentifier table, TableOperations own) {
            this.metadata = metadata;
            this.table = table;
            this.own = own;
            try {
                this.files = field(own.getClass(), "fileIO");
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }

        private TableMetadata remembered(TableMetadata found) {
            if (found != last && found != null && found.metadataFileLocation() != null) {
                metadata.put(table, new SoftReference(found));
            }
            last = found;
            return found;
        }

        public TableMetadata current() {
            return remembered(own.current());
        }

        public TableMetadata refresh() {
            return remembered(own.refresh());
        }

        public void commit(TableMetadata base, TableMetadata changed) {
            FileIO usual = own.io();
            Noting noting = new Noting(usual);
            use(noting);
            try {
                own.commit(base, changed);
            } catch (CommitFailedException error) {
                discard(noting.begun);
                throw error;
            } finally {
                use(usual);
            }
        }

        /** For a commit alone: others may send the files to Spark's workers, which lack our class. */
        private void use(FileIO io) {
            try {
                files.set(own, io);
            } catch (IllegalAccessException error) {
                throw new IllegalStateException(error);
            }
        }

        private void discard(String begun) {
            try {
                if (begun != null && !isKnown(own.refresh(), begun)) {
                    own.io().deleteFile(begun);
                }
            } catch (RuntimeException error) {
                // It stays, as a file of no snapshot.
            }
        }

        /** Whether it did count, though the answer of the database was lost. */
        private static boolean isKnown(TableMetadata now, String file) {
            boolean isKnown = file.equals(now.metadataFileLocation());
            for (Object each : now.previousFiles()) {
                isKnown |= file.equals(((TableMetadata.MetadataLogEntry) each).file());
            }
            return isKnown;
        }

        public FileIO io() {
            return own.io();
        }

        public EncryptionManager encryption() {
            return own.encryption();
        }

        public String metadataFileLocation(String fileName) {
            return own.metadataFileLocation(fileName);
        }

        public LocationProvider locationProvider() {
            return own.locationProvider();
        }

        public TableOperations temp(TableMetadata uncommitted) {
            return own.temp(uncommitted);
        }

        public long newSnapshotId() {
            return own.newSnapshotId();
        }

        public boolean requireStrictCleanup() {
            return own.requireStrictCleanup();
        }
    }
}
