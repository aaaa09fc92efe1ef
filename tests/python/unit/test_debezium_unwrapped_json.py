"""debezium_unwrapped_json: rows of ExtractNewRecordState, as public pages quote them, and what can
be wrong with one.
"""

import io
import json
from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.debezium_messages import ENVELOPE, SOURCE, dumps, loads

from dbt_lakehouse.commands.decode import decode_stream
from dbt_lakehouse.commands.explain.explained_message import explain
from dbt_lakehouse.commands.explain.nodes import Limits
from dbt_lakehouse.commands.explain.source import from_captures
from dbt_lakehouse.spark.functions import decode_payload_batch
from python_udfs.core.events import Event, Headers
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium.fast_rows import UnwrappedRows
from python_udfs.debezium.unwrapped import decode
from python_udfs.registry import decode_batch, decode_payload

FORMAT = "debezium_unwrapped_json"

# A Go service's test of its Kafka reader: the customer of Debezium's tutorial, with schema blocks
# (of the value's only what is quoted of it).
SCHEMA_KEY = (
    b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],'
    b'"optional":false,"name":"dbserver1.inventory.customers.Key"},"payload":{"id":1003}}'
)
SCHEMA_ROW = (
    b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},'
    b'{"type":"string","optional":true,"field":"__deleted"}],"optional":false,'
    b'"name":"dbserver1.inventory.customers.Value"},"payload":{"id":1003,"first_name":"Edward",'
    b'"last_name":"Walker","email":"ed@walker.com","__source_ts_ms":0,"__db":"inventory",'
    b'"__table":"customers","__op":"c","__deleted":"false"}}'
)
# A project's page on its pipeline, topic fmcg.public.products.
PRODUCT_KEY = b'{"product_id":1}'
PRODUCT = (
    b'{"product_id":1,"sku":"BEV-TAM-001-EA","name":"Tamu Cola 330ml","unit_price":"52.50",'
    b'"is_active":true,"updated_at":"2026-10-03T14:01:36.662488Z","__deleted":"false","__op":"u",'
    b'"__source_ts_ms":1791036096666,"__source_lsn":31677120}'
)
# The page "New Record State Extraction", a delete rewritten.
REWRITTEN = b'{ "pk": 2, "cola": null, "__deleted": "true" }'
# The same page: what the transform makes of its example.
PLAIN = b'{\n\t"field1" : "newvalue1",\n\t"field2" : "newvalue2"\n}'


def one(value: bytes | None, key: bytes | None = None, headers: Headers | None = None) -> Event:
    (event,) = decode(key, value, headers)
    assert event.event_index == 0
    return event


def test_a_row_with_all_that_was_added() -> None:
    assert one(SCHEMA_ROW, SCHEMA_KEY) == Event(
        event_index=0,
        operation="insert",
        source_database="inventory",
        source_table="customers",
        record_key=b'{"id":1003}',
        after=b'{"id":1003,"first_name":"Edward","last_name":"Walker","email":"ed@walker.com"}',
        metadata=b'{"event_key":{"id":1003},"source":{"ts_ms":0,"db":"inventory",'
        b'"table":"customers"},"deleted":"false",'
        b'"schema_name":"dbserver1.inventory.customers.Value"}',
    )
    event = one(PRODUCT, PRODUCT_KEY)
    assert (event.operation, event.occurred_at) == ("update", 1791036096666)
    assert loads(event.after) == {
        name: value for name, value in loads(PRODUCT).items() if not name.startswith("__")
    }
    assert loads(event.metadata)["source"] == {"ts_ms": 1791036096666, "lsn": 31677120}


def test_a_rewritten_delete_has_the_row_that_was() -> None:
    event = one(REWRITTEN, b'{"pk":2}')
    assert (event.operation, event.before, event.after) == ("delete", b'{"pk":2,"cola":null}', None)
    assert event.record_key == b'{"pk":2}'
    assert one(b'{"__deleted":true}', b'{"pk":2}').operation == "delete"


