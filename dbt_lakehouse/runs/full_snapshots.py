"""Find the full snapshots of source tables that have ended, by the marks of Debezium's
connectors.

The first row that a snapshot reads of a table is marked ``first`` or
``first_in_data_collection``, the last row ``last`` or ``last_in_data_collection``
(``source.snapshot``). All rows of a snapshot share a position in the source's own log, by which
the last row names its first one. This distinguishes an interrupted snapshot from the next one.
Without such a position the nearest first row before the last one is taken. A snapshot of one
row has one mark only, and an incremental snapshot has no marks: neither counts.

A row that an ended snapshot did not read is gone at the source. A log that reconciles snapshots
(``reconcile_snapshots``) has a truncate for that, right before the first row: ``EVENT_INDEX`` of
its payload.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import marks
from dbt_lakehouse.runs.formats import JSON_ESCAPE
from dbt_lakehouse.runs.marks import HistoryLost, Mark, parsed, reading
from dbt_lakehouse.runs.source_filter import all_pairs, may_have_operation
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.core.events import SOURCE_FIELDS

EVENT_INDEX: Final = -1
"""The index of the truncate that stands for a snapshot: before the event of its first row's
payload.
"""
RECONCILED: Final = "snapshot"
"""``added_by`` of such a truncate in other_events."""
NO_RECONCILING: Final = "event_index >= 0"
"""The condition (SQL) on events of logs that don't reconcile snapshots."""
PROPERTY: Final = "lakehouse.snapshots"

_FIRST: Final = ("first", "first_in_data_collection")
_LAST: Final = ("last", "last_in_data_collection")
_MARKS: Final = (*_FIRST, *_LAST)
MARK: Final = (
    "coalesce(get_json_object(metadata, '$.snapshot'),"
    " get_json_object(metadata, '$.source.snapshot'))"
)
"""The snapshot mark of an event's row, as SQL."""


def is_first(mark: Any) -> bool:
    """Whether a snapshot begins with a row of this mark."""
    return mark in _FIRST


def is_last(mark: Any) -> bool:
    """Whether a snapshot ends with a row of this mark."""
    return mark in _LAST


def mark_of(metadata: bytes | None) -> Any:
    """The snapshot mark of an event's row, from its metadata."""
    told = {} if metadata is None else msgspec.json.decode(metadata)
    source = told.get("source")
    return told.get("snapshot") or (source.get("snapshot") if isinstance(source, dict) else None)


class Row(NamedTuple):
    """A row with a snapshot mark."""

    topic: str
    partition: int
    offset: int
    log_time: int
    """Microseconds since the epoch."""
    source: tuple[str | None, ...]
    """Database, schema and table."""
    mark: str
    said: tuple[str, ...] | None
    """The source's position, None if it gives no position."""

    def is_before(self, other: "Row") -> bool:
        """Whether the row may come before another row of its topic. Across partitions, the order
        of rows of one millisecond is unknown.
        """
        if self.partition == other.partition:
            return self.offset < other.offset
        return self.log_time <= other.log_time


class Ended(NamedTuple):
    """A snapshot that has ended."""

    first: Row
    last: Row


def ended(rows: Iterable[Row]) -> list[Ended]:
    """The snapshots that have ended, from all their marked rows in any order."""
    by_table: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        by_table.setdefault((row.topic, row.source), []).append(row)
    found: dict[Row, Row] = {}
    for marked in by_table.values():
        marked.sort(key=lambda row: (row.log_time, row.partition, row.offset))
        firsts = [row for row in marked if is_first(row.mark)]
        for last in (row for row in marked if is_last(row.mark)):
            if (first := _first_of(last, firsts)) is not None:
                found.setdefault(first, last)
    return [Ended(*each) for each in found.items()]


def _first_of(last: Row, firsts: Iterable[Row]) -> Row | None:
    """The newest first row of the snapshot that a last row ends."""
    said: Row | None = None
    for row in firsts:
        if row.is_before(last) and (None in (row.said, last.said) or row.said == last.said):
            said = row
    return said


