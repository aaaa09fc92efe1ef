"""Aerospike Connect for Kafka, outbound MessagePack: connectors before 4.0 and from 4.0 on.

Implements both editions of the vendor's page "MessagePack Format for Outbound". A payload is one
record, or a batch: an array of records. Every ``[...]`` is a MessagePack array:

    record   [version = 1, type, payload]
    WRITE    1, payload [key, generation, expiry, LUT, bins]
    DELETE   2, payload [key, flags]                           connectors before 4.0
                        [key, flags, generation, expiry, LUT]  connectors from 4.0 on
    key      [namespace str, set str|nil, digest bin, user key str|int|bin|nil]
    bin      [name str, type int, flags int, value]

A write of bin ``n`` = 5 without expiry, digest and LUT shortened to ``..``:

    93 01 01                           record: version 1, WRITE
      95                               payload
        94 a2 6e73 c0 c414.. c0        key: "ns", no set, 20 bytes, no user key
        01 00 cf..                     generation 1, expiry 0, LUT as uint64
        91 94 a1 6e 01 00 05           bins: [["n", INTEGER, 0, 5]]

Quirks: the older page says that a write has four parts and draws five; five are shipped. LUT is in
milliseconds from 4.0 on, in seconds or zero before; generation, expiry and LUT are nil from 4.0 on
where the server doesn't ship them. Real servers also ship particle types NULL (0) and HLL (18).

Policies, where the pages are silent:

- A value of a listed type must have the MessagePack type that the page lists for it, else it is
  ``bad_field``, even a DOUBLE that is an int. A value of another type is kept as it is, and its
  entry in ``metadata.bins`` says ``"unknown": true``.
- A digest has 20 bytes. Bin flags and delete flags that the page doesn't list are kept.
- Integers keep all 64 bits, signed or not; float32 is the double of the same value.
- An ext value is base64, except an ext 23 that holds a JSON object. Ext types occur inside maps and
  lists only: as the value of a bin they are ``bad_field``, unless its type is unknown.
- Invalid UTF-8 is ``bad_field``; it is not a reason to guess at another encoding.
- In a batch each record is decoded by itself. After a byte that can't be MessagePack nothing more
  can be read: the records before it are kept, and one event reports it. The same applies to a batch
  that ends too early and to bytes after its end.

``metadata`` holds ``generation``, ``expiry``, ``lut`` (null where nil was shipped), ``flags`` and
``durable`` of deletes, ``user_key`` and ``user_key_type`` (``str``, ``int``, ``bin``) if there is
one, ``bins`` of writes as ``{name: {"type", "flags", "nested", "unknown"}}``, ``batch_size`` in a
batch, ``event_key``; see ``records`` for ``nested`` and the Kafka key.

The msgpack library decodes well-formed payloads. If it refuses one, ``messagepack.Walker`` reads
the same bytes slowly and either finds the error and its place, or returns the library's result.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Final, NoReturn

import msgpack
import msgspec

from python_udfs.aerospike.batches import Batch, split_messagepack
from python_udfs.aerospike.fast_messagepack import MessagePackWrites
from python_udfs.aerospike.particles import (
    DOUBLE,
    GEOJSON,
    JAVA_OBJ,
    LIST,
    LISTED,
    MAP,
    SCALARS,
)
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
from python_udfs.core.errors import (
    BadField,
    BadShape,
    BadType,
    BadVersion,
    DecodeError,
    NotMessagePack,
    TooDeep,
    TooLarge,
    TrailingBytes,
    Truncated,
)
from python_udfs.core.events import DELETE as DELETE_OPERATION
from python_udfs.core.events import FORGOTTEN, UPSERT, Decoded, Event, invalid
from python_udfs.core.fast_path import FastPath
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES
from python_udfs.core.paths import Path, path_text, shorten, step_text
from python_udfs.text import json_text
from python_udfs.text.messagepack import LIBRARY_ERRORS, Ext, Walker, unpack
from python_udfs.text.pairs import Pairs

VERSION: Final = 1
WRITE: Final = 1
DELETE: Final = 2
DURABLE_DELETE: Final = 0x01

_USER_KEY_TYPES: Final = {str: "str", int: "int", bytes: "bin"}
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_KEY_PARTS: Final = ("namespace", "set", "digest", "user_key")
_BIN_PARTS: Final = ("name", "type", "flags", "value")

# The depth of a bin's value in a single record: record, payload, bins, bin, value.
_VALUE_DEPTH: Final = 5
_UNUSUAL_NUMBER: Final = re.compile(rb"[0-9][eE]|[0-9]{18}")

_decode_json_object = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode
# An event from all of its fields in order, in half the time of Event().
_event: Callable[[tuple[Any, ...]], Event] = partial(tuple.__new__, Event)


# The possible first bytes of an array of three elements.
_ARRAYS_OF_THREE: Final = frozenset({0x93, 0xDC, 0xDD})


class _NeedsWalker(Exception):
    """The library decoded something whose bytes can't be recovered."""


