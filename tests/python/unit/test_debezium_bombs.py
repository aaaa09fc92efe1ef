"""Hostile payloads of the Debezium family: what they take of memory and of time."""

import gc
import json
import time
import tracemalloc
from collections.abc import Callable

import pytest
from support.debezium_bombs import BOMBS, as_key
from support.debezium_messages import still_fast_path

from python_udfs.core.events import Event
from python_udfs.core.recent import Recent
from python_udfs.debezium import arcion, types
from python_udfs.debezium.json import decode

SIZE = 60_000


def peak_bytes(key: bytes | None, value: bytes) -> tuple[int, list[Event]]:
    tracemalloc.start()
    try:
        events = decode(key, value)
        return tracemalloc.get_traced_memory()[1], events
    finally:
        tracemalloc.stop()


def seconds(work: Callable[[], object]) -> float:
    """What it takes of the processor. As in a task, the collector of cycles rests meanwhile."""
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()


def is_fast(value: bytes) -> bool:
    """Whether it is decoded in the time that this machine takes for so many simple steps with each
    byte: a fifth is usual for the slowest, and of what is quadratic each byte takes thousands.
    """
    return seconds(lambda: decode(None, value)) < 350 * seconds(lambda: sum(1 for _ in value))


@pytest.mark.parametrize("name", BOMBS)
def test_memory_and_time_are_bounded(name: str) -> None:
    # A machine may be busy. Each is another payload, for schema blocks are remembered.
    assert any(is_fast(BOMBS[name](SIZE - 100 * less)) for less in range(3))
    value = BOMBS[name](SIZE)
    peak, (event,) = peak_bytes(None, value)
    assert peak < 40 * len(value) + 64 * 1024 * 1024, peak
    assert len(event.metadata or b"") + len(event.after or b"") < 30 * len(value) + 16 * 1024 * 1024
    assert (event.error_code is None) == (event.operation != "invalid")


@pytest.mark.parametrize("name", ["structs that lack most fields", "structs that lack most parts"])
def test_time_is_linear_where_it_shows_in_large_payloads_only(name: str) -> None:
    assert is_fast(BOMBS[name](400_000))


@pytest.mark.parametrize("name", ["a long duration", "a long period"])
def test_memory_is_bounded_where_it_shows_in_large_payloads_only(name: str) -> None:
    value = BOMBS[name](2_000_000)
    peak, _ = peak_bytes(None, value)
    assert peak < 40 * len(value) + 64 * 1024 * 1024, peak


@pytest.mark.parametrize("name", ["decimals of a large scale", "misfits behind a name"])
def test_what_is_made_is_refused_beyond_the_budget(name: str) -> None:
    value = BOMBS[name](2 * SIZE)
    (event,) = decode(None, value)
    assert event.error_code == "too_large"
    key, sound = as_key(value)
    (event,) = decode(key, sound)
    assert (event.operation, event.record_key) == ("insert", None)
    assert json.loads(event.metadata or b"")["event_key_encoding"] == "base64"


def test_a_little_of_each_is_decoded() -> None:
    """The budget's constant part is for rows as there are."""
    for name in ("decimals of a large scale", "misfits behind a name", "instants behind a name"):
        (event,) = decode(None, BOMBS[name](1000))
        assert event.operation == "insert", name


@pytest.mark.parametrize("name", BOMBS)
def test_the_fast_path_refuses_the_same(name: str) -> None:
    value = BOMBS[name](5000)
    sound = b'{"op":"c","after":{"c":1},"source":{"table":"t"}}'
    keys, values = [None] * 20, [value, sound] * 10
    expected = [decode(None, each) for each in (value, sound)] * 10
    fast_path = still_fast_path()
    for _ in range(2):
        assert fast_path.decode_batch(keys, values).payloads() == expected


def test_text_values_too() -> None:
    value = BOMBS["decimals of a large scale"](2 * SIZE)
    assert arcion.decode(None, value)[0].error_code == "too_large"


def test_remembered_schema_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1024 * 1024
    monkeypatch.setattr(types, "_compiled", Recent(1024, most))
    block = b'{"type":"struct","doc":"%d","fields":[%b]}'
    fields = b",".join(b'{"field":"%d","type":"int32"}' % number for number in range(100))
    message = b'{"schema":%b,"payload":{"op":"c","after":{"c":1}}}'
    tracemalloc.start()
    try:
        for number in range(100):
            assert decode(None, message % (block % (number, fields)))[0].operation == "insert"
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after < 2 * most, after
