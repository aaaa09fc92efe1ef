"""``debezium_avro``: framing, schemas, values, and what can be wrong with a message."""

import json
import random
import struct
import sys
import tracemalloc
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import each_alone
from support.avro_messages import Writer, avro_schema, avro_value
from support.debezium_messages import dumps, loads

from dbt_lakehouse.commands.explain.explained_message import explain
from dbt_lakehouse.commands.explain.nodes import Limits
from dbt_lakehouse.commands.generate.profile import Position, TopicProfile
from python_udfs.core.budget import Budget
from python_udfs.core.errors import DecodeError
from python_udfs.core.events import Event
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.debezium import avro, unwrapped_avro
from python_udfs.debezium import json as debezium_json
from python_udfs.registry import decode_batch, decode_payload
from python_udfs.text.avro import BadSchema, float_text, parse_schemas, reader_of

KEY_ID, VALUE_ID = 8, 7
CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."


def field(name: str, kind: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
    block = {"field": name, "type": kind, "optional": True, **more}
    return block | {"name": logical, "version": 1} if logical else block


def envelope(*columns: dict[str, Any]) -> dict[str, Any]:
    """The schema block of a table's envelopes."""
    row = {"type": "struct", "name": "shop.orders.Value", "optional": True, "fields": [*columns]}
    source = [field(name, "string") for name in ("connector", "db", "schema", "table")]
    return {
        "type": "struct",
        "name": "shop.orders.Envelope",
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            {
                **{"field": "source", "type": "struct", "name": "io.debezium.Source"},
                "fields": [*source, {"field": "ts_ms", "type": "int64"}],
            },
            {"field": "op", "type": "string"},
            field("ts_ms", "int64"),
        ],
    }


SOURCE = {"connector": "mysql", "db": "shop", "schema": None, "table": "orders", "ts_ms": 10**12}
KEY_BLOCK = {
    "type": "struct",
    "name": "shop.orders.Key",
    "fields": [{"field": "id", "type": "int32"}],
}


def payload_of(after: Any, before: Any = None, op: str = "c") -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 10**12 + 5}


def know(number: int, schema: Any, *others: Any) -> None:
    avro.know({number: avro.Registered("AVRO", tuple(map(json.dumps, (*others, schema))))})


def both_ways(block: Any, payload: Any, key: Any = None) -> tuple[list[Event], list[Event]]:
    """The events of a message in JSON with its schema, and in Avro."""
    know(VALUE_ID, avro_schema(block))
    know(KEY_ID, avro_schema(KEY_BLOCK))
    as_json = dumps({"schema": block, "payload": payload})
    as_avro = Writer(VALUE_ID, avro_schema(block)).write(avro_value(block, payload))
    json_key = avro_key = None
    if key is not None:
        json_key = dumps({"schema": KEY_BLOCK, "payload": key})
        avro_key = Writer(KEY_ID, avro_schema(KEY_BLOCK)).write(key)
    return debezium_json.decode(json_key, as_json), decode_payload(
        "debezium_avro", avro_key, as_avro
    )


ORDER = envelope(
    {"field": "id", "type": "int32"},
    field("total", "bytes", CONNECT + "Decimal", parameters={"scale": "2"}),
    field("note", "string"),
)
AFTER = {"id": 1, "total": b64encode(b"\x26\xde").decode(), "note": "hé"}


def message(payload: Any, block: Any = ORDER) -> bytes:
    know(VALUE_ID, avro_schema(block))
    return Writer(VALUE_ID, avro_schema(block)).write(avro_value(block, payload))


# Written by hand, by the Avro specification: id 7, no row before, a row after.
BY_HAND = bytes.fromhex(
    "0000000007"  # magic byte, id
    "00"  # before: branch 0, null
    "02 02 02 04 26de 02 06 68c3a9"  # after: id 1, total of 2 bytes, note of 3
    "02 0a 6d7973716c"  # source.connector
    "02 08 73686f70 00 02 0c 6f7264657273"  # db, schema, table
    "80c0a8ca9a3a"  # ts_ms: 10^12
    "02 63"  # op: c
    "02 8ac0a8ca9a3a"  # ts_ms
)


