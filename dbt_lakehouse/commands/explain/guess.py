"""Guess the wire format of a message, by which decoders accept it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from dbt_lakehouse.commands.explain.columns import fields_of
from python_udfs.core.events import DELETE, INVALID, MESSAGE, TOMBSTONE, Event, Headers
from python_udfs.registry import FORMATS, UNWRAPPED_FORMATS, decode_payload, shows_format

# A number may exceed all doubles.
_DECODER: Final = msgspec.json.Decoder(float_hook=float)
_JSON_STARTS: Final = (b"{", b"[", b'"')
_USUAL: Final = "debezium_json"
"""The format of a message that would fit any."""
MONGODB: Final = "mongodb_json"
AEROSPIKE_AVRO: Final = "aerospike_avro"
# The field `msg` in Avro: the doubled length, and the text.
_MSG: Final = re.compile(b"\x0awrite|\x0cdelete")


class Guess(NamedTuple):
    """A format, and how sure it is."""

    format: str
    how: str
    others: Sequence[str] = ()
    """Other formats that fit equally well."""
    events: Sequence[Event] = ()
    """The events of the decoder; empty if they were not needed."""


def guess(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> Guess:
    """The format that fits a message best, with its events."""
    events = {name: decode_payload(name, key, value, headers) for name in FORMATS}
    found = _guess(value, events)
    return found._replace(events=events[found.format])


def _guess(value: bytes | None, events: Mapping[str, list[Event]]) -> Guess:
    good = {
        name: sum(shows_format(name, event) for event in of_format)
        for name, of_format in events.items()
    }
    if not max(good.values()):
        likely = _by_shape(value or b"")
        # Nearly any object would fit.
        row = next((name for name in UNWRAPPED_FORMATS if _is_decoded(events[name])), None)
        if row is not None and likely == _USUAL:
            return Guess(row, "guessed: any JSON object could be such a row, this one too")
        return Guess(likely, "guessed by its form: no decoder accepts any of it")
    accepted = [name for name in FORMATS if good[name] and good[name] == len(events[name])]
    if not accepted:
        likely = max(good, key=lambda name: good[name])
        return Guess(likely, "guessed: its decoder accepts the most of it")
    if all(events[name][0].operation == TOMBSTONE for name in accepted):
        others = [name for name in accepted if name != _USUAL]
        return Guess(_USUAL, "no value, or one that stands for none in any format", others)
    likely = max(accepted, key=lambda name: _closeness(name, events[name][0]))
    others = [name for name in accepted if name != likely]
    if not others:
        return Guess(likely, "sure: no other decoder accepts it")
    same = [name for name in others if events[name] == events[likely]]
    if len(same) == len(others):
        return Guess(likely, f"guessed: {_and(others)} would decode it to the same events", others)
    different = [name for name in others if name not in same]
    return Guess(likely, f"guessed: {_and(different)} would decode it otherwise", others)


def _by_shape(value: bytes) -> str:
    text = value.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(_JSON_STARTS):
        if text.startswith(b"[") or b'"msg"' in text:
            return "aerospike_json"
        if all(name in text for name in (b"operationType", b"_data")):
            return MONGODB
        if all(name in text for name in (b'"database"', b'"table"', b'"type"')):
            return "canal_json" if b'"isDdl"' in text else "maxwell_json"
        if all(name in text for name in (b'"metadata"', b'"record-type"')):
            return "aws_dms_json"
        if b'"after"' in text and not any(name in text for name in (b'"op"', b'"source"')):
            return "cockroachdb_json"
        return _USUAL
    if text[:1] == b"\0" and len(text) >= 5:
        return AEROSPIKE_AVRO if _MSG.search(text) else "debezium_avro"
    # Only MessagePack begins like this, and it is the best way to show what no format fits.
    return "aerospike_messagepack" if text[:1] > b"\x7f" else _USUAL


def _is_decoded(events: Sequence[Event]) -> bool:
    return all(event.operation != INVALID for event in events)


def _closeness(format_name: str, event: Event) -> int:
    """How much an event shows of the format's own features; the family's first format wins a
    draw.
    """
    source = _source(event)
    connector = source.get("connector")
    if format_name == "lindorm_json":
        return 2 if "namespace" in source and connector is None else 0
    if format_name == "arcion_json":
        return 2 if isinstance(connector, str) and connector.isupper() else 0
    if format_name == MONGODB:
        # In all other formats a null value is a tombstone.
        return 2 if event.operation in (DELETE, MESSAGE) else 1
    return 1


def _source(event: Event) -> Mapping[str, object]:
    raw = fields_of(event.metadata).get("source")
    source = None if raw is None else _DECODER.decode(raw)
    return source if isinstance(source, Mapping) else {}


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
