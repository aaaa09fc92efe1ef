"""The short way for the Debezium family: messages that are alike, decoded together.

Idea: a topic's messages have the same fields in the envelope, the same source, the same columns.
What they share, a layout, is learned from a few of them; decoders made for it take many messages
apart in one call, in C, and encoders write their events' columns in one call too.

Precondition: a message has no names but its layout's, in its order (each may be absent), with
values of its types. Nothing is lost: all values are decoded, and encoded again, they must give the
bytes that were sent. So there is no name that comes twice, no white space, and no value that
``envelope`` would write in another way. What is looked for beside that are nesting that may be too
deep, placeholders of unavailable values, and values that don't fit their declared type.

Fallback: a message that isn't like that is decoded by ``envelope``, alone; its neighbours are not.
Both ways give the same event. Where the short way doesn't pay, it isn't gone (``core.short_way``).

A schema block is the same bytes in all messages of a table, and so is all else that is in front of
the payload, a message's prefix:

    {"schema":{"type":"struct","fields":[...]},"payload":{"before":null,"after":{...},...}}
    |---------------------- prefix ----------------------|----------- payload ------------|

The images' declared types become types that their decoder checks; columns whose values have to be
converted are so one after the other, by the converters that ``envelope`` uses.
"""

import operator
from collections.abc import Sequence
from itertools import compress, repeat
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType

from python_udfs.core import limits
from python_udfs.core.events import (
    DELETE,
    INSERT,
    MAX_TIME_MS,
    MIN_TIME_MS,
    SNAPSHOT,
    UPDATE,
    Decode,
    Decoded,
    EventColumns,
)
from python_udfs.core.short_way import Learning, Pace, Recent
from python_udfs.debezium.envelope import location
from python_udfs.debezium.types import (
    COMPILED_FACTOR,
    NOTHING,
    UNAVAILABLE,
    UNAVAILABLE_MARKS,
    Prefixes,
    Schema,
    is_unavailable,
    schema_of,
)

_OPERATIONS: Final = {"r": SNAPSHOT, "c": INSERT, "u": UPDATE, "d": DELETE}
# What is sent as an op may be an object, which no dict can be asked for.
_OPS: Final = tuple(_OPERATIONS)
_IMAGES: Final = ("before", "after")
# Fields of a source block that say which table it is.
_PLACE: Final = ("connector", "db", "schema", "namespace", "keyspace", "table")
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

# Of so few messages one by one is as fast.
_FEWEST: Final = 8
# How many messages a layout is learned from at a time, and how many of them are tried first where
# not all are plain.
_LESSON: Final = 16
# Of what is remembered. The decoders of a layout take some 20 KB, those of many columns 100 KB.
_MAX_TABLES: Final = 512
_MAX_TABLES_BYTES: Final = 32 * 1024 * 1024
_TABLE_BYTES: Final = 64 * 1024
_MAX_LAYOUTS: Final = 4
_MAX_NAMES: Final = 2000
# A message of that size is within its budget whatever its columns are converted to, see
# ``types.Schema.convert_column``.
_MAX_BYTES: Final = 128 * 1024
# A shorter text can't be too deep: each level takes two bytes, and two more are the wrapper's.
_FLAT_BYTES: Final = 2 * limits.MAX_DEPTH - 2

Messages = Sequence[bytes | None]


class _Shape(NamedTuple):
    """The names of a message's parts, in their order, and what its source says of the table."""

    key: tuple[str, ...] | None
    place: tuple[tuple[str, str | None], ...]
    """Fields of the source, each with its value."""
    envelope: tuple[str, ...]
    source: tuple[str, ...]
    transaction: tuple[str, ...]
    """Empty if no message has had one yet, as images."""
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def names(self) -> int:
        return sum(map(len, self[2:]))


_Converters = list[tuple[str, Schema]]
"""Attributes of a row's Struct whose values are converted, and what converts them."""


class _Row(NamedTuple):
    """A row of columns as an image or a key."""

    struct: type[msgspec.Struct]
    converters: _Converters


