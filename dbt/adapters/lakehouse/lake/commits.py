"""Commits that write rows and, in their snapshot summary, what the rows were made of."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import expr

from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.maintenance import marks_kept
from dbt_lakehouse.runs import commits, formats, graph, source_filter, tables
from dbt_lakehouse.runs.model_run import LEAVES, NodeRun, keeping
from dbt_lakehouse.runs.source_filter import Wanted
from dbt_lakehouse.texts import sql_text

if TYPE_CHECKING:
    from dbt.adapters.lakehouse.lake import SparkLake

# Iceberg's error for a table whose model requests an earlier format version than it has.
_DOWNGRADE: Final = re.compile(r"Cannot downgrade v\d+ table to v\d+")


class Commits(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def __init__(self, lake: "SparkLake") -> None:
        super().__init__(lake)
        self._observations: Final[dict[str, Observation]] = {}

    def append(
        self,
        this: BaseRelation,
        query: str,
        notes: Mapping[str, Any] | None = None,
        counted: Mapping[str, str] | None = None,
    ) -> str:
        """Append a query's rows to a model's table, with the notes of its run and more;
        ``counted`` are aggregates as in ``observed``. Raises ``DbtRuntimeError``, as a statement
        does: the caller may know its message.
        """
        run = self._lake.runs.run_of(this)
        self._connections.log_statement(f"append to {this}: {query}")
        self._keep_declaration(this, run)
        with self._connections.exception_handler(query):
            rows = self._observe(this, self._handle.session.sql(query), counted)
            try:
                commits.append(rows, str(this), run.notes(notes), run.seen)
            finally:
                self._handle.looks.clear()
        self._keep(this, run, run.table if run.is_incremental else None)
        return "OK"

    def append_more(self, this: BaseRelation, query: str, aggregates: Mapping[str, str]) -> None:
        """Append rows to a model's table in addition to those of its run."""
        run = self._lake.runs.run_of(this)
        before = tables.look_at(self._spark, str(this))
        rows = self._observe(this, self._handle.session.sql(query), aggregates)
        try:
            commits.append(rows, str(this), run.notes(), before.snapshot if before else None)
        finally:
            self._handle.looks.clear()
        self._keep(this, run, before)

    def write_table(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that writes a model's table, with the notes of its run and more. Raises
        ``OvertakenError`` if another writer has changed the table since its run began.
        """
        run = self._lake.runs.run_of(this)
        commits.refuse_overtaken(self._spark, str(this), run.seen)
        self._keep_declaration(this, run)
        with commits.noting(self._spark, run.notes(notes)):
            response, _ = self._lake.sql.execute(statement)
        return str(response)

    def has_read_all(
        self, reader: BaseRelation, upstream: BaseRelation, wanted: Wanted = None
    ) -> bool:
        """Whether a table has read all of another, or all that its model wants of it."""
        return marks_kept.has_read_all(self._spark, str(reader), str(upstream), wanted)

    def write_as_read(self, reader: BaseRelation, upstream: BaseRelation, statement: str) -> None:
        """Run a statement that writes to a table what it would read of another. The mark moves in
        the same commit, so nothing is left to read.
        """
        notes = marks_kept.notes_of_reading(self._spark, str(reader), str(upstream))
        with commits.noting(self._spark, notes):
            self._lake.sql.execute(statement)

    def replace(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that rebuilds a model's table, see ``write_table``."""
        run = self._lake.runs.run_of(this)
        commits.refuse_overtaken(self._spark, str(this), run.seen)
        with commits.noting(self._spark, run.notes(notes)):
            try:
                response, _ = self._lake.sql.execute(statement)
            except DbtRuntimeError as error:
                if not _DOWNGRADE.search(str(error)):
                    raise
                self._connections.tell(
                    f"{this}: dropped with its snapshots, for Iceberg can't replace a table in an"
                    " earlier format version"
                )
                self._lake.sql.execute(f"drop table {this}")
                response, _ = self._lake.sql.execute(statement)
        self._keep(this, run, run.table if run.is_incremental else None)
        return str(response)

    def _keep(self, this: BaseRelation, run: NodeRun, before: Table | None) -> None:
        """Store with a model's table what its run has found out for the next run. ``before``: the
        table before its rows, None if it is rebuilt.
        """
        observation = self._observations.pop(str(this), None)
        observed = {} if observation is None else observation.get["taken"].asDict()
        if "leaving" in observed:
            is_filled = None in run.to_fill.values()
            leaves = before is not None and (is_filled or graph.may_leave(before))
            run.keeps[LEAVES] = leaves or bool(observed["leaving"])
        table = self._lake.catalog.look_at(this) if run.keeps or observed else None
        if table is not None:
            values = {name: keeping(table, value) for name, value in run.keeps.items()}
            if "invalid" in observed:
                held = source_filter.kept(
                    before or table, table.snapshot, observed, is_first=before is None
                )
                values[source_filter.PROPERTY] = json.dumps(held)
            if run.formats:
                values[formats.PROPERTY] = formats.kept(before, run.formats)
            tables.set_properties(self._spark, str(this), values)
            self._handle.looks.clear()

    def note(self, this: BaseRelation, notes: Mapping[str, Any] | None = None) -> None:
        """Commit what a model's table has read, and more notes, without rows."""
        run = self._lake.runs.run_of(this)
        self._keep_declaration(this, run)
        commits.note(self._spark, str(this), run.notes(notes))
        self._handle.looks.clear()

    def note_moved(self, this: BaseRelation) -> None:
        """Commit a model's marks again if they are on tables that it read before, see
        ``dbt_lakehouse.runs.moving``.
        """
        run = self._lake.runs._runs.get(str(this))
        if run is not None and run.is_moved:
            self.note(this)

    def refuse_overtaken(self, this: BaseRelation) -> None:
        """Stop a model whose table another writer has changed since its run began, before it
        writes to tables that it shares with other models.
        """
        commits.refuse_overtaken(self._spark, str(this), self._lake.runs.run_of(this).seen)

    def change(
        self, this: BaseRelation, statement: str, notes: Mapping[str, str] | None = None
    ) -> None:
        """Run a statement that changes existing rows of a model's table, before new ones come."""
        commits.refuse_overtaken(self._spark, str(this), self._lake.runs.run_of(this).seen)
        with commits.noting(self._spark, notes or {}):
            self._lake.sql.execute(statement)
        table = self._lake.catalog.look_at(this)
        if table is not None:
            self._lake.runs.run_of(this).seen = table.snapshot

    def execute_noting(self, statement: str, notes: Mapping[str, str]) -> None:
        with commits.noting(self._spark, notes):
            self._lake.sql.execute(statement)

    def _keep_declaration(self, this: BaseRelation, run: NodeRun) -> None:
        if run.is_redeclared:
            tables.set_properties(self._spark, str(this), run.properties())

    def observed(self, this: BaseRelation, query: str, aggregates: Mapping[str, str] | None) -> str:
        """The query of a model's rows, with SQL aggregates that are computed while the rows are
        written, for the table's properties (``_keep``). Without aggregates, the query itself.
        """
        if not aggregates:
            return query
        name = f"{this.schema}__{this.identifier}__observed"
        rows = self._observe(this, self._handle.session.sql(query), aggregates)
        rows.createOrReplaceTempView(name)
        return f"select * from {name}"

    def _observe(
        self, this: BaseRelation, rows: DataFrame, aggregates: Mapping[str, str] | None
    ) -> DataFrame:
        """The rows of a model with an observation of their aggregates, see ``observed``."""
        if not aggregates:
            return rows
        observation = Observation()
        # One struct: each column in PySpark is a dozen calls of Java.
        fields = ", ".join(f"{sql_text(key)}, {sql}" for key, sql in aggregates.items())
        taken = expr(f"named_struct({fields})").alias("taken")
        self._observations[str(this)] = observation
        return rows.observe(observation, taken)
