"""How far gold is behind Kafka while `lakehouse stream --build` runs: from the producer's send to
gold's commit, and what a cycle takes in the end beside the beginning.

A broker, a producer of 500 events a second over five tables, and the command share this machine;
``--events 300000`` are ten minutes. An event is in gold with the first commit of its table that
comes behind the commit of its log; when it was sent says Kafka's timestamp, which is the
producer's. In the end gold must hold the rows that the producer knows.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.session.project import ProjectOptions, load
from local_kafka.broker import Broker
from local_kafka.captures import QUIET, create_topics
from tools.benchmarks.increments import table_name, write_orders_project
from tools.benchmarks.measuring import Figure, Options

BENCHMARK: Final = "live"
TABLES: Final = 5
PARTITIONS: Final = 4
RATE: Final = 500
_TICKS: Final = 20
_INTERVAL: Final = "1"
_KEYS: Final = 2_000
# Seconds from send to gold.
_P50_BAR: Final = 4.0
_P99_BAR: Final = 10.0
_FLAT_BAR: Final = 1.1
# For what is still on its way when the producer has ended.
_PATIENCE: Final = 300.0
_BUILT: Final = re.compile(r"; built \d+ models? in ([\d.,]+) s")


class Source:
    """Five tables whose rows are inserted, updated and deleted by chance, and their messages."""

    def __init__(self, producer: Producer) -> None:
        self._producer: Final = producer
        self._dice: Final = random.Random("live")
        self.rows: Final[list[dict[int, str]]] = [{} for _ in range(TABLES)]

    def send(self) -> None:
        """Change a row of a table."""
        table, key = self._dice.randrange(TABLES), self._dice.randrange(_KEYS)
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
        self._producer.produce(
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


def measure(options: Options) -> list[Figure]:
    """Produce and stream for ``options.events / 500`` seconds."""
    folder = options.folder / BENCHMARK
    project = write_orders_project(folder / "project", TABLES)
    log = folder / "stream.log"
    with Broker(folder / "kafka") as broker:
        servers: dict[str, Any] = {**QUIET, "bootstrap.servers": broker.bootstrap_servers}
        create_topics(servers, {_topic(number): PARTITIONS for number in range(TABLES)})
        source = Source(producer := Producer({**servers, "linger.ms": 5}))
        memory: list[int] = []
        with _stream(project, folder, broker.bootstrap_servers, log) as process:
            source.send()
            producer.flush()
            _wait_for(lambda: "; built " in log.read_text(), process, log)
            began = time.monotonic()
            for tick in range(options.events // RATE * _TICKS):
                for _ in range(RATE // _TICKS):
                    source.send()
                producer.poll(0)
                if tick % (_TICKS * 10) == 0:
                    memory.append(_memory(process.pid))
                time.sleep(max(0.0, began + (tick + 1) / _TICKS - time.monotonic()))
                if process.poll() is not None:
                    raise RuntimeError(f"the stream has ended: {log.read_text()[-2000:]}")
            producer.flush()
            _wait_for(lambda: _holds(folder, source), process, log)
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE)
    cycles = [float(each.replace(",", "")) for each in _BUILT.findall(log.read_text())][1:]
    behind = sorted(_seconds_behind(folder, project))
    return [*_figures(behind, cycles), *_flat(cycles, memory)]


def _figures(behind: list[float], cycles: list[float]) -> Iterator[Figure]:
    measured = {"cycles": float(len(cycles)), "s/cycle": statistics.median(cycles)}
    for part, bar in ((50, _P50_BAR), (99, _P99_BAR)):
        seconds = behind[min(len(behind) - 1, len(behind) * part // 100)]
        yield Figure(
            BENCHMARK,
            f"from send to gold, p{part}, to {bar:g} s",
            seconds / bar,
            1.0,
            higher_is_better=False,
            measured={"s": seconds, **measured},
        )


def _flat(cycles: list[float], memory: list[int]) -> Iterator[Figure]:
    fifth = len(cycles) // 5
    parts = {"a cycle": (cycles[fifth : 2 * fifth], cycles[-fifth:], "s")}
    fifth = len(memory) // 5
    parts["memory"] = (
        [*map(float, memory[fifth : 2 * fifth])],
        [*map(float, memory[-fifth:])],
        "MB",
    )
    for name, (early, late, unit) in parts.items():
        if early and late:
            first, last = statistics.median(early), statistics.median(late)
            yield Figure(
                BENCHMARK,
                f"{name}, the last fifth to the second",
                last / first,
                _FLAT_BAR,
                higher_is_better=False,
                measured={f"second {unit}": first, f"last {unit}": last},
            )


@contextmanager
def _stream(
    project: Path, folder: Path, servers: str, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "dbt_lakehouse.cli", "stream", "--build"]
    command += ["--interval", _INTERVAL, "--project-dir", str(project)]
    command += ["--profiles-dir", str(project / "profiles"), "--vars", json.dumps(_VARIABLES)]
    environment = {"KAFKA_BOOTSTRAP_SERVERS": servers, **_lake(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


_VARIABLES: Final = {
    "captures": [],
    "topics": [{"topic": _topic(number), "format": "debezium_json"} for number in range(TABLES)],
}


def _lake(folder: Path) -> dict[str, str]:
    return {
        "LAKEHOUSE_LAKE": str(folder / "lake"),
        "LAKEHOUSE_SMALL": "false",
        "DBT_TARGET_PATH": str(folder / "target"),
        "DBT_LOG_PATH": str(folder / "logs"),
    }


def _wait_for(is_so: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not is_so():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the stream has not built all: {log.read_text()[-2000:]}")
        time.sleep(0.5)


def _catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{folder / 'lake' / 'catalog.db'}",
        warehouse=(folder / "lake" / "warehouse").as_uri(),
    )


def _holds(folder: Path, source: Source) -> bool:
    """Whether gold holds the rows of the source, and no others."""
    catalog = _catalog(folder)
    try:
        for number, rows in enumerate(source.rows):
            table = catalog.load_table(f"gold.{table_name(number)}")
            found = table.scan(selected_fields=("order_id", "status")).to_arrow().to_pylist()
            if {row["order_id"]: row["status"] for row in found} != rows:
                return False
    finally:
        catalog.engine.dispose()
    return True


def _seconds_behind(folder: Path, project: Path) -> Iterator[float]:
    """Of each event, the seconds from its send to the commit of gold that has it."""
    os.environ.update(_lake(folder))
    spark: SparkSession = load(
        ProjectOptions(str(project), str(project / "profiles"))
    ).open_session()
    catalog = _catalog(folder)
    for number in range(TABLES):
        name = table_name(number)
        log = catalog.load_table(f"silver.{name}_changes").metadata.snapshots
        gold = sorted(
            each.timestamp_ms for each in catalog.load_table(f"gold.{name}").metadata.snapshots
        )
        in_gold = {
            each.sequence_number: next((at for at in gold if at >= each.timestamp_ms), None)
            for each in log
        }
        events = spark.sql(
            "select _last_updated_sequence_number as number,"
            f" unix_millis(_position.log_time) as sent from silver.{name}_changes"
        ).toArrow()
        for event in events.to_pylist():
            at = in_gold.get(event["number"])
            if at is not None:
                yield (at - event["sent"]) / 1_000
    catalog.engine.dispose()


def _memory(pid: int) -> int:
    """The resident memory of a process and all below it, in MB."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    family = {pid}
    while more := {each for each, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(map(_resident, family))


def _resident(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    # Shared pages count once.
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) // 1024 if found else 0
