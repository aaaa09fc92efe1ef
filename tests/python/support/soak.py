"""`make soak`: random streams and crashes against the references for as long as it is told.

    make soak SOAK="--minutes 600"            # goes on behind the last episode
    make soak SOAK="--seed 17 --episodes 1"   # repeats that one
    make soak SOAK="--crashes"                # kills, bad disks, no catalog
    make soak SOAK="--live"                # gold follows a producer; all is killed, again and again
    make soak SOAK="--fuzz"                   # payloads, 10 million of each format
    make soak SOAK="--real"                   # real databases by every setting of their connectors
    make soak SOAK="--tests"                  # the tests that `make test` has no time for

Episodes take turns: a deep one does many things to a few tables of a few streams, a wide one builds
very many streams of every wire format in three runs. What has become of each is kept in
.cache/soak/played.jsonl, with a digest of the code that it was played with: what other code has
played is to be played again, its failures first. A failure is shrunk to a minimal stream in
.cache/soak/failure-<seed>.txt.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, TypeVar

from dbt_lakehouse.config.paths import CACHE, ROOT
from local_kafka.servers import ended_with_us
from python_udfs.registry import FORMATS
from support import kafka_crashes
from support.commit_points import KILLED, Point
from support.crashes import COMMITS, CrashLake, points, troubles
from support.disks import can_mount
from support.fuzzing import COLUMN_TEXTS, executions, fuzz
from support.kafka_crashes import KafkaCrashes
from support.real_settings import SETTINGS
from support.row_events import Event
from support.row_messages import line
from support.soak_lake import SoakLake
from support.soak_live import Live
from support.soak_streams import Do, Episode, Step, deep, wide

FOLDER: Final = CACHE / "soak"
PLAYED: Final = FOLDER / "played.jsonl"
# What decides how an episode ends.
CODE: Final = (
    *("python_udfs", "dbt_lakehouse", "dbt", "macros", "shared", "models", "profiles"),
    *("local_kafka", "tests/python", "dbt_project.yml", "requirements.txt"),
)
# What all code is to have gone through (docs/reliability.md).
STREAMS: Final = 10_000
EXECUTIONS: Final = 10_000_000
# The seeds of changes of real databases, each by all settings.
REAL_SEEDS: Final = (113, 114, 115, 116)
FUZZED: Final = (*FORMATS, COLUMN_TEXTS)
_LANDING: Final = (Do.RUN, Do.LEAVE_OUT)
_Part = TypeVar("_Part")
_Lake = TypeVar("_Lake", CrashLake, KafkaCrashes)
# By name.
Plays = Sequence[tuple[str, Callable[[_Lake], list[str]]]]
_NEVER: Final = threading.Event()


class Told:
    """What is being done now, told once a minute."""

    now: ClassVar[str] = ""

    @classmethod
    def tell_each_minute(cls) -> None:
        """Begin to tell, beside what this process does."""
        threading.Thread(target=cls._tell, daemon=True).start()

    @classmethod
    def _tell(cls) -> None:
        while not _NEVER.wait(60):
            print(f"{time.strftime('%H:%M')} {cls.now}", flush=True)


def planned(seed: int, clones: int, steps: int) -> Episode:
    """The episode of a seed: every fourth is a wide one."""
    return deep(seed, steps, clones // 5) if seed % 4 else wide(seed, clones)


def play(episode: Episode) -> list[str]:
    """What was wrong with the lake behind the first step of which anything was."""
    # A session that is open keeps its catalog: each lake has a folder of its own.
    with folder_of_a_lake() as folder:
        lake = SoakLake.make(folder, episode)
        for number, step in enumerate(episode.steps):
            Told.now = f"seed {episode.seed}, step {number}: {_told(step)}"
            try:
                found = lake.do(step)
            except Exception as error:
                found = ["".join(traceback.format_exception_only(error))[:3000]]
            if found:
                return [*found, f"after step {number}, {_told(step)}"]
        return lake.failing_tests()


# --- what is left of a failure --------------------------------------------------------------------


def shrunk(episode: Episode, fails: Callable[[Episode], bool], until: float) -> Episode:
    """A smaller episode that fails too, the smallest that is found in time."""

    def tried(smaller: Episode) -> bool:
        return time.monotonic() < until and fails(smaller)

    for source in episode.sources:
        alone = _of_sources(episode, [source.table])
        if len(episode.sources) > 1 and tried(alone):
            episode = alone
            break
    # Steps from the last on: those behind the failure go first.
    for number in reversed(range(len(episode.steps))):
        fewer = _without_step(episode, number)
        if len(episode.steps) > 1 and tried(fewer):
            episode = fewer

    def with_clones(clones: Sequence[int]) -> Episode:
        return _filtered(episode, lambda each: each.partition // 10 in clones)

    clones = sorted({each.partition // 10 for batch in episode.batches for each in batch})
    episode = with_clones(_fewest(clones, lambda kept: tried(with_clones(kept))))

    places = [(each.source.topic, each.partition, each.offset) for each in events_of(episode)]

    def with_places(kept: Sequence[Any]) -> Episode:
        left = set(kept)
        return _filtered(
            episode, lambda each: (each.source.topic, each.partition, each.offset) in left
        )

    return with_places(_fewest(places, lambda kept: tried(with_places(kept))))


def _fewest(parts: Sequence[_Part], fails: Callable[[Sequence[_Part]], bool]) -> list[_Part]:
    """As few of the parts as can be found that fail together: delta debugging."""
    left, pieces = list(parts), 2
    while len(left) > 1:
        size = max(1, len(left) // pieces)
        for start in range(0, len(left), size):
            fewer = left[:start] + left[start + size :]
            if fewer and fails(fewer):
                left, pieces = fewer, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(left), pieces * 2)
    return left


def events_of(episode: Episode) -> list[Event]:
    """All events of an episode, in the order of the runs."""
    return [each for batch in episode.batches for each in batch]


def _filtered(episode: Episode, is_kept: Callable[[Event], bool]) -> Episode:
    batches = [[each for each in batch if is_kept(each)] for batch in episode.batches]
    return replace(episode, batches=batches)


def _of_sources(episode: Episode, tables: Sequence[str]) -> Episode:
    sources = tuple(each for each in episode.sources if each.table in tables)
    episode = _filtered(episode, lambda each: each.source in sources)
    return replace(episode, sources=sources, steps=[s for s in episode.steps if _is_of(s, sources)])


def _is_of(step: Step, sources: Sequence[Any]) -> bool:
    if step.do in _LANDING or not step.of or step.of == "other_events":
        return True
    return any(step.of.startswith(each.table) or step.of == each.topic for each in sources)


def _without_step(episode: Episode, number: int) -> Episode:
    """Without the step; what landed with it lands with the next."""
    steps, batches = list(episode.steps), [list(batch) for batch in episode.batches]
    place = sum(each.do in _LANDING for each in steps[:number])
    if steps.pop(number).do in _LANDING:
        batch = batches.pop(place)
        if place < len(batches):
            batches[place] = batch + batches[place]
        elif batches:
            batches[-1] += batch
    return replace(episode, steps=steps, batches=batches)


def told(episode: Episode, found: Sequence[str]) -> str:
    """The episode as capture lines, with its steps and what was found between them."""
    lines = [f"# seed {episode.seed}, tables {', '.join(each.table for each in episode.sources)}"]
    lines.append(f"# tombstone_retention_days {episode.retention_days}")
    batches = iter(episode.batches)
    for step in episode.steps:
        if step.do in _LANDING:
            lines += [json.dumps(line(each)) for each in next(batches)]
        lines.append(f"# {_told(step)}")
    return "\n".join([*lines, *(f"# {each[:2000]}" for each in found)]) + "\n"


def _told(step: Step) -> str:
    return f"{step.do.value} {step.of}".strip() + f" ({step.hours} h later)"


def _kind(found: Sequence[str]) -> str:
    """What a failure is of: a table, an error."""
    return found[0].split()[0] if found else ""


# --- hours of it ----------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Play episodes or crashes; 1 if any has failed."""
    options = _options(arguments)
    # A kill breaks off as Ctrl-C does, so that nothing is left behind. In the background of a shell
    # the latter would be ignored, here and by what is started here.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    if options.tests:
        return _test()
    FOLDER.mkdir(parents=True, exist_ok=True)
    remove_leftovers(FOLDER)
    Told.tell_each_minute()
    end = time.monotonic() + 60 * options.minutes
    if options.fuzz:
        return _fuzz(end)
    if options.real is not None:
        _play_real(end, options.real)
    elif options.crashes is not None:
        _play_crashes(end, options.crashes)
    elif options.live:
        _play_live(options)
    else:
        for number, seed in enumerate(_seeds(options.seed)):
            if time.monotonic() > end or number == options.episodes:
                break
            _play_one(seed, options)
    print(report(), flush=True)
    return 1 if any(each["found"] for each in _played()) else 0