class _Layout:
    """The decoders of a shape, and what its messages' events have in common."""

    __slots__ = (
        "change",
        "key",
        "key_decoder",
        "metadata",
        "of_envelope",
        "of_source",
        "prefixes",
        "rows",
        "schema_name",
        "shape",
        "where",
    )

    def __init__(self, table: "_Table", shape: _Shape) -> None:
        """Raises ``ValueError`` if messages of that shape can't be plain."""
        key_schema = _schema(table.key_prefix, table.text_values)
        schema = _schema(table.prefix, table.text_values)
        place = dict(shape.place)
        source = _struct(
            {
                name: type(None)
                if name in place and place[name] is None
                else Literal[place[name]]
                if name in place
                else (int | None if name == "ts_ms" else _SCALAR) | UnsetType
                for name in shape.source
            }
        )
        self.rows = {
            "before": _row(shape.before, schema.before, True),
            "after": _row(shape.after, schema.after, True),
        }
        types: dict[str, Any] = dict.fromkeys(shape.envelope, _SCALAR | UnsetType)
        types |= {name: row.struct | None | UnsetType for name, row in self.rows.items()}
        types |= {"op": Literal["r", "c", "u", "d"], "source": source}
        transaction = _struct(dict.fromkeys(shape.transaction, _SCALAR | UnsetType))
        for name, known in (("transaction", transaction | None), ("ts_ms", int | None)):
            if name in types:
                types[name] = known | UnsetType
        self.shape = shape
        self.prefixes = table.key_prefix, table.prefix
        self.key = None if shape.key is None else _row(shape.key, key_schema, False)
        self.key_decoder = msgspec.json.Decoder(
            Any if self.key is None else self.key.struct, float_hook=Raw
        )
        self.change = msgspec.json.Decoder(
            _struct({name: types[name] for name in shape.envelope}), float_hook=Raw
        )
        self.of_envelope = {name: f"f{index}" for index, name in enumerate(shape.envelope)}
        self.of_source = {name: f"f{index}" for index, name in enumerate(shape.source)}
        self.schema_name = schema.name
        self.where = location("$", place)
        named = [
            *["event_key"] * (shape.key is not None),
            *(name for name in ("connector", "snapshot") if name in shape.source),
            *(name for name in shape.envelope if name not in (*_IMAGES, "op")),
            *["schema_name"] * (schema.name is not None),
        ]
        self.metadata = _struct(dict.fromkeys(named, Any), False)


def _schema(prefix: bytes, text_values: bool) -> Schema:
    """The compiled schema block of a prefix, which may be empty. Raises ``ValueError``."""
    schema = schema_of(prefix, text_values) if prefix else NOTHING
    if schema is None:
        raise ValueError
    return schema


class _Table:
    """What is known of a table's messages."""

    __slots__ = ("key_prefix", "layouts", "lessons", "pace", "prefix", "text_values")

    def __init__(self, key_prefix: bytes, prefix: bytes, text_values: bool) -> None:
        self.key_prefix = key_prefix
        self.prefix = prefix
        self.text_values = text_values
        self.layouts: list[_Layout] = []
        """That used last in front."""
        self.pace = Pace()
        self.lessons = Pace()
        """Rests when what was learned decodes few messages, or nothing could be."""


