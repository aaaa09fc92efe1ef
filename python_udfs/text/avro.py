"""Avro's binary encoding, read strictly: invalid bytes are an error with path and byte.

    >>> read = reader_of(parse_schemas(['{"type": "record", "name": "r", "fields": ['
    ...     '{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}]}']))
    >>> read(bytes.fromhex("0602046869"), 0, Budget(5))
    ({'id': 3, 'note': 'hi'}, 5)

A value has the form in which Kafka Connect's JsonConverter would ship it: bytes and fixed are
base64, numbers with a fraction ``msgspec.Raw`` with Java's digits, NaN and infinities text, enums
strings, maps whose keys are not strings (arrays of Connect's ``MapEntry``) arrays of [key, value];
a union of more than null and one type is an object with a name for each type, all but one null, as
in Connect's AvroData. With ``as_connect=False``, bytes and fixed are bytes, numbers floats, each
union a pair of its branch and the value, a ``MapEntry`` a record.

Source: "Binary Encoding" of the Apache Avro specification. A reader is Python text made for its
schema: one call for each field would take three times as long. If it fails, the line gives the
field and the frame the byte, so neither is kept while reading.

Why not ``fastavro``: it counts a negative branch of a union or index of an enum from the end,
accepts a number beyond 64 bits and a boolean of 7, and makes as many nulls in an array as a few
bytes declare. A damaged payload would become a wrong row.

Policies:

- Booleans are 0 or 1; integers at most ten bytes, an int in 32 bits; text is UTF-8.
- A block of an array or a map may have a negative count with its size, which must be right.
- A name that comes twice in a map is an error: neither value may be dropped.
- If a few bytes may become many objects, these are spent from the payload's budget.
"""

import json
import struct
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import Any, Final, NoReturn

from msgspec import Raw

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, DecodeError, TooDeep, Truncated
from python_udfs.core.limits import MAX_DEPTH
from python_udfs.core.paths import shorten, step_text

Read = Callable[[bytes, int, Budget], tuple[Any, int]]
"""Reads the value at a byte. Returns it with its end position. Raises ``DecodeError``."""

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
# Each also becomes a branch in the reader's text.
_MOST_BRANCHES: Final = 500
# The size of an object, and of a name in it beside the name's text: in memory and as JSON.
_OBJECT_BYTES: Final = 64
_PLACE_BYTES: Final = 24


class BadSchema(ValueError):
    """A text that is not an Avro schema. The message says why."""


class Node:
    """A schema, or a part of one, its names resolved. A record may be a part of itself."""

    __slots__ = ("attributes", "branches", "fields", "items", "kind", "name", "size", "symbols")

    def __init__(self, kind: str, attributes: Mapping[str, Any], name: str | None = None) -> None:
        self.kind = kind
        self.attributes = attributes
        """Everything that the schema says about it, including ``logicalType`` and
        ``connect.name``.
        """
        self.name = name
        """Its name with the namespace, if it has one."""
        self.fields: list[tuple[str, Node]] = []
        self.branches: list[Node] = []
        """The branches of a union."""
        self.items: Node | None = None
        """The elements of an array, the values of a map."""
        self.symbols: tuple[str, ...] = ()
        self.size = 0
        """The size of a fixed."""

    @property
    def entry(self) -> "tuple[Node, Node] | None":
        """Key and value, if it is an entry of a map whose keys are not strings."""
        if self.attributes.get("connect.internal.type") == "MapEntry" or (
            self.name == "io.confluent.connect.avro.MapEntry"
        ):
            fields = dict(self.fields)
            if fields.keys() == {"key", "value"}:
                return fields["key"], fields["value"]
        return None

    @property
    def optional(self) -> "Node | None":
        """The other type in a union of null and one other type; None for anything else."""
        if self.kind == "union" and len(self.branches) == 2:
            first, second = self.branches
            if first.kind == "null":
                return second
            if second.kind == "null":
                return first
        return None


def parse_schemas(texts: Sequence[str]) -> Node:
    """The last of the schemas; those before it are the ones that it refers to. Raises
    ``BadSchema``.
    """
    names: dict[str, Node] = {}
    node = None
    for text in texts:
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError):
            # A schema that is a type's name may lack its quotes, as in some registries.
            schema = text
        node = _parse(schema, "", names, 0)
    if node is None:
        raise BadSchema("no schema")
    return node


