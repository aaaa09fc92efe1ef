"""What a process knows of small tables, and of rows that it has just appended, is what Spark says
of them: as long as they are as it left them, and no longer.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from support.lakes import Lake, Rows

from dbt_lakehouse.lake import bronze, small_tables
from dbt_lakehouse.lake.small_tables import overwrite, rows_of
from dbt_lakehouse.landing.kafka.admin import PartitionLog
from dbt_lakehouse.landing.kafka.appended import counted_by_spark, counted_in_commit
from dbt_lakehouse.landing.kafka.positions import (
    TABLE,
    Position,
    Positions,
    create_tables,
    save_positions,
)
from tools.benchmarks.statements import Asked, asked_by

NOW = datetime(2026, 11, 27, 14, 30, 0, 123_456, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    bronze.create_table(lake.spark)
    yield lake


@pytest.fixture
def saved(lake: Lake) -> Lake:
    """A lake whose positions this process has saved."""
    lake.sql(f"drop table if exists {TABLE}")
    create_tables(lake.spark)
    logs = [PartitionLog("a", "a", number, "id", 0, 9) for number in range(2)]
    positions = {
        ("a", 0): Position(5, 4, NOW - timedelta(seconds=2), "id", MappingProxyType({72: 3, 0: 1})),
        ("a", 1): Position(0, None, None, None),
        ("no longer there", 0): Position(2, 1, NOW, None),
    }
    save_positions(lake.spark, Positions(1, positions), logs, NOW)
    return lake


def said_by_spark(lake: Lake) -> Rows:
    return lake.sql(f"select * from {TABLE}")


def known(lake: Lake) -> tuple[Any, Asked]:
    """The rows, and what they have asked of Spark."""
    found: list[Any] = []
    asked = asked_by(lake.spark, lambda: found.extend(rows_of(lake.spark, TABLE)))
    return found, asked


def test_rows_that_this_process_has_written_are_not_read(saved: Lake) -> None:
    rows, asked = known(saved)
    assert asked == Asked(0, 0)
    assert rows == said_by_spark(saved) and len(rows) == 3
    # Read once, those of others are known too.
    small_tables._held.clear()
    rows, asked = known(saved)
    assert asked.executions == 1
    assert (rows, Asked(0, 0)) == known(saved)
    assert rows == said_by_spark(saved)


@pytest.mark.parametrize(
    "change",
    [
        f"insert into {TABLE} select * from {TABLE}",
        f"delete from {TABLE} where partition = 0",
        "call lake.system.rollback_to_snapshot('bronze.topic_partitions', {first})",
        "call lake.system.set_current_snapshot('bronze.topic_partitions', {first})",
    ],
)
def test_rows_that_others_have_changed_are_read(saved: Lake, change: str) -> None:
    first = saved.current_snapshot("bronze.topic_partitions")
    before = said_by_spark(saved)
    overwrite(saved.spark, TABLE, before[:1])
    saved.sql(change.format(first=first))
    rows, asked = known(saved)
    assert asked.executions >= 1
    assert rows == said_by_spark(saved) != before[:1]


def test_a_table_that_was_made_anew_is_read(saved: Lake) -> None:
    saved.sql(f"drop table {TABLE}")
    assert [*rows_of(saved.spark, TABLE)] == []
    create_tables(saved.spark)
    assert [*rows_of(saved.spark, TABLE)] == []
    # Properties and columns leave the rows as they are.
    overwrite(saved.spark, TABLE, [{"topic": "a", "partition": 0, "next_offset": 1}])
    saved.set_properties("bronze.topic_partitions", {"some": "property"})
    assert known(saved) == (said_by_spark(saved), Asked(0, 0))


def test_rows_that_could_not_be_written_are_not_known(saved: Lake) -> None:
    before = said_by_spark(saved)
    file = saved.folder / "no-folder"
    file.touch()
    saved.set_properties("bronze.topic_partitions", {"write.data.path": f"file://{file}/data"})
    with pytest.raises(Py4JJavaError):
        overwrite(saved.spark, TABLE, before[:1])
    assert known(saved) == (before, Asked(0, 0))


def test_a_file_whose_commit_fails_is_removed(saved: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> set[Path]:
        table = saved.folder / "lake" / "warehouse" / "bronze" / "topic_partitions"
        return {*(table / "data").glob("*.parquet")}

    before, held = said_by_spark(saved), files()

    def refused(table: Any, *_: Any) -> None:
        assert files() > held
        # There is no such snapshot.
        table.manageSnapshots().rollbackTo(1).commit()

    monkeypatch.setattr(small_tables, "_commit", refused)
    with pytest.raises(Py4JJavaError):
        overwrite(saved.spark, TABLE, before[:1])
    assert files() == held
    assert known(saved) == (before, Asked(0, 0))


def test_other_readers_find_rows_and_their_bounds(saved: Lake) -> None:
    assert saved.read("bronze.topic_partitions") == said_by_spark(saved)
    bounds = saved.sql(f"select readable_metrics from {TABLE}.files")
    (metrics,) = (row["readable_metrics"] for row in bounds)
    assert (metrics["partition"]["lower_bound"], metrics["partition"]["upper_bound"]) == (0, 1)
    assert metrics["landed_timestamp"]["null_value_count"] == 1
    where = "next_offset = 5 and landed_ages[72] = 3"
    assert len(saved.sql(f"select topic from {TABLE} where {where}")) == 1
    # By Spark's own writer the rows are the same.
    saved.sql(f"insert overwrite {TABLE} select * from {TABLE}")
    small_tables._held.clear()
    rows, _ = known(saved)
    assert rows == said_by_spark(saved) and len(rows) == 3


def test_rows_of_two_writers_at_once_are_those_of_the_later(
    saved: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = said_by_spark(saved)

    commit = small_tables._commit

    def commit_before_another(*of: Any) -> None:
        commit(*of)
        saved.sql(f"insert overwrite {TABLE} select * from {TABLE} where false")

    monkeypatch.setattr(small_tables, "_commit", commit_before_another)
    overwrite(saved.spark, TABLE, before)
    assert [*rows_of(saved.spark, TABLE)] == said_by_spark(saved) == []


def test_appended_rows_are_counted_as_spark_counts_them(lake: Lake) -> None:
    since = bronze.current_snapshot(lake.spark)
    rows = lake.spark.sql(
        """
        select
            *, 0 as timestamp_type, binary('k') as key, binary('v') as value,
            cast(null as array<struct<key: string, value: binary>>) as headers,
            current_timestamp() as landed_at
        from values
            ('a', 0, 7L, timestamp_millis(1795789799001)),
            ('a', 0, 9L, timestamp_micros(1795789800123457)),
            ('a', 0, 8L, timestamp_micros(1795789700123456)),
            ('a', 1, 3L, timestamp_micros(1)),
            ('a', 1, 2L, null),
            ('a', 2, 2L, timestamp_millis(-1)),
            ('a', 3, 4L, timestamp_micros(9223372036854775807)),
            ('a', 3, 3L, timestamp_micros(-9223372036854775807)),
            ('\u00e4', 0, 9000000000L, timestamp'9999-12-31 00:00:00'),
            ('\u00e4', 1, 0L, timestamp'9999-12-31 00:00:00.000001')
        as (topic, partition, offset, timestamp)
        """
    )
    commit = bronze.append(rows.repartition(3), since)
    added = bronze.added_between(since, commit.snapshot)
    assert added is not None
    floors = {("a", 0): 8, ("a", 1): 3, ("a", 2): 5}
    found = counted_in_commit(lake.spark, commit, floors, NOW)
    assert found == counted_by_spark(lake.spark, added, floors, NOW)
    assert found is not None and len(found) == 6
    # Of a large landing, or one whose files don't have its rows, Spark is asked.
    assert counted_in_commit(lake.spark, commit._replace(rows=20_001), floors, NOW) is None
    assert counted_in_commit(lake.spark, commit._replace(rows=9), floors, NOW) is None
