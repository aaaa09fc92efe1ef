"""aerospike_json against the vendor's page, its examples verbatim, and what connectors ship."""

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from python_udfs.aerospike.json import decode
from python_udfs.core import limits
from python_udfs.core.events import MAX_TIME_MS, Event

DIGEST = "YWJjZGVmZ2hpamtsbW5vcHFyc3Q="
RECORD_KEY = b'{"digest":"YWJjZGVmZ2hpamtsbW5vcHFyc3Q="}'
KEY = ["ns", "set", DIGEST, None]
LUT = 1617167159548

# The page's examples as they stand there, commas before closing brackets included.
WRITE_EXAMPLE = b"""{
"msg": "write",
"key": ["ns", "set", "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null],
"gen": 4,
"exp": 1682797792,
"lut": 1617167159548,
"bins": [
{
"name": "myString",
"type": "str",
"value": "a string value"
},
{
"name": "myBlob",
"type": "blob",
"value": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
},
{
"name": "myList",
"type": "list",
"value": ["abc", "def", "ghi", "jkl"],
"ordered": true,
},
{
"name": "myMap",
"type": "map",
"value": {
"i": 42,
"f": 3.1415,
"l": [3, 2, 1, 0]
},
"order": "key-value"
},
{
"name": "myGeo",
"type": "geojson",
"value": { "type": "Point", "coordinates": [1.30824, 103.91327] }
}
]
}"""
DELETE_EXAMPLE = b"""{
"msg": "delete",
"key": ["ns", null, "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null],
"durable": true,
"gen": 4,
"lut": 1617167159548
}
"""
KEYS_EXAMPLE = b"""[
["users", "premium", "k9lDquN7AXrX4BGwwdLiFDwvs30=", "id1234"],
["users", "premium", "JQlDquN7AXrX4BGwwdLiFDwvs30=", "id1235"],
]"""
BATCH_EXAMPLE = b"[\n" + WRITE_EXAMPLE + b",\n" + DELETE_EXAMPLE + b"]"


def write(*bins: Any, **fields: Any) -> dict[str, Any]:
    record = {"msg": "write", "key": KEY, "gen": 1, "exp": 0, "lut": LUT, "bins": list(bins)}
    return {**record, **fields}


def delete(**fields: Any) -> dict[str, Any]:
    return {"msg": "delete", "key": KEY, **fields}


