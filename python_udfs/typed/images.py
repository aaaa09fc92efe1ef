"""What a typed change log takes out of a row image: the exact text of its fields, and HBase's
binary values.

A field is one of the image, or what is inside of it by a path: its names, and numbers for places in
arrays, as MongoDB writes them (``address.city``, ``tags.0``). The path of no names is the whole
image. A partial image says in ``$partial`` that it is one, and what has changed inside of fields
(``debezium.mongodb``):

    {"_id":1,"nick":null,"$partial":{"updated":{"address.city":"Rome"},"truncated":{"tags":2}}}

Of it, a field that is named has its value, and so has ``address.city``. All others are unavailable,
which means unchanged; but of ``address`` and ``tags`` ``parts`` tells what has changed, for nobody
knows what they are now.

Spark's own ``from_json`` and ``get_json_object`` pass numbers through a double (``1.10`` becomes
``1.1``, thirty digits become seventeen), so the text is cut out of the JSON here, and typed by
``typed``.
A number in a column of the key has one text, however it was sent (``text.numbers``).
"""

import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType, structs

from python_udfs.core.row_images import PARTIAL, TRUNCATED, UPDATED, EncodeLines
from python_udfs.debezium.keys import key_value
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.text.numbers import plain_number

_NOT_SAID: Final = (None, UNAVAILABLE)
_PARTIAL_MARK: Final = b'"$partial":'

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_encode_object = msgspec.json.Encoder().encode
# What they raise for text that is none, a number that is too long for a Python int, and brackets
# that nest deeper than Python's stack: a column may hold any text.
_FAILURES: Final = (msgspec.DecodeError, ValueError, RecursionError)
# Numbers with a fraction or an exponent stay their text.
_decode_number = msgspec.json.Decoder(float_hook=msgspec.Raw).decode
_decode_flat_array = msgspec.json.Decoder(list[Any], float_hook=msgspec.Raw).decode
_decode_flat_object = msgspec.json.Decoder(dict[str, Any], float_hook=msgspec.Raw).decode


Path = tuple[str, ...]
"""The names that lead to something inside of a JSON object; none for all of it."""
Field = str | Path
"""A field by its name, or by its path in the image."""
Texts = list[str | None] | None
"""The values of fields; None for no image."""


def row_texts_of_many(
    befores: Sequence[bytes | None],
    afters: Sequence[bytes | None],
    record_keys: Sequence[bytes | None],
    fields: tuple[Field, ...],
    key_fields: tuple[str, ...],
) -> tuple[list[Texts], list[Texts], list[Texts], list[Texts]]:
    """The values of fields in both images of each change, as text: strings unquoted, everything
    else as it is written; those of the key fields in its record key, which is looked at only where
    the row image (``after``, else ``before``) does not say one, and is None elsewhere; and what has
    changed inside of fields, None where the image after the change is whole.

    A field that is absent or null is None. The image after the change and the record key are what a
    decoder made, so text that is no JSON object is a bug and raises ``msgspec.DecodeError``.
    ``before`` may be the other key of a key update instead, which is read out of metadata: such
    text is no image there, and nothing else of the change is lost.
    """
    keys = frozenset(key_fields)
    of_before = _texts_of_many(befores, fields, keys, may_be_other=True)
    of_after = _texts_of_many(afters, fields, keys)
    parts: list[Texts] = [None] * len(of_after)
    for place, image in enumerate(afters):
        if image is not None and _PARTIAL_MARK in image and is_of_document(record_keys[place]):
            partial = _partial_texts(image, fields, key_fields)
            if partial is not None:
                of_after[place], parts[place] = partial
    places = [fields.index(field) for field in key_fields]
    lacking = [
        record_key if row is None or any(row[place] in _NOT_SAID for place in places) else None
        for row, record_key in zip(map(_row_image, of_before, of_after), record_keys, strict=True)
    ]
    return of_before, of_after, _texts_of_many(lacking, key_fields, keys), parts


def have_other_key(
    record_keys: Sequence[bytes | None], keys: Sequence[tuple[str, ...]]
) -> list[bool]:
    """Of each record key, whether its names are none of these sets; none are asked for if there are
    no sets. A change without a record key has none of another table.
    """
    there = [each for each in record_keys if each is not None]
    if not there or not keys or any(_all_have(there, names) for names in keys):
        return [False] * len(record_keys)
    may_be = {frozenset(names) for names in keys}
    return [
        record_key is not None and frozenset(_decode_object(record_key)) not in may_be
        for record_key in record_keys
    ]


