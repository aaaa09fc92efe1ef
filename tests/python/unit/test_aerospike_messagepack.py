"""aerospike_messagepack against the diagrams of both editions of the vendor's page."""

import base64
import json
import math
import struct
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.aerospike_encoder import Ext, Map, Packed, message, pack
from support.aerospike_messages import messages

from python_udfs.aerospike.messagepack import decode
from python_udfs.core import limits
from python_udfs.core.events import MAX_TIME_MS, Event

DIGEST = b"abcdefghijklmnopqrst"
DIGEST_64 = "YWJjZGVmZ2hpamtsbW5vcHFyc3Q="
KEY = ["ns", "set", DIGEST, None]
LUT = 1617167159548

# Hex as drawn: version, type, payload; the digest is 20 bytes 0x61 to 0x74.
KEY_HEX = "94 a26e73 a3736574 c414 6162636465666768696a6b6c6d6e6f7071727374 c0"
WRITE_HEX = f"93 01 01 95 {KEY_HEX} 04 ce644d74e0 cf0000017886ac90fc 91 94 a16e 01 00 05"
# Before 4.0: LUT in seconds, expiry never.
OLD_WRITE_HEX = f"93 01 01 95 {KEY_HEX} 01 00 ce606405b7 90"
DELETE_5_HEX = (
    "93 01 02 95 94 a26e73 c0 c414 6162636465666768696a6b6c6d6e6f7071727374 c0"
    " 01 04 c0 cf0000017886ac90fc"
)
DELETE_2_HEX = (
    "93 01 02 92 94 a26e73 c0 c414 6162636465666768696a6b6c6d6e6f7071727374 d3ffffffffffffffff 00"
)


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def write(*bins: Any, key: Any = None, generation: Any = 1, expiry: Any = 0, lut: Any = LUT) -> Any:
    return [1, 1, [KEY if key is None else key, generation, expiry, lut, list(bins)]]


def delete(*more: Any, key: Any = None, flags: Any = 0) -> Any:
    return [1, 2, [KEY if key is None else key, flags, *more]]


def one(value: Any, key: bytes | None = None) -> Event:
    events = decode(key, value if isinstance(value, bytes) else pack(value))
    assert len(events) == 1
    return events[0]


def good(value: Any, key: bytes | None = None) -> Event:
    event = one(value, key)
    assert event.error_detail is None
    assert event.operation in ("upsert", "delete")
    return event


def after(event: Event) -> Any:
    assert event.after is not None
    return json.loads(event.after)


def metadata(event: Event) -> Any:
    assert event.metadata is not None
    return json.loads(event.metadata)


