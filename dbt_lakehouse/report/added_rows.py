"""The rows that a run has added to gold tables and their change logs, and removed."""

from collections.abc import Mapping
from datetime import datetime

from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.facts import Facts


def tell_of_rows(
    facts: Facts, reader: Reader, tables: Mapping[str, Table], since: datetime
) -> None:
    """Set the numbers of rows that the run has added to each gold table and removed. A row keeps
    its row id (``_row_id``) as long as it exists, and a new row has a higher one.
    """
    for table in facts.gold:
        metadata = tables[table.name]
        made = [each for each in metadata.chain if each.made_at >= since]
        if table.rows is None or table.rows_before is None:
            continue
        if not made or not table.rows_before:
            table.new, table.gone = table.rows - table.rows_before, 0
            continue
        first = made[-1].first_row_id
        written = sum(int(each.summary.get("added-records", 0)) for each in made)
        if first is None or written > commits.ROWS_LOOKED_AT:
            continue
        reader.include(table.name)
        rows = reader.added_since(table.name, commits.before(metadata, since).sequence)
        # With `where` DuckDB would use the files' bounds, which leave out new rows' ids.
        query = f"select count(*) filter (_row_id >= {first}) from {rows}"
        row = reader.query(query).fetchone()
        assert row is not None
        table.new, table.gone = row[0], table.rows_before + row[0] - table.rows


def tell_of_logs(
    facts: Facts, reader: Reader, tables: Mapping[str, Table], since: datetime
) -> None:
    """Set the numbers of rows that the run has added to change logs, on the gold tables made from
    them.
    """
    counts: dict[str, tuple[int, int, int]] = {}
    for table in facts.gold:
        if table.log is None or table.log not in tables:
            continue
        if table.log not in counts:
            found = _log_counts(reader, table.log, tables[table.log], since)
            if found is None:
                continue
            counts[table.log] = found
        table.events, table.deletes, table.misfits = counts[table.log]


def _log_counts(
    reader: Reader, name: str, log: Table, since: datetime
) -> tuple[int, int, int] | None:
    earlier = commits.before(log, since)
    added = commits.added_since(log, since)
    if added == 0:
        return 0, 0, 0
    if added is None or commits.is_large(log):
        return None
    reader.include(name)
    row = reader.query(
        "select count(*), count(*) filter (_operation = 'delete'),"
        " count(*) filter (len(_misfits) > 0)"
        f" from {reader.added_since(name, earlier.sequence)}"
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]
