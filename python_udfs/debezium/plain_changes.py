"""The short way for Debezium's usual messages: many changes of one table.

A topic's messages are much alike: the same fields in the envelope, the same source, the same
columns. What they have in common, a layout, is learned from messages that ``envelope`` has decoded.
Decoders made for it then take many messages apart in one call, in C. A message that isn't like that
is left to ``envelope``, which decodes it with all care. Both give the same event.

Nothing is lost on this way: all values are decoded, and encoded again, a message must give the
bytes that were sent. So it has no name that comes twice, no white space and no value that
``envelope`` would write in another way. To look for these in the text would take longer. What is
looked for, in images, are values that may be too deep and placeholders of unavailable ones.

A schema block is the same bytes in all messages of a table, and so is all else that is in front of
the payload, a message's prefix:

    {"schema":{"type":"struct","fields":[...]},"payload":{"before":null,"after":{...},...}}
    |---------------------- prefix ----------------------|----------- payload ------------|

It is read once. The images' declared types become the types that their decoder checks, and columns
whose values are converted are so one after the other, by the converters that ``envelope`` uses. A
value that doesn't fit its type is not plain, nor is an instant with another offset than Z.
"""

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from python_udfs.core import limits
from python_udfs.core.errors import DecodeError
from python_udfs.core.events import (
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
from python_udfs.debezium.types import (
    NOTHING,
    UNAVAILABLE_ARRAY_MARKS,
    UNAVAILABLE_MARKS,
    Schema,
    read_schema,
)
from python_udfs.text import json_text

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
# Of fields that are not columns. An object or array is not plain there: it may be too deep.
_SCALAR: Final = str | int | bool | None
_FAILURES: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)

_load = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
_encode_lines = msgspec.json.Encoder().encode_lines

# How many messages of a table may turn out not to be plain before the short way is given up for it,
# beside a quarter of those that are.
_PATIENCE: Final = 100
# Decoders of many columns take some 100 KB.
_MAX_TABLES: Final = 512
_MAX_NAMES: Final = 2000
# With so many brackets a row can't be too deep: around it are a wrapper and an envelope.
_PLAIN_BRACKETS: Final = limits.MAX_DEPTH - 2

# What a prefix begins and ends with, and how long it may be to be remembered.
_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = b',"payload":'
_MAX_PREFIX: Final = 256 * 1024


class _Shape(NamedTuple):
    """The names of a message's parts, and the constants of its source."""

    key: tuple[str, ...] | None
    envelope: tuple[str, ...]
    source: tuple[tuple[str, str | None], ...]
    """Names, each with its value if it is a constant."""
    before: tuple[str, ...] | None
    """The columns of images; None if no message has had one yet."""
    after: tuple[str, ...] | None


_Converters = list[tuple[str, Schema]]
"""Attributes of a row's Struct whose values are converted, and what converts them."""


class _Row(NamedTuple):
    """A row of columns as an image or a key."""

    struct: type[msgspec.Struct]
    converters: _Converters


class _Layout(NamedTuple):
    """The decoders of a shape."""

    shape: _Shape
    key_prefix: bytes
    prefix: bytes
    key: msgspec.json.Decoder[Any] | None
    change: msgspec.json.Decoder[Any]
    key_converters: _Converters
    before_converters: _Converters
    after_converters: _Converters
    metadata: type[msgspec.Struct]
    schema_name: str | None
    source_database: str | None
    source_schema: str | None
    source_table: str | None


class _Table:
    """What is known of a table's messages."""

    __slots__ = ("key_prefix", "layout", "misses", "plain", "prefix", "shape")

    def __init__(self, key_prefix: bytes, prefix: bytes) -> None:
        self.key_prefix = key_prefix
        self.prefix = prefix
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
    """The events of each message; ``decode``, that of ``debezium_json``, decodes those that are not
    plain.
    """
    decoded = Decoded()
    if _met_last[0] is not None:
        # A topic has one table as a rule.
        columns = _columns(_met_last[0], keys, values)
        if columns is not None:
            decoded.columns.append((range(len(values)), columns))
            return decoded
    tables: dict[tuple[bytes, ...], list[int]] = {}
    for place, names in enumerate(map(_table_of, _prefixes(keys), _prefixes(values), values)):
        tables.setdefault(names, []).append(place)
    for names, places in tables.items():
        table = _tables.get(names)
        if table is None:
            if len(_tables) >= _MAX_TABLES:
                _tables.clear()
            table = _tables[names] = _Table(*names[:2])
        _decode_table(decoded, table, decode, places, keys, values)
    return decoded


