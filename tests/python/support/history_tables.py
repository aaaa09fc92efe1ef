"""The tables of test_history: sources, examples by hand, what the reference expects.

Meters are Aerospike records, ordered by source time; tickets are a table that Debezium reads, in
the order of the log, of a topic with tombstones that keeps all messages. The meters have a history
of the level alone, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from support.row_events import Event, Image, Source
from support.row_examples import (
    SENT,
    Sent,
    Step,
    delete,
    events_of,
    insert,
    row,
    truncate,
    update,
    write,
)
from support.row_lake import (
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    expected_history,
    expected_state,
)
from support.row_streams import aerospike_stream, debezium_stream, with_lone_tombstones
from support.streams import DAY, MINUTE, UNAVAILABLE

METERS: Final = Source(
    "aerospike.web.meters",
    "web",
    "meters",
    order_by_source_time=True,
    format="aerospike_messagepack",
)
TICKETS: Final = Source("debezium.shop.tickets", "shop", "tickets")
SOURCES: Final = (METERS, TICKETS)
KEYS: Final = {METERS: "_digest", TICKETS: "id"}
TRACKED: Final = ("level",)
# The history of all events and that of the levels, and what each tracks.
HISTORIES: Final[dict[str, tuple[Source, tuple[str, ...] | None]]] = {
    "meters_history": (METERS, None),
    "meters_levels": (METERS, TRACKED),
    "tickets_history": (TICKETS, None),
}
TABLES: Final = [*(source.table for source in SOURCES), *HISTORIES]

DAYS: Final = DAY // MINUTE


class Version(NamedTuple):
    """A version in the examples' minutes, with the step of its last event."""

    valid_from: float | None
    valid_to: float | None
    step: int
    image: Image


@dataclass(frozen=True)
class Example:
    """Changes of row 0, or of two; the versions of row 0, and those of its level if they differ."""

    name: str
    source: Source
    steps: list[Step]
    versions: list[Version]
    levels: list[Version] = field(default_factory=list)


