"""A private Kafka broker: a single KRaft node on 127.0.0.1, run from Maven jars.

    with Broker(folder) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

It is the real broker (``kafka.Kafka``), set up to be small and quick to start rather than fast or
safe: one node that is broker and controller, replication factor 1, the JVM's quick compiler. It
writes only into its folder: ``data``, ``server.properties``, ``broker.log``.

It never outlives the process that started it, even one that is killed: see ``Broker.start``.
"""

import hashlib
import os
import random
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from dbt_lakehouse.config.kafka import KafkaSettings
from dbt_lakehouse.config.kafka_probe import probe
from dbt_lakehouse.config.paths import CACHE, LOOPBACK
from dbt_lakehouse.errors import KafkaError
from local_kafka.jars import class_path
from local_kafka.server_properties import check_users, properties
from local_kafka.servers import guard

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
# In the broker's log when it has joined its cluster, which is after it opened its port.
STARTED: Final = b"] Kafka Server started"
LOG_TAIL_BYTES: Final = 6_000
# Below the ports that Linux and macOS give to outgoing connections. Such a connection could take
# the broker's port while it is stopped, and a client that connects there could even connect to
# itself.
PORTS: Final = range(20_000, 32_000)
# In the broker's folder; the JVM writes it at its end.
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
    """The broker can't be started. The message says why, with the end of its log where it helps."""


class PortError(BrokerError):
    """Another program has the broker's port, or only root may use it."""


class Broker:
    """A broker in ``folder``, which is created if needed and kept when the broker stops.

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
        check_users(users or {})
        self.folder: Final = folder.resolve()
        self.port: Final = free_port() if port is None else port
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
        """Whether the broker was started and its process still runs."""
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
        """Start the broker and wait until it answers; does nothing if it is running.

        Raises ``BrokerError``, with the end of its log, if it ends or does not answer within 60
        s, and ``JarError`` if its jars can't be fetched.

        Two processes ensure that it ends with this one, on Linux and macOS alike. A shell waits
        for a word on a pipe and then becomes the JVM. Another one waits on a pipe whose other end
        only this process holds, and kills the JVM when that end closes. At no moment does the JVM
        run without the guard.
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
                # Ctrl-C is for the process that started the broker, which then stops it.
                start_new_session=True,
            )
        try:
            self._guard = guard(self._process.pid)
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
        jars = class_path()
        self._classes = _class_archive(java, jars)
        return [
            java,
            # The classes that an earlier broker has loaded: with them a start takes two thirds of
            # the time.
            *([f"-XX:SharedArchiveFile={self._classes}"] if self._classes.exists() else []),
            # Silently ignore an archive of another JVM.
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
        """Give later brokers the class archive that the JVM has written at its end, if it
        was to.
        """
        written = self.folder / WRITTEN_CLASSES
        if written.exists():
            # Beside the target first: a rename is atomic, so no process sees half an archive.
            partial = self._classes.with_suffix(f".{os.getpid()}")
            shutil.copyfile(written, partial)
            partial.replace(self._classes)
            written.unlink()

    def _configure(self) -> None:
        file = self.folder / "server.properties"
        # It may hold passwords.
        file.touch(mode=0o600)
        text = properties(self.bootstrap_servers, free_port(self.port), self._users, self._settings)
        file.write_text(text, encoding="ascii")

    def _format(self, java: list[str], log: BinaryIO, offset: int) -> None:
        """Create the data folder of a new cluster."""
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

    def _wait_until_started(self, offset: int) -> None:
        """Wait until the log, from ``offset`` on, reports the start, and the port answers."""
        process = self._process
        assert process is not None
        deadline = time.monotonic() + START_SECONDS
        with self.log.open("rb") as log:
            log.seek(offset)
            said = b""
            while STARTED not in said or not self._answers():
                if process.poll() is not None:
                    reason = f"ended with code {process.returncode} while it started"
                    raise BrokerError(f"the broker {reason}:\n{self._log_tail(offset)}")
                if time.monotonic() > deadline:
                    reason = f"does not answer after {START_SECONDS:.0f} s"
                    raise BrokerError(f"the broker {reason}:\n{self._log_tail(offset)}")
                time.sleep(0.02)
                # The end of the earlier bytes stays: the line may come in two pieces.
                said = said[-len(STARTED) :] if STARTED not in said else said
                said += log.read()

    def _answers(self) -> bool:
        try:
            probe(KafkaSettings({"bootstrap.servers": self.bootstrap_servers}))
        except KafkaError:
            return False
        return True

    def _log_tail(self, offset: int) -> str:
        """The end of the log of this start, and the path of the whole log."""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(offset, end - LOG_TAIL_BYTES))
            return f"{log.read().decode('utf-8', 'replace').strip()}\n(all of it: {self.log})"


def _environment() -> dict[str, str]:
    """An environment without variables that would mislead the JVM (CLASSPATH, JAVA_TOOL_OPTIONS,
    ...).
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _class_archive(java: str, jars: list[Path]) -> Path:
    """The path of the archive of loaded classes, one for each JVM and class path."""
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


def free_port(taken: int | None = None) -> int:
    """A free port other than ``taken``. Raises ``BrokerError``."""
    for _ in range(1_000):
        port = random.choice(PORTS)
        if port != taken and _listening_problem(port) is None:
            return port
    raise BrokerError(f"no free port from {PORTS.start} to {PORTS.stop - 1} of {LOOPBACK}")


def _listening_problem(port: int) -> str | None:
    """The reason why no server can listen on the port; connections of an earlier server don't
    count.
    """
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(1)
        except OSError as error:
            return error.strerror
    return None
