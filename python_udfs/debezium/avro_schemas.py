"""Avro schemas of Kafka Connect's AvroConverter: the Connect schema block that each stands for.

    {"type": "record", "name": "Value", "namespace": "shop.orders", "fields": [
      {"name": "id", "type": "int"},
      {"name": "total", "type": ["null", {"type": "bytes", "scale": 2, "precision": 64,
        "connect.version": 1, "connect.parameters": {"scale": "2"},
        "connect.name": "org.apache.kafka.connect.data.Decimal", "logicalType": "decimal"}]},
      {"name": "at", "type": {"type": "long", "connect.version": 1,
        "connect.name": "io.debezium.time.MicroTimestamp"}}],
     "connect.name": "shop.orders.Value"}

The block is the one that JsonConverter would ship for the same schema, so ``types`` converts the
values of both in the same way. The source of the type, first match:

| in the Avro schema | Connect's |
|---|---|
| ``connect.name``, ``connect.parameters`` | the same |
| ``connect.type`` of an int: int8, int16 | the same |
| logicalType decimal | Decimal with that scale |
| date; time-millis; timestamp-millis | Date; Time; Timestamp |
| time-micros; local-timestamp-millis, -micros, -nanos | Debezium's of the same meaning |
| timestamp-micros, -nanos | none: an instant with 6 or 9 digits |
| enum; fixed | string; bytes |
| a union of null and one type | that type, optional |
| any other union | a struct with a field for each type |
| an array of MapEntry | a map whose keys are not strings |

Sources: the comments and tests of Confluent's AvroData; "Logical Types" of the Avro specification.
"""

from typing import Any, Final, NamedTuple

import msgspec

from python_udfs.debezium.types import Schema, read_schema
from python_udfs.text.avro import BadSchema, Node, Read, parse_schemas, reader_of, union_names

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_TYPES: Final = {
    "null": "",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "enum": "string",
    "fixed": "bytes",
}
_LOGICAL: Final = {
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "local-timestamp-millis"): "io.debezium.time.Timestamp",
    ("long", "local-timestamp-micros"): "io.debezium.time.MicroTimestamp",
    ("long", "local-timestamp-nanos"): "io.debezium.time.NanoTimestamp",
    ("long", "timestamp-micros"): "timestamp-micros",
    ("long", "timestamp-nanos"): "timestamp-nanos",
    ("bytes", "decimal"): _DECIMAL,
    ("fixed", "decimal"): _DECIMAL,
}
# AvroData's value for a decimal whose precision Connect doesn't know.
_NO_PRECISION: Final = 64
# AvroData's names of structs and unions without one in Connect.
_NAMELESS: Final = "io.confluent.connect.avro."
# A type can be a part of many others, and is written out in each.
_MOST_PARTS: Final = 100_000


class AvroSchema(NamedTuple):
    """A schema, ready to read values."""

    read: Read
    schema: Schema
    """Converts the results of ``read``."""
    node: Node
    prefix: bytes
    """The text before a JsonConverter's payload: ``{"schema":...,"payload":``."""


def compile_schema(texts: tuple[str, ...]) -> AvroSchema:
    """The last of the schemas; those before it are the ones that it refers to.

    Raises ``BadSchema``, and ``DecodeError`` for one that is nested too deep.
    """
    node = parse_schemas(texts)
    block = msgspec.json.encode(_Blocks().of(node))
    prefix = b'{"schema":%b,"payload":' % block
    return AvroSchema(reader_of(node), read_schema(block, False), node, prefix)


class _Blocks:
    def __init__(self) -> None:
        self._parts = 0
        self._within: list[Node] = []

    def of(self, node: Node) -> dict[str, Any]:
        """The schema block of a type. A type that contains itself has no fields there: its values
        stay as they were shipped.
        """
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise BadSchema(f"more than {_MOST_PARTS} parts")
        optional = node.optional
        if optional is not None:
            return {**self.of(optional), "optional": True}
        if node.kind == "union" and len(node.branches) == 1:
            return self.of(node.branches[0])
        block: dict[str, Any] = {"type": _TYPES.get(node.kind, node.kind), "optional": False}
        name = node.attributes.get("connect.name")
        if isinstance(name, str):
            block["name"] = name
        if node.kind in ("record", "union"):
            block["type"] = "struct"
            if node.name and not node.name.startswith(_NAMELESS):
                block.setdefault("name", node.name)
            block["fields"] = self._fields(node)
        elif node.items is not None:
            self._collection(node, node.items, block)
        else:
            _scalar(node, block)
        return block

    def _fields(self, node: Node) -> list[dict[str, Any]]:
        if node in self._within:
            return []
        self._within.append(node)
        if node.kind == "union":
            named = zip(union_names(node), node.branches, strict=True)
            fields = [
                {**self.of(part), "optional": True, "field": name}
                for name, part in named
                if name is not None
            ]
        else:
            fields = [{**self.of(part), "field": name} for name, part in node.fields]
        self._within.pop()
        return fields

    def _collection(self, node: Node, items: Node, block: dict[str, Any]) -> None:
        entry = items.entry
        if node.kind == "map":
            block |= {"keys": {"type": "string"}, "values": self.of(items)}
        elif entry is not None:
            key, value = entry
            block |= {"type": "map", "keys": self.of(key), "values": self.of(value)}
        else:
            block["items"] = self.of(items)


def _scalar(node: Node, block: dict[str, Any]) -> None:
    said = node.attributes
    if node.kind == "int" and said.get("connect.type") in ("int8", "int16"):
        block["type"] = said["connect.type"]
    parameters = said.get("connect.parameters")
    parameters = dict(parameters) if isinstance(parameters, dict) else {}
    logical = _LOGICAL.get((node.kind, str(said.get("logicalType"))))
    if logical is not None:
        block.setdefault("name", logical)
    if block.get("name") == _DECIMAL and "scale" not in parameters:
        parameters["scale"] = said.get("scale", 0)
        if said.get("precision") != _NO_PRECISION:
            parameters["connect.decimal.precision"] = said.get("precision")
    if parameters:
        block["parameters"] = parameters