_UNTOLD: Final = (*LIBRARY_ERRORS, _NeedsWalker)


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message: a record, a batch of records, or an empty value (a tombstone).

    Returns one event per record, in the order of the batch; never empty. A bad payload becomes an
    ``invalid`` event.
    """
    if not value:
        keys = _event_keys(key)
        digest = keys.keys[0][2] if keys is not None and len(keys.keys) == 1 else None
        return [tombstone(keys, digest, _encode)]
    if len(value) > MAX_PAYLOAD_BYTES:
        error = TooLarge(f"the payload has {len(value)} bytes, at most {MAX_PAYLOAD_BYTES}")
        return [_invalid(error, 0, event_key_metadata(_event_keys(key), 0, 1))]
    try:
        return _decode_tree(key, unpack(value), _budget(key, value))
    except _UNTOLD:
        return _decode_walking(key, value, _budget(key, value))


_FAST_PATH = FastPath(decode, MessagePackWrites())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)


def _budget(key: bytes | None, value: bytes) -> Budget:
    return Budget(len(value) + (len(key) if key else 0))


def _decode_tree(key: bytes | None, tree: Any, budget: Budget) -> list[Event]:
    if type(tree) is not list:
        error: DecodeError = BadShape(f"$: expected an array, got {_kind(tree)}")
    elif not tree:
        error = BadShape("$: expected a record or a batch of records, got an empty array")
    elif _is_batch(tree):
        record = partial(_record, depth=_VALUE_DEPTH + 1, budget=budget)
        return _batch(_event_keys(key), tree, len(tree), record, budget)
    else:
        try:
            return [_record(tree, 0, "$", _single_metadata(key), _VALUE_DEPTH, budget)]
        except DecodeError as caught:
            error = caught
    return [_invalid(error, 0, event_key_metadata(_event_keys(key), 0, 1))]


def _decode_walking(key: bytes | None, value: bytes, budget: Budget) -> list[Event]:
    """Decode with ``Walker``, which reports errors and saves the good records of a batch."""
    walker = Walker(value, _walked_path)
    try:
        kind, length = walker.header()
        if kind != "array":
            raise BadShape(f"$: expected an array, got {kind}, byte 0x{value[0]:02x}")
        first_is_array = length > 0 and walker.at_array()
        batch = split_messagepack(value)
        assert batch is not None
        if not first_is_array and not _holds_record(walker, batch):
            # Read as one value, it would have one error, and other paths.
            walker.pos = 0
            walker.root = "$"
            walker.path.clear()
            tree = walker.read(1)
            walker.expect_end()
            return _decode_tree(key, tree, budget)
    except DecodeError as error:
        return [_invalid(error, 0, event_key_metadata(_event_keys(key), 0, 1))]

    def record(span: tuple[int, int], index: int, at: str, metadata: dict[str, Any]) -> Event:
        left = budget.left
        try:
            tree = unpack(value[slice(*span)])
            return _record(tree, index, at, metadata, _VALUE_DEPTH + 1, budget)
        except _UNTOLD:
            budget.left = left
            tree = _walked(walker, span[0], index)
            return _record(tree, index, at, metadata, _VALUE_DEPTH + 1, budget)

    return _batch(_event_keys(key), _items(walker, batch), length, record, budget)


def _items(walker: Walker, batch: Batch) -> Iterator[tuple[int, int] | DecodeError]:
    """The spans of a batch's elements; at the end, if needed, the reason why it can't be
    read on.
    """
    yield from batch.spans()
    if batch.rest is None:
        return
    walker.pos = batch.rest
    try:
        if batch.whole:
            walker.expect_end()
        _walked(walker, batch.rest, len(batch.starts))
    except (Truncated, NotMessagePack, TrailingBytes) as error:
        yield error
    except DecodeError:
        # There is another error before the element's end, which does not exist.
        walker.pos = batch.rest
        walker.path.clear()
        try:
            walker.skip()
        except DecodeError as error:
            yield error


def _walked(walker: Walker, start: int, index: int) -> Any:
    """An element of a batch."""
    walker.pos = start
    walker.root = f"$[{index}]"
    walker.path.clear()
    return walker.read(2)


def _holds_record(walker: Walker, batch: Batch) -> bool:
    """``_is_batch`` for elements that may be bad, the first of which is not an array."""
    kinds = []
    for index, (start, end) in enumerate(batch.spans()):
        if index > 1 and walker.data[start] not in _ARRAYS_OF_THREE:
            continue
        try:
            tree = unpack(walker.data[start:end])
        except LIBRARY_ERRORS:
            try:
                tree = _walked(walker, start, index)
            except DecodeError:
                tree = None
        if _is_like_a_record(tree):
            return True
        if index < 2:
            kinds.append(type(tree))
            if batch.size == 3 and kinds == [int, int]:
                return False
    return False


def _batch(
    keys: EventKeys | None,
    items: Iterable[Any],
    size: int,
    record: Callable[[Any, int, str, dict[str, Any]], Event],
    budget: Budget,
) -> list[Event]:
    """One event per item of a batch that declares ``size`` records; an item may be an error."""
    room = budget.bytes // 2

    def metadata_of(index: int) -> dict[str, Any]:
        metadata = event_key_metadata(keys, index, size, room) if index < size else {}
        metadata["batch_size"] = size
        return metadata

    return batch_events(items, metadata_of, record, _invalid, budget)


def _is_batch(tree: list[Any]) -> bool:
    """Whether an array is a batch rather than a record.

    A record starts with its version, a batch with a record. If the first element is neither, the
    array is a batch if the rest holds a record: good records must not be lost to a bad neighbour.
    """
    if not tree:
        return False
    if type(tree[0]) is list:
        return True
    if len(tree) == 3 and type(tree[0]) is int and type(tree[1]) is int:
        return False
    return any(map(_is_like_a_record, tree))


def _is_like_a_record(tree: Any) -> bool:
    return (
        type(tree) is list
        and len(tree) == 3
        and type(tree[0]) is int
        and type(tree[1]) is int
        and type(tree[2]) is list
    )


def _record(
    record: Any, index: int, at: str, metadata: dict[str, Any] | None, depth: int, budget: Budget
) -> Event:
    """The event of one record. ``depth`` is that of a bin's value; ``metadata`` is extended."""
    if type(record) is not list:
        if record == FORGOTTEN:
            return forgotten(index)
        raise BadShape(f"{at}: expected an array [version, type, payload], got {_kind(record)}")
    if len(record) != 3:
        raise BadShape(f"{at}: expected 3 elements [version, type, payload], got {len(record)}")
    version, message_type, payload = record
    if type(version) is not int:
        if type(version) is list:
            raise BadShape(f"{at}: expected [version, type, payload], got an array in an array")
        raise BadField(f"{at}.version: expected int, got {_kind(version)}")
    if version != VERSION:
        raise BadVersion(f"{at}.version: expected {VERSION}, got {version}")
    if type(message_type) is not int:
        raise BadField(f"{at}.type: expected int, got {_kind(message_type)}")
    if message_type != WRITE and message_type != DELETE:
        raise BadType(
            f"{at}.type: expected {WRITE} (WRITE) or {DELETE} (DELETE), got {message_type}"
        )
    if type(payload) is not list:
        raise BadShape(f"{at}.payload: expected an array, got {_kind(payload)}")

    generation: Any
    expiry: Any
    lut: Any
    if message_type == WRITE:
        if len(payload) != 5:
            raise BadShape(
                f"{at}.payload: expected 5 elements [key, generation, expiry, LUT, bins], "
                f"got {len(payload)}"
            )
        key, generation, expiry, lut, bins = payload
        dated = True
    else:
        if len(payload) == 5:
            key, flags, generation, expiry, lut = payload
            dated = True
        elif len(payload) == 2:
            key, flags = payload
            generation = expiry = lut = None
            dated = False
        else:
            raise BadShape(
                f"{at}.payload: expected [key, flags] or [key, flags, generation, expiry, LUT], "
                f"got {len(payload)} elements"
            )
        if type(flags) is not int:
            raise BadField(f"{at}.flags: expected int, got {_kind(flags)}")

    if type(key) is not list or len(key) != 4:
        _bad_key(key, at)
    namespace, set_name, digest, user_key = key
    if (
        type(namespace) is not str
        or (set_name is not None and type(set_name) is not str)
        or type(digest) is not bytes
        or len(digest) != DIGEST_BYTES
        or (user_key is not None and type(user_key) not in _USER_KEY_TYPES)
    ):
        _bad_key(key, at)

    columns: dict[str, Any]
    if dated:
        if (
            (type(generation) is not int and generation is not None)
            or (type(expiry) is not int and expiry is not None)
            or (type(lut) is not int and lut is not None)
        ):
            _bad_number(at, generation=generation, expiry=expiry, lut=lut)
        columns = {"generation": generation, "expiry": expiry, "lut": lut}
    else:
        columns = {}
    if user_key is not None:
        columns["user_key"] = user_key
        columns["user_key_type"] = _USER_KEY_TYPES[type(user_key)]
    if message_type == WRITE:
        after, columns["bins"] = _bins(bins, at, depth, budget)
        operation = UPSERT
    else:
        after = None
        columns["flags"] = flags
        columns["durable"] = flags & DURABLE_DELETE != 0
        operation = DELETE_OPERATION
    if metadata:
        columns.update(metadata)
    return _event(
        (
            index,
            operation,
            None,
            namespace,
            set_name,
            record_key(digest),
            None,
            after,
            occurred_at(lut),
            expires_at(expiry),
            _encode(columns),
            None,
            None,
        )
    )


