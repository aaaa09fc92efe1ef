"""Orphan files: files in a table's folder that none of its snapshots names.

They come from a run or a landing that was killed, or from a failed commit. Files from before the
lake was begun don't count: they belong to another lake, whose catalog was lost or exchanged, and
may be all that is left of it.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.lake.beginning import lake_begun_at
from dbt_lakehouse.runs import tables
from dbt_lakehouse.spark.jvm import java_class, java_session


class Orphans(NamedTuple):
    """The addresses of orphan files."""

    ours: list[str]
    """Files written since the lake was begun."""
    older: list[str]


def find(spark: SparkSession, name: str, before: datetime) -> Orphans:
    """The files of a table that no snapshot names and that were written before a moment."""
    actions = java_class("org.apache.iceberg.spark.actions.SparkActions")
    result = (
        actions.get(java_session(spark))
        .deleteOrphanFiles(tables.load(spark, name))
        # Through Iceberg's file IO: Hadoop's has no access to buckets.
        .usePrefixListing(True)
        .olderThan(int(before.timestamp() * 1_000))
        # Collects the addresses, and deletes nothing.
        .deleteWith(java_class("java.util.stream.Stream").builder())
        .execute()
    )
    found = [str(each) for each in result.orphanFileLocations()]
    ours = _written_since(spark, name, found, lake_begun_at(spark)) if found else set()
    return Orphans(
        [each for each in found if _path(each) in ours],
        [each for each in found if _path(each) not in ours],
    )


def delete(spark: SparkSession, name: str, files: Iterable[str]) -> None:
    """Delete files of a table."""
    storage = tables.load(spark, name).io()
    for each in files:
        storage.deleteFile(each)


def _written_since(
    spark: SparkSession, name: str, files: Sequence[str], moment: datetime | None
) -> set[str]:
    """The paths of the files that were written since the moment; all of them if the moment is
    unknown.
    """
    if moment is None:
        return {_path(each) for each in files}
    storage = tables.load(spark, name).io()
    return {
        _path(str(each.location()))
        for folder in {file.rpartition("/")[0] for file in files}
        for each in list(storage.listPrefix(f"{folder}/").iterator())
        if each.createdAtMillis() >= moment.timestamp() * 1_000
    }


def _path(location: str) -> str:
    """A file's address, which tables and file systems spell differently (file:/, file:///)."""
    return re.sub("^file:/+", "/", location)
