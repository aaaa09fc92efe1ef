"""Avro messages for tests: what Confluent's AvroConverter makes of a schema block and a payload.

Written from JsonConverter's form of the same message, by the rules that AvroConverter's own tests
show, and encoded by ``fastavro``: nothing here is shared with the decoder.
"""

import io
import json
import struct
from base64 import b64decode
from typing import Any

from fastavro import parse_schema, schemaless_writer

_TYPES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "float": "float",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL = {"Date": "date", "Time": "time-millis", "Timestamp": "timestamp-millis"}


def avro_schema(block: Any) -> dict[str, Any]:
    """The Avro schema of a schema block."""
    schema = _schema(block, set(), "ConnectDefault")
    return schema if isinstance(schema, dict) else {"type": schema}


def _schema(block: Any, names: set[str], nameless: str) -> Any:
    kind, name = block["type"], block.get("name")
    schema: str | dict[str, Any] = {}
    if kind == "struct":
        full = name or f"io.confluent.connect.avro.{nameless}"
        if full in names:
            schema = full
        else:
            names.add(full)
            namespace, _, short = full.rpartition(".")
            schema = {"type": "record", "name": short, "namespace": namespace, "fields": []}
            for number, field in enumerate(block["fields"]):
                part = _schema(field, names, f"{nameless}_{number}")
                declared = {"name": field["field"], "type": part}
                if field.get("optional"):
                    declared["default"] = None
                schema["fields"].append(declared)
    elif kind == "array":
        schema = {"type": "array", "items": _schema(block["items"], names, nameless + "_i")}
    elif kind == "map":
        values = _schema(block["values"], names, nameless + "_v")
        if block["keys"]["type"] == "string" and not block["keys"].get("optional"):
            schema = {"type": "map", "values": values}
        else:
            entry = f"MapEntry{len(names)}"
            names.add(entry)
            keys = _schema(block["keys"], names, nameless + "_k")
            schema = {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": entry,
                    "namespace": "io.confluent.connect.avro",
                    "fields": [{"name": "key", "type": keys}, {"name": "value", "type": values}],
                    "connect.internal.type": "MapEntry",
                },
            }
    else:
        schema = {"type": _TYPES[kind]}
        if kind in ("int8", "int16"):
            schema["connect.type"] = kind
    if isinstance(schema, dict):
        if name and name.startswith("org.apache.kafka.connect.data."):
            short = name.rpartition(".")[2]
            if short == "Decimal":
                schema |= {"scale": int(block["parameters"]["scale"]), "precision": 64}
            schema["logicalType"] = _LOGICAL.get(short, "decimal")
        if name:
            schema |= {"connect.version": 1, "connect.name": name}
        if block.get("parameters"):
            schema["connect.parameters"] = block["parameters"]
        if len(schema) == 1:
            schema = schema["type"]
    return ["null", schema] if block.get("optional") else schema


def avro_value(block: Any, value: Any) -> Any:
    """What JSON ships of a value, as what ``fastavro`` writes."""
    kind = block["type"]
    if value is None:
        return None
    if kind == "struct":
        return {
            field["field"]: avro_value(field, value.get(field["field"]))
            for field in block["fields"]
        }
    if kind == "array":
        return [avro_value(block["items"], each) for each in value]
    if kind == "map":
        if isinstance(value, dict):
            return {name: avro_value(block["values"], each) for name, each in value.items()}
        return [
            {"key": avro_value(block["keys"], key), "value": avro_value(block["values"], each)}
            for key, each in value
        ]
    if kind == "bytes":
        return b64decode(value)
    if kind in ("float32", "float64", "float"):
        return float(value)
    return value


def plain(schema: Any) -> Any:
    """A schema without logical types, of which ``fastavro`` would want Python's own values."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if isinstance(schema, dict):
        return {name: plain(each) for name, each in schema.items() if name != "logicalType"}
    return schema


class Writer:
    """Writes values of a schema that a registry has under an id."""

    def __init__(self, number: int, schema: Any) -> None:
        self._frame = b"\0" + struct.pack(">i", number)
        self._schema = parse_schema(plain(schema))

    def write(self, value: Any) -> bytes:
        out = io.BytesIO()
        out.write(self._frame)
        schemaless_writer(out, self._schema, value)
        return out.getvalue()


def framed(number: int, text: bytes) -> bytes:
    """A JSON text with its schema block as an Avro message."""
    message = json.loads(text)
    block = message["schema"]
    return Writer(number, avro_schema(block)).write(avro_value(block, message["payload"]))