def _all_have(record_keys: list[bytes], names: tuple[str, ...]) -> bool:
    """Whether all of these keys have these names and no others, decoded at once."""
    try:
        return len(_key_decoder(names).decode_lines(b"\n".join(record_keys))) == len(record_keys)
    except _FAILURES:
        return False


@lru_cache(256)
def _key_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Of objects that have these names and no others."""
    fields = {f"f{place}": name for place, name in enumerate(names)}
    key = msgspec.defstruct(
        "Key",
        [(field, msgspec.Raw) for field in fields],
        rename=fields,
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(key)


def is_of_document(record_key: bytes | None) -> bool:
    """Whether a key is MongoDB's, whose images alone are partial: in all others ``$partial`` is the
    name of a column.
    """
    return record_key is not None and _decode_object(record_key).keys() == {"_id"}


def _row_image(before: Texts, after: Texts) -> Texts:
    return before if after is None else after


def _texts_of_many(
    images: Sequence[bytes | None],
    fields: tuple[Field, ...],
    keys: frozenset[Field],
    *,
    may_be_other: bool = False,
) -> list[Texts]:
    """The texts of each image. ``keys`` are the fields whose numbers have one text each.
    ``may_be_other``: text that is no JSON object is no image, instead of an error.
    """
    there = [image for image in images if image is not None]
    if not there:
        return [None] * len(images)
    names = tuple(each for each in fields if isinstance(each, str))
    columns = _columns_of_texts(there, names, keys) if len(names) == len(fields) else None
    if columns is None:
        read = _texts_or_none if may_be_other else _exact_texts
        return [None if image is None else read(image, fields, keys) for image in images]
    rows = map(list, zip(*columns, strict=True))
    return [None if image is None else next(rows) for image in images]


class FieldColumn(NamedTuple):
    """What a field is in many images: texts; integers or booleans, where it is nothing else; of
    decoded values floats, lists or dicts too.
    """

    values: Sequence[Any]
    kind: type = str
    encode_lines: EncodeLines | None = None
    """Writes those."""

    def texts(self) -> Sequence[str | None]:
        """The texts, as ``row_texts_of_many`` gives them."""
        if self.kind is str:
            return self.values
        if self.encode_lines is None:
            return _flat_texts(self.values)
        lines = self.encode_lines(self.values).decode().split("\n")
        return [None if line == "null" else line for line in lines[:-1]]


def field_columns(
    images: Sequence[bytes], fields: tuple[Field, ...], key_fields: tuple[str, ...]
) -> list[FieldColumn] | None:
    """What each field is in all of these images, by column. None if they can't be taken apart at
    once: where one is no JSON object, or a field is a path.
    """
    names = tuple(each for each in fields if isinstance(each, str))
    if len(names) < len(fields):
        return None
    return _columns_of_fields(images, names, frozenset(key_fields))


def _columns_of_fields(
    images: Sequence[bytes], fields: tuple[str, ...], keys: frozenset[Field]
) -> list[FieldColumn] | None:
    """The values of each field, all images decoded at once; None if these images can't be."""
    lines = b"\n".join(images)
    try:
        # Most often the first image tells which fields nest in all of them.
        nesting = _nesting(_kinds(_values_of_fields(images[0], fields, frozenset())))
        columns = _values_of_fields(lines, fields, nesting)
        kinds = _kinds(columns)
        if others := _nesting(kinds) - nesting:
            nesting |= others
            columns = _values_of_fields(lines, fields, nesting)
    except _FAILURES:
        return None
    if not columns or len(columns[0]) != len(images):
        # No fields, or a line break between tokens.
        return None
    found = []
    for place, column in enumerate(columns):
        is_key = fields[place] in keys
        if place in nesting:
            found.append(FieldColumn([_key_text(raw) if is_key else _text(raw) for raw in column]))
        elif kind := _ONE_KIND.get(kinds[place]):
            found.append(FieldColumn(column, kind))
        else:
            values = list(map(plain_number, column)) if is_key else column
            found.append(FieldColumn(_flat_texts(values)))
    return found


