"""Read fields from row images for typed change logs: their exact text, and HBase's binary values.

A field is one of the image's, or a value inside a field, at a path: names, and numbers for indexes
in arrays, as MongoDB writes them (``address.city``, ``tags.0``). The empty path is the whole image.
A partial image has ``$partial``, with the changes inside fields (``debezium.mongodb``):

    {"_id":1,"nick":null,"$partial":{"updated":{"address.city":"Rome"},"truncated":{"tags":2}}}

A field that it names has its value, and so has ``address.city``. All others are unavailable,
which means unchanged. For ``address`` and ``tags``, ``parts`` has the changes, since their
present values are unknown.

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

decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""The fields of a JSON object, each as written. Raises ``msgspec.DecodeError``."""
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_encode_object = msgspec.json.Encoder().encode
# Errors for text that is not JSON, a number that is too long for a Python int, and brackets that
# nest deeper than Python's stack: a column may hold any text.
_FAILURES: Final = (msgspec.DecodeError, ValueError, RecursionError)
# Numbers with a fraction or an exponent stay text.
_decode_number = msgspec.json.Decoder(float_hook=msgspec.Raw).decode
_decode_flat_array = msgspec.json.Decoder(list[Any], float_hook=msgspec.Raw).decode
_decode_flat_object = msgspec.json.Decoder(dict[str, Any], float_hook=msgspec.Raw).decode


Path = tuple[str, ...]
"""The names that lead to a value inside of a JSON object; empty for all of it."""
Field = str | Path
"""A field by its name, or by its path in the image."""
Texts = list[str | None] | None
"""The values of fields; None without an image."""


def row_texts_of_many(
    befores: Sequence[bytes | None],
    afters: Sequence[bytes | None],
    record_keys: Sequence[bytes | None],
    fields: tuple[Field, ...],
    key_fields: tuple[str, ...],
) -> tuple[list[Texts], list[Texts], list[Texts], list[Texts]]:
    """The values of fields in both images of each change, as text: strings unquoted, everything
    else as it is written; those of the key fields in its record key, which is only read where the
    row image (``after``, else ``before``) lacks one, and is None elsewhere; and the changes
    inside of fields, None where the image after the change is whole.

    A field that is absent or null is None. The image after the change and the record key come
    from a decoder, so text that is not a JSON object is a bug and raises ``msgspec.DecodeError``.
    ``before`` may instead be the other key of a key update, which is read from metadata: there,
    such text is not an image, and nothing else of the change is lost.
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
    """For each record key, whether its names are in none of these sets; False without sets.
    A change without a record key counts as having the table's own.
    """
    there = [each for each in record_keys if each is not None]
    if not there or not keys or any(_all_have(there, names) for names in keys):
        return [False] * len(record_keys)
    may_be = {frozenset(names) for names in keys}
    return [
        record_key is not None and frozenset(decode_object(record_key)) not in may_be
        for record_key in record_keys
    ]


def _all_have(record_keys: list[bytes], names: tuple[str, ...]) -> bool:
    """Whether all of these keys have exactly these names, decoded at once."""
    try:
        return len(_key_decoder(names).decode_lines(b"\n".join(record_keys))) == len(record_keys)
    except _FAILURES:
        return False


@lru_cache(256)
def _key_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of objects with exactly these names."""
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
    """Whether a key is MongoDB's, which alone has partial images: elsewhere ``$partial`` is a
    column's name.
    """
    return record_key is not None and decode_object(record_key).keys() == {"_id"}


def _row_image(before: Texts, after: Texts) -> Texts:
    return before if after is None else after


