"""The fast path for plain changes gives what ``decode`` gives, message by message."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import each_alone
from support.debezium_messages import dumps, still_fast_path

from python_udfs.core import fast_path
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium.envelope import NOTES
from python_udfs.debezium.json import decode, decode_batch
from python_udfs.debezium.layouts import mixed, shape_of

MANY = 20
UNAVAILABLE = b"__debezium_unavailable_value"
Value = dict[str, Any]


@pytest.fixture(autouse=True)
def no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins without a layout, and takes the fast path whether it pays or not."""
    monkeypatch.setattr(fast_path, "_FEWEST", 1)
    monkeypatch.setattr(debezium_json, "_FAST_PATH", still_fast_path())


def change(number: int, **parts: Any) -> Value:
    """An insert, with other parts of the envelope and the source where given."""
    source = {
        "version": "2.5.4.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_700_000_000_000 + number,
        "snapshot": "false",
        "db": "shop",
        "sequence": f'["{number}","{number + 1}"]',
        "schema": "sales",
        "table": "orders",
        "lsn": number,
        "xmin": None,
    }
    envelope = {
        "before": None,
        "after": {"id": number, "name": f"Zoë {number}", "price": 1.50, "note": None},
        "source": source | parts.pop("source", {}),
        "op": "c",
        "ts_ms": 1_700_000_000_500 + number,
        "transaction": None,
    }
    return envelope | parts


def with_field(name: str) -> Callable[[int], Value]:
    """``change`` with one more field in the envelope."""
    return lambda number: change(number, **{name: "Struct{id=1}"})


def image(**more: Any) -> Value:
    return {"id": 7, "name": "a", "price": 2, "note": "n", **more}


def shuffled(number: int, message: Value) -> Value:
    """A message with its images' columns in another order."""
    if "payload" in message:
        return message | {"payload": shuffled(number, message["payload"])}
    message = message.copy()
    for name in ("before", "after"):
        if message.get(name):
            columns = list(message[name].items())
            random.Random(f"{name} {number}").shuffle(columns)
            message[name] = dict(columns)
    return message


def check(keys: list[bytes | None], values: list[bytes | None]) -> None:
    """Twice, since the first time teaches the layout."""
    expected = each_alone(decode, keys, values)
    assert decode_batch(keys, values).payloads() == expected
    assert decode_batch(keys, values).payloads() == expected