def decoded_column(values: Sequence[Any], is_key: bool, encode_lines: EncodeLines) -> FieldColumn:
    """The same of one field by its values as a decoder has them (``core.row_images``): what would
    be read of their text. ``encode_lines`` writes that.
    """
    kinds = frozenset(map(type, values))
    if UnsetType in kinds:
        values = [None if value is UNSET else value for value in values]
        kinds = frozenset(map(type, values))
    if kind := _ONE_KIND.get(kinds):
        return FieldColumn(values, kind)
    kind = None if is_key else _DECODED_KIND.get(kinds)
    if kind is not None and (kind is not float or _are_numbers(values)):
        return FieldColumn(values, kind, encode_lines)
    if not kinds <= _FLAT:
        values = list(map(msgspec.Raw, encode_lines(values).splitlines()))
    of_raw = _key_text if is_key else _text
    return FieldColumn(
        [
            value
            if type(value) is str
            else of_raw(value)
            if type(value) is msgspec.Raw
            else _scalar_text(value)
            for value in values
        ]
    )


_DECODED_KIND: Final[dict[frozenset[type], type]] = {
    frozenset(kinds): kind
    for kind in (float, list, dict)
    for kinds in ((kind,), (kind, type(None)))
}


def one_kind(values: Sequence[Any]) -> type | None:
    """Of what kind values are, but for nulls; None for more than one, and for others than texts,
    integers, booleans and floats.
    """
    kinds = frozenset(map(type, values))
    kind = _ONE_KIND.get(kinds) or _DECODED_KIND.get(kinds)
    return kind if kind in (str, int, bool) or (kind is float and _are_numbers(values)) else None


def _are_numbers(floats: Iterable[float | None]) -> bool:
    """Whether JSON has these: all else is null there."""
    return isfinite(sum(filter(None, floats)))


_ONE_KIND: Final[dict[frozenset[type], type]] = {
    frozenset(kinds): kinds[0]
    for kinds in ((str,), (str, type(None)), (int,), (int, type(None)), (bool,), (bool, type(None)))
}


def _columns_of_texts(
    images: list[bytes], fields: tuple[str, ...], keys: frozenset[Field]
) -> list[Sequence[str | None]] | None:
    """The texts of each field, all images decoded at once; None if these images can't be."""
    columns = _columns_of_fields(images, fields, keys)
    return None if columns is None else [column.texts() for column in columns]


def _values_of_fields(
    lines: bytes, fields: tuple[str, ...], nesting: frozenset[int]
) -> list[tuple[Any, ...]]:
    """The values of each field in the objects of these lines."""
    rows = _decoder_of(fields, nesting).decode_lines(lines)
    return list(zip(*map(structs.astuple, rows), strict=True))


_FLAT: Final = frozenset({str, int, bool, type(None), msgspec.Raw})
_are_flat = _FLAT.issuperset


def _kinds(columns: Iterable[Iterable[Any]]) -> list[frozenset[type]]:
    return [frozenset(map(type, column)) for column in columns]


def _nesting(kinds: Iterable[frozenset[type]]) -> frozenset[int]:
    """The places of columns with lists or objects: decoded, those have lost their white space."""
    return frozenset(place for place, each in enumerate(kinds) if not each <= _FLAT)


@lru_cache(256)
def _decoder_of(fields: tuple[str, ...], nesting: frozenset[int]) -> msgspec.json.Decoder[Any]:
    """Of the objects' fields only; those in the places of ``nesting`` stay their text, and so does
    a number with a fraction or an exponent.
    """
    names = [f"f{place}" for place in range(len(fields))]
    row = msgspec.defstruct(
        "Row",
        [(name, msgspec.Raw if n in nesting else Any, None) for n, name in enumerate(names)],
        rename=dict(zip(names, fields, strict=True)),
        gc=False,
    )
    return msgspec.json.Decoder(row, float_hook=msgspec.Raw)


def _exact_texts(
    image: bytes, fields: tuple[Field, ...], keys: frozenset[Field]
) -> list[str | None]:
    """The texts of one image, a third as fast, whatever is in it."""
    values = _decode_object(image)
    texts: list[str | None] = []
    for field in fields:
        raw = values.get(field) if isinstance(field, str) else _inside(msgspec.Raw(image), field)
        texts.append(_key_text(raw) if field in keys else _text(raw))
    return texts


