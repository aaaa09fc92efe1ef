"""The names and meanings of the parts of Aerospike's messages, and the columns that they became.

Sources: the vendor's pages, as the docstrings of ``python_udfs.aerospike`` quote them.
"""

from collections.abc import Sequence
from typing import Final

from dbt_lakehouse.commands.explain.columns import Columns, by_index, fields_of
from dbt_lakehouse.commands.explain.nodes import ELIDED, Node
from dbt_lakehouse.texts import time_text
from python_udfs.aerospike.flat_json import KEY as _FLAT_KEY
from python_udfs.aerospike.messagepack import DELETE, DURABLE_DELETE, WRITE
from python_udfs.aerospike.particles import GEOJSON, JAVA_OBJ, LIST, LISTED, MAP
from python_udfs.aerospike.records import expires_at, occurred_at
from python_udfs.core.events import Event

_RECORD: Final = ("version", "type", "payload")
_WRITE: Final = ("key", "generation", "expiry", "lut", "bins")
_DELETES: Final = {2: ("key", "flags"), 5: ("key", "flags", "generation", "expiry", "lut")}
_KEY: Final = ("namespace", "set", "digest", "user_key")
_BIN: Final = ("name", "type", "flags", "value")
_TYPES: Final = {WRITE: "WRITE", DELETE: "DELETE"}
_ORDERS: Final = {
    MAP: {0: "unordered", 1: "key-ordered", 3: "key-value-ordered"},
    LIST: {0: "unordered", 1: "ordered"},
}
_EXTS: Final = {
    f"ext {JAVA_OBJ}": "JAVA OBJ",
    f"ext {GEOJSON}": "GEOJSON",
    "ext -1": "timestamp",
}
# In flat JSON, the parts of a key have names.
_NAMED: Final = {"userKey": "user_key"}
# The columns of the parts of a key, and of numbers.
_OF_KEY: Final = {
    "namespace": ("source_schema",),
    "set": ("source_table",),
    "digest": ("record_key",),
    "user_key": ("metadata.user_key", "metadata.user_key_type"),
}
_OF_NUMBERS: Final = {
    "generation": ("metadata.generation",),
    "expiry": ("expires_at", "metadata.expiry"),
    "lut": ("occurred_at", "metadata.lut"),
}
# The numeric properties of a record in JSON.
_NUMBERS: Final = {"gen": "generation", "exp": "expiry", "lut": "lut"}


