"""Histories and keyless tables as plain folds, with which the SQL of both is compared.

Like ``fold``, whose events and order they use, they follow the definition word for word and share
nothing with the SQL. Times are UTC microseconds since the epoch. The SQL function
``reference_history`` is for ``dbt test``.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from dbt_lakehouse.reference.fold import (
    POSITION_TYPE,
    Change,
    Order,
    Position,
    history_order,
    is_before,
    known_time,
    log_order,
    own_changes,
    rows_along,
)

# The columns of a row, as text.
Values = tuple[str | None, ...]


class Version(NamedTuple):
    """A row's version from ``valid_from`` until ``valid_to``, and its last event.

    ``valid_to`` None is open; ``valid_from`` None is before all times (no event says when).
    """

    valid_from: int | None
    valid_to: int | None
    position: Position
    occurred_at: int | None
    expires_at: int | None
    values: Values
    source: str | None = None

    @property
    def is_current(self) -> bool:
        """Whether the version still holds."""
        return self.valid_to is None


def history(
    changes: Iterable[Change],
    *,
    order_by_source_time: bool,
    as_of: int,
    tracked: Sequence[int] | None = None,
) -> list[Version]:
    """The versions of one key, the oldest first.

    A truncate of the source table of the key's newest event deletes the key, if the key has an
    event since the previous truncate. A full snapshot's truncate (with an event index below 0)
    does not if the snapshot read the key: if the next event is a complete row that was read, and
    not older by its time. ``tracked`` are the indexes of the columns whose changes make a new
    version; None makes one for each event.
    """
    log = own_changes(changes)
    idle = idle_truncates(log) | _snapshots_that_read(log)
    order = [
        change
        for change in history_order(log, by_source_time=order_by_source_time)
        if change.position not in idle
    ]
    rows, begins = rows_along(order), _begins(order)
    versions: list[Version] = []
    for place, (change, row, begin) in enumerate(zip(order, rows, begins, strict=True)):
        is_last = place == len(order) - 1
        end = None if is_last else begins[place + 1]
        if row is None or (not is_last and begin == end):
            continue
        expires_at = change.expires_at
        # A version that the next event finds expired has ended, though that event's time may be
        # ahead of ours.
        if expires_at is not None and (end is not None or expires_at <= as_of):
            if begin is not None and expires_at <= begin:
                continue
            end = expires_at if end is None else min(end, expires_at)
        version = Version(
            valid_from=begin,
            valid_to=end,
            position=change.position,
            occurred_at=known_time(change),
            expires_at=expires_at,
            values=row,
            source=change.source,
        )
        if tracked is not None and versions and _continues(versions[-1], version, tracked):
            version = version._replace(valid_from=versions.pop().valid_from)
        versions.append(version)
    return versions


def idle_truncates(log: list[Change]) -> set[Position]:
    """The truncates at the start of the log or directly after another, which don't change the
    key.
    """
    kinds = ["truncate", *(change.operation for change in log)]
    return {
        change.position
        for before, change in zip(kinds, log, strict=False)
        if before == change.operation == "truncate"
    }


def _snapshots_that_read(log: list[Change]) -> set[Position]:
    """The truncates of snapshots that have read the key."""
    return {
        change.position
        for change, behind in pairwise(log)
        if change.operation == "truncate"
        and change.position.event_index < 0
        and behind.operation == "snapshot"
        and behind.source == change.source
        and not behind.unchanged
        and not is_before(known_time(behind), known_time(change))
    }


def _begins(order: list[Change]) -> list[int | None]:
    """The beginning of each event's state: never before the previous one's."""
    begins: list[int | None] = []
    newest: int | None = None
    for place, change in enumerate(order):
        begin = known_time(change)
        if begin is None:
            behind = [known_time(later) for later in order[place + 1 :]]
            times = [time for time in (change.position.log_time, *behind) if time is not None]
            begin = min(times, default=None)
        if begin is not None:
            newest = begin if newest is None else max(newest, begin)
        begins.append(newest)
    return begins


def _continues(before: Version, version: Version, tracked: Sequence[int]) -> bool:
    """Whether a version follows directly and differs in no tracked column."""
    return before.valid_to == version.valid_from and all(
        before.values[place] == version.values[place] for place in tracked
    )


# The SQL function's type: the versions of one key.
HISTORY_TYPE = (
    f"array<struct<valid_from:bigint,valid_to:bigint,position:{POSITION_TYPE},occurred_at:bigint,"
    "expires_at:bigint,values:array<string>,source:string>>"
)


def reference_history(
    rows: list[tuple[Any, ...]],
    order_by_source_time: bool,
    as_of: int,
    tracked: list[int] | None = None,
) -> list[Version]:
    """``history`` for Spark: each row is a ``Change`` whose position is a row too."""
    changes = [Change(*row)._replace(position=Position(*row[3])) for row in rows]
    return history(changes, order_by_source_time=order_by_source_time, as_of=as_of, tracked=tracked)


class RowChange(NamedTuple):
    """One event of a table without a key: the whole row before and after it, and its source
    table; None where the log has only one.
    """

    operation: str
    position: Position
    before: Values | None = None
    after: Values | None = None
    source: str | None = None
    beside: Values = ()
    """The values that the source gave beside the row, which don't tell rows apart."""


class SourceRow(NamedTuple):
    """A row of a table without a key. Equal rows of two source tables are different."""

    values: Values
    source: str | None = None


class Copies(NamedTuple):
    """The number of a row's copies, and the newest event that names it; ``beside`` is from the
    newest event that added it.
    """

    number: int
    position: Position
    beside: Values = ()


def multiset(changes: Iterable[RowChange]) -> dict[SourceRow, Copies]:
    """The rows of a table without a key, each with its number of copies."""
    rows: dict[SourceRow, Copies] = {}
    for change in sorted(changes, key=_row_order):
        if change.operation == "truncate":
            rows = {row: copies for row, copies in rows.items() if row.source != change.source}
            continue
        for image, step in ((change.before, -1), (change.after, 1)):
            if image is not None:
                row = SourceRow(image, change.source)
                held = rows.get(row, Copies(0, change.position))
                beside = change.beside if step > 0 else held.beside
                rows[row] = Copies(max(0, held.number + step), change.position, beside)
    return {row: copies for row, copies in rows.items() if copies.number}


def _row_order(change: RowChange) -> Order:
    return log_order(Change(change.operation, None, None, change.position, None))