def _parse(schema: Any, namespace: str, names: dict[str, Node], depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise BadSchema(f"nested deeper than {MAX_DEPTH}")
    if isinstance(schema, str):
        return _named(schema, namespace, names)
    if isinstance(schema, list):
        union = Node("union", {})
        union.branches = [_parse(each, namespace, names, depth + 1) for each in schema]
        if not 0 < len(union.branches) <= _MOST_BRANCHES:
            raise BadSchema(f"a union of {len(union.branches)} types: at most {_MOST_BRANCHES}")
        if any(each.kind == "union" for each in union.branches):
            raise BadSchema("a union within a union")
        return union
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, dict | list):
        # {"type": {"type": "long", ...}}
        return _parse(kind, namespace, names, depth + 1)
    if not isinstance(kind, str):
        raise BadSchema(f"expected a type, got {shorten(repr(schema))}")
    if kind in PRIMITIVES:
        return Node(kind, schema)
    if kind == "array" or kind == "map":
        part = schema.get("items" if kind == "array" else "values")
        if part is None:
            raise BadSchema(f"{kind} without the type of its parts")
        node = Node(kind, schema)
        node.items = _parse(part, namespace, names, depth + 1)
        return node
    if kind not in _NAMED:
        return _named(kind, namespace, names)
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise BadSchema(f"{kind} without a name")
    given = schema.get("namespace")
    if "." not in name:
        name = f"{given if isinstance(given, str) else namespace}.{name}".lstrip(".")
    if name in names:
        raise BadSchema(f"{shorten(name)} is declared twice")
    node = names[name] = Node("record" if kind == "error" else kind, schema, name)
    if kind == "fixed":
        size = schema.get("size")
        if type(size) is not int or size < 0:
            raise BadSchema(f"fixed {shorten(name)} without a size")
        node.size = size
    elif kind == "enum":
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise BadSchema(f"enum {shorten(name)} without symbols")
        node.symbols = tuple(symbols)
    else:
        _parse_fields(node, schema, name.rpartition(".")[0], names, depth)
    return node


def _parse_fields(
    node: Node, schema: Mapping[str, Any], namespace: str, names: dict[str, Node], depth: int
) -> None:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise BadSchema(f"record {shorten(str(node.name))} without fields")
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(name, str) or "type" not in field:
            raise BadSchema(f"record {shorten(str(node.name))}: a field without name or type")
        node.fields.append((name, _parse(field["type"], namespace, names, depth + 1)))
    if len({name for name, _ in node.fields}) < len(node.fields):
        raise BadSchema(f"record {shorten(str(node.name))}: two fields of one name")


def _named(name: str, namespace: str, names: Mapping[str, Node]) -> Node:
    if name in PRIMITIVES:
        return Node(name, {})
    found = names.get(f"{namespace}.{name}" if namespace and "." not in name else name)
    found = found or names.get(name)
    if found is None:
        raise BadSchema(f"no type has the name {shorten(repr(name))}")
    return found


# --- Readers --------------------------------------------------------------------------------------


class _Wrong(Exception):
    """What was expected at a byte, and what was found."""


def reader_of(node: Node, as_connect: bool = True) -> Read:
    """The reader of values of a schema: in Kafka Connect's form, or in Avro's."""
    writer = _Writer(node, as_connect)
    paths = writer.paths
    read_root = writer.root

    def read(data: bytes, start: int, budget: Budget) -> tuple[Any, int]:
        try:
            value: tuple[Any, int] = read_root(data, start, budget, 1)
            return value
        except (_Wrong, DecodeError, IndexError, UnicodeDecodeError, struct.error) as error:
            _raise(error, paths, data, start)

    return read


def _raise(error: Exception, paths: Sequence[str], data: bytes, start: int) -> NoReturn:
    """Raise the error with the field and the byte at which reading has failed."""
    path, position = "$", start
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_filename == _FILE:
            path += paths[traceback.tb_lineno - 1]
            position = frame.f_locals["pos"]
        traceback = traceback.tb_next
    # Very deeply nested values have a very long path.
    path = shorten(path)
    where = f"{path}: at byte {position}"
    if isinstance(error, IndexError | struct.error):
        raise Truncated(f"{where}: the bytes end at {len(data)}, before the value does") from None
    if isinstance(error, UnicodeDecodeError):
        raise BadField(f"{where}: text that is not UTF-8") from None
    if isinstance(error, DecodeError):
        raise type(error)(f"{where}: {error}") from None
    raise BadField(f"{where}: {error}") from None


_FILE: Final = "<avro>"


