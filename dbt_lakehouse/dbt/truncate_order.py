"""Where a truncate lies among rows of other partitions.

A truncate has no key, so it lies in one partition of its topic, whatever rows the others have.
Kafka orders messages within a partition only: in the same millisecond, or when a broker takes its
time over one partition, a row that the source wrote after a truncate sorts before it by log time.
Where the source says its own position of both (an LSN, an SCN, a place in the binlog, nanoseconds),
that decides. Where it doesn't, a row of the truncate's millisecond is taken for a later one: it
stays, and is counted.

A change log carries the decision in its log times. A truncate moves behind the rows before it, to
their log time or a microsecond behind it, which Kafka's timestamps don't use. A row behind it moves
along, and so does what follows in that row's partition. Whoever reads the log then needs its order
and nothing else. Two places can't be moved: those of rows and
truncates that earlier runs have written. A new truncate goes between them; a new row goes before
the earlier truncate. Where there is no such place, because earlier runs have written what is before
a truncate and what is behind it into one millisecond or into the wrong order, the log is made anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import Any, Final

import pyarrow as pa

from dbt_lakehouse.dbt.node_run import LOG_TIMES, NodeRun, kept
from dbt_lakehouse.spark.sessions import LakeSession

# Further apart in Kafka, log time decides: a source's positions start anew when it is replaced.
# A producer gives up on a message after two minutes, if it is not told otherwise.
NEARBY: Final = 10 * 60 * 1_000_000

# So often are places looked for; most are found at once.
_STEPS: Final = 8

_EVENT: Final = ("topic", "partition", "offset", "event_index")
_SAID: Final = "lsn string, scn string, file string, pos string, ts_ns string, ts_us string"


@dataclass(frozen=True, slots=True)
class Truncate:
    """A truncate of a change log; times in microseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    event_index: int
    source: str
    """The source table that it empties, as JSON."""
    said: tuple[str, int, int] | None
    """Its position in the source's own log: which kind of position, and the position."""
    log_time: int
    place: int
    """Its log time in the change log."""
    is_new: bool

    @property
    def event(self) -> tuple[str, int, int, int]:
        """Which event it is."""
        return (self.topic, self.partition, self.offset, self.event_index)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rows around a new truncate; log times in microseconds, None for no such row."""

    own_before: int | None = None
    """Of the newest row before it in its own partition, of whatever table."""
    own_written: int | None = None
    """The same, of the rows that earlier runs have written."""
    others_before: int | None = None
    """The least that is behind all rows before it in other partitions."""
    written_after: int | None = None
    """The greatest that is before all rows after it that earlier runs have written."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What has become of the log times of new events."""

    view: str | None = None
    """Of the events with another log time than in change_events: their place (``topic``,
    ``partition``, ``offset``, ``event_index``) and ``placed_at``. None for no such event.
    """
    ties: int = 0
    """Rows that are taken for later than a truncate because nothing says their order."""
    crossed: int = 0
    """Rows and truncates that have no place: with those that earlier runs have written, some row
    lies on the wrong side of a truncate.
    """
    newest: int | None = None
    """The log time of the log's newest truncate, if it is known; 0 for none."""


def place(
    session: LakeSession,
    run: NodeRun,
    log: str,
    conditions: Sequence[str],
    newest: int | None,
    view: str,
) -> Placed:
    """Find the log times of a change log's new events around truncates. ``newest`` is the log time
    of the newest truncate that the log has, if that is known; 0 for none.
    """
    events = run.upstreams[0]

    def rows(query: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in session.sql(query).collect()]

    new = events_sql(run.rows(events), conditions)
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
        if not run.is_incremental:
            return None
        near = [*conditions, _between("log_time", least - NEARBY, most + NEARBY)]
        moved = _between("_position.log_time", least - 3 * NEARBY, most + 3 * NEARBY)
        written = f"(select * from {log} where {moved})"
        return _written_sql(events_sql(run.rows_before(events), near), written)

    before = earlier(span["least"], span["most"])
    truncates = [truncate(row) for row in rows(found_sql(new, before))]
    if not truncates:
        return Placed(newest=newest)
    times = [each.log_time for each in truncates]
    before = earlier(min(times), max(times))
    near = [*conditions, _between("log_time", min(times) - NEARBY, max(times) + NEARBY)]
    new = events_sql(run.rows(events), near)
    newest = None if newest is None else max(newest, *times)
    found = Placed(newest=newest)
    # What moves lifts what is behind it in its partition, of other tables too, and their truncates.
    for step in range(_STEPS):
        nearby = _nearby_sql(new, before, found.view)
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
            select {", ".join(_EVENT)}, unix_micros(placed_at) as place
            from {places} as places
            left semi join {known} as truncates using ({", ".join(_EVENT)})""")
        by_event = {tuple(row[name] for name in _EVENT): row["place"] for row in lifted}
        truncates = [
            replace(each, place=by_event.get(each.event, each.place)) if each.is_new else each
            for each in truncates
        ]
    return found


def _between(column: str, least: int, most: int) -> str:
    return f"{column} between timestamp_micros({least}) and timestamp_micros({most})"


def has_several_partitions(run: NodeRun) -> bool:
    """Whether a topic of the events that a log reads may have several partitions."""
    events = run.table_of(run.upstreams[0])
    known = None if events is None else kept(events, LOG_TIMES)
    return known is None or any('"partition":0}' not in name for name in known)


def placed(truncates: Sequence[Truncate], bounds: Mapping[int, Bounds]) -> list[Truncate]:
    """The truncates in the source's order, new ones with their log time in the change log.

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
    """A truncate that ``found_sql`` has found."""
    said = row["said"]
    return Truncate(
        **{name: row[name] for name in (*_EVENT, "source", "log_time", "place", "is_new")},
        said=(said["kind"], int(said["major"]), int(said["minor"])) if said else None,
    )