def test_a_message_byte_by_byte() -> None:
    assert BY_HAND == message(payload_of(AFTER))
    know(KEY_ID, avro_schema(KEY_BLOCK))
    (event,) = avro.decode(bytes.fromhex("0000000008 02"), BY_HAND)
    assert (event.operation, event.source_database, event.source_table) == (
        *("insert", "shop"),
        "orders",
    )
    assert event.record_key == b'{"id":1}'
    assert event.after == '{"id":1,"total":99.50,"note":"hé"}'.encode()
    assert (event.before, event.occurred_at) == (None, 10**12)
    assert loads(event.metadata)["schema_name"] == "shop.orders.Envelope"


@pytest.mark.parametrize("length", range(1, len(BY_HAND)))
def test_each_prefix_is_truncated(length: int) -> None:
    message(payload_of(AFTER))
    (event,) = decode_payload("debezium_avro", None, BY_HAND[:length])
    assert (event.operation, event.error_code) == ("invalid", "truncated")
    assert "at byte " in (event.error_detail or "")


# --- The same as in JSON --------------------------------------------------------------------------

LONG = st.integers(-(2**63), 2**63 - 1)
BASE64 = st.binary(max_size=12).map(lambda each: b64encode(each).decode())
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def _scalar(kind: str, logical: str | None, values: Any, **more: Any) -> Any:
    block = {"type": kind, **more, **({"name": logical, "version": 1} if logical else {})}
    return st.tuples(st.just(block), st.just(values))