def without(record: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def a_bin(kind: Any, value: Any, **more: Any) -> dict[str, Any]:
    return {"name": "n", "type": kind, "value": value, **more}


def one(value: Any, key: bytes | None = None) -> Event:
    events = decode(key, value if isinstance(value, bytes) else json.dumps(value).encode())
    assert len(events) == 1
    return events[0]


def good(value: Any, key: bytes | None = None) -> Event:
    event = one(value, key)
    assert event.error_detail is None
    assert event.operation in ("upsert", "delete")
    return event


def exact(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text, parse_float=Decimal)


def test_the_write_example() -> None:
    assert one(WRITE_EXAMPLE) == Event(
        event_index=0,
        operation="upsert",
        source_schema="ns",
        source_table="set",
        record_key=RECORD_KEY,
        after=b'{"myString":"a string value","myBlob":"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=",'
        b'"myList":["abc","def","ghi","jkl"],"myMap":{"i":42,"f":3.1415,"l":[3,2,1,0]},'
        b'"myGeo":{"type":"Point","coordinates":[1.30824,103.91327]}}',
        occurred_at=LUT,
        expires_at=1682797792000,
        metadata=b'{"generation":4,"expiry":1682797792,"lut":1617167159548,"bins":{'
        b'"myString":{"type":"str"},"myBlob":{"type":"blob"},'
        b'"myList":{"type":"list","ordered":true},'
        b'"myMap":{"type":"map","order":"key-value"},"myGeo":{"type":"geojson"}}}',
    )


def test_the_delete_example() -> None:
    assert one(DELETE_EXAMPLE) == Event(
        event_index=0,
        operation="delete",
        source_schema="ns",
        record_key=RECORD_KEY,
        occurred_at=LUT,
        metadata=b'{"generation":4,"lut":1617167159548,"durable":true}',
    )


def test_the_batch_example_with_the_example_of_concatenated_keys() -> None:
    first, second = decode(KEYS_EXAMPLE, BATCH_EXAMPLE)
    assert (first.event_index, first.operation) == (0, "upsert")
    assert (second.event_index, second.operation) == (1, "delete")
    assert first.after == one(WRITE_EXAMPLE).after
    assert exact(first.metadata)["event_key"] == [
        "users",
        "premium",
        "k9lDquN7AXrX4BGwwdLiFDwvs30=",
        "id1234",
    ]
    assert exact(second.metadata)["event_key"][3] == "id1235"
    assert exact(second.metadata)["batch_size"] == 2


def test_a_real_write() -> None:
    # aerospike-community/aerospike-ansible, README.md
    event = good(
        b'{"msg":"write","key":["test",null,"pEPwXQXZYiArWau0Aq+uFzfb9mo=",null],"gen":1,"exp":0,'
        b'"lut":1636468874425,"bins":[{"name":"value","type":"int","value":1}]}'
    )
    assert event.after == b'{"value":1}'
    assert event.record_key == b'{"digest":"pEPwXQXZYiArWau0Aq+uFzfb9mo="}'
    assert (event.source_schema, event.source_table) == ("test", None)
    assert (event.occurred_at, event.expires_at) == (1636468874425, None)


def test_a_number_with_an_exponent_stays_no_integer() -> None:
    text = json.dumps(write(a_bin("list", ["here"])))
    sent = text.replace('"here"', "1E0,1.0e1,-0e0,2E+1,1.50")
    assert one(sent.encode()).after == b'{"n":[1.0,10.0,-0.0,2E+1,1.50]}'


def test_a_real_delete_may_lack_all_but_its_key() -> None:
    event = good(delete())
    assert (event.source_table, event.occurred_at, event.metadata) == ("set", None, b"{}")


def test_a_delete_may_carry_everything() -> None:
    event = good(delete(durable=False, gen=3, exp=1682797792, lut=LUT))
    assert event.expires_at == 1682797792000
    assert exact(event.metadata) == {
        "generation": 3,
        "expiry": 1682797792,
        "lut": LUT,
        "durable": False,
    }


def test_a_write_may_lack_what_the_server_does_not_ship() -> None:
    event = good(without(write(), "gen", "exp", "lut"))
    assert (event.after, event.occurred_at, event.expires_at) == (b"{}", None, None)
    assert exact(event.metadata) == {"bins": {}}
    event = good(write(gen=None, exp=None, lut=None, durable=None))
    assert exact(event.metadata) == {
        "generation": None,
        "expiry": None,
        "lut": None,
        "durable": None,
        "bins": {},
    }


@pytest.mark.parametrize(
    ("lut", "milliseconds"),
    [(0, None), (1617167159, None), (LUT, LUT), (MAX_TIME_MS + 1, None), (-LUT, None)],
)
def test_lut(lut: int, milliseconds: int | None) -> None:
    event = good(write(lut=lut))
    assert event.occurred_at == milliseconds
    assert exact(event.metadata)["lut"] == lut


@pytest.mark.parametrize(
    ("expiry", "milliseconds"),
    [(0, None), (-1, None), (1682797792, 1682797792000), (10**400, None)],
)
def test_expiry(expiry: int, milliseconds: int | None) -> None:
    event = good(write(exp=expiry))
    assert event.expires_at == milliseconds
    assert exact(event.metadata)["expiry"] == expiry


@pytest.mark.parametrize(
    ("user_key", "kind"),
    [("id", "str"), ("", "str"), (2**63 - 1, "int"), (-5, "int"), ("AQID", "str"), (1.5, "float")],
)
def test_user_keys(user_key: Any, kind: str) -> None:
    metadata = exact(good(write(key=["ns", None, DIGEST, user_key])).metadata)
    assert (metadata["user_key"], metadata["user_key_type"]) == (user_key, kind)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("str", '"a \\u0000 \u2028 \\" ü"'),
        ("bool", "true"),
        ("bool", "false"),
        ("int", "-9223372036854775808"),
        ("int", "123456789012345678901234567890"),
        ("float", "3.141592653589793238462643383279"),
        ("float", "1.50"),
        ("float", "-0.0"),
        ("float", "3"),
        ("float", "1E+400"),
        ("float", '"NaN"'),
        ("float", '"-Infinity"'),
        ("blob", '""'),
        ("blob", '"AAE="'),
        ("list", '[1,[2.50,{"a":null}],"x",true]'),
        ("map", '{"a":{"b":[{}]},"":1}'),
        ("geojson", '{"type":"Point","coordinates":[1.30824,103.91327000000000000001]}'),
    ],
)
def test_every_bin_type_keeps_its_value(kind: str, text: str) -> None:
    value = f'{{"msg":"write","key":["ns",null,"{DIGEST}",null],"bins":[{{"name":"n",'
    value += f'"type":"{kind}","value":{text}}}]}}'
    event = good(value.encode())
    assert exact(event.after) == {"n": json.loads(text, parse_float=Decimal)}
    assert str(exact(event.after)["n"]) == str(json.loads(text, parse_float=Decimal))
    assert exact(event.metadata)["bins"] == {"n": {"type": kind}}