def found_sql(new: str, before: str | None) -> str:
    """The query for the truncates that new events may lie near: those among them, and earlier ones.

    ``new`` are events as SQL of ``events_sql``, ``before`` earlier ones as SQL of ``_written_sql``.
    """
    return f"""
        select {", ".join(_EVENT)}, source, said, log_time, place, is_new
        from ({_nearby_sql(new, before)})
        where operation = 'truncate' and log_time is not null"""


def events_sql(rows: str, conditions: Sequence[str]) -> str:
    """The events of a log: place, operation, source, and what the source says of its position.

    ``rows`` are of change_events.
    """
    wanted = "\n            and ".join(
        [
            "operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')",
            *conditions,
        ]
    )
    return f"""
        select
            {", ".join(_EVENT)},
            log_time,
            operation,
            to_json(struct(source_database, source_schema, source_table)) as source,
            case
                when said.major is not null and said.minor is not null then said
            end as said
        from (
            select
                *,
                case
                    when source.lsn is not null then {_said("'lsn'", "source.lsn", "0")}
                    when source.scn is not null then {_said("'scn'", "source.scn", "0")}
                    when source.pos is not null then {_binlog()}
                    when source.ts_ns is not null then {_said("'ns'", "source.ts_ns", "0")}
                    when source.ts_us is not null then {_said("'us'", "source.ts_us", "0")}
                end as said
            from (
                select *, from_json(metadata, 'source struct<{_SAID}>').source as source
                from {rows}
                where
                    {wanted}
            )
        )"""


def _said(kind: str, major: str, minor: str) -> str:
    return (
        f"named_struct('kind', {kind},"
        f" 'major', try_cast({major} as decimal(38, 0)),"
        f" 'minor', try_cast({minor} as decimal(38, 0)))"
    )


def _binlog() -> str:
    # mysql-bin.000003: files of another name are another server's.
    name = "regexp_replace(source.file, '[0-9]+$', '')"
    return _said(name, "regexp_extract(source.file, '([0-9]+)$', 1)", "source.pos")


def _written_sql(before: str, log: str) -> str:
    """Earlier events, as SQL of ``events_sql``, with the place that a change log has given them."""
    return f"""
            select {", ".join(f"event.{name}" for name in _EVENT)},
                event.operation, event.source, event.said,
                unix_micros(event.log_time) as log_time,
                unix_micros(log._position.log_time) as place,
                false as is_new
            from ({before}) as event
            inner join {log} as log on {_is_same("event", "log._position")}"""


def _nearby_sql(new: str, before: str | None, places: str | None = None) -> str:
    """New events, with the places that they have got so far, and earlier ones."""
    query = f"""
            select {", ".join(_EVENT)}, operation, source, said,
                unix_micros(log_time) as log_time, unix_micros(log_time) as place, true as is_new
            from ({new})"""
    if places is not None:
        query = f"""
            select event.* except (place, is_new),
                coalesce(unix_micros(places.placed_at), event.place) as place,
                event.is_new
            from ({query}) as event
            left join {places} as places using ({", ".join(_EVENT)})"""
    return query if before is None else f"{query}\n            union all{before}"


def bounds_sql(truncates: str, nearby: str) -> str:
    """The query for the ``Bounds`` of the new ones of some truncates, by their ``index``.

    ``truncates`` is a view of ``table_of``, ``nearby`` SQL of the events around them.
    """
    return f"""
        with {_truncates_sql(truncates)},

        events as ({_events_sql(nearby)})

        select
            truncate.index,
            max(event.place) filter (where {_IS_BEFORE} and {_IS_OWN}) as own_before,
            max(event.place)
                filter (where {_IS_BEFORE} and {_IS_OWN} and not event.is_new) as own_written,
            max(event.place + if({_SORTS_BEFORE}, 0, 1))
                filter (where {_IS_BEFORE} and not {_IS_OWN} and {_IS_EMPTIED}) as others_before,
            min(event.place - if({_SORTS_BEFORE}, 1, 0))
                filter (
                    where not {_IS_BEFORE} and not {_IS_OWN} and {_IS_EMPTIED} and not event.is_new
                ) as written_after
        from truncates as truncate
        inner join events as event on {_IS_NEAR} and ({_IS_EMPTIED} or {_IS_OWN})
        where truncate.is_new
        group by truncate.index"""


