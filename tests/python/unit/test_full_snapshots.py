"""Full snapshots that change logs reconcile: which have ended, and what a history makes of one."""

import json
import re
from io import BytesIO
from typing import Any, Final

import pytest
from dbt_common.exceptions import CompilationError
from fastavro import parse_schema, schemaless_writer
from test_templates import OF_ALL

from dbt_lakehouse.declared import declarations
from dbt_lakehouse.reference.fold import Change, Position
from dbt_lakehouse.reference.history import history as versions_of
from dbt_lakehouse.runs.full_snapshots import (
    MAY_BE_MARKED,
    Ended,
    Row,
    ended,
    reconciled,
    row_of,
)

TABLE: Final = ("shop", "public", "orders")


# --- which have ended -----------------------------------------------------------------------------


def row(
    offset: int, mark: str, lsn: int | None = None, partition: int = 0, time: int | None = None
) -> Row:
    said = None if lsn is None else ("lsn", str(lsn))
    return Row("t", partition, offset, offset if time is None else time, TABLE, mark, said)


def test_a_snapshot_lasts_from_its_first_row_to_its_last() -> None:
    first, last = row(3, "first_in_data_collection"), row(7, "last")
    assert ended([last, first]) == [Ended(first, last)]
    assert ended([first]) == ended([last]) == []


def test_of_a_snapshot_that_was_begun_again_the_second_start_counts() -> None:
    cut_off, first, last = row(1, "first", 10), row(4, "first", 20), row(6, "last", 20)
    assert ended([cut_off, first, last]) == [Ended(first, last)]
    # Where the second start has not landed yet, the position tells that the first is another's.
    assert ended([cut_off, last]) == []


def test_of_two_snapshots_each_has_its_own_rows() -> None:
    rows = [row(1, "first"), row(2, "last"), row(5, "first"), row(9, "last_in_data_collection")]
    assert ended(rows) == [Ended(*rows[:2]), Ended(*rows[2:])]
    other = rows[3]._replace(source=("shop", "public", "other"))
    assert ended([*rows[:3], other]) == [Ended(*rows[:2])]


def test_rows_of_one_millisecond_in_two_partitions_are_of_one_snapshot() -> None:
    first, last = row(5, "first", partition=1, time=100), row(2, "last", partition=0, time=100)
    assert ended([first, last]) == [Ended(first, last)]
    assert ended([first, last._replace(log_time=99)]) == []
    assert ended([first, row(4, "last", partition=1, time=100)]) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"lsn": 7, "scn": None}, ("lsn", "7")),
        ({"scn": "9007199254740993"}, ("scn", "9007199254740993")),
        ({"file": "mysql-bin.000003", "pos": 4}, ("file", "pos", "mysql-bin.000003", "4")),
        ({"file": None, "pos": 4}, None),
        ({"ts_ms": 1}, None),
    ],
)
def test_a_row_says_its_sources_position(source: dict[str, Any], said: Any) -> None:
    place = {"topic": "t", "partition": 0, "offset": 1, "log_time": 2, "mark": "first"}
    names = ("source_database", "source_schema", "source_table")
    found = place | dict(zip(names, TABLE, strict=True))
    assert row_of(found | {"metadata": json.dumps({"source": source})}).said == said


@pytest.mark.parametrize("mark", ["first", "last", "last_in_data_collection", "incremental"])
def test_a_payload_of_avro_is_told_by_the_text_of_its_mark(mark: str) -> None:
    fields = [{"name": "last", "type": "int"}, {"name": "snapshot", "type": "string"}]
    schema = {"type": "record", "name": "Source", "fields": fields}
    text = BytesIO()
    schemaless_writer(text, parse_schema(schema), {"last": 4, "snapshot": mark})
    texts = [bytes.fromhex(each) for each in re.findall(r"X'([0-9a-f]+)'", MAY_BE_MARKED)]
    assert any(each in text.getvalue() for each in texts) == (mark != "incremental")


def log_of(**but: Any) -> dict[str, Any]:
    of: dict[str, Any] = {"key": {"id": "bigint"}, "source_table": "orders"}
    of |= {"source_schema": "public", "source_database": "shop", "reconcile_snapshots": True}
    return declarations.change_log({**OF_ALL, **of, **but})


def test_the_source_tables_are_those_of_the_logs_that_ask_for_it() -> None:
    assert reconciled([log_of(reconcile_snapshots=False)]) == ()
    several = log_of(source_table=["orders", "others"])
    assert reconciled([several, log_of()]) == (TABLE, ("shop", "public", "others"))
    assert reconciled([several, log_of(source_database="*")]) is None
    assert "reconcile_snapshots" not in log_of(reconcile_snapshots=False)
    with pytest.raises(CompilationError, match=r"partial: .* reconcile_snapshots"):
        log_of(partial=True)


# --- the reference of histories -------------------------------------------------------------------


def change(place: int, operation: str, *, event_index: int = 0, time: int | None = None) -> Change:
    return Change(operation, time, None, Position(place, "t", 0, place, event_index), None, ("v",))


def valid(*changes: Change) -> list[tuple[int | None, int | None]]:
    found = versions_of(changes, order_by_source_time=False, as_of=99)
    return [(each.valid_from, each.valid_to) for each in found]


def test_a_snapshot_ends_no_version_of_a_key_that_it_has_read() -> None:
    insert, started = change(1, "insert"), change(5, "truncate", event_index=-1)
    assert valid(insert, started, change(6, "snapshot")) == [(1, 6), (6, None)]
    assert valid(insert, started) == [(1, 5)]
    # What is inserted later had not been there; nor has what an earlier snapshot did not read.
    assert valid(insert, started, change(6, "insert")) == [(1, 5), (6, None)]
    again = change(7, "truncate", event_index=-1)
    assert valid(insert, started, again, change(8, "snapshot")) == [(1, 5), (8, None)]
    # A truncate of the source is one, whatever is read after it.
    assert valid(insert, change(5, "truncate"), change(6, "snapshot")) == [(1, 5), (6, None)]
