"""A lake with tables made for a test: their models, and what the references expect in them.

The project is a copy of the checkout's with the demo's tables taken out.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from dbt_lakehouse.reference.deleted import deleted_row
from dbt_lakehouse.reference.fold import Position, State, fold, fold_partial
from dbt_lakehouse.reference.history import history as versions_of
from dbt_lakehouse.reference.history import multiset
from support.expected_gold import EPOCH, Row, micros_of
from support.lakes import Lake, as_of_text
from support.row_events import (
    ALL_COLUMNS,
    COLUMNS,
    SAID_AT,
    Event,
    Image,
    Source,
    changes_by_key,
    key_value,
    row_changes,
)
from support.row_messages import line
from support.small_project import Log, add_gold, add_log, current_state, history
from support.streams import DAY, HOUR, START

# The moments that runs are for. By the second, what the first remembered is to be purged.
RUNS: Final = tuple(
    EPOCH + timedelta(milliseconds=START + ms) for ms in (2 * HOUR, 9 * DAY, 10 * DAY)
)
LAST: Final = RUNS[-1]
# Tables that CI doesn't build. The current states of their logs are there, test_history has
# histories by either order, and gauges_history is one of partial rows.
LONG: Final = ("stock_history", "shipments_history")


def each_table(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test for each of these tables."""
    marked = [
        pytest.param(each, marks=pytest.mark.long) if each in LONG else each for each in names
    ]
    return pytest.mark.parametrize("table", marked)


# --- models ---------------------------------------------------------------------------------------


def log_of(source: Source) -> Log:
    """What the change log of a source table declares."""
    # What a document calls its key.
    key_type: Any = {"type": "bigint", "name": "_id"} if source.is_of_documents else "bigint"
    by_default = source.order_by_source_time == source.is_aerospike
    return Log(
        source.table,
        source.tables or source.table,
        {"id": key_type} if source.has_key and not source.is_aerospike else {},
        source.columns,
        database=source.named_database,
        schema=source.named_schema,
        topic=None if source.names_table else source.topic,
        is_aerospike=source.is_aerospike,
        partial=source.partial,
        order_by_source_time=None if by_default else source.order_by_source_time,
        order_by=["source.lsn"] if source.is_ordered else None,
    )


def add_change_log(project: Path, source: Source) -> None:
    """The model ``<table>_changes``."""
    add_log(project, log_of(source))


def add_current_state(project: Path, source: Source) -> None:
    """The model ``<table>``, and its data tests."""
    add_gold(project, current_state(log_of(source)))


def add_history(
    project: Path, source: Source, name: str, track_columns: Sequence[str] | None = None
) -> None:
    """The model of a history, and the test that holds it against the current state."""
    add_gold(project, history(log_of(source), name, track_columns))


def key_column(source: Source) -> str:
    """The key column of a table."""
    return "_digest" if source.is_aerospike else "id"


# --- runs -----------------------------------------------------------------------------------------


@dataclass
class RowLake:
    """A lake of such tables, and the events that have landed in it, all and by run."""

    lake: Lake
    landed: list[Event] = field(default_factory=list)
    batches: list[list[Event]] = field(default_factory=list)

    def run(self, *arguments: str, events: Iterable[Event] = (), as_of: datetime = LAST) -> None:
        """Land the events, and some that have landed before; ``dbt run``, which must succeed."""
        events = list(events)
        if events:
            again = self.landed[-20:]
            result = self.lake.land(line(event) for event in [*again, *events])
            assert result == (len(events), len(again))
            self.landed += events
            self.batches.append(events)
        statuses = self.lake.dbt("run", *arguments, as_of=as_of_text(as_of))
        assert set(statuses.values()) == {"success"}, statuses

    def data_tests(self, *names: str, as_of: datetime = LAST) -> dict[str, str]:
        """Data tests by their names or those of models: what became of each."""
        return self.lake.dbt("test", "-s", *names, as_of=as_of_text(as_of))


class Expected(NamedTuple):
    """The rows that a table must have, by the values of some columns that tell them apart."""

    key: tuple[str, ...]
    rows: dict[Any, Row]


def differences(expected: Expected, actual: Iterable[Row]) -> list[str]:
    """How a table differs from what it should be; columns that aren't expected don't count."""
    found = []
    rows: dict[Any, Row] = {}
    for row in actual:
        place = tuple(_named(row[name]) for name in expected.key)
        if place in rows:
            found.append(f"{place}: there are several rows")
        rows[place] = row
    for place in sorted({*expected.rows, *rows}, key=str):
        wanted = expected.rows.get(place)
        held = rows.get(place)
        if wanted is None or held is None:
            found.append(f"{place}: {wanted} expected, not {held}")
            continue
        wrong = {name: (value, held[name]) for name, value in wanted.items() if held[name] != value}
        if wrong:
            found.append(f"{place}: expected and got {wrong}, the row is {held}")
    return found


def _named(value: Any) -> Any:
    """The value as a name of a row; of where a row is from, the table."""
    return value["table"] if isinstance(value, dict) else value


# --- what is expected -----------------------------------------------------------------------------


