"""The SQL of the data tests of any table, and of the rows that tests check."""

from dbt_lakehouse.build.templates import render
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.declared.columns import quoted


def not_null_columns(of: DataTest) -> str:
    """Selects rows with a null in one of the columns."""
    columns = quoted(of.arguments["columns"])
    return render("not_null_columns", rows=of.added_rows(of.table), columns=columns)


def unique_combination(of: DataTest) -> str:
    """Selects rows that agree in all of the columns with another row."""
    columns = of.arguments["columns"]
    near = of.near_added_rows() if "offset" in columns else None
    return render("unique_combination", table=of.table, near=near, columns=quoted(columns))


def added_rows(of: DataTest) -> str:
    """The rows of an append-only table that its tests check."""
    return of.added_rows(of.table)


def as_read(of: DataTest) -> str:
    """The rows that this command has read of a table for another one (``reader``). If the command
    has not built the reader, all that it has ever read: other writers may add rows meanwhile.
    """
    return of.lake.runs.as_read(of.table, of.arguments["reader"])
