"""A Kafka broker of one's own: a single KRaft node on 127.0.0.1, run from Maven jars.

    with Broker(folder) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It is the real broker (``kafka.Kafka``), set up to be small and quick to start rather than fast or
safe: one node that is broker and controller, replication factor 1, the JVM's quick compiler. All it
writes is in its folder: ``data``, ``server.properties``, ``broker.log``.

It never outlives the process that started it, even one that is killed: see ``Broker.start``.
"""

import hashlib
import os
import random
import re
import secrets
import shutil
import socket
import struct
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import pyspark

from dbt_lakehouse.jars import Jar, ensure_jars
from dbt_lakehouse.paths import CACHE, LOOPBACK

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
# What the log of the broker says when it takes part in its cluster, so after it opened its port.
STARTED: Final = b"] Kafka Server started"
LOG_TAIL_BYTES: Final = 6_000
# Below the ports that Linux and macOS give to outgoing connections: such a one could take the
# broker's port while it is stopped, and a client that knocks there could even connect to itself.
PORTS: Final = range(20_000, 32_000)
# The broker's own user: it speaks to itself through the clients' listener (transaction markers).
BROKER_USER: Final = "broker"
# As JAAS, whose syntax is Java's StreamTokenizer, reads a name.
USER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

# What kafka_2.13 asks for, without what only its other tools, OAuth and the compiler need:
# scala-reflect, jose4j, jackson-dataformat-csv, jackson-dataformat-yaml, jackson-datatype-jdk8,
# snakeyaml, jspecify, kafka-tools-api, and what commons-validator needs to read XML.
BROKER_JARS: Final = (
    Jar(
        "org.apache.kafka:kafka_2.13:4.1.1",
        "e89428126cc7630a802123ba27aac4442816840b66d60670226feaff65f24fd1",
    ),
    Jar(
        "org.apache.kafka:kafka-clients:4.1.1",
        "00247122a572c3d3ae4eb60a50192a5811bc0181f51923d13018600f892e821d",
    ),
    Jar(
        "com.github.luben:zstd-jni:1.5.6-10",
        "b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df",
    ),
    Jar(
        "org.lz4:lz4-java:1.8.0",
        "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef",
    ),
    Jar(
        "org.xerial.snappy:snappy-java:1.1.10.7",
        "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
    ),
    Jar(
        "org.apache.kafka:kafka-server-common:4.1.1",
        "207edecd8322cf6c13d76d84addea7fd0ec441dc8d698cf69df43210ccdc0a94",
    ),
    Jar(
        "org.apache.kafka:kafka-group-coordinator-api:4.1.1",
        "3d1801d2329dcf7d273796a034d61e6c7e0f851f384d0afbdd3a2e6cbd17a968",
    ),
    Jar(
        "org.apache.kafka:kafka-group-coordinator:4.1.1",
        "3eb5a673b69d5992cfa86c5436f39adbf4ce284046a4c999ec6af0a8e31c5589",
    ),
    Jar(
        "org.apache.kafka:kafka-transaction-coordinator:4.1.1",
        "a261b5730ac9e3205df7af5d45180d851e9d5f729ce1275c67511a6f51f73755",
    ),
    Jar(
        "org.apache.kafka:kafka-metadata:4.1.1",
        "a689665751415b6456de1ecb013042cb7ba99ac68fd8c3e8bf28e098feb43218",
    ),
    Jar(
        "org.apache.kafka:kafka-storage-api:4.1.1",
        "8c0a712472185d706c6bf5ae24bf5d84a8e396fd4745c708e6146a415f7fa7f7",
    ),
    Jar(
        "org.apache.kafka:kafka-raft:4.1.1",
        "4810c93d93d1935dd54de61c5ba130f501c7fe11bc49ccd3ee05ec857818a72a",
    ),
    Jar(
        "org.apache.kafka:kafka-storage:4.1.1",
        "1f85b82853eaec0143efbef7e3a4d4be8929ff83a386326431e0c2d0a557e58c",
    ),
    Jar(
        "org.apache.kafka:kafka-server:4.1.1",
        "9f6aff422855491aad54326eca8d604163d6d3a6507cc48ffe3ce6de73caf79a",
    ),
    Jar(
        "org.apache.kafka:kafka-coordinator-common:4.1.1",
        "2072fc1ce7e0505149bba22a463a5909a899c6235c4fa696f15c21194a7baf60",
    ),
    Jar(
        "org.apache.kafka:kafka-share-coordinator:4.1.1",
        "e6bec53428c77bf6579321836d482542a93575f7c08e860a26c9f2c7f6059dac",
    ),
    Jar(
        "net.sourceforge.argparse4j:argparse4j:0.7.0",
        "65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56",
    ),
    Jar(
        "commons-validator:commons-validator:1.9.0",
        "c3c14748e2d78db58df88808740711bd643b32c45ffa7b8a739f00fb467cd7d7",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-databind:2.19.0",
        "ceda311f476c3b18e1d2b240c94e2dcb9c8d44e70f8afa9facab88bac4ddc03a",
    ),
    Jar(
        "net.sf.jopt-simple:jopt-simple:5.0.4",
        "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
    ),
    Jar(
        "com.yammer.metrics:metrics-core:2.2.0",
        "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c",
    ),
    Jar(
        "com.typesafe.scala-logging:scala-logging_2.13:3.9.5",
        "87a3017d3f43e6ace7566fe4c3d615134c6914ff871c8d64bb32ca1d996d0545",
    ),
    Jar(
        "com.google.re2j:re2j:1.8",
        "7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7",
    ),
    Jar(
        "org.pcollections:pcollections:4.0.2",
        "2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-annotations:2.19.0",
        "ead60e9cac0e42b57092b9e2d087ff43536e9477d4486ba393037a8cc156cda7",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-core:2.19.0",
        "da8e859bac94874528116a25f20c68560e4287acbf27628711b8a4f96b028430",
    ),
    Jar(
        "org.hdrhistogram:HdrHistogram:2.2.2",
        "22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8",
    ),
    Jar(
        "com.dynatrace.hash4j:hash4j:0.22.0",
        "23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e",
    ),
    Jar(
        "com.github.ben-manes.caffeine:caffeine:3.2.0",
        "ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7",
    ),
)
# PySpark brings these in versions that fit: Scala's library, and logging.
PYSPARK_JARS: Final = (
    "scala-library",
    "slf4j-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
)

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
    # What makes the first consumer and the first transaction wait.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker's registration must run out before it may return: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Messages keep the times of their source, which may be long ago or, by the clock of this
    # machine, to come: nothing is deleted for its age, refused, or put into a segment of its own.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "log.message.timestamp.type": "CreateTime",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "log.roll.ms": "9223372036854775807",
    # Retention, where a topic has some, is looked at from the start on.
    "log.initial.task.delay.ms": "500",
    # A message of 10 MB and what belongs to it.
    "message.max.bytes": "12582912",
    "replica.fetch.max.bytes": "12582912",
    # Small: the default alone is 128 MB of heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}

