"""Sets whose records have any bins: mixed layouts decode them as ``decode`` does one by one."""

import json
import random
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgpack
import pyarrow as pa
import pytest
from support.alone import each_alone
from test_aerospike_fast_json import OTHER as OTHER_JSON
from test_aerospike_fast_json import PLAIN as PLAIN_JSON
from test_aerospike_fast_writes import OTHER, PLAIN

from dbt_lakehouse.spark import event_arrays
from dbt_lakehouse.spark.by_events import log_events_of
from dbt_lakehouse.spark.functions import decode_payload_batch
from dbt_lakehouse.spark.payload_functions import log_events_batch
from python_udfs.aerospike import flat_json, messagepack
from python_udfs.aerospike import json as aerospike_json
from python_udfs.aerospike.fast_flat_json import FlatWrites
from python_udfs.aerospike.fast_json import JsonWrites
from python_udfs.aerospike.fast_messagepack import MessagePackWrites
from python_udfs.core.events import Decode, Decoded
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.typed.declared import Log, LogColumn

DIGEST = b"abcdefghijklmnopqrst"
TOLD = b64encode(DIGEST).decode()
USER_KEYS = ("user", 7, None)
VALUES: Sequence[Any] = (
    1,
    "x",
    None,
    True,
    1.5,
    2**70,
    [1, {"a": 2.5}],
    {"b": []},
    "\u00e9",
    "eA==",
)
Bins = list[Any]
Parts = dict[str, Any]


def parts_of(rng: random.Random) -> Parts:
    return {
        "user_key": rng.choice(USER_KEYS),
        "lut": rng.choice((None, 0, 1_600_000_000, 1_700_000_000_000)),
    }


def in_messagepack(bins: Bins, parts: Parts) -> tuple[bytes, bytes]:
    key = ["ns", "set", DIGEST, parts["user_key"]]
    return msgpack.packb(key), msgpack.packb([1, 1, [key, 1, 0, parts["lut"], bins]])


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def in_json(bins: Bins, parts: Parts) -> tuple[bytes, bytes]:
    key = ["ns", "set", TOLD, parts["user_key"]]
    head = {"msg": "write", "key": key, "gen": 1, "exp": 0, "lut": parts["lut"]}
    return dumps(key), dumps(head | {"bins": bins})


def in_flat_json(bins: Bins, parts: Parts) -> tuple[bytes, bytes]:
    names = {"namespace": "ns", "set": "set", "digest": TOLD}
    metadata = names | {"msg": "write", "gen": 1, "lut": parts["lut"]}
    return dumps(names), dumps({"metadata": metadata} | dict(bins))


class Form(NamedTuple):
    format: str
    decode: Decode
    make: Callable[[], Any]
    write: Callable[[Bins, Parts], tuple[bytes, bytes]]
    plain: Sequence[Any]
    """Bins that each write may have, of different names."""
    other: Sequence[Any]
    """Bins with which a write takes the careful path."""


def named(bins: Sequence[Any], rename: Callable[[Any, str], Any]) -> list[Any]:
    return [rename(each, f"bin_{number}") for number, each in enumerate(bins)]


FORMS = [
    Form(
        "aerospike_messagepack",
        messagepack.decode,
        MessagePackWrites,
        in_messagepack,
        [
            *named(
                [each for bins in PLAIN.values() for each in bins],
                lambda each, name: [name, *each[1:]],
            ),
            ["\u00e9\u2028", 1, 0, 5],
            ['a"b', 3, 2**63, "x"],
        ],
        [
            each
            for name, bins in OTHER.items()
            if not name.startswith(("a name", "huge"))
            for each in bins
        ],
    ),
    Form(
        "aerospike_json",
        aerospike_json.decode,
        JsonWrites,
        in_json,
        [
            *named(
                [
                    each
                    for name, bins in PLAIN_JSON.items()
                    if name != "properties in another order"
                    for each in bins
                ],
                lambda each, name: each | {"name": name},
            ),
            {"name": 'a"b', "type": "str", "value": "x"},
        ],
        [
            each
            for name, bins in OTHER_JSON.items()
            if not name.startswith("a name")
            for each in bins
        ]
        + PLAIN_JSON["properties in another order"],
    ),
    Form(
        "aerospike_flat_json",
        flat_json.decode,
        FlatWrites,
        in_flat_json,
        [(f"bin_{number}", value) for number, value in enumerate(VALUES)],
        [("deep", json.loads("[" * 300 + "]" * 300)), ("long", float("1e300"))],
    ),
]
by_format = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.format)


