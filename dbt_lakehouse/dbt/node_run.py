"""What one model reads, decides and notes while dbt builds it: from its compilation, which asks
what is new, to the commit that holds its rows and what they were made of.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dbt_lakehouse.dbt import marks
from dbt_lakehouse.dbt.declarations import Changes, changes, digest
from dbt_lakehouse.dbt.marks import HistoryLost, Mark, Reading, Window
from dbt_lakehouse.lake.tables import Table

# In the summary of a snapshot: the digest of the declaration that its table is made of. The whole
# of it is a property of the table, under that name.
DECLARED: Final = "lakehouse.declared"
# As of when expired rows were judged.
AS_OF: Final = "lakehouse.as_of"
# Of gold: the newest times of all that is known (fold.Newest).
NEWEST: Final = "lakehouse.newest"
# Of deleted_keys: up to when states are forgotten.
HORIZON: Final = "lakehouse.purge_horizon"
_CARRIED: Final = (marks.PREFIX, DECLARED, AS_OF, NEWEST, HORIZON)

Load = Callable[[str], Table | None]
"""A table as it is now by its name (``schema.table``), None if there is none."""


class NodeRun:
    """A model at work.

    ``own`` is the name of its table, ``upstreams`` are those of the tables that it reads as they
    grow, each name in the form ``schema.table``.
    """

    def __init__(
        self,
        load: Load,
        own: str,
        upstreams: list[str],
        declaration: str | None,
        *,
        anew: bool,
    ) -> None:
        self.own: Final = own
        self.declaration: Final = declaration
        self.table: Final = None if anew else load(own)
        self.readings: dict[str, Reading] = {}
        self.to_fill: dict[str, str | None] = {}
        self.reason: str | None = None
        """Why a table that is there is made anew though nobody asked for it."""
        tables = {name: load(name) for name in upstreams}
        if self.table is not None:
            self.reason = self._go_on(self.table, tables)
        self.is_incremental: Final = self.table is not None and self.reason is None
        if not self.is_incremental:
            self.to_fill = {}
            self.readings = {
                name: Reading(Window.WHOLE, marks.mark_of(table))
                for name, table in tables.items()
                if table is not None
            }

    def _go_on(self, table: Table, tables: Mapping[str, Table | None]) -> str | None:
        """Find out what is new to a table that is there; the reason why it can't go on, if so."""
        held = marks.marks_of(table)
        if tables and not held:
            return "it does not say what it was made of"
        for name, upstream in tables.items():
            if name not in held:
                others = ", ".join(sorted(held.keys() - tables.keys())) or "other tables"
                return f"it was made of {others}, and its model reads {name} now"
            if upstream is None:
                return f"{name} is not there any more"
            try:
                self.readings[name] = marks.reading(held[name], upstream)
            except HistoryLost as error:
                return f"{name} {error} after it was read"
        if self.declaration is None:
            return None
        declared = self._declaration_of(table)
        changed: Changes = changes(declared, self.declaration)
        self.to_fill = changed.to_fill
        return changed.rebuild

    def _declaration_of(self, table: Table) -> str | None:
        assert self.declaration is not None
        name = table.noted(DECLARED)
        if name == digest(self.declaration):
            return self.declaration
        return table.properties.get(f"{DECLARED}.{name}")

    @property
    def is_declared_anew(self) -> bool:
        """Whether the table's rows were made of another declaration."""
        return (
            self.declaration is not None
            and self.table is not None
            and self.table.noted(DECLARED) != digest(self.declaration)
        )

    @property
    def has_news(self) -> bool:
        """Whether there is anything to do for the model's rows."""
        return (
            not self.is_incremental
            or self.is_declared_anew
            or any(reading.has_news for reading in self.readings.values())
        )

    def has_news_of(self, upstream: str) -> bool:
        """Whether an upstream may have rows that are new to the table."""
        return self.readings[upstream].has_news

    def rows(self, upstream: str) -> str:
        """The rows of an upstream that are new to the table, as SQL to select from."""
        return self.readings[upstream].sql(upstream)

    def noted(self, name: str) -> str | None:
        """What the table has noted in its newest commit that says anything of it."""
        return self.table.noted(name) if self.table is not None and self.is_incremental else None

    def notes(self, more: Mapping[str, Any] | None = None) -> dict[str, str]:
        """What the commit of the model's rows is to say of them."""
        read: dict[str, Mark] = {name: reading.until for name, reading in self.readings.items()}
        notes = marks.noted(read)
        if self.declaration is not None:
            notes[DECLARED] = digest(self.declaration)
        return notes | {name: str(value) for name, value in (more or {}).items()}

    def properties(self) -> dict[str, str]:
        """Properties that the table must have before its rows are committed."""
        if self.declaration is None:
            return {}
        return {f"{DECLARED}.{digest(self.declaration)}": self.declaration}


def carried(table: Table) -> dict[str, str]:
    """All that a table's commits have noted and the newest one says nothing of: what has to be
    noted again before the commits that say it expire.
    """
    notes: dict[str, str] = {}
    for snapshot in table.chain:
        for name, value in snapshot.summary.items():
            if name.startswith(_CARRIED):
                notes.setdefault(name, value)
    current = table.chain[0].summary if table.chain else {}
    return {name: value for name, value in notes.items() if current.get(name) != value}
