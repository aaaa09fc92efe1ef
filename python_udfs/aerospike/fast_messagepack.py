"""The fast path for Aerospike's MessagePack: plain writes of one set.

``core.fast_path`` explains fast paths. The decoder of a layout of the same bins checks their names,
types and flags and the types of their values while it decodes, in C. A mixed layout takes any bins;
their types are checked afterwards, for many writes at once. All other messages go to
``messagepack.decode``.

Nothing is lost. msgspec drops what a map can't hold (a duplicate name). So values that may
contain maps are decoded by column, and encoded again they must give the bytes that were shipped. In
a mixed layout all of a write with a list or a map must.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from math import isfinite
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec

from python_udfs.aerospike.fast_writes import (
    MAX_NAMES_BYTES,
    USER_KEY_TYPES,
    Common,
    Digest,
    Parts,
    Writes,
    common,
    event_columns,
    mixed_columns,
    plain_images,
)
from python_udfs.aerospike.particles import DOUBLE, LIST, MAP, SCALARS
from python_udfs.core.events import EventColumns
from python_udfs.core.fast_path import LESSON, Format, Messages, Names
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES

# The array of three that begins a record, with version 1 and type WRITE.
_HEADER: Final = b"\x93\x01\x01"
# After the names of namespace and set: the head of the digest, which no UTF-8 text contains.
_DIGEST_HEAD: Final = b"\xc4\x14"
# The levels that a bin's value may nest: it lies in a record, payload, bins and bin.
_ROOM: Final = MAX_DEPTH - 5

_Key = tuple[str, str | None, Digest, Any]
_Bin = tuple[str, int, int, Any]
_Record = tuple[int, int, tuple[_Key, int | None, int | None, int | None, list[_Bin]]]
_decode_any = msgspec.msgpack.Decoder(_Record).decode
_encode = msgspec.msgpack.Encoder().encode
# msgspec's exceptions for bytes that don't give such a value. Its own errors are ValueErrors; so
# is Python's for a timestamp that no datetime can hold.
_FAILURES: Final = (ValueError, OverflowError, RecursionError, MemoryError, TypeError)
_payload_of: Final = itemgetter(2)
_key_of: Final = itemgetter(0)
_value_of: Final = itemgetter(3)
_Plain = str | int | bool | None
# msgspec checks nested lists and maps to this depth, Python deeper ones; msgspec's size of such a
# type doubles with each level.
_TREE_DEPTH: Final = 6
# The values in the outermost one.
_Tree: Any = _Plain | float
for _ in range(_TREE_DEPTH - 1):
    _Tree = _Plain | float | list[_Tree] | dict[str, _Tree]
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_PlainList = list[_Plain]
_CONTAINERS: Final = {LIST: list, MAP: dict}
_are_plain = _PLAIN.issuperset
_are_texts = frozenset({str}).issuperset
_are_floats = frozenset({float}).issuperset
# Plain types of bins, each with the type of their values.
_KINDS: Final = frozenset({*SCALARS.items(), *_CONTAINERS.items(), (DOUBLE, float)})
# The first bytes of a float64 that is not finite. A float32 is not found: in a list or map it
# isn't plain, as it would be encoded as a float64.
_NON_FINITE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
# For msgspec, as a literal.
_TOO_LARGE: Final = 2**63

# For types that are created at run time.
_literal: Any = Literal
_tuple: Any = tuple


class _Shape(NamedTuple):
    """The common properties of a set's writes with the same bins of the same types."""

    namespace: str
    set_name: str | None
    user_key_type: type
    names: tuple[str, ...]
    codes: tuple[int, ...]
    flags: tuple[int, ...]
    types: tuple[Any, ...]


class _Mixed(NamedTuple):
    """The common properties of a set's writes with any plain bins."""

    namespace: str
    set_name: str | None


