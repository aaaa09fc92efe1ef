"""The fast path for the Debezium family: messages of one layout are decoded together.

``core.fast_path`` explains fast paths, ``layouts`` the common part of messages. All values are
decoded, and encoded again they must give the bytes that were sent. So there is no duplicate name,
no white space, and no value that ``envelope``, the careful path, would write differently. Further
checks are for nesting that may be too deep, placeholders of unavailable values, and values that
don't fit their declared type.
"""

import operator
from collections.abc import Sequence
from functools import partial
from itertools import compress, repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from python_udfs.core import limits
from python_udfs.core.errors import DecodeError
from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS, EventColumns, Lines
from python_udfs.core.fast_path import Format, Messages, Names
from python_udfs.core.row_images import DictImages, RowImages, StructImages
from python_udfs.debezium import cells, mongodb
from python_udfs.debezium.keys import are_flat, key_rows
from python_udfs.debezium.layouts import (
    IMAGES,
    OPERATIONS,
    Converters,
    Layout,
    Shape,
    mixed,
    shape_of,
)
from python_udfs.debezium.types import (
    COMPILED_FACTOR,
    UNAVAILABLE,
    Prefixes,
    has_placeholder,
    is_unavailable,
    plain_placeholders,
)
from python_udfs.text.counting import count_brackets
from python_udfs.text.json_lines import FLAT_BYTES, may_be_deep, read_lines

_encode_lines = msgspec.json.Encoder().encode_lines

# A message of that size is within its budget whatever its columns are converted to, see
# ``types.Schema.convert_column``.
_MAX_BYTES: Final = 128 * 1024
# The documents that are read together: an unusual one has them read one by one.
_TOGETHER: Final = 32