# Of which Java writes what Python does.
_DOUBLES = st.floats(1e-3, 9e6) | st.floats(-9e6, -1e-3)
SCALARS = st.one_of(
    *(
        _scalar(f"int{bits}", None, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for bits in (8, 16, 32, 64)
    ),
    _scalar("boolean", None, st.booleans()),
    _scalar("float64", None, _DOUBLES),
    _scalar("string", None, TEXT),
    _scalar("string", "io.debezium.data.Json", TEXT),
    _scalar("string", "io.debezium.data.Enum", TEXT, parameters={"allowed": "a,b"}),
    _scalar("bytes", None, BASE64),
    _scalar("bytes", "io.debezium.data.Bits", BASE64, parameters={"length": "9"}),
    *(
        _scalar("bytes", CONNECT + "Decimal", BASE64, parameters={"scale": scale})
        for scale in ("0", "2", "-3", "40")
    ),
    *(
        _scalar("int32", name, st.integers(-(2**31), 2**31 - 1))
        for name in (CONNECT + "Date", CONNECT + "Time", TIME + "Date", TIME + "Time")
    ),
    *(
        _scalar("int64", TIME + name, LONG)
        for name in (
            *("Timestamp", "MicroTimestamp", "NanoTimestamp", "MicroTime", "NanoTime"),
            "MicroDuration",
        )
    ),
    _scalar("int64", CONNECT + "Timestamp", LONG),
    _scalar("int64", None, LONG, parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"}),
    _scalar(
        "string",
        TIME + "ZonedTimestamp",
        st.sampled_from(["2026-11-21T10:00:00.5Z", "2026-11-21T10:00:00+02:00", "yesterday"]),
    ),
    st.tuples(
        st.just(
            {
                "type": "struct",
                "name": "io.debezium.data.VariableScaleDecimal",
                "fields": [
                    {"field": "scale", "type": "int32"},
                    {"field": "value", "type": "bytes"},
                ],
            }
        ),
        st.just(st.fixed_dictionaries({"scale": st.integers(-3, 30), "value": BASE64})),
    ),
    st.tuples(
        st.just(
            {
                "type": "struct",
                "name": "io.debezium.data.geometry.Geometry",
                "fields": [{"field": "wkb", "type": "bytes"}, field("srid", "int32")],
            }
        ),
        st.just(st.fixed_dictionaries({"wkb": BASE64, "srid": st.none() | st.integers(0, 9999)})),
    ),
)


def _parted(typed: Any) -> Any:
    """Types with parts of others."""

    def struct(parts: list[Any]) -> Any:
        names = [f"f{number}" for number in range(len(parts))]
        block = {
            "type": "struct",
            "fields": [
                {**part, "field": name} for name, (part, _) in zip(names, parts, strict=True)
            ],
        }
        values = {name: values for name, (_, values) in zip(names, parts, strict=True)}
        return block, st.fixed_dictionaries(values)

    return st.one_of(
        typed.map(
            lambda each: ({"type": "array", "items": each[0]}, st.lists(each[1], max_size=3))
        ),
        typed.map(
            lambda each: (
                {"type": "map", "keys": {"type": "string"}, "values": each[0]},
                st.dictionaries(TEXT, each[1], max_size=3),
            )
        ),
        typed.map(
            lambda each: (
                {"type": "map", "keys": {"type": "int32"}, "values": each[0]},
                st.lists(st.tuples(st.integers(0, 9), each[1]).map(list), max_size=3),
            )
        ),
        st.lists(typed, min_size=1, max_size=3).map(struct),
    )


TYPES = st.recursive(SCALARS, _parted, max_leaves=4)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_the_same_comes_of_json_and_of_avro(data: st.DataObject) -> None:
    columns: list[dict[str, Any]] = [{"field": "id", "type": "int32"}]
    values: dict[str, Any] = {"id": st.integers(0, 9)}
    for number, (block, of_type) in enumerate(data.draw(st.lists(TYPES, max_size=4))):
        name, optional = f"c{number}", data.draw(st.booleans())
        columns.append({**block, "field": name, "optional": optional})
        values[name] = st.none() | of_type if optional else of_type
    rows = st.fixed_dictionaries(values)
    block = _own_names(envelope(*columns))
    before, after = (
        _ordered(block["fields"][0], data.draw(each)) for each in (st.none() | rows, rows)
    )
    payload = payload_of(after, before, data.draw(st.sampled_from("cru")))
    in_json, in_avro = both_ways(block, payload, {"id": after["id"]})
    assert in_avro == in_json
    others = [_ordered(block["fields"][1], each) for each in data.draw(st.lists(rows, max_size=2))]
    together([*(payload_of(each) for each in others), payload], block)


def together(payloads: list[Any], block: Any) -> int:
    """Read many messages of these together, and see that each gives what it gives alone; how many
    of them were.
    """
    messages = [message(each, block) for each in payloads] * 12
    keys = [Writer(KEY_ID, avro_schema(KEY_BLOCK)).write({"id": 1})] * len(messages)
    # It always pays to learn.
    way = FastPath(avro.decode, avro.AvroFormat(), Learning(lambda: 0.0))
    decoded = way.decode_batch(keys, messages)
    assert decoded.payloads() == each_alone(avro.decode, keys, messages)
    return len(messages) - len(decoded.events)


def test_what_is_alike_is_read_together() -> None:
    know(KEY_ID, avro_schema(KEY_BLOCK))
    payloads = [payload_of(AFTER), payload_of(AFTER, AFTER, "u"), payload_of(None, AFTER, "d")]
    assert together(payloads, ORDER) == 36
    # That no row is before an insert is no other layout.
    small = envelope({"field": "id", "type": "int16"}, field("at", "int64", TIME + "MicroTime"))
    rows = [{"id": 1, "at": 5}, {"id": -(2**15), "at": None}]
    assert together([payload_of(row) for row in rows], small) == 24


@pytest.mark.parametrize("package", ["pyarrow", "pyruhvro"])
def test_without_its_extra_each_is_read_alone(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(KEY_ID, avro_schema(KEY_BLOCK))
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "python_udfs.text.avro_columns", raising=False)
    monkeypatch.delattr("python_udfs.text.avro_columns", raising=False)
    assert together([payload_of(AFTER)], ORDER) == 0


def test_a_schema_that_has_changed_is_read_anew() -> None:
    """Of a registry that was made anew, whose ids are others."""
    columns = (field("one", "string"), field("two", "string"))
    payload = payload_of({"one": "1", "two": "2"})
    know(KEY_ID, avro_schema(KEY_BLOCK))
    first = message(payload, envelope(*columns))
    for block in (envelope(*columns), envelope(*reversed(columns))):
        know(VALUE_ID, avro_schema(block))
        found = decode_batch("debezium_avro", [None] * 40, [first] * 40).payloads()
        assert found == [avro.decode(None, first)] * 40


def _ordered(block: Any, value: Any) -> Any:
    """A value with its names as the schema has them, and so JsonConverter."""
    if value is None:
        return None
    if block["type"] == "struct":
        return {each["field"]: _ordered(each, value[each["field"]]) for each in block["fields"]}
    if block["type"] == "array":
        return [_ordered(block["items"], each) for each in value]
    if block["type"] == "map" and isinstance(value, dict):
        return {name: _ordered(block["values"], each) for name, each in value.items()}
    if block["type"] == "map":
        return [[key, _ordered(block["values"], each)] for key, each in value]
    return value


def _own_names(block: Any) -> Any:
    """Names for the structs within that have none: Connect needs one where there are several."""
    counted = iter(range(10_000))

    def named(each: Any) -> Any:
        if isinstance(each, list):
            return [named(part) for part in each]
        if not isinstance(each, dict):
            return each
        parts = {name: named(part) for name, part in each.items()}
        if each.get("type") == "struct" and "name" not in each:
            parts["name"] = f"shop.Part{next(counted)}"
        return parts

    # Both images are of one type.
    row = named(block["fields"][0])
    return {
        **block,
        "fields": [row, {**row, "field": "after"}, *block["fields"][2:]],
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.25e-300, "-1.25E-300"),
        (1e100, "1.0E100"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_have_the_digits_that_java_writes(value: float, text: str) -> None:
    block = envelope({"field": "id", "type": "int32"}, field("x", "float64"))
    (event,) = avro.decode(None, message(payload_of({"id": 1, "x": value}), block))
    shown = f'"{text}"' if text[-1] in "Ny" or text == "NaN" else text
    assert event.after == f'{{"id":1,"x":{shown}}}'.encode()


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("3dcccccd", "0.1"),
        ("4b18967f", "9999999.0"),
        ("4b189680", "1.0E7"),
        ("7f7fffff", "3.4028235E38"),
        ("00000001", "1.4E-45"),
        ("c0490fdb", "-3.1415927"),
        ("7fc00000", "NaN"),
        ("ff800000", "-Infinity"),
    ],
)
def test_floats_have_the_digits_that_java_writes(bits: str, text: str) -> None:
    (value,) = struct.unpack(">f", bytes.fromhex(bits))
    found = float_text(value)
    assert (found if isinstance(found, str) else bytes(found).decode()) == text


# --- Avro's own -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "int", "logicalType": "date"}, 20_000, '"2024-10-04"'),
        ({"type": "int", "logicalType": "time-millis"}, 36_000_123, '"10:00:00.123"'),
        ({"type": "long", "logicalType": "time-micros"}, 36_000_000_123, '"10:00:00.000123"'),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, '"1970-01-01T00:00:00.001Z"'),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, '"1970-01-01T00:00:00.000001Z"'),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            *(1, '"1970-01-01T00:00:00.000001"'),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            b"\x26\xde",
            "99.50",
        ),
        (
            {
                **{"type": "fixed", "name": "d", "size": 4},
                **{"logicalType": "decimal", "precision": 4, "scale": 2},
            },
            *(b"\0\0\x26\xde", "99.50"),
        ),
        ({"type": "string", "logicalType": "uuid"}, "6f-1", '"6f-1"'),
        ({"type": "enum", "name": "e", "symbols": ["new", "paid"]}, "paid", '"paid"'),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", '"YWI="'),
        (["null", "int", "string"], "s", '{"int":null,"string":"s"}'),
        (["null", "int", "string"], None, "null"),
        (["null", {"type": "map", "values": "long"}], {"a": 1}, '{"a":1}'),
    ],
)
def test_types_of_avro(schema: Any, value: Any, text: str) -> None:
    block = avro_schema(ORDER)
    row = block["fields"][0]["type"][1]
    row["fields"] = [{"name": "x", "type": schema}]
    know(VALUE_ID, block)
    written = Writer(VALUE_ID, block).write(payload_of({"x": value}))
    (event,) = avro.decode(None, written)
    assert event.after == f'{{"x":{text}}}'.encode()


