"""The lake's catalog: its name for Spark, and its settings."""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from dbt_lakehouse.errors import (
    ConfigurationError,
    DamageError,
    NoLakeError,
    ReadError,
    WriteError,
)
from dbt_lakehouse.extras import require
from dbt_lakehouse.http import parsed
from dbt_lakehouse.lake import wholeness
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.lake.integrity import damage_of
from dbt_lakehouse.redaction import know_secrets

CATALOG: Final = "lake"
_PROPERTIES: Final = f"spark.sql.catalog.{CATALOG}."
WAREHOUSE: Final = f"{_PROPERTIES}warehouse"
CATALOG_TYPE: Final = f"{_PROPERTIES}type"
CATALOG_URI: Final = f"{_PROPERTIES}uri"
FILE_IO: Final = f"{_PROPERTIES}io-impl"
SQLITE: Final = "jdbc:sqlite:"
_POSTGRESQL: Final = "jdbc:postgresql:"
_HOST: Final = r"(?:[^\s\[\]/:?#@,]*|\[[0-9A-Fa-f:.%]+\])(?::\d{1,5})?"
_OF_POSTGRESQL: Final = re.compile(
    rf"{_POSTGRESQL}(?://{_HOST}(?:,{_HOST})*)?(?:/?[^\s/:?#@]*)(?:\?(?:[\w.-]+=[^&]*(?:&|\Z))*)?"
)
_JDBC: Final = "jdbc."
S3: Final = "s3://"
# Chooses the file IO by each file's address: a lake that was moved has files of both kinds.
_ANY_STORAGE: Final = "org.apache.iceberg.io.ResolvingFileIO"
# The suffix of dbt's temporary tables.
_TEMPORARY: Final = "__dbt_tmp"
# SQLite's error names for missing rights.
_NO_RIGHTS: Final = ("SQLITE_CANTOPEN", "SQLITE_READONLY")
# The same options, as Java's driver and PostgreSQL's own library call them.
_CONNECTION_OPTIONS: Final = frozenset(
    {"user", "password", "options", "sslmode", "sslcert", "sslkey", "sslrootcert"}
)
CLOSED: Final = "lakehouse.closed"
"""A property of the schema ``bronze``: why this catalog is closed (``lake.moved_catalog``)."""
# Of Iceberg's JDBC catalog.
_NOTES: Final = (
    "select property_key, property_value from iceberg_namespace_properties"
    f" where catalog_name = '{CATALOG}' and namespace = 'bronze'"
)
_ENTRIES: Final = (
    "select table_namespace, table_name, metadata_location, iceberg_type from iceberg_tables"
    f" where catalog_name = '{CATALOG}' order by table_namespace, table_name"
)


_Row = tuple[str, str, str, str]
"""A table or view: schema, name, address of its metadata, ``TABLE`` or ``VIEW``."""


class Contents(NamedTuple):
    """The contents of a catalog."""

    notes: dict[str, str]
    """The properties of its schema ``bronze``; empty in a catalog without a lake."""
    entries: "list[Entry]"


class Entry(NamedTuple):
    """A table or view in the lake's catalog."""

    schema: str
    name: str
    metadata: str
    """The address of its current metadata file."""
    is_view: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def absolute(parameters: Mapping[str, str], root: Path) -> dict[str, str]:
    """The profile's parameters, with the lake's relative paths made absolute by ``root``.

    Raises ``ConfigurationError``.
    """
    if WAREHOUSE not in parameters:
        raise ConfigurationError(
            f"the profile's server_side_parameters lack {WAREHOUSE}: see profiles/profiles.yml"
        )
    settings = {name: str(value) for name, value in parameters.items()}
    # A REST catalog's warehouse is a name that the server knows.
    if settings.get(CATALOG_TYPE) == "jdbc" and "://" not in settings[WAREHOUSE]:
        # Not as_uri: Hadoop would read %20 as part of a folder's name.
        settings[WAREHOUSE] = f"file://{root / settings[WAREHOUSE]}"
    know_secrets(settings)
    _refuse_addresses(settings)
    if settings[WAREHOUSE].startswith(S3):
        settings.setdefault(FILE_IO, _ANY_STORAGE)
    uri = settings.get(CATALOG_URI, "")
    if uri.startswith(SQLITE):
        settings[CATALOG_URI] = f"{SQLITE}{root / uri.removeprefix(SQLITE)}"
    return settings


