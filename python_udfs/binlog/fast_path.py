"""The fast path for Maxwell's and Canal's messages: changes of one table are decoded together.

``core.fast_path`` explains fast paths. A layout has the names of a message and of its row, in
their order, a few of which must be there, and the names of its Kafka key. A message and key that
are decoded and encoded again must give the bytes that were sent. So there is no duplicate name,
no white space, and no value that the careful path would write differently. The modules of the two
formats define their differences.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import compress
from operator import attrgetter, eq
from typing import Any, ClassVar, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from python_udfs.core.events import DELETE, KEY_UPDATE_NOTES, UPDATE, EventColumns, Lines
from python_udfs.core.fast_path import MAX_BYTES, Format, Messages, Names
from python_udfs.core.row_images import StructImages
from python_udfs.text.json_lines import FAILURES, FLAT_BYTES, may_be_deep, read_lines
from python_udfs.text.numbers import plain_number
from python_udfs.text.structs import merged_names, struct_of

_load = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode
_load_any = msgspec.json.Decoder(Any, float_hook=Raw).decode
_encode_lines = msgspec.json.Encoder().encode_lines

_MAX_NAMES_BYTES: Final = 1024
_MAX_NAMES: Final = 2000
_DATABASE: Final = b'"database":"'
_TABLE: Final = b'"table":"'
# Metadata's own names, beside the message's fields.
_TAKEN: Final = KEY_UPDATE_NOTES | {"event_key", "event_key_encoding"}
_IMAGES: Final = ("data", "old")
# Fields with a column of their own.
_OF_EVENT: Final = frozenset({"database", "table", "type", *_IMAGES})

_type_of: Callable[[Any], type] = type
# The types of a key's values. Absent ones are missing.
_PLAIN: Final[frozenset[type]] = frozenset({str, int, bool, type(None), Raw})
_TEXT: Final[frozenset[type]] = frozenset({str})

# For types that are created at run time.
_literal: Any = Literal


class Shape(NamedTuple):
    """The common properties of a table's changes."""

    database: str | None
    table: str | None
    key: Any
    """The form of the Kafka key; None without one."""
    constants: tuple[tuple[str, bytes], ...]
    """Fields with the same text in all messages."""
    fields: tuple[str, ...]
    """The names of the message's fields, in their order."""
    columns: tuple[str, ...]
    """The names of the row's columns."""
    lacking: frozenset[str] = frozenset()
    """Columns that some rows lack."""


class RecordKey(NamedTuple):
    """The source of record keys."""

    columns: dict[str, str]
    """The row's names for the key's columns, in the order of names, and the parts of the Kafka
    key with their values; otherwise the same names again.
    """
    is_kafka_key: bool


Convert = Callable[[list[Any]], tuple[Sequence[Any], set[int]]]
"""Converts texts of one column. Returns them, and the places of those that don't fit."""


class Layout:
    """The decoders of a shape's messages."""

    __slots__ = (
        "constants",
        "converters",
        "key",
        "message",
        "metadata",
        "of_message",
        "of_row",
        "record_key",
        "record_key_struct",
        "shape",
        "told",
    )

    def __init__(
        self,
        shape: Shape,
        types: dict[str, Any],
        key_type: Any,
        record_key: RecordKey | None,
    ) -> None:
        """``types`` are those of the message's fields. Raises ``ValueError`` if messages of that
        shape can't be plain.
        """
        self.shape = shape
        self.constants = dict(shape.constants)
        self.converters: list[tuple[str, Convert]] = []
        """Attributes of a row whose values are converted, and their converters."""
        self.message = msgspec.json.Decoder(struct_of(types), float_hook=Raw)
        self.of_message = {name: f"f{place}" for place, name in enumerate(shape.fields)}
        self.of_row = {name: f"f{place}" for place, name in enumerate(shape.columns)}
        self.key = msgspec.json.Decoder(key_type, float_hook=Raw)
        self.record_key = record_key
        self.record_key_struct = struct_of(
            {} if record_key is None else dict.fromkeys(record_key.columns, Any), False
        )
        self.told = [name for name in shape.fields if name not in _OF_EVENT]
        of_key = ["event_key"] if shape.key is not None else []
        self.metadata = struct_of(dict.fromkeys([*self.told, *of_key], Any), False)


