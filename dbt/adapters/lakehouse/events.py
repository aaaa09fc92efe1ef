"""What is asked of the adapter for events: which of them change logs take, by which format and
function payloads are decoded, and what of them is to be read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import CompilationError
from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.models import RAW_PAYLOADS
from dbt.adapters.lakehouse.writing import WritingAdapter
from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
from dbt_lakehouse.declared import declarations
from dbt_lakehouse.lake.policies import compacted_topics
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.maintenance import rewrites
from dbt_lakehouse.runs import formats, graph, moving, tables
from dbt_lakehouse.runs.log_input import LogInput, Part
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.runs.source_filter import News
from dbt_lakehouse.runs.taken import TakenEvents, taken, text_of

COMMANDS_THAT_ONLY_COMPILE: Final = frozenset({"compile", "generate", "list", "parse"})


class EventAdapter(WritingAdapter):
    """Methods for what decodes events (``build.decoding``) and for other_events."""

    # -- other events

    def taken_events(self) -> TakenEvents:
        """Which events the project's change logs take, see ``dbt_lakehouse.runs.taken``."""
        return taken(graph.change_logs(self._nodes))

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
            for reader in rewrites.readers_in(self.spark).get(name, [])
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

    @available.parse(lambda *_: "false")
    @told
    def events_to_give(self, events: BaseRelation) -> str:
        """A condition on rows of other_events (SQL) that holds for those that it gives to change
        logs when it runs next: these have been declared since it did.
        """
        table = self.look_at(events)
        changed = self.taken_events().changed(None if table is None else text_of(table))
        return "false" if changed is None else changed.come

    @available.parse_list
    @told
    def topics_with_changes(self, events: BaseRelation) -> list[str]:
        """The topics of which any event that changes a row was decoded."""
        table = self.look_at(events)
        return [] if table is None else sorted({str(pair[0]) for pair in News(table).pairs})

    def looked_input(self, run: NodeRun, topics: Sequence[str] | None) -> LogInput:
        own = self.look_at(run.own)
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
        for node in graph.change_log_nodes(self._nodes):
            relation, log = self._relation(node), node.config.meta["change_log"]
            run = self._log_as_it_is(relation, log)
            is_there = run.table is not None
            found.append({"relation": relation, "log": log, "is_there": is_there, "run": run})
        return found

    def _log_as_it_is(self, relation: BaseRelation, log: Mapping[str, Any]) -> NodeRun:
        upstreams = [self.relation_of("other_events"), RAW_PAYLOADS]
        return NodeRun(self.look_at, relation, upstreams, wanted=log["sources"], follows=True)

    def is_worth_a_question(self, relation: Any) -> bool:
        table = self.look_at(relation)
        return table is not None and table.bytes > tables.BYTES_OF_A_SMALL_TABLE

    def has_evaluated(self, name: str) -> bool:
        return self.handle.session.views.has(name)

    def know_schemas(self, texts: str) -> None:
        from dbt_lakehouse.lake.avro_schemas import ids_in, schemas_of
        from dbt_lakehouse.spark.functions import register_decoder

        query = ids_in(f"({texts})")
        self.connections.log_statement(query)
        numbers = [row.id for row in self.spark.sql(query).collect()]
        session = self.handle.session
        # One statement may read what several calls have asked for.
        session.schemas = {**session.schemas, **schemas_of(self.spark, numbers)}
        register_decoder(self.spark, session.schemas)

    # -- compacted topics

    @available.parse_none
    @told
    def compaction_of(self, topics: Sequence[str]) -> dict[str, bool | None]:
        """Whether topics count as compacted; None of one of which nobody says so or the contrary.

        A word of vars.topics comes before a broker's.
        """
        matcher, by_broker = self.topic_matcher(), compacted_topics(self.spark)
        said = {topic: matcher.compacted_in_bronze(topic) for topic in topics}
        return {
            topic: True if each is None and topic in by_broker else each
            for topic, each in said.items()
        }

    def compacted_topics(self) -> frozenset[str]:
        return compacted_topics(self.spark)

    # -- parts of these

    def corrected_log_times(self) -> str | None:
        name = str(self.relation_of("log_times"))
        table = self.look_at(name)
        return None if table is None or not table.may_have_rows else name

    def _format_of(self, topics: Sequence[str], events: Table | None) -> str:
        """The format of a payload of these topics, as SQL: that by which other_events has looked at
        it.
        """
        return formats.format_sql(formats.formats_then(events, topics, self.topic_matcher))

    @property
    def topics(self) -> Any:
        return self.connections.project().variables.get("topics")

    def topic_matcher(self) -> TopicMatcher:
        return TopicMatcher(self.spark._jvm, topic_rules(self.topics))

    @property
    def only_compiles(self) -> bool:
        """Whether the command compiles SQL, and runs none of it."""
        return self.connections.command in COMMANDS_THAT_ONLY_COMPILE

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
        if self.only_compiles:
            return
        session = self.handle.session
        if name not in session.functions:
            register(session.spark)
            session.functions.add(name)
