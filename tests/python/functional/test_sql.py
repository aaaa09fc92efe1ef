"""`lakehouse sql` and `show`: the lake's tables without Spark, with the rows that Spark reads."""

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from support.commands import without_rights
from support.lakes import Lake

from dbt_lakehouse.commands.explain.landed import from_bronze
from dbt_lakehouse.commands.show import Choice, show_tables
from dbt_lakehouse.commands.sql_shell import Names, Shell
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import (
    ConfigurationError,
    DamageError,
    LakehouseError,
    WriteError,
)
from dbt_lakehouse.lake.catalog import CATALOG_URI, SQLITE
from dbt_lakehouse.lake.locks import run_lock
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.wholeness import PLACE
from dbt_lakehouse.queries.query import answer, rows_of
from dbt_lakehouse.stored.quarantine import quarantine

# What tables can be, beside the demo's, in a schema of their own.
STATEMENTS: Final = (
    "create schema lake.other",
    """
    create table lake.other.kinds (
        id bigint, flag boolean, small int, single float, double double, wide decimal(38,10),
        narrow decimal(5,2), text string, bytes binary, day date, at timestamp, wall timestamp_ntz,
        names array<string>, numbers map<string, decimal(38,0)>,
        deep struct<a: int, inside: array<struct<at: timestamp, by_number: map<int, binary>>>>
    ) using iceberg
    """,
    """
    insert into lake.other.kinds values
    (
        1, true, 2147483647, float('nan'), double('infinity'),
        1234567890123456789012345678.0123456789, 999.99, 'Zoë, "漢字"\n', unhex('00ff'),
        date'0001-01-01', timestamp'0001-01-01 00:00:00', timestamp_ntz'0001-01-01 00:00:00.000001',
        array('a', null), map('k', 99999999999999999999999999999999999999),
        struct(1, array(struct(timestamp'1969-12-31 23:59:59.999999', map(1, unhex('ff')))))
    ),
    (
        2, false, -2147483648, -0.0, 1e-308, -1, -999.99, '', unhex(''), date'9999-12-31',
        timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 23:59:59.999999', array(),
        map(), struct(null, array())
    ),
    (
        3, null, null, null, null, null, null, null, null, null, null, null, null, null, null
    ),
    (
        4, true, 1, 1.5, 2.5, 1, 1, 'x', unhex('01'), date'1582-10-04',
        timestamp'1582-10-15 00:00:00', timestamp_ntz'1969-12-31 23:59:59', array('z'),
        map('k', null), struct(2, null)
    )
    """,
    # Deletion vectors over several row groups' worth of rows, and new rows beside them.
    "create table lake.other.deleted as select id, cast(id as string) as text from range(50000)",
    "delete from lake.other.deleted where id % 3 = 0",
    "update lake.other.deleted set text = 'new' where id % 7 = 0",
    # Position deletes of the format before, in partitions.
    """
    create table lake.other.before (id bigint, text string, day date) using iceberg
    partitioned by (bucket(4, id), years(day))
    tblproperties ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')
    """,
    """
    insert into lake.other.before
    select id, cast(id as string), date_add(date'0001-01-01', cast(id as int)) from range(1000)
    """,
    "delete from lake.other.before where id % 3 = 0",
    # A name that was another column's, one within a struct, a wider type.
    "create table lake.other.evolved (id bigint, old string, s struct<a:int,b:int>) using iceberg",
    "insert into lake.other.evolved values (1, 'a', struct(1, 2)), (2, 'b', struct(3, 4))",
    "alter table lake.other.evolved drop column old",
    "alter table lake.other.evolved add columns (old string, n decimal(9,2), s.c int)",
    "alter table lake.other.evolved rename column s.a to z",
    "alter table lake.other.evolved alter column n type decimal(20,2)",
    "insert into lake.other.evolved values (3, struct(1, 2, 3), 'old', 7)",
    "create table lake.other.empty (id bigint, at timestamp) using iceberg",
    "create table lake.other.emptied as select 1 as id",
    "truncate table lake.other.emptied",
    'create table lake.other.`Odd Name` as select 1 as `a b`, 2 as `Q"q`',
    "create view lake.other.seen as select id, upper(text) as text from lake.other.deleted",
    "create view lake.other.early as select * from lake.other.seen where id < 10",
    "create view lake.other.of_spark as select transform(array(1), x -> x + 1)[0] + elt(1, 2) as y",
)


