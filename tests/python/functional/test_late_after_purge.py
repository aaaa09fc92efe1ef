"""Events older than what ``deleted_keys`` has forgotten: folded with their key's log."""

from typing import Any, Final

import pytest
from support.aerospike_encoder import pack
from support.lakes import Lake
from support.small_messages import digest_text, profile, profile_key
from support.streams import DAY, HOUR, PROFILES, START, Message

MODELS: Final = ("-s", "+profiles")
SOON: Final = "2026-10-01 03:00:00"
LATER: Final = "2026-10-12 00:00:00"
PROFILE_NUMBERS: Final = (1, 2, 3)


def message(partition: int, offset: int, clock: int, *records: Any) -> Message:
    return Message(PROFILES, partition, offset, clock, None, pack(list(records)))


def deletion(number: int, clock: int) -> list[Any]:
    return [1, 2, [profile_key(number), 0, 2, 0, clock]]


def run(lake: Lake, as_of: str, **variables: Any) -> dict[str, str]:
    return lake.dbt("run", *MODELS, as_of=as_of, **variables)


def names(lake: Lake) -> dict[str, str]:
    return {row["_digest"]: row["display_name"] for row in lake.read("gold.profiles")}


def counted(lake: Lake, column: str, table: str) -> int | None:
    """A counter of the table's newest row."""
    rows = lake.sql(
        f"select max_by({column}, as_of) as counted from"
        f" (select * from silver.fold_counters where gold_table = '{table}' order by as_of)"
    )
    number: int | None = rows[0]["counted"]
    return number


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Profiles that were written and deleted so long ago that nothing of them is remembered; of the
    second, the change log holds nothing either.
    """
    lake = Lake(tmp_path_factory.mktemp("purged"))
    written = [profile(number, START, f"name {number}") for number in PROFILE_NUMBERS]
    deleted = [deletion(number, START + 2 * HOUR) for number in PROFILE_NUMBERS]
    lake.land(
        each.line()
        for each in (message(0, 0, START, *written), message(0, 1, START + 2 * HOUR, *deleted))
    )
    assert set(run(lake, SOON).values()) == {"success"}
    assert set(run(lake, LATER).values()) == {"success"}
    lake.sql(f"delete from silver.profiles_changes where _digest = '{digest_text(2)}'")
    return lake


def late_write(number: int) -> Message:
    """A write from before the deletion, from another partition."""
    return message(1, number, START + HOUR, profile(number, START + HOUR, f"late {number}"))


def test_what_is_purged_is_counted(lake: Lake) -> None:
    assert lake.read("silver.deleted_keys") == []
    assert counted(lake, "purged_keys", "silver.deleted_keys") == len(PROFILE_NUMBERS)


def test_late_events_are_folded_with_their_log_and_counted(lake: Lake) -> None:
    """The first profile's log still says that it was deleted; the second's no longer does. The
    third's late write, sent much later, lands with one that has no time, which counts.
    """
    mixed = profile(3, None, "undated"), profile(3, START + HOUR, "late 3")
    messages = late_write(1), late_write(2), message(2, 0, START + 11 * DAY, *mixed)
    lake.land(each.line() for each in messages)
    assert set(run(lake, "2026-10-13 00:00:00").values()) == {"success"}
    assert names(lake) == {digest_text(2): "late 2", digest_text(3): "undated"}
    assert counted(lake, "late_after_purge", "gold.profiles") == 3
    statuses = lake.dbt("test", "-s", "late_after_purge", as_of=LATER)
    assert statuses == {"late_after_purge": "warn"}
    # The rows that were deleted from the log by hand.
    statuses = lake.dbt("test", "-s", "every_payload_is_accounted_for", as_of=LATER)
    assert set(statuses.values()) == {"fail"}
