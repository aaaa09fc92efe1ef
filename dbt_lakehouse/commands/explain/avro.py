"""An Avro message as a tree: its frame, and the value by its schema.

Bytes that belong to a value without being one (the branch of a union, the count of a block) come
before the part that they announce. Values are read by the decoder's own readers.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from dbt_lakehouse.commands.explain import debezium, rows
from dbt_lakehouse.commands.explain.columns import Columns
from dbt_lakehouse.commands.explain.nodes import ELIDED, Limits, Node, Tree
from python_udfs.core.budget import Budget
from python_udfs.core.errors import DecodeError
from python_udfs.core.events import Event
from python_udfs.debezium.avro import schema_of
from python_udfs.text import avro

_VALUE = "value"


def is_framed(data: bytes) -> bool:
    """Whether a key or a value begins with an Avro frame."""
    return data[:1] == b"\0"


def tree_of(data: bytes, limits: Limits) -> Tree:
    """The tree of a framed key or value."""
    if not is_framed(data):
        return Tree(len(data), rest=0)
    root = Node(0, len(data), "frame", children=[Node(0, 1, "byte", "magic", value=0)])
    tree = Tree(len(data), root)
    try:
        known = schema_of(data)
    except DecodeError:
        tree.rest = root.end = 1
        return tree
    number = int.from_bytes(data[1:5], "big")
    root.children.append(Node(1, 5, "int", "schema", value=number))
    builder = _Builder(data, limits)
    try:
        builder.add(root, known.node, _VALUE, 1)
    except DecodeError:
        tree.rest = builder.position
    if tree.rest is None and builder.position < len(data):
        tree.rest = builder.position
    root.end = builder.position
    return tree


def name_value(root: Node, data: bytes, events: Sequence[Event], is_row: bool) -> None:
    """Name the parts of a value: of an envelope, or of a row without one."""
    columns = Columns(events[0])
    envelope = _declared(root, data)
    if is_row:
        if envelope is not None:
            rows.name_row(envelope, events)
        return
    for part in envelope.children if envelope is not None else ():
        debezium.fill(part, columns)


def value_of(root: Node) -> Node | None:
    """The value in a frame; None if its schema is unknown."""
    return root.part(_VALUE)


def name_key(root: Node, data: bytes, events: Sequence[Event]) -> None:
    """Name the parts of a Kafka key."""
    columns = Columns(events[0])
    row = _declared(root, data)
    if row is None:
        return
    if not columns.record_key:
        columns.fill(row, "metadata.event_key")
    for part in row.children:
        columns.fill(part, f"record_key.{part.step}")


def _declared(root: Node, data: bytes) -> Node | None:
    """The value in its frame, with the declared types of its parts."""
    value = value_of(root)
    if value is not None:
        block: Any = json.loads(schema_of(data).prefix + b"null}")
        debezium.declare(value, block["schema"])
    return value


class _Builder:
    def __init__(self, data: bytes, limits: Limits) -> None:
        self._data = data
        self._limits = limits
        self._left = limits.nodes
        self._readers: dict[int, avro.Read] = {}
        self.position = 5
        """The position up to which everything is read."""

    def add(self, parent: Node, schema: avro.Node, step: int | str, depth: int) -> None:
        """Add the next value to its parent."""
        start = self.position
        part = schema
        while part.kind == "union":
            part = part.branches[self._number(part)]
        many = self._limits.names if parent.kind == "object" else self._limits.children
        is_whole = part.kind not in ("record", "array", "map")
        if len(parent.children) >= many or depth > self._limits.depth or self._left < 1:
            last = parent.children[-1] if parent.children else None
            self._read(part)
            if last is not None and last.kind == ELIDED:
                last.end, last.size = self.position, last.size + 1
            else:
                parent.children.append(Node(start, self.position, ELIDED, size=1))
            return
        self._left -= 1
        if is_whole:
            value = self._read(part)
            node = Node(start, self.position, part.kind, step, value=_shown(value))
            parent.children.append(node)
            return
        kind = "array" if part.kind == "array" else "object"
        node = Node(start, start, kind, step)
        parent.children.append(node)
        try:
            if part.kind == "record":
                node.size = len(part.fields)
                for name, field in part.fields:
                    self.add(node, field, name, depth + 1)
            else:
                self._collection(node, part, depth)
        finally:
            node.end = self.position

    def _collection(self, node: Node, schema: avro.Node, depth: int) -> None:
        assert schema.items is not None
        while count := self._read(_LONG):
            if count < 0:
                count = -count
                self._read(_LONG)
            if count > len(self._data):
                # A value without bytes, or a missing one.
                raise DecodeError
            for _ in range(count):
                name = self._read(_STRING) if schema.kind == "map" else node.size
                self.add(node, schema.items, name, depth + 1)
                node.size += 1

    def _number(self, union: avro.Node) -> int:
        """The branch of a union, whose reader reports its errors."""
        number = self._read(_LONG)
        if not 0 <= number < len(union.branches):
            raise DecodeError
        return int(number)

    def _read(self, schema: avro.Node) -> Any:
        read = self._readers.get(id(schema))
        if read is None:
            read = self._readers[id(schema)] = avro.reader_of(schema)
        value, self.position = read(self._data, self.position, Budget(len(self._data)))
        return value


def _shown(value: Any) -> Any:
    return json.loads(bytes(value)) if type(value) is Raw else value


_LONG = avro.Node("long", {})
_STRING = avro.Node("string", {})
