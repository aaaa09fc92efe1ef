"""The fast path for Aerospike's JSON gives what ``decode`` gives, message by message."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import each_alone
from support.bombs import BOMBS
from test_aerospike_json import DIGEST, KEY, delete, records, without, write

from python_udfs.aerospike import json as aerospike_json
from python_udfs.aerospike import messagepack
from python_udfs.aerospike.fast_json import JsonWrites
from python_udfs.aerospike.fast_messagepack import MessagePackWrites
from python_udfs.aerospike.json import decode, decode_batch
from python_udfs.core.fast_path import FastPath
from python_udfs.core.limits import MAX_DEPTH
from python_udfs.core.pace import Learning

MANY = 15
Bin = dict[str, Any]


@pytest.fixture(autouse=True)
def no_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins without a layout, and takes the fast path whether it pays or not."""
    still = FastPath(decode, JsonWrites(), Learning(lambda: 0.0))
    monkeypatch.setattr(aerospike_json, "_FAST_PATH", still)


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def bins(*each: tuple[Any, ...]) -> list[Bin]:
    """Of name, type, value, and other properties if there are any."""
    return [
        {"name": name, "type": kind, "value": value, **(more[0] if more else {})}
        for name, kind, value, *more in each
    ]


def check(keys: list[bytes | None], values: list[bytes | None]) -> None:
    """Twice, since the first time teaches the layout."""
    expected = each_alone(decode, keys, values)
    assert decode_batch(keys, values).payloads() == expected
    assert decode_batch(keys, values).payloads() == expected


PLAIN: dict[str, list[Bin]] = {
    "scalars": bins(("i", "int", -5), ("s", "str", "x"), ("b", "bool", True), ("f", "float", 1.5)),
    "an int as float": bins(("f", "float", 5)),
    "huge integers": bins(("i", "int", 2**70), ("l", "list", [-(2**70)])),
    "binary": bins(("b", "blob", DIGEST), ("e", "blob", "")),
    "list": bins(("l", "list", [1, "x", True, None, 0.5], {"ordered": True})),
    "map": bins(("m", "map", {"a": 1, "b": None, "c": {"a": []}}, {"order": "key-value"})),
    "null properties": bins(("m", "map", {}, {"order": None, "ordered": None})),
    "GeoJSON": bins(("g", "geojson", {"type": "Point", "coordinates": [1.25, -0.5]})),
    "names": bins(("\u00e9\u2028", "int", 5), ("", "int", 6)),
    "properties in another order": [{"value": 5, "type": "int", "name": "i"}],
}
OTHER: dict[str, list[Any]] = {
    "no bins": [],
    "a name that JSON escapes": bins(('a"b', "int", 5)),
    "a name twice": bins(("i", "int", 5), ("i", "int", 6)),
    "no number": bins(("f", "float", "NaN")),
    "null": bins(("i", "int", None)),
    "no base64": bins(("b", "blob", "?")),
    "base64 with bits left over": bins(("b", "blob", "QUJ=")),
    "an unknown type": bins(("u", "hll", "x")),
    "a type that is none": bins(("u", ["int"], 1)),
    "another property": bins(("i", "int", 5, {"flags": 0})),
    "a bad property": bins(("l", "list", [], {"ordered": "yes"})),
    "no object": [5],
    "no value": [{"name": "i", "type": "int"}],
}
PARTS: dict[str, Callable[[Bin], Any]] = {
    "usual": lambda record: record,
    "an int as user key": lambda record: record | {"key": [*KEY[:3], 7]},
    "a text as user key": lambda record: record | {"key": [*KEY[:3], "Zo\u00eb"]},
    "a number as user key": lambda record: record | {"key": [*KEY[:3], 1.5]},
    "a bad user key": lambda record: record | {"key": [*KEY[:3], True]},
    "no set": lambda record: record | {"key": ["ns", None, DIGEST, None]},
    "a set with a comma": lambda record: record | {"key": ["n,s", 's"', DIGEST, None]},
    "a bad digest": lambda record: record | {"key": ["ns", "set", DIGEST[:-4], None]},
    "a short key": lambda record: record | {"key": ["ns", "set", DIGEST]},
    "nulls": lambda record: record | {"gen": None, "exp": None, "lut": None},
    "absent": lambda record: without(record, "gen", "exp", "lut"),
    "times that are none": lambda record: record | {"lut": 1_600_000_000, "exp": -1},
    "times beyond all": lambda record: record | {"lut": 2**63, "exp": 2**63},
    "durable": lambda record: record | {"durable": False},
    "another property": lambda record: record | {"more": {"a": 1}},
    "another order": lambda record: dict(reversed(record.items())),
    "a batch": lambda record: [record],
    "a batch of two": lambda record: [record, delete()],
    "a delete": lambda record: delete(gen=1, lut=5),
    "a null": lambda record: None,
}


