import java.io.IOException;
import java.io.PushbackInputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.sasl.AuthenticationException;
import javax.security.sasl.AuthorizeCallback;
import org.apache.hadoop.hive.common.auth.HiveAuthUtils;
import org.apache.hive.service.ServiceException;
import org.apache.hive.service.auth.PlainSaslHelper;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService;
import org.apache.hive.service.rpc.thrift.TCloseOperationReq;
import org.apache.hive.service.rpc.thrift.TCloseOperationResp;
import org.apache.hive.service.rpc.thrift.TExecuteStatementReq;
import org.apache.hive.service.rpc.thrift.TExecuteStatementResp;
import org.apache.hive.service.rpc.thrift.TFetchResultsReq;
import org.apache.hive.service.rpc.thrift.TFetchResultsResp;
import org.apache.hive.service.rpc.thrift.TGetCrossReferenceReq;
import org.apache.hive.service.rpc.thrift.TGetCrossReferenceResp;
import org.apache.hive.service.rpc.thrift.TGetOperationStatusReq;
import org.apache.hive.service.rpc.thrift.TGetOperationStatusResp;
import org.apache.hive.service.rpc.thrift.TGetPrimaryKeysReq;
import org.apache.hive.service.rpc.thrift.TGetPrimaryKeysResp;
import org.apache.hive.service.rpc.thrift.TOpenSessionReq;
import org.apache.hive.service.rpc.thrift.TOpenSessionResp;
import org.apache.hive.service.rpc.thrift.TOperationHandle;
import org.apache.hive.service.rpc.thrift.TOperationState;
import org.apache.hive.service.rpc.thrift.TSessionHandle;
import org.apache.hive.service.rpc.thrift.TStatus;
import org.apache.hive.service.rpc.thrift.TStatusCode;
import org.apache.hive.service.server.ThreadFactoryWithGarbageCleanup;
import org.apache.thrift.TException;
import org.apache.thrift.TProcessorFactory;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TSaslServerTransport;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransportException;

/**
 * HiveServer2's connections, with our own passwords, and without the settings that its clients can
 * send: of Spark's session, and even system properties of Java. Errors are sentences.
 */
public final class Connections extends ThriftBinaryCLIService {
    /** What Hive and Spark put before an error's sentence: what failed, codes, names of classes. */
    private static final String BEFORE_SENTENCE = "^((Error running query|Failed to open new session"
        + "|([a-z]\\w*\\.)+\\w+):\\s*|\\[[\\w.]+\\] (?=([a-z]\\w*\\.)+\\w+:))+";

    /** How often it is looked whether rows should still be waited for, in milliseconds. */
    private static final long TICK = 100;

    private final String host;
    private final int port;
    private final String keystore;
    private final String keystorePassword;
    private final String users;
    private final Set settings;
    private final long queryTimeout;
    private final BooleanSupplier isFull;
    private final ExecutorService fetching =
        Executors.newCachedThreadPool(new ThreadFactoryWithGarbageCleanup("fetching"));

    /**
     * `keystore` and `users` are files or null: no TLS, any password. `queryTimeout` is of rows that
     * are asked for, in seconds; 0 for none.
     */
    public Connections(
            CLIService service,
            String host,
            int port,
            String keystore,
            String keystorePassword,
            String users,
            Set settings,
            long queryTimeout,
            BooleanSupplier isFull) {
        super(service);
        this.host = host;
        this.port = port;
        this.keystore = keystore;
        this.keystorePassword = keystorePassword;
        this.users = users;
        this.settings = settings;
        this.queryTimeout = queryTimeout;
        this.isFull = isFull;
    }

