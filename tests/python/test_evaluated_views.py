"""Statements of macros: views that are evaluated once, and ranges of keys that no log may have."""

from collections.abc import Iterator

import pytest
from lakes import Lake
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from dbt_lakehouse.dbt import tables
from dbt_lakehouse.dbt.key_ranges import arguments_of, key_ranges
from dbt_lakehouse.spark.java_errors import statement_error_text
from dbt_lakehouse.spark.session import opened_sessions
from dbt_lakehouse.spark.sessions import LakeSession


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


def hold(session: LakeSession, name: str, column: str) -> int:
    """Hold the ranges of a column of the view `small`, as the adapter does; how many."""
    ranges = key_ranges(session.spark, "small", column, session.views.rows("small"))
    session.arguments.update(arguments_of(name, ranges))
    return len(ranges)


def test_a_view_stays_what_it_was_when_its_table_is_written(session: LakeSession) -> None:
    assert session.evaluate("small", "select * from gold.numbers where id < 5") == 5
    session.sql("delete from gold.numbers where id < 3")
    assert [row.id for row in session.sql("select id from small order by id").collect()] == [
        *range(5)
    ]


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
        assert session.sql("select json_elements('[1]')").collect()[0][0] == ["1"]
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
    ("type_name", "least", "greatest"),
    [
        ("int", "-5", "7"),
        ("bigint", "-9223372036854775808", "9223372036854775807"),
        ("string", "''", "'it''s'"),
        ("date", "date '1582-10-01'", "date '2026-02-28'"),
        ("timestamp", "timestamp '1969-12-31 23:59:59.999999'", "timestamp '2026-03-29 02:30:00'"),
        ("decimal(38,10)", "-0.5", "1234567890123456789012345678.0123456789"),
    ],
)
def test_a_range_of_keys_is_beside_the_statement(
    session: LakeSession, type_name: str, least: str, greatest: str
) -> None:
    values = f"cast({least} as {type_name})), (cast({greatest} as {type_name})), (null"
    session.evaluate("small", f"select * from values ({values}) as rows (`a key`)")
    ranges = hold(session, "a_name", "`a key`")
    near = " or ".join(
        f"`a key` between :a_name_low_{number} and :a_name_high_{number}"
        for number in range(ranges)
    )
    sql = f"select count(*), min(`a key`), max(`a key`) from small where {near}"
    assert len(session.arguments) == 2 * ranges > 0
    assert (
        session.sql(sql).collect()
        == session.sql(
            f"select 2, cast({least} as {type_name}), cast({greatest} as {type_name})"
        ).collect()
    )


@pytest.mark.parametrize("type_name", ["bigint", "decimal(20,3)"])
def test_keys_far_apart_have_ranges_of_their_own(session: LakeSession, type_name: str) -> None:
    """A cluster, a few keys far from it, and one at the end of all."""
    keys = (
        "select id + 5000 as id from range(1000) union all select id * 1000 + 100000 from range(3)"
    )
    keys += " union all select 1000000"
    session.evaluate("small", f"select cast(id as {type_name}) as id from ({keys})")
    assert hold(session, "far", "id") == 3
    bounds = [*map(int, session.arguments.values())]
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
    assert hold(session, "many", "id") == most
    near = " or ".join(f"id between :many_low_{each} and :many_high_{each}" for each in range(most))
    count = f"select count(*) from small where {near}"
    assert session.sql(count).collect()[0][0] == number


def test_a_type_without_a_range(session: LakeSession) -> None:
    for value in ("true", "array(1)", "1.5d", "cast('a' as binary)"):
        session.evaluate("small", f"select {value} as id")
        assert not hold(session, "other", "id")
    assert session.arguments == {}


def test_a_merge_hands_the_range_to_iceberg(session: LakeSession) -> None:
    session.sql(
        "create table gold.wide using iceberg tblproperties"
        " ('write.merge.mode' = 'merge-on-read') as select id, 0 as n from range(10)"
    )
    session.sql("insert into gold.wide select id, 0 from range(100, 110)")
    session.evaluate("small", "select id, 1 as n from range(105, 112)")
    assert hold(session, "wide", "id")
    merge = (
        "merge into gold.wide as target using small as source on target.id = source.id"
        " and target.id between :wide_low_0 and :wide_high_0"
        " when matched then update set n = source.n when not matched then insert *"
    )
    plan = session.sql(f"explain {merge}").collect()[0][0]
    assert "filters=id IS NOT NULL, id >= 105, id <= 111" in plan
    session.sql(merge)
    rows = session.sql("select n, count(*), max(id) from gold.wide group by n order by n").collect()
    assert [tuple(row) for row in rows] == [(0, 15, 104), (1, 7, 111)]
