"""An Iceberg table as plain values from its metadata, read in one call to the JVM.

``parse`` takes the JSON that Iceberg writes for each version of a table ("Table Metadata" of the
Iceberg specification), so that decisions based on it run, and are tested, without Spark.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

NO_SNAPSHOT: Final = "none"
"""Stands for the snapshot of a table without one."""
LOOKED: Final = "lakehouse.looked"
"""In the summary of a commit of other_events: it has looked at new payloads. It may have no rows
then, since change logs take their events from bronze.
"""
LAST_LOOKED: Final = "lakehouse.last_looked"
"""In the summary of a commit of other_events: the snapshot of the last commit with ``LOOKED``,
which is about to expire.
"""
TAKEN: Final = "lakehouse.taken"
"""In the summary of a commit of other_events: the digest of what change logs took when its rows
were adapted to that. The full text is a property, whose name contains the digest.
"""
EMPTIED: Final = "lakehouse.emptied"
"""In the summary of a commit of other_events: its rows are only the places of forgotten events,
which no reader of the table needs.
"""
ROW_LINEAGE: Final = {"format-version": "3"}
"""The properties of a table from which runs go on by its rows' ids and sequence numbers. They hold
also where a profile's table-default asks for an earlier version, for readers of gold.
"""
# Of zstd. Iceberg's own, 3, makes files 5 % smaller and takes a sixth longer to write.
_COMPRESSION: Final = {"write.parquet.compression-level": "1"}
ROW_GROUPS: Final = {"write.parquet.row-group-size-bytes": str(8 << 20)}
"""Parts of files that a reader of a few keys or topics can pass over; the profile's 32 MB are most
of a file.
"""
FILES: Final = {
    **_COMPRESSION,
    # Else two cores read a log of 16 MB by one task.
    "read.split.target-size": str(8 << 20),
}
"""The properties of files of logs and events, where a model's config has no others."""
FILES_BY_KEY: Final = {**_COMPRESSION, **ROW_GROUPS}
"""Those of gold tables and histories."""
KEPT_FOR: Final = timedelta(hours=1)
"""Snapshots of this age stay, however many there are: running queries may read them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Snapshot(msgspec.Struct, frozen=True, rename="kebab"):
    """A commit. ``summary`` has Iceberg's counts, and the notes of the writer."""

    snapshot_id: int
    sequence_number: int = 0
    parent_snapshot_id: int | None = None
    summary: dict[str, str] = {}
    timestamp_ms: int = 0
    first_row_id: int | None = None
    """The lowest ``_row_id`` of the rows that it has added."""

    @property
    def name(self) -> str:
        """The snapshot id as text."""
        return str(self.snapshot_id)

    @property
    def made_at(self) -> datetime:
        """The time of the commit."""
        return _EPOCH + timedelta(milliseconds=self.timestamp_ms)

    @property
    def appends(self) -> bool:
        """Whether it has appended rows, or may have, if its writer didn't count them. Compaction,
        deletes and commits of notes append none. A commit that has looked at new payloads counts,
        since it has events that readers have not seen.
        """
        if LOOKED in self.summary:
            return True
        if self.summary.get("operation") != "append" or EMPTIED in self.summary:
            return False
        counted = self.summary.get("added-records")
        return int(counted) > 0 if counted is not None else "added-data-files" in self.summary

    @property
    def changes_rows(self) -> bool:
        """Whether its rows differ from the snapshot's before. Compaction and commits of notes
        change none.
        """
        if self.summary.get("operation") == "replace":
            return False
        return any(name.startswith(("added-", "deleted-", "removed-")) for name in self.summary)


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: Any
    doc: str = ""


class _Schema(msgspec.Struct, frozen=True, rename="kebab"):
    fields: list[_Field]
    schema_id: int = 0


class _LogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    timestamp_ms: int
    snapshot_id: int


