"""The fast path for changes with schema blocks gives what ``decode`` gives, message by message."""

import random
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from support.alone import each_alone
from support.debezium_messages import still_fast_path

from python_udfs.core import fast_path
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium.json import decode, decode_batch

MANY = 16
Value = dict[str, Any]
Messages = list[bytes | None]

to_json = msgspec.json.encode


@pytest.fixture(autouse=True)
def no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins without a layout, and takes the fast path whether it pays or not."""
    monkeypatch.setattr(fast_path, "_FEWEST", 1)
    monkeypatch.setattr(debezium_json, "_FAST_PATH", still_fast_path())


def declared(kind: str, name: str | None = None, **more: Any) -> Value:
    """A column's part of the schema block."""
    logical = {"name": name, "version": 1} if name else {}
    return {"type": kind, "optional": True, **logical, **more}


def debezium_time(name: str, kind: str = "int64") -> Value:
    return declared(kind, f"io.debezium.time.{name}")


_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_STRUCT: Final = declared("struct", fields=[declared("int32", field="x")])
DECLARED: dict[str, Value] = {
    "int8": declared("int8"),
    "int16": declared("int16"),
    "int32": declared("int32"),
    "int64": declared("int64"),
    "float": declared("float"),
    "double": declared("double"),
    "boolean": declared("boolean"),
    "string": declared("string"),
    "enum": declared("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}),
    "bytes": declared("bytes"),
    "bits": declared("bytes", "io.debezium.data.Bits", parameters={"length": "9"}),
    "decimal": declared("bytes", _DECIMAL, parameters={"scale": "2"}),
    "decimal without scale": declared("bytes", _DECIMAL),
    "any scale": declared(
        "struct",
        "io.debezium.data.VariableScaleDecimal",
        fields=[declared("int32", field="scale"), declared("bytes", field="value")],
    ),
    "date": debezium_time("Date", "int32"),
    "time": debezium_time("MicroTime"),
    "milliseconds": debezium_time("Timestamp"),
    "microseconds": debezium_time("MicroTimestamp"),
    "nanoseconds": debezium_time("NanoTimestamp"),
    "instant": debezium_time("ZonedTimestamp", "string"),
    "local": debezium_time("IsoTimestamp", "string"),
    "duration": debezium_time("MicroDuration"),
    "year": debezium_time("Year", "int32"),
    "connect date": declared("int32", "org.apache.kafka.connect.data.Date"),
    "connect time": declared("int32", "org.apache.kafka.connect.data.Time"),
    "connect timestamp": declared("int64", "org.apache.kafka.connect.data.Timestamp"),
    "integers": declared("array", items=declared("int32")),
    "strings": declared("array", items=declared("string")),
    "dates": declared("array", items=debezium_time("Date", "int32")),
    "instants": declared("array", items=debezium_time("ZonedTimestamp", "string")),
    "map": declared("map", keys=declared("string"), values=declared("int32")),
    "strings map": declared("map", keys=declared("string"), values=declared("string")),
    "struct": _STRUCT,
    "struct of a struct": declared("struct", fields=[_STRUCT | {"field": "s"}]),
    "unknown": declared("decimal128"),
    "unsigned": declared("int64", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"}),
    "large scale": declared("bytes", _DECIMAL, parameters={"scale": "16000"}),
    "dates map": declared("map", keys=debezium_time("Date", "int32"), values=declared("int32")),
    "instants map": declared(
        "map", keys=debezium_time("ZonedTimestamp", "string"), values=declared("string")
    ),
    "zoned time": debezium_time("ZonedTime", "string"),
    "interval": debezium_time("Interval", "string"),
}
"""Columns by their declared type."""

PLAIN: dict[str, list[Any]] = {
    "int8": [0, -128, 127],
    "int16": [-32768, 32767],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "float": [Raw("1.50"), Raw("1.0E10"), 3, Raw("-0.0"), "NaN"],
    "double": [Raw("1e300"), Raw("-0.5"), "2.50", Raw("123456789.12345678901234567890")],
    "boolean": [True, False],
    "string": ["", "Zoë", 'say "hi":{', "a\u2028b", "{[\x7f"],
    "enum": ["a", "b"],
    "bytes": ["AQID", ""],
    "bits": ["AQE="],
    "decimal": ["AJY=", "/w==", 15, Raw("1.50"), "1.5", "NaN", "Infinity"],
    "any scale": [
        *({"scale": 2, "value": "AJY="}, {"value": "/w==", "scale": 0}, 7, Raw("7.0")),
        {"scale": 1, "value": "Infinity"},
    ],
    "date": [0, -719_529, 20_000, 2**31 - 1, "2026-11-21"],
    "time": [0, 86_399_999_999, -1, "10:00:00"],
    "milliseconds": [0, 1_763_719_200_123, 9223372036825200],
    "microseconds": [-1, 1_763_719_200_123_456, 9223372036825200000],
    "nanoseconds": [1_763_719_200_123_456_789],
    "instant": ["2026-11-21T10:00:00.5Z", "infinity"],
    "local": ["2026-11-21T10:00:00Z"],
    "duration": [93_784_000_005, "P1D", Raw("1500000.0"), Raw("9.3784000005E10")],
    "year": [2026, 0],
    "connect date": [20_000],
    "connect time": [36_000_123],
    "connect timestamp": [1_763_719_200_123, "2026-11-21T10:00:00.123Z"],
    "integers": [[], [1, 2], [None, -3]],
    "strings": [[], ["a, b", None]],
    "dates": [[0, 20_000], []],
    "instants": [["2026-11-21T10:00:00.5Z"]],
    "map": [{}, {"a": 1, "b": None}],
    "struct": [{"x": 1}, {}, {"x": None, "y": "undeclared"}],
    "unknown": [1, "a", Raw("1.50"), True, [1]],
    "unsigned": [0, -1, 2**63 - 1, -(2**63), "7"],
    "dates map": [{}, [], [[0, 1], [20_000, None]], {"0": 1, "20000": 2}],
    "instants map": [{"2026-11-21T10:00:00Z": "a"}],
    "zoned time": ["10:00:00Z"],
    "interval": ["P1Y2M3DT4H5M0.6S"],
}
"""Values that are plain where they are declared so."""

ODD: list[Any] = [
    *(0, -1, 128, 2**31, 2**63, -(2**63) - 1, 2**64, 10**40, True, None),
    *("", "x", "1", "-0", "TRUE", "+1", "1.50", "tab\t", "back\\", "\u0001"),
    *("2026-11-21T10:00:00+01:00", ["2026-11-21T10:00:00+01:00"], "2026-11-21"),
    *map(
        Raw,
        ("-0", "-0.0", "1.0", "1.50", "1e5", "1E+2", "-0e1", "9e999", "1e2", "15e-1", "9" * 5000),
    ),
    *([], [1, 2], ["1"], [Raw("-0")], [95], [[]], [{"x": 1}], {}, {"x": 1}, {"x": "y"}),
    *({"0": 1, "00": 2}, {"2026-11-21T10:00:00+01:00": "a"}, [["x", 1]], [[1]], "AQ==", "AQ"),
    *("2026-13-45T99:99:99Z", "2026-11-21T10:00:00+25:99", "2026-02-29", "24:00:00Z", "P"),
    *({"b": 1, "a": "2"}, {"s": {"x": 1}}, {"s": {"x": Raw("-0")}}, {"scale": 1}),
    *({"scale": "1", "value": "AQ=="}, {"scale": 2, "value": {"a": 1}}, {"scale": 1, "value": "?"}),
    "__debezium_unavailable_value",
    b"__debezium_unavailable_value".hex(),
    {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    list(b"__debezium_unavailable_value"),
    Raw('{"x":1,"x":2}'),
    Raw('{"scale":1,"scale":2,"value":"AQ=="}'),
    Raw("[1, 2]"),
    Raw('["a" ]'),
    Raw(' {"x":1}'),
    Raw('{"x": 1}'),
    Raw(b'"\xff"'),
    Raw(b'"\xed\xa0\x80"'),
    Raw('"\\u0041"'),
    Raw('"\\ud800"'),
    Raw('"\x01"'),
    Raw("nul"),
    Raw("01"),
    Raw("NaN"),
    Raw("[" * 251 + "]" * 251),
    Raw("[" * 252 + "]" * 252),
    Raw("[" * 253 + "]" * 253),
    Raw("[" * 254 + "]" * 254),
    Raw('{"x":' + "[" * 252 + "]" * 252 + "}"),
    Raw('{"x":' * 300 + "1" + "}" * 300),
    Raw('{"x":' * 3000 + "1" + "}" * 3000),
]
"""Values that are something else in most columns."""


def block(columns: Value, *, name: str = "shop.sales.orders", **parts: Any) -> bytes:
    """The schema block of changes whose images have those columns; other parts where given."""
    row = declared("struct", fields=fields({"id": declared("int64"), **columns}))
    envelope = {"before": row, "after": row, "op": declared("string"), **parts}
    return to_json(declared("struct", f"{name}.Envelope", fields=fields(envelope)))


def fields(columns: Value) -> list[Value]:
    return [{**column, "field": name} for name, column in columns.items() if column]


def wrapped(schema: bytes, payload: Any) -> bytes:
    return b'{"schema":%b,"payload":%b}' % (schema, to_json(payload))


KEY_BLOCK: Final = to_json(declared("struct", "Key", fields=fields({"id": declared("int64")})))


def key(id: int) -> bytes:
    return wrapped(KEY_BLOCK, {"id": id})


def change(id: int, columns: Value | None = None, **parts: Any) -> Value:
    """An insert, with other parts of the envelope where given."""
    return {
        "before": None,
        "after": {"id": id, **(columns or {})},
        "source": {
            "version": "2.5.4.Final",
            "connector": "postgresql",
            "ts_ms": 1_700_000_000_000 + id,
            "snapshot": "false",
            "db": "shop",
            "sequence": f'["{id}","{id + 1}"]',
            "schema": "sales",
            "table": "orders",
            "lsn": id,
        },
        "op": "c",
        "ts_ms": 1_700_000_000_500 + id,
        "transaction": None,
        **parts,
    }


def check(keys: Messages, values: Messages) -> None:
    """Twice, since the first time teaches the layout."""
    expected = each_alone(decode, keys, values)
    assert decode_batch(keys, values).payloads() == expected
    assert decode_batch(keys, values).payloads() == expected


def check_plain(keys: Messages, values: Messages) -> None:
    """As ``check``; and that in the end no message took the careful path."""
    check(keys, values)
    decoded = decode_batch(keys, values)
    assert not decoded.events
    assert decoded.payloads() == each_alone(decode, keys, values)


def some(kind: str) -> list[Any]:
    """Plain values of the kind, and null."""
    return [*PLAIN[kind], None]


# --- Values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAIN)
def test_values_that_are_plain(kind: str) -> None:
    schema = block({"c": DECLARED[kind]})
    for value in some(kind):
        values: Messages = [wrapped(schema, change(id, {"c": value})) for id in range(3)]
        check_plain([key(id) for id in range(3)], values)


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_values_in_all_images(kind: str) -> None:
    schema = block({"c": DECLARED[kind], "d": declared("int32")})
    plain = some(kind)
    values: Messages = []
    for id in range(MANY):
        image = {"id": id, "c": plain[id % len(plain)], "d": 1, "not declared": "x"}
        other = {"id": id, "c": plain[-1 - id % len(plain)], "d": None, "not declared": 1}
        parts: list[Value] = [
            {"op": "u", "before": image},
            {"op": "d", "before": image, "after": None},
            {},
        ]
        values.append(wrapped(schema, change(id, other) | parts[id % 3]))
    check_plain([key(id) for id in range(MANY)], values)


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_values_in_keys(kind: str) -> None:
    key_columns = {"b": DECLARED[kind], "a": declared("int32")}
    key_block = to_json(declared("struct", "Key", fields=fields(key_columns)))
    plain = some(kind)
    keys: Messages = [
        wrapped(key_block, {"b": plain[id % len(plain)], "a": id}) for id in range(MANY)
    ]
    schema = block({})
    check(keys, [wrapped(schema, change(id)) for id in range(MANY)])


def test_keys_that_are_plain() -> None:
    kinds = ["int64", "double", "boolean", "bytes", "decimal", "any scale", "date", "instant"]
    key_columns = {kind: DECLARED[kind] for kind in kinds}
    key_block = to_json(declared("struct", "Key", fields=fields(key_columns)))
    keys: Messages = [
        wrapped(key_block, {kind: some(kind)[id % len(some(kind))] for kind in kinds})
        for id in range(MANY)
    ]
    check_plain(keys, [wrapped(block({}), change(id)) for id in range(MANY)])


@pytest.mark.parametrize("kind", ["string", "integers", "struct", "struct of a struct", "unknown"])
@pytest.mark.parametrize("around", ["%s", '{"x":%s}', '{"s":{"x":%s}}'])
def test_deepest_arrays(kind: str, around: str) -> None:
    schema = block({"c": DECLARED[kind]})
    for depth in range(248, 256):
        arrays = Raw(around % ("[" * depth + "]" * depth))
        # Without a bracket in a text of the source.
        payload = change(1, {"c": arrays}, source={"db": "shop", "table": "orders"})
        check([key(1)], [wrapped(schema, payload)])


def test_images_that_are_declared_differently() -> None:
    before = declared("struct", fields=fields({"c": DECLARED["date"]}))
    after = declared("struct", fields=fields({"c": DECLARED["decimal"]}))
    schema = block({}, before=before, after=after)
    values: Messages = [
        wrapped(schema, change(id, {"c": 100}, op="u", before={"c": id})) for id in range(MANY)
    ]
    check_plain([None] * MANY, values)


def in_any_order(id: int, columns: Value) -> Value:
    """The columns with others, in an order of their own."""
    named = [*columns.items(), *((name, id) for name in "xyz")]
    random.Random(id).shuffle(named)
    return dict(named)


@pytest.mark.parametrize("kind", DECLARED)
def test_columns_in_any_order(kind: str) -> None:
    """Plain ones take the fast path, odd ones beside them the careful path."""
    schema = block({"c": DECLARED[kind], **dict.fromkeys("xyz", declared("int32"))})
    plain = some(kind) if kind in PLAIN else [None]
    values: Messages = []
    for id in range(MANY):
        image = in_any_order(id, {"c": plain[id % len(plain)]})
        other = in_any_order(-id, {"c": plain[-1 - id % len(plain)]})
        parts: list[Value] = [
            {"op": "u", "before": image},
            {"op": "d", "before": image, "after": None},
            {},
        ]
        values.append(wrapped(schema, change(id, other) | parts[id % 3]))
    keys: Messages = [key(id) for id in range(MANY)]
    check_plain(keys, values)
    assert len(decode_batch(keys, values).columns) == 1
    for id, odd in enumerate(ODD, MANY):
        values.append(wrapped(schema, change(id, in_any_order(id, {"c": odd}))))
        values.append(wrapped(schema, change(id, op="u", before=in_any_order(id, {"c": odd}))))
    values.append(wrapped(schema, change(99, in_any_order(99, {"not declared": 1}))))
    check([key(id) for id in range(len(values))], values)


@pytest.mark.parametrize("kind", DECLARED)
def test_one_odd_value_among_many(kind: str) -> None:
    schema = block({"c": DECLARED[kind]})
    key_block = to_json(declared("struct", "Key", fields=fields({"c": DECLARED[kind]})))
    plain = some(kind) if kind in PLAIN else [None, "x"]
    for odd in ODD:
        columns = [{"c": plain[id % len(plain)]} for id in range(6)]
        columns[4] = {"c": odd}
        check(
            [wrapped(key_block, each) for each in columns],
            [wrapped(schema, change(id)) for id in range(6)],
        )
        values: Messages = [wrapped(schema, change(id, each)) for id, each in enumerate(columns)]
        check([key(id) for id in range(6)], values)


def test_conversion_is_needed_in_both_ways() -> None:
    schema = block({"at": DECLARED["microseconds"], "price": DECLARED["decimal"]})
    columns = {"at": 1_763_719_200_123_456, "price": "AJY="}
    values: Messages = [wrapped(schema, change(id, columns)) for id in range(3)]
    check_plain([key(id) for id in range(3)], values)
    (event,) = decode_batch([key(1)], [values[1]]).payloads()[0]
    assert event.after == b'{"id":1,"at":"2025-11-21T10:00:00.123456","price":1.50}'
    assert event.metadata is not None
    assert event.metadata.endswith(b',"schema_name":"shop.sales.orders.Envelope"}')


# --- Blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        block({}),
        block({}, before=None),
        block({}, before=None, after=None),
        block({}, after=declared("int32")),
        block({}, after=declared("string")),
        block({}, after=declared("array", items=declared("int32"))),
        block({}, after=declared("map", keys=declared("string"), values=declared("int32"))),
        block({}, after=declared("map", keys=declared("string"), values=declared("string"))),
        block({}, after=DECLARED["any scale"]),
        block({}, after=declared("struct")),
        block({"id": declared("string")}),
        block({"payload": declared("int32")}),
        block({"a": declared("string", doc='{"schema":1,"payload":{')}),
        block({"a": declared("string", parameters={"a": "x", "payload": "{}"})}),
        block({"a": declared("string", doc="__debezium_unavailable_value")}),
        block({"a": declared("string", doc='a "name": back\\" \\\\":')}),
        to_json(declared("int32")),
        b"null",
        b"{}",
        b"[]",
        b"1",
        b'"text"',
        b'{"type":"struct"}',
        b'{"type":1}',
        b'{"type":"struct","type":"struct"}',
        b'{"type":"struct","fields":[{"type":"int32"}]}',
        b' {"type" : "struct"}\n',
        b'\xef\xbb\xbf{"type":"struct"}',
        b'{"type":"struct","doc":"\xff"}',
        b'{"type":"struct","doc":"\\ud800"}',
        b'{"type":"struct","doc":[%b]}' % (b"[" * 252 + b"]" * 252),
        b'{"type":"struct","doc":[%b]}' % (b"[" * 253 + b"]" * 253),
        b'{"type":"struct","doc":[%b]}' % (b"[" * 254 + b"]" * 254),
        b'{"type":"struct","doc":[%b]}' % (b"[" * 255 + b"]" * 255),
        b'{"type":"struct","doc":["\\\\":%b]}' % (b"[" * 253 + b"]" * 253),
        b'{"type":"struct"',
        b'{"type":"struct"}}',
        b'{"type":"struct"},"x":1',
        b'{"type":"struct"},"schema":{}',
        b'{"type":"struct"},"payload":{}',
        b'{"type":"struct"},"payload":1,"payload":2',
        b"",
    ],
)
def test_blocks(schema: bytes) -> None:
    columns = {"a": 'a ": name', "payload": None}
    values: Messages = [wrapped(schema, change(id, columns)) for id in range(MANY)]
    check([key(id) for id in range(MANY)], values)
    check([None] * MANY, values)
    # The same block in the keys.
    values = [wrapped(block({}), change(id)) for id in range(MANY)]
    check([wrapped(schema, {"id": id, "a": 'a ": name'}) for id in range(MANY)], values)


@pytest.mark.parametrize("name", ["null", "{}", "struct"])
def test_blocks_that_say_nothing_are_plain(name: str) -> None:
    schema = b'{"type":"struct"}' if name == "struct" else name.encode()
    values: Messages = [wrapped(schema, change(id)) for id in range(MANY)]
    check_plain([wrapped(schema, {"id": id}) for id in range(MANY)], values)


def test_deepest_block_whose_messages_are_unusual() -> None:
    """As deep as a block may be on its own, which is too deep in a message."""
    schema = b'{"doc":"\\\\\\"","deep":%b}' % (b"[" * 255 + b"]" * 255)
    values: Messages = [
        wrapped(schema, change(id, {"c": '":' if id == 5 else "x"})) for id in range(MANY)
    ]
    check([None] * MANY, values)


def test_two_schemas_interleaved() -> None:
    blocks = [block({"c": DECLARED["int32"]}), block({"c": DECLARED["microseconds"]})]
    others = [block({"c": DECLARED["date"]}, name="shop.sales.lines"), b"null"]
    for schemas in (blocks, [*blocks, *others]):
        values: Messages = [
            wrapped(schemas[id % len(schemas)], change(id, {"c": id})) for id in range(40)
        ]
        check_plain([key(id) for id in range(40)], values)


def test_a_schema_that_changes_in_mid_batch() -> None:
    old, new = block({"c": DECLARED["int32"]}), block({"c": DECLARED["decimal"], "d": _STRUCT})
    old_key, new_key = KEY_BLOCK, KEY_BLOCK.replace(b'"int64"', b'"string"')
    keys: Messages = []
    values: Messages = []
    for id in range(40):
        values.append(
            wrapped(old, change(id, {"c": id}))
            if id < 17
            else wrapped(new, change(id, {"c": "AJY=", "d": {"x": id}}))
        )
        keys.append(wrapped(old_key, {"id": id}) if id < 29 else wrapped(new_key, {"id": str(id)}))
    check_plain(keys, values)


def test_with_and_without_a_block() -> None:
    schema = block({"c": DECLARED["date"]})
    values: Messages = []
    keys: Messages = []
    for id in range(60):
        payload = change(id, {"c": id})
        values.append(wrapped(schema, payload) if id % 2 else to_json(payload))
        keys.append(key(id) if id % 3 else to_json({"id": id}))
    check_plain(keys, values)


def test_messages_that_are_no_changes_of_rows() -> None:
    schema = block({"c": DECLARED["date"]})
    values: Messages = []
    for id in range(60):
        payload = change(id, {"c": id})
        others: Messages = [
            wrapped(schema, payload),
            None,
            wrapped(schema, payload | {"op": "d", "before": {"id": id, "c": 3}, "after": None}),
            wrapped(schema, payload | {"op": "t", "after": None}),
            wrapped(schema, payload | {"op": "d", "after": None}),
            wrapped(schema, payload | {"transaction": {"id": "1", "total_order": 1}}),
            wrapped(schema, None),
            wrapped(schema, payload | {"op": "m", "after": None}),
            wrapped(schema, payload | {"op": "u", "after": None}),
            wrapped(b"null", None),
        ]
        values.append(others[id % len(others)])
    check([key(id) for id in range(60)], values)
    check([None] * 60, values)


def test_keys_of_all_kinds() -> None:
    schema = block({})
    keys: Messages = []
    for id in range(80):
        kinds: Messages = [
            key(id),
            None,
            b"",
            to_json({"id": id}),
            b'"default"',
            wrapped(KEY_BLOCK, None),
            wrapped(KEY_BLOCK, {}),
            wrapped(KEY_BLOCK, id),
            wrapped(KEY_BLOCK, {"id": str(id)}),
            wrapped(KEY_BLOCK, {"id": "x"}),
            wrapped(KEY_BLOCK, {"other": {"b": 1, "a": id}}),
            key(id) + b" ",
            key(id)[:-1],
            key(id)[:-1] + b',"x":1}',
        ]
        keys.append(kinds[id % len(kinds)])
    check(keys, [wrapped(schema, change(id)) for id in range(80)])


def test_objects_in_keys_have_their_names_in_order() -> None:
    key_block = to_json(declared("struct", fields=fields({"k": _STRUCT})))
    keys: Messages = [wrapped(key_block, {"k": {"x": id, "a": 1}}) for id in range(MANY)]
    check(keys, [wrapped(block({}), change(id)) for id in range(MANY)])


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = block({})
    values: Messages = [wrapped(schema, change(id)) for id in range(3)]
    check([None] * 3, values)
    value = values[1]
    assert value is not None
    for size in (len(value) - 1, len(value)):
        for name in ("envelope.MAX_PAYLOAD_BYTES", "fast_envelopes._MAX_BYTES"):
            monkeypatch.setattr(f"python_udfs.debezium.{name}", size)
        for each in values:
            check([None], [each])


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "_MAX_TABLES", 4)
    monkeypatch.setattr(debezium_json, "_FAST_PATH", still_fast_path())
    values: Messages = [wrapped(block({}, name=f"n{id}"), change(id)) for id in range(30)]
    check([key(id) for id in range(30)], values)
    assert len(debezium_json._FAST_PATH.tables) <= 4


