"""What change logs ask of the adapter: functions of their own that decode and type, what they read,
and what Iceberg knows of their rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbt.adapters.base.relation import BaseRelation

from dbt.adapters.lakehouse.events import EventAdapter
from dbt_lakehouse.build import truncate_order
from dbt_lakehouse.build.truncate_order import Placed
from dbt_lakehouse.declared import declarations
from dbt_lakehouse.runs import tables
from dbt_lakehouse.runs.log_input import LogInput, Part, log_input
from dbt_lakehouse.runs.model_run import NodeRun


class LogAdapter(EventAdapter):
    """Methods for change logs."""

    def typed_rows(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
    ) -> str:
        """The name of a function that gives the rows of the change log of this name
        (``functions.register_log``); the session knows it. ``keys`` and ``former`` are as in
        ``LogRows``.
        """
        from dbt_lakehouse.spark.functions import register_log

        declared = declarations.rows_of(log, keys, former)
        function = declarations.rows_function_name("typed", name, log, declared)
        self._know(function, lambda spark: register_log(spark, function, declared))
        return function

    def typed_misfits(self, name: str, log: Mapping[str, Any], columns: Sequence[str]) -> str:
        """The name of a function that gives what of the misfits of the change log of this name has
        a place in some of its columns (``functions.register_misfits``); the session knows it.
        """
        from dbt_lakehouse.spark.functions import register_misfits

        specs = [each for each in declarations.rows_of(log).all_columns if each.column in columns]
        function = declarations.function_name("misfits", name, specs)
        self._know(function, lambda spark: register_misfits(spark, function, specs))
        return function

    def log_input(self, run: NodeRun, log: Mapping[str, Any], part: Part) -> LogInput:
        """What a run of a change log reads, see ``dbt_lakehouse.runs.log_input``."""
        times = self.corrected_log_times()
        return log_input(run, log, part, times, self._format_of)

    def log_function(
        self, name: str, log: Mapping[str, Any], keys: Sequence[Sequence[str]], schemas: bool
    ) -> str:
        """The name of a function that gives the events of the change log of this name straight from
        payloads (``payload_functions.register_log_events``); the session knows it. ``keys`` is as
        in ``LogRows``; ``schemas``: whether it needs those that the session has found.
        """
        from dbt_lakehouse.spark.payload_functions import register_log_events

        declared = declarations.rows_of(log, keys)
        given = log["sources"]
        sources = None if given is None else frozenset((a, b, c) for a, b, c in given)
        of = [declared, sorted(map(str, sources or ()))]
        function = declarations.rows_function_name("decode", name, log, of)
        self._know_with(
            schemas,
            function,
            lambda spark, known: register_log_events(spark, function, declared, sources, known),
        )
        return function

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
        session = self.handle.session
        return truncate_order.place(session, events, str(this), newest, view, goes_on=goes_on)

    def has_key_updates(self, run: NodeRun, log: BaseRelation) -> bool:
        """Whether a change log may have rows of key updates that a model has not read as they are
        now.
        """
        return run.is_incremental and self.may_have_key_updates(log, run.sequence_read(log))

    def may_have_key_updates(self, log: BaseRelation, since: int = 0) -> bool:
        """Whether a change log may have rows of key updates, written by a commit of a sequence
        number above ``since``.
        """
        name = str(log)
        # One that no run has brought up to its declaration lacks the column.
        if all(field.name != "_key_update" for field in tables.columns_of(self.spark, name)):
            return False
        is_one = ("_key_update.id", "is not null", None)
        return tables.may_have_rows(self.spark, name, [is_one], since=since)