PLAIN: dict[str, Callable[[int], Value]] = {
    "inserts": change,
    "snapshot": lambda number: change(number, op="r", source={"snapshot": "last"}),
    "updates": lambda number: change(number, op="u", before=image(), after=image(name="b")),
    "deletes": lambda number: change(number, op="d", before=image(), after=None),
    "deletes without an image": lambda number: change(
        number, op=("c", "d")[number % 2], after=(image(), None)[number % 2]
    ),
    "a quote in a text": lambda number: change(number, after=image(name='say "hi": now')),
    "JSON in a text": lambda number: change(number, after=image(name='{"a":{"b":[{"c":1}]}}')),
    "an array": lambda number: change(number, after=image(tags=[1, "x", None])),
    "a nested object": lambda number: change(number, after=image(point={"x": 1})),
    "an escape": lambda number: change(number, after=image(name="tab\t")),
    "a backslash": lambda number: change(number, after=image(name="back\\slash\\")),
    "an object in an array": lambda number: change(number, after=image(points=[1, {"x": 1}])),
    "names in no order": lambda number: change(number, after=image(map={"b": 1, "a": {}})),
    "many brackets": lambda number: change(number, after=image(points=[[{}]] * 80)),
    "a placeholder that is no column": lambda number: change(
        number, source={"query": "__debezium_unavailable_value"}
    ),
    "no time": lambda number: change(number, source={"ts_ms": None}),
    "time zero": lambda number: change(number, source={"ts_ms": 0}),
    "MySQL": lambda number: change(number, source={"connector": "mysql", "schema": None}),
    "more fields": lambda number: change(number, ts_us=1, ts_ns=2),
    "small numbers": lambda number: change(number, after=image(a=-0.5, b=[-0.25])),
    "a null schema": lambda number: {"schema": None, "payload": change(number)},
    "a transaction": lambda number: change(
        number,
        transaction={"id": f"{number}:1", "total_order": number, "data_collection_order": 1}
        if number % 3
        else None,
    ),
    "a transaction without an order": lambda number: change(
        number, transaction={"id": "", "total_order": None}
    ),
    "columns that some lack": lambda number: change(
        number,
        after={name: place for place, name in enumerate("abcdefghi") if number + 3 >> place & 1},
    ),
    "an image that some lack": lambda number: {
        name: value for name, value in change(number).items() if name != "before" or number % 2
    },
    "fields that some lack": lambda number: change(
        number, **({"ts_us": 1} if number % 2 else {}), source={"query": "x"} if number % 3 else {}
    ),
    "an empty image": lambda number: change(
        number, op="ud"[number % 2], before={}, after=({"id": 1}, {})[number % 2]
    ),
    "Vitess": lambda number: change(
        number,
        source={"connector": "vitess", "db": "", "schema": None, "keyspace": "k", "shard": "-80"},
    ),
    "a placeholder": lambda number: change(
        number, after=image(name="__debezium_unavailable_value")
    ),
    "a placeholder as base64": lambda number: change(
        number, after=image(name="X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
    ),
    "a placeholder as hex": lambda number: change(number, after=image(name=UNAVAILABLE.hex())),
    "a placeholder as hex in upper case": lambda number: change(
        number, after=image(name=UNAVAILABLE.hex().upper())
    ),
    "a placeholder as hex before": lambda number: change(
        number, op="u", before=image(name=UNAVAILABLE.hex())
    ),
    "a placeholder as an object": lambda number: change(
        number,
        after=image(name={"__debezium_unavailable_value": "__debezium_unavailable_value"}),
    ),
    "a placeholder of UUIDs": lambda number: change(
        number, after=image(name=["b68a35a7-17ad-35b3-af2a-ae46edb4545a"])
    ),
    "a placeholder as numbers": lambda number: change(
        number, after=image(name=list(b"__debezium_unavailable_value"))
    ),
    "a placeholder of hex": lambda number: change(number, after=image(name=[UNAVAILABLE.hex()])),
    "a placeholder before": lambda number: change(
        number, op="u", before=image(name="__debezium_unavailable_value")
    ),
}
OTHER: dict[str, Callable[[int], Value]] = {
    "a name that JSON escapes": lambda number: change(number, after=image(**{'a"b': 1})),
    "an array in the source": lambda number: change(number, source={"lsn": [1]}),
    "an object in the envelope": lambda number: change(number, more={"x": 1}),
    "an array in a transaction": lambda number: change(number, transaction={"id": "1", "x": [1]}),
    "truncate": lambda number: change(number, op="t", after=None),
    "message": lambda number: change(number, op="m", after=None),
    "an unknown op": lambda number: change(number, op="x"),
    "an op that is not text": lambda number: change(number, op=({}, [], 1.5, None)[number % 4]),
    "no image": lambda number: change(number, after=None),
    "an empty image": lambda number: change(number, after={}),
    "no table": lambda number: change(number, source={"table": None}),
    "a time as text": lambda number: change(number, source={"ts_ms": "1700000000000"}),
    **{f"a field called {name}": with_field(name) for name in sorted(NOTES)},
    "a payload alone": lambda number: {"payload": change(number)},
    "a schema behind": lambda number: {"payload": change(number), "schema": None},
    "heartbeat": lambda number: {"ts_ms": number},
}
KEYS: dict[str, Callable[[int], bytes | None]] = {
    "object": lambda number: dumps({"id": number}),
    "two names": lambda number: dumps({"b": f"x{number}", "a": number}),
    "wrapped": lambda number: dumps({"schema": None, "payload": {"id": number}}),
    "text": lambda number: b'"default"',
    "a name twice": lambda number: b'{"id":%d,"id":1}' % number,
    "another name at times": lambda number: b'{"id":%d%b}' % (number, b',"x":1' * (number % 2)),
    "space": lambda number: b'{"id": -0}',
    "a nested name twice": lambda number: b'{"id":{"a":1,"a":%d}}' % number,
    "broken": lambda number: b'{"id":',
    "none": lambda number: None,
}


@pytest.mark.parametrize("name", [*PLAIN, *OTHER])
@pytest.mark.parametrize("key", KEYS)
def test_what_decode_gives(name: str, key: str) -> None:
    check(
        [KEYS[key](number) for number in range(MANY)],
        [dumps((PLAIN | OTHER)[name](number)) for number in range(MANY)],
    )


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_plain(name: str) -> None:
    values: list[bytes | None] = [dumps(PLAIN[name](number)) for number in range(MANY)]
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
    decode_batch(keys, values)
    decode_batch(keys, values)
    decoded = decode_batch(keys, values)
    assert not decoded.events
    assert decoded.payloads() == each_alone(decode, keys, values)


@pytest.mark.parametrize("name", [*PLAIN, *OTHER])
@pytest.mark.parametrize("key", KEYS)
def test_what_decode_gives_in_any_order(name: str, key: str) -> None:
    check(
        [KEYS[key](number) for number in range(MANY)],
        [dumps(shuffled(number, (PLAIN | OTHER)[name](number))) for number in range(MANY)],
    )


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_plain_in_any_order(name: str) -> None:
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
    values: list[bytes | None] = [
        dumps(shuffled(number, PLAIN[name](number))) for number in range(MANY)
    ]
    for _ in range(3):
        decoded = decode_batch(keys, values)
    assert not decoded.events
    assert len(decoded.columns) <= 4
    assert decoded.payloads() == each_alone(decode, keys, values)


def test_a_mixed_shape_is_that_of_messages_in_all_orders() -> None:
    shapes = [shape_of(None, dumps(shuffled(number, change(number)))) for number in range(9)]
    known = [shape for shape in shapes if shape is not None]
    of_all = mixed(known)
    assert of_all is not None
    for shape in known:
        assert of_all.merged(shape) == shape.merged(of_all) == of_all
    document = change(1, after='{"_id":1}') | {"source": {"db": "d", "collection": "c"}}
    of_mongodb = shape_of(None, dumps(document))
    assert of_mongodb is not None
    assert mixed([of_mongodb]) is None


@pytest.mark.parametrize("name", ["old_key", "new_key"])
def test_a_field_called_as_the_key_of_a_key_update_is_none(name: str) -> None:
    value = dumps(change(1, **{name: "Struct{id=1}"}))
    for event in decode_batch([b'{"id":1}'] * MANY, [value] * MANY).payloads():
        metadata = json.loads(event[0].metadata or b"")
        assert name not in metadata
        assert metadata["envelope"] == {name: "Struct{id=1}"}


@pytest.mark.parametrize("name", OTHER)
def test_what_is_not(name: str) -> None:
    values: list[bytes | None] = [dumps(OTHER[name](number)) for number in range(MANY)]
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
    decode_batch(keys, values)
    assert not decode_batch(keys, values).columns


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"note":null', b'"note":null,"note":1'),
        (b'"note":null', b'"id":1'),
        (b'"note":null', b'"more":null'),
        (b'"note":null', b'"no\xffte":null'),
        (b'"note":null', b'"no\xc3\xa9te":null'),
        (b'"note":null', b'"no\\u0041te":null'),
        (b'"note":null', b'"no\\"te":null'),
        (b'"note":null', b'"no\nte":null'),
        (b'"note":null', b'"no\x01te":null'),
        (b'"note":null', b'"":null,"":null'),
        (b'"note":null', b'"$partial":{"updated":{"note":1}}'),
        (b'"note":null', b'"note":{"value":1,"set":true}'),
        (b',"note":null', b""),
        (b'"note":null', b'"note" : null'),
        (b'"note":null', b'"note": null'),
        (b'"note":null', b'"note":\nnull'),
        (b'"note":null', b'"note":-0'),
        (b'"note":null', b'"note": -0'),
        (b'"note":null', b'"note":-0e1'),
        (b'"note":null', b'"note":-0.0'),
        (b'"note":null', b'"note":\t-0'),
        (b'"note":null', b'"note":[-0]'),
        (b'"note":null', b'"note":[1, -0]'),
        (b'"note":null', b'"note":[1, 2]'),
        (b'"note":null', b'"note":[1 ,"a, b"]'),
        (b'"lsn":11', b'"lsn":[ ]'),
        (b'"note":null', b'"note": [ -0.0]'),
        (b'"note":null', b'"note":"a\\": -0"'),
        (b'"note":null', b'"note":[ %b]' % b" , ".join(b"%d" % byte for byte in UNAVAILABLE)),
        (b'"note":null', b'"note":[%b]' % b",".join(b"%d.0" % byte for byte in UNAVAILABLE)),
        (b'"note":null', b'"note":[%b]' % b",".join(b"%.2e" % byte for byte in UNAVAILABLE)),
        (b'"note":null', b'"note":[%b]' % b",".join(b"%d0e-1" % byte for byte in UNAVAILABLE)),
        (b'"note":null', b'"note":"%b"' % UNAVAILABLE.hex().encode()),
        (b'"note":null', b'"note":"%b00"' % UNAVAILABLE.hex().encode()),
        (b'"note":null', b'"note":"\\u0035%b"' % UNAVAILABLE.hex()[1:].encode()),
        (b'"note":null', b'"note":"\\u0041\\/"'),
        (b'"note":null', b'"note":"\xff"'),
        (b'"note":null', b'"note":"\x01"'),
        (b'"note":null', b'"note":1e400'),
        (b'"note":null', b'"note":123456789012345678901234567890'),
        (b'"note":null', b'"note":nul'),
        (b'"note":null', b'"note":' + b"[" * 253 + b"]" * 253),
        (b'"note":null', b'"note":' + b"[" * 254 + b"]" * 254),
        (b'"note":null', b'"note":' + b"[1," * 255 + b"{}" + b"]" * 255),
        (b'"note":null', b'"note":' + b"[" * 5000 + b"]" * 5000),
        (b'"note":null', b'"note":"\\":"'),
        (b'"note":null', b'"note":{"a":1,"a":2}'),
        (b'"note":null', b'"note":[{"a":1,"a":2}]'),
        (b'"note":null', b'"note":' + b'{"x":' * 253 + b"1" + b"}" * 253),
        (b'"note":null', b'"note":' + b'{"x":' * 254 + b"1" + b"}" * 254),
        (b'"note":null', b'"note":{"a":-0}'),
        (b'"note":null', b'"note":{"a": 1}'),
        (b'"note":null', b'"note":{"b":1,"a":[95]}'),
        (b'"note":null', b'"note":"\\u001F"'),
        (b'"note":null', b'"note":"\xed\xa0\x80"'),
        (b'"note":null', b'"note":["\\ud800"]'),
        (b'"note":null', b'"note":' + b"9" * 5000),
        (b'"lsn":11', b'"lsn":-0'),
        (b'"lsn":11', b'"lsn":1.50'),
        (b'"lsn":11', b'"lsn":' + b"9" * 30),
        (b'"lsn":11', b'"lsn":"\\u0041"'),
        (b'"lsn":11', b'"lsn":"\xff"'),
        (b'"lsn":11', b'"lsn":' + b"[" * 254 + b"]" * 254),
        (b'"lsn":11', b'"lsn":{"a":1,"a":1}'),
        (b'"snapshot":"false"', b'"snapshot":"\xff"'),
        (b'"sales"', b'"sales\xff"'),
        (b'"lsn":', b'"lsn":1,"lsn":'),
        (b'"transaction":null', b'"transaction":null,"transaction":null'),
        (b'"transaction":null}', b'"transaction":null'),
        (b'"transaction":null}', b'"transaction":null} '),
        (b'"transaction":null}', b'"transaction":null}}'),
        (b'"transaction":null}', b'"transaction":null}\n{"a":1}'),
        (b'{"before"', b'\xef\xbb\xbf{"before"'),
        (b'"sales"', b'"other"'),
    ],
)
def test_one_other_message_among_many(old: bytes, new: bytes) -> None:
    values: list[bytes | None] = [dumps(change(number)) for number in range(MANY)]
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
    changed = dumps(change(11)).replace(old, new)
    assert changed != values[11]
    values[11] = changed
    check(keys, values)
    # Beside messages of a mixed layout, too.
    for number in set(range(MANY)) - {11}:
        values[number] = dumps(shuffled(number, change(number)))
    check(keys, values)


