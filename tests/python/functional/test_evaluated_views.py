"""Statements of macros: views that are evaluated once, ranges of keys that no log may have, and the
values that a key update takes over.
"""

import random
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from support.lakes import Lake

from dbt_lakehouse.build.templates import render
from dbt_lakehouse.runs import tables
from dbt_lakehouse.runs.key_ranges import key_ranges
from dbt_lakehouse.session.opening import opened_sessions
from dbt_lakehouse.session.pool import LakeSession
from dbt_lakehouse.session.troubles import error_text, statement_error_text
from dbt_lakehouse.spark.jvm import java_session
from dbt_lakehouse.spark.rows import collected


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("evaluated"))
    lake.sql("create table gold.numbers using iceberg as select id from range(10)")
    return lake


@pytest.fixture
def session(lake: Lake) -> Iterator[LakeSession]:
    assert lake.spark
    sessions = opened_sessions()
    session = sessions.take()
    yield session
    sessions.give_back(session)


def hold(session: LakeSession, name: str, column: str) -> str:
    """Hold the ranges of a column of the view `small`, as the adapter does; the condition that the
    column is in one of them.
    """
    ranges = key_ranges(session.spark, "small", column, session.views.rows("small"))
    session.arguments.update(ranges.arguments(name))
    return " or ".join(f"{column} between {low} and {high}" for low, high in ranges.sql(name))


def test_a_view_stays_what_it_was_when_its_table_is_written(session: LakeSession) -> None:
    assert session.evaluate("small", "select * from gold.numbers where id < 5") == 5
    session.sql("delete from gold.numbers where id < 3")

    def rows() -> list[int]:
        return [row.id for row in session.sql("select id from small order by id").collect()]

    assert rows() == [*range(5)]
    # As if its executor were lost: its rows come again from the files that were read.
    java: Any = session.spark._jvm
    held = session.views._held["small"].cachedColumnBuffers().id()
    blocks = java.org.apache.spark.SparkEnv.get().blockManager()
    block = java.org.apache.spark.storage.RDDBlockId(held, 0)
    assert blocks.getStatus(block).isDefined()
    blocks.master().removeRdd(held, True)
    assert blocks.getStatus(block).isEmpty()
    assert rows() == [*range(5)]
    assert session.sql("select count(*) from gold.numbers").first() == (7,)


def test_a_view_is_evaluated_once_though_it_is_replaced_by_a_query_of_itself(
    session: LakeSession,
) -> None:
    read = session.spark.sparkContext.accumulator(0)

    def counted(number: int) -> int:
        read.add(1)
        return number

    session.spark.udf.register("counted", counted, "bigint")
    session.evaluate("states", "select counted(id) as id from range(3)")
    session.sql("select id from states where id > 0").createOrReplaceTempView("late_states")
    assert session.evaluate("states", "select id from states union all table late_states") == 5
    assert read.value == 3
    # The rows of before are held no more.
    assert len(session.spark.sparkContext._jsc.getPersistentRDDs()) == len(session.views._held)


def test_tasks_of_a_view_have_the_sessions_settings(session: LakeSession) -> None:
    def setting(name: str) -> str | None:
        task = TaskContext.get()
        return task.getLocalProperty(name) if task else None

    session.spark.udf.register("setting_in_task", setting, "string")
    names = ["spark.sql.codegen.factoryMode", "spark.sql.defaultCatalog"]
    of_each = [f"setting_in_task('{name}')" for name in names]
    session.evaluate("seen", f"select {', '.join(of_each)} from range(1)")
    assert session.sql("select * from seen").first() == tuple(map(session.spark.conf.get, names))
    # They are those of that job alone.
    assert session.spark.sparkContext.getLocalProperty(names[0]) is None