class ShortWay:
    """Decodes batches of messages, and learns from them. One for each format."""

    def __init__(
        self, decode: Decode, *, text_values: bool = False, learning: Learning | None = None
    ) -> None:
        """``decode`` is the format's careful way, ``text_values`` as of ``envelope.decode``."""
        self._decode = decode
        self._text_values = text_values
        self._key_prefixes = Prefixes()
        self._prefixes = Prefixes()
        self.learning = learning or Learning()
        self.tables: Recent[tuple[bytes, ...], _Table] = Recent(_MAX_TABLES, _MAX_TABLES_BYTES)
        self._last: _Table | None = None
        self._paces: Recent[tuple[bytes, bytes], Pace] = Recent(_MAX_TABLES, _MAX_TABLES_BYTES)
        self._pace = Pace()
        """Of batches that begin with such prefixes as this one."""
        self._careful_seconds = 0.0

    def decode_batch(self, keys: Messages, values: Messages) -> Decoded:
        """The events of each message."""
        decoded = Decoded()
        clock = self.learning.clock
        start, others = clock(), self._careful_seconds + self.learning.spent
        rest: Sequence[int] = range(len(values))
        last = self._last
        if last is not None and len(values) >= _FEWEST and not last.pace.rests(len(values)):
            # A topic has one table as a rule.
            rest = self._take(decoded, last, last.layouts[:], rest, keys, values)
            if not rest:
                return decoded
        self._pace = self._pace_of(keys[rest[0]], values[rest[0]]) if rest else self._pace
        if self._pace.rests(len(rest)):
            self._carefully(decoded, None, rest, keys, values)
            return decoded
        tables: dict[tuple[bytes, ...], list[int]] = {}
        for place in rest:
            names = self._names(keys[place], values[place])
            tables.setdefault(names, []).append(place)
        for names, places in tables.items():
            table = self._table(names) if len(places) >= _FEWEST else None
            if table is None or table.pace.rests(len(places)):
                self._carefully(decoded, table, places, keys, values)
            else:
                # If it has decoded none, only a few were tried.
                was_tried = table is last and len(rest) < len(values)
                self._decode_table(decoded, table, was_tried, places, keys, values)
        # Looking which tables there are takes its time too.
        seconds = clock() - start - (self._careful_seconds + self.learning.spent - others)
        self._pace.went_short(len(values), len(values) - len(decoded.events), seconds)
        return decoded

    def _pace_of(self, key: bytes | None, value: bytes | None) -> Pace:
        prefixes = self._key_prefixes.of(key or b""), self._prefixes.of(value or b"")
        pace = self._paces.get(prefixes)
        if pace is None:
            pace = Pace()
            pace.careful = self._pace.careful
            self._paces.add(prefixes, pace, sum(map(len, prefixes)))
        return pace

    def _names(self, key: bytes | None, value: bytes | None) -> tuple[bytes, ...]:
        """Both prefixes, and texts that tell a table's messages from another's, mostly."""
        if value is None or len(value) > _MAX_BYTES:
            return ()
        prefix = self._prefixes.of(value)
        start = len(prefix)
        return (
            b"" if key is None else self._key_prefixes.of(key),
            prefix,
            _text_behind(b'"db":"', value, start),
            _text_behind(b'"schema":"', value, start),
            _text_behind(b'"table":"', value, start),
        )

    def _table(self, names: tuple[bytes, ...]) -> _Table | None:
        if not names:
            return None
        table = self.tables.get(names)
        if table is None:
            table = _Table(names[0], names[1], self._text_values)
            size = _TABLE_BYTES + COMPILED_FACTOR * sum(map(len, names))
            self.tables.add(names, table, size)
        return table

    def _decode_table(
        self,
        decoded: Decoded,
        table: _Table,
        was_tried: bool,
        places: list[int],
        keys: Messages,
        values: Messages,
    ) -> None:
        """Add the events of a table's messages, which are at those places."""
        rest: Sequence[int] = places
        if not was_tried:
            rest = self._take(decoded, table, table.layouts[:], places, keys, values)
        if (
            len(rest) >= _FEWEST
            and self.learning.is_affordable
            and not table.lessons.rests(len(rest))
        ):
            start, tried = self.learning.clock(), len(rest)
            learned = _learn(table, [(keys[place], values[place]) for place in rest[:_LESSON]])
            seconds = self.learning.clock() - start
            self.learning.learned(seconds)
            rest = self._take(decoded, table, learned, rest, keys, values)
            # As if it had to pay by these messages, if for a quarter of them at the most.
            table.lessons.went_short(tried, 4 * (tried - len(rest)), tried, careful=1.0)
        self._carefully(decoded, table, rest, keys, values)

    def _take(
        self,
        decoded: Decoded,
        table: _Table,
        layouts: list[_Layout],
        places: Sequence[int],
        keys: Messages,
        values: Messages,
    ) -> Sequence[int]:
        """Add the events of the messages that have one of those layouts; the places of others."""
        start, tried = self.learning.clock(), len(places)
        rest: Sequence[int] = places
        for number, layout in enumerate(layouts):
            if not rest:
                break
            if number and len(rest) > 2 * _LESSON:
                # Where few of the first have it, the others are not tried.
                first = _rows(layout, rest[:_LESSON], keys, values)
                if first is None or len(first.places) < _LESSON // 4:
                    continue
            taken = _take(decoded, layout, rest, keys, values)
            if taken:
                table.layouts.remove(layout)
                table.layouts.insert(0, layout)
                self._last = table
                gone = set(taken)
                all_gone = len(gone) == len(rest)
                rest = () if all_gone else [place for place in rest if place not in gone]
        if layouts:
            seconds = self.learning.clock() - start
            self.learning.decoded(seconds)
            table.pace.went_short(tried, tried - len(rest), seconds, self._pace.careful)
        return rest

    def _carefully(
        self,
        decoded: Decoded,
        table: _Table | None,
        places: Sequence[int],
        keys: Messages,
        values: Messages,
    ) -> None:
        if not places:
            return
        start = self.learning.clock()
        decode = self._decode
        for place in places:
            decoded.events[place] = decode(keys[place], values[place])
        seconds = self.learning.clock() - start
        self.learning.decoded(seconds)
        self._careful_seconds += seconds
        self._pace.went_carefully(len(places), seconds)
        if table is not None:
            table.pace.went_carefully(len(places), seconds)


