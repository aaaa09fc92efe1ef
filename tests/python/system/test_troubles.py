"""What goes wrong with machines and files is told in one sentence: what, where, what to do."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from support.commands import A_MESSAGE, program
from support.lakes import Lake

from dbt.adapters.lakehouse.connections import explained
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import DamageError, LakehouseError
from dbt_lakehouse.lake.broken_metadata import look_for_damage
from dbt_lakehouse.lake.iceberg import load_table
from dbt_lakehouse.session.pool import LakeSession
from dbt_lakehouse.session.troubles import known_trouble, statement_error_text, trouble_text

DATA = "file:/srv/lake/warehouse/gold/orders/data/00000-1.parquet"
METADATA = "file:/srv/lake/warehouse/gold/orders/metadata/00003-a.metadata.json"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "Unknown failure: [SQLITE_BUSY] The database file is locked (database is locked)",
            "the lake's catalog is locked by another process",
        ),
        (
            "Unknown failure: [SQLITE_READONLY_DBMOVED] Attempt to write a readonly database",
            "the lake's catalog can't be written",
        ),
        (
            f"Job aborted: Failed to open input stream for file: {DATA}: File {DATA} does not"
            " exist",
            f"{DATA} is missing, a file of gold.orders: restore it from a backup, or rebuild the"
            " table: `dbt run --full-refresh -s orders`",
        ),
        (
            f"Failed to fetch file: {DATA.replace('gold', 'bronze')}: Reached the end of stream"
            " with 220 bytes left to read",
            "is cut short or damaged, a file of bronze.orders: restore it from a backup",
        ),
        (
            f"Failed to read file: {METADATA}: Unexpected end-of-input within Object entries",
            f"{METADATA} is cut short or damaged, a file of gold.orders: restore it from a backup",
        ),
        (
            f"Failed to create file: {DATA}: Mkdirs failed to create file:/srv/lake",
            "the lake's storage can't be written",
        ),
        (
            f"Job aborted: Failed to create file: {DATA} (Read-only file system)",
            "the lake's storage (spark.sql.catalog.lake.warehouse) is read-only: the system's log",
        ),
        (
            f"Job aborted: Failed to fetch file: {DATA.replace('gold', 'bronze')}: Checksum error",
            "is cut short or damaged, a file of bronze.orders: restore it from a backup",
        ),
        (
            f"Lost task: org.apache.hadoop.fs.ChecksumException: Checksum error: {METADATA} at 512"
            " exp: 1 got: 2",
            f"{METADATA} is cut short or damaged, a file of gold.orders: restore it from a backup",
        ),
        (
            f"Invalid CRC for deletion vector {METADATA}: 0xcf37ad14, expected 0x3c775f0a",
            f"{METADATA} is cut short or damaged, a file of gold.orders",
        ),
        (f"Failed to close: {DATA}: No space left on device", f"the disk of {DATA} is full"),
        ("Failed to spill: No space left on device", "the disk is full: make room where the lake"),
        ("Job 2 cancelled because SparkContext was shut down", "Spark's process has ended"),
        ("Unknown failure: [SQLITE_FULL] Insertion failed because database is full", "is full"),
        ("[SQLITE_IOERR_WRITE] Disk I/O error (disk I/O error)", "the disk of the lake's catalog"),
        (
            "Failed to connect: Connection to 10.0.0.7:5432 refused. Check that the hostname and"
            " port are correct and that the postmaster is accepting TCP/IP connections.",
            "the catalog's database can't be reached (Connection to 10.0.0.7:5432 refused)",
        ),
        (
            "FATAL: terminating connection due to administrator command",
            "the catalog's database has gone away",
        ),
        ("Failed to commit: This connection has been closed.", "what was committed is complete"),
        (
            "Job aborted due to stage failure: Python worker exited unexpectedly (crashed)",
            "a Python worker of Spark has died",
        ),
        (
            "Forbidden (Service: S3, Status Code: 403, Request ID: 1) (SDK Attempt Count: 1)",
            "these credentials may not read or write spark.sql.catalog.lake.warehouse",
        ),
        (
            "Unable to load region from any of the providers in the chain",
            "set AWS_REGION, or spark.sql.catalog.lake.client.region",
        ),
        (
            'No FileSystem for scheme "gs"',
            "files at gs:// need a file access of Iceberg's that is not there",
        ),
        ("Job aborted: java.lang.OutOfMemoryError: Java heap space", "raise spark.driver.memory"),
    ],
)
def test_a_trouble_that_is_known(message: str, sentence: str) -> None:
    told = trouble_text(message)
    assert told is not None and sentence in told
    # What can't be built anew from elsewhere must not be dropped.
    assert ("--full-refresh" in told) == ("missing" in told)


def test_another_error_is_told_as_it_is() -> None:
    assert trouble_text("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012") is None


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    lake = Lake(tmp_path_factory.mktemp("troubles"))
    for name in ("whole", "no_data", "half_data", "no_metadata", "half_metadata"):
        lake.sql(f"create table gold.{name} using iceberg as select id from range(2, 3)")
    yield lake


def the_file(lake: Lake, table: str, pattern: str) -> Path:
    (file,) = (lake.folder / "lake" / "warehouse" / "gold" / table).glob(pattern)
    return file


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    # Hadoop's own, which would be missed by nobody else.
    (file.parent / f".{file.name}.crc").unlink()


@pytest.mark.parametrize(
    ("table", "pattern", "damage", "sentence"),
    [
        ("no_data", "data/*.parquet", Path.unlink, "is missing, a file of gold.no_data"),
        ("half_data", "data/*.parquet", cut_in_half, "is cut short or damaged, a file of"),
        ("no_metadata", "metadata/*.json", Path.unlink, "is missing, a file of gold.no_metadata"),
    ],
)
def test_a_file_of_a_table(
    lake: Lake, table: str, pattern: str, damage: Callable[[Path], None], sentence: str
) -> None:
    file = the_file(lake, table, pattern)
    damage(file)
    with pytest.raises((Py4JJavaError, PySparkException)) as caught:
        lake.sql(f"select * from gold.{table}")
    told = known_trouble(caught.value)
    assert told is not None and sentence in told and file.name in told
    assert lake.sql("select * from gold.whole") == [{"id": 2}]


@pytest.mark.parametrize("ask", ["select * from lake.gold.`half_metadata`", "describe {}", None])
def test_metadata_that_is_cut_short_is_told_by_our_own_look(lake: Lake, ask: str | None) -> None:
    """Iceberg alone tries for a minute and a half, and then says something else."""
    file = the_file(lake, "half_metadata", "metadata/*.json")
    if file.read_bytes().endswith(b"}"):
        cut_in_half(file)
    spark = lake.load().open_session()
    with pytest.raises(DamageError, match=f"{file.name} is cut short, a file of gold.half_metad"):
        if ask is None:
            load_table(spark, "lake.gold.half_metadata")
        else:
            LakeSession(spark).sql(ask.format("gold.half_metadata"))
    assert LakeSession(spark).sql("select id as half_metadata from gold.whole").count() == 1


ASK: Final = "select id, concat('name ', id) as name, id * 1.5 as half"
FILES: Final = ("data/*.parquet", "data/*.puffin", "metadata/snap-*.avro", "metadata/[!s]*-m?.avro")


@pytest.fixture(scope="module")
def written(lake: Lake) -> list[tuple[Any, ...]]:
    """The rows of a table with deletion vectors, of whose files each is changed in tests."""
    lake.sql(f"create table gold.changed using iceberg as {ASK} from range(1, 2000)")
    lake.sql("delete from gold.changed where id % 7 = 0")
    return asked_of_spark(lake)


def asked_of_spark(lake: Lake) -> list[tuple[Any, ...]]:
    rows = LakeSession(lake.spark).sql("select id, name, half from gold.changed order by id")
    return [(row.id, row.name, float(row.half)) for row in rows.collect()]


def asked_without_spark(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.reader().query("select id, name, half from gold.changed order by id").fetchall()
    return [(number, name, float(half)) for number, name, half in rows]


def changed_files(lake: Lake) -> Iterator[tuple[Path, bool]]:
    """The files of the table's current snapshot, and whether the checksums beside it are there."""
    folder = lake.folder / "lake" / "warehouse" / "gold" / "changed"
    newest = {max(folder.glob("metadata/snap-*.avro"), key=lambda file: file.stat().st_mtime)}
    for pattern in FILES:
        files = {*folder.glob(pattern)}
        for file in sorted(files & newest or files):
            yield file, True
            yield file, False


