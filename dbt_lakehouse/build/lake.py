"""The interface through which models use the adapter: Spark, Iceberg and dbt's graph."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from dbt_lakehouse.build.truncate_order import Placed
from dbt_lakehouse.config.topics import TopicMatcher
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.decisions import Found, Rebuilt
from dbt_lakehouse.runs.full_snapshots import Sources
from dbt_lakehouse.runs.log_input import LogInput, Part
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.runs.source_filter import Wanted
from dbt_lakehouse.runs.taken import TakenEvents

Condition = tuple[str, str, Any]
"""A column, an operator, a value (``tables.may_have_rows``)."""


class LookedAt(NamedTuple):
    """The events of a change log that its tests check: of which run, and which part."""

    run: NodeRun
    part: Part


class LogOfProject(NamedTuple):
    """A change log with its declaration, and the run that says what it has not read yet."""

    relation: Any
    log: Mapping[str, Any]
    run: NodeRun


class Statements(Protocol):
    """Spark statements, which run in the session of the model's thread."""

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        ...

    def execute(self, sql: str) -> tuple[Any, Any]:
        """Run a statement that gives no rows."""
        ...

    def define(self, name: str, query: str) -> None:
        """Make a temporary view of a query, which Spark evaluates at each reading."""
        ...

    def evaluate(self, name: str, query: str) -> int:
        """Evaluate a query as a temporary view. Returns its number of rows."""
        ...

    def drop_evaluated(self, prefix: str) -> None:
        """Drop the evaluated views whose names have a prefix."""
        ...

    def evaluate_states(
        self, name: str, query: str, of: Fold, as_of: str, is_late: str, *, observed: bool
    ) -> Found:
        """Evaluate folded states as a view. Returns their summary."""
        ...

    def hold_key_ranges(self, name: str, found: Found) -> list[list[str]]:
        """Keep the key ranges of states as arguments of statements. Returns their bounds as SQL."""
        ...

    def hold_key_ranges_of(self, name: str, relation: str, column: str) -> list[list[str]]:
        """Keep the ranges of a view's column in the same way."""
        ...

    def ranges_to_write(self, keys: int) -> int:
        """The number of key ranges, and files, into which a first load divides its table."""
        ...

    def has_evaluated(self, name: str) -> bool:
        """Whether an evaluated view of this name exists."""
        ...

    def arrow(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        ...

    def hold(self, name: str, rows: pa.Table) -> None:
        """Make a temporary view of Arrow rows."""
        ...


class Catalog(Protocol):
    """Tables: whether they exist, what they may hold, their columns and properties."""

    def may_have_rows(self, relation: Any, conditions: Sequence[Condition], since: int = 0) -> bool:
        """Whether a table may have rows that meet conditions; False is certain."""
        ...

    def may_have_new_rows(
        self, run: NodeRun, upstream: Any, conditions: Sequence[Condition]
    ) -> bool:
        """Whether the rows that are new to a model's table may meet conditions; False is
        certain.
        """
        ...

    def columns_of(self, relation: Any) -> dict[str, str]:
        """The columns of a table with their types; empty if there is no such table."""
        ...

    def relation_of(self, name: str) -> Any:
        """The table of the model of this name, as dbt's ``ref`` gives it."""
        ...

    def own_table(self, name: str) -> Any:
        """The table of the lake's own state of this name, created if needed."""
        ...

    def pinned_own(self, this: Any) -> str:
        """The current snapshot of a model's own table, to select from, with all of its columns."""
        ...

    def follow_schema(self, this: Any, query: str) -> None:
        """Evolve a table's schema to the columns of a query."""
        ...

    def columns_kept(self, this: Any, of: Fold) -> list[str]:
        """The value columns that a model's table already has, with the same types."""
        ...

    def has_key_updates(self, run: NodeRun, log: Any) -> bool:
        """Whether rows of a log may have got values of another key's row since it was read."""
        ...

    def is_worth_a_question(self, relation: Any) -> bool:
        """Whether a table is so large that a query which narrows what to read of it pays off."""
        ...

    def set_properties(self, this: Any, properties: Mapping[str, str]) -> None:
        """Set table properties."""
        ...

    def may_have_key_updates(self, log: Any, since: int = 0) -> bool:
        """Whether a change log may have rows of key updates, written by a commit of a sequence
        number above ``since``.
        """
        ...

    def look_at(self, relation: Any) -> Table | None:
        """A table as it is now, None if it does not exist."""
        ...


class Runs(Protocol):
    """Runs of models of this command."""

    def run_of(self, this: Any) -> NodeRun:
        """The run that a model's compilation has begun."""
        ...

    def sequence_read_by_all(self, upstream: Any) -> int:
        """The sequence number up to which all gold tables of namespaces have read a table."""
        ...

    def run_to_test(self, relation: Any) -> NodeRun | None:
        """The run in which this command has brought a table up to date; None if its tests check
        all of the table.
        """
        ...

    def begin_run(
        self,
        this: Any,
        upstreams: Sequence[Any],
        of: Fold | Mapping[str, Any] | None,
        full_refresh: bool,
        *,
        merges: bool = False,
        refolds: bool = False,
        wanted: Wanted = None,
        follows: bool = False,
        reason: str | None = None,
    ) -> NodeRun:
        """Begin a run: find the new rows for a model's table, see ``NodeRun``."""
        ...

    def refuse_earlier_version(self, upstream: Any) -> None:
        """Refuse a table of a format version from which runs can't go on."""
        ...

    def moment(self, given: Any) -> str:
        """The moment of this command as text; ``given`` is ``vars.as_of``."""
        ...

    def added_rows(self, relation: Any) -> str | None:
        """The rows that this command has added to an append-only table, to select from; None for
        all.
        """
        ...

    def as_read(self, upstream: Any, reader: Any) -> str:
        """The rows of a table that another one has read, to select from."""
        ...


class Declared(Protocol):
    """Declarations of models."""

    def fold_of(
        self,
        changes: Any,
        columns: Sequence[str] | None = None,
        track_columns: Sequence[str] | None = None,
        is_history: bool = False,
        bitemporal: bool = False,
        deleted_rows: bool = False,
    ) -> Fold:
        """What a gold table or a history takes of its log's declaration."""
        ...

    def fold_to_test(self, model: Any, test: str, current: Any = None) -> Fold:
        """What an existing table takes of it, for a test; ``current`` is the gold table with
        which a history is compared.
        """
        ...

    def fold_of_table(self, model: Any) -> Fold:
        """What a model takes of it, as currently declared."""
        ...

    def log_to_test(self, log: Any, test: str) -> Mapping[str, Any]:
        """The declaration of a change log, for a test."""
        ...

    def check_contract(self, model: Any, of: Fold, columns: Sequence[str]) -> None:
        """Stop a model whose contract is enforced if it has other columns than the contract."""
        ...

    def check_contracts_behind(self, log: Any, declared: Mapping[str, Any]) -> None:
        """Check the contracts of a change log's gold tables and histories that this command
        builds.
        """
        ...

    def may_leave(self, changes: Any, of: Fold) -> bool:
        """Whether any event of a log may leave columns unchanged."""
        ...

    def may_doubt_key(self, changes: Any) -> bool:
        """Whether to look for rows which show that a log's key is not unique."""
        ...

    def keep_doubts(self, this: Any, found: Found | Rebuilt) -> None:
        """Keep with a model's table what its new rows say of their key."""
        ...

    def doubt_of_rows(self, this: Any, of: Fold) -> str | None:
        """The run's warning about a key that seems not to be unique."""
        ...

    def log_of_model(self, model: Any) -> Any:
        """The change log of a gold table or history."""
        ...

    def taken_events(self) -> TakenEvents:
        """The condition of the events that the project's change logs take."""
        ...

    def followed(self, log: Mapping[str, Any], relation: Any) -> Mapping[str, Any]:
        """A change log's declaration with the current types of its columns."""
        ...


class Commits(Protocol):
    """Commits that write rows and, in their snapshot summary, what the rows were made of."""

    def observed(self, this: Any, query: str, aggregates: Mapping[str, str] | None) -> str:
        """A query of a model's rows that also computes aggregates while they are written."""
        ...

    def replace(self, this: Any, statement: str, notes: Mapping[str, Any] | None = None) -> str:
        """Run a statement that rebuilds a model's table. Returns dbt's message."""
        ...

    def append(
        self,
        this: Any,
        query: str,
        notes: Mapping[str, Any] | None = None,
        counted: Mapping[str, str] | None = None,
    ) -> str:
        """Append a query's rows to a model's table, with aggregates computed meanwhile. Returns
        dbt's message.
        """
        ...

    def write_table(self, this: Any, statement: str, notes: Mapping[str, Any] | None = None) -> str:
        """Run a statement that writes a model's table. Returns dbt's message."""
        ...

    def change(self, this: Any, statement: str, notes: Mapping[str, str] | None = None) -> None:
        """Run a statement that changes existing rows of a model's table, before new ones come."""
        ...

    def note(self, this: Any, notes: Mapping[str, Any] | None = None) -> None:
        """Commit what was read, without rows."""
        ...

    def note_moved(self, this: Any) -> None:
        """Commit the marks again where a table's marks are of tables that it read before."""
        ...

    def refuse_overtaken(self, this: Any) -> None:
        """Stop a model whose table another writer has changed since its run began."""
        ...

    def execute_noting(self, statement: str, notes: Mapping[str, str]) -> None:
        """Run a statement that writes a table of the lake's own state, with these notes in its
        commit.
        """
        ...

    def append_more(self, this: Any, query: str, aggregates: Mapping[str, str]) -> None:
        """Append rows to a model's table in addition to those of its run."""
        ...

    def has_read_all(self, reader: Any, upstream: Any, wanted: Wanted = None) -> bool:
        """Whether a table has read all of another, or all that its model wants of it."""
        ...

    def write_as_read(self, reader: Any, upstream: Any, statement: str) -> None:
        """Run a statement that writes to a table what it would read of another. The mark moves in
        the same commit, so nothing is left to read.
        """
        ...


class Events(Protocol):
    """The reading of events."""

    @property
    def topics(self) -> Any:
        """``vars.topics``."""
        ...

    def topic_matcher(self) -> TopicMatcher:
        """The matcher of topics against the entries of ``vars.topics``."""
        ...

    def reconciled_sources(self) -> Sources:
        """The source tables whose full snapshots some change log reconciles."""
        ...

    def looked_input(self, run: NodeRun, topics: Sequence[str] | None) -> LogInput:
        """What to read of the payloads and events that other_events has checked in this run: all
        of them in some topics or, for None, all that it had checked before this run. Added events
        are always included.
        """
        ...

    def log_to_look_at(self, model: Any, log: Mapping[str, Any]) -> LookedAt:
        """The events of a change log that its tests check."""
        ...

    def logs_to_look_at(self) -> Sequence[LogOfProject]:
        """All change logs."""
        ...

    def events_to_give(self, events: Any) -> str:
        """An SQL condition for the rows of other_events that its next run hands over to change
        logs.
        """
        ...

    def topics_with_changes(self, events: Any) -> Sequence[str]:
        """The topics with a decoded event that changes a row."""
        ...

    def corrected_log_times(self) -> str | None:
        """The table of log times that differ from their payload's timestamp; None without rows."""
        ...

    def compacted_topics(self) -> Collection[str]:
        """The topics that a broker has ever reported as compacted."""
        ...

    def compaction_of(self, topics: Sequence[str]) -> Mapping[str, bool | None]:
        """Whether topics count as compacted; None for a topic of which that is unknown."""
        ...

    def log_input(self, run: NodeRun, log: Mapping[str, Any], part: Part) -> LogInput:
        """What a run of a change log reads."""
        ...

    def place_truncates(
        self,
        this: Any,
        events: Callable[[str, str | None], str],
        newest: int | None,
        view: str,
        goes_on: bool,
    ) -> Placed:
        """Find the log times of a change log's new events around truncates, see
        ``truncate_order.place``.
        """
        ...


class Functions(Protocol):
    """Functions that the session knows."""

    def know_schemas(self, texts: str) -> None:
        """Find the registry schemas that framed keys and values name, for the functions that
        decode in this model's statements. The query's column ``text`` has the framed bytes.
        """
        ...

    def look_function(self, schemas: bool) -> str:
        """The name of a function that finds the events of payloads; ``schemas``: whether it needs
        the schemas that the session has found.
        """
        ...

    def log_function(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
        texts: Sequence[str],
        schemas: bool,
    ) -> str:
        """The name of a function that decodes payloads directly to the events of a change log,
        each with its row and the given texts; ``schemas``: whether it needs the schemas that the
        session has found.
        """
        ...

    def typed_rows(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
    ) -> str:
        """The name of a function that makes the rows of a change log from its events' texts."""
        ...

    def typed_misfits(self, name: str, log: Mapping[str, Any], columns: Sequence[str]) -> str:
        """The name of a function that gives the misfits of a change log which fit some of its
        columns.
        """
        ...


class Lake(Protocol):
    """The adapter's services for a model. Tables are dbt's relations or their names."""

    @property
    def sql(self) -> Statements: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def runs(self) -> Runs: ...

    @property
    def declared(self) -> Declared: ...

    @property
    def commits(self) -> Commits: ...

    @property
    def events(self) -> Events: ...

    @property
    def functions(self) -> Functions: ...

    @property
    def only_compiles(self) -> bool:
        """Whether the command compiles SQL without running any."""
        ...

    def tell(self, message: str) -> None:
        """Tell the user."""
        ...

    def count(self, table: str, counters: Mapping[str, int | None], as_of: str) -> None:
        """Add counters of a table to those of the command; they are written when it ends."""
        ...

    @property
    def is_full_refresh(self) -> bool:
        """Whether the command rebuilds all tables."""
        ...
