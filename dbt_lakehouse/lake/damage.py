"""Tables whose metadata is cut short, as after a crash of the machine.

Iceberg takes that for a passing trouble of the network: it tries for a minute and a half to read
the table, and no setting says otherwise. So metadata is looked at when the lake is opened, and who
asks for such a table is told at once. It can be told of files of this machine, where a JDBC catalog
says which they are; an object store writes a file whole or not at all.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import DamageError
from dbt_lakehouse.lake.catalog import CATALOG, CATALOG_TYPE, CATALOG_URI, SQLITE, WAREHOUSE
from dbt_lakehouse.telling import tell

_JDBC: Final = f"spark.sql.catalog.{CATALOG}.jdbc."
_LOCATIONS: Final = (
    "select table_namespace, table_name, metadata_location from iceberg_tables"
    f" where catalog_name = '{CATALOG}'"
)
# What a parsed statement names, as Spark prints it. To drop or to replace a table, Iceberg reads it
# too.
_NAMED: Final = re.compile(r"Unresolved\w+ \[([^\]]+)\]")

# What was found when the lake was opened, by schema and table. Mostly there is none, and then
# nobody looks again.
_found: Final[dict[tuple[str, str], DamageError]] = {}


def look_for_damage(spark: SparkSession) -> None:
    """Look at the metadata of all tables, and tell what is cut short."""
    _found.clear()
    _found.update(_cut_short(spark))
    for error in _found.values():
        tell(str(error))


def refuse_damage(spark: SparkSession, name: str) -> None:
    """Raises ``DamageError`` if the table (``schema.table``, or with the catalog in front) is cut
    short, and was so when the lake was opened.
    """
    schema, table = name.replace("`", "").split(".")[-2:]
    if (schema, table) in _found and (error := _cut_short(spark).get((schema, table))):
        raise error


def refuse_damage_in(spark: SparkSession, statement: str) -> None:
    """``refuse_damage`` for each table that a statement names."""
    if not _found:
        return
    session: Any = spark._jsparkSession
    plan = session.sessionState().sqlParser().parsePlan(statement).toString()
    for name in _NAMED.findall(plan):
        if len(parts := name.split(", ")) > 1:
            refuse_damage(spark, ".".join(parts))


def _cut_short(spark: SparkSession) -> dict[tuple[str, str], DamageError]:
    damage = {}
    for schema, table, location in _locations(spark):
        file = Path(unquote(urlsplit(location).path))
        # One that is missing is told by Iceberg at once. Compressed ones have other ends.
        if file.suffix == ".json" and ".gz." not in file.name and file.exists():
            if not _ends_an_object(file):
                damage[schema, table] = DamageError(
                    f"{file} is cut short, a file of {schema}.{table}: restore it from a backup"
                )
    return damage


def _locations(spark: SparkSession) -> Iterator[tuple[str, str, str]]:
    """Schema, table and metadata of each table whose metadata is a file of this machine."""
    settings = {name: spark.conf.get(name, "") or "" for name in (CATALOG_TYPE, CATALOG_URI)}
    is_local = urlsplit(spark.conf.get(WAREHOUSE, "") or "").scheme in ("", "file")
    if settings[CATALOG_TYPE] != "jdbc" or not is_local:
        return
    uri = settings[CATALOG_URI]
    rows = _sqlite_rows(uri) if uri.startswith(SQLITE) else _jdbc_rows(spark, uri)
    for schema, table, location in rows:
        if urlsplit(location).scheme in ("", "file"):
            yield schema, table, location


def _sqlite_rows(uri: str) -> list[tuple[str, str, str]]:
    catalog = Path(uri.removeprefix(SQLITE).partition("?")[0])
    try:
        with closing(sqlite3.connect(f"{catalog.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(_LOCATIONS).fetchall()
    except sqlite3.Error:
        # A new lake, or Iceberg says more of it.
        return []


def _jdbc_rows(spark: SparkSession, uri: str) -> list[tuple[str, str, str]]:
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name, value in spark.sparkContext.getConf().getAll():
        if name.startswith(_JDBC):
            properties.setProperty(name.removeprefix(_JDBC), value)
    try:
        with closing(jvm.java.sql.DriverManager.getConnection(uri, properties)) as there:
            found = there.createStatement().executeQuery(_LOCATIONS)
            rows = []
            while found.next():
                rows.append((found.getString(1), found.getString(2), found.getString(3)))
            return rows
    except Py4JJavaError:
        return []


def _ends_an_object(file: Path) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 16))
        return stream.read().rstrip().endswith(b"}")