def test_a_plain_row_and_the_null_value_that_deletes_it() -> None:
    assert one(PLAIN, b'{"field1":"newvalue1"}') == Event(
        0,
        "upsert",
        record_key=b'{"field1":"newvalue1"}',
        after=b'{"field1":"newvalue1","field2":"newvalue2"}',
        metadata=b'{"event_key":{"field1":"newvalue1"}}',
    )
    for value in (None, b"", b"null", b'{"schema":null,"payload":null}'):
        assert one(value, b'{"field1":"newvalue1"}') == Event(
            0,
            "delete",
            record_key=b'{"field1":"newvalue1"}',
            metadata=b'{"event_key":{"field1":"newvalue1"}}',
        )
    for key in (None, b"", b"null", b'"default"', b'{"schema":null,"payload":null}'):
        assert one(None, key).operation == "tombstone"
    assert one(b'"default"', b'{"id":1}').operation == "tombstone"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b"1003", "a number"),
        (b'"abc"', "a string"),
        (b"[1]", "an array"),
        (b"{}", "one without"),
        (b"\xff", "bytes that can't be read"),
        (b'{"schema":{"type":"int32"},"payload":1003}', "a number"),
        (b'{"schema":null,"payload":1003}', "a number"),
        (b'{"schema":{"type":7},"payload":', "bytes that can't be read"),
    ],
)
def test_a_null_value_whose_key_names_no_row_is_no_lost_delete(key: bytes, found: str) -> None:
    for value in (None, b"null", b'{"schema":null,"payload":null}'):
        event = one(value, key)
        assert (event.operation, event.error_code) == ("invalid", "bad_field")
        detail = event.error_detail or ""
        assert f"got {found};" in detail and "ExtractField$Key" in detail
        assert "event_key" in loads(event.metadata)


@pytest.mark.parametrize(
    "key", [b'{"payload":1}', b'{"payload":"a","schema":"b"}', b'{"id":1,"payload":2}']
)
def test_a_key_has_columns_of_any_names(key: bytes) -> None:
    assert one(None, key)[:6] == (0, "delete", None, None, None, key)
    assert one(key, key).record_key == key


def test_a_key_of_mongodb_is_the_id_of_its_document() -> None:
    key = b'{"id":"{\\"$oid\\":\\"67ab00000000000000000001\\"}"}'
    expected = b'{"_id":"67ab00000000000000000001"}'
    row = dumps({"_id": "67ab00000000000000000001", "__collection": "c", "__db": "shop"})
    for value in (row, None, b'{"__deleted":"true","__ord":1,"__rs":"rs0"}'):
        assert one(value, key).record_key == expected
    assert loads(one(row, key).metadata)["event_key"] == loads(key)
    event = one(row.replace(b"}", b',"__deleted":false}'), key)
    assert (event.source_database, event.source_table) == ("shop", "c")
    for other in (b'{"id":"{}"}', b'{"id":"$"}', b'{"id":"{\\"$oid\\":1}"}', b'{"id":1,"a":"{"}'):
        assert loads(one(row, other).record_key) == loads(other)


def test_what_source_blocks_have_is_no_column() -> None:
    mongodb = ("rs", "ord", "lsid", "txnNumber", "wallTime", "collection")
    postgresql = ("origin", "origin_lsn", "lsn", "txId", "xmin", "sequence")
    oracle = ("txSeq", "scn", "commit_scn", "rs_id", "ssn", "redo_thread", "user_name", "row_id")
    for names in (mongodb, postgresql, oracle):
        event = one(dumps({"id": 1} | {f"__{name}": "x" for name in names}))
        assert event.after == b'{"id":1}'
        assert loads(event.metadata)["source"] == dict.fromkeys(names, "x")
    row = {"id": 1, "__total_order": 2, "__updateDescription_updatedFields": "{}"}
    metadata = loads(one(dumps(row)).metadata)
    assert metadata["transaction"] == {"total_order": 2}
    assert metadata["updateDescription"] == {"updatedFields": "{}"}


