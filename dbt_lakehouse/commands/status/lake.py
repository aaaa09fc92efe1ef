"""The tables of one target: their kinds, what they have read, and counts of it, by DuckDB."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.sql.command import rows_of, sql_literal
from dbt_lakehouse.commands.status.facts import Kind
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table as Metadata
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Window, marks_of, reading
from dbt_lakehouse.runs.model_run import DECLARED
from dbt_lakehouse.runs.source_filter import Wanted, may_have
from dbt_lakehouse.texts import text_of, time_text

BRONZE: Final = "bronze.raw_payloads"
PLACE: Final = ("topic", '"partition"', '"offset"', "event_index")
COUNTERS: Final = (
    *("late_events", "expired_keys", "refolded_keys", "keys_beyond_log", "clock_ahead_events"),
    *("late_after_purge", "purged_keys"),
)
# A text literal in Spark's SQL, as declarations have it.
_SPARK_TEXT: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.S)


class Counts(NamedTuple):
    """Numbers by topic, None if unknown."""

    of: Mapping[str, int] | None
    is_sure: bool


class Read(NamedTuple):
    """The rows that a table has read of an upstream, as SQL to select from."""

    sql: str
    is_sure: bool = True
    """Whether they are known exactly, rather than guessed from their sequence numbers."""


class TargetTables:
    """The tables of one target."""

    def __init__(self, reader: Reader, silver: str) -> None:
        self.reader: Final = reader
        self.silver: Final = silver
        self.columns: Final = reader.columns()
        self.events: Final = f"{silver}.other_events"
        self.quarantine: Final = f"{silver}.quarantined_payloads"
        self.deletes: Final = f"{silver}.set_less_deletes"
        self.deleted_keys: Final = f"{silver}.deleted_keys"
        self.counters: Final = f"{silver}.fold_counters"
        # A table that can't be read raises here.
        self._metadata: Final = {name: reader.look_at(reader.known(name)) for name in reader.tables}
        self.tables: Final = sorted(self._of_target())
        self.counted: Final = self._counted()

    def _counted(self) -> dict[str, dict[str, int]]:
        """The counts of each table's runs."""
        if not self.has(self.counters):
            return {}
        there = [name for name in COUNTERS if name in self.columns[self.counters]]
        sums = ", ".join(f"coalesce(sum({name}), 0)::bigint" for name in there)
        rows = self.rows(
            f"select gold_table, {sums} from {self.reader.quoted(self.counters)}"
            " group by gold_table"
        )
        return {name: dict(zip(there, counts, strict=True)) for name, *counts in rows}

    def _of_target(self) -> set[str]:
        """The tables made, directly or indirectly, from other_events, and log_times beside it."""
        found = {self.events, f"{self.silver}.log_times"} & self._metadata.keys()
        while True:
            more = {
                name
                for name, table in self._metadata.items()
                if name not in found and not found.isdisjoint(marks_of(table))
            }
            if not more:
                return found
            found |= more

    def has(self, name: str) -> bool:
        """Whether the table exists."""
        return name in self._metadata

    def look_at(self, name: str) -> Metadata:
        """The parsed metadata of a table."""
        return self._metadata[name]

    def declared(self, name: str) -> dict[str, Any]:
        """The declaration with which a change log, gold table or history was last built; empty
        for other tables.
        """
        table = self.look_at(name)
        text = table.properties.get(f"{DECLARED}.{table.noted(DECLARED)}")
        declared: dict[str, Any] = json.loads(text) if text else {}
        return declared

    def kind(self, name: str) -> Kind:
        """The kind of a table, by its name and declaration."""
        own = {
            self.events: Kind.EVENTS,
            self.quarantine: Kind.QUARANTINE,
            self.deletes: Kind.DELETES,
            self.deleted_keys: Kind.STATE,
        }
        if name in own:
            return own[name]
        declared = self.declared(name)
        if "conditions" in declared:
            return Kind.LOG
        if "order_by_source_time" not in declared:
            return Kind.OTHER
        if "is_current" in self.columns[name] and "valid_from" in self.columns[name]:
            return Kind.HISTORY
        return Kind.KEYLESS if declared["keyless"] else Kind.GOLD

    def upstream(self, name: str) -> str | None:
        """The upstream of a table, its log rather than the memory beside it; for a change log,
        the payloads that it decodes.
        """
        if self.kind(name) is Kind.LOG:
            return BRONZE
        named = [each for each in marks_of(self.look_at(name)) if each != self.deleted_keys]
        own = [each for each in named if each != self.deletes] or named
        return own[0] if own else None

    def read(
        self, name: str, upstream: str, place: Sequence[str], wanted: Wanted = None
    ) -> Read | None:
        """The rows that a table has read of an upstream; None if that is not known any more."""
        return self.read_to(marks_of(self.look_at(name)).get(upstream), upstream, place, wanted)

    def read_to(
        self, mark: Mark | None, upstream: str, place: Sequence[str], wanted: Wanted = None
    ) -> Read | None:
        """The rows of an upstream up to a mark."""
        if not self.has(upstream):
            return None
        table, now = self.look_at(upstream), self.reader.quoted(upstream)
        try:
            todo = reading(mark, table)
        except HistoryLost:
            return None
        if todo.window is Window.NOTHING:
            return Read(now)
        if todo.since is None:
            return Read(f"(select * from {now} where false)")
        if todo.window is Window.SINCE_SEQUENCE:
            # Rows that were changed since, by a command that forgets a key, look like new ones.
            then = self.reader.earlier(upstream, sequence=todo.since.sequence)
            return Read(then, is_sure=False)
        if not may_have(table, todo, wanted):
            return Read(now)
        # The remaining rows: some may have been forgotten since.
        then = self.reader.earlier(upstream, snapshot=int(todo.since.snapshot))
        return Read(f"(select * from {now} semi join {then} using ({', '.join(place)}))")

    def by_topic(self, read: Read | None, where: str = "true") -> Counts:
        """The number of rows of each topic."""
        if read is None:
            return Counts(None, is_sure=False)
        sql = f"select topic, count(*) from {read.sql} where {where} group by topic"
        return Counts(dict(self.rows(sql)), read.is_sure)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return rows_of(self.reader, sql)

    def one(self, sql: str) -> tuple[Any, ...]:
        """The only row of a query."""
        (row,) = self.rows(sql)
        return row


def of_duckdb(condition: str) -> str:
    """A condition of a log's declaration in DuckDB's SQL. Raises ``ConfigurationError`` for one
    that a user has written in Spark's SQL, in parentheses.
    """
    if condition.startswith("("):
        raise ConfigurationError("its `where` is Spark's SQL")
    texts = _SPARK_TEXT.sub(lambda each: sql_literal(text_of(each[0])), condition)
    pattern = texts.removeprefix("topic rlike ")
    return texts if pattern == texts else f"regexp_matches(topic, {pattern})"


def moment_text(micros: int | None) -> str | None:
    """Microseconds since 1970 as ISO 8601."""
    return None if micros is None else time_text(micros)