def note(type_code: int, flags: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": type_code, "flags": flags, **more}


def test_write_from_4_0() -> None:
    assert one(unhex(WRITE_HEX)) == Event(
        event_index=0,
        operation="upsert",
        source_schema="ns",
        source_table="set",
        record_key=b'{"digest":"YWJjZGVmZ2hpamtsbW5vcHFyc3Q="}',
        after=b'{"n":5}',
        occurred_at=1617167159548,
        expires_at=1682797792000,
        metadata=b'{"generation":4,"expiry":1682797792,"lut":1617167159548,'
        b'"bins":{"n":{"type":1,"flags":0}}}',
    )


def test_write_before_4_0() -> None:
    event = good(unhex(OLD_WRITE_HEX))
    assert event.after == b"{}"
    assert event.occurred_at is None
    assert event.expires_at is None
    assert metadata(event) == {"generation": 1, "expiry": 0, "lut": 0x606405B7, "bins": {}}


def test_delete_from_4_0() -> None:
    event = good(unhex(DELETE_5_HEX))
    assert event == Event(
        event_index=0,
        operation="delete",
        source_schema="ns",
        record_key=b'{"digest":"YWJjZGVmZ2hpamtsbW5vcHFyc3Q="}',
        occurred_at=1617167159548,
        metadata=b'{"generation":4,"expiry":null,"lut":1617167159548,"flags":1,"durable":true}',
    )


def test_delete_before_4_0() -> None:
    event = good(unhex(DELETE_2_HEX))
    assert (event.operation, event.occurred_at, event.expires_at) == ("delete", None, None)
    assert metadata(event) == {
        "user_key": -1,
        "user_key_type": "int",
        "flags": 0,
        "durable": False,
    }


def test_delete_may_carry_an_expiry_and_unknown_flags() -> None:
    event = good(delete(7, 1682797792, LUT, flags=6))
    assert event.expires_at == 1682797792000
    assert metadata(event)["flags"] == 6
    assert metadata(event)["durable"] is False


@pytest.mark.parametrize(
    ("value", "shown", "kind"),
    [
        ("id1234", "id1234", "str"),
        (-(2**63), -(2**63), "int"),
        (b"\x00\xff", "AP8=", "bin"),
        (b"", "", "bin"),
        ("", "", "str"),
    ],
)
def test_user_keys(value: Any, shown: Any, kind: str) -> None:
    event = good(write(key=["ns", None, DIGEST, value]))
    assert event.source_table is None
    assert metadata(event)["user_key"] == shown
    assert metadata(event)["user_key_type"] == kind


@pytest.mark.parametrize(
    ("lut", "milliseconds"),
    [
        (None, None),
        (0, None),
        (-1, None),
        (1617167159, None),
        (10**11 - 1, None),
        (10**11, 10**11),
        (LUT, LUT),
        (MAX_TIME_MS, MAX_TIME_MS),
        (MAX_TIME_MS + 1, None),
        (2**64 - 1, None),
    ],
)
def test_lut(lut: int | None, milliseconds: int | None) -> None:
    for event in (good(write(lut=lut)), good(delete(None, None, lut))):
        assert event.occurred_at == milliseconds
        assert metadata(event)["lut"] == lut


@pytest.mark.parametrize(
    ("expiry", "milliseconds"),
    [
        (None, None),
        (0, None),
        (-1, None),
        (1, 1000),
        (1682797792, 1682797792000),
        (2**32 - 1, 4294967295000),
        (253402300799, 253402300799000),
        (253402300800, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_expiry(expiry: int | None, milliseconds: int | None) -> None:
    event = good(write(expiry=expiry))
    assert event.expires_at == milliseconds
    assert metadata(event)["expiry"] == expiry


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("cc80", 128),
        ("ccff", 255),
        ("cd0100", 256),
        ("cdffff", 65535),
        ("ce00010000", 65536),
        ("ceffffffff", 2**32 - 1),
        ("cf0000000100000000", 2**32),
        ("cf7fffffffffffffff", 2**63 - 1),
        ("cfffffffffffffffff", 2**64 - 1),
        ("ff", -1),
        ("e0", -32),
        ("d0df", -33),
        ("d080", -128),
        ("d1ff7f", -129),
        ("d18000", -32768),
        ("d2ffff7fff", -32769),
        ("d280000000", -(2**31)),
        ("d3ffffffff7fffffff", -(2**31) - 1),
        ("d38000000000000000", -(2**63)),
        ("cc00", 0),  # longer than needed is allowed
        ("d300000000000000ff", 255),
    ],
)
def test_integers(encoded: str, value: int) -> None:
    head = WRITE_HEX.removesuffix("05")
    event = good(unhex(head + encoded))
    assert event.after == b'{"n":%d}' % value


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("ca00000000", 0.0),
        ("ca3fc00000", 1.5),
        ("ca3dcccccd", 0.10000000149011612),  # what a float32 0.1 is
        ("cb3ff8000000000000", 1.5),
        ("cb8000000000000000", -0.0),
        ("cb7fefffffffffffff", sys.float_info.max),
        ("cb0000000000000001", 5e-324),
    ],
)
def test_floats(encoded: str, value: float) -> None:
    event = good(unhex(WRITE_HEX.removesuffix("01 00 05") + "02 00" + encoded))
    found = after(event)["n"]
    assert isinstance(found, float)
    assert struct.pack(">d", found) == struct.pack(">d", value)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("cb7ff8000000000000", "NaN"),
        ("ca7f800000", "Infinity"),
        ("cbfff0000000000000", "-Infinity"),
    ],
)
def test_floats_that_json_lacks(encoded: str, text: str) -> None:
    event = good(unhex(WRITE_HEX.removesuffix("01 00 05") + "02 00" + encoded))
    assert after(event) == {"n": text}
    assert metadata(event)["bins"] == {"n": note(2, nested={"$": "float"})}


