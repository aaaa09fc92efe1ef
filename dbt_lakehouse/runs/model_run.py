"""The state of one model's run: what it reads, decides and notes, from its compilation, which
asks what is new, to the commit of its rows and marks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.config.topics import Formats
from dbt_lakehouse.declared.declarations import digest
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.declared.message_keys import TAKEN as KEYS_TAKEN
from dbt_lakehouse.declared.redeclared import Changes, changes, declared
from dbt_lakehouse.lake.tables import LAST_LOOKED, NO_SNAPSHOT, TAKEN, Table
from dbt_lakehouse.runs import marks, source_filter
from dbt_lakehouse.runs.decisions import (
    FEW_ROWS,
    FEW_ROWS_OF_A_TABLE,
    ROWS_OF_ONE_TASK,
    SMALL_TABLE,
    Newest,
    newest,
)
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Reading, RolledBack, Window
from dbt_lakehouse.runs.moving import marks_moved
from dbt_lakehouse.runs.source_filter import Wanted

# In the summary of a snapshot: the digest of the declaration that the table is made of. The
# declaration itself is a property of the table, whose name contains the digest.
DECLARED: Final = "lakehouse.declared"
# The moment by which expired rows were judged.
AS_OF: Final = "lakehouse.as_of"
# Of gold: the newest times of all known states (decisions.Newest).
NEWEST: Final = "lakehouse.newest"
# Of gold: the number of keys with several inserted rows, and the place of one, as JSON.
DOUBTS: Final = "lakehouse.key_doubts"
# Of deleted_keys: the time up to which states were purged.
HORIZON: Final = "lakehouse.purge_horizon"
# The sequence number up to which a namespace's deletes without a set were purged.
PURGED: Final = "lakehouse.purged"
# A property of a change log: whether any of its events leaves columns unchanged (``kept``).
LEAVES: Final = "lakehouse.leaves"
# A property of a change log: the number of rows on the wrong side of a truncate although it was
# rebuilt (``kept``).
CROSSED: Final = "lakehouse.truncates_crossed"
# A property of a change log: the log time of its newest truncate, 0 without truncates (``kept``).
TRUNCATED: Final = "lakehouse.truncated"
# A property of a change log: the mark on itself up to which key updates have their values.
KEY_UPDATES: Final = "lakehouse.key_updates"
# A property of a change log that its source orders: up to where places were checked, and the
# newest places.
SOURCE_PLACES: Final = "lakehouse.source_places"
# A property of other_events: the last offset of each partition and its log time (``kept``).
LOG_TIMES: Final = "lakehouse.log_times"
_CARRIED: Final = (DECLARED, AS_OF, NEWEST, DOUBTS, HORIZON, PURGED, TAKEN)

Load = Callable[[str], Table | None]
"""Loads a table by its name (``schema.table``); None if it does not exist."""


class NodeRun:
    """A model's run.

    ``own`` is the name of its table, ``upstreams`` are the names of the tables that it reads
    incrementally; a name is ``schema.table`` or dbt's relation. ``of`` is the declaration, where
    the model's SQL is not all that counts. With ``full_refresh`` the table is rebuilt in any case.
    ``merges``: whether an upstream can be read again from the start, so that its history may be
    lost. With ``refolds``, rows are made again from everything that the upstreams have of their
    keys. ``wanted``: what is read of the first upstream, other_events. With ``follows``, the
    other upstreams are read as far as the first has read them. ``reason``: why the table is
    rebuilt although it could go on.
    """

    def __init__(
        self,
        load: Load,
        own: Any,
        upstreams: Sequence[Any],
        of: Fold | Mapping[str, Any] | None = None,
        *,
        full_refresh: bool = False,
        merges: bool = False,
        refolds: bool = False,
        wanted: Wanted = None,
        follows: bool = False,
        reason: str | None = None,
    ) -> None:
        self.own: Final = str(own)
        self.upstreams: Final = list(upstreams)
        self._merges: Final = merges
        self._refolds: Final = refolds
        self._follows: Final = follows
        self.fold: Final = of if isinstance(of, Fold) else None
        self.declaration: Final = None if of is None else declared(of)
        self.keeps: dict[str, Any] = {}
        """What to keep with the table for the next run: properties that are tied to the snapshot
        of the run's commit (``kept``).
        """
        self.formats: dict[str, tuple[int, Formats]] = {}
        """The formats of the topics whose payloads other_events looks at, with the time
        (microseconds since the epoch) since which these payloads have landed.
        """
        self.payloads: int | None = None
        """The number of new payloads that other_events looks at, if it was asked for."""
        self.notes_beside: dict[str, str] = {}
        """Further notes of the model's commits."""
        self.properties_beside: dict[str, str] = {}
        """The properties to which these notes refer."""
        self.doubts: str | None = None
        """What the new rows show against the uniqueness of their key (``DOUBTS``)."""
        self.places: str | None = None
        """The view of new events whose log time changes in a change log (truncate_order)."""
        self.truncate_ties = 0
        """The rows of a change log that count as later than a truncate for want of an order."""
        self.truncates_crossed = 0
        """The rows of a change log on the wrong side of a truncate, in whatever order they are
        read.
        """
        self.leaves: bool | None = None
        """Whether any event may leave columns unchanged (dbt_lakehouse/build/sql/fold.sql); None
        until the model of a gold table is compiled.
        """
        self.meets_truncates: bool | None = None
        """Whether it may meet a truncate, new or remembered; None until then."""
        self.key_updates: Mark | None = None
        """The mark on a change log's own rows that is noted when its key updates are done."""
        self.full_refresh: Final = full_refresh
        """Whether the table is rebuilt in any case."""
        self.table: Final = None if full_refresh else load(str(own))
        self.seen: str | None = None if full_refresh else NO_SNAPSHOT
        """The snapshot of the table by which its new rows are chosen; None if it is rebuilt,
        whatever it contains.
        """
        if self.table is not None:
            self.seen = self.table.snapshot
        self.readings: dict[str, Reading] = {}
        self.to_fill: dict[str, str | None] = {}
        self.reason: str | None = None
        """Why an existing table is rebuilt without a request."""
        self.is_moved = False
        """Whether the marks of the table are on tables that it read before (``moving``)."""
        self.is_exchanged = False
        """Whether that is because it now reads another table."""
        self.rolled_back_from: str | None = None
        """The snapshot of ``origin`` that was read before ``origin`` was rolled back."""
        self._load: Final = load
        tables = {str(name): load(str(name)) for name in upstreams}
        if self.table is not None:
            self.reason = reason or self._go_on(self.table, tables, wanted)
        self.is_incremental: Final = self.table is not None and self.reason is None
        if not self.is_incremental:
            self.to_fill = {}
            self.readings = {
                name: self._reading(name, None, tables)
                for name, table in tables.items()
                if table is not None
            }
        elif upstreams and not self._wants(tables[str(upstreams[0])], wanted):
            # It stays at the old mark: to note the new one would be a commit for each table in
            # each run.
            for name in [*self.readings] if follows else [str(upstreams[0])]:
                self.readings[name] = self.readings[name]._replace(window=Window.NOTHING)
        self._tables: Final = tables

    def _go_on(
        self, table: Table, tables: Mapping[str, Table | None], wanted: Wanted
    ) -> str | None:
        """Find the new rows for an existing table. Returns the reason if the table has to be
        rebuilt.
        """
        held = marks.marks_of(table)
        if tables and not tables.keys() <= held.keys():
            moved = marks_moved(held, [*tables], self._load, wanted)
            self.is_moved = moved is not None
            held = moved or held
        if self._merges:
            held = {name: mark for name, mark in held.items() if name in tables}
        elif tables and not held:
            return "its upstream tables are not recorded"
        for name, upstream in tables.items():
            if upstream is None:
                return f"{name} is not there any more"
            if name not in held and not self._merges:
                if str(self.origin) in held and (reason := self._changes_of(table).rebuild):
                    return reason
                self.is_exchanged = True
                others = ", ".join(sorted(held.keys() - tables.keys())) or "other tables"
                return f"it was made of {others}, and its model reads {name} now"
            try:
                self.readings[name] = self._reading(name, held.get(name), tables)
            except HistoryLost as error:
                if not self._merges:
                    read = held[name].snapshot
                    is_origin = name == str(self.origin)
                    if is_origin and isinstance(error, RolledBack) and int(read) in upstream.others:
                        self.rolled_back_from = read
                    return f"{name} {error} after it was read"
                self.readings[name] = marks.reading(None, upstream)
            if self._refolds and marks.is_trimmed(held[name], upstream):
                return f"rows of {name} were deleted after it was read"
            purged = upstream.noted(PURGED)
            if purged and self.fold is not None and self.fold.namespace is not None:
                # Its model was absent when all existing ones had read them.
                if held[name].sequence < int(purged):
                    return f"{name} has forgotten deletes that it had not read"
        changed = self._changes_of(table)
        self.to_fill = changed.to_fill
        return changed.rebuild

    def _changes_of(self, table: Table) -> Changes:
        """The changes since the declaration that the table was made of."""
        if self.declaration is None:
            return Changes({})
        return changes(self._declaration_of(table), self.declaration)

    def _reading(self, name: str, mark: Mark | None, tables: Mapping[str, Table | None]) -> Reading:
        """The rows of an upstream since a mark. Raises ``HistoryLost``."""
        table, first = tables[name], tables[str(self.upstreams[0])]
        assert table is not None
        if not self._follows or name == str(self.upstreams[0]):
            return marks.reading(mark, table)
        limit = None if first is None else marks.marks_of(first).get(name)
        return marks.reading_to(mark, table, limit)

    def _declaration_of(self, table: Table) -> str | None:
        assert self.declaration is not None
        if table.noted(DECLARED) == digest(self.declaration):
            return self.declaration
        return table.noted_text(DECLARED)

    @property
    def masked_before(self) -> list[str]:
        """The columns (quoted) that are masked in a gold table's rows, as far as the
        table tells.
        """
        found: list[str] = self._declared_before.get("masked", [])
        return found

    @property
    def kept_deleted_rows(self) -> bool:
        """Whether a gold table has kept deleted rows, as far as the table tells."""
        return "deleted_rows" in self._declared_before

    @property
    def _declared_before(self) -> dict[str, Any]:
        text = None if self.table is None else self._declaration_of(self.table)
        found: dict[str, Any] = json.loads(text or "{}")
        return found

    def _wants(self, upstream: Table | None, wanted: Wanted) -> bool:
        if upstream is None or not self.upstreams:
            return True
        return source_filter.may_have(upstream, self.readings[str(self.upstreams[0])], wanted)

    @property
    def origin(self) -> Any:
        """The upstream that the table's rows are from."""
        return self.upstreams[-1 if self._follows else 0]

    @property
    def is_redeclared(self) -> bool:
        """Whether the table's rows were made of another declaration."""
        return (
            self.declaration is not None
            and self.table is not None
            and self.table.noted(DECLARED) != digest(self.declaration)
        )

    @property
    def has_news(self) -> bool:
        """Whether there is anything to do for the model's rows."""
        return (
            not self.is_incremental
            or self.is_redeclared
            or any(reading.has_news for reading in self.readings.values())
        )

    def reading(self, upstream: Any) -> Reading:
        """The part of an upstream to read.

        Raises ``CompilationError`` if there is no such table.
        """
        found = self.readings.get(str(upstream))
        if found is None:
            raise CompilationError(
                f"{upstream} is not there, and this model reads it: build it first, as `dbt run`"
                " does with `-s +<this model>`"
            )
        return found

    def table_of(self, upstream: Any) -> Table | None:
        """An upstream as it was when the run began."""
        return self._tables[str(upstream)]

    def may_read(self, upstream: Any, wanted: str) -> bool:
        """Whether the new part of other_events may contain what ``source_filter.CONDITIONS``
        calls ``wanted``.
        """
        reading, table = self.reading(upstream), self.table_of(upstream)
        if table is None or reading.window is not Window.WHOLE:
            return table is not None and source_filter.may_have(table, reading, wanted)
        return source_filter.may_ever_have(table, wanted)

    def has_news_of(self, upstream: Any) -> bool:
        """Whether an upstream may have rows that are new to the table."""
        return self.reading(upstream).has_news

    def may_read_again(self, upstream: Any) -> bool:
        """Whether the new rows may include rows that were read before. Rows are selected by
        sequence number, and rows whose column was filled since have got a new number.
        """
        return self.reading(upstream).window is Window.SINCE_SEQUENCE

    def may_have_changed(self, upstream: Any) -> bool:
        """Whether rows of an upstream that were read before may have been changed in place."""
        since, table = self.reading(upstream).since, self.table_of(upstream)
        return since is not None and table is not None and marks.is_changed(since, table)

    def rows(self, upstream: Any) -> str:
        """The rows of an upstream that are new to the table, as SQL to select from."""
        return self.reading(upstream).sql(str(upstream))

    def rows_before(self, upstream: Any) -> str:
        """The rows of an upstream that were read before, as SQL to select from."""
        since = self.reading(upstream).since
        if since is None or since.snapshot == NO_SNAPSHOT:
            return f"(select * from {upstream} where false)"
        table = self._tables[str(upstream)]
        if table is not None and any(each.name == since.snapshot for each in table.chain):
            return f"(select * from {upstream} version as of {since.snapshot})"
        return f"(select * from {upstream} where _last_updated_sequence_number <= {since.sequence})"

    def rows_so_far(self, upstream: Any) -> str:
        """The rows of an upstream that are new or were read before, as SQL to select from."""
        reading = self.reading(upstream)
        return reading._replace(window=Window.WHOLE, since=None).sql(str(upstream))

    def snapshot_of(self, upstream: Any) -> str:
        """The snapshot up to which an upstream is read."""
        return self.reading(upstream).until.snapshot

    def sequence_read(self, upstream: Any) -> int:
        """The sequence number up to which an upstream was read before."""
        since = self.reading(upstream).since
        return 0 if since is None else since.sequence

    @property
    def is_small(self) -> bool:
        """Whether the new upstream rows are few enough for one task."""
        new = self._new_rows
        return new is not None and new <= ROWS_OF_ONE_TASK

    @property
    def suits_small(self) -> bool:
        """Whether few rows are new, to a table that is not large."""
        return self._adds_at_most(ROWS_OF_ONE_TASK, SMALL_TABLE)

    @property
    def spares_compiling(self) -> bool:
        """Whether so few rows are new, to so small a table, that code for them is not worth
        compiling. What a log has is not read again.
        """
        few_of_its_own = FEW_ROWS_OF_A_TABLE if self.fold is not None else SMALL_TABLE
        return self._adds_at_most(FEW_ROWS, few_of_its_own)

    def _adds_at_most(self, most_new: int, most_of_its_own: int) -> bool:
        if not self.is_incremental or self.table is None or not self.upstreams:
            return False
        total = self.table.chain[0].summary.get("total-records") if self.table.chain else "0"
        if total is None or int(total) > most_of_its_own:
            return False
        new = self._new_rows
        return new is not None and new <= most_new

    @property
    def _new_rows(self) -> int | None:
        """The number of new rows of the first upstream; None if it is read from the start, or its
        snapshots don't say.
        """
        name = str(self.origin)
        table, since = self._tables[name], self.reading(name).since
        if table is None or since is None:
            return None
        added = 0
        for snapshot in table.chain:
            if snapshot.name == since.snapshot:
                return added
            added += int(snapshot.summary.get("added-records", 0)) if snapshot.appends else 0
        return None

    @property
    def newest(self) -> Newest | None:
        """The newest times of all known states of a gold table's keys after its last run."""
        return newest(self.noted(NEWEST))

    def noted(self, name: str) -> str | None:
        """A note of the table, from the newest commit that has it."""
        return self.table.noted(name) if self.table is not None and self.is_incremental else None

    def notes(self, more: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The notes for the commit of the model's rows."""
        read: dict[str, Mark] = {name: reading.until for name, reading in self.readings.items()}
        notes = marks.noted(read)
        if self.declaration is not None:
            notes[DECLARED] = digest(self.declaration)
        if self.doubts is not None:
            notes[DOUBTS] = self.doubts
        notes |= self.notes_beside
        return notes | {name: str(value) for name, value in (more or {}).items()}

    def properties(self) -> dict[str, str]:
        """Properties that the table needs before its rows are committed."""
        found = {**self.properties_beside}
        if self.declaration is None:
            return found
        found[f"{DECLARED}.{digest(self.declaration)}"] = self.declaration
        if None in self.to_fill.values() and self.fold is None:
            # It is unknown whether earlier events leave the columns unchanged that they fill.
            found[LEAVES] = ""
        return found


def keeping(table: Table, value: Any) -> str:
    """A property value that is tied to a table's current snapshot."""
    return json.dumps({"snapshot": table.snapshot, "value": value})


def kept(table: Table, name: str) -> Any:
    """The value of such a property if the table has no rows since; otherwise None."""
    held = json.loads(table.properties.get(name) or "{}")
    for snapshot in table.chain:
        if snapshot.name == held.get("snapshot"):
            return held["value"]
        if snapshot.appends:
            return None
    return None


def carried(table: Table) -> dict[str, str]:
    """All notes of a table's commits if the newest one lacks any of them, to be noted again
    before the older commits expire. All of them, since the newest commit expires in its turn.
    """
    notes = marks.noted(marks.marks_of(table))
    for snapshot in table.chain:
        for name, value in snapshot.summary.items():
            if name in _CARRIED:
                notes.setdefault(name, value)
    looked = table.last_looked
    if looked is not None and looked != table.snapshot:
        notes[LAST_LOOKED] = looked
    current = table.chain[0].summary if table.chain else {}
    return {} if notes.items() <= current.items() else notes


def kept_anew(table: Table) -> dict[str, str]:
    """The properties that are tied to an earlier snapshot and still true of the current one, tied
    to the current one, before the earlier snapshot expires.
    """
    names = (LEAVES, LOG_TIMES, KEYS_TAKEN, CROSSED, TRUNCATED)
    values = {name: kept(table, name) for name in names}
    texts = {name: keeping(table, each) for name, each in values.items() if each is not None}
    return {name: text for name, text in texts.items() if table.properties[name] != text}
