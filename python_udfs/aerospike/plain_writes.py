"""Many WRITEs at once: Aerospike's usual payloads, whose values JSON can say as they are.

Idea: writes of one set with the same bins have one layout. Its decoder checks names, types and
flags of the bins and the types of their values while it decodes, in C; what belongs to all of a
layout's writes is worked out once, what differs is encoded by column.
Precondition: WRITEs alone in their payloads; values that JSON says as they are; at least
``_FEWEST`` of a layout in a batch. Fallback: ``messagepack.decode``, message by message, for all
others. There are no errors here, and both give the same events.
Never slower: what is spent here on messages that the fallback has to decode after all, and on
making layouts, comes from a budget of time that grows by what is saved and by a small part of what
the fallback takes; without budget, all messages go the careful way.

Nothing is lost. msgspec drops what a map can't hold (a name that comes twice), so what may have
maps is decoded by column, and encoded again it must give the bytes that were shipped.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from math import isfinite
from operator import itemgetter
from time import thread_time
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from python_udfs.aerospike.particles import DOUBLE, LIST, MAP, SCALARS
from python_udfs.aerospike.records import DIGEST_BYTES, expires_at_of_many, occurred_at_of_many
from python_udfs.core.events import UPSERT, Decode, Decoded, EventColumns
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES

# The array of three that a record is, with version 1 and type WRITE.
_HEADER: Final = b"\x93\x01\x01"
# How many levels a bin's value may nest: it lies in a record, payload, bins and bin.
_ROOM: Final = MAX_DEPTH - 5

_Digest = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
_Key = tuple[str, str | None, _Digest, Any]
_Bin = tuple[str, int, int, Any]
_Record = tuple[int, int, tuple[_Key, int | None, int | None, int | None, list[_Bin]]]
_decode_any = msgspec.msgpack.Decoder(_Record).decode
_encode = msgspec.msgpack.Encoder().encode
# What msgspec raises for bytes that it can't make such a value of. Its own errors are ValueErrors;
# so is Python's for a timestamp that no datetime can hold.
_FAILURES: Final = (ValueError, OverflowError, RecursionError, MemoryError, TypeError)

_encode_lines = msgspec.json.Encoder().encode_lines
_value_of: Final = itemgetter(3)
_Plain = str | int | bool | None
# Lists and maps in one another to this depth are checked by msgspec, deeper ones in Python; what
# msgspec makes of such a type doubles with each level.
_TREE_DEPTH: Final = 6
# What is in the outermost one.
_Tree: Any = _Plain | float
for _ in range(_TREE_DEPTH - 1):
    _Tree = _Plain | float | list[_Tree] | dict[str, _Tree]
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_PlainList = list[_Plain]
_CONTAINERS: Final = {LIST: list, MAP: dict}
_are_plain = _PLAIN.issuperset
_are_texts = frozenset({str}).issuperset
_are_floats = frozenset({float}).issuperset
_USER_KEY_TYPES: Final = {str: "str", int: "int"}


class _RecordKey(msgspec.Struct, gc=False):
    digest: bytes


class _Metadata(msgspec.Struct, gc=False):
    generation: int | None
    expiry: int | None
    lut: int | None
    user_key: Any
    user_key_type: Any
    bins: msgspec.Raw
    event_key: Any


class _Layout(NamedTuple):
    """What all writes of one set have in common that have the same bins with the same types."""

    decode: Callable[..., Any]
    """msgspec's decoder of such writes; it raises one of ``_FAILURES`` for anything else."""
    namespace: str
    set_name: str | None
    user_key_type: type
    image: type[msgspec.Struct]
    """The row image: the bins' values in order make one."""
    bins: msgspec.Raw
    """``metadata.bins``."""
    doubles: list[int]
    """The places of values that must be finite floats."""
    raw: list[tuple[int, type]]
    """The places of values that are decoded by column, each with ``list`` or ``dict``."""


class _Group(NamedTuple):
    """Messages of one layout, by their places among the messages of a batch."""

    layout: _Layout
    places: list[int]
    records: list[Any]


