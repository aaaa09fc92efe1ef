"""What the models of gold tables ask of the adapter: what a run has found in the new events, and
which keys it touches.
"""

import json

from dbt.adapters.base.relation import BaseRelation

from dbt.adapters.lakehouse.logs import LogAdapter
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared import contracts, message_keys
from dbt_lakehouse.declared.declarations import quoted
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs import decisions, graph, tables
from dbt_lakehouse.runs.decisions import Found, Rebuilt
from dbt_lakehouse.runs.key_ranges import KeyRanges, key_ranges, ranges_of, values_sql
from dbt_lakehouse.runs.model_run import DOUBTS


class FoldAdapter(LogAdapter):
    """Methods for tables that are folded from events (``dbt_lakehouse.build``)."""

    def may_leave(self, changes: BaseRelation, of: Fold) -> bool:
        """Whether any event of a log may leave columns as they were."""
        if not of.may_leave or of.partial:
            return of.may_leave
        table = self.look_at(changes)
        return table is None or graph.may_leave(table)

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

    def define(self, name: str, query: str) -> None:
        """Make a temporary view of a query, which is evaluated by whoever reads it."""
        self.connections.log_statement(f"define {name} as {query}")
        self.handle.session.sql(query).createOrReplaceTempView(name)

    def evaluate_states(
        self, name: str, query: str, of: Fold, as_of: str, is_late: str, *, observed: bool
    ) -> Found:
        """Evaluate a query of folded states as a view, and their summary; ``is_late`` is SQL for
        those that may have an event older than what is known. ``observed``: whether the summary is
        taken while the view is evaluated: of few rows, and without a subquery in ``is_late``.
        """
        session = self.handle.session
        self.connections.log_statement(f"evaluate {name} as {query}")
        states = session.sql(query)
        key_type = states.schema[0].dataType.simpleString()
        rows = decisions.ROWS_OF_ONE_TASK if observed else session.views.create(name, states)
        keys = values_sql(of.key[0], key_type, rows)
        summary = render("summary", as_of=as_of, is_late=is_late, key_values=keys)
        if observed:
            return decisions.found_in(
                session.views.create_observed(name, states, summary), key_type
            )
        question = f"select {summary} as taken from {name}"
        self.connections.log_statement(question)
        (row,) = session.sql(question).toArrow().to_pylist()
        return decisions.found_in(row["taken"], key_type)

    def may_doubt_key(self, changes: BaseRelation) -> bool:
        """Whether to look for rows that say that the key of a log is none."""
        log = graph.log_of(self._nodes, changes)
        return bool(message_keys.key_fields(log)) and not message_keys.is_certain(log)

    def keep_doubts(self, this: BaseRelation, found: Found | Rebuilt) -> None:
        """Have a model's table note what its new rows say of their key."""
        if found.reinserted and found.reinserted_at is not None:
            place = json.loads(found.reinserted_at)
            self.run_of(this).doubts = json.dumps({"keys": found.reinserted, **place})

    def doubt_of_rows(self, this: BaseRelation, of: Fold) -> str | None:
        """What a run says of a key that seems to be none, None for nothing."""
        run = self.run_of(this)
        noted = run.doubts or run.noted(DOUBTS)
        if noted is None or of.keyless or not self.may_doubt_key(run.upstreams[0]):
            return None
        log = graph.log_of(self._nodes, run.upstreams[0])
        return message_keys.doubt(log, json.loads(noted), str(this))

    def hold_key_ranges(self, name: str, found: Found) -> list[list[str]]:
        """Hold the ranges of the keys of folded states as arguments of this model's statements that
        follow, under names that begin so; the two ends of each as SQL, none if their type has none.
        """
        return self._hold(name, KeyRanges(found.key_type, ranges_of(found.key_values)))

    def hold_key_ranges_of(self, name: str, relation: str, column: str) -> list[list[str]]:
        """The same for a view's column."""
        rows = self.handle.session.views.rows(relation)
        return self._hold(name, key_ranges(self.spark, relation, column, rows))

    def _hold(self, name: str, ranges: KeyRanges) -> list[list[str]]:
        self.handle.session.arguments.update(ranges.arguments(name))
        return ranges.sql(name)

    def ranges_to_write(self, keys: int) -> int:
        """Into how many ranges of keys, and files, a first load divides its table."""
        return decisions.ranges_to_write(keys, self.spark.sparkContext.defaultParallelism)
