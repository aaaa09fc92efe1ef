"""Truncates through dbt: random streams of one table in several batchings against the reference.

They have lakes of their own, for a truncate empties the table for every stream in it.
"""

import random
from datetime import timedelta

import pytest
from expected_gold import EPOCH, ORDERS, expected_rows, log_of
from lakes import Lake, as_of_text
from streams import DAY, START, Message, stream
from streams import ORDERS as TOPIC

AS_OF = EPOCH + timedelta(milliseconds=START + DAY)


def in_runs(messages: list[Message], batching: str, runs: int) -> list[list[Message]]:
    """The messages dealt out to runs: as they come, or each to any run."""
    dice = random.Random(batching)
    batches: list[list[Message]] = [[] for _ in range(runs)]
    for message in messages:
        # Only partition 1's timestamps never go back, so only its offsets can come out of order.
        in_order = batching == "in order" or message.partition == 0
        run = message.offset * runs // 60 if in_order else dice.randrange(runs)
        batches[run].append(message)
    return batches


@pytest.mark.parametrize("batching", ["in order", "out of order"])
def test_gold_equals_the_reference_with_truncates(
    batching: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = Lake(tmp_path_factory.mktemp("truncates"))
    messages = [each for each in stream(7, truncates=0.04) if each.topic == TOPIC]
    operations = [logged.event.operation for logged in log_of(messages)]
    assert operations.count("truncate") >= 3
    landed: list[Message] = []
    sizes = []
    for batch in in_runs(messages, batching, runs=3):
        lake.land(each.line() for each in batch)
        landed += batch
        statuses = lake.dbt("run", "-s", "+orders", as_of=as_of_text(AS_OF))
        assert set(statuses.values()) == {"success"}
        actual = {row["order_id"]: row for row in lake.read("gold.orders")}
        assert actual == expected_rows(ORDERS, log_of(landed), AS_OF)
        sizes.append(len(actual))
    assert any(sizes)
    tests = lake.dbt("test", "-s", "equals_refold_orders_orders_changes", as_of=as_of_text(AS_OF))
    assert list(tests.values()) == ["pass"]

    rebuilt = lake.dbt("run", "-s", "orders", "--full-refresh", as_of=as_of_text(AS_OF))
    assert set(rebuilt.values()) == {"success"}
    assert {row["order_id"]: row for row in lake.read("gold.orders")} == actual
