"""What stands in a lake: the kind of each table, the declaration that it was last built with, and
how far it has read which upstreams.

A run notes all of this with the rows that it commits (``marks``, ``model_run``). So the metadata of
a table tells it, whether the command has Spark or not, and whatever the project says by now.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.marks import Mark, Reading, Window, marks_of
from dbt_lakehouse.runs.model_run import AS_OF, DECLARED
from dbt_lakehouse.runs.source_filter import Wanted

if TYPE_CHECKING:
    from dbt_lakehouse.lake.reader import Reader


class Kind(StrEnum):
    """The kind of a table in the pipeline."""

    EVENTS = "events"
    QUARANTINE = "quarantine"
    LOG = "change_log"
    DELETES = "set_less_deletes"
    STATE = "state"
    GOLD = "gold"
    KEYLESS = "keyless_gold"
    HISTORY = "history"
    OTHER = "other"


_OWN: Final = {
    "other_events": Kind.EVENTS,
    "quarantined_payloads": Kind.QUARANTINE,
    "set_less_deletes": Kind.DELETES,
    "deleted_keys": Kind.STATE,
}
WANTED: Final[Mapping[Kind, Wanted]] = {
    Kind.QUARANTINE: "invalid",
    Kind.DELETES: "set_less_deletes",
}
"""What the tables of these kinds read of other_events (``source_filter.CONDITIONS``)."""
# Rows of these are not what a table's own rows are made from.
_REMEMBERED: Final = (Kind.STATE, Kind.DELETES)


def own_kind(name: str) -> Kind | None:
    """The kind of a table that every target has, by its name; None for others."""
    return _OWN.get(name.partition(".")[2])


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of the lake, by its metadata."""

    name: str
    """``schema.name``, as in marks."""
    metadata: Table

    @property
    def declared(self) -> dict[str, Any]:
        """The declaration with which a change log, gold table or history was last built; empty for
        other tables.
        """
        declared: dict[str, Any] = json.loads(self.metadata.noted_text(DECLARED) or "{}")
        return declared

    @property
    def kind(self) -> Kind:
        """Its kind, by its name and declaration."""
        own, declared = own_kind(self.name), self.declared
        if own is not None:
            return own
        if "conditions" in declared:
            return Kind.LOG
        if "order_by_source_time" not in declared:
            return Kind.OTHER
        if self.metadata.comments.keys() >= {"is_current", "valid_from"}:
            return Kind.HISTORY
        return Kind.KEYLESS if declared["keyless"] else Kind.GOLD

    @property
    def marks(self) -> dict[str, Mark]:
        """How far it has read each upstream, by the upstream's name."""
        return marks_of(self.metadata)

    @property
    def made_of(self) -> dict[str, Mark]:
        """The same of the upstreams that its rows are made from: not of what is remembered beside
        a log.
        """
        return {
            name: mark for name, mark in self.marks.items() if own_kind(name) not in _REMEMBERED
        }

    @property
    def upstream(self) -> str | None:
        """The upstream that its rows are made from; for a change log, the payloads that it
        decodes. None if it has no marks.
        """
        if self.kind is Kind.LOG:
            return BRONZE
        named = [each for each in self.marks if own_kind(each) is not Kind.STATE]
        return next(iter([*self.made_of, *named]), None)

    @property
    def wanted(self) -> Wanted:
        """What it reads of other_events; None for everything, and if it reads something else."""
        wanted: Wanted = WANTED.get(self.kind) or self.declared.get("sources")
        return wanted

    @property
    def as_of(self) -> datetime | None:
        """The moment that it was last built for; None if it notes none."""
        noted = self.metadata.noted(AS_OF)
        return datetime.fromisoformat(noted).replace(tzinfo=UTC) if noted else None


def rows_read(reader: "Reader", upstream: str, reading: Reading) -> str:
    """The rows of an upstream that were read before, as DuckDB's SQL to select from. After the
    snapshot has expired, a row that was changed since counts as unread.
    """
    if reading.window is Window.NOTHING:
        return reader.quoted(upstream)
    if reading.since is None:
        return f"(select * from {reader.quoted(upstream)} where false)"
    if reading.window is Window.SINCE_SEQUENCE:
        return reader.earlier(upstream, sequence=reading.since.sequence)
    return reader.earlier(upstream, snapshot=int(reading.since.snapshot))
