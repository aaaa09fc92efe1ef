"""Which payloads may have another log time than their own timestamp."""

from typing import Any

import pytest

from dbt_lakehouse.runs.log_times import Known, LogTimes, log_times

NAME = '{"topic":"it\'s","partition":3}'


def payloads(**but: Any) -> dict[str, Any]:
    """New payloads of one partition, offsets 10 to 12 (``new_partitions.sql``)."""
    return {
        "name": NAME,
        "topic": "it's",
        "partition": 3,
        "format": None,
        "first_offset": 10,
        "last_offset": 12,
        "oldest": 5_000,
        "newest": 7_000,
        "goes_back": False,
    } | but


def carried(log_time: str) -> list[dict[str, str]]:
    return [{"topic": "'it\\'s'", "partition": "3", "log_time": log_time}]


IN_ORDER = carried("timestamp_micros(5000)")
BETWEEN = [{"topic": "'it\\'s'", "partition": "3", "first_offset": "10"}]


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        # The first of a partition.
        ({}, {}, LogTimes(False, [], [], {NAME: [12, 7_000]})),
        ({"goes_back": True}, {}, LogTimes(True, [], [], {NAME: [12, 7_000]})),
        # In order, at the same instant too.
        ({}, {NAME: (9, 5_000)}, LogTimes(False, IN_ORDER, [], {NAME: [12, 7_000]})),
        # Behind what earlier payloads have.
        (
            {},
            {NAME: (9, 5_001)},
            LogTimes(True, carried("timestamp_micros(5001)"), [], {NAME: [12, 7_000]}),
        ),
        (
            {},
            {NAME: (9, 9_000)},
            LogTimes(True, carried("timestamp_micros(9000)"), [], {NAME: [12, 9_000]}),
        ),
        (
            {"goes_back": True},
            {NAME: (9, 5_000)},
            LogTimes(True, IN_ORDER, [], {NAME: [12, 7_000]}),
        ),
        # With offsets between those of earlier payloads: only the log can tell.
        ({}, {NAME: (10, 5_000)}, LogTimes(True, [], BETWEEN, {NAME: [12, 7_000]})),
        ({}, {NAME: (11, 9_000)}, LogTimes(True, [], BETWEEN, {NAME: [12, 9_000]})),
        ({}, {NAME: (99, 6_000)}, LogTimes(True, [], BETWEEN, {NAME: [99, 6_000]})),
        ({}, {NAME: (99, None)}, LogTimes(True, [], BETWEEN, {NAME: [99, None]})),
        # Without timestamps.
        (
            {"oldest": None, "newest": None, "goes_back": True},
            {},
            LogTimes(True, [], [], {NAME: [12, None]}),
        ),
        (
            {"oldest": None, "newest": None, "goes_back": True},
            {NAME: (9, 5_000)},
            LogTimes(True, IN_ORDER, [], {NAME: [12, 5_000]}),
        ),
        (
            {},
            {NAME: (9, None)},
            LogTimes(False, carried("cast(null as timestamp)"), [], {NAME: [12, 7_000]}),
        ),
        # Before the epoch.
        (
            {"oldest": -9, "newest": -5},
            {NAME: (9, -7)},
            LogTimes(True, carried("timestamp_micros(-7)"), [], {NAME: [12, -5]}),
        ),
    ],
)
def test_log_times(new: dict[str, Any], known: Known, expected: LogTimes) -> None:
    assert log_times([payloads(**new)], known) == expected


def test_of_others_nothing_changes() -> None:
    found = log_times([payloads()], {"other": (1, 2)})
    assert found.known == {"other": [1, 2], NAME: [12, 7_000]}
    assert found.carried == []


def test_of_many_partitions_nothing_is_kept() -> None:
    known = {str(number): (1, 2) for number in range(999)}
    found = log_times([payloads()], known)
    assert found.known is not None
    assert len(found.known) == 1000
    more = log_times([payloads(), payloads(name="one more")], known)
    assert more == LogTimes(False, [], [], None)