class _MixedLayout(NamedTuple):
    """The decoder of a set's writes, whatever their bins."""

    shape: _Mixed
    head: bytes
    """The common first bytes of the writes."""
    decode: Callable[..., Any]
    """As of ``_Layout``."""


class _Layout(NamedTuple):
    """The decoder of a shape's writes."""

    shape: _Shape
    common: Common
    head: bytes
    """The common first bytes of the writes."""
    decode: Callable[..., Any]
    """msgspec's decoder; it raises one of ``_FAILURES`` for anything else."""
    doubles: list[int]
    """The indexes of values that must be finite floats."""
    raw: list[tuple[int, type]]
    """The indexes of values that are decoded by column, each with ``list`` or ``dict``."""


class MessagePackWrites(Format[_Shape | _Mixed, _Layout | _MixedLayout, Writes]):
    """Recognizes plain writes, and decodes them together."""

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        if value is None or value[:3] != _HEADER:
            return ()
        end = value.find(_DIGEST_HEAD, 0, MAX_NAMES_BYTES)
        return () if end < 0 else (value[:end],)

    def shape(self, names: Names, key: bytes | None, value: bytes) -> _Shape | None:
        try:
            _, _, ((namespace, set_name, _, user_key), _, _, _, bins) = _decode_any(value)
        except _FAILURES:
            return None
        if not bins or (user_key is not None and type(user_key) not in USER_KEY_TYPES):
            return None
        bin_names, codes, flags, values = zip(*bins, strict=True)
        types = []
        for each in values:
            kind: Any = type(each)
            if kind is list and _are_plain(map(type, each)):
                kind = _PlainList
            types.append(kind)
        return _Shape(namespace, set_name, type(user_key), bin_names, codes, flags, tuple(types))

    def merged(self, known: _Shape | _Mixed, seen: _Shape | _Mixed) -> _Shape | _Mixed | None:
        if isinstance(known, _Mixed):
            return known if known == (seen.namespace, seen.set_name) else None
        return super().merged(known, seen)

    def mixed(self, shapes: Sequence[_Shape | _Mixed]) -> _Mixed | None:
        sources = {(shape.namespace, shape.set_name) for shape in shapes}
        return _Mixed(*sources.pop()) if len(sources) == 1 else None

    def layout(self, names: Names, shape: _Shape | _Mixed) -> _Layout | _MixedLayout:
        if isinstance(shape, _Mixed):
            return _mixed_layout(names[0], shape)
        namespace, set_name, user_key_type, bin_names, codes, flags, types = shape
        if len(set(bin_names)) != len(bin_names):
            raise ValueError("a name that comes twice")
        if not all(-_TOO_LARGE <= flag < _TOO_LARGE for flag in flags):
            raise ValueError("flags of more than 64 bits")
        doubles, raw, bins = [], [], []
        for place, (name, code, flag, value_type) in enumerate(
            zip(bin_names, codes, flags, types, strict=True)
        ):
            expected: Any = value_type
            if code == DOUBLE and value_type is float:
                # A decoder of floats would accept ints.
                expected = Any
                doubles.append(place)
            elif code == LIST and value_type is _PlainList:
                expected = _PlainList
            elif code in _CONTAINERS and value_type is _CONTAINERS[code]:
                expected = msgspec.Raw
                raw.append((place, value_type))
            elif SCALARS.get(code) is not value_type:
                raise ValueError(f"a value that is not plain: type {code}")
            bins.append(_tuple[_literal[name], _literal[code], _literal[flag], expected])
        set_type = None if set_name is None else _literal[set_name]
        key_type = _tuple[_literal[namespace], set_type, Digest, user_key_type]
        payload_type = _tuple[key_type, int | None, int | None, int | None, _tuple[tuple(bins)]]
        notes = {
            name: {"type": code, "flags": flag}
            for name, code, flag in zip(bin_names, codes, flags, strict=True)
        }
        return _Layout(
            shape,
            common(namespace, set_name, notes),
            names[0],
            msgspec.msgpack.Decoder(_tuple[Literal[1], Literal[1], payload_type]).decode,
            doubles,
            raw,
        )

    def rows(
        self,
        layout: _Layout | _MixedLayout,
        places: Sequence[int],
        keys: Messages,
        values: Messages,
    ) -> Writes | None:
        texts: list[Any] = [values[place] for place in places]
        try:
            records = list(map(layout.decode, texts))
        except _FAILURES:
            places, texts = _with_head(layout.head, places, texts)
            fitting = _decoded(layout.decode, texts)
            if fitting is None:
                return None
            records, unfit = fitting
            places = [place for number, place in enumerate(places) if number not in unfit]
            if not places:
                return None
        writes = Writes(places, records, keys)
        if max(map(len, texts)) > MAX_PAYLOAD_BYTES:
            return None
        if isinstance(layout, _MixedLayout):
            shipped = [values[place] for place in writes.places]
            if list(map(_encode, writes.records)) != shipped:
                writes.keep(list(map(_is_whole, writes.records, shipped)))
        if writes.has_keys and writes.places:
            own_keys = map(_encode, map(_key_of, map(_payload_of, writes.records)))
            writes.keep_own_keys(list(own_keys))
        return writes if writes.places else None

    def columns(self, layout: _Layout | _MixedLayout, rows: Writes) -> EventColumns | None:
        if isinstance(layout, _MixedLayout):
            return _of_mixed(layout, rows)
        found = _parts(layout, rows.records)
        if found is None:
            rows.keep([_is_plain(layout, record) for record in rows.records])
            found = _parts(layout, rows.records) if rows.places else None
        return None if found is None else event_columns(layout.common, rows, *found)