def _refuse_addresses(settings: Mapping[str, str]) -> None:
    """Raise ``ConfigurationError`` for impossible addresses. The message repeats none of them,
    since any part may be a password.
    """
    uri = settings.get(CATALOG_URI, "")
    of_server = [f"{_PROPERTIES}{name}" for name in ("s3.endpoint", "oauth2-server-uri")]
    if settings.get(CATALOG_TYPE) == "rest":
        of_server.append(CATALOG_URI)
    for name in of_server:
        if name in settings and ((address := parsed(settings[name])) is None or address.user):
            raise ConfigurationError(
                f"{name} in the profile is not an address of a server as https://host:8181/path: a"
                f" login goes to {_PROPERTIES}credential, token, header.* or s3.*, and not into it"
                " (docs/catalogs.md)"
            )
    if uri.startswith(_POSTGRESQL) and not _OF_POSTGRESQL.fullmatch(uri):
        raise ConfigurationError(
            f"{CATALOG_URI} in the profile is not an address that Java's driver takes,"
            f" {_POSTGRESQL}//host:5432/database: user and password go to"
            f" {_PROPERTIES}{_JDBC}user and {_PROPERTIES}{_JDBC}password, and not before the host"
            " (docs/catalogs.md)"
        )


def read_only(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings (with absolute paths), with read-only connections to a catalog in a database.
    A REST catalog's server has its own access rights.

    Raises ``ConfigurationError`` if there is no lake.
    """
    uri = settings.get(CATALOG_URI, "")
    file = sqlite_file(uri)
    require_file(settings)
    if file is not None:
        if not os.access(file.parent, os.W_OK):
            # Otherwise a long-lived process does not see later changes to the catalog.
            raise ConfigurationError(
                f"{file.parent}, the folder of the lake's SQLite catalog, can't be written: there"
                " even readers take part in its log of changes; let this user write the folder, or"
                " keep the catalog in PostgreSQL (docs/catalogs.md)"
            )
        return {**settings, CATALOG_URI: f"{SQLITE}{file}?open_mode=1&busy_timeout=30000"}
    if uri.startswith(_POSTGRESQL):
        return {
            **settings,
            f"{_PROPERTIES}{_JDBC}readOnly": "true",
            f"{_PROPERTIES}{_JDBC}readOnlyMode": "always",
        }
    return dict(settings)


def refuse_readers(settings: Mapping[str, str]) -> None:
    """Raise ``WriteError`` if there is a SQLite catalog in a folder that this user can't write."""
    file = sqlite_file(settings.get(CATALOG_URI, ""))
    if file is not None and file.exists() and not os.access(file.parent, os.W_OK):
        raise WriteError(
            f"{file.parent}, the folder of the lake's catalog, can't be written: let this user"
            " write it; `lakehouse sql` only reads"
        )


def is_read_without_spark(settings: Mapping[str, str]) -> bool:
    """Whether the catalog of these settings can be read without Spark."""
    uri = settings.get(CATALOG_URI, "")
    return settings.get(CATALOG_TYPE) == "rest" or uri.startswith((SQLITE, _POSTGRESQL))


def entries(settings: Mapping[str, str]) -> list[Entry]:
    """The tables and views of the lake with these settings (with absolute paths), without dbt's
    temporary ones. It writes nothing, and needs no right to write.

    Raises ``ConfigurationError``, also for a lake that has moved to another catalog or is not
    whole, ``DamageError`` and ``ReadError``.
    """
    found = contents(settings)
    refuse_unfit(settings, found)
    return found.entries


def refuse_unfit(settings: Mapping[str, str], found: Contents) -> None:
    """Raise ``ConfigurationError`` if the lake has moved to another catalog, or its catalog and its
    warehouse don't belong together (``dbt_lakehouse.lake.wholeness``).
    """
    if (reason := found.notes.get(CLOSED)) is not None:
        raise ConfigurationError(reason)
    file = sqlite_file(settings.get(CATALOG_URI, ""))
    if found.notes:
        wholeness.refuse_half(file, found.notes, found.entries)
    elif settings.get(CATALOG_TYPE) == "jdbc":
        wholeness.refuse_filled(catalog_name(settings), settings[WAREHOUSE])


def refuse_unfit_to_write(settings: Mapping[str, str]) -> None:
    """``refuse_unfit`` before a lake in a SQLite catalog is begun or written. Spark reports a
    catalog that can't be read. Raises ``DamageError`` too.
    """
    file = sqlite_file(settings.get(CATALOG_URI, ""))
    if file is None:
        return
    before = wholeness.committed(settings[WAREHOUSE])
    try:
        found = contents(settings) if file.exists() else Contents({}, [])
    except ReadError:
        return
    refuse_unfit(settings, found)
    wholeness.refuse_older(str(file), found.notes, found.entries, before)


def catalog_name(settings: Mapping[str, str]) -> str:
    """The file of a SQLite catalog, the address of another one, without possible secrets."""
    uri = settings.get(CATALOG_URI, "")
    file = sqlite_file(uri)
    if file is not None:
        return str(file)
    address = urlsplit(uri.removeprefix("jdbc:").partition("?")[0])
    return f"{address.hostname}{address.path}"


def contents(settings: Mapping[str, str]) -> Contents:
    """The contents of the catalog of these settings, unchecked.

    Raises ``ConfigurationError``, ``DamageError`` and ``ReadError``.
    """
    uri = settings.get(CATALOG_URI, "")
    file = sqlite_file(uri)
    require_file(settings)
    if not is_read_without_spark(settings):
        raise ConfigurationError(
            "without Spark, tables are found in catalogs of SQLite, PostgreSQL and REST;"
            f" {CATALOG_URI} in the profile names another"
        )
    if settings.get(CATALOG_TYPE) == "rest":
        notes, rows = _of_rest(settings)
    elif file is not None:
        notes, rows = _of_sqlite(file)
    else:
        notes, rows = _of_postgresql(uri, settings)
    return Contents(notes, _entries(rows))


def _entries(rows: Iterable[_Row]) -> list[Entry]:
    return [
        Entry(schema, name, metadata, kind == "VIEW")
        for schema, name, metadata, kind in rows
        if not is_temporary(name)
    ]


def is_temporary(name: str) -> bool:
    """Whether a name is that of a dbt temporary table."""
    return name.endswith(_TEMPORARY)


def properties(settings: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's own properties of the catalog among the settings."""
    return {
        name.removeprefix(_PROPERTIES): value
        for name, value in settings.items()
        if name.startswith(_PROPERTIES)
    }


def _of_rest(settings: Mapping[str, str]) -> tuple[dict[str, str], list[_Row]]:
    # Few commands need what it imports.
    from dbt_lakehouse.lake.rest import Server

    server = Server(properties(settings))
    rows = [
        (schema, name, metadata, kind)
        for schema in server.schemas()
        for kind in ("TABLE", "VIEW")
        for name, metadata in server.metadata(schema, kind)
    ]
    return server.schema_properties("bronze"), rows


def _of_sqlite(file: Path) -> tuple[dict[str, str], list[_Row]]:
    try:
        return _of_file(file, f"{file.as_uri()}?mode=ro")
    except sqlite3.Error as error:
        if error.sqlite_errorname.startswith("SQLITE_CORRUPT"):
            raise _damaged(file, str(error)) from error
        if not error.sqlite_errorname.startswith(_NO_RIGHTS):
            raise ReadError(f"the lake's catalog {file} can't be read: {error}") from error
    # A reader without write access to the folder can use SQLite's write-ahead log only while
    # another process has the catalog open; otherwise no process is changing it now.
    with TemporaryDirectory() as folder:
        try:
            for each in (file, log_of_changes(file)):
                if each.exists():
                    shutil.copyfile(each, Path(folder) / each.name)
            return _of_file(file, (Path(folder) / file.name).as_uri())
        except (OSError, sqlite3.Error) as error:
            raise ReadError(f"the lake's catalog {file} can't be read: {error}") from error


def log_of_changes(file: Path) -> Path:
    """The write-ahead log (WAL) with changes that a SQLite catalog's file doesn't have yet."""
    return file.with_name(f"{file.name}-wal")


def checkpoint(file: Path) -> None:
    """Checkpoint a SQLite catalog's write-ahead log, so that a copy of the file is whole. If
    another process is reading or writing, its own checkpoint or the next command's does it.
    """
    with suppress(OSError, sqlite3.Error):
        if log_of_changes(file).stat().st_size:
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=1)) as lake:
                lake.execute("pragma wal_checkpoint(truncate)")


