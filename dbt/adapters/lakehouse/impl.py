"""What macros can ask of the lake: methods of ``adapter``, answered without SQL where Iceberg
itself knows.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.macros import MacroResolverProtocol
from dbt.adapters.contracts.relation import RelationConfig, RelationType
from dbt.adapters.spark.column import SparkColumn
from dbt_common.clients.agate_helper import DEFAULT_TYPE_TESTER, merge_tables
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.building import BuildAdapter
from dbt.adapters.lakehouse.connections import COMMANDS_THAT_LAND, LOGGER
from dbt_lakehouse import findings
from dbt_lakehouse.declared import misfits, namesakes
from dbt_lakehouse.declared.catalog_columns import columns_to_come, shown_type
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import expire_own_history
from dbt_lakehouse.landing.stalled import TopicsStalledError
from dbt_lakehouse.maintenance import policy, run
from dbt_lakehouse.runs import commits, tables
from dbt_lakehouse.spark.rows import collected
from dbt_lakehouse.telling import telling

if TYPE_CHECKING:
    import agate
    from pyspark.sql import Row


class LakehouseAdapter(BuildAdapter):
    """dbt-spark's adapter for Iceberg tables in the Spark session of this process."""

    _stalled: Mapping[str, LakehouseError] = MappingProxyType({})
    _landed: Sequence[str] = ()

    def set_macro_resolver(self, macro_resolver: MacroResolverProtocol) -> None:
        """dbt calls it once it has parsed the project, before it does anything else."""
        super().set_macro_resolver(macro_resolver)
        macros: Mapping[str, Any] = getattr(macro_resolver, "macros", {})
        for sentence in namesakes.told(macros.values(), self.config.project_name):
            LOGGER.warning(sentence)

    # -- the catalog, as dbt asks of it

    @told
    def list_schemas(self, database: str) -> list[str]:
        return tables.schemas_of(self.spark)

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return schema in self.list_schemas(database)

    @told
    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Tables and views. dbt-spark asks with ``show table extended``, which Iceberg's catalogs
        don't support, and its fallback misses views: a relation that dbt doesn't see is rebuilt at
        each run without a word.
        """
        schema = str(schema_relation.schema)
        found = dict.fromkeys(tables.tables_in(self.spark, schema), RelationType.Table)
        found.update(dict.fromkeys(tables.views_in(self.spark, schema), RelationType.View))
        return [
            self.Relation.create(
                schema=schema,
                identifier=name,
                type=kind,
                is_iceberg=kind == RelationType.Table,
            )
            for name, kind in found.items()
        ]

    @available.parse_list
    @told
    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        """The columns of a table or view, none if it isn't there. dbt-spark asks with ``describe
        extended``, for which Spark adds up the sizes of all files.
        """
        return [
            SparkColumn(
                column=field.name,
                dtype=field.dataType.simpleString(),
                table_schema=relation.schema,
                table_name=relation.name,
                table_type=relation.type,
                column_index=index,
            )
            for index, field in enumerate(tables.columns_of(self.spark, relation.render()))
        ]

    def get_catalog(
        self,
        relation_configs: Iterable[RelationConfig],
        used_schemas: frozenset[tuple[str, str]],
    ) -> tuple["agate.Table", list[Exception]]:
        """The columns of all tables for dbt's pages; of sources that are not there yet, as
        declared.
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
        fields = tables.columns_of(self.spark, relation.render())
        comments = {field.name: field.metadata.get("comment") for field in fields}
        for column in super()._get_columns_for_catalog(relation):
            yield {
                **column,
                "column_type": shown_type(column["column_type"]),
                "column_comment": comments.get(column["column_name"]),
            }

    def cleanup_connections(self) -> None:
        """dbt calls it when a command ends, however it ends.

        Raises ``DbtRuntimeError`` on Ctrl-C, of which dbt would show a traceback of its own.
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
                "interrupted: Spark's jobs were cancelled, what was committed is whole, and the"
                " next run goes on from there"
            ) from None

    # -- tables

    @available.parse_none
    @told
    def expire_own_history(self, relation: BaseRelation) -> None:
        """Expire the earlier snapshots of a table whose history nobody reads, once it has many.
        What they say of it stays.
        """
        name = f"{CATALOG}.{relation.render()}"
        expire_own_history(
            self.spark, name, before=lambda: commits.carry_on(self.spark, str(relation))
        )
        self.handle.looks.clear()

    @available.parse_none
    @told
    def maintain(self, names: Sequence[str], dry_run: bool) -> None:
        """Maintain tables, those of these names or all, see ``maintenance``; a line for each."""
        retention = policy.retention_days(self.connections.project().variables)
        chosen = policy.candidates(self.get_macro_resolver(), names, retention)
        for done in run.maintain(self.spark, chosen, dry_run=dry_run):
            LOGGER.info(done.text())
        self.handle.looks.clear()

    # -- a model's statements

    # -- landing

    @available.parse_list
    @told
    def land(self) -> list[str]:
        """Land what is new in the project's captures and in Kafka, if the command is one that
        lands; a sentence for each of the two.
        """
        self._stalled, self._landed = {}, ()
        if self.connections.command not in COMMANDS_THAT_LAND:
            return []
        self.begin_landing()
        from dbt_lakehouse.landing.configured import land_configured

        elsewhere = self.connections.lands_elsewhere()
        if elsewhere is not None:
            return [elsewhere]
        with telling(LOGGER.info):
            landed = land_configured(self.spark, self.connections.project())
        self._stalled, self._landed = landed.stalled, landed.sentences
        return landed.sentences

    @available.parse_none
    @told
    def end_landing(self, results: Sequence[Any]) -> None:
        """Keep dbt's results for the report of the run, and raise what is wrong with topics that
        ``land`` could not land.
        """
        from dbt_lakehouse.landing.kafka.continuity import raise_stalled
        from dbt_lakehouse.report.runs import rows_of

        stalled, self._stalled = self._stalled, {}
        troubles = [str(error) for error in stalled.values()]
        found = cache(self._rows_found)
        self._tell_findings(results, found)
        self.connections.keep_results(
            results, self._landed, troubles, lambda sql: rows_of(found(sql))
        )
        try:
            raise_stalled(stalled)
        except LakehouseError as error:
            raise TopicsStalledError(str(error), results) from None

    def _tell_findings(self, results: Sequence[Any], found: Callable[[str], "list[Row]"]) -> None:
        """Have results of our tests say what they have found, in place of how many rows that are:
        dbt prints it when the command ends.
        """
        from dbt_lakehouse.report.runs import is_asked

        asked = 0
        for result in results:
            test = findings.own_test(result.node)
            if test is None or not result.failures:
                continue
            # What can't be asked once more keeps dbt's own message.
            with suppress(CapturedException, Py4JJavaError, DbtRuntimeError, KeyError):
                if test == misfits.TEST:
                    self._tell_misfits(result)
                    continue
                rows = []
                if is_asked(result.execution_time, asked):
                    asked += 1
                    rows = found(result.node.compiled_code)
                table, columns = self._tested(result.node, test)
                first = rows[0].asDict() if rows else {}
                result.message = findings.told(test, table, columns, result.failures, first)

    def _tested(self, node: Any, test: str) -> tuple[str, Sequence[str]]:
        """The table that a test is of, and the columns that it names."""
        if (table := findings.TESTS[test].table) is not None:
            return f"{self.connections.project().silver}.{table}", ()
        tested = self._nodes.get(getattr(node, "attached_node", None) or "")
        if tested is not None:
            table = f"{tested.schema}.{tested.alias}"
        else:
            # A source, whose id ends with its schema and its name.
            table = ".".join(node.depends_on.nodes[0].split(".")[-2:])
        return table, node.test_metadata.kwargs.get("columns") or ()

    def _tell_misfits(self, result: Any) -> None:
        log = self._nodes[result.node.attached_node]
        table = self.Relation.create(schema=log.schema, identifier=log.alias)
        rows = self.spark.sql(misfits.summary_sql(result.node.compiled_code)).collect()
        found = [misfits.Misfits(*row) for row in rows]
        declared = self.followed(log.config.meta["change_log"], table)
        result.message = misfits.told(str(table), declared, found)

    def _rows_found(self, sql: str) -> "list[Row]":
        """The first rows of a test's query; none if it can't be asked once more."""
        from dbt_lakehouse.report.runs import ROWS_SHOWN

        with suppress(CapturedException, Py4JJavaError):
            return collected(self.spark.sql(f"select * from (\n{sql}\n) limit {ROWS_SHOWN}"))
        return []
