"""The tables of test_shards: several source tables in one, with a key and without, their examples
by hand, what the references expect.

A truncate deletes only what came from its own source table. Streams truncate two of the tables at
any time; of the others, which the examples have, one is truncated at once, one when more of it has
landed already, and one never.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from support.row_events import Event, Image, Source
from support.row_examples import Sent, Step, delete, events_of, insert, row, truncate, update
from support.row_lake import (
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    expected_history,
    expected_rows,
    expected_state,
)
from support.row_streams import debezium_stream, keyless_stream
from support.streams import UNAVAILABLE

NORTH, SOUTH, EAST, PORT, WEST = "north", "south", "east", "port", "west"
TABLES: Final = (NORTH, SOUTH, EAST, PORT, WEST)
STREAMED: Final = (NORTH, SOUTH)
BRANCHES: Final = Source("debezium.branches", "branches", "branches", tables=TABLES)
VISITS: Final = Source("debezium.visits", "visits", "visits", has_key=False, tables=TABLES)
SOURCES: Final = (BRANCHES, VISITS)
HISTORY: Final = "branches_history"
GOLD: Final = (*(source.table for source in SOURCES), HISTORY)
TRUNCATES: Final = 0.08
# Streams from here on hold every situation, truncates in a row too.
FIRST_SEED: Final = 280


def at(step: Step, minute: int, table: str, run: int = 0) -> Step:
    """A step of one of the tables, sent and made at that minute."""
    return step._replace(sent=Sent(minute), time=minute, of_table=table, run=run)


def before(table: str, number: int, run: int = 0, minute: int = 90) -> Step:
    """A row from before all truncates of the examples."""
    return at(insert(None, row(number, "a", "kept")), minute, table, run)


def behind(table: str, number: int, run: int = 0) -> Step:
    """Its update from behind them, which leaves the note as it was."""
    return at(update(None, row(number, "b", UNAVAILABLE)), 97, table, run)


# Of the one table in the first run, of the other when what is behind it has landed.
EAST_TRUNCATED: Final = at(truncate(None), 95, EAST)
PORT_TRUNCATED: Final = at(truncate(None), 95, PORT, run=1)


@dataclass(frozen=True)
class Example:
    """Changes of row 0, what becomes of it, and which table it is from."""

    name: str
    steps: list[Step]
    image: Image | None
    table: str | None = None


EXAMPLES: Final = [
    Example("a truncate takes its table's row", [before(EAST, 1), EAST_TRUNCATED], None),
    Example("and no other's", [before(WEST, 1), EAST_TRUNCATED], row(1, "a", "kept"), WEST),
    Example(
        "a row is from the newest event's table",
        [before(EAST, 1), before(WEST, 2, minute=92), EAST_TRUNCATED],
        row(2, "a", "kept"),
        WEST,
    ),
    Example(
        "and what it was before that does not come back",
        [before(WEST, 1), before(EAST, 2, minute=92), EAST_TRUNCATED],
        None,
    ),
    Example(
        "nor what another table has deleted",
        [before(EAST, 1), at(delete(None), 92, WEST), EAST_TRUNCATED],
        None,
    ),
    Example(
        "what comes behind is there",
        [before(EAST, 1), EAST_TRUNCATED, behind(EAST, 2)],
        row(2, "b"),
        EAST,
    ),
    Example(
        "a truncate that lands late takes what is before it",
        [before(PORT, 1), PORT_TRUNCATED],
        None,
    ),
    Example(
        "and what would be kept of it",
        [before(PORT, 1), PORT_TRUNCATED, behind(PORT, 2)],
        row(2, "b"),
        PORT,
    ),
    Example(
        "by a row of another table too",
        [before(PORT, 1), PORT_TRUNCATED, behind(WEST, 2)],
        row(2, "b"),
        WEST,
    ),
    Example(
        "but not what is another's",
        [before(WEST, 1), PORT_TRUNCATED, behind(PORT, 2)],
        row(2, "b", "kept"),
        PORT,
    ),
    Example(
        "a row that lands late is of its table",
        [before(WEST, 1, run=2), EAST_TRUNCATED],
        row(1, "a", "kept"),
        WEST,
    ),
    Example(
        "and gone with it",
        [before(EAST, 1, run=2), EAST_TRUNCATED, behind(WEST, 2)],
        row(2, "b"),
        WEST,
    ),
]


@dataclass(frozen=True)
class Equals:
    """Changes of equal rows without a key, and the tables of which one each is left."""

    name: str
    steps: list[Step]
    left: list[str]


def visit(table: str, minute: int = 90, run: int = 0) -> Step:
    """A row that all tables have."""
    return at(insert(None, row(1, "a")), minute, table, run)


def end(table: str) -> Step:
    """One such row less."""
    return at(delete(None, before=row(1, "a")), 92, table)


EQUALS: Final = [
    Equals("equal rows of two tables are two", [visit(WEST), visit(EAST, 96)], [EAST, WEST]),
    Equals(
        "a truncate takes its own table's",
        [visit(EAST), visit(WEST), visit(WEST), EAST_TRUNCATED],
        [WEST, WEST],
    ),
    Equals("so does a delete", [visit(WEST), end(PORT), end(WEST), visit(PORT, 96)], [PORT]),
    Equals(
        "and a truncate that lands late",
        [visit(PORT), visit(WEST), PORT_TRUNCATED, visit(PORT, 97)],
        [PORT, WEST],
    ),
]


def own(number: int, image: Any) -> Any:
    """An image of an example as no other example has it."""
    return image and {**image, "label": f"equals {number} {image['label']}"}


def events_of_equals(number: int) -> list[tuple[int, Event]]:
    """The events of an example without a key, whose rows no other example has."""
    events = events_of(VISITS, number, EQUALS[number].steps)
    return [
        (run, event._replace(named=own(number, event.named), before=own(number, event.before)))
        for run, event in events
    ]


def add_models(project: Path) -> None:
    """Add the models of all these tables to a project."""
    for source in SOURCES:
        add_change_log(project, source)
        add_current_state(project, source)
    add_history(project, BRANCHES, HISTORY)


def stream(clone: int) -> list[Event]:
    """The random events of a clone, of the two tables that only streams have."""
    streamed = [source._replace(tables=STREAMED) for source in SOURCES]
    events = [
        *debezium_stream(streamed[0], FIRST_SEED + clone, clone, truncates=TRUNCATES),
        *keyless_stream(streamed[1], FIRST_SEED + clone, clone, truncates=TRUNCATES),
    ]
    return [event._replace(source=event.source._replace(tables=TABLES)) for event in events]


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples, each with its run."""
    events = [placed for number in range(len(EQUALS)) for placed in events_of_equals(number)]
    for number, example in enumerate(EXAMPLES):
        events += events_of(BRANCHES, number, example.steps)
    return events


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What each table must hold."""
    return {
        BRANCHES.table: expected_state(BRANCHES, landed, as_of),
        HISTORY: expected_history(BRANCHES, landed, as_of),
        VISITS.table: expected_rows(VISITS, landed),
    }
