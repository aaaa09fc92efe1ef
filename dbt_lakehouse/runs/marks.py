"""Marks: how far an incremental table has read its upstreams, and what of them is new to it.

A mark is the watermark of an upstream: a place in the history of that table. It is committed with
the rows that were made of what was read, in the summary of their snapshot:

    lakehouse.read.<schema>.<table>     identity|snapshot|sequence number of the upstream, as read

So a crash leaves both or neither, a rollback of a table takes its marks back too, and writes need
not be idempotent. ``reading`` interprets a mark for the current upstream, by the table's history
alone.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from dbt_lakehouse.lake.tables import NO_SNAPSHOT, Snapshot, Table

PREFIX: Final = "lakehouse.read."
# A property with a new value each time a table is rebuilt. Iceberg's uuid stays when a table is
# replaced, and the snapshots that would show the replacement expire.
MADE: Final = "lakehouse.made"
# In the summary of a commit: the column that it has rewritten under the same name. Older files
# have no column of that name any more, so appended rows are no longer read from them.
REWRITTEN: Final = "lakehouse.rewritten"


class Mark(NamedTuple):
    """How far a table has been read."""

    identity: str
    """Iceberg's uuid, and the table's property ``MADE``."""
    snapshot: str
    """Its id as text; ``none`` for a table that had no rows."""
    sequence: int

    def __str__(self) -> str:
        return "|".join(map(str, self))


def mark_of(table: Table) -> Mark:
    """The mark of a reader that has read all of a table."""
    return Mark(_identity(table), table.snapshot, table.sequence)


def mark_at(table: Table, snapshot: Snapshot) -> Mark:
    """The mark of a reader that has read a table up to an earlier snapshot."""
    return Mark(_identity(table), snapshot.name, snapshot.sequence_number)


def _identity(table: Table) -> str:
    return "+".join(filter(None, (table.uuid, table.properties.get(MADE))))


def parsed(text: str) -> Mark:
    """The mark from its text."""
    identity, snapshot, sequence = text.split("|")
    return Mark(identity, snapshot, int(sequence))


def marks_of(table: Table) -> dict[str, Mark]:
    """The marks of a table, by the name of the upstream (``schema.table``).

    Marks are noted together, so the newest commit with any mark has all of them.
    """
    for snapshot in table.chain:
        marks = {
            name.removeprefix(PREFIX): parsed(text)
            for name, text in snapshot.summary.items()
            if name.startswith(PREFIX)
        }
        if marks:
            return marks
    return {}


def mark_then(middle: Table, mark: Mark | None, upstream: str) -> Mark | None:
    """The mark on an upstream that a table (``middle``) had when it was read up to a mark."""
    if mark is None or mark.snapshot == NO_SNAPSHOT:
        return None
    for place, snapshot in enumerate(middle.chain):
        if snapshot.name == mark.snapshot:
            middle = replace(middle, chain=middle.chain[place:])
            break
    return marks_of(middle).get(upstream)


def noted(marks: Mapping[str, Mark]) -> dict[str, str]:
    """Marks as entries of a snapshot's summary."""
    return {PREFIX + name: str(mark) for name, mark in marks.items()}


class Window(Enum):
    """Which rows of an upstream are to be read."""

    NOTHING = "nothing"
    WHOLE = "whole"
    SINCE_SNAPSHOT = "since snapshot"
    SINCE_SEQUENCE = "since sequence number"
    """By sequence numbers of commits, since the snapshots in between have expired."""
    SINCE_ROW = "since row"
    """By row ids, since a column was rewritten in between."""