def test_changed_bytes_are_told_with_the_files_name_or_change_no_rows(
    lake: Lake, written: list[tuple[Any, ...]]
) -> None:
    """By Spark and without, with the checksums that Hadoop writes beside each file, or by those
    within: those of pages, of deletion vectors, and what lists say of manifests.
    """
    assert asked_without_spark(lake) == written
    told = 0
    for file, has_sums in changed_files(lake):
        content, sums = file.read_bytes(), file.with_name(f".{file.name}.crc")
        kept = sums.read_bytes()
        # Its head, its middle, what is behind it. Blocks of Avro have no checksum: of those, the
        # mark behind the last one.
        places: tuple[int, ...] = (4, len(content) // 3, len(content) - 70)
        if file.suffix == ".avro" and not has_sums:
            places = (4, len(content) - 8)
        for place in places:
            damaged = bytearray(content)
            damaged[place] ^= 0xFF
            file.write_bytes(damaged)
            if not has_sums:
                sums.unlink()
            for ask in (asked_of_spark, asked_without_spark):
                try:
                    rows = ask(lake)
                except (LakehouseError, Py4JJavaError, PySparkException) as error:
                    text = str(error)
                    if not isinstance(error, LakehouseError):
                        text = statement_error_text(error, "select * from gold.changed")
                    assert file.name in text
                    assert "is cut short or damaged, a file of gold.changed" in text
                    told += 1
                else:
                    assert rows == written, (file.name, place, has_sums, ask.__name__)
                    # What no checksum beside it covers, and nobody reads.
                    assert not has_sums or ask is asked_of_spark, (file.name, place)
            file.write_bytes(content)
            sums.write_bytes(kept)
    assert told > 40
    assert asked_of_spark(lake) == written


def test_changed_metadata_is_told_at_once(lake: Lake, written: list[tuple[Any, ...]]) -> None:
    """Iceberg alone tries for a minute and a half to read it."""
    metadata = lake.reader().look_at("gold.changed").snapshot
    folder = lake.folder / "lake" / "warehouse" / "gold" / "changed" / "metadata"
    (file,) = (
        each
        for each in folder.glob("*.json")
        if f'"current-snapshot-id":{metadata}' in each.read_text()
    )
    content = file.read_text()
    # As if another column had this name: no other look would find it.
    file.write_text(content.replace('"half"', '"harf"'))
    told = f"{file.name} is cut short or damaged, a file of gold.changed"
    with pytest.raises(DamageError, match=told):
        asked_without_spark(lake)
    look_for_damage(lake.spark)
    with pytest.raises(DamageError, match=told):
        asked_of_spark(lake)
    file.write_text(content)
    assert asked_of_spark(lake) == asked_without_spark(lake) == written


def test_metadata_that_is_compressed_is_not_cut_short(lake: Lake) -> None:
    lake.sql(
        "create table gold.compressed using iceberg"
        " tblproperties ('write.metadata.compression-codec' = 'gzip') as select 1 as id"
    )
    assert load_table(lake.load().open_session(), "lake.gold.compressed").currentSnapshot()


def test_a_catalog_that_is_locked(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = lake.load()
    uri = project.parameters["spark.sql.catalog.lake.uri"]
    hasty = {"spark.sql.catalog.lake.uri": uri.replace("busy_timeout=30000", "busy_timeout=100")}
    spark = project._replace(parameters={**project.parameters, **hasty}).open_session()
    catalog = lake.folder / "lake" / "catalog.db"
    with closing(sqlite3.connect(catalog, isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises((Py4JJavaError, PySparkException)) as caught:
            spark.sql("create table gold.late using iceberg as select 1 as id")
    told = known_trouble(caught.value)
    assert told is not None and "is locked by another process" in told


class Gone:
    """A Java that has ended, and an exception in it."""

    _target_id = "o1"

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError(111)


@pytest.mark.parametrize(
    "error",
    [Py4JNetworkError("no answer"), ConnectionRefusedError(111), Py4JJavaError("Error", Gone())],
)
def test_spark_that_has_ended_under_dbt(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", Gone())
    with pytest.raises(DbtRuntimeError, match=r"ended before .* LAKEHOUSE_DRIVER_MEMORY"):
        with explained("select 1"):
            raise error


KILLED = """
import os, signal, sys, time
from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.generate import scan
profile_topics = scan.profile_topics
def twice(spark, formats):
    profile_topics(spark, formats)
    os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
    time.sleep(2)
    return profile_topics(spark, formats)
scan.profile_topics = twice
main(["land", sys.argv[1]]) if len(sys.argv) == 2 else main(sys.argv[1:])
"""


# In CI, test_an_interrupted_command_is_told_in_one_line ends Java too.
@pytest.mark.long
def test_a_killed_spark_is_told_in_one_line(tmp_path: Path) -> None:
    environment = {"LAKEHOUSE_LAKE": str(tmp_path / "lake")}
    name = "debezium.sales.orders"
    calls = [[str(ROOT / "seeds" / f"{name}.jsonl")], ["generate", "--topic", name]]
    for arguments, code in zip(calls, (0, 1), strict=True):
        with program(["-c", KILLED, *arguments], tmp_path, environment) as command:
            command.end(code=code)
            said = command.said_by_all()
    # Python workers had told Spark of their time, and Spark this process, of each.
    assert said.startswith("lakehouse: Spark's process has ended") and said.count("\n") == 1, said


AT_WORK = """
import os, signal, threading, time
from pyspark import SparkContext
# Whatever pytest's own parent does with the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt():
    while SparkContext._active_spark_context is None:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(0, signal.SIGINT)
"""


@pytest.mark.parametrize("moment", ["Java is starting", "Java is at work"])
def test_an_interrupted_command_is_told_in_one_line(tmp_path: Path, moment: str) -> None:
    land = AT_WORK
    if moment == "Java is at work":
        land += "threading.Thread(target=interrupt, daemon=True).start()\n"
    capture = tmp_path / "capture.jsonl"
    capture.write_text(A_MESSAGE)
    land += f"from dbt_lakehouse.cli import main; main(['land', {str(capture)!r}])"
    environment = {"LAKEHOUSE_LAKE": str(tmp_path / "lake"), "JAVA_TOOL_OPTIONS": "-Dany=thing"}
    with program(["-c", land], tmp_path, environment) as command:
        if moment == "Java is starting":
            # What Java says of these options: that of Spark's launcher, and then Spark's.
            command.wait_for("Picked up", times=2)
            os.killpg(command.process.pid, signal.SIGINT)
        command.end(code=130)
        said = command.said_by_all()
    # Java and Spark say nothing else; click ends the line in which a terminal shows ^C.
    lines = [each for each in said.splitlines() if each and not each.startswith("Picked up")]
    assert [each.partition(";")[0] for each in lines] == ["lakehouse: interrupted"], said


def lakehouse(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dbt_lakehouse.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"JAVA_HOME": "/nowhere"}, "needs Java 17 or later, and JAVA_HOME is /nowhere"),
        # Jars come by it too.
        (
            {"JAVA_HOME": "/nowhere", "LAKEHOUSE_CACHE": "{folder}"},
            "needs Java 17 or later, and JAVA_HOME is /nowhere",
        ),
        ({"JAVA_HOME": "", "PATH": "/nowhere"}, "and no `java` is on the PATH: install it"),
        (
            {"LAKEHOUSE_CACHE": f"{ROOT}/README.md/cache"},
            f"the cache {ROOT}/README.md/cache/tmp can't be written: Not a directory",
        ),
    ],
    ids=["JAVA_HOME", "no jars", "PATH", "cache"],
)
def test_a_machine_that_is_not_ready(
    tmp_path: Path, environment: dict[str, str], sentence: str
) -> None:
    here = {name: value.format(folder=tmp_path) for name, value in environment.items()}
    (tmp_path / "capture.jsonl").write_text(A_MESSAGE)
    capture = str(tmp_path / "capture.jsonl")
    done = lakehouse("land", capture, LAKEHOUSE_LAKE=str(tmp_path), **here)
    assert done.returncode == 1
    assert done.stderr.startswith("lakehouse: ") and done.stderr.count("\n") == 1
    assert sentence in done.stderr
