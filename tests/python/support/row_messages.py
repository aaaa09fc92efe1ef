"""The Kafka messages of row events, in each wire format."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from dbt_lakehouse.texts import time_text
from support.aerospike_encoder import pack
from support.row_avro import framed, framed_key, framed_record, framed_row
from support.row_events import DATABASE, POISON, TOMBSTONE, WRITES, Event, Value, digest, marker
from support.streams import BLOB, BOOLEAN, DOUBLE, INTEGER, STRING, Message

Payload = tuple[bytes | None, bytes | None]

_DEBEZIUM_OPS: Final = {
    "snapshot": "r",
    "insert": "c",
    "update": "u",
    "delete": "d",
    "truncate": "t",
}
_DMS_OPERATIONS: Final = {"snapshot": "load", "truncate": "truncate-table"}
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
# A record beside others' in a batch, of a set that no model reads.
_NEIGHBOURS: Final = "neighbours"
_BATCHED: Final = 3
_BIN_TYPES: Final[dict[type, str]] = {type(None): "nil", bool: "bool", int: "int", str: "str"}


def message(event: Event) -> Message:
    """The Kafka message of an event."""
    key, value = _PAYLOADS[event.source.format](event) if event.is_change else (None, event.raw)
    if event.operation == POISON:
        key = _message_key(event)
    elif event.operation == TOMBSTONE and event.key is not None:
        key, _ = _PAYLOADS[event.source.format](event._replace(operation="delete"))
    return Message(event.source.topic, event.partition, event.offset, event.sent_ms, key, value)


def headers(event: Event) -> list[tuple[str, bytes | None]]:
    """The headers of an event's message: of one that is marked, or of a key update."""
    found: list[tuple[str, bytes | None]] = []
    if (text := _marker(event)) is not None:
        found.append((f"of {text}", text.encode()))
    if event.other_key is not None:
        name = "oldkey" if event.operation == "insert" else "newkey"
        found.append((f"__debezium.{name}", _compact({"id": event.other_key})))
    return found


def line(event: Event) -> dict[str, Any]:
    """The capture line of an event."""
    sent = message(event).line()
    told = [[name, each and b64encode(each).decode()] for name, each in headers(event)]
    return {**sent, "headers": told} if told else sent


# --- Aerospike ------------------------------------------------------------------------------------


def _messagepack(event: Event) -> Payload:
    key = [event.source.schema, _set(event), _digest(event), _marker(event)]
    if event.operation == "delete":
        # Connectors before 4.0 date no delete.
        dates = [] if event.time_ms is None else [3, 0, event.time_ms]
        record: list[Any] = [1, 2, [key, 0, *dates]]
    else:
        named = {**event.named, **_about(event)}
        bins = [[name, _PARTICLE_TYPES[type(value)], 0, value] for name, value in named.items()]
        record = [1, 1, [key, 1, event.expires_s or 0, event.time_ms, bins]]
    if not _is_batched(event):
        return None, pack(record)
    other = [event.source.schema, _NEIGHBOURS, _neighbour(event), None]
    return None, pack([record, [1, 1, [other, 1, 0, event.time_ms, []]]])


def _aerospike_json(event: Event) -> Payload:
    key = [event.source.schema, _set(event), b64encode(_digest(event)).decode(), _marker(event)]
    record: dict[str, Any] = {"msg": "delete", "key": key, "durable": False}
    if event.operation != "delete":
        bins = [
            {"name": name, "type": _BIN_TYPES[type(value)], "value": value}
            for name, value in {**event.named, **_about(event)}.items()
        ]
        record = {"msg": "write", "key": key, "gen": 1, "exp": event.expires_s or 0, "bins": bins}
    record |= _lut(event)
    if not _is_batched(event):
        return None, _compact(record)
    other = [event.source.schema, _NEIGHBOURS, b64encode(_neighbour(event)).decode(), None]
    neighbour = {"msg": "write", "key": other, "gen": 1, "exp": 0, "bins": []} | _lut(event)
    return None, _compact([record, neighbour])


