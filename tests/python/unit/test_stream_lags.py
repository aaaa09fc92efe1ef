"""What a stream notes of lags: until gold has what has landed, and never at a cycle's cost."""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from dbt_lakehouse.commands.stream_lags import StreamLags
from dbt_lakehouse.landing.lags import HourOfLags, bucket_of, last_hour

GOLD: Final = "model.shop.orders"


@pytest.fixture
def now() -> datetime:
    """Of the test itself: what is an hour old when it begins is forgotten, as in a long suite."""
    return datetime.now(UTC)


def tables(topics: Collection[str]) -> dict[str, set[str]]:
    assert {*topics} <= {"orders"}
    return {topic: {GOLD} for topic in topics}


def landed(topic: str, at: datetime, ages: dict[int, int]) -> list[dict[str, Any]]:
    return [{"topic": topic, "checked_at": at, "landed_ages": list(ages.items())}]


def result(status: str, at: datetime) -> Any:
    done = SimpleNamespace(name="execute", completed_at=at)
    return SimpleNamespace(node=SimpleNamespace(unique_id=GOLD), status=status, timing=[done])


def test_what_has_landed_waits_until_gold_has_it(tmp_path: Path, now: datetime) -> None:
    lags = StreamLags(HourOfLags(tmp_path / "hour" / "gold.json"), print)
    lags.landed(landed("orders", now - timedelta(seconds=10), {bucket_of(1): 3}))
    lags.built(tables, [result("error", now)])
    assert last_hour(tmp_path / "hour" / "gold.json", now) == {}
    lags.landed(landed("orders", now, {bucket_of(1): 2}))
    lags.built(tables, [result("success", now + timedelta(seconds=1))])
    assert last_hour(tmp_path / "hour" / "gold.json", now + timedelta(minutes=1)) == {
        "orders": Counter({bucket_of(2): 2, bucket_of(12): 3})
    }


def test_what_a_cycle_was_not_for_goes_on_waiting(tmp_path: Path, now: datetime) -> None:
    """Messages that came while it ran have landed, and their models were not run."""
    lags = StreamLags(HourOfLags(tmp_path / "gold.json"), print)
    lags.landed(landed("orders", now - timedelta(seconds=10), {bucket_of(1): 3}))
    lags.built(tables, [], {"parcels"})
    assert last_hour(tmp_path / "gold.json", now) == {}
    lags.built(tables, [result("success", now)], {"orders", "parcels"})
    assert last_hour(tmp_path / "gold.json", now + timedelta(minutes=1)) == {
        "orders": Counter({bucket_of(11): 3})
    }


def test_whatever_goes_wrong_is_told_once(tmp_path: Path, now: datetime) -> None:
    told: list[str] = []
    (tmp_path / "hour").touch()
    lags = StreamLags(HourOfLags(tmp_path / "hour" / "gold.json"), told.append)
    for _ in range(2):
        lags.landed(landed("orders", now, {bucket_of(1): 3}))
        lags.built(tables, [result("success", now)])
    assert len(told) == 1 and "the lags of the last hour can't be noted" in told[0]
    # A mistake of ours.
    lags.landed(landed("orders", now, {bucket_of(1): 3}))
    lags.built(tables, [SimpleNamespace(node=SimpleNamespace(unique_id=GOLD))])
    assert len(told) == 2 and "has no attribute 'status'" in told[1]
    lags.landed([{"topic": "orders", "landed_ages": [(3, 1)]}])
    assert len(told) == 3 and "checked_at" in told[2]

    def fails(topics: Collection[str]) -> dict[str, set[str]]:
        raise ValueError("no tables")

    lags.built(fails, [])
    lags.built(fails, [])
    assert len(told) == 4 and told[3].endswith("can't be noted: no tables")