def _test() -> int:
    """Run the files that have tests with the mark `long`, which pyproject.toml leaves out: whole,
    for tests go on from what those before them have done to the lake of their file.
    """
    flags = ["--strict-config", "--strict-markers", "-ra"]
    command = [sys.executable, "-m", "pytest", "-o", f"addopts={' '.join(flags)}"]
    command += ["-m", "not real", "-n", "2", "--dist", "loadfile"]
    tests = sorted((ROOT / "tests" / "python").rglob("test_*.py"))
    files = [str(file) for file in tests if "pytest.mark.long" in file.read_text()]
    return subprocess.run([*command, *files], cwd=ROOT).returncode


def _fuzz(end: float) -> int:
    """Fuzz the formats in turn, each until it was executed often enough."""
    found = set()
    while time.monotonic() < end and (
        left := [each for each in FUZZED if executions(each) < EXECUTIONS and each not in found]
    ):
        for format in left:
            if time.monotonic() < end:
                Told.now = f"fuzzing {format}"
                minute = min(60.0, end - time.monotonic())
                runs = EXECUTIONS - executions(format)
                if not fuzz(format, seconds=minute, runs=runs, is_quiet=True):
                    found.add(format)
    for format in FUZZED:
        told = "FAILED, see .cache/fuzz" if format in found else "ok"
        print(f"{format}: {executions(format):,} of {EXECUTIONS:,} executions: {told}", flush=True)
    return 1 if found else 0