@pytest.mark.parametrize("kind", ["hll", "", "STR", "null"])
@pytest.mark.parametrize("value", [None, 1, "x", [1], {"a": {"b": 1.5}}])
def test_an_unknown_bin_type_is_kept(kind: str, value: Any) -> None:
    event = good(write(a_bin(kind, value)))
    assert exact(event.after) == {"n": value}
    assert exact(event.metadata)["bins"] == {"n": {"type": kind, "unknown": True}}


def test_unknown_properties_are_kept() -> None:
    event = good(
        write(
            a_bin("list", [], ordered=False, order=None, more={"a": 1.5}, nested=1, unknown=2),
            server="a:3000",
            generation="taken",
            extra=[1],
            old_key="x",
        )
    )
    metadata = exact(event.metadata)
    assert metadata["server"] == "a:3000"
    assert metadata["generation"] == 1
    assert metadata["extra"] == {"generation": "taken", "extra": [1], "old_key": "x"}
    assert metadata["bins"]["n"] == {
        "type": "list",
        "ordered": False,
        "order": None,
        "more": {"a": Decimal("1.5")},
        "extra": {"nested": 1, "unknown": 2},
    }
    assert exact(good(delete(bins=[1])).metadata) == {"extra": {"bins": [1]}}


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        ([], "bad_shape", "$: expected a record or a batch of records, got an empty array"),
        (5, "bad_shape", "$: expected an object, got an integer"),
        (1.5, "bad_shape", "$: expected an object"),
        (True, "bad_shape", "$: expected an object, got a boolean"),
        ("text", "bad_shape", "$: expected an object, got a string"),
        ({}, "bad_field", '$.msg: expected "write" or "delete", got nothing'),
        (write(msg=1), "bad_field", "$.msg"),
        (write(msg="update"), "bad_type", '$.msg: expected "write" or "delete", got \'update\''),
        (write(msg="WRITE"), "bad_type", "$.msg"),
        (without(write(), "key"), "bad_field", "$.key: expected an array"),
        (write(key={}), "bad_field", "$.key: expected an array"),
        (write(key=KEY[:3]), "bad_shape", "$.key: expected 4 elements"),
        (write(key=[*KEY, None]), "bad_shape", "got 5"),
        (write(key=[None, *KEY[1:]]), "bad_field", "$.key[0] (namespace): expected a string"),
        (write(key=["ns", 1, DIGEST, None]), "bad_field", "$.key[1] (set)"),
        (write(key=["ns", None, None, None]), "bad_field", "$.key[2] (digest)"),
        (write(key=["ns", None, "x!", None]), "bad_field", "got text that is not base64"),
        (write(key=["ns", None, "ü", None]), "bad_field", "got text that is not base64"),
        (write(key=["ns", None, DIGEST[:-1], None]), "bad_field", "got text that is not base64"),
        (write(key=["ns", None, "AAAA", None]), "bad_field", "20 bytes, got 3 bytes"),
        (write(key=["ns", None, DIGEST, True]), "bad_field", "$.key[3] (user key)"),
        (write(key=["ns", None, DIGEST, [1]]), "bad_field", "$.key[3] (user key)"),
        (write(gen="1"), "bad_field", "$.gen: expected an integer, got a string"),
        (write(exp=1.5), "bad_field", "$.exp: expected an integer, got a number with"),
        (write(lut=True), "bad_field", "$.lut: expected an integer, got a boolean"),
        (delete(durable=1), "bad_field", "$.durable: expected true or false"),
        (without(write(), "bins"), "bad_field", "$.bins: expected an array, got nothing"),
        (write(bins=None), "bad_field", "$.bins: expected an array, got null"),
        (write(bins={}), "bad_field", "$.bins: expected an array, got an object"),
        (write("bin"), "bad_shape", "$.bins[0]: expected an object"),
        (write(without(a_bin("int", 1), "name")), "bad_field", "$.bins[0].name: expected a string"),
        (write(without(a_bin("int", 1), "type")), "bad_field", "$.bins[0].type: expected a string"),
        (write(a_bin(["int"], 1)), "bad_field", "$.bins[0].type"),
        (
            write(without(a_bin("int", 1), "value")),
            "bad_field",
            "$.bins[0].value: expected a value",
        ),
        (write(a_bin("int", 1), a_bin("int", 2)), "bad_field", "$.bins[1].name: the name 'n'"),
        (write(a_bin("list", [], ordered="yes")), "bad_field", "$.bins[0].ordered"),
        (write(a_bin("map", {}, order=1)), "bad_field", "$.bins[0].order"),
        (write(a_bin("blob", "AA")), "bad_field", "$.bins[0].value: expected base64"),
        (write(a_bin("int", 1.0)), "bad_field", "$.bins[0].value: expected an integer"),
        (write(a_bin("float", "1")), "bad_field", "$.bins[0].value: expected a number"),
    ],
)
def test_errors(value: Any, code: str, detail: str) -> None:
    event = one(value)
    assert event.operation == "invalid"
    assert event.error_code == code
    assert detail in (event.error_detail or "")
    assert event[2:-2] == (None,) * 9


