"""What fast paths share: what is remembered, what learning may cost, and whether one pays."""

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import pytest
from support.debezium_messages import ENVELOPE, SOURCE, dumps

from python_udfs.aerospike import flat_json as aerospike_flat_json
from python_udfs.aerospike import json as aerospike_json
from python_udfs.aerospike import messagepack
from python_udfs.aerospike.fast_flat_json import FlatWrites
from python_udfs.aerospike.fast_json import JsonWrites
from python_udfs.aerospike.fast_messagepack import MessagePackWrites
from python_udfs.core.events import Decode, Event
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning, Pace
from python_udfs.core.recent import Recent
from python_udfs.debezium import arcion, envelope, unwrapped
from python_udfs.debezium.fast_envelopes import DebeziumFormat
from python_udfs.debezium.fast_rows import UnwrappedRows


def test_what_was_used_last_is_remembered() -> None:
    recent: Recent[str, int] = Recent(3, 100)
    for number, name in enumerate("abc"):
        recent.add(name, number, 10)
    assert recent.get("a") == 0
    recent.add("d", 3, 10)
    assert [recent.get(name) for name in "abcd"] == [0, None, 2, 3]
    recent.add("e", 4, 85)
    assert [recent.get(name) for name in "acde"] == [None, None, 3, 4]
    recent.add("f", 5, 1000)
    assert len(recent) == 0


def test_learning_takes_a_part_of_all_time() -> None:
    learning = Learning()
    assert learning.is_affordable
    learning.learned(0.05)
    assert not learning.is_affordable
    learning.decoded(0.9)
    assert not learning.is_affordable
    learning.decoded(0.2)
    assert learning.is_affordable


def test_layouts_pay_for_others_with_a_quarter_of_what_they_save() -> None:
    learning = Learning()
    learning.learned(0.25)
    learning.saved(0.9)
    learning.saved(-1.0)
    assert not learning.is_affordable
    learning.saved(0.1)
    assert learning.is_affordable
    # Not with what was saved long ago.
    learning.saved(100.0)
    learning.learned(0.03)
    assert not learning.is_affordable


def test_a_way_that_does_not_pay_rests_longer_each_time() -> None:
    pace = Pace()
    pace.went_fast(100, 0, 1.0)
    assert not pace.rests(1)  # nothing to compare with
    pace.went_fast(100, 0, 1.0, 0.001)
    assert pace.rests(800)
    pace = Pace()
    pace.went_carefully(100, 0.1)
    rests = []
    for _ in range(12):
        pace.went_fast(1, 1, 0.002)
        rests.append(sum(1 for _ in iter(lambda: pace.rests(1), False)))
    assert rests[:4] == [64, 128, 256, 512]
    assert max(rests) == rests[-1] == 8192
    pace.went_fast(1, 1, 0.0005)
    assert not pace.rests(1)
    pace.went_fast(1, 1, 0.05)
    assert pace.rests(64)
    assert not pace.rests(1)


def messages(kind: str, count: int) -> list[bytes]:
    """Of Debezium's."""
    rng = random.Random(kind)
    values: list[bytes] = []
    for number in range(count):
        row: dict[str, object] = {"id": number, "a": "x" * 20, "b": 1, "c": None, "d": "y"}
        names = names_of(rng, kind, list(row))
        table = f"t{number % 300}" if kind == "tables" else "t"
        values.append(
            dumps(
                ENVELOPE
                | {
                    "op": "t" if is_other(kind, number) else "c",
                    "transaction": {"id": "7:1"} if kind == "extended" else None,
                    "after": {name: row[name] for name in names},
                    "source": {**SOURCE, "table": table},
                }
            )
        )
    return values


def is_other(kind: str, number: int) -> bool:
    """Whether a message is one that is never plain."""
    return kind == "others" or (kind == "mostly alike" and number % 50 == 0)


def names_of(rng: random.Random, kind: str, names: list[str]) -> list[str]:
    if kind == "shuffled":
        rng.shuffle(names)
    return [name for name in names if rng.random() < 0.5] if kind == "optional" else names


def records(kind: str, count: int) -> list[list[Any]]:
    """Writes of Aerospike: their key, and names and values of their bins."""
    rng = random.Random(kind)
    written: list[list[Any]] = []
    for number in range(count):
        bins = 10 if kind == "extended" else 9
        names = names_of(rng, kind, [f"bin_{place}" for place in range(bins)])
        set_name = f"s{number % 300}" if kind == "tables" else "s"
        written.append([["ns", set_name, b"d" * 20, number], [(name, number) for name in names]])
    return written


def json_writes(kind: str, count: int) -> list[bytes]:
    return [
        msgspec.json.encode(
            {
                "msg": "delete" if is_other(kind, number) else "write",
                "key": key,
                "lut": 1,
                "bins": [{"name": name, "type": "int", "value": value} for name, value in bins],
            }
        )
        for number, (key, bins) in enumerate(records(kind, count))
    ]


