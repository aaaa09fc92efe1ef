"""What our materializations write: commits that hold rows together with what they were made of, and
tables that follow what their models say.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterRequiredConfig
from dbt.adapters.contracts.relation import RelationType
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import Observation
from pyspark.sql.functions import expr

from dbt import selected_resources
from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.models import ModelAdapter
from dbt_lakehouse.declared import contracts
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.maintenance import rewrites
from dbt_lakehouse.runs import commits, formats, graph, source_filter, tables
from dbt_lakehouse.runs.model_run import LEAVES, NodeRun, keeping
from dbt_lakehouse.runs.source_filter import Wanted
from dbt_lakehouse.texts import sql_text

# In the summary of a snapshot: which column has which type since, and had which.
WIDENED: Final = "lakehouse.widened"
# What Iceberg says of a table whose model asks for an earlier format version than it has.
_DOWNGRADE: Final = re.compile(r"Cannot downgrade v\d+ table to v\d+")


class WritingAdapter(ModelAdapter):
    """Methods for the macros that write tables."""

    def __init__(self, config: AdapterRequiredConfig, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self._observations: Final[dict[str, Observation]] = {}

    # -- commits

    @told
    def append(self, this: BaseRelation, query: str, notes: Mapping[str, Any] | None = None) -> str:
        """Append a query's rows to a model's table, with its run's notes and more."""
        run = self.run_of(this)
        self.connections.log_statement(f"append to {this}: {query}")
        self._keep_declaration(this, run)
        rows = self.handle.session.sql(query)
        try:
            commits.append(rows, str(this), run.notes(notes), run.seen)
        finally:
            self.handle.looks.clear()
        self._keep(this, run, run.table if run.is_incremental else None)
        return "OK"

    def append_more(self, this: BaseRelation, query: str, aggregates: Mapping[str, str]) -> None:
        """Append rows to a model's table beside those that its run appends."""
        run = self.run_of(this)
        before = tables.look_at(self.spark, str(this))
        rows = self.handle.session.sql(self.observed(this, query, aggregates))
        try:
            commits.append(rows, str(this), run.notes(), before.snapshot if before else None)
        finally:
            self.handle.looks.clear()
        self._keep(this, run, before)

    def write_table(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that writes a model's table, with its run's notes and more. Raises
        ``OvertakenError`` if somebody else has, since its run began.
        """
        run = self.run_of(this)
        commits.refuse_overtaken(self.spark, str(this), run.seen)
        self._keep_declaration(this, run)
        with commits.noting(self.spark, run.notes(notes)):
            response, _ = self.execute(statement)
        return str(response)

    def has_read_all(
        self, reader: BaseRelation, upstream: BaseRelation, wanted: Wanted = None
    ) -> bool:
        """Whether a table has read all of another, or all that its model wants of it."""
        return rewrites.has_read_all(self.spark, str(reader), str(upstream), wanted)

    def write_as_read(self, reader: BaseRelation, upstream: BaseRelation, statement: str) -> None:
        """Run a statement that writes to a table what it would read of another: nothing of that is
        left to it then.
        """
        notes = rewrites.notes_of_reading(self.spark, str(reader), str(upstream))
        with commits.noting(self.spark, notes):
            self.execute(statement)

    def replace(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that makes a model's table anew, as ``write_table``."""
        run = self.run_of(this)
        commits.refuse_overtaken(self.spark, str(this), run.seen)
        with commits.noting(self.spark, run.notes(notes)):
            try:
                response, _ = self.execute(statement)
            except DbtRuntimeError as error:
                if not _DOWNGRADE.search(str(error)):
                    raise
                self.connections.tell(
                    f"{this}: dropped with its snapshots, for Iceberg makes no table anew in an"
                    " earlier format version"
                )
                self.execute(f"drop table {this}")
                response, _ = self.execute(statement)
        self._keep(this, run, run.table if run.is_incremental else None)
        return str(response)

    def _keep(self, this: BaseRelation, run: NodeRun, before: Table | None) -> None:
        """Keep with a model's table what its run has found out for the next one. ``before``: the
        table before its rows, None if it is made anew.
        """
        observation = self._observations.pop(str(this), None)
        observed = {} if observation is None else observation.get["taken"].asDict()
        if "leaving" in observed:
            is_filled = None in run.to_fill.values()
            leaves = before is not None and (is_filled or graph.may_leave(before))
            run.keeps[LEAVES] = leaves or bool(observed["leaving"])
        table = self.look_at(this) if run.keeps or observed else None
        if table is not None:
            values = {name: keeping(table, value) for name, value in run.keeps.items()}
            if "invalid" in observed:
                held = source_filter.kept(
                    before or table, table.snapshot, observed, is_first=before is None
                )
                values[source_filter.PROPERTY] = json.dumps(held)
            if run.formats:
                values[formats.PROPERTY] = formats.kept(before, run.formats)
            tables.set_properties(self.spark, str(this), values)
            self.handle.looks.clear()

    def note(self, this: BaseRelation, notes: Mapping[str, Any] | None = None) -> None:
        """Have a model's table note what was read, and more, without writing rows."""
        run = self.run_of(this)
        self._keep_declaration(this, run)
        commits.note(self.spark, str(this), run.notes(notes))
        self.handle.looks.clear()

    def note_moved(self, this: BaseRelation) -> None:
        """Have a model's table note its marks if they are on tables that it read before, see
        ``dbt_lakehouse.runs.moving``.
        """
        run = self._runs.get(str(this))
        if run is not None and run.is_moved:
            self.note(this)

    def refuse_overtaken(self, this: BaseRelation) -> None:
        """Stop a model whose table somebody else has written since its run began, before it writes
        to tables that it shares with other models.
        """
        commits.refuse_overtaken(self.spark, str(this), self.run_of(this).seen)

    def change(
        self, this: BaseRelation, statement: str, notes: Mapping[str, str] | None = None
    ) -> None:
        """Run a statement that changes rows that a model's table has, before it gets its new
        ones.
        """
        commits.refuse_overtaken(self.spark, str(this), self.run_of(this).seen)
        with commits.noting(self.spark, notes or {}):
            self.execute(statement)
        table = self.look_at(this)
        if table is not None:
            self.run_of(this).seen = table.snapshot

    def execute_noting(self, statement: str, notes: Mapping[str, str]) -> None:
        with commits.noting(self.spark, notes):
            self.execute(statement)

    def set_properties(self, this: BaseRelation, properties: Mapping[str, str]) -> None:
        tables.set_properties(self.spark, str(this), properties)
        self.handle.looks.clear()

    def _keep_declaration(self, this: BaseRelation, run: NodeRun) -> None:
        if run.is_declared_anew:
            tables.set_properties(self.spark, str(this), run.properties())

    @available
    def sql_text(self, text: str) -> str:
        """A SQL string literal, see ``texts``."""
        return sql_text(text)

    def observed(self, this: BaseRelation, query: str, aggregates: Mapping[str, str] | None) -> str:
        """The query of a model's rows, with SQL aggregates of them that are taken while they are
        written, for what is kept with the table (``_keep``); none, and it is the query as it is.
        """
        if not aggregates:
            return query
        observation = Observation()
        name = f"{this.schema}__{this.identifier}__observed"
        # One struct: each column of PySpark's is a dozen calls of Java.
        fields = ", ".join(f"{sql_text(key)}, {sql}" for key, sql in aggregates.items())
        taken = expr(f"named_struct({fields})").alias("taken")
        rows = self.handle.session.sql(query).observe(observation, taken)
        rows.createOrReplaceTempView(name)
        self._observations[str(this)] = observation
        return f"select * from {name}"

    # -- tables

    def follow_schema(self, this: BaseRelation, query: str) -> None:
        """Bring the columns of a table up to those of a query, see ``tables.follow_schema``."""
        given = self.handle.session.sql(query).schema.fields
        run = self.run_of(this)
        commits.refuse_overtaken(self.spark, str(this), run.seen)
        for column, before, now in tables.follow_schema(self.spark, str(this), given):
            self.connections.tell(f"{this}.{column}: widened from {before} to {now}")
            # Snapshots are read by the schema that they have been made with.
            commits.note(self.spark, str(this), {WIDENED: f"{column} {before} {now}"})
        self.handle.looks.clear()
        table = self.look_at(this)
        if table is not None:
            run.seen = table.snapshot

    def check_contract(self, model: Any, of: Fold, columns: Sequence[str]) -> None:
        """Stop a model whose contract is enforced if it has other columns, or of other types."""
        if model["config"]["contract"]["enforced"]:
            contracts.check(model["name"], model["columns"], of.typed(columns), self.follows(model))

    def check_contracts_behind(self, log: Any, declared: Mapping[str, Any]) -> None:
        for node in graph.built_of(self._nodes, log["unique_id"]):
            if node.unique_id in selected_resources.SELECTED_RESOURCES:
                of = graph.fold_of_model(self._nodes, node, declared)
                model = node.to_dict()
                self.check_contract(model, of, graph.columns_of_model(node, of))

    @available.parse_none
    @told
    def describe_table(
        self, this: BaseRelation, model: Any, own: bool = True, columns: bool = True
    ) -> None:
        """Write the descriptions of a model and its columns to its table where they differ."""
        described = graph.descriptions(self.get_macro_resolver(), model) if columns else {}
        tables.describe(self.spark, str(this), model["description"] if own else None, described)
        self.handle.looks.clear()

    @available.parse_none
    @told
    def own_table(self, name: str) -> BaseRelation:
        """The table of the running target for a model of the lake's own state, whichever target
        reads are deferred to, with the columns that its description has: it is made with them if it
        is not there, and gets those that an older version has not known.
        """
        node = graph.node_named(self._nodes, name)
        relation = self.Relation.create(
            schema=node.schema, identifier=node.alias, type=RelationType.Table
        )
        table = self.look_at(relation)
        if table is None:
            self.handle.session.sql(f"create schema if not exists {node.schema}")
            self.handle.session.sql(graph.table_ddl(node, str(relation)))
            self.handle.looks.clear()
        elif added := graph.described_columns(node, without=table.comments):
            self.handle.session.sql(f"alter table {relation} add columns ({added})")
            self.handle.looks.clear()
        return relation

    def pinned_own(self, this: BaseRelation) -> str:
        """A model's own table as it is now, to select from. A column that the run has added since
        the table's last commit is not in its last snapshot: it has no values yet.
        """
        return tables.pinned_with_all_columns(self.spark, str(this), self.look_at(this))
