"""What Spark makes of texts and events by the macros' SQL, held against what Python makes of them.

    python tests/python/typed_by_spark.py --values 200000 --logs 2000 --seed 1

Texts of each type (``typed_texts``) go through ``typed_value`` and through ``typed.values``; events
of random logs (``typed_events``) through ``change_log_sql`` and through ``typed.rows``. Differences
are printed, and how many there were is the exit code.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import jinja2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from arrow_values import differing, values_of
from msgspec import to_builtins
from pyspark.sql import SparkSession
from typed_events import random_changes, random_log
from typed_seeds import seed_logs, shape_logs
from typed_texts import TYPES, near_text, plain_text

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.spark.functions import register_functions
from dbt_lakehouse.texts import sql_text
from python_udfs.typed.chunks import Changes
from python_udfs.typed.columns import arrow_type
from python_udfs.typed.declared import HAS_OTHER_KEY, Log, row_type
from python_udfs.typed.row import Change
from python_udfs.typed.rows import change_rows
from python_udfs.typed.values import typed

_MACROS: Final = (
    "tables/sql_text",
    "events/event_position",
    *(f"change_log/{name}" for name in ("typed_value", "keys_of_events", "change_log_sql")),
)
_REFUSED: Final = "refused"
_EVENT: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("operation", "before", "after", "record_key")),
        *((name, pa.string()) for name in ("metadata", "format", "topic")),
        *((name, pa.int32()) for name in ("partition", "event_index")),
        ("offset", pa.int64()),
        *((name, pa.timestamp("us", "UTC")) for name in ("log_time", "timestamp", "occurred_at")),
    ]
)


class _Adapter:
    """What the macros ask dbt's adapter."""

    sql_text = staticmethod(sql_text)

    def refusal_of_keys(self) -> str:
        return sql_text(_REFUSED)


@cache
def _macros() -> Any:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined)
    environment.globals.update(tojson=json.dumps, adapter=_Adapter())
    sources = [(ROOT / "macros" / f"{name}.sql").read_text() for name in _MACROS]
    return environment.from_string("\n".join(sources)).module