def messagepack_writes(kind: str, count: int) -> list[bytes]:
    return [
        msgspec.msgpack.encode(
            [
                1 + is_other(kind, number),
                1,
                [key, 1, 0, 0, [[name, 1, 0, value] for name, value in bins]],
            ]
        )
        for number, (key, bins) in enumerate(records(kind, count))
    ]


def flat_writes(kind: str, count: int) -> list[bytes]:
    written = []
    for number, (key, bins) in enumerate(records(kind, count)):
        names = dict(zip(("namespace", "set", "digest", "userKey"), key, strict=True))
        metadata = {name: part for name, part in names.items() if part is not None}
        metadata |= {"msg": "delete" if is_other(kind, number) else "write", "lut": 1}
        written.append(msgspec.json.encode({"metadata": metadata} | dict(bins)))
    return written


def unwrapped_rows(kind: str, count: int) -> list[bytes]:
    rng = random.Random(kind)
    values: list[bytes] = []
    for number in range(count):
        row: dict[str, object] = {"id": number, "a": "x" * 20, "b": 1, "c": None, "d": "y"}
        if kind == "extended":
            row["__transaction_id"] = "7:1"
        names = names_of(rng, kind, list(row))
        table = f"t{number % 300}" if kind == "tables" else "t"
        op = "x" if is_other(kind, number) else "c"
        added = {"__table": table, "__op": op, "__deleted": "false"}
        values.append(dumps({name: row[name] for name in names} | added))
    return values


FORMATS: dict[str, tuple[Any, Decode, Callable[[str, int], list[bytes]]]] = {
    "debezium_json": (DebeziumFormat, envelope.decode, messages),
    "debezium_unwrapped_json": (UnwrappedRows, unwrapped.decode, unwrapped_rows),
    "aerospike_json": (JsonWrites, aerospike_json.decode, json_writes),
    "aerospike_flat_json": (FlatWrites, aerospike_flat_json.decode, flat_writes),
    "aerospike_messagepack": (MessagePackWrites, messagepack.decode, messagepack_writes),
}


@lru_cache(1)
def extended(format: str, count: int) -> list[bytes]:
    """The messages of a format behind a change; the same for several tests in turn."""
    return FORMATS[format][2]("extended", count)


