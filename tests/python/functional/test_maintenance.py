"""`lakehouse maintain` and the dbt operation: fewer files and snapshots, the same rows, and
incremental runs that go on as if nothing had happened.
"""

import itertools
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from support.lakes import Lake, Rows
from support.small_messages import order
from support.streams import MINUTE, ORDERS, START, Message

from dbt_lakehouse.commands.backup import backup
from dbt_lakehouse.commands.maintain import maintain as lakehouse_maintain
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake import iceberg
from dbt_lakehouse.lake.tables import NO_SNAPSHOT, Snapshot, Table
from dbt_lakehouse.lake.wholeness import BEGUN
from dbt_lakehouse.maintenance import run as maintenance
from dbt_lakehouse.maintenance.policy import Candidate, Maintained, Policy
from dbt_lakehouse.runs import decisions
from dbt_lakehouse.runs.marks import marks_of
from dbt_lakehouse.runs.model_run import AS_OF as AS_OF_NOTE
from dbt_lakehouse.runs.model_run import DECLARED, LEAVES, LOG_TIMES, NEWEST, kept, kept_anew
from dbt_lakehouse.session.dbt_commands import run_dbt

AS_OF: Final = "2026-10-03 00:00:00"
MODELS: Final = ("-s", "+orders", "orders_history", "quarantined_payloads")
TESTS: Final = (
    "-s",
    *(
        "every_payload_is_accounted_for",
        "every_event_is_accounted_for",
        "log_time_follows_the_offsets",
    ),
    *("equals_refold_orders_orders_changes", "orders_history", "other_events", "orders_changes"),
    *("--exclude-resource-type", "unit_test"),
)
# What is read from append to append, and all that is maintained.
BRONZE: Final = "bronze.raw_payloads"
LOGS: Final = (BRONZE, "silver.orders_changes")
OTHERS: Final = "silver.other_events"
DELETED_KEYS: Final = "silver.deleted_keys"
TABLES: Final = (*LOGS, OTHERS, "gold.orders", "gold.orders_history", DELETED_KEYS)
ORDER_NUMBERS: Final = range(12)
UPDATES: Final = 3
FIGURES: Final = (
    *("data_files_before", "rewritten_files", "expired_snapshots"),
    *("orphan_files", "older_files"),
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake of so many small runs that the logs and gold have small files, and of so many changes
    that gold and its history have deleted rows.
    """
    lake = Lake(tmp_path_factory.mktemp("maintenance"))
    with lake.dbt_folders():
        land(lake, [change(number, "c", number, "new") for number in ORDER_NUMBERS])
        # As if it had been so for long: what was there before it stays.
        begun = f"{datetime.now(UTC) - timedelta(days=30):%FT%TZ}"
        lake.sql(f"alter schema lake.bronze set dbproperties ('{BEGUN}' = '{begun}')")
        run(lake)
        for number in range(UPDATES):
            place = len(ORDER_NUMBERS) + 2 * number
            updated = change(place, "u", number, f"update {number}")
            land(lake, [updated, change(place + 1, "c", 100 + number, "new")])
            # The history reads them all at once, in the last run.
            run(lake, "-s", "+orders")
        last = len(ORDER_NUMBERS) + 2 * UPDATES
        land(lake, [change(last, "d", 11), change(last + 1, "c", 100 + UPDATES, "new")])
        run(lake)
        yield lake


def change(place: int, op: str, number: int, status: str | None = None) -> Message:
    """A change of an order, the later in the log the greater its place."""
    return order(ORDERS, place, START + place * MINUTE, op, number, status)


def land(lake: Lake, messages: Sequence[Message]) -> None:
    lake.land(message.line() for message in messages)


def run(lake: Lake, *models: str) -> None:
    statuses = lake.dbt("run", *(models or MODELS), as_of=AS_OF)
    assert set(statuses.values()) == {"success"}, statuses


def maintain(lake: Lake, retention_days: float, *tables: str) -> None:
    """Maintain all tables, or those."""
    project = lake.load(captures=[], as_of=AS_OF, snapshot_retention_days=retention_days)
    chosen = json.dumps({"tables": tables})
    run_dbt(project, "run-operation", "maintain_tables", "--args", chosen)


def told(lake: Lake, *, dry_run: bool) -> dict[str, Maintained]:
    """What `lakehouse maintain` tells of each table."""
    project = lake.load(captures=[], as_of=AS_OF, snapshot_retention_days=7)
    return {each.table_name: each for each in lakehouse_maintain(project, [], dry_run=dry_run)}


def leave_file(lake: Lake, table: str, hours: float) -> Path:
    """A data file of a run that was killed so long ago."""
    data = lake.folder / "lake" / "warehouse" / Path(*table.split(".")) / "data"
    path = data / f"00000-1-of-{hours}-00001.parquet"
    path.write_bytes(b"of nobody")
    moment = time.time() - hours * 3_600
    os.utime(path, (moment, moment))
    return path


def rows_with_lineage(lake: Lake, table: str) -> Counter[str]:
    """The rows with the numbers that Iceberg gave to them and to their commits."""
    rows = lake.sql(f"select *, _row_id, _last_updated_sequence_number from {table}")
    return Counter(repr(row) for row in rows)


def count(rows: Rows) -> int:
    (row,) = rows
    return int(row["number"])


def statuses(lake: Lake) -> dict[int, str]:
    return {row["order_id"]: row["status"] for row in lake.read("gold.orders")}


def marked_snapshots(lake: Lake, table: str) -> set[str]:
    """The snapshots that a table has read of its upstreams."""
    return {mark.snapshot for mark in lake.marks(table).values()} - {NO_SNAPSHOT}


def consistent(lake: Lake) -> None:
    """The data tests pass, and no place in the log is there twice."""
    results = lake.dbt("test", *TESTS, as_of=AS_OF)
    assert len(results) > 5 and set(results.values()) == {"pass"}, results
    assert lake.broken_sums() == []
    for table in LOGS:
        position = "_position" if table.endswith("orders_changes") else "topic, partition, offset"
        twice = lake.sql(f"select {position} from {table} group by all having count(*) > 1")
        assert not twice, table


def test_files_are_rewritten_and_rows_stay(lake: Lake) -> None:
    before = {table: rows_with_lineage(lake, table) for table in TABLES}
    snapshots = {table: lake.snapshots(table) for table in TABLES}
    many = {table: lake.files(table) for table in TABLES}
    # As many as Iceberg takes for enough to rewrite.
    assert min(many[table] for table in (*LOGS, "gold.orders")) >= 5
    for table in ("gold.orders", "gold.orders_history"):
        assert lake.files(table, of_deletes=True) > 0, table
    assert marked_snapshots(lake, "gold.orders")

    old = [leave_file(lake, table, hours=27) for table in ("bronze.raw_payloads", "gold.orders")]
    young = [leave_file(lake, table, hours=25) for table in ("bronze.raw_payloads", "gold.orders")]
    # Of a lake that was there before this one.
    another = leave_file(lake, "gold.orders", hours=31 * 24)
    planned = told(lake, dry_run=True)
    assert all(path.exists() for path in old)
    assert {table: lake.snapshots(table) for table in TABLES} == snapshots
    # Nothing is older than the days that snapshots are kept.
    done = told(lake, dry_run=False)
    assert not any(path.exists() for path in old)
    for name, was in done.items():
        assert was.data_files_after == lake.files(name), name
        for figure in FIGURES:
            assert getattr(was, figure) == getattr(planned[name], figure), (name, figure)
    assert done["gold.orders"].rewritten_files == many["gold.orders"]
    assert done["gold.orders"].orphan_files == done[BRONZE].orphan_files == 1
    assert another.exists() and done["gold.orders"].older_files == 1
    assert "1 file from before this lake was begun left alone" in done["gold.orders"].text()
    kept_rows = lake.sql("select * except (maintained_at) from bronze.maintained")
    columns = [*kept_rows[0]]
    assert [tuple(row.values()) for row in kept_rows] == [
        tuple(getattr(each, name) for name in columns) for each in done.values()
    ]
    # Whoever is at work has not named these yet.
    assert all(path.exists() for path in young)
    for table in TABLES:
        assert rows_with_lineage(lake, table) == before[table], table
        assert lake.files(table, of_deletes=True) == 0, table
        kept = lake.snapshots(table)
        assert kept[: len(snapshots[table])] == snapshots[table]
        # What is noted again is no row.
        for each in kept[len(snapshots[table]) :]:
            assert each.operation == "replace" or "added-records" not in each.summary
    for table in (*LOGS, "gold.orders"):
        assert lake.files(table) < many[table], table
    # Runs read open versions alone.
    (versions,) = lake.sql("select file_path from gold.orders_history.data_files")
    path = versions["file_path"].removeprefix("file:")
    are_open = pq.read_table(path, columns=["is_current"])["is_current"].to_pylist()
    assert len({*are_open}) == 2 and are_open == sorted(are_open)

    another.unlink()
    again = told(lake, dry_run=True)
    assert {name for name, each in again.items() if "nothing to do" not in each.text()} == set()
    assert set(again) == {*done, "bronze.maintained"}

    # A run finds nothing new, and rebuilds nothing.
    run(lake)
    for table in TABLES:
        assert rows_with_lineage(lake, table) == before[table], table
        # A rebuild would have replaced them all.
        assert lake.look_at(table).chain[-1].name == str(snapshots[table][0].snapshot_id), table


def test_a_table_is_maintained_by_its_policy(lake: Lake) -> None:
    """Three files of a row each come beside a file that has lost these rows."""
    lake.sql("create table gold.policed using iceberg as select id from range(0, 100, 1, 1)")
    for number in range(3):
        lake.sql(f"update gold.policed set id = id where id = {number}")
    spark = lake.load().open_session()
    lost, all_files = 3, "4 of 4 data files to rewrite"
    for policy, expected in (
        (Policy(min_files=5, deleted_rows_percent=lost + 1), "nothing to do"),
        (Policy(min_files=5, deleted_rows_percent=lost - 1), all_files),
        (Policy(min_files=4, deleted_rows_percent=lost + 1), all_files),
    ):
        candidate = Candidate("gold", "policed", "policed", policy)
        (planned,) = maintenance.maintain(spark, [candidate], dry_run=True)
        assert planned.text() == f"gold.policed: {expected}"
    unknown = Candidate("gold", "policed", "policed", Policy(sort_by=("id", "di")))
    with pytest.raises(ConfigurationError, match=r"maintenance of gold\.policed names di, which"):
        list(maintenance.maintain(spark, [unknown], dry_run=True))
    lake.sql("drop table gold.policed purge")


def test_deletes_of_format_version_2_are_written_into_their_files(lake: Lake) -> None:
    """A table for readers without deletion vectors."""
    properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    rows = "select id from range(0, 100, 1, 1)"
    lake.sql(f"create table gold.older using iceberg tblproperties ({properties}) as {rows}")
    lake.sql("delete from gold.older where id % 5 = 0")
    spark = lake.load().open_session()
    for percent, expected in ((21, "nothing to do"), (20, "1 of 1 data file rewritten, 1 now")):
        policy = Policy(deleted_rows_percent=percent)
        (done,) = maintenance.maintain(
            spark, [Candidate("gold", "older", "older", policy)], dry_run=False
        )
        assert done.text() == f"gold.older: {expected}"
    assert lake.files("gold.older", of_deletes=True) == 0
    assert count(lake.sql("select count(*) as number from gold.older")) == 80
    lake.sql("drop table gold.older purge")


def test_runs_go_on_where_snapshots_are_gone(lake: Lake) -> None:
    before = {table: count(lake.sql(f"select count(*) as number from {table}")) for table in LOGS}
    known = statuses(lake)
    # Landed, and not yet built when the snapshots go.
    place = 100
    unread = [
        change(place, "u", 0, "unread"),
        change(place + 1, "d", 1),
        change(place + 2, "c", 200, "unread"),
    ]
    land(lake, unread)
    lake.dbt("run", "-s", "other_events", as_of=AS_OF)
    land(lake, [change(place + 3, "u", 2, "unread")])
    lost = {
        table: marked_snapshots(lake, table)
        for table in (OTHERS, "silver.orders_changes", "gold.orders")
    }
    maintain(lake, 0)
    left = {str(each.snapshot_id) for table in (*LOGS, OTHERS) for each in lake.snapshots(table)}
    assert not lost[OTHERS] & left and not lost["silver.orders_changes"] & left

    run(lake)
    added = {table: len(unread) + 1 for table in LOGS}
    for table in LOGS:
        assert count(lake.sql(f"select count(*) as number from {table}")) == (
            before[table] + added[table]
        ), table
    expected = {**known, 0: "unread", 2: "unread", 200: "unread"}
    del expected[1]
    assert statuses(lake) == expected

    # What belongs before what is known is folded from the rewritten log.
    late = order(ORDERS, 0, START + MINUTE, "u", 0, "late")._replace(partition=1)
    land(lake, [change(place + 4, "u", 3, "last"), late])
    # What a run reads for that.
    maintain(lake, 0, "raw_payloads", "other_events", "orders_changes", "deleted_keys", "orders")
    run(lake)
    assert statuses(lake) == {**expected, 3: "last"}
    # Of this, and of all that the test before it has rewritten.
    consistent(lake)
    # Nothing was built anew: of what a replaced table was made from, no snapshot has a parent.
    for table in TABLES:
        assert lake.look_at(table).chain[-1].parent_snapshot_id is not None, table


# In CI, test_the_gold_tables_of_a_run_may_append_to_one_table_at_once has many commits of it.
@pytest.mark.long
def test_tables_that_each_run_writes_forget_their_history_themselves(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run replaces the states of two keys that are folded anew for a late event, and which lie
    in different data files from the second on: their deletion vectors share a file, which must stay
    as long as one of them counts.
    """
    monkeypatch.setattr(iceberg, "_SNAPSHOTS_AT_MOST", 2)
    monkeypatch.setattr(iceberg, "_SNAPSHOTS_KEPT", 1)
    monkeypatch.setattr(iceberg, "KEPT_FOR", timedelta())
    # As in a table that is ordered by time: a late event has its key folded anew.
    monkeypatch.setattr(decisions, "last_event_decides", lambda *_, **__: False)
    places, late_places = itertools.count(200), itertools.count(1)
    numbers = range(300, 304)
    longest = 0
    # First all of them are absent, then two at a time come back and go again.
    for changed in [numbers, *itertools.pairwise(numbers)]:
        late = [order(ORDERS, 0, START + MINUTE, "u", each, "late") for each in changed]
        land(
            lake,
            [
                *(change(next(places), op, each, "back") for op in "cd" for each in changed),
                *(each._replace(partition=1, offset=next(late_places)) for each in late),
            ],
        )
        before = lake.current_snapshot(DELETED_KEYS)
        run(lake, "-s", "+orders")
        longest = max(longest, len(lake.snapshots(DELETED_KEYS)))
        assert lake.current_snapshot(DELETED_KEYS) != before
    assert longest == 2
    # Nothing is late: its state is added.
    land(lake, [change(next(places), op, 300, "again") for op in "cd"])
    run(lake, "-s", "+orders")
    remembered = lake.read(DELETED_KEYS)
    assert {f'{{"order_id":{number}}}' for number in numbers} <= {
        row["record_key"] for row in remembered
    }
    assert lake.files(DELETED_KEYS, of_deletes=True) > 0
    # Of several the newest stays.
    newest = f"select record_key, max(position).offset as offset from {DELETED_KEYS} group by all"
    kept_places = {row["record_key"]: row["offset"] for row in lake.sql(newest)}
    assert len(kept_places) < len(remembered)
    done = told(lake, dry_run=False)[DELETED_KEYS]
    assert done.superseded_rows == len(remembered) - len(kept_places)
    after = [(row["record_key"], row["position"]["offset"]) for row in lake.read(DELETED_KEYS)]
    assert sorted(after) == sorted(kept_places.items())
    run(lake)
    consistent(lake)


def test_snapshots_that_have_to_stay_are_not_looked_through_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run did so once a stream had five hundred within an hour."""
    monkeypatch.setattr(iceberg, "_SNAPSHOTS_AT_MOST", 4)
    monkeypatch.setattr(iceberg, "_SNAPSHOTS_KEPT", 1)
    spark, table = lake.spark, "lake.silver.written_often"
    looks: list[int] = []

    def tend(kept_for: timedelta) -> int:
        monkeypatch.setattr(iceberg, "KEPT_FOR", kept_for)
        number = len(lake.snapshots("silver.written_often"))
        iceberg.tend_own_state(spark, table, before=lambda: looks.append(number))
        return len(lake.snapshots("silver.written_often"))

    spark.sql(f"create table {table} (n bigint) using iceberg")
    try:
        for number in range(6):
            spark.sql(f"insert into {table} values ({number})")
            assert tend(timedelta(hours=1)) == number + 1
        assert looks == []
        # Beyond this moment, for Spark takes it by the second.
        at_once = timedelta(seconds=-2)
        assert tend(at_once) == 1 and looks == [6]
        # Three can go from the fourth on.
        for number in (2, 3, 1, 2):
            spark.sql(f"insert into {table} values ({number})")
            assert tend(at_once) == number
        assert looks == [6, 4]
    finally:
        spark.sql(f"drop table {table} purge")


def test_the_gold_tables_of_a_run_may_append_to_one_table_at_once(lake: Lake) -> None:
    spark, table = lake.spark, "lake.silver.shared_by_many"
    spark.sql(f"create table {table} (n bigint) using iceberg")
    iceberg.tend_own_state(spark, table)

    def append(number: int) -> None:
        for _ in range(4):
            spark.sql(f"insert into {table} values ({number})")

    try:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(append, range(16)))
        assert spark.table(table).count() == 64
        # Those that came too late have left no metadata.
        located = iceberg.load_table(spark, table).location().removeprefix("file:")
        assert len(list(Path(located).glob("metadata/*.metadata.json"))) == 21
    finally:
        spark.sql(f"drop table {table} purge")


def test_what_is_kept_of_a_snapshot_moves_on_with_it() -> None:
    """By the metadata alone."""

    def table(first: int, *summaries: dict[str, str], of: str) -> Table:
        texts = {LEAVES: json.dumps({"snapshot": of, "value": False})}
        chain = [Snapshot(at, at, None, each) for at, each in enumerate(summaries, first)]
        return Table("uuid", texts, {}, frozenset(), tuple(reversed(chain)), frozenset())

    append, rewrite = {"operation": "append", "added-records": "1"}, {"operation": "replace"}
    anew = kept_anew(table(1, append, rewrite, rewrite, of="1"))
    assert json.loads(anew[LEAVES]) == {"snapshot": "3", "value": False}
    expired = table(3, rewrite, of="3")
    assert kept(expired, LEAVES) is False and kept_anew(expired) == {}
    # It says nothing of a table that has got rows since.
    assert kept_anew(table(1, append, append, of="1")) == {}


@pytest.mark.long
def test_old_metadata_goes(lake: Lake) -> None:
    """New tables have it from the profile, older ones get it from maintenance."""
    given = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
        "commit.manifest.min-count-to-merge": "8",
    }
    for table in TABLES:
        assert lake.properties(table).items() >= given.items(), table
    names = ", ".join(f"'{name}'" for name in given)
    lake.sql(f"alter table gold.orders unset tblproperties ({names})")
    assert not lake.properties("gold.orders").keys() & given.keys()
    maintain(lake, 0)
    assert lake.properties("gold.orders").items() >= given.items()


@pytest.mark.long
def test_what_tables_say_of_themselves_outlives_their_snapshots(lake: Lake) -> None:
    """What they were made of, in their commits; and what is kept of the snapshot that they had."""

    def said() -> dict[str, object]:
        tables = {table: lake.look_at(table) for table in TABLES if table != BRONZE}
        return {
            **{table: marks_of(each) for table, each in tables.items()},
            **{f"{table} as of": each.noted(AS_OF_NOTE) for table, each in tables.items()},
            **{f"{table} declared": each.noted(DECLARED) for table, each in tables.items()},
            "newest": tables["gold.orders"].noted(NEWEST),
            "log times": kept(tables[OTHERS], LOG_TIMES),
            "leaves": kept(tables["silver.orders_changes"], LEAVES),
        }

    run(lake)
    before = said()
    assert before["newest"] and before["log times"] and before["leaves"] is False
    assert all(before[table] for table in TABLES if table != BRONZE)
    for _ in range(2):
        maintain(lake, 0)
        assert said() == before
        assert len(lake.snapshots(OTHERS)) == 1


@pytest.mark.long
def test_a_backup_goes_on_as_the_lake_and_is_restored(lake: Lake, tmp_path: Path) -> None:
    """With deletion vectors, files that maintenance has rewritten, and what is landed and not yet
    built.
    """
    places = itertools.count(400)
    land(lake, [change(next(places), "u", 3, "saved"), change(next(places), "d", 4)])
    run(lake)
    land(lake, [change(next(places), "u", 5, "unread")])
    before = {table: rows_with_lineage(lake, table) for table in TABLES}
    assert lake.files("gold.orders", of_deletes=True) > 0
    without_spark, said = statuses(lake), {table: lake.look_at(table) for table in TABLES}
    there = set((lake.folder / "lake" / "warehouse").rglob("*"))
    copy = Lake(tmp_path / "copy")
    backup(lake.load(), copy.folder / "lake")
    assert statuses(copy) == without_spark
    with copy.dbt_folders():
        assert {table: rows_with_lineage(copy, table) for table in TABLES} == before
        assert {table: copy.look_at(table) for table in TABLES} == said
        # It goes on from what its tables have read, and leaves the original alone.
        land(copy, [change(next(places), "u", 6, "in the copy")])
        run(copy)
        expected = {**without_spark, 5: "unread", 6: "in the copy"}
        assert statuses(copy) == expected
        for table in TABLES:
            chain = copy.look_at(table).chain
            assert chain[-1] == said[table].chain[-1] and len(chain) >= len(said[table].chain)
        consistent(copy)
        maintain(copy, 0)
    assert set((lake.folder / "lake" / "warehouse").rglob("*")) == there
    # Back to where it was, as after the loss of a disk.
    shutil.rmtree(lake.folder / "lake")
    backup(copy.load(), lake.folder / "lake")
    shutil.rmtree(copy.folder)
    assert statuses(lake) == expected
    run(lake)
    consistent(lake)