def _play_one(seed: int, options: argparse.Namespace) -> None:
    began = time.monotonic()
    episode = planned(seed, options.clones, options.steps)
    found = play(episode)
    size = {
        "streams": episode.streams,
        "events": len(events_of(episode)),
        "steps": len(episode.steps),
    }
    name = f"--seed {seed} --episodes 1 --clones {options.clones} --steps {options.steps}"
    _keep(name, found, began, **size)
    if found:
        until = time.monotonic() + 60 * options.shrink_minutes
        small = shrunk(episode, lambda each: _kind(play(each)) == _kind(found), until)
        text = told(small, play(small))
        (FOLDER / f"failure-{seed}.txt").write_text(text)
        print(text, flush=True)


def _played_well() -> set[str]:
    return {each["name"] for each in _played() if not each["found"]}


def _play_real(end: float, named: str) -> None:
    """All of the matrix of real databases that has not been played well yet."""
    done = _played_well()
    for name, arguments in real_plays().items():
        if name in done or named not in name:
            continue
        if time.monotonic() > end:
            return
        began = time.monotonic()
        Told.now = name
        _keep(name, _real(name, arguments), began, real=1)


def real_plays() -> dict[str, list[str]]:
    """The matrix, by the name of each of its parts the arguments for pytest. Of every second seed
    Kafka Connect is killed in each round.
    """
    plays = {}
    for seed in REAL_SEEDS:
        for source in ("postgres", "mariadb"):
            of_seed = [f"--seed={seed}", "--rounds=3", f"-k={source}"]
            plays[f"events of {source}, seed {seed}"] = ["test_real_events.py", *of_seed]
            killed = ["--killed"] if seed % 2 == 0 else []
            for setting in SETTINGS:
                name = f"gold of {source}, seed {seed}, {setting}{', killed' if killed else ''}"
                of_setting = [*of_seed, f"--settings={setting}", *killed]
                plays[name] = ["test_real_source.py", *of_setting]
    return plays