def row_of(found: Mapping[str, Any]) -> Row:
    """The row in a result of ``sql/snapshot_marks.sql``."""
    return Row(
        topic=found["topic"],
        partition=found["partition"],
        offset=found["offset"],
        log_time=found["log_time"],
        source=tuple(found[name] for name in SOURCE_FIELDS),
        mark=found["mark"],
        said=_said(found["metadata"]),
    )


def _said(metadata: str) -> tuple[str, ...] | None:
    source = msgspec.json.decode(metadata).get("source")
    if not isinstance(source, dict):
        return None
    for names in (("lsn",), ("scn",), ("file", "pos")):
        if all(source.get(name) is not None for name in names):
            return (*names, *(str(source[name]) for name in names))
    return None


# -- which payloads and events are looked at


def _in_avro(text: str) -> str:
    # With its length in front, as a zigzag varint.
    return f"contains(value, X'{bytes([2 * len(text)]).hex()}{text.encode().hex()}')"


# JSON may escape any letter.
MAY_BE_MARKED: Final = f"""case
    when format like '%avro' then {" or ".join(map(_in_avro, _MARKS))}
    else coalesce(
        cast(value as string) rlike 'snapshot"\\\\s*:\\\\s*"(first|last)'
        or contains(value, X'{JSON_ESCAPE.hex()}'),
        false
    )
end"""
"""A condition (SQL) on payloads with ``format``: the payloads of marked rows meet it."""


def is_marked(sources: "Sources") -> str:
    """The condition (SQL) on events for marked rows of some source tables."""
    marked = f"operation = 'snapshot' and {MARK} in ({sql_texts(_MARKS)})"
    if sources is None:
        return marked
    tables = " or ".join(f"({_is_of(source)})" for source in sources)
    return f"{marked} and ({tables})"


def _is_of(source: Iterable[str | None]) -> str:
    return " and ".join(
        f"{name} is null" if value is None else f"{name} = {sql_text(value)}"
        for name, value in zip(SOURCE_FIELDS, source, strict=True)
    )


# -- what has been looked at

Sources = tuple[tuple[str | None, ...], ...] | None
"""Source tables: database, schema and table of each; None for all."""


def reconciled(logs: Iterable[Mapping[str, Any]]) -> Sources:
    """The source tables whose snapshots any log reconciles."""
    found: set[tuple[str | None, ...]] = set()
    for log in logs:
        if not reconciles(log):
            continue
        if log["sources"] is None:
            return None
        found.update(map(tuple, log["sources"]))
    return tuple(sorted(found, key=str))


def reconciles(log: Mapping[str, Any]) -> bool:
    """Whether a change log reconciles snapshots."""
    return bool(log.get("reconcile_snapshots"))


@dataclass(frozen=True, slots=True)
class Looked:
    """How far other_events has been searched for ended snapshots."""

    bronze: Mark | None = None
    own: Mark | None = None

    def may_have_more(self, table: Table) -> bool:
        """Whether other_events (``table``) has received rows of snapshots since."""
        return self.own is None or may_have_operation(table, self.own.snapshot, "snapshot")


def looked(table: Table, sources: Sources) -> Looked:
    """The state that other_events has kept; empty if it was rebuilt or rolled back since, or if
    the source tables to search for have changed.
    """
    held = json.loads(table.properties.get(PROPERTY) or "{}")
    if held.get("sources") != _text(sources):
        return Looked()
    own = parsed(held["own"])
    try:
        reading(own, table)
    except HistoryLost:
        return Looked()
    return Looked(parsed(held["bronze"]), own)


def kept(bronze: Mark, table: Table, sources: Sources) -> str:
    """The property that other_events keeps after the search, with bronze's mark."""
    held = {"bronze": str(bronze), "own": str(marks.mark_of(table))}
    return json.dumps({**held, "sources": _text(sources)}, sort_keys=True)


def _text(sources: Sources) -> str:
    return json.dumps(sources)


def topics_of(table: Table, sources: Sources) -> list[str] | None:
    """The topics that have events of some source tables; None if that is unknown."""
    pairs = all_pairs(table)
    if pairs is None:
        return None
    return sorted({str(pair[0]) for pair in pairs if sources is None or tuple(pair[1:]) in sources})