def _bins(bins: Any, at: str, depth: int, budget: Budget) -> tuple[bytes, dict[str, Any]]:
    """The row image of a write as JSON, and ``metadata.bins``."""
    if type(bins) is not list:
        raise BadField(f"{at}.bins: expected an array, got {_kind(bins)}")
    after: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    nested = NestedKinds(budget)
    for each in bins:
        try:
            name, code, flags, value = each
        except (TypeError, ValueError):
            _bad_bin(bins, each, at)
        # A str, bin or map of four also unpacks, but has no ints in place of type and flags.
        if type(code) is not int or type(flags) is not int or type(name) is not str:
            _bad_bin(bins, each, at)
        if type(value) is SCALARS.get(code):
            after[name] = value
        else:
            try:
                after[name] = _particle(code, value, depth, nested)
            except DecodeError as error:
                path = f"{at}.bins[{_index(bins, each)}].value"
                raise type(error)(f"{path}{error}") from None
        notes[name] = _note(code, flags, nested.of_bin())
    if len(after) != len(bins):
        seen: set[str] = set()
        for index, each in enumerate(bins):
            if each[0] in seen:
                name = shorten(repr(each[0]))
                raise BadField(f"{at}.bins[{index}].name: the name {name} came before")
            seen.add(each[0])
    return _encode(after), notes