SAMPLES: dict[str, Any] = {
    "null": None,
    "bool": True,
    "int": 1,
    "float": 1.5,
    "str": "AA==",
    "list": [],
    "map": {},
}
FITTING = {
    "str": {"str"},
    "bool": {"bool"},
    "int": {"int"},
    "float": {"int", "float"},
    "blob": {"str"},
    "list": {"list"},
    "map": {"map"},
    "geojson": {"map"},
}


@pytest.mark.parametrize("kind", FITTING)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_value_fits_its_type(kind: str, sample: str) -> None:
    event = one(write(a_bin(kind, SAMPLES[sample])))
    if sample in FITTING[kind]:
        assert event.error_detail is None
    else:
        assert event.error_code == "bad_field"
        assert (event.error_detail or "").startswith("$.bins[0].value: expected ")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"not json", "not_json"),
        (b"{'msg':1}", "not_json"),
        (b"\x93\x01\x01", "bad_field"),
        (b'{"msg":"write"}}', "trailing_bytes"),
        (b'{"msg":"write"} {}', "trailing_bytes"),
        (b'{"msg":"\xff"}', "bad_field"),
        (b'{"msg":NaN}', "not_json"),
        (b"[,]", "not_json"),
        (b"[1,,2]", "not_json"),
        (b"[" * 300_000, "too_deep"),
        (b'{"a":' * 300_000, "too_deep"),
    ],
)
def test_text_that_is_no_json(value: bytes, code: str) -> None:
    event = one(value)
    assert event.operation == "invalid"
    if code == "bad_field":
        assert event.error_code in ("bad_field", "not_json")
    else:
        assert event.error_code == code


