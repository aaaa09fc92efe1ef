"""Tables for models: whether they exist, what they may hold, their columns and properties."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import RelationType

from dbt import selected_resources
from dbt.adapters.lakehouse.connections import LOGGER
from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.declared import contracts
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.at_rest import TablesAtRest
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import (
    commits,
    graph,
    tables,
)
from dbt_lakehouse.runs.model_run import NodeRun

# In the summary of a snapshot: a column's new type, and its former one.
WIDENED: Final = "lakehouse.widened"


class Catalog(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def look_at(self, name: Any) -> Table | None:
        """A table as it is now, None if it does not exist. It is loaded once between a node's
        statements that may write.
        """
        if (at_rest := self._at_rest(str(name))) is not None:
            return at_rest.look_at(str(name))
        looks = self._handle.looks
        if str(name) not in looks:
            looks[str(name)] = tables.look_at(self._spark, str(name))
        return looks[str(name)]

    def _at_rest(self, name: str) -> TablesAtRest | None:
        """The tables without Spark, if the command does not need it and they know the name."""
        at_rest = self._connections.at_rest
        return at_rest if at_rest is not None and at_rest.can_tell(name) else None

    def may_have_rows(
        self, relation: BaseRelation, conditions: Sequence[tuple[str, str, Any]], since: int = 0
    ) -> bool:
        """Whether a table may have rows that meet all conditions and were written by a commit
        above the sequence number ``since``, see ``tables.may_have_rows``; False is certain.
        """
        return tables.may_have_rows(self._spark, relation.render(), conditions, since=since)

    def may_have_new_rows(
        self, run: NodeRun, upstream: BaseRelation, conditions: Sequence[tuple[str, str, Any]]
    ) -> bool:
        """``may_have_rows`` for the rows of an upstream that are new to the model's table."""
        reading = run.reading(upstream)
        if not reading.has_news:
            return False
        between = None
        if reading.window is reading.window.SINCE_SNAPSHOT and reading.since is not None:
            between = (reading.since.snapshot, reading.until.snapshot)
        return tables.may_have_rows(self._spark, str(upstream), conditions, between)

    def relations_in(self, schema: str) -> dict[str, RelationType]:
        """The tables and views of a schema, by name."""
        if (at_rest := self._connections.at_rest) is not None:
            return {
                each.name: RelationType.View if each.is_view else RelationType.Table
                for each in at_rest.in_schema(schema)
            }
        found = dict.fromkeys(tables.tables_in(self._spark, schema), RelationType.Table)
        return found | dict.fromkeys(tables.views_in(self._spark, schema), RelationType.View)

    def columns_of(self, relation: Any) -> dict[str, str]:
        at_rest = self._at_rest(str(relation))
        if at_rest is not None and (found := at_rest.columns_of(str(relation))) is not None:
            return found
        fields = tables.columns_of(self._spark, str(relation))
        return {field.name: field.dataType.simpleString() for field in fields}

    def columns_kept(self, this: BaseRelation, of: Fold) -> list[str]:
        """The value columns of a fold that a model's table already has, with the same types."""
        fields = tables.columns_of(self._spark, str(this))
        held = {field.name: field.dataType.simpleString() for field in fields}
        types = of.typed(of.columns)
        return quoted(
            name
            for name, made in types.items()
            if name in held and contracts.is_same(held[name], made)
        )

    def relation_of(self, name: str) -> BaseRelation:
        """The table of the model with this name, for tests: they need no edge to it in the graph,
        since what they test was built after it.
        """
        return self.relation(graph.node_named(self._lake.nodes, name))

    def relation(self, node: Any) -> BaseRelation:
        relation = self._lake.Relation.create(schema=node.schema, identifier=node.alias)
        deferred = getattr(node, "defer_relation", None)
        favored = (
            getattr(self._lake.args, "favor_state", False)
            and node.unique_id not in selected_resources.SELECTED_RESOURCES
        )
        # In the same way as dbt's own ref.
        if deferred is not None and (favored or self.look_at(relation) is None):
            return self._lake.Relation.create(
                schema=deferred.schema, identifier=deferred.identifier
            )
        return relation

    def own_table(self, name: str) -> BaseRelation:
        """The running target's table for a model of the lake's own state, whichever target reads
        are deferred to. It is created with the columns of its description if it does not exist,
        and gets those that an earlier version did not have.
        """
        node = graph.node_named(self._lake.nodes, name)
        relation = self._lake.Relation.create(
            schema=node.schema, identifier=node.alias, type=RelationType.Table
        )
        table = self.look_at(relation)
        if table is None:
            self._handle.session.sql(f"create schema if not exists {node.schema}")
            self._handle.session.sql(graph.table_ddl(node, str(relation)))
            self._handle.looks.clear()
        elif added := graph.described_columns(node, without=table.comments):
            self._handle.session.sql(f"alter table {relation} add columns ({added})")
            self._handle.looks.clear()
        return relation

    def pinned_own(self, this: BaseRelation) -> str:
        """The current snapshot of a model's own table, to select from. A column that the run has
        added since the table's last commit is not in that snapshot, so it is added without
        values.
        """
        return tables.pinned_with_all_columns(self._spark, str(this), self.look_at(this))

    def is_worth_a_question(self, relation: Any) -> bool:
        table = self.look_at(relation)
        return table is not None and table.bytes > tables.BYTES_OF_A_SMALL_TABLE

    def set_properties(self, this: BaseRelation, properties: Mapping[str, str]) -> None:
        tables.set_properties(self._spark, str(this), properties)
        self._handle.looks.clear()

    def follow_schema(self, this: BaseRelation, query: str) -> None:
        """Evolve a table's schema to the columns of a query, see ``tables.follow_schema``."""
        given = self._handle.session.sql(query).schema.fields
        run = self._lake.runs.run_of(this)
        commits.refuse_overtaken(self._spark, str(this), run.seen)
        for column, before, now in tables.follow_schema(self._spark, str(this), given):
            self._connections.tell(f"{this}.{column}: widened from {before} to {now}")
            # Snapshots are read by the schema with which they were made.
            commits.note(self._spark, str(this), {WIDENED: f"{column} {before} {now}"})
        self._handle.looks.clear()
        table = self.look_at(this)
        if table is not None:
            run.seen = table.snapshot

    def may_have_key_updates(self, log: BaseRelation, since: int = 0) -> bool:
        """Whether a change log may have rows of key updates, written by a commit above a sequence
        number.
        """
        name = str(log)
        # A log that no run has adapted to its declaration lacks the column.
        if all(field.name != "_key_update" for field in tables.columns_of(self._spark, name)):
            return False
        is_one = ("_key_update.id", "is not null", None)
        return tables.may_have_rows(self._spark, name, [is_one], since=since)

    def has_key_updates(self, run: NodeRun, log: BaseRelation) -> bool:
        """Whether a change log may have rows of key updates that a model has not read in their
        present state.
        """
        return run.is_incremental and self.may_have_key_updates(log, run.sequence_read(log))

    def describe_table(
        self, this: BaseRelation, model: Any, own: bool = True, columns: bool = True
    ) -> None:
        """Write the descriptions of a model and its columns to its table where they differ. Warns
        of columns in the model's own YAML that the table lacks.
        """
        described = graph.descriptions(self._lake.macros, model) if columns else {}
        own_description = model["description"] if own else None
        lacking = tables.describe(self._spark, str(this), own_description, described)
        # The others are docs blocks and columns of gold, for whichever log or history has them.
        if missing := [name for name in lacking if name in model["columns"]]:
            LOGGER.warning(
                f"In relation {this.render()}: The following columns are specified in the schema"
                f" but are not present in the database: {', '.join(missing)}"
            )
        self._handle.looks.clear()