@pytest.fixture(scope="module")
def lake(demo: Lake) -> Lake:
    """The demo, and tables of all kinds in the schema ``other``."""
    for statement in STATEMENTS:
        demo.sql(statement)
    demo.sql("create table lake.other.rolled_back as select * from lake.other.deleted limit 5")
    (kept,) = demo.snapshots("other.rolled_back")
    demo.sql("insert into lake.other.rolled_back values (0, 'too much')")
    demo.roll_back("other.rolled_back", str(kept.snapshot_id))
    return demo


@pytest.fixture(scope="module")
def reader(lake: Lake) -> Reader:
    return lake.reader()


def texts(rows: pa.Table) -> list[tuple[str, ...]]:
    """Rows in an order of their own, comparable also where Python's values aren't."""
    columns = [map(repr, column.to_pylist()) for column in rows.columns]
    return sorted(zip(*columns, strict=True))


def test_each_log_can_be_decoded_without_spark(reader: Reader) -> None:
    """To the rows that it has."""
    formats = "".join(
        f" when starts_with(topic, '{start}') then '{format}'"
        for start, format in {
            "aerospike.iot.": "aerospike_json",
            "aerospike.": "aerospike_messagepack",
            **{f"{name}.": f"{name}_json" for name in ("arcion", "lindorm", "debezium")},
        }.items()
    )
    names = [each for each in reader.logs_first() if each.endswith("_changes")]
    assert len(names) == 9
    for name in names:
        columns = [
            f'"{each}"'
            for each in reader.columns()[name]
            if not each.startswith("_") or each in ("_changed_columns", "_misfits")
        ]
        decoder = f"decode_{name.removeprefix('silver.')}(case{formats} end, key, value)"
        decoded = f"""
            select
                topic, partition, "offset", event.event_index, event.operation,
                {", ".join(f"event.change.{each}" for each in columns)}
            from (select *, unnest({decoder}) as event from bronze.raw_payloads)
            where topic in (select _position.topic from {name})
        """
        logged = f"""
            select
                _position.topic, _position.partition, _position.offset, _position.event_index,
                _operation, {", ".join(columns)}
            from {name}
        """
        assert len(rows_of(reader, logged)) > 0
        for one, other in ((decoded, logged), (logged, decoded)):
            assert rows_of(reader, f"{one} except all {other}") == [], name


def test_the_rows_are_those_of_spark(lake: Lake, reader: Reader) -> None:
    others = {f"other.{row['tableName']}" for row in lake.sql("show tables in lake.other")}
    assert {*reader.names} == {
        *lake.tables(),
        *others,
        "other.seen",
        "other.early",
        "other.of_spark",
    }
    for name in reader.names:
        if name == "other.of_spark":
            continue
        schema, _, table = name.partition(".")
        expected = lake.spark.sql(f"select * from lake.{schema}.`{table}`").toArrow()
        found = reader.query(f'from {schema}."{table}"').to_arrow_table()
        assert found.schema.names == expected.schema.names, name
        assert [field.type for field in found.schema] == [field.type for field in expected.schema]
        assert texts(found) == texts(expected), name
        # Counted by what the files say of themselves.
        assert reader.query(f'select count(*) from {schema}."{table}"').fetchall() == [
            (expected.num_rows,)
        ], name
    assert reader.query("select count(*) from other.deleted").fetchall() == [(33333,)]