def _real(name: str, arguments: Sequence[str]) -> list[str]:
    """Run a test of a real database; what it has found."""
    file, *options = arguments
    command = [sys.executable, "-m", "pytest", "-o", "addopts=--strict-markers", "--color=no"]
    command += [f"tests/python/system/{file}", *options]
    # Ctrl-C is for this process alone.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as test:
        # Killed, it would leave its servers behind. If this process is, the test must not go on
        # beside the next one.
        try:
            with ended_with_us(test.pid, signal.SIGINT):
                said, _ = test.communicate()
        except KeyboardInterrupt:
            test.send_signal(signal.SIGINT)
            test.communicate()
            raise
    # Without jars it is skipped, and ends well.
    if test.returncode == 0 and " passed" in said:
        return []
    (FOLDER / f"failure-{name.replace(', ', '-').replace(' ', '-')}.txt").write_text(said)
    lines = [line for line in said.splitlines() if line.startswith("E  ")]
    return lines or said.splitlines()[-5:]


def _play_live(options: argparse.Namespace) -> None:
    """One live lake for all of the time."""
    seed, kills = options.seed or 1, not options.steady
    name = f"--live --seed {seed} --minutes {options.minutes:g} --rate {options.rate:g}"
    name += " --steady" * options.steady
    Told.now, began = name, time.monotonic()
    with folder_of_a_lake() as folder:
        live = Live(folder, seed, options.rate)
        found = live.play(options.minutes, kills=kills)
        print("\n".join(live.told()), flush=True)
    _keep(name, found, began, live=1)


def _play_crashes(end: float, named: str) -> None:
    """All that can go wrong in a command and has not been played well yet."""
    done = _played_well()

    def are_left(plays: Plays[Any]) -> Plays[Any]:
        return [each for each in plays if each[0] not in done and named in each[0]]

    if left := are_left(crashes()):
        with folder_of_a_lake() as folder:
            _play_each(left, CrashLake.make(folder), end)
    if (left := are_left(crashes_of_kafka())) and time.monotonic() < end:
        with folder_of_a_lake() as folder, KafkaCrashes.made(folder) as lake:
            _play_each(left, lake, end)


def _play_each(plays: Plays[_Lake], lake: _Lake, end: float) -> None:
    for name, play in plays:
        if time.monotonic() > end:
            return
        began = time.monotonic()
        Told.now = name
        try:
            found = play(lake)
        except Exception as error:
            found = ["".join(traceback.format_exception_only(error))[:3000]]
        _keep(name, found, began, crashes=1)


def crashes() -> Plays[CrashLake]:
    """All that can go wrong in a command: its name, and what plays it."""
    plays: list[tuple[str, Callable[[CrashLake], list[str]]]] = []
    for command in COMMITS:
        for trouble in troubles(command) if can_mount() else ():
            bad = partial(CrashLake.with_bad_disk, command=command, trouble=trouble)
            plays.append((f"{command}, {trouble}", bad))
    return [*plays, *_at_points(CrashLake, {command: points(command) for command in COMMITS})]