def _flat_json(event: Event) -> Payload:
    metadata = {"namespace": event.source.schema, "digest": b64encode(_digest(event)).decode()}
    if (of_set := _set(event)) is not None:
        metadata["set"] = of_set
    if event.operation == "delete":
        return None, _compact({"metadata": metadata | {"msg": "delete"} | _lut(event)})
    more = {"msg": "write", "gen": 1, "exp": event.expires_s or 0}
    row = {**event.named, **_about(event)}
    return None, _compact({"metadata": metadata | more | _lut(event), **row})


def _aerospike_avro(event: Event) -> Payload:
    """A delete's metadata is the record; a schema names all bins, so a null is none."""
    metadata: dict[str, Any] = {"namespace": event.source.schema, "digest": _digest(event)}
    metadata["set"] = _set(event)
    if event.operation == "delete":
        return None, framed_record(metadata | {"msg": "delete"} | _lut(event))
    metadata |= {"msg": "write", "gen": 1, "exp": event.expires_s or 0} | _lut(event)
    return None, framed_record({"metadata": metadata, **event.named, **_about(event)})


def _set(event: Event) -> str | None:
    return event.source.table if event.has_set else None


def _is_batched(event: Event) -> bool:
    return event.is_marked and event.offset % _BATCHED == 0


def _neighbour(event: Event) -> bytes:
    """The digest of a record that nobody else's is."""
    return b"neighbour" + event.partition.to_bytes(4) + event.offset.to_bytes(7)


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
    if (text := _marker(event)) is not None:
        columns.append({**_declared("about"), "doc": f"of {text}"})
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
        value["after"] = {**_key(event), **event.named, **_about(event)}
    if event.before is not None or event.previous_key is not None:
        about = _about(event, event.previous_key)
        value["before"] = {**_key_before(event), **(event.before or {}), **about}
    if event.lsn is not None:
        value["source"]["lsn"] = event.lsn
    if (text := _marker(event)) is not None:
        value["source"]["query"] = f"update {event.table} set about = '{text}'"
    return value


def _unwrapped(event: Event) -> Payload:
    return _message_key(event), _compact(_unwrapped_row(event))


def _unwrapped_row(event: Event) -> dict[str, Any]:
    row: dict[str, Any] = {**_key(event), **event.named, **_about(event)}
    row |= {"__deleted": "false", "__db": DATABASE, "__schema": event.source.schema}
    row |= {"__table": event.table, "__op": _DEBEZIUM_OPS[event.operation]}
    if event.operation == "delete":
        row["__deleted"] = "true"
    if event.time_ms is not None:
        row["__source_ts_ms"] = event.time_ms
    return row


def _debezium_avro(event: Event) -> Payload:
    source = {"connector": "postgresql", "db": DATABASE, "schema": event.source.schema}
    return _framed_key(event), framed(_envelope(event, source))


def _unwrapped_avro(event: Event) -> Payload:
    return _framed_key(event), framed_row(_unwrapped_row(event))


def _framed_key(event: Event) -> bytes | None:
    return None if event.key is None else framed_key(event.key)


def _declared(field: str, type_name: str = "string") -> dict[str, Any]:
    return {"field": field, "type": type_name, "optional": True}


# --- AWS DMS's ------------------------------------------------------------------------------------


def _dms(event: Event) -> Payload:
    """The Kafka key is text of which no column can be told."""
    about: dict[str, Any] = {
        "record-type": "control" if event.operation == "truncate" else "data",
        "operation": _DMS_OPERATIONS.get(event.operation, event.operation),
        "schema-name": event.source.schema,
        "table-name": event.table,
    }
    if event.time_ms is not None:
        about["commit-timestamp"] = time_text(event.time_ms * 1000)
        about["transaction-id"] = event.time_ms
    record: dict[str, Any] = {"metadata": about}
    if event.operation != "truncate":
        record["data"] = {**_key(event), **event.named, **_about(event)}
    if event.operation == "update":
        record["before-image"] = {**_key_before(event), **(event.before or {})}
    return f"{event.source.schema}.{event.table}.{event.key}".encode(), _compact(record)


# --- CockroachDB's --------------------------------------------------------------------------------