def _text_behind(mark: bytes, value: bytes, start: int) -> bytes:
    start = value.find(mark, start) + len(mark)
    return value[start : value.find(b'"', start)] if start >= len(mark) else b""


# --- Layouts --------------------------------------------------------------------------------------


def _learn(table: _Table, messages: list[tuple[bytes | None, bytes | None]]) -> list[_Layout]:
    """Make layouts of messages that none of the table's fits: new ones, or known ones with more
    names.
    """
    shapes: list[tuple[_Shape, _Layout | None]] = [
        (layout.shape, layout) for layout in table.layouts
    ]
    for key, value in messages:
        shape = None
        if value is not None:
            key_payload = None if key is None else _payload(table.key_prefix, key)
            shape = _shape(key_payload, _payload(table.prefix, value))
        if shape is None:
            continue
        for number, (known, layout) in enumerate(shapes):
            merged = _merged(known, shape)
            if merged is not None:
                shapes[number] = merged, layout
                break
        else:
            shapes.append((shape, None))
    kept, learned = [], []
    for shape, layout in shapes:
        if layout is not None and layout.shape == shape:
            kept.append(layout)
            continue
        try:
            learned.append(_Layout(table, shape))
        except ValueError:
            if layout is not None:
                kept.append(layout)
    table.layouts = [*learned, *kept][:_MAX_LAYOUTS]
    return learned[:_MAX_LAYOUTS]


def _shape(key: bytes | None, value: bytes) -> _Shape | None:
    try:
        fields = _load(value)
        key_fields = None if key is None else _load(key)
    except _FAILURES:
        return None
    source, transaction = fields.get("source"), fields.get("transaction")
    before, after = fields.get("before"), fields.get("after")
    if (
        type(source) is not dict
        or not _TAKEN.isdisjoint(fields)
        or fields.get("op") not in _OPS
        or not all(part is None or type(part) is dict for part in (before, after, transaction))
        or (key_fields is not None and (not key_fields or not _TAKEN.isdisjoint(key_fields)))
        or type(source.get("table")) is not str
        or any(source.get(name) is not None and type(source[name]) is not str for name in _PLACE)
    ):
        return None
    return _Shape(
        None if key_fields is None else tuple(sorted(key_fields)),
        tuple((name, sent) for name, sent in source.items() if name in _PLACE),
        tuple(fields),
        tuple(source),
        tuple(transaction or ()),
        tuple(before or ()),
        tuple(after or ()),
    )


def _merged(known: _Shape, seen: _Shape) -> _Shape | None:
    """The shape of messages of both; None if there is none."""
    if known[:2] != seen[:2]:
        return None
    parts = []
    for names, more in zip(known[2:], seen[2:], strict=True):
        merged = _merged_names(names, more)
        if merged is None:
            return None
        parts.append(merged)
    shape = _Shape(known.key, known.place, *parts)
    return shape if shape.names <= _MAX_NAMES else None


