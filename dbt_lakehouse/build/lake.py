"""What runs a model asks this of the adapter: of Spark, Iceberg and dbt's graph."""

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
    """Which events of a change log its tests look at: of which run, and which part."""

    run: NodeRun
    part: Part


class LogOfProject(NamedTuple):
    """A change log with its declaration, and a run that tells what it has not read yet."""

    relation: Any
    log: Mapping[str, Any]
    run: NodeRun


class Statements(Protocol):
    """Statements, which run in the session of the model's thread."""

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        ...

    def execute(self, sql: str) -> tuple[Any, Any]:
        """Run a statement that gives no rows."""
        ...

    def define(self, name: str, query: str) -> None:
        """Make a temporary view of a query, which is evaluated at each reading."""
        ...

    def evaluate(self, name: str, query: str) -> int:
        """Make one of a query's rows, and count them."""
        ...

    def drop_evaluated(self, prefix: str) -> None:
        """Drop the views of rows whose names begin so."""
        ...

    def evaluate_states(
        self, name: str, query: str, of: Fold, as_of: str, is_late: str, *, observed: bool
    ) -> Found:
        """Evaluate folded states as a view; their summary."""
        ...

    def hold_key_ranges(self, name: str, found: Found) -> list[list[str]]:
        """Hold the ranges of the keys of states as arguments of statements; their ends as SQL."""
        ...

    def hold_key_ranges_of(self, name: str, relation: str, column: str) -> list[list[str]]:
        """The same for a column of a view."""
        ...

    def ranges_to_write(self, keys: int) -> int:
        """Into how many ranges of keys, and files, a first load divides its table."""
        ...

    def has_evaluated(self, name: str) -> bool:
        """Whether there is a view of rows of this name."""
        ...

    def arrow(self, sql: str) -> pa.Table:
        """The rows of a query as Arrow has them."""
        ...

    def hold(self, name: str, rows: pa.Table) -> None:
        """Make a temporary view of rows that this process has."""
        ...


class Catalog(Protocol):
    """Tables: what there is, what it may hold, its columns and properties."""

    def may_have_rows(self, relation: Any, conditions: Sequence[Condition], since: int = 0) -> bool:
        """Whether a table may have rows that meet conditions; False is certain."""
        ...

    def may_have_new_rows(
        self, run: NodeRun, upstream: Any, conditions: Sequence[Condition]
    ) -> bool:
        """The same of the rows that are new to a model's table."""
        ...

    def columns_of(self, relation: Any) -> dict[str, str]:
        """The columns of a table with their types, none if it isn't there."""
        ...

    def relation_of(self, name: str) -> Any:
        """The table of a model of this name, as dbt's ``ref`` has it."""
        ...

    def own_table(self, name: str) -> Any:
        """The table of the lake's own state of this name, made if it is not there."""
        ...

    def pinned_own(self, this: Any) -> str:
        """A model's own table as it is now, to select from, with all of its columns."""
        ...

    def follow_schema(self, this: Any, query: str) -> None:
        """Bring the columns of a table up to those of a query."""
        ...

    def columns_kept(self, this: Any, of: Fold) -> list[str]:
        """The value columns that a model's table has already, and of their types."""
        ...

    def has_key_updates(self, run: NodeRun, log: Any) -> bool:
        """Whether rows of a log may have got values of another key's row since it was read."""
        ...

    def is_worth_a_question(self, relation: Any) -> bool:
        """Whether a table is so large that a query pays which finds out what to read of it."""
        ...

    def set_properties(self, this: Any, properties: Mapping[str, str]) -> None:
        """Keep texts with a table, by their names."""
        ...

    def may_have_key_updates(self, log: Any, since: int = 0) -> bool:
        """Whether a change log may have rows of key updates, written by a commit of a sequence
        number above ``since``.
        """
        ...

    def look_at(self, relation: Any) -> Table | None:
        """A table as it is now, None if there is none."""
        ...


