"""Statements of macros: views that are evaluated once, and ranges of keys that no log may have."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from dbt_common.exceptions import DbtRuntimeError
from lakes import Lake
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dbt_lakehouse.dbt import key_ranges
from dbt_lakehouse.spark import evaluated_views


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    spark = Lake(tmp_path_factory.mktemp("evaluated")).spark
    spark.sql("create table gold.numbers using iceberg as select id from range(10)")
    yield spark
    for view in ("small", "pairs"):
        evaluated_views.drop(spark, view)


def test_a_view_stays_what_it_was_when_its_table_is_written(spark: SparkSession) -> None:
    assert evaluated_views.create(spark, "small", "select * from gold.numbers where id < 5") == 5
    spark.sql("delete from gold.numbers where id < 3")
    assert [row.id for row in spark.sql("select id from small order by id").collect()] == [
        *range(5)
    ]


def test_views_are_dropped_by_how_their_names_begin(spark: SparkSession) -> None:
    names = ("gold__a__keys", "gold__a__states", "gold__b__keys")
    for name in names:
        evaluated_views.create(spark, name, "select 1 as one")
    evaluated_views.drop_all(spark, "gold__a__")
    for name in names[:2]:
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(f"select * from {name}")
    assert spark.sql(f"select one from {names[2]}").collect() == [(1,)]
    evaluated_views.drop_all(spark, names[2])
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"select * from {names[2]}")


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("select nothing from gold.numbers", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] "),
        ("create evaluated view small as select * from none", "[TABLE_OR_VIEW_NOT_FOUND] "),
        ("call lake.system.rollback_to_snapshot('gold.numbers', 1)", "unknown snapshot id: 1"),
        ("select\n1 +", "[PARSE_SYNTAX_ERROR] "),
    ],
)
def test_what_spark_refuses_is_told_without_plans_and_stack_traces(
    spark: SparkSession, statement: str, sentence: str
) -> None:
    with pytest.raises(DbtRuntimeError) as caught:
        evaluated_views.execute(SimpleNamespace(), statement)
    told = str(caught.value)
    assert sentence in told
    assert not any(mark in told for mark in ("Project", "Relation", "\tat ", ".java:"))
    assert ("^^^" in told) == ("PARSE_SYNTAX_ERROR" in told)


def test_a_view_is_a_leaf_to_what_reads_it(spark: SparkSession) -> None:
    evaluated_views.create(spark, "small", "select id, id % 2 as odd from range(4) order by id")
    pairs = "select one.id, other.odd from small as one inner join small as other using (odd)"
    assert evaluated_views.create(spark, "pairs", pairs) == 8
    plan = spark.sql("explain extended select * from pairs").collect()[0][0]
    analyzed = plan.split("== Analyzed Logical Plan ==")[1].split("== Optimized Logical Plan ==")[0]
    assert "InMemoryRelation" in analyzed
    assert "Join" not in analyzed.split("InMemoryRelation")[0]
    joined = spark.sql("select count(*) as rows from pairs inner join small using (id)")
    assert joined.collect()[0]["rows"] == 8


def test_a_name_can_be_used_again_and_is_gone_when_dropped(spark: SparkSession) -> None:
    evaluated_views.create(spark, "small", "select 1 as one")
    assert evaluated_views.create(spark, "small", "select id as other from range(3)") == 3
    assert spark.table("small").columns == ["other"]
    evaluated_views.drop(spark, "small")
    with pytest.raises(AnalysisException):
        spark.table("small").collect()
    evaluated_views.drop(spark, "small")


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
    spark: SparkSession, type_name: str, least: str, greatest: str
) -> None:
    values = f"cast({least} as {type_name})), (cast({greatest} as {type_name})), (null"
    evaluated_views.create(spark, "small", f"select * from values ({values}) as rows (`a key`)")
    ranges = key_ranges.hold_key_ranges(None, "a_name", "small", "`a key`")
    near = " or ".join(
        f"`a key` between :a_name_low_{number} and :a_name_high_{number}"
        for number in range(ranges)
    )
    sql = f"select count(*), min(`a key`), max(`a key`) from small where {near}"
    arguments = key_ranges.arguments_of(sql)
    assert len(arguments) == 2 * ranges > 0
    assert (
        spark.sql(sql, arguments).collect()
        == spark.sql(
            f"select 2, cast({least} as {type_name}), cast({greatest} as {type_name})"
        ).collect()
    )


@pytest.mark.parametrize("type_name", ["bigint", "decimal(20,3)"])
def test_keys_far_apart_have_ranges_of_their_own(spark: SparkSession, type_name: str) -> None:
    """A cluster, a few keys far from it, and one at the end of all."""
    keys = (
        "select id + 5000 as id from range(1000) union all select id * 1000 + 100000 from range(3)"
    )
    keys += " union all select 1000000"
    evaluated_views.create(spark, "small", f"select cast(id as {type_name}) as id from ({keys})")
    ranges = key_ranges.hold_key_ranges(None, "far", "small", "id")
    markers = " ".join(f":far_low_{number} :far_high_{number}" for number in range(ranges))
    bounds = [*map(int, key_ranges.arguments_of(markers).values())]
    assert bounds == [5000, 5999, 100_000, 102_000, 1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        ("select pmod(xxhash64(id), 1000000) as id from range(5000)", 1),
        ("select id * id * 1000 as id from range(30)", 8),
    ],
    ids=["everywhere", "in many places"],
)
def test_all_keys_are_in_few_ranges(spark: SparkSession, keys: str, most: int) -> None:
    number = evaluated_views.create(spark, "small", keys)
    assert key_ranges.hold_key_ranges(None, "many", "small", "id") == most
    near = " or ".join(f"id between :many_low_{each} and :many_high_{each}" for each in range(most))
    count = f"select count(*) from small where {near}"
    assert spark.sql(count, key_ranges.arguments_of(count)).collect()[0][0] == number


def test_a_type_without_a_range(spark: SparkSession) -> None:
    for value in ("true", "array(1)", "1.5d", "cast('a' as binary)"):
        evaluated_views.create(spark, "small", f"select {value} as id")
        assert not key_ranges.hold_key_ranges(None, "other", "small", "id")
    assert key_ranges.arguments_of("select :other_low_0") == {}


@pytest.mark.parametrize(
    ("keys", "ranges"),
    [
        ("select id from range(0)", 1),
        ("select id from range(50000)", 1),
        ("select id from range(1000000)", 20),
        # Many changes of few keys: as many as a task can sort.
        ("select pmod(id, 60000) as id from range(2900000)", 3),
    ],
    ids=["nothing", "little", "many keys", "many changes"],
)
def test_a_first_load_has_ranges_by_its_keys(spark: SparkSession, keys: str, ranges: int) -> None:
    # Else one for each core at least.
    cores = spark.sparkContext.defaultParallelism
    expected = 1 if ranges == 1 else max(ranges, cores)
    assert key_ranges.ranges_to_write(None, f"({keys})", ["id"]) == expected


def test_a_merge_hands_the_range_to_iceberg(spark: SparkSession) -> None:
    spark.sql(
        "create table gold.wide using iceberg tblproperties"
        " ('write.merge.mode' = 'merge-on-read') as select id, 0 as n from range(10)"
    )
    spark.sql("insert into gold.wide select id, 0 from range(100, 110)")
    evaluated_views.create(spark, "small", "select id, 1 as n from range(105, 112)")
    assert key_ranges.hold_key_ranges(None, "wide", "small", "id")
    merge = (
        "merge into gold.wide as target using small as source on target.id = source.id"
        " and target.id between :wide_low_0 and :wide_high_0"
        " when matched then update set n = source.n when not matched then insert *"
    )
    arguments = key_ranges.arguments_of(merge)
    plan = spark.sql(f"explain {merge}", arguments).collect()[0][0]
    assert "filters=id IS NOT NULL, id >= 105, id <= 111" in plan
    spark.sql(merge, arguments)
    rows = spark.sql("select n, count(*), max(id) from gold.wide group by n order by n").collect()
    assert [tuple(row) for row in rows] == [(0, 15, 104), (1, 7, 111)]
