"""``bronze.avro_schemas``: the registry schemas that landed messages name, by id.

They are kept beside the messages, so that a lake can be decoded again years later without the
registry. A run finds the schemas of its new messages before it decodes them, and passes them to
the decoding function, which Spark ships to its workers.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.names import AVRO_SCHEMAS
from dbt_lakehouse.lake.schema_registry import configured, find_schemas
from python_udfs.debezium.avro import Registered

TABLE: Final = f"{CATALOG}.{AVRO_SCHEMAS}"
_COLUMNS: Final = (
    "id int not null comment 'what messages name it by',"
    " kind string not null comment 'AVRO, PROTOBUF or JSON',"
    " texts array<string> not null comment 'the schema last, before it those that it refers to',"
    " registry string comment 'where it was found',"
    " found_at timestamp not null comment 'when it was found'"
)


def ids_in(texts: str) -> str:
    """SQL for the ids that framed keys and values name. ``texts`` is the relation to select from,
    with a column ``text``.
    """
    return (
        "select distinct cast(conv(hex(substring(text, 2, 4)), 16, 10) as bigint) as id"
        f" from {texts} where length(text) >= 5 and substring(text, 1, 1) = X'00'"
    )


def schemas_of(spark: SparkSession, numbers: Collection[int]) -> dict[int, Registered | None]:
    """The schemas of these ids. Schemas that the lake lacks come from the registry and are kept;
    None for an unknown id.

    Raises ``RegistryError`` and ``ConfigurationError``.
    """
    known = _kept(spark, numbers)
    missing = sorted(set(numbers) - known.keys())
    if not missing:
        return known
    found = find_schemas(missing)
    registry = configured()
    # No registry knows an id from four damaged bytes.
    new = {number: each for number, each in found.items() if each is not None}
    keep(spark, new, registry.name if registry else None)
    return known | found


def kept_schemas(spark: SparkSession) -> dict[int, Registered | None]:
    """All schemas that the lake keeps; no registry is asked."""
    return _kept(spark, None)


def keep(spark: SparkSession, found: Mapping[int, Registered], registry: str | None) -> None:
    """Write schemas that the lake lacks, with the registry that they come from."""
    if not found:
        return
    now = datetime.now(UTC)
    rows = [(number, each.kind, list(each.texts), registry, now) for number, each in found.items()]
    spark.sql(
        f"create table if not exists {TABLE} ({_COLUMNS}) using iceberg"
        " comment 'One row per schema of a schema registry that messages name'"
    )
    columns = "id int, kind string, texts array<string>, registry string, found_at timestamp"
    spark.createDataFrame(rows, columns).writeTo(TABLE).append()


def _kept(spark: SparkSession, numbers: Collection[int] | None) -> dict[int, Registered | None]:
    """The kept schemas of these ids; all for None."""
    if (numbers is not None and not numbers) or not spark.catalog.tableExists(TABLE):
        return {}
    where = "" if numbers is None else f" where id in ({', '.join(map(str, numbers))})"
    rows = spark.sql(f"select id, kind, texts from {TABLE}{where}").collect()
    return {row.id: Registered(row.kind, tuple(row.texts)) for row in rows}