def _mixed_layout(head: bytes, shape: _Mixed) -> _MixedLayout:
    set_type = None if shape.set_name is None else _literal[shape.set_name]
    key_type = _tuple[_literal[shape.namespace], set_type, Digest, str | int | None]
    payload_type = _tuple[key_type, int | None, int | None, int | None, list[_Bin]]
    record_type = _tuple[Literal[1], Literal[1], payload_type]
    return _MixedLayout(shape, head, msgspec.msgpack.Decoder(record_type).decode)


def _with_head(
    head: bytes, places: Sequence[int], texts: list[Any]
) -> tuple[list[int], list[bytes]]:
    """The texts that begin with ``head``, and their places."""
    pairs = [
        (place, text)
        for place, text in zip(places, texts, strict=True)
        if text is not None and text.startswith(head)
    ]
    return [place for place, _ in pairs], [text for _, text in pairs]


def _decoded(
    decode: Callable[[bytes], Any], texts: list[bytes]
) -> tuple[list[Any], set[int]] | None:
    """The decoded texts, and the places of those that could not be decoded; None if most of the
    first ones could not.
    """
    records: list[Any] = []
    unfit: set[int] = set()
    rest = iter(texts)
    while True:
        try:
            records.extend(map(decode, rest))
        except _FAILURES:
            # The text after those that were decoded.
            unfit.add(len(records) + len(unfit))
            if len(unfit) == LESSON * 3 // 4 and len(records) < LESSON // 4:
                return None
        else:
            return records, unfit


def _is_whole(record: Any, shipped: bytes | None) -> bool:
    """Whether a write lost nothing when it was decoded: it has no list or map, or encoded again it
    gives the bytes that were shipped.
    """
    return _encode(record) == shipped or all(
        code not in _CONTAINERS for _, code, _, _ in _bins_of(record)
    )


def _of_mixed(layout: _MixedLayout, rows: Writes) -> EventColumns | None:
    """The events of writes of a mixed layout. Those that turn out not to be plain are dropped; None
    if none is left.
    """
    images = plain_images(rows, _bins_of, _images)
    if images is None:
        return None
    payloads = map(_payload_of, rows.records)
    record_keys, generations, expiries, luts, bins = zip(*payloads, strict=True)
    parts = Parts(record_keys, generations, expiries, luts)
    return mixed_columns(layout.shape, rows, parts, images, partial(_notes, bins))