def some_bins(rng: random.Random, form: Form) -> Bins:
    """Some of the plain bins, in any order."""
    bins = [each for each in form.plain if rng.random() < 0.3] or [rng.choice(form.plain)]
    rng.shuffle(bins)
    return bins


def learned(form: Form, rng: random.Random) -> FastPath:
    """A fast path that has a mixed layout of all plain bins."""
    fast_path = FastPath(form.decode, form.make(), Learning(lambda: 0.0))
    for _ in range(12):
        messages = [form.write(some_bins(rng, form), parts_of(rng)) for _ in range(40)]
        fast_path.decode_batch([None] * len(messages), [value for _, value in messages])
    table = fast_path.tables.get(form.make().names(None, messages[0][1]))
    assert table is not None
    assert len(table.layouts) == 1
    return fast_path


def taken(decoded: Decoded) -> set[int]:
    return {place for places, _ in decoded.columns for place in places}


@by_format
@pytest.mark.parametrize("seed", range(6))
def test_any_bins_are_decoded_together(form: Form, seed: int) -> None:
    rng = random.Random(seed)
    fast_path = learned(form, rng)
    messages = [form.write(some_bins(rng, form), parts_of(rng)) for _ in range(100)]
    keys = [rng.choice((None, key, key, b"other")) for key, _ in messages]
    values = [value for _, value in messages]
    decoded = fast_path.decode_batch(keys, values)
    assert decoded.payloads() == each_alone(form.decode, keys, values)
    plain = {place for place, key in enumerate(keys) if key != b"other"}
    assert taken(decoded) == plain


@by_format
@pytest.mark.parametrize("seed", range(6))
def test_a_write_that_is_not_plain_takes_the_careful_path_alone(form: Form, seed: int) -> None:
    rng = random.Random(seed)
    fast_path = learned(form, rng)
    for other in form.other:
        bins = [some_bins(rng, form) for _ in range(20)]
        place = rng.randrange(len(bins))
        bins[place].insert(rng.randint(0, len(bins[place])), other)
        values = [form.write(each, parts_of(rng))[1] for each in bins]
        decoded = fast_path.decode_batch([None] * len(values), values)
        assert decoded.payloads() == each_alone(form.decode, [None] * len(values), values)
        assert set(decoded.events) == {place}, other


@by_format
def test_a_name_twice_and_no_bins_and_damage(form: Form) -> None:
    rng = random.Random(form.format)
    fast_path = learned(form, rng)
    first, second = form.plain[0], form.plain[1]
    good = [form.write(some_bins(rng, form), parts_of(rng))[1] for _ in range(20)]
    one = form.write([first], parts_of(rng))[1]
    both = form.write([first, second], parts_of(rng))[1]
    bad = [form.write([], parts_of(rng))[1], one[:-1], one + b"}", both + one]
    if form.format == "aerospike_flat_json":
        bad.append(one[:-1] + b',"bin_0":2}')
    else:
        bad.append(form.write([first, first], parts_of(rng))[1])
    values = [*good[:10], *bad, *good[10:]]
    decoded = fast_path.decode_batch([None] * len(values), values)
    assert decoded.payloads() == each_alone(form.decode, [None] * len(values), values)
    assert set(decoded.events) == set(range(10, 10 + len(bad)))


