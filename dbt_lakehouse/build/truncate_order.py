"""Place truncates among the rows of other partitions.

A truncate has no key, so it lies in one partition of its topic, whatever rows the other
partitions have. Kafka orders messages within a partition only. In the same millisecond, or when a
broker is slow in one partition, a row that the source wrote after a truncate sorts before it by
log time. If the source gives a position for both (an LSN, an SCN, a place in the binlog,
nanoseconds), that position decides. Otherwise a row of the truncate's millisecond counts as
later: it stays, and is counted.

A change log's log times carry the decision. A truncate moves behind the rows before it, to their
log time or a microsecond behind it, which Kafka's timestamps don't use. A row behind it moves
along, and so does everything that follows in that row's partition. A reader of the log then needs
only its order. Rows and truncates that earlier runs have written can't be moved. A new truncate
goes between such rows; a new row goes before an earlier truncate. If there is no such place,
because earlier runs have written the rows before and behind a truncate into one millisecond or in
the wrong order, the log is rebuilt.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import Any, Final

import pyarrow as pa

from dbt_lakehouse.build.truncate_sql import (
    EVENT,
    NEARBY,
    between,
    bounds_sql,
    events_sql,
    found_sql,
    moved_sql,
    nearby_sql,
    places_sql,
    written_sql,
)
from dbt_lakehouse.runs.log_input import Part
from dbt_lakehouse.runs.model_run import LOG_TIMES, NodeRun, kept
from dbt_lakehouse.session.pool import LakeSession

# The most iterations of the search; most truncates are placed in the first.
_STEPS: Final = 8


@dataclass(frozen=True, slots=True)
class Truncate:
    """A truncate of a change log; times in microseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    event_index: int
    source: str
    """The source table that it truncates, as JSON."""
    said: tuple[str, int, int] | None
    """Its position in the source's own log: the kind of position, and the position."""
    log_time: int
    place: int
    """Its log time in the change log."""
    is_new: bool

    @property
    def event(self) -> tuple[str, int, int, int]:
        """The coordinates of its event."""
        return (self.topic, self.partition, self.offset, self.event_index)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rows around a new truncate; log times in microseconds, None for no such row."""

    own_before: int | None = None
    """The newest row before it in its own partition, of any table."""
    own_written: int | None = None
    """The newest such row that earlier runs have written."""
    others_before: int | None = None
    """The smallest log time behind all rows before it in other partitions."""
    written_after: int | None = None
    """The greatest log time before all rows after it that earlier runs have written."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The log times of new events around truncates."""

    view: str | None = None
    """The view of the events whose log time changes: their coordinates (``topic``, ``partition``,
    ``offset``, ``event_index``) and ``placed_at``. None without such events.
    """
    ties: int = 0
    """Rows that count as later than a truncate because the source gives no order."""
    crossed: int = 0
    """Rows and truncates without a place: a row that earlier runs have written would be on the
    wrong side of a truncate.
    """
    newest: int | None = None
    """The log time of the log's newest truncate if it is known; 0 without truncates."""


def place(
    session: LakeSession,
    events: Callable[[str, str | None], str],
    log: str,
    newest: int | None,
    view: str,
    *,
    goes_on: bool,
) -> Placed:
    """Find the log times of a change log's new events around truncates. ``events`` gives the new
    events, or those that earlier runs have read (``log_input.Part``), as SQL of a relation,
    optionally with a condition on their log times. ``newest`` is the log time of the log's newest
    truncate if it is known; 0 without truncates. ``goes_on``: whether earlier runs have written
    rows.
    """

    def rows(query: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in session.sql(query).collect()]

    new = events_sql(events(Part.NEW, None))
    (span,) = rows(f"""
        select
            unix_micros(min(log_time)) as least,
            unix_micros(max(log_time)) as most,
            count_if(operation = 'truncate') as truncates
        from ({new})""")
    far = newest is not None and span["least"] is not None and newest < span["least"] - NEARBY
    if span["least"] is None or (not span["truncates"] and far):
        return Placed(newest=newest)

    def earlier(least: int, most: int) -> str | None:
        if not goes_on:
            return None
        near = between("log_time", least - NEARBY, most + NEARBY)
        moved = between("_position.log_time", least - 3 * NEARBY, most + 3 * NEARBY)
        written = f"(select * from {log} where {moved})"
        return written_sql(events_sql(events(Part.BEFORE, near)), written)

    before = earlier(span["least"], span["most"])
    truncates = [truncate(row) for row in rows(found_sql(new, before))]
    if not truncates:
        return Placed(newest=newest)
    times = [each.log_time for each in truncates]
    before = earlier(min(times), max(times))
    near = between("log_time", min(times) - NEARBY, max(times) + NEARBY)
    new = events_sql(events(Part.NEW, near))
    newest = None if newest is None else max(newest, *times)
    found = Placed(newest=newest)
    # Decoded once: each step looks at them twice.
    near_events = f"{view}_near"
    session.evaluate(near_events, nearby_sql(new, before))
    # A moved event also moves what is behind it in its partition, rows and truncates of other
    # tables included.
    for step in range(_STEPS):
        nearby = moved_sql(near_events, found.view)
        known, places = f"{view}_truncates_{step}", f"{view}_{step}"
        session.hold(known, table_of(truncates))
        bounds = {row.pop("index"): Bounds(**row) for row in rows(bounds_sql(known, nearby))}
        truncates = placed(truncates, bounds)
        session.hold(known, table_of(truncates))
        if session.evaluate(places, places_sql(known, nearby)) == 0:
            return Placed(newest=newest)
        (counts,) = rows(
            f"select count_if(is_tied) as ties, count_if(is_crossed) as crossed from {places}"
        )
        found = Placed(places, **counts, newest=newest)
        if not found.crossed:
            break
        lifted = rows(f"""
            select {", ".join(EVENT)}, unix_micros(placed_at) as place
            from {places} as places
            left semi join {known} as truncates using ({", ".join(EVENT)})""")
        by_event = {tuple(row[name] for name in EVENT): row["place"] for row in lifted}
        truncates = [
            replace(each, place=by_event.get(each.event, each.place)) if each.is_new else each
            for each in truncates
        ]
    return found


