"""A model at work: what dbt says of it, and what all kinds of tables do when they are built."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.lake.tables import NO_SNAPSHOT
from dbt_lakehouse.runs.model_run import NodeRun


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its materialization has it.

    ``node`` is dbt's, ``sql`` its compiled text, ``as_of`` the moment of the run as text, and
    ``created`` the statement that makes its table of a query.
    """

    this: Any
    node: Mapping[str, Any]
    sql: str
    as_of: str
    created: Callable[[str], str]

    @property
    def scope(self) -> str:
        """Its table's name in `silver.deleted_keys` and `silver.fold_counters`."""
        return f"{self.this.schema}.{self.this.identifier}"


class Built(NamedTuple):
    """What dbt is told of a model that was built: its message, the statement that wrote the table,
    if one did, and what is doubtful.
    """

    message: str
    statement: str | None = None
    doubts: Sequence[str] = ()


class Loss(NamedTuple):
    """What a rebuild may lose: what it is, and the query that counts it."""

    what: str
    query: str


def view_of(this: Any, name: str) -> str:
    """The name of a view of the model of a table; all of them begin with that of ``""``."""
    return f"{this.schema}__{this.identifier}__{name}"


def pinned(table: Any, snapshot: str) -> str:
    """A table at a snapshot, to select from. A model writes to tables that it reads, as others do
    at the same time, and an evaluated view of which a part is lost (with an executor) is evaluated
    again: only fixed snapshots stay what they were.
    """
    if snapshot == NO_SNAPSHOT:
        # Not a subquery of the one with rows: that would hide the rows' sequence numbers.
        return (
            "(select *, cast(null as bigint) as _last_updated_sequence_number"
            f" from {table} where false)"
        )
    return f"{table} version as of {snapshot}"


def value_of(lake: Lake, query: str) -> Any:
    """The one value that a query gives."""
    (row,) = lake.sql.query(query)
    (found,) = row.values()
    return found


def pinned_now(lake: Lake, table: Any) -> str:
    """A table as it is now, to select from; its name if it isn't there, which Spark then tells."""
    now = lake.catalog.look_at(table)
    return str(table) if now is None else pinned(table, now.snapshot)


