"""Contracts of models, held at every run: dbt's own check comes with a table's creation only."""

from collections.abc import Mapping
from typing import Any

from dbt_common.exceptions import CompilationError
from pyspark.sql.types import DataType, StructType


def check(model: str, declared: Mapping[str, Any], made: StructType) -> None:
    """Hold the columns that a contract declares against those that the model makes.

    ``declared`` has dbt's columns by name. Raises ``CompilationError`` with all differences.
    """
    given = {field.name: field.dataType for field in made.fields}
    wrong = []
    for name, column in declared.items():
        expected = _type(str(column["data_type"]))
        found = given.pop(name, None)
        if found is None:
            wrong.append(f"{name} is declared {expected.simpleString()}, and the model has none")
        elif "void" != found.simpleString() != expected.simpleString():
            wrong.append(
                f"{name} is declared {expected.simpleString()}, and the model makes it"
                f" {found.simpleString()}"
            )
    wrong += [f"{name} is made by the model, and not declared" for name in given]
    if wrong:
        raise CompilationError(
            f"This model has an enforced contract that failed. {model}: {'; '.join(wrong)}. Correct"
            " the contract in the model's yml, or the change log that declares its columns. Nothing"
            " was written"
        )


def _type(ddl: str) -> DataType:
    return DataType.fromDDL(ddl)
