"""Runs of 10,000 changes into gold tables of different size and history: is a run's time flat?

Three lakes of order events, Debezium envelopes of 490 bytes without a schema block, gold keyed by a
bigint: A, as many events as keys; B, ten times as many of both; C, B's events of A's keys. Into
each go changes of random keys and of a contiguous range of keys, through ``dbt run`` in this
process. A run's time is from the start of its first model to the end of its last, as dbt reports
them: the start of dbt and of Spark is not in it. The lakes take turns, so that a machine that is
busy for a while slows all of them.

The lakes serve other benchmarks too.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Literal, NamedTuple

from pyspark.sql import Row, SparkSession

from dbt_lakehouse.lake import bronze
from tools.benchmarks.lake import (
    TECHNICAL_COLUMNS,
    BenchmarkLake,
    Models,
    Run,
    contracts,
    write_project,
)
from tools.benchmarks.measuring import Figure, Options

BENCHMARK: Final = "increments"

# Offsets are dense, and a key keeps its partition: the remainder of both by this number.
PARTITIONS: Final = 4
# Messages of one commit, as a landing makes them.
_LANDING: Final = 1_000_000
# Of so many changes one is a delete and one an insert.
_CYCLE: Final = 20
# Multiplied by a key, one that seems random: odd, with no factor in common with round numbers, and
# 1 by the number of partitions.
_SHUFFLE: Final = 6_180_339_889

Keys = Literal["random", "clustered"]


def write_orders_project(
    project: Path,
    tables: int = 1,
    *,
    histories: bool = False,
    log_model: Callable[[str], str] | None = None,
) -> Path:
    """A dbt project for that many tables of orders, each with a history if so asked. With a
    ``log_model``, that is the model of a table's log, and gold has no contract.
    """
    names = [table_name(number) for number in range(tables)]
    gold = {name: _gold_model(name, has_contract=log_model is None) for name in names}
    if histories:
        gold |= {f"{name}_history": _history_model(name) for name in names}
    models = Models(
        silver={f"{name}_changes": (log_model or _change_log_model)(name) for name in names},
        gold=gold,
        gold_yaml=contracts(
            {name: {"order_id": "bigint", **_COLUMNS, **TECHNICAL_COLUMNS} for name in names}
        )
        if log_model is None
        else "",
    )
    return write_project(project, models)


def table_name(number: int) -> str:
    """The name of a table in source and gold."""
    return f"orders_{number}"


_COLUMNS: Final = {
    "customer_id": "int",
    "status": "string",
    "amount": "decimal(18,2)",
    "currency": "string",
    "placed_at": "timestamp",
    "note": "string",
}


_NO_CONTRACT: Final = '{{ config(contract={"enforced": false}) }}'


def _change_log_model(name: str) -> str:
    return _log_model(name, 'key={"order_id": "bigint"}', _COLUMNS)


def row_log_model(name: str) -> str:
    """The change log of a table of ``RowLake``."""
    return _log_model(name, "keyless=true", {"order_id": "bigint", **_COLUMNS})


def _log_model(name: str, identity: str, columns: Mapping[str, str]) -> str:
    return f"""{{{{
    change_log(
        source_database="shop",
        source_schema="sales",
        source_table="{name}",
        {identity},
        columns={json.dumps(columns)},
    )
}}}}
"""


def record_log_model(name: str) -> str:
    """The change log of a table of ``RecordLake``."""
    columns = json.dumps(_COLUMNS)
    return f'{{{{ aerospike_change_log(namespace="sales", set="{name}", columns={columns}) }}}}\n'


def _gold_model(name: str, *, has_contract: bool) -> str:
    config = "" if has_contract else f"{_NO_CONTRACT}\n\n"
    return f'{config}{{{{ current_state(ref("{name}_changes")) }}}}\n'


def _history_model(name: str) -> str:
    return f'{_NO_CONTRACT}\n\n{{{{ history(ref("{name}_changes")) }}}}\n'


@dataclass
class OrderLake:
    """A lake of the orders' events in ``folder``, built by ``project``."""

    folder: Path
    project: Path
    tables: int = 1
    events: int = 0
    """So many have landed: those of all tables, in turn."""
    note_bytes: int = 40
    """The length of a row's longest text."""
    format: ClassVar[str] = "debezium_json"
    _next_key: int = field(default=0, init=False)

    @property
    def spark(self) -> SparkSession:
        """The session of this lake; that of another one in the same process is closed first."""
        return self._lake.open_session()

    def run(self) -> Run:
        """``dbt run`` of all models. Raises ``RuntimeError``."""
        return self._lake.run()

    @property
    def _lake(self) -> BenchmarkLake:
        topics = [{"pattern": ".*", "format": self.format}]
        return BenchmarkLake(self.folder, self.project, {"topics": topics})

    def land_inserts(self, events: int) -> None:
        """Land so many events of as many new keys of each table, in the keys' order."""
        self._land(events, f"{self._next_key} + n div {self.tables}", "'c'")
        self._next_key += events // self.tables

    def land_history(self, events: int, keys: int) -> None:
        """Land so many events of so many keys of each table: inserts first, then updates of all
        keys in seeming disorder, again and again.
        """
        self._land(
            events,
            f"if(m < {keys}, m, (m * {_SHUFFLE} + {PARTITIONS} * (m div {keys})) % {keys})",
            f"if(m < {keys}, 'c', 'u')",
        )
        self._next_key = max(self._next_key, keys)

    def land_changes(self, events: int, keys: Keys) -> int:
        """Land changes in one commit: updates, and a few deletes and inserts. How many rows of the
        tables they leave in another state than absent, or new.
        """
        existing = self._next_key
        if keys == "random":
            changed = (
                f"pmod(xxhash64(m, {self.events}), {existing // PARTITIONS}) * {PARTITIONS}"
                f" + m % {PARTITIONS}"
            )
        else:
            span = events // self.tables
            start = (self.events * 7 % max(1, existing - span)) // PARTITIONS * PARTITIONS
            changed = f"{start} + n div {self.tables}"
        position = f"(n div {self.tables}) % {_CYCLE}"
        inserted = (
            f"{existing} + (n div {self.tables} div {_CYCLE}) * {PARTITIONS} + m % {PARTITIONS}"
        )
        key = f"if({position} = {_CYCLE - 1}, {inserted}, {changed})"
        op = f"case {position} when {_CYCLE - 1} then 'c' when {_CYCLE - 2} then 'd' else 'u' end"
        first = self.events
        self._land(events, key, op)
        self._next_key += (events // self.tables // _CYCLE + 1) * PARTITIONS
        (row,) = self.spark.sql(
            f"""
            select count_if(op <> 'd') as live
            from (
                select table_number, order_id, max_by(op, number) as op
                from ({self._changes(first, events, key, op)})
                group by table_number, order_id
            )
            """
        ).collect()
        return int(row.live)

    def increment(self, events: int, keys: Keys) -> Run:
        """Land changes and run. Raises ``RuntimeError`` if gold then lacks any."""
        first = self.events
        expected = self.land_changes(events, keys)
        run = self.run()
        since = f"timestamp_millis({_time(str(first))})"
        tables = [f"gold.{table_name(number)}" for number in range(self.tables)]
        found = sum(
            self._one(f"select count(*) from {table} where _position.log_time >= {since}")[0]
            for table in tables
        )
        if found != expected:
            raise RuntimeError(
                f"{self.folder.name}: {expected} rows should be of the last {events} changes,"
                f" {found} are"
            )
        return run

    def rewritten_files(self, table: str) -> int:
        """How many data files commits of a table have taken out, the first load aside."""
        row = self._one(
            f"select sum(cast(summary['deleted-data-files'] as bigint)) from {table}.snapshots"
            " where parent_id is not null"
        )
        return int(row[0] or 0)

    def data_files(self, table: str) -> int:
        """How many data files a table has."""
        return int(self._one(f"select count(*) from {table}.data_files")[0])

    def _one(self, query: str) -> Row:
        (row,) = self.spark.sql(query).collect()
        return row

    def _land(self, events: int, key: str, op: str) -> None:
        unit = PARTITIONS * self.tables
        if events % unit:
            raise ValueError(f"{events} events do not fill {unit} partitions")
        columns = ", ".join(bronze.COLUMNS)
        landing = _LANDING // unit * unit
        for start in range(0, events, landing):
            number = min(landing, events - start)
            self.spark.sql(
                f"insert into {bronze.TABLE} ({columns}) {self._messages(start, number, key, op)}"
            )
            self.events += number

    def _changes(self, first: int, events: int, key: str, op: str, start: int = 0) -> str:
        """SQL of events: ``number`` counts all of the lake's, from ``first`` on.

        ``key`` and ``op`` are made of ``n``, which counts those of this landing and begins at
        ``start``, and ``m``, which counts those of a table.
        """
        return f"""
            select *, {key} as order_id, {op} as op
            from (
                select
                    id + {start} as n,
                    id + {first} as number,
                    (id + {first}) % {self.tables} as table_number,
                    (id + {first}) div {self.tables} as m
                from range(0, {events}, 1, {2 if events > 100_000 else 1})
            )
        """

    def _note(self) -> str:
        """SQL of a row's text, which halves when it is compressed."""
        text = "sha1(cast(number as string))"
        pieces = self.note_bytes // 40
        if pieces == 1:
            return text
        piece = "sha1(concat(number, ':', piece))"
        return f"array_join(transform(sequence(1, {pieces}), piece -> {piece}), '')"

    def _image(self) -> str:
        """SQL of an event's row as JSON."""
        return """format_string(
            '{"order_id":%d,"customer_id":%d,"status":"%s","amount":"%d.%02d","currency":"EUR",'
            || '"placed_at":"2026-01-%02dT%02d:30:00.000000Z","note":"%s"}',
            order_id,
            order_id % 100003,
            elt(cast(number % 4 as int) + 1, 'new', 'paid', 'shipped', 'delivered'),
            number % 5000,
            number % 100,
            order_id % 28 + 1,
            order_id % 24,
            NOTE
        )""".replace("NOTE", self._note())

    def _value(self) -> str:
        """SQL of an event's message."""
        return f"""format_string(
            '{{"before":%s,"after":%s,"source":{{"version":"3.2.0.Final","connector":"postgresql",'
            || '"name":"shop","ts_ms":%d,"snapshot":"false","db":"shop","schema":"sales",'
            || '"table":"%s","txId":%d,"lsn":%d,"xmin":null}},"transaction":null,"op":"%s",'
            || '"ts_ms":%d,"ts_us":%d}}',
            if(op = 'd', format_string('{{"order_id":%d}}', order_id), 'null'),
            if(op = 'd', 'null', {self._image()}),
            {_time("number")} - 300,
            source_table,
            number,
            number * 56,
            op,
            {_time("number")} - 100,
            ({_time("number")} - 100) * 1000
        )"""

    def _messages(self, start: int, events: int, key: str, op: str) -> str:
        """SQL of the messages of events, as bronze has them."""
        return f"""
            select
                'debezium.shop.' || source_table as topic,
                cast(m % {PARTITIONS} as int) as partition,
                m div {PARTITIONS} as offset,
                timestamp_millis({_time("number")}) as timestamp,
                0 as timestamp_type,
                cast(format_string('{{"order_id":%d}}', order_id) as binary) as key,
                cast({self._value()} as binary) as value,
                array() as headers,
                current_timestamp() as landed_at
            from (
                select *, 'orders_' || table_number as source_table
                from ({self._changes(self.events, events, key, op, start)})
            )
        """


class RecordLake(OrderLake):
    """A lake of the same events as Aerospike's, in flat JSON. Keys are digests, and all records
    expire one day.
    """

    format = "aerospike_flat_json"

    def _value(self) -> str:
        return f"""format_string(
            '{{"metadata":{{"namespace":"sales","set":"%s","digest":"%s","msg":"%s","gen":1,'
            || '"lut":%d,"exp":1893456000}}%s',
            source_table,
            base64(unhex(sha1(cast(order_id as string)))),
            if(op = 'd', 'delete', 'write'),
            {_time("number")} - 300,
            if(op = 'd', '}}', concat(',', substring({self._image()}, 2)))
        )"""


class RowLake(OrderLake):
    """A lake of tables without a key: a row may be there many times, and what an event adds or
    takes away is one copy.
    """

    def land_history(self, events: int, keys: int) -> None:
        """Land so many events of so many rows of each table: each is added, and of three later
        events of a row two add it and one takes it away.
        """
        self._land(events, f"m % {keys}", f"if(m div {keys} % 3 = 2, 'd', 'c')")
        self._next_key = max(self._next_key, keys)

    def increment(self, events: int, keys: Keys) -> Run:
        """Land as many events of rows that are there: of 20, one takes a copy away. Run."""
        del keys
        known = self._next_key
        row = f"pmod(xxhash64(m, {self.events}), {known // PARTITIONS}) * {PARTITIONS}"
        self._land(
            events, f"{row} + m % {PARTITIONS}", f"if(n % {_CYCLE} = {_CYCLE - 1}, 'd', 'c')"
        )
        return self.run()

    def _image(self) -> str:
        # The same for all events of a row, by which its copies are found.
        return super()._image().replace("number", "order_id")

    def _value(self) -> str:
        """SQL of an event's message, with the whole row that is taken away."""
        return f"""format_string(
            '{{"before":%s,"after":%s,"source":{{"connector":"postgresql","name":"shop",'
            || '"ts_ms":%d,"db":"shop","schema":"sales","table":"%s"}},"op":"%s","ts_ms":%d}}',
            if(op = 'd', {self._image()}, 'null'),
            if(op = 'd', 'null', {self._image()}),
            {_time("number")} - 300,
            source_table,
            op,
            {_time("number")} - 100
        )"""


def _time(number: str) -> str:
    """SQL of an event's Kafka timestamp in milliseconds."""
    return f"(1767225600000 + {number})"


class Turn(NamedTuple):
    """One measured increment of a lake."""

    lake: str
    keys: Keys
    run: Run


def measure(options: Options) -> list[Figure]:
    """Build the lakes, run the increments, compare."""
    project = write_orders_project(options.folder / "project")
    lakes = {name: OrderLake(options.folder / f"lake-{name}", project) for name in "ABC"}
    events = rounded(options.events)
    lakes["A"].land_inserts(events)
    lakes["A"].run()
    lakes["B"].land_inserts(10 * events)
    lakes["B"].run()
    lakes["C"].land_history(10 * events, events)
    lakes["C"].run()
    turns = list(_turns(lakes, rounded(events // 100), options.rounds))
    figures = [
        _compare(turns, "random", "B", "A", 3.0),
        _compare(turns, "clustered", "B", "A", 1.5),
        _compare(turns, "random", "C", "A", 1.2),
    ]
    rewritten = {name: lake.rewritten_files("gold.orders_0") for name, lake in lakes.items()}
    files = {
        f"{name} files of gold": float(lake.data_files("gold.orders_0"))
        for name, lake in lakes.items()
    }
    figures.append(
        Figure(
            BENCHMARK,
            "data files of gold that increments rewrote",
            float(sum(rewritten.values())),
            0.0,
            higher_is_better=False,
            measured=files,
        )
    )
    return figures


def rounded(events: int) -> int:
    """The number, so that it fills partitions and cycles of changes."""
    unit = PARTITIONS * _CYCLE
    return max(unit, events // unit * unit)


def _turns(lakes: dict[str, OrderLake], changes: int, rounds: int) -> Iterable[Turn]:
    for _ in range(rounds):
        for name, lake in lakes.items():
            # The session is new: its Python workers have to start.
            lake.increment(changes, "random")
            for keys in ("random", "clustered"):
                yield Turn(name, keys, lake.increment(changes, keys))


def _compare(turns: Sequence[Turn], keys: Keys, name: str, base: str, bar: float) -> Figure:
    runs = {
        lake: [turn.run for turn in turns if turn.lake == lake and turn.keys == keys]
        for lake in (name, base)
    }
    medians = {
        lake: statistics.median(run.total for run in runs_of) for lake, runs_of in runs.items()
    }
    measured = {f"{lake} s": seconds for lake, seconds in medians.items()}
    for node in ("other_events", "orders_0_changes", "orders_0"):
        for lake, runs_of in runs.items():
            measured[f"{lake} {node} s"] = statistics.median(run.models[node] for run in runs_of)
    return Figure(
        BENCHMARK,
        f"{keys} keys, {name} against {base}",
        medians[name] / medians[base],
        bar,
        higher_is_better=False,
        measured=measured,
    )
