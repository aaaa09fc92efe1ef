"""Kafka Connect with connectors of Debezium's: from databases to topics.

It is Kafka's standalone worker, in a process that is stopped on leaving. ``kafka_connect_jars.txt``
has its jars: coordinates and SHA-256 of what Kafka Connect 4.1.0 asks for. Each connector has a
list of its own beside it, for its version of Debezium: two of them don't go together. The converter
that writes Avro has one too (``AVRO_JARS``).

    python -m local_kafka.connect debezium_postgres_jars.txt postgres_jars.txt

fetches Kafka Connect's, the connector's and a PostgreSQL server (``postgres_contrib`` of the tests)
once, so that no test waits for them later.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.errors import JarError, SessionError
from dbt_lakehouse.spark.jars import Jar, ensure_jars
from local_kafka.broker import LOG4J, free_port
from local_kafka.jars import PYSPARK_JARS, from_pyspark
from local_kafka.servers import ServerError, answers, server

AVRO_JARS: Final = "avro_converter_jars.txt"
"""The list of Apicurio's AvroConverter."""
_JARS: Final = "kafka_connect_jars.txt"
_STOPPED: Final = "will not recover until manually restarted"
_WORKER: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
# A repository that doesn't answer is waited for jar by jar.
_FETCH_SECONDS: Final = 300


@contextmanager
def kafka_connect(
    folder: Path,
    bootstrap_servers: str,
    connectors: Mapping[str, Mapping[str, str]],
    jars: Sequence[str],
    memory: str = "256m",
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[Callable[[], None]]:
    """Run a worker with its files in ``folder`` and connectors, by name with their settings. It
    gives a function that raises ``ServerError`` once a connector has stopped. ``jars`` names the
    lists of jars beside Kafka Connect's own. A second worker with the same folder goes on from
    where the first one says that it was: up to a second before a ``stop`` by SIGKILL.
    """
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    (folder / "log4j2.properties").write_text(LOG4J)
    worker = _properties(
        folder / "worker.properties",
        {
            "bootstrap.servers": bootstrap_servers,
            "listeners": f"http://{LOOPBACK}:{port}",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            # All classes are on the class path: it is for files of plugins.
            "plugin.path": str(plugins),
            "plugin.discovery": "only_scan",
        },
    )
    files = [
        _properties(folder / f"{name}.properties", {"name": name, **settings})
        for name, settings in connectors.items()
    ]
    class_path = [*ensure_jars(_all_jars(jars)), *(from_pyspark(name) for name in PYSPARK_JARS)]
    java = shutil.which(str(Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java")) or "java"
    program = [
        *(java, f"-Xmx{memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        *("-cp", os.pathsep.join(map(str, class_path)), _WORKER, str(worker), *map(str, files)),
    ]
    log = folder / "connect.log"

    def check() -> None:
        # Connect leaves its worker running.
        if _STOPPED in log.read_text():
            raise ServerError(f"a connector has stopped, see {log}")

    with server(program, log, lambda: answers(port), stop=stop):
        yield check


def has_jars(lists: Sequence[str]) -> bool:
    """Whether nothing has to be fetched for a worker with what these lists have."""
    return all(jar.path.exists() for jar in _all_jars(lists))


def _all_jars(lists: Sequence[str]) -> list[Jar]:
    return [jar for each in (_JARS, *lists) for jar in locked_jars(each)]


def locked_jars(file: str) -> list[Jar]:
    """The jars of a list."""
    lines = Path(__file__).with_name(file).read_text().splitlines()
    return [Jar(*line.split()) for line in lines]


def _properties(file: Path, settings: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def main(lists: Sequence[str]) -> int:
    """Fetch the jars of a worker with what these lists have; 1, with a line that says why, if they
    can't be had within minutes.
    """
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_FETCH_SECONDS)
    try:
        ensure_jars(_all_jars(lists))
    except (JarError, SessionError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    # No Exception, of which py4j would make one of its own.
    sys.exit(f"the jars of Kafka Connect have not come within {_FETCH_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
