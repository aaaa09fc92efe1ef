"""Statements of a model: run in the session of its thread, with the views that they share."""

from typing import Any

import pyarrow as pa

from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs import decisions
from dbt_lakehouse.runs.decisions import Found
from dbt_lakehouse.runs.key_ranges import KeyRanges, key_ranges, ranges_of, values_sql


class Statements(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def execute(self, sql: str) -> tuple[Any, Any]:
        """Run a statement that gives no rows."""
        return self._connections.execute(sql)

    def query(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow(sql).to_pylist()
        return rows

    def arrow(self, sql: str) -> pa.Table:
        self._connections.log_statement(sql)
        return self._handle.session.sql(sql).toArrow()

    def define(self, name: str, query: str) -> None:
        """Make a temporary view of a query, which Spark evaluates at each reading."""
        self._connections.log_statement(f"define {name} as {query}")
        self._handle.session.sql(query).createOrReplaceTempView(name)

    def evaluate(self, name: str, query: str) -> int:
        """Evaluate a query once, as a temporary view for this model's next statements. Returns
        its number of rows. See ``spark.evaluated_views``.
        """
        self._connections.log_statement(f"evaluate {name} as {query}")
        return self._handle.session.evaluate(name, query)

    def drop_evaluated(self, prefix: str) -> None:
        """Drop this model's evaluated views whose names have a prefix."""
        self._handle.session.views.drop_all(prefix)

    def has_evaluated(self, name: str) -> bool:
        return self._handle.session.views.has(name)

    def hold(self, name: str, rows: pa.Table) -> None:
        self._handle.session.hold(name, rows)

    def evaluate_states(
        self, name: str, query: str, of: Fold, as_of: str, is_late: str, *, observed: bool
    ) -> Found:
        """Evaluate a query of folded states as a view. Returns their summary. ``is_late`` is SQL
        for states that may have an event older than known ones. ``observed``: whether the summary
        is computed while the view is evaluated, for few rows and without a subquery in
        ``is_late``.
        """
        session = self._handle.session
        self._connections.log_statement(f"evaluate {name} as {query}")
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
        self._connections.log_statement(question)
        (row,) = session.sql(question).toArrow().to_pylist()
        return decisions.found_in(row["taken"], key_type)

    def hold_key_ranges(self, name: str, found: Found) -> list[list[str]]:
        """Keep the key ranges of folded states as arguments of this model's next statements,
        under names with a prefix. Returns the two bounds of each as SQL, empty if their type has
        no ranges.
        """
        return self._hold(name, KeyRanges(found.key_type, ranges_of(found.key_values)))

    def hold_key_ranges_of(self, name: str, relation: str, column: str) -> list[list[str]]:
        """Keep the ranges of a view's column in the same way."""
        rows = self._handle.session.views.rows(relation)
        return self._hold(name, key_ranges(self._spark, relation, column, rows))

    def _hold(self, name: str, ranges: KeyRanges) -> list[list[str]]:
        self._handle.session.arguments.update(ranges.arguments(name))
        return ranges.sql(name)

    def ranges_to_write(self, keys: int) -> int:
        """The number of key ranges, and files, into which a first load divides its table."""
        return decisions.ranges_to_write(keys, self._spark.sparkContext.defaultParallelism)