def test_code_is_compiled_where_the_profile_says_and_the_rows_are_many(lake: Lake) -> None:
    spark = lake.spark
    own = SparkSession(spark.sparkContext, java_session(spark).cloneSession())
    own.conf.set("spark.sql.codegen.wholeStage", "true")
    own.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
    session = LakeSession(own)

    def is_compiled() -> bool:
        (plan,) = session.sql("explain select id + 1 from gold.numbers where id > 2").collect()
        return "*(1) Project" in plan[0]

    for compiles in (True, False, True):
        session.suit(small=True, compiles=compiles)
        assert is_compiled() is compiles
        mode = own.conf.get("spark.sql.codegen.factoryMode")
        assert mode == ("CODEGEN_ONLY" if compiles else "NO_CODEGEN")


def test_views_are_dropped_by_how_their_names_begin(session: LakeSession) -> None:
    names = ("gold__a__keys", "gold__a__states", "gold__b__keys")
    for name in names:
        session.evaluate(name, "select 1 as one")
    session.views.drop_all("gold__a__")
    for name in names[:2]:
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            session.sql(f"select * from {name}")
    assert session.sql(f"select one from {names[2]}").collect() == [(1,)]
    session.views.drop_all(names[2])
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.sql(f"select * from {names[2]}")


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("select nothing from gold.numbers", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] "),
        ("select * from none", "[TABLE_OR_VIEW_NOT_FOUND] "),
        ("call lake.system.rollback_to_snapshot('gold.numbers', 1)", "unknown snapshot id: 1"),
        ("select\n1 +", "[PARSE_SYNTAX_ERROR] "),
    ],
)
def test_what_spark_refuses_is_told_without_plans_and_stack_traces(
    session: LakeSession, statement: str, sentence: str
) -> None:
    with pytest.raises((AnalysisException, Py4JJavaError)) as caught:
        session.evaluate("small", statement)
    told = statement_error_text(caught.value)
    assert sentence in told
    assert not any(mark in told for mark in ("Project", "Relation", "\tat ", ".java:"))
    assert ("^^^" in told) == ("PARSE_SYNTAX_ERROR" in told)


@pytest.mark.parametrize(
    ("of_java", "told"),
    [
        # What PySpark calls for a date before the year 1000.
        (lambda java: java.sql.Date.valueOf("1-01-01"), "IllegalArgumentException"),
        (lambda java: java.util.ArrayDeque().pop(), "NoSuchElementException"),
    ],
)
def test_an_error_without_a_message_tells_its_class(
    session: LakeSession, of_java: Callable[[Any], Any], told: str
) -> None:
    java: Any = session.spark._jvm
    with pytest.raises((CapturedException, Py4JJavaError)) as caught:
        of_java(java.java)
    assert statement_error_text(caught.value) == told
    assert error_text(caught.value).startswith(told)
    assert (
        error_text(AssertionError()) == statement_error_text(AssertionError()) == "AssertionError"
    )


def test_a_clock_that_is_behind_a_table_is_told(session: LakeSession, tmp_path: Path) -> None:
    """As it is where the clock was set back by hours: the times of the table are ahead."""
    session.sql("create table gold.ahead using iceberg as select 1 as id")
    written = tables.load(session.spark, "gold.ahead").operations().current()
    text = Path(written.metadataFileLocation().removeprefix("file:")).read_text()
    moved = re.sub(
        r'("(?:timestamp|last-updated)-ms" *: *)(\d+)',
        lambda found: f"{found[1]}{int(found[2]) + 3 * 3_600_000}",
        text,
    )
    (tmp_path / "v9.metadata.json").write_text(moved)
    session.sql("drop table gold.ahead")
    session.sql(f"call lake.system.register_table('gold.ahead', '{tmp_path}/v9.metadata.json')")
    with pytest.raises((CapturedException, Py4JJavaError)) as caught:
        session.sql("insert into gold.ahead values (2)")
    assert statement_error_text(caught.value).startswith(
        "this machine's clock is behind that of the table's newest commit"
    )


