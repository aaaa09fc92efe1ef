"""`vars.as_of` in every form that it may have."""

from collections.abc import Iterator
from typing import Final

import pytest
from aerospike_encoder import pack
from lakes import Lake
from small_messages import profile
from streams import MINUTE, PROFILES, START, Message

MODELS: Final = ("run", "-s", "+profiles")


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


@pytest.mark.parametrize("as_of", ["2026-12-31 10:00", "2026-12-31T13:30:00.5+02:00"])
def test_a_later_moment_in_another_form_is_later(lake: Lake, as_of: str) -> None:
    assert set(lake.dbt(*MODELS, as_of=as_of).values()) == {"success"}
    assert len(lake.read("gold.profiles")) == 2


@pytest.mark.parametrize(
    "as_of", ["2026-12-31T09:00:00", "2026-12-31", "2026-12-31 10:15:00+01:00"]
)
def test_an_earlier_moment_takes_a_rebuild(lake: Lake, as_of: str) -> None:
    assert lake.dbt(*MODELS, as_of=as_of)["profiles"] == "error"
    assert "can only come back with --full-refresh" in log_of(lake)


def test_rows_expire_at_a_moment_in_another_zone(lake: Lake) -> None:
    assert set(lake.dbt(*MODELS, as_of="2026-12-31T23:00:00-01:00").values()) == {"success"}
    assert lake.read("gold.profiles") == []


def log_of(lake: Lake) -> str:
    return (lake.folder / "logs" / "dbt.log").read_text()
