"""The tables of test_compacted: topics that Kafka has compacted, examples by hand, what the
references expect.

Of a delete nothing may be left but its tombstone. Bins and shelves are in one topic, with the same
keys: the schemas of their messages' keys tell them apart. Those of racks and trays do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from support.row_events import TOMBSTONE, Event, Image, Source
from support.row_examples import Step, delete, events_of, insert, row, update
from support.row_lake import (
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    expected_history,
    expected_state,
)
from support.row_streams import compacted_stream

STOCK: Final = Source("debezium.stock", "depot", "stock", is_compacted=True)
BINS: Final = Source("debezium.depot", "depot", "bins", is_compacted=True, names_keys=True)
SHELVES: Final = BINS._replace(table="shelves")
RACKS: Final = Source("debezium.rooms", "rooms", "racks", is_compacted=True)
TRAYS: Final = RACKS._replace(table="trays")
STREAMED: Final = (STOCK, BINS, SHELVES)
SOURCES: Final = (*STREAMED, RACKS, TRAYS)
HISTORY: Final = "stock_history"
GOLD: Final = (*(source.table for source in SOURCES), HISTORY)
FIRST_SEED: Final = 520


def tombstone(run: int = 0, key: int = 0) -> Step:
    """A message with a key and no value."""
    return Step(TOMBSTONE, None, key=key, run=run)


@dataclass(frozen=True)
class Example:
    """Changes of row 0, and what becomes of it."""

    name: str
    steps: list[Step]
    image: Image | None
    left: int = 0
    """How many deletes its log has that tombstones were left of."""


A, B = row(1, "a", "kept"), row(2, "b", "kept")
EXAMPLES: Final = [
    Example("a tombstone is left of the delete", [insert(1, A), tombstone()], None, 1),
    Example("in a later run", [insert(1, A), tombstone(run=1)], None, 1),
    Example("what comes behind is there", [insert(1, A), tombstone(), insert(3, B)], B, 1),
    Example("behind its delete it is nothing", [insert(1, A), delete(2), tombstone()], None),
    Example("nor in a later run", [insert(1, A), delete(2), tombstone(run=2)], None),
    Example("a second one is nothing", [insert(1, A), tombstone(), tombstone(run=1)], None, 1),
    Example("nor is one of a row that never was", [tombstone()], None),
    Example("twice", [insert(1, A), tombstone(), update(3, B), tombstone(run=1)], None, 2),
    Example("a row that lands late is gone", [insert(1, A, run=2), tombstone()], None, 1),
    Example("one behind it is not", [insert(1, A, run=1), tombstone(), insert(3, B)], B, 1),
    Example(
        "a delete that lands late is the one",
        [insert(1, A), delete(2, run=1), tombstone(), insert(4, B)],
        B,
        1,
    ),
    Example("another key's is not this one's", [insert(1, A), tombstone(key=1)], A),
]


def add_models(project: Path) -> None:
    """Add the models of the tables to a project, and say which topics are compacted."""
    for source in SOURCES:
        add_change_log(project, source)
        add_current_state(project, source)
    add_history(project, STOCK, HISTORY)
    file = project / "dbt_project.yml"
    entries = "".join(
        f"    - {{ topic: {topic}, format: debezium_json, compacted: true }}\n"
        for topic in sorted({source.topic for source in SOURCES})
    )
    file.write_text(file.read_text().replace("  topics:\n", f"  topics:\n{entries}", 1))


def stream(clone: int) -> list[Event]:
    """The random events of a clone."""
    seed = FIRST_SEED + clone
    return [
        event
        for lane, source in enumerate(STREAMED)
        for event in compacted_stream(source, seed, clone, lane=lane)
    ]


def example_events() -> list[tuple[int, Event]]:
    """The events of all examples, each with its run."""
    events = [
        placed
        for number, example in enumerate(EXAMPLES)
        for placed in events_of(STOCK, number, example.steps)
    ]
    # Of racks and trays both rows are there: which of them it was that went nobody can tell.
    (rack, lone) = (event for _, event in events_of(RACKS, 0, [insert(1, A), tombstone(run=1)]))
    ((_, tray),) = events_of(TRAYS, 1, [insert(1, B)])
    return [*events, (0, rack), (1, lone), (0, tray._replace(key=rack.key))]


def expected(landed: Sequence[Event], as_of: datetime) -> dict[str, Expected]:
    """What each table must hold."""
    told = [event for event in landed if event.source != RACKS or event.operation != TOMBSTONE]
    tables = {source.table: expected_state(source, told, as_of) for source in SOURCES}
    return {**tables, HISTORY: expected_history(STOCK, landed, as_of)}