@pytest.mark.parametrize(("precision", "known"), [(64, None), (12, 12)])
def test_a_decimal_has_the_precision_that_somebody_knows(precision: int, known: int | None) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    know(12, {"type": "record", "name": "r", "fields": [{"name": "x", "type": schema}]})
    message = avro.schema_message(b"\0\0\0\0\x0c")
    (declared,) = json.loads(message or b"")["schema"]["fields"]
    assert declared["parameters"].get("connect.decimal.precision") == known


def test_a_schema_refers_to_others() -> None:
    customer = {
        "type": "record",
        "name": "Customer",
        "namespace": "shop",
        "fields": [{"name": "name", "type": "string"}],
    }
    block = avro_schema(ORDER)
    block["fields"][0]["type"][1]["fields"] = [{"name": "of", "type": "shop.Customer"}]
    know(VALUE_ID, block, customer)
    # `fastavro` wants it in one.
    whole = json.loads(json.dumps(block).replace('"shop.Customer"', json.dumps(customer), 1))
    (event,) = avro.decode(None, Writer(VALUE_ID, whole).write(payload_of({"of": {"name": "An"}})))
    assert event.after == b'{"of":{"name":"An"}}'


def test_each_message_is_read_by_its_own_schema() -> None:
    """A column added and one removed, and messages of both in one topic."""
    wider = envelope({"field": "id", "type": "int32"}, field("added", "string"))
    know(VALUE_ID, avro_schema(ORDER))
    know(9, avro_schema(wider))
    old = Writer(VALUE_ID, avro_schema(ORDER)).write(avro_value(ORDER, payload_of(AFTER)))
    new = Writer(9, avro_schema(wider)).write(payload_of({"id": 2, "added": "x"}))
    rows = [loads(avro.decode(None, each)[0].after) for each in (old, new, old)]
    assert [list(row) for row in rows] == [["id", "total", "note"], ["id", "added"], list(AFTER)]


