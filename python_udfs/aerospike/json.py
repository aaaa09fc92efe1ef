"""Aerospike Connect for Kafka, outbound JSON.

Implements the vendor's page "JSON Format for Outbound". A payload is one record, or a batch: an
array of records.

    write    {"msg": "write", "key": key, "gen": number, "exp": number, "lut": number,
              "bins": [bin]}
    delete   {"msg": "delete", "key": key, "durable": bool, "gen": number, "lut": number}
    key      [namespace, set | null, base64 digest, user key: string | number | null]
    bin      {"name": string, "type": string, "value": any, "ordered": bool, "order": string}

    {"msg":"write","key":["ns",null,"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null],"gen":1,"exp":0,
     "lut":1617167159548,"bins":[{"name":"n","type":"int","value":5}]}

Quirks: the page's own examples have commas before a closing bracket, so they are tolerated.
Real deletes carry the set name, may carry ``exp``, and may lack ``durable``, ``gen``, ``exp`` and
``lut``; older connectors write ``lut`` 0. A binary user key is base64 text and can't be told from
a string. Java writers put NaN and infinities of a double into strings.

Policies, where the page is silent:

- Numbers keep all their digits. ``gen``, ``exp``, ``lut`` and the value of an ``int`` bin must be
  written as integers; a ``float`` may be any number, or one of the strings NaN, Infinity and
  -Infinity. ``gen``, ``exp``, ``lut`` and ``durable`` may be null, as in MessagePack.
- A value that doesn't fit its type, such as a blob that isn't base64, is ``bad_field``. A type that
  the page doesn't list is kept, and its entry in ``metadata.bins`` says ``"unknown": true``.
- Members of a record or a bin that the page doesn't list are kept: in ``metadata`` and in the bin's
  entry of ``metadata.bins``, or, if the name is in use there, in their ``extra``.
- A property that comes twice is ``bad_field``, but not inside maps and lists, where it is data: an
  Aerospike map may hold the keys 1 and "1", which JSON writes alike. Such a map becomes an array of
  [key, value] pairs, as in MessagePack.
- If text ends or stops being JSON in the middle of a batch, the recognizable records are decoded
  and the rest is reported.

``metadata`` holds ``generation``, ``expiry``, ``lut`` and ``durable`` if present, ``user_key`` and
``user_key_type`` (``str``, ``int``, ``float``) if there is one, ``bins`` of writes as ``{name:
{"type", "ordered", "order", ...}}``, ``batch_size`` in a batch, ``event_key``; see ``records`` for
``nested`` and the Kafka key.
"""

import binascii
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

from python_udfs.aerospike.batches import split_json
from python_udfs.aerospike.fast_json import JsonWrites
from python_udfs.aerospike.lenient_json import MAX_INT_LENGTH, items, parse
from python_udfs.aerospike.records import (
    DIGEST_BYTES,
    NON_FINITE,
    EventKeys,
    NestedKinds,
    batch_events,
    check_key_shape,
    event_key_metadata,
    event_keys,
    expires_at,
    forgotten,
    occurred_at,
    record_key,
    tombstone,
)
from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, BadShape, BadType, DecodeError, TooLarge, Truncated
from python_udfs.core.events import (
    DELETE,
    FORGOTTEN,
    INVALID,
    KEY_UPDATE_NOTES,
    UPSERT,
    Decoded,
    Event,
    invalid,
)
from python_udfs.core.fast_path import FastPath
from python_udfs.core.limits import MAX_PAYLOAD_BYTES
from python_udfs.core.paths import Path, path_text, shorten
from python_udfs.text import json_text
from python_udfs.text.pairs import Pairs

_NON_FINITE_TEXTS: Final = frozenset(NON_FINITE.values())