class Rows:
    """Messages of a layout that are plain as far as is known; lists have the same order."""

    __slots__ = ("images", "key_texts", "keys", "messages", "olds", "places")

    def __init__(
        self,
        places: Sequence[int],
        messages: list[Any],
        images: list[Any],
        olds: list[Any],
        keys: list[Any],
        key_texts: list[Any],
    ) -> None:
        self.places = places
        """Their places among all messages."""
        self.messages = messages
        self.images = images
        """The rows in them."""
        self.olds = olds
        """The former rows, if the messages have them; else None, or ``UNSET``."""
        self.keys = keys
        """The keys as decoded; empty without keys."""
        self.key_texts = key_texts

    def keep(self, flags: Sequence[bool]) -> None:
        """Drop messages whose flag is false."""
        self.places = list(compress(self.places, flags))
        self.messages = list(compress(self.messages, flags))
        self.images = list(compress(self.images, flags))
        self.olds = list(compress(self.olds, flags))
        self.keys = list(compress(self.keys, flags))
        self.key_texts = list(compress(self.key_texts, flags))

    def field(self, attribute: str | None) -> list[Any]:
        """A field of each message, ``UNSET`` where it is absent."""
        if attribute is None:
            return [UNSET] * len(self.messages)
        return list(map(attrgetter(attribute), self.messages))


