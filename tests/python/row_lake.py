"""A lake with tables made for a test: their models, and what the references expect in them.

The project is a copy of the checkout's with the demo's tables taken out.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from expected_gold import EPOCH, Row, micros_of
from lakes import Lake, as_of_text, copy_project
from row_events import (
    COLUMNS,
    Event,
    Image,
    Source,
    changes_by_key,
    key_value,
    message,
    row_changes,
)
from streams import DAY, HOUR, START

from dbt_lakehouse.reference.fold import Position, State, fold, fold_partial
from dbt_lakehouse.reference.history import history, multiset

# The moments that runs are for. By the second, what the first remembered is to be purged.
RUNS: Final = tuple(
    EPOCH + timedelta(milliseconds=START + ms) for ms in (2 * HOUR, 9 * DAY, 10 * DAY)
)
LAST: Final = RUNS[-1]

# Models that every table needs.
_CORE: Final = {"change_events", "set_less_deletes", "deleted_keys", "fold_counters"}
_TECHNICAL: Final = {
    "_occurred_at": "timestamp",
    "_max_occurred_at": "timestamp",
    "_position": (
        "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
    ),
}


# --- models ---------------------------------------------------------------------------------------


def bare_project(project: Path) -> Path:
    """A copy of the project without the demo's tables."""
    copy_project(project)
    for file in (project / "models").glob("*/*.*"):
        is_demo = file.parent.name in ("silver", "gold") and file.stem not in _CORE
        if is_demo:
            file.unlink()
    for file in (project / "tests").glob("*.*"):
        file.unlink()
    return project


def add_change_log(project: Path, source: Source) -> None:
    """The model ``<table>_changes``."""
    columns = json.dumps(COLUMNS)
    partial = ", partial=true" if source.partial else ""
    if source.is_aerospike:
        body = (
            f'aerospike_change_log(namespace="{source.schema}", set="{source.table}", '
            f"columns={columns}{partial})"
        )
    else:
        key = 'key={"id": "bigint"}' if source.has_key else "keyless=true"
        body = (
            f'change_log(source_schema="{source.schema}", source_table="{source.table}", {key}, '
            f"columns={columns}{partial})"
        )
    model = f'{{{{ config(unique_key=["_position"]) }}}}\n{{{{ {body} }}}}\n'
    (project / "models" / "silver" / f"{source.table}_changes.sql").write_text(model)


def add_current_state(project: Path, source: Source) -> None:
    """The model ``<table>``, and its data tests."""
    columns = _row_types(source) | _TECHNICAL | _expiry_type(source)
    _add_gold(
        project,
        source.table,
        f"current_state({_fold_arguments(source)})",
        columns,
        [
            {
                "equals_refold": {
                    "name": f"{source.table}_equals_refold",
                    "arguments": {"changes": f"{source.table}_changes"},
                }
            }
        ],
    )


