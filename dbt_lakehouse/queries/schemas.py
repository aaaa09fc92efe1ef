"""The registry schemas that the lake keeps, read without Spark."""

from collections.abc import Collection

from dbt_lakehouse.lake.names import AVRO_SCHEMAS
from dbt_lakehouse.lake.reader import Reader
from python_udfs.debezium.avro import Registered, know


def know_kept_schemas(reader: Reader, numbers: Collection[int] | None = None) -> None:
    """Make the schemas of these ids, or all, known to the decoders in this process."""
    if numbers == set() or AVRO_SCHEMAS not in reader.names:
        return
    where = "" if numbers is None else f" where id in ({', '.join(map(str, sorted(numbers)))})"
    query = f"select id, kind, texts from {reader.quoted(AVRO_SCHEMAS)}{where}"
    with reader.explained():
        rows = reader.query(query).fetchall()
    know({number: Registered(kind, tuple(texts)) for number, kind, texts in rows})
