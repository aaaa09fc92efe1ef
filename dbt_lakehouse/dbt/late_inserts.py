"""Rows that the models of a dbt command add to a table together, when the command is done:

    adapter.insert_late(relation, columns, values)      one row, its values as SQL

A statement of its own for each model would be a commit for each, and what a commit costs, in time
and on disk, grows with the number of those before it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dbt.adapters.base.meta import available
from dbt.adapters.spark.impl import SparkAdapter
from dbt.adapters.spark.relation import SparkRelation

from dbt_lakehouse.spark.session import has_ended, opened_session


class _Target(NamedTuple):
    """A table and the columns of it that are written."""

    table: str
    columns: tuple[str, ...]


# Appended to by the threads of several models.
_rows: Final[list[tuple[_Target, str]]] = []


def insert_late(
    _: SparkAdapter, relation: SparkRelation, columns: Sequence[str], values: Sequence[Any]
) -> None:
    """Keep a row for ``insert_all``; columns that are not named are null."""
    target = _Target(relation.render(), tuple(columns))
    _rows.append((target, f"({', '.join(map(str, values))})"))


def insert_all() -> None:
    """Insert what is kept, in one commit for each table and set of columns."""
    targets: dict[_Target, list[str]] = {}
    for target, row in _rows:
        targets.setdefault(target, []).append(row)
    _rows.clear()
    # Whoever has killed Spark too waits for no counters.
    if not targets or has_ended(patience=0):
        return
    for target, rows in targets.items():
        opened_session().sql(
            f"insert into {target.table} ({', '.join(target.columns)}) values {', '.join(rows)}"
        )


def offer_to_macros() -> None:
    """Make the method known to macros, as one of dbt-spark's adapter; and forget what earlier
    commands of this process have kept.
    """
    _rows.clear()
    adapter: Any = SparkAdapter
    adapter.insert_late = available(insert_late)
    adapter._available_ |= {"insert_late"}
