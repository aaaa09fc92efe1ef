"""The table of test_key_updates: keys that change, in a table with values stored out of line.

As PostgreSQL with its default replica identity and Debezium write it: a delete of the old key and
an insert of the new one, which name each other in headers, and placeholders for long values that an
update has not changed. A key has a partition of its own, or shares it, and most events come in the
same few milliseconds: the log can have an insert before the delete that belongs to it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from support.row_events import Event, Image, Source, Value
from support.row_examples import Step, delete, events_of, insert, row, truncate, update
from support.row_lake import (
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    expected_history,
    expected_state,
)
from support.row_streams import key_number
from support.streams import START, UNAVAILABLE, clone_partition

ACCOUNTS: Final = Source("debezium.shop.accounts", "shop", "accounts")
HISTORY: Final = "accounts_history"
# A table by source time that is emptied.
LEDGERS: Final = Source("debezium.shop.ledgers", "shop", "ledgers", order_by_source_time=True)
TABLES: Final = (ACCOUNTS.table, HISTORY, LEDGERS.table)
KEYS: Final = 5
STEPS: Final = 45


@dataclass(frozen=True)
class Example:
    """Changes of a few rows, and the images of those that are left."""

    name: str
    steps: list[Step]
    images: dict[int, Image]


def moved(
    old: int,
    new: int,
    lsn: int,
    named: Image,
    run: int = 0,
    is_named: bool = True,
    time: int = 10,
) -> list[Step]:
    """A key update: its delete and its insert, with headers or without."""
    return [
        delete(time, key=old, other_key=new if is_named else None, lsn=lsn, run=run),
        insert(time, named, key=new, other_key=old if is_named else None, lsn=lsn, run=run),
    ]


ONE: Final = row(1, "a", "long")
LEFT: Final = row(2, "b", UNAVAILABLE)
EXAMPLES: Final = [
    Example("in the same run", [insert(1, ONE), *moved(0, 1, 5, LEFT)], {1: row(2, "b", "long")}),
    Example(
        "a delete that comes again, of a source that tells no place",
        [
            insert(1, ONE),
            delete(10, key=0, other_key=1),
            delete(10, key=0, other_key=1),
            insert(10, LEFT, key=1, other_key=0),
        ],
        {1: row(2, "b", "long")},
    ),
    Example(
        "in a later run",
        [insert(1, ONE), *moved(0, 1, 5, LEFT, run=1)],
        {1: row(2, "b", "long")},
    ),
    Example(
        "the insert alone in a later run",
        [insert(1, ONE), moved(0, 1, 5, LEFT)[0], moved(0, 1, 5, LEFT, run=2)[1]],
        {1: row(2, "b", "long")},
    ),
    Example(
        "of what the old key's row had last",
        [
            insert(1, ONE),
            update(2, row(1, "a", "longer")),
            update(3, row(3, "c", UNAVAILABLE)),
            *moved(0, 1, 5, LEFT),
        ],
        {1: row(2, "b", "longer")},
    ),
    Example(
        "an update of the old key that lands late",
        [
            insert(1, ONE),
            update(2, row(1, "a", "late"), run=1),
            *moved(0, 1, 5, LEFT),
        ],
        {1: row(2, "b", "late")},
    ),
    Example(
        "an insert of the old key that lands late",
        [insert(1, ONE, run=2), *moved(0, 1, 5, LEFT)],
        {1: row(2, "b", "long")},
    ),
    Example(
        "twice in a row",
        [insert(1, ONE), *moved(0, 1, 5, LEFT), *moved(1, 2, 6, row(3, "c", UNAVAILABLE))],
        {2: row(3, "c", "long")},
    ),
    Example(
        "twice in a row, the second in a later run",
        [insert(1, ONE), *moved(0, 1, 5, LEFT), *moved(1, 2, 6, row(3, "c", UNAVAILABLE), run=1)],
        {2: row(3, "c", "long")},
    ),
    Example(
        "twice in a row, in runs of their own",
        [
            insert(1, ONE),
            *moved(0, 1, 5, LEFT, run=1),
            *moved(1, 2, 6, row(3, "c", UNAVAILABLE), run=2),
        ],
        {2: row(3, "c", "long")},
    ),
    Example(
        "twice in a row, of a row that lands late",
        [
            insert(1, ONE, run=1),
            *moved(0, 1, 5, LEFT),
            *moved(1, 2, 6, row(3, "c", UNAVAILABLE)),
        ],
        {2: row(3, "c", "long")},
    ),
    Example(
        "there and back",
        [
            insert(1, ONE),
            *moved(0, 1, 5, LEFT),
            update(11, row(2, "b", "new"), key=1),
            *moved(1, 0, 6, row(3, "c", UNAVAILABLE), run=1),
        ],
        {0: row(3, "c", "new")},
    ),
    Example(
        "two rows that exchange their keys",
        [
            insert(1, ONE),
            insert(2, row(5, "e", "other"), key=1),
            *moved(0, 9, 5, row(1, "a", UNAVAILABLE)),
            *moved(1, 0, 6, row(5, "e", UNAVAILABLE)),
            *moved(9, 1, 7, row(1, "a", UNAVAILABLE)),
        ],
        {0: row(5, "e", "other"), 1: ONE},
    ),
    Example(
        "a new row of the old key has nothing to do with it",
        [insert(1, ONE), *moved(0, 1, 5, LEFT), insert(12, row(7, "g", "other"))],
        {0: row(7, "g", "other"), 1: row(2, "b", "long")},
    ),
    Example(
        "messages that come again, behind a new row of the old key",
        [
            insert(1, ONE),
            *moved(0, 1, 5, LEFT),
            insert(12, row(7, "g", "other")),
            *moved(0, 1, 5, LEFT),
            insert(12, row(7, "g", "other")),
        ],
        {0: row(7, "g", "other"), 1: row(2, "b", "long")},
    ),
    Example(
        "a null is known, too",
        [insert(1, row(1, "a", None)), *moved(0, 1, 5, LEFT)],
        {1: row(2, "b", None)},
    ),
    Example(
        "what the insert says is what it says",
        [insert(1, ONE), *moved(0, 1, 5, row(2, "b", "said"))],
        {1: row(2, "b", "said")},
    ),
    Example(
        "a later placeholder keeps it",
        [
            insert(1, ONE),
            *moved(0, 1, 5, LEFT),
            update(12, row(8, "h", UNAVAILABLE), key=1, run=1),
        ],
        {1: row(8, "h", "long")},
    ),
]
UNKNOWN: Final = [
    Example(
        "without headers", [insert(1, ONE), *moved(0, 1, 5, LEFT, is_named=False)], {1: row(2, "b")}
    ),
    Example("of a row that nobody knows", moved(0, 1, 5, LEFT), {1: row(2, "b")}),
    Example(
        "of a row that was deleted before",
        [insert(1, ONE), delete(2), *moved(0, 1, 5, LEFT)],
        {1: row(2, "b")},
    ),
]
ALL: Final = [*EXAMPLES, *UNKNOWN]
# The second insert of row 0 would be late, but for the truncate; of row 2 it leaves nothing.
EMPTIED: Final = Example(
    "a truncate that lands late",
    [
        insert(50, ONE),
        insert(50, ONE, key=2),
        truncate(20, run=2),
        insert(30, row(4, "d", "newer")),
        *moved(0, 1, 5, LEFT, time=35),
        *moved(2, 3, 6, LEFT, time=55),
    ],
    {1: row(2, "b", "newer"), 3: row(2, "b")},
)


class Table:
    """The source table, with what its connector writes of it."""

    def __init__(self, clone: int) -> None:
        self.rows: dict[int, Image] = {}
        self.events: list[Event] = []
        self._clone = clone
        self._dice = random.Random(f"key updates {clone}")
        self._offsets = {0: 0, 1: 0}
        self._clock = START
        self._lsn = 0

    def step(self) -> None:
        """Something happens to the table, or its connector begins again a little before."""
        keys = [key_number(self._clone, number) for number in range(KEYS)]
        live, free = sorted(self.rows), [key for key in keys if key not in self.rows]
        roll = self._dice.random()
        self._lsn += 1
        if free and (not live or roll < 0.2):
            self._insert(self._dice.choice(free))
        elif roll < 0.35:
            self._update(self._dice.choice(live))
        elif roll < 0.42:
            self._delete(self._dice.choice(live))
        elif free and roll < 0.8:
            self._move(self._dice.choice(live), self._dice.choice(free))
        elif len(live) > 1 and roll < 0.95:
            one, other = self._dice.sample(live, 2)
            between = key_number(self._clone, KEYS)
            self._move(one, between)
            self._move(other, one)
            self._move(between, other)
        else:
            for event in self.events[-self._dice.randrange(1, 6) :]:
                self._send(event)

    def _insert(self, key: int) -> None:
        image = self._image()
        self.rows[key] = image
        self._write("insert", key, image)

    def _update(self, key: int) -> None:
        self._change(key, key)
        self._write("update", key, self._shipped)

    def _delete(self, key: int) -> None:
        del self.rows[key]
        self._write("delete", key, {})

    def _move(self, old: int, new: int) -> None:
        self._lsn += 1
        self._change(old, new)
        self._write("delete", old, {}, new)
        self._write("insert", new, self._shipped, old)

    def _change(self, old: int, new: int) -> None:
        before, after = self.rows.pop(old), self._image()
        if self._dice.random() < 0.7:
            after = {**after, "note": before["note"]}
        self.rows[new] = after
        is_left = after["note"] is not None and after["note"] == before["note"]
        self._shipped = {**after, "note": UNAVAILABLE} if is_left else after

    def _image(self) -> Image:
        note: Value = f"note {self._dice.randrange(10**6)}" if self._dice.random() < 0.9 else None
        label = self._dice.choice([None, "", "a", "b"])
        return {"level": self._dice.randrange(9), "label": label, "note": note, "seen": None}

    def _write(self, operation: str, key: int, named: Image, other: int | None = None) -> None:
        self._clock += self._dice.choice([0, 0, 0, 1, 3])
        # Messages of one change have one time, and are sent one after the other.
        time = START + self._lsn
        event = Event(ACCOUNTS, 0, 0, None, operation, key, time, named)
        self._send(event._replace(other_key=other, lsn=self._lsn))

    def _send(self, event: Event) -> None:
        assert event.key is not None
        number = event.key % 2
        place = clone_partition(self._clone, number), self._offsets[number]
        self._offsets[number] += 1
        self.events.append(event._replace(partition=place[0], offset=place[1], sent_ms=self._clock))


def table(clone: int) -> Table:
    """The source table of a clone, when all has happened."""
    found = Table(clone)
    for _ in range(STEPS):
        found.step()
    return found


def add_models(project: Path) -> None:
    """Add the models of the tables to a project."""
    for source in (ACCOUNTS, LEDGERS):
        add_change_log(project, source)
        add_current_state(project, source)
    add_history(project, ACCOUNTS, HISTORY)


def stream(clone: int) -> list[Event]:
    """The random events of a clone."""
    return table(clone).events


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples, each with its run."""
    return [
        *(
            placed
            for number, example in enumerate(ALL)
            for placed in events_of(ACCOUNTS, number, example.steps)
        ),
        *events_of(LEDGERS, 0, EMPTIED.steps),
    ]


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What each table must hold."""
    return {
        ACCOUNTS.table: expected_state(ACCOUNTS, landed, as_of),
        HISTORY: expected_history(ACCOUNTS, landed, as_of),
        LEDGERS.table: expected_state(LEDGERS, landed, as_of),
    }