class Reading(NamedTuple):
    """The part of an upstream to read, up to its current snapshot."""

    window: Window
    until: Mark
    since: Mark | None = None
    first_row: int | None = None
    """The least ``_row_id`` of rows that were appended since, for ``SINCE_ROW``."""
    is_kept: bool = True
    """Whether the snapshot of ``until`` still exists; otherwise rows are selected by sequence
    number.
    """

    @property
    def has_news(self) -> bool:
        """Whether there may be rows to read."""
        return self.window is not Window.NOTHING

    def sql(self, relation: str) -> str:
        """The rows, to select from.

        The upper end is pinned, so that rows which come while a model runs belong to the next
        run. It is not a subquery where that would hide the rows' sequence numbers.
        """
        if self.window is Window.NOTHING or self.until.snapshot == NO_SNAPSHOT:
            return f"(select * from {relation} where false)"
        if not self.is_kept:
            return f"(select * from {relation} where {self._numbers()})"
        if self.since is None or self.window is Window.WHOLE:
            return f"(select * from {relation} version as of {self.until.snapshot})"
        if self.window is Window.SINCE_SNAPSHOT:
            return (
                f"(select * from {relation} with ('start-snapshot-id' = '{self.since.snapshot}',"
                f" 'end-snapshot-id' = '{self.until.snapshot}'))"
            )
        is_new = f"_last_updated_sequence_number > {self.since.sequence}"
        if self.window is Window.SINCE_ROW:
            is_new = f"_row_id >= {self.first_row}"
        return f"(select * from {relation} version as of {self.until.snapshot} where {is_new})"

    def _numbers(self) -> str:
        number = "_last_updated_sequence_number"
        upper = f"{number} <= {self.until.sequence}"
        if self.since is None or self.window is Window.WHOLE:
            return upper
        return f"{upper} and {number} > {self.since.sequence}"


def is_trimmed(mark: Mark, table: Table) -> bool:
    """Whether rows have been deleted from a table since a mark, as far as its snapshots still
    tell.
    """
    return any(
        snapshot.summary.get("operation") == "delete" for snapshot in _snapshots_since(mark, table)
    )


def is_changed(mark: Mark, table: Table) -> bool:
    """Whether rows of a table may have been changed in place since a mark: yes if its snapshots no
    longer tell.
    """
    since = _snapshots_since(mark, table)
    return len(since) == len(table.chain) or any(
        snapshot.summary.get("operation") == "overwrite" for snapshot in since
    )


def _snapshots_since(mark: Mark, table: Table) -> list[Snapshot]:
    """The snapshots of a table since a mark; all of them if the mark's has expired."""
    return [*takewhile(lambda snapshot: snapshot.name != mark.snapshot, table.chain)]


class HistoryLost(Exception):
    """An upstream is no longer the table that was read. The message says what happened to it."""


class RolledBack(HistoryLost):
    """The upstream is the same table, rolled back to before what was read."""


def reading(mark: Mark | None, table: Table) -> Reading:
    """The rows of a table since a mark; all of them without a mark.

    Raises ``HistoryLost`` if the mark is not in the table's history: the table was dropped and
    created again, replaced, or rolled back.
    """
    until = mark_of(table)
    if mark is None:
        return Reading(Window.WHOLE, until)
    if mark.identity != until.identity:
        is_same = mark.identity.partition("+")[0] == table.uuid
        raise HistoryLost("was replaced" if is_same else "was dropped and created again")
    if mark.snapshot == NO_SNAPSHOT:
        return Reading(Window.WHOLE if table.chain else Window.NOTHING, until)
    news = rewritten = False
    first_row: int | None = None
    for snapshot in table.chain:
        if snapshot.name == mark.snapshot:
            if not news:
                return Reading(Window.NOTHING, until, mark)
            if not rewritten:
                return Reading(Window.SINCE_SNAPSHOT, until, mark)
            if first_row is None:
                return Reading(Window.SINCE_SEQUENCE, until, mark)
            return Reading(Window.SINCE_ROW, until, mark, first_row)
        news = news or snapshot.appends
        rewritten = rewritten or REWRITTEN in snapshot.summary
        first_row = snapshot.first_row_id
    oldest = table.chain[-1] if table.chain else None
    if oldest is None or (
        oldest.parent_snapshot_id is None and oldest.sequence_number > mark.sequence
    ):
        raise HistoryLost("was replaced")
    if oldest.sequence_number <= mark.sequence or int(mark.snapshot) in table.others:
        raise RolledBack("was rolled back")
    return Reading(Window.SINCE_SEQUENCE, until, mark)


def reading_to(mark: Mark | None, table: Table, limit: Mark | None) -> Reading:
    """``reading`` of a table up to the mark that another reader has on it; nothing if that reader
    has no mark.
    """
    if limit is None:
        return Reading(Window.NOTHING, mark or Mark(_identity(table), NO_SNAPSHOT, 0), mark)
    for place, snapshot in enumerate(table.chain):
        if snapshot.name == limit.snapshot:
            return reading(mark, replace(table, chain=table.chain[place:]))
    if mark == limit:
        return Reading(Window.NOTHING, limit, mark)
    # It has expired; in an append-only table sequence numbers tell the same.
    window = Window.WHOLE if mark is None else Window.SINCE_SEQUENCE
    return Reading(window, limit, mark, is_kept=False)