def _texts_or_none(image: bytes, fields: tuple[Field, ...], keys: frozenset[Field]) -> Texts:
    """``_exact_texts``; None of what is no JSON object."""
    try:
        return _exact_texts(image, fields, keys)
    except _FAILURES:
        return None


def _inside(raw: msgspec.Raw | None, path: Iterable[str]) -> msgspec.Raw | None:
    """What is in a value by a path; None if nothing is."""
    for step in path:
        if raw is None:
            return None
        start = bytes(memoryview(raw)[:1])
        if start == b"{":
            raw = _decode_object(raw).get(step)
        elif start == b"[" and step.isascii() and step.isdecimal():
            raw = dict(enumerate(_decode_array(raw))).get(int(step))
        else:
            return None
    return raw


def texts_inside(text: bytes | None, paths: Sequence[Path]) -> list[str | None]:
    """What is in a JSON object by each path, as text like the values of fields. None of no object.

    Raises ``msgspec.DecodeError`` for text that is no JSON.
    """
    raw = None if text is None else msgspec.Raw(text)
    return [_text(_inside(raw, path)) for path in paths]


def texts_inside_of_many(
    objects: Sequence[bytes | None], paths: tuple[Path, ...]
) -> list[Sequence[str | None]]:
    """``texts_inside`` of each object, by path: all of them decoded at once, if that will do."""
    there = [each for each in objects if each is not None]
    columns = _columns_inside(there, paths) if there else [()] * len(paths)
    if columns is None:
        columns = list(zip(*(texts_inside(each, paths) for each in there), strict=True))
    if len(there) == len(objects):
        return columns
    lefts = map(iter, columns)
    return [[None if each is None else next(left) for each in objects] for left in lefts]


def _columns_inside(
    objects: list[bytes], paths: tuple[Path, ...]
) -> list[Sequence[str | None]] | None:
    """What is in JSON objects by paths; None if they can't be decoded at once: where something on
    the way is no object, or one path goes on where another one ends.
    """
    decoder = _decoder_of_paths(paths)
    if decoder is None:
        return None
    try:
        rows = decoder.decode_lines(b"\n".join(objects))
    except _FAILURES:
        return None
    if len(rows) != len(objects):
        # A line break between tokens.
        return None
    columns: list[Sequence[str | None]] = []
    for path in paths:
        values = rows
        for step in path:
            attribute = _attribute(step)
            values = [None if each is None else getattr(each, attribute) for each in values]
        columns.append(list(map(_text, values)))
    return columns