# Properties of a record and their names in metadata; the others are handled separately.
_NUMBERS: Final = {"gen": "generation", "exp": "expiry", "lut": "lut"}
_WRITE_PROPERTIES: Final = frozenset({"msg", "key", "gen", "exp", "lut", "durable", "bins"})
_DELETE_PROPERTIES: Final = _WRITE_PROPERTIES - {"bins"}
METADATA_NAMES: Final = KEY_UPDATE_NOTES | {
    "generation",
    "expiry",
    "lut",
    "durable",
    "flags",
    "user_key",
    "user_key_type",
    "bins",
    "batch_size",
    "event_key",
    "extra",
}
_BIN_PROPERTIES: Final = frozenset({"name", "type", "value"})
_NOTE_NAMES: Final = frozenset({"nested", "unknown", "extra"})

_OPERATIONS: Final = {"write": UPSERT, "delete": DELETE}
_MISSING: Final = object()


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message: a record, a batch of records, or a tombstone.

    Tombstones are an empty value, JSON ``null`` and the JSON string ``"default"``. Returns one
    event per record, in the order of the batch; never empty. What is wrong with a payload becomes
    an ``invalid`` event.
    """
    return decode_records(key, value, _record, _parse_key)


Record = Callable[[Any, int, str, dict[str, Any], Budget], Event]
"""Makes an event from a record, its index, its path and its metadata so far, which it may extend;
or raises ``DecodeError``.
"""


def decode_records(
    key: bytes | None, value: bytes | None, record: Record, parse_key: Callable[[bytes], Any]
) -> list[Event]:
    """``decode`` for records of either form; ``parse_key`` makes ``[namespace, set, digest, user
    key]`` of a Kafka key, or several.
    """
    keys = event_keys(key, parse_key, DecodeError, is_key)
    if not value:
        return [tombstone_of(keys)]
    budget = Budget(len(value) + (len(key) if key else 0))
    try:
        if len(value) > MAX_PAYLOAD_BYTES:
            raise TooLarge(f"the payload has {len(value)} bytes, at most {MAX_PAYLOAD_BYTES}")
        tree = parse(value)
    except DecodeError as error:
        events = [] if isinstance(error, TooLarge) else _broken_batch(keys, value, record, budget)
        return events or [invalid_record(error, 0, event_key_metadata(keys, 0, 1))]
    if tree is None or tree == "default":
        return [tombstone_of(keys)]
    if type(tree) is list and tree:
        return _batch(keys, tree, len(tree), True, record, budget)
    metadata = event_key_metadata(keys, 0, 1)
    try:
        if type(tree) is list:
            raise BadShape("$: expected a record or a batch of records, got an empty array")
        return [record(tree, 0, "$", metadata, budget)]
    except DecodeError as error:
        return [invalid_record(error, 0, metadata)]


_FAST_PATH = FastPath(decode, JsonWrites())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)


def _broken_batch(
    keys: EventKeys | None, value: bytes, record: Record, budget: Budget
) -> list[Event]:
    """The recognizable events of a batch that can't be parsed; empty if a single error says
    everything.
    """
    batch = split_json(value)
    if batch is None:
        return []
    size = batch.size
    if not batch.whole and keys is not None:
        size = max(size, len(keys.keys))
    events = _batch(keys, items(value, batch), size, batch.whole, record, budget)
    # There is something to save, or the batch is truncated.
    if events[-1].error_code == Truncated.code or any(
        event.operation != INVALID for event in events
    ):
        return events
    return []


def _batch(
    keys: EventKeys | None,
    records: Iterable[Any],
    size: int,
    whole: bool,
    record: Record,
    budget: Budget,
) -> list[Event]:
    """One event per record of a batch; one may be an error."""
    room = budget.bytes // 2

    def metadata_of(index: int) -> dict[str, Any]:
        metadata = event_key_metadata(keys, index, size, room)
        if whole:
            metadata["batch_size"] = size
        return metadata

    def event(item: Any, index: int, at: str, metadata: dict[str, Any]) -> Event:
        return forgotten(index) if item == FORGOTTEN else record(item, index, at, metadata, budget)

    return batch_events(records, metadata_of, event, invalid_record, budget)


def _record(record: Any, index: int, at: str, columns: dict[str, Any], budget: Budget) -> Event:
    """The event of one record; ``columns`` is the metadata so far and is extended."""
    check_object(record, at)
    operation = operation_of(record, at)
    key = record.get("key", _MISSING)
    check_key_shape(key, at, kind_of)
    digest = check_key(key, at, _KEY_PLACES)
    metadata = metadata_of(record, key[3], at)
    after = None
    if operation == UPSERT:
        after, metadata["bins"] = _bins(record.get("bins", _MISSING), at, budget)
    metadata.update(columns)
    properties = _DELETE_PROPERTIES if after is None else _WRITE_PROPERTIES
    keep_others(record, properties, metadata, METADATA_NAMES, at)
    return event_of(index, operation, key, digest, after, metadata)


def check_object(record: Any, at: str) -> None:
    """Raise for anything but a record, and for a duplicate property."""
    if type(record) is Pairs:
        raise BadField(f"{at}: the property {_twice(record)} comes twice")
    if type(record) is not dict:
        raise BadShape(f"{at}: expected an object, got {kind_of(record)}")


def operation_of(record: dict[str, Any], at: str) -> str:
    """The operation in ``msg`` of an object at the path ``at``."""
    message = record.get("msg", _MISSING)
    if type(message) is not str:
        raise BadField(f'{at}.msg: expected "write" or "delete", got {kind_of(message)}')
    operation = _OPERATIONS.get(message)
    if operation is None:
        raise BadType(f'{at}.msg: expected "write" or "delete", got {_shown(message)}')
    return operation


def metadata_of(record: dict[str, Any], user_key: Any, at: str) -> dict[str, Any]:
    """The metadata from a record's numbers, its ``durable`` and its user key."""
    metadata: dict[str, Any] = {}
    for name, column in _NUMBERS.items():
        number = record.get(name, _MISSING)
        if number is not _MISSING:
            if type(number) is not int and number is not None:
                raise BadField(f"{at}.{name}: expected an integer, got {kind_of(number)}")
            metadata[column] = number
    durable = record.get("durable", _MISSING)
    if durable is not _MISSING:
        if type(durable) is not bool and durable is not None:
            raise BadField(f"{at}.durable: expected true or false, got {kind_of(durable)}")
        metadata["durable"] = durable
    if user_key is not None:
        metadata["user_key"] = user_key
        metadata["user_key_type"] = _USER_KEY_TYPES[type(user_key)]
    return metadata


