"""Kafka Connect's types, Debezium's too: what a schema block makes of values, and of misfits."""

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.debezium_messages import FORMS, changed, decode, dumps, loads

from python_udfs.core.events import Event

UNAVAILABLE = "__debezium_unavailable_value"


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
# Its labels are: fine, so so, it's, fine, and a, a backslash, a comma, b.
ENUM = {
    **logical(DATA + "Enum", "string"),
    "parameters": {"allowed": r"fine,so so,it's\, fine,a\\,b"},
}
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
TEXT = {"type": "string"}
ARRAY = {"type": "array", "items": {"type": "int32"}}
DATES = {"type": "array", "items": logical(TIME + "Date", "int32")}

DAY = logical(TIME + "Date", "int32")


def map_of(keys: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "map", "keys": keys, "values": values}


def unsigned(source_type: str) -> dict[str, Any]:
    """As ``column.propagate.source.type`` has it."""
    return {"type": "int64", "parameters": {"__debezium.source.column.type": source_type}}


TYPES = [
    ({"type": "int8"}, b"-128", b"-128"),
    ({"type": "int16"}, b"32767", b"32767"),
    ({"type": "int32"}, b"-2147483648", b"-2147483648"),
    ({"type": "int32"}, b"7.0", b"7"),
    ({"type": "int32"}, b"1.50E+3", b"1500"),
    ({"type": "int32"}, b"700e-2", b"7"),
    ({"type": "int32"}, b"-0.0", b"0"),
    ({"type": "int32"}, b"0e999999999", b"0"),
    ({"type": "int64"}, b"9.223372036854775807E18", b"9223372036854775807"),
    ({"type": "int64"}, b"-9.223372036854775808e18", b"-9223372036854775808"),
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
    # Of labels with commas, Debezium's connectors of MySQL and MariaDB ship some as their lists
    # have them (from the log) and some as they are (in a snapshot).
    (ENUM, b'"it\'s\\\\, fine"', b'"it\'s, fine"'),
    (ENUM, b'"it\'s, fine"', None),
    (ENUM, b'"so so"', None),
    (ENUM, b'"x\\\\,y"', None),
    (ENUM, b'"a\\\\\\\\,b"', b'"a\\\\,b"'),
    (logical(DATA + "Enum", "string"), b'"x\\\\,y"', None),
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
    (decimal(2), b'"-Infinity"', b'"-Infinity"'),
    # Digits alone and eight letters are base64 here, as JsonConverter ships it.
    (decimal(0), b'"1234"', str(0xD76DF8 - 2**24).encode()),
    (decimal(2), b'"Infinity"', b"378982984692.34"),
    (VARIABLE, b'{"scale":3,"value":"AJY="}', b"0.150"),
    (VARIABLE, b'{"scale":0,"value":"/w=="}', b"-1"),
    (VARIABLE, b'{"scale":"1","value":"AJY="}', b"15.0"),
    (VARIABLE, b'{"scale":-1,"value":"AQ=="}', b"1E+1"),
    (VARIABLE, b'{"scale":1,"value":"Infinity"}', b"3789829846923.4"),
    (VARIABLE, b'{"scale":1,"value":"NaN"}', b'"NaN"'),
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
    (logical(TIME + "Timestamp"), b"1.763719200123E12", b'"2025-11-21T10:00:00.123"'),
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
    (logical(TIME + "MicroDuration", "double"), b"1500000.0", b'"PT0H0M1.500000S"'),
    (logical(TIME + "MicroDuration", "double"), b"9.3784000005E10", b'"PT26H3M4.000005S"'),
    (logical(TIME + "MicroDuration", "double"), b"-2.6298E12", b'"-PT730H30M0.000000S"'),
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
    # Keys of maps: names of an object, or the first of each pair.
    (map_of({"type": "string"}, {"type": "string"}), b'{"1":"a","b":null}', None),
    (
        map_of({"type": "int32"}, DAY),
        b'[["7",20778],[null,0]]',
        b'[[7,"2026-11-21"],[null,"1970-01-01"]]',
    ),
    (map_of(DAY, {"type": "int32"}), b"[[0,1],[20778,2]]", b'[["1970-01-01",1],["2026-11-21",2]]'),
    (map_of(decimal(1), {"type": "int32"}), b'[["AQ==",1]]', b"[[0.1,1]]"),
    (map_of({"type": "int32"}, {"type": "int32"}), b'{"007":1,"8":2}', b'{"7":1,"8":2}'),
    (
        map_of(DAY, DAY),
        b'{"20778":0,"0":1}',
        b'{"2026-11-21":"1970-01-01","1970-01-01":"1970-01-02"}',
    ),
    (map_of(decimal(1), {"type": "boolean"}), b'{"AQ==":"true"}', b'{"0.1":true}'),
    (map_of(ARRAY, {"type": "int32"}), b'[[["1"],2]]', b"[[[1],2]]"),
    (map_of({"type": "unheard-of"}, {}), b'{"a":1}', b'{"a":1}'),
    # MySQL's unsigned 64 bits: in a long, and precise.
    (unsigned("BIGINT UNSIGNED"), b"0", b"0"),
    (unsigned("BIGINT UNSIGNED"), b"9223372036854775807", b"9223372036854775807"),
    (unsigned("BIGINT UNSIGNED"), b"-9223372036854775808", b"9223372036854775808"),
    (unsigned("BIGINT UNSIGNED ZEROFILL"), b"-1", b"18446744073709551615"),
    (unsigned("bigint(20) unsigned"), b'"-1"', b"18446744073709551615"),
    (unsigned("BIGINT UNSIGNED"), b"18446744073709551615", b"18446744073709551615"),
    (unsigned("BIGINT"), b"-1", b"-1"),
    (unsigned("INT UNSIGNED"), b"-1", b"-1"),
    (
        decimal(0)
        | {"parameters": {"scale": "0", "__debezium.source.column.type": "BIGINT UNSIGNED"}},
        b'"AP//////////"',
        b"18446744073709551615",
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
        (b'"2025-11-21T10:00Z"', b'"2025-11-21T10:00:00Z"'),
        (b'"0000-01-01T00:00:00+01:00"', b'"-0001-12-31T23:00:00Z"'),
    ],
)
def test_instants_get_seconds_and_z_and_are_kept(shipped: bytes, expected: bytes) -> None:
    event = typed(logical(TIME + "ZonedTimestamp", "string"), shipped)
    assert event.before == b'{"x":%b}' % expected
    sent = loads(shipped)
    assert loads(event.metadata)["as_sent"] == {"$.before.x": sent, "$.after.x": sent}