@lru_cache(256)
def _decoder_of_paths(paths: tuple[Path, ...]) -> msgspec.json.Decoder[Any] | None:
    """Of objects with what is inside of them by these paths, as it is written."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is _END:
                return None
        if not path or node.setdefault(path[-1], _END) is not _END:
            return None
    return msgspec.json.Decoder(_struct_of(tree))


_END: Final[dict[str, Any]] = {}


def _struct_of(tree: dict[str, Any]) -> type[msgspec.Struct]:
    """A struct of objects that have others inside."""
    fields = [
        (_attribute(name), msgspec.Raw if inner is _END else _struct_of(inner) | None, None)
        for name, inner in tree.items()
    ]
    names = {_attribute(name): name for name in tree}
    return msgspec.defstruct("Inside", fields, rename=names, gc=False)


def _attribute(name: str) -> str:
    """An identifier for any name."""
    return f"f{name.encode().hex()}"


# --- Partial images -------------------------------------------------------------------------------


def _partial_texts(
    image: bytes, fields: tuple[Field, ...], key_fields: tuple[str, ...]
) -> tuple[list[str | None], list[str | None]] | None:
    """The texts of a partial image, and what it says of the insides of fields; None if it is whole,
    for only something in it has that name, or it is a column's.
    """
    values = _decode_object(image)
    raw = values.pop(PARTIAL, None)
    try:
        changes = {name: _decode_object(part) for name, part in _decode_object(raw or b"").items()}
    except _FAILURES:
        return None
    if not changes.keys() <= {UPDATED, TRUNCATED}:
        return None
    updated, truncated = changes.get(UPDATED, {}), changes.get(TRUNCATED, {})
    texts: list[str | None] = []
    parts: list[str | None] = []
    for field in fields:
        name, *path = (field,) if isinstance(field, str) else field or (PARTIAL,)
        if name in values:
            raw_field = _inside(values[name], path)
            is_key = field in key_fields
            found: tuple[str | None, str | None] = (
                _key_text(raw_field) if is_key else _text(raw_field),
                None,
            )
        elif field in key_fields:
            found = None, None
        elif name == PARTIAL:
            found = UNAVAILABLE, bytes(_encode_object(values | {PARTIAL: raw})).decode()
        else:
            found = _changed_part(".".join((name, *path)), updated, truncated)
        texts.append(found[0])
        parts.append(found[1])
    return texts, parts


def _changed_part(
    wanted: str, updated: dict[str, msgspec.Raw], truncated: dict[str, msgspec.Raw]
) -> tuple[str | None, str | None]:
    """The text of the field of a path that a partial image does not name as a whole, and what has
    changed inside of it.
    """
    inside: dict[str, msgspec.Raw] = {}
    for path, value in updated.items():
        if wanted == path or wanted.startswith(f"{path}."):
            rest = wanted[len(path) + 1 :]
            return _text(_inside(value, rest.split(".") if rest else ())), None
        if path.startswith(f"{wanted}."):
            inside[path] = value
    for path, length in truncated.items():
        if path == wanted or path.startswith(f"{wanted}."):
            inside[path] = msgspec.Raw(b'{"$truncated":%b}' % length)
        elif wanted.startswith(f"{path}."):
            index = wanted[len(path) + 1 :].partition(".")[0]
            if index.isascii() and index.isdecimal() and int(index) >= int(bytes(length)):
                return None, None
    return UNAVAILABLE, _encode_object(inside).decode() if inside else None


_is_text = frozenset({str, type(None)}).issuperset


def _flat_texts(values: Sequence[Any]) -> Sequence[str | None]:
    """The texts of decoded JSON values that are no lists or objects."""
    if _is_text(map(type, values)):
        return values
    return [value if type(value) is str else _scalar_text(value) for value in values]


def _scalar_text(value: Any) -> str | None:
    """The text of a JSON value that is no string, list or object."""
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    return str(value, "utf-8") if type(value) is msgspec.Raw else _BOOLEANS[value]


_BOOLEANS: Final = {True: "true", False: "false"}


def json_elements(text: str | None) -> list[str | None] | None:
    """The texts of a JSON array's elements, as of fields; None for any other text."""
    if text is None or not text.startswith("["):
        return None
    try:
        elements: list[Any] = _decode_array(text)
    except _FAILURES:
        return None
    # In their places: a value goes as soon as its text is made.
    for place, raw in enumerate(elements):
        elements[place] = _text(raw)
    return elements


def json_entries(text: str | None) -> dict[str, str | None] | None:
    """The texts of a JSON object's values, as of fields; None for any other text."""
    if text is None or not text.startswith("{"):
        return None
    try:
        entries: dict[str, Any] = _decode_object(text)
    except _FAILURES:
        return None
    for name, raw in entries.items():
        entries[name] = _text(raw)
    return entries


class Collections(NamedTuple):
    """What is in many JSON arrays or objects, one after the other."""

    lengths: list[int | None]
    """How many values each has; None for what is no such collection."""
    names: list[str]
    """Of the values in objects."""
    texts: Sequence[str | None]


def json_elements_of_many(texts: Sequence[str | None]) -> Collections:
    """``json_elements`` of each text, without names."""
    arrays = _found(texts, "[", _decode_flat_array, json_elements, list.__iter__)
    return Collections(_lengths(arrays), [], _texts_of(arrays, list.__iter__))


def json_entries_of_many(texts: Sequence[str | None]) -> Collections:
    """``json_entries`` of each text."""
    objects = _found(texts, "{", _decode_flat_object, json_entries, dict.values)
    return Collections(
        _lengths(objects), list(_joined(objects, iter)), _texts_of(objects, dict.values)
    )


