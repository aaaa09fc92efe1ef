"""Which metadata of tables a process keeps, that what it then knows is what there is, and where
Iceberg's own tasks run.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from support.lakes import Lake

from dbt_lakehouse.lake.iceberg import commits_since, load_table
from dbt_lakehouse.lake.tables import parse
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.opening import opened_sessions
from dbt_lakehouse.spark.java import own_object
from dbt_lakehouse.spark.jvm import java_class, java_session

TABLE = "gold.told"

NAPS = """
import java.util.concurrent.Callable;

public final class Naps implements Callable {
    private final long millis;

    public Naps() {
        this(0);
    }

    private Naps(long millis) {
        this.millis = millis;
    }

    public Naps of(long millis) {
        return new Naps(millis);
    }

    public Object call() throws Exception {
        Thread.sleep(millis);
        if (millis == 13) {
            throw new IllegalStateException("thirteen");
        }
        return Thread.currentThread().getName();
    }
}
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("known"))


@pytest.fixture
def spark(lake: Lake) -> Iterator[SparkSession]:
    session = lake.load().open_session()
    session.sql(f"create table {TABLE} (id int, name string) using iceberg")
    yield session
    session.sql(f"drop table if exists {TABLE} purge")


@pytest.fixture
def stranger(spark: SparkSession) -> SparkSession:
    """As another process: it knows nothing of this one."""
    return SparkSession(spark.sparkContext, java_session(spark).cloneSession())


def metadata(spark: SparkSession) -> Any:
    return load_table(spark, f"lake.{TABLE}").operations().current()


def number(java: Any) -> int:
    return int(java_class("java.lang.System").identityHashCode(java))


def catalog(spark: SparkSession) -> str:
    found = java_session(spark).sessionState().catalogManager().catalog("lake")
    return str(found.icebergCatalog().getClass().getSimpleName())


def test_metadata_are_read_once_for_all_sessions(spark: SparkSession) -> None:
    spark.sql(f"insert into {TABLE} values (1, 'one')")
    read = number(metadata(spark))
    pool = opened_sessions()
    other = pool.take()
    try:
        assert catalog(spark) == catalog(other.spark) == "Knowing"
        assert [number(metadata(each)) for each in (spark, other.spark)] == [read, read]
        other.spark.sql(f"insert into {TABLE} values (2, 'two')")
        assert number(metadata(spark)) != read
        assert spark.table(TABLE).count() == 2
    finally:
        pool.give_back(other)


def test_the_files_of_a_table_can_be_sent_to_workers(spark: SparkSession) -> None:
    """They have Iceberg's classes, and none of ours."""
    spark.sql(f"insert into {TABLE} values (1, 'one')")
    of = load_table(spark, f"lake.{TABLE}").operations()
    of.commit(of.current(), of.current().replaceProperties({"a": "b"}))
    for each in (of, of.temp(of.current())):
        assert each.io().getClass().getName() == "org.apache.iceberg.hadoop.HadoopFileIO"


def test_commits_of_others_are_seen_at_once(spark: SparkSession, stranger: SparkSession) -> None:
    assert catalog(stranger) == "JdbcCatalog"
    for each in range(1, 4):
        stranger.sql(f"insert into {TABLE} values ({each}, 'theirs')")
        assert spark.table(TABLE).count() == 2 * each - 1
        spark.sql(f"insert into {TABLE} values (-{each}, 'ours')")
        assert stranger.table(TABLE).count() == 2 * each
    # Both have committed since: the one who is behind goes on from what the other has.
    stranger.sql(f"delete from {TABLE} where id < 0")
    spark.sql(f"update {TABLE} set name = 'both' where id = 3")
    assert {tuple(row) for row in stranger.table(TABLE).collect()} == {
        (1, "theirs"),
        (2, "theirs"),
        (3, "both"),
    }


def test_a_table_may_be_dropped_and_made_again(spark: SparkSession, stranger: SparkSession) -> None:
    spark.sql(f"insert into {TABLE} values (1, 'one')")
    assert spark.table(TABLE).count() == 1
    stranger.sql(f"drop table {TABLE} purge")
    assert look_at(spark, TABLE) is None
    spark.sql(f"create table {TABLE} (id int) using iceberg")
    assert look_at(stranger, TABLE) is not None and spark.table(TABLE).count() == 0
    stranger.sql(f"drop table {TABLE} purge")
    stranger.sql(f"create table {TABLE} using iceberg as select 7 as seven")
    assert spark.table(TABLE).columns == ["seven"]
    spark.sql(f"alter table {TABLE} rename to gold.renamed")
    assert look_at(spark, TABLE) is None and look_at(stranger, TABLE) is None
    spark.sql(f"alter table gold.renamed rename to {TABLE}")
    assert stranger.table(TABLE).count() == spark.table(TABLE).count() == 1


