"""The lake's catalog: its name for Spark, its settings, and what is known of it without Spark."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from dbt_lakehouse.errors import DamageError

CATALOG: Final = "lake"
WAREHOUSE: Final = f"spark.sql.catalog.{CATALOG}.warehouse"
CATALOG_TYPE: Final = f"spark.sql.catalog.{CATALOG}.type"
CATALOG_URI: Final = f"spark.sql.catalog.{CATALOG}.uri"
SQLITE: Final = "jdbc:sqlite:"


def sqlite_file(uri: str) -> Path | None:
    """The file of a SQLite catalog by its address; None for another catalog."""
    if not uri.startswith(SQLITE):
        return None
    return Path(uri.removeprefix(SQLITE).partition("?")[0])


def refuse_damage(uri: str, schema: str, table: str) -> None:
    """Raises ``DamageError`` if the table's metadata is cut short, as after a crash of the machine.

    Iceberg takes that for a passing trouble of the network and tries for a minute and a half. It
    can be told for files on this machine, of a SQLite catalog.
    """
    catalog = sqlite_file(uri)
    if catalog is None or not catalog.exists():
        return
    query = (
        "select metadata_location from iceberg_tables"
        " where catalog_name = ? and table_namespace = ? and table_name = ?"
    )
    try:
        with closing(sqlite3.connect(f"{catalog.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(query, (CATALOG, schema, table)).fetchone()
    except sqlite3.Error:
        # Iceberg says more of it.
        return
    location = urlsplit(found[0]) if found else None
    if location is None or location.scheme not in ("", "file"):
        return
    file = Path(unquote(location.path))
    if file.suffix == ".json" and file.exists() and not _ends_an_object(file):
        raise DamageError(
            f"{file} is cut short, a file of {schema}.{table}: restore it from a backup"
        )


def _ends_an_object(file: Path) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 16))
        return stream.read().rstrip().endswith(b"}")