def test_a_huge_block_goes_the_careful_way(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = block({})
    values: Messages = [wrapped(schema, change(id)) for id in range(MANY)]
    monkeypatch.setattr("python_udfs.debezium.types._MAX_PREFIX", len(schema))
    check([key(id) for id in range(MANY)], values)
    assert not decode_batch([key(id) for id in range(MANY)], values).columns


# --- Damage ---------------------------------------------------------------------------------------

_COLUMNS: Final = {
    "text": DECLARED["string"],
    "at": DECLARED["microseconds"],
    "price": DECLARED["decimal"],
    "rate": DECLARED["double"],
    "flag": DECLARED["boolean"],
    "tags": DECLARED["integers"],
    "number": DECLARED["any scale"],
}
_BLOCK: Final = block(_COLUMNS)


def sound(id: int) -> bytes:
    columns = {
        "text": f"Zoë {id}",
        "at": 1_763_719_200_123_456 + id,
        "price": "AJY=",
        "rate": Raw("1.50"),
        "flag": True,
        "tags": [1, id],
        "number": {"scale": 1, "value": "AQ=="},
    }
    return wrapped(_BLOCK, change(id, columns))


def test_sound_messages_are_plain() -> None:
    check_plain([key(id) for id in range(MANY)], [sound(id) for id in range(MANY)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"schema":', b'{ "schema":'),
        (b'{"schema":', b'{"schema" :'),
        (b'{"schema":', b'{"schema":1,"schema":'),
        (b'{"schema":', b'{"Schema":'),
        (b'{"schema":', b'{"payload":1,"schema":'),
        (b'{"schema":', b'\xef\xbb\xbf{"schema":'),
        (b'{"schema":', b' {"schema":'),
        (b'"fields":[', b'"fields":[ '),
        (b'"fields":[', b'"fields":[1,'),
        (b'"int64"', b'"string"'),
        (b'"int64"', b'"in\\u007464"'),
        (b'"scale":"2"', b'"scale":"3"'),
        (b'Envelope"', b'Envelope","name":"x"'),
        (b'Envelope"', b'Envelope\xff"'),
        (b',"payload":', b',"payload" :'),
        (b',"payload":', b', "payload":'),
        (b',"payload":', b',"payload": '),
        (b',"payload":', b',"payload":null,"payload":'),
        (b',"payload":', b',"schema":null,"payload":'),
        (b',"payload":', b',"x":1,"payload":'),
        (b',"payload":', b',"payload":['),
        (b',"payload":', b',"payload":"'),
        (b',"payload":', b""),
        (b'"transaction":null}}', b'"transaction":null}'),
        (b'"transaction":null}}', b'"transaction":null'),
        (b'"transaction":null}}', b'"transaction":null} }'),
        (b'"transaction":null}}', b'"transaction":null}}}'),
        (b'"transaction":null}}', b'"transaction":null}} '),
        (b'"transaction":null}}', b'"transaction":null}}\n'),
        (b'"transaction":null}}', b'"transaction":null},"x":1}'),
        (b'"transaction":null}}', b'"transaction":null},"x":{}}'),
        (b'"transaction":null}}', b'"transaction":null},"payload":{}}'),
        (b'"transaction":null}}', b'"transaction":null},"schema":{}}'),
        (b'"transaction":null}}', b'"transaction":null}]'),
        (b'"transaction":null}}', b'"transaction":null}}{"a":{}}'),
        (b'"transaction":null}}', b'"transaction":null}\n{"a":1}}'),
        (b'"transaction":null}}', b'"transaction":null,"connector":1}}'),
        (b'"transaction":null}}', b'"transaction":null,"schema_name":1}}'),
        (b'"transaction":null}}', b'"transaction":{}}}'),
        (b'"id":11,', b'"id":11,"id":11,'),
        (b'"id":11,', b'"id":"11",'),
        (b'"id":11,', b'"id": 11,'),
        (b'"id":11,', b'"id":11.0,'),
        (b'"id":11,', b'"id":-0,'),
        (b'"id":11,', b""),
        (b'"scale":1,', b'"scale":1,"scale":1,'),
        (b'"scale":1,', b'"scale":1,"x":{},'),
        (b"[1,11]", b"[1, 11]"),
        (b"[1,11]", b"[1,-0]"),
        (b"[1,11]", b'[1,"11"]'),
        (b"[1,11]", b'[1,"eleven"]'),
        (b'"op":"c"', b'"op":"x"'),
        (b'"op":"c"', b'"op":"\\u0063"'),
    ],
)
def test_one_other_message_among_many(old: bytes, new: bytes) -> None:
    values: Messages = [sound(id) for id in range(MANY)]
    keys: Messages = [key(id) for id in range(MANY)]
    changed = sound(11).replace(old, new)
    assert changed != values[11]
    values[11] = changed
    check(keys, values)
    if old in key(11):
        keys[11] = key(11).replace(old, new)
        check(keys, values)
    # It may be the one that teaches the layout.
    check(keys[11:], values[11:])


def pieces(text: bytes) -> st.SearchStrategy[int]:
    """Places in a message, those around its payload's ends more often."""
    start = text.find(b',"payload":')
    return (
        st.integers(0, len(text))
        | st.integers(start - 4, start + 16)
        | st.integers(start, len(text))
        | st.integers(len(text) - 4, len(text))
        | st.integers(0, 12)
    )


_PIECES: Final = st.sampled_from(
    [
        *(b"", b" ", b"\n", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\xff", b"\x00"),
        *(b"0", b"1", b"-", b".5", b"e1", b"null"),
        *(b'"x":1,', b'"id":1,', b',"payload":{}', b'{"schema":'),
    ]
)


@st.composite
def damaged(draw: st.DrawFn, text: bytes) -> bytes:
    """The message with some bytes other than they were, more of them or fewer."""
    for _ in range(draw(st.integers(1, 2))):
        place = draw(pieces(text))
        text = text[:place] + draw(_PIECES) + text[place + draw(st.integers(0, 3)) :]
    return text[: draw(pieces(text))] if draw(st.booleans()) and draw(st.booleans()) else text


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_messages(data: st.DataObject) -> None:
    keys: Messages = [key(id) for id in range(6)]
    values: Messages = [sound(id) for id in range(6)]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, 5))
        if data.draw(st.booleans()):
            values[place] = data.draw(damaged(sound(place)))
        else:
            keys[place] = data.draw(damaged(key(place)))
    check(keys, values)


# --- All together ---------------------------------------------------------------------------------


@st.composite
def images(draw: st.DrawFn, kinds: list[str]) -> Value | None:
    """An image of columns of those kinds: values as declared, or anything."""
    if draw(st.sampled_from((False,) * 5 + (True,))):
        return draw(st.sampled_from([None, {}]))
    columns: Value = {"id": draw(st.integers(-3, 3))}
    for place, kind in enumerate(kinds):
        odd = draw(st.sampled_from((False,) * 15 + (True,)))
        known = PLAIN.get(kind, [None])
        columns[f"c{place}"] = draw(st.sampled_from(ODD if odd else [*known, None]))
    if draw(st.sampled_from((False,) * 9 + (True,))):
        del columns[draw(st.sampled_from(sorted(columns)))]
    return columns


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_changes(data: st.DataObject) -> None:
    tables: list[tuple[list[str], bytes]] = []
    for _ in range(data.draw(st.integers(1, 2))):
        kinds = data.draw(st.lists(st.sampled_from(sorted(DECLARED)), max_size=4))
        columns = {f"c{place}": DECLARED[kind] for place, kind in enumerate(kinds)}
        tables.append((kinds, block(columns)))
    keys: Messages = []
    values: Messages = []
    for id in range(data.draw(st.integers(1, 12))):
        kinds, schema = data.draw(st.sampled_from(tables))
        payload = change(
            id,
            op=data.draw(st.sampled_from("crudddutx")),
            before=data.draw(images(kinds)),
            after=data.draw(images(kinds)),
        )
        values.append(wrapped(schema, payload))
        keys.append(data.draw(st.sampled_from([key(id), key(id), None])))
    check(keys, values)