def event_of(
    index: int,
    operation: str,
    key: Sequence[Any],
    digest: bytes,
    after: bytes | None,
    metadata: dict[str, Any],
) -> Event:
    """The event of a record whose key is checked."""
    return Event(
        index,
        operation,
        None,
        key[0],
        key[1],
        record_key(digest),
        None,
        after,
        occurred_at(metadata.get("lut")),
        expires_at(metadata.get("expiry")),
        json_text.dumps(metadata),
    )


_KEY_PLACES: Final = (
    ".key[0] (namespace)",
    ".key[1] (set)",
    ".key[2] (digest)",
    ".key[3] (user key)",
)


def check_key(key: Sequence[Any], at: str, places: Sequence[str]) -> bytes:
    """The digest of ``[namespace, set, digest, user key]``; raises for any other key.

    ``places`` has the path of each below ``at``.
    """
    namespace, set_name, digest, user_key = key
    if type(namespace) is not str:
        raise BadField(f"{at}{places[0]}: expected a string, got {kind_of(namespace)}")
    if set_name is not None and type(set_name) is not str:
        raise BadField(f"{at}{places[1]}: expected a string or null, got {kind_of(set_name)}")
    if type(digest) is not str and type(digest) is not bytes:
        raise BadField(f"{at}{places[2]}: expected a string, got {kind_of(digest)}")
    raw = _digest(digest)
    if raw is None or len(raw) != DIGEST_BYTES:
        got = f"{len(raw)} bytes" if raw is not None else "text that is not base64"
        coded = "base64 of " if type(digest) is str else ""
        raise BadField(f"{at}{places[2]}: expected {coded}{DIGEST_BYTES} bytes, got {got}")
    if user_key is not None and type(user_key) not in _USER_KEY_TYPES:
        raise BadField(
            f"{at}{places[3]}: expected a string, number or null, got {kind_of(user_key)}"
        )
    return raw


