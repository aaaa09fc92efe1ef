"""Places of a change log's rows in the source's own order (``order_by``): rows without a place
get one, and the run warns of places that go back.

An event without a place, for example a tombstone of a compacted topic, gets the place of the row
before it in its partition, and comes behind that row; in a log ordered by a column, that of its
key's row before. If no row before it has one, it stays without a place and comes before all rows
that have one. So does a truncate of a table that a column orders: it has no key, and ends no row.

A MERGE writes the places after the append. A reader of the appended rows sees none of them, so
gold folds such keys from the whole log (misplaced_keys.sql). A row that comes late, by redrive or
from captures, may give earlier rows another place: tables fold their keys again
(``Folding.keys_changed_since``).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.model_run import SOURCE_PLACES
from dbt_lakehouse.texts import counted

# Beyond this number places are not kept: each run would rewrite all of them.
_MOST_PARTITIONS: Final = 1000


class Found(NamedTuple):
    """The places in a partition's new rows."""

    topic: str
    partition: int
    rows: int
    placeless: int
    """Rows without a place."""
    truncates: int
    """Truncates among the rows without a place."""
    newest: str | None
    first_offset: int
    last_offset: int

    @property
    def name(self) -> str:
        """The partition's name."""
        return f"{self.topic}/{self.partition}"


class SourcePlaces:
    """The places of the rows of a change log that its source orders."""

    def __init__(self, lake: Lake, this: Any, log: Mapping[str, Any]) -> None:
        self._lake: Final = lake
        self._this: Final = this
        # By a column, the newest place of a partition proves nothing: each row counts for itself.
        self._by_column: Final[bool] = "column" in log["order_by"][0]
        self._key: Final = quoted(log["key"]) if self._by_column else []
        self._newest: dict[str, str] = {}
        self._offsets: dict[str, int] = {}

    def settle(self, *, rebuilt: bool) -> list[str]:
        """Give places to the rows not looked at yet, and return warnings about the existing
        places. ``rebuilt``: whether the table was.
        """
        table = self._table()
        kept = {} if rebuilt else json.loads(table.properties.get(SOURCE_PLACES) or "{}")
        sequence, newest = kept.get("sequence", 0), kept.get("newest", {})
        self._newest, self._offsets = newest, kept.get("offsets", {})
        if table.sequence <= sequence:
            return []
        rows = f"(select * from {self._this} where _last_updated_sequence_number > {sequence})"
        found = [Found(**row) for row in self._lake.sql.query(render("source_places", rows=rows))]
        # Rows behind one that comes late may have their places from before it.
        if any(
            each.placeless or each.first_offset < self._offsets.get(each.name, 0) for each in found
        ):
            # Only the rows that this run has appended.
            self._lake.runs.run_of(self._this).seen = table.snapshot
            own = self._lake.catalog.pinned_own(self._this)
            statement = render("fill_source_places", table=self._this, own=own, key=self._key)
            self._lake.commits.change(self._this, statement)
        self._newest = newest_places(newest, found)
        self._offsets = last_offsets(self._offsets, found)
        return doubts(str(self._this), newest, found, by_column=self._by_column)

    def keep(self) -> None:
        """Note that all rows have been looked at, including those that the run has
        changed since.
        """
        table = self._table()
        of_partitions = {"newest": self._newest, "offsets": self._offsets}
        kept = json.dumps({"sequence": table.sequence, **of_partitions}, sort_keys=True)
        if table.properties.get(SOURCE_PLACES) != kept:
            self._lake.catalog.set_properties(self._this, {SOURCE_PLACES: kept})

    def _table(self) -> Table:
        table = self._lake.catalog.look_at(self._this)
        assert table is not None
        return table


def newest_places(newest: Mapping[str, str], found: Sequence[Found]) -> dict[str, str]:
    """The newest place of each partition; empty if there are too many partitions."""
    places = dict(newest)
    for each in found:
        if each.newest is not None:
            places[each.name] = max(places.get(each.name, ""), each.newest)
    return places if len(places) <= _MOST_PARTITIONS else {}


def last_offsets(offsets: Mapping[str, int], found: Sequence[Found]) -> dict[str, int]:
    """The last offset of each partition, of none if these are too many."""
    last = dict(offsets)
    for each in found:
        last[each.name] = max(last.get(each.name, 0), each.last_offset)
    return last if len(last) <= _MOST_PARTITIONS else {}


def doubts(
    this: str, newest: Mapping[str, str], found: Sequence[Found], *, by_column: bool = False
) -> list[str]:
    """A run's warnings about the places of new rows, compared with the newest place of their
    partition.
    """
    told = []
    if by_column and (truncates := sum(each.truncates for each in found)):
        told.append(
            f"{this}: {counted(truncates, 'truncate')} among the new rows, and order_by names a"
            " column, in which a truncate has no value: the rows that it deleted stay. Delete"
            " them at the source one by one, or take order_by out of the change log"
        )
    if placeless := sum(each.placeless for each in found):
        told.append(
            f"{this}: {counted(placeless, 'row')} of {sum(each.rows for each in found)} new ones"
            " without a place in the order that order_by names: such a row comes behind the one"
            f" before it {'of its key' if by_column else 'in its partition'}, and before all others"
            " if no row there has a place. If many lack one, name in order_by a value that the"
            " messages contain"
        )
    behind = [
        each
        for each in found
        if each.newest is not None and each.newest < newest.get(each.name, "")
    ]
    if behind:
        told.append(
            f"{this}: all {counted(sum(each.rows for each in behind), 'new row')} of"
            f" {', '.join(each.name for each in behind)} lie before earlier rows of their"
            " partition in their source's own order, and change no newer row. That is right for"
            " rows that were sent again. If the source restarts its positions (after a failover, or"
            " from a backup), take order_by out of the change log, or name a value that continues"
            " (source.ts_ns)"
        )
    return told
