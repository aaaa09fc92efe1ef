"""Views that are evaluated once: what `create evaluated view` promises beside `cache table`."""

from collections.abc import Iterator

import pytest
from lakes import Lake
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dbt_lakehouse import evaluated_views


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
