"""``kill -9`` at random moments of landing, in both modes, with upkeep of bronze in between: each
position lands exactly once.

``land_through_kills`` takes the numbers, so that the same can be tried with a million messages.
"""

import random
import time
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final, NamedTuple

import pytest
from support.commands import Command, lakehouse
from support.kafka_topics import (
    BRONZE,
    Kafka,
    compact,
    expire_snapshots,
    forget_positions,
    numbered,
)
from support.lakes import Lake, topic_entries

# What is done to bronze after each kill, in turn.
UPKEEP: Final = (expire_snapshots, compact, forget_positions)


class Plan(NamedTuple):
    """What to try: ``messages`` in ``partitions``, at most ``bite`` for each commit, and a kill for
    each of ``modes`` (``batch`` or ``stream``), up to ``longest`` seconds after it began to read or
    has landed its first bite or its second.
    """

    messages: int
    partitions: int
    bite: int
    modes: Sequence[str]
    longest: float
    seed: int


def land_through_kills(lake: Lake, kafka: Kafka, topic: str, plan: Plan) -> list[int]:
    """Fill the topic, land it by commands that are killed, and the rest undisturbed; the rows in
    bronze after each kill.
    """
    kafka.create(topic, plan.partitions)
    kafka.send(topic, numbered(plan.messages, plan.partitions))
    chance = random.Random(plan.seed)
    landed = []
    with ExitStack() as commands:
        for number, mode in enumerate(plan.modes):
            command = commands.enter_context(_command(lake, topic, mode, plan))
            command.wait_for("kafka: reading" if mode == "batch" else "streaming ")
            command.wait_for("landed ", chance.randint(0, 2))
            time.sleep(chance.uniform(0, plan.longest))
            assert command.process.poll() is None, f"too late for a kill: {command.said}"
            command.kill()
            # Its JVM may still commit: what follows, and the next landing, do not wait for it.
            UPKEEP[number % len(UPKEEP)](lake)
            landed.append(_count(lake, topic))
        lake.land_kafka([topic])
    return landed


def _command(lake: Lake, topic: str, mode: str, plan: Plan) -> AbstractContextManager[Command]:
    variables: dict[str, Any] = {"topics": topic_entries([topic])}
    if mode == "batch":
        arguments = ["land", "--kafka", "--until-caught-up"]
        return lakehouse(lake, *arguments, **variables, max_messages_per_run=plan.bite)
    options = ["--available-now", "--max-offsets-per-trigger", str(plan.bite)]
    return lakehouse(lake, "stream", *options, **variables)


def _count(lake: Lake, topic: str) -> int:
    rows = lake.sql(f"select count(*) as rows from {BRONZE} where topic = '{topic}'")
    return int(rows[0]["rows"])


def contents(lake: Lake, topic: str) -> list[tuple[int, int, int, int, int, int]]:
    """Of each partition: its number, rows, positions, first and last offset, and the sum of the
    values' CRC-32.
    """
    rows = lake.sql(
        f"""
        select partition, count(*) as rows, count(distinct offset) as positions,
            min(offset) as first, max(offset) as last, sum(crc32(value)) as checksum
        from {BRONZE} where topic = '{topic}' group by partition order by partition
        """
    )
    return [
        (
            row["partition"],
            row["rows"],
            row["positions"],
            row["first"],
            row["last"],
            row["checksum"],
        )
        for row in rows
    ]


def expected_contents(plan: Plan) -> list[tuple[int, int, int, int, int, int]]:
    """What ``contents`` says if each message has landed once."""
    counts = [0] * plan.partitions
    checksums = [0] * plan.partitions
    for message in numbered(plan.messages, plan.partitions):
        counts[message.partition] += 1
        checksums[message.partition] += zlib.crc32(message.value or b"")
    return [
        (number, count, count, 0, count - 1, checksum)
        for number, (count, checksum) in enumerate(zip(counts, checksums, strict=True))
    ]


# Each mode goes on once where the other was killed; the rest of the rounds in soak.
@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.long)])
def test_kills_lose_nothing_and_land_nothing_twice(lake: Lake, kafka: Kafka, rounds: int) -> None:
    plan = Plan(
        messages=30_000 * rounds,
        partitions=8,
        bite=3_000,
        modes=("batch", "stream") * rounds,
        longest=1.5,
        seed=4,
    )
    topic = f"crashes-{rounds}"
    landed = land_through_kills(lake, kafka, topic, plan)
    assert contents(lake, topic) == expected_contents(plan)
    # Some of them hit a landing that had begun, and all one that was not done.
    assert 0 < landed[-1] < plan.messages
    assert landed == sorted(landed)
