"""dbt's adapter: dbt's own questions about the lake, and the calls of our macros as methods of
``adapter``. The parts of ``SparkLake`` answer both, without SQL where Iceberg's API can.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterRequiredConfig
from dbt.adapters.contracts.macros import MacroResolverProtocol
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.spark.column import SparkColumn
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.clients.agate_helper import DEFAULT_TYPE_TESTER, merge_tables
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.lakehouse.connections import LOGGER, LakehouseConnectionManager
from dbt.adapters.lakehouse.lake import SparkLake
from dbt.adapters.lakehouse.landing import Landing
from dbt.adapters.lakehouse.seeds import type_of_numbers
from dbt.adapters.lakehouse.told import told
from dbt_lakehouse.build import data_tests, redrive
from dbt_lakehouse.build.compiling import Compiling
from dbt_lakehouse.build.context import Context
from dbt_lakehouse.build.kinds import KINDS, MODELS, TESTS
from dbt_lakehouse.build.model import Built, Model
from dbt_lakehouse.build.purge import purge
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.declared import declarations, namesakes
from dbt_lakehouse.declared.catalog_columns import columns_to_come, shown_type
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import tend_own_state
from dbt_lakehouse.maintenance import policy, run
from dbt_lakehouse.runs import commits, tables

if TYPE_CHECKING:
    import agate

_TYPES_OF_SEEDS: Final[WeakKeyDictionary["agate.Table", dict[int, str | None]]] = (
    WeakKeyDictionary()
)


def _store_declaration(
    kind: str,
    context: Mapping[str, Any],
    _reads: Mapping[str, Any],
    declared: Mapping[str, Any] | None = None,
) -> str:
    """While dbt parses: the declaration of a public macro goes into its model's meta, where gold
    tables, tests, and runs that check it for changes look it up. Our own models have none.
    """
    if declared:
        context["config"](materialized=kind, meta=declared)
    return ""


class LakehouseAdapter(SparkAdapter):
    """dbt-spark's adapter for Iceberg tables in the Spark session of this process."""

    ConnectionManager = LakehouseConnectionManager
    connections: LakehouseConnectionManager

    def __init__(self, config: AdapterRequiredConfig, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self.lake: Final = SparkLake(self)
        self._landing: Final = Landing(self.lake)

    def set_macro_resolver(self, macro_resolver: MacroResolverProtocol) -> None:
        """dbt calls it after parsing the project, before anything else."""
        super().set_macro_resolver(macro_resolver)
        macros: Mapping[str, Any] = getattr(macro_resolver, "macros", {})
        nodes: Mapping[str, Any] = getattr(macro_resolver, "nodes", {})
        project = self.config.project_name
        for sentence in (
            *namesakes.told(macros.values(), project),
            *data_tests.mistakes(nodes, macros.values(), project),
        ):
            LOGGER.warning(sentence)
        self.connections.foreseen = self.lake.declared.foreseen

    def pre_model_hook(self, config: Mapping[str, Any]) -> None:
        """Make snapshots Iceberg tables, as all tables are: dbt-spark refuses one without a
        ``file_format``.
        """
        super().pre_model_hook(config)
        node: Any = getattr(config, "model", None)
        if getattr(node, "resource_type", None) == "snapshot":
            node.config["file_format"] = node.config.get("file_format") or "iceberg"

    # -- the catalog, as dbt asks of it

    @told
    def list_schemas(self, database: str) -> list[str]:
        return tables.schemas_of(self.lake.spark)

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return schema in self.list_schemas(database)

    @told
    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Tables and views. dbt-spark uses ``show table extended``, which Iceberg's catalogs
        don't support, and its fallback misses views: a relation that dbt doesn't see is silently
        rebuilt at each run.
        """
        schema = str(schema_relation.schema)
        found = self.lake.catalog.relations_in(schema)
        return [
            self.Relation.create(
                schema=schema,
                identifier=name,
                type=kind,
                is_iceberg=kind == RelationType.Table,
            )
            for name, kind in found.items()
        ]

    @available
    @classmethod
    def convert_type(cls, agate_table: "agate.Table", col_idx: int) -> str | None:
        """The type of a seed's column. dbt-spark asks for it for each value, and it looks at all
        values of the column: kept, a seed costs what its rows cost, not their square.
        """
        types = _TYPES_OF_SEEDS.setdefault(agate_table, {})
        if col_idx not in types:
            types[col_idx] = super().convert_type(agate_table, col_idx)
        return types[col_idx]

    @classmethod
    def convert_number_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        return type_of_numbers(
            agate_table.columns[col_idx], super().convert_number_type(agate_table, col_idx)
        )

    @classmethod
    def convert_integer_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        return type_of_numbers(
            agate_table.columns[col_idx], super().convert_integer_type(agate_table, col_idx)
        )

    def _make_match(
        self,
        relations_list: list[BaseRelation],
        database: str,
        schema: str,
        identifier: str,
    ) -> list[BaseRelation]:
        """The relation of this name, among those of its schema. Most catalogs keep the case of
        names; dbt-spark looks for one in lower case, as Hive keeps it.
        """
        exact = [each for each in relations_list if each.identifier == identifier]
        return exact or super()._make_match(relations_list, database, schema, identifier)

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drop a schema and all that is in it. Iceberg's catalogs ignore SQL's ``cascade``, and
        refuse one that is not empty.
        """
        if relation.schema in self.list_schemas(""):
            for each in self.list_relations_without_caching(relation.without_identifier()):
                # dbt has no types there.
                self.drop_relation(each)  # type: ignore[no-untyped-call]
        super().drop_schema(relation)

    @available.parse_list
    @told
    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        """The columns of a table or view, empty if it does not exist. dbt-spark uses ``describe
        extended``, for which Spark adds up the sizes of all files.
        """
        return [
            SparkColumn(
                column=name,
                dtype=kind,
                table_schema=relation.schema,
                table_name=relation.name,
                table_type=relation.type,
                column_index=index,
            )
            for index, (name, kind) in enumerate(
                self.lake.catalog.columns_of(relation.render()).items()
            )
        ]

    def get_catalog(
        self,
        relation_configs: Iterable[RelationConfig],
        used_schemas: frozenset[tuple[str, str]],
    ) -> tuple["agate.Table", list[Exception]]:
        """The columns of all tables for dbt's documentation; for sources that do not exist yet,
        as declared.
        """
        import agate

        nodes = list(relation_configs)
        found, exceptions = super().get_catalog(nodes, used_schemas)
        known = {(row["table_schema"], row["table_name"]) for row in found.rows}
        missing = agate.Table.from_object(
            [*columns_to_come(nodes, known)], column_types=DEFAULT_TYPE_TESTER
        )
        return merge_tables([found, missing]), exceptions

    def _get_columns_for_catalog(self, relation: BaseRelation) -> Iterator[dict[str, Any]]:
        fields = tables.columns_of(self.lake.spark, relation.render())
        comments = {field.name: field.metadata.get("comment") for field in fields}
        for column in super()._get_columns_for_catalog(relation):
            yield {
                **column,
                "column_type": shown_type(column["column_type"]),
                "column_comment": comments.get(column["column_name"]),
            }

    def cleanup_connections(self) -> None:
        """Clean up when a command ends; dbt calls it in every case.

        Raises ``DbtRuntimeError`` on Ctrl-C, for which dbt would show a traceback of its own.
        """
        error = sys.exception()
        interrupted = isinstance(error, KeyboardInterrupt)
        try:
            super().cleanup_connections()
        finally:
            try:
                self.connections.end_command()
            finally:
                self.connections.leave_report(error)
        if interrupted:
            raise DbtRuntimeError(
                "interrupted: Spark's jobs were cancelled, what was committed is complete, and the"
                " next run goes on from there"
            ) from None

    # -- models

    @available.parse(declarations.declare)
    def declare(
        self, macro: str, arguments: Mapping[str, Any], unknown: Collection[str]
    ) -> dict[str, dict[str, Any]]:
        """The part of a macro call that the calling model's meta keeps, see
        ``declarations.declare``.
        """
        return declarations.declare(macro, arguments, unknown)

    @available.parse(_store_declaration)
    @told
    def model_sql(
        self,
        kind: str,
        context: Mapping[str, Any],
        reads: Mapping[str, Any],
        declared: Mapping[str, Any] | None = None,
    ) -> str:
        """The SQL of one of ``MODELS``, see ``Compiling``. What is compiled for `dbt show` or a
        unit test is what runs.
        """
        # `dbt compile` opens no connection.
        self.connections.warn_of_foreseen()
        return MODELS[kind](Compiling(self.lake, Context(context), reads, declared or {}))

    @available.parse_none
    @told
    def build(self, context: Mapping[str, Any]) -> Built:
        """Build a model of one of ``KINDS``, and show its warnings. A view with the table's name
        is dropped.
        """
        of, create_table_as = Context(context), context["create_table_as"]
        model = Model(
            of.this,
            of.model,
            context["sql"],
            self.lake.runs.moment(of.var("as_of")),
            lambda query: create_table_as(False, of.this, query),
        )
        existing = self.get_relation(of.this.database, of.this.schema, of.this.identifier)
        if existing is not None and existing.is_view:
            # dbt's own method has no types.
            self.drop_relation(existing)  # type: ignore[no-untyped-call]
        built = KINDS[of.model["config"]["materialized"]](self.lake, model).build()
        for doubt in built.doubts:
            of.warn(doubt)
        return built

    @available.parse(lambda *_: False)
    def follows(self, model: Any) -> bool:
        """Whether the columns of a gold table's or history's change log follow the source."""
        return self.lake.declared.follows(model)

    @available.parse(lambda *_: "")
    def properties_clause(self, this: BaseRelation, own: Mapping[str, str] | None) -> str:
        """The properties with which a model's table is created, as SQL: those of its files, its
        ``own``, and those of its run, such as its declaration.
        """
        runs = self.lake.runs
        properties = {**runs.file_properties(this), **(own or {}), **runs.run_properties(this)}
        return render("table_properties", properties=properties) if properties else ""

    @available.parse_none
    @told
    def describe_table(
        self, this: BaseRelation, model: Any, own: bool = True, columns: bool = True
    ) -> None:
        """Write the descriptions of a model and its columns to its table where they differ."""
        self.lake.catalog.describe_table(this, model, own, columns)

    @available.parse_none
    @told
    def purge(self, context: Mapping[str, Any]) -> None:
        """Forget old states of absent keys, see ``dbt_lakehouse.build.purge``, and expire earlier
        snapshots of their table once it has many: each gold table adds one in each run.
        """
        of = Context(context)
        if not of.is_building:
            return
        self._tend_own_state(of.this)
        as_of = self.lake.runs.moment(of.var("as_of"))
        purge(self.lake, of.this, as_of, of.var("tombstone_retention_days", 7))

    def _tend_own_state(self, relation: BaseRelation) -> None:
        """``tend_own_state`` of a table whose history is not read. The notes of snapshots that
        expire are carried on.
        """
        name = f"{CATALOG}.{relation.render()}"
        tend_own_state(
            self.lake.spark, name, before=lambda: commits.carry_on(self.lake.spark, str(relation))
        )
        self.lake.handle.looks.clear()

    # -- data tests

    @available.parse(lambda *_: "")
    @told
    def test_sql(
        self,
        test: str,
        context: Mapping[str, Any],
        table: BaseRelation,
        arguments: Mapping[str, Any],
    ) -> str:
        """The SQL of one of ``TESTS``, see ``DataTest``."""
        return TESTS[test](DataTest(self.lake, Context(context), test, table, arguments))

    # -- operations

    @available.parse_list
    @told
    def land(self) -> list[str]:
        """Land new messages, see ``Landing``. Returns a sentence for captures and one for Kafka."""
        return self._landing.land()

    @available.parse_none
    @told
    def end_landing(self, results: Sequence[Any]) -> None:
        """See ``Landing.end``."""
        self._landing.end(results)

    @available.parse_none
    @told
    def maintain(self, names: Sequence[str], dry_run: bool) -> None:
        """Maintain the tables of these names, or all, see ``maintenance``, with a line for each."""
        retention = policy.retention_days(self.connections.project().variables)
        chosen = policy.candidates(self.get_macro_resolver(), names, retention)
        for done in run.maintain(self.lake.spark, chosen, dry_run=dry_run):
            LOGGER.info(done.text())
        self.lake.handle.looks.clear()

    @available.parse_none
    @told
    def redrive(
        self,
        events: BaseRelation,
        quarantine: BaseRelation,
        payloads: BaseRelation,
        codes: Sequence[str],
        topics: Sequence[str],
    ) -> None:
        """Decode quarantined payloads again, see ``build.redrive``."""
        every = self.lake.events.logs_to_look_at()
        logs = [each.relation for each in every if each.run.table is not None]
        of = redrive.Tables(events, quarantine, payloads, logs)
        redrive.redrive(self.lake, of, codes, topics)

    @available.parse_none
    @told
    def drop_change_events(self, events: BaseRelation) -> str:
        """Drop the change_events table that other_events has taken over. Returns a sentence about
        the space freed.
        """
        return self.lake.events.drop_change_events(events)
