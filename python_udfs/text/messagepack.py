"""MessagePack as Python values: by its library, and slowly by a walker that locates errors.

The library decodes well-formed bytes, and only says that it can't decode others. The walker reads
the same bytes strictly and either finds the error, with byte and path, or returns the library's
result.

Values are None, bool, int, float, str, bytes, list, dict, ``Pairs`` for a map that no dict can
hold, and ``Ext``; a timestamp (ext -1) is a ``msgpack.Timestamp`` from the library and an ``Ext``
from the walker.

Source: the MessagePack specification.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgpack

from python_udfs.core.budget import Budget
from python_udfs.core.errors import (
    BadField,
    NotMessagePack,
    TooDeep,
    TooLarge,
    TrailingBytes,
    Truncated,
)
from python_udfs.core.limits import BUDGET_BYTES, MAX_DEPTH
from python_udfs.text.pairs import Pairs

# An array is one byte and becomes a list of some ninety; a map's pair is three and becomes two
# hundred. Their number is limited by a budget, which leaves them below a third of what decoding
# may take.
_CONTAINER_COST: Final = 32
_PAIR_COST: Final = 32


class Ext(NamedTuple):
    """A MessagePack ext value; -1 is a timestamp."""

    type: int
    data: bytes


# The library

# Found once, not for each payload.
_unpackb = msgpack.unpackb
# unpackb's exceptions for bytes that it can't decode: ExtraData, FormatError, StackError,
# incomplete input, invalid UTF-8 and lengths beyond the limits are all ValueErrors. None of them
# decides a payload's error: the walker does, and any payload that it can read is good.
LIBRARY_ERRORS: Final = (ValueError, MemoryError)


def _map(pairs: list[tuple[Any, Any]]) -> dict[str, Any] | Pairs:
    """A decoded map: a dict if that loses nothing."""
    for name, _ in pairs:
        if type(name) is not str:
            return Pairs(pairs)
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else Pairs(pairs)


def unpack(data: bytes) -> Any:
    """The value in the bytes. Raises one of ``LIBRARY_ERRORS``, also for incomplete bytes that
    declare great lengths, and for more arrays and maps than a budget allows.
    """
    if len(data) > _SAFE_BYTES and (len(data) > _MOST_UNCOUNTED or _may_reserve(data)):
        return _unpack_with_care(data)
    return _unpackb(data, raw=False, strict_map_key=False, object_pairs_hook=_map, ext_hook=Ext)


def _may_reserve(data: bytes) -> bool:
    """Whether the library might reserve much more memory than the bytes need: it trusts a
    declared length, at every level of nesting.
    """
    heads = sum(map(data.count, _LONG_CONTAINERS))
    return heads * len(data) * _POINTER_BYTES > BUDGET_BYTES


def _unpack_with_care(data: bytes) -> Any:
    if _may_reserve(data):
        # Reserves nothing, and raises for incomplete bytes.
        unpacker = msgpack.Unpacker(max_buffer_size=len(data))
        unpacker.feed(data)
        try:
            unpacker.skip()
        except msgpack.UnpackException as error:
            raise ValueError("not all there") from error
    budget = Budget(len(data))
    # An upper bound, since a text or a number may contain the same bytes.
    arrays = len(data.translate(None, _NO_ARRAYS))
    maps = len(data.translate(None, _NO_MAPS))
    try:
        budget.spend(arrays * _CONTAINER_COST + maps * (_CONTAINER_COST + _PAIR_COST))
    except TooLarge:
        return _unpack_counting(data, budget)
    return _unpackb(data, raw=False, strict_map_key=False, object_pairs_hook=_map, ext_hook=Ext)


def _unpack_counting(data: bytes, budget: Budget) -> Any:
    def counted(items: list[Any]) -> list[Any]:
        budget.spend(_CONTAINER_COST)
        return items

    def counted_map(pairs: list[tuple[Any, Any]]) -> dict[str, Any] | Pairs:
        budget.spend(_CONTAINER_COST + _PAIR_COST * len(pairs))
        return _map(pairs)

    try:
        return _unpackb(
            data,
            raw=False,
            strict_map_key=False,
            object_pairs_hook=counted_map,
            list_hook=counted,
            ext_hook=Ext,
        )
    except TooLarge as error:
        raise ValueError("too many arrays and maps") from error


_POINTER_BYTES: Final = 8
# Payloads of that size can neither declare nor contain too much.
_SAFE_BYTES: Final = 1024
_MOST_UNCOUNTED: Final = BUDGET_BYTES // (_CONTAINER_COST + _PAIR_COST)
_LONG_CONTAINERS: Final = (b"\xdc", b"\xdd", b"\xde", b"\xdf")
_NO_ARRAYS: Final = bytes(set(range(256)) - {*range(0x90, 0xA0), 0xDC, 0xDD})
_NO_MAPS: Final = bytes(set(range(256)) - {*range(0x80, 0x90), 0xDE, 0xDF})


# The walker


class Walker:
    """Reads MessagePack slowly and strictly, keeping the position and the path.

    ``read`` returns what ``unpack`` returns for good bytes, with timestamps as ``Ext``. It needs
    one stack frame for each level of nesting, of which there are at most ``MAX_DEPTH``. All that is
    read is counted against one budget: ``TooLarge`` for more arrays and maps than it has.

    ``name`` writes a path, of a root and steps from there, for error messages. The walker's user
    sets ``root`` and empties ``path`` before another value.
    """

    __slots__ = ("budget", "data", "name", "path", "pos", "root")

    def __init__(self, data: bytes, name: Callable[[str, list[int | str]], str]) -> None:
        self.data = data
        self.name = name
        self.pos = 0
        self.root = "$"
        self.path: list[int | str] = []
        self.budget = Budget(len(data))

    def read(self, depth: int) -> Any:
        """The next value. ``depth`` is the number of containers around it plus one."""
        start = self.pos
        kind, length = self.header()
        if kind == "array":
            self.enter(depth, start, _CONTAINER_COST)
            path, read, items = self.path, self.read, []
            if length:
                path.append(0)
                for index in range(length):
                    path[-1] = index
                    items.append(read(depth + 1))
                path.pop()
            return items
        if kind == "map":
            self.enter(depth, start, _CONTAINER_COST)
            pairs = []
            for index in range(length):
                self.enter(depth, start, _PAIR_COST)
                self.path.append(index)
                name = self.read(depth + 1)
                self.path[-1] = name if type(name) is str else index
                pairs.append((name, self.read(depth + 1)))
                self.path.pop()
            return _map(pairs)
        if kind == "str":
            text = self.take(length, start, kind)
            try:
                return text.decode()
            except UnicodeDecodeError as error:
                wrong = self.pos - length + error.start
                raise BadField(
                    f"{self.where()}: expected UTF-8 in the str at byte {start}, "
                    f"got 0x{self.data[wrong]:02x} at byte {wrong}"
                ) from None
        if kind == "bin":
            return self.take(length, start, kind)
        if kind == "ext":
            (code,) = _INT8.unpack(self.take(1, start, kind))
            return Ext(code, self.take(length, start, kind))
        return self.scalar(kind, start)

    def skip(self) -> None:
        """Skip the next value, however deep it is nested, without reading strings."""
        values = 1
        while values:
            values -= 1
            start = self.pos
            kind, length = self.header()
            if kind == "array":
                values += length
            elif kind == "map":
                values += 2 * length
            elif kind == "ext":
                self.take(length + 1, start, kind)
            elif kind in ("str", "bin"):
                self.take(length, start, kind)
            else:
                self.scalar(kind, start)

    def header(self) -> tuple[str, int]:
        """The kind of the next value and its length, if it has one."""
        start = self.pos
        if start >= len(self.data):
            self.take(1, start, "a value")
        first = self.data[start]
        self.pos = start + 1
        if first <= 0x7F or first >= 0xE0:
            return "int", 0
        if first <= 0x8F:
            return "map", first & 0x0F
        if first <= 0x9F:
            return "array", first & 0x0F
        if first <= 0xBF:
            return "str", first & 0x1F
        if first == 0xC1:
            raise NotMessagePack(f"{self.where()}: byte 0xc1 at byte {start} is never used")
        kind, size = _KINDS_OF_BYTES[first]
        if size == 0 or first in _NUMBERS:
            return kind, 0
        if first in _FIXEXT:
            return kind, size
        return kind, int.from_bytes(self.take(size, start, kind), "big")

    def scalar(self, kind: str, start: int) -> Any:
        """The value of a number, bool or nil whose first byte was just read."""
        first = self.data[start]
        number = _NUMBERS.get(first)
        if number is not None:
            return number.unpack(self.take(number.size, start, kind))[0]
        if kind == "int":
            return first if first <= 0x7F else first - 0x100
        return None if kind == "nil" else first == 0xC3

    def take(self, size: int, start: int, kind: str) -> bytes:
        end = self.pos + size
        if end > len(self.data):
            raise Truncated(
                f"{self.where()}: the payload ends at byte {len(self.data)}, "
                f"{kind} at byte {start} needs {end - len(self.data)} more"
            )
        taken = self.data[self.pos : end]
        self.pos = end
        return taken

    def at_array(self) -> bool:
        """Whether the next value is an array."""
        following = self.data[self.pos : self.pos + 1]
        return bool(following) and (following[0] >> 4 == 0x9 or following in (b"\xdc", b"\xdd"))

    def enter(self, depth: int, start: int, cost: int) -> None:
        """Begin an array or a map."""
        if depth > MAX_DEPTH:
            raise TooDeep(
                f"{self.where()}: nested deeper than {MAX_DEPTH} arrays and maps at byte {start}"
            )
        try:
            self.budget.spend(cost)
        except TooLarge as error:
            raise TooLarge(f"{self.where()}: arrays and maps at byte {start} are {error}") from None

    def expect_end(self) -> None:
        rest = len(self.data) - self.pos
        if rest:
            raise TrailingBytes(f"$: the value ends at byte {self.pos}, {rest} more bytes follow")

    def where(self) -> str:
        """The path of the current value, as errors show it."""
        return self.name(self.root, self.path)


_INT8: Final = struct.Struct(">b")
_FIXEXT: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_NUMBERS: Final = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: _INT8,
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
# First bytes from 0xc0 to 0xdf: the kind of value, and the size of the length that follows (for
# fixext the length itself).
_KINDS_OF_BYTES: Final = {
    0xC0: ("nil", 0),
    0xC2: ("bool", 0),
    0xC3: ("bool", 0),
    0xC4: ("bin", 1),
    0xC5: ("bin", 2),
    0xC6: ("bin", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
    0xCA: ("float", 4),
    0xCB: ("float", 8),
    **{first: ("int", _NUMBERS[first].size) for first in range(0xCC, 0xD4)},
    **{first: ("ext", size) for first, size in _FIXEXT.items()},
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