def name_messagepack(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a value in MessagePack."""
    for record, columns in _records(root, events):
        _name_record(record, columns)


def name_json(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a value in JSON."""
    for record, columns in _records(root, events):
        _name_object(record, columns)


def name_flat_json(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a value in flat JSON."""
    for record, columns in _records(root, events):
        _name_flat(record, columns)


def name_key(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a Kafka key, in any of the formats."""
    columns = Columns(events[0] if len(events) == 1 else None)
    columns.fill(root, "metadata.event_key")
    if root.kind == "array" and all(each.kind in ("array", "object") for each in root.children):
        root.name = "keys of a batch"
        for key in root.children:
            _name_parts(key, _KEY)
        return
    _name_parts(root, _KEY)
    if events[0].operation == "tombstone":
        for each in root.children:
            name = each.name or each.step
            if name in ("namespace", "set", "digest"):
                columns.fill(each, *_OF_KEY[str(name)])


def _records(root: Node, events: Sequence[Event]) -> list[tuple[Node, Columns]]:
    """The records of a payload, each with its event's columns."""
    if not _is_batch(root, events):
        root.name = "record"
        return [(root, Columns(events[0]))]
    root.name = "batch"
    found = by_index(events)
    records = []
    for each in root.children:
        if isinstance(each.step, int):
            each.name = f"record {each.step}"
            records.append((each, Columns(found.get(each.step))))
    return records


def _is_batch(root: Node, events: Sequence[Event]) -> bool:
    """Whether the decoder treated a payload as a batch. In JSON a record is not an array."""
    if root.kind != "array":
        return False
    return (
        len(events) > 1
        or "batch_size" in fields_of(events[0].metadata)
        or (events[0].error_detail or "").startswith("$[")
    )


def _name_parts(node: Node | None, names: Sequence[str]) -> dict[str, Node]:
    """Name the parts of an array. Returns them by name."""
    found: dict[str, Node] = {}
    for part in node.children if node is not None else ():
        if isinstance(part.step, int) and part.step < len(names) and part.kind != ELIDED:
            part.name = names[part.step]
            found[part.name] = part
    return found


def _name_record(record: Node, columns: Columns) -> None:
    if record.kind != "array":
        return
    parts = _name_parts(record, _RECORD)
    kind, payload = parts.get("type"), parts.get("payload")
    if kind is None or type(kind.value) is not int or payload is None or payload.kind != "array":
        return
    kind.note = _TYPES.get(kind.value, "")
    columns.fill(kind, "operation")
    parts = _name_parts(payload, _parts_of_payload(kind.value, payload.size))
    for name, part in _name_parts(parts.get("key"), _KEY).items():
        columns.fill(part, *_OF_KEY[name])
    for name in ("generation", "expiry", "lut"):
        _tell_number(parts.get(name), name, columns)
    flags = parts.get("flags")
    if flags is not None and type(flags.value) is int:
        flags.note = "DURABLE_DELETE" if flags.value & DURABLE_DELETE else ""
        columns.fill(flags, "metadata.flags", "metadata.durable")
    bins = parts.get("bins")
    for each in bins.children if bins is not None else ():
        _name_bin(each, columns)


def _parts_of_payload(kind: int, size: int) -> Sequence[str]:
    """The names of the parts; empty for an unknown type."""
    if kind == WRITE:
        return _WRITE
    return _DELETES.get(size, ()) if kind == DELETE else ()


def _name_bin(node: Node, columns: Columns) -> None:
    parts = _name_parts(node, _BIN)
    name, kind = parts.get("name"), parts.get("type")
    if name is None or kind is None or type(kind.value) is not int:
        return
    kind.note = LISTED[kind.value][0] if kind.value in LISTED else "a type that no page lists"
    flags, value = parts.get("flags"), parts.get("value")
    if flags is not None and type(flags.value) is int:
        flags.note = _ORDERS.get(kind.value, {}).get(flags.value, "")
    if value is not None:
        _note_exts(value)
    _fill_bin(name, kind, value, columns)


def _fill_bin(name: Node, kind: Node, value: Node | None, columns: Columns) -> None:
    if value is not None:
        columns.fill(value, f"after.{name.value}")
    bins = columns.metadata.get("bins")
    if bins is not None:
        field = f"metadata.bins.{name.value}"
        columns.fill_field(kind, field, fields_of(bytes(bins)).get(str(name.value)))


def _note_exts(value: Node) -> None:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        node.note = _EXTS.get(node.kind, node.note)
        waiting += node.children


def _tell_number(node: Node | None, name: str, columns: Columns) -> None:
    if node is None or node.kind == ELIDED:
        return
    number = node.value if type(node.value) is int else _integer(node)
    if name == "lut" and number is not None:
        moment = occurred_at(number)
        if moment is not None:
            node.note = time_text(moment * 1000)
        else:
            node.note = "in seconds, or no time" if number else "not known"
    if name == "expiry" and number is not None:
        moment = expires_at(number)
        node.note = "never" if moment is None else time_text(moment * 1000)
    columns.fill(node, *_OF_NUMBERS[name])


def _integer(node: Node) -> int | None:
    """The integer of a JSON number, whose text is kept as written."""
    text = node.value if node.kind == "number" else ""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else None


def _name_object(record: Node, columns: Columns) -> None:
    for part in record.children:
        name = part.step
        if name == "msg":
            columns.fill(part, "operation")
        elif name == "key":
            for of_key, each in _name_parts(part, _KEY).items():
                columns.fill(each, *_OF_KEY[of_key])
        elif name in _NUMBERS:
            _tell_number(part, _NUMBERS[str(name)], columns)
        elif name == "bins":
            for each in part.children:
                _name_bin_object(each, columns)
        else:
            columns.fill(part, f"metadata.{name}")
            if not part.became and "extra" in columns.metadata:
                columns.fill(part, "metadata.extra")


def _name_flat(record: Node, columns: Columns) -> None:
    fields = record
    for part in record.children:
        if columns.exists and {"msg", "namespace", "digest"} <= {
            each.step for each in part.children
        }:
            part.name = "metadata"
            fields = part
            columns.fill(part, "metadata.metadata_key")
            break
    for part in fields.children:
        name = str(part.step)
        if name == "msg":
            columns.fill(part, "operation")
        elif name in _FLAT_KEY:
            columns.fill(part, *_OF_KEY[_NAMED.get(name, name)])
        elif name in _NUMBERS:
            _tell_number(part, _NUMBERS[name], columns)
        elif name == "durable" or fields is not record:
            columns.fill(part, f"metadata.{name}")
    for part in record.children:
        if part is not fields and not part.became:
            columns.fill(part, f"after.{part.step}", f"metadata.{part.step}")


def _name_bin_object(node: Node, columns: Columns) -> None:
    name, kind = node.part("name"), node.part("type")
    if name is not None and kind is not None:
        _fill_bin(name, kind, node.part("value"), columns)