def note_committed(file: Path, warehouse: str) -> None:
    """Note in a warehouse which metadata its SQLite catalog has, by which an older copy of the
    catalog is found (``dbt_lakehouse.lake.wholeness``). Without room or rights, an earlier note
    stays.
    """
    before = wholeness.committed(warehouse)
    with suppress(OSError, ReadError, DamageError):
        if file.exists():
            notes, rows = _of_sqlite(file)
            wholeness.note_committed(warehouse, before, notes, _entries(rows))


def require_file(settings: Mapping[str, str]) -> None:
    """Raise ``NoLakeError`` if the file of a SQLite catalog is missing."""
    file = sqlite_file(settings.get(CATALOG_URI, ""))
    if file is not None and file.parent.is_file():
        raise ConfigurationError(
            f"the lake can't be in {file.parent}, which is a file: LAKEHOUSE_LAKE, or"
            f" {CATALOG_URI} in the profile, names a folder"
        )
    if file is not None and not file.exists():
        raise NoLakeError(
            f"there is no lake yet, because {file} is missing: `dbt build` makes it with its"
            " tables; before there are models, `lakehouse add TOPIC` or `lakehouse land` do"
        )


def _of_file(file: Path, uri: str) -> tuple[dict[str, str], list[_Row]]:
    with closing(sqlite3.connect(uri, uri=True, timeout=30)) as lake:
        (whole,) = lake.execute("pragma quick_check(1)").fetchone()
        if whole != "ok":
            raise _damaged(file, whole)
        tables = {name for (name,) in lake.execute("select name from sqlite_master")}
        if not {"iceberg_tables", "iceberg_namespace_properties"} <= tables:
            return {}, []
        return dict(lake.execute(_NOTES).fetchall()), lake.execute(_ENTRIES).fetchall()