def expected_state(source: Source, events: Sequence[Event], as_of: datetime) -> Expected:
    """The rows of ``<table>``, by key."""
    rows = {}
    for key, changes in changes_by_key(source, events).items():
        state = (fold_partial if source.partial else fold)(
            changes, order_by_source_time=source.order_by_source_time, as_of=micros_of(as_of)
        )
        assert state is not None
        if state.is_live:
            row = _row_start(source, key, state.values) | _state_end(source, state)
            row |= _origin(source, state.source)
            rows[(key_value(source, key),)] = row
    return Expected((key_column(source),), rows)


def expected_with_deleted(source: Source, events: Sequence[Event], as_of: datetime) -> Expected:
    """The rows of ``<table>`` if that keeps deleted rows, by key."""
    expected = expected_state(source, events, as_of)
    rows = {key: row | {"_deleted_at": None} for key, row in expected.rows.items()}
    for key, changes in changes_by_key(source, events).items():
        deleted = deleted_row(
            changes,
            order_by_source_time=source.order_by_source_time,
            as_of=micros_of(as_of),
            partial=source.partial,
        )
        if deleted is not None:
            row = _row_start(source, key, deleted.values) | _origin(source, deleted.source)
            if source.is_aerospike and deleted.written is None:
                # The delete need not say them.
                del row["_namespace"], row["_set"]
            rows[(key_value(source, key),)] = row | {
                "_occurred_at": moment(deleted.occurred_at),
                "_max_occurred_at": moment(deleted.max_occurred_at),
                "_position": _position(source, deleted.position),
                "_deleted_at": moment(deleted.deleted_at),
                **_expiry(source, deleted.expires_at),
            }
    return Expected(expected.key, rows)


def _state_end(source: Source, state: State) -> Row:
    return {
        "_occurred_at": moment(state.occurred_at),
        "_max_occurred_at": moment(state.max_occurred_at),
        "_position": _position(source, state.position),
    } | _expiry(source, state.expires_at)


def expected_history(
    source: Source,
    events: Sequence[Event],
    as_of: datetime,
    track_columns: Sequence[str] | None = None,
) -> Expected:
    """The rows of the history, by key and ``valid_from``."""
    tracked = None if track_columns is None else [[*COLUMNS].index(name) for name in track_columns]
    rows = {}
    for key, changes in changes_by_key(source, events).items():
        versions = versions_of(
            changes,
            order_by_source_time=source.order_by_source_time,
            as_of=micros_of(as_of),
            tracked=tracked,
        )
        for version in versions:
            row = _row_start(source, key, version.values) | {
                "valid_from": moment(version.valid_from),
                "valid_to": moment(version.valid_to),
                "is_current": version.is_current,
                "_occurred_at": moment(version.occurred_at),
                "_position": _position(source, version.position),
            }
            place = key_value(source, key), moment(version.valid_from)
            row |= _origin(source, version.source)
            rows[place] = row | _expiry(source, version.expires_at)
    return Expected((key_column(source), "valid_from"), rows)


def expected_rows(source: Source, events: Sequence[Event]) -> Expected:
    """The rows of a table without a key, by their columns and the number of the copy."""
    rows = {}
    names = ("_copy", "_source") if source.tables else ("_copy",)
    for (image, table), copies in multiset(row_changes(source, events)).items():
        row = _values(image, COLUMNS)
        beside = _values(copies.beside, [SAID_AT])
        for copy in range(1, copies.number + 1):
            place = (*row.values(), copy, table)[: len(COLUMNS) + len(names)]
            rows[place] = (
                row
                | beside
                | _origin(source, table)
                | {
                    "_copy": copy,
                    "_position": _position(source, copies.position),
                }
            )
    return Expected((*COLUMNS, *names), rows)


def _origin(source: Source, table: str | None) -> Row:
    """Where a row is from, if that could be from several tables."""
    if table is None:
        return {}
    return {
        "_source": {
            "database": source.named_database,
            "schema": source.named_schema,
            "table": table,
        }
    }


def _row_start(source: Source, key: int, values: Sequence[str | None]) -> Row:
    if source.is_aerospike:
        start = {"_digest": key_value(source, key), "_namespace": source.schema}
        return start | {"_set": source.table} | _values(values)
    return {"id": key} | _values(values)


def _values(values: Sequence[str | None], columns: Iterable[str] = ALL_COLUMNS) -> Row:
    return typed(
        {
            column: None if value is None else json.loads(value)
            for column, value in zip(columns, values, strict=True)
        }
    )


def typed(image: Image) -> Row:
    """The values of an image as the tables have them."""
    return {
        column: datetime.fromisoformat(value)
        if COLUMNS.get(column) == "timestamp_ntz" and isinstance(value, str)
        else value
        for column, value in image.items()
    }


def _position(source: Source, position: Position) -> Row:
    """A position as the tables have it."""
    fields = {**position._asdict(), "log_time": moment(position.log_time)}
    if not source.is_ordered:
        del fields["source"]
    return fields


def _expiry(source: Source, expires_at: int | None) -> Row:
    return {"_expires_at": moment(expires_at)} if source.is_aerospike else {}


def moment(micros: int | None) -> datetime | None:
    """A time of the references as the tables have it."""
    return None if micros is None else EPOCH + timedelta(microseconds=micros)
