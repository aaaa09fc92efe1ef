"""What our materializations ask of the adapter before they write: what a model's declaration says,
and what is new to its table.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final
from uuid import uuid4

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterRequiredConfig
from dbt_common.exceptions import CompilationError

from dbt import selected_resources
from dbt.adapters.lakehouse.base import SessionAdapter, told
from dbt_lakehouse.dbt import (
    data_tests,
    declarations,
    fold_of_log,
    marks,
    project,
    tables,
    widening,
)
from dbt_lakehouse.dbt.fold_of_log import Fold
from dbt_lakehouse.dbt.moments import given_moment
from dbt_lakehouse.dbt.news import Wanted
from dbt_lakehouse.dbt.node_run import AS_OF, NodeRun
from dbt_lakehouse.lake.tables import NO_SNAPSHOT

RAW_PAYLOADS: Final = "bronze.raw_payloads"


class ModelAdapter(SessionAdapter):
    """Methods for the macros of models."""

    def __init__(self, config: AdapterRequiredConfig, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        # By the names of their tables; a command's threads build different ones.
        self._runs: Final[dict[str, NodeRun]] = {}

    @property
    def _nodes(self) -> Mapping[str, Any]:
        """The project's nodes by their unique ids, dbt's manifest."""
        return getattr(self.get_macro_resolver(), "nodes", {})

    # -- declarations

    @available.parse(declarations.refuse_arguments)
    def refuse_arguments(self, macro: str, unknown: Collection[str]) -> None:
        """Stop a call of a macro with arguments that it does not have."""
        declarations.refuse_arguments(macro, unknown)

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
        bitemporal: bool = False,
    ) -> Fold:
        """What a gold table or a history takes of the declaration of its log."""
        log = self.followed(project.log_of(self._nodes, changes), changes)
        return fold_of_log.fold(
            log, columns, track_columns, is_history=is_history, bitemporal=bitemporal
        )

    def fold_to_test(
        self, model: BaseRelation, test: str, current: BaseRelation | None = None
    ) -> Fold:
        """The same of a table that is there, for a test of that name; ``current`` is the gold table
        that a history is held against. Stops a test of another kind of tables.
        """
        node = data_tests.node_to_test(self._nodes, model, test)
        if current is not None:
            data_tests.refuse_other_gold(self._nodes, node, current)
        log = project.log_node(self._nodes, node)
        declared = self.followed(log.config.meta["change_log"], self._relation(log))
        return project.fold_of_model(self._nodes, node, declared)

    @available.parse_none
    def log_to_test(self, log: BaseRelation, test: str) -> dict[str, Any]:
        """The declaration of a change log, as ``fold_to_test``."""
        node = data_tests.node_to_test(self._nodes, log, test)
        return dict(self.followed(node.config.meta["change_log"], log))

    def followed(self, log: Mapping[str, Any], relation: BaseRelation) -> Mapping[str, Any]:
        """A change log's declaration with the types that its columns have by now, see
        ``dbt_lakehouse.dbt.widening``.
        """
        if not log.get("follow"):
            return log
        # This command may have widened them since.
        self.handle.looks.pop(str(relation), None)
        table = self.look_at(relation)
        return log if table is None else widening.followed(log, table.properties)

    @available.parse(lambda *_: False)
    def follows(self, model: Any) -> bool:
        """Whether a gold table or history is of a change log whose columns follow the source."""
        node = self._nodes.get(model["unique_id"])
        if node is None or not project.is_of_log(node):
            return False
        return bool(project.log_node(self._nodes, node).config.meta["change_log"].get("follow"))

    def log_of_model(self, model: BaseRelation) -> BaseRelation:
        """The change log of a gold table or history."""
        return self._relation(project.log_node(self._nodes, project.node_of(self._nodes, model)))

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

    @available.parse(lambda *_: "")
    @told
    def moment(self, given: Any) -> str:
        """The moment of this command as text, see ``moments``; ``given`` is ``vars.as_of``."""
        if given is not None:
            return given_moment(given).text
        return self.connections.moment(self._built_as_of)

    def _built_as_of(self) -> dict[str, str | None]:
        """As of when the tables with rows that expire were built, but for those that this command
        makes anew, by their models.
        """
        makes_anew = getattr(self.config.args, "full_refresh", False)
        anew = selected_resources.SELECTED_RESOURCES if makes_anew else ()
        found: dict[str, str | None] = {}
        for model in project.of_namespaces(self._nodes):
            if model.unique_id not in anew:
                table = self.look_at(
                    self.Relation.create(schema=model.schema, identifier=model.alias)
                )
                found[model.name] = None if table is None else table.noted(AS_OF)
        return found

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
        follows: bool = False,
        reason: str | None = None,
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
            follows=follows,
            reason=reason,
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
        run = self.run_to_test(relation)
        # Not of what dbt makes of a model for a test with a condition, which is no table.
        now = None if run is None else self.look_at(relation)
        if run is None or run.table is None or now is None:
            return None
        before = run.table.snapshot
        since = takewhile(lambda each: each.name != before, now.chain)
        if any(each.changes_rows and each.summary.get("operation") != "append" for each in since):
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
        now = self.look_at(upstream)
        if now is not None and now.snapshot == NO_SNAPSHOT:
            return f"(select * from {upstream} where false)"
        # Pinned: beside the rows of a range of snapshots, Spark takes a table's name for those.
        pinned = upstream if now is None else f"{upstream} version as of {now.snapshot}"
        return f"(select * from {pinned} where _last_updated_sequence_number <= {mark.sequence})"
