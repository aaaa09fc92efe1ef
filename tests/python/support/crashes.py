"""Commands that are killed at commits that have names: before each of them, and behind it.

Of every command, ``COMMITS`` lists which tables it commits to and how often; a test holds the list
against what the catalog sees of a whole call. After a kill the command is repeated plainly, and the
lake must then be as the references say, which is what it is when nobody is killed.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.maintain import maintain
from dbt_lakehouse.commands.redrive import redrive
from dbt_lakehouse.runs.commits import note
from support.commands import SECONDS, Command, dbt, lakehouse
from support.commit_points import Commits, Point, kill, points_of
from support.disks import FULL, READ_ONLY, is_told, small_disk
from support.lakes import as_of_text
from support.row_messages import line
from support.soak_lake import SoakLake
from support.soak_streams import SOURCES, Do, Step, episode_of

TABLES: Final = ("meters", "tickets", "visits")
_SEED: Final = 23
# Its topic is configured when it has landed already: what there is for `redrive`.
_UNKNOWN: Final = "soak.visits"
# A file may be open for so long.
_TURNS_SECONDS: Final = 20.0
_TO_EXPIRE: Final = ("gold.meters", "gold.tickets")
_AS_OF: Final = "lakehouse.as_of"
_FORGET: Final = Step(Do.PURGE, "tickets", 0.5)

# How often each table is committed to by a call of each command, in the lake below.
COMMITS: Final[dict[str, dict[str, int]]] = {
    "land": {"bronze.raw_payloads": 1},
    "run": {
        "bronze.raw_payloads": 2,
        "silver.log_times": 1,
        "silver.other_events": 2,
        "silver.set_less_deletes": 1,
        "silver.quarantined_payloads": 1,
        "silver.meters_changes": 1,
        "silver.tickets_changes": 2,
        "silver.deleted_keys": 3,
        "gold.meters": 1,
        "gold.meters_history": 1,
        "gold.tickets": 1,
        "gold.tickets_history": 1,
        "silver.fold_counters": 1,
    },
    "maintain": {
        "gold.meters": 2,
        "gold.tickets": 2,
        "silver.deleted_keys": 2,
        "bronze.maintained": 2,
    },
    "redrive": {"silver.other_events": 2, "silver.quarantined_payloads": 2},
    "forget": {
        "bronze.forgotten": 4,
        "bronze.raw_payloads": 6,
        "silver.other_events": 10,
        "silver.quarantined_payloads": 11,
        "silver.deleted_keys": 5,
        "silver.set_less_deletes": 4,
        "silver.meters_changes": 6,
        "silver.tickets_changes": 14,
        "silver.visits_changes": 6,
        "gold.tickets": 11,
        "gold.tickets_history": 11,
    },
}


def points(command: str) -> list[Point]:
    """Before each commit of a command, and behind it."""
    return points_of(COMMITS[command])


class Trouble(NamedTuple):
    """A layer's disk that has so many bytes free, or is read-only."""

    layer: str
    free: int | None

    @property
    def told(self) -> tuple[str, ...]:
        """What a command must say of it, in any of these words."""
        return READ_ONLY if self.free is None else FULL

    def __str__(self) -> str:
        return f"disk of {self.layer} " + (
            "is read-only" if self.free is None else f"has {self.free:,} bytes left"
        )


def troubles(command: str) -> list[Trouble]:
    """Bad disks of each layer that a command commits to."""
    layers = sorted({table.partition(".")[0] for table in COMMITS[command]})
    return [Trouble(layer, free) for layer in layers for free in (None, 0, 20_000, 60_000, 200_000)]


