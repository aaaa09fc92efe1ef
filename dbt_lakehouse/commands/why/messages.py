"""The messages of events: from bronze, by the current decoders."""

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from dbt_lakehouse.commands.why.events import KeyedTable
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import sql_literal
from dbt_lakehouse.reference.fold import Position
from dbt_lakehouse.stored.landed import Landed, landed
from dbt_lakehouse.stored.messages import event_json
from python_udfs.core.events import TOMBSTONE


class Found(StrEnum):
    """Whether an event was found in its message."""

    THERE = "there"
    FORGOTTEN = "forgotten"
    """`lakehouse forget` has removed its bytes."""
    MISSING = "missing"
    """Bronze no longer has the message, or the current decoders find no such event in it."""


class Message(NamedTuple):
    """An event, as decoded from its message."""

    found: Found
    event: dict[str, Any] | None = None
    """In the form of `lakehouse decode`, without nulls; None if it is missing."""


def messages_of(
    reader: Reader, table: KeyedTable, positions: Iterable[Position]
) -> dict[Position, Message]:
    """The messages of events by their positions."""
    wanted = set(positions)
    if not wanted:
        return {}
    payloads = {
        (each.topic, each.partition, each.offset): each
        for each in landed(reader, table.other_events, _of_messages(wanted))
    }
    return {
        position: _message(
            position.event_index,
            payloads.get((position.topic, position.partition, position.offset)),
        )
        for position in wanted
    }


def _of_messages(positions: Iterable[Position]) -> str:
    """An SQL condition that a row is of one of the messages."""
    offsets: dict[tuple[str, int], set[int]] = defaultdict(set)
    for position in positions:
        offsets[position.topic, position.partition].add(position.offset)
    return " or ".join(
        f'(topic = {sql_literal(topic)} and "partition" = {partition}'
        f' and "offset" in ({", ".join(map(str, sorted(own)))}))'
        for (topic, partition), own in offsets.items()
    )


def _message(event_index: int, payload: Landed | None) -> Message:
    if payload is None or payload.format is None:
        return Message(Found.MISSING)
    if payload.is_forgotten:
        return Message(Found.FORGOTTEN)
    decoded = payload.events()
    # The truncate of a full snapshot has no message of its own: it has that of the snapshot's
    # first row.
    event_index = max(event_index, 0)
    if event_index == len(decoded) and decoded[-1].after is decoded[-1].before is None:
        # A delete judged from its remaining tombstone: the message says no more than that.
        event_index -= 1
    if event_index >= len(decoded):
        return Message(Found.MISSING)
    if payload.has_forgotten and decoded[event_index].operation == TOMBSTONE:
        # The placeholder of a record that was removed.
        return Message(Found.FORGOTTEN)
    return Message(Found.THERE, event_json(decoded[event_index]))
