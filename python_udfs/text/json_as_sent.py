"""JSON text whose values are passed on as they were sent, without losing any.

    >>> load_whole(b'{"price": 1.50}')
    {'price': msgspec.Raw(b'1.50')}

Numbers with a fraction or exponent, and huge ones, are ``msgspec.Raw``: the text that was sent. A
name that comes twice in one object is ``bad_field``. To detect that, names are counted in the text
and in the result, which is faster than checking each one. Errors are those of ``json_text``.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from python_udfs.core.errors import BadField, DecodeError, TooLarge
from python_udfs.core.events import KEY_UPDATE_NOTES
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES
from python_udfs.text import json_text

VALUE: Final = msgspec.json.Decoder(float_hook=msgspec.Raw)
encode = msgspec.json.Encoder().encode
canonical = msgspec.json.Encoder(order="sorted").encode


def load_whole(text: bytes) -> Any:
    """The value of a JSON text of a Kafka message."""
    if len(text) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{len(text)} bytes: at most {MAX_PAYLOAD_BYTES} are decoded")
    if text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    compact = text
    try:
        if has_space(text):
            compact = msgspec.json.format(text, indent=-1)
        value = VALUE.decode(compact)
        if has_names(compact, count_names(value, MAX_DEPTH)):
            return value
    except json_text.FAILURES:
        # An error, or a number that msgspec does not convert.
        pass
    refuse_twice(text)
    return load(text)


def load_key(key: bytes | None) -> tuple[Any, dict[str, Any]]:
    """A Kafka key, and its part of metadata, which is empty without one.

    An undecodable key is not an error: it is None, and kept as base64.
    """
    if not key:
        return None, {}
    try:
        value = load_whole(key)
    except DecodeError:
        return None, {"event_key": b64encode(key).decode(), "event_key_encoding": "base64"}
    return value, {"event_key": value}


def metadata_of(rest: dict[str, Any], key_metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a message and of its Kafka key: the message's fields by their own names, or
    all in ``message``, if one has a name of the key's, or of the notes on a key update.
    """
    if not (KEY_UPDATE_NOTES | key_metadata.keys()).isdisjoint(rest):
        rest = {"message": rest}
    return rest | key_metadata


def load(text: bytes) -> Any:
    """The value of a JSON text that is known to have no duplicate name."""
    try:
        return VALUE.decode(text)
    except json_text.FAILURES:
        json_text.scan(text)
        return json_text.parse_slowly(text, msgspec.Raw)


def refuse_twice(text: bytes) -> None:
    """Raise for text that is not JSON, and for a duplicate name in an object."""
    # msgspec does not check skipped text for UTF-8.
    json_text.scan(text)
    duplicate = json_text.duplicate_name(text)
    if duplicate is not None:
        raise BadField(f"the name {shown(duplicate)} comes twice in one object")


def has_space(text: bytes) -> bool:
    """Whether names can't be counted: in compact text each has its colon right behind it."""
    return 0x0A in text or 0x09 in text or 0x0D in text or text.find(b" :") >= 0


_PARTED: Final[frozenset[type]] = frozenset({dict, list})
"""The types of values that have parts."""
_type_of: Callable[[Any], type] = type
# No text has so many names.
_TOO_DEEP: Final = -(2**62)


def count_names(value: Any, levels: int) -> int:
    """The number of names in a value's objects; negative if it has more levels."""
    values: Iterable[Any]
    if type(value) is dict:
        count = len(value)
        values = value.values()
    elif type(value) is list:
        count = 0
        values = value
    else:
        return 0
    if not levels:
        return _TOO_DEEP
    if not _PARTED.isdisjoint(map(_type_of, values)):
        for item in values:
            if type(item) is dict or type(item) is list:
                count += count_names(item, levels - 1)
    return count


def has_names(text: bytes, names: int) -> bool:
    """Whether compact text has exactly that many names. False also if that is uncertain.

    If it has more, a name was dropped: a duplicate, or one that was not requested.
    """
    found = text.count(b'":')
    if found == names:
        return True
    # In a string the quote is escaped, which looks like a name that ends with a backslash.
    return found - text.count(b'\\":') == names and text.find(b'\\\\"') < 0


def is_number(value: Any) -> bool:
    """Whether a value is a number, as sent or not."""
    return type(value) is int or type(value) is msgspec.Raw


def kind_of(value: Any) -> str:
    """The kind of a JSON value, for a sentence."""
    if value is None:
        return "null"
    if type(value) is bool:
        return "a boolean"
    if is_number(value):
        return "a number"
    if type(value) is str:
        return "a string"
    return "an array" if type(value) is list else "an object"


def shown(text: str) -> str:
    """A name or value from the payload, quoted, for a sentence."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