def _changefeed(event: Event) -> Payload:
    """With ``diff``; the Kafka key has the key's values without their names."""
    message: dict[str, Any] = {"after": None, "before": None}
    if event.operation != "delete":
        message["after"] = {**_key(event), **event.named, **_about(event)}
    if event.operation in ("update", "delete"):
        message["before"] = {**_key(event), **(event.before or {}), **_about(event)}
    if event.time_ms is not None:
        message |= {"updated": f"{event.time_ms}000000.0000000000", "ms": event.time_ms}
    return _compact([event.key]), _compact(message)


# --- MySQL's --------------------------------------------------------------------------------------


def _maxwell(event: Event) -> Payload:
    change: dict[str, Any] = {
        "database": DATABASE,
        "table": event.table,
        "type": _MAXWELL_TYPES.get(event.operation, event.operation),
        "data": {**_key(event), **event.named, **_about(event)},
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
        row = {**_key(event), **event.named, **_about(event)}
        change["data"] = [{name: _as_text(value) for name, value in row.items()}]
        change["pkNames"] = ["id"] if event.source.has_key else None
        change["mysqlType"] = {"id": "bigint(20)", "level": "int(11)", "label": "varchar(255)"}
    if event.operation == "update":
        before = {**_key_before(event), **(event.before or {})}
        change["old"] = [{name: _as_text(value) for name, value in before.items()}]
    return None, _compact(change)


# --- MongoDB's own -------------------------------------------------------------------------------


def _change_stream(event: Event) -> Payload:
    """Each update has the whole document."""
    is_copied = event.operation == "snapshot"
    token: dict[str, Any] = {"_data": f"82{event.offset}"}
    if is_copied:
        token = {"_id": event.key, "copyingData": True}
    change: dict[str, Any] = {
        "_id": token,
        "operationType": "insert" if is_copied else event.operation,
        "ns": {"db": DATABASE, "coll": event.table},
        "documentKey": {"_id": event.key},
    }
    if event.time_ms is not None:
        change["clusterTime"] = {"$timestamp": {"t": event.time_ms // 1000, "i": 1}}
    if event.operation != "delete":
        change["fullDocument"] = {"_id": event.key, **event.named, **_about(event)}
    if event.before is not None:
        before = {"_id": event.key, **event.before, **_about(event)}
        change["fullDocumentBeforeChange"] = before
    return _compact({"_id": event.key}), _compact(change)


# --- what they share ------------------------------------------------------------------------------


def _key(event: Event) -> dict[str, Value]:
    return {} if event.key is None else {"id": event.key}


def _marker(event: Event) -> str | None:
    return marker(event.source, event.key) if event.is_marked and event.key is not None else None


def _about(event: Event, key: int | None = None) -> dict[str, Value]:
    """A column that no model declares, with the marker of the key, or of another one."""
    if not event.is_marked or event.key is None:
        return {}
    return {"about": marker(event.source, event.key if key is None else key)}


def _key_before(event: Event) -> dict[str, Value]:
    return _key(event) if event.previous_key is None else {"id": event.previous_key}


def _message_key(event: Event) -> bytes | None:
    if event.key is None:
        return None
    if not event.source.names_keys:
        return _compact(_key(event))
    name = f"erp.{event.source.schema}.{event.table}.Key"
    fields = [{"type": "int64", "optional": False, "field": "id"}]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": name}
    return _compact({"schema": schema, "payload": _key(event)})


def _as_text(value: Value) -> str | None:
    return None if value is None else str(value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


_PAYLOADS: Final[dict[str, Callable[[Event], Payload]]] = {
    "aerospike_messagepack": _messagepack,
    "aerospike_json": _aerospike_json,
    "aerospike_flat_json": _flat_json,
    "aerospike_avro": _aerospike_avro,
    "arcion_json": _arcion,
    "lindorm_json": _lindorm,
    "debezium_json": _debezium,
    "debezium_unwrapped_json": _unwrapped,
    "debezium_avro": _debezium_avro,
    "debezium_unwrapped_avro": _unwrapped_avro,
    "aws_dms_json": _dms,
    "cockroachdb_json": _changefeed,
    "maxwell_json": _maxwell,
    "canal_json": _canal,
    "mongodb_json": _change_stream,
}