def has_several_partitions(run: NodeRun) -> bool:
    """Whether some topic of the log's events may have several partitions."""
    events = run.table_of(run.upstreams[0])
    known = None if events is None else kept(events, LOG_TIMES)
    return known is None or any('"partition":0}' not in name for name in known)


def placed(truncates: Sequence[Truncate], bounds: Mapping[int, Bounds]) -> list[Truncate]:
    """The truncates in the source's order; new ones get their log time in the change log.

    ``bounds`` are by the truncate's index in ``truncates``.
    """
    around = {id(each): bounds.get(index, Bounds()) for index, each in enumerate(truncates)}
    ordered = sorted(truncates, key=cmp_to_key(_compare))
    places = {id(each): each.place for each in truncates}
    # Rows between two truncates move behind the first, and must stay before the second.
    least: dict[str, int] = {}
    for each in ordered:
        found = around[id(each)]
        if each.is_new:
            behind = (found.own_before, found.others_before, least.get(each.source))
            places[id(each)] = _most(each.place, *behind)
        least[each.source] = places[id(each)] + 2
    most: dict[str, int] = {}
    for each in reversed(ordered):
        found, place = around[id(each)], places[id(each)]
        if each.is_new:
            before = [found.written_after, most.get(each.source)]
            place = min([place, *(limit for limit in before if limit is not None)])
            places[id(each)] = place if found.own_written is None else max(place, found.own_written)
        most[each.source] = places[id(each)] - 2
    return [replace(each, place=places[id(each)]) for each in ordered]


def _most(value: int, *others: int | None) -> int:
    return max([value, *(each for each in others if each is not None)])


def _compare(one: Truncate, other: Truncate) -> int:
    is_near = abs(one.log_time - other.log_time) <= NEARBY
    by_source = is_near and _is_said(one, other)
    left, right = (_order(each, by_source) for each in (one, other))
    return int(left > right) - int(left < right)


def _order(truncate: Truncate, by_source: bool) -> Any:
    return (
        truncate.said
        if by_source
        else (
            *(truncate.log_time, truncate.topic, truncate.partition),
            *(truncate.offset, truncate.event_index),
        )
    )


def truncate(row: Mapping[str, Any]) -> Truncate:
    """The truncate in a row of ``found_sql``."""
    said = row["said"]
    return Truncate(
        **{name: row[name] for name in (*EVENT, "source", "log_time", "place", "is_new")},
        said=(said["kind"], int(said["major"]), int(said["minor"])) if said else None,
    )


def table_of(truncates: Sequence[Truncate]) -> pa.Table:
    """Truncates as a table, with their ``index``. ``is_alone``: no other truncate can contradict
    a row's order to this one.
    """
    twins = _twins(truncates)
    said = [each.said or (None, None, None) for each in truncates]
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "index": (pa.int32(), list(range(len(truncates)))),
        "topic": (pa.string(), [each.topic for each in truncates]),
        "partition": (pa.int32(), [each.partition for each in truncates]),
        "offset": (pa.int64(), [each.offset for each in truncates]),
        "event_index": (pa.int32(), [each.event_index for each in truncates]),
        "source": (pa.string(), [each.source for each in truncates]),
        "kind": (pa.string(), [kind for kind, _, _ in said]),
        "major": (pa.string(), [None if part is None else str(part) for _, part, _ in said]),
        "minor": (pa.string(), [None if part is None else str(part) for _, _, part in said]),
        "log_time": (pa.int64(), [each.log_time for each in truncates]),
        "place": (pa.int64(), [each.place for each in truncates]),
        "is_new": (pa.bool_(), [each.is_new for each in truncates]),
        "is_alone": (pa.bool_(), [each not in twins for each in truncates]),
    }
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


def _twins(truncates: Sequence[Truncate]) -> set[Truncate]:
    """The truncates of a table that have the same log time in two partitions, without an order
    from the source: a row of that time may have to be behind the one and before the other.
    """
    found: dict[tuple[str, int], list[Truncate]] = {}
    for each in truncates:
        found.setdefault((each.source, each.log_time), []).append(each)
    return {
        each
        for group in found.values()
        for each in group
        for other in group
        if (each.topic, each.partition) != (other.topic, other.partition)
        and not _is_said(each, other)
    }


def _is_said(one: Truncate, other: Truncate) -> bool:
    """Whether the source says the order of two truncates."""
    return bool(one.said and other.said and one.said[0] == other.said[0] and one.said != other.said)
