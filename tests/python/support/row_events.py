"""Changes of rows as their sources make them, and what the references take of them.

Each event says what happened, once; from it come the bytes of its Kafka message on one side
(row_messages) and the reference's ``Change`` on the other, so no decoder and no SQL stands between
the two.
"""

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from dbt_lakehouse.reference.fold import (
    Change,
    Order,
    Position,
    is_before,
    known_time,
    log_order,
    newest_of,
)
from dbt_lakehouse.reference.history import RowChange
from python_udfs.registry import AEROSPIKE_FORMATS
from support.streams import UNAVAILABLE

Value = str | int | bool | None
Image = Mapping[str, Value]

# The value columns of every source table here, and their types.
COLUMNS: Final = {
    "level": "bigint",
    "label": "string",
    "note": "string",
    "seen": "timestamp_ntz",
}
# A column of what messages say beside the row: the time, where formats have it, as they have it.
SAID_AT: Final = "said_at"
_PATHS: Final = {
    **dict.fromkeys(AEROSPIKE_FORMATS, "lut"),
    "aws_dms_json": "transaction-id",
    # Which no changefeed has: its times are no integers.
    "cockroachdb_json": "ms",
    "maxwell_json": "ts",
    "canal_json": "es",
    "mongodb_json": "clusterTime.$timestamp.t",
}
# Those that tell whole seconds, and those of tables without a schema.
BY_THE_SECOND: Final = ("maxwell_json", "mongodb_json")
_WITHOUT_SCHEMA: Final = ("cockroachdb_json", "maxwell_json", "canal_json", "mongodb_json")
ALL_COLUMNS: Final = (*COLUMNS, SAID_AT)
"""The columns as the references have them."""
# The database of the tables that Debezium reads.
DATABASE: Final = "shop"
NOTHING: Final[Image] = MappingProxyType({})

WRITES: Final = ("snapshot", "insert", "update", "upsert")
# What a message can be that changes no row: no message at all of its format, or an empty one.
POISON, TOMBSTONE = "poison", "tombstone"


class Source(NamedTuple):
    """A source table. ``partial``: a column that an image doesn't name is left as it was.

    With ``tables`` it is several of one shape, of which ``table`` is the common name.
    """

    topic: str
    schema: str
    table: str
    partial: bool = False
    order_by_source_time: bool = False
    has_key: bool = True
    tables: tuple[str, ...] = ()
    format: str = "debezium_json"
    is_compacted: bool = False
    names_keys: bool = False
    """Whether the schemas of its messages' keys name it."""
    is_ordered: bool = False
    """Whether its log goes by the LSNs of its events."""

    @property
    def is_aerospike(self) -> bool:
        """Whether it is an Aerospike set."""
        return self.format in AEROSPIKE_FORMATS

    @property
    def is_of_documents(self) -> bool:
        """Whether it is a collection of MongoDB's."""
        return self.format == "mongodb_json"

    @property
    def columns(self) -> dict[str, str | dict[str, str]]:
        """What its change log declares of its columns."""
        path = _PATHS.get(self.format, "source.ts_ms")
        return {**COLUMNS, SAID_AT: {"type": "bigint", "from": "metadata", "path": path}}

    @property
    def named_database(self) -> str | None:
        """The database, if messages name one."""
        has_none = self.is_aerospike or self.format in ("aws_dms_json", "cockroachdb_json")
        return None if has_none else DATABASE

    @property
    def named_schema(self) -> str | None:
        """The schema, if messages name one: of MySQL's tables and MongoDB's they do not."""
        return None if self.format in _WITHOUT_SCHEMA else self.schema

    @property
    def names_table(self) -> bool:
        """Whether messages name their table: of CockroachDB's wrapped envelope, the topic does."""
        return self.format != "cockroachdb_json"


class Event(NamedTuple):
    """One change, and the place of the Kafka message that it comes in.

    ``named`` is what the image names: with None for null, with UNAVAILABLE for what Debezium can't
    say. ``before`` is the image before, ``previous_key`` the key that an update has replaced,
    ``of_table`` the one of several source tables, ``raw`` the bytes of what changes no row. Of a
    key update's delete and insert, ``other_key`` is the key that a header names, ``lsn`` the place
    of the source's change. One that ``is_marked`` has its key's ``marker`` wherever its message has
    room for one.
    """

    source: Source
    partition: int
    offset: int
    sent_ms: int | None
    operation: str
    key: int | None = None
    time_ms: int | None = None
    named: Image = NOTHING
    before: Image | None = None
    previous_key: int | None = None
    expires_s: int | None = None
    has_set: bool = True
    of_table: str | None = None
    raw: bytes | None = None
    is_marked: bool = False
    other_key: int | None = None
    lsn: int | None = None

    @property
    def is_change(self) -> bool:
        """Whether it is a change at all."""
        return self.operation not in (POISON, TOMBSTONE)

    @property
    def table(self) -> str:
        """The source table, be it one of several."""
        return self.of_table or self.source.table

    @property
    def table_if_several(self) -> str | None:
        """The source table where the log is of several, as the references take it."""
        return self.table if self.source.tables else None