def _prefixes(messages: Sequence[bytes | None]) -> list[bytes]:
    """Each message's prefix; empty for one without a schema block in front of its payload."""
    prefixes = []
    last = b""
    for message in messages:
        prefix = b""
        if message is not None and message.startswith(_SCHEMA):
            if last and message.startswith(last):
                # In half the time, and its hash is known.
                prefix = last
            else:
                end = message.find(_PAYLOAD, 0, _MAX_PREFIX)
                if end >= 0:
                    prefix = last = message[: end + len(_PAYLOAD)]
        prefixes.append(prefix)
    return prefixes


def _table_of(key_prefix: bytes, prefix: bytes, value: bytes | None) -> tuple[bytes, ...]:
    """Both prefixes, and texts that tell a table's messages from those of another one, mostly."""
    if value is None:
        return b"", b""
    start = len(prefix)
    return (
        key_prefix,
        prefix,
        _text_behind(b'"db":"', value, start),
        _text_behind(b'"schema":"', value, start),
        _text_behind(b'"table":"', value, start),
    )


def _text_behind(mark: bytes, value: bytes, start: int) -> bytes:
    start = value.find(mark, start) + len(mark)
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
    shape = _shape(
        None if key is None else _payload(table.key_prefix, key), _payload(table.prefix, value)
    )
    if shape is None:
        return
    old = table.shape
    if old is not None and old[:3] == shape[:3]:
        # Some messages lack an image: one that was seen is still known.
        shape = shape._replace(before=shape.before or old.before, after=shape.after or old.after)
    if shape != old:
        table.shape = shape
        table.layout = _layout(table, shape, event)


def _payload(prefix: bytes, message: bytes) -> bytes:
    """What is behind a prefix, without the wrapper's brace."""
    return message[len(prefix) : -1] if prefix else message


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


def _layout(table: _Table, shape: _Shape, event: Event) -> _Layout | None:
    try:
        schema = _schema(table.prefix)
        source = _struct(
            {
                name: Literal[constant]
                if constant is not None
                else type(None)
                if name in _CONSTANTS
                else int | None
                if name == "ts_ms"
                else _SCALAR
                for name, constant in shape.source
            }
        )
        types: dict[str, Any] = dict.fromkeys(shape.envelope, _SCALAR)
        types |= {"op": Literal["r", "c", "u", "d"], "source": source, "ts_ms": int | None}
        if "transaction" in types:
            types["transaction"] = None
        before = None if shape.before is None else _row(shape.before, schema.before)
        after = None if shape.after is None else _row(shape.after, schema.after)
        for name, row in (("before", before), ("after", after)):
            types[name] = None if row is None else row.struct | None
        change = _struct(types)
        key = None if shape.key is None else _row(shape.key, _schema(table.key_prefix))
        names = [name for name, _ in shape.source]
        own = ["event_key"] * (key is not None) + [
            name for name in ("connector", "snapshot") if name in names
        ]
        metadata = _struct(
            dict.fromkeys(
                [
                    *own,
                    *(name for name in shape.envelope if name not in (*_IMAGES, "op")),
                    *["schema_name"] * (schema.name is not None),
                ],
                Any,
            )
        )
    except (ValueError, DecodeError):
        # A name that JSON has to escape; a prefix that is no schema block, or not a row's.
        return None
    return _Layout(
        shape,
        table.key_prefix,
        table.prefix,
        None if key is None else msgspec.json.Decoder(key.struct, float_hook=Raw),
        msgspec.json.Decoder(change, float_hook=Raw),
        [] if key is None else key.converters,
        [] if before is None else before.converters,
        [] if after is None else after.converters,
        metadata,
        schema.name,
        event.source_database,
        event.source_schema,
        event.source_table,
    )


def _schema(prefix: bytes) -> Schema:
    """The compiled schema block of a prefix. Raises ``DecodeError`` if it has something else."""
    if not prefix:
        return NOTHING
    # On its own a block may have a byte order mark, and be a level deeper.
    json_text.parse(prefix + b"null}")
    return read_schema(prefix.removeprefix(_SCHEMA).removesuffix(_PAYLOAD), False)