@dataclass
class CrashLake:
    """A lake that is built once, with news that wait in a capture, and put back for each try."""

    base: SoakLake
    commits: Commits
    saved: Path

    @classmethod
    def make(cls, folder: Path) -> "CrashLake":
        """The lake, which has read one batch of the streams of its tables."""
        sources = tuple(each for each in SOURCES if each.table in TABLES)
        steps = [Step(Do.RUN), Step(Do.RUN)]
        episode = episode_of(_SEED, sources, 2, steps, random.Random(_SEED), _UNKNOWN)
        base = SoakLake.make(folder, episode)
        assert base.do(steps[0]) == []
        for table in _TO_EXPIRE:
            # Behind the one of its rows, so that there is an earlier one.
            noted = base.lake.look_at(table).noted(_AS_OF)
            assert noted is not None
            note(base.lake.spark, table, {_AS_OF: noted})
        lake = cls(base, Commits(folder / "lake" / "catalog.db"), folder / "saved")
        lake.saved.mkdir()
        lake.commits.save(lake.saved / "catalog.db")
        shutil.copytree(folder / "lake" / "warehouse", lake.saved / "warehouse")
        lake._news.write_text("".join(json.dumps(line(event)) + "\n" for event in base.to_land[0]))
        return lake

    @property
    def _news(self) -> Path:
        return self.base.lake.folder / "news.jsonl"

    def put_back(self) -> SoakLake:
        """The lake as it was when it was made."""
        self.commits.restore(self.saved / "catalog.db")
        self.commits.forget()
        # Commits change no file; maintenance deletes some.
        for file in (self.saved / "warehouse").rglob("*"):
            place = self.base.lake.folder / "lake" / file.relative_to(self.saved)
            if file.is_file() and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, place)
        base = self.base
        return replace(base, landed=[*base.landed], to_land=[*base.to_land], read={**base.read})

    def seen(self, command: str) -> dict[str, int]:
        """The commits that the catalog sees of a whole call, in this process, by table."""
        lake = self.put_back()
        self._repeat(lake, command)
        return dict(Counter(self.commits.seen()))

    def killed(self, command: str, point: Point, of: str = "both") -> list[str]:
        """In what the lake is not as it should be when a call is killed there, and repeated; ``of``
        names what of it is killed.
        """
        lake = self.put_back()
        if not point.is_behind:
            self.commits.stop_at(point)
        with self._process(lake, command) as process:
            self.commits.wait_for(point, process)
            kill(process, of)
        self.commits.forget()
        return self._made_good(lake, command)

    def failed(self, command: str, point: Point) -> list[str]:
        """In what it is not when the catalog has refused that commit to a call in this process."""
        lake = self.put_back()
        self.commits.stop_at(point, fails=True)
        said = "no error"
        try:
            self._repeat(lake, command)
        except Exception as error:
            said = str(error)
        self.commits.forget()
        assert "this commit is to fail" in said, said
        return self._made_good(lake, command)

    def with_bad_disk(self, command: str, trouble: Trouble) -> list[str]:
        """In what it is not when a layer's disk was full or read-only, and is well again."""
        return self.with_bad_disks(command, [trouble])

    def with_bad_disks(self, command: str, troubles: Sequence[Trouble]) -> list[str]:
        """The same of one call after the other, each with another trouble of the same layer."""
        lake = self.put_back()
        (layer,) = {trouble.layer for trouble in troubles}
        with small_disk(lake.lake.folder / "lake" / "warehouse" / layer) as disk:
            for trouble in troubles:
                if trouble.free is None:
                    disk.turn_read_only()
                else:
                    disk.leave_free(trouble.free)
                with self._process(lake, command) as process:
                    code = process.process.wait(SECONDS)
                    said = process.said_by_all()
                # What is left free may have been enough, and others may have nothing to write.
                is_enough = code == 0 and (trouble.free or command not in ("land", "run"))
                assert is_told(trouble.told, said) or is_enough, said
                disk.make_well()
            return self._made_good(lake, command)

    def with_disk_that_turns(self, command: str, point: Point) -> list[str]:
        """In what it is not when the disk of the point's layer turned read-only there, behind a
        commit, and is well again.
        """
        lake = self.put_back()
        layer = point.table.partition(".")[0]
        with small_disk(lake.lake.folder / "lake" / "warehouse" / layer) as disk:
            with self._process(lake, command) as process:
                self.commits.wait_for(point, process)
                disk.turn_read_only(_TURNS_SECONDS)
                code = process.process.wait(SECONDS)
                said = process.said_by_all()
            # It may have been the last that the layer was written to.
            assert code == 0 or is_told(READ_ONLY, said), said
            disk.make_well()
            return self._made_good(lake, command)

    def with_catalog_away(self, command: str, point: Point, seconds: float) -> list[str]:
        """In what it is not when nobody could write to the catalog for so long, from there on."""
        lake = self.put_back()
        with self._process(lake, command) as process:
            self.commits.wait_for(point._replace(is_behind=True), process)
            self.commits.lock(seconds)
            code, said = process.process.wait(SECONDS), process.said_by_all()
        assert code == 0 or "locked" in said, said
        return self._made_good(lake, command)

    def _made_good(self, lake: SoakLake, command: str) -> list[str]:
        self._repeat(lake, command)
        lake.run()
        return lake.differences()

    def _process(self, lake: SoakLake, command: str) -> AbstractContextManager[Command]:
        """A call in a process of its own."""
        project = lake.lake.project
        options = ("--project-dir", str(project), "--profiles-dir", str(project / "profiles"))
        variables = self._variables(lake, command)
        match command:
            case "run":
                return dbt(lake.lake, "run", *options, **variables)
            case "land":
                arguments = ["land", str(self._news)]
            case "maintain":
                arguments = ["maintain"]
            case "redrive":
                arguments = ["redrive"]
            case "forget":
                key = lake.key_to_forget(_FORGET)
                assert key is not None
                given = lake.given_key(lake.sources[_FORGET.of], key)
                arguments = ["forget", "--table", _FORGET.of, "--key", given, "--purge"]
        return lakehouse(lake.lake, *arguments, *options, **variables)

    def _variables(self, lake: SoakLake, command: str) -> dict[str, Any]:
        if command == "redrive":
            lake.unknown = None
        variables = {"captures": [], "as_of": as_of_text(lake.as_of), **lake.variables}
        if command == "run":
            variables["captures"] = [str(self._news)]
        if command == "maintain":
            variables["snapshot_retention_days"] = 0
        return variables

    def _repeat(self, lake: SoakLake, command: str) -> None:
        """The call in this process."""
        variables = self._variables(lake, command)
        with lake.lake.dbt_folders():
            match command:
                case "run" | "land":
                    if command == "land":
                        lake.lake.land(line(each) for each in lake.to_land[0])
                    else:
                        outcomes = lake.lake.outcomes("run", **variables)
                        assert {each.status for each in outcomes.values()} == {"success"}, outcomes
                    lake.landed += lake.to_land.pop(0)
                case "maintain":
                    list(maintain(lake.lake.load(**variables), [], dry_run=False))
                case "redrive":
                    redrive(lake.lake.load(**variables), [], [])
                case "forget":
                    lake.forget(_FORGET)