# In the broker's folder; the JVM writes it while it ends.
WRITTEN_CLASSES: Final = Path("tmp") / "classes.jsa"

# Waits for a line, then becomes the program that its arguments name.
BECOME: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")

LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
# Each prints all settings, passwords hidden, but hundreds of lines.
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
logger.kafkaconfig.name = kafka.server.KafkaConfig
logger.kafkaconfig.level = warn
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
"""


class BrokerError(Exception):
    """The broker can't be started; the message says why, with the end of its log where it helps."""


class PortError(BrokerError):
    """Another program has the broker's port, or it is one that only root may use."""


class Broker:
    """A broker in ``folder``, which is made if it is missing and kept when the broker stops.

    ``port``: None for a free one, which the object keeps: stopped and started again, by ``stop`` or
    by ``kill``, the broker serves the same address with the same data.
    ``users``: names and passwords. With them clients must authenticate (SASL_PLAINTEXT, PLAIN).
    ``settings``: of ``server.properties``, in place of the defaults or beside them.
    ``memory``: the JVM's heap, as ``-Xmx`` takes it; 96m is enough to move a few hundred megabytes.

    As a context manager it starts on entering and stops on leaving.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        memory: str = "96m",
    ) -> None:
        for user, password in (users or {}).items():
            if not USER_NAME.fullmatch(user) or user == BROKER_USER:
                raise ValueError(f"{user!r} can't be the name of a user")
            if not password.isprintable():
                raise ValueError(f"the password of {user} has characters that can't be printed")
        self.folder: Final = folder.resolve()
        self.port: Final = _free_port() if port is None else port
        self.log: Final = self.folder / "broker.log"
        self._users: Final = dict(users) if users is not None else None
        self._settings: Final = dict(settings or {})
        self._memory: Final = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._classes: Path

    @property
    def bootstrap_servers(self) -> str:
        """The address, as clients take it."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the JVM. Raises ``BrokerError`` if the broker was not started."""
        if self._process is None:
            raise BrokerError(f"the broker at {self.bootstrap_servers} is not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the broker was started and its process is still there."""
        if self._process is not None and self._process.poll() is not None:
            self._release()
        return self._process is not None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker and wait until it answers; nothing to do if it runs already.

        Raises ``BrokerError``, with the end of its log if it ends or does not answer within 60 s,
        and ``JarError`` if its jars can't be had.

        Two processes make sure that it ends with this one, on Linux and macOS alike. A shell waits
        for a word on a pipe and then becomes the JVM; another waits on a pipe whose other end only
        this process holds, and kills the JVM when that end closes. No moment is left in which the
        JVM runs without the guard.
        """
        if self.running:
            return
        problem = _listening_problem(self.port)
        if problem is not None:
            raise PortError(f"can't listen on {self.bootstrap_servers}: {problem}")
        java = self._java()
        self._configure()
        with self.log.open("ab") as log:
            offset = log.tell()
            if not (self.folder / "data" / "meta.properties").exists():
                self._format(java, log, offset)
            if not self._classes.exists():
                java.append(f"-XX:ArchiveClassesAtExit={self.folder / WRITTEN_CLASSES}")
            self._process = subprocess.Popen(
                [*BECOME, *java, "kafka.Kafka", "server.properties"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=_environment(),
                # Ctrl-C is for whoever started the broker, who then stops it.
                start_new_session=True,
            )
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", f"read -r done || kill -9 {self._process.pid}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            _say(self._process, "go")
            self._wait_until_started(offset)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the broker and wait for its end; kill it if that takes more than 15 s."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
                self._keep_classes()
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._release()

    def kill(self) -> None:
        """Kill the broker, as a power cut would, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._release()

    def _release(self) -> None:
        """Forget the process, which has ended, before its id can belong to another."""
        if self._guard is not None:
            _say(self._guard, "done")
            self._guard.wait()
        for process in (self._guard, self._process):
            if process is not None and process.stdin is not None:
                process.stdin.close()
        self._guard = self._process = None

    def _java(self) -> list[str]:
        """The JVM's command line, up to the class."""
        home = os.environ.get("JAVA_HOME")
        java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
        if java is None:
            raise BrokerError(f"no Java found{f' in JAVA_HOME={home}' if home else ''}")
        temporary = self.folder / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        (self.folder / "log4j2.properties").write_text(LOG4J)
        jars = [*ensure_jars(BROKER_JARS), *(_pyspark_jar(name) for name in PYSPARK_JARS)]
        self._classes = _class_archive(java, jars)
        return [
            java,
            # The classes that an earlier broker has loaded: a start takes two thirds of the time.
            *([f"-XX:SharedArchiveFile={self._classes}"] if self._classes.exists() else []),
            # An archive of another JVM is passed over; not a word about it.
            "-Xlog:cds*=error",
            f"-Xmx{self._memory}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Duser.timezone=UTC",
            "-Duser.language=en",
            "-Dfile.encoding=UTF-8",
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.io.tmpdir={temporary}",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars)),
        ]

    def _keep_classes(self) -> None:
        """Give later brokers the archive that the JVM has written while it ended, if it had to."""
        written = self.folder / WRITTEN_CLASSES
        if written.exists():
            # Beside the target first: a rename is atomic, so no process sees half an archive.
            partial = self._classes.with_suffix(f".{os.getpid()}")
            shutil.copyfile(written, partial)
            partial.replace(self._classes)
            written.unlink()

    def _configure(self) -> None:
        properties = self.folder / "server.properties"
        # It may hold passwords.
        properties.touch(mode=0o600)
        lines = (f"{_escape(name)}={_escape(value)}\n" for name, value in self._all_settings())
        properties.write_text("".join(lines), encoding="ascii")

    def _format(self, java: list[str], log: BinaryIO, offset: int) -> None:
        """Make the data folder of a new cluster."""
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        # With an equals sign, because the id may begin with a dash.
        options = [f"--cluster-id={cluster}", "--config=server.properties"]
        done = subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=_environment(),
            check=False,
        )
        if done.returncode != 0:
            raise BrokerError(f"the data folder can't be formatted:\n{self._log_tail(offset)}")

    def _all_settings(self) -> list[tuple[str, str]]:
        controller = _free_port()
        settings = {
            **DEFAULTS,
            "listeners": f"CLIENT://{self.bootstrap_servers},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": f"CLIENT://{self.bootstrap_servers}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            # Relative, because a comma would part it.
            "log.dirs": "data",
        }
        if self._users is not None:
            own = secrets.token_hex(16)
            known = {**self._users, BROKER_USER: own}
            settings |= {
                "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required"
                    f' username="{BROKER_USER}" password="{own}"'
                    + "".join(f" user_{user}={_quote(word)}" for user, word in known.items())
                    + ";"
                ),
            }
        return list((settings | self._settings).items())

    def _wait_until_started(self, offset: int) -> None:
        """Wait for the log, from ``offset`` on, to say so, and for the port to answer."""
        process = self._process
        assert process is not None
        deadline = time.monotonic() + START_SECONDS
        with self.log.open("rb") as log:
            log.seek(offset)
            said = b""
            while STARTED not in said or not _answers(self.port):
                if process.poll() is not None:
                    reason = f"ended with code {process.returncode} while it started"
                    raise BrokerError(f"the broker {reason}:\n{self._log_tail(offset)}")
                if time.monotonic() > deadline:
                    reason = f"does not answer after {START_SECONDS:.0f} s"
                    raise BrokerError(f"the broker {reason}:\n{self._log_tail(offset)}")
                time.sleep(0.02)
                # The end of what was read before stays: the line may come in two pieces.
                said = said[-len(STARTED) :] if STARTED not in said else said
                said += log.read()

    def _log_tail(self, offset: int) -> str:
        """The end of the log of this start, and where the rest is."""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(offset, end - LOG_TAIL_BYTES))
            return f"{log.read().decode('utf-8', 'replace').strip()}\n(all of it: {self.log})"


