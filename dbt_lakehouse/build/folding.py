"""What all tables that are folded from a change log have in common."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.build.lake import Condition, Lake
from dbt_lakehouse.build.model import Building, Built, Loss
from dbt_lakehouse.build.templates import render, union
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.fold_of_log import DELETED_AT, Fold
from dbt_lakehouse.declared.widening import is_in_place
from dbt_lakehouse.runs.model_run import AS_OF, NodeRun

TOUCHED = "touched"
"""The view of the keys that a run folds again."""


def may_have_new_truncates(lake: Lake, run: NodeRun, of: Fold) -> bool:
    """Whether a truncate may be new to a table with a key: in the log, a truncate is a row
    without one.
    """
    return lake.catalog.may_have_new_rows(
        run, run.upstreams[0], [(of.key[0].strip("`"), "is null", None)]
    )


class Folding(Building):
    """A table that is a fold of a change log, the first of its upstreams."""

    @property
    def fold(self) -> Fold:
        """What the model takes of its log."""
        assert self.run.fold is not None
        return self.run.fold

    @property
    def changes(self) -> str:
        """All of the log up to where the run reads it, to select from."""
        return self.read(self.run.upstreams[0])

    @property
    def new_changes(self) -> str:
        """The rows of the log that are new to the table, to select from."""
        return self.run.rows(self.run.upstreams[0])

    @property
    def may_go_on_from_its_rows(self) -> bool:
        """Whether the table can be brought up to date from its own rows and what is new: its rows
        are what the upstreams gave when it read them, all new rows are rows that it has not read,
        and their order is Kafka's or time's.
        """
        run = self.run
        return not (
            self.fold.order_by
            or run.is_redeclared
            or run.to_fill
            or any(map(run.may_read_again, run.upstreams))
        )

    def refuse_earlier_moment(self) -> None:
        """Stop a run as of a moment before the table's. An expired row is gone, so to judge it at
        an earlier moment takes a rebuild; a moment of belief is allowed. Raises
        ``CompilationError``.
        """
        fold = self.fold
        last = self.run.noted(AS_OF) if fold.namespace is not None or fold.bitemporal else None
        if last and self.model.as_of < last:
            what = "what was recorded since" if fold.bitemporal else "rows that expired in between"
            can = "goes away" if fold.bitemporal else "can only come back"
            raise CompilationError(
                f"vars.as_of is {self.model.as_of}, but {self.this} has been built as of {last}:"
                f" {what} {can} with --full-refresh"
            )

    def keys_changed_since(self) -> str | None:
        """SQL of the keys whose rows have, or may have, got another key's values, or another place
        in the source's order, since the model read the log; None without such keys.
        """
        run, log = self.run, self.run.upstreams[0]
        if self.fold.namespace is not None:
            return None
        of = {"log": self.changes, "key": self.fold.key, "sequence": run.sequence_read(log)}
        changed = []
        if self.lake.catalog.has_key_updates(run, log):
            changed.append(render("resting_keys", **of))
        if self._may_have_moved:
            changed.append(render("moved_keys", **of, truncates=self._moved_truncates()))
        return union(changed) or None

    @property
    def _may_have_moved(self) -> bool:
        """Whether rows of the log may have got another place in the source's order since the model
        read the log.
        """
        run, log = self.run, self.run.upstreams[0]
        return bool(self.fold.order_by) and run.is_incremental and run.may_have_changed(log)

    def has_moved_truncate(self) -> bool:
        """Whether a truncate of the log has got another place since the model read the log."""
        return self._may_have_moved and self.has_rows(self._moved_truncates())

    def _moved_truncates(self) -> str:
        return render(
            "moved_truncates",
            log=self.changes,
            key=self.fold.key[0],
            sequence=self.run.sequence_read(self.run.upstreams[0]),
        )

    @property
    def has_key(self) -> bool:
        """Whether the table has the columns of its key. Tables of another key, or of hashed keys,
        can't be compared.
        """
        held = self.lake.catalog.columns_of(self.this)
        types = self.fold.typed(self.fold.key)
        return all(
            name in held and (held[name] == kind or is_in_place(held[name], kind))
            for name, kind in types.items()
        )

    def rows_to_lose(self) -> str:
        """All rows; for a table that kept deleted rows and no longer does, the live ones."""
        if self.run.kept_deleted_rows:
            return f"(select * from {self.this} where {DELETED_AT} is null)"
        return super().rows_to_lose()

    def lost_values(self) -> Iterable[Loss]:
        """The values that no event of the log says."""
        columns = self.lake.catalog.columns_kept(self.this, self.fold)
        if self.fold.may_leave and columns:
            log = self.run.upstreams[0]
            yield Loss(
                "of its rows have values",
                render(
                    "lost_values",
                    table=self.this,
                    log=log,
                    key=self.fold.key,
                    columns=columns,
                ),
            )


def keys_to_fill(of: Fold, log: str, to_fill: Mapping[str, str | None]) -> str | None:
    """SQL of the keys with an event whose value of a column to fill can't be in the table yet:
    ``to_fill`` has the columns and their previous types, None for a new column. None without such
    columns.
    """
    if not to_fill:
        return None
    columns = dict(zip(quoted(to_fill), to_fill.values(), strict=True))
    return render("keys_to_fill", key=of.key, log=log, to_fill=columns)


def keys_to_refold(
    table: Folding, is_current: str, holds_current: Sequence[Condition]
) -> str | None:
    """SQL of the keys that a run folds again; None if there is nothing to do. ``is_current`` is
    the condition of the table's rows that can expire, ``holds_current`` the same for file
    statistics. A table of a namespace also reads the deletes without a set.
    """
    run, fold, lake, as_of = table.run, table.fold, table.lake, table.model.as_of
    may_expire = fold.namespace is not None and lake.catalog.may_have_rows(
        table.this, [*holds_current, ("_expires_at", "<=", as_of)]
    )
    resting = table.keys_changed_since()
    if not run.has_news and not may_expire and resting is None:
        return None
    log, new = table.changes, table.new_changes
    queries = [
        render("keys_of_events", fold=fold, changes=new),
        resting,
        keys_to_fill(fold, log, run.to_fill),
    ]
    if fold.namespace is not None:
        deletes, own = run.rows(run.upstreams[1]), lake.catalog.pinned_own(table.this)
        queries.append(render("deleted_keys_of_log", fold=fold, deletes=deletes, log=log))
        queries.append(render("expired_rows", own=own, is_current=is_current, as_of=as_of))
    elif may_have_new_truncates(lake, run, fold):
        queries.append(render("keys_if_truncated", fold=fold, log=log, new=new))
    return union(queries, "union")


class Refolding(Folding):
    """A table whose touched rows are folded again from the whole log and replaced. So late events
    need no care, and a repeated run changes nothing.
    """

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The columns of the table."""

    @property
    @abstractmethod
    def identity(self) -> Sequence[str]:
        """The columns that identify a row."""

    @property
    @abstractmethod
    def touched_by(self) -> Sequence[str]:
        """The columns of what is touched; their rows are folded together."""

    @abstractmethod
    def touched(self) -> str | None:
        """SQL of the keys or rows that a run touches; None if there is nothing to do."""

    def whole(self) -> str:
        """SQL of all rows, for a table that is rebuilt."""
        return self.model.sql

    @abstractmethod
    def rows(self) -> str:
        """SQL of the rows of what is touched (the view ``TOUCHED``)."""

    def build(self) -> Built:
        """Fold what is touched, or everything."""
        self.lake.declared.check_contract(self.model.node, self.fold, self.columns)
        self.refuse_earlier_moment()
        if not self.run.is_incremental:
            self.refuse_loss()
        built = self.refolded()
        self.lake.sql.drop_evaluated(self.view(""))
        return built

    def refolded(self) -> Built:
        """Fold, once the checks have passed."""
        notes = {AS_OF: self.model.as_of}
        if not self.run.is_incremental:
            return self.replaced(self.whole(), notes)
        query = self.touched()
        if query is None:
            return self.unchanged()
        touched, folded = self.view(TOUCHED), self.view("folded")
        touched_keys = self.lake.sql.evaluate(touched, query)
        rows = self.rows()
        if self.run.is_redeclared:
            self.lake.catalog.follow_schema(self.this, rows)
        if touched_keys == 0:
            self.lake.commits.note(self.this, notes)
            return self.unchanged("nothing is touched")
        self.lake.sql.evaluate(folded, rows)
        return self.written(self.merge_sql(folded, touched), notes)

    def merge_sql(self, folded: str, touched: str) -> str:
        """The statement that replaces the table's touched rows by folded ones; both arguments are
        views.
        """
        return render(
            "replace_rows",
            table=self.this,
            own=self.lake.catalog.pinned_own(self.this),
            folded=folded,
            touched=touched,
            touched_by=self.touched_by,
            identity=self.identity,
            columns=quoted(self.lake.catalog.columns_of(self.this)),
        )