@pytest.mark.parametrize("length", [0, 1, 31, 32, 255, 256, 65535, 65536])
def test_lengths(length: int) -> None:
    text, data = "é" * (length // 2) + "x" * (length % 2), bytes(length)
    event = good(write(["s", 3, 0, text], ["b", 4, 0, data], ["l", 20, 0, [None] * length]))
    assert after(event) == {
        "s": text,
        "b": base64.b64encode(data).decode(),
        "l": [None] * length,
    }


@pytest.mark.parametrize("head", ["a0", "d900", "da0000", "db00000000"])
def test_every_form_of_an_empty_string(head: str) -> None:
    assert after(good(unhex(WRITE_HEX.removesuffix("01 00 05") + "03 00" + head))) == {"n": ""}


@pytest.mark.parametrize("head", ["c400", "c50000", "c600000000"])
def test_every_form_of_an_empty_blob(head: str) -> None:
    assert after(good(unhex(WRITE_HEX.removesuffix("01 00 05") + "04 00" + head))) == {"n": ""}


@pytest.mark.parametrize("head", ["8101a141", "de000101a141", "df0000000101a141"])
def test_every_form_of_a_map(head: str) -> None:
    assert after(good(unhex(WRITE_HEX.removesuffix("01 00 05") + "13 00" + head))) == {
        "n": [[1, "A"]]
    }


def test_every_bin_type() -> None:
    geo = '{ "type": "Point",\n "coordinates": [1.30824, 103.91327000000000000001] }'
    event = good(
        write(
            ["null", 0, 0, None],
            ["int", 1, 0, -7],
            ["float", 2, 0, 3.1415],
            ["str", 3, 0, "a string \u0000 \u2028 ü"],
            ["blob", 4, 0, b"\x00\x01"],
            ["java", 7, 0, b"\xac\xed"],
            ["bool", 17, 0, False],
            ["hll", 18, 0, b"\x03"],
            ["map", 19, 1, Map([("i", 42), ("l", [3, 2.5, None, True])])],
            ["list", 20, 1, ["abc", 1, Map([])]],
            ["geo", 23, 0, geo],
        )
    )
    assert event.after is not None
    assert event.after.decode() == (
        '{"null":null,"int":-7,"float":3.1415,"str":"a string \\u0000 \u2028 ü","blob":"AAE=",'
        '"java":"rO0=","bool":false,"hll":"Aw==","map":{"i":42,"l":[3,2.5,null,true]},'
        '"list":["abc",1,{}],'
        '"geo":{"type":"Point","coordinates":[1.30824,103.91327000000000000001]}}'
    )
    assert metadata(event)["bins"] == {
        "null": note(0),
        "int": note(1),
        "float": note(2),
        "str": note(3),
        "blob": note(4),
        "java": note(7),
        "bool": note(17),
        "hll": note(18),
        "map": note(19, 1),
        "list": note(20, 1),
        "geo": note(23),
    }


@pytest.mark.parametrize(("code", "flags", "value"), [(19, 3, Map([])), (20, 9, []), (1, 5, 1)])
def test_flags_are_kept(code: int, flags: int, value: Any) -> None:
    assert metadata(good(write(["n", code, flags, value])))["bins"] == {"n": note(code, flags)}


def test_nested_values_that_json_cannot_tell() -> None:
    value = [
        b"\x01",
        Ext(7, b"\xac"),
        Ext(23, b'{"type":"Point"}'),
        Ext(23, b"no json"),
        Ext(-1, b"\x00\x00\x00\x01"),
        Ext(-1, b"\x00" * 3),
        Ext(99, b""),
        math.nan,
        Map([("a b", [-math.inf]), ("ok", b"")]),
        Map([(1, "x"), (True, "y"), (1.0, "z"), (b"k", Map([])), ([1], None), (Map([]), 2)]),
        Map([("twice", 1), ("twice", 2)]),
        Map([(Ext(7, b"\x00"), 1)]),
    ]
    event = good(write(["l", 20, 0, value]))
    assert after(event) == {
        "l": [
            "AQ==",
            "rA==",
            {"type": "Point"},
            base64.b64encode(b"no json").decode(),
            "AAAAAQ==",
            "AAAA",
            "",
            "NaN",
            {"a b": ["-Infinity"], "ok": ""},
            [[1, "x"], [True, "y"], [1.0, "z"], ["aw==", {}], [[1], None], [{}, 2]],
            [["twice", 1], ["twice", 2]],
            [["AA==", 1]],
        ]
    }
    assert metadata(event)["bins"]["l"] == note(
        20,
        nested={
            "$[0]": "bin",
            "$[1]": "java",
            "$[2]": "geojson",
            "$[3]": "ext 23",
            "$[4]": "ext -1",
            "$[5]": "ext -1",
            "$[6]": "ext 99",
            "$[7]": "float",
            '$[8]["a b"][0]': "float",
            "$[8].ok": "bin",
            "$[9]": "map",
            "$[9][3][0]": "bin",
            "$[10]": "map",
            "$[11]": "map",
            "$[11][0][0]": "java",
        },
    )


@pytest.mark.parametrize(
    ("value", "shown", "more"),
    [
        (b"\x01", "AQ==", {"nested": {"$": "bin"}}),
        (5, 5, {}),
        (None, None, {}),
        (Ext(8, b"\x01"), "AQ==", {"nested": {"$": "ext 8"}}),
        ([b""], [""], {"nested": {"$[0]": "bin"}}),
    ],
)
def test_an_unknown_particle_type_is_kept(value: Any, shown: Any, more: dict[str, Any]) -> None:
    event = good(write(["a", 8, 2, value], ["b", -1, 0, 1]))
    assert after(event) == {"a": shown, "b": 1}
    assert metadata(event)["bins"] == {
        "a": note(8, 2, unknown=True, **more),
        "b": note(-1, unknown=True),
    }


@pytest.mark.parametrize(
    "text", ["", "POINT(1 2)", "[1]", '"x"', "{", '{"a":1}x', "null", "\ufeff{}", '{"a":"\\ud800"}']
)
def test_geojson_that_is_no_object_stays_text(text: str) -> None:
    event = good(write(["g", 23, 0, text]))
    assert after(event) == {"g": text}
    assert metadata(event)["bins"]["g"] == note(23, nested={"$": "text"})


def test_geojson_loses_nothing_but_white_space() -> None:
    text = '{\r\n\t"a" : " \\" b ", "a": 1.50, "n": 123456789012345678901234567890}'
    assert good(write(["g", 23, 0, text])).after == (
        b'{"g":{"a":" \\" b ","a":1.50,"n":123456789012345678901234567890}}'
    )


# Errors: each says which field, what was expected and what was found.


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        ([], "bad_shape", "$: expected a record or a batch of records, got an empty array"),
        (5, "bad_shape", "$: expected an array, got int"),
        (None, "bad_shape", "$: expected an array, got nil"),
        (Map([]), "bad_shape", "$: expected an array, got map"),
        ("text", "bad_shape", "$: expected an array, got str"),
        ([1, 1], "bad_shape", "$: expected 3 elements [version, type, payload], got 2"),
        ([*write(), 0], "bad_shape", "expected 3 elements [version, type, payload], got 4"),
        ([2, 1, write()[2]], "bad_version", "$.version: expected 1, got 2"),
        ([True, 1, write()[2]], "bad_field", "$.version: expected int, got bool"),
        ([1.0, 1, write()[2]], "bad_field", "$.version: expected int, got float"),
        ([1, 3, write()[2]], "bad_type", "$.type: expected 1 (WRITE) or 2 (DELETE), got 3"),
        ([1, 0, write()[2]], "bad_type", "got 0"),
        ([1, True, write()[2]], "bad_field", "$.type: expected int, got bool"),
        ([1, "1", write()[2]], "bad_field", "$.type: expected int, got str"),
        ([1, 1, None], "bad_shape", "$.payload: expected an array, got nil"),
        ([1, 1, [KEY, 1, 0, []]], "bad_shape", "$.payload: expected 5 elements"),
        ([1, 1, []], "bad_shape", "got 0"),
        ([1, 2, [KEY]], "bad_shape", "$.payload: expected [key, flags] or"),
        ([1, 2, [KEY, 0, 1]], "bad_shape", "got 3 elements"),
        ([1, 2, [KEY, 0, 1, 2, 3, 4]], "bad_shape", "got 6 elements"),
        (delete(flags=None), "bad_field", "$.flags: expected int, got nil"),
        (delete(flags=True), "bad_field", "$.flags: expected int, got bool"),
        (delete(1, 2, "3"), "bad_field", "$.lut: expected int or nil, got str"),
        (write(key="k"), "bad_field", "$.key: expected an array"),
        (write(key=KEY[:3]), "bad_shape", "$.key: expected 4 elements"),
        (write(key=[None, None, DIGEST, None]), "bad_field", "$.key.namespace: expected str"),
        (write(key=[b"ns", None, DIGEST, None]), "bad_field", "got bin of 2 bytes"),
        (write(key=["ns", 1, DIGEST, None]), "bad_field", "$.key.set: expected str or nil"),
        (write(key=["ns", None, "d", None]), "bad_field", "$.key.digest: expected bin of 20"),
        (write(key=["ns", None, None, None]), "bad_field", "$.key.digest"),
        (write(key=["ns", None, DIGEST[1:], None]), "bad_field", "got bin of 19 bytes"),
        (write(key=["ns", None, DIGEST, True]), "bad_field", "$.key.user_key: expected str, int"),
        (write(key=["ns", None, DIGEST, 1.0]), "bad_field", "$.key.user_key"),
        (write(key=["ns", None, DIGEST, [1]]), "bad_field", "got array"),
        (write(generation=True), "bad_field", "$.generation: expected int or nil, got bool"),
        (write(expiry=1.5), "bad_field", "$.expiry: expected int or nil, got float"),
        (write(lut="now"), "bad_field", "$.lut: expected int or nil, got str"),
        (
            write(lut=Ext(-1, b"\x00" * 4)),
            "bad_field",
            "$.lut: expected int or nil, got ext type -1",
        ),
        ([1, 1, [KEY, 1, 0, 0, None]], "bad_field", "$.bins: expected an array, got nil"),
        ([1, 1, [KEY, 1, 0, 0, Map([])]], "bad_field", "$.bins: expected an array, got map"),
        (write(["n", 1, 0, 1], "bin!"), "bad_shape", "$.bins[1]: expected an array"),
        (write(b"four"), "bad_shape", "$.bins[0]: expected an array"),
        (write(5), "bad_shape", "$.bins[0]: expected an array [name, type, flags, value], got int"),
        (write(["n", 1, 1]), "bad_shape", "$.bins[0]: expected 4 elements"),
        (write(["n", 1, 0, 1, 1]), "bad_shape", "got 5"),
        (write(Map([(1, 1), (2, 1), (3, 1), (4, 1)])), "bad_shape", "got map"),
        (write([None, 1, 0, 1]), "bad_field", "$.bins[0].name: expected str, got nil"),
        (write(["n", True, 0, 1]), "bad_field", "$.bins[0].type: expected int, got bool"),
        (write(["n", [], 0, 1]), "bad_field", "$.bins[0].type: expected int, got array"),
        (write(["n", 1, None, 1]), "bad_field", "$.bins[0].flags: expected int, got nil"),
        (write(["n", 1, False, 1]), "bad_field", "$.bins[0].flags: expected int, got bool"),
        (write(["n", 1, 0, 1], ["n", 1, 0, 2]), "bad_field", "$.bins[1].name: the name 'n'"),
    ],
)
def test_errors(value: Any, code: str, detail: str) -> None:
    event = one(value)
    assert event.operation == "invalid"
    assert event.error_code == code
    assert detail in (event.error_detail or "")
    assert event[2:-2] == (None,) * 9


