"""Debezium's envelope: its forms, operations and types, and what is refused with which words."""

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python_udfs import debezium_json
from python_udfs.events import MAX_TIME_MS, MIN_TIME_MS, Event
from python_udfs.limits import MAX_PAYLOAD_BYTES

SOURCE = {
    "version": "2.7.0.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1763719200123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "orders",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
ENVELOPE = {
    "before": None,
    "after": {"id": 1, "note": 'say "hi": ok', "price": 1.5},
    "source": SOURCE,
    "op": "c",
    "ts_ms": 1763719200456,
    "transaction": {"id": "555:24023128", "total_order": 1, "data_collection_order": 1},
}
UNAVAILABLE = "__debezium_unavailable_value"


def decode(key: bytes | None, value: bytes | None) -> Event:
    (event,) = debezium_json.decode(key, value)
    assert event.event_index == 0
    assert (event.operation == "invalid") == (event.error_code is not None)
    assert (event.operation == "invalid") == (event.error_detail is not None)
    return event


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def loads(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def changed(**fields: Any) -> bytes:
    return dumps(ENVELOPE | fields)


def refused(value: Any, code: str, *says: str) -> None:
    event = decode(None, value if isinstance(value, bytes) else dumps(value))
    assert event.error_code == code, event
    for words in says:
        assert words in str(event.error_detail)


# --- Forms ----------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[bytes], bytes]] = {
    "bare": lambda text: text,
    "payload": lambda text: b'{"payload":' + text + b"}",
    "null schema": lambda text: b'{"schema":null,"payload":' + text + b"}",
    "empty schema": lambda text: b'{"schema":{},"payload":' + text + b"}",
    "schema behind": lambda text: b'{"payload":' + text + b',"schema":null}',
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "white space": lambda text: b' \n{ "payload"\t: ' + text + b"\r\n}\n",
    "pretty": lambda text: json.dumps(json.loads(text), indent=2).encode(),
    "spaced": lambda text: json.dumps(json.loads(text), separators=(" , ", " : ")).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    event = decode(b'{"id":1}', FORMS[form](dumps(ENVELOPE)))
    assert event == Event(
        0,
        "insert",
        "shop",
        "public",
        "orders",
        b'{"id":1}',
        None,
        dumps(ENVELOPE["after"]),
        1763719200123,
        None,
        event.metadata,
    )
    assert loads(event.metadata) == {
        "connector": "postgresql",
        "snapshot": "false",
        "source": SOURCE,
        "transaction": ENVELOPE["transaction"],
        "ts_ms": 1763719200456,
        "event_key": {"id": 1},
    }


@pytest.mark.parametrize("form", FORMS)
def test_every_prefix_is_truncated(form: str) -> None:
    text = FORMS[form](dumps(ENVELOPE)).rstrip()
    for length in range(1, len(text)):
        event = decode(None, text[:length])
        assert event.error_code == "truncated", text[:length]


def test_schema_name_and_fields_beside_are_kept() -> None:
    schema = b'{"type":"struct","name":"shop.public.orders.Envelope","fields":[]}'
    event = decode(None, b'{"schema":%b,"payload":%b,"headers":[1]}' % (schema, dumps(ENVELOPE)))
    metadata = loads(event.metadata)
    assert metadata["schema_name"] == "shop.public.orders.Envelope"
    assert metadata["wrapper"] == {"headers": [1]}


def test_unknown_fields_of_the_envelope_are_kept() -> None:
    text = changed(ts_us=1763719200456789, extra={"a": [1.1]}, snapshot="mine")
    event = decode(None, text.replace(b"[1.1]", b"[1.10]"))
    metadata = loads(event.metadata)
    assert metadata["ts_us"] == 1763719200456789
    assert metadata["extra"] == {"a": [1.1]}
    assert b'"extra":{"a":[1.10]}' in (event.metadata or b"")
    assert (metadata["snapshot"], metadata["envelope"]) == ("false", {"snapshot": "mine"})


def test_no_source() -> None:
    """Other producers of the envelope ship none."""
    event = decode(None, b'{"op":"c","after":{"id":1}}')
    assert event == Event(0, "insert", after=b'{"id":1}')


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b' "default" ',
        b'{"schema":null,"payload":null}',
        b'{"payload":null}',
        b'{"schema":{"type":"struct"},"payload":"default"}',
    ],
)
def test_tombstones(value: bytes | None) -> None:
    key = b'{"schema":null,"payload":{"id":7}}'
    assert decode(key, value) == Event(
        0, "tombstone", record_key=b'{"id":7}', metadata=b'{"event_key":{"id":7}}'
    )


# --- Operations -----------------------------------------------------------------------------------

ROW = {"id": 1}


@pytest.mark.parametrize(
    ("op", "before", "after", "operation"),
    [
        ("r", None, ROW, "snapshot"),
        ("c", None, ROW, "insert"),
        ("u", ROW, ROW, "update"),
        ("u", None, ROW, "update"),
        ("d", ROW, None, "delete"),
        ("d", ROW, {}, "delete"),
        ("t", None, None, "truncate"),
    ],
)
def test_operations(op: str, before: Any, after: Any, operation: str) -> None:
    event = decode(None, changed(op=op, before=before, after=after))
    assert event.operation == operation
    assert loads(event.before) == (before or None)
    assert loads(event.after) == (after or None)
    assert event.occurred_at == SOURCE["ts_ms"]