def marker(source: Source, key: int) -> str:
    """A text that only messages of that key hold."""
    return f"subject-{source.table}-{key}-7f3a"


def key_value(source: Source, key: int) -> int | str:
    """A key as the tables hold it."""
    return b64encode(digest(key)).decode() if source.is_aerospike else key


def digest(key: int) -> bytes:
    """The digest of an Aerospike record."""
    return key.to_bytes(20)


# --- what the references take ---------------------------------------------------------------------


def placed(events: Iterable[Event]) -> list[tuple[Event, Position]]:
    """The events with their places in the log, if these are all that the log has.

    An event's log time is the largest timestamp so far in its partition. Where the source orders
    the log, its place is its LSN's digits behind their number.
    """
    found = []
    newest: dict[tuple[str, int], int | None] = {}
    said: dict[tuple[str, int], str] = {}
    for event in sorted(events, key=lambda each: (each.source.topic, each.partition, each.offset)):
        place = event.source.topic, event.partition
        source: str | None = None
        if event.source.is_ordered and event.is_change:
            # Without a place of its own it comes behind the one before it.
            source = f"{said[place]} !" if place in said else None
            if event.lsn is not None:
                digits = str(event.lsn)
                source = said[place] = f"p{len(digits):02}{digits}"
        times = [time for time in (newest.get(place), event.sent_ms) if time is not None]
        newest[place] = max(times, default=None)
        found.append((event, Position(micros(newest[place]), *place, event.offset, 0, source)))
    return found


def changes_by_key(source: Source, events: Iterable[Event]) -> dict[int, list[Change]]:
    """The changes of each key of a source table, from all events that have landed.

    An update that replaces its key deletes the old one too; a truncate is a change of every key; a
    delete that doesn't say its set is one of the keys that the set is known to hold; an insert that
    a key update has made has the values that it leaves as they were from the old key's row.
    """
    changes: dict[int, list[Change]] = defaultdict(list)
    updates: dict[int, list[tuple[Event, Change]]] = defaultdict(list)
    without_set: dict[int, list[Change]] = defaultdict(list)
    emptied: list[tuple[Event, Change]] = []
    placed_events = placed(events)
    for event, position in placed_events:
        if event.source != source or not event.is_change:
            continue
        change = _change(event, position)
        if event.operation == "truncate":
            emptied.append((event, change))
            continue
        assert event.key is not None
        (changes if event.has_set else without_set)[event.key].append(change)
        updates[event.key].append((event, change))
        if event.previous_key is not None:
            changes[event.previous_key].append(_change(event, position, deletes=True))
    for key, own in updates.items():
        for event, change in own:
            if event.operation == "insert" and event.other_key is not None and change.unchanged:
                changes[key].remove(change)
                changes[key].append(_with_old_values(updates, emptied, event, change))
    for key, position in _left_deletes(source, placed_events):
        changes[key].append(
            Change("delete", None, None, position, None, [None] * len(ALL_COLUMNS), source=None)
        )
    truncates = [change for _, change in emptied]
    return {key: [*own, *without_set[key], *truncates] for key, own in changes.items()}


def _left_deletes(
    source: Source, events: Iterable[tuple[Event, Position]]
) -> list[tuple[int, Position]]:
    """The keys and places of deletes of which compaction has left a tombstone: no delete and no
    tombstone of its key stands before it, and something does.
    """
    found = []
    before: dict[int, str] = {}
    if source.is_compacted:
        for event, position in sorted(events, key=lambda each: place_order(each[1])):
            if event.source != source or event.key is None or event.operation == POISON:
                continue
            newest = before.get(event.key, "delete")
            if event.operation == TOMBSTONE and newest not in ("delete", TOMBSTONE):
                found.append((event.key, position._replace(event_index=1)))
            before[event.key] = event.operation
    return found


def place_order(position: Position) -> tuple[bool, int, str, int, int]:
    """What positions sort by: one without a log time comes first."""
    log_time, topic, partition, offset = position[:4]
    return log_time is not None, log_time or 0, topic, partition, offset


Told = tuple[Event, Change]
Updates = Mapping[int, list[Told]]


def _with_old_values(
    updates: Updates, truncates: Sequence[Told], event: Event, change: Change
) -> Change:
    values = list(change.values)
    unknown = []
    for place in change.unchanged:
        known = _old_value(updates, truncates, event, change, place)
        values[place] = known[0] if known else None
        if not known:
            unknown.append(place)
    return change._replace(values=values, unchanged=unknown)


