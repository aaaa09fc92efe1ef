"""Aerospike messages without some of their records: the bytes and places of the other records
stay the same.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from python_udfs.aerospike.batches import SPLITTERS
from python_udfs.core.events import INVALID, TOMBSTONE, Event
from python_udfs.registry import decode_payload

BATCH_FORMATS: Final = tuple(SPLITTERS)
"""The formats in which a payload of several records can be split."""

IsMeant = Callable[[Event], bool]


class Left(NamedTuple):
    """The rest of a message."""

    key: bytes | None
    value: bytes | None
    """None if nothing is left."""
    gone: list[int]
    """The places (``event_index``) of the records that were removed from the value."""


def without_records(
    format: str, key: bytes | None, value: bytes | None, namespace: str, digests: frozenset[str]
) -> Left:
    """Key and value of a batch without a namespace's records with one of the digests (base64),
    and without undecodable parts, whose owner is unknown.

    Each of them is replaced by an empty record. A repetition changes nothing.
    """

    def is_meant(event: Event) -> bool:
        return event.source_schema == namespace and _digest_of(event) in digests

    value_left, gone = _value_without(format, value, is_meant)
    return Left(_key_without(format, key, is_meant), value_left, gone)


def _value_without(
    format: str, value: bytes | None, is_meant: IsMeant
) -> tuple[bytes | None, list[int]]:
    # The decoder's result for each element in its place, and alone: in a batch an array of one
    # record is not a record, and a payload that is not a batch may be an array too.
    events = decode_payload(format, None, value)
    elements = _elements(format, value)
    splitter = SPLITTERS[format]
    left = [splitter.forgotten] * len(events)
    gone = []
    for event in events:
        element = elements[event.event_index] if event.event_index < len(elements) else None
        if (
            element is not None
            and event.operation not in (INVALID, TOMBSTONE)
            and not is_meant(event)
            and decode_payload(format, None, element)[0].record_key == event.record_key
        ):
            left[event.event_index] = element
        elif event.operation != TOMBSTONE:
            gone.append(event.event_index)
    is_empty = all(each == splitter.forgotten for each in left)
    return None if is_empty else splitter.join(left), gone


def _key_without(format: str, key: bytes | None, is_meant: IsMeant) -> bytes | None:
    """A message key of one record, or of several, without those to remove."""
    if not key:
        return key
    # The decoders return the key in the event of a message without a value.
    (whole,) = decode_payload(format, key, None)
    if whole.record_key is not None:
        return None if is_meant(whole) else key
    splitter = SPLITTERS[format]
    left, keys = [], 0
    for element in _elements(format, key):
        (event,) = decode_payload(format, element, None)
        if event.record_key is None and element != splitter.forgotten:
            return None
        if event.record_key is None or is_meant(event):
            left.append(splitter.forgotten)
        else:
            left.append(element)
            keys += 1
    return splitter.join(left) if keys else None


def _elements(format: str, data: bytes | None) -> list[bytes]:
    """The elements of an array; empty for anything else."""
    batch = SPLITTERS[format].split(data) if data else None
    return [] if batch is None or data is None else [data[slice(*span)] for span in batch.spans()]


def _digest_of(event: Event) -> str | None:
    if event.record_key is None:
        return None
    key: dict[str, str] = msgspec.json.decode(event.record_key)
    return key["digest"]
