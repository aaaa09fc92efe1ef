"""The tables of test_partial_rows: sources, examples by hand, what the references expect.

Gauges are Aerospike records of which changed bins are shipped; parcels and shipments, in one topic,
are tables that Debezium reads. All but the parcels are ordered by source time.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from support.row_events import Event, Image, Source
from support.row_examples import Sent, Step, delete, events_of, insert, row, truncate, update, write
from support.row_lake import (
    RUNS,
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    expected_history,
    expected_state,
)
from support.row_streams import aerospike_stream, debezium_stream
from support.streams import DAY, MINUTE, UNAVAILABLE

GAUGES: Final = Source(
    "aerospike.users.gauges", "users", "gauges", True, True, format="aerospike_messagepack"
)
PARCELS: Final = Source("debezium.logistics", "logistics", "parcels", True)
SHIPMENTS: Final = Source("debezium.logistics", "logistics", "shipments", True, True)
SOURCES: Final = (GAUGES, PARCELS, SHIPMENTS)
KEYS: Final = {GAUGES: "_digest", PARCELS: "id", SHIPMENTS: "id"}
HISTORIES: Final = {"gauges_history": GAUGES, "shipments_history": SHIPMENTS}
TABLES: Final = [*(source.table for source in SOURCES), *HISTORIES]

WRONG_CLOCK: Final = 2 * DAY // MINUTE
FAR: Final = 60 * DAY // MINUTE


@dataclass(frozen=True)
class Example:
    """Changes of row 0, or of two; what becomes of row 0, and the step of its position."""

    name: str
    source: Source
    steps: list[Step]
    image: Image | None
    step: int | None = None


EXAMPLES: Final = [
    # --- ordered by source time: each column by itself
    Example(
        "two late events on different columns both count",
        GAUGES,
        [
            write(10, row(1, "old", "old")),
            write(40, {"level": 4}),
            write(20, {"label": "late"}),
            write(30, {"note": "late"}),
        ],
        row(4, "late", "late"),
        1,
    ),
    Example(
        "they count when they land in a later run too",
        GAUGES,
        [
            write(10, row(1, "old", "old")),
            write(40, {"level": 4}),
            write(20, {"label": "late"}, run=1),
            write(30, {"note": "late"}, run=2),
        ],
        row(4, "late", "late"),
        1,
    ),
    Example(
        "a late event on the same column is rejected",
        GAUGES,
        [write(10, {"level": 1}), write(30, {"level": 3}), write(20, {"level": 2})],
        row(3),
        1,
    ),
    Example(
        "an event can be late for one column and not for another",
        GAUGES,
        [write(30, {"level": 3}), write(20, {"level": 2, "label": "new"}, run=1)],
        row(3, "new"),
        0,
    ),
    Example(
        "of equal times the later in the log counts",
        GAUGES,
        [write(10, {"level": 1}), write(10, {"level": 2})],
        row(2),
        1,
    ),
    # --- absent, null, deleted
    Example(
        "absent keeps, null does not",
        GAUGES,
        [write(10, row(1, "a", "n")), write(20, {"label": None}), write(30, {"level": 2})],
        row(2, None, "n"),
        2,
    ),
    Example("a write that names nothing makes a row", GAUGES, [write(10)], row(), 0),
    Example(
        "a write that names nothing changes no column",
        GAUGES,
        [write(10, row(1, "a", "n")), write(20, run=1)],
        row(1, "a", "n"),
        1,
    ),
    Example(
        "behind a delete nothing is kept",
        GAUGES,
        [write(10, row(1, "a", "n")), delete(20), write(30, {"level": 3}, run=1)],
        row(3),
        2,
    ),
    Example(
        "a late delete takes what is older",
        GAUGES,
        [write(10, row(1, "a", "n")), write(30, {"level": 3}), delete(20, run=1)],
        row(3),
        1,
    ),
    Example(
        "a delete that is late for all changes nothing",
        GAUGES,
        [write(30, row(1, "a", "n")), delete(20, run=1)],
        row(1, "a", "n"),
        0,
    ),
    Example(
        "a late write does not bring a row back",
        GAUGES,
        [write(10, {"level": 1}), delete(30), write(20, {"label": "late"}, run=1)],
        None,
    ),
    Example(
        "a late write from before the delete is gone when the row comes back",
        GAUGES,
        [
            write(10, {"level": 1}),
            delete(30),
            write(20, {"label": "late"}, run=1),
            write(40, {"note": "back"}, run=2),
        ],
        row(None, None, "back"),
        3,
    ),
    Example(
        "a late write from behind the delete counts when the row comes back",
        GAUGES,
        [delete(20), write(40, {"level": 4}), write(30, {"label": "late"}, run=1)],
        row(4, "late"),
        1,
    ),
    Example(
        "a delete without a set deletes",
        GAUGES,
        [write(10, {"level": 1}), delete(20, has_set=False, run=1)],
        None,
    ),
    Example(
        "a late delete without a set takes what is older",
        GAUGES,
        [
            write(10, row(1, "a", "n")),
            write(30, {"level": 3}),
            delete(20, has_set=False, run=1),
        ],
        row(3),
        1,
    ),
    # --- unknown times
    Example(
        "an event without a time counts by its place",
        GAUGES,
        [write(10, {"level": 1}), write(None, {"level": 2}), write(5, {"level": 3})],
        row(2),
        1,
    ),
    Example(
        "it comes with the newest event before it",
        GAUGES,
        [
            write(30, {"label": "a"}),
            write(None, {"level": 2}),
            write(20, {"level": 3}),
            write(20, {"note": "untouched"}),
        ],
        row(2, "a", "untouched"),
        1,
    ),
    Example(
        "a delete without a time deletes all that is before it",
        GAUGES,
        [
            write(30, {"label": "a"}),
            delete(None),
            write(20, {"level": 2}),
            write(40, {"note": "back"}),
        ],
        row(None, None, "back"),
        3,
    ),
    Example(
        "it hides no late event that lands with it",
        GAUGES,
        [
            write(30, {"level": 3}),
            write(20, {"level": 2, "label": "late"}, run=1),
            write(None, {"note": "n"}, run=1),
        ],
        row(3, "late", "n"),
        2,
    ),
    Example(
        "a wrong clock is no time",
        GAUGES,
        [
            write(10, {"level": 1}),
            write(WRONG_CLOCK + 200, {"level": 2}),
            write(20, {"level": 3}),
        ],
        row(3),
        2,
    ),
    # --- expiry
    Example("an expired row is absent", GAUGES, [write(10, {"level": 1}, expires=60)], None),
    Example(
        "the expiry of the newest event counts",
        GAUGES,
        [
            write(20, {"level": 1}, expires=FAR),
            write(10, {"label": "late"}, expires=60, run=1),
        ],
        row(1, "late"),
        0,
    ),
    Example(
        "a write without expiry ends that of the one before it",
        GAUGES,
        [write(10, {"level": 1}, expires=FAR), write(20, {"label": "a"}, run=1)],
        row(1, "a"),
        1,
    ),
    Example(
        "behind an expiry nothing is kept",
        GAUGES,
        [write(10, row(1, "a", "n"), expires=20), write(30, {"level": 3}, run=1)],
        row(3),
        1,
    ),
    Example(
        "of a row that has not expired yet, all is kept",
        GAUGES,
        [write(10, row(1, "a", "n"), expires=40), write(30, {"level": 3}, run=1)],
        row(3, "a", "n"),
        1,
    ),
    Example(
        "without a time, the log says whether the row had expired",
        GAUGES,
        [
            write(10, row(1, "a", "n"), expires=60),
            write(None, {"level": 3}, expires=300),
            write(None, {"label": "b"}, expires=FAR, run=1),
        ],
        row(3, "b"),
        2,
    ),
    Example(
        "an event that lands late ends the expiry that would have come",
        GAUGES,
        [
            write(10, row(1, "a", "n"), expires=30),
            write(40, {"level": 4}),
            write(20, {"label": "late"}, run=1),
        ],
        row(4, "late", "n"),
        1,
    ),
    Example(
        "an event that lands late brings the expiry forward",
        GAUGES,
        [
            write(10, row(1, "a", "n")),
            write(40, {"level": 4}),
            write(20, {"label": "late"}, expires=30, run=1),
        ],
        row(4),
        1,
    ),
    # --- Debezium: the log decides
    Example(
        "the log decides, whatever the times say",
        PARCELS,
        [
            insert(30, row(1, "a", "n")),
            update(20, {"level": 2}),
            update(10, {"level": 3, "note": None}, run=1),
        ],
        row(3, "a"),
        2,
    ),
    Example(
        "the placeholder keeps the value",
        PARCELS,
        [insert(10, row(1, "a", "n")), update(20, {"label": "b", "note": UNAVAILABLE}, run=1)],
        row(1, "b", "n"),
        1,
    ),
    Example(
        "the placeholder is the value before, where that is said",
        PARCELS,
        [
            insert(10, row(1, "a", "n")),
            update(20, {"note": UNAVAILABLE}, before={"note": "before"}, run=1),
        ],
        row(1, "a", "before"),
        1,
    ),
    Example(
        "a column that the image before alone names is what it was there",
        PARCELS,
        [
            insert(10, row(1, "a", "n")),
            update(20, {"label": "b"}, before={"note": "before"}, run=1),
        ],
        row(1, "b", "before"),
        1,
    ),
    Example(
        "the placeholder has nothing to keep behind a delete",
        PARCELS,
        [
            insert(10, row(1, "a", "n")),
            delete(20),
            insert(30, {"level": 3, "note": UNAVAILABLE}, run=1),
        ],
        row(3),
        2,
    ),
    Example(
        "an update that lands late counts in its place",
        PARCELS,
        [
            insert(10, row(1, "a", "n")),
            update(20, {"level": 2, "label": "b"}, run=1),
            update(30, {"level": 3}),
        ],
        row(3, "b", "n"),
        2,
    ),
    Example(
        "a changed key takes nothing with it but what it names",
        PARCELS,
        [insert(10, row(1, "a", "n"), key=1), update(20, {"level": 2}, previous_key=1, run=1)],
        row(2),
        1,
    ),
    Example(
        "a key that was changed is gone",
        PARCELS,
        [insert(10, row(1, "a", "n")), update(20, {"level": 2}, key=1, previous_key=0, run=1)],
        None,
    ),
    Example(
        "behind a truncate nothing is kept, though it lands late",
        PARCELS,
        [
            insert(20, row(1, "a", "n"), sent=Sent(20)),
            truncate(25, sent=Sent(25), run=1),
            update(30, {"level": 3}, sent=Sent(30)),
        ],
        row(3),
        2,
    ),
    # --- Debezium, ordered by source time
    Example(
        "tables of Debezium can be ordered by source time",
        SHIPMENTS,
        [
            insert(10, row(1, "old", "old")),
            update(40, {"level": 4, "note": UNAVAILABLE}),
            update(20, {"label": "late", "level": 2}),
            update(30, {"note": "late"}, run=1),
        ],
        row(4, "late", "late"),
        1,
    ),
    Example(
        "what is older than a truncate is late",
        SHIPMENTS,
        [
            insert(-200, row(1, "a", "n"), sent=Sent(-90)),
            truncate(-180, sent=Sent(-80), run=1),
            update(-170, {"level": 3}, sent=Sent(-70)),
            update(-190, {"label": "late"}, sent=Sent(-60), run=1),
        ],
        row(3),
        2,
    ),
]

# Partial events of one row with distinct times: every order of them gives the same row.
SHUFFLED: Final = [
    write(10, row(1, "a", "n")),
    write(20, {"level": 2}),
    delete(30),
    write(40, {"label": "d", "note": "d"}),
    write(50, {"note": None}),
    write(60, {"level": 6}),
]
SHUFFLED_ROW: Final = row(6, "d", None)
ORDERS: Final = 12
# The shuffled rows are one more example.
SHUFFLED_NUMBER: Final = len(EXAMPLES)


def shuffled_events() -> list[tuple[int, Event]]:
    """The shuffled steps for several rows, each in an order of its own, dealt out to the runs."""
    dice = random.Random("orders")
    steps = [
        step._replace(key=key, run=dice.randrange(len(RUNS)))
        for key in range(ORDERS)
        for step in dice.sample(SHUFFLED, len(SHUFFLED))
    ]
    return events_of(GAUGES, SHUFFLED_NUMBER, steps)


def add_models(project: Path) -> None:
    """Add the models of all these tables to a project."""
    for source in SOURCES:
        add_change_log(project, source)
        add_current_state(project, source)
    for name, source in HISTORIES.items():
        add_history(project, source, name)


def stream(clone: int) -> list[Event]:
    """The random events of a clone."""
    return [
        *aerospike_stream(GAUGES, clone, clone),
        *debezium_stream(PARCELS, clone, clone, truncates=0.05),
        *debezium_stream(SHIPMENTS, clone, clone, lane=1),
    ]


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples and of the shuffled rows, each with its run."""
    events = shuffled_events()
    for number, example in enumerate(EXAMPLES):
        events += events_of(example.source, number, example.steps)
    return events


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What each table must hold."""
    states = {each.table: expected_state(each, landed, as_of) for each in SOURCES}
    return states | {
        name: expected_history(source, landed, as_of) for name, source in HISTORIES.items()
    }
