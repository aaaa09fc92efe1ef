"""A lake that `lakehouse stream --build` fills from a broker, for the benchmarks that watch it: the
producer's rows and messages, the command, and what the lake holds.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from pyiceberg.catalog.sql import SqlCatalog

from dbt_lakehouse.config.paths import ROOT
from local_kafka.captures import QUIET, create_topics
from tools.benchmarks.increments import table_name, write_orders_project

PARTITIONS: Final = 4
_KEYS: Final = 2_000
# Seconds for what is still on its way when the producer has ended.
_PATIENCE: Final = 300.0
_BUILT: Final = re.compile(r"; built \d+ models? in ([\d.,]+) s")


class Source:
    """Tables whose rows are inserted, updated and deleted by chance, and their messages."""

    def __init__(self, servers: str, tables: int) -> None:
        settings: dict[str, Any] = {**QUIET, "bootstrap.servers": servers}
        create_topics(settings, {_topic(number): PARTITIONS for number in range(tables)})
        self.producer: Final = Producer({**settings, "linger.ms": 5})
        self._dice: Final = random.Random("live")
        self.rows: Final[list[dict[int, str]]] = [{} for _ in range(tables)]

    def send(self) -> None:
        """Change a row of a table."""
        table, key = self._dice.randrange(len(self.rows)), self._dice.randrange(_KEYS)
        rows = self.rows[table]
        before = rows.get(key)
        if before is not None and self._dice.random() < 0.1:
            op, after = "d", None
            del rows[key]
        else:
            op, after = ("c" if before is None else "u"), f"status {self._dice.random()}"
            rows[key] = after
        now = time.time_ns() // 1_000_000
        source = {"connector": "postgresql", "db": "shop", "schema": "sales", "ts_ms": now}
        value = {
            "op": op,
            "before": None if op == "c" else _image(key, before),
            "after": None if op == "d" else _image(key, after),
            "source": {**source, "table": table_name(table)},
            "ts_ms": now,
        }
        self.producer.produce(
            _topic(table),
            json.dumps(value).encode(),
            json.dumps({"order_id": key}).encode(),
            partition=key % PARTITIONS,
            timestamp=now,
        )


def _image(key: int, status: str | None) -> dict[str, Any]:
    return {
        "order_id": key,
        "customer_id": key % 97,
        "status": status,
        "amount": "12.50",
        "currency": "EUR",
        "placed_at": "2026-10-01T08:00:00.123456Z",
        "note": "leave with the neighbour, 2nd floor" if key % 7 else None,
    }


def _topic(table: int) -> str:
    return f"debezium.sales.{table_name(table)}"


class Memory(NamedTuple):
    """Resident memory in MB."""

    python: int
    """Of the command itself, which runs dbt."""
    spark: int
    """Of Java and Spark's Python workers."""


class StreamLake:
    """A lake of so many tables of orders in a folder, and the command that fills it."""

    def __init__(self, folder: Path, tables: int) -> None:
        self.folder: Final = folder
        self.tables: Final = tables
        self.project: Final = write_orders_project(folder / "project", tables)
        self._log: Final = folder / "stream.log"
        self._process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """What the commands of this lake find in their environment."""
        return {
            "LAKEHOUSE_LAKE": str(self.folder / "lake"),
            "LAKEHOUSE_SMALL": "false",
            "DBT_TARGET_PATH": str(self.folder / "target"),
            "DBT_LOG_PATH": str(self.folder / "logs"),
        }

    @contextmanager
    def streamed(self, servers: str, options: Sequence[str]) -> Iterator[None]:
        """The command runs, until its end is waited for or the block is left."""
        topics = [
            {"topic": _topic(number), "format": "debezium_json"} for number in range(self.tables)
        ]
        command = [sys.executable, "-m", "dbt_lakehouse.cli", "stream", "--build", *options]
        command += ["--project-dir", str(self.project)]
        command += ["--profiles-dir", str(self.project / "profiles")]
        command += ["--vars", json.dumps({"captures": [], "topics": topics})]
        environment = {"KAFKA_BOOTSTRAP_SERVERS": servers, **self.environment}
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                cwd=ROOT,
                start_new_session=True,
            )
            try:
                yield
            finally:
                if self._process.poll() is None:
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def end(self) -> None:
        """End the command behind its cycle."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_PATIENCE)

    def wait_for(self, is_so: Callable[[], bool], every: float = 0.5) -> None:
        """Wait until something is so. Raises ``RuntimeError`` if the command ends before."""
        deadline = time.monotonic() + _PATIENCE
        while not is_so():
            self.raise_if_ended()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the stream has not built all: {self.said()[-2000:]}")
            time.sleep(every)

    def raise_if_ended(self) -> None:
        """Raise ``RuntimeError`` if the command has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the stream has ended: {self.said()[-2000:]}")

    def said(self) -> str:
        """All that the command has printed."""
        return self._log.read_text()

    def cycles(self) -> list[float]:
        """The seconds of each cycle so far."""
        return [float(each.replace(",", "")) for each in _BUILT.findall(self.said())]

    def memory(self) -> "Memory":
        """What the command and all processes below it hold now."""
        pid = self._process.pid
        others = _family(pid) - {pid}
        return Memory(_resident(pid), sum(map(_resident, others)))

    @cached_property
    def catalog(self) -> SqlCatalog:
        """The lake's catalog."""
        return SqlCatalog(
            "lake",
            uri=f"sqlite:///{self.folder / 'lake' / 'catalog.db'}",
            warehouse=(self.folder / "lake" / "warehouse").as_uri(),
        )

    def holds(self, source: Source) -> bool:
        """Whether gold holds the rows of the source, and no others."""
        for number, rows in enumerate(source.rows):
            table = self.catalog.load_table(f"gold.{table_name(number)}")
            found = table.scan(selected_fields=("order_id", "status")).to_arrow().to_pylist()
            if {row["order_id"]: row["status"] for row in found} != rows:
                return False
        return True


def _family(pid: int) -> set[int]:
    """A process and all below it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    family = {pid}
    while more := {each for each, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _resident(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    # Shared pages count once.
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0
