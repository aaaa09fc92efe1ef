import java.io.IOException;
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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
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
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService;
import org.apache.hive.service.rpc.thrift.TOpenSessionReq;
import org.apache.hive.service.rpc.thrift.TOpenSessionResp;
import org.apache.hive.service.server.ThreadFactoryWithGarbageCleanup;
import org.apache.thrift.TProcessorFactory;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TSaslServerTransport;
import org.apache.thrift.transport.TServerSocket;

/**
 * HiveServer2's connections, with our own passwords, and without the settings that its clients can
 * send: of Spark's session, and even system properties of Java.
 */
public final class Connections extends ThriftBinaryCLIService {
    private final String host;
    private final int port;
    private final String keystore;
    private final String keystorePassword;
    private final String users;
    private final Set settings;

    /** `keystore` and `users` are files or null: no TLS, any password. */
    public Connections(
            CLIService service,
            String host,
            int port,
            String keystore,
            String keystorePassword,
            String users,
            Set settings) {
        super(service);
        this.host = host;
        this.port = port;
        this.keystore = keystore;
        this.keystorePassword = keystorePassword;
        this.users = users;
        this.settings = settings;
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
            TThreadPoolServer.Args arguments = new TThreadPoolServer.Args(socket);
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

    public TOpenSessionResp OpenSession(TOpenSessionReq request) throws org.apache.thrift.TException {
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
                    refusal.setStatus(HiveSQLException.toTStatus(new HiveSQLException(
                        "settings can't be changed here, but " + settings + ": " + bare)));
                    return refusal;
                }
            }
        }
        return super.OpenSession(request);
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