def test_sessions_are_apart_and_new_again_when_given_back(lake: Lake) -> None:
    assert lake.spark
    sessions = opened_sessions()
    one, other = sessions.take(), sessions.take()
    one.evaluate("small", "select 1 as one")
    one.sql("create temporary view pairs as select 1 as one")
    one.sql("set spark.sql.shuffle.partitions = 7")
    one.sql("set lakehouse.of_one = 1")
    one.arguments["one"] = 1
    for name in ("small", "pairs"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            other.sql(f"select * from {name}")
    partitions = other.spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions != "7" == one.spark.conf.get("spark.sql.shuffle.partitions")
    # Both know the functions, and a surplus argument is none of a statement's business.
    for session in (one, other):
        assert session.sql("select is_value('1', 'int')").collect()[0][0]
    sessions.give_back(one)
    sessions.give_back(other)
    again = {sessions.take(), sessions.take()}
    assert again == {one, other}
    for session in again:
        assert session.spark.conf.get("spark.sql.shuffle.partitions") == partitions
        assert session.spark.conf.get("lakehouse.of_one", None) is None
        assert not session.arguments
        for name in ("small", "pairs"):
            with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
                session.sql(f"select * from {name}")
        sessions.give_back(session)


def test_the_catalog_tells_tables_and_views_and_no_temporary_ones(session: LakeSession) -> None:
    session.sql("create or replace view silver.numbers as select * from gold.numbers")
    session.sql("create temporary view one as select 1 as one")
    assert tables.views_in(session.spark, "silver") == ["numbers"]
    assert tables.tables_in(session.spark, "silver") == []
    assert "numbers" in tables.tables_in(session.spark, "gold")
    assert tables.tables_in(session.spark, "none") == tables.views_in(session.spark, "none") == []
    assert {"bronze", "silver", "gold"} <= {*tables.schemas_of(session.spark)}
    for name, column in (("gold.numbers", "id"), ("silver.numbers", "id"), ("one", "one")):
        assert [each.name for each in tables.columns_of(session.spark, name)] == [column]
    assert tables.columns_of(session.spark, "gold.none") == []


def test_a_view_is_a_leaf_to_what_reads_it(session: LakeSession) -> None:
    session.evaluate("small", "select id, id % 2 as odd from range(4) order by id")
    pairs = "select one.id, other.odd from small as one inner join small as other using (odd)"
    assert session.evaluate("pairs", pairs) == 8
    plan = session.sql("explain extended select * from pairs").collect()[0][0]
    analyzed = plan.split("== Analyzed Logical Plan ==")[1].split("== Optimized Logical Plan ==")[0]
    assert "InMemoryRelation" in analyzed
    assert "Join" not in analyzed.split("InMemoryRelation")[0]
    joined = session.sql("select count(*) as rows from pairs inner join small using (id)")
    assert joined.collect()[0]["rows"] == 8


def test_a_name_can_be_used_again_and_is_gone_when_dropped(session: LakeSession) -> None:
    session.evaluate("small", "select 1 as one")
    assert session.evaluate("small", "select id as other from range(3)") == 3
    assert session.spark.table("small").columns == ["other"]
    session.views.drop("small")
    with pytest.raises(AnalysisException):
        session.spark.table("small").collect()
    session.views.drop("small")


@pytest.mark.parametrize(
    "query",
    [
        "select id, cast(id as decimal(38, 2)) as amount from range(4)",
        # In two tasks, behind a shuffle.
        "select id % 3 as id, max(cast(id as decimal(38, 2))) as amount"
        " from range(0, 4, 1, 2) group by 1",
        "select id, cast(id as decimal(38, 2)) as amount from range(4) where false",
    ],
)
def test_what_is_observed_of_a_view_is_what_a_query_of_it_gives(
    session: LakeSession, query: str
) -> None:
    aggregate = """named_struct(
        'rows', count(*),
        'ids', array_sort(collect_list(id)),
        'greatest', max(amount) + 99999999999999999999999999999999999,
        'none', max(cast(null as bigint)),
        'text', to_json(max(if(id > 1, struct('a \\" b' as text, id), null)))
    )"""
    taken = session.views.create_observed("seen", session.sql(query), aggregate)
    (row,) = session.sql(f"select {aggregate} as taken from seen").toArrow().to_pylist()
    assert taken == row["taken"]
    assert taken["ids"] == sorted(each["id"] for each in session.sql(query).collect())


def test_what_is_observed_is_the_view_itself(session: LakeSession) -> None:
    """And not the one that it is made of, which had the same name."""
    sums = []
    query = "select id from range(3)"
    for _ in range(3):
        made = session.views.create_observed("again", session.sql(query), "struct(sum(id) as ids)")
        sums.append(made["ids"])
        session.views.create("beneath", session.sql("select id + 10 as id from again"))
        query = "select id from beneath"
    assert sums == [3, 33, 63]


def test_rows_of_years_that_python_has_not(session: LakeSession) -> None:
    """As `dbt show` fetches them, and the report of a test that fails."""
    (row,) = collected(
        session.sql(
            "select 1 as n, date_from_unix_date(3663382) as day, struct(timestamp_micros("
            "316516204800000000) as at) as at, timestamp '2026-01-01 00:00:00' as n"
        )
    )
    assert tuple(row) == (1, "+12000-01-01", "{+12000-01-01 00:00:00}", "2026-01-01 00:00:00")
    assert row.__fields__ == ["n", "day", "at", "n"]
    assert collected(session.sql("select date '0001-01-01'")) == [(date(1, 1, 1),)]


LONG: Final = 2**63
# Least and greatest of microseconds and of days; the first and the last of Python's years, and
# those between which the Julian calendar's days end and the Gregorian's begin.
MICROS: Final = [
    -LONG,
    LONG - 1,
    *(seconds * 1_000_000 for seconds in (-62_135_596_800, 253_402_300_800)),
    *(days * 86_400_000_000 + 1 for days in (-354_285, -141_438, -141_427, -1, 0, 20_000)),
]
DAYS: Final = [
    *(-(2**31), 2**31 - 1, -719_162, -719_163, 2_932_896, 2_932_897),
    *(-354_285, -141_438, -141_427, -1, 0, 20_000),
]
NINES: Final = "9" * 38
TEXTS: Final = [
    *("", " ", "a", "b\\", "it's", '"', "\n", "\r\n\t", "\0", "\x01\0", "\x7f", "\u00e4"),
    # Spark compares bytes, Java 16 bits of a text: the first of these is less for Spark alone.
    *("\uffff", "\U0001f600", "\U0010ffff", "e\u0301", "\u202e", "\ufeff"),
    # Iceberg's statistics have 16 characters.
    *("x" * 17, "x" * 16 + "\U0001f600", "\U0010ffff" * 17, "0", "00", "-0"),
]
# By type, SQL of values of all of its range.
RANGE_OF: Final = {
    "tinyint": ["-128", "0", "127"],
    "smallint": ["-32768", "0", "32767"],
    "int": [str(each) for each in (-(2**31), 2**31 - 1, 0, 7)],
    # Beyond what a double holds.
    "bigint": [str(each) for each in (-LONG + 1, LONG - 1, 2**53 + 1, -(2**53) - 1, 0, 2**31)],
    "decimal(38,0)": [f"{sign}{NINES}BD" for sign in ("", "-")] + ["0BD", f"{NINES[:-1]}8BD"],
    "decimal(38,38)": [f"{sign}0.{NINES}BD" for sign in ("", "-")] + ["0BD", f"0.{'0' * 37}1BD"],
    "decimal(20,3)": ["-99999999999999999.999BD", "-0.001BD", "0BD", "12.300BD"],
    "date": [f"date_from_unix_date({each})" for each in DAYS],
    "timestamp": [f"timestamp_micros({each})" for each in MICROS],
    "timestamp_ntz": [f"timestamp_micros({each})" for each in MICROS],
    # What is no UTF-8, decoders refuse.
    "string": [f"X'{each.encode().hex()}'" for each in TEXTS],
    # Without ranges.
    "boolean": ["true", "false"],
    "binary": ["X''", "X'00'", "X'FFFF'"],
    "double": ["'NaN'", "'-Infinity'", "'Infinity'", "-0.0D", "0.0D", "5e-324D"],
    "float": ["'NaN'", "'-Infinity'", "-0.0F", "0.0F"],
}


# Of the others, in CI, a key's are in test_composite_keys and test_generate.
IN_CI: Final = ("bigint", "decimal(38,38)", "timestamp", "string", "double")


@pytest.mark.parametrize(
    "type_name",
    [pytest.param(each, marks=[] if each in IN_CI else [pytest.mark.long]) for each in RANGE_OF],
)
def test_no_value_of_a_type_is_lost_by_its_ranges(session: LakeSession, type_name: str) -> None:
    """Iceberg passes over files without any of the keys, and over none with one."""
    values = RANGE_OF[type_name]
    rows = ", ".join(
        f"({number}, cast({each} as {type_name}))" for number, each in enumerate(values)
    )
    session.sql(
        f"create or replace temporary view all_keys as select * from values {rows} as (n, k)"
    )
    session.sql(
        "create or replace table gold.all_keys using iceberg as"
        f" select /*+ repartition_by_range({len(values)}, k) */ * from all_keys"
    )
    chance = random.Random(type_name)
    subsets = [[number] for number in range(len(values))]
    subsets += [chance.sample(range(len(values)), chance.randint(2, len(values))) for _ in range(5)]
    for chosen in subsets:
        session.arguments.clear()
        wanted = ", ".join(map(str, chosen))
        session.evaluate("small", f"select * from all_keys where n in ({wanted})")
        near = hold(session, "whole", "k") or "true"
        found = session.sql(f"select n from gold.all_keys where {near}").collect()
        assert {*chosen} <= {row.n for row in found}, near
        if near != "true" and len(chosen) == 1:
            assert [row.n for row in found] == chosen
            (plan,) = session.sql(f"explain select n from gold.all_keys where {near}").collect()
            assert "filters=k IS NOT NULL, k >= " in plan[0] or "k = " in plan[0], plan[0]


def test_a_range_has_no_value_of_its_keys_in_the_statement(session: LakeSession) -> None:
    session.evaluate("small", "select * from values ('it'), ('its'), (null) as rows (`a key`)")
    near = hold(session, "a_name", "`a key`")
    assert near == (
        "`a key` between cast(unhex(:a_name_low_0) as string)"
        " and cast(unhex(:a_name_high_0) as string)"
    )
    assert session.arguments == {"a_name_low_0": b"it".hex(), "a_name_high_0": b"its".hex()}
    assert session.sql(f"select count(*) from small where {near}").collect()[0][0] == 2


@pytest.mark.parametrize("type_name", ["bigint", "decimal(20,3)", "date", "timestamp"])
def test_keys_far_apart_have_ranges_of_their_own(session: LakeSession, type_name: str) -> None:
    """A cluster, a few keys far from it, and one at the end of all."""
    keys = (
        "select id + 5000 as id from range(1000) union all select id * 1000 + 100000 from range(3)"
    )
    keys += " union all select 1000000"
    key = {
        "date": "date_from_unix_date(cast(id as int))",
        "timestamp": "timestamp_micros(id)",
    }.get(type_name, f"cast(id as {type_name})")
    session.evaluate("small", f"select {key} as id from ({keys})")
    assert hold(session, "far", "id").count("between") == 3
    bounds = [int(float(str(end))) for end in session.arguments.values()]
    assert bounds == [5000, 5999, 100_000, 102_000, 1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        ("select pmod(xxhash64(id), 1000000) as id from range(5000)", 1),
        ("select id * id * 1000 as id from range(30)", 8),
    ],
    ids=["everywhere", "in many places"],
)
def test_all_keys_are_in_few_ranges(session: LakeSession, keys: str, most: int) -> None:
    number = session.evaluate("small", keys)
    near = hold(session, "many", "id")
    assert near.count("between") == most
    count = f"select count(*) from small where {near}"
    assert session.sql(count).collect()[0][0] == number


