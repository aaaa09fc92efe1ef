"""Batches of a benchmark's messages of which some are odd: what one message needs must not depend
on its neighbours, whatever a fast path looks at for all of a batch together.
"""

import base64
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgpack

from python_udfs.core.limits import MAX_DEPTH
from python_udfs.debezium.types import UNAVAILABLE
from tools.benchmarks.payloads import SHAPES, WRITES_ONLY, Message, Shape, messages

Rng = random.Random
Sent = tuple[bytes | None, bytes | None]
_DEPTHS: Final = (1, 5, 60, *range(MAX_DEPTH - 8, MAX_DEPTH + 2), MAX_DEPTH + 44)
# Shapes of messages that can't be deletes.
_WRITES: Final = ("shuffled", "toast")
_TABLE: Final = re.compile(rb'(orders|profiles)"')


def stream(name: str, count: int) -> list[Message]:
    """The first messages of a shape."""
    shape: Shape = SHAPES[name]
    mix = {"mix": WRITES_ONLY} if name.endswith(_WRITES) else {}
    return list(messages(shape, range(count), **mix))


def of_tables(rng: Rng, name: str, plain: list[Message], tables: int) -> list[Message]:
    """Messages of a shape as if they were of so many tables, at most ten."""

    def renamed(text: bytes, table: int) -> bytes:
        if SHAPES[name].format == "aerospike_messagepack":
            return text.replace(b"\xa8profiles", b"\xa9profiles%d" % table)
        return _TABLE.sub(rb'\g<1>%d"' % table, text)

    numbers = [rng.randrange(tables) for _ in plain]
    return [
        Message(*(renamed(text, number) for text in message))
        for message, number in zip(plain, numbers, strict=True)
    ]


def odd_batch(rng: Rng, name: str, plain: list[Message]) -> list[Sent]:
    """Messages of a shape, of which some are changed, damaged or without images."""
    is_packed = SHAPES[name].format == "aerospike_messagepack"
    changed = _changed_packed if is_packed else _changed_json
    rate = rng.choice((0.02, 0.1, 0.4))
    bare = 0.0 if is_packed else rng.choice((0.0, 0.0, 0.7))
    batch: list[Sent] = []
    for key, value in plain:
        if bare:
            value = _bare(rng, value, bare)
        if rng.random() < rate:
            value = _damaged(rng, value) if rng.random() < 0.3 else changed(rng, value)
        sent: bytes | None = key
        if rng.random() < rate / 2:
            sent = rng.choice((None, b"", _damaged(rng, key), changed(rng, key)))
        batch.append((sent, value))
    return batch


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _bare(rng: Rng, value: bytes, rate: float) -> bytes:
    """An envelope without brackets in its texts; often a delete without images."""
    message = json.loads(value)
    envelope = message.get("payload", message)
    if not isinstance(envelope.get("source"), dict):
        return value
    if "sequence" in envelope["source"]:
        envelope["source"]["sequence"] = None
    if rng.random() < rate:
        envelope |= {"op": "d", "before": None, "after": None}
    return _dumps(message)


def _changed_json(rng: Rng, text: bytes) -> bytes:
    return _dumps(_changed(rng, json.loads(text)))


def _changed_packed(rng: Rng, packed: bytes) -> bytes:
    tree = _changed(rng, msgpack.unpackb(packed, strict_map_key=False))
    try:
        changed: bytes = msgpack.packb(tree)
    except (OverflowError, ValueError):
        # A number or a depth that MessagePack's library does not write.
        return packed
    return changed


def _changed(rng: Rng, tree: Any) -> Any:
    """A tree with another value in one place, one more or one less."""
    path = rng.choice(list(_paths(tree)))
    if not path:
        return _odd(rng)
    *way, last = path
    parent = tree
    for step in way:
        parent = parent[step]
    drawn = rng.random()
    if drawn < 0.7:
        parent[last] = _odd(rng)
    elif drawn < 0.85:
        del parent[last]
    elif isinstance(parent, dict):
        parent[f"more_{rng.randrange(3)}"] = _odd(rng)
    else:
        parent.append(_odd(rng))
    return tree


def _paths(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    steps: Iterable[Any] = ()
    if isinstance(tree, dict):
        steps = tree
    elif isinstance(tree, list):
        steps = range(len(tree))
    for step in steps:
        yield from _paths(tree[step], (*at, step))


def _nested(rng: Rng) -> Any:
    value: Any = rng.choice((1, "x", None))
    in_objects = rng.random() < 0.5
    for _ in range(rng.choice(_DEPTHS)):
        value = {"k": value} if in_objects else [value]
    return value


_VALUES: Final[tuple[Callable[[Rng], Any], ...]] = (
    *(
        lambda _, value=value: value
        for value in (
            *(None, True, False, 1.5, 1e300, 2**70, -5, "x", "", 'a\nb\u2028"'),
            UNAVAILABLE,
            base64.b64encode(UNAVAILABLE.encode()).decode(),
            [ord(letter) for letter in UNAVAILABLE],
        )
    ),
    lambda _: {},
    lambda _: [],
    _nested,
    _nested,
)


def _odd(rng: Rng) -> Any:
    return rng.choice(_VALUES)(rng)


def _damaged(rng: Rng, text: bytes) -> bytes:
    place = rng.randrange(len(text))
    inserted = rng.choice((b" ", b"\n", b",", b"}", b"{", b"\\u0041", b"0"))
    return rng.choice(
        (
            text[:place] + bytes([rng.randrange(256)]) + text[place + 1 :],
            text[:place] + text[place + rng.randint(1, 3) :],
            text[:place] + inserted + text[place:],
            text[:place],
        )
    )