class _Writer:
    """Writes the functions that read a schema, one for each record, array and map."""

    def __init__(self, node: Node, as_connect: bool) -> None:
        self._as_connect = as_connect
        self._lines: list[str] = []
        self.paths: list[str] = []
        """For each line, the path of the value that it reads, relative to its function's path."""
        self._functions: dict[int, str] = {}
        self._constants: dict[str, Any] = dict(_GLOBALS)
        self._waiting: list[tuple[str, Node]] = []
        self._path = ""
        self._add(0, "def root(data, pos, budget, depth):")
        self._add(1, "size = len(data)")
        self._value(1, node, "value")
        self._add(1, "return value, pos")
        while self._waiting:
            name, part = self._waiting.pop()
            if part.kind == "record":
                self._record(name, part)
            else:
                self._collection(name, part)
        exec(compile("\n".join(self._lines), _FILE, "exec"), self._constants)
        self.root: Callable[..., tuple[Any, int]] = self._constants["root"]

    def _add(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)
        self.paths.append(self._path)

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants[name] = value
        return name

    def _function(self, node: Node) -> str:
        name = self._functions.get(id(node))
        if name is None:
            name = self._functions[id(node)] = f"{node.kind}_{len(self._functions)}"
            self._waiting.append((name, node))
        return name

    def _record(self, name: str, node: Node) -> None:
        self._begin(name)
        if _is_part_of_itself(node):
            self._add(1, f"budget.spend({_cost(node)})")
        targets = []
        for index, (field, part) in enumerate(node.fields):
            self._path = step_text(field)
            self._value(1, part, f"v{index}")
            targets.append(f"{field!r}: v{index}")
        self._path = ""
        if self._as_connect and node.entry is not None:
            order = {field: index for index, (field, _) in enumerate(node.fields)}
            self._add(1, f"return [v{order['key']}, v{order['value']}], pos")
        else:
            self._add(1, f"return {{{', '.join(targets)}}}, pos")

    def _begin(self, name: str) -> None:
        self._path = ""
        self._add(0, f"def {name}(data, pos, budget, depth):")
        self._add(1, "size = len(data)")
        self._add(1, f"if depth > {MAX_DEPTH}: too_deep()")

    def _collection(self, name: str, node: Node) -> None:
        items = node.items
        assert items is not None
        is_map = node.kind == "map"
        # Each entry of a map has at least the length of its name.
        least = fewest_bytes(items) + is_map
        self._begin(name)
        self._add(1, "found = {}" if is_map else "found = []")
        self._add(1, "while True:")
        self._integer(2, "count")
        self._add(2, "if not count: return found, pos")
        self._add(2, "stop = 0")
        self._add(2, "if count < 0:")
        self._add(3, "count = -count")
        self._length(3, "length")
        self._add(3, "stop = pos + length")
        if least:
            self._add(2, f"if count > (size - pos) // {least}: too_many(count, size - pos)")
        self._add(2, f"budget.spend(count * {_cost(items) + _PLACE_BYTES + is_map * 64})")
        self._add(2, "for _ in range(count):")
        if is_map:
            self._text(3, "name")
            self._add(3, "if name in found: twice(name)")
        self._path = "[]"
        self._value(3, items, "item")
        self._path = ""
        self._add(3, "found[name] = item" if is_map else "found.append(item)")
        self._add(2, "if stop and pos != stop: bad_block(stop)")

    def _value(self, depth: int, node: Node, target: str) -> None:
        """Lines that read a value into a name."""
        kind = node.kind
        if kind in ("record", "array", "map"):
            self._add(
                depth, f"{target}, pos = {self._function(node)}(data, pos, budget, depth + 1)"
            )
        elif kind == "union":
            self._union(depth, node, target)
        elif kind == "null":
            self._add(depth, f"{target} = None")
        elif kind == "boolean":
            self._add(depth, f"{target} = data[pos]")
            self._add(depth, f"if {target} > 1: bad_boolean({target})")
            self._add(depth, f"{target} = {target} == 1; pos += 1")
        elif kind == "int" or kind == "long":
            self._integer(depth, target)
            if kind == "int":
                self._add(depth, f"if not -0x80000000 <= {target} <= 0x7fffffff: bad_int()")
        elif kind == "float":
            text = "float_text" if self._as_connect else "shortest"
            self._add(depth, f"{target} = {text}(float32(data, pos)[0]); pos += 4")
        elif kind == "double":
            text = "double_text" if self._as_connect else ""
            self._add(depth, f"{target} = {text}(float64(data, pos)[0]); pos += 8")
        elif kind == "string":
            self._text(depth, target)
        elif kind == "bytes":
            self._length(depth, "length")
            self._bytes(depth, target)
        elif kind == "fixed":
            self._add(depth, f"length = {node.size}")
            self._add(depth, "if length > size - pos: data[size]")
            self._bytes(depth, target)
        else:
            symbols = self._constant(node.symbols)
            self._integer(depth, target)
            self._add(depth, f"if not 0 <= {target} < {len(node.symbols)}: bad_symbol({target})")
            self._add(depth, f"{target} = {symbols}[{target}]")

    def _integer(self, depth: int, target: str) -> None:
        self._add(depth, "n = data[pos]; pos += 1")
        self._add(depth, "if n > 127: n, pos = long(data, pos, n)")
        self._add(depth, f"{target} = n >> 1 ^ -(n & 1)")

    def _length(self, depth: int, target: str) -> None:
        # Most are below 64, and so one even byte below 128.
        self._add(depth, "n = data[pos]; pos += 1")
        self._add(depth, f"if n & 129: {target}, pos = long_length(data, pos, n)")
        self._add(depth, f"else: {target} = n >> 1")
        self._add(depth, f"if {target} > size - pos: bad_length({target}, data)")

    def _text(self, depth: int, target: str) -> None:
        self._length(depth, "length")
        self._add(depth, f"{target} = data[pos : pos + length].decode(); pos += length")

    def _bytes(self, depth: int, target: str) -> None:
        part = "data[pos : pos + length]"
        text = f"base64({part}, newline=False).decode()"
        self._add(depth, f"{target} = {text if self._as_connect else part}; pos += length")

    def _union(self, depth: int, node: Node, target: str) -> None:
        # The branch as written: with fewer than 64 branches one byte, twice the number.
        is_short = len(node.branches) < 64
        if is_short:
            self._add(depth, "n = data[pos]; pos += 1")
        else:
            self._integer(depth, "n")
        is_plain = node.optional is not None or len(node.branches) == 1
        names = union_names(node)
        for index, part in enumerate(node.branches):
            written = 2 * index if is_short else index
            self._add(depth, f"{'el' if index else ''}if n == {written}:")
            self._value(depth + 1, part, target)
            if not self._as_connect:
                self._add(depth + 1, f"{target} = {index}, {target}")
            elif not is_plain and part.kind != "null":
                others = {name: None for name in names if name is not None}
                self._add(depth + 1, f"{target} = {{**{others!r}, {names[index]!r}: {target}}}")
        self._add(depth, "else:")
        self._add(depth + 1, f"bad_branch(n, {len(node.branches)}, {is_short})")


