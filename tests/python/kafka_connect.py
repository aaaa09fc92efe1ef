"""Kafka Connect with Debezium's PostgreSQL connector: from a database of a test's own to topics.

It is Kafka's standalone worker, in a process that is stopped on leaving. ``kafka_connect_jars.txt``
has its jars: coordinates and SHA-256 of what Kafka Connect 4.1.0 and Debezium 3.6.1.Final ask for.
"""

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from processes import answers, server

from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.spark.jars import Jar, ensure_jars
from local_kafka.broker import LOG4J, free_port
from local_kafka.jars import PYSPARK_JARS, from_pyspark

_JARS: Final = Path(__file__).with_name("kafka_connect_jars.txt")
_WORKER: Final = "org.apache.kafka.connect.cli.ConnectStandalone"


@contextmanager
def kafka_connect(
    folder: Path, bootstrap_servers: str, connectors: Mapping[str, Mapping[str, str]]
) -> Iterator[None]:
    """A worker with its files in ``folder`` that runs connectors, by name with their settings."""
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
    jars = [*_locked_jars(), *(from_pyspark(name) for name in PYSPARK_JARS)]
    java = shutil.which(str(Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java")) or "java"
    program = [
        *(java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        *("-cp", os.pathsep.join(map(str, jars)), _WORKER, str(worker), *map(str, files)),
    ]
    log = folder / "connect.log"
    with server(program, log, lambda: answers(port), stop=signal.SIGTERM):
        yield


def _locked_jars() -> list[Path]:
    lines = _JARS.read_text().splitlines()
    return ensure_jars([Jar(*line.split()) for line in lines])


def _properties(file: Path, settings: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file
