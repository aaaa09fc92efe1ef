"""How dbt's materializations have models built: what runs a model is ``dbt_lakehouse.build``, and
this is what that asks of dbt and Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt_common.invocation import get_invocation_id

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.folds import FoldAdapter
from dbt.adapters.lakehouse.models import RAW_PAYLOADS
from dbt_lakehouse.build import history, redrive, templates
from dbt_lakehouse.build.change_log import ChangeLog, change_log_sql
from dbt_lakehouse.build.compiling import Compiling, near_positions
from dbt_lakehouse.build.current_state import CurrentState, fold_of_all
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.history import BitemporalHistory, History
from dbt_lakehouse.build.keyless import KeylessRows, current_rows_sql
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.log_rows import read
from dbt_lakehouse.build.model import AppendOnly, Building, Built, Model, StateTable
from dbt_lakehouse.build.other_events import OtherEvents, looked_events
from dbt_lakehouse.build.own_models import quarantined_payloads, set_less_deletes
from dbt_lakehouse.build.purge import purge
from dbt_lakehouse.build.tested import TESTS, DataTests
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import tables
from dbt_lakehouse.runs.log_input import Part
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.texts import sql_text


def _gold(lake: Lake, model: Model) -> Building:
    of = lake.run_of(model.this).fold
    assert of is not None
    return KeylessRows(lake, model) if of.keyless else CurrentState(lake, model)


def _history(lake: Lake, model: Model) -> Building:
    of = lake.run_of(model.this).fold
    assert of is not None
    return BitemporalHistory(lake, model) if of.bitemporal else History(lake, model)


KINDS: Final[Mapping[str, Callable[[Lake, Model], Building]]] = {
    "append_only": AppendOnly,
    "change_log": ChangeLog,
    "current_state": _gold,
    "history": _history,
    "other_events": OtherEvents,
    "state_table": StateTable,
}
"""What builds a model, by its materialization."""

MODELS: Final[Mapping[str, Callable[[Compiling], str]]] = {
    "other_events": looked_events,
    "quarantined_payloads": quarantined_payloads,
    "set_less_deletes": set_less_deletes,
}
"""The SQL of models of ours, by their names."""


class BuildAdapter(FoldAdapter):
    """What the shells of materializations ask, and what models ask in turn (``model.Lake``)."""

    @available.parse_none
    @told
    def build(
        self,
        this: BaseRelation,
        model: Mapping[str, Any],
        sql: str,
        as_of: str,
        create_table_as: Callable[[bool, BaseRelation, str], str],
    ) -> Built:
        """Build a model of one of ``KINDS``; what dbt is told of it."""
        kind = KINDS[model["config"]["materialized"]]
        of = Model(this, model, sql, as_of, lambda query: create_table_as(False, this, query))
        return kind(self, of).build()

    @available.parse_none
    @told
    def current_state_sql(
        self,
        model: Mapping[str, Any],
        of: Fold,
        changes: BaseRelation,
        deletes: BaseRelation | None,
        as_of: str,
        this: BaseRelation | None = None,
    ) -> str:
        """The SQL of a gold table: of the run that has begun for a model's table (``this``), or of
        all events of its log. ``deletes``: the deletes without a set, None but for a namespace.
        """
        if of.keyless:
            return current_rows_sql(
                of, changes if this is None else self.run_of(this).rows(changes)
            )
        if this is None:
            return fold_of_all(of, changes, deletes, as_of)
        return CurrentState(self, Model(this, model, "", as_of, str)).sql()

    @available.parse_none
    @told
    def purge(self, this: BaseRelation, as_of: str, days: float) -> None:
        """Forget old states of absent keys, see ``dbt_lakehouse.build.purge``."""
        purge(self, this, as_of, days)

    @available.parse_none
    @told
    def history_sql(
        self,
        this: BaseRelation,
        of: Fold,
        upstreams: Sequence[BaseRelation],
        as_of: str,
        run: NodeRun | None,
    ) -> str:
        """The SQL of a history, see ``history.history_sql``."""
        return history.history_sql(this, of, upstreams, as_of, run)

    @available.parse_none
    @told
    def test_sql(
        self, test: str, table: BaseRelation, as_of: str, current: BaseRelation | None = None
    ) -> str:
        """The SQL of a data test of a gold table, or of a history, which is held against the gold
        table ``current``; ``as_of`` is the moment of the command as text.
        """
        of = self.fold_to_test(table, test, current)
        return TESTS[test](DataTests(self, table, of, as_of, current))

    @available
    def part(self, file: str, name: str, *arguments: Any, **named: Any) -> str:
        """A part of a statement, see ``templates.part``."""
        return templates.part(file, name, *arguments, **named)

    @available.parse(lambda *_, **__: "")
    @told
    def model_sql(
        self,
        name: str,
        this: BaseRelation,
        reads: Mapping[str, Any],
        topics: Any,
        *,
        is_building: bool,
        is_decoding: bool,
        goes_on: bool,
        anew: bool,
    ) -> str:
        """The SQL of one of ``MODELS``, see ``Compiling``. ``topics`` is ``vars.topics``, which a
        unit test may have others of.
        """
        decoding = Decoding(self, topics, is_decoding)
        return MODELS[name](
            Compiling(self, this, reads, decoding, is_building, goes_on=goes_on, anew=anew)
        )

    # -- change logs

    @available.parse(lambda *_: "")
    @told
    def change_log_sql(
        self,
        this: BaseRelation,
        name: str,
        log: Mapping[str, Any],
        upstreams: Sequence[BaseRelation],
        anew: bool | None,
        topics: Any,
        runs: bool,
    ) -> str:
        """The SQL of the model of a change log, see ``change_log.change_log_sql``. ``topics`` is
        ``vars.topics``; ``runs`` as in ``Decoding``.
        """
        decoding = Decoding(self, topics, runs)
        return change_log_sql(this, name, log, upstreams, decoding, anew)

    @available.parse(lambda *_: "")
    @told
    def events_of_log(
        self, run: NodeRun, log: Mapping[str, Any], which: str, topics: Any, runs: bool
    ) -> str:
        """A part of a change log's events (``log_input.Part``), see ``log_rows.read``."""
        return read(Decoding(self, topics, runs), run, log, Part(which))

    # -- events

    @available.parse(lambda *_: "events")
    @told
    def events_of_topics(self, events: BaseRelation, topics: Sequence[str]) -> str:
        """The events of some topics that other_events has looked at, to select from."""
        run = NodeRun(self.look_at, events, [RAW_PAYLOADS])
        decoding = Decoding(self, self.topics, runs=not self.only_compiles)
        return decoding.events_of(self.looked_input(run, topics))

    @available.parse(lambda *_: "true")
    @told
    def near_positions(self, rows: str, parent: str) -> str:
        """See ``compiling.near_positions``."""
        return near_positions(self, rows, parent)

    @available.parse_none
    @told
    def redrive(
        self,
        events: BaseRelation,
        quarantine: BaseRelation,
        payloads: BaseRelation,
        codes: Sequence[str],
        topics: Sequence[str],
    ) -> None:
        """Decode quarantined payloads again, see ``build.redrive``."""
        logs = [each["relation"] for each in self.logs_to_look_at() if each["is_there"]]
        of = redrive.Tables(events, quarantine, payloads, logs)
        redrive.redrive(self, of, codes, topics)

    # -- what models ask

    @available.parse_none
    @told
    def look_at_table(self, relation: BaseRelation) -> Table | None:
        """A table as it is now (``lake.tables.Table``), None if there is no such table."""
        return self.look_at(relation)

    def may_have_rows(
        self, relation: BaseRelation, conditions: Sequence[tuple[str, str, Any]], since: int = 0
    ) -> bool:
        """Whether a table may have rows that meet all conditions and were written by a commit of a
        sequence number above ``since``, see ``tables.may_have_rows``; False is certain.
        """
        return tables.may_have_rows(self.spark, relation.render(), conditions, since=since)

    def evaluate(self, name: str, query: str) -> int:
        """Evaluate a query once, as a temporary view for the statements of this model that follow;
        the number of its rows. See ``spark.evaluated_views``.
        """
        self.connections.log_statement(f"evaluate {name} as {query}")
        return self.handle.session.evaluate(name, query)

    def drop_evaluated(self, prefix: str) -> None:
        """Drop what this model has evaluated under names that begin so."""
        self.handle.session.views.drop_all(prefix)

    def query(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow(sql).to_pylist()
        return rows

    def arrow(self, sql: str) -> pa.Table:
        self.connections.log_statement(sql)
        return self.handle.session.sql(sql).toArrow()

    def hold(self, name: str, rows: pa.Table) -> None:
        self.handle.session.hold(name, rows)

    def columns_of(self, relation: Any) -> dict[str, str]:
        fields = tables.columns_of(self.spark, str(relation))
        return {field.name: field.dataType.simpleString() for field in fields}

    def tell(self, message: str) -> None:
        self.connections.tell(message)

    @property
    def makes_all_anew(self) -> bool:
        return bool(getattr(self.config.args, "full_refresh", False))

    def count(self, table: str, counters: Mapping[str, int | None], as_of: str) -> None:
        self.connections.late_inserts.keep(
            self.own_table("fold_counters").render(),
            ["invocation_id", "gold_table", "as_of", *counters],
            [
                sql_text(get_invocation_id()),
                sql_text(table),
                f"timestamp '{as_of}'",
                *counters.values(),
            ],
        )
