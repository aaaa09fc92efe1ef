"""A lake or a Spark that can't be used says so in one line, with what to look at."""

import gc
import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from zipimport import zipimporter

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit, udf
from support.commands import A_MESSAGE
from support.lakes import Lake
from support.needles import holders

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import SessionError
from dbt_lakehouse.lake.catalog import CATALOG_TYPE, CATALOG_URI, WAREHOUSE
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.opening import _READERS, _for_readers, _with_ours, open_session
from dbt_lakehouse.spark import jars
from dbt_lakehouse.spark.arrow_memory import close_allocators
from dbt_lakehouse.spark.daemon import without_archives
from dbt_lakehouse.spark.jvm import java_class


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({CATALOG_URI: "jdbc:postgresql://127.0.0.1:1/lake"}, "Connection to 127.0.0.1:1 refused"),
        ({CATALOG_URI: "jdbc:sqlite:{folder}/text"}, "file is not a database"),
        ({CATALOG_URI: "jdbc:sqlite:{folder}/text/catalog.db"}, "can't be made: "),
        ({CATALOG_URI: "jdbc:oracle:thin:@db"}, "No suitable driver found"),
        (
            {CATALOG_URI: "jdbc:nobody://me:secret@db:1/lake?password=secret&user=me"},
            "No suitable driver found for jdbc:nobody://me:***@db:1/lake?password=***&user=me",
        ),
        ({CATALOG_TYPE: "hive2"}, "Unknown catalog type: hive2"),
        ({WAREHOUSE: "{folder}/text/warehouse"}, "Failed to create file"),
    ],
)
def test_a_lake_that_can_not_be_used(tmp_path: Path, settings: dict[str, str], reason: str) -> None:
    (tmp_path / "text").write_text("no folder and no database" * 1000)
    lake = Lake(tmp_path)
    parameters = {
        **lake.load().parameters,
        **{name: value.format(folder=tmp_path) for name, value in settings.items()},
    }
    with pytest.raises(SessionError) as caught:
        open_session(parameters, tmp_path)
    assert reason in str(caught.value)
    assert "spark.sql.catalog.lake." in str(caught.value)
    assert "secret" not in str(caught.value)
    # It leaves no session behind that would stand in the way of one that works.
    assert lake.sql("select * from bronze.raw_payloads") == []