# In CI, test_the_rows_are_those_of_spark reads deleted rows of several row groups, and
# test_scenarios (test_spark_and_pyiceberg_read_the_same_rows) deletion vectors of runs.
@pytest.mark.long
def test_each_commit_is_read_as_spark_reads_it(lake: Lake) -> None:
    """Commits at random that delete rows of several files in several row groups: their deletion
    vectors share Puffin files, and replace earlier ones.
    """
    lake.sql(
        "create table lake.other.churned (id bigint, text string) using iceberg"
        " tblproperties ('write.parquet.row-group-size-bytes' = '65536')"
    )
    reader = lake.reader()
    random = Random(5)
    for step in range(18):
        modulus = random.randrange(2, 9)
        some = f"pmod(xxhash64(id, {step}), {modulus}) = 0"
        begin, length = random.randrange(60_000), random.randrange(2_000, 30_000)
        span = f"range({begin}, {begin + length}, 1, {random.randrange(1, 5)})"
        lake.sql(
            random.choice(
                [
                    f"insert into lake.other.churned select id, sha(string(id)) from {span}",
                    f"delete from lake.other.churned where {some}",
                    f"""
                    merge into lake.other.churned old
                    using (select id, {modulus} as text from {span}) new on old.id = new.id
                    when matched and pmod(new.id, {modulus}) = 0 then delete
                    when matched then update set text = new.text
                    when not matched then insert *
                    """,
                ]
            )
            if step
            else f"insert into lake.other.churned select id, '' from {span}"
        )
        reader.refresh()
        rows = texts(lake.spark.sql("from lake.other.churned").toArrow())
        assert texts(reader.query("from other.churned").to_arrow_table()) == rows, step
        assert texts(pa.Table.from_pylist(lake.read("other.churned"))) == rows, step
        counted = reader.query("select count(*), count(id) from other.churned").fetchone()
        assert counted == (len(rows), len(rows)), step
    files = lake.sql(
        "select data_file.file_path, max(status) = 2 as removed, count(*) as vectors"
        " from lake.other.churned.all_entries where data_file.content = 1 group by 1"
    )
    assert max(file["vectors"] for file in files) > 5 and any(file["removed"] for file in files)


def test_filters_lose_no_row(reader: Reader) -> None:
    """Files and their parts are passed over by their bounds."""
    for table in ("kinds", "before"):
        reader._duck.execute(f"create or replace temp table copied as from other.{table}")
        for name, kind in reader.columns()[f"other.{table}"].items():
            values = f'select distinct "{name}"::varchar from copied where id < 5 or id > 995'
            for (value,) in reader._duck.execute(values).fetchall():
                for operator in ("=", "<", ">=", "is not distinct from"):
                    condition = f'where "{name}" {operator} ?::{kind}'
                    counts = {
                        source: reader._duck.execute(
                            f"select count(*) from {source} {condition}", [value]
                        ).fetchone()
                        for source in ("copied", f"other.{table}")
                    }
                    assert len({*counts.values()}) == 1, (name, operator, value, counts)


def test_a_table_as_of_a_time(lake: Lake) -> None:
    history = lake.sql(
        "select made_current_at, snapshot_id from other.deleted.history order by made_current_at"
    )
    assert len(history) == 3
    for each in history:
        at = each["made_current_at"]
        spark = f"select id, text from other.deleted timestamp as of '{at:%F %T.%f}'"
        expected = lake.spark.sql(spark).toArrow()
        assert texts(lake.reader(at).query("from other.deleted").to_arrow_table()) == texts(
            expected
        )
    begin = history[0]["made_current_at"]
    early = lake.reader(begin - timedelta(milliseconds=1))
    with pytest.raises(ConfigurationError, match=r"other.deleted is not known as of .* begin with"):
        early.query("from other.deleted")
    # One of no snapshot is empty at any time, and columns are those of their time.
    assert early.query("from gold.orders").fetchone() is not None
    assert lake.reader(datetime(2000, 1, 1, tzinfo=UTC)).query("from other.empty").fetchall() == []
    (first, _) = lake.sql("select made_current_at from other.evolved.history order by 1")
    evolved = lake.reader(first["made_current_at"]).query("from other.evolved").to_arrow_table()
    assert evolved.schema.names == ["id", "old", "s"]


