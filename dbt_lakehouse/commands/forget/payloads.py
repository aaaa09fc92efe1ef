"""Aerospike messages without some of their records: the bytes of the others stay as they are."""

from collections.abc import Callable
from typing import Final

import msgspec

from python_udfs.aerospike.batches import SPLITTERS
from python_udfs.core.events import INVALID, TOMBSTONE, Event
from python_udfs.registry import decode_payload

BATCH_FORMATS: Final = tuple(SPLITTERS)
"""The formats whose payloads can hold several records."""

IsMeant = Callable[[Event], bool]


def without_records(
    format: str, key: bytes | None, value: bytes | None, namespace: str, digests: frozenset[str]
) -> tuple[bytes | None, bytes | None]:
    """Key and value of a batch without the records of a namespace that have one of the digests
    (base64), and without what can't be decoded: nobody can tell whose it is.

    Either is None if nothing is left of it. Done again, it changes nothing.
    """

    def is_meant(event: Event) -> bool:
        return event.source_schema == namespace and _digest_of(event) in digests

    return _key_without(format, key, is_meant), _value_without(format, value, is_meant)


def _value_without(format: str, value: bytes | None, is_meant: IsMeant) -> bytes | None:
    # What the decoder makes of each element where it stands, and alone: in a batch an array of one
    # record is no record, and a payload that is no batch may be an array too.
    events = decode_payload(format, None, value)
    kept = [
        element
        for element, event in zip(_elements(format, value), events, strict=False)
        if event.operation not in (INVALID, TOMBSTONE)
        and not is_meant(event)
        and decode_payload(format, None, element)[0].record_key == event.record_key
    ]
    return SPLITTERS[format].join(kept) if kept else None


def _key_without(format: str, key: bytes | None, is_meant: IsMeant) -> bytes | None:
    """A message key of one record, or of several, without those that are meant."""
    if not key:
        return key
    # The decoders tell what a key is in the event of a message without value.
    (whole,) = decode_payload(format, key, None)
    if whole.record_key is not None:
        return None if is_meant(whole) else key
    elements = _elements(format, key)
    events = [decode_payload(format, element, None)[0] for element in elements]
    if any(event.record_key is None for event in events):
        return None
    kept = [element for element, event in zip(elements, events, strict=True) if not is_meant(event)]
    return SPLITTERS[format].join(kept) if kept else None


def _elements(format: str, data: bytes | None) -> list[bytes]:
    """The elements of an array; none of anything else."""
    batch = SPLITTERS[format].split(data) if data else None
    return [] if batch is None or data is None else [data[slice(*span)] for span in batch.spans()]


def _digest_of(event: Event) -> str | None:
    if event.record_key is None:
        return None
    key: dict[str, str] = msgspec.json.decode(event.record_key)
    return key["digest"]