    protected void initializeServer() {
        try {
            TServerSocket socket = keystore == null
                ? HiveAuthUtils.getServerSocket(host, port)
                : HiveAuthUtils.getServerSSLSocket(
                    host,
                    port,
                    keystore,
                    keystorePassword,
                    Arrays.asList(new String[] {"SSLv2", "SSLv3", "TLSv1", "TLSv1.1"}));
            portNum = socket.getServerSocket().getLocalPort();
            // It makes the mechanism PLAIN known, too.
            TProcessorFactory processors = PlainSaslHelper.getPlainProcessorFactory(this);
            TSaslServerTransport.Factory login = new TSaslServerTransport.Factory();
            login.addServerDefinition("PLAIN", "NONE", null, new HashMap(), new Login(users));
            TThreadPoolServer.Args arguments = new TThreadPoolServer.Args(new Clients(socket));
            arguments.processorFactory(processors);
            arguments.transportFactory(login);
            arguments.protocolFactory(new TBinaryProtocol.Factory());
            arguments.executorService(new ThreadPoolExecutor(
                minWorkerThreads,
                maxWorkerThreads,
                workerKeepAliveTime,
                TimeUnit.SECONDS,
                new SynchronousQueue(),
                new ThreadFactoryWithGarbageCleanup("connection")));
            server = new TThreadPoolServer(arguments);
            server.setServerEventHandler(serverEventHandler);
        } catch (Exception error) {
            throw new ServiceException(error.getMessage(), error);
        }
    }

    public TOpenSessionResp OpenSession(TOpenSessionReq request) throws TException {
        if (request.isSetConfiguration()) {
            Iterator names = request.getConfiguration().keySet().iterator();
            while (names.hasNext()) {
                String name = (String) names.next();
                String bare = name.replaceFirst("^set:", "").replaceFirst("^hive(conf|var):", "");
                if (bare.startsWith("hive.")) {
                    // Of Hive itself, which is not here; its clients always send some.
                    names.remove();
                } else if (!name.equals("use:database") && !settings.contains(bare)) {
                    TOpenSessionResp refusal = new TOpenSessionResp();
                    refusal.setServerProtocolVersion(request.getClient_protocol());
                    refusal.setStatus(failure(
                        "settings can't be changed here, but " + settings + ": " + bare));
                    return refusal;
                }
            }
        }
        TOpenSessionResp answer = super.OpenSession(request);
        shorten(answer.getStatus());
        return answer;
    }

    /** All run in the background: clients that wait here are looked at meanwhile. */
    public TExecuteStatementResp ExecuteStatement(TExecuteStatementReq request) throws TException {
        boolean isAwaited = !request.isRunAsync();
        request.setRunAsync(true);
        TExecuteStatementResp answer = super.ExecuteStatement(request);
        shorten(answer.getStatus());
        if (isAwaited && answer.isSetOperationHandle()) {
            TStatus failure = await(answer.getOperationHandle());
            if (failure != null) {
                CloseOperation(new TCloseOperationReq(answer.getOperationHandle()));
                answer.setStatus(failure);
                answer.setOperationHandle(null);
            }
        }
        return answer;
    }

    /** Why a statement has failed, once it has ended; null if it has not. */
    private TStatus await(TOperationHandle handle) throws TException {
        TGetOperationStatusResp answer;
        do {
            if (!Client.current().isThere()) {
                return failure("the client is gone");
            }
            // It takes a while, unless the statement ends.
            answer = GetOperationStatus(new TGetOperationStatusReq(handle));
        } while (answer.getOperationState() == TOperationState.INITIALIZED_STATE
            || answer.getOperationState() == TOperationState.PENDING_STATE
            || answer.getOperationState() == TOperationState.RUNNING_STATE);
        if (answer.getOperationState() == TOperationState.FINISHED_STATE) {
            return null;
        }
        TStatus failure = failure(answer.isSetErrorMessage()
            ? answer.getErrorMessage()
            : "the statement was stopped: " + answer.getOperationState());
        failure.setSqlState(answer.getSqlState());
        return failure;
    }

    public TGetOperationStatusResp GetOperationStatus(TGetOperationStatusReq request)
            throws TException {
        TGetOperationStatusResp answer = super.GetOperationStatus(request);
        if (answer.isSetErrorMessage()) {
            answer.setErrorMessage(sentence(answer.getErrorMessage()));
        }
        return answer;
    }

    /**
     * Spark computes rows when they are asked for, a partition at a time, and nothing stops it, nor
     * limits what it keeps: so somebody else does, while this thread looks whether it should go on.
     */
    public TFetchResultsResp FetchResults(final TFetchResultsReq request) throws TException {
        Future rows = fetching.submit(new Callable() {
            public Object call() throws TException {
                return fetch(request);
            }
        });
        String refusal = null;
        for (long waited = TICK; refusal == null; waited += TICK) {
            try {
                return (TFetchResultsResp) rows.get(TICK, TimeUnit.MILLISECONDS);
            } catch (TimeoutException goesOn) {
                refusal = refusal(waited);
            } catch (ExecutionException error) {
                refusal = String.valueOf(error.getCause());
            } catch (InterruptedException stopping) {
                refusal = "the server is stopping";
            }
        }
        CloseOperation(new TCloseOperationReq(request.getOperationHandle()));
        return new TFetchResultsResp(failure(refusal));
    }

