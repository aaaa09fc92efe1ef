"""Truncates through dbt: a random stream of one table against the reference, one partition in order
and one not, in a lake of its own, for a truncate empties the table for every stream in it; and
topics of several partitions, whose rows and truncates are held against the source they came from.
"""

import json
import random
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from expected_gold import EPOCH, ORDERS, WRITES, expected_rows, log_of
from lakes import Lake, as_of_text
from small_project import Log, add_gold, add_log, current_state, small_project
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


# --- several partitions ---------------------------------------------------------------------------

RUNS: Final = 3
PARTITIONS: Final = 3
KEYS: Final = 4
# What a source says of its own position; the last ones say nothing that decides.
SAYS: Final = ("lsn", "scn", "binlog", "ts_ns", "ts_us", "replaced", "nothing")
UNDECIDED: Final = SAYS[-2:]


class Sent(NamedTuple):
    """A change in the order of the source, and where Kafka has it."""

    table: int
    key: int | None
    """None for a truncate."""
    value: int
    partition: int
    offset: int
    run: int
    timestamp: int
    """When the broker took it, which is later for some partitions."""
    message: Message


def source_position(says: str, number: int, clock: int, partition: int) -> dict[str, Any]:
    """The source block's fields for a change of that number."""
    says_it: dict[str, dict[str, Any]] = {
        "lsn": {"lsn": 24_000_000 + number * 56, "sequence": f'["1","{number}"]'},
        "scn": {"scn": str(2**54 + number), "commit_scn": None},
        "binlog": {"file": f"mysql-bin.{9 + number // 9:06d}", "pos": 4 + number % 9, "row": 0},
        "ts_ns": {"ts_us": clock * 1000, "ts_ns": clock * 1_000_000 + number},
        "ts_us": {"ts_us": clock * 1000 + number},
        # Each partition has positions of another server: they don't compare.
        "replaced": {"file": f"{'abc'[partition]}.000001", "pos": number},
        "nothing": {"file": None, "pos": None},
    }
    return says_it[says]


def sent_by(pair: int) -> list[Sent]:
    """The changes of two tables in the same partitions, most of them within a few milliseconds."""
    dice = random.Random(f"truncates {pair}")
    clock, offsets, taken = START + pair * DAY // 24, [0] * PARTITIONS, [0] * PARTITIONS
    # A partition that is late, as those of a broker that is busy are.
    lag = [dice.choice([0, 0, dice.randint(0, 4)]) for _ in range(PARTITIONS)]
    runs = [0] * PARTITIONS
    emptied: set[int] = set()
    changes: list[Sent] = []
    for number in range(50):
        clock += dice.choice([0, 0, 0, 1, 2])
        table = 2 * pair + dice.choice([0, 0, 1])
        runs = [min(run + (dice.random() < 0.05), RUNS - 1) for run in runs]
        is_truncate = dice.random() < 0.1
        key = None if is_truncate else table * KEYS + dice.randrange(KEYS)
        partition = dice.randrange(PARTITIONS) if key is None else key % PARTITIONS
        taken[partition] = max(taken[partition], clock + lag[partition])
        if key is None and said_by(table) in UNDECIDED:
            # Of two at once nobody can say which rows lie between them.
            if taken[partition] in emptied:
                continue
            emptied.add(taken[partition])
        row = None if key is None else {"id": key, "value": number}
        says = said_by(table)
        source = {"connector": "any", "db": "shop", "table": f"emptied_{table}", "ts_ms": clock}
        value = {
            "op": "t" if key is None else "c",
            "before": None,
            "after": row,
            "source": source | source_position(says, number, clock, partition),
            "ts_ms": clock,
        }
        # Each pair has partitions of its own, and so offsets.
        place = (f"debezium.emptied_{pair % 2}", pair * PARTITIONS + partition)
        message = Message(
            *place,
            offsets[partition],
            taken[partition],
            None if key is None else json.dumps({"id": key}).encode(),
            json.dumps(value).encode(),
        )
        where = (partition, offsets[partition], runs[partition], taken[partition])
        changes.append(Sent(table, key, number, *where, message))
        offsets[partition] += 1
    return changes


