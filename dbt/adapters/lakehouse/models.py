"""What our materializations ask of the adapter: what is new to a model's table, what its
declaration says, and commits that hold rows together with what they were made of.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final
from uuid import uuid4

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterRequiredConfig
from dbt.adapters.contracts.relation import RelationType
from dbt_common.exceptions import CompilationError
from pyspark.sql import Observation
from pyspark.sql.functions import expr

from dbt import selected_resources
from dbt.adapters.lakehouse.base import SessionAdapter, told
from dbt_lakehouse.dbt import (
    commits,
    contracts,
    declarations,
    fold,
    log_times,
    marks,
    news,
    project,
    readers,
    tables,
)
from dbt_lakehouse.dbt.declarations import Fold, quoted
from dbt_lakehouse.dbt.fold import Found, Newest, Plan, Truncate
from dbt_lakehouse.dbt.key_ranges import arguments_of, key_ranges, ranges_of, values_sql
from dbt_lakehouse.dbt.log_times import Known, LogTimes
from dbt_lakehouse.dbt.news import Wanted
from dbt_lakehouse.dbt.node_run import LEAVES, LOG_TIMES, NodeRun, keeping, kept
from dbt_lakehouse.texts import sql_text

RAW_PAYLOADS: Final = "bronze.raw_payloads"


class ModelAdapter(SessionAdapter):
    """Methods for the macros of models."""

    def __init__(self, config: AdapterRequiredConfig, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        # By the names of their tables; a command's threads build different ones.
        self._runs: Final[dict[str, NodeRun]] = {}
        self._observations: Final[dict[str, Observation]] = {}

    @property
    def _nodes(self) -> Mapping[str, Any]:
        """The project's nodes by their unique ids, dbt's manifest."""
        return getattr(self.get_macro_resolver(), "nodes", {})

    # -- declarations

    @available.parse(declarations.change_log)
    def declare_change_log(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a change log's meta keeps, see ``declarations.change_log``."""
        return declarations.change_log(arguments)

    @available.parse_none
    def fold_of(
        self,
        changes: BaseRelation,
        columns: Sequence[str] | None = None,
        track_columns: Sequence[str] | None = None,
        is_history: bool = False,
    ) -> Fold:
        """What a gold table or a history takes of the declaration of its log."""
        log = project.log_of(self._nodes, changes)
        return declarations.fold(log, columns, track_columns, is_history=is_history)

    @available.parse_none
    def fold_of_model(self, model: BaseRelation) -> Fold:
        """The same of a gold table or history that is there, for its tests."""
        return project.fold_of_model(self._nodes, project.node_of(self._nodes, model))

    @available.parse_none
    def declaration_of(self, log: BaseRelation) -> dict[str, Any]:
        """The declaration of a change log, for its tests."""
        return dict(project.log_of(self._nodes, log))

    @available.parse_none
    @told
    def log_of_model(self, model: BaseRelation) -> BaseRelation:
        """The change log of a gold table or history."""
        return self._relation(project.log_node(self._nodes, project.node_of(self._nodes, model)))

    @available.parse_none
    @told
    def relation_of(self, name: str) -> BaseRelation:
        """The table of a model that has this name, for tests: they need no edge to it in the graph,
        for what they test has been built after it.
        """
        return self._relation(project.node_named(self._nodes, name))

    def _relation(self, node: Any) -> BaseRelation:
        relation = self.Relation.create(schema=node.schema, identifier=node.alias)
        deferred = getattr(node, "defer_relation", None)
        favored = (
            getattr(self.config.args, "favor_state", False)
            and node.unique_id not in selected_resources.SELECTED_RESOURCES
        )
        # As dbt's own ref.
        if deferred is not None and (favored or self.look_at(relation) is None):
            return self.Relation.create(schema=deferred.schema, identifier=deferred.identifier)
        return relation

    @available.parse_none
    def refuse_other_sql(self, model: Any, macro: str) -> None:
        """Stop a model that has more SQL than the call of its macro, which alone is run."""
        project.refuse_other_sql(model, macro)

    # -- what is new

    @available.parse_none
    @told
    def begin_run(
        self,
        this: BaseRelation,
        upstreams: Sequence[BaseRelation],
        of: Fold | Mapping[str, Any] | None,
        anew: bool,
        merges: bool = False,
        refolds: bool = False,
        wanted: Wanted = None,
    ) -> NodeRun:
        """Find out what is new to a model's table, see ``NodeRun``."""
        if getattr(self.config.args, "sample", None) or any(each.limit == 0 for each in upstreams):
            raise CompilationError(
                f"{this} is not built with --empty or --sample: it notes what it has read, and no"
                " later run would read what this one leaves out; for tables without rows, or of"
                " some captures, take a lake of their own (LAKEHOUSE_LAKE, vars.captures)"
            )
        self.handle.looks.clear()
        # A view in its place is no table to go on with.
        run = NodeRun(
            self.look_at,
            this,
            upstreams,
            of,
            anew=anew,
            merges=merges,
            refolds=refolds,
            wanted=wanted,
        )
        self._runs[str(this)] = run
        self.handle.session.suit(small=run.suits_small)
        return run

    @available.parse_none
    def run_of(self, this: BaseRelation) -> NodeRun:
        """What ``begin_run`` has found out while the model was compiled."""
        run = self._runs.get(str(this))
        if run is None:
            raise CompilationError(
                f"the model of {this} asks nowhere what is new: select from"
                " {{ new_rows(ref('...')) }}, or take another materialization"
            )
        return run

    @available.parse(lambda *_: {})
    def run_properties(self, this: BaseRelation) -> dict[str, str]:
        """Properties that a model's table is to be made with."""
        run = self._runs.get(str(this))
        return {} if run is None else {marks.MADE: uuid4().hex, **run.properties()}

    @available.parse_none
    @told
    def may_have_new_rows(
        self, run: NodeRun, upstream: BaseRelation, conditions: Sequence[tuple[str, str, Any]]
    ) -> bool:
        """``may_have_rows`` of the rows of an upstream that are new to the model's table."""
        reading = run.reading(upstream)
        if not reading.has_news:
            return False
        between = None
        if reading.window is reading.window.SINCE_SNAPSHOT and reading.since is not None:
            between = (reading.since.snapshot, reading.until.snapshot)
        return tables.may_have_rows(self.spark, str(upstream), conditions, between)

    @available.parse_none
    @told
    def sequence_read_by_all(self, upstream: BaseRelation) -> int:
        """The sequence number up to which all gold tables of namespaces have read a table."""
        read = []
        for model in project.gold_of_namespaces(self._nodes):
            relation = self.Relation.create(schema=model.schema, identifier=model.alias)
            table = self.look_at(relation)
            # One that is not there yet reads the deletes themselves.
            if table is not None:
                mark = project.mark_on(table, str(upstream))
                read.append(0 if mark is None else mark.sequence)
        now = self.look_at(upstream)
        return min(read, default=0 if now is None else now.sequence)

    def begin_landing(self) -> None:
        """Have the tests of bronze look at what lands from here on."""
        self._runs[RAW_PAYLOADS] = NodeRun(self.look_at, RAW_PAYLOADS, [])

    @available.parse_none
    def run_to_test(self, relation: BaseRelation) -> NodeRun | None:
        """How this command has brought a table up to date, whose tests then look at what that has
        touched; None if they look at all of it: the command has not, or has made the table anew.
        """
        run = self._runs.get(str(relation))
        if run is None or not run.is_incremental or run.is_declared_anew:
            return None
        return run

    @available.parse_none
    @told
    def added_rows(self, relation: BaseRelation) -> str | None:
        """The rows that this command has added to an append-only table, to select from; None for
        all (``run_to_test``).
        """
        run, now = self.run_to_test(relation), self.look_at(relation)
        if run is None or run.table is None or now is None:
            return None
        before = run.table.snapshot
        since = takewhile(lambda each: each.name != before, now.chain)
        if any(each.summary.get("operation") != "append" for each in since):
            return None
        return marks.reading(marks.mark_of(run.table), now).sql(str(relation))

    @available.parse_none
    @told
    def as_read(self, upstream: BaseRelation, reader: BaseRelation) -> str:
        """What this command has read of a table for another one (``run_to_test``), else all that
        the other one has ever read, to select from; as it is if that one notes nothing of it.
        """
        run: NodeRun | None = self.run_to_test(reader)
        if run is not None and str(upstream) in run.readings:
            return run.rows(upstream)
        table = self.look_at(reader)
        mark = None if table is None else project.mark_on(table, str(upstream))
        if mark is None:
            return str(upstream)
        return f"(select * from {upstream} where _last_updated_sequence_number <= {mark.sequence})"

    # -- commits

    @available.parse_none
    @told
    def append(self, this: BaseRelation, query: str) -> str:
        """Append a query's rows to a model's table, with its run's notes."""
        run = self.run_of(this)
        self.connections.log_statement(f"append to {this}: {query}")
        self._keep_declaration(this, run)
        rows = self.handle.session.sql(query)
        try:
            commits.append(rows, str(this), run.notes(), run.seen)
        finally:
            self.handle.looks.clear()
        self._keep(this, run)
        return "OK"

    @available.parse_none
    @told
    def write_table(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that writes a model's table, with its run's notes and more."""
        run = self.run_of(this)
        self._keep_declaration(this, run)
        with commits.noting(self.spark, run.notes(notes)):
            response, _ = self.execute(statement)
        return str(response)

    @available.parse_none
    @told
    def has_read_all(
        self, reader: BaseRelation, upstream: BaseRelation, wanted: Wanted = None
    ) -> bool:
        """Whether a table has read all of another, or all that its model wants of it."""
        return readers.has_read_all(self.spark, str(reader), str(upstream), wanted)

    @available.parse_none
    @told
    def write_as_read(self, reader: BaseRelation, upstream: BaseRelation, statement: str) -> None:
        """Run a statement that writes to a table what it would read of another: nothing of that is
        left to it then.
        """
        notes = readers.notes_of_reading(self.spark, str(reader), str(upstream))
        with commits.noting(self.spark, notes):
            self.execute(statement)

    @available.parse_none
    @told
    def replace(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that makes a model's table anew, as ``write_table``."""
        run = self.run_of(this)
        with commits.noting(self.spark, run.notes(notes)):
            response, _ = self.execute(statement)
        self._keep(this, run)
        return str(response)

    def _keep(self, this: BaseRelation, run: NodeRun) -> None:
        """Keep with a model's table what its run has found out for the next one."""
        observation = self._observations.pop(str(this), None)
        observed = {} if observation is None else observation.get
        before = run.table if run.is_incremental else None
        if "leaving" in observed:
            leaves = before is not None and (bool(run.to_fill) or project.may_leave(before))
            run.keeps[LEAVES] = leaves or bool(observed["leaving"])
        table = self.look_at(this) if run.keeps or observed else None
        if table is not None:
            values = {name: keeping(table, value) for name, value in run.keeps.items()}
            if "invalid" in observed:
                commits_kept = news.kept(before or table, table.snapshot, observed)
                values[news.PROPERTY] = json.dumps(commits_kept)
            tables.set_properties(self.spark, str(this), values)
            self.handle.looks.clear()

    @available.parse_none
    @told
    def kept(self, this: BaseRelation, name: str) -> Any:
        """What a run of the model has kept for the next one; None if it no longer speaks of the
        table as it is.
        """
        table = self.run_of(this).table
        return None if table is None else kept(table, name)

    @available.parse_none
    def log_times(
        self, run: NodeRun, partitions: Sequence[Mapping[str, Any]], known: Known
    ) -> LogTimes:
        """What is known of the log times of new payloads; it is kept for the next run."""
        times = log_times.log_times(partitions, known)
        run.keeps[LOG_TIMES] = times.known
        return times

    @available.parse_none
    @told
    def note(self, this: BaseRelation, notes: Mapping[str, Any] | None = None) -> None:
        """Have a model's table note what was read, and more, without writing rows."""
        run = self.run_of(this)
        self._keep_declaration(this, run)
        commits.note(self.spark, str(this), run.notes(notes))
        self.handle.looks.clear()

    @available.parse_none
    @told
    def fill(self, this: BaseRelation, statement: str) -> None:
        """Run a statement that fills columns of rows that a model's table has, before others are
        appended to it.
        """
        self.execute(statement)
        table = self.look_at(this)
        if table is not None:
            self.run_of(this).seen = table.snapshot

    def _keep_declaration(self, this: BaseRelation, run: NodeRun) -> None:
        if run.is_declared_anew:
            tables.set_properties(self.spark, str(this), run.properties())

    @available
    def sql_text(self, text: str) -> str:
        """A SQL string literal, see ``texts``."""
        return sql_text(text)

    @available
    def news_aggregates(self) -> dict[str, str]:
        """What is counted of new change events, see ``dbt_lakehouse.dbt.news``."""
        return news.aggregates()

    @available.parse_none
    @told
    def observed(self, this: BaseRelation, query: str, aggregates: Mapping[str, str] | None) -> str:
        """The query of a model's rows, with SQL aggregates of them that are taken while they are
        written, for what is kept with the table (``_keep``); none, and it is the query as it is.
        """
        if not aggregates:
            return query
        observation = Observation()
        name = f"{this.schema}__{this.identifier}__observed"
        taken = [expr(sql).alias(name) for name, sql in aggregates.items()]
        rows = self.handle.session.sql(query).observe(observation, *taken)
        rows.createOrReplaceTempView(name)
        self._observations[str(this)] = observation
        return f"select * from {name}"

    @available.parse_none
    @told
    def may_leave_columns(self, this: BaseRelation, changes: BaseRelation, of: Fold) -> bool:
        """Whether any event of a log may leave columns as they were; kept in the model's run."""
        leaves = of.may_leave
        if leaves and not of.partial:
            table = self.look_at(changes)
            leaves = table is None or project.may_leave(table)
        self.run_of(this).leaves = leaves
        return leaves

    # -- tables

    @available.parse_none
    @told
    def columns_kept(self, this: BaseRelation, of: Fold) -> list[str]:
        """The value columns of a fold that a model's table has already, and of their types."""
        fields = tables.columns_of(self.spark, str(this))
        held = {field.name: field.dataType.simpleString() for field in fields}
        types = of.typed(of.columns)
        return quoted(
            name
            for name, made in types.items()
            if name in held and contracts.is_same(held[name], made)
        )

    @available.parse_none
    @told
    def follow_schema(self, this: BaseRelation, query: str) -> None:
        """Bring the columns of a table up to those of a query, see ``tables.follow_schema``."""
        given = self.handle.session.sql(query).schema.fields
        for column, before, now in tables.follow_schema(self.spark, str(this), given):
            self.connections.tell(f"{this}.{column}: widened from {before} to {now}")
        self.handle.looks.clear()

    @available.parse_none
    @told
    def check_contract(self, model: Any, of: Fold, columns: Sequence[str]) -> None:
        """Stop a model whose contract is enforced if it has other columns, or of other types."""
        if model["config"]["contract"]["enforced"]:
            contracts.check(model["name"], model["columns"], of.typed(columns))

    @available.parse_none
    @told
    def describe_table(
        self, this: BaseRelation, model: Any, own: bool = True, columns: bool = True
    ) -> None:
        """Write the descriptions of a model and its columns to its table where they differ."""
        described = project.descriptions(self.get_macro_resolver(), model) if columns else {}
        tables.describe(self.spark, str(this), model["description"] if own else None, described)
        self.handle.looks.clear()

    @available.parse_none
    @told
    def own_table(self, name: str) -> BaseRelation:
        """The table of the running target for a model of the lake's own state, whichever target
        reads are deferred to; made with the columns that its description has if it is not there.
        """
        node = project.node_named(self._nodes, name)
        relation = self.Relation.create(
            schema=node.schema, identifier=node.alias, type=RelationType.Table
        )
        if self.look_at(relation) is None:
            self.handle.session.sql(f"create schema if not exists {node.schema}")
            self.handle.session.sql(project.table_ddl(node, str(relation)))
            self.handle.looks.clear()
        return relation

    @available.parse_none
    @told
    def pinned_own(self, this: BaseRelation) -> str:
        """A model's own table as it is now, to select from. A column that the run has added since
        the table's last commit is not in its last snapshot: it has no values yet.
        """
        return tables.pinned_with_all_columns(self.spark, str(this), self.look_at(this))

    # -- folds

    @available.parse_none
    @told
    def define(self, name: str, query: str) -> None:
        """Make a temporary view of a query, which is evaluated by whoever reads it."""
        self.connections.log_statement(f"define {name} as {query}")
        self.handle.session.sql(query).createOrReplaceTempView(name)

    @available.parse_none
    @told
    def summary(self, states: str, of: Fold, as_of: str, is_late: str) -> Found:
        """The summary of folded states, a view; ``is_late`` is SQL for those that may have an event
        older than what is known.
        """
        session = self.handle.session
        keys = values_sql(self.spark, states, of.key[0], session.views.rows(states))
        query = fold.summary_sql(states, as_of, is_late, keys)
        self.connections.log_statement(query)
        return fold.found_in(session.sql(query).toArrow().to_pylist()[0])

    @available.parse_none
    @told
    def plan_fold(
        self,
        run: NodeRun,
        found: Found | None,
        truncates: Sequence[Truncate],
        may_be_hit: bool,
        has_set_less_deletes: bool,
    ) -> Plan:
        """What a run has to look up, see ``fold.plan``."""
        assert run.fold is not None
        return fold.plan(
            run.fold,
            found or Found(),
            newest_known=run.newest,
            truncates=truncates,
            may_be_hit=may_be_hit,
            has_set_less_deletes=bool(has_set_less_deletes),
            to_fill=bool(run.to_fill),
        )

    @available.parse_none
    def newest(self, log_time: Any, time: Any) -> Newest:
        """``Newest`` of what a query has found."""
        return Newest(*(None if each is None else int(each) for each in (log_time, time)))

    @available.parse_none
    @told
    def truncates_in(self, query: str) -> list[Truncate]:
        """The truncates that a query finds, see macros/current_state/truncates.sql."""
        self.connections.log_statement(query)
        return [fold.truncate(row) for row in self.handle.session.sql(query).toArrow().to_pylist()]

    @available.parse_none
    def hold_key_ranges(self, name: str, found: Found) -> int:
        """Hold the ranges of the keys of folded states, as ``:name_low_0`` and ``:name_high_0`` and
        so on of this model's statements that follow; how many: 0 if their type has none.
        """
        ranges = ranges_of(found.key_values)
        self.handle.session.arguments.update(arguments_of(name, ranges))
        return len(ranges)

    @available.parse_none
    @told
    def hold_key_ranges_of(self, name: str, relation: str, column: str) -> int:
        """The same for a view's column."""
        rows = self.handle.session.views.rows(relation)
        ranges = key_ranges(self.spark, relation, column, rows)
        self.handle.session.arguments.update(arguments_of(name, ranges))
        return len(ranges)

    @available.parse_none
    @told
    def ranges_to_write(self, log: str, key: Sequence[str]) -> int:
        """Into how many ranges of keys, and files, a first load divides its table."""
        count = "count(*) as changes, approx_count_distinct(xxhash64(" + ", ".join(key) + ")) as n"
        found = self.spark.sql(f"select {count} from {log}").collect()[0]
        cores = self.spark.sparkContext.defaultParallelism
        return fold.ranges_to_write(int(found.changes), int(found.n), cores)
