"""MongoDB's Extended JSON: documents as JSON text, with objects for types that JSON lacks.

Implements the specification "Extended JSON" (canonical and relaxed, version 2) and the strict mode
of version 1, in which Debezium writes documents by default:

    {"_id": {"$oid": "67ab25755c0d5ac87eb8c632"}, "n": {"$numberLong": "5"}, "at": {"$date": 0}}

    >>> load_document("$.after", '{"n": {"$numberLong": "5"}, "at": {"$date": 0}}')
    ({'n': 5, 'at': '1970-01-01T00:00:00.000Z'}, {'n': 'long', 'at': 'date'})

The result for a value and, if plain JSON does not show it, its type by MongoDB's own name:

    $oid                              objectId      its hex digits, in lower case
    $numberInt, $numberLong           int, long     a number
    $numberDouble, $numberDecimal     double, decimal   a number with the digits that were sent;
                                                    "NaN", "Infinity", "-Infinity"
    $date                             date          an instant in ISO 8601, with milliseconds
    $binary (both versions), $uuid    binData, binData(04)   base64, and the subtype except 00
    $symbol, $code                    symbol, javascript     text
    $undefined                        undefined     null
    $regularExpression, $regex        regex         {"$regularExpression": {"pattern", "options"}}

``$timestamp``, ``$minKey``, ``$maxKey``, ``$dbPointer`` and ``$code`` with ``$scope`` have no plain
form: they stay objects. So do references (``$ref``), and other names with a dollar sign, which a
document may have. Types are a tree like the document; an array whose values are all of one type has
it once, in a list.

Policies:

- An object with one of these names must have the form of its type, else it is ``bad_field``. A name
  that comes twice in one object is ``bad_field`` too.
- Numbers of MongoDB's version 1 that are not JSON are read: NaN, Infinity, -Infinity.
- Dates are the 64 bits of BSON; beyond the years 0 to 9999 a year has a sign.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, DecodeError, TooDeep, TooLarge
from python_udfs.core.limits import MAX_PAYLOAD_BYTES
from python_udfs.core.paths import Path, path_text
from python_udfs.debezium.values import date_text
from python_udfs.text import json_as_sent
from python_udfs.text.counting import count_byte
from python_udfs.text.json_as_sent import is_number, kind_of, shown
from python_udfs.text.json_lines import FLAT_BYTES, may_be_deep
from python_udfs.text.json_text import FAILURES, check_depth

Types = Any
"""A type's name, a tree of them, or None without a type."""
Loaded = tuple[dict[str, Any], Types]
"""A document and its types."""

_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_HEX_24: Final = re.compile(r"[0-9a-fA-F]{24}")
_SUBTYPE: Final = re.compile(r"[0-9a-fA-F]{1,2}")
_UUID: Final = re.compile(
    r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}"
)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
# Certainly within 64 bits.
_SHORT_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]{1,6})?", re.ASCII)
_ISO: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,3})0*)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})"
)
# Strings are skipped.
_NO_JSON: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?Infinity|NaN', re.DOTALL)
_INT_BITS: Final = {"$numberInt": 31, "$numberLong": 63}
_LIMITS: Final = {name: 2**bits for name, bits in _INT_BITS.items()}
# Most ids have this form.
_OID: Final = re.compile(r'\{"\$oid" ?: ?"([0-9a-fA-F]{24})"\}')
# The output for an object that stands for a number, for each additional byte.
_STAND_IN_FACTOR: Final = 16


def load_document(where: str, text: str) -> tuple[dict[str, Any], Types]:
    """A document and its types. ``where`` is the path of the text, for errors."""
    # A document is not a value: its names may be any.
    document, types = _load(where, text, _document)
    return document, types


def load_documents(where: str, texts: Sequence[str]) -> list[Loaded] | None:
    """``load_document`` of many texts, in less time; None if one of them is unusual."""
    lines = "\n".join(texts).encode()
    if (
        count_byte(lines, b"\n") != len(texts) - 1
        or b"\t" in lines
        or b"\r" in lines
        or b" :" in lines
        or (
            max(map(len, texts)) > FLAT_BYTES
            and any(len(text) > FLAT_BYTES and may_be_deep(text.encode()) for text in texts)
        )
    ):
        return None
    reading = _Reading(where)
    try:
        values = json_as_sent.VALUE.decode_lines(lines)
        found = [_document(value, reading, None) for value in values]
    except (*FAILURES, DecodeError):
        return None
    # No text has fewer names than are read from it: if the totals agree, so does each.
    if len(found) != len(texts) or not json_as_sent.has_names(lines, reading.names):
        return None
    return found


def load_value(where: str, text: str) -> tuple[Any, Types]:
    """Any value and its types, as of ``load_document``."""
    object_id = _OID.fullmatch(text)
    if object_id is not None:
        return object_id[1].lower(), "objectId"
    return _load(where, text, _value)