class Clock:
    """Seconds that go on with what is done, in millionths: 20 for a careful message, 5 for each
    that is tried.
    """

    careful_one = 20e-6
    tried_one = 5e-6

    def __init__(self, format: Any, decode: Decode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.careful = 0
        self.stall = 0.0
        """Seconds for which the machine has other work when names are looked for next."""
        self._decode = decode
        rows, names = format.rows, format.names

        def counted(layout: Any, places: Any, *others: Any) -> Any:
            self.now += self.tried_one * len(places)
            return rows(layout, places, *others)

        def stalled(*message: Any) -> Any:
            self.now += self.stall
            self.stall = 0.0
            return names(*message)

        monkeypatch.setattr(format, "rows", counted)
        monkeypatch.setattr(format, "names", stalled)

    def __call__(self) -> float:
        return self.now

    def decode(self, key: bytes | None, value: bytes | None) -> list[Event]:
        self.now += self.careful_one
        self.careful += 1
        return self._decode(key, value)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", ["shuffled", "tables", "optional", "others", "alike"])
def test_no_mix_takes_much_longer(format: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds of a clock that only the work moves on, so that no machine matters."""
    make, decode, messages = FORMATS[format]
    layouts = make()
    clock = Clock(layouts, decode, monkeypatch)
    fast_path = FastPath(clock.decode, layouts, Learning(clock))
    values = messages(kind, 4000)
    for start in range(0, len(values), 200):
        part: list[bytes | None] = list(values[start : start + 200])
        assert len(fast_path.decode_batch([None] * 200, part).payloads()) == 200
    assert clock.now <= 1.1 * 20e-6 * len(values)
    if kind == "alike":
        assert clock.careful <= len(values) / 100


# In CI, a format with keys and one without: learning is the same for all.
@pytest.mark.parametrize(
    "format",
    [
        pytest.param(
            each,
            marks=() if each in ("aerospike_messagepack", "debezium_json") else pytest.mark.long,
        )
        for each in FORMATS
    ],
)
def test_hundreds_of_tables_are_learned(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, decode, messages = FORMATS[format]
    layouts = make()
    clock = Clock(layouts, decode, monkeypatch)
    layout = layouts.layout

    def slowly(*shape: Any) -> Any:
        clock.now += 400e-6
        return layout(*shape)

    monkeypatch.setattr(layouts, "layout", slowly)
    fast_path = FastPath(clock.decode, layouts, Learning(clock))
    values = messages("tables", 300 * 20)
    for _ in range(12):
        before, start = clock.careful, clock.now
        for table in range(300):
            part: list[bytes | None] = list(values[table::300])
            assert len(fast_path.decode_batch([None] * 20, part).payloads()) == 20
        assert clock.now - start <= 1.25 * 20e-6 * len(values)
    assert clock.careful == before
    assert clock.now - start <= 0.3 * 20e-6 * len(values)


def test_a_message_of_another_table_in_front_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, decode, messages = FORMATS["debezium_json"]
    layouts = make()
    clock = Clock(layouts, decode, monkeypatch)
    fast_path = FastPath(clock.decode, layouts, Learning(clock))
    values = messages("alike", 4000)
    other = messages("tables", 2)[1]
    for start in range(0, len(values), 200):
        part: list[bytes | None] = [other, *values[start : start + 199]]
        fast_path.decode_batch([None] * 200, part)
    assert clock.careful <= 20 + len(values) // 100


@pytest.mark.parametrize("first", ["alike", "mostly alike", "others", "shuffled"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_table_that_changes_for_good_is_learned_anew(
    format: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot and then changes with transactions; a new column."""
    make, decode, messages = FORMATS[format]
    layouts = make()
    clock = Clock(layouts, decode, monkeypatch)
    fast_path = FastPath(clock.decode, layouts, Learning(clock))
    clock.stall = 0.01
    before = 0
    # What does not pay rests for 8,192 messages by then, the longest.
    for values in (
        messages(first, 4_000 if "alike" in first else 10_000),
        extended(format, 12_000),
    ):
        before = clock.careful
        for start in range(0, len(values), 200):
            part: list[bytes | None] = list(values[start : start + 200])
            assert len(fast_path.decode_batch([None] * 200, part).payloads()) == 200
    # What has not paid for long is tried again after 8,192 messages.
    assert clock.careful - before <= (500 if "alike" in first else 9_000)


def test_what_the_fast_path_takes_is_measured_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves over takes so long that by it alone the fast path would seem to pay."""

    class Slow(Clock):
        tried_one = 40e-6

        def decode(self, key: bytes | None, value: bytes | None) -> list[Event]:
            events = super().decode(key, value)
            if events[0].operation == "truncate":
                self.now += 1000e-6
            return events

    make, decode, messages_of = FORMATS["debezium_json"]
    layouts = make()
    clock = Slow(layouts, decode, monkeypatch)
    fast_path = FastPath(clock.decode, layouts, Learning(clock))
    values = messages_of("mostly alike", 24_000)
    for start in range(0, len(values), 200):
        part: list[bytes | None] = list(values[start : start + 200])
        assert len(fast_path.decode_batch([None] * 200, part).payloads()) == 200
    assert clock.careful > len(values) / 2


def test_arcion_takes_it_too() -> None:
    """Its values are text that the schema block types."""
    types = {"n": "int32", "f": "double", "b": "boolean", "s": "string", "x": "bytes"}
    fields: list[dict[str, object]] = [
        {"field": name, "type": kind} for name, kind in types.items()
    ]
    fields.append(
        {
            "field": "d",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        }
    )
    row: dict[str, object] = {"type": "struct", "fields": fields}
    block = {"type": "struct", "fields": [row | {"field": "before"}, row | {"field": "after"}]}
    rows = [
        {"n": "1", "f": "1.50", "b": "true", "s": "1", "x": "AQI=", "d": "12.5"},
        {"n": 2, "f": 2.5, "b": False, "s": None, "x": None, "d": 3},
        {"n": None, "f": "NaN", "b": None, "s": "", "x": "", "d": "Infinity"},
        {"n": "one", "f": "1", "b": "true", "s": "1", "x": "AQI=", "d": "12.5"},
        {"n": "1", "f": "1", "b": "true", "s": 1, "x": "?", "d": "12.555"},
    ]
    values: list[bytes | None] = []
    for number in range(60):
        envelope_fields = ENVELOPE | {
            "before": rows[number % 3] if number % 2 else None,
            "after": rows[number % (3 if number < 40 else 5)],
            "transaction": {"id": "", "total_order": None},
        }
        values.append(dumps({"schema": block, "payload": envelope_fields}))
    keys: list[bytes | None] = [None] * 60
    expected = [arcion.decode(None, value) for value in values]
    fast_path = FastPath(arcion.decode, DebeziumFormat(text_values=True), Learning(lambda: 0.0))
    for _ in range(2):
        assert fast_path.decode_batch(keys, values).payloads() == expected
    assert not fast_path.decode_batch(keys[:40], values[:40]).events
    # In any order.
    for number, value in enumerate(values):
        message = msgspec.json.decode(value or b"")
        for name in ("before", "after"):
            if message["payload"][name]:
                columns = list(message["payload"][name].items())
                random.Random(f"{name} {number}").shuffle(columns)
                message["payload"][name] = dict(columns)
        values[number] = dumps(message)
    expected = [arcion.decode(None, value) for value in values]
    for _ in range(2):
        assert fast_path.decode_batch(keys, values).payloads() == expected
    assert not fast_path.decode_batch(keys[:40], values[:40]).events
