"""An Iceberg table as its metadata says it is: plain values, read in one call to the JVM.

``parse`` takes the JSON that Iceberg writes for each version of a table ("Table Metadata" of the
Iceberg specification), so that what is decided from it is decided, and tested, without Spark.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

NO_SNAPSHOT: Final = "none"
"""What stands for the snapshot of a table that has none yet."""
LOOKED: Final = "lakehouse.looked"
"""In the summary of a commit of other_events: that it has looked at new payloads. It may have no
rows then, for change logs take their events from bronze.
"""
LAST_LOOKED: Final = "lakehouse.last_looked"
"""In the summary of a commit of other_events: the snapshot of the last one with ``LOOKED``, which
is about to expire.
"""
TAKEN: Final = "lakehouse.taken"
"""In the summary of a commit of other_events: the digest of what change logs took when its rows
were brought up to that. The whole of it is a property, under that name.
"""
EMPTIED: Final = "lakehouse.emptied"
"""In the summary of a commit of other_events: that its rows are places of events that were
forgotten. Nobody who reads the table wants any of them.
"""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Snapshot(msgspec.Struct, frozen=True, rename="kebab"):
    """A commit: ``summary`` has Iceberg's counts, and whatever the writer has added to them."""

    snapshot_id: int
    sequence_number: int = 0
    parent_snapshot_id: int | None = None
    summary: dict[str, str] = {}
    timestamp_ms: int = 0
    first_row_id: int | None = None
    """Rows that it has added have this number or a higher one, as ``_row_id``."""

    @property
    def name(self) -> str:
        """Its id as text."""
        return str(self.snapshot_id)

    @property
    def made_at(self) -> datetime:
        """When it was committed."""
        return _EPOCH + timedelta(milliseconds=self.timestamp_ms)

    @property
    def appends(self) -> bool:
        """Whether it has appended rows, or may have, if who wrote it didn't count. Compaction and
        deletes append none, and neither does a commit that only notes something. One that has
        looked at new payloads counts, for there are events that its readers have not seen.
        """
        if LOOKED in self.summary:
            return True
        if self.summary.get("operation") != "append" or EMPTIED in self.summary:
            return False
        counted = self.summary.get("added-records")
        return int(counted) > 0 if counted is not None else "added-data-files" in self.summary

    @property
    def changes_rows(self) -> bool:
        """Whether it has other rows than the one before: compaction has the same, and a commit that
        only notes something too.
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
    """Iceberg's: stays the same when a table is replaced, and not when it is dropped."""
    properties: dict[str, str]
    comments: dict[str, str]
    """The descriptions of its columns by name, empty for none."""
    instants: frozenset[str]
    """The names of its columns of type timestamp (with zone)."""
    chain: tuple[Snapshot, ...]
    """The current snapshot and those that it has come from, as far back as they are kept."""
    others: frozenset[int]
    """The ids of snapshots that are kept and that the current one has not come from."""
    log: tuple[tuple[datetime, int], ...] = ()
    """Since when which snapshot was the current one, the oldest first."""

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
        """The size of its files, as its current snapshot has it."""
        return int(self.chain[0].summary.get("total-files-size", 0)) if self.chain else 0

    @property
    def may_have_rows(self) -> bool:
        """Whether it may have any, by what its newest commit has counted."""
        return bool(self.chain) and self.chain[0].summary.get("total-records") != "0"

    def snapshot_at(self, moment: datetime) -> int | None:
        """The id of the snapshot that was the current one then, None if that isn't known."""
        return next((snapshot for since, snapshot in reversed(self.log) if since <= moment), None)

    @property
    def last_looked(self) -> str | None:
        """The snapshot of the newest commit that has looked at new payloads; None if that isn't
        known, or there is none.
        """
        for snapshot in self.chain:
            if LOOKED in snapshot.summary:
                return snapshot.name
            if LAST_LOOKED in snapshot.summary:
                return snapshot.summary[LAST_LOOKED]
        return None

    def noted(self, name: str) -> str | None:
        """What the newest commit that says anything of it has noted under this name."""
        for snapshot in self.chain:
            if name in snapshot.summary:
                return snapshot.summary[name]
        return None


def parse(metadata: str) -> Table:
    """The table whose metadata this is (JSON)."""
    read = msgspec.json.decode(metadata, type=_Metadata)
    (schema,) = (each for each in read.schemas if each.schema_id == read.current_schema_id)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in read.snapshots}
    chain = []
    # -1 is how older versions write that there is none.
    at = read.current_snapshot_id
    while at is not None and (snapshot := by_id.pop(at, None)) is not None:
        chain.append(snapshot)
        at = snapshot.parent_snapshot_id
    return Table(
        uuid=read.table_uuid,
        properties=read.properties,
        comments={field.name: field.doc for field in schema.fields},
        instants=frozenset(field.name for field in schema.fields if field.type == "timestamptz"),
        chain=tuple(chain),
        others=frozenset(by_id),
        log=tuple(
            (_EPOCH + timedelta(milliseconds=each.timestamp_ms), each.snapshot_id)
            for each in read.snapshot_log
        ),
    )