def test_a_type_without_a_range(session: LakeSession) -> None:
    for value in ("true", "array(1)", "1.5d", "cast('a' as binary)"):
        session.evaluate("small", f"select {value} as id")
        assert not hold(session, "other", "id")
    assert session.arguments == {}


@pytest.mark.parametrize(
    ("key", "least", "greatest"),
    [
        ("id", "105", "111"),
        ("cast(id as decimal(20, 3))", "105.000", "111.000"),
        ("cast(id as string)", "'105'", "'111'"),
        ("date_from_unix_date(cast(id as int))", "105", "111"),
        ("timestamp_micros(id)", "105", "111"),
    ],
    ids=["bigint", "decimal", "string", "date", "timestamp"],
)
def test_a_merge_hands_the_range_to_iceberg(
    session: LakeSession, key: str, least: str, greatest: str
) -> None:
    session.sql(
        "create or replace table gold.wide using iceberg tblproperties"
        " ('write.merge.mode' = 'merge-on-read')"
        f" as select {key} as id, 0 as n from range(100, 110)"
    )
    session.sql(f"insert into gold.wide select {key}, 0 from range(200, 210)")
    session.evaluate("small", f"select {key} as id, 1 as n from range(105, 112)")
    near = hold(session, "wide", "id").replace("id between", "target.id between")
    merge = (
        "merge into gold.wide as target using small as source on target.id = source.id"
        f" and {near}"
        " when matched then update set n = source.n when not matched then insert *"
    )
    plan = session.sql(f"explain {merge}").collect()[0][0]
    assert f"filters=id IS NOT NULL, id >= {least}, id <= {greatest}" in plan
    session.sql(merge)
    rows = session.sql("select n, count(*) from gold.wide group by n order by n").collect()
    assert [tuple(row) for row in rows] == [(0, 15), (1, 7)]


