"""The freshness of gold: the newest event of each table, and the lag of bronze behind Kafka."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from dbt_lakehouse.lake.names import TOPIC_PARTITIONS
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.facts import Facts, Lag, TableFacts
from dbt_lakehouse.runs.marks import Mark, marks_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def tell_of_newest(facts: Facts, reader: Reader, tables: Mapping[str, Table]) -> None:
    """Set the newest event of tables that don't note it, such as histories: that of a table that
    has read as much of the same log, or that of the rows that they have read.
    """
    noted = {_read_of_log(each, tables): each.newest_event for each in facts.gold}
    for table in facts.gold:
        read = _read_of_log(table, tables)
        if table.newest_event is not None or read is None:
            continue
        table.newest_event = noted.get(read)
        name, mark = read
        if table.newest_event is None and name in tables:
            if not commits.is_large(tables[name]):
                reader.include(name)
                rows = reader.earlier(name, sequence=mark.sequence)
                newest_log_time = f"select epoch_us(max(_position.log_time)) from {rows}"
                row = reader.query(newest_log_time).fetchone()
                noted[read] = table.newest_event = None if row is None else moment_of(row[0])


def _read_of_log(table: TableFacts, tables: Mapping[str, Table]) -> tuple[str, Mark] | None:
    return None if table.log is None else (table.log, marks_of(tables[table.name])[table.log])


def moment_of(micros: int | None) -> datetime | None:
    """The moment of microseconds since the epoch; None outside of Python's range."""
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def lag(reader: Reader) -> Lag | None:
    reader.include(TOPIC_PARTITIONS)
    row = reader.query(
        "select sum(lag_messages)::bigint,"
        " if(count(lag_seconds) = count(*), max(lag_seconds), null),"
        f" count(*), max(checked_at) from {reader.quoted(TOPIC_PARTITIONS)}"
        " where log_end_offset is not null"
    ).fetchone()
    return None if row is None or not row[2] else Lag(int(row[0] or 0), *row[1:])
