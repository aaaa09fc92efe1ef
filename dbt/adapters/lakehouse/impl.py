"""dbt's adapter: what dbt asks of the lake itself, and what our macros ask of it as methods of
``adapter``. Both are answered by the parts of ``SparkLake``, and without SQL where Iceberg knows.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

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
from dbt.adapters.lakehouse.lake.runs import RAW_PAYLOADS
from dbt.adapters.lakehouse.landing import Landing
from dbt.adapters.lakehouse.told import told
from dbt_lakehouse.build import history, redrive, templates
from dbt_lakehouse.build.change_log import change_log_sql
from dbt_lakehouse.build.compiling import Compiling, near_positions
from dbt_lakehouse.build.current_state import CurrentState, fold_of_all
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.deleted_rows import WithDeletedRows, rows_of_all
from dbt_lakehouse.build.keyless import current_rows_sql
from dbt_lakehouse.build.kinds import KINDS, MODELS
from dbt_lakehouse.build.log_rows import read
from dbt_lakehouse.build.model import Built, Model
from dbt_lakehouse.build.purge import purge
from dbt_lakehouse.build.tested import TESTS, DataTests, live_rows
from dbt_lakehouse.declared import declarations, namesakes
from dbt_lakehouse.declared.catalog_columns import columns_to_come, shown_type
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import expire_own_history
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.maintenance import policy, run
from dbt_lakehouse.runs import commits, graph, tables
from dbt_lakehouse.runs.log_input import Part
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.texts import sql_text

if TYPE_CHECKING:
    import agate


class LakehouseAdapter(SparkAdapter):
    """dbt-spark's adapter for Iceberg tables in the Spark session of this process."""

    ConnectionManager = LakehouseConnectionManager
    connections: LakehouseConnectionManager

    def __init__(self, config: AdapterRequiredConfig, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self.lake: Final = SparkLake(self)
        self._landing: Final = Landing(self.lake)

    def set_macro_resolver(self, macro_resolver: MacroResolverProtocol) -> None:
        """dbt calls it once it has parsed the project, before it does anything else."""
        super().set_macro_resolver(macro_resolver)
        macros: Mapping[str, Any] = getattr(macro_resolver, "macros", {})
        for sentence in namesakes.told(macros.values(), self.config.project_name):
            LOGGER.warning(sentence)

    # -- the catalog, as dbt asks of it

    @told
    def list_schemas(self, database: str) -> list[str]:
        return tables.schemas_of(self.lake.spark)

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return schema in self.list_schemas(database)

    @told
    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Tables and views. dbt-spark asks with ``show table extended``, which Iceberg's catalogs
        don't support, and its fallback misses views: a relation that dbt doesn't see is rebuilt at
        each run without a word.
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

    @available.parse_list
    @told
    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        """The columns of a table or view, none if it isn't there. dbt-spark asks with ``describe
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
        fields = tables.columns_of(self.lake.spark, relation.render())
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
        """Expire the earlier snapshots of a table whose history is not read, once it has many.
        What they say of it stays.
        """
        name = f"{CATALOG}.{relation.render()}"
        expire_own_history(
            self.lake.spark, name, before=lambda: commits.carry_on(self.lake.spark, str(relation))
        )
        self.lake.handle.looks.clear()

    @available.parse_none
    @told
    def maintain(self, names: Sequence[str], dry_run: bool) -> None:
        """Maintain tables, those of these names or all, see ``maintenance``; a line for each."""
        retention = policy.retention_days(self.connections.project().variables)
        chosen = policy.candidates(self.get_macro_resolver(), names, retention)
        for done in run.maintain(self.lake.spark, chosen, dry_run=dry_run):
            LOGGER.info(done.text())
        self.lake.handle.looks.clear()

    # -- landing

    @available.parse_list
    @told
    def land(self) -> list[str]:
        """Land what is new, see ``Landing``; a sentence for captures and for Kafka."""
        return self._landing.land()

    @available.parse_none
    @told
    def end_landing(self, results: Sequence[Any]) -> None:
        """See ``Landing.end``."""
        self._landing.end(results)

    # -- what models are declared to be

    @available.parse(declarations.refuse_arguments)
    def refuse_arguments(self, macro: str, unknown: Collection[str]) -> None:
        """Stop a call of a macro with arguments that it does not have."""
        declarations.refuse_arguments(macro, unknown)

    @available.parse(declarations.change_log)
    def declare_change_log(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a change log's meta keeps, see ``declarations.change_log``."""
        return declarations.change_log(arguments)

    @available.parse_none
    def fold_of(self, changes: BaseRelation, *of: Any, **more: Any) -> Fold:
        """What a gold table or a history takes of the declaration of its log, see
        ``Declared.fold_of``.
        """
        return self.lake.declared.fold_of(changes, *of, **more)

    @available.parse_none
    def log_to_test(self, log: BaseRelation, test: str) -> dict[str, Any]:
        """The declaration of a change log, for a test of that name."""
        return self.lake.declared.log_to_test(log, test)

    @available.parse(lambda *_: False)
    def follows(self, model: Any) -> bool:
        """Whether a gold table or history is of a change log whose columns follow the source."""
        return self.lake.declared.follows(model)

    @available.parse_none
    def refuse_other_sql(self, model: Any, macro: str) -> None:
        """Stop a model that has more SQL than the call of its macro, which alone is run."""
        graph.refuse_other_sql(model, macro)

    @available.parse_none
    @told
    def describe_table(
        self, this: BaseRelation, model: Any, own: bool = True, columns: bool = True
    ) -> None:
        """Write the descriptions of a model and its columns to its table where they differ."""
        self.lake.catalog.describe_table(this, model, own, columns)

    @available.parse_none
    @told
    def own_table(self, name: str) -> BaseRelation:
        """The table of the lake's own state of this name, made if it is not there."""
        return self.lake.catalog.own_table(name)

    @available.parse_none
    @told
    def look_at_table(self, relation: BaseRelation) -> Table | None:
        """A table as it is now (``lake.tables.Table``), None if there is no such table."""
        return self.lake.catalog.look_at(relation)

    # -- what is new

    @available.parse(lambda *_: "")
    @told
    def moment(self, given: Any) -> str:
        """The moment of this command as text, see ``moments``; ``given`` is ``vars.as_of``."""
        return self.lake.runs.moment(given)

    @available.parse_none
    @told
    def begin_run(
        self, this: BaseRelation, upstreams: Sequence[BaseRelation], *of: Any, **more: Any
    ) -> NodeRun:
        """Find out what is new to a model's table, see ``Runs.begin_run``."""
        return self.lake.runs.begin_run(this, upstreams, *of, **more)

    @available.parse_none
    def run_of(self, this: BaseRelation) -> NodeRun:
        """What ``begin_run`` has found out while the model was compiled."""
        return self.lake.runs.run_of(this)

    @available.parse(lambda *_: {})
    def run_properties(self, this: BaseRelation) -> dict[str, str]:
        """Properties that a model's table is to be made with."""
        return self.lake.runs.run_properties(this)

    @available.parse_none
    def run_to_test(self, relation: BaseRelation) -> NodeRun | None:
        """How this command has brought a table up to date, see ``Runs.run_to_test``."""
        return self.lake.runs.run_to_test(relation)

    @available.parse_none
    @told
    def added_rows(self, relation: BaseRelation) -> str | None:
        """The rows that this command has added to an append-only table, to select from."""
        return self.lake.runs.added_rows(relation)

    @available.parse_none
    @told
    def as_read(self, upstream: BaseRelation, reader: BaseRelation) -> str:
        """What was read of a table for another one, to select from, see ``Runs.as_read``."""
        return self.lake.runs.as_read(upstream, reader)

    # -- what builds models, and their SQL

    @available.parse_none
    @told
    def build(
        self,
        this: BaseRelation,
        model: Mapping[str, Any],
        sql: str,
        as_of: str,
        create_table_as: Callable[[bool, BaseRelation, str], str],
    ) -> Built:
        """Build a model of one of ``KINDS``; what dbt is told of it."""
        kind = KINDS[model["config"]["materialized"]]
        of = Model(this, model, sql, as_of, lambda query: create_table_as(False, this, query))
        return kind(self.lake, of).build()

    @available.parse_none
    @told
    def current_state_sql(
        self,
        model: Mapping[str, Any],
        of: Fold,
        changes: BaseRelation,
        deletes: BaseRelation | None,
        as_of: str,
        this: BaseRelation | None = None,
    ) -> str:
        """The SQL of a gold table: of the run that has begun for a model's table (``this``), or of
        all events of its log. ``deletes``: the deletes without a set, None but for a namespace.
        """
        if of.keyless:
            return current_rows_sql(
                of, changes if this is None else self.lake.runs.run_of(this).rows(changes)
            )
        if this is None:
            of_all = rows_of_all if of.deleted_rows else fold_of_all
            return of_all(of, changes, deletes, as_of)
        kind = WithDeletedRows if of.deleted_rows else CurrentState
        return kind(self.lake, Model(this, model, "", as_of, str)).sql()

    @available.parse_none
    @told
    def purge(self, this: BaseRelation, as_of: str, days: float) -> None:
        """Forget old states of absent keys, see ``dbt_lakehouse.build.purge``."""
        purge(self.lake, this, as_of, days)

    @available.parse_none
    @told
    def history_sql(
        self,
        this: BaseRelation,
        of: Fold,
        upstreams: Sequence[BaseRelation],
        as_of: str,
        run: NodeRun | None,
    ) -> str:
        """The SQL of a history, see ``history.history_sql``."""
        return history.history_sql(this, of, upstreams, as_of, run)

    @available.parse_none
    @told
    def test_sql(
        self, test: str, table: BaseRelation, as_of: str, current: BaseRelation | None = None
    ) -> str:
        """The SQL of a data test of a gold table, or of a history, which is held against the gold
        table ``current``; ``as_of`` is the moment of the command as text.
        """
        of = self.lake.declared.fold_to_test(table, test, current)
        gold = None
        if current is not None:
            node = graph.node_of(self.lake.nodes, current)
            gold = live_rows(current, graph.fold_of_model(self.lake.nodes, node))
        return TESTS[test](DataTests(self.lake, table, of, as_of, gold))

    @available
    def part(self, file: str, name: str, *arguments: Any, **named: Any) -> str:
        """A part of a statement, see ``templates.part``."""
        return templates.part(file, name, *arguments, **named)

    @available.parse(lambda *_, **__: "")
    @told
    def model_sql(
        self,
        name: str,
        this: BaseRelation,
        reads: Mapping[str, Any],
        topics: Any,
        *,
        is_building: bool,
        is_decoding: bool,
        goes_on: bool,
        anew: bool,
    ) -> str:
        """The SQL of one of ``MODELS``, see ``Compiling``. ``topics`` is ``vars.topics``, which a
        unit test may have others of.
        """
        decoding = Decoding(self.lake, topics, is_decoding)
        return MODELS[name](
            Compiling(self.lake, this, reads, decoding, is_building, goes_on=goes_on, anew=anew)
        )

    # -- change logs

    @available.parse(lambda *_: "")
    @told
    def change_log_sql(
        self,
        this: BaseRelation,
        name: str,
        log: Mapping[str, Any],
        upstreams: Sequence[BaseRelation],
        anew: bool | None,
        topics: Any,
        runs: bool,
    ) -> str:
        """The SQL of the model of a change log, see ``change_log.change_log_sql``. ``topics`` is
        ``vars.topics``; ``runs`` as in ``Decoding``.
        """
        decoding = Decoding(self.lake, topics, runs)
        return change_log_sql(this, name, log, upstreams, decoding, anew)

    @available.parse(lambda *_: "")
    @told
    def events_of_log(
        self, run: NodeRun, log: Mapping[str, Any], which: str, topics: Any, runs: bool
    ) -> str:
        """A part of a change log's events (``log_input.Part``), see ``log_rows.read``."""
        return read(Decoding(self.lake, topics, runs), run, log, Part(which))

    # -- events

    @available.parse(lambda *_: "events")
    @told
    def events_of_topics(self, events: BaseRelation, topics: Sequence[str]) -> str:
        """The events of some topics that other_events has looked at, to select from."""
        run = NodeRun(self.lake.catalog.look_at, events, [RAW_PAYLOADS])
        decoding = Decoding(self.lake, self.lake.events.topics, runs=not self.lake.only_compiles)
        return decoding.events_of(self.lake.events.looked_input(run, topics))

    @available.parse(lambda *_: "true")
    @told
    def near_positions(self, rows: str, parent: str) -> str:
        """See ``compiling.near_positions``; any position, where no statement is run."""
        if self.lake.only_compiles:
            return "true"
        return near_positions(self.lake, rows, parent)

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
        logs = [each["relation"] for each in self.lake.events.logs_to_look_at() if each["is_there"]]
        of = redrive.Tables(events, quarantine, payloads, logs)
        redrive.redrive(self.lake, of, codes, topics)

    @available.parse(lambda *_: "false")
    @told
    def events_to_give(self, events: BaseRelation) -> str:
        """A condition on rows of other_events (SQL), see ``Events.events_to_give``."""
        return self.lake.events.events_to_give(events)

    @available.parse_list
    @told
    def topics_with_changes(self, events: BaseRelation) -> list[str]:
        """The topics of which any event that changes a row was decoded."""
        return self.lake.events.topics_with_changes(events)

    @available.parse_none
    @told
    def compaction_of(self, topics: Sequence[str]) -> dict[str, bool | None]:
        """Whether topics count as compacted, see ``Events.compaction_of``."""
        return self.lake.events.compaction_of(topics)

    @available.parse_none
    @told
    def log_to_look_at(self, model: BaseRelation, log: Mapping[str, Any]) -> dict[str, Any]:
        """Which events of a change log its tests look at: of which run, and which part."""
        return self.lake.events.log_to_look_at(model, log)

    @available.parse_none
    @told
    def logs_to_look_at(self) -> list[dict[str, Any]]:
        """All change logs, see ``Events.logs_to_look_at``."""
        return self.lake.events.logs_to_look_at()

    @available.parse_none
    @told
    def drop_change_events(self, events: BaseRelation) -> str:
        """Drop the change_events that other_events has taken over; a sentence of what is freed."""
        return self.lake.events.drop_change_events(events)

    @available
    def sql_text(self, text: str) -> str:
        """A SQL string literal, see ``texts``."""
        return sql_text(text)
