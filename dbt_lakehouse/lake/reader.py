"""The lake's tables without Spark: DuckDB's SQL over Iceberg's files, for reading alone.

Each table is a view ``schema.table`` of a database in memory called as Spark calls the catalog. A
query can reach the files of the lake's storage and no other, and change nothing.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

import duckdb
import msgspec
from duckdb import DuckDBPyConnection

from dbt_lakehouse.errors import ConfigurationError, DamageError, LakehouseError, ReadError
from dbt_lakehouse.lake.buckets import is_in_bucket, trouble_text
from dbt_lakehouse.lake.catalog import (
    CATALOG,
    Entry,
    cut_short,
    entries,
)
from dbt_lakehouse.lake.duckdb_connection import NO_LIMITS, connected, text_of
from dbt_lakehouse.lake.integrity import refuse_metadata, refuse_table
from dbt_lakehouse.lake.metadata_files import is_zipped, metadata_of
from dbt_lakehouse.lake.tables import Table, parse
from dbt_lakehouse.lake.unknown_names import (
    column_missed,
    missing_column,
    missing_table,
    table_missed,
)
from dbt_lakehouse.lake.unquoted import in_want_of_quotes

# Errors that are not about the query, but about the machine or files, which their texts name.
_OF_THE_MACHINE: Final = re.compile(
    r"^(IO|HTTP|Out of Memory|INTERNAL|FATAL|Serialization) Error: |[.](parquet|avro|puffin|json)\b"
)

_WORD: Final = re.compile(r"\w+")
# Kinds of errors that no damaged file makes.
_OF_QUERIES: Final = frozenset({"Binder", "Catalog", "Parser"})
# How long, and at how many bytes, one looks for damage before a query, and after an error.
_BYTES_BEFORE: Final = 128 * 1024 * 1024
_SECONDS_BEFORE: Final = 1.0
_SECONDS_AFTER: Final = 20.0


class _Representation(msgspec.Struct, frozen=True):
    sql: str


class _ViewVersion(msgspec.Struct, frozen=True, rename="kebab"):
    version_id: int
    representations: list[_Representation]
    default_namespace: list[str] = []


class _View(msgspec.Struct, frozen=True, rename="kebab"):
    """The metadata of a view ("View Metadata" of the Iceberg specification)."""

    current_version_id: int
    versions: list[_ViewVersion]


class Reader:
    """The tables of a lake, as they are or as they were ``as_of`` a moment.

    ``settings`` are the profile's with absolute paths, ``schema`` is where tables are looked for
    that are named without one. A reader that is ``sparing`` can be asked of tables once they are
    included, for each costs some milliseconds. The project's folder, ``root``, tells what is
    declared and not built yet, ``limits`` are settings of DuckDB's. Raises ``ConfigurationError``
    and ``ReadError``.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        schema: str,
        as_of: datetime | None = None,
        *,
        sparing: bool = False,
        root: Path | None = None,
        limits: Mapping[str, str] = NO_LIMITS,
    ) -> None:
        self._settings: Final = settings
        self._root: Final = root
        self._schema: Final = schema
        self._as_of = as_of
        self._views: dict[str, Entry] = {}
        # Of views, their SQL; of the last query; and what was found whole, as of when.
        self._sqls: dict[str, str] = {}
        self._asked = ""
        self._whole: set[tuple[str, datetime | None]] = set()
        self._tables: set[str] = set()
        # Why tables that the catalog has can't be read.
        self._unreadable: dict[str, LakehouseError] = {}
        found = entries(settings)
        self._duck: Final = connected(settings, found, limits)
        self._refuse_bucket(found)
        self._found: Final = {str(entry): entry for entry in found}
        if not sparing:
            self._refresh(found)

    @property
    def names(self) -> list[str]:
        """All tables and views, as ``schema.name``."""
        return sorted(self._views.keys() | self._unreadable.keys())

    @property
    def tables(self) -> list[str]:
        """The tables alone, those too that can't be read."""
        return sorted(self._tables)

    def refresh(self) -> None:
        """See what others have committed. Raises ``ReadError``."""
        with self.explained():
            self._refresh(entries(self._settings))

    def set_time(self, as_of: datetime | None) -> None:
        """Show the tables as they were then, or (None) are now."""
        self._as_of = as_of
        for name in [*self._views]:
            self._drop(name)
        self.refresh()

    def query(self, sql: str) -> DuckDBPyConnection:
        """The result of one query, which is read as it is asked for its rows.

        Raises ``ConfigurationError`` for what is no query, or none that can be answered, and
        ``ReadError`` and ``DamageError`` if the lake can't be read.
        """
        with self.explained():
            statements = self._statements(sql)
            if any(each.type != duckdb.StatementType.SELECT for each in statements):
                raise ConfigurationError(
                    "only queries are answered here (select, with, from, values, describe, show,"
                    " summarize): the lake's tables are written by `dbt run`"
                )
            if not statements:
                raise ConfigurationError("there is no query")
            if len(statements) != 1:
                raise ConfigurationError(f"one query is answered at a time, not {len(statements)}")
            self._asked = sql
            self._refuse_damage(_SECONDS_BEFORE, _BYTES_BEFORE)
            return self._duck.execute(statements[0])

    def interrupt(self) -> None:
        """End the query that another thread waits for, which raises what it raises then."""
        self._duck.interrupt()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Makes of DuckDB's errors, also those of fetching rows, ours with a sentence."""
        try:
            yield
        except (duckdb.Error, OSError) as error:
            # Arrow, which hands rows on, makes the second of all.
            raise self._told(error, self._asked) from error
        except RuntimeError as error:
            # So it tells Ctrl-C.
            if str(error) != "Query interrupted":
                raise
            raise KeyboardInterrupt from error

    def _statements(self, sql: str) -> list[duckdb.Statement]:
        try:
            return self._duck.extract_statements(sql)
        except duckdb.ParserException as error:
            told = str(self._told(error))
            columns = {*chain(*self._columns_for(sql).values())}
            if words := in_want_of_quotes(self._duck, sql, told, columns):
                quoted = ", ".join(map(_quoted_name, words))
                told += f": a column called like a word of SQL is typed in quotes, {quoted}"
            raise ConfigurationError(told) from error

    def _refuse_damage(self, seconds: float, most_bytes: int | None = None) -> None:
        """Raise ``DamageError`` for a damaged file of the tables that the last query reads, as far
        as one is found in so many seconds.
        """
        until = time.monotonic() + seconds
        for entry in self._read_by(self._asked):
            looked_at = (entry.metadata, self._as_of)
            if most_bytes is None or looked_at not in self._whole:
                refuse_table(entry.metadata, self._snapshot_then(entry), most_bytes, until)
                self._whole.add(looked_at)

    def _read_by(self, sql: str) -> list[Entry]:
        """The tables that a query may read, itself or by views: each whose name stands in it, or
        the address of its metadata.
        """
        texts, found = [sql], dict[str, Entry]()
        for text in texts:
            words = {*_WORD.findall(text.lower())}
            for name, entry in self._views.items():
                named = words.issuperset(_WORD.findall(entry.name.lower()))
                if name not in found and (named or entry.metadata in text):
                    found[name] = entry
                    texts += [self._sqls[name]] if entry.is_view else []
        return [entry for entry in found.values() if not entry.is_view]

    def _told(self, error: duckdb.Error | OSError, sql: str = "") -> LakehouseError:
        """An error of a query's, or of a table's or view's for which ``sql`` is empty."""
        # Behind it comes the query with a mark in it.
        text = str(error).partition("\nLINE ")[0].strip()
        kind, _, reason = text.partition(" Error: ")
        if kind == "INTERRUPT":
            # The error of one thread ends the others, whose ends DuckDB at times tells instead.
            return ConfigurationError(
                "the query failed, and DuckDB doesn't say why: a second time it mostly does"
            )
        if table := table_missed(text):
            return self._missing(table)
        if missed := column_missed(text):
            return ConfigurationError(missing_column(*missed, self._columns_for(sql)))
        if trouble := trouble_text(text):
            return ReadError(trouble)
        if kind == "Permission":
            return ConfigurationError(f"a query reads tables of the lake alone: {reason}")
        if kind not in _OF_QUERIES:
            try:
                self._refuse_damage(_SECONDS_AFTER)
            except DamageError as damage:
                return damage
        if _OF_THE_MACHINE.search(text):
            return ReadError(f"the lake can't be read: {reason or text}")
        return ConfigurationError(reason or text)

    def columns(self) -> dict[str, dict[str, str]]:
        """The columns of each table, with their types."""
        found: dict[str, dict[str, str]] = {name: {} for name in self._views}
        rows = self._duck.execute(
            "select schema_name || '.' || table_name, column_name, data_type"
            f" from duckdb_columns() where database_name = '{CATALOG}' and not internal"
            " order by table_oid, column_index"
        )
        for name, column, kind in rows.fetchall():
            found[name][column] = kind
        return found

    def _columns_for(self, sql: str) -> dict[str, dict[str, str]]:
        """The columns of the tables that are named in a query; of all, if none is."""
        columns = self.columns()
        words = {*_WORD.findall(sql.lower())}
        named = {
            name: columns[name]
            for name, entry in self._views.items()
            if words.issuperset(_WORD.findall(entry.name.lower()))
        }
        return named or columns

    def known(self, name: str) -> str:
        """The whole name of a table. Raises what a query of it would."""
        for each in (name, f"{self._schema}.{name}"):
            if each in self._views:
                return each
        raise self._missing(name.rpartition(".")[2])

    def quoted(self, name: str) -> str:
        """The name of a table as a query has it."""
        return _quoted(self._views[name])

    def look_at(self, name: str) -> Table:
        """What a table's metadata says of it."""
        return self._table(self._views[name])

    def include(self, name: str) -> None:
        """Have a sparing reader know a table, which is there."""
        if name not in self._views:
            self._add_table(self._found[name])

    def metadata(self) -> dict[str, Table]:
        """What its metadata says of each table that there was at the beginning, by name."""
        found = sorted(self._found.items())
        return {name: self._table(entry) for name, entry in found if not entry.is_view}

    def earlier(self, name: str, snapshot: int | None = None, sequence: int | None = None) -> str:
        """What a query selects from to read a table as of a snapshot, or those of its rows that
        commits up to a sequence number have last changed.
        """
        scan = _scan(self._views[name].metadata, snapshot)
        where = "" if sequence is None else f" where _last_updated_sequence_number <= {sequence}"
        return f"(select *{self._kept_from_bounds(scan)} from {scan}{where})"

    def added_since(self, name: str, sequence: int) -> str:
        """What a query selects from to read the rows of a table that commits behind a sequence
        number have last changed, with that number as ``_sequence``, and the rows' own, ``_row_id``.
        """
        scan = _scan(self._views[name].metadata, None)
        return (
            f"(select *, _last_updated_sequence_number as _sequence, _row_id from {scan}"
            f" where _last_updated_sequence_number > {sequence})"
        )

    def comments(self, name: str) -> dict[str, str]:
        """The descriptions of a table's columns; a view has none."""
        entry = self._views[name]
        return {} if entry.is_view else self._table(entry).comments

    def description(self, name: str) -> str:
        """The description of a table; a view has none, nor has what can't be read."""
        entry = self._views.get(name)
        if entry is None or entry.is_view:
            return ""
        return self._table(entry).properties.get("comment", "")

    def _refuse_bucket(self, found: list[Entry]) -> None:
        """Raise ``ReadError`` if it can't be read: each table would be tried for a while."""
        for file in [each.metadata for each in found if is_in_bucket(each.metadata)][:1]:
            try:
                self._bytes(file)
            except duckdb.Error as error:
                if told := trouble_text(str(error)):
                    raise ReadError(told) from error

    def _refresh(self, found: list[Entry]) -> None:
        wanted = {str(entry): entry for entry in found}
        for name, entry in [*self._views.items()]:
            if entry.is_view or wanted.get(name) != entry:
                self._drop(name)
        self._tables = {str(entry) for entry in found if not entry.is_view}
        self._unreadable.clear()
        for entry in found:
            if not entry.is_view and str(entry) not in self._views:
                self._add_table(entry)
        self._add_views([entry for entry in found if entry.is_view])
        self._use(self._schema)

    def _add_table(self, entry: Entry) -> None:
        try:
            snapshot = self._snapshot_then(entry)
            # DuckDB ends the process at some manifests, and reads others wrongly.
            refuse_metadata(entry.metadata, snapshot)
            scan = _scan(entry.metadata, snapshot)
            self._add(entry, f"select *{self._kept_from_bounds(scan)} from {scan}")
        except LakehouseError as error:
            self._unreadable[str(entry)] = error
        except duckdb.Error as error:
            self._unreadable[str(entry)] = self._unread(entry, error)

    def _kept_from_bounds(self, scan: str) -> str:
        """What keeps filters on floating point numbers from passing over files: the bounds of files
        leave out NaN, which is equal to itself and greater than all others here, as in Spark.
        """
        columns = self._duck.execute(f"describe select * from {scan}").fetchall()
        names = [_quoted_name(name) for name, kind, *_ in columns if kind in ("FLOAT", "DOUBLE")]
        # Exact, and nothing that DuckDB would simplify.
        return f" replace ({', '.join(f'-(-{each}) as {each}' for each in names)})" if names else ""

    def _add_views(self, views: list[Entry]) -> None:
        """Add what may be of tables, and of other views."""
        while views:
            left = []
            for entry in views:
                try:
                    self._add(entry, self._sql_of(entry))
                except LakehouseError as error:
                    self._unreadable[str(entry)] = error
                except duckdb.Error as error:
                    left.append(entry)
                    self._unreadable[str(entry)] = ConfigurationError(
                        f"the view {entry} is written in Spark's SQL, and can't be read without:"
                        f" {self._told(error)}"
                    )
            if len(left) == len(views):
                break
            views = left

    def _add(self, entry: Entry, sql: str) -> None:
        self._duck.execute(f"create schema if not exists {CATALOG}.{_quoted_name(entry.schema)}")
        self._duck.execute(f"create view {CATALOG}.{_quoted(entry)} as {sql}")
        self._views[str(entry)] = entry
        if entry.is_view:
            self._sqls[str(entry)] = sql
        self._unreadable.pop(str(entry), None)

    def _drop(self, name: str) -> None:
        self._duck.execute(f"drop view {CATALOG}.{_quoted(self._views.pop(name))}")

    def _sql_of(self, entry: Entry) -> str:
        view = msgspec.json.decode(self._metadata(entry), type=_View)
        (version,) = (each for each in view.versions if each.version_id == view.current_version_id)
        self._use(".".join(version.default_namespace))
        return version.representations[0].sql

    def _use(self, schema: str) -> None:
        """Look there for tables that are named without schema, if there are any."""
        is_there = any(entry.schema == schema for entry in self._views.values())
        self._duck.execute(f"use {CATALOG}.{_quoted_name(schema) if is_there else 'main'}")

    def _snapshot_then(self, entry: Entry) -> int | None:
        """The snapshot to read, None for the current one, or none at all."""
        if self._as_of is None:
            return None
        table = self._table(entry)
        if not table.log:
            return None
        snapshot = table.snapshot_at(self._as_of)
        if snapshot is None:
            raise ConfigurationError(
                f"{entry} is not known as of {self._as_of:%F %T}: its snapshots begin with"
                f" {table.log[0][0]:%F %T} (UTC)"
            )
        return snapshot

    def _table(self, entry: Entry) -> Table:
        return parse(self._metadata(entry).decode())

    def _metadata(self, entry: Entry) -> bytes:
        """What the file says of a table or view. Raises ``ReadError`` and ``DamageError``."""
        try:
            return metadata_of(entry, self._bytes)
        except duckdb.Error as error:
            raise ReadError(
                f"{entry.metadata}, a file of {entry}, can't be read: {error}"
            ) from error

    def _bytes(self, file: str) -> bytes:
        if not is_in_bucket(file):
            return Path(file).read_bytes()
        ((content,),) = self._duck.execute("select content from read_blob(?)", [file]).fetchall()
        assert isinstance(content, bytes)
        return content

    def _unread(self, entry: Entry, error: duckdb.Error) -> LakehouseError:
        """Why a table can't be read."""
        return cut_short(entry) or self._told(error)

    def _missing(self, name: str) -> LakehouseError:
        """Why there is no table of a name, whose schema DuckDB leaves out."""
        for known, reason in self._unreadable.items():
            if known.partition(".")[2] == name:
                return reason
        return ConfigurationError(missing_table(name, self.names, self._root))


def _scan(metadata: str, snapshot: int | None) -> str:
    """The table function that reads a snapshot of a table."""
    options = "" if snapshot is None else f", snapshot_from_id => {snapshot}::ubigint"
    if is_zipped(metadata):
        options += ", metadata_compression_codec => 'gzip'"
    return f"iceberg_scan({text_of(metadata)}{options})"


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quoted(entry: Entry) -> str:
    return f"{_quoted_name(entry.schema)}.{_quoted_name(entry.name)}"
