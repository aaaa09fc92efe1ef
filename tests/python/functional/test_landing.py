"""Landing captures in bronze, and the SQL functions on what has landed."""

import base64
import json
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors.exceptions.captured import CapturedException
from support.lakes import Lake

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError, LandingError, WriteError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import ConcurrentAppendError, append, load_table
from dbt_lakehouse.landing.files import LandingResult, configured_captures, land_captures
from dbt_lakehouse.landing.leftovers import leaving_no_files
from dbt_lakehouse.spark.functions import register_log
from python_udfs.typed.declared import Log, LogColumn


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    # A path may have blanks.
    yield Lake(tmp_path_factory.mktemp("landing lake"))


def line(number: int, value: bytes | None, **fields: Any) -> dict[str, Any]:
    """A capture line of one topic and partition."""
    encoded = None if value is None else base64.b64encode(value).decode()
    return {
        "topic": "t",
        "partition": 0,
        "offset": number,
        "timestamp_ms": 1_790_000_000_000 + number,
        "key_b64": None,
        "value_b64": encoded,
        **fields,
    }


def test_each_position_lands_once_in_one_commit(lake: Lake) -> None:
    headers = [["h", None], ["h", "AQ=="]]
    first = [line(0, b"a", headers=headers), line(1, None), line(2, b""), line(2, b"")]
    assert lake.land(first) == LandingResult(landed=3, skipped=1)
    assert lake.land([*first, line(3, b"d")]) == LandingResult(landed=1, skipped=4)
    assert lake.land(first) == LandingResult(landed=0, skipped=4)
    assert len(lake.snapshots("bronze.raw_payloads")) == 2

    rows = sorted(lake.read("bronze.raw_payloads"), key=lambda row: row["offset"])
    assert [row["value"] for row in rows] == [b"a", None, b"", b"d"]
    assert rows[0]["headers"] == [{"key": "h", "value": None}, {"key": "h", "value": b"\x01"}]


@pytest.mark.parametrize(
    "changed",
    [line(0, b"b"), line(0, None), line(1, b""), line(0, b"a", key_b64="AQ==")],
    ids=["value", "no value", "empty value", "key"],
)
def test_other_bytes_at_a_position_stop_the_landing(lake: Lake, changed: dict[str, Any]) -> None:
    offset = changed["offset"]
    before = lake.current_snapshot("bronze.raw_payloads")
    with pytest.raises(LandingError, match=f"topic t, partition 0, offset {offset} .* other bytes"):
        lake.land([changed, line(9, b"new")])
    assert lake.current_snapshot("bronze.raw_payloads") == before


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("timestamp_ms", "timestamp", "contains unknown field `timestamp`"),
        ("value_b64", "valu_b64", "contains unknown field `valu_b64`"),
        ("value_b64", None, "missing required field `value_b64`"),
    ],
)
def test_a_line_that_is_no_message_stops_the_landing(
    lake: Lake, old: str, new: str | None, reason: str
) -> None:
    bad = line(31, b"a")
    moved = bad.pop(old)
    if new is not None:
        bad[new] = moved
    before = lake.current_snapshot("bronze.raw_payloads")
    with pytest.raises(LandingError, match=f"line 2: Object {reason}"):
        lake.land([line(30, b"a"), bad])
    assert lake.current_snapshot("bronze.raw_payloads") == before


def test_captures_that_are_not_there() -> None:
    captures = ["seeds/*.jsonl", "seeds/none-*.jsonl"]
    with pytest.raises(ConfigurationError, match=r"names seeds/none-[*].jsonl, but"):
        configured_captures({"captures": captures}, ROOT)


def test_two_messages_of_one_position_stop_the_landing(lake: Lake) -> None:
    with pytest.raises(LandingError, match="offset 20 comes twice in the captures, with other"):
        lake.land([line(20, b"x"), line(20, b"y")])


@pytest.mark.parametrize(
    "lacking", [{"topic": None}, {"topic": ""}, {"partition": None}, {"offset": None}]
)
def test_a_message_needs_its_position(lake: Lake, lacking: dict[str, Any]) -> None:
    with pytest.raises(LandingError, match="line 1: landing needs topic, partition and offset"):
        lake.land([line(30, b"x", **lacking)])


def test_captures_without_a_message_need_no_lake(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    landed = land_captures(lambda: pytest.fail("opened"), [str(tmp_path / "empty.jsonl")], 1)
    assert landed == LandingResult(landed=0, skipped=0)
    assert "the captures hold no messages" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("query", "function"),
    [
        (
            """
            select topic, event.* from lake.bronze.raw_payloads
            lateral view inline(decode_payload('debezium_json', key, value)) event
            """,
            "decode_payload",
        ),
        (
            """
            select rows.a, rows.b, upper(rows.b) as c, size(rows._misfits) as d from (
                select typed_rows('insert', null, string(value), null, null) as rows
                from lake.bronze.raw_payloads
            )
            """,
            "typed_rows",
        ),
    ],
)
def test_a_python_function_runs_once_for_each_row(lake: Lake, query: str, function: str) -> None:
    # One evaluation for each output column would multiply the most expensive step of the pipeline.
    columns = (LogColumn("a", "int", "a"), LogColumn("b", "string", "b"))
    register_log(lake.spark, "typed_rows", Log(columns, ("a",)))
    plan = lake.sql(f"explain {query}")[0]["plan"]
    evaluations = [text for text in plan.splitlines() if "ArrowEvalPython" in text]
    assert len(evaluations) == 1
    assert evaluations[0].count(f"{function}(") == 1


