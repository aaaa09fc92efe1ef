"""What commits of tables tell about runs: the number of rows, and the time. What they don't tell
is None, and never 0.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from dbt_lakehouse.lake.tables import Snapshot, Table

# The largest table of which new rows are counted, for which all of it is read.
ROWS_LOOKED_AT: Final = 50_000_000


def rows_in(snapshot: Snapshot) -> int | None:
    """The rows of a table as of a commit: those of its files, less those that deletion vectors
    delete.
    """
    records = snapshot.summary.get("total-records")
    if records is None:
        return None
    return int(records) - int(snapshot.summary.get("total-position-deletes", 0))


def rows_now(table: Table) -> int | None:
    """The rows of a table."""
    return rows_in(table.chain[0]) if table.chain else 0


def is_large(table: Table) -> bool:
    """Whether reading all rows of a table takes too long, or may."""
    rows = rows_now(table)
    return rows is None or rows > ROWS_LOOKED_AT


def knows_since(table: Table, moment: datetime) -> bool:
    """Whether all commits since a moment are kept: none has expired, and the table has not been
    rebuilt since. Commits that were rolled back don't count.
    """
    if not table.chain:
        return all(made < moment for made, _ in table.log)
    oldest = table.chain[-1]
    if any(moment <= made < oldest.made_at for made, _ in table.log):
        return False
    return oldest.parent_snapshot_id is None or oldest.made_at < moment


def added_since(table: Table | None, moment: datetime) -> int | None:
    """The number of rows appended to an append-only table since a moment: 0 if it does not exist
    yet, None if that is unknown.
    """
    if table is None:
        return 0
    if not knows_since(table, moment):
        return None
    return sum(rows for made, rows in growth(table) if made.made_at >= moment)


def growth(table: Table) -> list[tuple[Snapshot, int]]:
    """The commits of an append-only table, with the numbers of rows added, without those that
    have added none or an unknown number. The newest first.
    """
    found = []
    for index, snapshot in enumerate(table.chain):
        rows, grown = rows_in(snapshot), None
        before = rows_in(table.chain[index + 1]) if index + 1 < len(table.chain) else None
        if snapshot.parent_snapshot_id is None:
            before = 0
        if rows is not None and before is not None:
            grown = rows - before
        elif snapshot.appends and (added := snapshot.summary.get("added-records")) is not None:
            # The snapshot before it has expired.
            grown = int(added)
        if grown is not None and grown > 0:
            found.append((snapshot, grown))
    return found


def before(table: Table, moment: datetime) -> Table:
    """A table as of before a moment, as far as its commits are kept."""
    return replace(table, chain=tuple(each for each in table.chain if each.made_at < moment))


def rows_before(table: Table, moment: datetime) -> int | None:
    """The rows of a table before a moment, None if that isn't known any more: it was rebuilt or
    rolled back, or the commits of that time have expired.
    """
    current = [snapshot for since, snapshot in table.log if since < moment][-1:]
    earlier = before(table, moment).chain
    if earlier:
        is_current = not current or earlier[0].snapshot_id in current
        return rows_in(earlier[0]) if is_current else None
    has_lost = bool(table.chain) and table.chain[-1].parent_snapshot_id is not None
    return None if has_lost or current else 0


def written_at(table: Table) -> datetime | None:
    """The last change of a table's rows, as far as its commits are kept."""
    for snapshot in table.chain:
        summary = snapshot.summary
        if "added-data-files" in summary or "added-delete-files" in summary:
            return snapshot.made_at
        if "deleted-data-files" in summary and summary.get("operation") != "replace":
            return snapshot.made_at
    return None


def rows_over(tables: Sequence[Table], moments: Sequence[datetime]) -> list[int | None]:
    """The rows of several tables together before each moment; None if one of them is unknown."""
    found: list[int | None] = []
    for moment in moments:
        rows = [rows_before(table, moment) for table in tables]
        known = [each for each in rows if each is not None]
        found.append(sum(known) if len(known) == len(rows) else None)
    return found