def _bins(bins: Any, at: str, budget: Budget) -> tuple[bytes, dict[str, Any]]:
    """The row image of a write as JSON, and ``metadata.bins``."""
    if type(bins) is not list:
        raise BadField(f"{at}.bins: expected an array, got {kind_of(bins)}")
    after: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    nested = NestedKinds(budget)
    for index, each in enumerate(bins):
        if type(each) is not dict:
            if type(each) is Pairs:
                raise BadField(f"{at}.bins[{index}]: the property {_twice(each)} comes twice")
            raise BadShape(f"{at}.bins[{index}]: expected an object, got {kind_of(each)}")
        name = each.get("name", _MISSING)
        code = each.get("type", _MISSING)
        value = each.get("value", _MISSING)
        if type(name) is not str:
            raise BadField(f"{at}.bins[{index}].name: expected a string, got {kind_of(name)}")
        if type(code) is not str:
            raise BadField(f"{at}.bins[{index}].type: expected a string, got {kind_of(code)}")
        if value is _MISSING:
            raise BadField(f"{at}.bins[{index}].value: expected a value, got nothing")
        if name in after:
            # The first one's value would be lost.
            raise BadField(f"{at}.bins[{index}].name: the name {_shown(name)} came before")
        note: dict[str, Any] = {"type": code}
        kind = type(value)
        if kind is not _TYPES.get(code):
            expected = _EXPECTED.get(code)
            if expected is None:
                note["unknown"] = True
            elif not (
                (code == "float" and kind is int)
                or (code == "float" and kind is str and value in _NON_FINITE_TEXTS)
                or (code == "map" and kind is Pairs)
            ):
                raise BadField(
                    f"{at}.bins[{index}].value: expected {expected} for type {code!r}, "
                    f"got {kind_of(value)}"
                )
        elif code == "blob" and _base64(value) is None:
            raise BadField(f"{at}.bins[{index}].value: expected base64, got other text")
        if kind in _CONTAINERS:
            if code == "geojson":
                _refuse_twice(value, None, f"{at}.bins[{index}].value")
            else:
                try:
                    value = with_pairs(value, None, nested)
                except TooLarge as error:
                    raise TooLarge(f"{at}.bins[{index}].value{error}") from None
                if kinds := nested.of_bin():
                    note["nested"] = kinds
        if len(each) > 3:
            if type(each.get("ordered")) not in _BOOL_OR_NULL:
                got = kind_of(each["ordered"])
                raise BadField(f"{at}.bins[{index}].ordered: expected true or false, got {got}")
            if type(each.get("order")) not in _STRING_OR_NULL:
                got = kind_of(each["order"])
                raise BadField(f"{at}.bins[{index}].order: expected a string, got {got}")
            keep_others(each, _BIN_PROPERTIES, note, _NOTE_NAMES, f"{at}.bins[{index}]")
        after[name] = value
        notes[name] = note
    return json_text.dumps(after), notes


def keep_others(
    fields: dict[str, Any],
    handled: frozenset[str],
    target: dict[str, Any],
    taken: frozenset[str],
    at: str,
) -> None:
    """Copy the properties that aren't ``handled`` to ``target``, or under ``extra`` if their name
    is ``taken``.
    """
    for name, value in fields.items():
        if name not in handled:
            if type(value) in _CONTAINERS:
                _refuse_twice(value, (None, name), at)
            if name in taken:
                target.setdefault("extra", {})[name] = value
            else:
                target[name] = value


