"""Two checkouts at one lake, whose catalog is PostgreSQL, or REST: locks and appends of one count
for the other.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from support.commands import DBT, SECONDS, Command, program, wait_until
from support.lakes import copy_project
from support.rest_catalog import rest_catalog

from dbt_lakehouse.config.paths import CACHE, ROOT
from dbt_lakehouse.errors import DamageError, LockedError, NoLakeError
from dbt_lakehouse.lake import leases
from dbt_lakehouse.lake.broken_metadata import look_for_damage, refuse_damage_in
from dbt_lakehouse.lake.catalog import CATALOG_TYPE, CATALOG_URI, contents, read_only
from dbt_lakehouse.lake.locks import lake_lock, landing_lock, run_lock
from dbt_lakehouse.session.project import ProjectOptions, load
from dbt_lakehouse.spark.jvm import java_class, java_session
from local_kafka.postgres import USER, postgres

# Holds a lease that runs out soon, and renews it, until it is killed.
HOLDER = """
import time
from dbt_lakehouse.session.project import ProjectOptions, load
from dbt_lakehouse.lake import leases
from dbt_lakehouse.lake.locks import run_lock
from dbt_lakehouse.spark.jvm import java_class
leases.LEASE_SECONDS, leases.RENEWAL_SECONDS = 4.0, 1.0
spark = load(ProjectOptions(project_dir=".", profiles_dir="profiles")).open_session()
assert run_lock(spark).take("a test")
print("held", flush=True)
time.sleep(600)
"""


@dataclass
class Checkout:
    """A checkout of its own, with its own cache and its own Python modules."""

    folder: Path

    def python(self, *arguments: str) -> AbstractContextManager[Command]:
        """A Python program in it."""
        return program([*arguments], self.folder, {}, checkout=self.folder)


@pytest.fixture(scope="module", params=["postgres", "rest"])
def checkouts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Checkout]]:
    """Two checkouts whose profiles name the same catalog and the same storage."""
    # A path may have blanks.
    folder = tmp_path_factory.mktemp("shared folder")
    warehouse = folder / "warehouse"
    with ExitStack() as server:
        # As docs/catalogs.md has it.
        if request.param == "rest":
            uri = server.enter_context(rest_catalog(folder, f"file://{warehouse}"))
            properties = {"type": "rest", "uri": uri, "warehouse": "lake"}
        else:
            uri = server.enter_context(postgres(folder))
            properties = {"type": "jdbc", "uri": uri, "warehouse": f"file://{warehouse}"}
            properties["jdbc.user"] = USER
        yield [Checkout(_checkout(folder / name, properties)) for name in ("one", "two")]


def _checkout(folder: Path, properties: dict[str, str]) -> Path:
    copy_project(folder)
    for package in ("dbt", "dbt_lakehouse", "python_udfs"):
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    # What makes it a checkout, whose cache is its own.
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "jars").symlink_to(CACHE / "jars")
    profile = folder / "profiles" / "profiles.yml"
    prefix = "        spark.sql.catalog.lake."
    lines = [
        line
        for line in profile.read_text().splitlines()
        if not line.startswith(tuple(f"{prefix}{name}:" for name in properties))
    ]
    (first,) = (place for place, line in enumerate(lines) if "&parameters" in line)
    lines[first + 1 : first + 1] = [
        f"{prefix}{name}: {value}" for name, value in properties.items()
    ]
    profile.write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def spark(checkouts: list[Checkout]) -> SparkSession:
    """A session of the first checkout's project."""
    folder = checkouts[0].folder
    options = ProjectOptions(project_dir=str(folder), profiles_dir=str(folder / "profiles"))
    return load(options).open_session()


# A REST catalog's metadata is read by its server.
@pytest.mark.parametrize("checkouts", ["postgres"], indirect=True)
def test_metadata_that_is_cut_short_is_told_by_our_own_look(
    spark: SparkSession, checkouts: list[Checkout], capfd: pytest.CaptureFixture[str]
) -> None:
    spark.sql("create table gold.cut_short using iceberg as select 1 as id")
    folder = checkouts[0].folder.parent / "warehouse" / "gold" / "cut_short" / "metadata"
    (file,) = folder.glob("*.json")
    whole = file.read_bytes()
    file.write_bytes(b"")
    look_for_damage(spark)
    assert f"{file} is cut short, a file of gold.cut_short: " in capfd.readouterr().err
    for statement in ("select * from {}", "insert into lake.{} select 2", "drop table {}"):
        with pytest.raises(DamageError):
            refuse_damage_in(spark, statement.format("gold.cut_short"))
    # From a backup.
    file.write_bytes(whole)
    refuse_damage_in(spark, "select * from gold.cut_short")


