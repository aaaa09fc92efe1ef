"""The reading of events: which topics, formats and payloads, and which events change logs take."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import CompilationError

from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.build import truncate_order
from dbt_lakehouse.build.lake import LogOfProject, LookedAt
from dbt_lakehouse.build.truncate_order import Placed
from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
from dbt_lakehouse.declared.columns import header_names
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.policies import compacted_topics
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.maintenance import marks_kept
from dbt_lakehouse.runs import (
    formats,
    graph,
    moving,
    tables,
)
from dbt_lakehouse.runs.full_snapshots import Sources, reconciled
from dbt_lakehouse.runs.log_input import LogInput, Part, all_input, log_input
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.runs.source_filter import News
from dbt_lakehouse.runs.taken import text_of
from dbt_lakehouse.spark.jvm import packages


class Events(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def looked_input(self, run: NodeRun, topics: Sequence[str] | None) -> LogInput:
        own = self._lake.catalog.look_at(run.own)
        looked = run.own if own is None else f"{run.own} version as of {own.snapshot}"
        rows = run.rows_before if topics is None else run.rows_so_far
        return LogInput(
            payloads=rows(run.origin),
            topics=None if topics is None else [*topics],
            format=None if topics is None else self._format_of(topics, own),
            added=f"(select * from {looked})",
            log_times=self.corrected_log_times(),
            excluded=f"(select * from {looked})",
            may_name=None,
            none=run.own,
        )

    def log_input(self, run: NodeRun, log: Mapping[str, Any], part: Part) -> LogInput:
        """What a run of a change log reads, see ``dbt_lakehouse.runs.log_input``."""
        is_first = any(run.table_of(upstream) is None for upstream in run.upstreams)
        if is_first and self._lake.only_compiles:
            return all_input(*run.upstreams)
        times = self.corrected_log_times()
        may_be_redriven = bool(header_names(log)) and self._may_be_redriven(run, part)
        return log_input(run, log, part, times, self._format_of, may_be_redriven)

    def _may_be_redriven(self, run: NodeRun, part: Part) -> bool:
        """Whether a part of other_events may have events of redriven payloads; False is certain."""
        if self._lake.only_compiles:
            return True
        events, conditions = run.upstreams[0], [("added_by", "=", "redrive")]
        if part is Part.NEW:
            return self._lake.catalog.may_have_new_rows(run, events, conditions)
        return tables.may_have_rows(self._spark, str(events), conditions)

    def log_to_look_at(self, model: BaseRelation, log: Mapping[str, Any]) -> LookedAt:
        """The events that this command has read for the log, or all that the log has ever read."""
        run = self._lake.runs.run_to_test(model)
        if run is not None:
            return LookedAt(run, Part.NEW)
        return LookedAt(self._log_as_it_is(model, log), Part.BEFORE)

    def logs_to_look_at(self) -> list[LogOfProject]:
        found = []
        for node in graph.change_log_nodes(self._lake.nodes):
            relation, log = self._lake.catalog.relation(node), node.config.meta["change_log"]
            found.append(LogOfProject(relation, log, self._log_as_it_is(relation, log)))
        return found

    def _log_as_it_is(self, relation: BaseRelation, log: Mapping[str, Any]) -> NodeRun:
        upstreams = [self._lake.catalog.relation_of("other_events"), BRONZE]
        return NodeRun(
            self._lake.catalog.look_at, relation, upstreams, wanted=log["sources"], follows=True
        )

    def events_to_give(self, events: BaseRelation) -> str:
        """An SQL condition for the rows of other_events that its next run hands over to change
        logs, which were declared since its last run.
        """
        table = self._lake.catalog.look_at(events)
        changed = self._lake.declared.taken_events().changed(
            None if table is None else text_of(table)
        )
        return "false" if changed is None else changed.come

    def topics_with_changes(self, events: BaseRelation) -> list[str]:
        """The topics with a decoded event that changes a row."""
        table = self._lake.catalog.look_at(events)
        return [] if table is None else sorted({str(pair[0]) for pair in News(table).pairs})

    def drop_change_events(self, events: BaseRelation) -> str:
        """Drop the change_events table that other_events has taken over. Returns a sentence about
        the space freed.

        Raises ``CompilationError`` while a table still depends on it.
        """
        name = moving.before_of(str(events))
        table = tables.look_at(self._spark, name)
        if table is None:
            return f"there is no {name}: nothing to free"
        behind = [
            reader
            for reader in marks_kept.readers_in(self._spark).get(name, [])
            if reader != str(events)
        ]
        if behind or tables.look_at(self._spark, str(events)) is None:
            raise CompilationError(
                f"{name} is still what {', '.join(behind) or 'nothing else'} was made of: `dbt run`"
                " first, and drop the tables that no model makes any more"
            )
        self._spark.sql(f"drop table {name} purge")
        self._handle.looks.clear()
        return f"{name} is dropped, which frees {table.bytes / 1_000_000:,.1f} MB"

    def compaction_of(self, topics: Sequence[str]) -> dict[str, bool | None]:
        """Whether topics count as compacted; None for a topic of which that is unknown.

        vars.topics goes before a broker's report.
        """
        matcher, by_broker = self.topic_matcher(), compacted_topics(self._spark)
        said = {topic: matcher.compacted_in_bronze(topic) for topic in topics}
        return {
            topic: True if each is None and topic in by_broker else each
            for topic, each in said.items()
        }

    def reconciled_sources(self) -> Sources:
        """The source tables whose full snapshots some change log reconciles."""
        return reconciled(graph.change_logs(self._lake.nodes))

    def compacted_topics(self) -> frozenset[str]:
        return compacted_topics(self._spark)

    def corrected_log_times(self) -> str | None:
        name = str(self._lake.catalog.relation_of("log_times"))
        table = self._lake.catalog.look_at(name)
        return None if table is None or not table.may_have_rows else name

    def _format_of(self, topics: Sequence[str], events: Table | None) -> str:
        """The format of a payload of these topics, as SQL: the one by which other_events has
        looked at it.
        """
        return formats.format_sql(formats.formats_then(events, topics, self.topic_matcher))

    @property
    def topics(self) -> Any:
        return self._connections.project().variables.get("topics")

    def topic_matcher(self) -> TopicMatcher:
        return TopicMatcher(packages(self._spark), topic_rules(self.topics))

    def place_truncates(
        self,
        this: BaseRelation,
        events: Callable[[str, str | None], str],
        newest: int | None,
        view: str,
        goes_on: bool,
    ) -> Placed:
        """Find the log times of a change log's new events around truncates, see
        ``truncate_order.place``.
        """
        session = self._handle.session
        return truncate_order.place(session, events, str(this), newest, view, goes_on=goes_on)