def _damaged(file: Path, what: str) -> DamageError:
    return DamageError(
        f"the lake's catalog {file} is damaged ({' '.join(what.split())}): restore it together with"
        f" the {log_of_changes(file).name} that was beside it, or without one if there was none"
    )


def _of_postgresql(uri: str, settings: Mapping[str, str]) -> tuple[dict[str, str], list[_Row]]:
    require("postgres")
    import psycopg

    address, _, query = uri.removeprefix("jdbc:").partition("?")
    given = dict(parse_qsl(query))
    given |= {
        name.removeprefix(_JDBC): value
        for name, value in properties(settings).items()
        if name.startswith(_JDBC)
    }
    options: dict[str, Any] = {
        name: value for name, value in given.items() if name in _CONNECTION_OPTIONS
    }
    if "currentSchema" in given:
        options["options"] = f"-csearch_path={given['currentSchema']}"
    try:
        # Secrets don't belong to the address, which errors show.
        with psycopg.connect(address, **options) as lake:
            return dict(lake.execute(_NOTES).fetchall()), lake.execute(_ENTRIES).fetchall()
    except psycopg.errors.UndefinedTable as error:
        raise NoLakeError(
            f"there is no lake yet, because the database of {CATALOG_URI} in the profile has no"
            " table of Iceberg's: `dbt build` makes it with its tables; before there are models,"
            " `lakehouse add TOPIC` or `lakehouse land` do"
        ) from error
    except psycopg.Error as error:
        raise ReadError(f"the lake's catalog can't be read: {error}") from error


def sqlite_file(uri: str) -> Path | None:
    """The file of a SQLite catalog, from its address; None for another catalog."""
    if not uri.startswith(SQLITE):
        return None
    return Path(uri.removeprefix(SQLITE).removeprefix("file:").partition("?")[0])


def cut_short(entry: Entry) -> DamageError | None:
    """The error if a table's metadata is missing, truncated as after a crash of the machine, or
    otherwise changed. Only files on this machine are checked; an object store compares checksums,
    and writes a file completely or not at all.
    """
    file = path_of(entry.metadata)
    if file is None:
        return None
    if not file.exists():
        return DamageError(f"{file} is missing, a file of {entry}: restore it from a backup")
    if file.suffix != ".json":
        return None
    # Compressed files end differently.
    if ".gz." not in file.name and not _ends_an_object(file):
        return DamageError(f"{file} is cut short, a file of {entry}: restore it from a backup")
    return damage_of(entry.metadata)


def _ends_an_object(file: Path) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 16))
        return stream.read().rstrip().endswith(b"}")