def _merged_names(known: tuple[str, ...], seen: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names of which both are parts, in their order; None if the orders differ."""
    if known == seen or not seen:
        return known
    if not known:
        return seen
    merged = list(known)
    position = 0
    there = set(known)
    for name in seen:
        if name not in there:
            merged.insert(position, name)
        else:
            try:
                position = merged.index(name, position)
            except ValueError:
                return None
        position += 1
    return tuple(merged)


def _row(columns: tuple[str, ...], schema: Schema | None, may_lack: bool) -> _Row:
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
        if may_lack and types[name] is not Any:
            types[name] |= UnsetType
        if declared.kept is None:
            converters.append((f"f{place}", declared))
    return _Row(_struct(types, may_lack), converters)


def _struct(types: dict[str, Any], may_lack: bool = True) -> type[msgspec.Struct]:
    """A Struct of fields with those names; as attributes they are ``f0``, ``f1``, ...

    ``may_lack``: fields whose type allows ``UNSET`` may be absent, and are not written then.
    Raises ``ValueError`` for a name that JSON has to escape.
    """
    fields: list[Any] = []
    for place, field_type in enumerate(types.values()):
        optional = may_lack and (field_type is Any or UnsetType in get_args(field_type))
        fields.append((f"f{place}", field_type, *[UNSET] * optional))
    rename = {f"f{place}": name for place, name in enumerate(types)}
    # By keyword only, or fields that may be absent could not be in front of others.
    return msgspec.defstruct("Fields", fields, rename=rename, gc=False, kw_only=may_lack)


# --- Messages -------------------------------------------------------------------------------------


class _Rows:
    """Messages of a layout that are plain as far as is known, each with a place in all lists."""

    __slots__ = ("changes", "keys", "places", "texts")

    def __init__(
        self, places: Sequence[int], texts: list[bytes], changes: list[Any], keys: list[Any]
    ) -> None:
        self.places = places
        """Among all messages."""
        self.texts = texts
        self.changes = changes
        self.keys = keys
        """Empty if they have none."""

    def keep(self, flags: list[bool]) -> None:
        """Drop the others."""
        self.places = list(compress(self.places, flags))
        self.texts = list(compress(self.texts, flags))
        self.changes = list(compress(self.changes, flags))
        self.keys = list(compress(self.keys, flags))

    def parts(self, attribute: str | None) -> list[Any]:
        """A field of each change's, None where it is absent."""
        if attribute is None:
            return [None] * len(self.changes)
        values = list(map(attrgetter(attribute), self.changes))
        return (
            [None if value is UNSET else value for value in values] if UNSET in values else values
        )


def _take(
    decoded: Decoded, layout: _Layout, places: Sequence[int], keys: Messages, values: Messages
) -> Sequence[int]:
    """Add the events of the messages that have the layout; their places."""
    rows = _rows(layout, places, keys, values)
    columns = None if rows is None else _columns(layout, rows)
    if rows is None or columns is None:
        return ()
    decoded.columns.append((rows.places, columns))
    return rows.places


def _rows(layout: _Layout, places: Sequence[int], keys: Messages, values: Messages) -> _Rows | None:
    """The messages at those places that have the layout's names, in compact text."""
    key_prefix, prefix = layout.prefixes
    texts: list[Any] = _payloads(prefix, [values[place] for place in places])
    key_texts: list[Any] = []
    if layout.key is not None:
        key_texts = _payloads(key_prefix, [keys[place] for place in places])
    elif keys.count(None) < len(keys):
        # They are looked for as texts that are there, if of no use.
        key_texts = [b"" if keys[place] is None else None for place in places]
    if None in texts or None in key_texts:
        fitting = [None not in pair for pair in zip(texts, key_texts or texts, strict=True)]
        places = list(compress(places, fitting))
        texts = list(compress(texts, fitting))
        key_texts = list(compress(key_texts, fitting))
    read = _read(layout.change, texts)
    if read is None:
        return None
    changes, lines = read
    fitting = list(map(operator.eq, texts, lines))
    if layout.key is not None and True in fitting:
        read = _read(layout.key_decoder, key_texts)
        if read is None:
            return None
        # The names may come in another order than the record key's. All that is left out makes a
        # text shorter, and nothing makes it longer: as many bytes are the same ones.
        row_keys, key_lines = read
        fitting = [
            fits
            and key_line is not None
            and len(key_line) == len(key_text)
            and not (len(key_line) > _FLAT_BYTES and _may_be_deep(key_line))
            for fits, key_line, key_text in zip(fitting, key_lines, key_texts, strict=False)
        ]
    else:
        row_keys = []
    rows = _Rows(places, texts, changes, row_keys)
    if False in fitting:
        rows.keep(fitting)
    return rows if rows.places else None


def _payloads(prefix: bytes, messages: list[bytes | None]) -> list[bytes | None]:
    """The messages' payloads; None for one that is absent, too large or has another prefix."""
    if None in messages or max(map(len, messages)) > _MAX_BYTES:  # type: ignore[arg-type]
        messages = [
            None if message is None or len(message) > _MAX_BYTES else message
            for message in messages
        ]
    if not prefix:
        return messages
    start = len(prefix)
    return [
        message[start:-1]
        if message is not None and message.startswith(prefix) and message.endswith(b"}")
        else None
        for message in messages
    ]


def _payload(prefix: bytes, message: bytes) -> bytes:
    """What is behind a prefix, without the wrapper's brace."""
    return message[len(prefix) : -1] if prefix else message


def _read(
    decoder: msgspec.json.Decoder[Any], texts: Sequence[Any]
) -> tuple[list[Any], Sequence[bytes | None]] | None:
    """What a decoder makes of each text, and that as text again, both None where the decoder fails;
    None if it does so for most of the first.
    """
    lines = b"\n".join(texts)
    # Each text must be one line: then each line that is read is one text.
    if lines.count(b"\n") == len(texts) - 1:
        try:
            rows = decoder.decode_lines(lines)
        except _FAILURES:
            rows = []
        if len(rows) == len(texts):
            again = _encode_lines(rows)
            # Most often all are the same.
            return rows, texts if again == lines + b"\n" else again.split(b"\n")
    rows = []
    for number, text in enumerate(texts):
        try:
            rows.append(decoder.decode(text))
        except _FAILURES:
            rows.append(None)
        if number == _LESSON and rows.count(None) > _LESSON * 3 // 4:
            return None
    lines_again = _encode_lines(rows).split(b"\n")
    return rows, [
        None if row is None else line for row, line in zip(rows, lines_again, strict=False)
    ]


def _columns(layout: _Layout, rows: _Rows) -> EventColumns | None:
    """The events of messages that have the layout. Those that turn out not to be plain are dropped
    from ``rows``; None if no other is left.
    """
    of_envelope, of_source = layout.of_envelope, layout.of_source
    unfit = _unusual(layout, rows)
    for name, row in layout.rows.items():
        _convert(row.converters, rows.parts(of_envelope.get(name)), unfit)
    record_key = None
    if layout.key is not None:
        _convert(layout.key.converters, rows.keys, unfit)
        record_key = _encode_lines(rows.keys)
        # Names in an object would have to be put in order.
        if record_key.count(b"{") > len(rows.keys):
            key_lines = enumerate(record_key.splitlines())
            unfit |= {place for place, line in key_lines if line.count(b"{") > 1}
    if unfit:
        rows.keep([place not in unfit for place in range(len(rows.places))])
        if not rows.places:
            return None
        if layout.key is not None:
            record_key = _encode_lines(rows.keys)
    changes = rows.changes
    sources = list(map(attrgetter(of_envelope["source"]), changes))
    times: Sequence[int | None] = [None] * len(changes)
    if "ts_ms" in of_source:
        times = _known_times(list(map(attrgetter(of_source["ts_ms"]), sources)))
    parts: list[Any] = [] if layout.key is None else [rows.keys]
    parts += [
        map(attrgetter(of_source[name]), sources)
        for name in ("connector", "snapshot")
        if name in of_source
    ]
    parts += [
        map(attrgetter(attribute), changes)
        for name, attribute in of_envelope.items()
        if name not in _IMAGES and name != "op"
    ]
    if layout.schema_name is not None:
        parts.append(repeat(layout.schema_name))
    operations = map(attrgetter(of_envelope["op"]), changes)
    database, schema, table, _ = layout.where
    return EventColumns(
        operation=list(map(_OPERATIONS.__getitem__, operations)),
        source_database=database,
        source_schema=schema,
        source_table=table,
        record_key=record_key,
        before=_images(rows.parts(of_envelope.get("before"))),
        after=_images(rows.parts(of_envelope.get("after"))),
        occurred_at=times,
        expires_at=None,
        metadata=_encode_lines(list(map(layout.metadata, *parts))),
    )


def _unusual(layout: _Layout, rows: _Rows) -> set[int]:
    """The places of rows that ``envelope`` has to look at. In the others' images placeholders
    become plain ones, and images without columns none.
    """
    texts = b"\n".join(rows.texts)
    if any(mark in texts for mark in UNAVAILABLE_MARKS):
        for text, change in zip(rows.texts, rows.changes, strict=True):
            if any(mark in text for mark in UNAVAILABLE_MARKS):
                _plain_images(layout, change)
    for name, row in layout.rows.items():
        attribute = layout.of_envelope.get(name)
        # One that lacks all columns.
        nothing = row.struct()
        if attribute is not None and nothing in rows.parts(attribute):
            for change in rows.changes:
                if getattr(change, attribute) == nothing:
                    setattr(change, attribute, None)
    unfit: set[int] = set()
    # Each has those of the envelope, the source and an image: most often there are few others.
    if (
        max(map(len, rows.texts)) > _FLAT_BYTES
        and texts.count(b"{") + texts.count(b"[") - 3 * len(rows.texts) >= limits.MAX_DEPTH - 3
    ):
        unfit = {
            place
            for place, text in enumerate(rows.texts)
            if len(text) > _FLAT_BYTES and _may_be_deep(text)
        }
    afters = rows.parts(layout.of_envelope.get("after"))
    if None in afters:
        befores = rows.parts(layout.of_envelope.get("before"))
        op = layout.of_envelope["op"]
        unfit |= {
            place
            for place, after in enumerate(afters)
            if after is None
            and (
                getattr(rows.changes[place], op) != "d"
                or (befores[place] is None and layout.key is None)
            )
        }
    return unfit


def _plain_images(layout: _Layout, change: msgspec.Struct) -> None:
    for name, row in layout.rows.items():
        attribute = layout.of_envelope.get(name)
        image = None if attribute is None else getattr(change, attribute)
        if attribute is None or type(image) is not row.struct:
            continue
        for column in image.__struct_fields__:
            if is_unavailable(getattr(image, column)):
                setattr(image, column, UNAVAILABLE)


def _may_be_deep(text: bytes) -> bool:
    # With so few brackets it can't be.
    return text.count(b"{") + text.count(b"[") >= limits.MAX_DEPTH


def _convert(converters: _Converters, rows: list[Any], unfit: set[int]) -> None:
    """Convert the rows' values in place; add the places of those that don't fit."""
    if not converters:
        return
    places: Sequence[int] = range(len(rows))
    if None in rows:
        places = [place for place in places if rows[place] is not None]
        rows = [rows[place] for place in places]
    for attribute, declared in converters:
        values = list(map(attrgetter(attribute), rows))
        some, there = rows, places
        if UNSET in values:
            known = [value is not UNSET for value in values]
            some, there, values = (list(compress(each, known)) for each in (rows, places, values))
        misfits: set[int] = set()
        for row, value in zip(some, declared.convert_column(values, misfits), strict=True):
            setattr(row, attribute, value)
        unfit.update(map(there.__getitem__, misfits))


def _known_times(times: list[Any]) -> Sequence[int | None]:
    """None for zero, for what no timestamp can hold, and for what is absent."""
    if None not in times and UNSET not in times and 0 < min(times) <= max(times) <= MAX_TIME_MS:
        return times
    return [
        time if time and time is not UNSET and MIN_TIME_MS <= time <= MAX_TIME_MS else None
        for time in times
    ]


def _images(rows: list[Any]) -> bytes | None:
    """The images as JSON, a line for each; None if there is none."""
    return _encode_lines(rows) if rows.count(None) < len(rows) else None
