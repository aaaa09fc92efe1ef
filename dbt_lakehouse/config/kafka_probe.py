"""Check that the brokers in a profile can be reached, without a Kafka client."""

import socket
import ssl
import struct
from typing import Final

from dbt_lakehouse.config.kafka import PREFIX, KafkaSettings
from dbt_lakehouse.errors import ConfigurationError, KafkaError

_CONNECT_SECONDS: Final = 3.0
_ANSWER_SECONDS: Final = 4.0


def probe(settings: KafkaSettings) -> None:
    """Raise ``KafkaError`` unless one of the bootstrap servers speaks Kafka's protocol.

    It needs no JVM, so it can run before Spark starts; the AdminClient would take its whole
    timeout to find out.
    """
    secure = settings.security_protocol in ("SSL", "SASL_SSL")
    reasons = []
    for server in (each.strip() for each in settings.servers.split(",")):
        try:
            with socket.create_connection(_address(server), timeout=_CONNECT_SECONDS) as connection:
                connection.settimeout(_ANSWER_SECONDS)
                if secure:
                    _shake_hands(connection)
                else:
                    _ask_versions(connection)
        except OSError as error:
            reasons.append(f"{server} ({error.strerror or error})")
        else:
            return
    raise KafkaError(
        f"no Kafka broker can be reached: {', '.join(reasons)}. Is it running, and are"
        f" {PREFIX}bootstrap.servers and {PREFIX}security.protocol"
        f" ({settings.security_protocol}) in the profile right?"
    )


def _ask_versions(connection: socket.socket) -> None:
    """Send ApiVersions, the first request that a broker answers, even without a login.

    Raises ``OSError`` if there is no answer. Source: Kafka's protocol guide, ApiVersions, version
    0.
    """
    api_versions, version, correlation = 18, 0, 1
    request = struct.pack(">hhih", api_versions, version, correlation, -1)
    connection.sendall(struct.pack(">i", len(request)) + request)
    # A socket with a timeout may return less than requested; its file doesn't.
    with connection.makefile("rb") as answers:
        answer = answers.read(8)
    if len(answer) < 8 or struct.unpack(">ii", answer)[1] != correlation:
        raise ConnectionError("it accepts connections, but does not answer as Kafka does")


def _shake_hands(connection: socket.socket) -> None:
    """Begin TLS. Raises ``OSError`` if the other side doesn't; trust, and a certificate of our
    own, are left to Kafka's client.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLEOFError:
        raise ConnectionError("it accepts connections, but does not speak TLS") from None
    except ssl.SSLError as error:
        # An alert is an answer.
        if "ALERT" not in (error.reason or ""):
            raise


def _address(server: str) -> tuple[str, int]:
    # Kafka's own rule: an optional protocol, and brackets around an IPv6 address.
    host, colon, port = server.rpartition("://")[2].rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise ConfigurationError(
            f"{PREFIX}bootstrap.servers in the profile has {server!r}: write host:port"
        )
    return host.strip("[]"), int(port)