@pytest.mark.parametrize("value", [WRITE_EXAMPLE, DELETE_EXAMPLE.rstrip()])
def test_every_prefix_is_truncated(value: bytes) -> None:
    for length in range(1, len(value)):
        event = one(value[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated"), length


def test_every_prefix_of_a_batch() -> None:
    records = [json.dumps(write(a_bin("str", 'a ] } , [ { \\ " b'))).encode(), DELETE_EXAMPLE]
    value = b"[" + records[0] + b", " + records[1].strip() + b",\n]"
    ends = [1 + len(records[0]), len(value) - 3]
    for length in range(1, len(value)):
        *complete, last = decode(None, value[:length])
        assert len(complete) == sum(end <= length for end in ends)
        assert all(event.error_code is None for event in complete)
        assert (last.error_code, last.event_index) == ("truncated", len(complete))


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"null", "bad_shape"),
        (b"[]", "bad_shape"),
        (b"[%s]" % json.dumps(write()).encode(), "bad_shape"),
        (b'{"msg":"write"}', "bad_field"),
        (b'{"msg":"other"}', "bad_type"),
        (b'{"msg":"write","a":"\xff"}', "bad_field"),
        (b'{"msg":"write","a":"\\ud800"}', "bad_field"),
        (b'{"msg":"write" "a"}', "not_json"),
        (b"{} {}", "not_json"),
        (b"tru", "not_json"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", "too_deep"),
    ],
)
def test_a_bad_record_costs_no_good_one(bad: bytes, code: str, index: int) -> None:
    records = [json.dumps(write(a_bin("int", number))).encode() for number in range(3)]
    records[index] = bad
    events = decode(None, b"[" + b",".join(records) + b"]")
    assert [event.event_index for event in events] == [0, 1, 2]
    for number, event in enumerate(events):
        assert exact(event.metadata)["batch_size"] == 3
        if number == index:
            assert event.error_code == code
            assert (event.error_detail or "").startswith(f"$[{index}]")
        else:
            assert exact(event.after) == {"n": number}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (b'[D,{"msg":"\\ud800"},{"msg', [None, "bad_field", "truncated"]),
        (b'[D,{"msg":"\xff"},{"msg":"\xff"},', [None, "bad_field", "bad_field", "truncated"]),
        (b'[{"msg":"\\ud800"},{"msg', ["bad_field", "truncated"]),
        (b'[D,{"msg":"\\ud800","m', [None, "truncated"]),
        (b'[D,{"a":tru},{"msg', [None, "not_json", "truncated"]),
        (b'[D,{"a":tru}', [None, "not_json", "truncated"]),
        (b'[D,{"msg":1x},D', [None, "not_json", None, "truncated"]),
        (b"[D,{]", [None, "not_json"]),
        (b'[D,{"a":[1,2},D]', [None, "not_json"]),
        (b'[D,{"a":{"b":1},D]', [None, "not_json"]),
        (b'[{"a":tru},D}', ["not_json", None, "not_json"]),
        (b'[{"a":tru},D,,D]', ["not_json", None, "not_json"]),
        (b'[{"a":tru},D .5', ["not_json", None, "not_json"]),
        (b'[{"a":tru},D]x', ["not_json", None, "trailing_bytes"]),
        (b'\xef\xbb\xbf[{"a":tru},D]x', ["not_json", None, "trailing_bytes"]),
        # A comma too few: the record before it is complete, what follows to the next one is not.
        (b"[D D]", [None, "not_json"]),
        (b"[DD]", [None, "not_json"]),
        (b"[D D D,D]", [None, "not_json", None]),
        (b"[D,D D,D]", [None, None, "not_json", None]),
        (b"[D 5,D]", [None, "not_json", None]),
        (b"[D :{} ,D]", [None, "not_json", None]),
        (b"[5 D,D]", ["not_json", None]),
        (b"[[D] D,D]", ["not_json", None]),
        (b"[D D", [None, "not_json"]),
        (b"[D D}", [None, "not_json", "not_json"]),
        (b'[D {"msg', [None, "not_json"]),
        (b'[D "msg', [None, "not_json"]),
    ],
)
def test_each_defect_of_a_batch_is_told_once(text: bytes, codes: list[str | None]) -> None:
    text = text.replace(b"D", json.dumps(delete()).encode())
    events = decode(None, text)
    assert [event.error_code for event in events] == codes
    details = [event.error_detail for event in events if event.error_detail is not None]
    assert sum("expected 'true'" in detail for detail in details) <= 1
    if codes[-1] == "truncated":
        assert details[-1].startswith(f"the text ends at byte {len(text)}, inside a")
    if codes[-1] == "trailing_bytes":
        assert details[-1].endswith(f"from byte {len(text) - 1}")


@pytest.mark.parametrize("bad", [b'{"msg":"\\ud800"}', b'{"a":"\xff"}', b'{"msg":1}', b"[1]"])
def test_every_prefix_of_a_batch_with_a_bad_record(bad: bytes) -> None:
    record = json.dumps(delete()).encode()
    value = b"[" + b",".join([bad, record, bad, record]) + b"]"
    ends = [1 + len(b",".join([bad, record, bad, record][:count])) for count in range(1, 5)]
    for length in range(1, len(value)):
        *complete, last = decode(None, value[:length])
        assert len(complete) == sum(end <= length for end in ends)
        assert all(event.operation == "delete" for event in complete[1::2])
        assert (last.error_code, last.event_index) == ("truncated", len(complete))