# --- Keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "record_key", "event_key"),
    [
        (b"\0\0\0\0\x08\x02", b'{"id":1}', {"id": 1}),
        (b'{"id":1}', b'{"id":1}', {"id": 1}),
        (b"1001", None, 1001),
        (b"order-1", None, "b3JkZXItMQ=="),
        # A string in Avro.
        (b"\0\0\0\0\x0a\x02A", None, "A"),
        # Bytes that don't fit their schema, and too few for a frame.
        (b"\0\0\0\0\x08", None, "AAAAAAg="),
        (b"\0\0", None, "AAA="),
    ],
)
def test_keys(key: bytes, record_key: bytes | None, event_key: Any) -> None:
    know(KEY_ID, avro_schema(KEY_BLOCK))
    know(10, "string")
    (event,) = avro.decode(key, message(payload_of(AFTER)))
    assert (event.operation, event.record_key) == ("insert", record_key)
    assert loads(event.metadata)["event_key"] == event_key


def test_deletes_and_tombstones() -> None:
    know(KEY_ID, avro_schema(KEY_BLOCK))
    key = b"\0\0\0\0\x08\x02"
    (delete,) = avro.decode(key, message(payload_of(None, AFTER, "d")))
    assert (delete.operation, delete.after) == ("delete", None)
    for value in (None, b""):
        (tombstone,) = avro.decode(key, value)
        assert (tombstone.operation, tombstone.record_key) == ("tombstone", b'{"id":1}')


# --- What can be wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, b"\0\0\0\0\x63\x02"])
def test_an_id_that_nobody_knows(key: bytes | None) -> None:
    avro.know({99: None})
    value = message(payload_of(AFTER)) if key else b"\0\0\0\0\x63\0"
    (event,) = decode_payload("debezium_avro", key, value)
    assert event.error_code == "unknown_schema"
    assert "schema 99: the schema registry doesn't know it" in (event.error_detail or "")
    # Nor is it forgotten once it is there.
    know(99, avro_schema(KEY_BLOCK))
    (event,) = decode_payload("debezium_avro", key, value)
    assert event.error_code != "unknown_schema"


