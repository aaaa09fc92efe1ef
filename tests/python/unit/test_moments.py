"""The moment of a command, from `vars.as_of`, the clock, and what was built before."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest

from dbt_lakehouse.runs.moments import Moment, given_moment, moment_of, text_of

NOW: Final = datetime(2026, 11, 26, 9, tzinfo=UTC)
TEXT: Final = "2026-11-26 09:00:00.000000"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("2026-11-21", "2026-11-21 00:00:00.000000"),
        ("2026-11-21 10:00", "2026-11-21 10:00:00.000000"),
        ("2026-11-21T10:00:00.5+02:00", "2026-11-21 08:00:00.500000"),
        ("2026-11-21T10:00:00Z", "2026-11-21 10:00:00.000000"),
        # As YAML has them.
        (date(2026, 11, 21), "2026-11-21 00:00:00.000000"),
        (datetime(2026, 11, 21, 10, 0, 0, 5), "2026-11-21 10:00:00.000005"),
        # As text, less than all that are later.
        ("0099-01-01", "0099-01-01 00:00:00.000000"),
    ],
)
def test_a_moment_that_is_given(given: Any, text: str) -> None:
    assert given_moment(given) == Moment(text)


@pytest.mark.parametrize(
    "built",
    [
        {},
        {"profiles": None},
        {"profiles": TEXT},
        {"profiles": "2026-11-26 08:59:59.999999", "sessions": "2020-01-01 00:00:00.000000"},
    ],
)
def test_the_clock_says_what_the_moment_is(built: dict[str, str | None]) -> None:
    assert moment_of(NOW, built) == Moment(TEXT)


def test_the_moment_never_goes_back() -> None:
    later = text_of(NOW + timedelta(seconds=59))
    assert moment_of(NOW, {"profiles": later}) == Moment(later)
    much_later, latest = (text_of(NOW + timedelta(hours=hours)) for hours in (1, 3))
    built = {"visits": much_later, "profiles": latest, "sessions": TEXT}
    assert moment_of(NOW, built) == Moment(
        latest,
        "the clock says 2026-11-26 09:00:00, but profiles, visits were built as of up to 2026-11-26"
        " 12:00:00, and rows that had expired by then are gone: rows expire as of that moment in"
        " this run too. If that moment was wrong, `dbt run --full-refresh -s profiles visits`"
        " builds by the clock",
    )
