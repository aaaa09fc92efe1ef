"""Histories and tables without a key whose news comes after all that they know, and news at each
boundary of that: what a run folds from what the table has, and what from the log. The reference
knows no difference.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
from support.expected_gold import EPOCH
from support.lakes import Lake
from support.row_events import COLUMNS, Event, Source
from support.row_examples import Step, delete, insert, row, truncate, update, write
from support.row_lake import (
    LAST,
    RowLake,
    add_change_log,
    add_current_state,
    differences,
    expected_history,
    expected_rows,
    log_of,
)
from support.small_project import add_gold, history, small_project
from support.streams import DAY, MINUTE, START, UNAVAILABLE

from dbt_lakehouse.build.history_news import HistoryNews
from dbt_lakehouse.build.row_news import RowNews

LOGGED: Final = Source("debezium.shop.logged", "shop", "logged")
TIMED: Final = Source("debezium.shop.timed", "shop", "timed", order_by_source_time=True)
PARTS: Final = Source(
    "debezium.shop.parts", "shop", "parts", partial=True, order_by_source_time=True
)
SOURCES: Final = (LOGGED, TIMED, PARTS)
SETS: Final = tuple(
    Source(
        f"aerospike.web.{name}",
        "web",
        name,
        partial=name == "bits",
        order_by_source_time=name != "ticks",
        format="aerospike_messagepack",
    )
    for name in ("cells", "bits", "ticks")
)
CELLS, BITS, TICKS = SETS
BAGS: Final = Source("debezium.shop.bags", "shop", "bags", has_key=False)
HISTORIES: Final[dict[str, tuple[Source, tuple[str, ...] | None]]] = {
    "logged_history": (LOGGED, None),
    "logged_levels": (LOGGED, ("level",)),
    "timed_history": (TIMED, None),
    "timed_levels": (TIMED, ("level",)),
    "parts_history": (PARTS, None),
}
OF_SETS: Final[dict[str, tuple[Source, tuple[str, ...] | None]]] = {
    "cells_history": (CELLS, None),
    "cells_levels": (CELLS, ("level",)),
    "bits_history": (BITS, None),
    "ticks_history": (TICKS, None),
}
ALL: Final = frozenset(HISTORIES)
ALL_OF_SETS: Final = frozenset(OF_SETS)
UNTRACKED: Final = ALL_OF_SETS - {"cells_levels"}
BAGGED: Final = frozenset({"bags"})
NONE: Final = frozenset[str]()
PARTITIONS: Final = 2
# A partition none of whose messages has a time of Kafka's.
TIMELESS: Final = 7


@dataclass
class Played:
    """A lake with such tables, and by run those that were brought up to date by what they had."""

    lake: RowLake
    short: list[set[str]] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def event(
        self, source: Source, step: Step, sent: float | None, partition: int | None = None
    ) -> Event:
        """A step as the next event of a partition: that which is given, else by the parity of the
        minute at which it is sent, or the one whose messages have no time.
        """
        if partition is None:
            partition = TIMELESS if sent is None else int(sent) % PARTITIONS
        offset = self.offsets.get((source.topic, partition), 0)
        self.offsets[source.topic, partition] = offset + 1
        return Event(
            source,
            partition,
            offset,
            None if sent is None else at(sent),
            step.operation,
            key=None if step.operation == "truncate" or not source.has_key else step.key,
            time_ms=step.time,
            named=step.named,
            before=step.before,
            previous_key=step.previous_key,
            expires_s=None if step.expires is None else at(step.expires) // 1000,
            has_set=step.has_set,
        )

    def run(
        self,
        make: Callable[[Source], list[Event]],
        *arguments: str,
        sources: Iterable[Source] = SOURCES,
        as_of: datetime = LAST,
    ) -> set[str]:
        """Land events of some sources, and run; the tables that took the fast path."""
        self.short.append(set())
        events = [event for each in sources for event in make(each)]
        # Without the sets, unless a test is of them.
        chosen = arguments or ("--exclude", *(f"{each.table}_changes+" for each in SETS))
        self.lake.run(*chosen, events=events, as_of=as_of)
        return self.short[-1]

    def differences_of(self, histories: Any, as_of: datetime = LAST) -> dict[str, list[str]]:
        """How histories differ from the reference."""
        found = {
            name: differences(
                expected_history(source, self.lake.landed, as_of, tracked),
                self.lake.lake.read(f"gold.{name}"),
            )
            for name, (source, tracked) in histories.items()
        }
        return {name: each for name, each in found.items() if each}

    def differences(self) -> dict[str, list[str]]:
        """How histories and rows without a key differ from the reference."""
        found = self.differences_of(HISTORIES)
        bags = expected_rows(BAGS, self.lake.landed)
        found["bags"] = differences(bags, self.lake.lake.read("gold.bags"))
        return {name: each for name, each in found.items() if each}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("news")
    project = small_project(folder / "project")
    for source in (*SOURCES, *SETS, BAGS):
        add_change_log(project, source)
    add_current_state(project, BAGS)
    for name, (source, tracked) in {**HISTORIES, **OF_SETS}.items():
        # Beside no current state, which a run would build as well.
        add_gold(project, replace(history(log_of(source), name, tracked), data_tests=[]))
    played = Played(RowLake(Lake(folder, project)))

    def observing(suffices: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def observed(news: Any) -> bool:
            found = suffices(news)
            if found:
                played.short[-1].add(news._table.this.identifier)
            return found

        return observed

    with pytest.MonkeyPatch.context() as patch:
        for kind in (HistoryNews, RowNews):
            patch.setattr(kind, "suffices", observing(kind.suffices))
        yield played


def at(minutes: float) -> int:
    """A time that many minutes after the start of the streams, in milliseconds."""
    return START + int(minutes * MINUTE)


ONE, TWO, THREE = row(1, "one"), row(2, "two"), row(2, "three")


class Batch(NamedTuple):
    """What lands before one run: steps, each with its source time and the minute at which it is
    sent; and the tables that fold it from what they have, None for any.
    """

    name: str
    steps: list[tuple[Step, float | None]]
    short: frozenset[str] | None


# All of them are played where the mark is asked for. In CI, the examples of test_history and
# test_keyless have an event at the instant of another, one without any time, and late copies.
IN_CI: Final = (
    "the first",
    "updates, deletes and new keys that come last",
    "times that go back behind a truncate that goes back further",
)


def batches(played: Sequence[Batch]) -> list[Any]:
    """Parameters of a test, those that are long marked."""
    return [
        pytest.param(each, id=each.name, marks=() if each.name in IN_CI else pytest.mark.long)
        for each in played
    ]


BATCHES: Final[list[Batch]] = [
    Batch(
        "the first",
        [(insert(at(number), ONE, key=number), 10 + number) for number in range(8)],
        NONE,
    ),
    Batch(
        "updates, deletes and new keys that come last",
        [
            (update(at(20), TWO, key=0), 30),
            (update(at(21), THREE, key=0), 31),
            (delete(at(22), key=1), 32),
            (insert(at(23), ONE, key=20), 33),
            (delete(at(24), key=2), 34),
            (insert(at(25), ONE, key=2), 35),
            (insert(at(26), ONE, key=21), 36),
            (delete(at(27), key=21), 37),
            (update(at(28), {**ONE, "label": UNAVAILABLE}, key=3), 38),
        ],
        ALL,
    ),
    Batch(
        "deleted keys that come back, and a delete of one that is deleted",
        [
            (insert(at(40), ONE, key=1), 50),
            (update(at(41), TWO, key=3), 51),
            (delete(at(42), key=21), 52),
            (update(at(43), {**TWO, "note": UNAVAILABLE}, key=1), 53),
        ],
        ALL,
    ),
    Batch(
        "an event at the instant of the open version",
        [(update(at(21), ONE, key=0), 60)],
        NONE,
    ),
    Batch(
        "one that is a millisecond older",
        [(update(at(41) - 1, TWO, key=3), 61)],
        NONE,
    ),
    Batch(
        "one that is a millisecond newer",
        [(update(at(41) + 1, TWO, key=3), 62)],
        # Of the tracked one of the log, other keys' times are no bound: one was late before.
        ALL,
    ),
    Batch("a delete of a key that is deleted at last", [(delete(at(64), key=4), 64)], ALL),
    Batch(
        "an insert behind the delete in time that lies before it in the log",
        [(insert(at(65), ONE, key=4), 63)],
        NONE,
    ),
    Batch(
        "an insert behind the delete in the log that is before it in time",
        [(insert(at(63), TWO, key=4), 70)],
        None,
    ),
    Batch(
        "events without a time",
        [(update(None, THREE, key=5), 80), (update(None, ONE, key=5), 81)],
        None,
    ),
    Batch(
        "an event behind one without a time, which that one was read to begin after",
        [(update(at(79), TWO, key=5), 82)],
        NONE,
    ),
    Batch(
        "a key update",
        [(update(at(90), {**THREE, "label": UNAVAILABLE}, key=30, previous_key=6), 90)],
        None,
    ),
    Batch("a truncate", [(truncate(at(95)), 95), (insert(at(96), ONE, key=0), 97)], NONE),
    Batch(
        "keys that the truncate took away",
        [(insert(at(110), TWO, key=1), 110), (insert(at(111), TWO, key=0), 111)],
        ALL,
    ),
    Batch(
        "one that the truncate took away, from before it",
        [(insert(at(94), TWO, key=2), 120)],
        NONE,
    ),
    Batch(
        "times that go back behind a truncate that goes back further",
        [
            (insert(at(150), ONE, key=9), 150),
            (truncate(at(145)), 151),
            (insert(at(146), TWO, key=9), 152),
        ],
        NONE,
    ),
    Batch(
        "an event between a truncate in time and the open version",
        [(update(at(148), THREE, key=9), 160)],
        None,
    ),
    Batch(
        "events with neither time",
        [(insert(at(170), ONE, key=10), None), (update(None, TWO, key=10), None)],
        None,
    ),
    Batch(
        "events before one that has neither time",
        [(update(at(180), THREE, key=10), 180)],
        None,
    ),
    Batch(
        "a row that a snapshot has read",
        [(Step("snapshot", at(190), ONE, key=3), 190)],
        NONE,
    ),
]

# The same of rows without a key, by the batch that lands with them: where each is sent, for its
# time says nothing.
BAG: Final[dict[str, Batch]] = {
    "updates, deletes and new keys that come last": Batch(
        "the first", [(insert(at(1), each), 1) for each in (ONE, ONE, TWO)], None
    ),
    "an event at the instant of the open version": Batch(
        "a copy more, one fewer, and a row that is new",
        [
            (insert(at(2), ONE), 10),
            (delete(at(2), before=TWO), 11),
            (update(at(2), THREE, before=ONE), 12),
            (delete(at(2), before=row(8)), 13),
        ],
        BAGGED,
    ),
    "times that go back behind a truncate that goes back further": Batch(
        "a row that comes back, and more deletes than there are copies",
        [
            *((delete(at(3), before=ONE), 20 + each) for each in range(3)),
            (insert(at(3), ONE), 24),
            (insert(at(3), TWO), 25),
        ],
        BAGGED,
    ),
    "events with neither time": Batch(
        "a copy before the newest event of its row", [(insert(at(4), TWO), 24)], NONE
    ),
}
NOTHING_NEW: Final = Batch("nothing", [], NONE)


@pytest.mark.parametrize("batch", batches(BATCHES))
def test_news_at_each_boundary(played: Played, batch: Batch) -> None:
    bag = BAG.get(batch.name, NOTHING_NEW)

    def made(source: Source) -> list[Event]:
        steps = bag.steps if source == BAGS else batch.steps
        return [played.event(source, step, sent) for step, sent in steps]

    taken = played.run(made, sources=(*SOURCES, BAGS))
    assert played.differences() == {}
    assert batch.short is None or taken - BAGGED == batch.short
    assert bag.short is None or taken & BAGGED == bag.short


MORE_OF_BAGS: Final[list[Batch]] = [
    Batch("a delete of a row that is not there", [(delete(at(5), before=row(9)), 40)], BAGGED),
    Batch("an insert before that", [(insert(at(5), row(9)), 39)], NONE),
    Batch("a truncate", [(truncate(at(6)), 50), (insert(at(6), ONE), 52)], NONE),
    Batch("rows that the truncate took away", [(insert(at(7), TWO), 60)], BAGGED),
    Batch("a new row from before the truncate", [(insert(at(8), row(7)), 49)], NONE),
]


@pytest.mark.parametrize("batch", batches(MORE_OF_BAGS))
def test_rows_without_a_key_at_each_boundary(played: Played, batch: Batch) -> None:
    def made(source: Source) -> list[Event]:
        return [played.event(source, step, sent) for step, sent in batch.steps]

    taken = played.run(made, "-s", "+bags", sources=[BAGS])
    assert batch.short is None or taken == batch.short
    assert played.differences() == {}


# Minutes behind the moment of all other runs.
SETS_FROM: Final = 11 * DAY // MINUTE


def later(minutes: float) -> int:
    """A time that many minutes after the sets' first one, in milliseconds."""
    return at(SETS_FROM + minutes)


