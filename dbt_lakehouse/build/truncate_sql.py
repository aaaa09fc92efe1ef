"""The SQL of ``dbt_lakehouse.build.truncate_order``: the events of a change log with the
positions that their source gives, the truncates among them, the rows around each truncate, and
the events whose log time changes. Log times are microseconds since the epoch.
"""

from typing import Final

# Events further apart in Kafka are ordered by log time: a source's positions start again when it
# is replaced. By default, a producer gives up on a message after two minutes.
NEARBY: Final = 10 * 60 * 1_000_000
EVENT: Final = ("topic", "partition", "offset", "event_index")
"""The columns that identify an event."""
_SAID: Final = "lsn string, scn string, file string, pos string, ts_ns string, ts_us string"


def between(column: str, least: int, most: int) -> str:
    """The condition that a timestamp lies between two moments in microseconds, both included."""
    return f"{column} between timestamp_micros({least}) and timestamp_micros({most})"


def found_sql(new: str, before: str | None) -> str:
    """The query for the truncates that new events may lie near, new and earlier ones.

    ``new`` are events as SQL of ``events_sql``, ``before`` earlier ones as SQL of
    ``written_sql``.
    """
    return f"""
        select {", ".join(EVENT)}, source, said, log_time, place, is_new
        from ({nearby_sql(new, before)})
        where operation = 'truncate' and log_time is not null"""


def events_sql(rows: str) -> str:
    """The events of a log: place, operation, source, and the position that the source gives.

    ``rows`` are the log's decoded events.
    """
    return f"""
        select
            {", ".join(EVENT)},
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
            )
        )"""


def _said(kind: str, major: str, minor: str) -> str:
    return (
        f"named_struct('kind', {kind},"
        f" 'major', try_cast({major} as decimal(38, 0)),"
        f" 'minor', try_cast({minor} as decimal(38, 0)))"
    )


def _binlog() -> str:
    # mysql-bin.000003: files with another base name are from another server.
    name = "regexp_replace(source.file, '[0-9]+$', '')"
    return _said(name, "regexp_extract(source.file, '([0-9]+)$', 1)", "source.pos")


def written_sql(before: str, log: str) -> str:
    """Earlier events, as SQL of ``events_sql``, with the places that a change log has
    given them.
    """
    return f"""
            select {", ".join(f"event.{name}" for name in EVENT)},
                event.operation, event.source, event.said,
                unix_micros(event.log_time) as log_time,
                unix_micros(log._position.log_time) as place,
                false as is_new
            from ({before}) as event
            inner join {log} as log on {_is_same("event", "log._position")}"""


def nearby_sql(new: str, before: str | None) -> str:
    """New events with their own log times as places, and earlier ones."""
    query = f"""
            select {", ".join(EVENT)}, operation, source, said,
                unix_micros(log_time) as log_time, unix_micros(log_time) as place, true as is_new
            from ({new})"""
    return query if before is None else f"{query}\n            union all{before}"


def moved_sql(nearby: str, places: str | None) -> str:
    """The events of ``nearby``, a view of ``nearby_sql``, new ones with the places that they have
    got so far.
    """
    if places is None:
        return f"select * from {nearby}"
    return f"""
            select event.* except (place),
                if(event.is_new, coalesce(unix_micros(places.placed_at), event.place), event.place)
                    as place
            from {nearby} as event
            left join {places} as places using ({", ".join(EVENT)})"""


def bounds_sql(truncates: str, nearby: str) -> str:
    """The query for the ``Bounds`` of the new truncates, by their ``index``.

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
    """The query for three kinds of events: new events whose log time in the change log differs
    from their own, with that log time (``placed_at``); events whose order behind a truncate
    nothing gives (``is_tied``); and events without a place, earlier ones included
    (``is_crossed``).
    """
    return f"""
        with {_truncates_sql(truncates)},

        events as ({_events_sql(nearby)}),

        held as (
            select
                {", ".join(f"event.{name}" for name in EVENT)},
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
                {", ".join(f"event.{name}" for name in EVENT)},
                event.log_time, event.place, event.is_new
        ),

        moved as (
            select
                {", ".join(EVENT)},
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
                {", ".join(EVENT)}, log_time, is_new, false, place,
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
            {", ".join(EVENT)},
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
    return " and ".join(f"{one}.{name} = {other}.{name}" for name in EVENT)


# SQL conditions on an event and a truncate. They are joined by equal periods first, and a
# truncate has its neighbouring periods too: a table that is emptied every few minutes has many
# truncates.
_PERIOD: Final = f"log_time div {NEARBY}"
_IS_NEAR: Final = (
    f"event.period = truncate.period and abs(event.log_time - truncate.log_time) <= {NEARBY}"
)
_IS_EMPTIED: Final = "event.source = truncate.source"
_IS_OWN: Final = "(event.topic = truncate.topic and event.partition = truncate.partition)"
_IS_SAID: Final = (
    "coalesce(event.said.kind = truncate.said.kind and event.said <> truncate.said, false)"
)
# A snapshot's rows give its place, and each comes after its truncate.
_IS_READ: Final = (
    "(truncate.event_index < 0 and event.operation = 'snapshot' and event.said <=> truncate.said)"
)
# Whether events on the wrong side of each other are a fault.
_COUNTS: Final = (
    f"(event.is_new or truncate.is_new) and ({_IS_SAID} or {_IS_READ} or truncate.is_alone)"
)
_SORTS_BEFORE: Final = (
    "(struct(event.topic, event.partition) < struct(truncate.topic, truncate.partition))"
)
_IS_BEFORE: Final = f"""(case
            when {_IS_OWN}
                then struct(event.offset, event.event_index)
                    < struct(truncate.offset, truncate.event_index)
            when {_IS_SAID} then event.said < truncate.said
            when {_IS_READ} then false
            else event.log_time < truncate.log_time
        end)"""
