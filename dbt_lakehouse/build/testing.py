"""A data test that dbt compiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt_lakehouse.build.compiling import Compiled, near_positions


@dataclass(frozen=True, slots=True)
class DataTest(Compiled):
    """A data test, by its name and its arguments, of a table; what dbt gives a generic test with a
    condition (``where``) in place of that is a query in parentheses.
    """

    test: str
    table: Any
    arguments: Mapping[str, Any]

    def log(self) -> Mapping[str, Any]:
        """The declaration of the change log that it is of. Raises ``CompilationError`` if the table
        is of another kind.
        """
        return self.lake.declared.log_to_test(self.table, self.test)

    def added_rows(self, table: Any) -> str:
        """The rows of an append-only table that this command has added to it, or all of them where
        it has not, as in `dbt test`; to select from.
        """
        return self.lake.runs.added_rows(table) or str(table)

    def near_added_rows(self, places: str = "", parent: str = "") -> str | None:
        """A condition that holds for all rows with the position of one that this command has added,
        None if it has not. ``places``: the columns of the rows that make their position.
        """
        added = self.lake.runs.added_rows(self.table)
        if added is None:
            return None
        rows = f"(select {places} from {added})" if places else added
        return near_positions(self.lake, rows, parent)