@pytest.mark.parametrize(
    ("registered", "sentence"),
    [
        (avro.Registered("PROTOBUF", ("syntax",)), "expected an Avro schema, got one of PROTOBUF"),
        (avro.Registered("AVRO", ('{"type": "record"}',)), "record without a name"),
        (avro.Registered("AVRO", ('"shop.Other"',)), "no type has the name 'shop.Other'"),
        (avro.Registered("AVRO", ("[" * 100_000,)), "no type has the name"),
        (avro.Registered("AVRO", ('{"type":"array","items":' * 300 + "1",)), "no type has"),
    ],
)
def test_a_schema_that_is_none(registered: avro.Registered, sentence: str) -> None:
    avro.know({11: registered})
    (event,) = decode_payload("debezium_avro", None, b"\0\0\0\0\x0b\0")
    assert event.error_code == "unknown_schema"
    assert sentence in (event.error_detail or "")


HUGE = "8080808080808080 20".replace(" ", "")


@pytest.mark.parametrize(
    ("schema", "data", "code", "sentence"),
    [
        ("bytes", HUGE, "truncated", "a length of 1152921504606846976"),
        ("string", "01", "bad_field", "expected a length, got -1"),
        ("string", "04fffe", "bad_field", "text that is not UTF-8"),
        ("long", "80" * 9 + "02", "bad_field", "at most 64 bits"),
        ("long", "80" * 30, "bad_field", "at most 64 bits"),
        ("int", "808080808040", "bad_field", "an int of 32 bits"),
        ("boolean", "07", "bad_field", "0 or 1, got 7"),
        (["null", "long"], "01", "bad_field", "branch from 0 to 1, got -1"),
        (["null", "long"], "0e", "bad_field", "branch from 0 to 1, got 7"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "01", "bad_field", "no symbol -1"),
        ({"type": "fixed", "name": "f", "size": 4}, "0102", "truncated", "end at 2"),
        ({"type": "array", "items": "long"}, HUGE + "02", "truncated", "only 1 bytes are left"),
        ({"type": "array", "items": "null"}, HUGE, "too_large", "more than"),
        ({"type": "array", "items": "int"}, "0306020400", "bad_field", "the end of a block"),
        ({"type": "array", "items": "int"}, "0301", "bad_field", "expected a length, got -1"),
        ({"type": "map", "values": "int"}, "040261020261 0400", "bad_field", "comes twice"),
        ("double", "0102", "truncated", "end at 2"),
    ],
)
def test_bytes_that_no_writer_writes(schema: Any, data: str, code: str, sentence: str) -> None:
    read = reader_of(parse_schemas([json.dumps(schema)]))
    text = bytes.fromhex(data)
    with pytest.raises(DecodeError) as raised:
        read(text, 0, Budget(len(text)))
    assert raised.value.code == code
    assert sentence in str(raised.value)
    assert str(raised.value).startswith("$")


def test_a_block_with_its_size_is_read() -> None:
    read = reader_of(parse_schemas(['{"type": "array", "items": "int"}']))
    assert read(bytes.fromhex("03 04 02 04 02 06 00"), 0, Budget(7)) == ([1, 2, 3], 7)


def test_an_error_names_the_field_and_the_byte() -> None:
    """As the tree of ``explain`` has them."""
    value = bytearray(BY_HAND)
    value[BY_HAND.index(b"h\xc3")] = 0xFF
    message(payload_of(AFTER))
    (event,) = decode_payload("debezium_avro", None, bytes(value))
    assert event.error_code == "bad_field"
    assert event.error_detail == "$.after.note: at byte 14: text that is not UTF-8"


LIST = {
    "type": "record",
    "name": "n",
    "fields": [{"name": "next", "type": ["null", "n"]}, {"name": "other", "type": ["null", "n"]}],
}


