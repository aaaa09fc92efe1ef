"""Columns of times converted at once: each value as alone, or none of them."""

import random
from typing import Any

import pytest

from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS
from python_udfs.debezium.temporal_columns import OF_MANY
from python_udfs.debezium.values import TEMPORAL, Misfit

_TEXTS = (
    "2024-02-29T23:59:59Z",
    "2024-02-29T23:59:59.123456789Z",
    "0001-01-01T00:00:00.1Z",
    "2023-02-29T00:00:00Z",
    "2023-02-28T24:00:00Z",
    "2023-02-28T00:00:00+01:00",
    "2023-02-28T00:00:00Z\n",
    "+12023-02-28T00:00:00Z",
    "infinity",
    "1700000000000",
    "",
    None,
)


def texts(rng: random.Random) -> list[Any]:
    """Of which all may be usual ones."""
    return [rng.choice(_TEXTS[: rng.choice((3, 3, 12))]) for _ in range(rng.choice((0, 1, 5)))]


def numbers(rng: random.Random) -> list[Any]:
    """The same of numbers in some unit."""
    factor = rng.choice((1, 1000))
    edges = [MIN_TIME_MS * factor, MAX_TIME_MS * factor, 0, -1, 999, 9223372036825200, 2**63]
    return [
        None
        if rng.random() < 0.2
        else rng.choice(edges) + rng.randrange(-2, 3)
        if rng.random() < 0.2
        else rng.randrange(edges[0], edges[1])
        for _ in range(rng.choice((1, 5)))
    ] + rng.choice(([], [], [], ["7"], [True]))


@pytest.mark.parametrize("name", OF_MANY)
def test_all_are_converted_as_alone(name: str) -> None:
    rng = random.Random(name)
    converted = 0
    for _ in range(4000):
        values = rng.choice((texts, numbers))(rng)
        found = OF_MANY[name](values)
        if found is None:
            continue
        converted += 1
        alone = [None if value is None else TEMPORAL[name](value) for value in values]
        assert found == alone, values
    assert converted > 300


@pytest.mark.parametrize("name", OF_MANY)
def test_what_is_usual_is_converted(name: str) -> None:
    usual: list[Any] = (
        ["2024-02-29T23:59:59.5Z", None] if name.endswith("ZonedTimestamp") else [5, None]
    )
    assert OF_MANY[name](usual) is not None
    with pytest.raises(Misfit):
        TEMPORAL[name]("no time")
    assert OF_MANY[name](["no time"]) is None