# A REST catalog's server has rights of its own.
@pytest.mark.parametrize("checkouts", ["postgres"], indirect=True)
def test_the_catalog_of_a_server_refuses_to_be_written(
    checkouts: list[Checkout], spark: SparkSession
) -> None:
    folder = checkouts[0].folder
    options = ProjectOptions(project_dir=str(folder), profiles_dir=str(folder / "profiles"))
    settings = load(options).parameters
    prefix = "spark.sql.catalog.lake.jdbc."
    for given, refuses in ((dict(settings), False), (read_only(settings), True)):
        properties = java_class("java.util.Properties")()
        for name, value in given.items():
            if name.startswith(prefix):
                properties.setProperty(name.removeprefix(prefix), value)
        connection = java_class("java.sql.DriverManager").getConnection(
            given[CATALOG_URI], properties
        )
        change = "update iceberg_tables set table_name = table_name where false"
        with pytest.raises(Py4JJavaError, match="read-only") if refuses else nullcontext():
            connection.createStatement().execute(change)
        connection.close()


def test_leases_are_exchanged_by_compare_and_swap(spark: SparkSession) -> None:
    lease = leases.Lease("id", "a test", "host", 1, "2026-11-21T00:00:00Z", 4e9)
    first, second = leases._State(spark), leases._State(spark)
    assert first.replace({"mine": lease})
    assert not second.replace({"yours": lease})
    assert leases.current(spark) == {"mine": lease}
    assert leases._State(spark).replace({"old": lease._replace(until=1.0)})
    # It has run out, so nobody holds it.
    assert leases.current(spark) == {}
    # What is no longer current leaves nothing behind but the last metadata.
    location = spark.sql(f"describe extended {leases.TABLE}").where("col_name = 'Location'")
    path = Path(location.collect()[0].data_type.removeprefix("file:"))
    assert len(list(path.rglob("snap-*.avro"))) <= 2
    # Another's commit removes the list of files that a commit was about to read. This process's
    # other sessions have read it.
    stranger = SparkSession(spark.sparkContext, java_session(spark).cloneSession())
    there = [*path.rglob("snap-*.avro")]
    for file in there:
        file.rename(file.with_suffix(".gone"))
    assert not leases._State(stranger).replace({})
    for file in there:
        file.with_suffix(".gone").rename(file)
    # Or while it is read, from which a reader may throw anything.
    late = leases._State(stranger)
    there = [*path.rglob("snap-*.avro")]
    assert leases._State(spark).replace({})
    for file in there:
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.write_bytes(b"not a list")
    assert not late.replace({})
    for file in there:
        file.unlink()
    for _ in range(8):
        assert leases._State(spark).replace({})
    assert len(list(path.rglob("*.avro"))) <= 2
    assert len(list(path.rglob("*.metadata.json"))) <= 8