def without_set(minutes: float, key: int) -> Step:
    return delete(later(minutes), key=key, has_set=False)


# Of sets, each with the minute that the run is for.
BATCHES_OF_SETS: Final[list[tuple[Batch, int]]] = [
    (
        Batch(
            "the first",
            [
                (write(later(10 + number), ONE, key=number, expires=expires), 10 + number)
                for number, expires in enumerate([200, None, 60, 45, None, 100, None, None])
            ],
            NONE,
        ),
        20,
    ),
    (
        Batch(
            "writes, deletes with and without a set, and new keys",
            [
                (write(later(30), TWO, key=0, expires=210), 30),
                (delete(later(31), key=1), 31),
                (without_set(32, 4), 32),
                (write(later(33), ONE, key=20), 33),
                (write(later(34), ONE, key=21, expires=50), 34),
                (without_set(35, 21), 35),
                (without_set(36, 99), 36),
            ],
            ALL_OF_SETS,
        ),
        40,
    ),
    (Batch("nothing but what expires", [], UNTRACKED), 70),
    (Batch("nothing at all", [], NONE), 75),
    (
        Batch(
            "a write behind the expiry",
            [(write(later(65), {"level": 3}, key=2), 76)],
            ALL_OF_SETS,
        ),
        80,
    ),
    (
        Batch(
            "a write before the expiry that ended the version",
            [(write(later(44), TWO, key=3), 85)],
            NONE,
        ),
        90,
    ),
    (Batch("a delete of a key that has expired", [(without_set(105, 5), 105)], UNTRACKED), 110),
    (
        Batch("a write at the instant of the expiry", [(write(later(100), ONE, key=5), 111)], NONE),
        112,
    ),
    (
        Batch(
            "a write that finds its version expired",
            [(write(later(220), {"level": 2}, key=0), 220)],
            UNTRACKED,
        ),
        230,
    ),
    (
        Batch("a write before a delete without a set", [(write(later(31), TWO, key=4), 240)], NONE),
        245,
    ),
    (
        Batch(
            "a write behind it", [(write(later(250), {"note": "back"}, key=4), 250)], ALL_OF_SETS
        ),
        260,
    ),
    (Batch("a delete without a set that is late", [(without_set(249, 4), 270)], NONE), 271),
    (Batch("a delete of a key that is gone", [(without_set(275, 1), 275)], ALL_OF_SETS), 280),
    (Batch("an earlier delete of a key that is gone", [(without_set(100, 1), 290)], NONE), 291),
    (Batch("a write without a time", [(write(None, TWO, key=6), 300)], None), 301),
    (
        Batch(
            "a version that expires before it begins",
            [(write(later(320), THREE, key=7, expires=310), 302)],
            ALL_OF_SETS,
        ),
        305,
    ),
    (Batch("which it then does", [], NONE), 330),
    (Batch("a delete of what is in no set", [(without_set(340, 777), 340)], ALL_OF_SETS), 345),
]
IN_CI_OF_SETS: Final = (
    "the first",
    "writes, deletes with and without a set, and new keys",
    "nothing but what expires",
    "a write before the expiry that ended the version",
)


