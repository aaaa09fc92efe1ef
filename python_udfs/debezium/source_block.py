"""An envelope's ``source``: the table of a change, and its time.

- The database, schema and table are the first of ``DATABASES``, ``SCHEMAS`` and ``TABLES`` that
  have a value: Lindorm's schema is ``namespace``, Vitess's and Cassandra's ``keyspace``;
  CockroachDB and ScyllaDB have ``table_name`` and the like. The table of MongoDB is the
  ``collection``.
- Empty text means null, and so does ``NULL``, the database of Cassandra's connector.
- A source without ``ts_ms`` changed the row at its ``ts_ns`` (CockroachDB).
"""

from collections.abc import Sequence
from typing import Any, Final

from python_udfs.core.errors import BadField
from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS
from python_udfs.debezium import cells
from python_udfs.text.json_as_sent import is_number, kind_of, shown

DATABASES: Final = ("db", "database_name")
SCHEMAS: Final = ("schema", "namespace", "keyspace", "schema_name", "keyspace_name")
TABLES: Final = ("table", "table_name")
COLLECTION: Final = "collection"
"""Fields of a source block that identify the table. A collection is that of a document."""

# MySQL has databases and no schemas; Arcion ships the field, null.
_WITHOUT_SCHEMAS: Final = frozenset({"mysql", "mariadb"})


def location(root: str, source: Any) -> tuple[str | None, str | None, str | None, int | None]:
    """Database, schema and table of a source block, and the time at which the source changed the
    row.

    ``root`` is the path of its parent. Raises ``BadField``.
    """
    if type(source) is not dict:
        if source is None:
            return None, None, None, None
        raise BadField(f"{root}.source: expected an object or null, got {kind_of(source)}")
    where = f"{root}.source"
    connector = (text_of(where, source, "connector") or "").lower()
    database, schema_name, table = (
        _first_text(where, source, names) for names in (DATABASES, SCHEMAS, TABLES)
    )
    if COLLECTION in source and "table" not in source:
        table = text_of(where, source, COLLECTION)
    if connector in _WITHOUT_SCHEMAS:
        schema_name = None
    if connector == cells.CASSANDRA and database == cells.NO_DATABASE:
        database = None
    if "ts_ms" in source or type(source.get("ts_ns")) is not int:
        milliseconds = milliseconds_of(f"{where}.ts_ms", source.get("ts_ms"))
    else:
        milliseconds = source["ts_ns"] // 1_000_000
    if not milliseconds or not MIN_TIME_MS <= milliseconds <= MAX_TIME_MS:
        milliseconds = None
    return database, schema_name, table, milliseconds


def _first_text(where: str, fields: dict[str, Any], names: Sequence[str]) -> str | None:
    """The first of the fields with a text."""
    texts = [text_of(where, fields, name) for name in names if name in fields]
    return next(filter(None, texts), None)


def text_of(where: str, fields: dict[str, Any], name: str) -> str | None:
    """A text field; None for null and empty text. Raises ``BadField``."""
    value = fields.get(name)
    if type(value) is str:
        return value or None
    if value is None:
        return None
    raise BadField(f"{where}.{name}: expected a string or null, got {kind_of(value)}")


def milliseconds_of(where: str, value: Any) -> int | None:
    """An integer, also as text or as a number without a fraction; None for null."""
    if type(value) is int or value is None:
        return value
    text = value if type(value) is str else bytes(value).decode() if is_number(value) else ""
    digits = text.removeprefix("-")
    if type(value) is not str:
        digits = digits.removesuffix(".0")
    if digits.isdecimal() and digits.isascii() and len(digits) < 20:
        return -int(digits) if text.startswith("-") else int(digits)
    raise BadField(f"{where}: expected milliseconds, got {kind_of(value)} {shown(text)}".rstrip())
