"""Gold tables without a key."""

from collections.abc import Iterable, Sequence
from typing import Any

from dbt_lakehouse.build.folding import TOUCHED, Refolding
from dbt_lakehouse.build.model import Loss
from dbt_lakehouse.build.row_news import RowNews
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.declared.fold_of_log import Fold


def current_rows_sql(of: Fold, log: Any, keys: str | None = None, steps: str | None = None) -> str:
    """The SQL of the current rows: all of them or, with a relation of `_row` values, only those.
    With ``steps``, they come from that relation of steps instead of the log's.
    """
    of_log = part("event_parts", "row_steps", of, log)
    sql = of_log if steps is None else f"select * from {steps}"
    return render("current_rows", fold=of, log=log, keys=keys, steps=sql)


class KeylessRows(Refolding):
    """The current state of a table without a key: a multiset with one row for each row of the
    source. A run touches row images (`_row`), whose copies it counts again.
    """

    @property
    def columns(self) -> Sequence[str]:
        return self.fold.rows_columns

    @property
    def identity(self) -> Sequence[str]:
        return ["_row", "_copy"]

    @property
    def touched_by(self) -> Sequence[str]:
        return ["_row"]

    def touched(self) -> str | None:
        if not self.run.has_news:
            return None
        return render(
            "touched_rows", fold=self.fold, new=self.new_changes, own=self.pinned(self.this)
        )

    def rows(self) -> str:
        news = RowNews(self)
        if news.suffices():
            return current_rows_sql(self.fold, self.new_changes, steps=news.steps)
        # In such a run the model's own SQL reads only the log's new rows.
        return current_rows_sql(self.fold, self.changes, self.view(TOUCHED))

    def losses(self) -> Iterable[Loss]:
        # A value and its mask count as two values: the other columns tell rows apart.
        others = {*self.fold.beside, *self.fold.masked, *self.run.masked_before}
        kept = self.lake.catalog.columns_kept(self.this, self.fold)
        columns = [name for name in kept if name not in others]
        if columns:
            log = self.run.upstreams[0]
            # Up to the newest event that the table has a row of.
            read = (
                f"(select * from {log} where _position <= (select max(_position) from {self.this}))"
            )
            given = current_rows_sql(self.fold, read)
            yield Loss(
                "of its rows are",
                render("lost_copies", table=self.this, columns=columns, given=given),
            )