def read_document(where: str, value: Any) -> Loaded:
    """``load_document`` of JSON that was loaded by ``load_whole``, whose values are replaced."""
    document, types = _document(value, _Reading(where), None)
    return document, types


def read_value(where: str, value: Any) -> tuple[Any, Types]:
    """``load_value``, as ``read_document``."""
    return _value(value, _Reading(where), None)


def load_whole(text: bytes) -> Any:
    """``json_as_sent.load_whole`` for text whose numbers may be NaN, Infinity and -Infinity."""
    try:
        return json_as_sent.load_whole(text)
    except DecodeError as error:
        standing_in = _NO_JSON.sub(_stand_in, text)
        if standing_in == text:
            raise
        # Other errors are reported with their position in the text.
        json_as_sent.load_whole(_NO_JSON.sub(_as_long, text))
        Budget(len(text)).spend((len(standing_in) - len(text)) * _STAND_IN_FACTOR)
        try:
            return json_as_sent.load_whole(standing_in)
        except DecodeError:
            # In place of a name.
            raise error from None


def _load(where: str, text: str, convert: "_Reader") -> tuple[Any, Types]:
    encoded = text.encode()
    if len(encoded) <= MAX_PAYLOAD_BYTES and not json_as_sent.has_space(encoded):
        # Names are counted while values are converted: most texts have no duplicates.
        try:
            if len(encoded) > FLAT_BYTES:
                check_depth(encoded)
            reading = _Reading(where)
            found = convert(json_as_sent.VALUE.decode(encoded), reading, None)
            if json_as_sent.has_names(encoded, reading.names):
                return found
        except (*FAILURES, DecodeError):
            # An error, or another reason comes first.
            pass
    return convert(_carefully(where, encoded), _Reading(where), None)


def _carefully(where: str, text: bytes) -> Any:
    try:
        return load_whole(text)
    except (TooDeep, TooLarge) as error:
        raise type(error)(f"{where}: {error} of the text") from None
    except DecodeError as error:
        raise BadField(f"{where}: expected a document as JSON text; in the text: {error}") from None


def _stand_in(match: re.Match[bytes]) -> bytes:
    found = match[0]
    return found if found[0] == 0x22 else b'{"$numberDouble":"%b"}' % found


def _as_long(match: re.Match[bytes]) -> bytes:
    found = match[0]
    return found if found[0] == 0x22 else b'"%b"' % found[2:]


class _Reading:
    """The path of a text, and the number of names read from it."""

    __slots__ = ("names", "where")

    def __init__(self, where: str) -> None:
        self.where = where
        self.names = 0

    def bad(self, path: Path, expected: str, found: Any) -> BadField:
        got = kind_of(found)
        if type(found) is str:
            got = shown(found)
        elif is_number(found):
            got = bytes(found).decode() if isinstance(found, msgspec.Raw) else str(found)
            got = shown(got)
        return BadField(f"{path_text(path, self.where)}: expected {expected}, got {got}")


def _document(value: Any, reading: _Reading, path: Path) -> tuple[Any, Types]:
    if type(value) is not dict:
        raise BadField(f"{reading.where}: expected a document as JSON text, got {kind_of(value)}")
    return value, _members(value, reading, path)


def _value(value: Any, reading: _Reading, path: Path) -> tuple[Any, Types]:
    if type(value) is dict:
        for name in value:
            read = _READERS.get(name)
            if read is not None:
                reading.names += len(value)
                if len(value) > 1 and name not in _WITH_OTHERS:
                    _only(value, reading, path, name)
                return read(value, reading, path)
        return value, _members(value, reading, path)
    if type(value) is list:
        return value, _elements(value, reading, path)
    return value, None


def _members(document: dict[str, Any], reading: _Reading, path: Path) -> Types:
    """Convert the values in place. Returns their types by name."""
    reading.names += len(document)
    types: dict[str, Types] = {}
    for name, value in document.items():
        kind = type(value)
        if kind is dict or kind is list:
            if kind is dict and len(value) == 1:
                (mark,) = value
                if mark in _USUAL:
                    usual, type_name = _USUAL[mark]
                    plain = usual(value[mark])
                    if plain is not None:
                        reading.names += 1
                        document[name], types[name] = plain, type_name
                        continue
            document[name], told = _value(value, reading, (path, name))
            if told is not None:
                types[name] = told
    return types or None


def _elements(values: list[Any], reading: _Reading, path: Path) -> Types:
    types: list[Types] = []
    for index, value in enumerate(values):
        if type(value) is dict or type(value) is list:
            values[index], told = _value(value, reading, (path, index))
            types.append(told)
        else:
            types.append(None)
    if len(types) > 1 and type(types[0]) is str and types.count(types[0]) == len(types):
        return types[:1]
    return {str(index): told for index, told in enumerate(types) if told is not None} or None


