"""Runs of models: from what a compilation finds to what tests check."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import CompilationError

from dbt import selected_resources
from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.tables import FILES, FILES_BY_KEY, NO_SNAPSHOT, ROW_LINEAGE
from dbt_lakehouse.runs import (
    graph,
    marks,
)
from dbt_lakehouse.runs.model_run import AS_OF, NodeRun
from dbt_lakehouse.runs.moments import given_moment
from dbt_lakehouse.runs.source_filter import Wanted

if TYPE_CHECKING:
    from dbt.adapters.lakehouse.lake import SparkLake


class Runs(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def __init__(self, lake: "SparkLake") -> None:
        super().__init__(lake)
        # By the names of their tables; a command's threads build different ones.
        self._runs: Final[dict[str, NodeRun]] = {}

    def begin_run(
        self,
        this: BaseRelation,
        upstreams: Sequence[BaseRelation],
        of: Fold | Mapping[str, Any] | None,
        full_refresh: bool,
        merges: bool = False,
        refolds: bool = False,
        wanted: Wanted = None,
        follows: bool = False,
        reason: str | None = None,
    ) -> NodeRun:
        """Begin a run: find the new rows for a model's table, see ``NodeRun``."""
        if getattr(self._lake.args, "sample", None) or any(each.limit == 0 for each in upstreams):
            raise CompilationError(
                f"{this} is not built with --empty or --sample: it records its watermark, and no"
                " later run would read the rows that this one leaves out; for tables without rows,"
                " or of some captures, use a separate lake (LAKEHOUSE_LAKE, vars.captures)"
            )
        self._handle.looks.clear()
        # A view with that name is not a table to continue from.
        run = NodeRun(
            self._lake.catalog.look_at,
            this,
            upstreams,
            of,
            full_refresh=full_refresh,
            merges=merges,
            refolds=refolds,
            wanted=wanted,
            follows=follows,
            reason=reason,
        )
        self._runs[str(this)] = run
        self._handle.session.suit(small=run.suits_small, compiles=not run.spares_compiling)
        return run

    def refuse_earlier_version(self, upstream: BaseRelation) -> None:
        """Raise ``CompilationError`` for a table from which runs can't go on once its snapshots
        have expired: its rows have no sequence numbers.
        """
        table = self._lake.catalog.look_at(upstream)
        ((name, version),) = ROW_LINEAGE.items()
        if table is not None and table.version < int(version):
            raise CompilationError(
                f"{upstream} has Iceberg's format version {table.version}, and new_rows() needs"
                f" {version}: runs can't go on from it once its snapshots have expired. Set"
                f" tblproperties={{'{name}': '{version}'}} in its model, and build it and what"
                f" reads it with --full-refresh -s {upstream.identifier}+"
            )

    def run_of(self, this: BaseRelation) -> NodeRun:
        """The run that the model's compilation has begun."""
        run = self._runs.get(str(this))
        if run is None:
            raise CompilationError(
                f"the model of {this} never asks for new rows: select from"
                " {{ new_rows(ref('...')) }}, or use another materialization"
            )
        return run

    def file_properties(self, this: BaseRelation) -> Mapping[str, str]:
        """The properties of a model's files, where its config has no others."""
        run = self._runs.get(str(this))
        if run is None:
            return {}
        return FILES if run.fold is None else FILES_BY_KEY

    def run_properties(self, this: BaseRelation) -> dict[str, str]:
        """The properties with which a model's table is created."""
        run = self._runs.get(str(this))
        if run is None:
            return {}
        # Runs go on from it by its row lineage; gold may be for readers of an earlier version.
        lineage = ROW_LINEAGE if run.fold is None else {}
        return {marks.MADE: uuid4().hex, **lineage, **run.properties()}

    def run_to_test(self, relation: BaseRelation) -> NodeRun | None:
        """The run in which this command has brought a table up to date, whose tests then check
        what it has touched; None if they check everything: the command has not, or has rebuilt
        the table.
        """
        run = self._runs.get(str(relation))
        if run is None or not run.is_incremental or run.is_redeclared:
            return None
        return run

    def begin_landing(self) -> None:
        """Make the tests of bronze check what lands from here on."""
        self._runs[BRONZE] = NodeRun(self._lake.catalog.look_at, BRONZE, [])

    def added_rows(self, relation: BaseRelation) -> str | None:
        """The rows that this command has added to an append-only table, to select from; None for
        all (``run_to_test``).
        """
        run = self.run_to_test(relation)
        # Not for the query that dbt makes of a model for a test with a condition.
        now = None if run is None else self._lake.catalog.look_at(relation)
        if run is None or run.table is None or now is None:
            return None
        before = run.table.snapshot
        since = takewhile(lambda each: each.name != before, now.chain)
        if any(each.changes_rows and each.summary.get("operation") != "append" for each in since):
            return None
        return marks.reading(marks.mark_of(run.table), now).sql(str(relation))

    def as_read(self, upstream: BaseRelation, reader: BaseRelation) -> str:
        """The rows that this command has read of a table for another one (``run_to_test``),
        otherwise all that the other one has ever read, to select from; the whole table if the
        other one has no mark on it.
        """
        run: NodeRun | None = self.run_to_test(reader)
        if run is not None and str(upstream) in run.readings:
            return run.rows(upstream)
        table = self._lake.catalog.look_at(reader)
        mark = None if table is None else graph.mark_on(table, str(upstream))
        if mark is None:
            return str(upstream)
        now = self._lake.catalog.look_at(upstream)
        if now is not None and now.snapshot == NO_SNAPSHOT:
            return f"(select * from {upstream} where false)"
        # Pinned: beside the rows of a range of snapshots, Spark takes a table's name for those
        # rows.
        pinned = upstream if now is None else f"{upstream} version as of {now.snapshot}"
        return f"(select * from {pinned} where _last_updated_sequence_number <= {mark.sequence})"

    def sequence_read_by_all(self, upstream: BaseRelation) -> int:
        """The sequence number up to which all gold tables of namespaces have read a table."""
        read = []
        for model in graph.gold_of_namespaces(self._lake.nodes):
            relation = self._lake.Relation.create(schema=model.schema, identifier=model.alias)
            table = self._lake.catalog.look_at(relation)
            # A table that does not exist yet reads the deletes themselves.
            if table is not None:
                mark = graph.mark_on(table, str(upstream))
                read.append(0 if mark is None else mark.sequence)
        now = self._lake.catalog.look_at(upstream)
        return min(read, default=0 if now is None else now.sequence)

    def moment(self, given: Any) -> str:
        """The moment of this command as text, see ``moments``; ``given`` is ``vars.as_of``."""
        if given is not None:
            return given_moment(given).text
        return self._connections.moment(self._built_as_of)

    def _built_as_of(self) -> dict[str, str | None]:
        """The moments for which tables with expiring rows were built, by their models, without
        those that this command rebuilds.
        """
        rebuilt = selected_resources.SELECTED_RESOURCES if self._lake.is_full_refresh else ()
        found: dict[str, str | None] = {}
        for model in graph.of_namespaces(self._lake.nodes):
            if model.unique_id not in rebuilt:
                table = self._lake.catalog.look_at(
                    self._lake.Relation.create(schema=model.schema, identifier=model.alias)
                )
                found[model.name] = None if table is None else table.noted(AS_OF)
        return found