# What add.headers=op,source.ts_ms,db,table,transaction.id writes, by the header converters.
WRITTEN: dict[str, Headers] = {
    "JsonConverter": [
        ("__op", b'{"schema":{"type":"string","optional":true},"payload":"u"}'),
        ("__source_ts_ms", b'{"schema":{"type":"int64","optional":true},"payload":1791036096666}'),
        ("__db", b'{"schema":{"type":"string","optional":true},"payload":"42"}'),
        ("__table", b'{"schema":{"type":"string","optional":true},"payload":"orders"}'),
        ("__transaction_id", b'{"schema":{"type":"string","optional":true},"payload":null}'),
    ],
    "JsonConverter without schemas": [
        ("__op", b'"u"'),
        ("__source_ts_ms", b"1791036096666"),
        ("__db", b'"42"'),
        ("__table", b'"orders"'),
        ("__transaction_id", b"null"),
    ],
    "SimpleHeaderConverter": [
        ("trace", b"\xff"),
        ("__debezium.context.taskId", b"0"),
        ("__source.ts_ms", b"1791036096666"),
        ("__op", b"u"),
        ("__db", b"42"),
        ("__table", b"orders"),
        ("__schema", b"\xff"),
        ("__transaction_id", None),
    ],
}


@pytest.mark.parametrize("headers", WRITTEN.values(), ids=WRITTEN.keys())
def test_headers_say_what_fields_would(headers: Headers) -> None:
    key, row = b'{"id":1}', b'{"id":1,"note":"x"}'
    source = {"ts_ms": 1791036096666, "db": "42", "table": "orders"}
    expected = Event(
        0,
        "update",
        "42",
        None,
        "orders",
        key,
        after=row,
        occurred_at=1791036096666,
    )
    event = one(row, key, headers)
    assert event._replace(metadata=None) == expected
    assert loads(event.metadata) == {"event_key": {"id": 1}, "source": source}
    (enveloped,) = debezium_json.decode(
        key, dumps({"op": "u", "after": loads(row), "source": source})
    )
    assert event._replace(metadata=None) == enveloped._replace(metadata=None)
    assert loads(event.metadata)["source"] == loads(enveloped.metadata)["source"]
    # So do the null values that delete, which the transform makes of the envelopes of deletes.
    of_delete = {b"u": b"d", b'"u"': b'"d"'}
    event = one(None, key, [(name, of_delete.get(value or b"", value)) for name, value in headers])
    assert event._replace(metadata=None) == expected._replace(operation="delete", after=None)
    assert loads(event.metadata)["source"] == source
    wrapped = b'{"schema":{"type":"struct","fields":[{"field":"id","type":"int32"}]},"payload":%b}'
    assert one(wrapped % row, key, headers).source_table == "orders"


def test_a_field_comes_before_a_header() -> None:
    row = {"id": 1, "__op": "c", "__table": "a", "__deleted": "false"}
    event = one(dumps(row), None, [("__op", b"u"), ("__table", b"b"), ("__db", b"shop")])
    assert (event.operation, event.source_database, event.source_table) == ("insert", "shop", "a")


def test_a_header_can_be_wrong() -> None:
    event = one(b'{"id":1}', None, [("__op", b"x")])
    assert event.error_code == "bad_type"
    event = one(b'{"id":1}', None, [("__source_ts_ms", b"soon")])
    assert event.error_code == "bad_field"
    for value in (b'{"a', b'"', b"\xff", b"", b"null", b'"\xff"'):
        assert one(b'{"id":1}', None, [("__op", value)]).operation == "upsert"
    event = one(None, None, [("__op", b"d")])
    assert (event.error_code, "header __op" in (event.error_detail or "")) == ("bad_field", True)


