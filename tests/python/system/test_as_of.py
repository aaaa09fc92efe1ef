"""The moment as of which rows have expired: `vars.as_of` in every form that it may have, and the
clock, which may be behind, or ahead of that of an earlier run.
"""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import Final, Self

import pytest
from support.aerospike_encoder import pack
from support.commands import wait_until
from support.lakes import Lake
from support.small_messages import profile
from support.streams import MINUTE, PROFILES, START, Message
from test_locks import held_elsewhere

from dbt.adapters.lakehouse import connections

# One with rows that expire, and one without.
MODELS: Final = ("run", "-s", "+profiles", "+regions")


def write(offset: int, number: int) -> Message:
    """A write of a profile that expires at the turn of the year 2026."""
    clock = START + offset * MINUTE
    record = profile(number, clock, "any")
    record[2][2] = 1_798_761_600
    return Message(PROFILES, 0, offset, clock, None, pack(record))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake built as of ten o'clock on the last day."""
    lake = Lake(tmp_path_factory.mktemp("as-of"))
    lake.land(each.line() for each in (write(0, 1), write(1, 2)))
    statuses = lake.dbt(*MODELS, as_of="2026-12-31T10:00:00Z")
    assert set(statuses.values()) == {"success"}
    assert len(lake.read("gold.profiles")) == 2
    yield lake


# All forms are in test_moments; in CI, each way has one of them.
@pytest.mark.parametrize(
    "as_of",
    [
        pytest.param("2026-12-31 10:00", marks=pytest.mark.long),
        "2026-12-31T13:30:00.5+02:00",
    ],
)
def test_a_later_moment_in_another_form_is_later(lake: Lake, as_of: str) -> None:
    assert set(lake.dbt(*MODELS, as_of=as_of).values()) == {"success"}
    assert len(lake.read("gold.profiles")) == 2


@pytest.mark.parametrize(
    "as_of",
    [
        pytest.param("2026-12-31T09:00:00", marks=pytest.mark.long),
        pytest.param("2026-12-31", marks=pytest.mark.long),
        "2026-12-31 10:15:00+01:00",
    ],
)
def test_an_earlier_moment_takes_a_rebuild(lake: Lake, as_of: str) -> None:
    outcomes = lake.outcomes(*MODELS, as_of=as_of)
    assert outcomes["profiles"].status == "error"
    assert "can only come back with --full-refresh" in outcomes["profiles"].message
    # No row of it expires.
    assert outcomes["regions"].status == "success"


def test_rows_expire_at_a_moment_in_another_zone(lake: Lake) -> None:
    assert set(lake.dbt(*MODELS, as_of="2026-12-31T23:00:00-01:00").values()) == {"success"}
    assert lake.read("gold.profiles") == []


def noted(lake: Lake) -> str:
    """As of when the profiles are built."""
    text = lake.look_at("gold.profiles").noted("lakehouse.as_of")
    assert text is not None
    return text


@pytest.mark.parametrize(
    ("offset", "behind", "told"),
    [
        # What clocks may differ by, and one that was set back.
        (2, datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC), False),
        (3, datetime(2026, 12, 31, 21, tzinfo=UTC), True),
    ],
)
def test_a_clock_that_is_behind_brings_nothing_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, offset: int, behind: datetime, told: bool
) -> None:
    class Clock(datetime):
        """What the adapter asks for the time."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(behind.timestamp(), tz)

    monkeypatch.setattr(connections, "datetime", Clock)
    before = lake.log_text()
    lake.land([write(offset, 3).line()])
    assert set(lake.dbt(*MODELS, as_of=None).values()) == {"success"}
    assert lake.read("gold.profiles") == []
    assert noted(lake) == "2027-01-01 00:00:00.000000"
    said = lake.log_text().removeprefix(before)
    sentence = (
        f"the clock says {behind:%F %T}, but profiles was built as of up to 2027-01-01 00:00:00,"
        " and rows that had expired by then are gone: rows expire as of that moment in this run"
        " too. If that moment was wrong, `dbt run --full-refresh -s profiles` builds by the clock"
    )
    assert (sentence in said) == told
    assert ("the clock says" in said) == told


def test_the_moment_is_when_the_lock_is_held(lake: Lake) -> None:
    """A run that waits for another has a later moment than that one. Made anew, a table is built by
    the clock, whatever it was built as of.
    """
    got: list[str] = []
    with held_elsewhere(lake, "run") as holder:

        def let_go() -> None:
            wait_until(lambda: "waiting for `a test`" in lake.log_text(), "the run")
            got.append(f"{datetime.now(UTC):%F %T}")
            holder.kill()

        other = threading.Thread(target=let_go)
        other.start()
        statuses = lake.dbt(*MODELS, "--full-refresh", as_of=None)
        other.join()
    assert set(statuses.values()) == {"success"}
    assert got[0] <= noted(lake) <= f"{datetime.now(UTC):%F %T.%f}"