class _Metadata(msgspec.Struct, frozen=True, rename="kebab"):
    format_version: int
    table_uuid: str
    schemas: list[_Schema]
    current_schema_id: int = 0
    properties: dict[str, str] = {}
    current_snapshot_id: int | None = None
    snapshots: list[Snapshot] = []
    snapshot_log: list[_LogEntry] = []


class Table(msgspec.Struct, frozen=True):
    """A table as it is."""

    uuid: str
    """Iceberg's uuid: it stays when a table is replaced, and changes when a table is dropped and
    created again.
    """
    properties: dict[str, str]
    comments: dict[str, str]
    """The descriptions of its columns by name; empty for missing ones."""
    instants: frozenset[str]
    """The names of its columns of type timestamp (with zone)."""
    chain: tuple[Snapshot, ...]
    """The current snapshot and its ancestors, as far back as they are kept."""
    others: frozenset[int]
    """The ids of kept snapshots that are not ancestors of the current one."""
    log: tuple[tuple[datetime, int], ...] = ()
    """The times at which snapshots became the current one, the oldest first."""
    version: int = 3
    """Iceberg's format version."""

    @property
    def snapshot(self) -> str:
        """The id of the current snapshot as text, ``NO_SNAPSHOT`` for an empty table."""
        return self.chain[0].name if self.chain else NO_SNAPSHOT

    @property
    def sequence(self) -> int:
        """The sequence number of the current snapshot, 0 for an empty table."""
        return self.chain[0].sequence_number if self.chain else 0

    @property
    def bytes(self) -> int:
        """The size of its files, from its current snapshot."""
        return int(self.chain[0].summary.get("total-files-size", 0)) if self.chain else 0

    @property
    def may_have_rows(self) -> bool:
        """Whether it may have any rows, by the counts of its newest commit."""
        return bool(self.chain) and self.chain[0].summary.get("total-records") != "0"

    def snapshot_at(self, moment: datetime) -> int | None:
        """The id of the snapshot that was current at a moment, None if that is unknown."""
        return next((snapshot for since, snapshot in reversed(self.log) if since <= moment), None)

    @property
    def last_looked(self) -> str | None:
        """The snapshot of the newest commit that has looked at new payloads; None if there is
        none, or it is unknown.
        """
        for snapshot in self.chain:
            if LOOKED in snapshot.summary:
                return snapshot.name
            if LAST_LOOKED in snapshot.summary:
                return snapshot.summary[LAST_LOOKED]
        return None

    def noted(self, name: str) -> str | None:
        """A note of the table, from the newest commit that has it."""
        for snapshot in self.chain:
            if name in snapshot.summary:
                return snapshot.summary[name]
        return None

    def noted_text(self, name: str) -> str | None:
        """The text whose digest the table notes, from the property that has it in its name."""
        return self.properties.get(f"{name}.{self.noted(name)}")


def parse(metadata: str, before: Table | None = None) -> Table:
    """Parse a table's metadata (JSON); with an earlier state of it, only what has come since."""
    read = msgspec.json.decode(metadata, type=_Metadata)
    (schema,) = (each for each in read.schemas if each.schema_id == read.current_schema_id)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in read.snapshots}
    chain = []
    # Older versions write -1 for no snapshot.
    at = read.current_snapshot_id
    while at is not None and (snapshot := by_id.pop(at, None)) is not None:
        chain.append(snapshot)
        at = snapshot.parent_snapshot_id
    earlier = () if before is None else before.chain
    return Table(
        uuid=read.table_uuid,
        properties=read.properties,
        comments={field.name: field.doc for field in schema.fields},
        instants=frozenset(field.name for field in schema.fields if field.type == "timestamptz"),
        chain=(*chain, *earlier),
        others=frozenset(by_id) if before is None else before.others,
        log=(
            *(() if before is None else before.log),
            *(
                (_EPOCH + timedelta(milliseconds=each.timestamp_ms), each.snapshot_id)
                for each in read.snapshot_log
            ),
        ),
        version=read.format_version,
    )
