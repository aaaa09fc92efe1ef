"""MessagePack as a tree, by the decoders' own walker, up to the first unreadable byte."""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from dbt_lakehouse.commands.explain.nodes import ELIDED, Limits, Node, Tree
from python_udfs.core.errors import DecodeError
from python_udfs.text.messagepack import Walker


def tree_of(data: bytes, limits: Limits, wanted: Collection[int] = ()) -> Tree:
    """The tree of a payload's first value. The elements at the places ``wanted`` of the outer
    array are not elided.
    """
    return _Builder(data, limits, wanted).tree()


class _Head(NamedTuple):
    """A value without its parts."""

    kind: str
    size: int = 0
    """The number of its elements or pairs."""
    value: Any = None

    @property
    def values(self) -> int:
        """The number of values in its parts."""
        return self.size * _VALUES[self.kind] if self.kind in _VALUES else 0


_VALUES: Final = {"array": 1, "map": 2}


@dataclass(slots=True)
class _Open:
    """An array or map with parts still to be read."""

    node: Node
    left: int
    """The number of values left."""
    read: int = 0

    def step(self) -> int | str | None:
        """The index or name of the next value."""
        if self.node.kind == "array":
            return self.read
        if self.read % 2 == 0:
            return None
        key = self.node.children[-1] if self.node.children else None
        return key.value if key is not None and type(key.value) is str else self.read // 2


class _Builder:
    """Without recursion: no nesting can exhaust the stack."""

    def __init__(self, data: bytes, limits: Limits, wanted: Collection[int]) -> None:
        self._walker = Walker(data, lambda root, path: root)
        self._data = data
        self._limits = limits
        self._wanted = sorted(wanted)
        self._nodes = 0
        self._open: list[_Open] = []

    def tree(self) -> Tree:
        data, walker = self._data, self._walker
        root = None
        try:
            root = self._next(None)
            while self._open:
                top = self._open[-1]
                if not top.left:
                    self._open.pop()
                    top.node.end = walker.pos
                elif self._is_full(top):
                    self._elide(top)
                else:
                    self._add_to(top)
        except DecodeError:
            for each in self._open:
                each.node.end = walker.pos
            return Tree(len(data), root, walker.pos)
        return Tree(len(data), root, walker.pos if walker.pos < len(data) else None)

    def _is_full(self, top: _Open) -> bool:
        limits = self._limits
        if len(self._open) == 1 and top.read in self._wanted:
            self._nodes = 0
            return False
        return (
            len(self._open) >= limits.depth
            or len(top.node.children) >= limits.children
            or self._nodes >= limits.nodes
        )

    def _add_to(self, top: _Open) -> None:
        node = self._next(top.step())
        top.node.children.append(node)
        top.left -= 1
        top.read += 1

    def _next(self, step: int | str | None) -> Node:
        start = self._walker.pos
        head = self._head()
        self._nodes += 1
        node = Node(start, self._walker.pos, head.kind, step, value=head.value, size=head.size)
        if head.values:
            self._open.append(_Open(node, head.values))
        return node

    def _elide(self, top: _Open) -> None:
        """Skip the rest of a container, up to an unreadable value, if any."""
        walker = self._walker
        start, before = walker.pos, top.left
        left = self._most_left(top)
        self._pass_quickly(top, left)
        failed: DecodeError | None = None
        while top.left > left and failed is None:
            place = walker.pos
            try:
                self._pass()
            except DecodeError as error:
                failed = error
                if len(self._open) < self._limits.depth:
                    walker.pos = place
            else:
                top.left -= 1
                top.read += 1
        if walker.pos > start:
            top.node.children.append(Node(start, walker.pos, ELIDED, size=before - top.left))
        if failed is not None:
            if len(self._open) >= self._limits.depth:
                raise failed
            self._add_to(top)

    def _most_left(self, top: _Open) -> int:
        """The number of values left at the next wanted one; 0 without one."""
        if len(self._open) > 1:
            return 0
        following = next((each for each in self._wanted if each > top.read), None)
        return 0 if following is None else max(top.left - (following - top.read), 0)

    def _pass_quickly(self, top: _Open, left: int) -> None:
        """Skip values with the library, up to one that it can't read."""
        unpacker = msgpack.Unpacker(max_buffer_size=len(self._data))
        unpacker.feed(memoryview(self._data)[self._walker.pos :])
        end = 0
        with contextlib.suppress(ValueError, msgpack.UnpackException):
            while top.left > left:
                unpacker.skip()
                end = unpacker.tell()
                top.left -= 1
                top.read += 1
        self._walker.pos += end

    def _pass(self) -> None:
        values = 1
        while values:
            values += self._head().values - 1

    def _head(self) -> _Head:
        """Read a value up to its parts. On failure, the walker stays before it."""
        walker = self._walker
        start = walker.pos
        try:
            kind, size = walker.header()
            if kind in _VALUES:
                return _Head(kind, size)
            if kind == "str":
                # Bytes that are not UTF-8 are still shown.
                return _Head(kind, 0, walker.take(size, start, kind).decode(errors="replace"))
            if kind == "bin":
                return _Head(kind, 0, walker.take(size, start, kind))
            if kind == "ext":
                code = int.from_bytes(walker.take(1, start, kind), signed=True)
                return _Head(f"ext {code}", 0, walker.take(size, start, kind))
            return _Head(kind, 0, walker.scalar(kind, start))
        except DecodeError:
            walker.pos = start
            raise