@pytest.mark.parametrize("between", [b"", b"\n", b" "])
def test_two_in_one(between: bytes) -> None:
    values: list[bytes | None] = [dumps(change(number)) for number in range(MANY)]
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
    for messages in (keys, values):
        first, second = messages[3], messages[4]
        assert first is not None
        assert second is not None
        for other in (b"", b" ", b"\n", second):
            messages[3:5] = first + between + second, other
            check(keys, values)
        for end in range(1, len(second), 5):
            messages[3:5] = first + between + second[:end], second[end:]
            check(keys, values)
        messages[3:5] = first, second


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"x":', b"}")])
@pytest.mark.parametrize("inserts", [0, 5, 15])
def test_deepest_values(inserts: int, opening: bytes, closing: bytes) -> None:
    """Beside deletes without images, which have fewer brackets than others."""
    no_brackets = {"sequence": None}
    values: list[bytes | None] = [
        dumps(
            (shuffled if inserts > 5 else lambda _, message: message)(
                number, change(number, source=no_brackets)
            )
            if number < inserts
            else change(number, source=no_brackets, op="d", after=None)
        )
        for number in range(MANY)
    ]
    for depth in range(250, 258):
        deep = opening * depth + b"1" + closing * depth
        keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
        insert = dumps(change(11, source=no_brackets))
        values[11] = insert.replace(b'"note":null', b'"note":' + deep)
        check(keys, values)
        values[11] = values[12]
        keys[11] = b'{"id":%b}' % deep
        check(keys, values)


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[bytes | None] = [dumps(change(number)) for number in range(MANY)]
    decode_batch([None] * MANY, values)
    for name in ("envelope.MAX_PAYLOAD_BYTES", "fast_envelopes._MAX_BYTES"):
        monkeypatch.setattr(f"python_udfs.debezium.{name}", 1000)
    values[3] = dumps(change(3, after=image(name="x" * 1000)))
    check([None] * MANY, values)
    assert decode_batch([None] * MANY, values).payloads()[3][0].error_code == "too_large"


