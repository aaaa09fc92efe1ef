"""The messages that events came in: from bronze, by today's decoders."""

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from dbt_lakehouse.commands.forget.entities import BRONZE
from dbt_lakehouse.commands.landed_schemas import know_landed_schemas
from dbt_lakehouse.commands.messages import bytes_of, event_json, is_forgotten, pairs_of
from dbt_lakehouse.commands.sql.command import rows_of, sql_literal
from dbt_lakehouse.commands.why.events import KeyedTable
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.reference.fold import Position
from python_udfs.core.events import TOMBSTONE, Headers
from python_udfs.registry import decode_payload

Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""


class Found(StrEnum):
    """What was found of an event in its message."""

    THERE = "there"
    FORGOTTEN = "forgotten"
    """`lakehouse forget` has taken its bytes out."""
    MISSING = "missing"
    """Bronze has the message no more, or today's decoders find no such event in it."""


class Message(NamedTuple):
    """An event as its message has it."""

    found: Found
    event: dict[str, Any] | None = None
    """As `lakehouse decode` prints it, nulls left out; None if it is not there."""


class _Payload(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers
    has_forgotten: bool


def messages_of(
    reader: Reader, table: KeyedTable, positions: Iterable[Position]
) -> dict[Position, Message]:
    """The messages of events by their positions."""
    wanted = set(positions)
    if not wanted:
        return {}
    of_messages = _of_messages(wanted)
    events: dict[Place, list[tuple[int, str, str]]] = defaultdict(list)
    for topic, partition, offset, *event in rows_of(
        reader,
        'select topic, "partition", "offset", event_index, format, operation'
        f" from {reader.quoted(reader.known(table.change_events))} where {of_messages}",
    ):
        events[topic, partition, offset].append((event[0], event[1], event[2]))
    payloads: dict[Place, _Payload] = {}
    for topic, partition, offset, key, value, headers in rows_of(
        reader,
        'select topic, "partition", "offset", key, value, headers'
        f" from {reader.quoted(reader.known(BRONZE.label))} where {of_messages}",
    ):
        payload = _Payload(bytes_of(key), bytes_of(value), pairs_of(headers), is_forgotten(headers))
        payloads[topic, partition, offset] = payload
    know_landed_schemas(
        reader, (text for each in payloads.values() for text in (each.key, each.value))
    )
    return {
        position: _message(position.event_index, payloads.get(place), sorted(events[place]))
        for position in wanted
        for place in [(position.topic, position.partition, position.offset)]
    }


def _of_messages(positions: Iterable[Position]) -> str:
    """SQL that a row is of one of the messages."""
    offsets: dict[tuple[str, int], set[int]] = defaultdict(set)
    for position in positions:
        offsets[position.topic, position.partition].add(position.offset)
    return " or ".join(
        f'(topic = {sql_literal(topic)} and "partition" = {partition}'
        f' and "offset" in ({", ".join(map(str, sorted(own)))}))'
        for (topic, partition), own in offsets.items()
    )


def _message(
    event_index: int,
    payload: _Payload | None,
    events: list[tuple[int, str, str]],
) -> Message:
    """``events`` are all of the message: index, format and operation."""
    if payload is None or not events:
        return Message(Found.MISSING)
    key, value, headers, has_forgotten = payload
    if has_forgotten and value is None:
        return Message(Found.FORGOTTEN)
    if has_forgotten:
        # The events that have gone are tombstones, and the others have kept their numbers.
        kept = [index for index, _, operation in events if operation != TOMBSTONE]
        if event_index not in kept:
            return Message(Found.FORGOTTEN)
        event_index = kept.index(event_index)
    decoded = decode_payload(events[0][1], key, value, headers)
    if event_index == len(decoded) and decoded[-1].after is decoded[-1].before is None:
        # Judged to be the delete that a tombstone is left of: the message says no more than that.
        event_index -= 1
    if event_index >= len(decoded):
        return Message(Found.FORGOTTEN if has_forgotten else Found.MISSING)
    return Message(Found.THERE, event_json(decoded[event_index]))