class Runs(Protocol):
    """Runs of models of this command."""

    def run_of(self, this: Any) -> NodeRun:
        """What a model's compilation has found out."""
        ...

    def sequence_read_by_all(self, upstream: Any) -> int:
        """The sequence number up to which all gold tables of namespaces have read a table."""
        ...

    def run_to_test(self, relation: Any) -> NodeRun | None:
        """How this command has brought a table up to date; None if its tests look at all of it."""
        ...

    def begin_run(
        self,
        this: Any,
        upstreams: Sequence[Any],
        of: Fold | Mapping[str, Any] | None,
        anew: bool,
        *,
        merges: bool = False,
        refolds: bool = False,
        wanted: Wanted = None,
        follows: bool = False,
        reason: str | None = None,
    ) -> NodeRun:
        """Find out what is new to a model's table, see ``NodeRun``."""
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
        """What was read of a table for another one, to select from."""
        ...


class Declared(Protocol):
    """What models are declared to be."""

    def fold_of(
        self,
        changes: Any,
        columns: Sequence[str] | None = None,
        track_columns: Sequence[str] | None = None,
        is_history: bool = False,
        bitemporal: bool = False,
        deleted_rows: bool = False,
    ) -> Fold:
        """What a gold table or a history takes of the declaration of its log."""
        ...

    def fold_to_test(self, model: Any, test: str, current: Any = None) -> Fold:
        """The same of a table that is there, for a test; ``current`` is the gold table that a
        history is held against.
        """
        ...

    def fold_of_table(self, model: Any) -> Fold:
        """The same, as it is declared."""
        ...

    def log_to_test(self, log: Any, test: str) -> Mapping[str, Any]:
        """The declaration of a change log, for a test."""
        ...

    def check_contract(self, model: Any, of: Fold, columns: Sequence[str]) -> None:
        """Stop a model whose contract is enforced if it has other columns."""
        ...

    def check_contracts_behind(self, log: Any, declared: Mapping[str, Any]) -> None:
        """The same of the gold tables and histories of a change log that this command builds."""
        ...

    def may_leave(self, changes: Any, of: Fold) -> bool:
        """Whether any event of a log may leave columns as they were."""
        ...

    def may_doubt_key(self, changes: Any) -> bool:
        """Whether to look for rows that say that the key of a log is none."""
        ...

    def keep_doubts(self, this: Any, found: Found | Rebuilt) -> None:
        """Have a model's table note what its new rows say of their key."""
        ...

    def doubt_of_rows(self, this: Any, of: Fold) -> str | None:
        """What a run says of a key that seems to be none."""
        ...

    def log_of_model(self, model: Any) -> Any:
        """The change log of a gold table or history."""
        ...

    def taken_events(self) -> TakenEvents:
        """Which events the project's change logs take."""
        ...

    def followed(self, log: Mapping[str, Any], relation: Any) -> Mapping[str, Any]:
        """A change log's declaration with the types that its columns have by now."""
        ...


class Commits(Protocol):
    """Commits that hold rows together with what they were made of."""

    def observed(self, this: Any, query: str, aggregates: Mapping[str, str] | None) -> str:
        """A query of a model's rows with what is counted while they are written."""
        ...

    def replace(self, this: Any, statement: str, notes: Mapping[str, Any] | None = None) -> str:
        """Run a statement that makes a model's table anew; dbt's message."""
        ...

    def append(
        self,
        this: Any,
        query: str,
        notes: Mapping[str, Any] | None = None,
        counted: Mapping[str, str] | None = None,
    ) -> str:
        """Append a query's rows to a model's table, and count meanwhile; dbt's message."""
        ...

    def write_table(self, this: Any, statement: str, notes: Mapping[str, Any] | None = None) -> str:
        """Run a statement that writes a model's table; dbt's message."""
        ...

    def change(self, this: Any, statement: str, notes: Mapping[str, str] | None = None) -> None:
        """Run a statement that changes rows which a model's table has, before it gets new ones."""
        ...

    def note(self, this: Any, notes: Mapping[str, Any] | None = None) -> None:
        """Note what was read, without rows."""
        ...

    def note_moved(self, this: Any) -> None:
        """Note it where a table's marks are on tables that it read before."""
        ...

    def refuse_overtaken(self, this: Any) -> None:
        """Stop a model whose table somebody else has written since its run began."""
        ...

    def execute_noting(self, statement: str, notes: Mapping[str, str]) -> None:
        """Run a statement that writes a table of the lake's own state, and have its commit note
        these.
        """
        ...

    def append_more(self, this: Any, query: str, aggregates: Mapping[str, str]) -> None:
        """Append rows to a model's table beside those that its run appends."""
        ...

    def has_read_all(self, reader: Any, upstream: Any, wanted: Wanted = None) -> bool:
        """Whether a table has read all of another, or all that its model wants of it."""
        ...

    def write_as_read(self, reader: Any, upstream: Any, statement: str) -> None:
        """Run a statement that writes to a table what it would read of another: nothing of that is
        left to it then.
        """
        ...


