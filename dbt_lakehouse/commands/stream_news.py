"""What is new to a cycle of `lakehouse stream --build`, by what Kafka, files and tables' snapshots
say.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

from dbt_lakehouse.commands.watched_project import Files
from dbt_lakehouse.lake.tables import Table


class News(NamedTuple):
    """What a cycle would find: Kafka's log ends by topic (bronze's name) and partition, captures,
    and the snapshots of bronze and of other_events, to which `redrive` adds.
    """

    ends: Mapping[tuple[str, int], int]
    captures: Files
    bronze: int | None
    events: str | None

    def topics_since(self, built: "News") -> set[str] | None:
        """The topics that have more than at another time; None if there may be anything."""
        if self._replace(ends={}) != built._replace(ends={}):
            return None
        return {at[0] for at, end in self.ends.items() if built.ends.get(at) != end}

    def as_of(self, news: "News", bronze: Table | None, events: Table | None) -> "News":
        """The same by the snapshots of today's news, where these have the rows that it was of:
        maintenance makes such ones.
        """
        found = self
        if self.bronze is not None and has_same_rows(bronze, str(self.bronze)):
            found = found._replace(bronze=news.bronze)
        if self.events is not None and has_same_rows(events, self.events):
            found = found._replace(events=news.events)
        return found

    def is_overtaken(self, bronze: Table | None, events: Table | None, *, has_landed: bool) -> bool:
        """Whether the tables have rows of others since it was looked at: they could write until a
        cycle had the lake's lock. The cycle's own landing is one commit.
        """
        is_same = snapshot_of(events) == self.events
        if not is_same and (self.events is None or not has_same_rows(events, self.events)):
            return True
        chain = () if bronze is None else bronze.chain
        since = takewhile(lambda each: each.name != str(self.bronze), chain)
        return sum(each.appends or each.changes_rows for each in since) > has_landed


def has_same_rows(table: Table | None, snapshot: str) -> bool:
    """Whether a table has the rows that it had at an earlier snapshot, as far as is known."""
    for each in () if table is None else table.chain:
        if each.name == snapshot:
            return True
        if each.changes_rows or each.appends:
            return False
        if each.parent_snapshot_id is not None and str(each.parent_snapshot_id) == snapshot:
            # It has expired itself.
            return True
    return False


def snapshot_of(table: Table | None) -> str | None:
    """The snapshot of a table that may not be there."""
    return None if table is None else table.snapshot