def _texts_of_many(
    images: Sequence[bytes | None],
    fields: tuple[Field, ...],
    keys: frozenset[Field],
    *,
    may_be_other: bool = False,
) -> list[Texts]:
    """The texts of each image. ``keys`` are the fields whose numbers have a unique text.
    ``may_be_other``: text that is not a JSON object counts as no image, instead of an error.
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
    """A field's values in many images: texts; integers or booleans, where it has nothing else;
    for decoded values also floats, lists or dicts.
    """

    values: Sequence[Any]
    kind: type = str
    encode_lines: EncodeLines | None = None
    """Writes the values as JSON."""

    def texts(self) -> Sequence[str | None]:
        """The texts, in the form of ``row_texts_of_many``."""
        if self.kind is str:
            return self.values
        if self.encode_lines is None:
            return _flat_texts(self.values)
        lines = self.encode_lines(self.values).decode().split("\n")
        return [None if line == "null" else line for line in lines[:-1]]


def field_columns(
    images: Sequence[bytes], fields: tuple[Field, ...], key_fields: tuple[str, ...]
) -> list[FieldColumn] | None:
    """The values of each field in all of these images, by column. None if they can't be read at
    once: where one is not a JSON object, or a field is a path.
    """
    names = tuple(each for each in fields if isinstance(each, str))
    if len(names) < len(fields):
        return None
    return _columns_of_fields(images, names, frozenset(key_fields))


def _columns_of_fields(
    images: Sequence[bytes], fields: tuple[str, ...], keys: frozenset[Field]
) -> list[FieldColumn] | None:
    """The values of each field, all images decoded at once; None if that fails."""
    lines = b"\n".join(images)
    try:
        # Usually the first image tells which fields nest in all of them.
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
    """The column of one field from its values as a decoder has them (``core.row_images``): the
    same as from their text. ``encode_lines`` writes that text.
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
    """The kind of values, ignoring nulls; None for several kinds, and for others than texts,
    integers, booleans and floats.
    """
    kinds = frozenset(map(type, values))
    kind = _ONE_KIND.get(kinds) or _DECODED_KIND.get(kinds)
    return kind if kind in (str, int, bool) or (kind is float and _are_numbers(values)) else None


def _are_numbers(floats: Iterable[float | None]) -> bool:
    """Whether JSON can represent these floats; it writes null for others."""
    return isfinite(sum(filter(None, floats)))


_ONE_KIND: Final[dict[frozenset[type], type]] = {
    frozenset(kinds): kinds[0]
    for kinds in ((str,), (str, type(None)), (int,), (int, type(None)), (bool,), (bool, type(None)))
}


def _columns_of_texts(
    images: list[bytes], fields: tuple[str, ...], keys: frozenset[Field]
) -> list[Sequence[str | None]] | None:
    """The texts of each field, all images decoded at once; None if that fails."""
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
    """The indexes of columns with lists or objects: decoding has lost their white space."""
    return frozenset(place for place, each in enumerate(kinds) if not each <= _FLAT)


@lru_cache(256)
def _decoder_of(fields: tuple[str, ...], nesting: frozenset[int]) -> msgspec.json.Decoder[Any]:
    """A decoder of only these fields of objects; those at the indexes ``nesting`` stay text, and
    so does a number with a fraction or an exponent.
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
    """The texts of any image, at a third of the speed."""
    values = decode_object(image)
    texts: list[str | None] = []
    for field in fields:
        raw = values.get(field) if isinstance(field, str) else _inside(msgspec.Raw(image), field)
        texts.append(_key_text(raw) if field in keys else _text(raw))
    return texts


def _texts_or_none(image: bytes, fields: tuple[Field, ...], keys: frozenset[Field]) -> Texts:
    """``_exact_texts``; None for text that is not a JSON object."""
    try:
        return _exact_texts(image, fields, keys)
    except _FAILURES:
        return None


def _inside(raw: msgspec.Raw | None, path: Iterable[str]) -> msgspec.Raw | None:
    """The value at a path inside of another; None without one."""
    for step in path:
        if raw is None:
            return None
        start = bytes(memoryview(raw)[:1])
        if start == b"{":
            raw = decode_object(raw).get(step)
        elif start == b"[" and step.isascii() and step.isdecimal():
            raw = dict(enumerate(_decode_array(raw))).get(int(step))
        else:
            return None
    return raw


def texts_inside(text: bytes | None, paths: Sequence[Path]) -> list[str | None]:
    """The value at each path in a JSON object, as text like the values of fields; None without an
    object.

    Raises ``msgspec.DecodeError`` for text that is not JSON.
    """
    raw = None if text is None else msgspec.Raw(text)
    return [_text(_inside(raw, path)) for path in paths]


def texts_inside_of_many(
    objects: Sequence[bytes | None], paths: tuple[Path, ...]
) -> list[Sequence[str | None]]:
    """``texts_inside`` of each object, by path: all of them decoded at once, if possible."""
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
    """The values at paths in JSON objects; None if they can't be decoded at once: where a value
    on the way is not an object, one path continues where another one ends, or JSON escapes a name.
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
    """A decoder of the values at these paths in objects, as written."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is _END:
                return None
        if not path or node.setdefault(path[-1], _END) is not _END:
            return None
    try:
        return msgspec.json.Decoder(_struct_of(tree))
    except ValueError:
        # A Struct can't have a name that JSON escapes.
        return None


_END: Final[dict[str, Any]] = {}


def _struct_of(tree: dict[str, Any]) -> type[msgspec.Struct]:
    """A Struct of objects with nested ones."""
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
    """The texts of a partial image, and the changes inside of its fields; None if it is whole,
    because only a nested value has that name, or it is a column's.
    """
    values = decode_object(image)
    raw = values.pop(PARTIAL, None)
    try:
        changes = {name: decode_object(part) for name, part in decode_object(raw or b"").items()}
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
    """The text of the field of a path that a partial image does not name as a whole, and the
    changes inside of it.
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
    """The texts of decoded JSON values other than lists or objects."""
    if _is_text(map(type, values)):
        return values
    return [value if type(value) is str else _scalar_text(value) for value in values]