def union_names(node: Node) -> list[str | None]:
    """The branch names in Connect's struct for a union; None for null."""
    return [
        None if part.kind == "null" else (part.name or part.kind).rpartition(".")[2]
        for part in node.branches
    ]


def _is_part_of_itself(node: Node) -> bool:
    waiting, seen = [node], set[int]()
    while waiting:
        for part in _parts(waiting.pop()):
            if part is node:
                return True
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)
    return False


def _parts(node: Node) -> list[Node]:
    return [
        *node.branches,
        *(part for _, part in node.fields),
        *([] if node.items is None else [node.items]),
    ]


def fewest_bytes(node: Node, within: Sequence[Node] = ()) -> int:
    """The fewest bytes of a value."""
    if node.kind == "null" or node in within:
        return 0
    if node.kind == "record":
        return sum(fewest_bytes(part, [*within, node]) for _, part in node.fields)
    if node.kind == "union":
        return 1 + min(fewest_bytes(part, [*within, node]) for part in node.branches)
    return {"float": 4, "double": 8, "fixed": node.size}.get(node.kind, 1)


def _cost(node: Node) -> int:
    """The largest overhead of a value as objects or as JSON, without values of recursive types,
    arrays and maps: those are paid for one by one.
    """
    cost, waiting, seen = 0, [node], set[int]()
    while waiting:
        each = waiting.pop()
        if each.kind == "record" and id(each) not in seen:
            seen.add(id(each))
            cost += _OBJECT_BYTES + sum(len(name) + _PLACE_BYTES for name, _ in each.fields)
        if each.kind in ("record", "union"):
            waiting += (part for part in _parts(each) if id(part) not in seen)
    return cost


# --- What readers call ----------------------------------------------------------------------------

