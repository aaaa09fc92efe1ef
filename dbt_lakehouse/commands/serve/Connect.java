import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.spark.SparkContext;
import org.apache.spark.connect.proto.AnalyzePlanRequest;
import org.apache.spark.connect.proto.ConfigRequest;
import org.apache.spark.connect.proto.ExecutePlanRequest;
import org.apache.spark.connect.proto.ExecutePlanResponse;
import org.apache.spark.connect.proto.LocalRelation;
import org.apache.spark.connect.proto.ReattachExecuteRequest;
import org.apache.spark.connect.proto.Relation;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connect.service.ExecuteHolder;
import org.apache.spark.sql.connect.service.SparkConnectExecutionManager;
import org.apache.spark.sql.connect.service.SparkConnectService$;
import org.sparkproject.connect.google_protos.rpc.Code;
import org.sparkproject.connect.google_protos.rpc.Status;
import org.sparkproject.connect.grpc.ForwardingServerCall;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.protobuf.StatusProto;
import org.sparkproject.connect.protobuf.Descriptors;
import org.sparkproject.connect.protobuf.Message;
import scala.Option;

/**
 * Spark Connect's server, behind a door that lets pass what reads. Spark sees nothing else of what
 * clients send: it looks into functions and serialized objects while it still makes a plan of them.
 */
public final class Connect {
    private static final String PACKAGE = "spark.connect.";

    /** How often it is looked whether executions may go on, in milliseconds. */
    private static final long TICK = 100;

    /** How long an execution waits for a client whose connection has ended, in seconds. */
    private static final long PATIENCE = 5;

    /** How many of what is kept for clients: the eldest are forgotten. */
    private static final int MOST = 4000;

    private static Connect running;

    private final Set fields;
    private final Set executed;
    private final Set settings;
    private final Set told;
    private final long queryTimeout;
    private final BooleanSupplier isFull;
    private final Object beginning = new Object();
    private final Map begun = Collections.synchronizedMap(new WeakHashMap());
    // Of answers to commands, digests: clients ask for their rows by sending them.
    private final Map answers = Collections.synchronizedMap(new Recent());
    // The last call for an execution, and why an execution was ended.
    private final Map calls = Collections.synchronizedMap(new Recent());
    private final Map ended = Collections.synchronizedMap(new Recent());
    private volatile boolean isStopped = false;

    /**
     * Starts the server. What may be in requests: `fields` of messages, `executed` of which not in
     * analyses; `settings` that are set, and `told`. `queryTimeout` is in seconds; 0 for none.
     */
    public Connect(
            SparkContext context,
            Set fields,
            Set executed,
            Set settings,
            Set told,
            long queryTimeout,
            BooleanSupplier isFull) {
        this.fields = fields;
        this.executed = executed;
        this.settings = settings;
        this.told = told;
        this.queryTimeout = queryTimeout;
        this.isFull = isFull;
        if (SparkConnectService$.MODULE$.started()) {
            throw new IllegalStateException(
                "its server runs already, and answers everything: take it out of spark.plugins");
        }
        running = this;
        // Spark makes the door by its name, with this thread's loader of classes.
        Thread thread = Thread.currentThread();
        ClassLoader loader = thread.getContextClassLoader();
        thread.setContextClassLoader(Connect.class.getClassLoader());
        try {
            context.env().conf().set("spark.connect.grpc.interceptor.classes", Door.class.getName());
            SparkConnectService$.MODULE$.start(context);
        } finally {
            thread.setContextClassLoader(loader);
        }
        Thread.setDefaultUncaughtExceptionHandler(new Quiet());
        Thread watch = new Thread("watch of Spark Connect") {
            public void run() {
                watch();
            }
        };
        watch.setDaemon(true);
        watch.start();
    }

    public int port() {
        return SparkConnectService$.MODULE$.localPort();
    }

    public void stop() {
        isStopped = true;
        SparkConnectService$.MODULE$.stop(Option.empty(), Option.empty());
    }

    private void watch() {
        while (!isStopped) {
            try {
                Thread.sleep(TICK);
                look();
            } catch (Throwable failed) {
                // It is needed most when there is no memory for what it does.
                continue;
            }
        }
    }

