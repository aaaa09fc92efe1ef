"""How dbt's materializations have models built: what runs a model is ``dbt_lakehouse.build``, and
this is what that asks of dbt and Spark.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt_common.invocation import get_invocation_id

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.folds import FoldAdapter
from dbt_lakehouse.build import templates
from dbt_lakehouse.build.model import AppendOnly, Building, Built, Model, StateTable
from dbt_lakehouse.dbt import tables
from dbt_lakehouse.texts import sql_text

KINDS: Final[Mapping[str, type[Building]]] = {
    "append_only": AppendOnly,
    "state_table": StateTable,
}
"""What builds a model, by its materialization."""


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

    @available
    def part(self, file: str, name: str, *arguments: Any, **named: Any) -> str:
        """A part of a statement, see ``templates.part``."""
        return templates.part(file, name, *arguments, **named)

    def query(self, sql: str) -> list[dict[str, Any]]:
        self.connections.log_statement(sql)
        rows: list[dict[str, Any]] = self.handle.session.sql(sql).toArrow().to_pylist()
        return rows

    def columns_of(self, relation: Any) -> dict[str, str]:
        fields = tables.columns_of(self.spark, str(relation))
        return {field.name: field.dataType.simpleString() for field in fields}

    def tell(self, message: str) -> None:
        self.connections.tell(message)

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