ONE, TWO, THREE = row(1), row(2), row(3)
EXAMPLES: Final = [
    Example(
        "each event begins a version",
        METERS,
        [write(10, ONE), write(20, TWO), write(30, THREE)],
        [Version(10, 20, 0, ONE), Version(20, 30, 1, TWO), Version(30, None, 2, THREE)],
    ),
    Example(
        "a delete closes the last version",
        METERS,
        [write(10, ONE), delete(20)],
        [Version(10, 20, 0, ONE)],
    ),
    Example(
        "a row that comes back leaves a gap",
        METERS,
        [write(10, ONE), delete(20), write(30, ONE)],
        [Version(10, 20, 0, ONE), Version(30, None, 2, ONE)],
    ),
    Example(
        "a late event splits a version",
        METERS,
        [write(10, ONE), write(30, THREE), write(20, TWO, run=1)],
        [Version(10, 20, 0, ONE), Version(20, 30, 2, TWO), Version(30, None, 1, THREE)],
    ),
    Example(
        "an event before all others",
        METERS,
        [write(20, TWO), write(10, ONE, run=2)],
        [Version(10, 20, 1, ONE), Version(20, None, 0, TWO)],
    ),
    Example(
        "a late delete makes a gap",
        METERS,
        [write(10, ONE), write(30, THREE), delete(20, run=1)],
        [Version(10, 20, 0, ONE), Version(30, None, 1, THREE)],
    ),
    Example(
        "a late write within an absence",
        METERS,
        [write(10, ONE), delete(20), write(40, THREE), write(30, TWO, run=1)],
        [Version(10, 20, 0, ONE), Version(30, 40, 3, TWO), Version(40, None, 2, THREE)],
    ),
    Example(
        "a late write into a deleted row's past",
        METERS,
        [write(10, ONE), delete(30), write(20, TWO, run=1)],
        [Version(10, 20, 0, ONE), Version(20, 30, 2, TWO)],
    ),
    Example(
        "a delete before the first write leaves no trace",
        METERS,
        [delete(10), write(20, TWO, run=1)],
        [Version(20, None, 1, TWO)],
    ),
    Example("only a delete", METERS, [delete(10)], []),
    Example(
        "a delete without a set closes too",
        METERS,
        [write(10, ONE), delete(20, has_set=False, run=1)],
        [Version(10, 20, 0, ONE)],
    ),
    Example(
        "a late delete without a set, before an event of unknown time, brings it back",
        METERS,
        [delete(20, has_set=False, run=1), write(None, ONE), delete(15)],
        [Version(SENT + 1, None, 1, ONE)],
    ),
    Example(
        "such a delete when nothing is remembered of the key any more",
        METERS,
        [delete(20, has_set=False, run=2), write(None, ONE), delete(15)],
        [Version(SENT + 1, None, 1, ONE)],
    ),
    # --- instants
    Example(
        "the last event of an instant wins",
        METERS,
        [write(10, ONE), write(20, TWO), write(20, THREE, run=1)],
        [Version(10, 20, 0, ONE), Version(20, None, 2, THREE)],
    ),
    Example(
        "a delete at the instant of a write",
        METERS,
        [write(10, ONE), write(20, TWO), delete(20, run=1)],
        [Version(10, 20, 0, ONE)],
    ),
    Example(
        "a write at the instant of a delete",
        METERS,
        [write(10, ONE), delete(20), write(20, TWO, run=1)],
        [Version(10, 20, 0, ONE), Version(20, None, 2, TWO)],
    ),
    Example(
        "sent twice",
        METERS,
        [write(10, ONE), write(10, ONE, run=1)],
        [Version(10, None, 1, ONE)],
    ),
    # --- unknown times
    Example(
        "without a time, a version begins at its log time",
        METERS,
        [write(None, ONE, sent=Sent(70)), write(90, TWO)],
        [Version(70, 90, 0, ONE), Version(90, None, 1, TWO)],
    ),
    Example(
        "but not after the known time of an event behind it",
        METERS,
        [write(None, ONE), write(None, TWO), write(40, THREE)],
        [Version(40, None, 2, THREE)],
    ),
    Example(
        "and not before the event before it",
        METERS,
        [write(90, ONE, sent=Sent(50)), write(None, TWO, sent=Sent(60))],
        [Version(90, None, 1, TWO)],
    ),
    Example(
        "an event without a time is late for none, and nothing is late for its place",
        METERS,
        [
            write(10, ONE, sent=Sent(50)),
            write(None, TWO, sent=Sent(70)),
            write(5, THREE, run=1),
        ],
        [Version(5, 10, 2, THREE), Version(10, 70, 0, ONE), Version(70, None, 1, TWO)],
    ),
    Example(
        "a delete without a time",
        METERS,
        [write(10, ONE, sent=Sent(50)), delete(None, sent=Sent(70))],
        [Version(10, 70, 0, ONE)],
    ),
    Example(
        "a wrong clock is no time",
        METERS,
        [write(10, ONE), write(2 * DAYS + 200, TWO)],
        [Version(10, SENT + 1, 0, ONE), Version(SENT + 1, None, 1, TWO)],
    ),
    Example(
        "without any time, a version has always been",
        METERS,
        [write(None, ONE, sent=Sent(None)), delete(30, sent=Sent(None))],
        [],
    ),
    Example(
        "without any time, a version is valid from the beginning",
        METERS,
        [write(None, ONE, sent=Sent(None)), write(None, TWO, sent=Sent(None), run=1)],
        [Version(None, None, 1, TWO)],
    ),
    # --- expiry
    Example(
        "expiry closes the last version",
        METERS,
        [write(10, ONE, expires=60)],
        [Version(10, 60, 0, ONE)],
    ),
    Example(
        "an expiry between the runs closes it then",
        METERS,
        [write(10, ONE, expires=5 * DAYS)],
        [Version(10, 5 * DAYS, 0, ONE)],
    ),
    Example(
        "an expiry to come leaves it open",
        METERS,
        [write(10, ONE, expires=60 * DAYS)],
        [Version(10, None, 0, ONE)],
    ),
    Example(
        "a row that comes back after its expiry leaves a gap",
        METERS,
        [write(10, ONE, expires=20), write(30, ONE, run=1)],
        [Version(10, 20, 0, ONE), Version(30, None, 1, ONE)],
    ),
    Example(
        "the first run is between an expiry and a next event whose clock is ahead",
        METERS,
        [write(10, ONE, expires=150), write(200, ONE)],
        [Version(10, 150, 0, ONE), Version(200, None, 1, ONE)],
    ),
    Example(
        "the next event comes before the expiry",
        METERS,
        [write(10, ONE, expires=40), write(30, TWO, run=1)],
        [Version(10, 30, 0, ONE), Version(30, None, 1, TWO)],
    ),
    Example(
        "expired before it was written",
        METERS,
        [write(5, ONE), write(10, TWO, expires=10), write(20, THREE)],
        [Version(5, 10, 0, ONE), Version(20, None, 2, THREE)],
    ),
    # --- only the level makes a version
    Example(
        "other columns are brought up to date in the version they change in",
        METERS,
        [
            write(10, row(1, "a")),
            write(20, row(1, "b"), run=1),
            write(30, row(2, "c")),
            write(40, row(2, "d"), run=2),
        ],
        [
            Version(10, 20, 0, row(1, "a")),
            Version(20, 30, 1, row(1, "b")),
            Version(30, 40, 2, row(2, "c")),
            Version(40, None, 3, row(2, "d")),
        ],
        levels=[Version(10, 30, 1, row(1, "b")), Version(30, None, 3, row(2, "d"))],
    ),
    Example(
        "a late event splits a version of the level, or leaves it whole",
        METERS,
        [
            write(10, row(1, "a")),
            write(40, row(1, "d")),
            write(20, row(1, "b"), run=1),
            write(30, row(2, "c"), run=2),
        ],
        [
            Version(10, 20, 0, row(1, "a")),
            Version(20, 30, 2, row(1, "b")),
            Version(30, 40, 3, row(2, "c")),
            Version(40, None, 1, row(1, "d")),
        ],
        levels=[
            Version(10, 30, 2, row(1, "b")),
            Version(30, 40, 3, row(2, "c")),
            Version(40, None, 1, row(1, "d")),
        ],
    ),
    Example(
        "two nulls are equal, and a null is not a value",
        METERS,
        [write(10, row(None, "a")), write(20, row(None, "b")), write(30, row(1, "c"))],
        [
            Version(10, 20, 0, row(None, "a")),
            Version(20, 30, 1, row(None, "b")),
            Version(30, None, 2, row(1, "c")),
        ],
        levels=[Version(10, 30, 1, row(None, "b")), Version(30, None, 2, row(1, "c"))],
    ),
    Example(
        "an absence parts versions of one level, an expiry too",
        METERS,
        [
            write(10, row(1, "a")),
            delete(20),
            write(30, row(1, "b"), expires=40),
            write(50, row(1, "c")),
        ],
        [
            Version(10, 20, 0, row(1, "a")),
            Version(30, 40, 2, row(1, "b")),
            Version(50, None, 3, row(1, "c")),
        ],
    ),
    Example(
        "an absence of no length parts nothing",
        METERS,
        [write(10, row(1, "a")), delete(20), write(20, row(1, "b"))],
        [Version(10, 20, 0, row(1, "a")), Version(20, None, 2, row(1, "b"))],
        levels=[Version(10, None, 2, row(1, "b"))],
    ),
    # --- in the order of the log
    Example(
        "the log decides, and no version begins before the one before it",
        TICKETS,
        [insert(10, ONE), update(30, TWO), update(20, THREE), update(40, ONE)],
        [Version(10, 30, 0, ONE), Version(30, 40, 2, THREE), Version(40, None, 3, ONE)],
    ),
    Example(
        "what lands late takes its place in the log",
        TICKETS,
        [insert(10, ONE), update(20, TWO, run=1), update(30, THREE)],
        [Version(10, 20, 0, ONE), Version(20, 30, 1, TWO), Version(30, None, 2, THREE)],
    ),
    Example(
        "an update of the key closes the old row's versions",
        TICKETS,
        [insert(10, ONE), update(20, TWO, key=1, previous_key=0, run=1)],
        [Version(10, 20, 0, ONE)],
    ),
    Example(
        "and begins the new row's",
        TICKETS,
        [insert(10, ONE, key=1), update(20, TWO, previous_key=1, run=1), delete(30, run=2)],
        [Version(20, 30, 1, TWO)],
    ),
    Example(
        "a placeholder keeps the value of the version before",
        TICKETS,
        [
            insert(10, row(1, "a", "long")),
            update(20, row(2, "b", UNAVAILABLE)),
            update(30, row(3, UNAVAILABLE, UNAVAILABLE), run=1),
        ],
        [
            Version(10, 20, 0, row(1, "a", "long")),
            Version(20, 30, 1, row(2, "b", "long")),
            Version(30, None, 2, row(3, "b", "long")),
        ],
    ),
    Example(
        "but nothing from behind a delete",
        TICKETS,
        [insert(10, row(1, "a", "long")), delete(20), insert(30, row(3, "c", UNAVAILABLE), run=1)],
        [Version(10, 20, 0, row(1, "a", "long")), Version(30, None, 2, row(3, "c"))],
    ),
    Example(
        "a value that lands late is kept by the versions behind it",
        TICKETS,
        [
            insert(10, row(1, "a", "old")),
            update(20, row(2, "b", "new"), run=1),
            update(30, row(3, "c", UNAVAILABLE)),
        ],
        [
            Version(10, 20, 0, row(1, "a", "old")),
            Version(20, 30, 1, row(2, "b", "new")),
            Version(30, None, 2, row(3, "c", "new")),
        ],
    ),
    Example(
        "a truncate closes all versions, though it lands late",
        TICKETS,
        [
            insert(20, ONE, sent=Sent(20)),
            truncate(25, sent=Sent(25), run=1),
            update(30, row(2, "b", UNAVAILABLE), sent=Sent(30)),
        ],
        [Version(20, 25, 0, ONE), Version(30, None, 2, row(2, "b"))],
    ),
    Example(
        "a truncate that lands late parts what was of one instant",
        TICKETS,
        [
            insert(20, ONE, sent=Sent(26)),
            truncate(24, sent=Sent(27), run=1),
            delete(15, sent=Sent(28)),
        ],
        [Version(20, 24, 0, ONE)],
    ),
    Example(
        "an event without a time in the log",
        TICKETS,
        [insert(10, ONE), update(None, TWO, sent=Sent(70)), update(50, THREE, sent=Sent(80))],
        [Version(10, 50, 0, ONE), Version(50, None, 2, THREE)],
    ),
]


def add_models(project: Path) -> None:
    """Add the models of all these tables to a project."""
    for source in SOURCES:
        add_change_log(project, source)
        add_current_state(project, source)
    for name, (source, tracked) in HISTORIES.items():
        add_history(project, source, name, tracked)


def stream(clone: int) -> list[Event]:
    """The random events of a clone."""
    return [
        *aerospike_stream(METERS, clone, clone),
        *with_lone_tombstones(debezium_stream(TICKETS, clone, clone, truncates=0.05)),
    ]


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples, each with its run."""
    return [
        placed
        for number, example in enumerate(EXAMPLES)
        for placed in events_of(example.source, number, example.steps)
    ]


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What each table must hold."""
    states = {each.table: expected_state(each, landed, as_of) for each in SOURCES}
    return states | {
        name: expected_history(source, landed, as_of, tracked)
        for name, (source, tracked) in HISTORIES.items()
    }