def crashes_of_kafka() -> Plays[KafkaCrashes]:
    """The same of landings from Kafka, whose broker may die too."""
    of_commands = {command: kafka_crashes.points(command) for command in kafka_crashes.COMMITS}
    dead = [
        (
            f"{command}, the broker dies {point}",
            partial(KafkaCrashes.with_broker_dead, command=command, point=point),
        )
        for command, places in of_commands.items()
        for point in places
        if point.is_behind
    ]
    return [*dead, *_at_points(KafkaCrashes, of_commands)]


def _at_points(of: type[_Lake], of_commands: Mapping[str, Sequence[Point]]) -> Plays[_Lake]:
    plays: list[tuple[str, Callable[[_Lake], list[str]]]] = []
    for command, places in of_commands.items():
        for number, point in enumerate(places):
            plays.append(_kill(of, command, point, number))
            if not point.is_behind:
                refused = partial(of.failed, command=command, point=point)
                plays.append((f"refusal of {command} {point}", refused))
                continue
            # The first has time to wait, the second has not.
            for seconds in (10, 40):
                away = partial(of.with_catalog_away, command=command, point=point, seconds=seconds)
                plays.append((f"{seconds} s without a catalog in {command} {point}", away))
            if can_mount():
                turning = partial(of.with_disk_that_turns, command=command, point=point)
                plays.append((f"{command}, disk turns read-only {point}", turning))
    # Each point in another way, and then in the last one.
    return plays + [
        _kill(of, command, point, number + turn)
        for turn in (1, 2)
        for command, places in of_commands.items()
        for number, point in enumerate(places)
    ]


def _kill(
    of: type[_Lake], command: str, point: Point, number: int
) -> tuple[str, Callable[[_Lake], list[str]]]:
    what = KILLED[number % len(KILLED)]
    play = partial(of.killed, command=command, point=point, of=what)
    return f"kill of {command} {point}, of {what}", play


def _keep(name: str, found: Sequence[str], began: float, **size: int) -> None:
    """Keep what has become of an episode or a crash, and tell it."""
    seconds = time.monotonic() - began
    with PLAYED.open("a") as kept:
        result = {
            "code": code(),
            "name": name,
            "seconds": round(seconds, 1),
            "found": [f[:1000] for f in found[:5]],
        }
        kept.write(json.dumps(result | size) + "\n")
    sizes = ", ".join(f"{count:,} {what}" for what, count in size.items())
    outcome = f"FAILED {found[0][:300]}" if found else "ok"
    print(f"{time.strftime('%H:%M')} {name}: {sizes}, {seconds:.0f} s: {outcome}", flush=True)


def report() -> str:
    """What all that this code has played has shown, and what it has not played yet."""
    played = _played()
    failed = [each for each in played if each["found"]]
    sums = {
        what: sum(each.get(what, 0) for each in played)
        for what in ("streams", "events", "steps", "crashes", "real")
    }
    told = ", ".join(f"{count:,} {what}" for what, count in sums.items())
    minutes = sum(each["seconds"] for each in played) / 60
    lines = [
        f"code {code()}: {told} in {minutes:.0f} minutes: {len(failed)} of {len(played)} failed"
    ]
    done = {each["name"] for each in played}
    left = [name for name, _ in (*crashes(), *crashes_of_kafka()) if name not in done]
    real = real_plays()
    lines.append(f"left: {max(0, STREAMS - sums['streams']):,} of {STREAMS:,} streams,")
    lines[-1] += f" {len(left):,} of {len(left) + sums['crashes']:,} crashes,"
    lines[-1] += f" {len(real.keys() - done):,} of {len(real):,} of real databases"
    if others := len(_records()) - len(_records(code())):
        lines[-1] += f"; {others:,} records are of other code and do not count"
    for each in failed:
        kind = "--real" if "real" in each else "--crashes"
        is_whole = "streams" in each or "live" in each
        options = each["name"] if is_whole else f"{kind} '{each['name']}'"
        lines.append(f'{each["name"]}: make soak SOAK="{options}"')
        lines += [f"    {found}" for found in each["found"][:2]]
    return "\n".join(lines)


