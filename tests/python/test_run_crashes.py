"""`kill -9` of `dbt run` and of upkeep at random moments: the next run makes good what is left."""

import random
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

import streams
from commands import dbt
from expected_gold import EPOCH, MODELS, differences
from lakes import Lake, as_of_text
from streams import Message

SEED: Final = 20261122
CLONES: Final = 3
# In turn with the batches of messages: what is killed after that batch has landed, and how many
# seconds after it began with its first model at the latest.
KILLS: Final = (
    ("run", 14.0),
    ("run", 6.0),
    ("run", 3.0),
    ("run-operation", 3.0),
    ("run", 8.0),
)
AS_OF: Final = EPOCH + timedelta(milliseconds=streams.START + 2 * streams.HOUR)


def batches(dice: random.Random) -> list[list[Message]]:
    """The messages of all clones, each partition's in order, cut at random."""
    dealt: list[list[Message]] = [[] for _ in KILLS]
    partitions: dict[tuple[str, int], list[Message]] = {}
    for clone in range(CLONES):
        for message in streams.stream(SEED, clone, truncates=0.02):
            partitions.setdefault(message[:2], []).append(message)
    for own in partitions.values():
        ends = sorted(dice.randrange(len(KILLS)) for _ in own)
        for message, batch in zip(own, ends, strict=True):
            dealt[batch].append(message)
    return dealt


def kill(lake: Lake, command: str, longest: float, dice: random.Random) -> bool:
    """Kill a dbt command after a random time; whether it was at work then."""
    what: dict[str, tuple[tuple[str, ...], str]] = {
        "run": (("-s", *MODELS), "Concurrency: "),
        "run-operation": (("maintain_tables",), "Found "),
    }
    arguments, begun = what[command]
    with dbt(lake, command, *arguments, as_of=as_of_text(AS_OF)) as running:
        running.wait_for(begun)
        time.sleep(dice.uniform(0, longest))
        was_running = running.process.poll() is None
        if dice.random() < 0.5:
            # Of the JVM, some of what it was told to do is still done.
            running.kill()
            time.sleep(dice.uniform(0, 1))
    return was_running


def test_runs_that_are_killed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    dice = random.Random(SEED)
    landed: list[Message] = []
    killed = []
    for (command, longest), messages in zip(KILLS, batches(dice), strict=True):
        lake.land(message.line() for message in messages)
        landed += messages
        killed.append(kill(lake, command, longest, dice))
    assert any(killed), "every command was through before it was killed"
    statuses = lake.dbt("run", "-s", *MODELS, as_of=as_of_text(AS_OF))
    assert set(statuses.values()) == {"success"}, statuses
    assert differences(lake, landed, AS_OF) == []
