"""A data test that dbt compiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt_lakehouse.build.compiling import Compiled, near_positions


@dataclass(frozen=True, slots=True)
class DataTest(Compiled):
    """A data test, by its name and arguments, of a table. If a generic test has a condition
    (``where``), dbt gives a query in parentheses instead of the table.
    """

    test: str
    table: Any
    arguments: Mapping[str, Any]

    def log(self) -> Mapping[str, Any]:
        """The declaration of the change log under test. Raises ``CompilationError`` if the table
        is of another kind.
        """
        return self.lake.declared.log_to_test(self.table, self.test)

    def added_rows(self, table: Any) -> str:
        """The rows that this command has added to an append-only table, to select from; all of
        them if it has not built the table, as in `dbt test`.
        """
        return self.lake.runs.added_rows(table) or str(table)

    def near_added_rows(self, places: str = "", parent: str = "") -> str | None:
        """A condition that holds for all rows at the position of a row that this command has
        added; None if it has not built the table. ``places``: the columns that make up a row's
        position.
        """
        added = self.lake.runs.added_rows(self.table)
        if added is None:
            return None
        rows = f"(select {places} from {added})" if places else added
        return near_positions(self.lake, rows, parent)
