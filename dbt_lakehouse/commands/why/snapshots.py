"""The full snapshots that end among the events of a key."""

from collections.abc import Iterable

import msgspec

from dbt_lakehouse.commands.why.events import KeyedTable
from dbt_lakehouse.commands.why.why_output import Ending
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of, sql_literal
from dbt_lakehouse.reference.fold import Position
from dbt_lakehouse.runs.full_snapshots import RECONCILED
from dbt_lakehouse.texts import time_text


def endings_of(
    reader: Reader, table: KeyedTable, positions: Iterable[Position]
) -> dict[Position, Ending]:
    """The ends of the snapshots for which truncates among the events stand, by the truncates'
    positions (``dbt_lakehouse.runs.full_snapshots``).
    """
    wanted = {
        (each.topic, each.partition, each.offset): each
        for each in positions
        if each.event_index < 0
    }
    if not wanted:
        return {}
    rows = rows_of(
        reader,
        'select topic, "partition", "offset", metadata'
        f" from {reader.quoted(reader.known(table.other_events))}"
        f" where added_by = {sql_literal(RECONCILED)}",
    )
    return {
        wanted[place]: _ending(place[0], metadata)
        for *at, metadata in rows
        if (place := tuple(at)) in wanted
    }


def _ending(topic: str, metadata: str) -> Ending:
    last = msgspec.json.decode(metadata)["reconciled"]
    return Ending(topic, last["partition"], last["offset"], time_text(last["log_time"]))
