"""``bronze.forgotten``: one row per request to forget, without personal data, not even a hash.

It is not a dbt model, so no full refresh can drop it.
"""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.forget.entities import BuiltTable
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.names import FORGOTTEN

if TYPE_CHECKING:
    from dbt_lakehouse.commands.forget.finding import Found

TABLE: Final = f"{CATALOG}.{FORGOTTEN}"


def create_table(spark: SparkSession) -> None:
    """Create the table if it is missing."""
    spark.sql(
        f"""
        create table if not exists {TABLE} (
            request_id string not null comment 'identifies the request',
            requested_at timestamp not null comment 'when it began',
            table_name string not null comment 'the table that was named',
            keys int not null comment 'how many keys were given',
            linked_keys int not null comment 'how many more updates of the key connect with them',
            payloads bigint not null comment 'messages that had data of them',
            records bigint not null comment 'changes in these messages that were theirs',
            table_rows map<string, bigint> not null comment 'rows, by table',
            forgotten_at timestamp comment 'when the last of them was out of the tables',
            purged_at timestamp comment 'when they were out of the files too'
        )
        using iceberg
        comment 'One row per request to forget keys, without personal data'
        """
    )


def begin(spark: SparkSession, table: str, found: "Found", rows: Mapping[str, int]) -> str:
    """Record a request before its work begins. Returns its id."""
    request_id = str(uuid.uuid4())
    entries = ", ".join(f"'{name}', cast({count} as bigint)" for name, count in rows.items())
    spark.sql(
        f"insert into {TABLE} values ('{request_id}', current_timestamp(), '{table}', {found.keys},"
        f" {found.linked_keys}, {found.payloads}, {found.records}, map({entries}), null, null)"
    )
    return request_id


def forgotten(spark: SparkSession, request_id: str) -> None:
    """Record that a request is done."""
    _stamp(spark, "forgotten_at", f"request_id = '{request_id}'")


def has_broken_off(spark: SparkSession) -> bool:
    """Whether any request was begun and not finished."""
    return not spark.sql(f"select 1 from {TABLE} where forgotten_at is null limit 1").isEmpty()


def unpurged(spark: SparkSession) -> list[BuiltTable]:
    """The tables whose files and snapshots may hold forgotten data."""
    rows = spark.sql(
        f"select distinct explode(map_keys(table_rows)) as name from {TABLE}"
        " where purged_at is null"
    ).collect()
    return [BuiltTable(*row["name"].split(".", 1)) for row in sorted(rows)]


def purged(spark: SparkSession) -> None:
    """Record that all requests are purged."""
    _stamp(spark, "purged_at", "purged_at is null")


def _stamp(spark: SparkSession, column: str, condition: str) -> None:
    spark.sql(f"update {TABLE} set {column} = current_timestamp() where {condition}")
