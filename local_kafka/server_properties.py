"""A broker's settings, and ``server.properties``, the file from which it reads them."""

import re
import secrets
import struct
from collections.abc import Mapping
from typing import Final

from dbt_lakehouse.config.paths import LOOPBACK

# The broker's own user: it connects to itself through the clients' listener (transaction
# markers).
BROKER_USER: Final = "broker"
# As JAAS, with the syntax of Java's StreamTokenizer, reads a name.
USER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

DEFAULTS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "CLIENT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    # One node can't replicate.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Delays of the first consumer and the first transaction.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker's registration must expire before it may return: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Messages keep the times of their source, which may be long ago or, by this machine's clock,
    # in the future. So nothing is deleted for its age, refused, or put into a segment of its own.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "log.message.timestamp.type": "CreateTime",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "log.roll.ms": "9223372036854775807",
    # Retention, where a topic has any, is checked from the start.
    "log.initial.task.delay.ms": "500",
    # A message of 10 MB and its overhead.
    "message.max.bytes": "12582912",
    "replica.fetch.max.bytes": "12582912",
    # Small: the default alone is 128 MB of heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}


def properties(
    address: str,
    controller_port: int,
    users: Mapping[str, str] | None,
    settings: Mapping[str, str],
) -> str:
    """The text of the file, in ASCII, for a broker that clients find at ``address``.

    ``users``: names and passwords, None for access without authentication. ``settings`` replace
    defaults of the same name.
    """
    own = {
        **DEFAULTS,
        "listeners": f"CLIENT://{address},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"CLIENT://{address}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        # Relative, because a comma would split it.
        "log.dirs": "data",
    }
    if users is not None:
        own |= _authentication(users)
    return "".join(
        f"{_escape(name)}={_escape(value)}\n" for name, value in (own | dict(settings)).items()
    )


def check_users(users: Mapping[str, str]) -> None:
    """Raise ``ValueError`` for a name or a password that can't be written."""
    for user, password in users.items():
        if not USER_NAME.fullmatch(user) or user == BROKER_USER:
            raise ValueError(f"{user!r} can't be the name of a user")
        if not password.isprintable():
            raise ValueError(f"the password of {user} has characters that can't be printed")


def _authentication(users: Mapping[str, str]) -> dict[str, str]:
    """The settings that make clients authenticate (SASL_PLAINTEXT, PLAIN), the broker
    itself too.
    """
    word = secrets.token_hex(16)
    known = {**users, BROKER_USER: word}
    return {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' username="{BROKER_USER}" password="{word}"'
            + "".join(f" user_{user}={_quote(each)}" for user, each in known.items())
            + ";"
        ),
    }


def _quote(password: str) -> str:
    """A string for a JAAS configuration."""
    return '"' + password.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    """A name or a value for a Java properties file, which is Latin-1 with escapes in UTF-16."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "=": "\\=", ":": "\\:", "#": "\\#"}
    escapes |= {"!": "\\!", " ": "\\ ", "\t": "\\t", "\f": "\\f"}
    units = text.encode("utf-16-be", "surrogatepass")
    chars = [chr(unit) for (unit,) in struct.iter_unpack(">H", units)]
    return "".join(
        escapes.get(char, char if " " < char <= "~" else f"\\u{ord(char):04x}") for char in chars
    )
