"""The short way for Debezium's usual messages: many changes of one table, without schema blocks.

A topic's messages are much alike: the same fields in the envelope, the same source, the same
columns. What they have in common, a layout, is learned from messages that ``debezium`` has decoded.
Decoders made for it then take many messages apart in one call, in C, and values stay the text that
was sent. A message that isn't like that is left to ``debezium``, which decodes it with all care.
Both give the same event, but for white space inside of arrays.

Nothing is lost on this way: encoded again, a message must give the bytes that were sent. What is
dropped (a name that comes twice, white space) makes it shorter, nothing makes it longer. Values
that ``debezium`` would write in another way, and placeholders of unavailable values, are not plain.
"""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from python_udfs import limits
from python_udfs.connect_types import UNAVAILABLE_MARKS
from python_udfs.events import (
    DELETE,
    INSERT,
    MAX_TIME_MS,
    MIN_TIME_MS,
    SNAPSHOT,
    UPDATE,
    Decode,
    Decoded,
    Event,
    EventColumns,
)

_OPERATIONS: Final = {"r": SNAPSHOT, "c": INSERT, "u": UPDATE, "d": DELETE}
_IMAGES: Final = frozenset({"before", "after"})
# Fields of a source block that are the same in all messages of a table.
_CONSTANTS: Final = ("version", "connector", "name", "db", "schema", "namespace", "table")
# What metadata has of its own, beside the envelope's fields.
_TAKEN: Final = frozenset(
    {
        *("connector", "snapshot", "event_key", "event_key_encoding", "event_key_wrapper"),
        *("untyped", "as_sent", "envelope", "wrapper", "schema_name", "schema", "payload"),
    }
)
_FAILURES: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)

_load = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
_encode_lines = msgspec.json.Encoder().encode_lines

# How many messages of a table may turn out not to be plain before the short way is given up for it,
# beside a quarter of those that are.
_PATIENCE: Final = 100
# Decoders of many columns take some 100 KB.
_MAX_TABLES: Final = 512
_MAX_NAMES: Final = 2000
# In arrays: a number that is encoded in another way, an object, and the first of an unavailable
# value's bytes.
_UNUSUAL_IN_ARRAYS: Final = re.compile(rb"[\[,]\s*(?:-0|\{)|\[\s*95")
# With so many brackets an array in an image can't be too deep.
_PLAIN_DEPTH: Final = limits.MAX_DEPTH - 3


class _Shape(NamedTuple):
    """The names of a message's parts, and the constants of its source."""

    key: tuple[str, ...] | None
    envelope: tuple[str, ...]
    source: tuple[tuple[str, str | None], ...]
    """Names, each with its value if it is a constant."""
    before: tuple[str, ...] | None
    """The columns of images; None if no message has had one yet."""
    after: tuple[str, ...] | None


class _Layout(NamedTuple):
    """The decoders of a shape."""

    shape: _Shape
    key: msgspec.json.Decoder[Any] | None
    change: msgspec.json.Decoder[Any]
    metadata: type[msgspec.Struct]
    has_snapshot: bool
    source_database: str | None
    source_schema: str | None
    source_table: str | None


class _Table:
    """What is known of a table's messages."""

    __slots__ = ("layout", "misses", "plain", "shape")

    def __init__(self) -> None:
        self.shape: _Shape | None = None
        self.layout: _Layout | None = None
        self.misses = 0
        self.plain = 0

    @property
    def is_hopeless(self) -> bool:
        return self.misses > _PATIENCE + self.plain // 4


_tables: Final[dict[tuple[bytes, ...], _Table]] = {}
_met_last: Final[list[_Layout | None]] = [None]


