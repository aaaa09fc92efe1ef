"""The SQL of the data tests of any table, and of the rows that tests look at."""

from dbt_lakehouse.build.templates import render
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.declared.columns import quoted


def not_null_columns(of: DataTest) -> str:
    """None of the columns is ever null."""
    columns = quoted(of.arguments["columns"])
    return render("not_null_columns", rows=of.added_rows(of.table), columns=columns)


def unique_combination(of: DataTest) -> str:
    """No two rows agree in all of the columns."""
    columns = of.arguments["columns"]
    near = of.near_added_rows() if "offset" in columns else None
    return render("unique_combination", table=of.table, near=near, columns=quoted(columns))


def added_rows(of: DataTest) -> str:
    """The rows of an append-only table that its tests look at."""
    return of.added_rows(of.table)


def as_read(of: DataTest) -> str:
    """What this command has read of a table for another one (``reader``), or all that the other one
    has ever read where the command has not built it: others may add rows meanwhile.
    """
    return of.lake.runs.as_read(of.table, of.arguments["reader"])