def test_a_long_name_is_shortened() -> None:
    detail = one(write(["x" * 1_000_000, 1, 0, 1], ["x" * 1_000_000, 1, 0, 2])).error_detail or ""
    assert detail.startswith("$.bins[1].name: the name 'xxx")
    assert detail.endswith("xxx' came before")
    assert len(detail) < 300


# Each listed type with a value of every other kind.
SAMPLES: dict[str, Any] = {
    "nil": None,
    "int": 1,
    "float": 1.5,
    "str": "x",
    "bin": b"x",
    "bool": True,
    "map": Map([]),
    "array": [],
    "ext": Ext(7, b"x"),
    "timestamp": Ext(-1, b"\x00" * 4),
}
LISTED = {
    0: "nil",
    1: "int",
    2: "float",
    3: "str",
    4: "bin",
    7: "bin",
    17: "bool",
    18: "bin",
    19: "map",
    20: "array",
    23: "str",
}


@pytest.mark.parametrize("code", LISTED)
@pytest.mark.parametrize("kind", SAMPLES)
def test_a_listed_type_has_the_listed_value(code: int, kind: str) -> None:
    event = one(write(["first", 1, 0, 1], ["n", code, 0, SAMPLES[kind]]))
    if kind == LISTED[code]:
        assert event.error_detail is None
    else:
        assert event.error_code == "bad_field"
        assert (event.error_detail or "").startswith(f"$.bins[1].value: expected {LISTED[code]} ")