def _note(code: int, flags: int, nested: dict[str, str]) -> dict[str, Any]:
    if not nested:
        return _plain_note(code, flags)
    return {"type": code, "flags": flags, "nested": nested, **_unknown(code)}


@lru_cache(1024)
def _plain_note(code: int, flags: int) -> dict[str, Any]:
    return {"type": code, "flags": flags, **_unknown(code)}


def _unknown(code: int) -> dict[str, bool]:
    return {} if code in LISTED else {"unknown": True}


def _particle(code: int, value: Any, depth: int, nested: NestedKinds) -> Any:
    """The JSON form of a bin's value; errors give the path below the value, then the sentence."""
    if code == LIST:
        if type(value) is list:
            return _json(value, None, depth, nested)
    elif code == MAP:
        if type(value) is dict or type(value) is Pairs:
            return _json(value, None, depth, nested)
    elif code == DOUBLE:
        if type(value) is float:
            return _json(value, None, depth, nested)
    elif code == GEOJSON:
        if type(value) is str:
            text = _json_object(value.encode())
            if text is None:
                nested.add(None, "text")
                return value
            return text
    elif code not in LISTED:
        return _json(value, None, depth, nested)
    name, expected = LISTED[code]
    raise BadField(f": expected {expected} for type {code} ({name}), got {_kind(value)}")


