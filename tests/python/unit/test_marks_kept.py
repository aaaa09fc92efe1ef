"""Who has read all of a table whose rows are about to change, and whose marks are brought on."""

import json
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from support.metadata import UUID, commit, row, table

from dbt_lakehouse.lake.tables import LOOKED, TAKEN, Table
from dbt_lakehouse.maintenance.marks_kept import has_read_all, rewriting
from dbt_lakehouse.runs.marks import Mark, noted
from dbt_lakehouse.runs.model_run import DECLARED
from dbt_lakehouse.runs.source_filter import PROPERTY

BRONZE = "bronze.raw_payloads"
EVENTS = "silver.other_events"
LOG = "silver.orders_changes"
ORDERS = ["shop", "sales", "orders"]
OTHERS = ["shop", "sales", "customers"]
SPARK = cast(SparkSession, None)


def read(number: int) -> Mark:
    """The mark of one who has read a table up to a commit."""
    return Mark(UUID, f"{number}000", number)


def tables(events_at: int, has: list[str]) -> dict[str, Table]:
    """Bronze with three commits, other_events that has read so many and last found events of a
    source table, and a log of orders that has read one.
    """
    notes = noted({BRONZE: read(events_at)}) | {LOOKED: "true", TAKEN: "digest"}
    news = {
        "pairs": [["t", *has]],
        "commits": [{"snapshot": "2000", "pairs": "1", "invalid": 0}],
        "is_whole": True,
    }
    log_notes = noted({EVENTS: read(1), BRONZE: read(1)}) | {DECLARED: "digest"}
    return {
        BRONZE: table(row(1, 2, 3)),
        EVENTS: table(
            [commit(1, notes=noted({BRONZE: read(1)})), commit(2, 1, rows=0, notes=notes)],
            properties={PROPERTY: json.dumps(news)},
        ),
        LOG: table(
            [commit(1, notes=log_notes)],
            properties={f"{DECLARED}.digest": json.dumps({"sources": [ORDERS]})},
        ),
    }


@pytest.mark.parametrize(
    ("events_at", "has", "log_has", "events_have"),
    [
        # It stays where it was while there is nothing for it.
        (3, OTHERS, True, True),
        (3, ORDERS, False, True),
        (2, OTHERS, False, False),
    ],
)
def test_a_log_has_read_of_bronze_what_it_wants(
    monkeypatch: pytest.MonkeyPatch,
    events_at: int,
    has: list[str],
    log_has: bool,
    events_have: bool,
) -> None:
    there = tables(events_at, has)
    monkeypatch.setattr("dbt_lakehouse.runs.tables.look_at", lambda _, name: there.get(name))
    assert has_read_all(SPARK, LOG, BRONZE) is log_has
    assert has_read_all(SPARK, EVENTS, BRONZE) is events_have
    assert has_read_all(SPARK, LOG, EVENTS) is (has == OTHERS)


def test_no_log_is_ahead_of_what_it_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    there, moved = tables(3, OTHERS), []

    def note(_: object, name: str, notes: dict[str, Any]) -> None:
        moved.append((name, notes.get(f"lakehouse.read.{BRONZE}")))

    monkeypatch.setattr("dbt_lakehouse.runs.tables.look_at", lambda _, name: there.get(name))
    monkeypatch.setattr("dbt_lakehouse.runs.commits.note", note)
    with rewriting(SPARK, {LOG: None, EVENTS: None}, BRONZE):
        # What follows is not of the rows.
        there[BRONZE] = table([*row(1, 2, 3), commit(4, 3, "overwrite")])
    assert moved == [
        (EVENTS, None),
        (LOG, str(read(3))),
        (EVENTS, str(read(4))),
        (LOG, str(read(4))),
    ]