def _scalar_text(value: Any) -> str | None:
    """The text of a JSON value other than a string, list or object."""
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    return str(value, "utf-8") if type(value) is msgspec.Raw else _BOOLEANS[value]


_BOOLEANS: Final = {True: "true", False: "false"}


def json_elements(text: str | None) -> list[str | None] | None:
    """The texts of a JSON array's elements, in the form of fields; None for any other text."""
    if text is None or not text.startswith("["):
        return None
    try:
        elements: list[Any] = _decode_array(text)
    except _FAILURES:
        return None
    # In place: a value is freed as soon as its text is made.
    for place, raw in enumerate(elements):
        elements[place] = _text(raw)
    return elements


def json_entries(text: str | None) -> dict[str, str | None] | None:
    """The texts of a JSON object's values, in the form of fields; None for any other text."""
    if text is None or not text.startswith("{"):
        return None
    try:
        entries: dict[str, Any] = decode_object(text)
    except _FAILURES:
        return None
    for name, raw in entries.items():
        entries[name] = _text(raw)
    return entries


class Collections(NamedTuple):
    """The contents of many JSON arrays or objects, concatenated."""

    lengths: list[int | None]
    """The number of values in each; None for a text that is not such a collection."""
    names: list[str]
    """The names of the values in objects."""
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
    """``exact`` of each text; by ``decode``, if possible."""
    try:
        found = [decode(each) if each and each.startswith(start) else None for each in texts]
        if _are_flat(map(type, _joined(found, values_of))):
            return found
    except _FAILURES:
        pass
    # Not kept beside the others: small values take far more than their text.
    found = []
    return list(map(exact, texts))


def _texts_of(found: list[Any], values_of: Callable[[Any], Iterable[Any]]) -> list[str | None]:
    """The texts of all values; each value is freed as soon as its text is made."""
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
    # As for decoded numbers: integers have no negative zero.
    return _WRITTEN.get(text, text)


_WRITTEN: Final = {"null": None, "-0": "0"}


def _key_text(raw: msgspec.Raw | None) -> str | None:
    """``_text`` of a key's field: a number has a unique text, however it was sent."""
    if raw is None or bytes(memoryview(raw)[:1]) not in _MAY_BE_NUMBER:
        return _text(raw)
    try:
        value = key_value(_decode_number(raw))
    except _FAILURES:
        # Nested deeper than an object that is a number.
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


# The formats of org.apache.hadoop.hbase.util.Bytes, by the Spark type that they become.
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

    ``binary`` stays base64. None for no value, and for bytes that can't be a value of the type
    (not base64, the wrong length, not UTF-8, a decimal of thousands of digits): the change log
    reports those as misfits. ``ValueError`` for a type without a format in HBase.
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
        # Includes errors of base64 and UTF-8, which are ValueErrors.
        return None
