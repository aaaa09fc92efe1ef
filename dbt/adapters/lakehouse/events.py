"""What other_events asks of the adapter: which events change logs take, what it has found out
about its payloads, and which tombstones are all that is left of a delete.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any, Final

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import CompilationError
from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.models import RAW_PAYLOADS
from dbt.adapters.lakehouse.writing import WritingAdapter
from dbt_lakehouse.config.topics import TopicMatcher, condition, topic_rules
from dbt_lakehouse.dbt import (
    commits,
    compaction,
    declarations,
    formats,
    marks,
    moving,
    project,
    readers,
    tables,
)
from dbt_lakehouse.dbt.compaction import Judged, Judging, TopicNews
from dbt_lakehouse.dbt.log_input import LogInput, Part
from dbt_lakehouse.dbt.news import News
from dbt_lakehouse.dbt.node_run import LOG_TIMES, NodeRun, kept
from dbt_lakehouse.dbt.taken import Changed, TakenEvents, taken, text_of
from dbt_lakehouse.lake.policies import compacted_topics
from dbt_lakehouse.lake.tables import LOOKED, Table

COMMANDS_THAT_ONLY_COMPILE: Final = frozenset({"compile", "generate", "list", "parse"})


class EventAdapter(WritingAdapter):
    """Methods for the macros of events."""

    # -- other events

    @available.parse(lambda *_: TakenEvents.nothing())
    def taken_events(self) -> TakenEvents:
        """Which events the project's change logs take, see ``dbt_lakehouse.dbt.taken``."""
        return taken(project.change_logs(self._nodes))

    @available.parse(lambda *_: "look")
    @told
    def look_function(self, schemas: bool) -> str:
        """The name of a function that looks at payloads (``payload_functions``), which the session
        knows; ``schemas`` as in ``log_function``.
        """
        from dbt_lakehouse.spark.payload_functions import register_other_events

        tables = self.taken_events().tables
        function = declarations.function_name("look", "", [sorted(map(str, of)) for of in tables])
        self._know_with(
            schemas,
            function,
            lambda spark, known: register_other_events(spark, function, tables, known),
        )
        return function

    @available.parse(lambda *_: "null")
    @told
    def format_of(self, this: BaseRelation, partitions: Sequence[Mapping[str, Any]]) -> str:
        """The format of new payloads, as SQL: by vars.topics, of the topics in which there are any
        (as of the macro partitions_of). It is kept with the table.
        """
        in_order = sorted(partitions, key=itemgetter("landed_at"), reverse=True)
        first = {each["topic"]: each["landed_at"] for each in in_order}
        found = formats.formats_then(None, first, self._matcher)
        newest = {topic: each.since[-1][1] for topic, each in found.items()}
        self.run_of(this).formats = {topic: (first[topic], newest[topic]) for topic in found}
        return formats.format_sql(found)

    @available
    def is_meant(self, entry: Mapping[str, Any]) -> str:
        """What the ``when`` of an entry of vars.topics asks of a payload, as SQL."""
        when = condition(entry)
        return "true" if when is None else formats.condition_sql(when)

    @available.parse(lambda *_: {})
    def looking(self) -> dict[str, str]:
        """What a commit of other_events notes that has looked at new payloads."""
        return {LOOKED: "true"}

    @available.parse(lambda *_: True)
    @told
    def has_payloads(self, this: BaseRelation) -> bool:
        """Whether there are new payloads where something is new of bronze: compaction adds none."""
        return LOG_TIMES in self.run_of(this).keeps

    @available.parse_none
    @told
    def events_before(self, this: BaseRelation) -> str | None:
        """The change_events of a lake of before there was other_events, to select from; None if
        there is none to take over.
        """
        name = moving.before_of(str(this))
        if self.look_at(this) is not None or getattr(self.config.args, "full_refresh", False):
            return None
        table = self.look_at(name)
        if table is None or RAW_PAYLOADS not in marks.marks_of(table):
            return None
        return f"{name} version as of {table.snapshot}"

    @available.parse_none
    def name_before(self, this: BaseRelation) -> str:
        """The name of change_events."""
        return moving.before_of(str(this))

    @available.parse_none
    @told
    def move_log_times(self, this: BaseRelation, before: str) -> None:
        """Keep the log times that change_events has given."""
        name, bronze = str(self.own_table("log_times")), str(self.run_of(this).origin)
        table = self.look_at(moving.before_of(str(this)))
        assert table is not None
        self.execute(f"delete from {name}")
        with commits.noting(self.spark, marks.noted({bronze: marks.marks_of(table)[bronze]})):
            self.execute(
                f"insert into {name} select distinct topic, partition, offset, log_time"
                f" from {before} where not log_time <=> timestamp"
            )
        self.handle.looks.clear()

    @available.parse_none
    @told
    def moving(self, this: BaseRelation) -> dict[str, str]:
        """What the commit of other_events notes that takes over change_events: how far that has
        read bronze. What it keeps is kept on.
        """
        table, run = self.look_at(moving.before_of(str(this))), self.run_of(this)
        assert table is not None
        run.keeps[LOG_TIMES] = kept(table, LOG_TIMES)
        bronze = str(run.origin)
        run.readings[bronze] = run.readings[bronze]._replace(until=marks.marks_of(table)[bronze])
        return {LOOKED: "true", moving.MOVED: "true"}

    @available.parse_none
    @told
    def drop_change_events(self, events: BaseRelation) -> str:
        """Drop the change_events that other_events has taken over; a sentence of what is freed.

        Raises ``CompilationError`` while a table has not moved on from it.
        """
        name = moving.before_of(str(events))
        table = tables.look_at(self.spark, name)
        if table is None:
            return f"there is no {name}: nothing to free"
        behind = [
            reader
            for reader in readers.readers_in(self.spark).get(name, [])
            if reader != str(events)
        ]
        if behind or tables.look_at(self.spark, str(events)) is None:
            raise CompilationError(
                f"{name} is still what {', '.join(behind) or 'nothing else'} was made of: `dbt run`"
                " first, and drop the tables that no model makes any more"
            )
        self.spark.sql(f"drop table {name} purge")
        self.handle.looks.clear()
        return f"{name} is dropped, which frees {table.bytes / 1_000_000:,.1f} MB"

    @available.parse_none
    @told
    def bronze_input(self, run: NodeRun, topics: Sequence[str] | None) -> dict[str, Any]:
        """What ``events_of`` is to read: all that other_events has looked at in some topics, or all
        that it had looked at before this run (None), and all that was added to it.
        """
        own = self.look_at(run.own)
        looked = run.own if own is None else f"{run.own} version as of {own.snapshot}"
        rows = run.rows_before if topics is None else run.rows_so_far
        return asdict(
            LogInput(
                payloads=rows(run.origin),
                topics=None if topics is None else [*topics],
                format=None if topics is None else self._format_of(topics, own),
                added=f"(select * from {looked})",
                log_times=self._corrected_log_times(),
                excluded=f"(select * from {looked})",
                may_name=None,
                none=run.own,
            )
        )

    @available.parse_none
    @told
    def changed_logs(self, this: BaseRelation) -> Changed | None:
        """What the project's change logs take otherwise than when the rows of other_events were
        brought up to them; None for nothing. What it commits from now on notes them.
        """
        table, run = self.look_at(this), self.run_of(this)
        before = None if table is None else text_of(table)
        now: TakenEvents = self.taken_events()
        run.notes_beside, run.properties_beside = now.notes, now.properties
        if table is not None and run.is_incremental and before != now.text:
            tables.set_properties(self.spark, str(this), now.properties)
            self.handle.looks.clear()
        return now.changed(before)

    @available.parse(lambda *_: "false")
    @told
    def events_to_give(self, events: BaseRelation) -> str:
        """A condition on rows of other_events (SQL) that holds for those that it gives to change
        logs when it runs next: these have been declared since it did.
        """
        table = self.look_at(events)
        changed = self.taken_events().changed(None if table is None else text_of(table))
        return "false" if changed is None else changed.come

    @available.parse_none
    @told
    def keep_log_times(self, this: BaseRelation, found: str) -> None:
        """Keep the log times that the running other_events has found for new payloads, a view of
        that name if there are any; in place of what a run has kept that was cut off behind it.
        """
        run, name = self.run_of(this), str(self.own_table("log_times"))
        table, reading = self.look_at(name), run.reading(run.origin)
        since = reading.since
        assert table is not None
        held = marks.marks_of(table).get(str(run.origin))
        if since is None and _may_have_rows(table):
            self.execute(f"delete from {name}")
        elif since is not None and held is not None and held.sequence > since.sequence:
            rows = f"select topic, partition, offset from {run.rows(run.origin)}"
            self.execute(f"delete from {name} where (topic, partition, offset) in ({rows})")
        if self.handle.session.views.has(found):
            with commits.noting(self.spark, marks.noted({str(run.origin): reading.until})):
                self.execute(f"insert into {name} select * from {found}")
        self.handle.looks.clear()

    @available.parse_list
    @told
    def topics_with_changes(self, events: BaseRelation) -> list[str]:
        """The topics of which any event that changes a row was decoded."""
        table = self.look_at(events)
        return [] if table is None else sorted({str(pair[0]) for pair in News(table).pairs})

    @available.parse_none
    @told
    def input_of_topics(self, events: BaseRelation, topics: Sequence[str]) -> dict[str, Any]:
        """What ``events_of`` is to read: all that other_events has looked at in some topics."""
        run = NodeRun(self.look_at, events, [RAW_PAYLOADS])
        found: dict[str, Any] = self.bronze_input(run, topics)
        return found

    @available.parse_none
    @told
    def log_to_look_at(self, model: BaseRelation, log: Mapping[str, Any]) -> dict[str, Any]:
        """Which events of a change log its tests look at: of which run, and which part."""
        run = self.run_to_test(model)
        if run is not None:
            return {"run": run, "part": Part.NEW.value}
        return {"run": self._log_as_it_is(model, log), "part": Part.BEFORE.value}

    @available.parse_none
    @told
    def logs_to_look_at(self) -> list[dict[str, Any]]:
        """All change logs: their relations, declarations, whether they are there, and a run of each
        that tells what they have not read yet.
        """
        found = []
        for node in project.change_log_nodes(self._nodes):
            relation, log = self._relation(node), node.config.meta["change_log"]
            run = self._log_as_it_is(relation, log)
            is_there = run.table is not None
            found.append({"relation": relation, "log": log, "is_there": is_there, "run": run})
        return found

    def _log_as_it_is(self, relation: BaseRelation, log: Mapping[str, Any]) -> NodeRun:
        upstreams = [self.relation_of("other_events"), RAW_PAYLOADS]
        return NodeRun(self.look_at, relation, upstreams, wanted=log["sources"], follows=True)

    # -- tombstones of compacted topics

    @available.parse_none
    @told
    def unjudged(self, this: BaseRelation) -> str | None:
        """The topics and log times of events whose topics' tombstones are to be judged, to select
        from; None where no topic counts as compacted, or none has anything new.
        """
        rules = topic_rules(self.connections.project().variables.get("topics"))
        said = any(rule.compacted for rule in rules)
        if not said and not compacted_topics(self.spark):
            return None
        run = self.run_of(this)
        table, bronze = tables.look_at(self.spark, str(this)), run.table_of(run.origin)
        if table is None or bronze is None:
            return None
        before = compaction.judged(table)
        payloads = compaction.unjudged(before.bronze, bronze)
        own = compaction.unjudged(before.own, table)
        if not payloads.has_news and not own.has_news and not self._judging(table, []).windows:
            return None
        self.connections.log_statement(f"judged so far: {before}")
        times = self._corrected_log_times()
        log_time = "timestamp as log_time"
        rows = f"{payloads.sql(str(run.origin))} as payloads"
        if times is not None:
            log_time = "coalesce(log_times.log_time, payloads.timestamp) as log_time"
            rows += f" left join {times} as log_times using (topic, partition, offset)"
        return (
            f"(select topic, {log_time} from {rows} union all"
            f" select topic, log_time from {own.sql(str(this))} where added_by = 'redrive')"
        )

    @available.parse_none
    @told
    def judging(self, this: BaseRelation, news: Sequence[Sequence[Any]]) -> Judging:
        """What is to be judged; ``news`` has a topic's name and the least log time of its new
        events, in microseconds, or None.
        """
        table = tables.look_at(self.spark, str(this))
        return self._judging(table, [TopicNews(*each) for each in news])

    @available.parse_none
    @told
    def compaction_of(self, topics: Sequence[str]) -> dict[str, bool | None]:
        """Whether topics count as compacted; None of one of which nobody says so or the contrary.

        A word of vars.topics comes before a broker's.
        """
        matcher, by_broker = self._matcher(), compacted_topics(self.spark)
        said = {topic: matcher.compacted_in_bronze(topic) for topic in topics}
        return {
            topic: True if each is None and topic in by_broker else each
            for topic, each in said.items()
        }

    def _judging(self, table: Table | None, news: Sequence[TopicNews]) -> Judging:
        before = Judged() if table is None else compaction.judged(table)
        topics = sorted(before.topics.keys() | {each.topic for each in news})
        found = self.compaction_of(topics)
        return compaction.judging(before, news, lambda topic: bool(found[topic]))

    @available.parse_none
    @told
    def keep_judged(self, this: BaseRelation, judging: Judging) -> None:
        """Keep that all is judged now that other_events has looked at."""
        table, run = tables.look_at(self.spark, str(this)), self.run_of(this)
        if table is not None:
            kept = {compaction.PROPERTY: judging.kept(run.reading(run.origin).until, table)}
            tables.set_properties(self.spark, str(this), kept)
            self.handle.looks.clear()

    # -- parts of these

    def _corrected_log_times(self) -> str | None:
        name = str(self.relation_of("log_times"))
        table = self.look_at(name)
        return None if table is None or not _may_have_rows(table) else name

    def _format_of(self, topics: Sequence[str], events: Table | None) -> str:
        """The format of a payload of these topics, as SQL: that by which other_events has looked at
        it.
        """
        return formats.format_sql(formats.formats_then(events, topics, self._matcher))

    def _matcher(self) -> TopicMatcher:
        rules = topic_rules(self.connections.project().variables.get("topics"))
        return TopicMatcher(self.spark._jvm, rules)

    def _know_with(self, schemas: bool, name: str, register: Callable[..., None]) -> None:
        """``_know`` of a function that has the schemas that the session has found, if it needs
        them: then it is another one each time.
        """
        if schemas:
            self.handle.session.functions.discard(name)
        known = self.handle.session.schemas if schemas else {}
        self._know(name, lambda spark: register(spark, known))

    def _know(self, name: str, register: Callable[[SparkSession], None]) -> None:
        # What is compiled only needs no session.
        if self.connections.command in COMMANDS_THAT_ONLY_COMPILE:
            return
        session = self.handle.session
        if name not in session.functions:
            register(session.spark)
            session.functions.add(name)


def _may_have_rows(table: Table) -> bool:
    """By what its newest commit has counted."""
    return bool(table.chain) and table.chain[0].summary.get("total-records") != "0"
