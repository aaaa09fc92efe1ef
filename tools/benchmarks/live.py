"""How far gold is behind Kafka while `lakehouse stream --build` runs: from the producer's send to
gold's commit, and what a cycle takes in the end beside the beginning.

A broker, a producer of 500 events a second over five tables, and the command share this machine;
``--events 300000`` are ten minutes. An event is in gold with the first commit of its table that
comes behind the commit of its log; when it was sent says Kafka's timestamp, which is the
producer's. In the end gold must hold the rows that the producer knows.
"""

import os
import statistics
import time
from collections.abc import Iterator
from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.session.project import ProjectOptions, load
from local_kafka.broker import Broker
from tools.benchmarks.increments import table_name
from tools.benchmarks.measuring import Figure, Options
from tools.benchmarks.stream_lake import Source, StreamLake

BENCHMARK: Final = "live"
TABLES: Final = 5
RATE: Final = 500
_TICKS: Final = 20
_INTERVAL: Final = "1"
# Seconds from send to gold.
_P50_BAR: Final = 4.0
_P99_BAR: Final = 10.0
_FLAT_BAR: Final = 1.1


def measure(options: Options) -> list[Figure]:
    """Produce and stream for ``options.events / 500`` seconds."""
    lake = StreamLake(options.folder / BENCHMARK, TABLES)
    memory: list[int] = []
    with Broker(lake.folder / "kafka") as broker:
        source = Source(broker.bootstrap_servers, TABLES)
        with lake.streamed(broker.bootstrap_servers, ("--interval", _INTERVAL)):
            source.send()
            source.producer.flush()
            lake.wait_for(lambda: bool(lake.cycles()))
            began = time.monotonic()
            for tick in range(options.events // RATE * _TICKS):
                for _ in range(RATE // _TICKS):
                    source.send()
                source.producer.poll(0)
                if tick % (_TICKS * 10) == 0:
                    memory.append(sum(lake.memory()))
                time.sleep(max(0.0, began + (tick + 1) / _TICKS - time.monotonic()))
                lake.raise_if_ended()
            source.producer.flush()
            lake.wait_for(lambda: lake.holds(source))
            lake.end()
    # The first one has one event.
    cycles = lake.cycles()[1:]
    return [*_figures(sorted(_seconds_behind(lake)), cycles), *_flat(cycles, memory)]


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


def _seconds_behind(lake: StreamLake) -> Iterator[float]:
    """Of each event, the seconds from its send to the commit of gold that has it."""
    os.environ.update(lake.environment)
    spark: SparkSession = load(
        ProjectOptions(str(lake.project), str(lake.project / "profiles"))
    ).open_session()
    for number in range(TABLES):
        name = table_name(number)
        log = lake.catalog.load_table(f"silver.{name}_changes").metadata.snapshots
        gold = sorted(
            each.timestamp_ms for each in lake.catalog.load_table(f"gold.{name}").metadata.snapshots
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