def with_pairs(value: Any, path: Path, nested: NestedKinds) -> Any:
    """A list or map in which objects with duplicate names are arrays of pairs, noted in
    ``nested``.
    """
    kind = type(value)
    if kind is list:
        for index, item in enumerate(value):
            if type(item) in _CONTAINERS:
                value[index] = with_pairs(item, (path, index), nested)
    elif kind is dict:
        for name, item in value.items():
            if type(item) in _CONTAINERS:
                value[name] = with_pairs(item, (path, name), nested)
    elif kind is Pairs:
        nested.add(path, "map")
        for index, (name, item) in enumerate(value):
            value[index] = [name, with_pairs(item, ((path, index), 1), nested)]
    return value


def _refuse_twice(value: Any, path: Path, root: str) -> None:
    """Raise if an object in ``value`` has a duplicate name; such a value couldn't be kept."""
    kind = type(value)
    if kind is Pairs:
        at = shorten(path_text(path, root))
        raise BadField(f"{at}: the property {_twice(value)} comes twice")
    if kind is list:
        for index, item in enumerate(value):
            if type(item) in _CONTAINERS:
                _refuse_twice(item, (path, index), root)
    elif kind is dict:
        for name, item in value.items():
            if type(item) in _CONTAINERS:
                _refuse_twice(item, (path, name), root)


def _twice(pairs: Pairs) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return _shown(name)
        seen.add(name)
    raise AssertionError("Pairs in JSON are made of a name that comes twice")


def _digest(shipped: str | bytes) -> bytes | None:
    """A digest in base64, or unchanged if it does not come from JSON."""
    return _base64(shipped) if isinstance(shipped, str) else shipped


def _base64(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


_CONTAINERS: Final = frozenset({list, dict, Pairs})
_BOOL_OR_NULL: Final = frozenset({bool, type(None)})
_STRING_OR_NULL: Final = frozenset({str, type(None)})
# The last two are Avro's: JSON's numbers keep their digits, and it has no bytes.
_USER_KEY_TYPES: Final = {str: "str", int: "int", Decimal: "float", float: "float", bytes: "bin"}
_TYPES: Final[dict[str, type]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": Decimal,
    "blob": str,
    "list": list,
    "map": dict,
    "geojson": dict,
}
_EXPECTED: Final = {
    "str": "a string",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "blob": "base64 text",
    "list": "an array",
    "map": "an object",
    "geojson": "an object",
}
_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    Decimal: "a number with a fraction or exponent",
    float: "a number with a fraction or exponent",
    str: "a string",
    bytes: "bytes",
    list: "an array",
    dict: "an object",
    Pairs: "an object",
    object: "nothing",
}


def kind_of(value: Any) -> str:
    if type(value) is Decimal and value.same_quantum(0) and len(str(value)) >= MAX_INT_LENGTH:
        return f"an integer with too many digits ({value.adjusted() + 1})"
    return _KINDS[type(value)]


def _shown(text: str) -> str:
    """A name or value from the payload, quoted, for a sentence."""
    return shorten(repr(text))


def invalid_record(error: DecodeError, index: int, metadata: dict[str, Any]) -> Event:
    """The event of a record that can't be decoded."""
    return invalid(error, index, json_text.dumps(metadata) if metadata else None)


# Kafka keys


def tombstone_of(keys: EventKeys | None) -> Event:
    """The event of a message without a value."""
    digest = _digest(keys.keys[0][2]) if keys is not None and len(keys.keys) == 1 else None
    return tombstone(keys, digest, json_text.dumps)


_parse_key = partial(json_text.parse, trailing_commas=True)


def is_key(key: Any) -> bool:
    """Whether a value is a record's key."""
    if type(key) is not list or len(key) != 4:
        return False
    try:
        check_key(key, "$", _KEY_PLACES)
    except DecodeError:
        return False
    return True