def test_logical_message() -> None:
    message = {"prefix": "audit", "content": "Ymx1ZQ=="}
    source = SOURCE | {"schema": "", "table": ""}
    event = decode(None, dumps({"op": "m", "ts_ms": 1, "source": source, "message": message}))
    assert (event.operation, event.source_database, event.source_table) == ("message", "shop", None)
    assert loads(event.metadata)["message"] == message


def test_heartbeat() -> None:
    schema = {"type": "struct", "name": "io.debezium.connector.common.Heartbeat", "fields": []}
    event = decode(
        b'{"schema":null,"payload":{"serverName":"shop"}}',
        dumps({"schema": schema, "payload": {"ts_ms": 1763719200456}}),
    )
    assert (event.operation, event.record_key) == ("message", b'{"serverName":"shop"}')
    assert loads(event.metadata) == {
        "ts_ms": 1763719200456,
        "schema_name": "io.debezium.connector.common.Heartbeat",
        "event_key": {"serverName": "shop"},
    }
    assert decode(None, b'{"ts_ms":1}').operation == "message"


@pytest.mark.parametrize(
    "marker",
    [
        {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1, "event_count": None},
        {
            "status": "END",
            "id": "571:53195832",
            "ts_ms": 2,
            "event_count": 2,
            "data_collections": [{"data_collection": "s1.a", "event_count": 2}],
        },
    ],
)
def test_transaction_markers(marker: dict[str, Any]) -> None:
    event = decode(b'{"id":"571:53195829"}', dumps(marker))
    assert event.operation == "message"
    assert loads(event.metadata) == marker | {"event_key": {"id": "571:53195829"}}


def test_schema_change() -> None:
    payload = {
        "source": {"connector": "mysql", "db": "inventory", "table": "customers", "ts_ms": 99},
        "ts_ms": 100,
        "databaseName": "inventory",
        "schemaName": None,
        "ddl": "ALTER TABLE customers ADD middle_name varchar(255)",
        "tableChanges": [{"type": "ALTER", "id": '"inventory"."customers"', "table": {}}],
    }
    event = decode(b'{"databaseName":"inventory"}', dumps({"schema": None, "payload": payload}))
    assert event.operation == "schema_change"
    assert (event.source_database, event.source_schema, event.source_table, event.occurred_at) == (
        "inventory",
        None,
        "customers",
        99,
    )
    metadata = loads(event.metadata)
    assert {name: metadata[name] for name in payload} == payload


# --- What is refused ------------------------------------------------------------------------------


def test_errors_of_the_text() -> None:
    refused(b"hello", "not_json", "byte 0")
    refused(b'{"op":"c",}', "not_json", "byte 9")
    refused(dumps(ENVELOPE) + b"}", "trailing_bytes")
    refused(b'{"op":"c","after":{"a":"\xff"}}', "bad_field", "UTF-8", "byte 24")
    refused(b'\n{"op" : "c","after":{"a":"\xff"}}', "bad_field", "UTF-8", "byte 27")
    refused(b'{"schema":{"doc":"\xff"},"payload":{"op":"t"}}', "bad_field", "UTF-8", "byte 18")
    refused(b'{"op":"c","after":{"a":"\\ud800"}}', "bad_field", "surrogate")
    refused(b'{"op":"c","after":' + b'{"a":' * 300 + b"1" + b"}" * 301, "too_deep")
    refused(b'{"op":"c","after":' + b"[" * 100_000, "too_deep")
    refused(b" " * (MAX_PAYLOAD_BYTES + 1), "too_large")
    refused(b" ", "truncated")


def test_errors_of_the_shape() -> None:
    for value in (b"[]", b"1", b'"x"', b"true", b'{"payload":[]}', b'{"schema":{}}', b"{}"):
        refused(value, "bad_shape", "$")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"op": None}, "$.op"),
        ({"op": 1}, "$.op"),
        ({"op": ["c"]}, "$.op"),
        ({"after": None}, "$.after"),
        ({"after": {}}, "$.after"),
        ({"after": [1]}, "$.after"),
        ({"after": "x"}, "$.after"),
        ({"before": []}, "$.before"),
        ({"before": 7}, "$.before"),
        ({"op": "d", "after": None}, "$.before"),
        ({"source": "shop"}, "$.source"),
        ({"source": []}, "$.source"),
        ({"source": SOURCE | {"db": 5}}, "$.source.db"),
        ({"source": SOURCE | {"table": {}}}, "$.source.table"),
        ({"source": SOURCE | {"schema": False}}, "$.source.schema"),
        ({"source": SOURCE | {"connector": 1}}, "$.source.connector"),
        ({"source": SOURCE | {"ts_ms": "yesterday"}}, "$.source.ts_ms"),
        ({"source": SOURCE | {"ts_ms": 1.5}}, "$.source.ts_ms"),
        ({"source": SOURCE | {"ts_ms": True}}, "$.source.ts_ms"),
        ({"ts_ms": {}}, "$.ts_ms"),
        ({"transaction": "555"}, "$.transaction"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], path: str) -> None:
    refused(changed(**fields), "bad_field", f"{path}:")
    refused({"payload": ENVELOPE | fields}, "bad_field", f"$.payload{path[1:]}:")


