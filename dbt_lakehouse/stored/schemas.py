"""The registry schemas that landed messages name, read from the lake without Spark."""

from collections.abc import Iterable

from dbt_lakehouse.lake.names import AVRO_SCHEMAS
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of
from python_udfs.debezium.avro import Registered, ids_of, know


def know_landed_schemas(reader: Reader, texts: Iterable[bytes | None]) -> None:
    """Make the lake's schemas that keys and values name known to the decoder in this process."""
    numbers = sorted(ids_of(texts))
    if numbers and AVRO_SCHEMAS in reader.names:
        wanted = ", ".join(map(str, numbers))
        rows = rows_of(
            reader,
            f"select id, kind, texts from {reader.quoted(AVRO_SCHEMAS)} where id in ({wanted})",
        )
        know({number: Registered(kind, tuple(found)) for number, kind, found in rows})