def _row(columns: tuple[str, ...], schema: Schema | None) -> _Row:
    """A row of those columns. Raises ``ValueError`` if it is declared as something else."""
    if schema is None:
        schema = NOTHING
    if not schema.is_row:
        raise ValueError
    types: dict[str, Any] = {}
    converters = []
    for place, name in enumerate(columns):
        declared = schema.fields.get(name, NOTHING)
        # Not Raw: that would be encoded as it was sent, whatever it is.
        types[name] = Any if declared.kept is None else declared.kept
        if declared.kept is None:
            converters.append((f"f{place}", declared))
    return _Row(_struct(types), converters)


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
    messages = _payloads(layout.prefix, values)
    message_keys = _payloads(layout.key_prefix, keys) if layout.key else _no_keys(keys)
    if messages is None or message_keys is None:
        return None
    text, key_text = b"\n".join(messages), b"\n".join(message_keys)
    for prefix, lines in ((layout.prefix, text), (layout.key_prefix, key_text)):
        if len(prefix) + len(lines) >= limits.MAX_PAYLOAD_BYTES:
            return None
    place = {name: f"f{index}" for index, name in enumerate(shape.envelope)}
    try:
        changes = layout.change.decode_lines(text)
        if len(changes) != rows or _encode_lines(changes) != text + b"\n":
            return None
        befores = list(map(attrgetter(place["before"]), changes))
        afters = list(map(attrgetter(place["after"]), changes))
        before, after = _images(befores), _images(afters)
        if _is_unusual(before, befores) or _is_unusual(after, afters):
            return None
        record_keys, record_key = [], None
        if layout.key:
            record_keys = layout.key.decode_lines(key_text)
            record_key = _encode_lines(record_keys)
            # The names may come in another order than the record key's. As many bytes are the same
            # ones if each line is a key: no line break is inside of one, nor are two in a line.
            if (
                len(record_key) != len(key_text) + 1
                or key_text.count(b"}\n{") != rows - 1
                or _may_be_deep(record_key, rows)
            ):
                return None
    except _FAILURES:
        return None
    if not (
        _convert(layout.key_converters, record_keys)
        and _convert(layout.before_converters, befores)
        and _convert(layout.after_converters, afters)
    ):
        return None
    if layout.before_converters:
        before = _images(befores)
    if layout.after_converters:
        after = _images(afters)
    if layout.key_converters:
        record_key = _encode_lines(record_keys)
    # Names in an object would have to be put in order.
    if record_key is not None and record_key.count(b"{") != rows:
        return None
    operations = list(map(attrgetter(place["op"]), changes))
    if None in afters:
        for operation, old, new in zip(operations, befores, afters, strict=True):
            if new is None and (operation != "d" or (old is None and layout.key is None)):
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
    if layout.schema_name is not None:
        parts.append(repeat(layout.schema_name))
    return EventColumns(
        operation=list(map(_OPERATIONS.__getitem__, operations)),
        source_database=layout.source_database,
        source_schema=layout.source_schema,
        source_table=layout.source_table,
        record_key=record_key,
        before=before,
        after=after,
        occurred_at=times,
        expires_at=None,
        metadata=_encode_lines(list(map(layout.metadata, *parts))),
    )


def _payloads(prefix: bytes, messages: Sequence[bytes | None]) -> list[bytes] | None:
    """The messages' payloads; None if any is absent or has another prefix."""
    present = [message for message in messages if message is not None]
    if len(present) < len(messages):
        return None
    if not prefix:
        return present
    for message in present:
        if not message.startswith(prefix) or not message.endswith(b"}"):
            return None
    return [_payload(prefix, message) for message in present]


def _no_keys(keys: Sequence[bytes | None]) -> list[bytes] | None:
    """As ``_payloads`` for messages without keys: None if any has one."""
    return [] if all(key is None for key in keys) else None


def _convert(converters: _Converters, rows: list[Any]) -> bool:
    """Convert the rows' values in place. False if a value is not plain."""
    if converters and None in rows:
        rows = [row for row in rows if row is not None]
    for attribute, declared in converters:
        converted = declared.convert_column(list(map(attrgetter(attribute), rows)))
        if converted is None:
            return False
        for row, value in zip(rows, converted, strict=True):
            setattr(row, attribute, value)
    return True


def _known_times(times: list[Any]) -> Sequence[int | None]:
    """None for zero, and for what no timestamp can hold."""
    if None not in times and 0 < min(times) <= max(times) <= MAX_TIME_MS:
        return times
    return [time if time and MIN_TIME_MS <= time <= MAX_TIME_MS else None for time in times]


def _images(rows: list[Any]) -> bytes | None:
    """The images as JSON, a line for each; None if there is none."""
    return _encode_lines(rows) if rows.count(None) < len(rows) else None


def _is_unusual(images: bytes | None, rows: list[Any]) -> bool:
    """Whether images as JSON may have something that ``envelope`` has to look at."""
    if images is None:
        return False
    return (
        _may_be_deep(images, len(rows) - rows.count(None))
        or max(map(images.find, UNAVAILABLE_MARKS)) >= 0
        or (b"[" in images and max(map(images.find, UNAVAILABLE_ARRAY_MARKS)) >= 0)
    )


def _may_be_deep(lines: bytes, objects: int) -> bool:
    """Whether one of so many objects, a line each, may be nested too deep."""
    nested = lines.count(b"{") - objects
    # As a rule there is no array, which is told in no time.
    if b"[" in lines:
        nested += lines.count(b"[")
    return nested >= _PLAIN_BRACKETS and any(
        line.count(b"{") + line.count(b"[") > _PLAIN_BRACKETS for line in lines.split(b"\n")
    )