@pytest.mark.parametrize(
    ("batch", "minute"),
    [
        pytest.param(
            *each, id=each[0].name, marks=() if each[0].name in IN_CI_OF_SETS else pytest.mark.long
        )
        for each in BATCHES_OF_SETS
    ],
)
def test_sets_at_each_boundary(played: Played, batch: Batch, minute: int) -> None:
    """Versions of records, which also end where they expire."""

    def made(source: Source) -> list[Event]:
        return [
            played.event(
                source,
                step._replace(expires=step.expires and SETS_FROM + step.expires),
                sent and SETS_FROM + sent,
            )
            for step, sent in batch.steps
        ]

    taken = run_of_sets(played, made, minute)
    assert batch.short is None or taken == batch.short
    assert played.differences_of(OF_SETS, moment(minute)) == {}


def moment(minute: float) -> datetime:
    """The moment that a run is for."""
    return EPOCH + timedelta(milliseconds=later(minute))


def run_of_sets(played: Played, made: Callable[[Source], list[Event]], minute: float) -> set[str]:
    chosen = [f"+{name}" for name in OF_SETS]
    return played.run(made, "-s", *chosen, sources=SETS, as_of=moment(minute))


def random_writes(
    played: Played, source: Source, *, dice: random.Random, start: int
) -> list[Event]:
    """Writes and deletes of a few records after a minute; of every third run, some belong before
    others.
    """
    is_clean = dice.random() < 0.67
    events = []
    for number in range(14):
        minute: float | None = start + number
        if not is_clean:
            minute = dice.choice([minute, minute, None, start - dice.randint(0, 40)])
        time = None if minute is None else later(minute)
        named = {**row(dice.randint(1, 2), note=str(number)), "label": "a"}
        if source.partial:
            named = {name: named[name] for name in dice.sample([*COLUMNS], 2)}
        expires = dice.choice([None, None, start + number + dice.randint(1, 45)])
        # A delete without a set is of the digest in each set of the namespace.
        key = 1000 * (1 + SETS.index(source)) + dice.randrange(10)
        step = write(time, named, key=key, expires=expires and SETS_FROM + expires)
        if dice.random() < 0.3:
            step = delete(time, key=step.key, has_set=dice.random() < 0.5)
        sent = SETS_FROM + start + number - dice.choice([0, 0, 3])
        events.append(played.event(source, step, sent, step.key % PARTITIONS))
    return events


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_random_sets(played: Played, seed: int) -> None:
    dice = random.Random(f"sets {seed}")
    short: set[str] = set()
    for number in range(8):
        start = 400 + 200 * seed + 20 * number
        made = partial(random_writes, played, dice=dice, start=start)
        minute = start + dice.randint(1, 20)
        short |= run_of_sets(played, made, minute)
        assert played.differences_of(OF_SETS, moment(minute)) == {}, number
    assert short >= UNTRACKED