# The shift of each further byte of an integer, and the sum of the continuation bits of the bytes
# before it.
_PLACES: Final = tuple(
    (7 * byte, sum(128 << 7 * before for before in range(byte))) for byte in range(1, 10)
)


def _long(data: bytes, pos: int, n: int) -> tuple[int, int]:
    """The rest of an integer after its first byte, ``n``."""
    for place, endless in _PLACES:
        byte = data[pos]
        pos += 1
        n += byte << place
        if byte < 128:
            n -= endless
            if n >> 64:
                break
            return n, pos
    raise _Wrong("expected an integer of at most 64 bits, which goes on beyond them")


def _long_length(data: bytes, pos: int, n: int) -> tuple[int, int]:
    """The rest of a length after its first byte, ``n``. Raises if it is invalid."""
    if n > 127:
        n, pos = _long(data, pos, n)
    if n & 1:
        raise _Wrong(f"expected a length, got {-(n >> 1) - 1}")
    return n >> 1, pos


def _bad_length(length: int, data: bytes) -> NoReturn:
    raise Truncated(f"a length of {length}, but the bytes end at {len(data)}")


def _too_many(count: int, left: int) -> NoReturn:
    raise Truncated(f"a block of {count} values, but only {left} bytes are left")


def _bad_branch(written: int, branches: int, is_short: bool) -> NoReturn:
    shown = str(written)
    if is_short:
        shown = "more" if written > 127 else str(written >> 1 ^ -(written & 1))
    raise _Wrong(f"expected a union's branch from 0 to {branches - 1}, got {shown}")


def _bad_boolean(byte: int) -> NoReturn:
    raise _Wrong(f"expected a boolean, 0 or 1, got {byte}")


def _bad_int() -> NoReturn:
    raise _Wrong("expected an int of 32 bits, got more")


def _bad_symbol(place: int) -> NoReturn:
    raise _Wrong(f"an enum has no symbol {place}")


def _bad_block(stop: int) -> NoReturn:
    raise _Wrong(f"expected the end of a block, which is at byte {stop} by its size")


def _twice(name: str) -> NoReturn:
    raise _Wrong(f"the name {shorten(repr(name))} comes twice in one map")


def _too_deep() -> NoReturn:
    raise TooDeep(f"nested deeper than {MAX_DEPTH}")


_float32: Final = struct.Struct("<f")


def float_text(value: float) -> Any:
    """Java's text of a float32."""
    return double_text(_shortest(value))


def _shortest(value: float) -> float:
    """The number with the fewest digits that is this float32."""
    if not -3.5e38 < value < 3.5e38:
        return value
    # Up to six digits always survive, except in numbers so small that few bits are left.
    text = value
    for digits in range(2 if -1e-37 < value < 1e-37 else 6, 10):
        text = float(f"{value:.{digits}g}")
        if abs(text) <= _LARGEST_FLOAT and _float32.unpack(_float32.pack(text))[0] == value:
            break
    return text


_LARGEST_FLOAT: Final = 3.4028235e38


def double_text(value: float) -> Any:
    """Java's text of a double in JSON: ``1.0E10``; a string for one that is not a number.

    The fewest digits, at least two, that give the same double again: Java's rule since 19, while
    older versions sometimes have more.
    """
    if 1e-3 <= value < 1e7 or -1e7 < value <= -1e-3 or value == 0:
        return Raw(repr(value))
    if value != value:
        return "NaN"
    if value in (_INFINITY, -_INFINITY):
        return "Infinity" if value > 0 else "-Infinity"
    digits, _, power = repr(value).partition("e")
    if not power or len(digits) < 4:
        places = Decimal(repr(value)).normalize().as_tuple().digits
        shown = f"{value:.{max(1, len(places) - 1)}e}"
        digits, _, power = shown.partition("e")
    return Raw(f"{digits}E{int(power)}")


_INFINITY: Final = float("inf")

_GLOBALS: Final[dict[str, Any]] = {
    "long": _long,
    "base64": b2a_base64,
    "float32": _float32.unpack_from,
    "float64": struct.Struct("<d").unpack_from,
    "float_text": float_text,
    "shortest": _shortest,
    "double_text": double_text,
    "long_length": _long_length,
    "bad_length": _bad_length,
    "too_many": _too_many,
    "bad_branch": _bad_branch,
    "bad_boolean": _bad_boolean,
    "bad_int": _bad_int,
    "bad_symbol": _bad_symbol,
    "bad_block": _bad_block,
    "twice": _twice,
    "too_deep": _too_deep,
}