def test_an_append_is_refused_if_others_have_added_rows_since(lake: Lake) -> None:
    spark, name = lake.spark, "lake.silver.inserted"
    lake.sql(f"create table {name} (id int, text string) using iceberg")

    def snapshot() -> int | None:
        current = load_table(spark, name).currentSnapshot()
        return None if current is None else int(current.snapshotId())

    def insert(number: int, chosen_by: int | None) -> None:
        append(spark.sql(f"select {number} as id, 'a' as text"), name, chosen_by, {})

    insert(1, None)
    with pytest.raises(ConcurrentAppendError):
        insert(2, None)
    first = snapshot()
    lake.sql(f"insert into {name} values (2, 'b')")
    with pytest.raises(ConcurrentAppendError):
        insert(3, first)
    # What adds no rows is no conflict.
    second = snapshot()
    options = "map('rewrite-all', 'true')"
    lake.sql(f"call lake.system.rewrite_data_files(table => '{name}', options => {options})")
    lake.sql(f"delete from {name} where id = 1")
    insert(3, second)
    assert [row["id"] for row in lake.sql(f"select id from {name} order by id")] == [2, 3]
    assert lake.snapshots("silver.inserted")[-1].operation == "append"
    lake.sql(f"drop table {name}")


def test_memory_does_not_grow_with_a_capture(tmp_path: Path) -> None:
    # Messages of 1 MB: 64 of them are fewer than a batch has by their number.
    capture = tmp_path / "large.jsonl"
    with capture.open("w") as stream:
        for number in range(64):
            stream.write(json.dumps(line(number, random.randbytes(1 << 20))) + "\n")
    program = """
import resource, sys
from pathlib import Path
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.landing.files import _write_parquet
few = Path(sys.argv[2], "few.jsonl")
with open(sys.argv[1], "rb") as stream:
    few.write_bytes(b"".join(stream.readline() for _ in range(16)))
for path in (few, sys.argv[1]):
    _write_parquet([str(path)], Path(sys.argv[2], "captures.parquet"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(capture), str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    few, many = map(int, done.stdout.split())
    assert many - few < 24
    groups = pq.ParquetFile(tmp_path / "captures.parquet")
    assert groups.metadata.num_rows == 64
    # Whoever reads the file needs no more at a time.
    sizes = [groups.metadata.row_group(i).total_byte_size for i in range(groups.num_row_groups)]
    assert max(sizes) < 12 << 20


def data_files(lake: Lake) -> set[Path]:
    """The data files in bronze's folder, those that no snapshot names too."""
    table = lake.folder / "lake" / "warehouse" / "bronze" / "raw_payloads"
    return {path for path in (table / "data").rglob("*") if path.is_file()}


@contextmanager
def full_disk(lake: Lake) -> Iterator[None]:
    """Spark's process can't write more than half a megabyte into a file."""
    jvm: Any = lake.spark.sparkContext._gateway
    unlimited = resource.prlimit(jvm.proc.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm.proc.pid, resource.RLIMIT_FSIZE, (500_000, unlimited[1]))
    try:
        yield
    finally:
        resource.prlimit(jvm.proc.pid, resource.RLIMIT_FSIZE, unlimited)


def test_a_landing_that_fails_leaves_no_files(lake: Lake) -> None:
    # What Spark writes on the way is compressed.
    lake.set_properties("bronze.raw_payloads", {"write.parquet.compression-codec": "uncompressed"})
    lines = [line(100 + number, b"%d" % number + bytes(50_000)) for number in range(60)]
    before = data_files(lake)
    with full_disk(lake), pytest.raises(WriteError, match=r"nothing was landed: .*File too large"):
        lake.land(lines)
    assert data_files(lake) == before
    assert lake.land(lines).landed == 60
    assert len(data_files(lake)) > len(before)
    # What is left and was not written by this landing stays: it may be somebody's who is at work.
    others = next(iter(data_files(lake) - before)).with_name("00000-0-another-00001.parquet")
    others.write_bytes(b"another's")
    with full_disk(lake), pytest.raises(WriteError):
        lake.land([{**each, "offset": each["offset"] + 100} for each in lines])
    assert others.exists()
    others.unlink()


def test_what_has_landed_stays_whatever_fails_afterwards(lake: Lake) -> None:
    spark = lake.spark
    jvm: Any = spark._jvm
    rows = spark.sql(
        "select 'kept' as topic, 0 as partition, 0L as offset, current_timestamp() as timestamp,"
        " 0 as timestamp_type, binary('k') as key, binary('v') as value,"
        " cast(null as array<struct<key: string, value: binary>>) as headers,"
        " current_timestamp() as landed_at"
    )
    with pytest.raises(CapturedException), leaving_no_files(spark):
        bronze.append(rows, bronze.current_snapshot(spark))
        jvm.java.lang.Integer.parseInt("none")
    kept = lake.sql("select value from bronze.raw_payloads where topic = 'kept'")
    assert kept == [{"value": b"v"}]
