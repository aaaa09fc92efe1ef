"""The range of the keys that a run touches, as parameters of its statements.

By such a range Iceberg passes over files, and over parts of files, without any of the keys. Keys
are personal data as often as not, and dbt writes each statement to its log. So statements have
markers in the place of the values, and Spark gets the values beside the statement:

    adapter.hold_key_range(name, relation, column)     keeps the range, under that name
    ... where order_id between :name_low and :name_high
"""

import re
from typing import Any, Final

from dbt.adapters.base.meta import available
from dbt.adapters.spark.impl import SparkAdapter
from pyspark.sql import SparkSession

# Types whose statistics Iceberg can compare with a value.
_WITH_RANGE: Final = re.compile(r"tinyint|smallint|int|bigint|decimal\(.*|string|date|timestamp")
_MARKER: Final = re.compile(r":(\w+_(?:low|high))\b")
# The values, by the names of their markers.
_held: Final[dict[str, Any]] = {}


def hold_key_range(_: object, name: str, relation: str, column: str) -> bool:
    """Keep the least and the greatest value that the column has in a relation, as ``:name_low`` and
    ``:name_high`` of the statements that follow; whether its type has a range.
    """
    spark = SparkSession.builder.getOrCreate()
    found = spark.sql(f"select min({column}), max({column}) from {relation}")
    if _WITH_RANGE.fullmatch(found.schema[0].dataType.simpleString()) is None:
        return False
    (row,) = found.collect()
    _held[f"{name}_low"], _held[f"{name}_high"] = row
    return True


def arguments_of(sql: str) -> dict[str, Any]:
    """The values of the markers in a statement."""
    return {name: _held[name] for name in _MARKER.findall(sql) if name in _held}


def offer_to_macros() -> None:
    """Make the method known to macros, as a method of dbt-spark's adapter; and forget what earlier
    commands of this process have held.
    """
    _held.clear()
    adapter: Any = SparkAdapter
    adapter.hold_key_range = available(hold_key_range)
    adapter._available_ |= {hold_key_range.__name__}
