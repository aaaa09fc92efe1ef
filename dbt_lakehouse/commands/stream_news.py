"""Detect news for a cycle of `lakehouse stream --build`, from Kafka, files and tables'
snapshots.
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
        """The topics with more messages than ``built`` has; None if other things have changed."""
        if self._replace(ends={}) != built._replace(ends={}):
            return None
        return {at[0] for at, end in self.ends.items() if built.ends.get(at) != end}

    def as_of(self, news: "News", bronze: Table | None, events: Table | None) -> "News":
        """This state with the snapshots of ``news``, if these have the same rows, as
        maintenance's snapshots have.
        """
        found = self
        if self.bronze is not None and has_same_rows(bronze, str(self.bronze)):
            found = found._replace(bronze=news.bronze)
        if self.events is not None and has_same_rows(events, self.events):
            found = found._replace(events=news.events)
        return found

    def is_overtaken(self, bronze: Table | None, events: Table | None, *, has_landed: bool) -> bool:
        """Whether others have added rows to the tables since this state: they could write until a
        cycle had the lake's lock. The cycle's own landing is one commit.
        """
        is_same = snapshot_of(events) == self.events
        if not is_same and (self.events is None or not has_same_rows(events, self.events)):
            return True
        chain = () if bronze is None else bronze.chain
        since = takewhile(lambda each: each.name != str(self.bronze), chain)
        return sum(each.appends or each.changes_rows for each in since) > has_landed


def has_same_rows(table: Table | None, snapshot: str) -> bool:
    """Whether a table has the same rows as at an earlier snapshot, as far as is known."""
    for each in () if table is None else table.chain:
        if each.name == snapshot:
            return True
        if each.changes_rows or each.appends:
            return False
        if each.parent_snapshot_id is not None and str(each.parent_snapshot_id) == snapshot:
            # That snapshot itself has expired.
            return True
    return False


def snapshot_of(table: Table | None) -> str | None:
    """The snapshot of a table, None if it does not exist."""
    return None if table is None else table.snapshot