@pytest.mark.parametrize("name", [*PLAIN, *OTHER])
@pytest.mark.parametrize("parts", PARTS)
def test_what_decode_gives(name: str, parts: str) -> None:
    record = PARTS[parts](write(*(PLAIN | OTHER)[name]))
    value = dumps(record)
    own = dumps(record["key"] if isinstance(record, dict) else KEY)
    mixed: list[bytes | None] = [None, own, b"other", own[:-1], own + b"\n"]
    for keys in ([None] * MANY, [own] * MANY, mixed * 3):
        check(list(keys), [value] * MANY)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize(
    "parts",
    [
        *("usual", "an int as user key", "a text as user key", "no set", "nulls", "absent"),
        *("times that are none", "another order"),
    ],
)
def test_what_is_plain(name: str, parts: str) -> None:
    record = PARTS[parts](write(*PLAIN[name]))
    values = [dumps(record)] * MANY
    for keys in ([None] * MANY, [dumps(record["key"])] * MANY):
        decode_batch(keys, values)
        assert not decode_batch(keys, values).events


@pytest.mark.parametrize("name", OTHER)
def test_what_is_not(name: str) -> None:
    values = [dumps(write(*OTHER[name]))] * MANY
    decode_batch([None] * MANY, values)
    assert not decode_batch([None] * MANY, values).columns