class _Known:
    """What is known of the messages so far."""

    def __init__(self) -> None:
        self.layouts: OrderedDict[Any, _Layout | None] = OrderedDict()
        """By what writes have in common: the layout, or None where there can't be one; that used
        last is at the end."""
        self.seen: dict[Any, int] = {}
        """By the same: how many such writes were seen while there was no layout."""
        self.last: _Layout | None = None
        """The most usual one of the last batch."""
        self.budget = _LARGEST_BUDGET
        """Seconds that may be spent in vain."""
        self.resting = False
        self.careful = 0.0
        """Seconds that the careful way takes for a byte, of late."""

    def saved(self, seconds: float) -> None:
        """Add to the budget, or take from it."""
        self.budget = min(self.budget + seconds, _LARGEST_BUDGET)
        if self.budget < 0:
            self.resting = True
        elif self.budget > _ENOUGH:
            self.resting = False

    def took(self, seconds: float, size: int) -> None:
        """Note what the careful way took for messages of that size."""
        of_byte = seconds / size
        self.careful += (of_byte - self.careful) * (_NEWEST_WEIGHT if self.careful else 1)
        self.saved(seconds * _RISKED)


# Of time that the careful way takes, so much may be lost by trying whether there is a short one:
# half of what the benchmark allows.
_RISKED: Final = 0.04
# In seconds: hundreds of layouts, or some ten thousand messages.
_LARGEST_BUDGET: Final = 0.1
_ENOUGH: Final = 0.01
_NEWEST_WEIGHT: Final = 0.25
# A message takes the careful way as long as so many bytes, beside its own.
_MESSAGE_BYTES: Final = 200
# Fewer messages of a layout take longer by column than one by one.
_FEWEST: Final = 8

# The first bytes of a float64 that is no finite number. A float32 is not found: in a list or map it
# isn't plain, as it would be encoded as a float64.
_NON_FINITE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
# Making a layout takes as long as decoding a hundred records, and there may be sets whose records
# all have other bins.
_SEEN_BEFORE: Final = 10
# A layout of many bins takes some 100 KB.
_MAX_LAYOUTS: Final = 256
_MAX_SEEN: Final = 4096
# So many layouts of a set are tried, whole, before a record is looked at in Python.
_TRIED: Final = 4
# Behind the names of namespace and set: the head of the digest, which no UTF-8 text has in it.
_DIGEST_HEAD: Final = b"\xc4\x14"
# For msgspec, as a literal.
_TOO_LARGE: Final = 2**63

# For types that are made while the program runs.
_literal: Any = Literal
_tuple: Any = tuple


def _layout(
    namespace: str,
    set_name: str | None,
    user_key_type: type,
    names: tuple[str, ...],
    codes: tuple[int, ...],
    flags: tuple[int, ...],
    types: tuple[Any, ...],
) -> _Layout | None:
    doubles, raw = [], []
    bins = []
    for place, (name, code, flag, value_type) in enumerate(
        zip(names, codes, flags, types, strict=True)
    ):
        expected: Any = value_type
        if code == DOUBLE and value_type is float:
            # A decoder of floats would take ints.
            expected = Any
            doubles.append(place)
        elif code == LIST and value_type is _PlainList:
            expected = _PlainList
        elif code in _CONTAINERS and value_type is _CONTAINERS[code]:
            expected = msgspec.Raw
            raw.append((place, value_type))
        elif SCALARS.get(code) is not value_type:
            return None
        bins.append(_tuple[_literal[name], _literal[code], _literal[flag], expected])
    if len(set(names)) != len(names) or not all(-_TOO_LARGE <= flag < _TOO_LARGE for flag in flags):
        return None
    set_type = None if set_name is None else _literal[set_name]
    key_type = _tuple[_literal[namespace], set_type, _Digest, user_key_type]
    payload_type = _tuple[key_type, int | None, int | None, int | None, _tuple[tuple(bins)]]
    fields = [f"bin_{place}" for place in range(len(names))]
    try:
        decoder = msgspec.msgpack.Decoder(_tuple[Literal[1], Literal[1], payload_type])
        image = msgspec.defstruct(
            "Image",
            [(field, Any) for field in fields],
            gc=False,
            rename=dict(zip(fields, names, strict=True)),
        )
    except ValueError:
        # A name that JSON has to escape.
        return None
    notes = {
        name: {"type": code, "flags": flag}
        for name, code, flag in zip(names, codes, flags, strict=True)
    }
    return _Layout(
        decoder.decode,
        namespace,
        set_name,
        user_key_type,
        image,
        msgspec.Raw(msgspec.json.encode(notes)),
        doubles,
        raw,
    )


@cache
def _column_decoder(container: Any, items: Any) -> Callable[[bytes], list[Any]]:
    """The decoder of an array of lists or maps of such items."""
    expected: Any = list[items] if container is list else dict[str, items]
    return msgspec.msgpack.Decoder(list[expected]).decode


