"""Landing captures in bronze, and the SQL functions on what has landed."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from lakes import Lake

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError, LandingError
from dbt_lakehouse.landing.files import LandingResult, configured_captures


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    yield Lake(tmp_path_factory.mktemp("landing"))


def line(number: int, value: bytes | None, **fields: Any) -> dict[str, Any]:
    """A capture line of one topic and partition."""
    encoded = None if value is None else base64.b64encode(value).decode()
    return {
        "topic": "t",
        "partition": 0,
        "offset": number,
        "timestamp_ms": 1_790_000_000_000 + number,
        "key_b64": None,
        "value_b64": encoded,
        **fields,
    }


def test_each_position_lands_once_in_one_commit(lake: Lake) -> None:
    headers = [["h", None], ["h", "AQ=="]]
    first = [line(0, b"a", headers=headers), line(1, None), line(2, b""), line(2, b"")]
    assert lake.land(first) == LandingResult(landed=3, skipped=1)
    assert lake.land([*first, line(3, b"d")]) == LandingResult(landed=1, skipped=4)
    assert lake.land(first) == LandingResult(landed=0, skipped=4)
    assert len(lake.snapshots("bronze.raw_payloads")) == 2

    rows = sorted(lake.read("bronze.raw_payloads"), key=lambda row: row["offset"])
    assert [row["value"] for row in rows] == [b"a", None, b"", b"d"]
    assert rows[0]["headers"] == [{"key": "h", "value": None}, {"key": "h", "value": b"\x01"}]


@pytest.mark.parametrize(
    "changed",
    [line(0, b"b"), line(0, None), line(1, b""), line(0, b"a", key_b64="AQ==")],
    ids=["value", "no value", "empty value", "key"],
)
def test_other_bytes_at_a_position_stop_the_landing(lake: Lake, changed: dict[str, Any]) -> None:
    offset = changed["offset"]
    before = lake.current_snapshot("bronze.raw_payloads")
    with pytest.raises(LandingError, match=f"topic t, partition 0, offset {offset} .* other bytes"):
        lake.land([changed, line(9, b"new")])
    assert lake.current_snapshot("bronze.raw_payloads") == before


@pytest.mark.parametrize("name", ["timestamp", "ts_ms", "Timestamp_MS"])
def test_a_time_by_another_name_stops_the_landing(lake: Lake, name: str) -> None:
    sent = line(30, b"a", timestamp_type=1)
    sent[name] = sent.pop("timestamp_ms")
    with pytest.raises(LandingError, match=f"has no `timestamp_ms`, but `{name}`: misspelt"):
        lake.land([sent])
    assert sum(lake.land([line(30, b"a", timestamp_ms=None, timestamp_type=0)])) == 1


def test_captures_that_are_not_there() -> None:
    captures = ["seeds/*.jsonl", "seeds/none-*.jsonl"]
    with pytest.raises(ConfigurationError, match=r"names seeds/none-[*].jsonl, but"):
        configured_captures({"captures": captures}, ROOT)


def test_two_messages_of_one_position_stop_the_landing(lake: Lake) -> None:
    with pytest.raises(LandingError, match="offset 20"):
        lake.land([line(20, b"x"), line(20, b"y")])


@pytest.mark.parametrize("field", ["topic", "partition", "offset"])
def test_a_message_needs_its_position(lake: Lake, field: str) -> None:
    with pytest.raises(LandingError, match="line 1: landing needs topic, partition and offset"):
        lake.land([line(30, b"x", **{field: None})])


@pytest.mark.parametrize(
    ("query", "function"),
    [
        (
            """
            select topic, event.* from lake.bronze.raw_payloads
            lateral view inline(decode_payload('debezium_json', key, value)) event
            """,
            "decode_payload",
        ),
        (
            """
            select texts.after[0] as a, texts.after[1] as b, upper(texts.before[1]) as c from (
                select row_texts(null, string(value), null, '[["a","b"],["a"]]') as texts
                from lake.bronze.raw_payloads
            )
            """,
            "row_texts",
        ),
    ],
)
def test_a_python_function_runs_once_for_each_row(lake: Lake, query: str, function: str) -> None:
    # One evaluation for each output column would multiply the most expensive step of the pipeline.
    plan = lake.sql(f"explain {query}")[0]["plan"]
    evaluations = [text for text in plan.splitlines() if "ArrowEvalPython" in text]
    assert len(evaluations) == 1
    assert evaluations[0].count(f"{function}(") == 1
