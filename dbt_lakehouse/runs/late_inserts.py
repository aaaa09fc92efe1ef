"""Rows that the models of a dbt command add to a table together, when the command ends.

A statement for each model would be a commit for each, and the cost of a commit, in time and on
disk, grows with the number of commits before it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple


class _Target(NamedTuple):
    """A table and the columns that are written."""

    table: str
    columns: tuple[str, ...]


class LateInserts:
    """The late inserts of one command, kept by the threads of several models."""

    def __init__(self) -> None:
        self._rows: Final[list[tuple[_Target, str]]] = []

    def keep(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> None:
        """Keep a row, with its values as SQL, for ``take``; other columns become null."""
        self._rows.append((_Target(table, tuple(columns)), f"({', '.join(map(str, values))})"))

    def take(self) -> list[str]:
        """Return the statements that insert the kept rows, one for each table and set of columns,
        and clear them.
        """
        targets: dict[_Target, list[str]] = {}
        for target, row in self._rows:
            targets.setdefault(target, []).append(row)
        self._rows.clear()
        return [
            f"insert into {target.table} ({', '.join(target.columns)}) values {', '.join(rows)}"
            for target, rows in targets.items()
        ]