    /** Ends executions that have to, and all of them when their rows would fill the memory. */
    private void look() {
        SparkConnectExecutionManager manager = SparkConnectService$.MODULE$.executionManager();
        scala.collection.Iterator executions = manager.listExecuteHolders().iterator();
        boolean mustEnd = executions.hasNext() && isFull.getAsBoolean();
        while (executions.hasNext()) {
            ExecuteHolder execution = (ExecuteHolder) executions.next();
            String reason = mustEnd
                ? "the rows need more memory than the server has: ask for fewer, or give it more"
                    + " (spark.driver.memory in the profile)"
                : reasonToEnd(execution);
            if (reason != null) {
                ended.put(execution.operationId(), reason);
                manager.removeExecuteHolder(execution.key(), true);
            }
        }
    }

    /** Why an execution has to end; null if it may go on. */
    private String reasonToEnd(ExecuteHolder execution) {
        if (queryTimeout > 0 && seconds(execution.creationTimeNs()) > queryTimeout) {
            return "the query takes longer than spark.sql.thriftServer.queryTimeout: "
                + queryTimeout + " s";
        }
        Answering call = (Answering) calls.get(execution.operationId());
        return call != null && call.isLeft() ? "the client is gone" : null;
    }

    private static long seconds(long since) {
        return TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - since);
    }

    /** Why a message can't pass; null if it can. */
    private String refusal(Message message, boolean isAnalysis) {
        String name = message.getDescriptorForType().getFullName();
        if (!name.startsWith(PACKAGE) || !message.getUnknownFields().asMap().isEmpty()) {
            return refusal("a field that Spark does not know in " + name);
        }
        name = name.substring(PACKAGE.length());
        if (message instanceof LocalRelation) {
            return answers.containsKey(digest(message)) ? null : refusal("data of the client's own");
        }
        boolean isEntry = message.getDescriptorForType().getOptions().getMapEntry();
        Iterator parts = message.getAllFields().entrySet().iterator();
        while (parts.hasNext()) {
            Map.Entry part = (Map.Entry) parts.next();
            String field = name + "." + ((Descriptors.FieldDescriptor) part.getKey()).getName();
            if (!isEntry && !fields.contains(field) || isAnalysis && executed.contains(field)) {
                return refusal(field);
            }
            Iterator values = part.getValue() instanceof List
                ? ((List) part.getValue()).iterator()
                : Collections.singleton(part.getValue()).iterator();
            while (values.hasNext()) {
                Object value = values.next();
                String refusal = null;
                if (value instanceof Message) {
                    refusal = refusal((Message) value, isAnalysis);
                }
                if (refusal == null && name.startsWith("ConfigRequest.")) {
                    refusal = settingRefusal(name, value);
                }
                if (refusal != null) {
                    return refusal;
                }
            }
        }
        return null;
    }

    private static String refusal(String what) {
        return "only queries are answered here, and this is " + what
            + ": the lake's tables are written by `dbt run`";
    }

    private String settingRefusal(String operation, Object value) {
        String name;
        if (operation.equals("ConfigRequest.Operation") || value instanceof Boolean) {
            return null;
        } else if (value instanceof Message) {
            name = (String) field((Message) value, "key");
        } else {
            name = (String) value;
        }
        return (operation.equals("ConfigRequest.Set") ? settings : told).contains(name)
            ? null
            : "settings can't be read or changed here, but " + settings + ": " + name;
    }

    private static Object field(Message message, String name) {
        return message.getField(message.getDescriptorForType().findFieldByName(name));
    }

    /** Has a session, the first time, look for tables where all others do. */
    private void begin(Message request) {
        SparkSession session;
        try {
            session = SparkConnectService$.MODULE$.getOrCreateIsolatedSession(
                (String) field((Message) field(request, "user_context"), "user_id"),
                (String) field(request, "session_id"),
                Option.empty()).session();
        } catch (Exception error) {
            // Spark does the same once more, and says why it can't.
            return;
        }
        if (!begun.containsKey(session)) {
            synchronized (beginning) {
                if (!begun.containsKey(session)) {
                    session.sql("use default");
                    begun.put(session, Boolean.TRUE);
                }
            }
        }
    }

    /** Answers a call that came while the server ends: its Spark may be half gone. */
    private static void closeAsStopped(ServerCall call) {
        call.close(
            org.sparkproject.connect.grpc.Status.UNAVAILABLE.withDescription("the server stops"),
            new Metadata());
    }

    private static String digest(Message message) {
        try {
            return Base64.getEncoder().encodeToString(
                MessageDigest.getInstance("SHA-256").digest(message.toByteArray()));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private static final class Recent extends LinkedHashMap {
        protected boolean removeEldestEntry(Map.Entry eldest) {
            return size() > MOST;
        }
    }

    /** An execution that is ended while it fails tells both, and so fails once more. */
    private static final class Quiet implements Thread.UncaughtExceptionHandler {
        public void uncaughtException(Thread thread, Throwable error) {
            if (!thread.getName().startsWith("SparkConnectExecuteThread")) {
                System.err.print("Exception in thread \"" + thread.getName() + "\" ");
                error.printStackTrace();
            }
        }
    }

    /** What Spark asks of each call before it does. */
    public static final class Door implements ServerInterceptor {
        public ServerCall.Listener interceptCall(
                ServerCall call, Metadata headers, ServerCallHandler next) {
            String name = call.getMethodDescriptor().getBareMethodName();
            if (!running.fields.contains(name + "Request.session_id")) {
                close(call, refusal(name));
                return new ServerCall.Listener() {};
            }
            Answering answering = new Answering(running, call);
            return new Asking(running, answering, next.startCall(answering, headers));
        }
    }

    private static void close(ServerCall call, String refusal) {
        // PySpark shows this without codes and stack traces.
        Status status = Status.newBuilder()
            .setCode(Code.PERMISSION_DENIED_VALUE)
            .setMessage(refusal)
            .build();
        call.close(
            org.sparkproject.connect.grpc.Status.PERMISSION_DENIED.withDescription(refusal),
            StatusProto.toStatusRuntimeException(status).getTrailers());
    }

    /** What Spark answers to a call. */
    private static final class Answering extends ForwardingServerCall.SimpleForwardingServerCall {
        private final Connect connect;
        private volatile String operation = "";
        private long leftAt = 0;

        Answering(Connect connect, ServerCall call) {
            super(call);
            this.connect = connect;
        }

        /** Whether the connection has ended, and no other call has come since. */
        boolean isLeft() {
            if (isCancelled() && leftAt == 0) {
                leftAt = System.nanoTime();
            }
            return isCancelled() && seconds(leftAt) >= PATIENCE;
        }

        public void sendMessage(Object message) {
            if (message instanceof ExecutePlanResponse) {
                Relation answer =
                    ((ExecutePlanResponse) message).getSqlCommandResult().getRelation();
                if (answer.hasLocalRelation()) {
                    connect.answers.put(digest(answer.getLocalRelation()), Boolean.TRUE);
                }
            }
            super.sendMessage(message);
        }

        public void close(org.sparkproject.connect.grpc.Status status, Metadata trailers) {
            String reason = (String) connect.ended.get(operation);
            if (reason == null || status.isOk()) {
                super.close(status, trailers);
            } else {
                Connect.close(delegate(), reason);
            }
        }
    }

    /** What a client asks in a call. */
    private static final class Asking extends ServerCall.Listener {
        private final Connect connect;
        private final Answering answering;
        // None once the call is refused.
        private ServerCall.Listener listener;

        Asking(Connect connect, Answering answering, ServerCall.Listener listener) {
            this.connect = connect;
            this.answering = answering;
            this.listener = listener;
        }

        public void onMessage(Object message) {
            if (listener == null) {
                return;
            }
            Message request = (Message) message;
            String refusal = connect.refusal(request, request instanceof AnalyzePlanRequest);
            if (refusal != null) {
                listener = null;
                Connect.close(answering, refusal);
                return;
            }
            if (request instanceof ExecutePlanRequest
                || request instanceof ReattachExecuteRequest) {
                answering.operation = (String) field(request, "operation_id");
                connect.calls.put(answering.operation, answering);
            }
            if (request instanceof ExecutePlanRequest || request instanceof AnalyzePlanRequest
                || request instanceof ConfigRequest) {
                try {
                    connect.begin(request);
                } catch (Exception failed) {
                    // Scala throws what it does not declare.
                    if (!connect.isStopped) {
                        throw new IllegalStateException(failed);
                    }
                }
            }
            if (connect.isStopped) {
                listener = null;
                closeAsStopped(answering);
                return;
            }
            listener.onMessage(message);
        }

        public void onHalfClose() {
            if (listener != null) {
                listener.onHalfClose();
            }
        }

        public void onReady() {
            if (listener != null) {
                listener.onReady();
            }
        }

        public void onCancel() {
            if (listener != null) {
                listener.onCancel();
            }
        }

        public void onComplete() {
            connect.calls.remove(answering.operation, answering);
            if (listener != null) {
                listener.onComplete();
            }
        }
    }
}