def test_a_view_that_only_spark_understands_says_so(reader: Reader) -> None:
    with pytest.raises(ConfigurationError, match=r"view other.of_spark is written in Spark's SQL"):
        reader.query("from other.of_spark")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("select * from ordrs", "there is no table ordrs (did you mean gold.orders?)"),
        ("select * from silver.orders", "there is no table orders (did you mean gold.orders?)"),
        ("select * from nothing_like_it", "'show all tables'` lists those there are"),
        ("select statis from orders", "there is no column statis (did you mean status?)"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select 'a'::int", "Could not convert string 'a' to INT32"),
        ("select 1; select 2", "one query is answered at a time, not 2"),
        ("-- nothing", "there is no query"),
        *(
            (statement, "only queries are answered here")
            for statement in (
                "drop view gold.orders",
                "create table gold.mine as select 1",
                "insert into gold.orders select * from gold.orders",
                "delete from gold.orders",
                "update gold.orders set status = ''",
                "copy gold.orders to '{warehouse}/stolen.csv'",
                "explain analyze copy gold.orders to '{warehouse}/stolen.csv'",
                "export database '{warehouse}/stolen'",
                "attach '{warehouse}/new.db'",
                "install httpfs",
                "load httpfs",
                "set enable_external_access = true",
                "set lock_configuration = false",
                "reset allowed_directories",
                "call enable_logging(storage = 'file', storage_path = '{warehouse}')",
                "create secret (type s3)",
                "use memory",
                "begin",
            )
        ),
        *(
            (f"from {function}", "a query reads tables of the lake alone")
            for function in (
                "read_csv('/etc/passwd')",
                "read_text('{warehouse}/../catalog.db')",
                "read_text('file:///etc/passwd')",
                "read_blob('{folder}/lake/catalog.db')",
                "glob('/etc/*')",
                "sniff_csv('/etc/passwd')",
                "parquet_metadata('/etc/passwd')",
                "iceberg_scan('/etc')",
            )
        ),
        ("from '/etc/passwd'", "there is no table /etc/passwd"),
        ("from sentence", "there is no table sentence"),
    ],
)
def test_what_is_refused(lake: Lake, reader: Reader, query: str, sentence: str) -> None:
    places = {"folder": lake.folder, "warehouse": lake.folder / "lake" / "warehouse"}
    before = sorted(places["warehouse"].iterdir())
    with pytest.raises(ConfigurationError) as refused, reader.explained():
        reader.query(query.format(**places)).fetchall()
    assert sentence in " ".join(str(refused.value).split())
    assert sorted(places["warehouse"].iterdir()) == before


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("metadata/*.json", r"json is cut short( or damaged)?, a file of other\.damaged"),
        ("data/*.parquet", r"parquet is cut short or damaged, a file of other\.damaged"),
    ],
)
def test_a_damaged_table_keeps_no_other_from_being_read(
    lake: Lake, pattern: str, sentence: str
) -> None:
    lake.sql("create table lake.other.damaged as select 1 as id")
    try:
        (file,) = (lake.folder / "lake" / "warehouse" / "other" / "damaged").glob(pattern)
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        reader = lake.reader()
        assert reader.query("select count(*) from gold.regions").fetchall() == [(7,)]
        for each in (reader, lake.reader(datetime.now(UTC))):
            with pytest.raises(DamageError, match=sentence), each.explained():
                each.query("from other.damaged").fetchall()
        file.write_bytes(whole)
    finally:
        lake.sql("drop table lake.other.damaged purge")


def test_a_lake_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no lake yet.*`dbt build`"):
        Lake(tmp_path).reader()


