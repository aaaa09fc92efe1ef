"""Aerospike messages without some of their records: the bytes of the others stay as they are."""

from collections.abc import Callable, Iterator
from typing import Final

import msgpack
import msgspec

from python_udfs.aerospike.lenient_json import TOKEN
from python_udfs.core.events import INVALID, TOMBSTONE, Event
from python_udfs.registry import FORMATS
from python_udfs.text.json_text import BOM

BATCH_FORMATS: Final = ("aerospike_messagepack", "aerospike_json")
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
    decode = FORMATS[format]
    kept = []
    for element in _ELEMENTS[format](value or b""):
        (event, *more) = decode(None, element)
        if not more and event.operation not in (INVALID, TOMBSTONE) and not is_meant(event):
            kept.append(element)
    return _JOINED[format](kept) if kept else None


def _key_without(format: str, key: bytes | None, is_meant: IsMeant) -> bytes | None:
    """A message key of one record, or of several, without those that are meant."""
    if not key:
        return key
    decode = FORMATS[format]
    # The decoders tell what a key is in the event of a message without value.
    (whole,) = decode(key, None)
    if whole.record_key is not None:
        return None if is_meant(whole) else key
    elements = list(_ELEMENTS[format](key))
    events = [decode(element, None)[0] for element in elements]
    if any(event.record_key is None for event in events):
        return None
    kept = [element for element, event in zip(elements, events, strict=True) if not is_meant(event)]
    return _JOINED[format](kept) if kept else None


def _digest_of(event: Event) -> str | None:
    if event.record_key is None:
        return None
    key: dict[str, str] = msgspec.json.decode(event.record_key)
    return key["digest"]


def _messagepack_elements(data: bytes) -> Iterator[bytes]:
    """The complete elements of an array; none of anything else."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    try:
        count = unpacker.read_array_header()
        for _ in range(count):
            start = unpacker.tell()
            unpacker.skip()
            yield data[start : unpacker.tell()]
    except (ValueError, msgpack.UnpackException):
        return


def _json_elements(text: bytes) -> Iterator[bytes]:
    """The complete elements of an array; none of anything else."""
    text = text.removeprefix(BOM)
    opening = TOKEN.search(text)
    if opening is None or opening[0] != b"[":
        return
    start = end = -1
    depth = 0
    for token in TOKEN.finditer(text, opening.end()):
        mark = token[0]
        if depth == 0 and mark in (b",", b"]", b"}"):
            if start >= 0:
                yield text[start:end]
            if start < 0 or mark != b",":
                return
            start = -1
            continue
        if mark == b'"':
            return
        if start < 0:
            start = token.start()
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
        end = token.end()
    # What breaks off behind an element that is whole.
    if start >= 0 and depth == 0:
        yield text[start:end]


def _messagepack_array(elements: list[bytes]) -> bytes:
    return bytes(msgpack.Packer().pack_array_header(len(elements))) + b"".join(elements)


def _json_array(elements: list[bytes]) -> bytes:
    return b"[" + b",".join(elements) + b"]"


_ELEMENTS: Final[dict[str, Callable[[bytes], Iterator[bytes]]]] = {
    "aerospike_messagepack": _messagepack_elements,
    "aerospike_json": _json_elements,
}
_JOINED: Final[dict[str, Callable[[list[bytes]], bytes]]] = {
    "aerospike_messagepack": _messagepack_array,
    "aerospike_json": _json_array,
}