def _records(of: str | None = None) -> list[dict[str, Any]]:
    """All that was ever kept, or what some code has played."""
    if not PLAYED.exists():
        return []
    records = [json.loads(line) for line in PLAYED.read_text().splitlines()]
    return [each for each in records if of is None or each.get("code") == of]


def _played() -> list[dict[str, Any]]:
    """Of each episode and each crash of this code, the last time."""
    return [*{each["name"]: each for each in _records(code())}.values()]


def _seeds(first: int | None) -> Iterator[int]:
    """The first and those behind it. If none is named: those that failed with other code and were
    not played with this one, then those that were never played.
    """

    def seeds(records: Sequence[dict[str, Any]]) -> list[int]:
        return [int(each["name"].split()[1]) for each in records if "streams" in each]

    if first is None:
        last = {each["name"]: each for each in _records()}.values()
        yield from sorted({*seeds([each for each in last if each["found"]])} - {*seeds(_played())})
        first = max(seeds(_records()), default=0) + 1
    while True:
        yield first
        first += 1


@cache
def code() -> str:
    """A digest of the code that decides how an episode ends, tests of other things left out."""
    found = hashlib.sha256()
    for part in CODE:
        place = ROOT / part
        files = (
            [place] if place.is_file() else [each for each in place.rglob("*") if _is_code(each)]
        )
        for file in sorted(files):
            found.update(f"{file.relative_to(ROOT)}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]


def _is_code(file: Path) -> bool:
    suffixes = (".py", ".sql", ".yml", ".md", ".txt")
    if not file.is_file() or file.suffix not in suffixes:
        return False
    # Those of real databases are played here.
    return not file.name.startswith("test_") or file.name.startswith("test_real_")


# --- folders --------------------------------------------------------------------------------------


@contextmanager
def folder_of_a_lake() -> Iterator[Path]:
    """A temporary folder that says whose it is."""
    prefix = f"lake-{os.getpid()}-"
    with TemporaryDirectory(dir=FOLDER, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def remove_leftovers(parent: Path) -> None:
    """Remove the lakes of processes that were killed, and the disks under them."""
    for folder in parent.glob("lake-*-*"):
        if _runs(int(folder.name.split("-")[1])):
            continue
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in mounts:
            if Path(mount).is_relative_to(folder):
                subprocess.run(["umount", "--lazy", mount], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="for how long (%(default)s)")
    parser.add_argument("--seed", type=int, help="the first episode's; the next not yet played")
    parser.add_argument("--episodes", type=int, help="how many at most")
    parser.add_argument("--clones", type=int, default=50, help="of a wide one, deep: a fifth (50)")
    parser.add_argument("--steps", type=int, default=8, help="of a deep one (%(default)s)")
    told = "no episodes: all that can go wrong in a command, or what has this text in its name"
    parser.add_argument("--crashes", nargs="?", const="", help=told)
    told = "no episodes: real databases by every setting, or what has this text in its name"
    parser.add_argument("--real", nargs="?", const="", help=told)
    told = "no episodes: a producer and a stream, of which everything is killed"
    parser.add_argument("--live", action="store_true", help=told)
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second (%(default)s)")
    parser.add_argument("--steady", action="store_true", help="live without kills, to measure it")
    parser.add_argument("--fuzz", action="store_true", help="payloads of all formats, nothing else")
    tests = "files with tests marked `long`, nothing else"
    parser.add_argument("--tests", action="store_true", help=tests)
    parser.add_argument("--shrink-minutes", type=float, default=10.0, help="(%(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("broken off; what has ended by now is kept", flush=True)
        sys.exit(130)