    private static TStatus failure(String error) {
        TStatus failure = new TStatus(TStatusCode.ERROR_STATUS);
        failure.setErrorMessage(error);
        return failure;
    }

    private TFetchResultsResp fetch(TFetchResultsReq request) throws TException {
        TFetchResultsResp answer = super.FetchResults(request);
        shorten(answer.getStatus());
        return answer;
    }

    /** Why rows that have been waited for so long can't be had; null if they may come. */
    private String refusal(long waited) {
        if (!Client.current().isThere()) {
            return "the client is gone";
        }
        if (queryTimeout > 0 && waited > 1000 * queryTimeout) {
            return "the rows take longer than spark.sql.thriftServer.queryTimeout: " + queryTimeout
                + " s";
        }
        if (isFull.getAsBoolean()) {
            return "the rows need more memory than the server has: ask for fewer, or give it more"
                + " (spark.driver.memory in the profile)";
        }
        return null;
    }

    /** What is closed already, as rows that were refused, is closed: clients do it once more. */
    public TCloseOperationResp CloseOperation(TCloseOperationReq request) throws TException {
        TCloseOperationResp answer = super.CloseOperation(request);
        String error = String.valueOf(answer.getStatus().getErrorMessage());
        return error.startsWith("Invalid OperationHandle")
            ? new TCloseOperationResp(new TStatus(TStatusCode.SUCCESS_STATUS))
            : answer;
    }

    /** No table has keys that are enforced; Hive would ask its metastore, which is not here. */
    public TGetPrimaryKeysResp GetPrimaryKeys(TGetPrimaryKeysReq request) throws TException {
        TExecuteStatementResp none = none(
            request.getSessionHandle(),
            "'' as TABLE_CAT, '' as TABLE_SCHEM, '' as TABLE_NAME, '' as COLUMN_NAME,"
                + " 0 as KEY_SEQ, '' as PK_NAME");
        TGetPrimaryKeysResp answer = new TGetPrimaryKeysResp(none.getStatus());
        answer.setOperationHandle(none.getOperationHandle());
        return answer;
    }

    public TGetCrossReferenceResp GetCrossReference(TGetCrossReferenceReq request)
            throws TException {
        TExecuteStatementResp none = none(
            request.getSessionHandle(),
            "'' as PKTABLE_CAT, '' as PKTABLE_SCHEM, '' as PKTABLE_NAME, '' as PKCOLUMN_NAME,"
                + " '' as FKTABLE_CAT, '' as FKTABLE_SCHEM, '' as FKTABLE_NAME, '' as FKCOLUMN_NAME,"
                + " 0 as KEY_SEQ, 0 as UPDATE_RULE, 0 as DELETE_RULE, '' as FK_NAME,"
                + " '' as PK_NAME, 0 as DEFERRABILITY");
        TGetCrossReferenceResp answer = new TGetCrossReferenceResp(none.getStatus());
        answer.setOperationHandle(none.getOperationHandle());
        return answer;
    }

    /** An answer of these columns without rows. */
    private TExecuteStatementResp none(TSessionHandle session, String columns) throws TException {
        return ExecuteStatement(
            new TExecuteStatementReq(session, "select " + columns + " where false"));
    }

    /** Leaves an error its sentence: clients show all of it, with the server's stack traces. */
    private static void shorten(TStatus status) {
        if (status.isSetErrorMessage()) {
            status.setErrorMessage(sentence(status.getErrorMessage()));
            status.setInfoMessages(null);
        }
    }

    private static String sentence(String error) {
        return error.split("\n\tat ", 2)[0].replaceFirst(BEFORE_SENTENCE, "").trim();
    }

    /** The socket of a server whose connections know whether their clients are still there. */
    private static final class Clients extends TServerSocket {
        Clients(TServerSocket socket) throws TTransportException {
            super(socket.getServerSocket());
        }

        public TSocket accept() throws TTransportException {
            try {
                Socket socket = getServerSocket().accept();
                // Of clients that were switched off, the network tells in the end.
                socket.setKeepAlive(true);
                return new Client(socket);
            } catch (IOException error) {
                throw new TTransportException(error);
            }
        }
    }

