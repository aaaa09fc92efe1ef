"""Bronze to change log to gold, as a first load, in 20 increments, and in small ones behind them,
beside a handwritten job; the first load also beside copies of the tables that it makes.

``dbt run`` builds other_events, the typed change log and gold of one source table with the
project's macros; ``benchmarks.handwritten`` builds a change log and gold of the same columns, from
the same rows of bronze, in the same session. What counts of a dbt run is the time from the start of
its first model to the end of its last: no start of Spark or of dbt, no parsing. Of the handwritten
job it is all that it does. After each load both gold tables must hold the same rows. A copy is
``insert ... select`` of a finished table: nothing is decoded, typed or folded.
"""

import json
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.lake import bronze
from tools.benchmarks.handwritten import aerospike_udf, debezium_from_json
from tools.benchmarks.handwritten.watermarks import Tables
from tools.benchmarks.lake import (
    TECHNICAL_COLUMNS,
    BenchmarkLake,
    Models,
    contracts,
    seconds_to_copy,
    write_project,
)
from tools.benchmarks.measuring import Figure, Options, wall_seconds
from tools.benchmarks.payloads import SHAPES, Mix, write_parquet

INCREMENTS: Final = 20
SMALL: Final = 3_000
"""Events of a small increment."""
SMALL_INCREMENTS: Final = 8
COPIED_BAR: Final = 0.45
EVENTS_PER_KEY: Final = 5
AS_OF: Final = "2023-12-01 00:00:00"
"""When rows are judged to be expired: no write of the streams is by then."""
TABLES: Final = Tables(bronze.TABLE, "lake.silver.handwritten_changes", "lake.gold.handwritten")


class Bars(NamedTuple):
    """Of a source's ratios to the handwritten job."""

    first_load: float
    increments: float
    small: float
    log: float = 0.8


class Source(NamedTuple):
    """A source table: its payloads, our models of it, and the job to compare with."""

    shape: str
    models: Models
    gold: str
    """Its gold table."""
    ours: Mapping[str, str]
    """Each column of the handwritten gold table, as SQL over ours."""
    create: Callable[[SparkSession, Tables], None]
    write_log: Callable[[SparkSession, Tables], None]
    """The handwritten job as far as its change log."""
    merge: Callable[[SparkSession, Tables], None]
    """The rest of it."""
    bars: Bars


_ORDERS: Final = {
    "customer_id": "int",
    "status": "string",
    "amount": "decimal(18,2)",
    "currency": "string",
    "placed_at": "timestamp",
    "shipped_at": "bigint",
    "note": "string",
}
_PROFILES: Final = {
    "name": "string",
    "email": "string",
    "visits": "bigint",
    "balance": "double",
    "active": "boolean",
    "segments": "array<string>",
    "limits": "map<string,bigint>",
}
_PLACE: Final = {
    "occurred_at": "_occurred_at",
    "partition": "_position.partition",
    "offset": "_position.offset",
}

DEBEZIUM: Final = Source(
    shape="debezium",
    models=Models(
        silver={
            "orders_changes": (
                '{{ change_log(source_database="shop", source_schema="sales",'
                ' source_table="orders",'
            )
            + f' key={{"order_id": "bigint"}}, columns={json.dumps(_ORDERS)}) }}}}\n'
        },
        gold={"orders": '{{ current_state(ref("orders_changes")) }}\n'},
        gold_yaml=contracts({"orders": {"order_id": "bigint", **_ORDERS, **TECHNICAL_COLUMNS}}),
    ),
    gold="gold.orders",
    ours={name: name for name in ("order_id", *_ORDERS)} | _PLACE,
    create=debezium_from_json.create_tables,
    write_log=debezium_from_json.write_log,
    merge=debezium_from_json.merge,
    bars=Bars(first_load=0.6, increments=0.65, small=0.6),
)

