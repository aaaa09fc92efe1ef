"""The table of test_keyless: its two topics, examples by hand, what the reference expects."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from support.row_events import Event, Image, Source
from support.row_examples import Sent, Step, delete, events_of, insert, row, truncate, update
from support.row_lake import Expected, add_change_log, add_current_state, expected_rows
from support.row_streams import keyless_stream
from support.streams import UNAVAILABLE

NOTES: Final = Source("debezium.wiki.notes", "wiki", "notes", has_key=False)
ARCHIVED: Final = NOTES._replace(topic="debezium.archive.notes")
TABLE: Final = NOTES.table


@dataclass(frozen=True)
class Example:
    """Changes of rows, and the copies that are left: which row, and the step it is from."""

    name: str
    steps: list[Step]
    left: list[tuple[Image, int]]


A, B, NO_LEVEL = row(1, "a"), row(2, "b"), row(None, "a")
EXAMPLES: Final = [
    Example("equal rows", [insert(1, A), insert(2, A), insert(3, B)], [(A, 1), (A, 1), (B, 2)]),
    Example("a delete removes one", [insert(1, A), insert(2, A), delete(3, before=A)], [(A, 2)]),
    Example("a delete removes the last", [insert(1, A), delete(2, before=A)], []),
    Example(
        "a delete of nothing takes nothing of what comes later",
        [delete(1, before=A), delete(2, before=A), insert(3, A)],
        [(A, 2)],
    ),
    Example(
        "an update removes one and adds one",
        [insert(1, A), insert(2, A), update(3, B, before=A)],
        [(A, 2), (B, 2)],
    ),
    Example(
        "an update that says nothing of the row before adds one",
        [insert(1, A), update(2, B)],
        [(A, 0), (B, 1)],
    ),
    Example(
        "an update of what is not there adds one",
        [update(1, B, before=A), insert(2, A)],
        [(A, 1), (B, 0)],
    ),
    Example("an update to the same row", [insert(1, A), update(2, A, before=A)], [(A, 1)]),
    Example(
        "null before is null, whatever it becomes",
        [insert(1, NO_LEVEL), insert(2, A), update(3, A, before=NO_LEVEL)],
        [(A, 2), (A, 2)],
    ),
    Example(
        "null after is null, whatever it was",
        [insert(1, NO_LEVEL), insert(2, A), update(3, NO_LEVEL, before=A)],
        [(NO_LEVEL, 2), (NO_LEVEL, 2)],
    ),
    Example(
        "a placeholder is the value before",
        [
            insert(1, row(1, "a", "long")),
            update(2, row(2, "a", UNAVAILABLE), before=row(1, "a", "long")),
        ],
        [(row(2, "a", "long"), 1)],
    ),
    Example(
        "a delete that lands late counts in its place",
        [insert(1, A), delete(2, before=A, run=1), insert(3, A)],
        [(A, 2)],
    ),
    Example(
        "an insert that lands late is what the delete removes",
        [insert(1, A, run=1), delete(2, before=A)],
        [],
    ),
    Example(
        "an update that lands late",
        [insert(1, A), update(2, B, before=A, run=2), delete(3, before=B)],
        [],
    ),
    Example(
        "a truncate takes what came before, though it lands late",
        [
            insert(1, A, sent=Sent(20)),
            insert(1, B, sent=Sent(22)),
            truncate(1, sent=Sent(25), run=1),
            insert(1, A, sent=Sent(30)),
        ],
        [(A, 3)],
    ),
]


def own(number: int, image: Any) -> Any:
    """An image of an example as no other example has it."""
    return image and {**image, "label": f"example {number} {image['label']}"}


def events_of_example(number: int) -> list[tuple[int, Event]]:
    """The events of an example, whose rows no other example has."""
    events = events_of(NOTES, number, EXAMPLES[number].steps)
    return [
        (run, event._replace(named=own(number, event.named), before=own(number, event.before)))
        for run, event in events
    ]


def add_models(project: Path) -> None:
    """Add the models of the table to a project."""
    add_change_log(project, NOTES)
    add_current_state(project, NOTES)


def stream(clone: int) -> list[Event]:
    """The random events of a clone, in both topics."""
    return [
        *keyless_stream(NOTES, clone, clone, truncates=0.05),
        *keyless_stream(ARCHIVED, clone, clone, truncates=0.05),
    ]


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples, each with its run."""
    return [placed for number in range(len(EXAMPLES)) for placed in events_of_example(number)]


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What the table must hold, whenever."""
    return {TABLE: expected_rows(NOTES, landed)}