def test_paths_of_any_names_are_told_apart() -> None:
    zoned = logical(TIME + "ZonedTimestamp", "string")
    inner = {"type": "struct", "field": "a", "fields": [zoned | {"field": "b"}]}
    image = {"type": "struct", "fields": [zoned | {"field": "a.b"}, inner]}
    block = {"type": "struct", "fields": [image | {"field": "after"}]}
    first, second = "2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00+02:00"
    payload = {"op": "c", "after": {"a.b": first, "a": {"b": second}}}
    event = decode(None, dumps({"schema": block, "payload": payload}))
    assert loads(event.metadata)["as_sent"] == {
        '$.after["a.b"]': first,
        "$.after.a.b": second,
    }


@pytest.mark.parametrize(
    ("declared", "shipped"),
    [
        ({"type": "int8"}, b"128"),
        ({"type": "int16"}, b"-32769"),
        ({"type": "int64"}, b"9223372036854775808"),
        ({"type": "int64"}, b"9.223372036854775808E18"),
        ({"type": "int64"}, b"1E19"),
        ({"type": "int64"}, b"1e16384"),
        ({"type": "int64"}, b"1e999999999"),
        ({"type": "int64"}, b"1e-999999999"),
        ({"type": "int64"}, b"1e9999999999999999999"),
        ({"type": "int32"}, b"1.5"),
        ({"type": "int32"}, b"15e-1"),
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
        (logical(TIME + "MicroDuration", "double"), b"1.5"),
        (logical(TIME + "MicroDuration", "double"), b"9.3784000005123456E10"),
        (logical(TIME + "ZonedTimestamp", "string"), b'"2025-11-21T10:00:00"'),
        (logical(TIME + "ZonedTimestamp", "string"), b'"2025-02-30T10:00:00+01:00"'),
        (logical(TIME + "ZonedTimestamp", "string"), b"1763719200123"),
        (POINT, b"[1,2]"),
        (DATES, b'{"a":1}'),
        *((TEXT, each) for each in (b"5", b"1.50", b"true", b'{"a":1}', b'["a"]')),
        (logical(DATA + "Json", "string"), b'{"a":1}'),
        (logical(DATA + "Enum", "string"), b"1"),
        (logical(DATA + "Uuid", "string"), b"[]"),
        (logical(TIME + "Interval", "string"), b"5"),
        (logical(TIME + "Interval", "string"), b'"1 day"'),
        (logical(TIME + "Interval", "string"), b'"P"'),
        (logical(TIME + "MicroDuration"), b'"Plenty"'),
        (logical(DATA + "Bits", "bytes"), b"1"),
        *(
            ({"type": "bytes"}, each)
            for each in (b'"x"', b'"AQI"', b'"AQI=="', b'"AQ ID"', b'"AQ-_"')
        ),
        ({"type": "bytes"}, '"ÄÄÄÄ"'.encode()),
        ({"type": "float32"}, b"3.5E38"),
        ({"type": "float"}, b"-1e39"),
        ({"type": "double"}, b"1e400"),
        ({"type": "double"}, b"-1" + b"0" * 310),
        ({"type": "double"}, b'"1e309"'),
        ({"type": "array", "items": TEXT}, b'{"a":1}'),
        ({"type": "array"}, b'"x"'),
        ({"type": "struct", "fields": []}, b"[1]"),
        (map_of(TEXT, TEXT), b'"x"'),
        ({"type": "map"}, b"1"),
        (map_of(DAY, TEXT) | {"values": {}}, b'{"0":1,"00":2}'),
        (map_of(ARRAY, TEXT), b'{"x":"a"}'),
        (unsigned("BIGINT UNSIGNED"), b"18446744073709551616"),
        (unsigned("BIGINT UNSIGNED"), b"-9223372036854775809"),
        (unsigned("BIGINT UNSIGNED"), b"1.5"),
    ],
)
def test_what_does_not_fit_stays_as_sent(declared: dict[str, Any], shipped: bytes) -> None:
    event = typed(declared, shipped)
    assert event.before == b'{"x":%b}' % shipped
    assert loads(event.metadata)["untyped"] == ["$.before.x", "$.after.x"]


