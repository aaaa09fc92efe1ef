"""The Kafka messages of row events, in each wire format."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from aerospike_encoder import pack
from row_events import DATABASE, WRITES, Event, Value, digest
from streams import BLOB, BOOLEAN, DOUBLE, INTEGER, STRING, Message

Payload = tuple[bytes | None, bytes | None]

_DEBEZIUM_OPS: Final = {
    "snapshot": "r",
    "insert": "c",
    "update": "u",
    "delete": "d",
    "truncate": "t",
}
_MAXWELL_TYPES: Final = {"snapshot": "bootstrap-insert"}
_CANAL_TYPES: Final = {"snapshot": "INIT"}
_PARTICLE_TYPES: Final[dict[type, int]] = {
    type(None): 0,
    bool: BOOLEAN,
    int: INTEGER,
    float: DOUBLE,
    str: STRING,
    bytes: BLOB,
}
_BIN_TYPES: Final[dict[type, str]] = {type(None): "nil", bool: "bool", int: "int", str: "str"}


def message(event: Event) -> Message:
    """The Kafka message of an event."""
    key, value = _PAYLOADS[event.source.format](event) if event.is_change else (None, event.raw)
    return Message(event.source.topic, event.partition, event.offset, event.sent_ms, key, value)


# --- Aerospike ------------------------------------------------------------------------------------


def _messagepack(event: Event) -> Payload:
    key = [event.source.schema, _set(event), _digest(event), None]
    if event.operation == "delete":
        # Connectors before 4.0 date no delete.
        dates = [] if event.time_ms is None else [3, 0, event.time_ms]
        return None, pack([1, 2, [key, 0, *dates]])
    bins = [[name, _PARTICLE_TYPES[type(value)], 0, value] for name, value in event.named.items()]
    return None, pack([1, 1, [key, 1, event.expires_s or 0, event.time_ms, bins]])


def _aerospike_json(event: Event) -> Payload:
    key = [event.source.schema, _set(event), b64encode(_digest(event)).decode(), None]
    if event.operation == "delete":
        return None, _compact({"msg": "delete", "key": key, "durable": False} | _lut(event))
    bins = [
        {"name": name, "type": _BIN_TYPES[type(value)], "value": value}
        for name, value in event.named.items()
    ]
    record = {"msg": "write", "key": key, "gen": 1, "exp": event.expires_s or 0, "bins": bins}
    return None, _compact(record | _lut(event))


def _flat_json(event: Event) -> Payload:
    metadata = {"namespace": event.source.schema, "digest": b64encode(_digest(event)).decode()}
    if (of_set := _set(event)) is not None:
        metadata["set"] = of_set
    if event.operation == "delete":
        return None, _compact({"metadata": metadata | {"msg": "delete"} | _lut(event)})
    more = {"msg": "write", "gen": 1, "exp": event.expires_s or 0}
    return None, _compact({"metadata": metadata | more | _lut(event), **event.named})


def _set(event: Event) -> str | None:
    return event.source.table if event.has_set else None


def _digest(event: Event) -> bytes:
    assert event.key is not None
    return digest(event.key)


def _lut(event: Event) -> dict[str, Any]:
    return {} if event.time_ms is None else {"lut": event.time_ms}


# --- Debezium and its kind ------------------------------------------------------------------------


def _debezium(event: Event) -> Payload:
    source = {"connector": "postgresql", "db": DATABASE, "schema": event.source.schema}
    return _message_key(event), _compact(_envelope(event, source))


def _arcion(event: Event) -> Payload:
    """With the blocks that declare its types, in which each value is text."""
    columns = [_declared("id", "int64")] if event.source.has_key else []
    columns += [_declared("level", "int64"), _declared("label"), _declared("note")]
    # MicroTimestamp's would be a number.
    columns.append(_declared("seen"))
    images = [{"type": "struct", "field": name, "fields": columns} for name in ("before", "after")]
    source = {"connector": "POSTGRESQL", "db": DATABASE, "schema": event.source.schema}
    envelope = _envelope(event, source)
    for image in ("before", "after"):
        if envelope[image]:
            envelope[image] = {name: _as_text(value) for name, value in envelope[image].items()}
    value = {"schema": {"type": "struct", "fields": images}, "payload": envelope}
    if event.key is None:
        return b'"default"', _compact(value)
    key = {"schema": {"type": "struct", "fields": columns[:1]}, "payload": {"id": str(event.key)}}
    return _compact(key), _compact(value)


def _lindorm(event: Event) -> Payload:
    """The page documents no Kafka key."""
    envelope = _envelope(event, {"db": DATABASE, "namespace": event.source.schema})
    del envelope["source"]["connector"]
    return None, _compact({"schema": {}, "payload": envelope})


def _envelope(event: Event, source: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = {
        "before": None,
        "after": None,
        "source": {"connector": "any", **source, "table": event.table, "ts_ms": event.time_ms},
        "op": _DEBEZIUM_OPS[event.operation],
    }
    if event.operation in WRITES:
        value["after"] = {**_key(event), **event.named}
    if event.before is not None or event.previous_key is not None:
        value["before"] = {**_key_before(event), **(event.before or {})}
    return value


def _unwrapped(event: Event) -> Payload:
    row: dict[str, Any] = {**_key(event), **event.named}
    row |= {"__deleted": "false", "__db": DATABASE, "__schema": event.source.schema}
    row |= {"__table": event.table, "__op": _DEBEZIUM_OPS[event.operation]}
    if event.operation == "delete":
        row["__deleted"] = "true"
    if event.time_ms is not None:
        row["__source_ts_ms"] = event.time_ms
    return _message_key(event), _compact(row)


def _declared(field: str, type_name: str = "string") -> dict[str, Any]:
    return {"field": field, "type": type_name, "optional": True}


# --- MySQL's --------------------------------------------------------------------------------------


def _maxwell(event: Event) -> Payload:
    change: dict[str, Any] = {
        "database": DATABASE,
        "table": event.table,
        "type": _MAXWELL_TYPES.get(event.operation, event.operation),
        "data": {**_key(event), **event.named},
    }
    if event.time_ms is not None:
        change["ts"] = event.time_ms // 1000
    if event.operation == "update":
        change["old"] = {**_key_before(event), **(event.before or {})}
    key = {"database": DATABASE, "table": event.table} | {
        f"pk.{name}": value for name, value in _key(event).items()
    }
    return _compact(key), _compact(change)


def _canal(event: Event) -> Payload:
    """Each value is text, whose type is told beside."""
    change: dict[str, Any] = {
        "database": DATABASE,
        "table": event.table,
        "type": _CANAL_TYPES.get(event.operation, event.operation.upper()),
        "isDdl": event.operation == "truncate",
        "es": event.time_ms,
        "ts": event.time_ms,
    }
    if event.operation != "truncate":
        row = {**_key(event), **event.named}
        change["data"] = [{name: _as_text(value) for name, value in row.items()}]
        change["pkNames"] = ["id"] if event.source.has_key else None
        change["mysqlType"] = {"id": "bigint(20)", "level": "int(11)", "label": "varchar(255)"}
    if event.operation == "update":
        before = {**_key_before(event), **(event.before or {})}
        change["old"] = [{name: _as_text(value) for name, value in before.items()}]
    return None, _compact(change)


# --- what they share ------------------------------------------------------------------------------


def _key(event: Event) -> dict[str, Value]:
    return {} if event.key is None else {"id": event.key}


def _key_before(event: Event) -> dict[str, Value]:
    return _key(event) if event.previous_key is None else {"id": event.previous_key}


def _message_key(event: Event) -> bytes | None:
    return None if event.key is None else _compact(_key(event))


def _as_text(value: Value) -> str | None:
    return None if value is None else str(value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


_PAYLOADS: Final[dict[str, Callable[[Event], Payload]]] = {
    "aerospike_messagepack": _messagepack,
    "aerospike_json": _aerospike_json,
    "aerospike_flat_json": _flat_json,
    "arcion_json": _arcion,
    "lindorm_json": _lindorm,
    "debezium_json": _debezium,
    "debezium_unwrapped_json": _unwrapped,
    "maxwell_json": _maxwell,
    "canal_json": _canal,
}