def test_a_log_of_changes_that_a_reader_needs_stays(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.db"
    immutable = f"jdbc:sqlite:file:{catalog}?immutable=1"
    with closing(sqlite3.connect(catalog)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table iceberg_tables (a)")
        assert _for_readers(catalog) == f"jdbc:sqlite:{catalog}?open_mode=1&busy_timeout=30000"
    # SQLite removes it when the last who has the catalog open closes it.
    assert (tmp_path / "catalog.db-wal").exists()
    _READERS.pop(catalog).close()
    with closing(sqlite3.connect(catalog)) as writer:
        writer.execute("insert into iceberg_tables values (1)")
        writer.commit()
    assert _for_readers(catalog) == immutable


def test_no_process_is_started_for_a_file(tmp_path: Path) -> None:
    spark = Lake(tmp_path).spark
    recording = java_class("jdk.jfr.Recording")()
    recording.enable("jdk.ProcessStart")
    recording.start()
    spark.sql("create table lake.gold.numbers using iceberg as select 1 as number")
    recorded = java_class("java.io.File")(str(tmp_path / "recorded.jfr")).toPath()
    recording.dump(recorded)
    recording.close()
    started = java_class("jdk.jfr.consumer.RecordingFile").readAllEvents(recorded)
    commands = [each.getString("command") for each in started]
    assert [command for command in commands if str(tmp_path) in command] == []
    mask = os.umask(0o22)
    os.umask(mask)
    made = [each for each in (tmp_path / "lake" / "warehouse").rglob("*.*") if each.is_file()]
    assert {each.stat().st_mode & 0o7777 for each in made} == {0o666 & ~mask}


def test_of_a_table_that_changes_all_day_only_the_newest_state_is_held(tmp_path: Path) -> None:
    spark, name = Lake(tmp_path).spark, "gold.numbers"
    spark.sql(f"create table lake.{name} using iceberg as select 1 as number")
    assert (table := look_at(spark, name)) is not None
    for number in range(3):
        spark.sql(f"insert into lake.{name} select {number}")
        assert (table := look_at(spark, name)) is not None
        assert len(table.chain) == number + 2
    gc.collect()
    held = [each for each in gc.get_objects() if isinstance(each, Table)]
    assert [each for each in held if each.uuid == table.uuid] == [table]


def test_readers_that_have_ended_leave_nothing(tmp_path: Path) -> None:
    spark = Lake(tmp_path).spark
    spark.sql("create table lake.gold.numbers using iceberg as select 1 as number")
    root = java_class("org.apache.iceberg.arrow.ArrowAllocation").rootAllocator()
    for _ in range(2):
        assert spark.table("lake.gold.numbers").toArrow().to_pylist() == [{"number": 1}]
        assert len(root.getChildAllocators()) > 0
        # Spark may still list the job that has just ended, and then nothing is closed.
        for _ in range(100):
            close_allocators(spark)
            if len(root.getChildAllocators()) == 0:
                break
            time.sleep(0.1)
        assert len(root.getChildAllocators()) == 0


def test_a_long_answer_comes_at_once(tmp_path: Path) -> None:
    assert Lake(tmp_path).spark
    repeated = java_class("org.apache.commons.lang3.StringUtils").repeat

    def seconds(length: int) -> float:
        started = time.perf_counter()
        assert len(repeated("x", length)) == length
        return time.perf_counter() - started

    def least_of_ten(length: int) -> float:
        return min(seconds(length) for _ in range(10))

    # Linux acknowledges the first piece of two after 40 ms.
    assert least_of_ten(20_000) < 0.03
    # Each of dbt's threads has a connection of its own.
    with ThreadPoolExecutor() as threads:
        assert threads.submit(least_of_ten, 20_000).result() < 0.03


def test_all_permissions_can_be_given_to_a_file(tmp_path: Path) -> None:
    assert Lake(tmp_path).spark
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    hadoop = "org.apache.hadoop"
    link = java_class(f"{hadoop}.fs.Path")(str(tmp_path / "link"))
    local = link.getFileSystem(java_class(f"{hadoop}.conf.Configuration")())
    # Two with the sticky bit, which is not left out.
    for mode in (*range(0o1000), 0o1777, 0o1000):
        local.setPermission(link, java_class(f"{hadoop}.fs.permission.FsPermission")(mode))
        assert (tmp_path / "target").stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize(
    ("memory", "reason"),
    [("4x", ") ended before it was ready"), ("64m", "INVALID_DRIVER_MEMORY")],
)
def test_memory_that_the_driver_can_not_have(tmp_path: Path, memory: str, reason: str) -> None:
    capture = tmp_path / "capture.jsonl"
    capture.write_text(A_MESSAGE)
    done = subprocess.run(
        [sys.executable, "-m", "dbt_lakehouse.cli", "land", str(capture)],
        cwd=ROOT,
        env={**os.environ, "LAKEHOUSE_LAKE": str(tmp_path), "LAKEHOUSE_DRIVER_MEMORY": memory},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    said = done.stderr.rpartition("lakehouse: ")[2]
    assert reason in said and "spark.driver." in said
    assert said.count("\n") == 1 and "Traceback" not in done.stderr


def test_what_the_user_gives_to_the_jvm_takes_nothing_from_it() -> None:
    # Without our options it would log values of the data.
    given = {"extraJavaOptions": "-Dmine=1", "extraClassPath": "/my.jar"}
    ours = _with_ours({})
    both = _with_ours({f"spark.driver.{name}": value for name, value in given.items()})
    for name, value in given.items():
        own = ours[f"spark.driver.{name}"]
        assert both[f"spark.driver.{name}"].startswith(own) and own
        assert both[f"spark.driver.{name}"].removeprefix(own).strip(" :") == value
    assert "log4j2.configurationFile" in both["spark.driver.extraJavaOptions"]


def test_workers_begin_with_what_they_call(tmp_path: Path) -> None:
    # And where they have none of this machine's files, with what Spark sends them.
    spark = open_session(Lake(tmp_path).load().parameters, tmp_path)
    name = "dbt_lakehouse.spark.payload_functions"
    is_imported = udf(lambda name: name in sys.modules, "boolean")
    assert spark.range(1).select(is_imported(lit(name))).first() == (True,)
    assert "spark.python.daemon.module" not in _with_ours({"spark.master": "yarn"})


def test_what_is_shipped_with_a_function_is_in_no_file(tmp_path: Path) -> None:
    # The key of masks is, and with many schemas that is more than PySpark ships by itself.
    spark = open_session(Lake(tmp_path).load().parameters, tmp_path)
    needle, schemas = b"needle-of-the-mask-key", os.urandom(2**21)
    is_there = udf(lambda _: bool(needle and schemas), "boolean")
    shipped = spark.range(1).select(is_there("id"))
    assert shipped.first() == (True,)
    assert holders(Path(str(spark.sparkContext._temp_dir)), [needle]) == set()


def test_workers_look_into_no_archive(tmp_path: Path) -> None:
    # Python 3.11 reads all of an archive's directory again before each task.
    spark = open_session(Lake(tmp_path).load().parameters, tmp_path)
    archives = udf(
        lambda _: [
            place
            for place, finder in sys.path_importer_cache.items()
            if isinstance(finder, zipimporter)
        ],
        "array<string>",
    )
    for _ in range(2):
        assert spark.range(1).select(archives("id")).first() == ([],)
    elsewhere = ["/opt/spark/python/lib/pyspark.zip", *sys.path]
    assert without_archives(elsewhere) == elsewhere
    installed = str(Path(pyspark.__file__).parent / "python/lib/pyspark.zip")
    assert without_archives([installed, *sys.path]) == sys.path


def test_no_document_makes_java_fetch_anything(tmp_path: Path) -> None:
    # Payloads can be XML, and a model can ask for a part of one by `xpath`.
    spark = open_session(Lake(tmp_path).load().parameters, tmp_path)
    for place, scheme in (("http://127.0.0.1:1/x.dtd", "http"), ("/etc/hostname", "file")):
        document = f'<!DOCTYPE a SYSTEM "{place}"><a>1</a>'
        with pytest.raises(Py4JJavaError, match=f"'{scheme}' access is not allowed"):
            spark.sql(f"select xpath_string('{document}', 'a')").collect()
    clustered = _with_ours({"spark.master": "yarn"})
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        assert "-Djavax.xml.accessExternalDTD= " in clustered[name]


def test_the_users_options_hold_while_jars_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Behind a proxy there is no other way to the jars.
    given = "-Dhttps.proxyHost=proxy -Dquoted='a b'"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", given)
    home = tmp_path / 'a "home"'
    with jars._gateway_at_home_in(str(home)) as gateway:
        of = gateway.jvm.System.getProperty
        assert [of("https.proxyHost"), of("quoted"), of("user.home")] == ["proxy", "a b", str(home)]
    assert os.environ["SPARK_SUBMIT_OPTS"] == given


def test_a_jvm_that_lacks_a_jar_gives_way_to_another_that_has_no_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lake in a bucket, opened after one that isn't.
    (tmp_path / "more.jar").touch()
    parameters = Lake(tmp_path).load().parameters
    assert open_session(parameters, tmp_path).range(1).count() == 1
    more = {**parameters, "spark.driver.extraClassPath": f"{tmp_path}/more.jar"}
    SparkSession.active().stop()
    secrets = {"DBT_ENV_SECRET_LOGIN": "a", "MY_PASSWORD": "tr0ub4dor&3", "AWS_SECRET": "corr3ct"}
    for name, value in {**secrets, "LAKE_OF": "me"}.items():
        monkeypatch.setenv(name, value)
    more["kafka.ssl.key.password"] = secrets["MY_PASSWORD"]
    more["spark.sql.catalog.lake.s3.secret-access-key"] = secrets["AWS_SECRET"]
    spark: Any = open_session(more, tmp_path)
    # Of AWS's client they are the settings.
    theirs = spark.sparkContext._jvm.System.getenv()
    assert [name for name in (*secrets, "LAKE_OF") if name in theirs] == ["AWS_SECRET", "LAKE_OF"]
    assert os.environ["MY_PASSWORD"] == secrets["MY_PASSWORD"]
    # Spark itself prints no secrets of its settings.
    told = {row.key: row.value for row in spark.sql("set").collect()}
    assert secrets["AWS_SECRET"] not in told.values()
    assert told["spark.sql.catalog.lake.s3.secret-access-key"] == "*********(redacted)"
    assert "more.jar" in spark.sparkContext._jvm.System.getProperty("java.class.path")
    assert spark.range(1).count() == 1