def test_of_many_that_take_a_lease_at_once_one_gets_it(spark: SparkSession) -> None:
    taken: list[leases.HeldLease | None] = []
    # Each keeper is like a process of its own.
    keepers = [leases._Keeper() for _ in range(4)]
    for keeper in keepers:
        keeper._spark = spark

    threads = [
        threading.Thread(target=lambda each=keeper: taken.append(each.take("one", "a test")))
        for keeper in keepers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    (held,) = [each for each in taken if each is not None]
    assert len(taken) == 4
    held.give_back()
    assert leases.current(spark) == {}


def test_a_process_may_take_its_lease_again_and_give_it_back(spark: SparkSession) -> None:
    with run_lock(spark).held("outer", 0):
        with run_lock(spark).held("inner", 0), landing_lock(spark).held("landing", 0):
            assert set(leases.current(spark)) == {"run", "landing"}
        assert set(leases.current(spark)) == {"run"}
        assert not run_lock(spark).held_elsewhere()
    assert leases.current(spark) == {}
    with pytest.raises(ZeroDivisionError), run_lock(spark).held("me", 0):
        _ = 1 / 0
    assert leases.current(spark) == {}


def test_a_lease_that_ran_out_is_told_and_not_taken_from_another(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leases, "RENEWAL_SECONDS", 0.5)
    lock = lake_lock(spark, "lost")
    assert lock.take("me")
    # As after this process was asleep for a minute, and another came and went.
    wait_until(lambda: leases._State(spark).replace({}), "nobody has it")
    wait_until(lambda: "me: this process or the catalog" in capfd.readouterr().err, "it is told")
    assert set(leases.current(spark)) == {"lost"}
    other = leases.Lease("other", "another", "elsewhere", 7, "2026-11-21T00:00:00Z", 4e9)
    # Another is still at work.
    wait_until(lambda: leases._State(spark).replace({"lost": other}), "the other has it")
    wait_until(lambda: "me: this process was held up" in capfd.readouterr().err, "it is told")
    lock.release()
    assert leases.current(spark) == {"lost": other}
    with pytest.raises(LockedError, match=r"`another` \(process 7 on elsewhere, since"):
        lock.wait("me", patience=0.2)
    assert leases._State(spark).replace({})


# What runs out is the same everywhere; it takes a while. In CI, test_locks has a holder that is
# killed, and test_leases_are_exchanged_by_compare_and_swap a lease that has run out.
@pytest.mark.long
@pytest.mark.parametrize("checkouts", ["postgres"], indirect=True)
def test_a_holder_in_another_checkout_keeps_its_lease_until_it_is_killed(
    spark: SparkSession, checkouts: list[Checkout]
) -> None:
    lock = run_lock(spark)
    with checkouts[1].python("-c", HOLDER) as holder:
        holder.wait_for("held")
        ended = leases.current(spark)["run"].until
        # Renewed, so that it outlives its first end.
        wait_until(lambda: time.time() > ended, "the first lease is over")
        assert not lock.take("me")
        assert lock.held_elsewhere()
        assert lock.holder().startswith(f"`a test` (process {holder.process.pid} on ")
        holder.leave_nothing()
    assert lock.take("me", patience=SECONDS)
    lock.release()


# In CI, test_locks (test_two_dbt_runs_at_once_build_each_position_once) has two such runs, and the
# tests above what keeps them apart in such a catalog.
@pytest.mark.long
@pytest.mark.parametrize("checkouts", ["postgres", "rest"], indirect=True)
def test_two_dbt_runs_of_two_checkouts_build_each_position_once(
    spark: SparkSession, checkouts: list[Checkout]
) -> None:
    one, two = checkouts
    models = ("other_events", "orders_changes")
    arguments = (*DBT, "run", "-s", *models, "--profiles-dir", "profiles")
    with ExitStack() as stack:
        with landing_lock(spark).held("a landing", patience=0):
            first = stack.enter_context(one.python(*arguments))
            # It has the run's lock now, and waits for the other.
            first.wait_for(f"waiting for `a landing` (process {os.getpid()} on ")
            second = stack.enter_context(two.python(*arguments))
            second.wait_for(f"waiting for `dbt run` (process {first.process.pid} on ")
        first.end()
        second.end()
    positions = "topic, partition, offset"
    events = f"select {positions}, event_index from lake.silver.other_events"
    logged = "select _position from lake.silver.orders_changes"
    for built in (events, logged):
        assert spark.sql(built).count() > 0
        assert spark.sql(f"{built} group by all having count(*) > 1").collect() == []
    landed = spark.sql(f"select {positions} from lake.bronze.raw_payloads")
    # Without Spark, the catalog is asked in SQL.
    count = "select count(*) as n from bronze.raw_payloads"
    command = ("-m", "dbt_lakehouse.cli", "sql", count, "--csv", "--profiles-dir", "profiles")
    with one.python(*command) as reading:
        assert reading.end() == f"n\n{landed.count()}\n"
    assert leases.current(spark) == {}


def test_a_catalog_is_found_in_the_schema_that_its_address_names(tmp_path: Path) -> None:
    """As Java's driver finds it: where it looks elsewhere, there is no lake."""
    with postgres(tmp_path) as address:
        with psycopg.connect(address.removeprefix("jdbc:"), user=USER) as database:
            database.execute("create schema ice")
            for statement in (
                "create table ice.iceberg_tables (catalog_name text, table_namespace text,"
                " table_name text, metadata_location text, iceberg_type text)",
                "create table ice.iceberg_namespace_properties (catalog_name text, namespace text,"
                " property_key text, property_value text)",
                "insert into ice.iceberg_tables"
                " values ('lake', 'gold', 'orders', 's3://lake/orders.json', 'TABLE')",
            ):
                database.execute(statement)
        for named in ("currentSchema=ice", "options=-c%20search_path%3Dice"):
            settings = {CATALOG_TYPE: "jdbc", CATALOG_URI: f"{address}?user={USER}&{named}"}
            assert [str(each) for each in contents(settings).entries] == ["gold.orders"]
        with pytest.raises(NoLakeError):
            contents({CATALOG_TYPE: "jdbc", CATALOG_URI: f"{address}?user={USER}"})
