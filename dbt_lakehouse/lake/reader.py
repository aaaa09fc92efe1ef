"""Read the lake's tables without Spark, by DuckDB's SQL over Iceberg's files.

Each table is a view ``schema.table`` of an in-memory database with the name of Spark's catalog. A
query can reach only the files of the lake's storage, and can change nothing.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection
from duckdb.func import FunctionNullHandling, PythonUDFType
from duckdb.sqltypes import DuckDBPyType

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
from dbt_lakehouse.lake.misspelled import misspelled
from dbt_lakehouse.lake.tables import Table, parse
from dbt_lakehouse.lake.unknown_names import (
    column_missed,
    missing_column,
    missing_table,
    table_missed,
)
from dbt_lakehouse.lake.unquoted import in_want_of_quotes

# Errors about the machine or files rather than the query; their texts name these.
_OF_THE_MACHINE: Final = re.compile(
    r"^(IO|HTTP|Out of Memory|INTERNAL|FATAL|Serialization) Error: |[.](parquet|avro|puffin|json)\b"
)

_WORD: Final = re.compile(r"\w+")
# Error kinds that damaged files don't cause.
_OF_QUERIES: Final = frozenset({"Binder", "Catalog", "Parser"})
# Limits in seconds and bytes of the search for damage before a query, and after an error.
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

    ``settings`` are the profile's with absolute paths, ``schema`` is the default schema of
    tables. A ``sparing`` reader only knows tables that were included, since each costs some
    milliseconds. The project's folder, ``root``, tells which models are declared and not built
    yet; ``limits`` are settings of DuckDB. Raises ``ConfigurationError`` and ``ReadError``.
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
        # The SQL of views, that of the last query, and the tables found whole, by moment.
        self._sqls: dict[str, str] = {}
        self._asked = ""
        self._whole: set[tuple[str, datetime | None]] = set()
        self._tables: set[str] = set()
        self.functions: Final[set[str]] = set()
        """The names of the functions that were added."""
        # Tables of the catalog that can't be read, with the reason.
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

    def logs_first(self) -> list[str]:
        """The readable tables, those of the silver schema beside the default one first."""
        beside = f"{self._schema.removesuffix('gold')}silver."
        return sorted(
            self._tables - self._unreadable.keys(), key=lambda name: not name.startswith(beside)
        )

    @property
    def tables(self) -> list[str]:
        """The tables without the views, unreadable ones included."""
        return sorted(self._tables)

    def refresh(self) -> None:
        """Read the catalog again, to see other processes' commits. Raises ``ReadError``."""
        with self.explained():
            self._refresh(entries(self._settings))

    def set_time(self, as_of: datetime | None) -> None:
        """Show the tables as of a moment, or (None) as they are now."""
        self._as_of = as_of
        for name in [*self._views]:
            self._drop(name)
        self.refresh()

    def query(self, sql: str) -> DuckDBPyConnection:
        """The result of one query, evaluated as its rows are fetched.

        Raises ``ConfigurationError`` for statements other than queries and queries that can't be
        answered, and ``ReadError`` and ``DamageError`` if the lake can't be read.
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

    def add_function(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[pa.DataType],
        returns: pa.DataType,
    ) -> None:
        """Add a function of Arrow arrays to the SQL of queries. Null is an argument like others."""
        types = [_type_in_duckdb(each) for each in (*arguments, returns)]
        self._duck.create_function(
            name,
            function,
            [*types[:-1]],
            types[-1],
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        self.functions.add(name)

    def interrupt(self) -> None:
        """Interrupt the query of another thread, which then raises DuckDB's interrupt."""
        self._duck.interrupt()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Translate DuckDB's errors, including those of fetching rows, into ours."""
        try:
            yield
        except (duckdb.Error, OSError) as error:
            # Arrow, which passes rows on, wraps all errors in the second kind.
            raise self._told(error, self._asked) from error
        except RuntimeError as error:
            # Its form of Ctrl-C.
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
            elif wrong := misspelled(self._duck, sql):
                meant = ", ".join(f"{right} for {typed}" for typed, right in wrong)
                told += f" (did you mean {meant}?)"
            raise ConfigurationError(told) from error

    def _refuse_damage(self, seconds: float, most_bytes: int | None = None) -> None:
        """Raise ``DamageError`` for a damaged file of the tables that the last query reads, if
        one is found within some seconds.
        """
        until = time.monotonic() + seconds
        for entry in self._read_by(self._asked):
            looked_at = (entry.metadata, self._as_of)
            if most_bytes is None or looked_at not in self._whole:
                refuse_table(entry.metadata, self._snapshot_then(entry), most_bytes, until)
                self._whole.add(looked_at)

    def _read_by(self, sql: str) -> list[Entry]:
        """The tables that a query may read, directly or through views: every table whose name, or
        whose metadata address, occurs in its text.
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
        """Our error for an error of a query; ``sql`` is empty for an error of a table or view."""
        # After that comes the query with a mark in it.
        text = str(error).partition("\nLINE ")[0].strip()
        kind, _, reason = text.partition(" Error: ")
        if kind == "INTERRUPT":
            # An error of one thread ends the other threads, and at times DuckDB reports one of
            # those instead.
            return ConfigurationError(
                "the query failed, and DuckDB doesn't say why: a second time it mostly does"
            )
        if table := table_missed(text):
            return self._missing(table)
        if missed := column_missed(text):
            return ConfigurationError(missing_column(*missed, self._columns_for(sql), sql))
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
        """The columns of the tables that a query names, or of all tables if it names none."""
        columns = self.columns()
        words = {*_WORD.findall(sql.lower())}
        named = {
            name: columns[name]
            for name, entry in self._views.items()
            if words.issuperset(_WORD.findall(entry.name.lower()))
        }
        return named or columns

    def known(self, name: str) -> str:
        """The full name of a table. Raises the same error as a query of it."""
        for each in (name, f"{self._schema}.{name}"):
            if each in self._views:
                return each
        raise self._missing(name.rpartition(".")[2])

    def quoted(self, name: str) -> str:
        """The quoted name of a table for a query."""
        return _quoted(self._views[name])

    def look_at(self, name: str) -> Table:
        """The parsed metadata of a table."""
        return self._table(self._views[name])

    def include(self, name: str) -> None:
        """Include an existing table in a sparing reader."""
        if name not in self._views:
            self._add_table(self._found[name])

    def metadata(self) -> dict[str, Table]:
        """The parsed metadata of each table that existed at the beginning, by name."""
        found = sorted(self._found.items())
        return {name: self._table(entry) for name, entry in found if not entry.is_view}

    def earlier(self, name: str, snapshot: int | None = None, sequence: int | None = None) -> str:
        """A relation of a table as of a snapshot, or of its rows last changed by commits up to a
        sequence number.
        """
        scan = _scan(self._views[name].metadata, snapshot)
        where = "" if sequence is None else f" where _last_updated_sequence_number <= {sequence}"
        return f"(select *{self._kept_from_bounds(scan)} from {scan}{where})"

    def added_since(self, name: str, sequence: int) -> str:
        """A relation of a table's rows last changed by commits above a sequence number, with that
        number as ``_lh_sequence``, and the row id, ``_row_id``.
        """
        scan = _scan(self._views[name].metadata, None)
        return (
            f"(select *, _last_updated_sequence_number as _lh_sequence, _row_id from {scan}"
            f" where _last_updated_sequence_number > {sequence})"
        )

    def comments(self, name: str) -> dict[str, str]:
        """The descriptions of a table's columns; a view has none."""
        entry = self._views[name]
        return {} if entry.is_view else self._table(entry).comments

    def description(self, name: str) -> str:
        """The description of a table; empty for views and unreadable tables."""
        entry = self._views.get(name)
        if entry is None or entry.is_view:
            return ""
        return self._table(entry).properties.get("comment", "")

    def _refuse_bucket(self, found: list[Entry]) -> None:
        """Raise ``ReadError`` if the bucket can't be read: otherwise each table would be retried
        for a while.
        """
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
            # DuckDB crashes the process on some manifests, and reads others wrongly.
            refuse_metadata(entry.metadata, snapshot)
            scan = _scan(entry.metadata, snapshot)
            self._add(entry, f"select *{self._kept_from_bounds(scan)} from {scan}")
        except LakehouseError as error:
            self._unreadable[str(entry)] = error
        except duckdb.Error as error:
            self._unreadable[str(entry)] = self._unread(entry, error)

    def _kept_from_bounds(self, scan: str) -> str:
        """A select clause that keeps filters on floats from skipping files: file bounds ignore
        NaN, which here, as in Spark, equals itself and is greater than all other values.
        """
        columns = self._duck.execute(f"describe select * from {scan}").fetchall()
        names = [_quoted_name(name) for name, kind, *_ in columns if kind in ("FLOAT", "DOUBLE")]
        # Exact, and not simplified by DuckDB.
        return f" replace ({', '.join(f'-(-{each}) as {each}' for each in names)})" if names else ""

    def _add_views(self, views: list[Entry]) -> None:
        """Add views, which may read tables and other views."""
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
        """Make a schema the default for tables without one, if it has any tables."""
        is_there = any(entry.schema == schema for entry in self._views.values())
        self._duck.execute(f"use {CATALOG}.{_quoted_name(schema) if is_there else 'main'}")

    def _snapshot_then(self, entry: Entry) -> int | None:
        """The id of the snapshot as of the moment. None reads the current one, also of a table
        without a snapshot log.
        """
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
        """The content of a table's or view's metadata file. Raises ``ReadError`` and
        ``DamageError``.
        """
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
        """The error of a table that can't be read."""
        return cut_short(entry) or self._told(error)

    def _missing(self, name: str) -> LakehouseError:
        """The error for a name without a table; DuckDB reports names without their schema."""
        for known, reason in self._unreadable.items():
            if known.partition(".")[2] == name:
                return reason
        return ConfigurationError(missing_table(name, self.names, self._root))


def _type_in_duckdb(type: pa.DataType) -> DuckDBPyType:
    """DuckDB's type of Arrow's arrays of a type."""
    nothing = pa.table({"column": pa.array([], type)})
    return duckdb.from_arrow(nothing).types[0]


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
