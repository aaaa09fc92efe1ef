"""The fast path for plain writes gives what ``decode`` gives, message by message."""

from datetime import UTC, datetime
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aerospike_encoder import Map, pack
from support.aerospike_messages import NANOSECONDS, SECONDS, timestamp, writes
from support.alone import each_alone

from dbt_lakehouse.spark.event_arrays import _texts_array
from dbt_lakehouse.spark.functions import decode_payload_batch
from python_udfs.aerospike import messagepack
from python_udfs.aerospike.fast_messagepack import MessagePackWrites
from python_udfs.aerospike.messagepack import decode, decode_batch
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.registry import EVENT_TYPES, decode_payload

DIGEST = b"abcdefghijklmnopqrst"
MANY = 15


@pytest.fixture(autouse=True)
def no_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins without a layout, and takes the fast path whether it pays or not."""
    still = FastPath(decode, MessagePackWrites(), Learning(lambda: 0.0))
    monkeypatch.setattr(messagepack, "_FAST_PATH", still)


def record(*bins: Any, **parts: Any) -> bytes:
    """A write of those bins ``[name, type, flags, value]``."""
    key = [
        parts.get("namespace", "ns"),
        parts.get("set_name", "set"),
        parts.get("digest", DIGEST),
        parts.get("user_key", "user"),
    ]
    lut = parts.get("lut", 1_700_000_000_000)
    packed: bytes = msgpack.packb(
        [1, 1, [key, parts.get("generation", 1), parts.get("expiry", 0), lut, list(bins)]]
    )
    return packed


def nested(depth: int) -> Any:
    return [1.5, {"a": nested(depth - 1)}] if depth else "x"


PLAIN: dict[str, list[Any]] = {
    "scalars": [["i", 1, 0, -5], ["s", 3, 1, "x"], ["b", 17, 0, True], ["n", 0, 0, None]],
    "binary": [["blob", 4, 0, b"\x00\xff"], ["hll", 18, 0, b"h"], ["java", 7, 0, b"j"]],
    "double": [["d", 2, 0, 5.5]],
    "list": [["l", 20, 0, [1, "x", True, None]]],
    "map": [["m", 19, 1, {"a": 1, "b": None}]],
    "nested": [["l", 20, 0, [1.5, {"k": [2, {}]}]], ["m", 19, 0, {"a": {"b": [0.5]}}]],
    "deeper than a type": [["l", 20, 0, nested(8)], ["m", 19, 0, {"a": nested(7)}]],
    "floats that look like none": [["l", 20, 0, [1.7e308, 2.0, {"a": "\xcb\x7f\xff"}]]],
    "names": [["\u00e9\u2028", 1, 0, 5], ["", 1, 0, 6]],
    "flags": [["i", 1, -5, 5]],
}
OTHER: dict[str, list[Any]] = {
    "no bins": [],
    "a name that JSON escapes": [['a"b', 1, 0, 5]],
    "huge flags": [["i", 1, 2**64 - 1, 5]],
    "an int as double": [["d", 2, 0, 5]],
    "no number": [["d", 2, 0, float("nan")]],
    "no number in a list": [["l", 20, 0, [float("inf")]]],
    "no number in a map": [["m", 19, 0, {"a": {"b": [1.5, float("nan")]}}]],
    "no number deep down": [["l", 20, 0, [nested(8), [float("-inf")]]]],
    "binary deep down": [["l", 20, 0, [nested(8), {"a": [b"x"]}]]],
    "a map with an int as key deep down": [["l", 20, 0, [nested(8), {"a": [{1: 2}]}]]],
    "a map with an int as key": [["m", 19, 0, {1: 2}]],
    "a nested map with an int as key": [["l", 20, 0, [{1: 2}]]],
    "binary in a list": [["l", 20, 0, [b"x"]]],
    "a timestamp": [["l", 20, 0, [msgpack.Timestamp(1, 0)]]],
    "an ext": [["l", 20, 0, [msgpack.ExtType(23, b"{}")]]],
    "GeoJSON": [["g", 23, 0, '{"type":"Point"}']],
    "an unknown type": [["u", 99, 0, 1]],
    "a name twice": [["i", 1, 0, 5], ["i", 1, 0, 6]],
    "a bad value": [["i", 1, 0, "5"]],
}


@pytest.mark.parametrize("name", [*PLAIN, *OTHER])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"user_key": None},
        {"user_key": 7},
        {"user_key": b"x"},
        {"set_name": None},
        {"lut": None, "expiry": None, "generation": None},
        {"lut": 1_600_000_000, "expiry": -1},
        {"lut": 2**63, "expiry": 2**63},
        {"digest": b"short"},
    ],
    ids=lambda parts: ",".join(parts) or "usual",
)
def test_what_decode_gives(name: str, parts: dict[str, Any]) -> None:
    value = record(*(PLAIN | OTHER)[name], **parts)
    own = msgpack.packb(msgpack.unpackb(value, strict_map_key=False)[2][0])
    mixed: list[bytes | None] = [None, own, b"other", own[:-1], own]
    for keys in ([None] * MANY, [own] * MANY, [b"other"] * MANY, mixed * 3):
        assert decode_batch(keys, [value] * MANY).payloads() == [decode(key, value) for key in keys]


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_plain(name: str) -> None:
    values = [record(*PLAIN[name])] * MANY
    decode_batch([None] * MANY, values)
    decoded = decode_batch([None] * MANY, values)
    assert not decoded.events
    assert decoded.payloads() == [decode(None, values[0])] * MANY


@pytest.mark.parametrize("name", OTHER)
def test_what_is_not(name: str) -> None:
    values = [record(*OTHER[name])] * MANY
    decode_batch([None] * MANY, values)
    assert not decode_batch([None] * MANY, values).columns


def test_a_name_twice_in_a_map_is_not_dropped() -> None:
    value = record(["m", 19, 0, {"k": 1}]).replace(b"\x81\xa1k\x01", b"\x82\xa1k\x01\xa1k\x02")
    plain = record(["m", 19, 0, {"k": 1}])
    values = [plain] * MANY + [value]
    events = decode_batch([None] * len(values), values).payloads()
    assert events == [decode(None, each) for each in values]
    assert events[-1][0].after == b'{"m":[["k",1],["k",2]]}'


DEEP = nested(8)


@pytest.mark.parametrize("code", [19, 20])
@pytest.mark.parametrize(
    "usual", [[1], [1.5], DEEP, {"a": 1}, {"a": 1.5}, {"a": DEEP}], ids=lambda usual: str(usual)[:9]
)
@pytest.mark.parametrize(
    "other",
    [
        *("x", b"x", None, 5, 2.5, [1], {"a": 1}, [1.5], {"a": [1.5]}, DEEP, {"a": DEEP}),
        *(
            [float("nan")],
            {"a": float("inf")},
            [float("-inf")],
            [b"x"],
            {"a": b"x"},
            {1: 2},
            [{1: 2}],
        ),
    ],
    ids=lambda other: str(other)[:9],
)
def test_another_value_than_the_usual_one(code: int, usual: Any, other: Any) -> None:
    values = [record(["c", code, 0, usual])] * MANY + [record(["c", code, 0, other])]
    values += values[:3]
    events = [decode(None, value) for value in values]
    for _ in range(2):
        assert decode_batch([None] * len(values), values).payloads() == events


@pytest.mark.parametrize("name", ["list", "map", "nested", "deeper than a type"])
@pytest.mark.parametrize(
    "shipped",
    [b"\x82\xa1k\x01\xa1k\x02", b"\xca\x3f\x80\x00\x00", b"\xca\x7f\x80\x00\x00", b"\xcd\x00\x01"],
    ids=["a name twice", "float32", "float32 infinity", "a long int"],
)
def test_nothing_is_lost_in_lists_and_maps(name: str, shipped: bytes) -> None:
    mark = 0x1234567890
    plain = [*PLAIN[name], ["ll", 20, 0, [0.5, [1]]], ["mm", 19, 0, {"a": 5}]]
    marked = record(*PLAIN[name], ["ll", 20, 0, [0.5, [mark]]], ["mm", 19, 0, {"a": mark}])
    packed = msgpack.packb(mark)
    in_list = marked.replace(packed, shipped, 1).replace(packed, b"\x05")
    in_map = marked.replace(packed, b"\x05", 1).replace(packed, shipped)
    values = [record(*plain)] * MANY + [in_list, in_map, record(*plain)]
    events = [decode(None, value) for value in values]
    for _ in range(2):
        assert decode_batch([None] * len(values), values).payloads() == events


@pytest.mark.parametrize("length", [0, 19, 21])
def test_one_bad_digest_among_many(length: int) -> None:
    plain = record(["i", 1, 0, 5])
    values = [plain] * MANY + [record(["i", 1, 0, 5], digest=b"x" * length), plain]
    events = [decode(None, value) for value in values]
    assert events[MANY][0].operation == "invalid"
    assert decode_batch([None] * len(values), values).payloads() == events


@pytest.mark.parametrize("lut", [None, 0, 10**11 - 1, 10**11, 253_402_300_799_999, 2**63, -1])
@pytest.mark.parametrize("expiry", [None, 0, -1, -5, 1, 253_402_300_799, 253_402_300_800, 2**63])
def test_another_time_than_the_usual_one(lut: int | None, expiry: int | None) -> None:
    plain = record(["i", 1, 0, 5], expiry=1_700_000_000)
    values = [plain] * MANY + [record(["i", 1, 0, 5], lut=lut, expiry=expiry)]
    events = [decode(None, value) for value in values]
    for _ in range(2):
        assert decode_batch([None] * len(values), values).payloads() == events


def test_keys_that_are_the_same_bytes_only_together() -> None:
    value = record(["i", 1, 0, 5])
    own = msgpack.packb(msgpack.unpackb(value)[2][0])
    keys = [own] * MANY + [own[:-1], own[-1:] + own, own]
    values = [value] * len(keys)
    for _ in range(2):
        assert decode_batch(keys, values).payloads() == each_alone(decode, keys, values)


def test_one_bad_record_among_many() -> None:
    plain = record(["d", 2, 0, 0.5])
    values = [plain] * MANY + [record(["d", 2, 0, 5]), plain, plain[:-1], plain + b"x", plain]
    assert decode_batch([None] * len(values), values).payloads() == [
        decode(None, each) for each in values
    ]


def test_a_new_layout_for_each_record() -> None:
    values = [record([f"bin{number}", 1, 0, number]) for number in range(200)]
    assert decode_batch([None] * 200, values).payloads() == [decode(None, each) for each in values]


@pytest.mark.parametrize("size", [4, 8, 12])
def test_timestamps_that_no_datetime_can_hold(size: int) -> None:
    """Wherever one may stand, be it never so far away: what ``decode`` says, and never a bug."""
    for seconds in SECONDS:
        for nanoseconds in NANOSECONDS:
            time = timestamp(seconds, nanoseconds, size)
            key = ["ns", "set", DIGEST, "user"]
            trees: list[Any] = [
                [1, 1, [key, 1, 0, 5, [["l", 20, 0, [time]]]]],
                [1, 1, [key, 1, 0, 5, [["m", 19, 0, Map([("a", [1.5, time])])]]]],
                [1, 1, [key, 1, 0, 5, [["m", 19, 0, Map([(time, 1)])]]]],
                [1, 1, [key, 1, 0, 5, [["x", 99, 0, time]]]],
                [1, 1, [key, 1, 0, 5, [["i", 1, 0, time]]]],
                [1, 1, [[*key[:3], time], 1, 0, 5, [["i", 1, 0, 1]]]],
                [1, 1, [key, time, time, time, [["i", 1, 0, 1]]]],
                [1, 2, [key, time]],
                [[1, 2, [key, 0]], time],
                time,
            ]
            for value in map(pack, trees):
                expected = decode(value, value)
                assert decode_batch([value] * MANY, [value] * MANY).payloads() == [expected] * MANY


def test_one_that_is_not_plain_among_many() -> None:
    """It alone takes the careful path, wherever it stands."""
    for place in (0, 50, 99):
        values = [record(["d", 2, 0, 1.5], ["l", 20, 0, [1, {"a": 2.5}]]) for _ in range(100)]
        decode_batch([None] * 100, values)
        values[place] = record(["d", 2, 0, float("nan")], ["l", 20, 0, [1, {"a": 2.5}]])
        decoded = decode_batch([None] * 100, values)
        assert list(decoded.events) == [place]
        assert decoded.payloads() == [decode(None, value) for value in values]


def test_arrays_of_columns_and_of_events() -> None:
    """Sets, layouts of a set, formats, batches and bad payloads in turn keep their places."""
    plain = [record(["i", 1, 0, number], set_name=f"set{number // 1500}") for number in range(3000)]
    payloads: list[tuple[str | None, bytes | None, bytes | None]] = []
    for number, value in enumerate(plain):
        payloads.append(("aerospike_messagepack", None, value))
        if number % 7 == 0:
            other = record(["i", 1, 0, number], ["s", 3, 0, f"text {number}"])
            payloads.append(("aerospike_messagepack", None, other))
        if number % 211 == 0:
            batch = msgpack.packb([msgpack.unpackb(each) for each in plain[number : number + 3]])
            change = b'{"op":"c","after":{"id":%d},"source":{"table":"t"}}' % number
            payloads += [
                ("aerospike_messagepack", None, batch),
                ("debezium_json", b'{"id":1}', change),
                (None, None, b"?"),
                ("aerospike_messagepack", None, None),
            ]
    formats, keys, values = zip(*payloads, strict=True)
    rows = decode_payload_batch(
        pa.array(formats, pa.string()), pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    )
    assert [[tuple(event.values()) for event in events] for events in rows.to_pylist()] == [
        [tuple(map(in_spark, event, EVENT_TYPES.values())) for event in decode_payload(*payload)]
        for payload in payloads
    ]
    assert len(messagepack._FAST_PATH.tables) > 1


def test_texts_of_blocks() -> None:
    texts = _texts_array([b'{"a":null}\nnull\n', None, b"null\n", b'{"null":1}\n'], [2, 2, 1, 1])
    assert texts.to_pylist() == ['{"a":null}', None, None, None, None, '{"null":1}']
    assert _texts_array([None, None], [2, 1]).to_pylist() == [None] * 3


def in_spark(value: Any, ddl: str) -> Any:
    """A field of an event as Spark has it."""
    if value is None or ddl == "int":
        return value
    if ddl == "timestamp":
        return datetime.fromtimestamp(value / 1000, UTC)
    return value.decode() if type(value) is bytes else value


@settings(max_examples=150, deadline=None)
@given(st.lists(writes, min_size=1, max_size=3), st.data())
def test_random_writes(trees: list[Any], data: Any) -> None:
    packed = [pack(tree) for tree in trees]
    values = packed * MANY
    damaged = bytearray(data.draw(st.sampled_from(packed)))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    values.insert(data.draw(st.integers(0, len(values))), bytes(damaged))
    keys = [data.draw(st.sampled_from([None, pack(trees[0][2][0])])) for _ in values]
    assert decode_batch(keys, values).payloads() == each_alone(decode, keys, values)