def test_only_rows_that_say_what_is_deleted_name_their_table() -> None:
    row = {"id": 1, "__op": "u", "__table": "orders", "__db": "shop", "__schema": "public"}
    event = one(dumps(row))
    assert (event.operation, event.source_database, event.source_table) == ("update", None, None)
    assert loads(event.metadata)["source"] == {"table": "orders", "db": "shop", "schema": "public"}
    event = one(dumps(row | {"__deleted": "false"}))
    assert (event.source_database, event.source_schema, event.source_table) == (
        "shop",
        "public",
        "orders",
    )
    event = one(dumps({"id": 1, "__deleted": "true", "__source_table": "a", "__table": "b"}))
    assert event.source_table == "a"
    metadata = loads(event.metadata)
    assert (metadata["source"], metadata["__table"]) == ({"table": "a"}, "b")


def test_names_that_were_not_added_are_columns() -> None:
    row = {"__v": 1, "__op_": "x", "_id": 2, "__typename": "t", "op": "x", "before": 1, "source": 2}
    assert loads(one(dumps(row)).after) == row
    for more in (
        {"status": "END"},
        {"payload": {"a": 1}},
        {"ddl": "x", "databaseName": "y"},
        {"schema": "public", "payload": "x"},
        {"schema": {"a": 1}, "payload": {"b": 2}},
        {"op": "c", "source": {"a": 1}},
        {"op": "c", "before": {"a": 1}},
        {"ts_ms": 1},
    ):
        assert loads(one(dumps({"id": 1} | more), b'{"serverName":1}').after) == {"id": 1} | more
    for columns in ({"schema": "public", "payload": "x"}, {"payload": 7}, {"schema": 1}):
        assert loads(one(dumps(columns)).after) == columns
    assert one(b'{"schema":"public","payload":"x}').error_code == "truncated"


def test_the_same_events_as_of_envelopes() -> None:
    key = b'{"id":1}'
    transaction: Any = ENVELOPE["transaction"]
    for op, deleted in (("c", "false"), ("r", "false"), ("u", "false"), ("d", "true")):
        row = {"id": 1, "note": 'say "hi": ok', "price": 1.5}
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        wrapped = dumps(ENVELOPE | images | {"op": op})
        (expected,) = debezium_json.decode(key, wrapped)
        added = {f"__source_{name}": value for name, value in SOURCE.items()}
        added |= {f"__transaction_{name}": value for name, value in transaction.items()}
        flat = row | added | {"__op": op, "__ts_ms": ENVELOPE["ts_ms"], "__deleted": deleted}
        event = one(dumps(flat), key)
        metadata = loads(event.metadata)
        assert metadata.pop("deleted") == deleted
        assert event._replace(metadata=None) == expected._replace(metadata=None)
        assert metadata == loads(expected.metadata)


def test_a_schema_block_types_the_row() -> None:
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "born", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "n", "type": "int32"},
        {"field": "__deleted", "type": "string"},
    ]
    row = {"id": 1, "born": 20210, "n": "x", "__deleted": "true"}
    value = dumps({"schema": {"type": "struct", "fields": fields}, "payload": row})
    event = one(value)
    assert event.before == b'{"id":1,"born":"2025-05-02","n":"x"}'
    assert loads(event.metadata)["untyped"] == ["$.before.n"]
    toast = b'{"id":1,"note":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}'
    assert one(toast).after == b'{"id":1,"note":"__debezium_unavailable_value"}'


def test_what_is_no_row_is_told_by_its_schema_block() -> None:
    schema = {"type": "struct", "name": "io.debezium.connector.common.Heartbeat", "fields": []}
    event = one(dumps({"schema": schema, "payload": {"ts_ms": 1}}), b'{"serverName":"a"}')
    assert (event.operation, event.after) == ("message", None)
    bare = one(b'{"ts_ms":1791036096666}', b'{"serverName":"a"}')
    assert (bare.operation, loads(bare.metadata)["ts_ms"]) == ("message", 1791036096666)
    assert one(b'{"ts_ms":1}', b'{"id":"a"}').operation == "upsert"


