"""The captures that bronze was last found to hold, kept as a property of the table

    lakehouse.landed        digest|snapshot|messages of those captures

so that captures which each run names again (``vars.captures``) are not compared each time.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LandingError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import load_table

_PROPERTY: Final = "lakehouse.landed"
# A stream appends every few seconds, and each step back is a call to the JVM.
_SNAPSHOTS_TO_LOOK_BACK: Final = 100


def digest_of(paths: Iterable[str]) -> str:
    """A hash of the files' contents, wherever they are. Raises ``LandingError``."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise LandingError(f"{path}: {error.strerror}") from error
    return digest.hexdigest()


def messages_held(spark: SparkSession, digest: str) -> int | None:
    """The number of messages noted with this digest if bronze certainly still holds them, because
    messages have only been added since. Otherwise None.
    """
    table = load_table(spark, bronze.TABLE)
    noted, _, rest = (table.properties().get(_PROPERTY) or "").partition("|")
    if noted != digest:
        return None
    snapshot, messages = (int(number) for number in rest.split("|"))
    current = table.currentSnapshot()
    for _ in range(_SNAPSHOTS_TO_LOOK_BACK):
        if current is None:
            return None
        if current.snapshotId() == snapshot:
            return messages
        # Compaction replaces files. Any other operation may remove messages.
        if current.operation() not in ("append", "replace"):
            return None
        parent = current.parentId()
        current = None if parent is None else table.snapshot(parent)
    return None


def note(spark: SparkSession, digest: str, snapshot: int, messages: int) -> None:
    """Note that the snapshot holds all messages of the captures with this digest. It replaces the
    earlier note.
    """
    noted = f"{digest}|{snapshot}|{messages}"
    load_table(spark, bronze.TABLE).updateProperties().set(_PROPERTY, noted).commit()
