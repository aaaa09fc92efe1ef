"""Contracts of models, checked at every run: dbt's own check only comes when a table is created."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from dbt_common.exceptions import CompilationError
from pyspark.sql.types import DataType

from dbt_lakehouse.declared.widening import is_widening


def check(
    model: str, declared: Mapping[str, Any], made: Mapping[str, str], follows: bool = False
) -> None:
    """Check the columns that a contract declares against those that the model makes.

    ``declared`` has dbt's columns by name, ``made`` the types (Spark's DDL) by name. If the model
    ``follows`` its source, types may be wider than declared. Raises ``CompilationError`` with all
    differences.
    """
    given = dict(made)
    wrong = []
    for name, column in declared.items():
        expected = str(column["data_type"])
        found = given.pop(name, None)
        if found is None:
            wrong.append(f"{name} is declared {expected}, and the model has none")
        elif not (follows and is_widening(expected.lower(), found)) and not is_same(
            found, expected
        ):
            wrong.append(f"{name} is declared {expected}, and the model makes it {found}")
    wrong += [f"{name} is made by the model, and not declared" for name in given]
    if wrong:
        raise CompilationError(
            f"This model has an enforced contract that failed. {model}: {'; '.join(wrong)}. Correct"
            " the contract in the model's yml, or the change log that declares its columns. Nothing"
            " was written"
        )


def is_same(one: str, other: str) -> bool:
    """Whether two types (Spark's DDL) are the same."""
    return one == other or _normal(one) == _normal(other)


@cache
def _normal(ddl: str) -> str:
    return DataType.fromDDL(ddl).simpleString()