def test_op_missing_or_unknown() -> None:
    envelope = {name: value for name, value in ENVELOPE.items() if name != "op"}
    refused(envelope, "bad_field", "$.op: missing")
    refused(changed(op="x"), "bad_type", "$.op", "'x'")
    refused(changed(op="C"), "bad_type", "'C'")
    refused(changed(op=""), "bad_type")


@pytest.mark.parametrize(
    "text",
    [
        b'{"op":"c","op":"d","after":{"id":1}}',
        b'{"op":"c","after":{"id":1,"id":2}}',
        b'{"op":"c","after":{"id":1},"after":{"id":2}}',
        b'{"op":"c","after":{"id" :1,"id" :2}}',
        b'{"op":"c","after":{"id\\\\":1,"id\\\\":2}}',
        b'{"op":"c","after":{"a":{"b":1,"b":2}}}',
        b'{"payload":{"op":"c","after":{"id":1}},"payload":{"op":"c","after":{"id":1}}}',
        b'{"schema":{"type":"struct","type":"struct"},"payload":{"op":"c","after":{"id":1}}}',
    ],
)
def test_a_name_that_comes_twice(text: bytes) -> None:
    refused(text, "bad_field", "twice")


@pytest.mark.parametrize(
    "after", [{'a":': 1}, {"a\\": 1}, {'a\\":': '":'}, {"x": '\\":"'}, {"x": [{"y": '"a":1'}]}]
)
def test_names_that_look_like_more(after: dict[str, Any]) -> None:
    assert loads(decode(None, dumps({"op": "c", "after": after})).after) == after


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (b'"struct"', "$.schema"),
        (b"[]", "$.schema"),
        (b"1", "$.schema"),
        (b'{"type":1}', "$.schema.type"),
        (b'{"type":"struct","name":[]}', "$.schema.name"),
        (b'{"type":"struct","fields":{}}', "$.schema.fields"),
        (b'{"type":"struct","fields":[1]}', "$.schema.fields[0]"),
        (b'{"type":"struct","fields":[{"type":"int32"}]}', "$.schema.fields[0].field"),
        (
            b'{"type":"struct","fields":[{"type":"int32","field":"a"},{"type":"int8","field":"a"}]}',
            "$.schema.fields[1].field",
        ),
        (b'{"type":"array","items":5}', "$.schema.items"),
    ],
)
def test_nonsense_in_the_schema_block(schema: bytes, path: str) -> None:
    text = b'{"schema":%b,"payload":%b}' % (schema, dumps(ENVELOPE))
    refused(text, "bad_field", path)
    refused(text, "bad_field", path)


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "name": "Anne", "__deleted": "false"},
        {"payload": {"id": 1, "name": "Anne"}},
        {"schema": {"type": "struct"}, "payload": {"id": 1, "name": "Anne"}},
        {"id": 1, "payload": "order placed"},
        {"id": 1, "payload": {"total": 5}},
        {"id": 1, "op": "sell"},
        {"id": 1, "status": "BEGIN", "amount": 5},
        {"id": 1, "ddl": "x"},
    ],
)
def test_unwrapped_rows(value: dict[str, Any]) -> None:
    refused(value, "bad_shape", "unwrapped row", "'id'")


@pytest.mark.parametrize(
    "value",
    [
        {"op": "c", "after": '{"_id": 1}', "source": {"connector": "mongodb", "db": "x"}},
        {"op": "u", "patch": '{"$set": {}}', "filter": '{"_id": 1}', "source": {}},
        {"op": "u", "after": '{"_id": 1}', "updateDescription": {"updatedFields": "{}"}},
        {"op": "d", "source": {"db": "x", "collection": "y"}},
        {"op": "i", "source": {"db": "x", "collection": "y"}},
    ],
)
def test_mongodb(value: dict[str, Any]) -> None:
    refused(value, "bad_shape", "MongoDB")
    refused({"schema": None, "payload": value}, "bad_shape", "MongoDB")


def test_confluent_framing() -> None:
    refused(b"\0\0\0\0\x2a" + dumps(ENVELOPE), "not_json", "Confluent", "schema 42", "0x00")
    refused(b"\0", "not_json", "Confluent")