@pytest.mark.parametrize("value", [PRODUCT, REWRITTEN.rstrip(), SCHEMA_ROW])
def test_each_prefix_is_truncated(value: bytes) -> None:
    for length in range(1, len(value)):
        event = one(value[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated"), length


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        (b"[]", "bad_shape", "$: expected a row, got an array"),
        (b"{}", "bad_shape", "$: expected a row, got an object without columns"),
        (b'{"__op":"c"}', "bad_shape", "$: expected a row, got an object without columns"),
        (b'{"__deleted":"true"}', "bad_field", "$: no columns, and the Kafka key names no row"),
        (dumps(ENVELOPE), "bad_shape", "$: an envelope with op, before and after: its format"),
        (b'{"id":1,"__op":"x"}', "bad_type", "$.__op: expected one of r, c, u, d, got 'x'"),
        (b'{"id":1,"__op":1}', "bad_field", "$.__op: expected a string, got a number"),
        (b'{"id":1,"__op":"x","__deleted":"true"}', "bad_type", "$.__op: expected one of r, c, u"),
        (b'{"id":1,"__op":"c","__deleted":"true"}', "bad_field", "$.__op: expected d, for __delet"),
        (b'{"id":1,"__deleted":"no"}', "bad_field", '$.__deleted: expected "true" or "false", go'),
        (b'{"id":1,"__deleted":1}', "bad_field", '$.__deleted: expected "true" or "false", got a'),
        (
            b'{"id":1,"__deleted":"false","__table":1}',
            "bad_field",
            "$.__table: expected a string or null, got a numb",
        ),
        (b'{"id":1,"__source_ts_ms":true}', "bad_field", "$.__source_ts_ms: expected millisecond"),
        (b'{"payload":{"id":1,"__op":"x"}}', "bad_type", "$.payload.__op: expected one of"),
        (b'{"id":1,"id":2}', "bad_field", "the name 'id' comes twice in one object"),
        (b'{"id":\xff}', "not_json", "no JSON: "),
        (b'{"id":"\xff"}', "bad_field", "invalid UTF-8 at byte"),
        (b'{"id":' + b"[" * 300 + b"]" * 300 + b"}", "too_deep", "nested deeper than"),
        (PRODUCT + b"]", "trailing_bytes", "1 bytes after the end"),
        (b"\x00\x00\x00\x00\x01x", "not_json", "a payload of schema 1 framed by Confluent's"),
    ],
)
def test_a_bad_row_says_why(value: bytes, code: str, detail: str) -> None:
    event = one(value)
    assert (event.operation, event.error_code) == ("invalid", code)
    assert (event.error_detail or "").startswith(detail)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([PRODUCT, REWRITTEN, SCHEMA_ROW, PLAIN]), st.data())
def test_a_damaged_row_gives_an_event(message: bytes, data: Any) -> None:
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    event = one(bytes(damaged), bytes(damaged))
    assert (event.operation == "invalid") == (event.error_code is not None)
    for column in (event.record_key, event.before, event.after, event.metadata):
        assert column is None or isinstance(json.loads(column), dict)


# Many together

Messages = list[tuple[bytes | None, bytes | None]]


def decoded_twice(messages: Messages) -> int:
    """Decode messages together, when their layout has been learned; how many were alike."""
    keys, values = [key for key, _ in messages], [value for _, value in messages]
    # For a clock that stands it always pays to learn.
    fast_path = FastPath(decode, UnwrappedRows(), Learning(lambda: 0.0))
    fast_path.decode_batch(keys, values)
    together = fast_path.decode_batch(keys, values)
    assert together.payloads() == [decode(key, value) for key, value in messages]
    return sum(len(places) for places, _ in together.columns)


ROW: dict[str, Any] = {"id": 1, "name": "Ana", "n": 1.50, "tags": [{"a": None}]}