def test_a_batch_with_broken_brackets_or_text_behind_it() -> None:
    record = json.dumps(write()).encode()
    for end, code in [
        (b"}", "not_json"),
        (b",}", "not_json"),
        (b",,{}]", "not_json"),
        (b"]x", "trailing_bytes"),
        (b"][]", "trailing_bytes"),
    ]:
        first, last = decode(None, b"[" + record + end)
        assert (first.operation, last.error_code, last.event_index) == ("upsert", code, 1)


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ('{"msg":"%s"}', "$.msg: expected", "xxx'"),
        ('{"%s":1,"%s":2}', "$: the property 'xxx", "xxx' comes twice"),
        ('{"bins":[{"%s":1,"%s":2}]}', "$.bins[0]: the property 'xxx", "xxx' comes twice"),
        ('{"bins":[{"name":"n","type":"int","value":1,"%s":{"a":1,"a":2}}]}', "$.bins[0].x", "e"),
        (
            '{"bins":[{"name":"%s","type":"int","value":1},{"name":"%s","type":"x","value":1}]}',
            "$.bins[1].name: the name 'xxx",
            "xxx' came before",
        ),
        (
            '{"bins":[{"name":"n","type":"geojson","value":{"%s":{"a":1,"a":2}}}]}',
            "$.bins[0].value.xxx",
            "xxx: the property 'a' comes twice",
        ),
        ('{"more":{"%s":[{"a":1,"a":2}]}}', "$.more.xxx", "xxx[0]: the property 'a' comes twice"),
    ],
)
def test_a_long_name_or_value_is_shortened(text: str, start: str, end: str) -> None:
    others = without(write(), *(name for name in ("msg", "bins") if f'"{name}":' in text))
    event = one((json.dumps(others)[:-1] + "," + text.replace("%s", LONG)[1:]).encode())
    detail = event.error_detail or ""
    assert detail.startswith(start) and detail.endswith(end)
    assert "xxx...xxx" in detail
    assert len(detail) < 300


def test_a_position_behind_a_byte_order_mark() -> None:
    first, second = decode(None, b'\xef\xbb\xbf[{"msg":x},' + json.dumps(delete()).encode() + b"]")
    assert (first.error_detail or "").startswith("$[0], from byte 4 on: no JSON: ")
    assert second.operation == "delete"


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_with_too_many_digits(sign: str) -> None:
    text = json.dumps(write(a_bin("int", 0))).replace('"value": 0', f'"value": {sign}{"7" * 5000}')
    assert one(text.encode()).error_detail == (
        "$.bins[0].value: expected an integer for type 'int', "
        "got an integer with too many digits (5000)"
    )


# A property that comes twice


def test_a_property_that_comes_twice() -> None:
    write_text = json.dumps(write(a_bin("int", 1)))
    for old, new, detail in [
        ('"gen": 1', '"gen": 1, "gen": 2', "$: the property 'gen' comes twice"),
        ('"type": "int"', '"type": "int", "type": "str"', "$.bins[0]: the property 'type'"),
        ('"gen": 1', '"gen": 1, "more": [{"a": 1, "\\u0061": 2}]', "$.more[0]: the property 'a'"),
        ('"gen": 1', '"gen": 1, "gen" : 2', "$: the property 'gen' comes twice"),
        ('"gen": 1', '"gen": 1, "gen"\n\t : 2, "x\\u0022": 1', "$: the property 'gen'"),
        # The escape is written as a colon again, behind what looks like the end of a name.
        ('"gen": 1', '"gen": 1, "gen": 2, "x": "\\"\\u003a"', "$: the property 'gen'"),
        ('"gen": 1', '"gen": 1, "gen": 2, "x": "\\"\\u003A"', "$: the property 'gen'"),
    ]:
        event = one(write_text.replace(old, new).encode())
        assert event.error_code == "bad_field"
        assert detail in (event.error_detail or "")
    geo = write_text.replace('"int", "value": 1', '"geojson", "value": {"a": {"b": 1, "b": 1}}')
    assert "$.bins[0].value.a: the property 'b'" in (one(geo.encode()).error_detail or "")


def test_names_that_only_look_as_if_they_came_twice() -> None:
    for text in ('a":b', 'a" : b', '":', "\\u0022:", "x :", '\\":'):
        event = good(write(a_bin("map", {"k": text, text: [{"k": 1}, {"k": 2}]})))
        assert exact(event.after) == {"n": {"k": text, text: [{"k": 1}, {"k": 2}]}}
        assert exact(event.metadata)["bins"]["n"] == {"type": "map"}


def test_a_map_with_a_key_twice_becomes_pairs() -> None:
    # What a map with the keys 1 and "1" becomes, in the connector.
    value = json.dumps(write(a_bin("map", 0), {"name": "l", "type": "list", "value": 1}))
    value = value.replace('"value": 0', '"value": {"1": "a", "1": {"x": 1.50, "x": [2]},}')
    value = value.replace('"value": 1', '"value": [{"k": {"": 0, "": 9e999}}]')
    event = good(b"\xef\xbb\xbf" + value.encode())
    assert event.after == (
        b'{"n":[["1","a"],["1",[["x",1.50],["x",[2]]]]],"l":[{"k":[["",0],["",9E+999]]}]}'
    )
    assert exact(event.metadata)["bins"] == {
        "n": {"type": "map", "nested": {"$": "map", "$[1][1]": "map"}},
        "l": {"type": "list", "nested": {"$[0].k": "map"}},
    }


