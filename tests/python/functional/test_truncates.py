"""Truncates through dbt: topics of several partitions, whose rows and truncates are held against
the source they came from; and in the soak a random stream of one table against the reference, one
partition in order and one not. A truncate empties the table for every stream in it, so the lake is
their own.
"""

import json
import random
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from support.expected_gold import EPOCH, ORDERS, WRITES, expected_rows, log_of
from support.lakes import Lake, Rows, as_of_text
from support.small_project import Log, add_gold, add_log, current_state, small_project
from support.streams import DAY, START, Message, stream
from support.streams import ORDERS as TOPIC

from dbt_lakehouse.config.paths import ROOT
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


# --- several partitions ---------------------------------------------------------------------------

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


def sent_by(pair: int, run_count: int) -> list[Sent]:
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
        runs = [min(run + (dice.random() < 0.05), run_count - 1) for run in runs]
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


# --- the lake -------------------------------------------------------------------------------------

SEVERAL, SINGLE = "gold.several", "gold.single_2"
LOG: Final = "silver.several_changes"
READ: Final = (SEVERAL, SINGLE, LOG)
ALL_OF_THEM: Final = ("gold.orders", *READ)


class Played(NamedTuple):
    """The lake behind its runs, what had landed of each table of a pair, and of the orders by run;
    the rows after each run, what was said and counted of ties, what became of the data tests and
    of sums.
    """

    lake: Lake
    changes: dict[int, list[Sent]]
    batches: list[list[Message]]
    rows: list[dict[str, Rows]]
    said: str
    counted: Rows
    data_tests: dict[str, str]
    broken_sums: list[Any]

    def expected(self, run: int, tables: Iterable[int]) -> dict[int, int]:
        """The rows of tables of pairs after a run."""
        return {
            key: value
            for table in tables
            for key, value in expected_values(
                each for each in self.changes[table] if each.run <= run
            ).items()
        }


def add_orders(project: Path) -> None:
    """The demo's orders."""
    for file in (ROOT / "models").glob("*/orders*"):
        if file.stem in ("orders", "orders_changes"):
            shutil.copy(file, project / file.relative_to(ROOT))


def add_models(project: Path, tables: Iterable[int]) -> None:
    """One log of all tables of pairs, and one of a table alone."""
    names = [f"emptied_{table}" for table in tables]
    several = Log("several", names, {"id": "bigint"}, {"value": "bigint"}, database="shop")
    for log in (several, replace(several, name="single_2", table="emptied_2")):
        add_log(project, log)
        add_gold(project, current_state(log))


class Size(NamedTuple):
    """How many tables, in how many runs, and whether the orders are beside them."""

    tables: int
    runs: int
    has_orders: bool

    def __str__(self) -> str:
        return f"{self.tables} tables"


# A pair of tables for each thing that sources say, in two runs; in soak two of each, in three, and
# the orders. In CI, test_shards has truncates in a third run, and random streams with truncates
# are those of test_history, test_partial_rows and test_shards.
IN_CI: Final = Size(2 * len(SAYS), 2, has_orders=False)
IN_SOAK: Final = pytest.param(Size(4 * len(SAYS), 3, has_orders=True), marks=pytest.mark.long)
with_orders = pytest.mark.parametrize("played", [IN_SOAK], indirect=True, ids=str)


@pytest.fixture(scope="module", params=[IN_CI, IN_SOAK], ids=str)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("truncates")
    project = small_project(folder / "project")
    count, runs, has_orders = request.param
    tables = range(count)
    add_models(project, tables)
    if has_orders:
        add_orders(project)
    lake = Lake(folder, project)
    orders = [each for each in stream(SEED, truncates=0.08) if each.topic == TOPIC]
    batches = in_runs(orders if has_orders else [], runs)
    changes: dict[int, list[Sent]] = {table: [] for table in tables}
    for each in chain.from_iterable(sent_by(pair, runs) for pair in range(count // 2)):
        changes[each.table].append(each)

    found = []
    for run, batch in enumerate(batches):
        of_pairs = (each.message for each in chain(*changes.values()) if each.run == run)
        lake.land(each.line() for each in chain(batch, of_pairs))
        assert set(lake.dbt("run", as_of=as_of_text(AS_OF)).values()) == {"success"}
        found.append(all_rows(lake, ALL_OF_THEM if has_orders else READ))
    tests = lake.dbt("test", "-s", "test_name:equals_refold", as_of=as_of_text(AS_OF))
    said, counted, sums = lake.log_text(), lake.read("silver.fold_counters"), lake.broken_sums()
    return Played(lake, changes, batches, found, said, counted, tests, sums)


def all_rows(lake: Lake, tables: Iterable[str]) -> dict[str, Rows]:
    return {table: lake.read(table) for table in tables}


@with_orders
def test_gold_equals_the_reference_with_truncates(played: Played) -> None:
    assert situations(played.batches) == {"own", "another's", "late"}
    landed: list[Message] = []
    for batch, rows in zip(played.batches, played.rows, strict=True):
        landed += batch
        actual = {row["order_id"]: row for row in rows["gold.orders"]}
        assert actual == expected_rows(ORDERS, log_of(landed), AS_OF)
    assert any(rows["gold.orders"] for rows in played.rows)


def test_the_source_decides_what_a_truncate_leaves_in_other_partitions(played: Played) -> None:
    for run, rows in enumerate(played.rows):
        assert values_of(rows[SEVERAL]) == played.expected(run, played.changes)
        assert is_in_order(rows[LOG])
        assert values_of(rows[SINGLE]) == played.expected(run, [2])
    # What finds no place among earlier rows has the log made anew, and then all have theirs.
    assert f"{LOG} is rebuilt: " in played.said
    assert "contradict their source's order" not in played.said
    assert any(row["gold_table"] == LOG and row["truncate_ties"] for row in played.counted)


def test_the_data_tests_pass_and_sums_agree(played: Played) -> None:
    assert len(played.data_tests) == len(played.rows[0]) - 1
    assert set(played.data_tests.values()) == {"pass"}
    assert played.broken_sums == []


# In CI, the runs above make the log of several tables anew, and test_scenarios
# (test_a_full_refresh_gives_the_same_rows) has a full refresh.
@with_orders
def test_a_full_refresh_gives_the_same_rows(played: Played) -> None:
    """Of the orders' gold alone, and of everything."""
    landed = log_of(chain(*played.batches))
    orders = expected_rows(ORDERS, landed, AS_OF)
    for chosen in (("-s", "orders"), ()):
        rebuilt = played.lake.dbt("run", *chosen, "--full-refresh", as_of=as_of_text(AS_OF))
        assert set(rebuilt.values()) == {"success"}
        rows = all_rows(played.lake, ALL_OF_THEM)
        assert {row["order_id"]: row for row in rows["gold.orders"]} == orders
    assert values_of(rows[SEVERAL]) == played.expected(len(played.batches), played.changes)
    assert played.lake.broken_sums() == []