class ChangeFormat(Format[Shape, Layout, Rows]):
    """Recognizes changes, and decodes them together."""

    operations: ClassVar[dict[str, str]]
    """The types of messages that are rows."""
    # struct_of lets fields of type Any be absent.
    required: Any = object
    optional: Any = Any
    """The types of a row's columns."""
    constant_names: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    """Fields without which a message is not a change, beside those that all formats need."""

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        if value is None or len(value) > MAX_BYTES:
            return ()
        names = tuple(_text_behind(mark, value) for mark in (_DATABASE, _TABLE))
        return names if all(len(name) < _MAX_NAMES_BYTES for name in names) else ()

    def shape(self, names: Names, key: bytes | None, value: bytes) -> Shape | None:
        try:
            message = _load(value)
            event_key = None if key is None else _load_any(key)
            database, table = message.get("database"), message.get("table")
            row = self.row_of(message["data"])
            constants = tuple(
                (name, msgspec.json.encode(message[name]))
                for name in message
                if name in self.constant_names
            )
            key_shape = None if key is None else self.key_shape(event_key)
        except (*FAILURES, LookupError):
            return None
        is_plain = (
            message.get("type") in tuple(self.operations)
            and all(name is None or (name and type(name) is str) for name in (database, table))
            and type(row) is dict
            and row
            and _TAKEN.isdisjoint(message)
            and self.needed <= message.keys()
            and (key is None or key_shape is not None)
            and len(message) + len(row) <= _MAX_NAMES
        )
        if not is_plain:
            return None
        return Shape(database, table, key_shape, constants, tuple(message), tuple(row))

    def merged(self, known: Shape, seen: Shape) -> Shape | None:
        if known[:4] != seen[:4]:
            return None
        fields = merged_names(known.fields, seen.fields)
        columns = merged_names(known.columns, seen.columns)
        if fields is None or columns is None or len(fields) + len(columns) > _MAX_NAMES:
            return None
        lacking = known.lacking | seen.lacking | ({*known.columns} ^ {*seen.columns})
        return known._replace(fields=fields, columns=columns, lacking=lacking)

    def layout(self, names: Names, shape: Shape) -> Layout:
        row = struct_of(
            {
                name: self.optional if name in shape.lacking else self.required
                for name in shape.columns
            }
        )
        old = struct_of(dict.fromkeys(shape.columns, self.optional))
        of_fields: dict[str, Any] = dict.fromkeys(shape.fields, Any)
        of_fields |= dict.fromkeys(self.constant_names & {*shape.fields}, Raw)
        of_fields |= {
            "database": _literal[shape.database],
            "table": _literal[shape.table],
            "type": _literal[tuple(self.operations)],
        }
        of_fields |= self.more_types(row, old)
        types = {name: of_fields[name] for name in shape.fields}
        return Layout(shape, types, self.key_type(shape), self.record_key(shape))

    def rows(
        self, layout: Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> Rows | None:
        has_key = layout.shape.key is not None
        places = [
            place
            for place in places
            if (keys[place] is not None) is has_key
            and (value := values[place]) is not None
            and len(value) <= MAX_BYTES
            and (len(value) <= FLAT_BYTES or not may_be_deep(value))
        ]
        texts: list[Any] = [values[place] for place in places]
        read = read_lines(layout.message, _encode_lines, texts) if texts else None
        if read is None:
            return None
        messages, lines = read
        flags = list(map(eq, texts, lines))
        if len(layout.shape.lacking) == len(layout.shape.columns):
            # A row needs at least one column.
            nothing = self.without_columns
            flags = [fits and nothing not in text for fits, text in zip(flags, texts, strict=True)]
        row_keys: list[Any] = []
        key_texts: list[Any] = []
        if has_key:
            key_texts = [keys[place] for place in places]
            read = read_lines(layout.key, _encode_lines, key_texts)
            if read is None:
                return None
            row_keys, key_lines = read
            flags = [
                fits and text == line and (len(text) <= FLAT_BYTES or not may_be_deep(text))
                for fits, text, line in zip(flags, key_texts, key_lines, strict=True)
            ]
        rows = Rows(places, messages, [None] * len(places), [], row_keys, key_texts)
        if False in flags:
            rows.keep(flags)
        return rows if rows.places else None

    def columns(self, layout: Layout, rows: Rows) -> EventColumns | None:
        of_message = layout.of_message
        rows.images = list(map(self.row_of, rows.field(of_message["data"])))
        rows.olds = list(map(self.row_of, rows.field(of_message.get("old"))))
        unfit = self.unfit(layout, rows)
        for attribute, convert in layout.converters:
            unfit |= _convert(rows.images, range(len(rows.images)), attribute, convert)
        self._read_olds(layout, rows, unfit)
        if unfit:
            rows.keep([place not in unfit for place in range(len(rows.places))])
        if not rows.places:
            return None
        images = rows.images
        operations = list(map(self.operations.__getitem__, rows.field(of_message["type"])))
        where = layout.record_key
        befores, afters = rows.olds, images
        if DELETE in operations:
            afters = [
                None if operation == DELETE else row
                for row, operation in zip(images, operations, strict=True)
            ]
            befores = [
                row if operation == DELETE else old
                for row, operation, old in zip(images, operations, rows.olds, strict=True)
            ]
        return EventColumns(
            operations,
            layout.shape.database,
            None,
            layout.shape.table,
            None if where is None else partial(self._record_keys, layout, rows, where),
            _lines(befores),
            _lines(afters),
            self.times(layout, rows),
            None,
            partial(_metadata, layout, rows),
            () if where is None else tuple(where.columns),
            StructImages(befores, afters, _encode_lines),
        )

    def _read_olds(self, layout: Layout, rows: Rows, unfit: set[int]) -> None:
        """Set ``olds`` to the images before. The places of rows where that can't be derived are
        added to ``unfit``.
        """
        olds = {
            place: old
            for place, old in enumerate(rows.olds)
            if old is not None and old is not UNSET
        }
        rows.olds = [None] * len(rows.images)
        if not olds:
            return
        type_names = rows.field(layout.of_message["type"])
        unfit.update(place for place in olds if self.operations[type_names[place]] != UPDATE)
        for place in olds:
            rows.olds[place] = copy(rows.images[place])
        converters = dict(layout.converters)
        for name, attribute in layout.of_row.items():
            values: Sequence[Any] = list(map(attrgetter(attribute), olds.values()))
            if values.count(UNSET) == len(values):
                continue
            known = [value is not UNSET for value in values]
            there, some = list(compress(olds, known)), list(compress(olds.values(), known))
            if attribute in converters:
                unfit |= _convert(some, there, attribute, converters[attribute])
            images = list(map(rows.olds.__getitem__, there))
            if name in layout.shape.lacking:
                # A column that is only in the row before comes last.
                unfit.update(
                    place
                    for place, image in zip(there, images, strict=True)
                    if getattr(image, attribute) is UNSET
                )
            for image, value in zip(images, map(attrgetter(attribute), some), strict=True):
                setattr(image, attribute, value)

    def _record_keys(self, layout: Layout, rows: Rows, where: RecordKey) -> bytes:
        if where.is_kafka_key:
            parts = self.key_columns(layout, rows, list(where.columns.values()))
        else:
            parts = [
                list(map(attrgetter(layout.of_row[name]), rows.images)) for name in where.columns
            ]
        parts = [
            list(map(plain_number, values)) if Raw in map(_type_of, values) else values
            for values in parts
        ]
        return _encode_lines(list(map(layout.record_key_struct, *parts)))

    def unfit(self, layout: Layout, rows: Rows) -> set[int]:
        """The places of messages among ``rows`` that turn out not to be plain."""
        unfit: set[int] = set()
        for name, text in layout.constants.items():
            sent, known = rows.field(layout.of_message[name]), Raw(text)
            if sent.count(known) < len(sent):
                unfit.update(
                    place
                    for place, each in enumerate(sent)
                    if each != known and not self.is_same(name, bytes(each), text)
                )
        where = layout.record_key
        if where is None:
            return unfit
        columns = [
            list(map(attrgetter(layout.of_row[name]), rows.images)) for name in where.columns
        ]
        if where.is_kafka_key:
            columns += self.key_columns(layout, rows, list(where.columns.values()))
        for values in columns:
            # Names in an object would have to be sorted.
            if not _PLAIN.issuperset(map(_type_of, values)):
                unfit.update(
                    place for place, value in enumerate(values) if type(value) not in _PLAIN
                )
        return unfit

    # --- What the formats differ in ---------------------------------------------------------------

    without_columns: bytes
    """The field of a row without columns."""

    def is_same(self, name: str, sent: bytes, known: bytes) -> bool:
        """Whether a constant that was sent with another text has the same meaning."""
        return False

    def row_of(self, data: Any) -> Any:
        """The only row in a field; other values are returned unchanged."""
        return data

    @abstractmethod
    def key_shape(self, key: Any) -> Any:
        """The form of a Kafka key; None for one that can't be plain."""

    @abstractmethod
    def key_type(self, shape: Shape) -> Any:
        """The type that decodes Kafka keys."""

    @abstractmethod
    def more_types(self, row: Any, old: Any) -> dict[str, Any]:
        """The types of fields that are more specific than Any. ``row`` and ``old`` are the types
        of a row, and of its former values.
        """

    @abstractmethod
    def record_key(self, shape: Shape) -> RecordKey | None:
        """The source of record keys; None for messages without. Raises ``ValueError`` if that
        depends on the message.
        """

    @abstractmethod
    def key_columns(self, layout: Layout, rows: Rows, names: list[str]) -> list[list[Any]]:
        """The values of the Kafka keys' parts."""

    @abstractmethod
    def times(self, layout: Layout, rows: Rows) -> Sequence[int | None]:
        """The time of each change."""


def _convert(rows: list[Any], places: Sequence[int], attribute: str, convert: Convert) -> set[int]:
    """Convert a column of rows in place. Returns the places of values that don't fit."""
    values = list(map(attrgetter(attribute), rows))
    if not _TEXT.issuperset(map(_type_of, values)):
        known = [type(value) is str for value in values]
        rows, places, values = (list(compress(each, known)) for each in (rows, places, values))
    if not values:
        return set()
    converted, misfits = convert(values)
    for row, value in zip(rows, converted, strict=True):
        setattr(row, attribute, value)
    return {places[misfit] for misfit in misfits}


def _text_behind(mark: bytes, value: bytes) -> bytes:
    start = value.find(mark) + len(mark)
    return value[start : value.find(b'"', start)] if start >= len(mark) else b""


def _lines(rows: list[Any]) -> Lines | None:
    """The images as JSON, a line for each; None if there are none."""
    return partial(_encode_lines, rows) if rows.count(None) < len(rows) else None


def _metadata(layout: Layout, rows: Rows) -> bytes:
    parts: list[Any] = [rows.field(layout.of_message[name]) for name in layout.told]
    if rows.key_texts:
        parts.append(map(Raw, rows.key_texts))
    return _encode_lines(list(map(layout.metadata, *parts)))
