"""Contracts of models, checked at every run: dbt's own check only comes when a table is created."""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from dbt_common.exceptions import CompilationError
from pyspark.sql.types import DataType

from dbt_lakehouse.declared.widening import is_widening

_REMEDY: Final = (
    "Correct the contract in the model's yml, or the change log that declares its columns"
)
_SCALARS: Final = frozenset(
    {
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz"),
    }
)
# Spark's own other names of them.
_OTHER_NAMES: Final = MappingProxyType(
    {
        "byte": "tinyint",
        "short": "smallint",
        "integer": "int",
        "long": "bigint",
        "real": "float",
        "dec": "decimal",
        "numeric": "decimal",
        "timestamp_ltz": "timestamp",
    }
)


def check(
    model: str, declared: Mapping[str, Any], made: Mapping[str, str], follows: bool = False
) -> None:
    """Check the columns that a contract declares against those that the model makes.

    ``declared`` has dbt's columns by name, ``made`` the types (Spark's DDL) by name. If the model
    ``follows`` its source, types may be wider than declared. Raises ``CompilationError`` with all
    differences.
    """

    def differ(expected: str, found: str) -> bool:
        follows_it = follows and is_widening(expected.lower(), found)
        return not follows_it and not is_same(found, expected)

    wrong = _differences(declared, made, differ)
    if wrong:
        raise CompilationError(
            f"This model has an enforced contract that failed. {model}: {'; '.join(wrong)}."
            f" {_REMEDY}. Nothing was written"
        )


def foreseen(
    model: str, declared: Mapping[str, Any], made: Mapping[str, str], follows: bool = False
) -> str | None:
    """A sentence about the differences for which ``check`` will raise, as far as that is certain
    without Spark and the lake; None if none is.
    """

    def differ(expected: str, found: str) -> bool:
        plain = _plain(expected), _plain(found)
        return not follows and None not in plain and plain[0] != plain[1]

    wrong = _differences(declared, made, differ)
    if not wrong:
        return None
    return f"the contract of {model} does not fit, and will stop it: {'; '.join(wrong)}. {_REMEDY}"


def _differences(
    declared: Mapping[str, Any], made: Mapping[str, str], differ: Callable[[str, str], bool]
) -> list[str]:
    given = dict(made)
    wrong = []
    for name, column in declared.items():
        expected = str(column["data_type"])
        found = given.pop(name, None)
        if found is None:
            wrong.append(f"{name} is declared {expected}, and the model has none")
        elif differ(expected, found):
            wrong.append(f"{name} is declared {expected}, and the model makes it {found}")
    return wrong + [f"{name} is made by the model, and not declared" for name in given]


def _plain(ddl: str) -> str | None:
    """A scalar type under its first name; None for another type, which takes Spark to read."""
    text = "".join(ddl.lower().split())
    name, _, parameters = text.partition("(")
    name = _OTHER_NAMES.get(name, name)
    if name not in _SCALARS or (parameters and name != "decimal"):
        return None
    return f"{name}({parameters or '10,0)'}" if name == "decimal" else name


def is_same(one: str, other: str) -> bool:
    """Whether two types (Spark's DDL) are the same."""
    return one == other or _normal(one) == _normal(other)


@cache
def _normal(ddl: str) -> str:
    return DataType.fromDDL(ddl).simpleString()