def written(reader: Reader, query: str, form: str, limit: int | None = None) -> bytes:
    blocks: list[bytes] = []
    answer(reader, query, form, limit, blocks.append)
    return b"".join(blocks)


def test_the_forms_of_the_output(reader: Reader, tmp_path: Path) -> None:
    query = (
        'select id, single, double, wide, text, bytes, day, "at", wall, numbers, deep, id'
        " from other.kinds where id < 4 order by id"
    )
    lines = written(reader, query, "json").decode().splitlines()
    assert lines[0] == (
        '{"id":1,"single":"NaN","double":"Infinity","wide":1234567890123456789012345678.0123456789,'
        '"text":"Zoë, \\"漢字\\"\\n","bytes":"AP8=","day":"0001-01-01","at":"0001-01-01T00:00:00Z",'
        '"wall":"0001-01-01T00:00:00.000001","numbers":{"k":99999999999999999999999999999999999999},'
        '"deep":{"a":1,"inside":[{"at":"1969-12-31T23:59:59.999999Z","by_number":[[1,"/w=="]]}]},'
        '"id_1":1}'
    )
    assert set(json.loads(lines[2]).values()) == {3, None}
    csv = written(reader, "select id, text, numbers from other.kinds order by id", "csv", 3)
    assert csv.decode() == (
        'id,text,numbers\n1,"Zoë, ""漢字""\n","{""k"":99999999999999999999999999999999999999}"\n'
        '2,"",{}\n3,,\n'
    )
    (tmp_path / "rows.parquet").write_bytes(written(reader, query, "parquet"))
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert rows.num_rows == 3 and rows.schema.names[-1] == "id_1"
    assert texts(rows) == texts(reader.query(query).to_arrow_table())
    picture = written(reader, "select id, text from other.kinds order by id", "table", 1).decode()
    assert picture.splitlines() == [
        "+--+-------------+",
        "|id|text         |",
        "+--+-------------+",
        '| 1|Zoë, "漢字"\\n|',
        "+--+-------------+",
        "1 row",
    ]
    assert written(reader, "from range(1001)", "table").endswith(
        b"1,000 rows; there are more: --limit\n"
    )
    # What goes wrong late is a sentence too.
    late = "select if(range = 500_000, 'x', '1')::int from range(1_000_000)"
    for _ in range(3):
        with pytest.raises(ConfigurationError) as failed:
            written(reader, late, "csv")
        if str(failed.value) == "Could not convert string 'x' to INT32":
            break
        assert str(failed.value).endswith("a second time it mostly does")
    else:
        pytest.fail("never told")
    # The first rows of many don't wait for the last.
    assert written(reader, "from range(10_000_000_000)", "csv", 2) == b"range\n0\n1\n"


def test_show_counts_and_prints_the_first_rows(reader: Reader) -> None:
    regions = show_tables(reader, ["regions"])
    assert regions.startswith("gold.regions: 7 rows\n+-----------+") and "_position" not in regions
    counts = json.loads(show_tables(reader, [], as_json=True))
    assert counts["gold.orders"] == 36 and len(counts) == 11
    with pytest.raises(ConfigurationError, match=r"no table region\b.*gold.regions"):
        show_tables(reader, ["region"])
    chosen = Choice(limit=1, columns=["r_name", "_position"], where="r_regionkey < 2 -- or 3")
    shown = show_tables(reader, ["regions"], chosen).splitlines()
    assert shown[0] == "gold.regions: 2 rows of 7"
    assert shown[2].split("|")[1].strip() == "r_name" and len(shown) == 6
    counts = json.loads(show_tables(reader, ["regions"], chosen, as_json=True))
    assert counts == {"gold.regions": 2}
    with pytest.raises(ConfigurationError, match=r"no column r_nam \(did you mean r_name\?\): its"):
        show_tables(reader, ["regions"], Choice(columns=["r_nam"]))
    with pytest.raises(ConfigurationError, match="--where r_name =: "):
        show_tables(reader, ["regions"], Choice(where="r_name ="))