# --- Time and place -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shipped", "occurred_at"),
    [
        (None, None),
        (0, None),
        ("0", None),
        (1, 1),
        (-1, -1),
        ("1763719200123", 1763719200123),
        (1763719200123.0, 1763719200123),
        (MAX_TIME_MS, MAX_TIME_MS),
        (MAX_TIME_MS + 1, None),
        (MIN_TIME_MS, MIN_TIME_MS),
        (MIN_TIME_MS - 1, None),
        (2**63 - 1, None),
        (10**40, None),
    ],
)
def test_occurred_at(shipped: Any, occurred_at: int | None) -> None:
    source = SOURCE | {"ts_ms": shipped}
    event = decode(None, changed(source=source))
    assert event.operation == "insert"
    assert event.occurred_at == occurred_at
    assert loads(event.metadata)["source"]["ts_ms"] == shipped


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"connector": "mysql", "db": "inventory", "table": "t"}, ("inventory", None, "t")),
        ({"connector": "mariadb", "db": "inventory", "table": "t"}, ("inventory", None, "t")),
        ({"connector": "oracle", "db": "X", "schema": "S", "table": "T"}, ("X", "S", "T")),
        ({"connector": "sqlserver", "db": "X", "schema": "dbo", "table": "T"}, ("X", "dbo", "T")),
        ({"db": "ld", "namespace": "default", "table": "t"}, ("ld", "default", "t")),
        ({"db": "", "schema": "", "table": ""}, (None, None, None)),
        ({}, (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_places(source: Any, place: tuple[str | None, ...]) -> None:
    event = decode(None, changed(source=source))
    assert (event.source_database, event.source_schema, event.source_table) == place


# --- Keys -----------------------------------------------------------------------------------------

KEY_SCHEMA = (
    b'{"type":"struct","name":"k","fields":[{"type":"int64","field":"b"},'
    b'{"type":"int32","name":"io.debezium.time.Date","field":"a"}]}'
)


@pytest.mark.parametrize(
    ("key", "record_key", "event_key"),
    [
        (None, None, "absent"),
        (b"", None, "absent"),
        (b"null", None, None),
        (b'"default"', None, "default"),
        (b"1001", None, 1001),
        (b"[1]", None, [1]),
        (b"{}", None, {}),
        (b'{"id":1}', b'{"id":1}', {"id": 1}),
        (b'{ "b" : 2, "a" : {"z":1,"y":2.50} }', b'{"a":{"y":2.50,"z":1},"b":2}', None),
        (b'{"schema":null,"payload":{"id":"x"}}', b'{"id":"x"}', {"id": "x"}),
        (b'{"payload":{"id":18446744073709551616}}', b'{"id":18446744073709551616}', None),
        (b'{"schema":{"type":"int32"},"payload":"7"}', None, 7),
        (b'{"schema":null,"payload":null}', None, None),
        (
            b'{"schema":%b,"payload":{"b":"7","a":0}}' % KEY_SCHEMA,
            b'{"a":"1970-01-01","b":7}',
            {"a": "1970-01-01", "b": 7},
        ),
        (b'{"schema":%b,"payload":{"b":null}}' % KEY_SCHEMA, b'{"b":null}', {"b": None}),
    ],
)
def test_keys(key: bytes | None, record_key: bytes | None, event_key: Any) -> None:
    event = decode(key, dumps(ENVELOPE))
    assert (event.operation, event.record_key) == ("insert", record_key)
    metadata = loads(event.metadata)
    assert "event_key_encoding" not in metadata
    if event_key == "absent":
        assert "event_key" not in metadata
    elif event_key is not None or record_key is None:
        assert metadata["event_key"] == event_key


@pytest.mark.parametrize(
    "key",
    [b"plain text", b'{"id":1', b"\0\0\0\0\1\2", b'{"id":"\xff"}', b'{"id":1,"id":2}', b"[" * 999],
)
def test_keys_that_can_not_be_decoded(key: bytes) -> None:
    event = decode(key, dumps(ENVELOPE))
    assert (event.operation, event.record_key) == ("insert", None)
    metadata = loads(event.metadata)
    assert base64.b64decode(metadata["event_key"]) == key
    assert metadata["event_key_encoding"] == "base64"


def test_the_key_of_an_invalid_payload_is_kept() -> None:
    assert loads(decode(b'{"id":1}', b"x").metadata) == {"event_key": {"id": 1}}


def test_untyped_key_columns_are_named() -> None:
    key = b'{"schema":%b,"payload":{"b":"seven"}}' % KEY_SCHEMA
    event = decode(key, dumps(ENVELOPE))
    assert event.record_key == b'{"b":"seven"}'
    assert loads(event.metadata)["untyped"] == ["$.event_key.b"]


# --- Types ----------------------------------------------------------------------------------------


def typed(declared: dict[str, Any], shipped: bytes) -> Event:
    row = {"type": "struct", "optional": True, "fields": [declared | {"field": "x"}]}
    schema = {
        "type": "struct",
        "name": "t.Envelope",
        "fields": [row | {"field": "before"}, row | {"field": "after"}],
    }
    payload = b'{"op":"u","before":{"x":%b},"after":{"x":%b,"y":1.10}}' % (shipped, shipped)
    event = decode(None, b'{"schema":%b,"payload":%b}' % (dumps(schema), payload))
    assert event.operation == "update", event
    return event


def b64(number: int, size: int) -> bytes:
    return b'"%b"' % base64.b64encode(number.to_bytes(size, "big", signed=True))


def decimal(scale: int | str) -> dict[str, Any]:
    return {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": str(scale), "connect.decimal.precision": "38"},
    }


def logical(name: str, literal: str = "int64") -> dict[str, Any]:
    return {"type": literal, "name": name, "version": 1}


CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."
DATA = "io.debezium.data."
VARIABLE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}
POINT = {
    "type": "struct",
    "name": "io.debezium.data.geometry.Point",
    "fields": [
        {"type": "double", "field": "x"},
        {"type": "double", "field": "y"},
        {"type": "bytes", "optional": True, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ],
}
POINT_VALUE = b'{"x":1.0,"y":-2.50,"wkb":"AQEAAAA=","srid":null}'
ARRAY = {"type": "array", "items": {"type": "int32"}}
DATES = {"type": "array", "items": logical(TIME + "Date", "int32")}

TYPES = [
    ({"type": "int8"}, b"-128", b"-128"),
    ({"type": "int16"}, b"32767", b"32767"),
    ({"type": "int32"}, b"-2147483648", b"-2147483648"),
    ({"type": "int32"}, b"7.0", b"7"),
    ({"type": "int32"}, b'"7"', b"7"),
    ({"type": "int64"}, b"9223372036854775807", b"9223372036854775807"),
    ({"type": "int64"}, b"null", b"null"),
    ({"type": "float32"}, b"3.14", b"3.14"),
    ({"type": "float32"}, b"3.140000104904175", b"3.140000104904175"),
    ({"type": "float"}, b"1.0E-10", b"1.0E-10"),
    ({"type": "double"}, b"0.1000000000000000055511151231257827", None),
    ({"type": "float64"}, b"5", b"5"),
    ({"type": "double"}, b'"1.50"', b"1.50"),
    ({"type": "double"}, b'"NaN"', b'"NaN"'),
    ({"type": "double"}, b'"-Infinity"', b'"-Infinity"'),
    ({"type": "boolean"}, b"true", b"true"),
    ({"type": "boolean"}, b'"false"', b"false"),
    ({"type": "string"}, b'"\\u00e9\\n"', '"é\\n"'.encode()),
    ({"type": "string"}, b'"007"', b'"007"'),
    ({"type": "bytes"}, b'"3q2+7w=="', b'"3q2+7w=="'),
    ({"type": "unheard-of"}, b"1.50", b"1.50"),
    ({}, b'{"a":1.50}', b'{"a":1.50}'),
    # Decimals
    (decimal(2), b'"AJY="', b"1.50"),
    (decimal(2), b64(0, 1), b"0.00"),
    (decimal(2), b64(-1, 1), b"-0.01"),
    (decimal(2), b64(-150, 2), b"-1.50"),
    (decimal(2), b64(127, 1), b"1.27"),
    (decimal(2), b64(-128, 1), b"-1.28"),
    (decimal(2), b64(128, 2), b"1.28"),
    (decimal(0), b64(-(2**127), 16), b"-170141183460469231731687303715884105728"),
    (decimal(10), b64(10**37 - 1, 16), b"999999999999999999999999999.9999999999"),
    (decimal(7), b64(1, 1), b"0.0000001"),
    (decimal(38), b64(-(10**37), 16), b"-0." + b"1".ljust(38, b"0")),
    (decimal(-2), b64(15, 1), b"15E+2"),
    (decimal(2), b64(10**5000, 2077), b"1" + b"0" * 4998 + b".00"),
    (decimal(100_000), b64(15, 1), b"15E-100000"),
    (decimal(2), b"1.5", b"1.50"),
    (decimal(2), b"1.500", b"1.50"),
    (decimal(2), b"-0.5", b"-0.50"),
    (decimal(2), b"150", b"150.00"),
    (decimal(2), b"1.5E+3", b"1500.00"),
    (decimal(2), b"0e-30", b"0.00"),
    (decimal(-2), b"1500", b"15E+2"),
    (decimal(2), b'"12.5"', b"12.50"),
    (decimal(2), b'"-12.50"', b"-12.50"),
    (decimal(2), b'"NaN"', b'"NaN"'),
    # Digits alone are base64 here, as JsonConverter ships it.
    (decimal(0), b'"1234"', str(0xD76DF8 - 2**24).encode()),
    (VARIABLE, b'{"scale":3,"value":"AJY="}', b"0.150"),
    (VARIABLE, b'{"scale":0,"value":"/w=="}', b"-1"),
    (VARIABLE, b'{"scale":"1","value":"AJY="}', b"15.0"),
    (VARIABLE, b'{"scale":-1,"value":"AQ=="}', b"1E+1"),
    (VARIABLE, b"1.50", b"1.50"),
    (VARIABLE, b"null", b"null"),
    # Dates
    (logical(CONNECT + "Date", "int32"), b"20778", b'"2026-11-21"'),
    (logical(TIME + "Date", "int32"), b"0", b'"1970-01-01"'),
    (logical(TIME + "Date", "int32"), b"-1", b'"1969-12-31"'),
    (logical(TIME + "Date", "int32"), b"-719162", b'"0001-01-01"'),
    (logical(TIME + "Date", "int32"), b"-719163", b'"0000-12-31"'),
    (logical(TIME + "Date", "int32"), b"-719529", b'"-0001-12-31"'),
    (logical(TIME + "Date", "int32"), b"2932896", b'"9999-12-31"'),
    (logical(TIME + "Date", "int32"), b"2932897", b'"+10000-01-01"'),
    (logical(TIME + "Date", "int32"), b"11016", b'"2000-02-29"'),
    (logical(TIME + "Date", "int32"), b"2145042905", b'"+5874897-12-31"'),
    (logical(TIME + "Date", "int32"), b"2147483647", b'"infinity"'),
    (logical(TIME + "Date", "int32"), b"-2147483648", b'"-infinity"'),
    (logical(TIME + "Date", "int32"), b"-2147472692", b'"infinity"'),
    (logical(TIME + "Date", "int32"), b'"20778"', b'"2026-11-21"'),
    (logical(TIME + "IsoDate", "string"), b'"2026-11-21Z"', b'"2026-11-21"'),
    # Times
    (logical(CONNECT + "Time", "int32"), b"36000123", b'"10:00:00.123"'),
    (logical(TIME + "Time", "int32"), b"0", b'"00:00:00.000"'),
    (logical(TIME + "MicroTime"), b"36000123456", b'"10:00:00.123456"'),
    (logical(TIME + "MicroTime"), b"86399999999", b'"23:59:59.999999"'),
    (logical(TIME + "MicroTime"), b"86400000000", b'"24:00:00.000000"'),
    (logical(TIME + "MicroTime"), b"3020399000000", b'"838:59:59.000000"'),
    (logical(TIME + "MicroTime"), b"-3020399000000", b'"-838:59:59.000000"'),
    (logical(TIME + "MicroTime"), b"-1", b'"-00:00:00.000001"'),
    (logical(TIME + "NanoTime"), b"36000123456789", b'"10:00:00.123456789"'),
    (logical(TIME + "ZonedTime", "string"), b'"10:00:00.5Z"', b'"10:00:00.5Z"'),
    (logical(TIME + "IsoTime", "string"), b'"10:00:00.5Z"', b'"10:00:00.5"'),
    # Local date-times
    (logical(TIME + "Timestamp"), b"1763719200123", b'"2025-11-21T10:00:00.123"'),
    (logical(TIME + "Timestamp"), b"-1", b'"1969-12-31T23:59:59.999"'),
    (logical(TIME + "Timestamp"), b"0", b'"1970-01-01T00:00:00.000"'),
    (logical(TIME + "MicroTimestamp"), b"1763719200123456", b'"2025-11-21T10:00:00.123456"'),
    (logical(TIME + "NanoTimestamp"), b"1763719200123456789", b'"2025-11-21T10:00:00.123456789"'),
    (logical(TIME + "MicroTimestamp"), b"-62135596800000001", b'"0000-12-31T23:59:59.999999"'),
    (logical(TIME + "MicroTimestamp"), b"253402300800000000", b'"+10000-01-01T00:00:00.000000"'),
    (logical(TIME + "MicroTimestamp"), b"9223372036825200000", b'"infinity"'),
    (logical(TIME + "MicroTimestamp"), b"-9223372036832400000", b'"-infinity"'),
    (logical(TIME + "MicroTimestamp"), b"9223372036854775807", b'"infinity"'),
    (logical(TIME + "Timestamp"), b"9223372036825200", b'"infinity"'),
    (logical(TIME + "Timestamp"), b"-9223372036854775808", b'"-infinity"'),
    (logical(TIME + "NanoTimestamp"), b"9223372036825200000", b'"2262-04-11T23:47:16.825200000"'),
    (logical(TIME + "NanoTimestamp"), b"9223372036854775807", b'"infinity"'),
    (
        logical(TIME + "IsoTimestamp", "string"),
        b'"2026-11-21T10:00:00.1Z"',
        b'"2026-11-21T10:00:00.1"',
    ),
    (
        logical(TIME + "IsoTimestamp", "string"),
        b'"+294247-01-10T04:00:25.200Z"',
        b'"infinity"',
    ),
    # Instants
    (logical(CONNECT + "Timestamp"), b"1763719200123", b'"2025-11-21T10:00:00.123Z"'),
    (
        logical(TIME + "ZonedTimestamp", "string"),
        b'"2025-11-21T10:00:00.123456Z"',
        b'"2025-11-21T10:00:00.123456Z"',
    ),
    (
        logical(TIME + "ZonedTimestamp", "string"),
        b'"0001-01-01T00:00:00Z"',
        b'"0001-01-01T00:00:00Z"',
    ),
    (logical(TIME + "ZonedTimestamp", "string"), b'"infinity"', b'"infinity"'),
    (logical(TIME + "ZonedTimestamp", "string"), b'"-infinity"', b'"-infinity"'),
    # The rest
    (logical(TIME + "Year", "int32"), b"2026", b"2026"),
    (logical(TIME + "Interval", "string"), b'"P1Y2M3DT4H5M0.6S"', b'"P1Y2M3DT4H5M0.6S"'),
    (logical(TIME + "MicroDuration"), b"93784000005", b'"PT26H3M4.000005S"'),
    (logical(TIME + "MicroDuration"), b"-1", b'"-PT0H0M0.000001S"'),
    (logical(TIME + "NanoDuration"), b"10000000000", b'"PT0H0M10.000000000S"'),
    (logical(DATA + "Json", "string"), b'"{\\"a\\": 1.50}"', b'"{\\"a\\": 1.50}"'),
    (logical(DATA + "Enum", "string"), b'"red"', b'"red"'),
    (logical(DATA + "EnumSet", "string"), b'"red,blue"', b'"red,blue"'),
    (logical(DATA + "Uuid", "string"), b'"09e07dfe-d62b"', b'"09e07dfe-d62b"'),
    (logical(DATA + "Xml", "string"), b'"<a/>"', b'"<a/>"'),
    (logical(DATA + "Ltree", "string"), b'"Top.Science"', b'"Top.Science"'),
    (logical(DATA + "Bits", "bytes"), b'"BQ=="', b'"BQ=="'),
    (POINT, POINT_VALUE, POINT_VALUE),
    (ARRAY, b'[1,"2",null]', b"[1,2,null]"),
    (DATES, b"[0,null,20778]", b'["1970-01-01",null,"2026-11-21"]'),
    (
        {"type": "map", "keys": {"type": "string"}, "values": decimal(1)},
        b'{"a":1,"b":null}',
        b'{"a":1.0,"b":null}',
    ),
    (
        {"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}},
        b'[[1,"2"],[3,null]]',
        b"[[1,2],[3,null]]",
    ),
    (
        {"type": "struct", "fields": [decimal(1) | {"field": "d"}]},
        b'{"d":2,"e":3.0}',
        b'{"d":2.0,"e":3.0}',
    ),
    # Unavailable values
    ({"type": "string"}, b'"__debezium_unavailable_value"', None),
    (decimal(2), b'"__debezium_unavailable_value"', None),
    ({"type": "int32"}, b'"__debezium_unavailable_value"', None),
    (POINT, b'"__debezium_unavailable_value"', None),
    (ARRAY, b'"__debezium_unavailable_value"', None),
]


@pytest.mark.parametrize(
    ("declared", "shipped", "expected"),
    TYPES,
    ids=[f"{d.get('name', d.get('type'))}-{s.decode()[:30]}" for d, s, _ in TYPES],
)
def test_types(declared: dict[str, Any], shipped: bytes, expected: bytes | None) -> None:
    for event in (typed(declared, shipped), typed(declared, shipped)):  # compiled, then cached
        converted = shipped if expected is None else expected
        assert event.before == b'{"x":%b}' % converted
        assert event.after == b'{"x":%b,"y":1.10}' % converted
        assert loads(event.metadata) == {"schema_name": "t.Envelope"}


@pytest.mark.parametrize(
    ("shipped", "expected"),
    [
        (b'"2025-11-21T12:00:00.5+02:00"', b'"2025-11-21T10:00:00.5Z"'),
        (b'"2025-12-31T23:30:00-05:30"', b'"2026-01-01T05:00:00Z"'),
        (b'"2024-03-01T00:30:00+01:00"', b'"2024-02-29T23:30:00Z"'),
        (b'"2025-11-21T10:00+00:00"', b'"2025-11-21T10:00:00Z"'),
        (b'"0000-01-01T00:00:00+01:00"', b'"-0001-12-31T23:00:00Z"'),
    ],
)
def test_other_offsets_move_to_z_and_are_kept(shipped: bytes, expected: bytes) -> None:
    event = typed(logical(TIME + "ZonedTimestamp", "string"), shipped)
    assert event.before == b'{"x":%b}' % expected
    sent = loads(shipped)
    assert loads(event.metadata)["as_sent"] == {"$.before.x": sent, "$.after.x": sent}


@pytest.mark.parametrize(
    ("declared", "shipped"),
    [
        ({"type": "int8"}, b"128"),
        ({"type": "int16"}, b"-32769"),
        ({"type": "int64"}, b"9223372036854775808"),
        ({"type": "int32"}, b"1.5"),
        ({"type": "int32"}, b"true"),
        ({"type": "int32"}, b'"1.5"'),
        ({"type": "int32"}, b"[1]"),
        ({"type": "boolean"}, b"1"),
        ({"type": "double"}, b'"one"'),
        ({"type": "double"}, b'"1."'),
        ({"type": "bytes"}, b"5"),
        (decimal(2), b"1.555"),
        (decimal(2), b'""'),
        (decimal(2), b'"not base64!"'),
        (decimal(2), b"true"),
        (decimal(2), b"1e999999999"),
        (decimal(2), b"1e9999999999999999999"),
        (decimal("two"), b'"AJY="'),
        (VARIABLE, b'{"scale":1}'),
        (VARIABLE, b'{"scale":null,"value":"AJY="}'),
        (VARIABLE, b'{"scale":1,"value":"AJY=","more":1}'),
        (logical(TIME + "Date", "int32"), b"1.5"),
        (logical(TIME + "Date", "int32"), b"99999999999999999999"),
        (logical(TIME + "Date", "int32"), b'"tomorrow"'),
        (logical(TIME + "MicroTimestamp"), b'"2025-11-21 10:00:00"'),
        (logical(TIME + "ZonedTimestamp", "string"), b'"2025-11-21T10:00:00"'),
        (logical(TIME + "ZonedTimestamp", "string"), b'"2025-02-30T10:00:00+01:00"'),
        (logical(TIME + "ZonedTimestamp", "string"), b"1763719200123"),
        (POINT, b"[1,2]"),
        (DATES, b'{"a":1}'),
    ],
)
def test_what_does_not_fit_stays_as_sent(declared: dict[str, Any], shipped: bytes) -> None:
    event = typed(declared, shipped)
    assert event.before == b'{"x":%b}' % shipped
    assert loads(event.metadata)["untyped"] == ["$.before.x", "$.after.x"]


def test_nested_misfits_are_named() -> None:
    event = typed(DATES, b'[0,"soon"]')
    assert event.before == b'{"x":["1970-01-01","soon"]}'
    assert loads(event.metadata)["untyped"] == ["$.before.x[1]", "$.after.x[1]"]
    event = typed(POINT, b'{"x":"west","y":1}')
    assert loads(event.metadata)["untyped"] == ["$.before.x.x", "$.after.x.x"]


def test_declared_columns_that_are_absent_stay_absent() -> None:
    row = {"type": "struct", "field": "after", "fields": [{"type": "int32", "field": "gone"}]}
    value = {
        "schema": {"type": "struct", "fields": [row]},
        "payload": {"op": "c", "after": {"new": 1.25}},
    }
    assert decode(None, dumps(value)).after == b'{"new":1.25}'


@pytest.mark.parametrize(
    "shipped",
    [
        UNAVAILABLE,
        base64.b64encode(UNAVAILABLE.encode()).decode(),
        [UNAVAILABLE],
        [base64.b64encode(UNAVAILABLE.encode()).decode()],
        list(UNAVAILABLE.encode()),
        [float(byte) for byte in UNAVAILABLE.encode()],
        ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
        {UNAVAILABLE: UNAVAILABLE},
        dumps({UNAVAILABLE: UNAVAILABLE}).decode(),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["bare", "pretty"])
def test_unavailable_values(shipped: Any, form: str) -> None:
    text = changed(op="u", after={"id": 1, "x": shipped})
    event = decode(None, FORMS[form](text))
    assert loads(event.after) == {"id": 1, "x": UNAVAILABLE}
    assert event.error_code is None


@settings(max_examples=60, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.integers(6, 12))
def test_decimals_in_each_form_are_the_same(number: Decimal, scale: int) -> None:
    unscaled = int(number.scaleb(scale)) if abs(number) < 10**12 else None
    shipped = [str(number).encode()] if "." in str(number) else []
    if unscaled is not None:
        shipped.append(b64(unscaled, 16))
    for text in shipped:
        after = typed(decimal(scale), text).before
        assert after is not None
        converted = json.loads(after, parse_float=Decimal)["x"]
        assert converted == number
        assert converted.as_tuple().exponent == -scale


@settings(max_examples=60, deadline=None)
@given(st.integers(-(2**63) + 1, 2**63 - 2))
def test_micro_timestamps_lose_nothing(micros: int) -> None:
    event = typed(logical(TIME + "MicroTimestamp"), str(micros).encode())
    text = loads(event.before)["x"]
    if text.endswith("infinity"):
        return
    date, _, clock = text.partition("T")
    year, month, day = date.rsplit("-", 2)
    hour, minute, second = clock.split(":")
    back = civil_days(int(year), int(month), int(day)) * 86_400_000_000
    back += (int(hour) * 3600 + int(minute) * 60) * 1_000_000 + int(second.replace(".", ""))
    assert back == micros


def civil_days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, counted by adding up years and months."""
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    months = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    past = year - 1
    return (
        365 * past + past // 4 - past // 100 + past // 400 + sum(months[: month - 1]) + day - 719163
    )


# --- Whatever comes -------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=6), children, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON_VALUES, min_size=1, max_size=4))
def test_rows_without_a_schema_stay_as_they_are(row: dict[str, Any]) -> None:
    event = decode(dumps(row), changed(after=row))
    assert loads(event.after) == row
    assert loads(event.record_key) == row


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["op", "before", "after", "source", "ts_ms", "transaction", "payload"]),
    JSON_VALUES,
)
def test_any_value_in_any_field_is_an_event(name: str, value: Any) -> None:
    decode(dumps(value), changed(**{name: value}))
    decode(None, dumps({"schema": value, "payload": ENVELOPE}))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_bytes_are_an_event(data: st.DataObject) -> None:
    text = bytearray(dumps({"schema": {}, "payload": ENVELOPE}))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(text) - 1))
        text[position : position + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    decode(bytes(text), bytes(text))


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("python_udfs.debezium._location", broken)
    with pytest.raises(ZeroDivisionError):
        debezium_json.decode(None, dumps(ENVELOPE))
