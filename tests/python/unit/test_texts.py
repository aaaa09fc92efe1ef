"""Days and times as texts, of every year that Spark has; Python has those from 1 to 9999."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pytest

from dbt_lakehouse.queries.output import Rows
from dbt_lakehouse.texts import date_text, iso_text, time_text, wall_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, "1970-01-01"),
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-735_160, "-0043-03-15"),
        (2_932_896, "9999-12-31"),
        (3_663_382, "+12000-01-01"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_days(days: int, text: str) -> None:
    assert date_text(days) == text


@pytest.mark.parametrize(
    ("ticks", "digits", "text"),
    [
        (0, 6, "1970-01-01T00:00:00"),
        (-1, 6, "1969-12-31T23:59:59.999999"),
        (316_516_204_800_120_000, 6, "+12000-01-01T00:00:00.12"),
        (2**63 - 1, 6, "+294247-01-10T04:00:54.775807"),
        (-(2**63), 6, "-290308-12-21T19:59:05.224192"),
        (1_500, 3, "1970-01-01T00:00:01.5"),
        (86_399, 0, "1970-01-01T23:59:59"),
        (1, 9, "1970-01-01T00:00:00.000000001"),
    ],
)
def test_times(ticks: int, digits: int, text: str) -> None:
    assert wall_text(ticks, digits) == text


def test_within_its_years_they_are_as_python_has_them() -> None:
    chance = Random(1)
    for _ in range(10_000):
        moment = EPOCH + timedelta(
            days=chance.randint(-719_162, 2_932_896), microseconds=chance.randint(0, 86_399_999_999)
        )
        assert time_text((moment - EPOCH) // timedelta(microseconds=1)) == iso_text(moment)
        assert date_text((moment - EPOCH).days) == moment.date().isoformat()
    assert date_text((date.min - EPOCH.date()).days) == "0001-01-01"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("date '12000-01-01'", "+12000-01-01"),
        ("date '0044-03-15 (BC)'", "-0043-03-15"),
        ("timestamp '12000-01-01 00:00:00.5'", "+12000-01-01T00:00:00.5"),
        ("timestamptz '12000-01-01 00:00:00+00'", "+12000-01-01T00:00:00Z"),
        ("[date '12000-01-01', null, date '2026-01-01']", ["+12000-01-01", None, "2026-01-01"]),
        (
            "{'a': timestamp_s '12000-01-01 00:00:00', 'b': 1.5::decimal(3, 1)::varchar}",
            {"a": "+12000-01-01T00:00:00", "b": "1.5"},
        ),
        ("map {date '12000-01-01': date '2026-01-01'}", [["+12000-01-01", "2026-01-01"]]),
    ],
)
def test_what_a_query_finds_is_shown(expression: str, value: Any) -> None:
    with duckdb.connect() as lake:
        found = lake.execute(f"select {expression} as one union all select null order by 1")
        assert [*Rows(found).values()] == [(value,), (None,)]