def test_messages_that_have_landed_are_found_by_their_place(reader: Reader) -> None:
    topic = "aerospike.users.profiles"
    message = from_bronze(reader, "silver.other_events", topic, 0, 18)
    assert message.told is not None and message.told.format == "aerospike_messagepack"
    ((value,),) = reader.query(
        f"""select value from bronze.raw_payloads
        where topic = '{topic}' and "partition" = 0 and "offset" = 18"""
    ).fetchall()
    assert message.value == value
    # What no format was configured for is guessed; a target without silver has nothing decoded.
    assert from_bronze(reader, "silver.other_events", "legacy.audit", None, 0).told is None
    assert from_bronze(reader, "mine_silver.other_events", topic, 0, 18).told is None
    with pytest.raises(LakehouseError, match="in partitions 0, 1: --partition says which"):
        from_bronze(reader, "silver.other_events", topic, None, 18)
    with pytest.raises(LakehouseError, match=f"no offset 9999 of {topic}, partition 1: has it la"):
        from_bronze(reader, "silver.other_events", topic, 1, 9999)


def test_quarantine_is_counted_and_masked(reader: Reader) -> None:
    found = quarantine(reader, "silver", examples=3)
    ((events,),) = reader.query("select count(*) from silver.quarantined_payloads").fetchall()
    assert sum(group.events for group in found.groups) == events
    assert all(len(group.examples) == min(group.events, 3) for group in found.groups)
    assert 'payload_b64":"' not in found.json()
    (row,) = quarantine(reader, "silver", ("bad_shape",), ("lindorm.customers",)).groups
    assert "an unwrapped row ('***', '***'" in row.examples[0].error_detail
    shown = quarantine(reader, "silver", ("bad_shape",), ("lindorm.customers",), show_payloads=True)
    assert "an unwrapped row ('city', 'email'" in shown.text()
    assert shown.groups[0].examples[0].payload().startswith("{")
    none = quarantine(reader, "silver", ("unknown_format",), ("lindorm.customers",))
    assert none.text() == "nothing is quarantined"
    with pytest.raises(ConfigurationError, match="bronze holds no message of the topic none"):
        quarantine(reader, "silver", topics=("none",))
    with pytest.raises(ConfigurationError, match=r"^ada_silver\.quarantined_payloads is not built"):
        quarantine(reader, "ada_silver")