class SparkTyping:
    """The macros' SQL in a Spark session, which reads and writes files in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._made = 0
        register_functions(spark)
        # Else Spark writes times as it once did, and refuses those of old calendars.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")

    def _rows(self, table: pa.Table, query: str) -> pa.Table:
        """What a query makes of a table, the view `given`."""
        self._made += 1
        given, made = (self.folder / f"{name}{self._made}" for name in ("given", "made"))
        pq.write_table(table, given)
        self.spark.read.parquet(str(given)).createOrReplaceTempView("given")
        self.spark.sql(query).coalesce(1).write.parquet(str(made))
        return pq.read_table(made)

    def typed(self, texts: Sequence[str | None], type: str) -> pa.Array:
        """``typed_value`` of texts."""
        table = pa.table(
            {"number": pa.array(range(len(texts))), "text": pa.array(texts, pa.string())}
        )
        value = _macros().typed_value("text", type)
        made = self._rows(table, f"select number, {value} as value from given").sort_by("number")
        return as_type(made["value"].combine_chunks(), arrow_type(type))

    def rows(self, log: Log, changes: Sequence[Change]) -> pa.StructArray:
        """``change_log_sql`` of events, as ``change_rows`` has them."""
        texts = list(zip(*changes, strict=True))
        numbers = range(len(changes))
        times = [0] * len(changes)
        columns = [
            *(
                [each.decode() if isinstance(each, bytes) else each for each in column]
                for column in texts
            ),
            ["t"] * len(changes),
            times,
            times,
            numbers,
            times,
            times,
            times,
        ]
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, _EVENT, strict=True)], _EVENT
        )
        declared = to_builtins(log)
        for spec in declared["columns"]:
            if spec["path"] is None:
                del spec["path"]
        technical = ["key_update as _key_update"] if log.key and not log.keyless else []
        declared |= {"technical": technical, "conditions": []}
        query = _macros().change_log_sql(declared, "given", declared["keys"])
        made = self._rows(table, query)
        made = made.take(pc.sort_indices(pc.struct_field(made["_position"], "offset")))
        wanted = row_type(log)
        others = pa.array([each == _REFUSED for each in made["_operation"].to_pylist()], pa.bool_())
        return pa.StructArray.from_arrays(
            [
                others
                if field.name == HAS_OTHER_KEY
                else as_type(made[field.name].combine_chunks(), field.type)
                for field in wanted
            ],
            fields=list(wanted),
        )


def as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """An array that Spark has written, with names of fields as Arrow has them."""
    if pa.types.is_map(wanted):
        # Arrow casts no maps to what they are but for a field's name.
        return pa.MapArray.from_arrays(
            array.offsets,
            array.keys,
            as_type(array.items, wanted.item_type),
            mask=array.is_null() if array.null_count else None,
        )
    return array.cast(wanted)


# --- What differs ---------------------------------------------------------------------------------


def differing_texts(sql: SparkTyping, type: str, texts: Sequence[str | None]) -> list[str]:
    """What differs between the two ways of typing texts, told."""
    expected = sql.typed(texts, type)
    got = pa.array([typed(text, type) for text in texts], arrow_type(type))
    places = differing(got, expected)
    if not places:
        return []
    ours, theirs = values_of(got), values_of(expected)
    return [
        f"{type}: {texts[place]!r} is {ours[place]}, by SQL {theirs[place]}" for place in places
    ]


def differing_rows(sql: SparkTyping, log: Log, changes: Sequence[Change]) -> list[str]:
    """What differs between the two ways of making rows of events, told."""
    expected = sql.rows(log, changes)
    got = change_rows(log, Changes(*map(list, zip(*changes, strict=True))))
    found = []
    for name in [field.name for field in row_type(log)]:
        ours, theirs = got.field(name), expected.field(name)
        if places := differing(ours, theirs):
            place = places[0]
            found.append(
                f"{name} of {len(places)}: {values_of(ours)[place]}, by SQL"
                f" {values_of(theirs)[place]}, of {changes[place]} in {log}"
            )
    return found


def generated(rng: random.Random, type: str, count: int) -> list[str | None]:
    """Texts of a type, nearly all of them near-misses."""
    return [(plain_text if rng.random() < 0.2 else near_text)(rng, type) for _ in range(count)]


def _tell(title: str, found: Iterable[str], started: float) -> int:
    differences = list(found)
    print(f"{title}: {len(differences)} differ ({time.monotonic() - started:.0f} s)", flush=True)
    for difference in differences[:10]:
        print("   ", difference, flush=True)
    return len(differences)


def _session(folder: str) -> SparkSession:
    """A session without a lake. ANSI is Spark's default, and the profile leaves it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> int:
    """Compare as many texts and logs as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=200_000, help="texts of each type")
    parser.add_argument("--logs", type=int, default=200, help="random change logs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", help="only this one")
    options = parser.parse_args()
    differences = 0
    with TemporaryDirectory() as folder:
        sql = SparkTyping(_session(folder), Path(folder))
        for type in [options.type] if options.type else TYPES:
            started = time.monotonic()
            rng = random.Random(f"{options.seed} {type}")
            texts = generated(rng, type, options.values)
            differences += _tell(
                f"{len(texts)} texts as {type}", differing_texts(sql, type, texts), started
            )
        # To compile such long statements takes longer than to run them on few events.
        sql.spark.conf.set("spark.sql.codegen.wholeStage", "false")
        sql.spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        if options.logs:
            for log, changes in chain(seed_logs(), shape_logs()):
                started = time.monotonic()
                found = differing_rows(sql, log, changes)
                differences += _tell(f"{changes[0].format}, {len(changes)} events", found, started)
        for number in range(options.logs):
            started = time.monotonic()
            rng = random.Random(f"{options.seed} log {number}")
            log = random_log(rng)
            changes = [change for _ in range(20) for change in random_changes(rng, log)]
            found = differing_rows(sql, log, changes)
            differences += _tell(f"log {number}, {len(changes)} events", found, started)
    return min(differences, 100)


if __name__ == "__main__":
    sys.exit(main())
