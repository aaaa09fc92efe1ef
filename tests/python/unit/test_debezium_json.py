"""Debezium's envelope: its forms and operations, and what is refused with which words."""

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.debezium_messages import ENVELOPE, FORMS, SOURCE, changed, decode, dumps, loads

from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS, Event
from python_udfs.core.limits import MAX_PAYLOAD_BYTES
from python_udfs.debezium import envelope
from python_udfs.debezium import json as debezium_json


def refused(value: Any, code: str, *says: str) -> None:
    event = decode(None, value if isinstance(value, bytes) else dumps(value))
    assert event.error_code == code, event
    for words in says:
        assert words in str(event.error_detail)


# --- Forms ----------------------------------------------------------------------------------------


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
    assert decode(None, b'{"ts_ms":1,"ts_us":1000,"ts_ns":1000000}').operation == "message"


@pytest.mark.parametrize(
    "marker",
    [
        {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1, "event_count": None},
        {"status": "BEGIN", "id": "571:1", "ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000},
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


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"databaseName": "d", "schemaName": "s"}, ("d", "s", "t")),
        ({"databaseName": "", "schemaName": ""}, ("a", "b", "t")),
        ({"databaseName": None}, ("a", "b", "t")),
        ({}, ("a", "b", "t")),
        ({"source": {"db": "", "table": ""}, "databaseName": ""}, (None, None, None)),
        ({"source": {"keyspace": "k", "table": "t"}}, (None, "k", "t")),
        ({"source": None, "databaseName": "d"}, ("d", None, None)),
    ],
)
def test_where_a_schema_changed(fields: dict[str, Any], place: tuple[str | None, ...]) -> None:
    payload = {
        "source": {"db": "a", "schema": "b", "table": "t"},
        "ddl": "...",
        "ts_ms": 1,
    } | fields
    event = decode(None, dumps(payload))
    assert event.operation == "schema_change"
    assert (event.source_database, event.source_schema, event.source_table) == place


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
        ({"source": SOURCE | {"keyspace": 1}}, "$.source.keyspace"),
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
    "text",
    [
        '{"op":"t","%s":1,"%s":2}',
        '{"schema":{"%s":1,"%s":2},"payload":{"op":"t"}}',
        '{"schema":{"type":"struct","fields":[{"field":"%s"},{"field":"%s"}]},"payload":{"op":"t"}}',
    ],
)
def test_a_long_name_is_shortened(text: str) -> None:
    event = decode(None, text.replace("%s", "x" * 1_000_000).encode())
    assert event.error_code == "bad_field"
    assert len(event.error_detail or "") < 300


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
    "change",
    [
        lambda text: text,
        lambda text: text.replace(b'"say', b'"say :'),
        lambda text: text.replace(b'"op":', b'\n"op" : '),
        lambda text: text + b" \n",
    ],
    ids=["compact", "a colon in a text", "white space", "white space at the end"],
)
def test_a_schema_block_that_was_seen_is_not_read_again(
    change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b'{"schema":{"type":"struct","name":"e"},"payload":%b}' % dumps(ENVELOPE)
    expected = decode(None, text)
    # What takes a message apart with its block.
    monkeypatch.setattr(envelope, "_WRAPPED", None)
    event = decode(None, change(text))
    assert event.metadata == expected.metadata
    assert event.operation == "insert"


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "name": "Anne", "__deleted": "false"},
        {"payload": {"id": 1, "name": "Anne"}},
        {"schema": {"type": "struct"}, "payload": {"id": 1, "name": "Anne"}},
        {"id": 1, "payload": "order placed"},
        {"id": 1, "payload": {"total": 5}},
        {"id": 1, "op": "sell"},
        {"id": 1, "op": "d", "name": "Anne"},
        {"id": 1, "op": "t"},
        {"id": 1, "op": "m", "message": "x"},
        {"schema": {"type": "struct"}, "payload": {"id": 1, "op": "d"}},
        {"id": 1, "status": "BEGIN", "amount": 5},
        {"id": 1, "ddl": "x"},
    ],
)
def test_unwrapped_rows(value: dict[str, Any]) -> None:
    refused(value, "bad_shape", "unwrapped row", "'id'")


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
        ({"connector": "vitess", "db": "", "keyspace": "k", "table": "t"}, (None, "k", "t")),
        ({"connector": "vitess", "db": "d", "keyspace": "k", "table": "t"}, ("d", "k", "t")),
        (
            {"db": "", "schema": "", "namespace": "", "keyspace": "", "table": "t"},
            (None, None, "t"),
        ),
        ({"db": "x", "schema": "", "namespace": "n", "table": "t"}, ("x", "n", "t")),
        # CockroachDB's changefeeds, and ScyllaDB's connector.
        (
            {"database_name": "shop", "schema_name": "public", "table_name": "t"},
            ("shop", "public", "t"),
        ),
        (
            {"connector": "scylla", "db": "k", "keyspace_name": "k", "table_name": "t"},
            ("k", "k", "t"),
        ),
        ({"db": "a", "database_name": "b", "table": "", "table_name": "t"}, ("a", None, "t")),
        ({"connector": "cassandra", "db": "NULL", "keyspace": "k", "table": "t"}, (None, "k", "t")),
        ({"connector": "mysql", "db": "NULL", "table": "t"}, ("NULL", None, "t")),
        ({}, (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_places(source: Any, place: tuple[str | None, ...]) -> None:
    event = decode(None, changed(source=source))
    assert (event.source_database, event.source_schema, event.source_table) == place


# --- CockroachDB ----------------------------------------------------------------------------------

COCKROACH = {
    "changefeed_sink": "kafka",
    "cluster_id": "585e6512-ea54-490a-8f1d-50c8d182a2e6",
    "cluster_name": "",
    "database_name": "shop",
    "db_version": "v25.2.0",
    "job_id": "1072079179268751361",
    "mvcc_timestamp": "1747243394200039000.0000000000",
    "node_id": "1",
    "node_name": "localhost",
    "origin": "cockroachdb",
    "primary_keys": ["id"],
    "schema_name": "public",
    "source_node_locality": "",
    "table_name": "products",
    "ts_hlc": "1747243394200039000.0000000000",
    "ts_ns": 1747243394200039000,
}


def test_the_enriched_envelope_of_cockroachdb() -> None:
    """As its documentation shows it, and without ``enriched_properties``."""
    envelope = {"after": {"id": 1, "v": "a"}, "op": "c", "ts_ns": 1747243394886231000}
    event = decode(b'{"id":1}', dumps({**envelope, "before": None, "source": COCKROACH}))
    assert event[1:6] == ("insert", "shop", "public", "products", b'{"id":1}')
    assert event.occurred_at == 1747243394200
    assert loads(event.metadata)["source"] == COCKROACH
    plain = decode(b'{"id":1}', dumps(envelope))
    assert plain[1:6] == ("insert", None, None, None, b'{"id":1}')
    deleted = {"after": None, "op": "d", "ts_ns": 1, "source": COCKROACH}
    assert decode(b'{"id":1}', dumps(deleted)).operation == "delete"


@pytest.mark.parametrize(
    "message",
    [
        {"resolved": "1681240120058450985.0000000000"},
        {"__crdb__": {"resolved": "1681240120058450985.0000000000"}},
        {"payload": {"resolved": "1681240120058450985.0000000000"}, "schema": {}},
    ],
)
def test_what_cockroachdb_has_resolved_is_a_message(message: dict[str, Any]) -> None:
    event = decode(None, dumps(message))
    assert (event.operation, event.before, event.after) == ("message", None, None)
    assert b"1681240120058450985.0000000000" in (event.metadata or b"")
    text = dumps(message)
    together = debezium_json.decode_batch([None] * 99, [text] * 99).payloads()
    assert together == [[event]] * 99


@pytest.mark.parametrize(
    "row", [{"resolved": "yes"}, {"resolved": 1}, {"resolved": "1.0000000000", "id": 1}]
)
def test_a_column_may_be_called_so(row: dict[str, Any]) -> None:
    refused(row, "bad_shape", "an unwrapped row", "debezium_unwrapped_json")


def test_cloud_events_say_what_they_are() -> None:
    event = {
        "id": "name:test;lsn:29274832;txId:565",
        "source": "/debezium/postgresql/test",
        "specversion": "1.0",
        "type": "io.debezium.connector.postgresql.DataChangeEvent",
        "time": "2020-01-13T13:55:39.738Z",
        "datacontenttype": "application/json",
        "iodebeziumop": "r",
        "iodebeziumtable": "s1",
        "data": ENVELOPE,
    }
    refused(event, "bad_shape", "a CloudEvents message", "value.converter to JsonConverter")
    assert "unwrapped" not in str(decode(None, dumps(event)).error_detail)


# --- Keys -----------------------------------------------------------------------------------------

KEY_SCHEMA = (
    b'{"type":"struct","name":"k","fields":[{"type":"int64","field":"b"},'
    b'{"type":"int32","name":"io.debezium.time.Date","field":"a"}]}'
)
DECIMAL_KEY_SCHEMA = (
    b'{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
    b'"parameters":{"scale":"0"},"field":"a"}]}'
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
        (
            b'{"schema":%b,"payload":{"a":"Infinity"}}' % DECIMAL_KEY_SCHEMA,
            b'{"a":37898298469234}',
            {"a": 37898298469234},
        ),
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
    assert exactly(event.record_key) == exactly(dumps(row))


def exactly(text: bytes | None) -> Any:
    """JSON with all digits: in a key a number is the same one, and may be written otherwise."""
    return json.loads(text or b"null", parse_int=Decimal, parse_float=Decimal)


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

    monkeypatch.setattr("python_udfs.debezium.envelope.location", broken)
    with pytest.raises(ZeroDivisionError):
        debezium_json.decode(None, dumps(ENVELOPE))


def test_the_other_key_of_a_key_update_has_what_a_router_has_added() -> None:
    """ByLogicalTableRouter adds a column to keys, and leaves headers as they were."""
    added = {"__dbz__physicalTableIdentifier": "shop.public.orders"}

    def other_key(key: dict[str, Any], header: dict[str, Any]) -> Any:
        headers = [("__debezium.oldkey", dumps(header))]
        (event,) = debezium_json.decode(dumps(key), dumps(ENVELOPE), headers)
        return loads(loads(event.metadata)["old_key"].encode())

    assert other_key({"id": 1, **added}, {"id": 7}) == {"id": 7, **added}
    assert other_key({"id": 1, **added}, {"id": 7, **added}) == {"id": 7, **added}
    # What else the keys differ in, nobody has added.
    assert other_key({"id": 1, "part": 2}, {"id": 7}) == {"id": 7}
    assert other_key({"id": 1, **added}, {"old": 7}) == {"old": 7}