def _environment() -> dict[str, str]:
    """An environment without what would lead the JVM astray (CLASSPATH, JAVA_TOOL_OPTIONS, ...)."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _pyspark_jar(artifact: str) -> Path:
    found = list((Path(pyspark.__file__).parent / "jars").glob(f"{artifact}-[0-9]*.jar"))
    if len(found) != 1:
        raise BrokerError(f"PySpark has {len(found)} jars of {artifact}, expected one")
    return found[0]


def _class_archive(java: str, jars: list[Path]) -> Path:
    """Where the archive of loaded classes is, one for each JVM and class path."""
    program = Path(java).resolve()
    made_of = [str(program), str(program.stat().st_mtime_ns), *map(str, jars)]
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()
    return CACHE / "jars" / f"kafka-classes-{digest[:16]}.jsa"


def _say(process: subprocess.Popen[bytes], word: str) -> None:
    """Write a line to the standard input of a process that may have ended already."""
    assert process.stdin is not None
    try:
        process.stdin.write(f"{word}\n".encode())
        process.stdin.flush()
    except BrokenPipeError:
        pass


def _quote(password: str) -> str:
    """A string of a JAAS configuration."""
    return '"' + password.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    """A name or a value of a Java properties file, which is Latin-1 with escapes in UTF-16."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "=": "\\=", ":": "\\:", "#": "\\#"}
    escapes |= {"!": "\\!", " ": "\\ ", "\t": "\\t", "\f": "\\f"}
    units = text.encode("utf-16-be", "surrogatepass")
    chars = [chr(unit) for (unit,) in struct.iter_unpack(">H", units)]
    return "".join(
        escapes.get(char, char if " " < char <= "~" else f"\\u{ord(char):04x}") for char in chars
    )


def _free_port() -> int:
    for _ in range(1_000):
        port = random.choice(PORTS)
        if _listening_problem(port) is None:
            return port
    raise BrokerError(f"no free port from {PORTS.start} to {PORTS.stop - 1} of {LOOPBACK}")


def _listening_problem(port: int) -> str | None:
    """Why no server can listen on the port; connections of an earlier one don't hinder."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(1)
        except OSError as error:
            return error.strerror
    return None


def _answers(port: int) -> bool:
    """Whether the broker answers a request that needs no login: ApiVersions, version 0."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            # Length, then the id of the request that it answers, then the error code.
            answer = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 10 and answer[4:10] == struct.pack(">ih", 1, 0)