def decode_batch(
    decode: Decode, keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> Decoded:
    """The events of each message; ``decode`` decodes those that are not plain.

    The Kafka keys of plain writes are absent, or are the same bytes as the record's own key.
    """
    known = _known
    decoded = Decoded()
    others = list(range(len(values)))
    if not known.resting:
        start = thread_time()
        groups, others = _grouped(known, values)
        for group in groups:
            if len(group.places) < _FEWEST:
                others += group.places
            else:
                others += _add_group(decoded, group, keys)
        size = sum(_size(values, places) for places, _ in decoded.columns)
        known.saved(size * known.careful - (thread_time() - start))
    if others:
        start = thread_time()
        for place in others:
            decoded.events[place] = decode(keys[place], values[place])
        known.took(thread_time() - start, _size(values, others))
    return decoded


def _size(values: Sequence[bytes | None], places: Sequence[int]) -> int:
    """Of messages, as the careful way's time counts them."""
    return sum(len(values[place] or b"") for place in places) + len(places) * _MESSAGE_BYTES


def _grouped(known: _Known, values: Sequence[bytes | None]) -> tuple[list[_Group], list[int]]:
    """Messages that have a layout, and the places of the others."""
    if max(map(len, filter(None, values)), default=0) > MAX_PAYLOAD_BYTES:
        return [], list(range(len(values)))
    groups: dict[int, _Group] = {}
    of_set: dict[bytes, list[_Group]] = {}
    others = []
    rest = iter(values)
    group = known.last and _group_of(known.last, groups)
    place = 0
    # Whether messages of one layout follow one another: else each is looked for at once.
    in_runs = True
    while True:
        fitting = 0
        if group is not None and in_runs:
            first = len(group.records)
            try:
                group.records.extend(map(group.layout.decode, rest))
            except _FAILURES:
                # Of the message behind those that have this layout, whose records are there.
                pass
            fitting = len(group.records) - first
            group.places.extend(range(place, place + fitting))
            place += fitting
        else:
            next(rest, None)
        if place >= len(values):
            break
        before, group = group, _other_group(known, values[place], groups, of_set)
        in_runs = fitting > 0 or before is None or group is before
        if group is None:
            others.append(place)
        else:
            group.places.append(place)
        place += 1
    usual = max(groups.values(), key=lambda each: len(each.places), default=None)
    if usual is not None:
        known.last = usual.layout
    return list(groups.values()), others


def _group_of(layout: _Layout, groups: dict[int, _Group]) -> _Group:
    return groups.setdefault(id(layout), _Group(layout, [], []))


def _other_group(
    known: _Known,
    value: bytes | None,
    groups: dict[int, _Group],
    of_set: dict[bytes, list[_Group]],
) -> _Group | None:
    """The group of a message, with its record, that isn't in the group of the message before."""
    if value is None or value[:3] != _HEADER:
        return None
    # Mostly those of a set have the same few layouts; if the bytes deceive, no layout fits.
    same_set = of_set.setdefault(value[: value.find(_DIGEST_HEAD)], [])
    for group in same_set[-_TRIED:]:
        try:
            group.records.append(group.layout.decode(value))
        except _FAILURES:
            continue
        return group
    try:
        layout = _layout_of(known, _decode_any(value))
        if layout is None:
            return None
        record = layout.decode(value)
    except _FAILURES:
        return None
    group = _group_of(layout, groups)
    group.records.append(record)
    if not any(each is group for each in same_set):
        same_set.append(group)
    return group


def _layout_of(known: _Known, record: Any) -> _Layout | None:
    _, _, ((namespace, set_name, _, user_key), _, _, _, bins) = record
    if not bins:
        return None
    names, codes, flags, values = zip(*bins, strict=True)
    types = []
    for value in values:
        kind: Any = type(value)
        if kind is list and _are_plain(map(type, value)):
            kind = _PlainList
        types.append(kind)
    user_key_type = type(user_key)
    if user_key is not None and user_key_type not in _USER_KEY_TYPES:
        return None
    common = (namespace, set_name, user_key_type, names, codes, flags, tuple(types))
    if common in known.layouts:
        known.layouts.move_to_end(common)
        return known.layouts[common]
    seen = known.seen.get(common, 0)
    if seen < _SEEN_BEFORE or known.budget < _ENOUGH:
        if len(known.seen) >= _MAX_SEEN:
            known.seen.clear()
        known.seen[common] = seen + 1
        return None
    if len(known.layouts) >= _MAX_LAYOUTS:
        known.layouts.popitem(last=False)
    layout = known.layouts[common] = _layout(*common)
    return layout


def _add_group(decoded: Decoded, group: _Group, keys: Sequence[bytes | None]) -> list[int]:
    """Add the events of a group; return the places of messages that turn out not to be plain."""
    layout, places, records = group
    own_keys = list(map(keys.__getitem__, places))
    columns = _columns(layout, records, own_keys)
    if columns is not None:
        decoded.columns.append((places, columns))
        return []
    others = []
    plain: dict[bool, _Group] = {}
    for place, record, key in zip(places, records, own_keys, strict=True):
        if _is_plain(layout, record, key):
            # Of each block all have a key, or none has.
            alike = plain.setdefault(key is None, _Group(layout, [], []))
            alike.places.append(place)
            alike.records.append(record)
        else:
            others.append(place)
    for alike in plain.values():
        columns = _columns(layout, alike.records, list(map(keys.__getitem__, alike.places)))
        if columns is None:
            others += alike.places
        else:
            decoded.columns.append((alike.places, columns))
    return others


def _is_plain(layout: _Layout, record: Any, key: bytes | None) -> bool:
    """Whether a record of a layout, alone, is plain."""
    _, _, (record_key, _, _, _, bins) = record
    return (
        (key is None or key == _encode(record_key))
        and all(_are_finite([bins[place][3]]) for place in layout.doubles)
        and all(
            _plain_trees(container, [bins[place][3]]) is not None for place, container in layout.raw
        )
    )


def _columns(
    layout: _Layout,
    records: list[Any],
    keys: Sequence[bytes | None],
) -> EventColumns | None:
    """The events of records of one layout, or None if any turns out not to be plain."""
    _, _, payloads = zip(*records, strict=True)
    record_keys, generations, expiries, luts, bins = zip(*payloads, strict=True)
    _, _, digests, user_keys = zip(*record_keys, strict=True)
    columns = [list(map(_value_of, column)) for column in zip(*bins, strict=True)]
    for place, container in layout.raw:
        trees = _plain_trees(container, columns[place])
        if trees is None:
            return None
        columns[place] = trees
    if not (
        all(map(_are_finite, (columns[place] for place in layout.doubles)))
        and (keys.count(None) == len(keys) or list(map(_encode, record_keys)) == keys)
    ):
        return None
    metadata = map(
        _Metadata,
        generations,
        expiries,
        luts,
        user_keys if layout.user_key_type in _USER_KEY_TYPES else repeat(UNSET),
        repeat(_USER_KEY_TYPES.get(layout.user_key_type, UNSET)),
        repeat(layout.bins),
        repeat(UNSET) if keys[0] is None else record_keys,
    )
    return EventColumns(
        operation=UPSERT,
        source_database=None,
        source_schema=layout.namespace,
        source_table=layout.set_name,
        record_key=_encode_lines(list(map(_RecordKey, digests))),
        before=None,
        after=_encode_lines(list(map(layout.image, *columns))),
        occurred_at=occurred_at_of_many(luts),
        expires_at=expires_at_of_many(expiries),
        metadata=_encode_lines(list(metadata)),
    )


def _plain_trees(container: type, column: list[msgspec.Raw]) -> list[Any] | None:
    """A column of lists or of maps, or None if one is not plain, or not all that was shipped.

    All are decoded, and encoded, as one array. The end of one can't be taken for the beginning of
    another: each is known to be a whole value.
    """
    header = _encode([None] * len(column))[: -len(column)]
    shipped = b"".join([header, *column])
    for items in (_Plain, _Tree, Any):
        try:
            trees = _column_decoder(container, items)(shipped)
        except _FAILURES:
            continue
        # To look for bytes is faster than to look at the numbers.
        unsure = items is Any or (items is _Tree and _NON_FINITE.search(shipped))
        if unsure and not all(_is_plain_tree(tree, _ROOM) for tree in trees):
            return None
        return trees if _encode(trees) == shipped else None
    return None


def _are_finite(column: list[Any]) -> bool:
    return _are_floats(map(type, column)) and all(map(isfinite, column))


def _is_plain_tree(tree: Any, room: int) -> bool:
    """Whether JSON says all that there is in a list or map, nested at most ``room`` deeper."""
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


_known = _Known()