class Events(Protocol):
    """What is read for events."""

    @property
    def topics(self) -> Any:
        """``vars.topics``."""
        ...

    def topic_matcher(self) -> TopicMatcher:
        """What holds topics against the entries of ``vars.topics``."""
        ...

    def reconciled_sources(self) -> Sources:
        """The source tables whose full snapshots some change log reconciles."""
        ...

    def looked_input(self, run: NodeRun, topics: Sequence[str] | None) -> LogInput:
        """What is to be read of what other_events, whose run it is, has looked at: all in some
        topics, or all that it had looked at before this run (None); and all that was added to it.
        """
        ...

    def log_to_look_at(self, model: Any, log: Mapping[str, Any]) -> LookedAt:
        """Which events of a change log its tests look at."""
        ...

    def logs_to_look_at(self) -> Sequence[LogOfProject]:
        """All change logs."""
        ...

    def events_to_give(self, events: Any) -> str:
        """A condition on rows of other_events (SQL) that holds for those that it gives to change
        logs when it runs next.
        """
        ...

    def topics_with_changes(self, events: Any) -> Sequence[str]:
        """The topics of which any event that changes a row was decoded."""
        ...

    def corrected_log_times(self) -> str | None:
        """The table of log times that are not their payload's own timestamp, None without rows."""
        ...

    def compacted_topics(self) -> Collection[str]:
        """The topics that a broker has ever called compacted."""
        ...

    def compaction_of(self, topics: Sequence[str]) -> Mapping[str, bool | None]:
        """Whether topics count as compacted; None of one of which nobody says so or the
        contrary.
        """
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
        """Find the schemas of a registry that framed keys and values name, which are the column
        ``text`` of a query, for the functions that decode in this model's statements.
        """
        ...

    def look_function(self, schemas: bool) -> str:
        """The name of a function that looks at payloads; ``schemas``: whether it needs those that
        the session has found.
        """
        ...

    def log_function(
        self, name: str, log: Mapping[str, Any], keys: Sequence[Sequence[str]], schemas: bool
    ) -> str:
        """The name of a function that gives the events of a change log straight from payloads, each
        with its row; ``schemas``: whether it needs those that the session has found.
        """
        ...

    def typed_rows(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
    ) -> str:
        """The name of a function that gives the rows of a change log by its events' texts."""
        ...

    def typed_misfits(self, name: str, log: Mapping[str, Any], columns: Sequence[str]) -> str:
        """The name of a function that gives what of a change log's misfits has a place in some of
        its columns.
        """
        ...


class Lake(Protocol):
    """What a model asks of the adapter, by what it is of. Tables are dbt's relations, or their
    names.
    """

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
        """Whether the command compiles SQL, and runs none of it."""
        ...

    def tell(self, message: str) -> None:
        """Tell the user."""
        ...

    def count(self, table: str, counters: Mapping[str, int | None], as_of: str) -> None:
        """Add counters of a table to those of the command, when that is done."""
        ...

    @property
    def makes_all_anew(self) -> bool:
        """Whether the command makes all tables anew."""
        ...