AEROSPIKE: Final = Source(
    shape="aerospike",
    models=Models(
        silver={
            "profiles_changes": '{{ aerospike_change_log(namespace="users", set="profiles",'
            + f" columns={json.dumps(_PROFILES)}) }}}}\n"
        },
        gold={"profiles": '{{ current_state(ref("profiles_changes")) }}\n'},
        gold_yaml=contracts(
            {
                "profiles": {
                    "_digest": "string",
                    "_namespace": "string",
                    "_set": "string",
                    **_PROFILES,
                    **TECHNICAL_COLUMNS,
                    "_expires_at": "timestamp",
                }
            }
        ),
    ),
    gold="gold.profiles",
    ours={name: name for name in _PROFILES}
    | {"digest": "_digest", "expires_at": "_expires_at"}
    | _PLACE,
    create=aerospike_udf.create_tables,
    write_log=aerospike_udf.write_log,
    merge=partial(aerospike_udf.merge, as_of=AS_OF),
    bars=Bars(first_load=0.7, increments=0.75, small=0.7),
)


SOURCES: Final = (DEBEZIUM, AEROSPIKE)


class Seconds(NamedTuple):
    """What a load took."""

    ours: float
    handwritten: float
    handwritten_log: float
    models: Mapping[str, float]
    """Each of our models."""