def _found(
    texts: Sequence[str | None],
    start: str,
    decode: Callable[[str], Any],
    exact: Callable[[str | None], Any],
    values_of: Callable[[Any], Iterable[Any]],
) -> list[Any]:
    """``exact`` of each text; by ``decode``, if that will do."""
    try:
        found = [decode(each) if each and each.startswith(start) else None for each in texts]
        if _are_flat(map(type, _joined(found, values_of))):
            return found
    except _FAILURES:
        pass
    # Not beside the others: small values take far more than their text.
    found = []
    return list(map(exact, texts))


def _texts_of(found: list[Any], values_of: Callable[[Any], Iterable[Any]]) -> list[str | None]:
    """The texts of all values; each value goes as soon as its text is made."""
    values = list(_joined(found, values_of))
    found.clear()
    if not _is_text(map(type, values)):
        for place, value in enumerate(values):
            if type(value) is not str:
                values[place] = _scalar_text(value)
    return values


def _joined(found: list[Any], values_of: Callable[[Any], Iterable[Any]]) -> Iterable[Any]:
    return chain.from_iterable(map(values_of, filter(None, found)))


def _lengths(found: list[Any]) -> list[int | None]:
    return [None if each is None else len(each) for each in found]


def _text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    text = str(raw, "utf-8")
    if text[0] == '"':
        return _decode_string(text)
    # As of decoded numbers: there is no negative zero among integers.
    return _WRITTEN.get(text, text)


_WRITTEN: Final = {"null": None, "-0": "0"}


def _key_text(raw: msgspec.Raw | None) -> str | None:
    """``_text`` of a key's field: a number has one text, however it was sent."""
    if raw is None or bytes(memoryview(raw)[:1]) not in _MAY_BE_NUMBER:
        return _text(raw)
    try:
        value = key_value(_decode_number(raw))
    except _FAILURES:
        # Deeper than an object that is a number.
        return _text(raw)
    return _text(raw) if type(value) in (dict, list) else _scalar_text(value)


_MAY_BE_NUMBER: Final = frozenset(bytes((each,)) for each in b"{-0123456789")


def _unpack(layout: str) -> Callable[[bytes], str]:
    """A reader of one big-endian value that takes up all of its bytes, else ``struct.error``."""
    return lambda value: str(struct.unpack(layout, value)[0])


# Far more digits than a decimal column has. Without a limit, other bytes in such a column, of which
# the first four are taken for the scale, would become a text of up to two billion digits.
_MOST_DECIMAL_PLACES: Final = 1000


def _decimal(value: bytes) -> str:
    """``Bytes.toBytes(BigDecimal)``: the scale in four bytes, then the unscaled value."""
    (scale,) = struct.unpack(">i", value[:4])
    unscaled_bytes = value[4:]
    if not unscaled_bytes or max(abs(scale), len(unscaled_bytes)) > _MOST_DECIMAL_PLACES:
        raise ValueError("no decimal")
    unscaled = int.from_bytes(unscaled_bytes, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return f"{Decimal((int(unscaled < 0), digits, -scale)):f}"


# How org.apache.hadoop.hbase.util.Bytes writes each type, by the Spark type that it becomes.
_HBASE_READERS: Final[dict[str, Callable[[bytes], str]]] = {
    "string": lambda value: value.decode(),
    "boolean": lambda value: "true" if struct.unpack(">?", value)[0] else "false",
    "tinyint": _unpack(">b"),
    "smallint": _unpack(">h"),
    "int": _unpack(">i"),
    "bigint": _unpack(">q"),
    "float": _unpack(">f"),
    "double": _unpack(">d"),
    "decimal": _decimal,
}


def decode_hbase(value: str | None, type_name: str) -> str | None:
    """The text of an HBase value that is shipped as base64, for a column of a Spark SQL type.

    ``binary`` stays base64. None for no value, and for bytes that can't be a value of the type (no
    base64, the wrong length, no UTF-8, a decimal of thousands of digits): the change log reports
    those as misfits. ``ValueError`` for a type that HBase has no form for.
    """
    base_type = type_name.partition("(")[0]
    if base_type == "binary":
        return value
    read = _HBASE_READERS.get(base_type)
    if read is None:
        raise ValueError(f"no HBase form for type {type_name!r}: use {', '.join(_HBASE_READERS)}")
    if value is None:
        return None
    try:
        return read(b64decode(value, validate=True))
    except (struct.error, ValueError):
        # Of base64 and UTF-8 too: their errors are ValueErrors.
        return None