class DebeziumFormat(Format[Shape, Layout, "Rows"]):
    """Recognizes messages of the Debezium family, and decodes them together."""

    bytes_of_names = COMPILED_FACTOR

    def __init__(self, *, text_values: bool = False) -> None:
        """``text_values`` as in ``envelope.decode``."""
        self._text_values = text_values
        self._key_prefixes = Prefixes()
        self._prefixes = Prefixes()

    def prefixes(self, key: bytes | None, value: bytes | None) -> Names:
        return self._key_prefixes.of(key or b""), self._prefixes.of(value or b"")

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        """Both prefixes, and usually the source's names of the table."""
        if value is None or len(value) > _MAX_BYTES:
            return ()
        prefix = self._prefixes.of(value)
        start = len(prefix)
        names = [b"" if key is None else self._key_prefixes.of(key), prefix]
        behind = len(value)
        for marks in _NAMING:
            # The last ones are the source's, behind the images.
            place = value.rfind(marks[0], start, behind)
            if place < 0:
                names.append(_text_behind(marks, value, start))
            else:
                behind = place
                place += len(marks[0])
                names.append(value[place : value.find(b'"', place)])
        return tuple(names)

    def shape(self, names: Names, key: bytes | None, value: bytes) -> Shape | None:
        key_prefix, prefix = names[:2]
        return shape_of(
            None if key is None else _payload(key_prefix, key),
            _payload(prefix, value),
            may_have_cells=not self._text_values,
        )

    def merged(self, known: Shape, seen: Shape) -> Shape | None:
        return known.merged(seen)

    def mixed(self, shapes: Sequence[Shape]) -> Shape | None:
        return mixed(shapes)

    def layout(self, names: Names, shape: Shape) -> Layout:
        return Layout(shape, names[0], names[1], self._text_values)

    def rows(
        self, layout: Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> "Rows | None":
        return _rows(layout, places, keys, values)

    def columns(self, layout: Layout, rows: "Rows") -> EventColumns | None:
        return columns_of(layout, rows)


_NAMING: Final = tuple(
    tuple(b'"%b":"' % name.encode() for name in names)
    for names in (
        ("table", "collection", "table_name"),
        ("schema", "schema_name"),
        ("db", "database_name"),
    )
)
"""The usual text before a table's, a schema's and a database's name, the last one first."""


def _text_behind(marks: Sequence[bytes], value: bytes, start: int) -> bytes:
    """The text behind the first of the marks that has one, up to a quote."""
    for mark in marks:
        place = value.find(mark, start)
        if place >= 0:
            place += len(mark)
            end = value.find(b'"', place)
            if end != place:
                return value[place:end]
    return b""


class Rows:
    """Messages of a layout that are plain as far as is known; lists have the same order."""

    __slots__ = ("changes", "keys", "places", "texts")

    def __init__(
        self, places: Sequence[int], texts: list[bytes], changes: list[Any], keys: list[Any]
    ) -> None:
        self.places = places
        """Their places among all messages."""
        self.texts = texts
        self.changes = changes
        self.keys = keys
        """Empty without keys."""

    def keep(self, flags: list[bool]) -> None:
        """Drop messages whose flag is false."""
        self.places = list(compress(self.places, flags))
        self.texts = list(compress(self.texts, flags))
        self.changes = list(compress(self.changes, flags))
        self.keys = list(compress(self.keys, flags))

    def parts(self, attribute: str | None) -> list[Any]:
        """A field of each change, None where it is absent."""
        if attribute is None:
            return [None] * len(self.changes)
        values = list(map(attrgetter(attribute), self.changes))
        return (
            [None if value is UNSET else value for value in values] if UNSET in values else values
        )


def _rows(layout: Layout, places: Sequence[int], keys: Messages, values: Messages) -> Rows | None:
    """The messages at those places that have the layout's names, in compact text."""
    key_prefix, prefix = layout.prefixes
    texts: list[Any] = _payloads(prefix, [values[place] for place in places])
    key_texts: list[Any] = []
    if layout.key is not None:
        key_texts = _payloads(key_prefix, [keys[place] for place in places])
        if has_placeholder(b"\n".join(filter(None, key_texts))):
            key_texts = [None if text and has_placeholder(text) else text for text in key_texts]
    elif keys.count(None) < len(keys):
        # They are looked up as texts that exist, though unused.
        key_texts = [b"" if keys[place] is None else None for place in places]
    if None in texts or None in key_texts:
        fitting = [None not in pair for pair in zip(texts, key_texts or texts, strict=True)]
        places = list(compress(places, fitting))
        texts = list(compress(texts, fitting))
        key_texts = list(compress(key_texts, fitting))
    read = read_lines(layout.change, _encode_lines, texts)
    if read is None:
        return None
    changes, lines = read
    # Usually all are the same.
    fitting = [] if lines is texts else list(map(operator.eq, texts, lines))
    row_keys: list[Any] = []
    if layout.key is not None and (not fitting or True in fitting):
        read = read_lines(layout.key_decoder, _encode_lines, key_texts)
        if read is None:
            return None
        row_keys, key_lines = read
        if key_lines is not key_texts or max(map(len, key_texts)) > FLAT_BYTES:
            # The names may come in another order than the record key's. Everything left out makes
            # a text shorter, and nothing makes it longer, so equal lengths mean equal bytes.
            fitting = [
                fits
                and key_line is not None
                and len(key_line) == len(key_text)
                and not (len(key_line) > FLAT_BYTES and may_be_deep(key_line))
                for fits, key_line, key_text in zip(
                    fitting or repeat(True), key_lines, key_texts, strict=False
                )
            ]
    rows = Rows(places, texts, changes, row_keys)
    if False in fitting:
        rows.keep(fitting)
    return rows if rows.places else None


def _payloads(prefix: bytes, messages: list[bytes | None]) -> list[bytes | None]:
    """The messages' payloads; None for an absent or too large one, or another prefix."""
    # mypy doesn't see that no message is None behind the `or`.
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
    """The text after a prefix, without the wrapper's brace."""
    return message[len(prefix) : -1] if prefix else message


def columns_of(layout: Layout, rows: Rows) -> EventColumns | None:
    """The events of messages that have the layout. Those that turn out not to be plain are
    dropped from ``rows``; None if none is left.
    """
    of_envelope, of_source = layout.of_envelope, layout.of_source
    unfit: set[int] = set()
    types: list[Any] = []
    if layout.shape.of_mongodb:
        # Its images are texts, and everything else has types that can't be deep.
        images = _documents(layout, rows, unfit, types)
    else:
        unfit = _unusual(layout, rows)
        images = _rows_of_columns(layout, rows, unfit)
    if images is None:
        return None
    changes = rows.changes
    sources = list(map(attrgetter(of_envelope["source"]), changes))
    times: Sequence[int | None] = [None] * len(changes)
    if "ts_ms" in of_source or "ts_ns" in of_source:
        times = _known_times(_times(sources, of_source))
    operations = map(attrgetter(of_envelope["op"]), changes)
    database, schema, table, _ = layout.where
    return EventColumns(
        operation=list(map(OPERATIONS.__getitem__, operations)),
        source_database=database,
        source_schema=schema,
        source_table=table,
        record_key=images.record_key,
        before=images.before,
        after=images.after,
        occurred_at=times,
        expires_at=None,
        metadata=partial(_metadata, layout, rows, sources, types),
        key_names=layout.shape.key or (),
        images=images.decoded,
    )


def _metadata(layout: Layout, rows: Rows, sources: list[Any], types: list[Any]) -> bytes:
    """The metadata of the messages. ``types`` are those of MongoDB's values."""
    of_envelope, of_source = layout.of_envelope, layout.of_source
    parts: list[Any] = [] if layout.key is None else [rows.keys]
    parts += [
        map(attrgetter(of_source[name]), sources)
        for name in ("connector", "snapshot")
        if name in of_source
    ]
    parts += [
        map(attrgetter(attribute), rows.changes)
        for name, attribute in of_envelope.items()
        if name not in IMAGES and name != "op"
    ]
    if layout.schema_name is not None:
        parts.append(repeat(layout.schema_name))
    if layout.shape.of_mongodb:
        parts.append(types)
    return _encode_lines(list(map(layout.metadata, *parts)))


class _Columns(NamedTuple):
    """The record keys and both images."""

    record_key: Lines | None
    before: Lines | None
    after: Lines | None
    decoded: RowImages | None = None


def _rows_of_columns(layout: Layout, rows: Rows, unfit: set[int]) -> _Columns | None:
    """The columns of rows, from which unfit ones are dropped; None if none is left."""
    of_envelope = layout.of_envelope
    convert = _convert_dicts if layout.shape.any_columns else convert_in_place
    for name, row in layout.rows.items():
        if row.converters:
            convert(row.converters, rows.parts(of_envelope.get(name)), unfit)
    if layout.key is not None:
        convert_in_place(layout.key.converters, rows.keys, unfit)
        if not are_flat(layout.key.struct, rows.keys):
            # Names in an object would have to be sorted. Where a key is of cells, a row is too:
            # no message of PostgreSQL's connector with such a key is plain.
            key_lines = enumerate(_encode_lines(rows.keys).splitlines())
            unfit |= {place for place, line in key_lines if line.count(b"{") > 1}
    if unfit:
        rows.keep([place not in unfit for place in range(len(rows.places))])
        if not rows.places:
            return None
    befores, afters = (rows.parts(of_envelope.get(name)) for name in IMAGES)
    images = DictImages if layout.shape.any_columns else StructImages
    return _Columns(
        None if layout.key is None else partial(_record_keys, layout.key.struct, rows.keys),
        _images(befores),
        _images(afters),
        images(befores, afters, _encode_lines),
    )


def _record_keys(struct: type[msgspec.Struct], keys: list[Any]) -> bytes:
    return _encode_lines(key_rows(struct, keys))


def _documents(layout: Layout, rows: Rows, unfit: set[int], types: list[Any]) -> _Columns | None:
    """The columns of MongoDB's documents, whose types are added. Otherwise as
    ``_rows_of_columns``.
    """
    found: list[mongodb.Images] = []
    of_envelope = layout.of_envelope
    befores, afters, descriptions = (
        rows.parts(of_envelope.get(name)) for name in (*IMAGES, "updateDescription")
    )
    ids = [key.f0 for key in rows.keys] if rows.keys else [None] * len(rows.changes)
    ops = rows.parts(of_envelope["op"])
    updates = [None if each is None else each.get("updatedFields") for each in descriptions]
    for start in range(0, len(ops), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        read = (mongodb.loaded(documents[some]) for documents in (befores, afters, updates))
        changes = zip(ops[some], *read, descriptions[some], ids[some], strict=True)
        for place, change in enumerate(changes, start):
            images = None
            if not rows.keys or type(ids[place]) is str:
                try:
                    images = mongodb.images_of(*change)
                except DecodeError:
                    # The careful path reports the error.
                    pass
            if images is None:
                unfit.add(place)
            else:
                found.append(images)
    if unfit:
        rows.keep([place not in unfit for place in range(len(rows.places))])
    if not found:
        return None
    keys, before_texts, after_texts, told = zip(*found, strict=True)
    types += told
    return _Columns(_joined(keys), _joined(before_texts), _joined(after_texts))


def _joined(texts: Sequence[bytes | None]) -> Lines | None:
    if texts.count(None) == len(texts):
        return None
    return lambda: b"\n".join([text or b"null" for text in texts]) + b"\n"


def _unusual(layout: Layout, rows: Rows) -> set[int]:
    """The places of rows that ``envelope`` has to decode. In the others' images placeholders
    become plain ones, and images without columns become None.
    """
    texts = b"\n".join(rows.texts)
    if has_placeholder(texts):
        for text, change in zip(rows.texts, rows.changes, strict=True):
            if has_placeholder(text):
                _plain_images(layout, change)
    for name, row in layout.rows.items():
        attribute = layout.of_envelope.get(name)
        nothing = row.nothing
        if attribute is None or nothing is None:
            continue
        # Comparing Structs takes a fifth of the time of searching the texts.
        if nothing in map(attrgetter(attribute), rows.changes):
            for change in rows.changes:
                if getattr(change, attribute) == nothing:
                    setattr(change, attribute, None)
    unfit: set[int] = set()
    if not layout.shape.connector and cells.MARK in texts:
        unfit = {place for place, text in enumerate(rows.texts) if cells.MARK in text}
    befores, afters = (rows.parts(layout.of_envelope.get(name)) for name in IMAGES)
    # Each has those of the envelope, the source and its images: usually there are few others.
    if max(map(len, rows.texts)) > FLAT_BYTES:
        images = sum(len(each) - each.count(None) for each in (befores, afters))
        if count_brackets(texts) - 2 * len(rows.texts) - images >= limits.MAX_DEPTH - 4:
            unfit |= {
                place
                for place, text in enumerate(rows.texts)
                if len(text) > FLAT_BYTES and may_be_deep(text)
            }
    if None in afters:
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


def _plain_images(layout: Layout, change: msgspec.Struct) -> None:
    for name, row in layout.rows.items():
        attribute = layout.of_envelope.get(name)
        image = None if attribute is None else getattr(change, attribute)
        if type(image) is dict:
            plain_placeholders(image)
        if attribute is None or type(image) is not row.struct:
            continue
        for column in image.__struct_fields__:
            if is_unavailable(getattr(image, column)):
                setattr(image, column, UNAVAILABLE)


def convert_in_place(converters: Converters, rows: list[Any], unfit: set[int]) -> None:
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


def _convert_dicts(converters: Converters, rows: list[Any], unfit: set[int]) -> None:
    """``convert_in_place`` for dicts."""
    for name, declared in converters:
        places = [place for place, row in enumerate(rows) if row is not None and name in row]
        misfits: set[int] = set()
        values = declared.convert_column([rows[place][name] for place in places], misfits)
        for place, value in zip(places, values, strict=True):
            rows[place][name] = value
        unfit.update(map(places.__getitem__, misfits))


def _times(sources: list[Any], of_source: dict[str, str]) -> list[Any]:
    """The time at which the source changed each row, in milliseconds."""
    times: list[Any] = [UNSET] * len(sources)
    if "ts_ms" in of_source:
        times = list(map(attrgetter(of_source["ts_ms"]), sources))
    if "ts_ns" in of_source and UNSET in times:
        finer = list(map(attrgetter(of_source["ts_ns"]), sources))
        for place, (time, sent) in enumerate(zip(times, finer, strict=True)):
            if time is UNSET and type(sent) is int:
                times[place] = sent // 1_000_000
    return times


def _known_times(times: list[Any]) -> Sequence[int | None]:
    """The times; None for zero, beyond the range of timestamps, and for absent ones."""
    if None not in times and UNSET not in times and 0 < min(times) <= max(times) <= MAX_TIME_MS:
        return times
    return [
        time if time and time is not UNSET and MIN_TIME_MS <= time <= MAX_TIME_MS else None
        for time in times
    ]


def _images(rows: list[Any]) -> Lines | None:
    """The images as JSON, a line for each; None if there are none."""
    return partial(_encode_lines, rows) if rows.count(None) < len(rows) else None