def _bins_of(record: Any) -> Any:
    return record[2][4]


def _images(bins: Sequence[list[_Bin]]) -> list[dict[str, Any]] | None:
    """The bins of each write by their names; None if JSON does not express those of one
    completely.
    """
    if not all(bins):
        return None
    _, codes, _, values = zip(*chain.from_iterable(bins), strict=True)
    types = list(map(type, values))
    if not _KINDS.issuperset(zip(codes, types, strict=True)):
        return None
    for value, kind in zip(values, types, strict=True):
        if kind is float:
            if not isfinite(value):
                return None
        elif (kind is list or kind is dict) and not _is_plain_tree(value, _ROOM):
            return None
    images = [{name: value for name, _, _, value in each} for each in bins]
    # A name that comes twice.
    return images if list(map(len, images)) == list(map(len, bins)) else None


def _notes(bins: Sequence[list[_Bin]]) -> list[dict[str, dict[str, int]]]:
    """``metadata.bins`` of each write."""
    return [
        {name: {"type": code, "flags": flags} for name, code, flags, _ in each} for each in bins
    ]


def _parts(layout: _Layout, records: list[Any]) -> tuple[Parts, list[list[Any]]] | None:
    """The columns of writes of one layout, and of their bins; None if any turns out not to be
    plain.
    """
    _, _, payloads = zip(*records, strict=True)
    record_keys, generations, expiries, luts, bins = zip(*payloads, strict=True)
    columns = [list(map(_value_of, column)) for column in zip(*bins, strict=True)]
    for place, container in layout.raw:
        trees = _plain_trees(container, columns[place])
        if trees is None:
            return None
        columns[place] = trees
    if not all(map(_are_finite, (columns[place] for place in layout.doubles))):
        return None
    return Parts(record_keys, generations, expiries, luts), columns


def _is_plain(layout: _Layout, record: Any) -> bool:
    """Whether a write of a layout, checked alone, is plain."""
    return _parts(layout, [record]) is not None


@cache
def _column_decoder(container: Any, items: Any) -> Callable[[bytes], list[Any]]:
    """The decoder of an array of lists or maps with such items."""
    expected: Any = list[items] if container is list else dict[str, items]
    return msgspec.msgpack.Decoder(list[expected]).decode


def _plain_trees(container: type, column: list[msgspec.Raw]) -> list[Any] | None:
    """A column of lists or of maps, or None if one is not plain, or not all that was shipped.

    All are decoded, and encoded, as one array. The end of one can't be mistaken for the beginning
    of another: each is known to be a whole value.
    """
    header = _encode([None] * len(column))[: -len(column)]
    shipped = b"".join([header, *column])
    for items in (_Plain, _Tree, Any):
        try:
            trees = _column_decoder(container, items)(shipped)
        except _FAILURES:
            continue
        # Searching for bytes is faster than checking the numbers.
        unsure = items is Any or (items is _Tree and _NON_FINITE.search(shipped))
        if unsure and not all(_is_plain_tree(tree, _ROOM) for tree in trees):
            return None
        return trees if _encode(trees) == shipped else None
    return None


def _are_finite(column: list[Any]) -> bool:
    return _are_floats(map(type, column)) and all(map(isfinite, column))


def _is_plain_tree(tree: Any, room: int) -> bool:
    """Whether JSON expresses a list or map completely, nested at most ``room`` deeper."""
    if type(tree) is dict:
        if not _are_texts(map(type, tree)):
            return False
        tree = tree.values()
    elif type(tree) is not list:
        return False
    if _are_plain(map(type, tree)):
        return True
    for item in tree:
        kind = type(item)
        if kind is list or kind is dict:
            if room == 0 or not _is_plain_tree(item, room - 1):
                return False
        elif kind is float:
            if not isfinite(item):
                return False
        elif kind not in _PLAIN:
            return False
    return True