def test_a_byte_that_messagepack_never_uses() -> None:
    event = one(unhex(WRITE_HEX.removesuffix("05") + "c1"))
    assert event.error_code == "not_messagepack"
    assert (
        event.error_detail
        == f"$.bins[0].value: byte 0xc1 at byte {len(unhex(WRITE_HEX)) - 1} is never used"
    )


@pytest.mark.parametrize("data", ["ff", "eda080", "c080", "e282", "f4908080"])
def test_invalid_utf_8(data: str) -> None:
    text = f"{0xA0 + len(data) // 2:02x}{data}"
    event = one(unhex(WRITE_HEX.removesuffix("01 00 05") + "03 00" + text))
    assert event.error_code == "bad_field"
    assert "$.bins[0].value: expected UTF-8 in the str at byte" in (event.error_detail or "")


def test_invalid_utf_8_in_a_map_key_and_a_set() -> None:
    event = one(unhex(WRITE_HEX.removesuffix("01 00 05") + "13 00 81 a161 81 a1ff 01"))
    assert (event.error_detail or "").startswith("$.bins[0].value.a[0]: expected UTF-8")
    event = one(unhex(WRITE_HEX.replace("a3736574", "a37365ff")))
    assert (event.error_detail or "").startswith("$.key.set: expected UTF-8")
    assert event.error_code == "bad_field"


def test_trailing_bytes() -> None:
    value = unhex(WRITE_HEX)
    event = one(value + b"\x00\x01")
    assert event.error_code == "trailing_bytes"
    assert event.error_detail == f"$: the value ends at byte {len(value)}, 2 more bytes follow"


def test_text_is_no_messagepack_array() -> None:
    assert one(b'{"msg":"write"}').error_code == "bad_shape"