def places_sql(truncates: str, nearby: str) -> str:
    """The query for the new events whose log time in the change log is another one than in
    change_events, with that (``placed_at``), for those whose order behind a truncate nothing says
    (``is_tied``), and for all, earlier ones too, that have no place (``is_crossed``).
    """
    return f"""
        with {_truncates_sql(truncates)},

        events as ({_events_sql(nearby)}),

        held as (
            select
                {", ".join(f"event.{name}" for name in _EVENT)},
                event.log_time,
                event.place,
                event.is_new,
                max(case
                    when {_IS_EMPTIED} and not {_IS_BEFORE}
                        then truncate.place + if({_IS_OWN} or not {_SORTS_BEFORE}, 0, 1)
                end) as at_least,
                min(case
                    when {_IS_EMPTIED} and {_IS_BEFORE}
                        then truncate.place - if({_IS_OWN} or {_SORTS_BEFORE}, 0, 1)
                end) as at_most,
                bool_or(
                    {_IS_EMPTIED}
                    and not {_IS_OWN}
                    and not {_IS_SAID}
                    and event.log_time = truncate.log_time
                ) as is_tied,
                max(case
                    when {_IS_EMPTIED} and {_COUNTS} and not {_IS_BEFORE}
                        then truncate.place + if({_IS_OWN} or not {_SORTS_BEFORE}, 0, 1)
                end) as at_least_now,
                min(case
                    when {_IS_EMPTIED} and {_COUNTS} and {_IS_BEFORE}
                        then truncate.place - if({_IS_OWN} or {_SORTS_BEFORE}, 0, 1)
                end) as at_most_now
            from events as event
            inner join truncates as truncate on {_IS_NEAR}
            group by
                {", ".join(f"event.{name}" for name in _EVENT)},
                event.log_time, event.place, event.is_new
        ),

        moved as (
            select
                {", ".join(_EVENT)},
                log_time,
                is_new,
                is_tied,
                if(
                    is_new,
                    greatest(least(place, at_most), at_least),
                    place
                ) as place,
                at_least_now,
                at_most_now
            from held
            union all
            select
                {", ".join(_EVENT)}, log_time, is_new, false, place,
                if(is_new and is_alone, place, null), if(is_new and is_alone, place, null)
            from {truncates}
        ),

        -- Whatever is decided, a partition stays in its order, with what it has of other tables.
        ordered as (
            select
                * except (place),
                place as own_place,
                max(place) over (
                    partition by topic, partition
                    order by offset, event_index
                    rows between unbounded preceding and current row
                ) as place
            from moved
        ),

        judged as (
            select
                *,
                place < at_least_now or place > at_most_now or (not is_new and place > own_place)
                    as is_misplaced
            from ordered
        )

        select
            {", ".join(_EVENT)},
            timestamp_micros(place) as placed_at,
            is_new and is_tied as is_tied,
            coalesce(is_misplaced, false) as is_crossed
        from judged
        where is_misplaced or (is_new and (place <> log_time or is_tied))"""


def _truncates_sql(truncates: str) -> str:
    return f"""truncates as (
            select
                * except (kind, major, minor),
                {_said("kind", "major", "minor")} as said,
                explode(array({_PERIOD} - 1, {_PERIOD}, {_PERIOD} + 1)) as period
            from {truncates}
        )"""


def _events_sql(nearby: str) -> str:
    return f"""
            select *, {_PERIOD} as period
            from ({nearby})
            where operation <> 'truncate'"""


def _is_same(one: str, other: str) -> str:
    return " and ".join(f"{one}.{name} = {other}.{name}" for name in _EVENT)


# Of an event and a truncate, as SQL.
# Joined by equal periods first, of which a truncate has those beside its own too: a table that is
# emptied every few minutes has many.
_PERIOD: Final = f"log_time div {NEARBY}"
_IS_NEAR: Final = (
    f"event.period = truncate.period and abs(event.log_time - truncate.log_time) <= {NEARBY}"
)
_IS_EMPTIED: Final = "event.source = truncate.source"
_IS_OWN: Final = "(event.topic = truncate.topic and event.partition = truncate.partition)"
_IS_SAID: Final = (
    "coalesce(event.said.kind = truncate.said.kind and event.said <> truncate.said, false)"
)
# Whether it is a fault if the two are on each other's wrong side.
_COUNTS: Final = f"(event.is_new or truncate.is_new) and ({_IS_SAID} or truncate.is_alone)"
_SORTS_BEFORE: Final = (
    "(struct(event.topic, event.partition) < struct(truncate.topic, truncate.partition))"
)
_IS_BEFORE: Final = f"""(case
            when {_IS_OWN}
                then struct(event.offset, event.event_index)
                    < struct(truncate.offset, truncate.event_index)
            when {_IS_SAID} then event.said < truncate.said
            else event.log_time < truncate.log_time
        end)"""


def table_of(truncates: Sequence[Truncate]) -> pa.Table:
    """Truncates as a table, with their ``index``, and whether a row's order to one can contradict
    that to no other (``is_alone``).
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
    """The truncates of a table that have the same log time, in two partitions, with nothing that
    says their order: a row of that time may have to be behind the one and before the other.
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