    private static final class Client extends TSocket {
        private static final ThreadLocal CURRENT = new ThreadLocal();
        private final PushbackInputStream input;

        Client(Socket socket) throws TTransportException {
            super(socket);
            input = new PushbackInputStream(inputStream_);
            inputStream_ = input;
        }

        /** The client whose request this thread has read. */
        static Client current() {
            return (Client) CURRENT.get();
        }

        public int read(byte[] buffer, int offset, int length) throws TTransportException {
            CURRENT.set(this);
            return super.read(buffer, offset, length);
        }

        /** To be asked by the thread that reads its requests, between two of them. */
        boolean isThere() {
            try {
                int timeout = getSocket().getSoTimeout();
                getSocket().setSoTimeout(1);
                try {
                    int next = input.read();
                    if (next >= 0) {
                        input.unread(next);
                    }
                    return next >= 0;
                } catch (SocketTimeoutException silent) {
                    return true;
                } finally {
                    getSocket().setSoTimeout(timeout);
                }
            } catch (IOException gone) {
                return false;
            }
        }
    }

    /** Compares passwords with a file of lines as `lakehouse password` makes them. */
    private static final class Login implements CallbackHandler {
        private final String users;
        // Digests of what has been right: to compute a hash takes most of a second.
        private final Set known = ConcurrentHashMap.newKeySet();

        Login(String users) {
            this.users = users;
        }

        public void handle(Callback[] callbacks) throws IOException {
            String name = null;
            String password = null;
            AuthorizeCallback authorize = null;
            for (int i = 0; i < callbacks.length; i++) {
                if (callbacks[i] instanceof NameCallback) {
                    name = text(((NameCallback) callbacks[i]).getName());
                } else if (callbacks[i] instanceof PasswordCallback) {
                    password = text(
                        new String(((PasswordCallback) callbacks[i]).getPassword()));
                } else if (callbacks[i] instanceof AuthorizeCallback) {
                    authorize = (AuthorizeCallback) callbacks[i];
                }
            }
            if (users != null && !isRight(name, password)) {
                throw new AuthenticationException("wrong user or password");
            }
            if (authorize != null) {
                // Nobody is let in as somebody else.
                String as = text(authorize.getAuthorizationID());
                authorize.setAuthorized(as.isEmpty() || as.equals(name));
                authorize.setAuthorizedID(name);
            }
        }

        /** Hive makes a character of each byte, whatever it may be of in UTF-8. */
        private static String text(String bytes) {
            byte[] encoded = new byte[bytes.length()];
            for (int i = 0; i < encoded.length; i++) {
                encoded[i] = (byte) bytes.charAt(i);
            }
            return new String(encoded, StandardCharsets.UTF_8);
        }

        /** Reads the file each time: who leaves or comes needs no new start. */
        private boolean isRight(String name, String password) throws IOException {
            if (name == null || password == null || password.isEmpty()) {
                return false;
            }
            Iterator lines =
                Files.readAllLines(Paths.get(users), StandardCharsets.UTF_8).iterator();
            while (lines.hasNext()) {
                String line = ((String) lines.next()).trim();
                if (line.startsWith(name + ":")) {
                    return isOf(password, line);
                }
            }
            return false;
        }

        private boolean isOf(String password, String line) throws IOException {
            try {
                byte[] both = (line + password).getBytes(StandardCharsets.UTF_8);
                String digest = Base64.getEncoder()
                    .encodeToString(MessageDigest.getInstance("SHA-256").digest(both));
                if (known.contains(digest)) {
                    return true;
                }
                String[] fields = line.split(":");
                byte[] hash = Base64.getDecoder().decode(fields[3]);
                PBEKeySpec key = new PBEKeySpec(
                    password.toCharArray(),
                    Base64.getDecoder().decode(fields[2]),
                    Integer.parseInt(fields[1]),
                    8 * hash.length);
                byte[] given = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256")
                    .generateSecret(key)
                    .getEncoded();
                boolean isRight = MessageDigest.isEqual(hash, given);
                if (isRight) {
                    known.add(digest);
                }
                return isRight;
            } catch (GeneralSecurityException error) {
                throw new IOException(error.getMessage(), error);
            }
        }
    }
}
