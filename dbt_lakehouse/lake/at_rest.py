"""Read a lake's tables without Spark, from its catalog and their metadata files, for commands
that run no SQL.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dbt_lakehouse.errors import ConfigurationError, NoLakeError, ReadError
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.lake.catalog import Entry, entries
from dbt_lakehouse.lake.metadata_files import metadata_of
from dbt_lakehouse.lake.tables import Table, parse

# Iceberg's primitive types by Spark's names; only Spark knows others, such as variant.
_TYPES: Final = {
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
    "double": "double",
    "float": "float",
    "int": "int",
    "long": "bigint",
    "string": "string",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
}
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")


class TablesAtRest:
    """The tables and views that a catalog had when it was read."""

    def __init__(self, found: Sequence[Entry]) -> None:
        self._found: Final = {str(entry): entry for entry in found}
        self._tables: Final[dict[str, Table]] = {}

    def in_schema(self, schema: str) -> list[Entry]:
        """The tables and views of a schema."""
        return [entry for entry in self._found.values() if entry.schema == schema]

    @staticmethod
    def can_tell(name: str) -> bool:
        """Whether a name has the form ``schema.table``. Only Spark knows temporary views,
        metadata tables and tables of other catalogs.
        """
        return _plain(name).count(".") == 1

    def look_at(self, name: str) -> Table | None:
        """The table of this name (``schema.table``), None if it does not exist.

        Raises ``ReadError`` and ``DamageError``.
        """
        name = _plain(name)
        entry = self._found.get(name)
        if entry is None or entry.is_view:
            return None
        if name not in self._tables:
            self._tables[name] = parse(_metadata(entry).decode())
        return self._tables[name]

    def columns_of(self, name: str) -> dict[str, str] | None:
        """The columns of a table with their types as Spark writes them, empty if there is no such
        table; None if only Spark knows: for a view, or a type that is not in ``_TYPES``.

        Raises ``ReadError`` and ``DamageError``.
        """
        entry = self._found.get(_plain(name))
        if entry is None:
            return {}
        if entry.is_view:
            return None
        read = msgspec.json.decode(_metadata(entry), type=_Schemas)
        (fields,) = (
            each.fields for each in read.schemas if each.schema_id == read.current_schema_id
        )
        try:
            return {field["name"]: _spark_type(field["type"]) for field in fields}
        except KeyError:
            return None


class _Schema(msgspec.Struct, frozen=True, rename="kebab"):
    fields: list[dict[str, Any]]
    schema_id: int = 0


class _Schemas(msgspec.Struct, frozen=True, rename="kebab"):
    """The schemas in a "Table Metadata" file of the Iceberg specification."""

    schemas: list[_Schema]
    current_schema_id: int = 0


def tables_at_rest(settings: Mapping[str, str]) -> TablesAtRest | None:
    """The tables of the lake with these settings, whose paths are absolute; empty if there is no
    lake yet. None if only Spark can read the lake or report its error.

    Raises ``DamageError``.
    """
    try:
        found = entries(settings)
    except NoLakeError:
        return TablesAtRest([])
    except (ConfigurationError, ReadError):
        return None
    if any(path_of(entry.metadata) is None for entry in found):
        return None
    return TablesAtRest(found)


def _plain(name: str) -> str:
    """A name as the catalog has it, without the backticks of SQL."""
    return name.replace("`", "")


def _metadata(entry: Entry) -> bytes:
    return metadata_of(entry, lambda file: Path(file).read_bytes())


def _spark_type(given: Any) -> str:
    """Spark's name of an Iceberg type. Raises ``KeyError`` for an unknown type."""
    if isinstance(given, str):
        if is_decimal := _DECIMAL.fullmatch(given):
            return f"decimal({is_decimal[1]},{is_decimal[2]})"
        return "binary" if given.startswith("fixed[") else _TYPES[given]
    match given["type"]:
        case "list":
            return f"array<{_spark_type(given['element'])}>"
        case "map":
            return f"map<{_spark_type(given['key'])},{_spark_type(given['value'])}>"
        case _:
            fields = (f"{each['name']}:{_spark_type(each['type'])}" for each in given["fields"])
            return f"struct<{','.join(fields)}>"