def test_tables_and_formats_mixed() -> None:
    values: list[bytes | None] = [
        dumps(change(number, source={"table": f"t{number % 3}"})) for number in range(60)
    ]
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(60)]
    values[5], values[17], keys[33] = None, b"", None
    check(keys, values)


def test_a_column_more_in_mid_topic() -> None:
    values: list[bytes | None] = [
        dumps(change(number, after=image(**({"more": 1} if number > 30 else {}))))
        for number in range(60)
    ]
    check([None] * 60, values)
    assert not decode_batch([None] * 60, values).events


def test_messages_that_are_never_alike() -> None:
    values: list[bytes | None] = [
        dumps(change(number, after={f"column{number}": 1})) for number in range(600)
    ]
    check([None] * 600, values)


values = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats()
names = st.sampled_from(["id", "name", "price", "ts_ms", "op", "é", 'q"', "table"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.sampled_from("crudtx"), st.integers(0, 2), st.integers(0, 2), st.booleans()),
        min_size=1,
        max_size=40,
    ),
)
def test_random_changes(images: list[Value], changes: list[tuple[str, int, int, bool]]) -> None:
    messages, keys = [], []
    for number, (op, before, after, with_key) in enumerate(changes):
        some = [None, *images]
        messages.append(
            dumps(
                change(
                    number, op=op, before=some[before % len(some)], after=some[after % len(some)]
                )
            )
        )
        keys.append(dumps({"id": number}) if with_key else None)
    check(keys, list(messages))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ccrudtx"),
            *[st.none() | st.dictionaries(names, values, max_size=4)] * 2,
            st.booleans(),
        ),
        min_size=1,
        max_size=40,
    ),
)
def test_random_changes_of_any_columns(
    changes: list[tuple[str, Value | None, Value | None, bool]],
) -> None:
    taught: list[bytes | None] = [
        dumps(shuffled(number, change(number, before=image(), op="u"))) for number in range(MANY)
    ]
    keys: list[bytes | None] = [dumps({"id": number}) for number in range(MANY)]
    decode_batch(keys, taught)
    assert len(decode_batch(keys, taught).columns) == 1
    messages = [
        dumps(change(number, op=op, before=before, after=after))
        for number, (op, before, after, _) in enumerate(changes)
    ]
    own_keys = [
        dumps({"id": number}) if has_key else None
        for number, (_, _, _, has_key) in enumerate(changes)
    ]
    check([*keys, *own_keys], [*taught, *messages])
