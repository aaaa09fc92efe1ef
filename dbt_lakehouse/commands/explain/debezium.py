"""The columns that the parts of an envelope became, with the types that its schema block
declares.

Sources: the docstrings of ``python_udfs.debezium``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dbt_lakehouse.commands.explain.columns import Columns
from dbt_lakehouse.commands.explain.nodes import ELIDED, Node
from dbt_lakehouse.texts import time_text
from python_udfs.core.events import Event
from python_udfs.core.paths import step_text

_OF_SOURCE: Final = {
    "db": ("source_database",),
    "schema": ("source_schema",),
    "namespace": ("source_schema",),
    "keyspace": ("source_schema",),
    "table": ("source_table",),
    "collection": ("source_table",),
    "database_name": ("source_database",),
    "schema_name": ("source_schema",),
    "keyspace_name": ("source_schema",),
    "table_name": ("source_table",),
    "ts_ms": ("occurred_at",),
    "connector": ("metadata.connector",),
    "snapshot": ("metadata.snapshot",),
}
_OF_SCHEMA_CHANGE: Final = {"databaseName": ("source_database",), "schemaName": ("source_schema",)}
SCHEMA: Final = "schema block"
UNDECLARED: Final = "not in the schema block"
_IMAGES: Final = ("before", "after")
# MongoDB's fields of an update outside of the document.
_UPDATES: Final = ("updateDescription", "patch")
_SCALE: Final = "scale"


def name_value(root: Node, text: bytes, events: Sequence[Event]) -> None:
    """Name the parts of a value."""
    columns = Columns(events[0])
    payload = taken_apart(root, text)
    schema = root.part("schema") if payload is not root else None
    if schema is not None:
        columns.fill(schema.part("name"), "metadata.schema_name")
    if payload is not root:
        for part in root.children:
            if part.step not in ("schema", "payload"):
                columns.fill(part, "metadata.wrapper")
    for part in payload.children:
        fill(part, columns)


def name_key(root: Node, text: bytes, events: Sequence[Event]) -> None:
    """Name the parts of a Kafka key."""
    columns = Columns(events[0])
    row = taken_apart(root, text)
    if not columns.record_key:
        columns.fill(row, "metadata.event_key")
    for part in row.children:
        is_document_id = "bson" in columns.metadata and part.step == "id"
        columns.fill(part, f"record_key.{'_id' if is_document_id else part.step}")


def fill(part: Node, columns: Columns) -> None:
    """Note what a part of an envelope became."""
    name = str(part.step)
    if name == "op":
        columns.fill(part, "operation")
    elif name in _IMAGES:
        # The key of a delete may be in "after" (Cassandra).
        is_before = name == "before" or not columns.after
        column, image = ("before", columns.before) if is_before else ("after", columns.after)
        for value in part.children:
            columns.fill(value, f"{column}.{value.step}")
            tell_notes(value, name, columns)
        # MongoDB's documents are texts.
        if part.kind == "string" or (not image and part.kind != ELIDED):
            columns.fill(part, name)
    elif name == "source":
        for each in part.children:
            columns.fill(each, *_OF_SOURCE.get(str(each.step), ()))
            if each.step == "ts_ms":
                each.note = time_of(each)
        if "source" in columns.metadata:
            part.became.append("metadata.source")
    else:
        columns.fill(part, *_OF_SCHEMA_CHANGE.get(name, ()))
        if "bson" in columns.metadata and name in _UPDATES and part.kind != "null":
            columns.fill(part, "after")
        if name in columns.metadata:
            columns.fill(part, f"metadata.{name}")
        elif "envelope" in columns.metadata:
            columns.fill(part, "metadata.envelope")


def time_of(node: Node) -> str:
    """The time that a node gives in milliseconds, or an empty text."""
    text = str(node.value)
    return time_text(int(text) * 1000) if text.isdecimal() and 12 <= len(text) <= 14 else ""


def tell_notes(value: Node, image: str, columns: Columns) -> None:
    """Note what metadata says of a column of an image."""
    path = f"$.{image}{step_text(value.step)}" if value.step is not None else "$"
    untyped: list[str] = json.loads(bytes(columns.metadata.get("untyped", b"[]")))
    if any(each == path or each.startswith((f"{path}.", f"{path}[")) for each in untyped):
        value.became.append("metadata.untyped: no value of the declared type, kept as sent")
    as_sent: dict[str, str] = json.loads(bytes(columns.metadata.get("as_sent", b"{}")))
    if path in as_sent:
        value.became.append("metadata.as_sent: as it was written")


# --- Schema blocks --------------------------------------------------------------------------------


def taken_apart(root: Node, text: bytes) -> Node:
    """The payload of a wrapper ``{schema, payload}``, its parts with their declared types;
    anything else is returned as it is.
    """
    payload = root.part("payload")
    schema = root.part("schema")
    others = {each.step for each in root.children} - {"schema", "payload"}
    if payload is None or root.part("op") is not None:
        return root
    if schema is None and others and payload.part("op") is None:
        return root
    if schema is not None and schema.kind == "object":
        schema.name = SCHEMA
        block = _loaded(text[schema.start : schema.end])
        if block:
            declare(payload, block)
    return payload


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # Truncated, or not a schema block.
        return None


def declare(node: Node, block: Any) -> None:
    """Set the types that a schema block declares on a value and its parts."""
    waiting: list[tuple[Node, Any]] = [(node, block)]
    while waiting:
        node, block = waiting.pop()
        if node.kind == ELIDED or not isinstance(block, Mapping):
            continue
        node.declared = _type_text(block)
        fields = _fields(block)
        for part in node.children:
            if block.get("type") == "struct":
                if part.step in fields:
                    waiting.append((part, fields[part.step]))
                elif part.kind != ELIDED:
                    part.declared = UNDECLARED
            elif block.get("type") == "array":
                waiting.append((part, block.get("items")))
            elif block.get("type") == "map" and node.kind == "object":
                waiting.append((part, block.get("values")))


def _fields(block: Mapping[str, Any]) -> dict[Any, Any]:
    fields = block.get("fields")
    if not isinstance(fields, list):
        return {}
    return {
        each["field"]: each
        for each in fields
        if isinstance(each, Mapping) and isinstance(each.get("field"), str)
    }


def _type_text(block: Mapping[str, Any]) -> str:
    """``int32``, or a logical type with its physical type: ``Date (int32)``."""
    kind, name = block.get("type"), block.get("name")
    text = kind if isinstance(kind, str) else "no type"
    if isinstance(name, str) and name and kind != "struct":
        parameters = block.get("parameters")
        scale = parameters.get(_SCALE) if isinstance(parameters, Mapping) else None
        scaled = "" if scale is None else f", scale {scale}"
        text = f"{name} ({text}{scaled})"
    return text
