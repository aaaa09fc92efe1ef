"""The fate of each event of a key, by the folds that define gold."""

from collections.abc import Iterable
from enum import StrEnum

from dbt_lakehouse.reference.fold import (
    Change,
    State,
    history_order,
    is_before,
    known_time,
    log_order,
    newest_of,
    own_changes,
    rows_along,
    states_along,
)


class Fate(StrEnum):
    """The fate of an event."""

    APPLIED = "applied"
    UNCHANGED = "changes_nothing"
    """Applied, without changing the row: a duplicate."""
    DELETE = "delete"
    LATE = "late"
    """Rejected, since it is older than one before it in the log."""
    PLACED = "late_in_place"
    """Older than one before it in the log, and put in its place: in tables of partial images."""
    TRUNCATE = "truncate"
    BEFORE_TRUNCATE = "before_truncate"
    """A later truncate has removed its effect, whatever that was."""
    OTHER_TABLE = "other_table"
    """A truncate of another source table than the row's."""


APPLIED = frozenset({Fate.APPLIED, Fate.UNCHANGED, Fate.DELETE, Fate.TRUNCATE})
"""The fates of events that were the newest when they came; the state is that after the last of
them.
"""


def fates(
    changes: Iterable[Change], *, order_by_source_time: bool, partial: bool
) -> list[tuple[Change, Fate]]:
    """The changes of one key in log order, each with its fate in ``fold`` or ``fold_partial``."""
    told = (_of_partial if partial else _of_whole)(changes, order_by_source_time)
    truncates = [place for place, (_, fate) in enumerate(told) if fate is Fate.TRUNCATE]
    last = truncates[-1] if truncates else 0
    return [
        (change, Fate.BEFORE_TRUNCATE if place < last and fate is not Fate.OTHER_TABLE else fate)
        for place, (change, fate) in enumerate(told)
    ]


def _of_whole(changes: Iterable[Change], order_by_source_time: bool) -> list[tuple[Change, Fate]]:
    told: list[tuple[Change, Fate]] = []
    before: State | None = None
    for change, state in states_along(changes, order_by_source_time=order_by_source_time):
        if state is before:
            fate = Fate.OTHER_TABLE if change.operation == "truncate" else Fate.LATE
        else:
            is_same = (
                before is not None
                and state is not None
                and before.is_live
                and list(before.values) == list(state.values)
                and (before.expires_at, before.source) == (state.expires_at, state.source)
            )
            fate = _of_newest(change, is_same)
        told.append((change, fate))
        before = state
    return told


def _of_partial(changes: Iterable[Change], order_by_source_time: bool) -> list[tuple[Change, Fate]]:
    log = sorted(changes, key=log_order)
    own = own_changes(log)
    order = history_order(own, by_source_time=order_by_source_time)
    rows = rows_along(order)
    places = {change.position: place for place, change in enumerate(order)}
    owned = {change.position for change in own}
    told: list[tuple[Change, Fate]] = []
    newest: int | None = None
    for change in log:
        place = places.get(change.position)
        time = known_time(change)
        if change.position not in owned:
            fate = Fate.OTHER_TABLE
        elif place is None:
            fate = Fate.LATE
        elif change.operation == "truncate":
            fate, newest = Fate.TRUNCATE, time
        elif order_by_source_time and is_before(time, newest):
            fate = Fate.PLACED
        else:
            newest = newest_of(time, newest)
            is_same = (
                place > 0
                and rows[place - 1] == rows[place]
                and (order[place - 1].expires_at, order[place - 1].source)
                == (change.expires_at, change.source)
            )
            fate = _of_newest(change, is_same)
        told.append((change, fate))
    return told


def _of_newest(change: Change, is_same: bool) -> Fate:
    if change.operation in ("delete", "truncate"):
        return Fate(change.operation)
    return Fate.UNCHANGED if is_same else Fate.APPLIED
