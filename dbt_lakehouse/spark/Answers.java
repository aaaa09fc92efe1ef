import java.net.SocketException;
import py4j.DefaultGatewayServerListener;
import py4j.Py4JServerConnection;

/** Sends all of an answer to Python at once. */
public final class Answers extends DefaultGatewayServerListener {
    public void connectionStarted(Py4JServerConnection connection) {
        try {
            connection.getSocket().setTcpNoDelay(true);
        } catch (SocketException error) {
            // Closed again.
        }
    }
}
