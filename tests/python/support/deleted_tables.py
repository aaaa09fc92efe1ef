"""The tables of test_deleted_rows: current states that keep deleted rows, beside those that don't
of the same change logs, examples by hand, what the reference expects.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from support.history_tables import METERS, TICKETS
from support.key_update_tables import LEDGERS
from support.partial_tables import GAUGES
from support.row_events import NOTHING, Event, Image, Source
from support.row_examples import Step, delete, events_of, insert, row, truncate, update, write
from support.row_lake import Expected, add_change_log, expected_with_deleted, log_of
from support.row_streams import debezium_stream
from support.shard_tables import BRANCHES
from support.small_project import Gold, add_gold, current_state, history
from support.streams import UNAVAILABLE

# Ordered by source time, and truncated.
CLEARED: Final = Source("debezium.shop.cleared", "shop", "cleared", True, True)
# The logs of the others, and their streams, are those of other tables too.
SOURCES: Final = (METERS, TICKETS, GAUGES, CLEARED, BRANCHES, LEDGERS)
HISTORY: Final = "meters_history"


def table_of(source: Source) -> str:
    """The table that keeps deleted rows."""
    return f"{source.table}_kept"


TABLES: Final = [table_of(source) for source in SOURCES]
HISTORY_TEST: Final = f"{table_of(METERS)}_has_history"
"""Whether the history agrees with the table that keeps deleted rows."""


class Deleted(NamedTuple):
    """The deleted row 0 of an example: when it was deleted, in minutes, by which step, and what it
    was.
    """

    at: float
    step: int
    image: Image


class Example(NamedTuple):
    """Changes of row 0; what is kept of it, None if it is live."""

    name: str
    source: Source
    steps: list[Step]
    deleted: Deleted | None


ONE, TWO, THREE = row(1), row(2), row(3)
# The numbers of the other modules' examples end below.
FIRST: Final = 300
EXAMPLES: Final = [
    Example("a delete", TICKETS, [insert(10, ONE), delete(20)], Deleted(20, 1, ONE)),
    Example(
        "deleted twice: the first counts",
        TICKETS,
        [insert(10, ONE), delete(20), delete(30, run=1)],
        Deleted(20, 1, ONE),
    ),
    Example(
        "a row that comes back is live",
        TICKETS,
        [insert(10, ONE), delete(20), insert(30, TWO, run=1)],
        None,
    ),
    Example(
        "and is deleted again",
        TICKETS,
        [insert(10, ONE), delete(20), insert(30, row(2), run=1), delete(40, run=2)],
        Deleted(40, 3, TWO),
    ),
    Example(
        "a column that was left as it was",
        TICKETS,
        [
            insert(10, row(1, "a", "long")),
            update(20, row(2, "b", UNAVAILABLE)),
            delete(30, run=1),
        ],
        Deleted(30, 2, row(2, "b", "long")),
    ),
    Example(
        "what the delete ships, if nothing else is known",
        TICKETS,
        [delete(20, before=row(1, "a", "whole"))],
        Deleted(20, 0, row(1, "a", "whole")),
    ),
    Example("nothing is known", TICKETS, [delete(20, before=NOTHING)], Deleted(20, 0, row())),
    Example(
        "what lands late is before the delete",
        TICKETS,
        [insert(10, ONE), update(15, TWO, run=1), delete(20)],
        Deleted(20, 2, TWO),
    ),
    Example(
        "an update of the key deletes the old row",
        TICKETS,
        [insert(10, ONE), update(20, TWO, key=1, previous_key=0, run=1)],
        Deleted(20, 1, ONE),
    ),
    Example(
        "a late write into a deleted row's past",
        METERS,
        [write(10, ONE), delete(30), write(20, TWO, run=1)],
        Deleted(30, 1, TWO),
    ),
    Example(
        "one from before its last write changes nothing",
        METERS,
        [write(20, TWO), delete(30), write(10, ONE, run=1)],
        Deleted(30, 1, TWO),
    ),
    Example(
        "a write behind the delete brings it back",
        METERS,
        [write(10, ONE), delete(30), write(40, TWO, run=1)],
        None,
    ),
    Example(
        "a delete that comes late",
        METERS,
        [write(10, ONE), delete(30), delete(20, run=1)],
        Deleted(20, 2, ONE),
    ),
    Example(
        "a delete without a set",
        METERS,
        [write(10, ONE), delete(20, has_set=False, run=1)],
        Deleted(20, 1, ONE),
    ),
    Example(
        "a row that expires rests on its write",
        METERS,
        [write(10, ONE, expires=200)],
        Deleted(200, 0, ONE),
    ),
    Example(
        "a delete of an expired row deletes nothing",
        METERS,
        [write(10, ONE, expires=20), delete(30, run=1)],
        Deleted(20, 0, ONE),
    ),
    Example(
        "late events on different columns",
        GAUGES,
        [
            write(10, row(1, "old", "old")),
            delete(50),
            write(40, {"level": 4}, run=1),
            write(30, {"label": "new"}, run=2),
        ],
        Deleted(50, 1, row(4, "new", "old")),
    ),
    # A truncate is one of all keys of its table: of this one, the others are later.
    Example(
        "a truncate deletes, though it lands late",
        LEDGERS,
        [insert(3, ONE), truncate(5, run=1), delete(8)],
        Deleted(5, 1, ONE),
    ),
]


def gold_of(source: Source, *, deleted_rows: bool = True) -> Gold:
    """The model of the table, and its data tests."""
    name = table_of(source)
    gold = current_state(log_of(source), name, deleted_rows=deleted_rows)
    more = [{test: {"name": f"{name}_{test}"}} for test in ("unique_key", "no_absent_keys")]
    return replace(gold, data_tests=[*gold.data_tests, *more])


def add_models(project: Path) -> None:
    """Add the models of all these tables to a project that has the others' change logs."""
    add_change_log(project, CLEARED)
    for source in SOURCES:
        add_gold(project, gold_of(source))
    versions = history(log_of(METERS), HISTORY)
    test = {"is_history": {"name": HISTORY_TEST, "arguments": {"current": table_of(METERS)}}}
    add_gold(project, replace(versions, data_tests=[*versions.data_tests, test]))


def stream(clone: int) -> list[Event]:
    """The random events of a clone that no other table has."""
    return debezium_stream(CLEARED, clone, clone, truncates=0.1)


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples, each with its run."""
    return [
        placed
        for number, example in enumerate(EXAMPLES)
        for placed in events_of(example.source, FIRST + number, example.steps)
    ]


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What each table must hold."""
    return {table_of(each): expected_with_deleted(each, landed, as_of) for each in SOURCES}
