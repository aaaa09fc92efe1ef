"""The memory of a gold table in `silver.deleted_keys`: the states of its absent keys, and its
newest truncates.
"""

from collections.abc import Sequence
from typing import Any, Final

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import Model, view_of
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs import decisions
from dbt_lakehouse.runs.decisions import Newest, Truncate
from dbt_lakehouse.runs.model_run import HORIZON
from dbt_lakehouse.texts import sql_text

OF_TRUNCATES: Final = "truncated:"
OF_NAMESPACES: Final = "aerospike:"


def truncates_scope(model: Any) -> str:
    """The scope under which a table's truncates are remembered."""
    return f"{OF_TRUNCATES}{model.scope}"


def _truncates_sql(of: Fold, truncates: Sequence[Truncate]) -> str:
    """Truncates as a relation."""
    if not truncates:
        return render(
            "no_truncates", several_sources=of.several_sources, position_type=of.position_type
        )
    return render("truncates", truncates=values_of(truncates), several_sources=of.several_sources)


def values_of(truncates: Sequence[Truncate]) -> list[dict[str, str]]:
    """The values of truncates as SQL."""
    return [
        {"source": sql_text(each.source), "position": each.position, "time": each.time}
        for each in truncates
    ]


class Remembered:
    """What is remembered of a model's table, and the statements that write it.

    Each change is made before the table's own commit, so a crash between them loses nothing.
    """

    def __init__(self, lake: Lake, model: Model, fold: Fold) -> None:
        self._lake: Final = lake
        self._model: Final = model
        self._fold: Final = fold
        self._truncates: Final = truncates_scope(model)
        self.table: Final = lake.catalog.own_table("deleted_keys")
        self.scopes: Final = (model.scope, self._truncates)

    @property
    def horizon(self) -> str | None:
        """The time up to which states were purged, as text; None for never."""
        table = self._lake.catalog.look_at(self.table)
        return None if table is None else table.noted(HORIZON)

    def has_states(self) -> bool:
        """Whether the table's keys may have remembered states."""
        return self._lake.catalog.may_have_rows(self.table, [("scope", "=", self._model.scope)])

    def has_truncates(self) -> bool:
        """Whether the table may have remembered truncates."""
        return self._lake.catalog.may_have_rows(self.table, [("scope", "=", self._truncates)])

    def has_deletes(self, namespace: str, since: int = 0) -> bool:
        """Whether there may be deletes without a set, from commits above a sequence number."""
        scope = f"{OF_NAMESPACES}{namespace}"
        return self._lake.catalog.may_have_rows(self.table, [("scope", "=", scope)], since=since)

    def newest(self) -> Newest:
        """The newest time of all known states of the table's keys; it takes a query."""
        query = render(
            "newest_known", table=self._model.this, deleted_keys=self.table, scopes=self.scopes
        )
        (row,) = self._lake.sql.query(query)
        return Newest(*row.values())

    def find_truncates(self, log: str, remembered: str | None) -> list[Truncate]:
        """The newest truncates among the log's rows and the ``remembered`` ones, see
        ``sql/find_truncates.sql``. Also makes the view ``truncates`` of them.
        """
        query = render(
            "find_truncates",
            fold=self._fold,
            log=log,
            remembered=remembered,
            scope=self._truncates,
        )
        found = [decisions.truncate(row) for row in self._lake.sql.query(query)]
        self._lake.sql.define(
            view_of(self._model.this, "truncates"),
            _truncates_sql(self._fold, found),
        )
        return found

    def keep_truncates(
        self, truncates: Sequence[Truncate], *, rebuild: bool = False, moved: bool = False
    ) -> None:
        """Keep the new ones among some truncates. A rebuild keeps those of the log and drops
        others: the log may have been redeclared. ``moved``: they are all of the log, in which one
        has got another place, and replace what is remembered.
        """
        if truncates:
            self._lake.commits.refuse_overtaken(self._model.this)
        if rebuild and self.has_truncates():
            self._lake.sql.execute(
                render("forget_truncates", deleted_keys=self.table, scope=self._truncates)
            )
        new = [each for each in truncates if each.is_new]
        if new:
            self._lake.sql.execute(
                render(
                    "remember_truncates",
                    deleted_keys=self.table,
                    scope=self._truncates,
                    truncates=values_of(new),
                    by_source=bool(self._fold.order_by),
                    replaces=moved,
                    as_of=self._model.as_of,
                )
            )

    def keep_absent(self, states: str, *, refolded: bool) -> None:
        """Keep the states of keys that end absent, see ``sql/remember_absent_keys.sql``.
        ``refolded``: whether some were folded from their whole log. Only the entries of those can
        be reset.
        """
        self._lake.commits.refuse_overtaken(self._model.this)
        by_source = bool(self._fold.order_by)
        into: dict[str, Any] = {
            "deleted_keys": self.table,
            "scope": self._model.scope,
            "states": render(
                "absent_states", states=states, key=self._fold.key, by_source=by_source
            ),
            "as_of": self._model.as_of,
        }
        self._lake.sql.execute(
            render("reset_absent_keys", **into, by_source=by_source)
            if refolded
            else render("remember_absent_keys", **into)
        )

    def forget_unknown(self, log: str, deletes: str | None) -> None:
        """Delete the states of keys that the log does not have (any more)."""
        self._lake.sql.execute(
            render(
                "forget_unknown_keys",
                deleted_keys=self.table,
                scope=self._model.scope,
                fold=self._fold.without_columns(),
                log=log,
                deletes=deletes,
            )
        )