def test_what_has_come_since_gives_the_whole(
    spark: SparkSession, stranger: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step the table is what its whole metadata say, and for most steps only what is new
    was asked for.
    """
    asked: list[bool] = []

    def since(*given: Any) -> str | None:
        found = commits_since(*given)
        asked.append(found is not None)
        return found

    monkeypatch.setattr("dbt_lakehouse.runs.tables.commits_since", since)
    to_json = java_class("org.apache.iceberg.TableMetadataParser").toJson

    def step(statement: str, of: SparkSession = spark) -> list[bool]:
        asked.clear()
        of.sql(statement)
        assert look_at(spark, TABLE) == parse(to_json(metadata(stranger))), statement
        return [*asked]

    def first_snapshot() -> str:
        table = look_at(spark, TABLE)
        assert table is not None
        return table.chain[-1].name

    look_at(spark, TABLE)
    # An empty table has no commit to go on from.
    assert step(f"insert into {TABLE} values (1, 'one')") == []
    assert step(f"insert into {TABLE} values (2, 'two')") == [True]
    assert step(f"update {TABLE} set name = 'three' where id = 2", stranger) == [True]
    assert step(f"alter table {TABLE} set tblproperties ('told \"so\"' = 'a\\\\b')") == [True]
    assert step(f"alter table {TABLE} add column more double comment 'ä \"more\"'") == [True]
    stranger.sql(f"insert into {TABLE} values (3, 'x', 1.5)")
    assert step(f"delete from {TABLE} where id = 1") == [True]
    back = f"call lake.system.rollback_to_snapshot('{TABLE}', {first_snapshot()})"
    assert step(back) == [False]
    assert step(f"insert into {TABLE} values (4, 'four', 2)") == [True]
    expire = f"call lake.system.expire_snapshots(table => '{TABLE}', retain_last => 1"
    assert step(f"{expire}, older_than => now())") == [False]
    assert step(f"insert overwrite {TABLE} values (5, 'five', 2)") == [True]
    branch = f"alter table {TABLE} create branch audit"
    assert step(branch) == [True]
    assert step(f"insert into {TABLE}.branch_audit values (6, 'six', 2)") == [False]
    assert step(f"insert into {TABLE} values (7, 'seven', 2)") == [True]
    spark.sql(f"drop table {TABLE} purge")
    assert step(f"create table {TABLE} using iceberg as select 1 as id") == []


def test_a_lake_in_another_catalog_has_its_own(tmp_path: Path) -> None:
    """Tables of the same names, one after the other in a process."""
    for name, rows in (("one", 1), ("other", 2)):
        session = Lake(tmp_path / name).load().open_session()
        session.sql(f"create table {TABLE} using iceberg as select id from range({rows})")
        assert session.table(TABLE).count() == rows


@pytest.fixture(scope="module")
def naps(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Any:
    lake.load().open_session()
    source = tmp_path_factory.mktemp("java") / "Naps.java"
    source.write_text(NAPS)
    return own_object(source)


@pytest.mark.usefixtures("spark")
def test_threads_that_ask_at_once_get_the_same_class(tmp_path: Path) -> None:
    """The threads of a run: py4j confuses two classes of the same name."""
    for number in range(5):
        source = tmp_path / f"Naps{number}.java"
        source.write_text(NAPS.replace("Naps", source.stem))
        with ThreadPoolExecutor(8) as pool:
            made = [*pool.map(lambda _, of=source: own_object(of), range(8))]
            assert {*pool.map(lambda each: each.of(0).call() is not None, made)} == {True}
        assert len({id(each) for each in made}) == 1


@pytest.mark.parametrize("pool", ["getWorkerPool", "getDeleteWorkerPool"])
@pytest.mark.usefixtures("spark")
def test_short_tasks_of_iceberg_run_where_they_are_submitted(pool: str, naps: Any) -> None:
    threads = getattr(java_class("org.apache.iceberg.util.ThreadPools"), pool)()
    here = java_class("java.lang.Thread").currentThread().getName()

    def thread_of(millis: int) -> str:
        return str(threads.submit(naps.of(millis)).get())

    def others_until_here() -> int:
        """So many ran in the pool. On a busy machine any task may be a long one."""
        return next(number for number in range(20_000) if thread_of(0) == here)

    others_until_here()
    assert thread_of(50) == here
    assert "iceberg" in thread_of(0)
    assert others_until_here() > 50
    # A failure is its submitter's, as in a pool.
    with pytest.raises(Py4JJavaError, match="thirteen"):
        thread_of(13)


def test_tables_are_the_same_whichever_thread_reads_them(spark: SparkSession, naps: Any) -> None:
    """Iceberg's iterators over manifests submit tasks while they are read."""
    threads = java_class("org.apache.iceberg.util.ThreadPools").getWorkerPool()
    expected: list[int] = []
    for each in range(24):
        # Of a second, long ones are those of a whole statement.
        threads.submit(naps.of(1000 if each % 8 == 0 else 0)).get()
        spark.sql(f"insert into {TABLE} values ({each}, 'n')")
        expected.append(each)
        if each % 3 == 2:
            spark.sql(f"delete from {TABLE} where id = {expected.pop(0)}")
        rows = spark.sql(f"select id from {TABLE} order by id").collect()
        assert [row.id for row in rows] == expected


def test_merged_manifests_keep_the_lineage_of_rows(spark: SparkSession) -> None:
    """A commit merges eight manifests; logs are read by when a row was written."""
    wrote: dict[int, tuple[int, int]] = {}
    for each in range(20):
        spark.sql(f"insert into {TABLE} values ({each}, 'n')")
        rows = spark.sql(f"select id, _row_id, _last_updated_sequence_number from {TABLE}")
        found = {row[0]: (row[1], row[2]) for row in rows.collect()}
        assert found == wrote | {each: found[each]}
        assert found[each][1] == each + 1
        wrote = found
    assert len({row for row, _sequence in wrote.values()}) == 20
    table = load_table(spark, f"lake.{TABLE}")
    assert len(table.currentSnapshot().allManifests(table.io())) <= 8
    since = spark.sql(f"select id from {TABLE} where _last_updated_sequence_number > 17").collect()
    assert {row.id for row in since} == {17, 18, 19}