@pytest.mark.parametrize(
    ("declared", "shipped", "converted", "path"),
    [
        ({"type": "array", "items": TEXT}, b'["a",5]', None, "[1]"),
        (map_of(TEXT, TEXT), b'{"a b":5}', None, '["a b"]'),
        (map_of(TEXT, TEXT), b'[["a","b"],[5,"c"]]', None, "[1][0]"),
        (map_of(TEXT, {"type": "int32"}), b'[["a","1"],["b"]]', b'[["a",1],["b"]]', "[1]"),
        (map_of({"type": "int32"}, TEXT), b'[[1,"a"],["x","b"]]', None, "[1][0]"),
        (map_of({"type": "int32"}, TEXT), b'{"01":"a","x":"b"}', b'{"1":"a","x":"b"}', ".x"),
    ],
)
def test_parts_that_do_not_fit_are_named(
    declared: dict[str, Any], shipped: bytes, converted: bytes | None, path: str
) -> None:
    event = typed(declared, shipped)
    assert event.before == b'{"x":%b}' % (shipped if converted is None else converted)
    assert loads(event.metadata)["untyped"] == [f"$.before.x{path}", f"$.after.x{path}"]


# Each with its zone, where it has one: what is a date, a time and both is the same for all types.
DAYS = [
    "2026-01-01",
    "2026-12-31",
    "2024-02-29",
    "2000-02-29",
    "0000-02-29",
    "-0001-12-31",
    "9999-12-31",
]
DAYS += ["+10000-01-01", "2026-04-30", "+294276-12-31", "-4713-11-24"]
NO_DAYS = [
    "2026-13-45",
    "2026-00-10",
    "2026-01-00",
    "2026-02-29",
    "1900-02-29",
    "2100-02-29",
    "2026-04-31",
]
NO_DAYS += [
    "2026-01-32",
    "226-01-01",
    "12026-01-01",
    "2026-1-1",
    "2026-0101",
    "+1234567890-01-01",
    "",
]
CLOCKS = ["00:00:00", "23:59:59", "10:00:00.1", "10:00:00.123456789"]
NO_CLOCKS = [
    "24:00:01",
    "25:00:00",
    "10:60:00",
    "10:00:60",
    "10:00:61",
    "99:99:99",
    "1:00:00",
    "10:00",
]
NO_CLOCKS += ["10:00:00.", "10:00:00.1234567890", "10-00-00", ""]
OFFSETS = ["Z", "+00:00", "-18:00", "+05:30", "+0530", "+05", "+01:02:03"]
NO_OFFSETS = ["+25:99", "+18:00:01", "+19:00", "-00:60", "+5", "z", " Z", "+05:30Z", ""]


