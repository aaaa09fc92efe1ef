"""The rows of deleted keys as a plain fold, with which gold tables that keep them are compared.

It uses the folds and the order of ``fold``, and shares nothing with the SQL. ``dbt test`` calls
it as the SQL function ``reference_deleted_row``.

    of a key whose state is not live, its events in the order of its history:
        the row is the fold of those up to its last write; without a write, what its first delete
        ships
        it was deleted by the first delete or truncate behind that, or when it expired, whichever
        is earlier
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dbt_lakehouse.reference.fold import (
    POSITION_TYPE,
    Change,
    Position,
    State,
    fold,
    fold_partial,
    history_order,
    known_time,
    newest_of,
    own_changes,
)
from dbt_lakehouse.reference.history import idle_truncates

_ENDS = ("delete", "truncate")


class DeletedRow(NamedTuple):
    """The last row of a key; UTC microseconds since the epoch. ``position`` and ``occurred_at``
    are those of the event that deleted it, or of the row's own last event if it expired.
    ``written`` is the place of the row's last event, None if no event of the log has written the
    row.
    """

    deleted_at: int
    position: Position
    occurred_at: int | None
    max_occurred_at: int | None
    values: Sequence[str | None]
    expires_at: int | None
    source: str | None
    written: Position | None


def deleted_row(
    changes: Iterable[Change], *, order_by_source_time: bool, as_of: int, partial: bool = False
) -> DeletedRow | None:
    """The deleted row of one key; None if it is live, or never had a row."""
    folded = fold_partial if partial else fold
    changes = list(changes)
    state = folded(changes, order_by_source_time=order_by_source_time, as_of=as_of)
    if state is not None and state.is_live:
        return None
    log = own_changes(changes)
    idle = idle_truncates(log)
    order = [
        change
        for change in history_order(log, by_source_time=order_by_source_time)
        if change.position not in idle
    ]
    newest = newest_of(*map(known_time, order))
    writes = [place for place, change in enumerate(order) if change.operation not in _ENDS]
    if not writes:
        delete = next((change for change in order if change.operation == "delete"), None)
        return None if delete is None else _shipped(delete, newest)
    row = folded(order[: writes[-1] + 1], order_by_source_time=order_by_source_time, as_of=as_of)
    assert row is not None
    last = order[writes[-1]]
    end = order[writes[-1] + 1] if last is not order[-1] else None
    time = None if end is None else _moment(end)
    by = last if end is None or _is_by(row.expires_at, time) else end
    return _ended(by, time, row, newest)


def _shipped(delete: Change, newest: int | None) -> DeletedRow:
    row = State(
        is_live=False,
        position=delete.position,
        occurred_at=None,
        max_occurred_at=None,
        values=delete.values,
        source=delete.source,
    )
    return _ended(delete, _moment(delete), row, newest)._replace(written=None)


def _is_by(time: int | None, other: int | None) -> bool:
    """Whether both times are known, and the first is no later."""
    return time is not None and other is not None and time <= other


def _ended(by: Change, time: int | None, row: State, newest: int | None) -> DeletedRow:
    times = [each for each in (time, row.expires_at) if each is not None]
    return DeletedRow(
        # Without known times: before all others.
        deleted_at=min(times, default=0),
        position=by.position,
        occurred_at=known_time(by),
        max_occurred_at=newest,
        values=row.values,
        expires_at=row.expires_at,
        source=row.source,
        written=row.position,
    )


def _moment(change: Change) -> int | None:
    """The time at which a delete happened, or was logged."""
    time = known_time(change)
    return change.position.log_time if time is None else time


# The SQL function's type.
DELETED_ROW_TYPE = (
    f"struct<deleted_at:bigint,position:{POSITION_TYPE},occurred_at:bigint,max_occurred_at:bigint,"
    f"values:array<string>,expires_at:bigint,source:string,written:{POSITION_TYPE}>"
)


def reference_deleted_row(
    rows: list[tuple[Any, ...]], order_by_source_time: bool, as_of: int, partial: bool = False
) -> DeletedRow | None:
    """``deleted_row`` for Spark: each row is a ``Change`` whose position is a row too."""
    changes = [Change(*row)._replace(position=Position(*row[3])) for row in rows]
    return deleted_row(
        changes, order_by_source_time=order_by_source_time, as_of=as_of, partial=partial
    )