@pytest.mark.parametrize(
    ("schema", "data", "code"),
    [
        # Deeper than any stack; as wide as the bytes allow; and rows of nothing.
        (LIST, b"\x02" * 2_000_000, "too_deep"),
        (
            {"type": "array", "items": LIST},
            b"\x80\x89\x7a" + b"\0\0" * 1_000_000 + b"\0",
            "too_large",
        ),
        (
            {
                "type": "array",
                "items": {"type": "record", "name": "e", "fields": [{"name": "x", "type": "null"}]},
            },
            bytes.fromhex("80897a") + b"\0",
            "too_large",
        ),
    ],
)
def test_few_bytes_never_take_much_memory(schema: Any, data: bytes, code: str) -> None:
    read = reader_of(parse_schemas([json.dumps(schema)]))
    tracemalloc.start()
    with pytest.raises(DecodeError) as raised:
        read(data, 0, Budget(len(data)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert raised.value.code == code
    assert len(str(raised.value)) < 1000
    assert most < 40 * len(data) + 64 * 1024 * 1024


def test_damaged_payloads_are_events() -> None:
    """Bytes changed, dropped and added anywhere: an event, or an error that says where; and the
    same of many at a time.
    """
    good = [
        message(payload_of(AFTER)),
        message(payload_of(None, AFTER, "d")),
    ]
    dice = random.Random(11)
    found = set()
    values = []
    for _ in range(10_000):
        damaged = bytearray(dice.choice(good))
        for _ in range(dice.randrange(1, 4)):
            place = dice.randrange(5, len(damaged))
            way = dice.randrange(3)
            if way == 0:
                damaged[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            elif way == 1:
                del damaged[place:]
                damaged += dice.randbytes(dice.randrange(12)) or b"\0"
            else:
                damaged[place:place] = dice.randbytes(dice.randrange(1, 10))
        (event,) = decode_payload("debezium_avro", None, bytes(damaged))
        # Among messages that are alike.
        values += [bytes(damaged), *good]
        found.add(event.error_code)
        assert event.error_code != "decoder_failed", (damaged.hex(), event.error_detail)
    assert {None, "truncated", "bad_field", "trailing_bytes"} <= found
    know(KEY_ID, avro_schema(KEY_BLOCK))
    keys = [None, b"\0\0\0\0\x08\x02", b"plain", b"\0\0\0\0\x63", b'{"id":1}', b"\0\0"]
    pairs = [(dice.choice(keys), value) for value in [*values, None, b"", b"{}"]]
    for start in range(0, len(pairs), 300):
        some = pairs[start : start + 300]
        together = decode_batch("debezium_avro", *zip(*some, strict=True)).payloads()
        assert together == [decode_payload("debezium_avro", *each) for each in some]


def test_what_has_no_frame_is_told() -> None:
    for value, sentence in ((b'{"op":"c"}', "debezium_json"), (b"\x01abcdef", "got 0x01")):
        (event,) = decode_payload("debezium_avro", None, value)
        assert event.error_code == "bad_shape"
        assert sentence in (event.error_detail or "")


def test_a_schema_is_compiled_once() -> None:
    know(VALUE_ID, avro_schema(ORDER))
    schema = avro.schema_of(BY_HAND)
    know(VALUE_ID, avro_schema(ORDER))
    assert avro.schema_of(BY_HAND) is schema


def test_schemas_that_are_none_are_refused() -> None:
    many = [{"type": "fixed", "name": f"f{number}", "size": 1} for number in range(501)]
    for schema in (
        [],
        many,
        [["null", "int"]],
        {"type": "record", "name": "r", "fields": [{"name": "a"}]},
        {"type": "fixed"},
    ):
        with pytest.raises(BadSchema):
            parse_schemas([json.dumps(schema)])


# Rows without an envelope

ROW = {
    "type": "struct",
    "name": "shop.orders.Value",
    "fields": [
        {"field": "id", "type": "int32"},
        field("total", "bytes", CONNECT + "Decimal", parameters={"scale": "2"}),
        field("born", "int32", TIME + "Date"),
        field("payload", "string"),
        *(field(name, "string") for name in ("__deleted", "__op", "__table")),
        field("__source_ts_ms", "int64"),
    ],
}
UNWRAPPED: dict[str, Any] = {"id": 1, "total": AFTER["total"], "born": 20210, "payload": "x"} | {
    "__deleted": "false",
    "__op": "u",
    "__table": "orders",
    "__source_ts_ms": 10**12,
}


def unwrapped(row: Any, block: Any = ROW) -> tuple[bytes, bytes]:
    """A row in JSON with its schema, and in Avro."""
    know(VALUE_ID, avro_schema(block))
    value = Writer(VALUE_ID, avro_schema(block)).write(avro_value(block, row))
    return dumps({"schema": block, "payload": row}), value


@pytest.mark.parametrize("headers", [None, [("__db", b"shop"), ("__op", b"c")]])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"__deleted": "true", "__op": "d"},
        {"__deleted": None, "__op": None, "__table": None, "__source_ts_ms": None},
        {"__op": "x"},
    ],
)
def test_an_unwrapped_row_is_what_it_is_in_json(more: dict[str, Any], headers: Any) -> None:
    know(KEY_ID, avro_schema(KEY_BLOCK))
    key = dumps({"schema": KEY_BLOCK, "payload": {"id": 1}})
    avro_key = Writer(KEY_ID, avro_schema(KEY_BLOCK)).write({"id": 1})
    as_json, as_avro = unwrapped(UNWRAPPED | more)
    for value, other in ((as_json, as_avro), (None, None), (b"", b"")):
        (expected,) = decode_payload("debezium_unwrapped_json", key, value, headers)
        (event,) = decode_payload("debezium_unwrapped_avro", avro_key, other, headers)
        if expected.error_detail:
            assert "$.payload.__op" in expected.error_detail
            detail = expected.error_detail.replace("$.payload", "$")
            expected = expected._replace(error_detail=detail)
        assert event == expected
    both = decode_batch("debezium_unwrapped_avro", [avro_key] * 20, [as_avro] * 20, [headers] * 20)
    assert (
        both.payloads()
        == [decode_payload("debezium_unwrapped_avro", avro_key, as_avro, headers)] * 20
    )
    way = FastPath(unwrapped_avro.decode, unwrapped_avro.AvroRows(), Learning(lambda: 0.0))
    decoded = way.decode_batch([avro_key] * 20, [as_avro] * 20)
    assert decoded.payloads() == [unwrapped_avro.decode(avro_key, as_avro)] * 20
    is_plain = more.get("__op") in (None, "d") and more.get("__deleted", "false") is not None
    assert len(decoded.events) == (0 if is_plain else 20)


