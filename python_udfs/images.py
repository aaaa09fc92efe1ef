"""What a typed change log takes out of a row image: the exact text of its fields, and HBase's
binary values.

Spark's own ``from_json`` and ``get_json_object`` pass numbers through a double (``1.10`` becomes
``1.1``, thirty digits become seventeen), so the text is cut out of the JSON here and typed in SQL.
"""

import struct
from base64 import b64decode
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_names = msgspec.json.Decoder(tuple[tuple[str, ...], tuple[str, ...]]).decode
_encode = msgspec.json.Encoder().encode


Texts = list[str | None] | None
"""The values of fields; None for no image."""


class RowTexts(NamedTuple):
    """What a change says of a row: the texts of fields in each of its images."""

    before: Texts
    after: Texts
    key: Texts
    """Of the key fields, in the record key; None where the row image has all of them."""


def row_texts(
    before: str | None,
    after: str | None,
    record_key: str | None,
    fields: str,
) -> RowTexts:
    """The values of fields in both images of a change, as text: strings unquoted, everything else
    as it is written; and those of the key fields in its record key, which is looked at only where
    the row image (``after``, else ``before``) lacks one.

    ``fields`` is as of ``field_names``. A field that is absent or null is None. The images are what
    a decoder made, so text that is no JSON object is a bug and raises ``msgspec.DecodeError``.
    """
    befores, afters, keys = row_texts_of_many(
        [_encoded(before)], [_encoded(after)], [_encoded(record_key)], *field_names(fields)
    )
    return RowTexts(befores[0], afters[0], keys[0])


def field_names(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of the images and, of them, the key's, from the JSON of both lists. One text,
    since Spark copies even a constant for each row, and lists of texts one by one.
    """
    return _decode_names(text)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def row_texts_of_many(
    befores: Sequence[bytes | None],
    afters: Sequence[bytes | None],
    record_keys: Sequence[bytes | None],
    fields: tuple[str, ...],
    key_fields: tuple[str, ...],
) -> tuple[list[Texts], list[Texts], list[Texts]]:
    """``row_texts`` of each change, with images in UTF-8: the parts of ``RowTexts`` for all."""
    of_before, of_after = _texts_of_many(befores, fields), _texts_of_many(afters, fields)
    places = [fields.index(field) for field in key_fields]
    lacking = [
        record_key if row is None or any(row[place] is None for place in places) else None
        for row, record_key in zip(map(_row_image, of_before, of_after), record_keys, strict=True)
    ]
    return of_before, of_after, _texts_of_many(lacking, key_fields)


def _row_image(before: Texts, after: Texts) -> Texts:
    return before if after is None else after


def _texts_of_many(images: Sequence[bytes | None], fields: tuple[str, ...]) -> list[Texts]:
    """The texts of each image."""
    there = [image for image in images if image is not None]
    try:
        rows = _decoder_of(fields).decode_lines(b"\n".join(there))
    except (msgspec.DecodeError, ValueError):
        rows = []
    if len(rows) != len(there):
        # A number that is too long for a Python int, or a line break between tokens.
        return [None if image is None else _exact_texts(image, fields) for image in images]
    texts = iter([_texts(row, image, fields) for row, image in zip(rows, there, strict=True)])
    return [None if image is None else next(texts) for image in images]


def _exact_texts(image: bytes, fields: tuple[str, ...]) -> list[str | None]:
    """The texts of one image, half as fast, whatever is in it."""
    values = _decode_object(image)
    return [_text(values.get(field)) for field in fields]


@lru_cache(256)
def _decoder_of(fields: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Of the objects' fields only; a number with a fraction or an exponent stays its text."""
    names = [f"f{place}" for place in range(len(fields))]
    row = msgspec.defstruct(
        "Row",
        [(name, Any, None) for name in names],
        rename=dict(zip(names, fields, strict=True)),
        gc=False,
    )
    return msgspec.json.Decoder(row, float_hook=msgspec.Raw)


_are_flat = frozenset({str, int, bool, type(None), msgspec.Raw}).issuperset


def _texts(row: msgspec.Struct, image: bytes, fields: tuple[str, ...]) -> list[str | None]:
    values = structs.astuple(row)
    if not _are_flat(map(type, values)):
        # Decoded, lists and objects have lost their white space.
        return _exact_texts(image, fields)
    return [value if type(value) is str else _scalar_text(value) for value in values]


def _scalar_text(value: Any) -> str | None:
    """The text of a JSON value that is no string, list or object."""
    if value is None:
        return None
    return str(value) if type(value) is int else _encode(value).decode()


def json_elements(text: str | None) -> list[str | None] | None:
    """The elements of a JSON array as ``row_texts`` gives values, None for any other text."""
    if text is None or not text.startswith("["):
        return None
    try:
        return [_text(raw) for raw in _decode_array(text)]
    except msgspec.DecodeError:
        return None


def json_entries(text: str | None) -> dict[str, str | None] | None:
    """The values of a JSON object as ``row_texts`` gives them, None for any other text."""
    if text is None or not text.startswith("{"):
        return None
    try:
        return {name: _text(raw) for name, raw in _decode_object(text).items()}
    except msgspec.DecodeError:
        return None


def _text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    encoded = bytes(raw)
    if encoded[0] == 0x22:  # a quote
        return _decode_string(encoded)
    return None if encoded == b"null" else encoded.decode()


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
    if base_type == "binary" or value is None:
        return value
    read = _HBASE_READERS.get(base_type)
    if read is None:
        raise ValueError(f"no HBase form for type {type_name!r}: use {', '.join(_HBASE_READERS)}")
    try:
        return read(b64decode(value, validate=True))
    except (struct.error, ValueError):
        # Of base64 and UTF-8 too: their errors are ValueErrors.
        return None