@pytest.mark.parametrize(
    ("sent", "shipped"),
    [
        (b"\x05", b"\xcc\x05"),
        (b"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", b"\xca\x3f\x80\x00\x00"),
        (b"\x81\xa1k\x01", b"\x82\xa1k\x01\xa1k\x02"),
        (b"\xa1t", b"\xd9\x01t"),
    ],
    ids=["a long int", "float32", "a name twice in a map", "a long text"],
)
def test_nothing_is_lost_whatever_the_form(sent: bytes, shipped: bytes) -> None:
    form = FORMS[0]
    fast_path = learned(form, random.Random(7))
    scalars: Bins = [["i", 1, 0, 5], ["d", 2, 0, 1.0], ["s", 3, 0, "t"]]
    trees: Bins = [["l", 20, 0, [5, 1.0, "t", {"k": 1}]], ["m", 19, 0, {"k": 1}]]
    values = []
    for bins in (scalars, trees, [*scalars, *trees]):
        _, value = form.write(bins, {"user_key": None, "lut": None})
        values += [value, value.replace(sent, shipped)]
    values += values
    decoded = fast_path.decode_batch([None] * len(values), values)
    assert decoded.payloads() == each_alone(form.decode, [None] * len(values), values)
    assert taken(decoded) >= {0, 2, 4}


@by_format
def test_the_rows_of_a_log(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns for bins that all, some or none of the writes have, of other types too."""
    rng = random.Random(form.format)
    fast_path = learned(form, rng)
    monkeypatch.setattr(
        event_arrays, "decode_batch", lambda _, *given: fast_path.decode_batch(*given[:2])
    )
    names = [f"bin_{number}" for number in range(len(form.plain))]
    kinds = ["string", "bigint", "double", "boolean", "binary", "array<string>", "decimal(38,2)"]
    columns = [
        LogColumn(f"{name}_{number}", kind, name)
        for name in [*names, "absent", 'a"b']
        for number, kind in enumerate(rng.sample(kinds, 3))
    ]
    log = Log(tuple(columns), ())
    messages = [form.write(some_bins(rng, form), parts_of(rng)) for _ in range(200)]
    formats = pa.array([form.format] * 200)
    keys = pa.array([rng.choice((None, key)) for key, _ in messages], pa.binary())
    values = pa.array([value for _, value in messages], pa.binary())
    found = log_events_batch(log, None, formats, keys, values)
    expected = log_events_of(log, None, decode_payload_batch(formats, keys, values))
    assert found.to_pylist() == expected.to_pylist()
    assert len(found.flatten()) == 200
    assert len(fast_path.decode_batch(keys.to_pylist(), values.to_pylist()).events) == 0


def test_a_set_of_few_layouts_keeps_them() -> None:
    """They take half of the time."""
    fast_path = FastPath(messagepack.decode, MessagePackWrites(), Learning(lambda: 0.0))
    bins = [[[f"bin_{kind}", 1, 0, kind]] for kind in range(3)]
    values = [
        in_messagepack(bins[number % 3], {"user_key": 1, "lut": 1})[1] for number in range(400)
    ]
    for _ in range(5):
        decoded = fast_path.decode_batch([None] * 400, values)
    assert not decoded.events
    assert len(decoded.columns) == 3


def test_another_set_is_not_mixed_in() -> None:
    for form in FORMS:
        _, value = form.write([form.plain[0]], {"user_key": None, "lut": 1})
        other = value
        for sent, own in (
            (b"\xa3set", b"\xa5other"),
            (b'"set":"set"', b'"set":"other"'),
            (b'"ns","set",', b'"ns","other",'),
        ):
            other = other.replace(sent, own)
        made = form.make()
        shapes = [made.shape(made.names(None, each), None, each) for each in (value, other)]
        assert None not in shapes
        assert made.mixed(shapes) is None
        mixed = made.mixed(shapes[:1])
        assert made.merged(mixed, shapes[0]) == mixed
        assert made.merged(mixed, shapes[1]) is None
