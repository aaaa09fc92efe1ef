"""`lakehouse backup`: a copy of a lake that is a complete lake itself. `lakehouse recover`: a
catalog rebuilt from the files of its tables.

Both are for a lake on one host's disk: a SQLite catalog, and a warehouse in a folder. They don't
start Spark.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from dbt_lakehouse.errors import ConfigurationError, WriteError
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.lake.catalog import (
    CATALOG,
    CATALOG_TYPE,
    CATALOG_URI,
    CLOSED,
    WAREHOUSE,
    Entry,
    contents,
    cut_short,
    entries,
    is_temporary,
    require_file,
    sqlite_file,
)
from dbt_lakehouse.lake.copying import copy_table
from dbt_lakehouse.lake.locks import locks_beside
from dbt_lakehouse.lake.wholeness import (
    PLACE,
    Committed,
    Described,
    beginning,
    committed,
    described,
    known_later,
    metadata_files,
)
from dbt_lakehouse.session.project import Project, lock_patience
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import counted

_ELSEWHERE: Final = (
    "is for a lake on one host's disk, a SQLite catalog with its warehouse in a folder; docs/"
    "maintenance.md, Backups, has what to do with others"
)
# The tables of Iceberg's JDBC catalog.
_TABLES: Final = (
    """
    create table iceberg_tables (
        catalog_name varchar(255) not null,
        table_namespace varchar(255) not null,
        table_name varchar(255) not null,
        metadata_location varchar(1000),
        previous_metadata_location varchar(1000),
        iceberg_type varchar(5),
        primary key (catalog_name, table_namespace, table_name)
    )
    """,
    """
    create table iceberg_namespace_properties (
        catalog_name varchar(255) not null,
        namespace varchar(255) not null,
        property_key varchar(255),
        property_value varchar(1000),
        primary key (catalog_name, namespace, property_key)
    )
    """,
)


class Backup(NamedTuple):
    """The result of a backup."""

    folder: str
    """The folder of the copy, a lake itself: for LAKEHOUSE_LAKE."""
    tables: int
    files: int
    bytes: int
    as_of: str
    """The moment whose state all its tables have."""

    def json(self) -> str:
        """As JSON, for scripts."""
        return json.dumps(self._asdict())

    def text(self) -> str:
        """As text."""
        return (
            f"{self.folder}: {counted(self.tables, 'table')} as of {self.as_of},"
            f" {counted(self.files, 'file')}, {self.bytes:,} bytes. it is a lake itself:"
            f" LAKEHOUSE_LAKE={self.folder} opens it, and `lakehouse backup` from there to the"
            " lake's own folder restores it"
        )


class Recovered(NamedTuple):
    """The result of a recovery: tables that the catalog did not know, or knew only in an older
    state.
    """

    tables: dict[str, str]
    """The current metadata file of each, by ``schema.name``."""
    left_out: list[str]
    """Tables of the warehouse without an entry in the catalog, now or when it was whole."""

    def json(self) -> str:
        """As JSON, for scripts."""
        return json.dumps(self._asdict())

    def text(self) -> str:
        """As text."""
        lines = [f"{name}: {metadata}" for name, metadata in self.tables.items()]
        return "\n".join([*lines, f"{counted(len(lines), 'table')} recovered{_but(self.left_out)}"])


class _Found(NamedTuple):
    """A table or view of a warehouse."""

    entry: Entry
    metadata: str
    """The path of its newest whole metadata file."""
    was_committed: bool
    """Whether the catalog had a metadata file of this folder when a command last ended."""
    has_others: bool
    """Whether its folder also has metadata of other tables."""


def backup(project: Project, target: Path) -> Backup:
    """Copy the lake to a folder that does not exist or is empty, all tables as of one moment.
    Landings wait only for that moment; builds and maintenance wait until the copy is done.

    Raises ``ConfigurationError``, ``DamageError`` and ``LockedError``, and ``WriteError`` if the
    copy can't be written.
    """
    settings = project.settings
    catalog = _catalog(settings, "lakehouse backup")
    entries(settings)
    folder = Path(os.path.abspath(target))
    warehouse = path_of(settings[WAREHOUSE])
    if warehouse is not None and folder.is_relative_to(warehouse):
        raise ConfigurationError(
            f"{folder} is in the lake's own warehouse, whose folders are schemas: take another one"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty: a backup takes a folder of its own")
        return _backup(project, settings, catalog, folder)
    except OSError as error:
        raise WriteError(
            f"the backup {folder} can't be written: {error.strerror or error}; the"
            " partial backup is not a lake, so delete it"
        ) from error


def _backup(project: Project, settings: dict[str, str], catalog: Path, folder: Path) -> Backup:
    patience = lock_patience(project.variables)
    unfinished = folder / f"{catalog.name}.unfinished"
    names = ("run", "landing")
    run, landing = locks_beside(catalog, settings[WAREHOUSE], names, lambda: entries(settings))
    with run.held("lakehouse backup", patience):
        with landing.held("lakehouse backup", patience):
            as_of = f"{datetime.now(UTC):%FT%TZ}"
            found = entries(settings)
            with (
                closing(sqlite3.connect(f"{catalog.as_uri()}?mode=ro", uri=True)) as lake,
                closing(sqlite3.connect(unfinished)) as copy,
            ):
                lake.backup(copy)
        done: list[str] = []
        copied = []
        with (
            working("copying", lambda: f"{len(done):,} of {counted(len(found), 'table')}"),
            closing(sqlite3.connect(unfinished)) as copy,
            copy,
        ):
            # The original may have a reader's write-ahead log beside it; the copy has none.
            copy.execute("pragma journal_mode=delete")
            copy.execute("delete from iceberg_tables")
            for entry in found:
                copied.append(copy_table(entry, folder / "warehouse" / entry.schema / entry.name))
                _point(copy, entry, copied[-1].metadata)
                done.append(str(entry))
            _note(copy, PLACE, str((folder / catalog.name).resolve()))
    # Last: a folder without a catalog is not yet a lake. After a crash of the machine there is no
    # catalog without its files.
    os.sync()
    unfinished.rename(folder / catalog.name)
    return Backup(
        str(folder),
        len(found),
        sum(each.files for each in copied),
        sum(each.bytes for each in copied),
        as_of,
    )


def recover(project: Project) -> Recovered:
    """Point the catalog to the newest metadata of each table in the warehouse: of tables that it
    knows only in an older state, and of tables made later; or, if it knows no table, of all
    tables.

    Raises ``ConfigurationError`` if there is nothing to recover, ``DamageError`` and
    ``LockedError``.
    """
    settings = project.settings
    catalog = _catalog(settings, "lakehouse recover", must_exist=False)
    patience = lock_patience(project.variables)
    run, landing = locks_beside(catalog, settings[WAREHOUSE], ("run", "landing"), lambda: None)
    with run.held("lakehouse recover", patience), landing.held("lakehouse recover", patience):
        before = committed(settings[WAREHOUSE])
        there = [*_in_warehouse(Path(str(path_of(settings[WAREHOUSE]))), before)]
        found = contents(settings) if catalog.exists() else None
        if found is not None and CLOSED in found.notes:
            raise ConfigurationError(found.notes[CLOSED])
        had = [each for each in there if each.was_committed]
        if found is not None and found.notes:
            later_made, left_out = _unknown(found.entries, there)
            wanted = [*_later(found.entries, before), *later_made]
        elif had:
            # The catalog had these when the last command ended; any other older table was
            # dropped, or belongs to another lake.
            later_made, left_out = _unknown([each.entry for each in had], there)
            wanted = [*((each.entry, each.metadata) for each in had), *later_made]
        else:
            wanted, left_out = [(each.entry, each.metadata) for each in there], []
        if not wanted:
            raise ConfigurationError(
                f"there is nothing to recover: {catalog} has all that is in {settings[WAREHOUSE]}"
                f"{_but(left_out)}"
            )
        with closing(sqlite3.connect(catalog)) as lake, lake:
            if found is None or not found.notes:
                _make(lake, {entry.schema for entry, _ in wanted}, catalog)
                if left_out or any(each.has_others for each in there):
                    # Maintenance leaves files alone that may belong to another lake.
                    for name, value in beginning(catalog).items():
                        _note(lake, name, value)
            for entry, metadata in wanted:
                _point(lake, entry, f"file://{metadata}")
    return Recovered({str(entry): metadata for entry, metadata in wanted}, left_out)


def _catalog(settings: dict[str, str], command: str, *, must_exist: bool = True) -> Path:
    """The catalog file of a lake that the command supports."""
    catalog = sqlite_file(settings.get(CATALOG_URI, ""))
    is_here = settings.get(CATALOG_TYPE) == "jdbc" and path_of(settings[WAREHOUSE]) is not None
    if catalog is None or not is_here:
        raise ConfigurationError(f"`{command}` {_ELSEWHERE}")
    if must_exist:
        require_file(settings)
    return catalog


def _but(left_out: list[str]) -> str:
    """The message about the tables that are left out."""
    if not left_out:
        return ""
    return (
        f"; the warehouse has files of {counted(len(left_out), 'table')} more, older than the"
        f" catalog and most likely dropped before: {', '.join(left_out)}"
    )


def _later(known: list[Entry], before: Committed) -> list[tuple[Entry, str]]:
    """The tables that a catalog knows only in an older state, with their newest metadata."""
    newer = known_later({}, known, before)
    if newer:
        # The catalog is certainly old, so even a single commit ahead is not from a killed
        # process; and if it is, it has all of its files.
        newer = known_later({}, known, before, unsure=0)
    return [(entry, str(path)) for entry, path in newer]


def _unknown(known: list[Entry], there: list[_Found]) -> tuple[list[tuple[Entry, str]], list[str]]:
    """The tables of a warehouse without an entry in its catalog: those written after everything
    the catalog knows, and the names of older ones, which were dropped.
    """
    paths = [path for each in known if (path := path_of(each.metadata)) is not None]
    last = max((described(path).written_ms for path in paths), default=0)
    folders = {path.parent.resolve() for path in paths}
    names = {str(entry) for entry in known}
    made, dropped = [], []
    for each in there:
        entry, metadata = each.entry, each.metadata
        if str(entry) in names or Path(metadata).parent.resolve() in folders:
            continue
        if described(Path(metadata)).written_ms > last:
            made.append((entry, metadata))
        else:
            dropped.append(str(entry))
    return made, dropped


def _in_warehouse(warehouse: Path, before: Committed) -> Iterator[_Found]:
    """The tables and views of a warehouse, by their newest whole metadata.

    A folder may have the files of several tables: some were dropped, or belong to another lake.
    The table that the catalog had counts, otherwise the one that was written last.
    """
    # If a table's newest metadata is truncated, the one before counts.
    known = {os.path.dirname(file) for file in before}
    for folder in sorted(warehouse.glob("*/*/metadata")):
        schema, name = folder.parts[-3:-1]
        newest: dict[str, tuple[Path, Described]] = {}
        had: set[str] = set()
        for file in () if is_temporary(name) else metadata_files(folder, before):
            entry = Entry(schema, name, f"file://{file}", is_view=False)
            if cut_short(entry) is not None:
                continue
            said = described(file)
            uuid = said.table_uuid or said.view_uuid
            newest.setdefault(uuid, (file, said))
            if str(file) in before:
                had.add(uuid)
        if newest:
            uuid = max(newest, key=lambda each: (each in had, newest[each][1].written_ms))
            file, said = newest[uuid]
            entry = Entry(schema, name, f"file://{file}", is_view=bool(said.view_uuid))
            yield _Found(entry, str(file), str(folder) in known, len(newest) > 1)


def _make(lake: sqlite3.Connection, schemas: set[str], catalog: Path) -> None:
    there = {name for (name,) in lake.execute("select name from sqlite_master")}
    for statement in _TABLES:
        if statement.split()[2] not in there:
            lake.execute(statement)
    lake.executemany(
        "insert into iceberg_namespace_properties values (?, ?, 'exists', 'true')",
        [(CATALOG, schema) for schema in sorted(schemas | {"bronze", "silver", "gold"})],
    )
    _note(lake, PLACE, str(catalog.resolve()))


def _point(lake: sqlite3.Connection, entry: Entry, metadata: str) -> None:
    """Set a table's metadata file in a catalog."""
    kind = "VIEW" if entry.is_view else "TABLE"
    lake.execute(
        "insert or replace into iceberg_tables (catalog_name, table_namespace, table_name,"
        " metadata_location, iceberg_type) values (?, ?, ?, ?, ?)",
        (CATALOG, entry.schema, entry.name, metadata, kind),
    )


def _note(lake: sqlite3.Connection, name: str, value: str) -> None:
    lake.execute(
        "insert or replace into iceberg_namespace_properties"
        " (catalog_name, namespace, property_key, property_value) values (?, 'bronze', ?, ?)",
        (CATALOG, name, value),
    )