def _json(value: Any, path: Path, depth: int, nested: NestedKinds) -> Any:
    """The JSON form of a value that may contain others; changes lists and maps in place.

    What JSON can't express is added to ``nested``, path -> kind; see ``records``.
    """
    kind = type(value)
    if kind is list:
        if depth > MAX_DEPTH:
            _too_deep(path)
        for index, item in enumerate(value):
            if type(item) not in _PLAIN:
                value[index] = _json(item, (path, index), depth + 1, nested)
        return value
    if kind is dict:
        if depth > MAX_DEPTH:
            _too_deep(path)
        for name, item in value.items():
            if type(item) not in _PLAIN:
                value[name] = _json(item, (path, name), depth + 1, nested)
        return value
    if kind is float:
        if isfinite(value):
            return value
        nested.add(path, "float")
        return NON_FINITE[repr(value)]
    if kind in _PLAIN:
        return value
    if kind is bytes:
        nested.add(path, "bin")
        return value
    if kind is Pairs:
        if depth > MAX_DEPTH:
            _too_deep(path)
        nested.add(path, "map")
        # A loop: a comprehension would need another stack frame for each level of nesting.
        for index, (name, item) in enumerate(value):
            value[index] = [
                _json(name, ((path, index), 0), depth + 1, nested),
                _json(item, ((path, index), 1), depth + 1, nested),
            ]
        return value
    if kind is Ext:
        if value.type == GEOJSON:
            text = _json_object(value.data)
            if text is not None:
                nested.add(path, "geojson")
                return text
        nested.add(path, "java" if value.type == JAVA_OBJ else f"ext {value.type}")
        return value.data
    if kind is msgpack.Timestamp:
        raise _NeedsWalker
    raise TypeError(f"unexpected {kind} in a decoded payload")


def _json_object(text: bytes) -> msgspec.Raw | None:
    """The JSON text of an object, without white space and otherwise unchanged; else None."""
    if text.startswith(json_text.BOM):
        return None
    try:
        # One of msgspec's failures is not an error of the text: a number that it does not
        # convert.
        if _UNUSUAL_NUMBER.search(text) is None:
            _decode_json_object(json_text.checked(text))
        elif type(json_text.parse(text)) is not dict:
            return None
    except (DecodeError, *json_text.FAILURES):
        return None
    return msgspec.Raw(msgspec.json.format(text, indent=-1))


def _invalid(error: DecodeError, index: int, metadata: dict[str, Any]) -> Event:
    return invalid(error, index, _encode(metadata) if metadata else None)


# Kafka keys


def _single_metadata(raw: bytes | None) -> dict[str, Any] | None:
    """``event_key_metadata`` for a payload of one record, with a fast path for the usual key."""
    if raw is None:
        return None
    try:
        tree = unpack(raw)
    except LIBRARY_ERRORS:
        return {"event_key": raw}
    if _is_key(tree) and type(tree[3]) is not bytes:
        return {"event_key": tree}
    return event_key_metadata(_event_keys(raw), 0, 1)