GOLDEN = {
    "write": unhex(WRITE_HEX),
    "old write": unhex(OLD_WRITE_HEX),
    "delete of 5": unhex(DELETE_5_HEX),
    "delete of 2": unhex(DELETE_2_HEX),
    "all types": pack(
        write(
            ["i", 1, 0, 2**40],
            ["f", 2, 0, 2.5],
            ["s", 3, 0, "x" * 40],
            ["b", 4, 0, b"x" * 300],
            ["m", 19, 1, Map([(1, [Ext(7, b"123"), Ext(-1, b"1234")]), ("é", None)])],
            ["g", 23, 0, '{"type":"Point"}'],
            key=["ns", "set", DIGEST, b"key"],
            expiry=1682797792,
        )
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_prefix_is_truncated(name: str) -> None:
    value = GOLDEN[name]
    good(value)
    for length in range(1, len(value)):
        event = one(value[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated"), length
        assert f"ends at byte {length}" in (event.error_detail or "")


@pytest.mark.parametrize(
    "head", ["dd7fffffff", "dfffffffff", "dbffffffff", "c6ffffffff", "c9ffffffff07", "dcffff"]
)
def test_lengths_beyond_the_input_are_truncated(head: str) -> None:
    for code in (3, 4, 19, 20):
        start = unhex(WRITE_HEX.removesuffix("01 00 05")) + bytes([code, 0])
        assert one(start + unhex(head)).error_code == "truncated"
    assert one(unhex("dd7fffffff") * 2000).error_code in ("truncated", "too_deep")


# Depth


def nest(value: Any, levels: int, wrap: Any) -> Packed:
    packed = pack(value)
    for _ in range(levels):
        packed = wrap(packed)
    return Packed(packed)


@pytest.mark.parametrize(
    ("code", "wrap"),
    [
        (20, lambda value: b"\x91" + value),
        (19, lambda value: b"\x81\xa1k" + value),
        (19, lambda value: b"\x81\x01" + value),
        (19, lambda value: b"\x81" + value + b"\x01"),
    ],
)
def test_depth(code: int, wrap: Any) -> None:
    # Around a bin's value: record, payload, bins, bin; and the batch.
    room = limits.MAX_DEPTH - 4

    def from_deep_in_the_stack(frames: int, value: bytes) -> list[Event]:
        return from_deep_in_the_stack(frames - 1, value) if frames else decode(None, value)

    deepest = pack(write(["n", code, 0, nest(b"\x01", room, wrap)]))
    (event,) = from_deep_in_the_stack(120, deepest)
    assert event.error_detail is None
    with_timestamp = pack(write(["n", code, 0, nest(Ext(-1, b"1234"), room, wrap)]))
    (event,) = from_deep_in_the_stack(120, with_timestamp)
    assert event.error_detail is None

    batched = pack([write(["n", code, 0, nest(1, room, wrap)]), write()])
    first, second = decode(None, batched)
    assert (first.error_code, second.operation) == ("too_deep", "upsert")
    for levels in (room + 1, 600, 1100):
        event = one(write(["n", code, 0, nest(1, levels, wrap)]))
        assert event.error_code == "too_deep"
        assert (event.error_detail or "").startswith("$.bins[0].value")
        assert len(event.error_detail or "") < 400


@pytest.mark.parametrize(
    "head", [b"\x91", b"\x81\x01", b"\x81", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x02"]
)
def test_hundreds_of_thousands_of_levels(head: bytes) -> None:
    for value in (head * 300_000, head * 300_000 + b"\xc0", pack([write()])[:1] + head * 300_000):
        for event in decode(value[:1000] * 2, value):
            assert event.operation == "invalid"


# Batches


def test_batch() -> None:
    first, second, third = decode(
        None, pack([write(["n", 1, 0, 1]), delete(key=["ns", None, DIGEST, None]), write()])
    )
    assert [event.event_index for event in (first, second, third)] == [0, 1, 2]
    assert [event.operation for event in (first, second, third)] == ["upsert", "delete", "upsert"]
    assert first.after == b'{"n":1}'
    assert {metadata(event)["batch_size"] for event in (first, second, third)} == {3}


def test_batch_of_one_and_long_header() -> None:
    assert metadata(one([write()]))["batch_size"] == 1
    events = decode(None, b"\xdd\x00\x00\x00\x02" + pack(write()) * 2)
    assert [event.operation for event in events] == ["upsert", "upsert"]


@pytest.mark.parametrize(
    ("bad", "code", "detail"),
    [
        (None, "bad_shape", "$[{}]: expected an array"),
        ([], "bad_shape", "$[{}]: expected 3 elements"),
        ([2, 1, write()[2]], "bad_version", "$[{}].version"),
        ([1, 9, write()[2]], "bad_type", "$[{}].type"),
        ([write()], "bad_shape", "$[{}]"),
        ([write(), write(), write()], "bad_shape", "$[{}]: expected [version, type, payload]"),
        (write(["n", 3, 0, 1]), "bad_field", "$[{}].bins[0].value"),
        (
            write(["n", 20, 0, nest(1, 300, lambda value: b"\x91" + value)]),
            "too_deep",
            "$[{}].bins[0]",
        ),
    ],
)
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_bad_record_costs_no_good_one(bad: Any, code: str, detail: str, index: int) -> None:
    records = [write(["n", 1, 0, number]) for number in range(3)]
    records[index] = bad
    events = decode(None, pack(records))
    assert [event.event_index for event in events] == [0, 1, 2]
    for number, event in enumerate(events):
        assert metadata(event)["batch_size"] == 3
        if number == index:
            assert event.error_code == code
            assert (event.error_detail or "").startswith(detail.format(index))
        else:
            assert after(event) == {"n": number}


def test_invalid_utf_8_in_a_batch_costs_one_record() -> None:
    bad = unhex(WRITE_HEX.removesuffix("01 00 05") + "03 00 a1ff")
    events = decode(None, b"\x93" + bad + pack(write()) + bad)
    assert [event.error_code for event in events] == ["bad_field", None, "bad_field"]
    assert (events[2].error_detail or "").startswith("$[2].bins[0].value")


@pytest.mark.parametrize(
    "first", [b"\x05", b"\xc0", b"\xa1a", b"\x80", b"\xd6\x05abcd", b"\xa1\xff"]
)
@pytest.mark.parametrize(
    ("second", "code"),
    [
        (pack(write()), None),
        (pack(write())[:30], "truncated"),
        (b"", "truncated"),
        (b"\xc1", "not_messagepack"),
        (pack(write()).replace(b"\xa2ns", b"\xa2\xff\xff"), "bad_field"),
        (pack(write()) + b"\x00", "trailing_bytes"),
    ],
)
def test_a_first_element_that_is_no_record_costs_no_good_one(
    first: bytes, second: bytes, code: str | None
) -> None:
    record = pack(write(["n", 1, 0, 1]))
    events = decode(None, b"\x93" + first + record + second)
    bad = "bad_field" if first == b"\xa1\xff" else "bad_shape"
    found = [None, code] if code == "trailing_bytes" else [code]
    assert [event.error_code for event in events] == [bad, None, *found]
    assert [event.event_index for event in events] == list(range(len(events)))
    assert after(events[1]) == {"n": 1}
    assert {metadata(event)["batch_size"] for event in events} == {3}


@pytest.mark.parametrize("rest", [b"", b"\xc1", b"\xa1\xff", pack(write())[:30]])
def test_without_a_record_it_is_no_batch(rest: bytes) -> None:
    for value in (b"\x93\x05\x01" + rest, b"\x94\x05\xc0\x90" + rest, b"\x92\xa1\xff" + rest):
        event = one(value)
        assert event.operation == "invalid"
        assert event.metadata is None


def test_every_prefix_of_a_batch() -> None:
    records = [pack(write(["n", 3, 0, "x" * 40])), pack(delete(1, 2, 3)), pack(write())]
    ends = [1 + len(b"".join(records[:count])) for count in range(1, 4)]
    value = b"\x93" + b"".join(records)
    assert ends[-1] == len(value)
    for length in range(1, len(value)):
        *complete, last = decode(None, value[:length])
        assert len(complete) == sum(end <= length for end in ends)
        assert all(event.error_code is None for event in complete)
        assert (last.error_code, last.event_index) == ("truncated", len(complete))
        if complete:
            assert metadata(complete[0])["batch_size"] == 3


def test_unreadable_bytes_and_trailing_bytes_in_a_batch() -> None:
    good_one = pack(write())
    events = decode(None, b"\x93" + good_one + b"\xc1" + good_one)
    assert [event.error_code for event in events] == [None, "not_messagepack"]
    events = decode(None, b"\x92" + good_one * 3)
    assert [event.error_code for event in events] == [None, None, "trailing_bytes"]
    assert [event.event_index for event in events] == [0, 1, 2]


# Kafka keys and tombstones


def test_kafka_key() -> None:
    event = good(write(), pack(KEY))
    assert metadata(event)["event_key"] == ["ns", "set", DIGEST_64, None]
    event = good(delete(), pack(["ns", "set", DIGEST, b"\x01"]))
    assert metadata(event)["event_key"] == ["ns", "set", DIGEST_64, "AQ=="]
    assert metadata(event)["event_key_user_key_type"] == "bin"
    assert "event_key" not in metadata(good(write()))


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xc1",
        b"\x94",
        b"text",
        pack([]),
        pack(7),
        pack(["ns", None, DIGEST]),
        pack(["ns", None, DIGEST[1:], None]),
        pack([True, None, DIGEST, None]),
        pack(["ns", None, DIGEST, True]),
        pack([KEY, 1]),
        pack(["ns", None, DIGEST, Ext(-1, b"1234")]),
        pack(KEY) + b"\x00",
        b"\x91" * 300_000,
    ],
)
def test_a_kafka_key_that_is_none(key: bytes) -> None:
    shown = base64.b64encode(key).decode()
    assert metadata(good(write(), key))["event_key"] == shown
    invalid = one(b"\xc1", key)
    assert invalid.error_code == "not_messagepack" or invalid.error_code == "bad_shape"
    assert metadata(invalid)["event_key"] == shown
    tombstone = one(b"", key)
    assert (tombstone.operation, tombstone.record_key) == ("tombstone", None)
    assert metadata(tombstone) == {"event_key": shown}


def test_concatenated_keys() -> None:
    keys = [["ns", None, DIGEST, number] for number in range(3)]
    value = pack([write(), None, delete()])
    events = decode(pack(keys), value)
    for number, event in enumerate(events):
        assert metadata(event)["event_key"] == ["ns", None, DIGEST_64, number]
    # A batch that is cut short still gives each record its own key.
    *_, last = decode(pack(keys), value[:-1])
    assert metadata(last)["event_key"] == ["ns", None, DIGEST_64, 2]
    # One key too few: which is whose can't be told, so all are kept.
    for event in decode(pack(keys[:2]), value):
        assert metadata(event)["event_key"] == [["ns", None, DIGEST_64, n] for n in range(2)]
    assert metadata(good(write(), pack(keys[:1])))["event_key"] == ["ns", None, DIGEST_64, 0]


def test_one_key_for_a_batch() -> None:
    for event in decode(pack(KEY), pack([write(), delete()])):
        assert metadata(event)["event_key"] == ["ns", "set", DIGEST_64, None]


@pytest.mark.parametrize("value", [None, b""])
def test_tombstones(value: bytes | None) -> None:
    assert decode(None, value) == [Event(0, "tombstone")]
    for key in (pack(KEY), pack([KEY])):
        (event,) = decode(key, value)
        assert event == Event(
            0,
            "tombstone",
            source_schema="ns",
            source_table="set",
            record_key=b'{"digest":"YWJjZGVmZ2hpamtsbW5vcHFyc3Q="}',
            metadata=b'{"event_key":["ns","set","YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null]}',
        )
    (event,) = decode(pack([KEY, KEY]), value)
    assert event.record_key is None


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("python_udfs.aerospike.messagepack.MAX_PAYLOAD_BYTES", 10)
    assert one(write()).error_code == "too_large"


def test_many_values_behind_a_long_path() -> None:
    tree: Any = [b""] * 2000
    for _ in range(200):
        tree = Map([("a name of some length" * 20, tree)])
    event = one(write(["small", 3, 0, "x"], ["n", 19, 0, tree]))
    assert event.error_code == "too_large"
    assert "$.bins[1].value: the paths of nested" in (event.error_detail or "")


@pytest.mark.parametrize("count", [5000, 60_000])
def test_many_small_containers(count: int) -> None:
    """As many as a large payload holds are no reason to refuse it."""
    numbers = write(["l", 20, 0, [0] * count], ["m", 19, 0, Map([("k", 1)])])
    assert len(after(good(numbers))["l"]) == count
    lists = good(write(["l", 20, 0, [[1, 2, 3]] * count]))
    assert len(after(lists)["l"]) == count
    # Behind a timestamp the walker reads them.
    walked = one(write(["l", 20, 0, [Ext(-1, b"1234"), *[[1, 2, 3]] * count]]))
    assert len(after(walked)["l"]) == count + 1


def test_more_small_containers_than_memory_has_room_for() -> None:
    event = one(
        write(["l", 20, 0, Packed(b"\xdd" + struct.pack(">I", 500_000) + b"\x90" * 500_000)])
    )
    assert event.error_code == "too_large"
    assert str(event.error_detail).startswith("$.bins[0].value[")


def test_a_bug_is_no_bad_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("bug")

    monkeypatch.setattr("python_udfs.aerospike.messagepack._bins", broken)
    with pytest.raises(KeyError):
        decode(None, pack(write()))


@pytest.mark.parametrize("bad", [b"\x90", b"\xa1\xff"])
def test_a_batch_of_bad_elements_has_its_limit(bad: bytes) -> None:
    """Be they no records or unreadable; behind more than the budget has events for, nothing is
    read.
    """
    size = 20_000
    elements = [pack(write()), *[bad] * (size - 2), pack(write())]
    events = decode(None, b"\xdd" + struct.pack(">I", size) + b"".join(elements))
    assert 4000 < len(events) < size
    assert [event.event_index for event in events] == list(range(len(events)))
    assert events[0].operation == "upsert"
    codes = {event.error_code for event in events[1:-1]}
    assert len(codes) == 1 and codes <= {"bad_shape", "bad_field"}
    assert events[-1].error_code == "too_large"
    assert f"$[{len(events) - 1}]" in str(events[-1].error_detail)


def test_a_record_that_is_too_large_costs_no_good_one() -> None:
    bomb = write(["m", 19, 0, Map([("n" * 100_000, [b""] * 2000)])])
    events = decode(None, pack([write(), bomb, bomb, write(["n", 20, 0, [b"", b""]])]))
    assert [event.error_code for event in events] == [None, "too_large", "too_large", None]


# Properties


@settings(max_examples=150, deadline=None)
@given(messages)
def test_round_trip(tree: Any) -> None:
    value = pack(tree)
    events = decode(None, value)
    assert [event.error_detail for event in events] == [None] * len(events)
    assert pack(message(events)) == value


@settings(max_examples=150, deadline=None)
@given(messages, st.data())
def test_a_damaged_payload_gives_events(tree: Any, data: Any) -> None:
    damaged = bytearray(pack(tree))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    check(decode(bytes(damaged), bytes(damaged)))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
@example(b"\x90")
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\x93\x01\x01\xd6\xff")
def test_any_bytes_give_events(value: bytes) -> None:
    check(decode(value, value))


def check(events: list[Event]) -> None:
    assert [event.event_index for event in events] == list(range(len(events)))
    for event in events:
        assert (event.operation == "invalid") == (event.error_code is not None)
        for column in (event.record_key, event.after, event.metadata):
            if column is not None:
                assert isinstance(json.loads(column), dict)
