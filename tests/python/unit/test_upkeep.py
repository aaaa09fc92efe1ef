"""What `lakehouse stream --build` maintains between cycles, and when."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbt_lakehouse.commands import upkeep
from dbt_lakehouse.commands.liveness import Liveness
from dbt_lakehouse.commands.upkeep import Upkeep, due
from dbt_lakehouse.errors import ConfigurationError, SessionError
from dbt_lakehouse.maintenance.policy import (
    CROWDED,
    Candidate,
    Maintained,
    Policy,
    small_files,
)

MB = 1 << 20
PROJECT: Any = SimpleNamespace(variables={})
TABLES = [Candidate("gold", name, name, Policy()) for name in ("a", "b", "c")]


def test_each_table_is_due_once_in_a_while_and_the_longest_waiting_comes_first() -> None:
    looked = {"gold.a": 200.0, "gold.b": 100.0}
    names = [each.name for each in due(TABLES, looked, 3_800.0, 3_600)]
    assert names == ["c", "b", "a"]
    assert [each.name for each in due(TABLES, looked, 3_799.0, 3_600)] == ["c", "b"]
    assert due(TABLES, dict.fromkeys(("gold.a", "gold.b", "gold.c"), 1.0), 2.0, 3_600) == []


@pytest.mark.parametrize(
    ("files", "megabytes", "small"),
    # A file of 384 MB is no small one: so many of them may have all the bytes.
    [(60, 60, 60), (60, 384, 59), (10, 10 * 512, 0), (0, 0, 0)],
)
def test_small_files_are_no_more_than_there_are(files: int, megabytes: int, small: int) -> None:
    summary = {"total-data-files": str(files), "total-files-size": str(megabytes * MB)}
    assert small_files(summary, Policy()) == small


class Lake:
    """Stands for Spark and the lake: which tables were maintained, kept and told."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        every: float | None = 3_600,
        liveness: Path | None = None,
    ) -> None:
        self.maintained: list[str] = []
        self.kept: list[list[str]] = []
        self.told: list[str] = []
        self.watched: list[bool] = []
        self.fails: Exception | None = None
        self.is_free = True
        self.held = 0
        self.closed = 0
        self.time = 0.0
        self.takes = 0.0
        self.files = {"gold.a": 1, "gold.b": 1, "gold.c": 1}
        self.snapshots = {"gold.a": 1, "gold.b": 1, "gold.c": 1}
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=1))
        self.upkeep = Upkeep(spark, every, Liveness(liveness))
        for name, stands in {
            "candidates": lambda *_: TABLES,
            "run_lock": lambda _: self,
            "look_at": self.look_at,
            "tasks_of": lambda _: str,
            "close_allocators": self.close,
            "maintain_table": self.maintain,
            "keep": lambda _, done: self.kept.append([each.table_name for each in done]),
            "has_ended": lambda patience: False,
            "time": SimpleNamespace(monotonic=lambda: self.time),
            "tell": self.told.append,
        }.items():
            monkeypatch.setattr(upkeep, name, stands)

    def take(self, purpose: str) -> bool:
        self.held += self.is_free
        return self.is_free

    def release(self) -> None:
        self.held -= 1

    def close(self, _: object) -> None:
        self.closed += 1

    def look_at(self, _: object, table: str) -> Any:
        summary = {"total-data-files": str(self.files[table]), "total-files-size": "0"}
        made_at = datetime(2026, 1, 1, tzinfo=UTC)
        commit = SimpleNamespace(summary=summary, made_at=made_at)
        return SimpleNamespace(chain=(commit,) * self.snapshots[table])

    def maintain(self, _: object, of: Candidate, with_orphans: bool) -> Maintained:
        assert self.held == 1 and not with_orphans
        self.watched.append(any(each.name == "liveness" for each in threading.enumerate()))
        self.maintained.append(of.table)
        self.time += self.takes
        self.files[of.table], self.snapshots[of.table] = 1, 1
        if self.fails is not None:
            raise self.fails
        rewritten = 5 if of.name == "b" else 0
        return Maintained(
            table_name=of.table, data_files_before=6, data_files_after=1, rewritten_files=rewritten
        )

    def pause(self, tables: int | None = None) -> None:
        """A pause that is over after so many tables."""
        done = len(self.maintained)
        self.upkeep.in_pause(PROJECT, None, lambda: len(self.maintained) - done == tables)


