"""What the commits of tables tell of runs: how many rows there were, and when."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from dbt_lakehouse.lake.tables import Snapshot, Table


def rows_in(snapshot: Snapshot) -> int:
    """The rows of a table as of a commit: those of its files, less those that deletion vectors
    take away.
    """
    summary = snapshot.summary
    return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))


def rows_now(table: Table) -> int:
    """The rows of a table."""
    return rows_in(table.chain[0]) if table.chain else 0


def growth(table: Table) -> list[tuple[Snapshot, int]]:
    """The commits of a table that has rows added alone, with how many they have added; those that
    have added none are left out. The newest first.
    """
    found = []
    for index, snapshot in enumerate(table.chain):
        if index + 1 < len(table.chain):
            grown = rows_in(snapshot) - rows_in(table.chain[index + 1])
        elif snapshot.parent_snapshot_id is None:
            grown = rows_in(snapshot)
        else:
            # What was before it has expired.
            grown = int(snapshot.summary.get("added-records", 0)) if snapshot.appends else 0
        if grown > 0:
            found.append((snapshot, grown))
    return found


def before(table: Table, moment: datetime) -> Table:
    """A table as it was before a moment, as far as its commits are kept."""
    return replace(table, chain=tuple(each for each in table.chain if each.made_at < moment))


def rows_before(table: Table, moment: datetime) -> int | None:
    """The rows of a table before a moment, None if that isn't known any more: it was made anew, or
    the commits of then have expired.
    """
    earlier = before(table, moment).chain
    if earlier:
        return rows_in(earlier[0])
    has_lost = bool(table.chain) and table.chain[-1].parent_snapshot_id is not None
    was_there = bool(table.log) and table.log[0][0] < moment
    return None if has_lost or was_there else 0


def written_at(table: Table) -> datetime | None:
    """When rows of a table were last changed, as far as its commits are kept."""
    for snapshot in table.chain:
        summary = snapshot.summary
        if "added-data-files" in summary or "added-delete-files" in summary:
            return snapshot.made_at
        if "deleted-data-files" in summary and summary.get("operation") != "replace":
            return snapshot.made_at
    return None


def rows_over(tables: Sequence[Table], moments: Sequence[datetime]) -> list[int]:
    """The rows of several tables together before each moment."""
    return [sum(rows_before(table, moment) or 0 for table in tables) for moment in moments]
