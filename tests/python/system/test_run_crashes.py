"""`kill -9` of commands at commits that are named: what follows makes good what is left.

A few of all that `make soak SOAK="--crashes"` tries.
"""

import pytest
from support.commit_points import Point
from support.crashes import COMMITS, CrashLake, Trouble, points
from support.disks import can_mount


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> CrashLake:
    return CrashLake.make(tmp_path_factory.mktemp("crashes"))


@pytest.mark.parametrize(
    "command",
    [
        # The crash below is one of a run.
        pytest.param(command, marks=[] if command == "run" else [pytest.mark.long])
        for command in COMMITS
    ],
)
def test_no_commit_of_a_command_is_left_out(lake: CrashLake, command: str) -> None:
    assert lake.seen(command) == COMMITS[command]


@pytest.mark.parametrize(
    ("command", "point", "of"),
    [
        # What is absent is remembered, and gold has it still.
        ("run", Point("gold.meters", 0), "java"),
        # The redriven are there, and in quarantine too.
        pytest.param(
            *("redrive", Point("silver.quarantined_payloads", 0), "both"), marks=pytest.mark.long
        ),
    ],
)
def test_runs_that_are_killed(lake: CrashLake, command: str, point: Point, of: str) -> None:
    assert point in points(command)
    assert lake.killed(command, point, of) == []


# In CI, test_runs_that_are_killed leaves the same behind, and test_troubles tells of errors.
@pytest.mark.long
def test_a_commit_that_fails(lake: CrashLake) -> None:
    assert lake.failed("run", Point("gold.tickets", 0)) == []


@pytest.mark.skipif(not can_mount(), reason="this user may mount no small disk to fill")
@pytest.mark.long
def test_a_disk_that_is_full_in_the_merge_of_gold(lake: CrashLake) -> None:
    assert lake.with_bad_disk("run", Trouble("gold", 0)) == []
