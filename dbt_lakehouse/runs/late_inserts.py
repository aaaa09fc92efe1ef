"""Rows that the models of a dbt command add to a table together, when the command is done.

A statement of its own for each model would be a commit for each, and what a commit costs, in time
and on disk, grows with the number of those before it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple


class _Target(NamedTuple):
    """A table and the columns of it that are written."""

    table: str
    columns: tuple[str, ...]


class LateInserts:
    """Those of one command, kept by the threads of several models."""

    def __init__(self) -> None:
        self._rows: Final[list[tuple[_Target, str]]] = []

    def keep(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> None:
        """Keep a row, its values as SQL, for ``take``; columns that are not named are null."""
        self._rows.append((_Target(table, tuple(columns)), f"({', '.join(map(str, values))})"))

    def take(self) -> list[str]:
        """The statements that insert what is kept, one for each table and set of columns; it is
        kept no longer.
        """
        targets: dict[_Target, list[str]] = {}
        for target, row in self._rows:
            targets.setdefault(target, []).append(row)
        self._rows.clear()
        return [
            f"insert into {target.table} ({', '.join(target.columns)}) values {', '.join(rows)}"
            for target, rows in targets.items()
        ]
