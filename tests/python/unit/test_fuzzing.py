"""The properties of `make fuzz` for its seeds, and for such as are changed as it changes them: the
same ones each time, and for four seconds in all others each time; `make fuzz` and `make soak
SOAK=--fuzz` take the hours.
"""

import json
import random
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from functools import reduce
from itertools import islice
from operator import getitem
from typing import Any, Final

import pytest
from support.fuzzing import (
    COLUMN_TEXTS,
    Payload,
    changed,
    check,
    know_schemas,
    learn_anew,
    seeds,
    to_bytes,
    without_rest,
)

from python_udfs import registry
from python_udfs.core.events import Event

SEEDS = seeds()
FORMATS: Final = [*registry.FORMATS, COLUMN_TEXTS]
SECONDS_EACH: Final = 4 / len(FORMATS)


@pytest.fixture(autouse=True)
def fast_paths_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which learn whenever they can; those of other tests stay as they are."""
    learn_anew(monkeypatch)
    without_rest()
    know_schemas()


@pytest.mark.parametrize("format", FORMATS)
def test_properties_hold(format: str) -> None:
    known = SEEDS[format]
    others = sorted(known, key=lambda each: len(each.value))[:2]
    until = time.monotonic() + SECONDS_EACH
    for payload in islice(changed(known, random.Random(23)), len(known) + 60):
        check(format, payload, others)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    for payload in changed(known, random.Random(seed)):
        if time.monotonic() > until:
            break
        try:
            check(format, payload, others)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {b64encode(to_bytes(payload)).decode()}")
            raise


def without_parts(value: bytes) -> Iterator[bytes]:
    """JSON objects with each of their members gone, and with something else in its place."""
    try:
        whole = json.loads(value)
    except ValueError:
        return
    for path in list(members(whole, ())) if isinstance(whole, dict) else ():
        others: tuple[Any, ...] = (None, "", 0, [], {}, ...)
        for other in others:
            tree = json.loads(value)
            inner = reduce(getitem, path[:-1], tree)
            if other is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = other
            yield json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()


def members(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The paths of what is in an object or an array, and of what is in that."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for place, value in inside:
        yield (*path, place)
        if isinstance(value, dict | list) and len(path) < 4:
            yield from members(value, (*path, place))


@pytest.mark.parametrize("format", [each for each in registry.FORMATS if "json" in each])
def test_members_that_are_missing_or_something_else(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = SEEDS[format]
    tried = {Payload(each.key, value) for each in known for value in without_parts(each.value)}
    tried |= {Payload(key, each.value) for each in known for key in without_parts(each.key or b"")}
    assert len(tried) > 100
    for payload in sorted(tried, key=to_bytes):
        # What all of a table's messages lack, its layout does not know.
        learn_anew(monkeypatch, format)
        check(format, payload, [])


def with_escaped_letters(value: bytes) -> bytes:
    """The same JSON, each letter in a string written by its number."""

    def escaped(string: re.Match[bytes]) -> bytes:
        return re.sub(
            rb"(\\(?:u....|.))|[A-Za-z]",
            lambda found: found[1] or b"\\u%04x" % ord(found[0]),
            string[0],
        )

    return re.sub(rb'"(?:[^"\\]|\\.)*"', escaped, value)


@pytest.mark.parametrize("format", [each for each in registry.FORMATS if "json" in each])
def test_letters_may_be_escaped(format: str) -> None:
    """In what is said of an error it is told where that is, and metadata may have a key's bytes."""
    for payload in SEEDS[format]:
        key, value = payload.key, payload.value
        events = registry.decode_payload(format, key, value)
        of_value = registry.decode_payload(format, key, with_escaped_letters(value))
        assert [each._replace(error_detail=None) for each in of_value] == [
            each._replace(error_detail=None) for each in events
        ]
        of_key = registry.decode_payload(format, with_escaped_letters(key or b""), value)
        if events[0].error_code is None:
            assert [each._replace(metadata=None) for each in of_key] == [
                each._replace(metadata=None) for each in events
            ]


def test_a_payload_that_breaks_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Payload(None, SEEDS["maxwell_json"][0].value)

    def raises(key: bytes | None, value: bytes | None) -> list[Event]:
        raise KeyError("op")

    monkeypatch.setitem(registry.FORMATS, "maxwell_json", raises)
    with pytest.raises(AssertionError, match="KeyError"):
        check("maxwell_json", good, [good])
