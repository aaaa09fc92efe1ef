"""Tables as the catalog and metadata files describe them, where no Spark is asked."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dbt_lakehouse.config.topics import has_doubtful_patterns, unlisted_topics
from dbt_lakehouse.errors import DamageError, ReadError
from dbt_lakehouse.lake.at_rest import TablesAtRest, tables_at_rest
from dbt_lakehouse.lake.catalog import CATALOG_TYPE, CATALOG_URI, WAREHOUSE, Entry


def metadata(kind: Any) -> bytes:
    """That of a table whose schema was another one before."""
    fields = [{"id": 1, "name": "value", "required": False, "type": kind}]
    return json.dumps(
        {
            "format-version": 3,
            "table-uuid": "uuid",
            "schemas": [
                {"schema-id": 0, "fields": [{"id": 1, "name": "value", "type": "int"}]},
                {"schema-id": 1, "fields": fields},
            ],
            "current-schema-id": 1,
        }
    ).encode()


def at_rest(file: Path, content: bytes | None, *, is_view: bool = False) -> TablesAtRest:
    """The lake of one table, ``gold.one``, whose metadata file has this content, None for none."""
    if content is not None:
        file.write_bytes(content)
    return TablesAtRest([Entry("gold", "one", f"file:{file}", is_view)])


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("long", "bigint"),
        ("timestamptz", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(38, 9)", "decimal(38,9)"),
        ("fixed[16]", "binary"),
        ({"type": "list", "element-id": 2, "element": "string"}, "array<string>"),
        (
            {
                "type": "map",
                "key": "string",
                "value": {"type": "struct", "fields": [{"name": "x", "type": "double"}]},
            },
            "map<string,struct<x:double>>",
        ),
    ],
)
def test_a_column_has_the_type_that_spark_calls_it_by(
    tmp_path: Path, kind: Any, shown: str
) -> None:
    table = at_rest(tmp_path / "1.metadata.json", metadata(kind))
    assert table.columns_of("gold.one") == {"value": shown}


def test_a_type_that_only_spark_knows_is_left_to_it(tmp_path: Path) -> None:
    nested = {"type": "list", "element-id": 2, "element": "variant"}
    assert at_rest(tmp_path / "1.metadata.json", metadata(nested)).columns_of("gold.one") is None


def test_a_view_is_left_to_spark(tmp_path: Path) -> None:
    view = at_rest(tmp_path / "1.metadata.json", None, is_view=True)
    assert view.columns_of("gold.one") is None
    assert view.look_at("gold.one") is None
    assert [str(each) for each in view.in_schema("gold")] == ["gold.one"]


def test_a_table_that_is_not_there_has_no_columns(tmp_path: Path) -> None:
    tables = at_rest(tmp_path / "1.metadata.json", metadata("int"))
    assert (tables.columns_of("gold.two"), tables.look_at("gold.two")) == ({}, None)
    assert tables.in_schema("silver") == []


def test_compressed_metadata_is_read(tmp_path: Path) -> None:
    file = tmp_path / "1.gz.metadata.json"
    found = at_rest(file, gzip.compress(metadata("int"))).look_at("gold.one")
    assert found is not None and found.uuid == "uuid"


@pytest.mark.parametrize(
    ("content", "error", "told"),
    [(b'{"table-uu', DamageError, "is cut short"), (None, ReadError, "can't be read")],
)
def test_metadata_that_can_not_be_read_is_told_by_its_file(
    tmp_path: Path, content: bytes | None, error: type[Exception], told: str
) -> None:
    file = tmp_path / "1.metadata.json"
    with pytest.raises(error, match=rf"1\.metadata\.json.* gold\.one.*{told}|{told}"):
        at_rest(file, content).look_at("gold.one")


def test_where_no_lake_is_there_are_no_tables(tmp_path: Path) -> None:
    tables = tables_at_rest(
        {
            CATALOG_TYPE: "jdbc",
            CATALOG_URI: f"jdbc:sqlite:{tmp_path}/catalog.db",
            WAREHOUSE: f"file://{tmp_path}/warehouse",
        }
    )
    assert tables is not None and tables.in_schema("gold") == []
    assert not any(tmp_path.iterdir())


def test_a_catalog_that_only_spark_reads_is_left_to_it() -> None:
    assert tables_at_rest({CATALOG_TYPE: "hive", CATALOG_URI: "thrift://host:9083"}) is None


@pytest.mark.parametrize(
    ("pattern", "is_doubtful"),
    [("shop[.].*", False), ("*bad", True), (r"\p{Alpha}+", True), ("a{99999999999}", True)],
)
def test_java_is_asked_of_a_pattern_that_python_does_not_know(
    pattern: str, is_doubtful: bool
) -> None:
    given = [{"topic": "other", "format": "debezium_json"}]
    given.append({"pattern": pattern, "format": "debezium_json"})
    assert has_doubtful_patterns(given) is is_doubtful


def test_topics_that_no_entry_matches() -> None:
    given = [
        {"topic": "renamed", "format": "debezium_json", "land_as": "renamed.2"},
        {"pattern": "shop[.].*", "format": "debezium_json"},
    ]
    topics = ["renamed", "renamed.2", "shop.orders", "my.shop.orders", "left"]
    assert unlisted_topics(given, topics) == ["my.shop.orders", "left"]
    assert unlisted_topics([], ["left"]) == ["left"]
    only_java = {"pattern": r"\p{Alpha}+", "format": "debezium_json"}
    assert unlisted_topics([only_java], ["left"]) == []


def test_names_are_those_of_sql() -> None:
    tables = TablesAtRest([Entry("ext", "my-table", "/nowhere", is_view=True)])

    assert tables.columns_of("ext.`my-table`") is None
    assert tables.columns_of("`ext`.`other`") == {}
    told = {name: tables.can_tell(name) for name in ("ext.`a`", "view", "gold.x.snapshots")}
    assert told == {"ext.`a`": True, "view": False, "gold.x.snapshots": False}