def test_what_changed_is_told_and_kept_and_each_table_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Lake(monkeypatch)
    lake.pause()
    lake.pause()
    assert lake.maintained == ["gold.a", "gold.b", "gold.c"]
    assert lake.kept == [["gold.b"]] and lake.held == 0
    (told,) = lake.told
    assert told.endswith(" gold.b: 5 of 6 data files rewritten, 1 now")


def test_news_ends_a_pause_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch)
    lake.pause(2)
    assert lake.maintained == ["gold.a", "gold.b"]
    assert lake.kept == [["gold.b"]] and lake.held == 0
    lake.pause()
    assert lake.maintained == ["gold.a", "gold.b", "gold.c"]


def test_others_at_work_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch)
    lake.is_free = False
    lake.pause()
    assert (lake.maintained, lake.told, lake.held) == ([], [], 0)
    lake.is_free = True
    lake.pause()
    assert len(lake.maintained) == 3


def test_a_table_that_fails_is_told_and_the_others_are_maintained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Lake(monkeypatch)
    lake.fails = ConfigurationError("it has no such column")
    lake.pause()
    assert len(lake.maintained) == len(lake.told) == 3
    assert lake.told[0].endswith(" gold.a could not be maintained: it has no such column")
    assert lake.held == 0


def test_a_policy_that_can_not_be_meant_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch)

    def refused(*_: object) -> None:
        raise ConfigurationError("min_files is 1")

    monkeypatch.setattr(upkeep, "candidates", refused)
    for _ in range(3):
        lake.pause()
        lake.upkeep.between_cycles(PROJECT, None)
    (told,) = lake.told
    assert told.endswith(" no table is maintained: min_files is 1")


def test_a_table_full_of_small_files_waits_for_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch)
    lake.files["gold.b"] = CROWDED * Policy().min_files - 1
    lake.files["gold.c"] = CROWDED * Policy().min_files
    for _ in range(2 * len(TABLES)):
        lake.upkeep.between_cycles(PROJECT, None)
    assert lake.maintained == ["gold.c"] and lake.held == 0


def test_a_table_that_fills_again_is_maintained_again_but_not_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream without a pause had an hour's files."""
    lake = Lake(monkeypatch)
    lake.takes = 2.0
    for _ in range(300):
        lake.files["gold.c"] += 20
        lake.time += 1.0
        lake.upkeep.between_cycles(PROJECT, None)
    assert lake.maintained == ["gold.c"] * 3 and lake.held == 0


def test_a_table_with_too_many_snapshots_waits_for_no_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that each cycle commits to without a row: it never has files."""
    lake = Lake(monkeypatch)
    lake.files = dict.fromkeys(lake.files, 0)
    lake.snapshots["gold.a"] = Policy().max_snapshots * 5 // 4
    lake.snapshots["gold.b"] = Policy().max_snapshots * 5 // 4 + 1
    for _ in range(2 * len(TABLES)):
        lake.upkeep.between_cycles(PROJECT, None)
    assert lake.maintained == ["gold.b"] and lake.held == 0


def test_nothing_is_maintained_where_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch, None)
    lake.files["gold.c"] = 1_000
    lake.pause()
    lake.upkeep.between_cycles(PROJECT, None)
    assert lake.maintained == []
    # What a cycle leaves in memory is no table's.
    assert lake.closed == 1


def test_a_spark_that_has_ended_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch)
    lake.fails = ConnectionError("refused")
    monkeypatch.setattr(upkeep, "has_ended", lambda patience: True)
    with pytest.raises(SessionError, match="Spark has ended"):
        lake.pause()
    assert lake.held == 0


def test_each_table_that_is_maintained_is_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lake = Lake(monkeypatch, liveness=tmp_path / "alive")
    lake.pause()
    assert lake.watched == [True] * len(TABLES)


def test_liveness_is_shown_while_work_gets_on_and_never_while_it_hangs(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    looks, hangs = iter(["", "0 of 9 tasks", "1 of 9 tasks"]), threading.Event()
    shown: list[bool] = []

    def how_far() -> str:
        if (found := next(looks, None)) is None:
            hangs.set()
            return "1 of 9 tasks"
        # As it was left by the look before.
        shown.append(file.exists())
        file.unlink(missing_ok=True)
        return found

    with Liveness(file).while_it_gets_on(how_far, every_seconds=0.001):
        assert hangs.wait(10)
        file.unlink(missing_ok=True)
        hangs.clear()
        assert hangs.wait(10)
        assert not file.exists()
    assert shown == [False, False, True]
    before = threading.active_count()
    with pytest.raises(ValueError, match="it fails"), Liveness(file).while_it_gets_on(str):
        raise ValueError("it fails")
    assert threading.active_count() == before