def test_depth() -> None:
    room = limits.MAX_DEPTH - 4  # around the value: record, bins, bin

    def nested(levels: int) -> bytes:
        text = json.dumps(write(a_bin("list", 0)))
        return text.replace('"value": 0', '"value": ' + "[" * levels + "]" * levels).encode()

    good(nested(room))
    assert one(nested(room + 2)).error_code == "too_deep"
    twice = nested(1).replace(b"[]", b'[{"a":1,"a":' * 120 + b"0" + b"}]" * 120)

    def from_deep_in_the_stack(frames: int) -> list[Event]:
        return from_deep_in_the_stack(frames - 1) if frames else decode(None, twice)

    (event,) = from_deep_in_the_stack(150)
    assert event.error_detail is None


# Kafka keys and tombstones


@pytest.mark.parametrize(
    "text",
    [
        b'["ns","set","YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null]',
        b' ["ns", "set", "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null,]\n',
        b'[["ns","set","YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null],]',
    ],
)
def test_kafka_keys(text: bytes) -> None:
    assert exact(good(write(), text).metadata)["event_key"] == KEY
    for value in (None, b"", b"null", b'"default"', b" null\n"):
        assert decode(text, value) == [
            Event(
                0,
                "tombstone",
                source_schema="ns",
                source_table="set",
                record_key=RECORD_KEY,
                metadata=b'{"event_key":["ns","set","YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null]}',
            )
        ]


def test_a_number_as_user_key_keeps_its_digits() -> None:
    key = b'["ns",null,"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",1.50]'
    assert decode(key, b"")[0].metadata == b'{"event_key":' + key + b"}"
    assert b'"event_key":' + key in (good(write(), key).metadata or b"")


@pytest.mark.parametrize(
    "key",
    [b"", b"null", b'"default"', b"[]", b"{", b"\x94\xa2ns", b"[[]]", b'["ns",null,"AAAA",null]'],
)
def test_a_kafka_key_that_is_none(key: bytes) -> None:
    shown = base64.b64encode(key).decode()
    assert exact(good(write(), key).metadata)["event_key"] == shown
    assert exact(one(b"{", key).metadata) == {"event_key": shown}
    tombstone = one(b"null", key)
    assert (tombstone.record_key, exact(tombstone.metadata)) == (None, {"event_key": shown})


def test_tombstones_without_a_key() -> None:
    for value in (None, b"", b"null", b'"default"'):
        assert decode(None, value) == [Event(0, "tombstone")]
    (event,) = decode(KEYS_EXAMPLE, None)
    assert (event.operation, event.record_key) == ("tombstone", None)
    assert len(exact(event.metadata)["event_key"]) == 2


def test_a_batch_cut_short_gives_each_record_its_own_key() -> None:
    first, second = decode(KEYS_EXAMPLE, BATCH_EXAMPLE[:-40])
    assert exact(first.metadata)["event_key"][3] == "id1234"
    assert second.error_code == "truncated"
    assert exact(second.metadata)["event_key"][3] == "id1235"