def fits(name: str, value: str) -> bool:
    event = typed(logical(TIME + name, "string"), dumps(value))
    return "untyped" not in loads(event.metadata)


@pytest.mark.parametrize("day", DAYS + NO_DAYS)
def test_days_that_there_are(day: str) -> None:
    there = day in DAYS
    assert fits("IsoDate", day + "Z") == there
    assert fits("Date", day) == there
    for clock in CLOCKS[:2]:
        assert fits("IsoTimestamp", f"{day}T{clock}Z") == there
        assert fits("Timestamp", f"{day}T{clock}") == there
        assert fits("ZonedTimestamp", f"{day}T{clock}Z") == there
        assert fits("ZonedTimestamp", f"{day}T{clock}+02:00") == there


@pytest.mark.parametrize("clock", [*CLOCKS, *NO_CLOCKS, "24:00:00", "24:00:00.000"])
def test_times_that_there_are(clock: str) -> None:
    there = clock in CLOCKS
    assert fits("IsoTimestamp", f"2026-11-21T{clock}Z") == there
    assert fits("MicroTimestamp", f"2026-11-21T{clock}") == there
    for offset in ("Z", "-01:00"):
        # Java leaves seconds out where there are none.
        assert fits("ZonedTimestamp", f"2026-11-21T{clock}{offset}") == (there or clock == "10:00")
        is_time = there or clock in ("10:00", "24:00:00", "24:00:00.000")
        assert fits("ZonedTime", clock + offset) == is_time


@pytest.mark.parametrize("offset", OFFSETS + NO_OFFSETS)
def test_offsets_that_there_are(offset: str) -> None:
    there = offset in OFFSETS
    assert fits("ZonedTimestamp", "2026-11-21T10:00:00" + offset) == there
    assert fits("ZonedTime", "10:00:00" + offset) == there


@pytest.mark.parametrize(
    ("clock", "there"),
    [
        ("10:00:00", True),
        ("-838:59:59.000000", True),
        ("24:00:00", True),
        ("99:59:59", True),
        ("99:99:99", False),
        ("10:60:00", False),
        ("10:00:60", False),
        ("1:00:00", False),
    ],
)
def test_times_that_are_durations(clock: str, there: bool) -> None:
    assert fits("MicroTime", clock) == there
    assert fits("IsoTime", clock + "Z") == there


def test_an_instant_as_text_is_one_in_each_type() -> None:
    event = typed(logical(CONNECT + "Timestamp"), b'"2025-11-21T12:00:00.5+02:00"')
    assert event.before == b'{"x":"2025-11-21T10:00:00.5Z"}'


@settings(max_examples=60, deadline=None)
@given(st.integers(-4800, 12_000), st.integers(1, 12), st.integers(1, 31))
def test_days_are_those_of_the_calendar(year: int, month: int, day: int) -> None:
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    first = civil_days(year, month, 1)
    after = civil_days(year + month // 12, month % 12 + 1, 1)
    assert fits("Date", f"{shown}-{month:02d}-{day:02d}") == (day <= after - first)


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
        UNAVAILABLE.encode().hex(),
        UNAVAILABLE.encode().hex().upper(),
        [UNAVAILABLE],
        [base64.b64encode(UNAVAILABLE.encode()).decode()],
        [UNAVAILABLE.encode().hex()],
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


def test_unavailable_bytes_in_each_mode() -> None:
    """binary.handling.mode: bytes, base64, base64-url-safe, hex."""
    sent = UNAVAILABLE.encode()
    encoded = base64.b64encode(sent), base64.urlsafe_b64encode(sent), sent.hex().encode()
    for kind, text in zip(["bytes", "string", "string"], encoded, strict=True):
        event = typed({"type": kind}, b'"%b"' % text)
        assert loads(event.before) == {"x": UNAVAILABLE}
        assert loads(event.metadata) == {"schema_name": "t.Envelope"}
    longer = typed({"type": "string"}, b'"%b00"' % sent.hex().encode())
    assert loads(longer.before) == {"x": sent.hex() + "00"}


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