def _event_keys(raw: bytes | None) -> EventKeys | None:
    return event_keys(raw, unpack, LIBRARY_ERRORS, _is_key)


def _is_key(key: Any) -> bool:
    return (
        type(key) is list
        and len(key) == 4
        and type(key[0]) is str
        and (key[1] is None or type(key[1]) is str)
        and type(key[2]) is bytes
        and len(key[2]) == DIGEST_BYTES
        and (key[3] is None or type(key[3]) in _USER_KEY_TYPES)
    )


# Error texts


def _kind(value: Any) -> str:
    """The name of a decoded value's MessagePack type, in the page's spelling."""
    if type(value) is Ext:
        return f"ext type {value.type}"
    if type(value) is bytes:
        return f"bin of {len(value)} bytes"
    return _KINDS[type(value)]


_KINDS: Final = {
    type(None): "nil",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "map",
    Pairs: "map",
    msgpack.Timestamp: "ext type -1",
}


def _bad_key(key: Any, at: str) -> NoReturn:
    check_key_shape(key, at, _kind)
    namespace, set_name, digest, user_key = key
    if type(namespace) is not str:
        raise BadField(f"{at}.key.namespace: expected str, got {_kind(namespace)}")
    if set_name is not None and type(set_name) is not str:
        raise BadField(f"{at}.key.set: expected str or nil, got {_kind(set_name)}")
    if type(digest) is not bytes or len(digest) != DIGEST_BYTES:
        raise BadField(
            f"{at}.key.digest: expected bin of {DIGEST_BYTES} bytes, got {_kind(digest)}"
        )
    raise BadField(f"{at}.key.user_key: expected str, int, bin or nil, got {_kind(user_key)}")


def _bad_number(at: str, **fields: Any) -> NoReturn:
    name, value = next(
        (name, value)
        for name, value in fields.items()
        if type(value) is not int and value is not None
    )
    raise BadField(f"{at}.{name}: expected int or nil, got {_kind(value)}")


def _bad_bin(bins: list[Any], each: Any, at: str) -> NoReturn:
    at = f"{at}.bins[{_index(bins, each)}]"
    if type(each) is not list:
        raise BadShape(f"{at}: expected an array [name, type, flags, value], got {_kind(each)}")
    if len(each) != 4:
        raise BadShape(f"{at}: expected 4 elements [name, type, flags, value], got {len(each)}")
    name, code, flags, _ = each
    if type(name) is not str:
        raise BadField(f"{at}.name: expected str, got {_kind(name)}")
    if type(code) is not int:
        raise BadField(f"{at}.type: expected int, got {_kind(code)}")
    raise BadField(f"{at}.flags: expected int, got {_kind(flags)}")


def _index(bins: list[Any], each: Any) -> int:
    # Searched only for an error; by identity, as two bins may be equal.
    return next(index for index, other in enumerate(bins) if other is each)


def _too_deep(path: Path) -> NoReturn:
    where = shorten(path_text(path, ""))
    raise TooDeep(f"{where}: nested deeper than {MAX_DEPTH} arrays and maps")


def _walked_path(root: str, path: list[int | str]) -> str:
    """A path in a payload, with the page's names."""
    text, steps = root, path
    if steps and isinstance(steps[0], int) and steps[0] < 3:
        text += (".version", ".type", ".payload")[steps[0]]
        rest = steps[1:]
        if steps[:2] == [2, 0]:
            text = f"{root}.key"
            rest = steps[2:]
            if rest and isinstance(rest[0], int) and rest[0] < 4:
                text += f".{_KEY_PARTS[rest[0]]}"
                rest = rest[1:]
        elif steps[:2] == [2, 4] and len(steps) > 2:
            text = f"{root}.bins[{steps[2]}]"
            rest = steps[3:]
            if rest and isinstance(rest[0], int) and rest[0] < 4:
                text += f".{_BIN_PARTS[rest[0]]}"
                rest = rest[1:]
        steps = rest
    return shorten(text + "".join(step_text(step) for step in steps))