def test_each_says_the_name_of_the_other() -> None:
    (event,) = decode_payload("debezium_avro", None, unwrapped(UNWRAPPED)[1])
    assert (event.error_detail or "").endswith("its format is debezium_unwrapped_avro")
    assert event.error_code == "bad_shape"
    for format, value, told in (
        ("debezium_unwrapped_avro", message(payload_of(AFTER)), "debezium_avro"),
        ("debezium_unwrapped_avro", b'{"id":1}', "debezium_unwrapped_json"),
        ("debezium_unwrapped_json", unwrapped(UNWRAPPED)[1], "debezium_unwrapped_avro"),
        ("debezium_json", message(payload_of(AFTER)), "debezium_avro"),
    ):
        (event,) = decode_payload(format, None, value)
        assert event.operation == "invalid" and (event.error_detail or "").endswith(told)


def test_a_null_value_in_avro_deletes_the_row_of_its_key() -> None:
    know(KEY_ID, avro_schema({"type": "int32"}))
    (event,) = decode_payload("debezium_unwrapped_avro", bytes.fromhex("0000000008 02"), None)
    assert (event.operation, event.error_code) == ("invalid", "bad_field")
    (event,) = decode_payload("debezium_unwrapped_avro", bytes.fromhex("00000000ff 02"), None)
    assert event.error_code == "unknown_schema"
    assert decode_payload("debezium_unwrapped_avro", None, None)[0].operation == "tombstone"


def test_commands_take_rows_in_avro_as_those_in_json() -> None:
    as_json, as_avro = unwrapped(UNWRAPPED)
    profiles = []
    for format, value in (
        ("debezium_unwrapped_json", as_json),
        ("debezium_unwrapped_avro", as_avro),
    ):
        profile = TopicProfile()
        profile.add(format, None, value, Position(0, "rows", 0, 0), [("__db", b"shop")])
        profile.settle()
        ((table_id, table),) = profile.tables.items()
        assert (table_id.database, table_id.table) == ("shop", "orders")
        profiles.append(repr(table.columns))
    assert profiles[0] == profiles[1]
    told = explain(None, as_avro, Limits())
    assert told.format == "debezium_unwrapped_avro"
    assert told.value is not None and told.value.tree.root is not None
    parts = told.value.tree.root.children[-1].children
    assert [part.became for part in parts[1:4]] == [
        ["after.total = 99.50"],
        ['after.born = "2025-05-02"'],
        ['after.payload = "x"'],
    ]
    assert parts[-1].became == ["occurred_at = 2001-09-09T01:46:40Z"]