class Pipelines:
    """Both pipelines of a source, in one lake."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        project = write_project(folder / f"{source.shape}-project", source.models)
        self._lake = BenchmarkLake(folder, project, {"as_of": AS_OF})
        self.spark: Final = self._lake.open_session()

    def load(self, pieces: list[list[Path]], ours_first: bool) -> Seconds:
        """Load into an empty lake, piece by piece; who begins with a piece changes from one to the
        next. Raises ``RuntimeError`` if the results differ.
        """
        self._lake.empty()
        self._source.create(self.spark, TABLES)
        return self.go_on(pieces, ours_first)

    def go_on(self, pieces: list[list[Path]], ours_first: bool) -> Seconds:
        """As ``load``, into the lake as it is."""
        ours = handwritten = log = 0.0
        models: dict[str, float] = {}
        for number, piece in enumerate(pieces):
            self._lake.land(piece)
            # What comes second finds the files of bronze in memory.
            ours_next = ours_first == (number % 2 == 0)
            if not ours_next:
                log += wall_seconds(self._write_log)
                handwritten += wall_seconds(self._merge)
            run = self._lake.run()
            ours += run.total
            for name, seconds in run.models.items():
                models[name] = models.get(name, 0.0) + seconds
            if ours_next:
                log += wall_seconds(self._write_log)
                handwritten += wall_seconds(self._merge)
        self._compare()
        return Seconds(ours, handwritten + log, log, models)

    def seconds_to_copy_tables(self) -> float:
        """Wall seconds of copying what our last load has made, table by table."""
        (log,) = self._source.models.silver
        return sum(
            seconds_to_copy(self.spark, f"lake.{table}", "lake.silver.copied")
            for table in ("silver.other_events", f"silver.{log}", self._source.gold)
        )

    def _write_log(self) -> None:
        self._source.write_log(self.spark, TABLES)

    def _merge(self) -> None:
        self._source.merge(self.spark, TABLES)

    def _compare(self) -> None:
        names = list(self._source.ours)
        theirs = {name: name for name in names}
        found = [
            self.spark.sql(
                f"select count(*), sum(cast(xxhash64({', '.join(names)}) as decimal(38, 0))) from"
                f" (select {', '.join(_hashable(columns, name) for name in names)} from {table})"
            ).first()
            for table, columns in (
                (f"lake.{self._source.gold}", self._source.ours),
                (TABLES.gold, theirs),
            )
        ]
        if found[0] != found[1] or found[0] is None or not found[0][0]:
            raise RuntimeError(f"{self._source.gold} and {TABLES.gold} differ: {found}")


def _hashable(columns: Mapping[str, str], name: str) -> str:
    # Maps have no hash: their entries in order have one.
    value = columns[name]
    if name == "limits":
        return f"array_sort(map_entries({value})) as {name}"
    return f"{value} as {name}"


def _figure(source: Source, load: str, seconds: list[Seconds], events: int, bar: float) -> Figure:
    ours = statistics.median(each.ours for each in seconds)
    handwritten = statistics.median(each.handwritten for each in seconds)
    models = {
        f"{name} s": statistics.median(each.models[name] for each in seconds)
        for name in seconds[0].models
    }
    return Figure(
        "pipeline",
        f"{source.shape}, {load}",
        handwritten / ours,
        bar,
        measured={
            "events/s": events / ours,
            "handwritten events/s": events / handwritten,
            **models,
        },
    )


def _log_figure(source: Source, seconds: list[Seconds], events: int) -> Figure:
    """What a first load takes as far as the change log."""
    (log,) = source.models.silver
    ours = statistics.median(
        sum(each.models[name] for name in ("other_events", log)) for each in seconds
    )
    handwritten = statistics.median(each.handwritten_log for each in seconds)
    return Figure(
        "pipeline",
        f"{source.shape}, first load as far as the log",
        handwritten / ours,
        source.bars.log,
        measured={"events/s": events / ours, "handwritten events/s": events / handwritten},
    )


def pieces_of(source: Source, folder: Path, events: int) -> list[list[Path]]:
    """The new files, in ``folder``, of each increment of a source's payloads."""
    return _written(source, folder, events, range(events), -(-events // INCREMENTS))


def _written(
    source: Source, folder: Path, events: int, numbers: range, size: int
) -> list[list[Path]]:
    files = write_parquet(
        folder / source.shape,
        SHAPES[source.shape],
        len(numbers),
        first=numbers.start,
        mix=Mix(keys=max(4, events // EVENTS_PER_KEY)),
        per_file=size,
    )
    return [[path] for path in files]


def _measure_source(source: Source, options: Options) -> list[Figure]:
    events = options.events
    pieces = pieces_of(source, options.folder, events)
    # Behind them; the first two of a lake do what none does after them.
    behind = range(events, events + (SMALL_INCREMENTS + 2) * SMALL)
    small = _written(source, options.folder / "small", events, behind, SMALL)
    at_once = [[path for piece in pieces for path in piece]]
    pipelines = Pipelines(source, options.folder)
    # Warms up the JVM, with a first load and with increments.
    pipelines.load(pieces[:3], ours_first=True)
    first: list[Seconds] = []
    copied: list[float] = []
    increments: list[Seconds] = []
    smaller: list[Seconds] = []
    for number in range(options.rounds):
        ours_first = number % 2 == 0
        first.append(pipelines.load(at_once, ours_first))
        copied.append(pipelines.seconds_to_copy_tables())
        increments.append(pipelines.load(pieces, ours_first))
        pipelines.go_on(small[:2], ours_first)
        smaller.append(pipelines.go_on(small[2:], ours_first))
    loaded = statistics.median(each.ours for each in first)
    copy = statistics.median(copied)
    return [
        _figure(source, "first load", first, events, source.bars.first_load),
        _log_figure(source, first, events),
        Figure(
            "pipeline",
            f"{source.shape}, first load against copies of its tables",
            copy / loaded,
            COPIED_BAR,
            measured={"events/s": events / loaded, "copied events/s": events / copy},
        ),
        _figure(source, f"{len(pieces)} increments", increments, events, source.bars.increments),
        _figure(
            source,
            f"{SMALL_INCREMENTS} increments of {SMALL:,}",
            smaller,
            SMALL_INCREMENTS * SMALL,
            source.bars.small,
        ),
    ]


def measure(options: Options) -> list[Figure]:
    """First load and increments, of Debezium envelopes and of Aerospike records."""
    return [figure for source in SOURCES for figure in _measure_source(source, options)]