# --- Types ----------------------------------------------------------------------------------------

_Reader = Callable[[dict[str, Any], _Reading, Path], tuple[Any, Types]]


def _only(value: dict[str, Any], reading: _Reading, path: Path, name: str, *others: str) -> Any:
    """The member of that name. The object must have it, the others, and no more."""
    for other in value:
        if other != name and other not in others:
            raise BadField(
                f"{path_text((path, other), reading.where)}: expected nothing beside {name}"
            )
    for other in others:
        if other not in value:
            raise BadField(f"{path_text((path, other), reading.where)}: missing beside {name}")
    return value[name]


def _object_id(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    digits = value["$oid"]
    if type(digits) is not str or not _HEX_24.fullmatch(digits):
        raise reading.bad((path, "$oid"), "24 hex digits", digits)
    return digits.lower(), "objectId"


def _text(name: str, type_name: str) -> _Reader:
    def read(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
        text = value[name]
        if type(text) is not str:
            raise reading.bad((path, name), "a string", text)
        return text, type_name

    return read


def _integer(name: str, type_name: str) -> _Reader:
    def read(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
        return _whole(value[name], name, reading, (path, name)), type_name

    return read


def _whole(found: Any, name: str, reading: _Reading, path: Path) -> int:
    limit = _LIMITS[name]
    number = found
    if type(found) is str and _INTEGER.fullmatch(found):
        number = int(found)
    if type(number) is not int or not -limit <= number < limit:
        raise reading.bad(path, f"an integer of {_INT_BITS[name] + 1} bits as text", found)
    return number


def _fraction(name: str, type_name: str) -> _Reader:
    def read(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
        found = value[name]
        if type(found) is str:
            if found in _NOT_FINITE:
                return found, type_name
            if _NUMBER.fullmatch(found):
                return msgspec.Raw(found.encode()), type_name
        elif is_number(found):
            return found, type_name
        raise reading.bad((path, name), "a number as text, NaN, Infinity or -Infinity", found)

    return read


def _date(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    found = value["$date"]
    path = (path, "$date")
    if type(found) is dict:
        reading.names += len(found)
        found = _only(found, reading, path, "$numberLong") if found else None
        return _instant(_whole(found, "$numberLong", reading, (path, "$numberLong"))), "date"
    if type(found) is int and -(2**63) <= found < 2**63:
        return _instant(found), "date"
    text = _from_iso(found) if type(found) is str and len(found) < _LONGEST_ISO else None
    if text is None:
        raise reading.bad(path, "milliseconds or an ISO 8601 date with time and zone", found)
    return text, "date"


_LONGEST_ISO: Final = 64


def _instant(milliseconds: int) -> str:
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{_minute_text(minutes)}{rest // 1000:02d}.{rest % 1000:03d}Z"


@lru_cache(4096)
def _minute_text(minutes: int) -> str:
    days, minute = divmod(minutes, 24 * 60)
    return f"{date_text(days)}T{minute // 60:02d}:{minute % 60:02d}:"


@lru_cache(4096)
def _from_iso(text: str) -> str | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    try:
        time = datetime.fromisoformat(f"{match[1]}+00:00")
        offset = datetime.fromisoformat(f"1970-01-01T00:00:00{match[3]}").timestamp()
    except ValueError:
        return None
    milliseconds = int((match[2] or "").ljust(3, "0"))
    # 00:00 there is the offset's seconds later, or earlier, in UTC.
    return _instant(int(time.timestamp() + offset) * 1000 + milliseconds)


def _binary(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    where: Path = (path, "$binary")
    if type(value["$binary"]) is dict:
        parts = _only(value, reading, path, "$binary")
        reading.names += len(parts)
        if "base64" not in parts:
            raise BadField(f"{path_text((where, 'base64'), reading.where)}: missing")
        text, subtype = _only(parts, reading, where, "base64", "subType"), parts["subType"]
        at: Path = (where, "subType")
        where = (where, "base64")
    else:
        text, subtype = _only(value, reading, path, "$binary", "$type"), value["$type"]
        at = (path, "$type")
    if type(text) is not str or not _BASE64.fullmatch(text):
        raise reading.bad(where, "base64", text)
    if type(subtype) is not str or not _SUBTYPE.fullmatch(subtype):
        raise reading.bad(at, "one or two hex digits", subtype)
    subtype = subtype.lower().zfill(2)
    return text, "binData" if subtype == "00" else f"binData({subtype})"


def _uuid(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    text = value["$uuid"]
    if type(text) is not str or not _UUID.fullmatch(text):
        raise reading.bad((path, "$uuid"), "a UUID", text)
    return b64encode(bytes.fromhex(text.replace("-", ""))).decode(), "binData(04)"


def _undefined(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    found = value["$undefined"]
    if found is not True:
        raise reading.bad((path, "$undefined"), "true", found)
    return None, "undefined"


def _bound(name: str) -> _Reader:
    def read(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
        found = value[name]
        if found != 1 or type(found) is not int:
            raise reading.bad((path, name), "1", found)
        return value, None

    return read


def _timestamp(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    parts = _parts(value, reading, path, "$timestamp", "t", "i")
    for name, part in parts.items():
        if type(part) is not int or not 0 <= part < 2**32:
            raise reading.bad(((path, "$timestamp"), name), "an integer from 0 to 2^32-1", part)
    return value, None


def _regular_expression(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    parts = _parts(value, reading, path, "$regularExpression", "pattern", "options")
    for name, part in parts.items():
        if type(part) is not str:
            raise reading.bad(((path, "$regularExpression"), name), "a string", part)
    return value, "regex"


def _regex(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    pattern, options = value["$regex"], value.get("$options")
    if len(value) == 2 and type(pattern) is str and type(options) is str:
        return {"$regularExpression": {"pattern": pattern, "options": options}}, "regex"
    # A query operator, by the specification.
    reading.names -= len(value)
    return value, _members(value, reading, path)


def _db_pointer(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    parts = _parts(value, reading, path, "$dbPointer", "$ref", "$id")
    if type(parts["$ref"]) is not str:
        raise reading.bad(((path, "$dbPointer"), "$ref"), "a string", parts["$ref"])
    reading.names -= len(parts)
    types = _members(parts, reading, (path, "$dbPointer"))
    if types != {"$id": "objectId"}:
        raise reading.bad(((path, "$dbPointer"), "$id"), "an ObjectId", parts["$id"])
    return value, {"$dbPointer": types}


def _code(value: dict[str, Any], reading: _Reading, path: Path) -> tuple[Any, Types]:
    if "$scope" not in value:
        _only(value, reading, path, "$code")
        return _text("$code", "javascript")(value, reading, path)
    code, scope = _only(value, reading, path, "$code", "$scope"), value["$scope"]
    if type(code) is not str:
        raise reading.bad((path, "$code"), "a string", code)
    if type(scope) is not dict:
        raise reading.bad((path, "$scope"), "a document", scope)
    types = _members(scope, reading, (path, "$scope"))
    return value, {"$scope": types} if types else None


def _parts(
    value: dict[str, Any], reading: _Reading, path: Path, name: str, *names: str
) -> dict[str, Any]:
    """The object of a name, which must have exactly those parts."""
    parts = value[name]
    if type(parts) is dict:
        reading.names += len(parts)
    if type(parts) is not dict or parts.keys() != set(names):
        raise reading.bad((path, name), f"an object with {' and '.join(names)}", parts)
    return parts


_READERS: Final[dict[str, _Reader]] = {
    "$oid": _object_id,
    "$symbol": _text("$symbol", "symbol"),
    "$numberInt": _integer("$numberInt", "int"),
    "$numberLong": _integer("$numberLong", "long"),
    "$numberDouble": _fraction("$numberDouble", "double"),
    "$numberDecimal": _fraction("$numberDecimal", "decimal"),
    "$date": _date,
    "$binary": _binary,
    "$uuid": _uuid,
    "$code": _code,
    "$undefined": _undefined,
    "$minKey": _bound("$minKey"),
    "$maxKey": _bound("$maxKey"),
    "$timestamp": _timestamp,
    "$regularExpression": _regular_expression,
    "$regex": _regex,
    "$dbPointer": _db_pointer,
}
# The most frequent forms of the most frequent types, whose types need no note; None for others.


def _usual_object_id(digits: Any) -> str | None:
    return digits.lower() if type(digits) is str and _HEX_24.fullmatch(digits) else None


def _usual_long(text: Any) -> int | None:
    return int(text) if type(text) is str and _SHORT_INTEGER.fullmatch(text) else None


def _usual_number(text: Any) -> msgspec.Raw | None:
    return msgspec.Raw(text.encode()) if type(text) is str and _NUMBER.fullmatch(text) else None


def _usual_date(found: Any) -> str | None:
    return _instant(found) if type(found) is int and -(2**63) <= found < 2**63 else None


_USUAL: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "$oid": (_usual_object_id, "objectId"),
    "$numberLong": (_usual_long, "long"),
    "$numberDouble": (_usual_number, "double"),
    "$numberDecimal": (_usual_number, "decimal"),
    "$date": (_usual_date, "date"),
}
_WITH_OTHERS: Final = frozenset({"$binary", "$code", "$regex"})
"""Names whose readers check the members beside them."""
