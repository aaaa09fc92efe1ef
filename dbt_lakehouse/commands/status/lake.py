"""The tables of one target: their kinds, what they have read, and counts of it, by DuckDB."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.names import Silver
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of, sql_literal
from dbt_lakehouse.runs.inventory import LakeTable, rows_read
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Window, reading
from dbt_lakehouse.runs.source_filter import Wanted, may_have
from dbt_lakehouse.texts import text_of, time_text

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
        self.columns: Final = reader.columns()
        own: Final = Silver.of(silver)
        self.log_times: Final = own.log_times
        self.events: Final = own.other_events
        self.quarantine: Final = own.quarantined_payloads
        self.deletes: Final = own.set_less_deletes
        self.deleted_keys: Final = own.deleted_keys
        self.counters: Final = own.fold_counters
        # A table that can't be read raises here.
        self._tables: Final = {
            name: LakeTable(name, reader.look_at(reader.known(name))) for name in reader.tables
        }
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
        found = {self.events, self.log_times} & self._tables.keys()
        while True:
            more = {
                name
                for name, table in self._tables.items()
                if name not in found and not found.isdisjoint(table.marks)
            }
            if not more:
                return found
            found |= more

    def has(self, name: str) -> bool:
        """Whether the table exists."""
        return name in self._tables

    def table(self, name: str) -> LakeTable:
        """An existing table."""
        return self._tables[name]

    def read(self, name: str, upstream: str, place: Sequence[str]) -> Read | None:
        """The rows that a table has read of an upstream; None if that is not known any more."""
        table = self.table(name)
        wanted = table.wanted if upstream == self.events else None
        return self.read_to(table.marks.get(upstream), upstream, place, wanted)

    def read_to(
        self, mark: Mark | None, upstream: str, place: Sequence[str], wanted: Wanted = None
    ) -> Read | None:
        """The rows of an upstream up to a mark."""
        if not self.has(upstream):
            return None
        table, now = self.table(upstream).metadata, self.reader.quoted(upstream)
        try:
            todo = reading(mark, table)
        except HistoryLost:
            return None
        if not may_have(table, todo, wanted):
            return Read(now)
        then = rows_read(self.reader, upstream, todo)
        if todo.since is None:
            return Read(then)
        if todo.window is Window.SINCE_SEQUENCE:
            # Rows that were changed since, by a command that forgets a key, look like new ones.
            return Read(then, is_sure=False)
        # The remaining rows: some may have been forgotten since.
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
