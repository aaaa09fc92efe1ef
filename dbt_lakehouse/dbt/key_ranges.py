"""The ranges of the keys that a run touches, as arguments of its statements.

By such ranges Iceberg passes over files, and over parts of files, without any of the keys. Keys are
personal data as often as not, and dbt writes each statement to its log. So statements have markers
in the place of the values, and Spark gets the values beside the statement:

    adapter.hold_key_ranges(name, relation, column)     keeps the ranges under that name, say two
    ... where order_id between :name_low_0 and :name_high_0
           or order_id between :name_low_1 and :name_high_1
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from heapq import nlargest
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import SparkSession

# Types whose statistics Iceberg can compare with a value.
_NUMERIC: Final = re.compile(r"tinyint|smallint|int|bigint|decimal\(.*")
_WITH_RANGE: Final = re.compile(r"string|date|timestamp")
# New keys are often far from those that change: one range of both would have most keys in it. A gap
# counts if it is wider than all of them divided by this, so that there can be no more.
_MOST_GAPS: Final = 100
_MOST_RANGES: Final = 8
# About a second's work; more keys are in one range.
_KEYS_TO_SORT: Final = 1_000_000

Range = tuple[Any, Any]
"""The least and the greatest value; both None where there is no value."""


def values_sql(spark: SparkSession, relation: str, column: str, rows: int) -> str:
    """An aggregate for what ``ranges_of`` takes: an array of a column's values, all of them sorted,
    or the least and the greatest; empty if its type has no ranges, or a null array without rows.
    """
    # As a schema: to ask for a column's type takes no query.
    type_name = spark.sql(f"select {column} from {relation}").schema[0].dataType.simpleString()
    is_numeric = _NUMERIC.fullmatch(type_name) is not None
    if not is_numeric and _WITH_RANGE.fullmatch(type_name) is None:
        return f"cast(array() as array<{type_name}>)"
    if is_numeric and rows <= _KEYS_TO_SORT:
        return f"array_sort(collect_list({column}))"
    return f"array(min({column}), max({column}))"


def ranges_of(values: Sequence[Any]) -> list[Range]:
    """The ranges in which sorted values are, as few as have the widest gaps between them; none
    without values.
    """
    if not values:
        return []
    if not isinstance(values[0], int | Decimal) or len(values) == 2:
        return [(values[0], values[-1])]
    return _ranges(values)


def key_ranges(spark: SparkSession, relation: str, column: str, rows: int) -> list[Range]:
    """The ranges in which the values of a relation's column are, of so many rows."""
    query = f"select {values_sql(spark, relation, column, rows)} as values from {relation}"
    return ranges_of(spark.sql(query).toArrow().column(0).to_pylist()[0] or [])


def arguments_of(name: str, ranges: Sequence[Range]) -> dict[str, Any]:
    """The ends of the ranges, by the names of their markers."""
    arguments = {}
    for number, (least, most) in enumerate(ranges):
        arguments[f"{name}_low_{number}"] = least
        arguments[f"{name}_high_{number}"] = most
    return arguments


def _ranges(keys: Sequence[Any]) -> list[Range]:
    """Sorted keys as few ranges, with the widest gaps between them."""
    narrow = max(1, (keys[-1] - keys[0]) / _MOST_GAPS)
    gaps = ((after - before, place) for place, (before, after) in enumerate(pairwise(keys), 1))
    widest = nlargest(_MOST_RANGES - 1, (gap for gap in gaps if gap[0] > narrow))
    cuts = [0, *sorted(place for _, place in widest), len(keys)]
    return [(keys[start], keys[end - 1]) for start, end in pairwise(cuts)]
