"""DuckDB, set up to read the files of a lake with its Iceberg extensions, and no other files."""

import os
import re
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final

import duckdb
from duckdb import DuckDBPyConnection

from dbt_lakehouse.extras import require
from dbt_lakehouse.lake.buckets import duckdb_secret, is_in_bucket
from dbt_lakehouse.lake.catalog import CATALOG, WAREHOUSE, Entry

# In this order: Iceberg's manifests are Avro files.
_EXTENSIONS: Final = ("avro", "iceberg")
_OF_BUCKETS: Final = ("httpfs", "aws")
NO_LIMITS: Final[Mapping[str, str]] = MappingProxyType({})


def extension_files(of_buckets: bool = False) -> list[Path]:
    """DuckDB's extensions for Iceberg, in loading order. They come from Python packages; DuckDB
    by itself would download them.
    """
    if of_buckets:
        require("s3")
    names = (*_OF_BUCKETS, *_EXTENSIONS) if of_buckets else _EXTENSIONS
    packages = [import_module(f"duckdb_extension_{name}") for name in names]
    return [
        next(Path(str(package.__file__)).parent.glob("extensions/*/*.duckdb_extension"))
        for package in packages
    ]


def connected(
    settings: Mapping[str, str], found: list[Entry], limits: Mapping[str, str] = NO_LIMITS
) -> DuckDBPyConnection:
    """An in-memory database that can read only the lake's files. ``limits`` are settings of
    DuckDB for a process that also does other work, so that a query does not take all resources.
    """
    duck = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # With this cache the extension (1.5.5, since fixed) mixes up deletion vectors in the
            # same Puffin file: it reads from the offset of the cached one.
            "enable_external_file_cache": "false",
            # Otherwise the name of a Python variable here could be a table's name.
            "python_enable_replacements": "false",
            # For spilling; the current folder need not be writable.
            "temp_directory": f"{tempfile.gettempdir()}/lakehouse-sql-{os.getpid()}",
        }
    )
    of_buckets = any(is_in_bucket(entry.metadata) for entry in found)
    for file in extension_files(of_buckets):
        duck.execute(f"load {text_of(str(file))}")
    if of_buckets:
        given = duckdb_secret(settings).items()
        options = "".join(f", {name} {text_of(value)}" for name, value in given)
        duck.execute(f"create secret (type s3{options})")
    folders = {_folder(entry.metadata, above=2) for entry in found}
    warehouse = settings[WAREHOUSE]
    # A REST catalog's warehouse is a name.
    if path_of(warehouse).startswith("/") or is_in_bucket(warehouse):
        folders.add(_folder(warehouse))
    duck.execute(f"set allowed_directories = [{', '.join(map(text_of, sorted(folders)))}]")
    duck.execute("set timezone = 'UTC'")
    for name, value in limits.items():
        duck.execute(f"set {name} = {text_of(value)}")
    duck.execute(f"attach ':memory:' as {CATALOG}")
    duck.execute(f"use {CATALOG}")
    duck.execute("set enable_external_access = false")
    duck.execute("set lock_configuration = true")
    return duck


def _folder(address: str, above: int = 0) -> str:
    """The folder ``above`` levels above a file of the lake's storage, as DuckDB writes it."""
    return "/".join([*path_of(address).rstrip("/").split("/")[: -above or None], ""])


def path_of(address: str) -> str:
    """An address of a file of this machine as a path."""
    return re.sub("^file:(//)?(?=/)", "", address)


def text_of(value: str) -> str:
    """A literal of DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"