class Building(ABC):
    """A model's table that is built. Kinds of tables say how (``build``), and what a rebuild of
    theirs may lose beside rows of events that are gone (``losses``).
    """

    def __init__(self, lake: Lake, model: Model) -> None:
        self.lake: Final = lake
        self.model: Final = model
        self.this: Final = model.this

    @property
    def run(self) -> NodeRun:
        """What the model's compilation has found out. Raises ``CompilationError`` if that has not
        asked what is new.
        """
        return self.lake.runs.run_of(self.this)

    @abstractmethod
    def build(self) -> Built:
        """Bring the table up to date."""

    def losses(self) -> Iterable[Loss]:
        """What a rebuild may lose beside rows whose last event is gone."""
        return ()

    def view(self, name: str) -> str:
        """The name of a view of this model."""
        return view_of(self.this, name)

    def pinned(self, table: Any) -> str:
        """A table as it is now, to select from."""
        return pinned_now(self.lake, table)

    def read(self, upstream: Any) -> str:
        """All of an upstream up to where the run reads it, to select from."""
        return pinned(upstream, self.run.snapshot_of(upstream))

    def value(self, query: str) -> Any:
        """The one value that a query gives."""
        return value_of(self.lake, query)

    def has_rows(self, query: str) -> bool:
        """Whether a query gives any row."""
        return bool(self.lake.sql.query(f"select 1 from ({query}) limit 1"))

    def replaced(self, query: str, notes: Mapping[str, Any] | None = None) -> Built:
        """Make the table anew of a query, and note with its rows what was read."""
        statement = self.model.created(query)
        return Built(self.lake.commits.replace(self.this, statement, notes), statement)

    def appended(
        self,
        query: str,
        notes: Mapping[str, Any] | None = None,
        counted: Mapping[str, str] | None = None,
    ) -> Built:
        """Add a query's rows to the table, and note with them what was read; ``counted`` are SQL
        aggregates of what the lake keeps of them.
        """
        return Built(self.lake.commits.append(self.this, query, notes, counted), query)

    def written(self, statement: str, notes: Mapping[str, Any] | None = None) -> Built:
        """Run a statement that writes the table, and note with its rows what was read."""
        return Built(self.lake.commits.write_table(self.this, statement, notes), statement)

    def unchanged(self, message: str = "nothing new") -> Built:
        """Leave the table as it is, for there is nothing to do."""
        self.lake.commits.note_moved(self.this)
        return Built(message)

    def refuse_loss(self) -> None:
        """Stop a rebuild that was not asked for if the table would lose something by it: if what
        that was made of is not there any more. Raises ``CompilationError``.
        """
        run = self.run
        if not run.reason:
            return
        if not run.is_exchanged and run.upstreams:
            upstream = run.origin
            for what, query in (*self._lost_rows(upstream), *self.losses()):
                if lost := self.value(query):
                    raise CompilationError(
                        f"{self.this} has to be rebuilt: {run.reason}. But {lost} {what} of events"
                        f" that {upstream} no longer has, and would be lost. Bring back what they"
                        " were made of, or accept the loss with"
                        f" `dbt run --full-refresh -s {self.model.node['name']}`"
                    )
        self.lake.tell(f"{self.this} is rebuilt: {run.reason}")

    def rows_to_lose(self) -> str:
        """The rows of the table that its upstream must still have, to select from."""
        return str(self.this)

    def _lost_rows(self, upstream: Any) -> Iterable[Loss]:
        own, others = self._places(self.this), self._places(upstream)
        yield Loss(
            "of its rows are",
            render(
                "lost_rows",
                table=self.rows_to_lose(),
                columns=own,
                other=upstream,
                other_columns=others,
            ),
        )
        if self.run.rolled_back_from:
            # What it has read may have taken rows away: those would be back.
            read = pinned(upstream, self.run.rolled_back_from)
            yield Loss(
                "of the rows that it has read are",
                render(
                    "lost_rows",
                    table=read,
                    columns=others,
                    other=upstream,
                    other_columns=others,
                ),
            )

    def _places(self, table: Any) -> str:
        """Where a table's rows are from."""
        parent = "_position." if "_position" in self.lake.catalog.columns_of(table) else ""
        return ", ".join(f"{parent}{name}" for name in ("topic", "partition", "offset"))


class AppendOnly(Building):
    """A table that only ever gets new rows: those that its SQL makes of what is new upstream
    (``new_rows``). What was read is committed with them, so a run that was cut off is repeated, and
    adds nothing twice. Appends of others since the run began stop it: they would be added again.

    A rebuild is ``create or replace``: earlier snapshots stay, and readers see no gap.
    """

    def build(self) -> Built:
        """Append what is new, or make the table anew."""
        if not self.run.is_incremental:
            self.refuse_loss()
            return self.replaced(self.model.sql)
        if not self.run.has_news:
            return self.unchanged()
        self.lake.catalog.follow_schema(self.this, self.model.sql)
        return self.appended(self.model.sql)


class StateTable(Building):
    """A table of the lake's own state, which other models write to: made with the columns that its
    description has, and never made anew. Of a model that reads something (``new_rows``) the rows
    are merged into it by ``unique_key``.
    """

    def build(self) -> Built:
        """Make the table, and merge what is new into it."""
        self.lake.catalog.own_table(self.model.node["name"])
        if not self.model.node["refs"] or not self.run.has_news:
            return self.unchanged()
        key = self.model.node["config"]["unique_key"]
        return self.written(
            render("merge_state_table", table=self.this, rows=self.model.sql, key=key)
        )