def random_events(
    played: Played, source: Source, *, dice: random.Random, start: int
) -> list[Event]:
    """Events of a few keys after a minute; of every third run, some belong before others."""
    is_clean = dice.random() < 0.67
    events = []
    for number in range(14):
        time: int | None = at(start + number)
        if not is_clean:
            time = dice.choice([time, time, None, at(start - dice.randint(0, 30))])
        key = 100 + dice.randrange(12)
        label = dice.choice([UNAVAILABLE, "a", "b"])
        named = {**row(dice.randint(1, 2), note=str(number)), "label": label}
        if source.partial:
            named = {name: named[name] for name in dice.sample([*COLUMNS], 2)}
        step = update(time, named, key=key)
        if (roll := dice.random()) < 0.3:
            step = delete(time, key=key)
        elif roll < 0.5:
            step = insert(time, {**named, "label": "c"}, key=key)
        elif roll < 0.53 and not is_clean:
            step = truncate(time)
        sent = start + number - dice.choice([0, 0, 3])
        events.append(played.event(source, step, sent, key % PARTITIONS))
    return events


# In CI, test_history has random streams.
@pytest.mark.long
@pytest.mark.parametrize(("seed", "first", "runs"), [(16, 0, 2), (2, 2, 5)])
def test_a_random_stream(played: Played, seed: int, first: int, runs: int) -> None:
    dice = random.Random(f"histories {seed}")
    short: set[str] = set()
    for number in range(first, first + runs):
        start = 200 + 20 * number
        short |= played.run(partial(random_events, played, dice=dice, start=start))
        assert played.differences() == {}, number
    assert short == ALL


# In CI, the lake of test_maintenance has a history that reads what several runs have added, and
# test_wrong_rows a gold table that lags.
@pytest.mark.long
def test_runs_that_were_left_out(played: Played) -> None:
    def made(source: Source, minute: int) -> list[Event]:
        step = update(at(minute), TWO, key=7)
        return [played.event(source, step, minute)]

    played.run(lambda source: made(source, 500), "-s", "silver")
    assert played.run(lambda source: made(source, 510)) == ALL
    assert played.differences() == {}


# The reference is what a first load gives, in test_history too.
@pytest.mark.long
def test_a_full_refresh_gives_the_same_rows(played: Played) -> None:
    before = {name: played.lake.lake.read(f"gold.{name}") for name in (*HISTORIES, "bags")}
    played.lake.run("--full-refresh", "-s", *before)
    for name, rows in before.items():
        refreshed = played.lake.lake.read(f"gold.{name}")
        assert sorted(map(str, refreshed)) == sorted(map(str, rows)), name
