"""The cases of docs/current-state.md: a few events each, and what the reference folds make of them.

Times are minutes after ten o'clock. All events of a case are in one partition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from dbt_lakehouse.reference.fates import Fate, fates
from dbt_lakehouse.reference.fold import Change, Position, State, fold, fold_partial
from dbt_lakehouse.reference.history import Version, history

MINUTE: Final = 60_000_000
"""In microseconds, as the folds count."""

Values = tuple[str | None, ...]
_NOTHING: Final[Mapping[str, str | None]] = MappingProxyType({})


class Event(NamedTuple):
    """An event: what happened when, when it came into the log, and the columns that it names.

    ``replaces`` is the key that an update has given up for ``key``.
    """

    operation: str
    happened: int
    logged: int
    named: Mapping[str, str | None] = _NOTHING
    key: int = 1001
    replaces: int | None = None
    expires: int | None = None


class Run(NamedTuple):
    """A run without new events."""

    logged: int


class Step(NamedTuple):
    """What has become of an event, or of a run, by key, and what is in the tables then.

    ``at_last`` are the fates that the events behind it have changed; ``expired`` are the keys whose
    rows are absent only since they have expired.
    """

    cause: Event | Run
    fates: dict[int, Fate]
    at_last: dict[int, Fate]
    expired: list[int]
    gold: dict[int, Values]
    versions: list[Version]


@dataclass(frozen=True)
class Case:
    """Events in the order of the log, and how their table is folded."""

    name: str
    causes: Sequence[Event | Run]
    columns: tuple[str, ...] = ("plan",)
    order_by_source_time: bool = True
    partial: bool = False
    with_history: bool = False

    @property
    def keys(self) -> list[int]:
        """All keys that the events are of."""
        events = [cause for cause in self.causes if isinstance(cause, Event)]
        return sorted({event.key for event in events if event.operation != "truncate"})

    def steps(self) -> list[Step]:
        """The steps of the folds."""
        return [self._step(place, cause) for place, cause in enumerate(self.causes)]

    def _step(self, place: int, cause: Event | Run) -> Step:
        fates, at_last, gold = {}, {}, {}
        expired: list[int] = []
        versions: list[Version] = []
        as_of = cause.logged * MINUTE
        for key in self.keys:
            changes = self._changes(key, self.causes[: place + 1])
            state = self._folded(changes, as_of)
            if state and state.is_live:
                gold[key] = tuple(state.values)
            elif state and state.expires_at is not None and state.expires_at <= as_of:
                expired.append(key)
            versions += history(
                changes, order_by_source_time=self.order_by_source_time, as_of=as_of
            )
            now = self._fates(changes).get(place)
            last = self._fates(self._changes(key, self.causes)).get(place)
            if now is None or last is None or (now is Fate.TRUNCATE and len(changes) == 1):
                # Of another key, or a truncate before the key's first event.
                continue
            fates[key] = now
            if last is not now:
                at_last[key] = last
        return Step(cause, fates, at_last, expired, gold, versions)

    def _folded(self, changes: Sequence[Change], as_of: int) -> State | None:
        return (fold_partial if self.partial else fold)(
            changes, order_by_source_time=self.order_by_source_time, as_of=as_of
        )

    def _fates(self, changes: Sequence[Change]) -> dict[int, Fate]:
        told = fates(changes, order_by_source_time=self.order_by_source_time, partial=self.partial)
        return {change.position.offset: fate for change, fate in told}

    def _changes(self, key: int, causes: Sequence[Event | Run]) -> list[Change]:
        return [
            self._change(place, event, "delete" if event.replaces == key else event.operation)
            for place, event in enumerate(causes)
            if isinstance(event, Event)
            and (event.operation == "truncate" or key in (event.key, event.replaces))
        ]

    def _change(self, place: int, event: Event, operation: str) -> Change:
        unsaid = [n for n, column in enumerate(self.columns) if column not in event.named]
        return Change(
            operation,
            occurred_at=event.happened * MINUTE,
            kafka_timestamp=event.logged * MINUTE,
            position=Position(event.logged * MINUTE, "accounts", 0, place, 0),
            expires_at=None if event.expires is None else event.expires * MINUTE,
            values=[event.named.get(column) for column in self.columns],
            unchanged=unsaid if self.partial else (),
        )


_FREE: Final = {"plan": "free"}
_TEAM: Final = {"plan": "team"}
_BUSINESS: Final = {"plan": "business"}

CASES: Final = (
    Case(
        "late-event",
        [
            Event("upsert", 0, 1, _FREE),
            Event("upsert", 20, 21, _TEAM),
            Event("upsert", 10, 22, _BUSINESS),
        ],
    ),
    Case(
        "log-order",
        [
            Event("insert", 0, 1, _FREE),
            Event("update", 20, 21, _TEAM),
            Event("update", 10, 22, _BUSINESS),
        ],
        order_by_source_time=False,
    ),
    Case(
        "delete",
        [
            Event("upsert", 0, 1, _FREE),
            Event("delete", 20, 21),
            Event("upsert", 10, 22, _TEAM),
        ],
    ),
    Case(
        "re-insert",
        [
            Event("upsert", 0, 1, _FREE),
            Event("delete", 20, 21),
            Event("upsert", 30, 31, _TEAM),
        ],
    ),
    Case(
        "tie",
        [
            Event("upsert", 0, 1, _FREE),
            Event("upsert", 0, 2, _TEAM),
            Event("upsert", 0, 3, _TEAM),
        ],
    ),
    Case(
        "expiry",
        [
            Event("upsert", 10, 11, _FREE, expires=30),
            Run(40),
            Event("upsert", 5, 41, _TEAM),
            Event("upsert", 50, 51, _BUSINESS),
        ],
    ),
    Case(
        "truncate",
        [
            Event("insert", 0, 1, _FREE),
            Event("insert", 10, 11, _TEAM, key=1002),
            Event("truncate", 20, 21),
            Event("insert", 30, 31, _FREE, key=1003),
        ],
        order_by_source_time=False,
    ),
    Case(
        "key-change",
        [
            Event("insert", 0, 1, _FREE),
            Event("update", 10, 11, _FREE, key=1002, replaces=1001),
            Event("update", 20, 21, _TEAM, key=1002),
        ],
        order_by_source_time=False,
    ),
    Case(
        "partial-image",
        [
            Event("upsert", 0, 1, {"plan": "free", "city": "Oslo"}),
            Event("upsert", 30, 31, _TEAM),
            Event("upsert", 20, 32, {"plan": "business", "city": "Rome"}),
            Event("upsert", 40, 41, {"city": None}),
        ],
        columns=("plan", "city"),
        partial=True,
    ),
    Case(
        "history",
        [
            Event("upsert", 0, 1, _FREE),
            Event("upsert", 30, 31, _TEAM),
            Event("upsert", 15, 32, _BUSINESS),
            Event("delete", 45, 46),
        ],
        with_history=True,
    ),
)