def test_the_shell(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbt_lakehouse.config.paths.CACHE", tmp_path)
    lake.sql("create table lake.other.growing as select 1 as id")
    reader = lake.reader()
    said: list[bytes] = []
    told: list[bytes] = []
    typed = (
        "\\d other.kinds\n",
        "select count(*) as n\nfrom gold.regions;\n",
        "from gold.nothing_of_the_kind;\n",
        "\\form csv\n\\limit 1\n",
        "select r_regionkey, r_name from gold.regions order by 1;\n",
        "\\as-of 2000-01-01\nfrom gold.regions;\n\\as-of now\n",
        "\\nonsense\n",
        "select count(*) from other.growing;\n",
        "\\q\n",
    )
    lake.sql("insert into lake.other.growing values (2)")
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("".join(typed))
        Shell(reader, "table", None, said.append, lambda: None).run(told.append)
    output = b"".join(said).decode()
    assert "|wide   |decimal(38,10)" in output
    # What is not a model of dbt's has a description too.
    own = [name for name in reader.names if name.startswith("bronze.")]
    assert own and all(reader.description(name).startswith("One row per") for name in own)
    assert "|n|\n+-+\n|7|" in output
    assert "r_regionkey,r_name\n0,AFRICA\n" in output
    assert output.endswith("count_star()\n2\n")
    errors = b"".join(told).decode().splitlines()
    assert [line.partition(" ")[0] for line in errors] == ["there", "gold.regions", "\\nonsense"]
    # The next shell remembers; a query of several lines is one of its entries.
    assert (
        "+select count(*) as n\n+from gold.regions;" in (tmp_path / "sql" / "history").read_text()
    )


def sql(
    lake: Lake, *arguments: str, prefix: list[str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(prefix or []), sys.executable, "-m", "dbt_lakehouse.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, **lake.environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_command_answers_soon(lake: Lake) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = sql(
        lake, "sql", "select status, count(*) as n from orders group by 1 order by 2 desc", "--csv"
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("status,n\npaid,13\n")
    # Of the processor's seconds, for this machine has other work too; dbt and Spark would take more
    # than three to import.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3
    done = sql(lake, "sql", text="select 1 as one\n;\n")
    assert done.stdout == "+---+\n|one|\n+---+\n|  1|\n+---+\n1 row\n"
    done = sql(lake, "sql", "from order")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = sql(lake, "sql", "from orders", "--as-of", "yesterday")
    assert (done.returncode, done.stdout) == (2, "") and "'yesterday' is not a time" in done.stderr


def test_completion(reader: Reader) -> None:
    def completed(text: str) -> list[str]:
        completions = Names(reader).get_completions(Document(text), CompleteEvent())
        return [each.text for each in completions]

    assert completed("select r_na") == ["r_name"]
    assert completed("select * from gold.reg") == ["gold.regions"]
    assert completed("from REG") == ["regions", "regions_changes"]
    # Columns of the tables that the query names already.
    assert completed("select * from orders where no") == ["note", "not"]
    assert completed("\\as") == ["\\as-of"]
    assert completed("\\d gold.reg") == ["gold.regions"]


def test_a_user_who_may_write_nothing(lake: Lake, tmp_path: Path) -> None:
    # A copy, as of a disk that can't be written, of a catalog that others have open.
    copied = Lake(tmp_path)
    there = tmp_path / "lake"
    shutil.copytree(
        lake.folder / "lake", tmp_path / "first", ignore=shutil.ignore_patterns("locks")
    )
    with closing(sqlite3.connect(tmp_path / "first" / "catalog.db")) as catalog:
        # It says so of itself, in what is in its log of changes alone.
        catalog.execute(
            "update iceberg_namespace_properties set property_value = ? where property_key = ?",
            [str(there / "catalog.db"), PLACE],
        )
        catalog.commit()
        shutil.copytree(tmp_path / "first", there)
    shutil.rmtree(tmp_path / "first")
    files = sorted(tmp_path.rglob("*"))
    for each in [tmp_path, *files]:
        each.chmod(0o555 if each.is_dir() else 0o444)
    try:
        for read in (lake, copied):
            done = sql(read, "show", "--json", "regions", prefix=without_rights(read.folder))
            assert done.stdout == '{"gold.regions": 7}\n', done.stderr
        question = ("why", "--table", "regions", "--key", '{"r_regionkey": 0}')
        done = sql(copied, *question, prefix=without_rights(copied.folder))
        assert done.stdout.startswith('gold.regions {"r_regionkey":0}: a row, by'), done.stderr
        # Nor does Spark start for who would write.
        done = sql(copied, "land", "/dev/null", prefix=without_rights(copied.folder))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "the folder of the lake's catalog, can't be written: let this user" in done.stderr
        assert sorted(tmp_path.rglob("*")) == files
    finally:
        for each in [tmp_path, *files]:
            each.chmod(0o755 if each.is_dir() else 0o644)


def test_who_may_not_lock_a_lake_is_told_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    # A lock asks of a session only where the lake is.
    session: Any = SimpleNamespace(conf={CATALOG_URI: f"{SQLITE}{tmp_path}/lake/catalog.db"})
    with pytest.raises(WriteError, match=r"can't be written: Not a directory; .*`lakehouse sql`"):
        run_lock(session).take("a test")
