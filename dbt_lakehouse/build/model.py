"""A model that is built: dbt's description of it, and the steps that all kinds of tables share."""

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
    """A model, as its materialization gets it.

    ``node`` is dbt's, ``sql`` its compiled text, ``as_of`` the moment of the run as text, and
    ``created`` gives the statement that creates its table from a query.
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
    """The result of a build for dbt: its message, the statement that wrote the table, if one did,
    and warnings.
    """

    message: str
    statement: str | None = None
    doubts: Sequence[str] = ()


class Loss(NamedTuple):
    """What a rebuild may lose: its description, and the query that counts it."""

    what: str
    query: str


def view_of(this: Any, name: str) -> str:
    """The name of a view of a table's model; all of them begin with the one for ``""``."""
    return f"{this.schema}__{this.identifier}__{name}"


def pinned(table: Any, snapshot: str) -> str:
    """A table at a snapshot, to select from. A model writes to tables that it reads, other
    writers do so at the same time, and Spark recomputes an evaluated view after losing part of it
    (with an executor): only fixed snapshots stay the same.
    """
    if snapshot == NO_SNAPSHOT:
        # Not a subquery of the table: that would hide the rows' sequence numbers.
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
    """A table at its current snapshot, to select from. If the table does not exist, its name, and
    Spark reports the error.
    """
    now = lake.catalog.look_at(table)
    return str(table) if now is None else pinned(table, now.snapshot)


class Building(ABC):
    """The build of a model's table. Each kind of table implements it (``build``), and says what a
    rebuild may lose beside rows of events that are gone (``losses``).
    """

    def __init__(self, lake: Lake, model: Model) -> None:
        self.lake: Final = lake
        self.model: Final = model
        self.this: Final = model.this

    @property
    def run(self) -> NodeRun:
        """The run that the model's compilation has begun. Raises ``CompilationError`` if the
        compilation has not asked for new rows.
        """
        return self.lake.runs.run_of(self.this)

    @abstractmethod
    def build(self) -> Built:
        """Bring the table up to date."""

    def losses(self) -> Iterable[Loss]:
        """Losses of a rebuild beside rows whose last event is gone."""
        return ()

    def view(self, name: str) -> str:
        """The name of a view of this model."""
        return view_of(self.this, name)

    def pinned(self, table: Any) -> str:
        """A table at its current snapshot, to select from."""
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
        """Rebuild the table from a query, and note what was read in the same commit."""
        statement = self.model.created(query)
        return Built(self.lake.commits.replace(self.this, statement, notes), statement)

    def appended(
        self,
        query: str,
        notes: Mapping[str, Any] | None = None,
        counted: Mapping[str, str] | None = None,
    ) -> Built:
        """Append a query's rows to the table, and note what was read in the same commit;
        ``counted`` are the SQL aggregates over them that the lake keeps.
        """
        return Built(self.lake.commits.append(self.this, query, notes, counted), query)

    def written(self, statement: str, notes: Mapping[str, Any] | None = None) -> Built:
        """Run a statement that writes the table, and note what was read in the same commit."""
        return Built(self.lake.commits.write_table(self.this, statement, notes), statement)

    def unchanged(self, message: str = "nothing new") -> Built:
        """Leave the table as it is, since there is nothing to do."""
        self.lake.commits.note_moved(self.this)
        return Built(message)

    def refuse_loss(self) -> None:
        """Stop a rebuild that the user did not ask for if the table would lose anything by it,
        because the events that it was made of are gone. Raises ``CompilationError``.
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
                        f" that {upstream} no longer has, and would be lost. Restore these events,"
                        " or accept the loss with"
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
            # It may have read events that deleted rows; a rebuild would bring those rows back.
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
        """The columns of a table that say where its rows are from."""
        parent = "_position." if "_position" in self.lake.catalog.columns_of(table) else ""
        return ", ".join(f"{parent}{name}" for name in ("topic", "partition", "offset"))


class AppendOnly(Building):
    """A table that only gets new rows: those that its SQL makes of what is new upstream
    (``new_rows``). The same commit notes what was read, so an interrupted run is repeated without
    adding anything twice. A run stops if another writer has appended since it began, because it
    would append the same rows again.

    A rebuild is ``create or replace``: earlier snapshots stay, and readers see no gap.
    """

    def build(self) -> Built:
        """Append the new rows, or rebuild the table."""
        if not self.run.is_incremental:
            self.refuse_loss()
            return self.replaced(self.model.sql)
        if not self.run.has_news:
            return self.unchanged()
        self.lake.catalog.follow_schema(self.this, self.model.sql)
        return self.appended(self.model.sql)


class StateTable(Building):
    """A table of the lake's own state, which other models write to. It gets the columns of its
    description, and is never rebuilt. If its model reads something (``new_rows``), the rows are
    merged into it by ``unique_key``.
    """

    def build(self) -> Built:
        """Create the table, and merge the new rows into it."""
        self.lake.catalog.own_table(self.model.node["name"])
        if not self.model.node["refs"] or not self.run.has_news:
            return self.unchanged()
        key = self.model.node["config"]["unique_key"]
        return self.written(
            render("merge_state_table", table=self.this, rows=self.model.sql, key=key)
        )
