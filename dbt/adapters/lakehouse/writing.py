"""What our materializations write: commits that hold rows together with what they were made of, and
tables that follow what their models say.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterRequiredConfig
from dbt.adapters.contracts.relation import RelationType
from dbt_common.exceptions import CompilationError, DbtRuntimeError
from pyspark.sql import Observation
from pyspark.sql.functions import expr

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.models import ModelAdapter
from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
from dbt_lakehouse.dbt import (
    commits,
    compaction,
    contracts,
    key_updates,
    log_times,
    marks,
    message_keys,
    news,
    project,
    readers,
    tables,
    widening,
)
from dbt_lakehouse.dbt.compaction import Judged, Judging, News
from dbt_lakehouse.dbt.declarations import Fold
from dbt_lakehouse.dbt.log_times import Known, LogTimes
from dbt_lakehouse.dbt.marks import HistoryLost
from dbt_lakehouse.dbt.message_keys import Verdict
from dbt_lakehouse.dbt.news import Wanted
from dbt_lakehouse.dbt.node_run import KEY_UPDATES, LEAVES, LOG_TIMES, NodeRun, keeping, kept
from dbt_lakehouse.lake.policies import compacted_topics
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.texts import sql_text

# In the summary of a snapshot: which column has which type since, and had which.
WIDENED: Final = "lakehouse.widened"


class WritingAdapter(ModelAdapter):
    """Methods for the macros that write tables."""

    def __init__(self, config: AdapterRequiredConfig, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self._observations: Final[dict[str, Observation]] = {}

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
        self._keep(this, run, run.table if run.is_incremental else None)
        return "OK"

    @available.parse_none
    @told
    def append_more(self, this: BaseRelation, query: str, aggregates: Mapping[str, str]) -> None:
        """Append rows to a model's table that were found in those that its run has appended."""
        run = self.run_of(this)
        before = tables.look_at(self.spark, str(this))
        rows = self.handle.session.sql(self.observed(this, query, aggregates))
        try:
            commits.append(rows, str(this), run.notes(), before.snapshot if before else None)
        finally:
            self.handle.looks.clear()
        self._keep(this, run, before)

    @available.parse_none
    @told
    def write_table(
        self, this: BaseRelation, statement: str, notes: Mapping[str, Any] | None = None
    ) -> str:
        """Run a statement that writes a model's table, with its run's notes and more. Raises
        ``OvertakenError`` if somebody else has, since its run began.
        """
        run = self.run_of(this)
        commits.refuse_overtaken(self.spark, str(this), run.seen)
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
        commits.refuse_overtaken(self.spark, str(this), run.seen)
        with commits.noting(self.spark, run.notes(notes)):
            response, _ = self.execute(statement)
        self._keep(this, run, run.table if run.is_incremental else None)
        return str(response)

    def _keep(self, this: BaseRelation, run: NodeRun, before: Table | None) -> None:
        """Keep with a model's table what its run has found out for the next one. ``before``: the
        table before its rows, None if it is made anew.
        """
        observation = self._observations.pop(str(this), None)
        observed = {} if observation is None else observation.get["taken"].asDict()
        if "leaving" in observed:
            is_filled = None in run.to_fill.values()
            leaves = before is not None and (is_filled or project.may_leave(before))
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
    def refuse_overtaken(self, this: BaseRelation) -> None:
        """Stop a model whose table somebody else has written since its run began, before it writes
        to tables that it shares with other models.
        """
        commits.refuse_overtaken(self.spark, str(this), self.run_of(this).seen)

    @available.parse_none
    @told
    def change(self, this: BaseRelation, statement: str) -> None:
        """Run a statement that changes rows that a model's table has, before it gets its new
        ones.
        """
        commits.refuse_overtaken(self.spark, str(this), self.run_of(this).seen)
        self.execute(statement)
        table = self.look_at(this)
        if table is not None:
            self.run_of(this).seen = table.snapshot

    # -- key updates

    @available.parse_none
    @told
    def key_update_news(self, this: BaseRelation) -> str | None:
        """The rows of a change log that are new to its key updates, to select from; None if there
        are no such rows, or no key updates.
        """
        table = self.look_at(this)
        if table is None or not self._may_have_key_updates(this):
            return None
        run, text = self.run_of(this), table.properties.get(KEY_UPDATES)
        try:
            reading = marks.reading(marks.parsed(text) if text else None, table)
        except HistoryLost:
            reading = marks.reading(None, table)
        run.key_updates = reading.until
        # What the run has appended is no other command's.
        run.seen = table.snapshot
        return reading.sql(str(this)) if reading.has_news else None

    @available.parse_none
    @told
    def key_updates_done(self, this: BaseRelation) -> None:
        """Note that the rows of key updates have their values."""
        tables.set_properties(
            self.spark, str(this), {KEY_UPDATES: str(self.run_of(this).key_updates)}
        )
        self.handle.looks.clear()

    @available.parse_none
    @told
    def begin_key_updates_anew(self, this: BaseRelation) -> None:
        """Have all rows of key updates looked at again, before they are filled anew."""
        if self._may_have_key_updates(this):
            tables.set_properties(self.spark, str(this), {KEY_UPDATES: ""})
            self.handle.looks.clear()

    @available.parse_none
    @told
    def has_key_updates(self, run: NodeRun, log: BaseRelation) -> bool:
        """Whether a change log may have rows of key updates that a model has not read as they are
        now.
        """
        return run.is_incremental and self._may_have_key_updates(log, run.sequence_read(log))

    @available.parse_none
    @told
    def find_resting(self, name: str, first: str, more: str, most: int) -> int:
        """Make a temporary view of rows of key updates: those of one query and then, as long as
        there are more, those of another one, which reads the view. How many there are.

        ``most``: so many there can be.
        """
        rows = self._hold_query(name, first)
        while 0 < rows < most:
            found = self._hold_query(name, more)
            if found == rows:
                break
            rows = found
        return rows

    def _hold_query(self, name: str, query: str) -> int:
        self.connections.log_statement(f"hold {name} as {query}")
        # By this process: an evaluated view can't be made of itself.
        return self._hold_rows(name, self.handle.session.sql(query).toArrow())

    @available.parse_none
    @told
    def follow_key_updates(self, name: str, query: str) -> None:
        """Make a temporary view of where rows of key updates have values from (``key_updates``), of
        a query that says on which others they rest: place, source, and the columns.
        """
        self.connections.log_statement(query)
        rows = self.handle.session.sql(query).toArrow().to_pylist()
        found = key_updates.sources(
            {row["_place"]: (row["rests_on"], row["columns"]) for row in rows}
        )
        columns = [[each[place] for each in found] for place in range(3)]
        types = (pa.string(), pa.string(), pa.list_(pa.string()))
        self._hold_rows(
            name,
            pa.table(
                {
                    field: pa.array(values, kind)
                    for field, values, kind in zip(
                        ("place", "source", "columns"), columns, types, strict=True
                    )
                }
            ),
        )

    def _hold_rows(self, name: str, rows: pa.Table) -> int:
        self.handle.session.spark.createDataFrame(rows).createOrReplaceTempView(name)
        return len(rows)

    def _may_have_key_updates(self, log: BaseRelation, since: int = 0) -> bool:
        name = str(log)
        # One that no run has brought up to its declaration lacks the column.
        if all(field.name != "_key_update" for field in tables.columns_of(self.spark, name)):
            return False
        is_one = ("_key_update.id", "is not null", None)
        return tables.may_have_rows(self.spark, name, [is_one], since=since)

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
        # One struct: each column of PySpark's is a dozen calls of Java.
        fields = ", ".join(f"{sql_text(key)}, {sql}" for key, sql in aggregates.items())
        taken = expr(f"named_struct({fields})").alias("taken")
        rows = self.handle.session.sql(query).observe(observation, taken)
        rows.createOrReplaceTempView(name)
        self._observations[str(this)] = observation
        return f"select * from {name}"

    # -- tombstones of compacted topics

    @available.parse_none
    @told
    def unjudged(self, this: BaseRelation) -> str | None:
        """The events of change_events whose topics' tombstones are to be judged, to select from;
        None where no topic counts as compacted, or none has anything new.
        """
        rules = topic_rules(self.connections.project().variables.get("topics"))
        said = any(rule.compacted for rule in rules)
        if not said and not compacted_topics(self.spark):
            return None
        table = tables.look_at(self.spark, str(this))
        if table is None:
            return None
        before, new = compaction.judged(table), compaction.unjudged(table)
        if not new.has_news and not self._judging(table, []).windows:
            return None
        self.connections.log_statement(f"judged so far: {before}")
        return new.sql(str(this))

    @available.parse_none
    @told
    def judging(self, this: BaseRelation, news: Sequence[Sequence[Any]]) -> Judging:
        """What is to be judged; ``news`` has a topic's name and the least log time of its new
        events, in microseconds, or None.
        """
        table = tables.look_at(self.spark, str(this))
        return self._judging(table, [News(*each) for each in news])

    @available.parse_none
    @told
    def compaction_of(self, topics: Sequence[str]) -> dict[str, bool | None]:
        """Whether topics count as compacted; None of one of which nobody says so or the contrary.

        A word of vars.topics comes before a broker's.
        """
        rules = topic_rules(self.connections.project().variables.get("topics"))
        matcher, by_broker = TopicMatcher(self.spark._jvm, rules), compacted_topics(self.spark)
        said = {topic: matcher.compacted_in_bronze(topic) for topic in topics}
        return {
            topic: True if each is None and topic in by_broker else each
            for topic, each in said.items()
        }

    def _judging(self, table: Table | None, news: Sequence[News]) -> Judging:
        before = Judged() if table is None else compaction.judged(table)
        topics = sorted(before.topics.keys() | {each.topic for each in news})
        found = self.compaction_of(topics)
        return compaction.judging(before, news, lambda topic: bool(found[topic]))

    @available.parse_none
    @told
    def keep_judged(self, this: BaseRelation, judging: Judging) -> None:
        """Keep that all of change_events is judged now."""
        table = tables.look_at(self.spark, str(this))
        if table is not None:
            kept = {compaction.PROPERTY: judging.kept(table)}
            tables.set_properties(self.spark, str(this), kept)
            self.handle.looks.clear()

    # -- the keys of messages

    @available.parse_none
    @told
    def keys_allowed(self, this: BaseRelation, log: Mapping[str, Any]) -> list[list[str]]:
        """The names that the keys of a log's events may have, see ``message_keys.allowed``."""
        return message_keys.allowed(log, self._keys_taken(this))

    @available
    def refusal_of_keys(self) -> str:
        """SQL that fails, in place of an event's operation, see ``message_keys``."""
        return message_keys.REFUSAL

    @available.parse_none
    @told
    def hold_to_key(
        self,
        this: BaseRelation,
        log: Mapping[str, Any],
        query: str,
        write: Callable[[str], Any],
        change_log_sql: Callable[..., str],
    ) -> None:
        """Write the rows of a change log, which a query gives, unless messages have another key
        than it declares: then nothing is written, or what is meant by it, see ``message_keys``.
        """
        run = self.run_of(this)
        taken = self._keys_taken(this)
        try:
            if taken:
                run.keeps[message_keys.TAKEN] = taken
            write(query)
        except DbtRuntimeError as error:
            if message_keys.is_refusal(str(error)):
                verdict = self._judged(this, log)
            else:
                raise
        else:
            return
        run.keeps[message_keys.TAKEN] = verdict.taken
        if verdict.has_former and not run.is_incremental:
            keys = message_keys.allowed(log, verdict.taken)
            events = run.rows(run.upstreams[0])
            query = change_log_sql(log, events, keys, run.places, verdict.renamed)
        write(query.replace(message_keys.REFUSAL, message_keys.UNREFUSED))

    def _judged(self, this: BaseRelation, log: Mapping[str, Any]) -> Verdict:
        """What is to become of other keys. Raises ``CompilationError`` if they are an error."""
        run = self.run_of(this)
        events = run.upstreams[0]
        query = message_keys.question(log, f"{events} version as of {run.snapshot_of(events)}")
        self.connections.log_statement(query)
        rows = self.handle.session.sql(query).toArrow().to_pylist()
        verdict = message_keys.judge(rows, log, str(this))
        if verdict.error is not None:
            raise CompilationError(verdict.error)
        return verdict

    def _keys_taken(self, this: BaseRelation) -> list[list[str]]:
        """The names of keys that earlier runs have taken."""
        run = self.run_of(this)
        taken = kept(run.table, message_keys.TAKEN) if run.table and run.is_incremental else None
        return taken or []

    @available.parse_none
    @told
    def doubt_of_keys(self, this: BaseRelation, log: Mapping[str, Any]) -> str | None:
        """What a run says of the keys of a log's messages, None for nothing."""
        taken = self.run_of(this).keeps.get(message_keys.TAKEN) or self._keys_taken(this)
        return message_keys.warning(log, taken, str(this))

    # -- tables

    @available.parse_none
    @told
    def follow_schema(self, this: BaseRelation, query: str) -> None:
        """Bring the columns of a table up to those of a query, see ``tables.follow_schema``."""
        given = self.handle.session.sql(query).schema.fields
        run = self.run_of(this)
        commits.refuse_overtaken(self.spark, str(this), run.seen)
        for column, before, now in tables.follow_schema(self.spark, str(this), given):
            self.connections.tell(f"{this}.{column}: widened from {before} to {now}")
            # Snapshots are read by the schema that they have been made with.
            commits.note(self.spark, str(this), {WIDENED: f"{column} {before} {now}"})
        self.handle.looks.clear()
        table = self.look_at(this)
        if table is not None:
            run.seen = table.snapshot

    @available.parse_none
    @told
    def misfits_to_follow(self, this: BaseRelation, log: Mapping[str, Any]) -> str | None:
        """The rows of a change log whose misfits may widen its columns, to select from; None if all
        have been looked at, or its columns don't follow.
        """
        table = self.look_at(this) if log.get("follow") else None
        if table is None or not widening.may_follow(log):
            return None
        _, sequence = widening.looked_at(table.properties)
        if sequence >= table.sequence:
            return None
        since = f" where _last_updated_sequence_number > {sequence}" if sequence else ""
        return f"(select * from {this}{since})"

    @available.parse_none
    @told
    def follow(self, this: BaseRelation, log: Mapping[str, Any], query: str) -> dict[str, Any]:
        """Keep the types with a change log's table that a query's numbers (``widening.Kind``) take;
        its declaration with those types, the same one if there is nothing to follow.
        """
        self.connections.log_statement(query)
        kinds = [widening.Kind(*row) for row in self.handle.session.sql(query).collect()]
        types = widening.outgrown(log, kinds)
        if not types:
            return dict(log)
        table = self.look_at(this)
        assert table is not None
        known, sequence = widening.looked_at(table.properties)
        now = widening.following({**known, **types}, sequence)
        tables.set_properties(self.spark, str(this), now)
        self.handle.looks.clear()
        return dict(widening.followed(log, now))

    @available.parse_none
    @told
    def forget_followed(self, this: BaseRelation) -> None:
        """Have the types of a change log be as declared again: it is about to be made anew."""
        table = self.look_at(this)
        if table is not None and widening.looked_at(table.properties) != ({}, 0):
            tables.set_properties(self.spark, str(this), widening.following({}, 0))
            self.handle.looks.clear()

    @available.parse_none
    @told
    def has_followed(self, this: BaseRelation) -> None:
        """Keep with a change log's table that all of its misfits have been looked at."""
        table = self.look_at(this)
        assert table is not None
        known, _ = widening.looked_at(table.properties)
        tables.set_properties(self.spark, str(this), widening.following(known, table.sequence))
        self.handle.looks.clear()

    @available.parse_none
    @told
    def check_contract(self, model: Any, of: Fold, columns: Sequence[str]) -> None:
        """Stop a model whose contract is enforced if it has other columns, or of other types."""
        if model["config"]["contract"]["enforced"]:
            contracts.check(model["name"], model["columns"], of.typed(columns), self.follows(model))

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
        reads are deferred to, with the columns that its description has: it is made with them if it
        is not there, and gets those that an older version has not known.
        """
        node = project.node_named(self._nodes, name)
        relation = self.Relation.create(
            schema=node.schema, identifier=node.alias, type=RelationType.Table
        )
        table = self.look_at(relation)
        if table is None:
            self.handle.session.sql(f"create schema if not exists {node.schema}")
            self.handle.session.sql(project.table_ddl(node, str(relation)))
            self.handle.looks.clear()
        elif added := project.described_columns(node, without=table.comments):
            self.handle.session.sql(f"alter table {relation} add columns ({added})")
            self.handle.looks.clear()
        return relation

    @available.parse_none
    @told
    def pinned_own(self, this: BaseRelation) -> str:
        """A model's own table as it is now, to select from. A column that the run has added since
        the table's last commit is not in its last snapshot: it has no values yet.
        """
        return tables.pinned_with_all_columns(self.spark, str(this), self.look_at(this))
