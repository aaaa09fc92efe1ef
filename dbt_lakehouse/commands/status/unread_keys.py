"""Find keys that may remain after lost deletes: a full snapshot that has ended did not read them,
and no later event names them.

A log that reconciles snapshots has no such keys. In another log, consecutive snapshot rows of a
source table are its newest snapshot, if the messages of the first and the last row are marked as
such (``dbt_lakehouse.runs.full_snapshots``).
"""

from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.status.lake import PLACE, TargetTables
from dbt_lakehouse.commands.status.live_keys import ORDER
from dbt_lakehouse.queries.query import sql_literal
from dbt_lakehouse.runs.full_snapshots import is_first, is_last, mark_of, reconciles
from dbt_lakehouse.stored.landed import landed

_PLACE: Final = ", ".join(f"{each}: _position.{each}" for each in PLACE)


class UnreadKeys(NamedTuple):
    """The unread keys of a gold table."""

    keys: int
    ended_at: int
    """The log time at which the newest of the snapshots ended, in microseconds."""


def unread_keys(lake: TargetTables, gold: str, log: str) -> UnreadKeys | None:
    """The unread keys of a log's gold table; None without any."""
    declared = lake.table(log).declared
    # In another order, a row that was read may have lost to a newer one.
    is_ordered = "order_by" in declared or declared["order_by_source_time"]
    if reconciles(declared) or declared["namespace"] is not None or is_ordered:
        return None
    found = UnreadKeys(0, 0)
    query = _older_rows(
        lake.reader.quoted(gold),
        lake.reader.quoted(log),
        "_source" if declared["several_sources"] else "null",
    )
    for keys, ended_at, *places in lake.rows(query):
        if all(
            is_it(_mark(lake, *place))
            for is_it, place in zip((is_first, is_last), (places[:4], places[4:]), strict=True)
        ):
            found = UnreadKeys(found.keys + keys, max(found.ended_at, ended_at))
    return found if found.keys else None


def _older_rows(gold: str, log: str, source: str) -> str:
    """A query for the number of gold's rows that are older than the newest consecutive snapshot
    rows of their source table, if there are any: with the place and log time of the last of
    these, and the places of the first and the last.
    """
    same = "{0}.source is not distinct from {1}.source"
    row = f"row({ORDER}) as place"
    return f"""
        with events as (
            select {source} as source, _operation = 'snapshot' as is_read, {row},
                {{{_PLACE}}} as message, epoch_us(_position.log_time) as log_time
            from {log}
        ),
        lasts as (
            select source, max(place) as last, max_by(message, place) as last_message,
                max_by(log_time, place) as ended_at
            from events
            where is_read
            group by source
        ),
        others as (
            select lasts.source, max(place) as other
            from lasts join events on {same.format("lasts", "events")}
            where not is_read and place < last
            group by lasts.source
        ),
        firsts as (
            select others.source, min(place) as first, min_by(message, place) as first_message
            from others join events on {same.format("others", "events")}
            where is_read and place > other
            group by others.source
        ),
        older as (
            select firsts.source, count(*) as keys
            from firsts
            join (select {source} as source, {row} from {gold}) as held
                on {same.format("firsts", "held")} and held.place < firsts.first
            group by firsts.source
        )
        select keys, ended_at, unnest(first_message), unnest(last_message)
        from older
        join firsts on {same.format("older", "firsts")}
        join lasts on {same.format("older", "lasts")}
    """


def _mark(lake: TargetTables, topic: str, partition: int, offset: int, index: int) -> Any:
    """The mark of a row by the snapshot that read it."""
    condition = (
        f'topic = {sql_literal(topic)} and "partition" = {partition} and "offset" = {offset}'
    )
    for message in landed(lake.reader, lake.events, condition):
        for event in message.events():
            if event.event_index == index:
                return mark_of(event.metadata)
    return None
