"""A message's events don't depend on its neighbours in a batch."""

import gc
import random

import pytest
from support.odd_batches import odd_batch, stream

from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.registry import decode_batch, decode_payload
from tools.benchmarks.payloads import SHAPES

# Avro is read by column in Rust, see test_avro_columns.
NAMES = [name for name, shape in SHAPES.items() if not shape.format.endswith("avro")]
# Not for long: these take the careful path, all tables in turn.
ROUNDS = {name: 1 if name.endswith("layouts") else 6 for name in NAMES}


@pytest.fixture(autouse=True)
def always_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """For clocks that stand, the fast path always pays."""
    for each in gc.get_objects():
        if isinstance(each, FastPath):
            monkeypatch.setattr(each, "learning", Learning(lambda: 0.0))


@pytest.mark.parametrize("name", NAMES)
def test_each_message_gives_what_it_gives_alone(name: str) -> None:
    rng = random.Random(name)
    format, plain = SHAPES[name].format, stream(name, 200)
    decode_batch(format, *zip(*plain, strict=True))
    for _ in range(ROUNDS[name]):
        start = rng.randrange(len(plain) - 60)
        keys, values = zip(*odd_batch(rng, name, plain[start : start + 60]), strict=True)
        found = decode_batch(format, keys, values).payloads()
        for key, value, events in zip(keys, values, found, strict=True):
            assert events == decode_payload(format, key, value)