MARK = "1234567890"
# In the place of a number.
SENT = [
    *("5", "-0", "0", "1.0", "1e2", "1E+2", "-1.50", "0.0000001", "0.000001", "1e" + "9" * 20),
    *("1E0", "[1E0]"),
    *("123456789012345678901234567890", "1" * 5000, "0.1e1", "-0.0", "0E-7", "00", "+1", "1."),
    *("null", "true", '"x"', '"\\u0041"', '"\\ud800"', '"\\u001F"', '"\\/"', '"a\nb"', '"NaN"'),
    *("[1]", "[1 ]", "[1,]", "[1.5,1e5]", '{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', '{"\\ud8":1}'),
    *("[" * 252 + "]" * 252, "[" * 253 + "]" * 253, "[" * 254 + "]" * 254, "[" * 9000),
    *(" 5", "5 ", '5,"value":6', '5,"more":6', '5,"name":"i"', '5}],"bins":[{"value":5', "", "NaN"),
    *('"\\u00e9"', '"\u00e9"', '"\\"', "/**/5", "[0.0000001]", "[-0.00000012]", "[1e2]", "[-0]"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["int", "float", "str", "bool", "blob", "list", "map", "geojson"])
def test_one_that_is_written_in_another_way(kind: str) -> None:
    """It alone takes the careful path, or is what that would give."""
    usual = {
        **{"int": 5, "float": 5.5, "str": "x", "bool": True, "blob": "AAAA"},
        **{"list": [0.5, [1]], "map": {"a": {"b": 0.5}}, "geojson": {"a": [1]}},
    }[kind]
    plain = dumps(write(*bins(("x", kind, usual), ("y", "list", [[1]]))))
    marked = dumps(write(*bins(("x", kind, int(MARK)), ("y", "list", [[1]])))).decode()
    nested = dumps(write(*bins(("x", kind, usual), ("y", "list", [[int(MARK)]])))).decode()
    dated = dumps(write(*bins(("x", kind, usual), ("y", "list", [[1]])), gen=int(MARK))).decode()
    for sent in SENT:
        values: list[bytes | None] = [plain] * MANY
        values += [text.replace(MARK, sent).encode() for text in (marked, nested, dated)]
        values += [plain]
        check([None] * len(values), values)
        assert len(decode_batch([None] * len(values), values).events) <= 3
    bad_text = marked.encode().replace(MARK.encode(), b'"\xff"')
    values = [*[plain] * MANY, bad_text, b"\xef\xbb\xbf" + plain, None, b"", *[plain] * MANY]
    check([None] * len(values), values)


def test_the_deepest_that_is_plain() -> None:
    for levels in range(MAX_DEPTH - 8, MAX_DEPTH + 2):
        values = [
            dumps(write(*bins(("l", "list", [])))).replace(b"[]", b"[" * levels + b"]" * levels)
        ] * MANY
        check([None] * MANY, list(values))


def test_ordered_and_not() -> None:
    values = [
        dumps(write(*bins(("l", "list", [number], {"ordered": number % 3 == 0}))))
        for number in range(60)
    ]
    check([None] * 60, list(values))
    assert not decode_batch([None] * 60, values).events


@pytest.mark.parametrize("kind", ["alternating", "optional", "layouts", "shuffled", "deletes"])
def test_mixes(kind: str) -> None:
    def record(number: int) -> Any:
        more = {
            "optional": [each for each in range(9) if number * 37 + 11 >> each & 1],
            "layouts": [number],
        }.get(kind, [number % 2])
        columns = bins(("n", "int", number), ("s", "str", f"{number}"))
        columns += bins(*((f"b{each}", "int", 1) for each in more))
        if kind == "shuffled":
            columns = columns[number % 3 :] + columns[: number % 3]
        if kind == "deletes" and number % 10 == 0:
            return delete(lut=number)
        return write(*columns, key=["ns", f"set{number % 2}", DIGEST, number])

    values = [dumps(record(number)) for number in range(200)]
    keys = [dumps(record(number)["key"]) if number % 5 else None for number in range(200)]
    check(list(keys), list(values))
    taken = 200 - len(decode_batch(keys, values).events)
    assert taken >= {"alternating": 200, "optional": 0, "layouts": 0, "deletes": 180}.get(kind, 100)


@pytest.mark.parametrize("format", ["aerospike_json", "aerospike_messagepack"])
def test_bombs_among_others(format: str) -> None:
    careful, fast_path = {
        "aerospike_json": (decode, FastPath(decode, JsonWrites(), Learning(lambda: 0.0))),
        "aerospike_messagepack": (
            messagepack.decode,
            FastPath(messagepack.decode, MessagePackWrites(), Learning(lambda: 0.0)),
        ),
    }[format]
    for bomb in BOMBS[format].values():
        values = [bomb(1200 + number % 2) for number in range(10)]
        expected = each_alone(careful, [None] * 10, values)
        for _ in range(2):
            assert fast_path.decode_batch([None] * 10, values).payloads() == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(records, min_size=1, max_size=3), st.data())
def test_random_writes(trees: list[Any], data: Any) -> None:
    packed = [dumps(tree) for tree in trees]
    values: list[bytes | None] = [*packed * MANY]
    damaged = bytearray(data.draw(st.sampled_from(packed)))
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    values.insert(data.draw(st.integers(0, len(values))), bytes(damaged))
    keys = [data.draw(st.sampled_from([None, dumps(trees[0]["key"])])) for _ in values]
    check(keys, values)