def test_a_key_update_takes_values_from_before_all_deletes_of_its_own(session: LakeSession) -> None:
    """Rows without envelopes name no change, and a tombstone may follow a rewritten delete."""
    key_update = (
        "struct<id: string, change: string, key_before: struct<id: int>, columns: array<string>>"
    )
    deleted = f"from_json('{{\"id\": \"move\"}}', '{key_update}')"
    moved = (
        'from_json(\'{"id": "move", "key_before": {"id": 1}, "columns": ["h"]}\','
        f" '{key_update}')"
    )
    log = ", ".join(
        f"({offset}, {key}, '{operation}', {value}, {unchanged}, {update})"
        for offset, key, operation, value, unchanged, update in (
            (0, 1, "insert", "'long'", "array()", "null"),
            (1, 1, "delete", "null", "array()", deleted),
            (2, 1, "delete", "null", "array()", deleted),
            (3, 2, "insert", "null", "array('h')", moved),
        )
    )
    session.spark.sql(
        f"""
        select
            id, h, _operation, cast(_unchanged_columns as array<string>) as _unchanged_columns,
            _key_update,
            cast(null as array<struct<column: string, text: string>>) as _misfits,
            cast(null as timestamp) as _occurred_at, timestamp '2026-01-01' as _kafka_timestamp,
            named_struct(
                'log_time', timestamp '2026-01-01', 'topic', 't', 'partition', 0,
                'offset', offset, 'event_index', 0
            ) as _position
        from values {log} as log (offset, id, _operation, h, _unchanged_columns, _key_update)
        """
    ).createOrReplaceTempView("moves")
    updates = render("key_updates", log="moves", key=["id"])
    session.spark.sql(updates).createOrReplaceTempView("updates")
    query = render(
        "values_before",
        log="moves",
        key=["id"],
        columns=["h"],
        updates="updates",
        resting="(select _lh_place from updates)",
        order_by_source_time=False,
        several_sources=False,
    )
    (found,) = session.spark.sql(query).collect()
    assert (found["h"]["is_known"], found["h"]["value"]) == (True, "long")
