"""Truncates through dbt: a random stream of one table against the reference, one partition in order
and one not.

It has a lake of its own, for a truncate empties the table for every stream in it.
"""

import random
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Final

from expected_gold import EPOCH, ORDERS, WRITES, expected_rows, log_of
from lakes import Lake, as_of_text
from streams import DAY, START, Message, stream
from streams import ORDERS as TOPIC

from dbt_lakehouse.reference.fold import log_order

SEED: Final = 2
AS_OF = EPOCH + timedelta(milliseconds=START + DAY)


def in_runs(messages: list[Message], runs: int) -> list[list[Message]]:
    """The messages dealt out to runs: partition 0's as they come, of partition 1 each to any."""
    dice = random.Random("out of order")
    batches: list[list[Message]] = [[] for _ in range(runs)]
    for message in messages:
        # Only partition 1's timestamps never go back, so only its offsets can come out of order.
        in_order = message.partition == 0
        run = message.offset * runs // 60 if in_order else dice.randrange(runs)
        batches[run].append(message)
    return batches


def situations(batches: list[list[Message]]) -> set[str]:
    """Which truncates there are: the table's own, of them late ones (what they delete has landed
    already, with what comes behind them), and another table's.
    """
    found = set()
    runs = {message[:3]: run for run, batch in enumerate(batches) for message in batch}
    log = sorted(log_of(chain(*batches)), key=lambda logged: log_order(logged.change))
    for place, logged in enumerate(log):
        if logged.event.operation != "truncate":
            continue
        if logged.event.source_table != ORDERS.source_table:
            found.add("another's")
            continue
        found.add("own")
        run = runs[logged.message[:3]]
        around = [
            any(runs[other.message[:3]] < run for other in part if other.event.operation in WRITES)
            for part in (log[:place], log[place + 1 :])
        ]
        if all(around):
            found.add("late")
    return found


def test_gold_equals_the_reference_with_truncates(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    messages = [each for each in stream(SEED, truncates=0.08) if each.topic == TOPIC]
    batches = in_runs(messages, runs=3)
    assert situations(batches) == {"own", "another's", "late"}
    landed: list[Message] = []
    sizes = []
    for batch in batches:
        lake.land(each.line() for each in batch)
        landed += batch
        statuses = lake.dbt("run", "-s", "+orders", as_of=as_of_text(AS_OF))
        assert set(statuses.values()) == {"success"}
        actual = {row["order_id"]: row for row in lake.read("gold.orders")}
        assert actual == expected_rows(ORDERS, log_of(landed), AS_OF)
        sizes.append(len(actual))
    assert any(sizes)
    tests = lake.dbt("test", "-s", "equals_refold_orders_", as_of=as_of_text(AS_OF))
    assert list(tests.values()) == ["pass"]
    assert lake.broken_sums() == []

    rebuilt = lake.dbt("run", "-s", "orders", "--full-refresh", as_of=as_of_text(AS_OF))
    assert set(rebuilt.values()) == {"success"}
    assert {row["order_id"]: row for row in lake.read("gold.orders")} == actual