def _old_value(
    updates: Updates, truncates: Sequence[Told], insert: Event, change: Change, place: int
) -> list[str | None]:
    """A column's value in the old key's row before the delete of the same change of the source, or
    before the insert if there is no such delete; empty if nothing is known of it.
    """
    assert insert.other_key is not None
    own = updates.get(insert.other_key, [])
    if insert.lsn is None:
        end = _unnamed_end(own, insert, change)
    else:
        deletes = [
            log_order(each)
            for event, each in own
            if event.operation == "delete"
            and (event.other_key, event.lsn) == (insert.key, insert.lsn)
        ]
        end = min(deletes, default=log_order(change))
    before = _in_time(insert.source, [*own, *truncates])
    for event, each in reversed([pair for pair in before if log_order(pair[1]) < end]):
        if each.operation in ("delete", "truncate"):
            break
        if place not in each.unchanged:
            return [each.values[place]]
        if event.operation == "insert":
            return (
                []
                if event.other_key is None
                else _old_value(updates, truncates, event, each, place)
            )
    return []


def _unnamed_end(own: Sequence[Told], insert: Event, change: Change) -> Order:
    """The place of the delete that belongs to an insert of which neither names the change: the
    last that is not later, or the first of several in a row (a rewritten delete and its tombstone).
    The insert's own place without such a delete.
    """
    end = log_order(change)
    begun: Order | None = None
    for event, each in sorted(own, key=lambda pair: log_order(pair[1])):
        is_its = event.operation == "delete" and event.other_key == insert.key
        if not is_its or (each.position.log_time or 0) > (change.position.log_time or 0):
            begun = None
            continue
        begun = begun or log_order(each)
        end = begun
    return end


def _in_time(source: Source, events: Iterable[Told]) -> list[Told]:
    """The events of a key in log order, without those that are late by their time, and without
    truncates of other tables than that of its row.
    """
    found = []
    newest: int | None = None
    table: str | None = None
    for event, change in sorted(events, key=lambda each: log_order(each[1])):
        time = known_time(change)
        if event.operation == "truncate":
            if event.table_if_several != table:
                continue
            newest = time
        else:
            table = event.table_if_several
            if source.order_by_source_time and is_before(time, newest):
                continue
            newest = newest_of(time, newest)
        found.append((event, change))
    return found


def _change(event: Event, position: Position, deletes: bool = False) -> Change:
    is_write = event.operation in WRITES and not deletes
    image = _resolved(event)
    unchanged = [
        place
        for place, column in enumerate(COLUMNS)
        if (column not in image and event.source.partial)
        or (event.named.get(column) == UNAVAILABLE and image[column] in (None, UNAVAILABLE))
    ]
    values = [None if place in unchanged else text for place, text in enumerate(_row(image))]
    values += _said_beside(event)
    if not is_write:
        unchanged = []
        is_shipped = event.operation == "delete" and event.has_set and not deletes
        # The row before it, as far as the delete ships that.
        values = [None] * len(ALL_COLUMNS)
        if is_shipped:
            values = [*_row(event.before or {}), *_said_beside(event)]
    return Change(
        operation="delete" if deletes else event.operation,
        occurred_at=micros(event.time_ms),
        kafka_timestamp=micros(event.sent_ms),
        position=position,
        expires_at=None if event.expires_s is None else event.expires_s * 1_000_000,
        values=values,
        unchanged=unchanged,
        source=event.table_if_several,
    )


def row_changes(source: Source, events: Iterable[Event]) -> list[RowChange]:
    """The changes of a table without a key, from all events that have landed in any topic."""
    table = source.schema, source.table
    return [
        RowChange(
            event.operation,
            position,
            before=None if event.before is None else _row(event.before),
            after=_row(_resolved(event)) if event.operation in WRITES else None,
            source=event.table_if_several,
            beside=_said_beside(event),
        )
        for event, position in placed(events)
        if event.is_change and (event.source.schema, event.source.table) == table
    ]


def _said_beside(event: Event) -> tuple[str | None]:
    """What the message says of the time."""
    if event.time_ms is None:
        return (None,)
    is_by_the_second = event.source.format in BY_THE_SECOND
    return (str(event.time_ms // 1000 if is_by_the_second else event.time_ms),)


def _resolved(event: Event) -> Image:
    """The image, with the values before for those that Debezium can't say, and for those that a
    partial image leaves as they were.
    """
    before = event.before or {}
    kept = before if event.source.partial else {}
    return {
        **kept,
        **{
            column: before.get(column) if value == UNAVAILABLE else value
            for column, value in event.named.items()
        },
    }


def _row(image: Image) -> tuple[str | None, ...]:
    values = [_fitting(column, image.get(column)) for column in COLUMNS]
    return tuple(None if value is None else json.dumps(value) for value in values)


def _fitting(column: str, value: Value) -> Value:
    """The value, or none if it doesn't fit its column."""
    is_misfit = COLUMNS[column] == "bigint" and isinstance(value, str)
    return None if is_misfit and value != UNAVAILABLE else value


def micros(milliseconds: int | None) -> int | None:
    """Microseconds, as the references count them."""
    return None if milliseconds is None else milliseconds * 1000