def add_history(
    project: Path, source: Source, name: str, track_columns: Sequence[str] | None = None
) -> None:
    """The model of a history, and the test that holds it against the current state."""
    valid = {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
    technical = {each: _TECHNICAL[each] for each in ("_occurred_at", "_position")}
    arguments = {"current": source.table, "changes": f"{source.table}_changes"}
    tracked = f", track_columns={json.dumps(track_columns)}" if track_columns else ""
    _add_gold(
        project,
        name,
        f"history({_fold_arguments(source)}{tracked})",
        _row_types(source) | valid | technical | _expiry_type(source),
        [{"is_history": {"name": f"{name}_is_history", "arguments": arguments}}],
    )


def add_current_rows(project: Path, source: Source) -> None:
    """The model ``<table>`` of a table without a key."""
    columns = COLUMNS | {"_row": "string", "_copy": "int", "_position": _TECHNICAL["_position"]}
    body = f'current_rows(changes=ref("{source.table}_changes"), columns={json.dumps([*COLUMNS])})'
    _add_gold(project, source.table, body, columns, [])


def _fold_arguments(source: Source) -> str:
    arguments = [
        f'changes=ref("{source.table}_changes")',
        f'key=["{key_column(source)}"]',
        f"columns={json.dumps([*COLUMNS])}",
    ]
    if source.is_aerospike:
        arguments.append(f'namespace="{source.schema}"')
    if source.partial:
        arguments.append("partial=true")
    if source.order_by_source_time != source.is_aerospike:
        arguments.append(f"order_by_source_time={str(source.order_by_source_time).lower()}")
    return ", ".join(arguments)


def key_column(source: Source) -> str:
    """The key column of a table."""
    return "_digest" if source.is_aerospike else "id"


def _row_types(source: Source) -> dict[str, str]:
    if source.is_aerospike:
        return {"_digest": "string", "_namespace": "string", "_set": "string"} | COLUMNS
    return {"id": "bigint"} | COLUMNS


def _expiry_type(source: Source) -> dict[str, str]:
    return {"_expires_at": "timestamp"} if source.is_aerospike else {}


def _add_gold(
    project: Path, name: str, body: str, columns: Mapping[str, str], tests: list[Any]
) -> None:
    gold = project / "models" / "gold"
    (gold / f"{name}.sql").write_text(f"{{{{ {body} }}}}\n")
    model = {
        "name": name,
        "columns": [{"name": column, "data_type": kind} for column, kind in columns.items()],
        "data_tests": tests,
    }
    # JSON is YAML.
    (gold / f"{name}.yml").write_text(json.dumps({"models": [model]}))


# --- runs -----------------------------------------------------------------------------------------


@dataclass
class RowLake:
    """A lake of such tables, and the events that have landed in it."""

    lake: Lake
    landed: list[Event] = field(default_factory=list)

    def run(self, *arguments: str, events: Iterable[Event] = (), as_of: datetime = LAST) -> None:
        """Land the events, and some that have landed before; ``dbt run``, which must succeed."""
        events = list(events)
        if events:
            again = self.landed[-20:]
            result = self.lake.land(message(event).line() for event in [*again, *events])
            assert result == (len(events), len(again))
            self.landed += events
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
        place = tuple(row[name] for name in expected.key)
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
            rows[(key_value(source, key),)] = row
    return Expected((key_column(source),), rows)


def _state_end(source: Source, state: State) -> Row:
    return {
        "_occurred_at": moment(state.occurred_at),
        "_max_occurred_at": moment(state.max_occurred_at),
        "_position": _position(state.position),
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
        versions = history(
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
                "_position": _position(version.position),
            }
            place = key_value(source, key), moment(version.valid_from)
            rows[place] = row | _expiry(source, version.expires_at)
    return Expected((key_column(source), "valid_from"), rows)


def expected_rows(source: Source, events: Sequence[Event]) -> Expected:
    """The rows of a table without a key, by their columns and the number of the copy."""
    rows = {}
    for (image, _), copies in multiset(row_changes(source, events)).items():
        row = _values(image)
        for copy in range(1, copies.number + 1):
            rows[(*row.values(), copy)] = row | {
                "_copy": copy,
                "_position": _position(copies.position),
            }
    return Expected((*COLUMNS, "_copy"), rows)


def _row_start(source: Source, key: int, values: Sequence[str | None]) -> Row:
    if source.is_aerospike:
        start = {"_digest": key_value(source, key), "_namespace": source.schema}
        return start | {"_set": source.table} | _values(values)
    return {"id": key} | _values(values)


def _values(values: Sequence[str | None]) -> Row:
    return typed(
        {
            column: None if value is None else json.loads(value)
            for column, value in zip(COLUMNS, values, strict=True)
        }
    )


def typed(image: Image) -> Row:
    """The values of an image as the tables have them."""
    return {
        column: datetime.fromisoformat(value)
        if COLUMNS[column] == "timestamp_ntz" and isinstance(value, str)
        else value
        for column, value in image.items()
    }


def _position(position: Position) -> Row:
    return {**position._asdict(), "log_time": moment(position.log_time)}


def _expiry(source: Source, expires_at: int | None) -> Row:
    return {"_expires_at": moment(expires_at)} if source.is_aerospike else {}


def moment(micros: int | None) -> datetime | None:
    """A time of the references as the tables have it."""
    return None if micros is None else EPOCH + timedelta(microseconds=micros)