def said_by(table: int) -> str:
    """What the source of a pair of tables says of its position."""
    return SAYS[table // 2 % len(SAYS)]


def is_before(one: Sent, truncate: Sent) -> bool:
    """Whether a row came before a truncate, as far as can be known."""
    if said_by(one.table) not in UNDECIDED:
        return one.value < truncate.value
    if one.partition == truncate.partition:
        return one.offset < truncate.offset
    return one.timestamp < truncate.timestamp


def expected_values(changes: Iterable[Sent]) -> dict[int, int]:
    """The rows that are left: those whose newest change no truncate has come behind."""
    changes = list(changes)
    truncates = [each for each in changes if each.key is None]
    newest = {each.key: each for each in changes if each.key is not None}
    return {
        key: each.value
        for key, each in newest.items()
        if not any(is_before(each, truncate) for truncate in truncates)
    }


def values_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    return {row["id"]: row["value"] for row in rows}


def is_in_order(log: Iterable[Mapping[str, Any]]) -> bool:
    """Whether log times never fall along the offsets of a partition."""
    places = [row["_position"] for row in log]
    order = ("topic", "partition", "offset")
    by_offset = sorted(places, key=lambda place: [place[name] for name in order])
    return all(
        one["log_time"] <= other["log_time"]
        for one, other in pairwise(by_offset)
        if [one[name] for name in order[:2]] == [other[name] for name in order[:2]]
    )


# A pair of tables for each thing that sources say; two of each in soak.
@pytest.mark.parametrize(
    "tables_number", [2 * len(SAYS), pytest.param(4 * len(SAYS), marks=pytest.mark.long)]
)
def test_the_source_decides_what_a_truncate_leaves_in_other_partitions(
    tmp_path: Path, tables_number: int
) -> None:
    project = small_project(tmp_path / "project")
    tables = [f"emptied_{table}" for table in range(tables_number)]
    several = Log("several", tables, {"id": "bigint"}, {"value": "bigint"}, database="shop")
    single = {
        table: Log(
            f"single_{table}", f"emptied_{table}", {"id": "bigint"}, {"value": "bigint"}, "shop"
        )
        for table in (2,)
    }
    for log in (several, *single.values()):
        add_log(project, log)
        add_gold(project, current_state(log))
    lake = Lake(tmp_path, project)
    changes: dict[int, list[Sent]] = {table: [] for table in range(tables_number)}
    for each in chain.from_iterable(map(sent_by, range(tables_number // 2))):
        changes[each.table].append(each)

    def expected(run: int, tables: Iterable[int]) -> dict[int, int]:
        return {
            key: value
            for table in tables
            for key, value in expected_values(
                each for each in changes[table] if each.run <= run
            ).items()
        }

    for run in range(RUNS):
        lake.land(each.message.line() for each in chain(*changes.values()) if each.run == run)
        assert set(lake.dbt("run", as_of=as_of_text(AS_OF)).values()) == {"success"}
        assert values_of(lake.read("gold.several")) == expected(run, changes)
        assert is_in_order(lake.read("silver.several_changes"))
        for table in single:
            assert values_of(lake.read(f"gold.single_{table}")) == expected(run, [table])

    # What finds no place among earlier rows has the log made anew, and then all have theirs.
    assert "silver.several_changes is rebuilt: " in lake.log_text()
    assert "contradict their source's order" not in lake.log_text()

    tests = lake.dbt("test", "-s", "test_name:equals_refold", as_of=as_of_text(AS_OF))
    assert set(tests.values()) == {"pass"}
    ties = lake.sql("select gold_table, truncate_ties from silver.fold_counters")
    assert any(
        row["gold_table"] == "silver.several_changes" and row["truncate_ties"] for row in ties
    )
    rebuilt = lake.dbt("run", "--full-refresh", as_of=as_of_text(AS_OF))
    assert set(rebuilt.values()) == {"success"}
    assert values_of(lake.read("gold.several")) == expected(RUNS, changes)