def decode_batch(
    decode: Decode, keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> Decoded:
    """The events of each message; ``decode`` decodes those that are not plain."""
    decoded = Decoded()
    if _met_last[0] is not None:
        # A topic has one table as a rule.
        columns = _columns(_met_last[0], keys, values)
        if columns is not None:
            decoded.columns.append((range(len(values)), columns))
            return decoded
    tables: dict[tuple[bytes, ...], list[int]] = {}
    for place, value in enumerate(values):
        tables.setdefault(_table_of(value), []).append(place)
    for name, places in tables.items():
        if len(_tables) >= _MAX_TABLES:
            _tables.clear()
        _decode_table(decoded, _tables.setdefault(name, _Table()), decode, places, keys, values)
    return decoded


def _table_of(value: bytes | None) -> tuple[bytes, ...]:
    """Texts that tell the messages of one table from those of another one, mostly."""
    if value is None:
        return ()
    return tuple(_text_behind(mark, value) for mark in (b'"db":"', b'"schema":"', b'"table":"'))


def _text_behind(mark: bytes, value: bytes) -> bytes:
    start = value.find(mark) + len(mark)
    return value[start : value.find(b'"', start)] if start >= len(mark) else b""


def _decode_table(
    decoded: Decoded,
    table: _Table,
    decode: Decode,
    places: list[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> None:
    """Add the events of a table's messages, which are at those places."""
    while places and not table.is_hopeless:
        if table.layout is not None:
            columns = _columns(
                table.layout, [keys[place] for place in places], [values[place] for place in places]
            )
            if columns is not None:
                table.plain += len(places)
                _met_last[0] = table.layout
                decoded.columns.append((places, columns))
                return
            if len(places) > 1:
                half = len(places) // 2
                _decode_table(decoded, table, decode, places[:half], keys, values)
                places = places[half:]
                continue
        first, *places = places
        events = decoded.events[first] = decode(keys[first], values[first])
        table.misses += 1
        _learn(table, keys[first], values[first], events[0])
    for place in places:
        decoded.events[place] = decode(keys[place], values[place])


# --- Layouts --------------------------------------------------------------------------------------


def _learn(table: _Table, key: bytes | None, value: bytes | None, event: Event) -> None:
    """Make the table's layout from a message that others may be like."""
    if value is None or event.operation not in _OPERATIONS.values():
        return
    shape = _shape(key, value)
    if shape is None:
        return
    old = table.shape
    if old is not None and old[:3] == shape[:3]:
        # Some messages lack an image: one that was seen is still known.
        shape = shape._replace(before=shape.before or old.before, after=shape.after or old.after)
    if shape != old:
        table.shape = shape
        table.layout = _layout(shape, event)


def _shape(key: bytes | None, value: bytes) -> _Shape | None:
    try:
        fields = _load(value)
        key_fields = None if key is None else _load(key)
    except _FAILURES:
        return None
    source, before, after = (fields.get(name) for name in ("source", "before", "after"))
    if (
        type(source) is not dict
        or not _TAKEN.isdisjoint(fields)
        or not {"op", "before", "after", "ts_ms"} <= fields.keys()
        or not (before is None or (type(before) is dict and before))
        or not (after is None or (type(after) is dict and after))
        or (key_fields is not None and (not key_fields or not _TAKEN.isdisjoint(key_fields)))
        or type(source.get("table")) is not str
        or sum(map(len, (fields, source, before or (), after or ()))) > _MAX_NAMES
    ):
        return None
    return _Shape(
        None if key_fields is None else tuple(sorted(key_fields)),
        tuple(fields),
        tuple(
            (name, sent if name in _CONSTANTS and type(sent) is str else None)
            for name, sent in source.items()
        ),
        None if before is None else tuple(before),
        None if after is None else tuple(after),
    )


def _layout(shape: _Shape, event: Event) -> _Layout | None:
    try:
        source = _struct(
            {
                name: Literal[constant]
                if constant is not None
                else type(None)
                if name in _CONSTANTS
                else int | None
                if name == "ts_ms"
                else Raw
                for name, constant in shape.source
            }
        )
        types: dict[str, Any] = dict.fromkeys(shape.envelope, Raw)
        types |= {"op": Literal["r", "c", "u", "d"], "source": source, "ts_ms": int | None}
        if "transaction" in types:
            types["transaction"] = None
        for name, columns in (("before", shape.before), ("after", shape.after)):
            types[name] = None if columns is None else _struct(dict.fromkeys(columns, Raw)) | None
        change = _struct(types)
        key = None if shape.key is None else _struct(dict.fromkeys(shape.key, Raw))
        names = [name for name, _ in shape.source]
        own = ["event_key"] * (key is not None) + [
            name for name in ("connector", "snapshot") if name in names
        ]
        metadata = _struct(
            dict.fromkeys(
                [*own, *(name for name in shape.envelope if name not in (*_IMAGES, "op"))], Any
            )
        )
    except ValueError:
        # A name that JSON has to escape.
        return None
    return _Layout(
        shape,
        None if key is None else msgspec.json.Decoder(key),
        msgspec.json.Decoder(change),
        metadata,
        "snapshot" in names,
        event.source_database,
        event.source_schema,
        event.source_table,
    )


def _struct(types: dict[str, Any]) -> type[msgspec.Struct]:
    """A Struct of fields with those names; as attributes they are ``f0``, ``f1``, ..."""
    fields = [(f"f{place}", field_type) for place, field_type in enumerate(types.values())]
    rename = {f"f{place}": name for place, name in enumerate(types)}
    return msgspec.defstruct("Fields", fields, rename=rename, gc=False)


# --- Messages -------------------------------------------------------------------------------------


def _columns(
    layout: _Layout, keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> EventColumns | None:
    """The events of messages of a layout, or None if any turns out not to be plain."""
    shape = layout.shape
    rows = len(values)
    messages = [value for value in values if value is not None]
    message_keys = [key for key in keys if key is not None]
    if len(messages) != rows or len(message_keys) != (0 if layout.key is None else rows):
        return None
    text, key_text = b"\n".join(messages), b"\n".join(message_keys)
    try:
        if _is_unusual(text, messages) or (layout.key and _is_unusual(key_text, message_keys)):
            return None
        changes = layout.change.decode_lines(text)
        record_keys = [] if layout.key is None else layout.key.decode_lines(key_text)
    except _FAILURES:
        return None
    place = {name: f"f{index}" for index, name in enumerate(shape.envelope)}
    operations = list(map(attrgetter(place["op"]), changes))
    befores = list(map(attrgetter(place["before"]), changes))
    afters = list(map(attrgetter(place["after"]), changes))
    with_before, with_after = rows - befores.count(None), rows - afters.count(None)
    if _encode_lines(changes) != text + b"\n":
        return None
    # Each row's source and images.
    objects = rows + with_before + with_after
    if text.count(b"{") != rows + objects and text.count(b'":{') - text.count(b'\\":{') != objects:
        return None
    # A key's names may come in another order than the record key's: as many bytes are the same.
    record_key = _encode_lines(record_keys)
    if layout.key and (len(record_key) != len(key_text) + 1 or key_text.count(b"{") != rows):
        return None
    if with_after < rows:
        for operation, before, after in zip(operations, befores, afters, strict=True):
            if after is None and (operation != "d" or (before is None and layout.key is None)):
                return None
    sources = list(map(attrgetter(place["source"]), changes))
    in_source = {name: f"f{index}" for index, (name, _) in enumerate(shape.source)}
    times: Sequence[int | None] = [None] * rows
    if "ts_ms" in in_source:
        times = _known_times(list(map(attrgetter(in_source["ts_ms"]), sources)))
    parts: list[Any] = [] if layout.key is None else [record_keys]
    parts += [
        map(attrgetter(in_source[name]), sources)
        for name in ("connector", "snapshot")
        if name in in_source
    ]
    parts += [
        map(attrgetter(place[name]), changes)
        for name in shape.envelope
        if name not in _IMAGES and name != "op"
    ]
    return EventColumns(
        operation=list(map(_OPERATIONS.__getitem__, operations)),
        source_database=layout.source_database,
        source_schema=layout.source_schema,
        source_table=layout.source_table,
        record_key=None if layout.key is None else record_key,
        before=_encode_lines(befores) if with_before else None,
        after=_encode_lines(afters) if with_after else None,
        occurred_at=times,
        expires_at=None,
        metadata=_encode_lines(list(map(layout.metadata, *parts))),
    )


def _known_times(times: list[Any]) -> Sequence[int | None]:
    """None for zero, and for what no timestamp can hold."""
    if None not in times and 0 < min(times) <= max(times) <= MAX_TIME_MS:
        return times
    return [time if time and MIN_TIME_MS <= time <= MAX_TIME_MS else None for time in times]


def _is_unusual(text: bytes, messages: list[bytes]) -> bool:
    """Whether lines of JSON, of a message each, have something that ``debezium`` has to look at."""
    if text.count(b"\n") != len(messages) - 1:
        return True
    if len(text) > limits.MAX_PAYLOAD_BYTES:
        return True
    # What is nested can only be arrays: see _columns.
    if text.count(b"[") > _PLAIN_DEPTH and any(
        message.count(b"[") > _PLAIN_DEPTH for message in messages
    ):
        return True
    if not text.isascii():
        # msgspec does not look at the UTF-8 of what it leaves as it is.
        text.decode()
    return (
        # Only a quote's escape is sure to be what an encoder writes.
        text.count(b"\\") != text.count(b'\\"')
        or text.find(b":-0") >= 0
        or (
            text.find(b":[") >= 0
            # Behind an escaped quote it would be text.
            and text.count(b'":[') != text.count(b'\\":[')
            and _UNUSUAL_IN_ARRAYS.search(text) is not None
        )
        or any(text.find(mark) >= 0 for mark in UNAVAILABLE_MARKS)
    )