@pytest.mark.parametrize(
    ("more", "alike"),
    [
        ({}, True),
        ({"__deleted": "false", "__op": "u"}, True),
        ({"__deleted": "true", "__op": "d", "__table": "t", "__db": ""}, True),
        ({"__source_ts_ms": 1791036096666, "__source_connector": "mysql", "__ts_ms": None}, True),
        ({"__lsn": 1, "__transaction_id": "7:1", "__snapshot": "true", "__v": 1}, True),
        ({"__source_ts_ms": -1, "__op": None}, True),
        ({"__source_ts_ms": "1791036096666"}, False),
        ({"__table": 1, "__deleted": "false"}, False),
        ({"__op": "x"}, False),
        ({"__deleted": True}, False),
        ({"__table": "t", "__source_table": "t"}, False),
        ({"op": "x"}, False),
        ({"payload": 1}, False),
        ({"note": "__debezium_unavailable_value"}, False),
        ({"deep": json.loads("[" * 300 + "]" * 300)}, False),
        ({'a"b': 1}, False),
    ],
)
def test_many_are_decoded_as_each_one_is(more: dict[str, Any], alike: bool) -> None:
    messages: Messages = []
    for number in range(300):
        row = dumps(ROW | {"id": number} | more)
        if number % 3 == 2 and "__deleted" in more:
            row = row.replace(b'"__deleted":"true"', b'"__deleted":"false"')
        messages.append((dumps({"id": number, "a": "\u00e9"}), row))
    odd: Messages = [
        (None, None),
        (b'{"id":1}', None),
        (b'{"id":1}', b"null"),
        (b'{"id":1,"id":2}', dumps(ROW | more)),
        (b'{"id": 1,"a":2}', dumps(ROW | more)),
        (b'{"id":1,"a":' + b"[" * 300 + b"]" * 300 + b"}", dumps(ROW | more)),
        (b"7", dumps(ROW | more)),
        (b'{"id":"{\\"$oid\\":\\"67ab00000000000000000001\\"}"}', dumps(ROW | more)),
        (None, dumps(ROW | more)),
        (b'{"id":1,"a":2}', dumps(ROW | more)[:-1]),
        (b'{"id":1,"a":2}', dumps(ROW | more).replace(b'"Ana"', b'"A","name":"B"')),
        (b'{"id":1,"a":2}', dumps(ROW | more).replace(b"1.5", b"1.50e1")),
        (b'{"id":1,"a":2}', SCHEMA_ROW),
    ]
    messages[100:100] = odd
    found = decoded_twice(messages)
    assert found > 250 if alike else found == 0
    assert decoded_twice([(None, value) for _, value in messages]) > 250 or not alike