@pytest.mark.parametrize("end", ["", ",", ',{"msg', ',{"msg":1x', ",{]", ",,", "}"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_concatenated_keys_of_a_batch_that_breaks_off(count: int, end: str) -> None:
    keys = [["ns", None, DIGEST, number] for number in range(count)]
    record = json.dumps(delete())
    *events, last = decode(
        json.dumps(keys).encode(), f'[{record},{{"a":tru}},{record}{end}'.encode()
    )
    # The last event stands for an element or for none, after which there may have been more.
    begun = 4 if end.startswith(",{") else 3
    assert [event.error_code for event in events] == [None, "not_json", None]
    for number, event in enumerate([*events, last][:begun]):
        shown = exact(event.metadata)["event_key"]
        assert shown == (keys[number] if count >= begun else keys)
    if begun == count == 3:
        assert last.metadata is None


@pytest.mark.parametrize("end", ["x", " ]", "[]", "\xff"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_batch_with_bytes_behind_it_keeps_its_size(count: int, end: str) -> None:
    keys = [["ns", None, DIGEST, number] for number in range(2)]
    text = json.dumps([delete()] * count).encode() + end.encode("latin-1")
    *events, last = decode(json.dumps(keys).encode(), text)
    for number, event in enumerate(events):
        assert event.operation == "delete"
        shown = keys[number] if count == 2 else keys
        assert exact(event.metadata) == {"event_key": shown, "batch_size": count}
    assert (last.error_code, last.event_index) == ("trailing_bytes", count)
    assert exact(last.metadata)["batch_size"] == count
    assert ("event_key" in exact(last.metadata)) == (count != 2)


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("python_udfs.aerospike.json.MAX_PAYLOAD_BYTES", 10)
    assert one(WRITE_EXAMPLE).error_code == "too_large"


def test_many_values_behind_a_long_path() -> None:
    tree = "[" + ",".join(['{"a":1,"a":2}'] * 2000) + "]"
    for _ in range(200):
        tree = f'{{"{"a name of some length" * 20}":{tree}}}'
    text = json.dumps(write(a_bin("map", 0))).replace('"value": 0', f'"value": {tree}')
    event = one(text.encode())
    assert event.error_code == "too_large"
    assert "$.bins[0].value: the paths of nested" in (event.error_detail or "")


@pytest.mark.parametrize("bad", [b"1", b"tru"])
def test_a_batch_of_bad_elements_has_its_limit(bad: bytes) -> None:
    """Be they no records or no JSON; behind more than the budget has events for, nothing is
    read.
    """
    record = json.dumps(delete()).encode()
    elements = [record, *[bad] * 20_000, record]
    events = decode(None, b"[" + b",".join(elements) + b"]")
    assert 4000 < len(events) < 20_000
    assert [event.event_index for event in events] == list(range(len(events)))
    assert events[0].operation == "delete"
    codes = {event.error_code for event in events[1:-1]}
    assert len(codes) == 1 and codes <= {"bad_shape", "not_json"}
    assert events[-1].error_code == "too_large"
    assert f"$[{len(events) - 1}]" in str(events[-1].error_detail)


def test_a_bug_is_no_bad_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("bug")

    monkeypatch.setattr("python_udfs.aerospike.json._bins", broken)
    with pytest.raises(KeyError):
        decode(None, WRITE_EXAMPLE)


# Properties

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
particles = st.one_of(
    st.tuples(st.just("str"), st.text(max_size=8)),
    st.tuples(st.just("int"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("float"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just("list"), st.lists(values, max_size=3)),
    st.tuples(st.just("map"), st.dictionaries(st.text(max_size=5), values, max_size=3)),
    st.tuples(st.just("other"), values),
)
records = st.builds(
    lambda bins, gen: write(
        *({"name": name, "type": kind, "value": value} for name, (kind, value) in bins.items()),
        gen=gen,
    ),
    st.dictionaries(st.text(max_size=8), particles, max_size=4),
    st.none() | st.integers(),
)


def numbers_aside(value: Any) -> str:
    """Comparable text in which 1 is not true, and 1e2 is 1E+2."""
    return repr(json.loads(json.dumps(value), parse_float=Decimal, parse_int=Decimal))


@settings(max_examples=100, deadline=None)
@given(st.lists(records, min_size=1, max_size=3), st.sampled_from([(",", ":"), (" , ", " : ")]))
def test_nothing_is_lost(batch: list[dict[str, Any]], separators: tuple[str, str]) -> None:
    text = json.dumps(batch, separators=separators, ensure_ascii=False).encode()
    events = decode(None, text)
    assert len(events) == len(batch)
    for record, event in zip(batch, events, strict=True):
        assert event.error_detail is None
        assert event.after is not None and event.metadata is not None
        image, metadata = json.loads(event.after), json.loads(event.metadata)
        assert metadata["generation"] == record["gen"]
        rebuilt = [
            {"name": name, "type": metadata["bins"][name]["type"], "value": value}
            for name, value in image.items()
        ]
        assert numbers_aside(rebuilt) == numbers_aside(record["bins"])


@settings(max_examples=150, deadline=None)
@given(st.lists(records, max_size=2), st.data())
@example([], None)
def test_a_damaged_payload_gives_events(batch: list[dict[str, Any]], data: Any) -> None:
    damaged = bytearray(json.dumps(batch).encode())
    for _ in range(data.draw(st.integers(1, 3)) if data is not None else 0):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    events = decode(bytes(damaged), bytes(damaged))
    assert [event.event_index for event in events] == list(range(len(events)))
    for event in events:
        assert (event.operation == "invalid") == (event.error_code is not None)
        for column in (event.record_key, event.after, event.metadata):
            if column is not None:
                assert isinstance(json.loads(column), dict)
