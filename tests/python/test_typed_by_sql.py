"""Typing in Python against the SQL of the macros, in Spark: a sample of what typed_by_spark.py does
with hundreds of thousands, and the change logs of the demo.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest
from arrow_values import differing, values_of
from lakes import DEMO_AS_OF, Lake
from msgspec import convert
from typed_by_spark import SparkTyping, as_type, differing_rows, differing_texts, generated
from typed_events import random_changes, random_log
from typed_texts import TYPES

from dbt_lakehouse.dbt.commands import read_manifest
from python_udfs.typed.chunks import Changes
from python_udfs.typed.declared import HAS_OTHER_KEY, Log, row_type
from python_udfs.typed.rows import change_rows

_PLACE: Final = "topic, partition, offset, event_index"


@pytest.fixture(scope="module")
def sql(demo: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkTyping]:
    yield SparkTyping(demo.spark.newSession(), tmp_path_factory.mktemp("typing"))


@pytest.mark.parametrize("type", TYPES)
def test_texts_have_the_values_that_the_sql_gives_them(sql: SparkTyping, type: str) -> None:
    texts = generated(random.Random(type), type, 300)
    assert differing_texts(sql, type, texts) == []


@pytest.mark.parametrize("seed", range(3))
def test_events_have_the_rows_that_the_sql_makes_of_them(sql: SparkTyping, seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng)
    changes = [change for _ in range(20) for change in random_changes(rng, log)]
    assert differing_rows(sql, log, changes) == []


def test_the_demo_s_change_logs_are_made_by_python_too(demo: Lake) -> None:
    logs = change_logs(demo)
    assert len(logs) > 5
    for name, meta in logs.items():
        events = demo.spark.sql(
            f"select {_PLACE}, operation, before, after, record_key, metadata, format"
            " from silver.change_events"
            " where operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')"
            + "".join(f" and {condition}" for condition in meta["conditions"])
            + f" order by {_PLACE}"
        ).toArrow()
        rows = demo.spark.sql(
            f"select * from silver.{name} order by _position.topic, _position.partition,"
            " _position.offset, _position.event_index"
        ).toArrow()
        assert rows.num_rows == events.num_rows > 0
        log = convert(meta, Log)
        got = change_rows(log, changes_of(events))
        for field in row_type(log):
            if field.name != HAS_OTHER_KEY:
                ours = got.field(field.name)
                theirs = as_type(rows[field.name].combine_chunks(), field.type)
                assert [
                    (name, field.name, values_of(ours)[place], values_of(theirs)[place])
                    for place in differing(ours, theirs)
                ] == []


def change_logs(lake: Lake) -> dict[str, dict[str, Any]]:
    """The declarations of a lake's change logs, by their tables."""
    nodes = read_manifest(lake.load(captures=[], as_of=DEMO_AS_OF)).nodes.values()
    return {
        node.alias: node.config.meta["change_log"]
        for node in nodes
        if "change_log" in node.config.meta
    }


def changes_of(events: pa.Table) -> Changes:
    """Rows of change_events."""

    def column(name: str) -> list[Any]:
        values: list[Any] = events[name].to_pylist()
        return values

    def images(name: str) -> list[bytes | None]:
        return [None if each is None else each.encode() for each in column(name)]

    return Changes(
        column("operation"),
        images("before"),
        images("after"),
        images("record_key"),
        images("metadata"),
        column("format"),
    )