def test_many_with_headers_are_decoded_as_each_one_is() -> None:
    count = 40
    keys = [b'{"id":%d}' % number for number in range(count)]
    values = [None if number == 7 else b'{"id":%d,"a":1}' % number for number in range(count)]
    for headers in (WRITTEN["SimpleHeaderConverter"], [("trace", b"1")], None):
        found = decode_batch(FORMAT, keys, values, [headers, None] * (count // 2))
        assert found.payloads() == [
            decode(key, value, None if place % 2 else headers)
            for place, (key, value) in enumerate(zip(keys, values, strict=True))
        ]
    headers = WRITTEN["JsonConverter"]
    assert decode_payload(FORMAT, keys[0], values[0], headers) == decode(
        keys[0], values[0], headers
    )
    # Of other formats nobody looks at them.
    assert decode_payload("debezium_json", keys[0], None, headers)[0].operation == "tombstone"


def test_spark_hands_headers_on() -> None:
    """As bronze has them; null, or none, is nothing said."""
    struct = pa.struct([("key", pa.string()), ("value", pa.binary())])
    said = [{"key": name, "value": value} for name, value in WRITTEN["SimpleHeaderConverter"]]
    headers = pa.array([said, None, [], said], pa.list_(struct))
    messages = (
        pa.array([FORMAT, FORMAT, FORMAT, "debezium_json"]),
        pa.array([b'{"id":1}'] * 4, pa.binary()),
        pa.array([b'{"id":1,"n":2}', None, b'{"id":1}', None], pa.binary()),
    )
    found = decode_payload_batch(*messages, headers).to_pylist()
    assert [(each["operation"], each["source_table"]) for (each,) in found] == [
        ("update", "orders"),
        ("delete", None),
        ("upsert", None),
        ("tombstone", None),
    ]
    assert decode_payload_batch(*messages).to_pylist()[1:] == found[1:]


def test_captures_have_headers() -> None:
    headers = [
        [name, value and b64encode(value).decode()] for name, value in WRITTEN["JsonConverter"]
    ]
    line = {"value_b64": b64encode(b'{"id":1}').decode(), "headers": headers}
    written: list[bytes] = []
    decode_stream(io.BytesIO(dumps(line)), written.append, FORMAT)
    assert json.loads(b"".join(written))["source_table"] == "orders"
    (message,) = (from_captures(dumps(line), 1, "a file"),)
    told = explain(message.key, message.value, Limits(), headers=message.headers)
    assert (told.format, told.events[0].source_table) == (FORMAT, "orders")


RESOLVED = b'{"resolved":"1681240120058450985.0000000000"}'


@pytest.mark.parametrize(
    "value", [RESOLVED, b'{"__crdb__":' + RESOLVED + b"}", b'{"payload":' + RESOLVED + b"}"]
)
def test_what_cockroachdb_has_resolved_is_a_message(value: bytes) -> None:
    (event,) = decode(None, value)
    assert (event.operation, event.after) == ("message", None)
    # A table may have such a column, and rows of it a key.
    (row,) = decode(b'{"resolved":1}', value)
    assert row.operation == "upsert"
    (row,) = decode(None, b'{"resolved":"yes"}')
    assert row.operation == "upsert"
    keys = [None, b'{"resolved":1}', None]
    values = [b'{"resolved":"yes"}', value, value]
    decoded_twice(list(zip(keys * 20, values * 20, strict=True)))


def test_cloud_events_are_no_rows() -> None:
    event = {"id": "a", "source": "/debezium/x", "specversion": "1.0", "type": "t", "data": {}}
    (row,) = decode(None, dumps(event))
    assert row.operation == "upsert"
    (refused,) = decode(None, dumps(event | {"iodebeziumop": "c"}))
    assert refused.error_code == "bad_shape"
    assert "a CloudEvents message" in str(refused.error_detail)
    texts = [dumps(event), dumps(event | {"iodebeziumop": "c"})]
    decoded_twice([(None, texts[number % 2]) for number in range(40)])


def test_heartbeats_together_are_messages() -> None:
    assert decoded_twice([(b'{"serverName":"a"}', b'{"ts_ms":%d}' % n) for n in range(40)]) == 0
    oid = '{"$oid":"67ab0000000000000000%04d"}'
    messages: Messages = [
        (dumps({"id": oid % n if n % 2 else n}), dumps({"_id": n})) for n in range(40)
    ]
    decoded_twice(messages)


ADDED = st.dictionaries(
    st.sampled_from(
        "__op __table __db __schema __source_table __deleted __source_ts_ms __lsn __ts_ms"
        " __connector __transaction_id __transaction_total_order __source_snapshot"
        " __v id name".split()
    ),
    st.sampled_from(["c", "d", "u", "true", "false", "", None, 7, 1791036096666, 1.25, "t"]),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(ADDED, min_size=1, max_size=3), st.booleans())
def test_any_rows_are_decoded_as_each_one_is(rows: list[dict[str, Any]], has_key: bool) -> None:
    key = b'{"b":1,"a":{"d":1.0,"c":2}}' if has_key else None
    texts = [dumps(row) for row in rows]
    decoded_twice([(key, texts[number % len(texts)]) for number in range(40)])
