"""The lags from Kafka to gold: what is kept of them, and what percentiles come of it."""

import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt_lakehouse.lake.catalog import WAREHOUSE
from dbt_lakehouse.landing.lags import (
    HourOfLags,
    Spread,
    bucket_of,
    grown,
    hour_file,
    last_hour,
    seconds_of,
    spread_of,
)

NOW = datetime(2026, 11, 27, 14, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def file_of(target: Path, lake: str = "file:///lake", gold: str = "gold") -> Path:
    return hour_file(target, {WAREHOUSE: lake}, gold)


def exact(lags: list[float], share: float) -> float:
    """The lag that so many of all did not exceed."""
    return sorted(lags)[math.ceil(len(lags) * share) - 1]


@given(
    st.lists(
        st.tuples(
            st.floats(0.001, 1e9),
            st.floats(0, 1e4),
        ),
        min_size=1,
    )
)
def test_percentiles_of_many_cycles_are_right_within_a_tenth(
    messages: list[tuple[float, float]],
) -> None:
    """A message's age when it has landed, and what came until gold had it."""
    parts = [grown({bucket_of(age): 1}, waited) for age, waited in messages]
    spread = spread_of(parts)
    lags = [age + waited for age, waited in messages]
    assert spread is not None and spread.messages == len(lags)
    assert spread.p50 == pytest.approx(exact(lags, 0.5), rel=0.1)
    assert spread.p99 == pytest.approx(exact(lags, 0.99), rel=0.1)


def test_percentiles_are_of_messages_and_not_of_cycles() -> None:
    # Ninety cycles of one message each, and one of a thousand that took longer.
    parts = [Counter({bucket_of(1.0): 1}) for _ in range(90)]
    parts.append(Counter({bucket_of(20.0): 1_000}))
    spread = spread_of(parts)
    assert spread is not None and spread.p50 == pytest.approx(20, rel=0.1)


def test_a_clock_that_is_ahead_gives_the_shortest_lag() -> None:
    assert bucket_of(-5.0) == bucket_of(0.0) == 0
    assert grown({0: 3}, -5.0) == {bucket_of(seconds_of(0)): 3}


def test_an_hour_is_kept_whatever_process_has_written_it(tmp_path: Path) -> None:
    dice = random.Random("lags")
    for at in (NOW - 61 * MINUTE, NOW - 59 * MINUTE, NOW):
        hour = HourOfLags(file_of(tmp_path))
        for topic in ("a", "b/ü"):
            hour.add(topic, at, {bucket_of(dice.uniform(1, 2)): 2, bucket_of(60.0): 1})
        hour.keep(at)
    found = last_hour(file_of(tmp_path), NOW)
    assert {topic: sum(lags.values()) for topic, lags in found.items()} == {"a": 6, "b/ü": 6}
    later = last_hour(file_of(tmp_path), NOW + 30 * MINUTE)
    assert {topic: sum(lags.values()) for topic, lags in later.items()} == {"a": 3, "b/ü": 3}
    assert last_hour(file_of(tmp_path), NOW + 60 * MINUTE) == {}
    # Where nothing streams, and in another lake or gold, there is nothing, and never 0.
    for other in (file_of(tmp_path, gold="dev_gold"), file_of(tmp_path, lake="s3://lake")):
        assert last_hour(other, NOW) == {}
    assert spread_of([]) is None
    (file,) = (tmp_path / "stream").iterdir()
    assert file.stat().st_size < 500


def test_what_another_version_has_written_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "stream").mkdir()
    file_of(tmp_path).write_text('{"minutes": [1]}')
    assert last_hour(file_of(tmp_path), NOW) == {}
    hour = HourOfLags(file_of(tmp_path))
    hour.add("a", NOW, {3: 1})
    hour.keep(NOW)
    assert spread_of(last_hour(file_of(tmp_path), NOW).values()) == Spread(
        1, seconds_of(3), seconds_of(3)
    )
