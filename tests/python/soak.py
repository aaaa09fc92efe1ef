"""`make soak`: random streams and crashes against the references for as long as it is told.

    make soak SOAK="--minutes 600"            # goes on behind the last episode
    make soak SOAK="--seed 17 --episodes 1"   # repeats that one
    make soak SOAK="--crashes"                # kills, bad disks, no catalog

Episodes take turns: a deep one does many things to a few tables of a few streams, a wide one builds
very many streams of every wire format in three runs. What has become of each is kept in
.cache/soak/played.jsonl; a failure is shrunk to a minimal stream in .cache/soak/failure-<seed>.txt.
"""

import argparse
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, TypeVar

from crashes import COMMITS, CrashLake, points, troubles
from row_events import Event
from row_messages import message
from soak_lake import SoakLake
from soak_streams import Do, Episode, Step, deep, wide

from dbt_lakehouse.config.paths import CACHE

FOLDER: Final = CACHE / "soak"
PLAYED: Final = FOLDER / "played.jsonl"
_LANDING: Final = (Do.RUN, Do.LEAVE_OUT)
_Part = TypeVar("_Part")
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
    with TemporaryDirectory(dir=FOLDER, ignore_cleanup_errors=True) as folder:
        lake = SoakLake.make(Path(folder), episode)
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
    if step.do in _LANDING or not step.of or step.of == "change_events":
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
            lines += [json.dumps(message(each).line()) for each in next(batches)]
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
    FOLDER.mkdir(parents=True, exist_ok=True)
    Told.tell_each_minute()
    end = time.monotonic() + 60 * options.minutes
    if options.crashes is not None:
        _play_crashes(end, options.crashes)
    else:
        seed = _next_seed() if options.seed is None else options.seed
        last = None if options.episodes is None else seed + options.episodes
        while time.monotonic() < end and (last is None or seed < last):
            _play_one(seed, options)
            seed += 1
    print(report(), flush=True)
    return 1 if any(each["found"] for each in _played()) else 0


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


def _play_crashes(end: float, named: str) -> None:
    """All that can go wrong in a command and has not been played well yet."""
    done = {each["name"] for each in _played() if not each["found"]}
    with TemporaryDirectory(dir=FOLDER, ignore_cleanup_errors=True) as folder:
        lake = CrashLake.make(Path(folder))
        for name, crash in _crashes(lake):
            if name in done or named not in name:
                continue
            if time.monotonic() > end:
                return
            began = time.monotonic()
            Told.now = name
            try:
                found = crash()
            except Exception as error:
                found = ["".join(traceback.format_exception_only(error))[:3000]]
            _keep(name, found, began, crashes=1)


def _crashes(lake: CrashLake) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for command in COMMITS:
        # Disks ask for root.
        for trouble in troubles(command) if os.geteuid() == 0 else ():
            yield f"{command}, {trouble}", partial(lake.with_bad_disk, command, trouble)
        for number, point in enumerate(points(command)):
            # Of the JVM alone every other time.
            kill = partial(lake.killed, command, point, java_only=number % 4 > 1)
            yield f"kill of {command} {point}", kill
            if point.is_behind:
                away = partial(lake.with_catalog_away, command, point)
                # The first has time to wait, the second has not.
                yield f"10 s without a catalog in {command} {point}", partial(away, 10)
                yield f"40 s without a catalog in {command} {point}", partial(away, 40)
            else:
                yield f"refusal of {command} {point}", partial(lake.failed, command, point)


def _keep(name: str, found: Sequence[str], began: float, **size: int) -> None:
    """Keep what has become of an episode or a crash, and tell it."""
    seconds = time.monotonic() - began
    with PLAYED.open("a") as kept:
        result = {
            "name": name,
            "seconds": round(seconds, 1),
            "found": [f[:1000] for f in found[:5]],
        }
        kept.write(json.dumps(result | size) + "\n")
    sizes = ", ".join(f"{count:,} {what}" for what, count in size.items())
    outcome = f"FAILED {found[0][:300]}" if found else "ok"
    print(f"{time.strftime('%H:%M')} {name}: {sizes}, {seconds:.0f} s: {outcome}", flush=True)


def report() -> str:
    """What all that was played has shown."""
    played = _played()
    failed = [each for each in played if each["found"]]
    sums = ", ".join(
        f"{sum(each.get(what, 0) for each in played):,} {what}"
        for what in ("streams", "events", "steps", "crashes")
    )
    minutes = sum(each["seconds"] for each in played) / 60
    lines = [f"{sums} in {minutes:.0f} minutes: {len(failed)} of {len(played)} failed"]
    for each in failed:
        options = each["name"] if "streams" in each else "--crashes"
        lines.append(f'{each["name"]}: make soak SOAK="{options}"')
        lines += [f"    {found}" for found in each["found"][:2]]
    return "\n".join(lines)


def _played() -> list[dict[str, Any]]:
    """Of each episode and each crash, the last time."""
    if not PLAYED.exists():
        return []
    played = [json.loads(line) for line in PLAYED.read_text().splitlines()]
    return [*{each["name"]: each for each in played}.values()]


def _next_seed() -> int:
    seeds = [int(each["name"].split()[1]) for each in _played() if "streams" in each]
    return max(seeds, default=0) + 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="for how long (%(default)s)")
    parser.add_argument("--seed", type=int, help="the first episode's; the next not yet played")
    parser.add_argument("--episodes", type=int, help="how many at most")
    parser.add_argument("--clones", type=int, default=50, help="of a wide one, deep: a fifth (50)")
    parser.add_argument("--steps", type=int, default=8, help="of a deep one (%(default)s)")
    told = "no episodes: all that can go wrong in a command, or what has this text in its name"
    parser.add_argument("--crashes", nargs="?", const="", help=told)
    parser.add_argument("--shrink-minutes", type=float, default=10.0, help="(%(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
