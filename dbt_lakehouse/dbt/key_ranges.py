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
# Of a first load's files. A file costs each later run about as much as to read so many keys.
_KEYS_OF_A_FILE: Final = 50_000
_CHANGES_OF_A_TASK: Final = 1_000_000

Range = tuple[Any, Any]
"""The least and the greatest value; both None where there is no value."""


def key_ranges(spark: SparkSession, relation: str, column: str) -> list[Range]:
    """The ranges in which the values of a relation's column are; none if its type has none."""
    found = spark.sql(f"select {column} from {relation} where {column} is not null")
    type_name = found.schema[0].dataType.simpleString()
    is_numeric = _NUMERIC.fullmatch(type_name) is not None
    if not is_numeric and _WITH_RANGE.fullmatch(type_name) is None:
        return []
    # As rows, or by Spark's own aggregation in two jobs, it takes several times as long.
    if is_numeric and found.count() <= _KEYS_TO_SORT:
        return _ranges(sorted(found.toArrow().column(0).to_pylist()))
    least, most = found.selectExpr(f"min({column})", f"max({column})").collect()[0]
    return [(least, most)]


def arguments_of(name: str, ranges: Sequence[Range]) -> dict[str, Any]:
    """The ends of the ranges, by the names of their markers."""
    arguments = {}
    for number, (least, most) in enumerate(ranges):
        arguments[f"{name}_low_{number}"] = least
        arguments[f"{name}_high_{number}"] = most
    return arguments


def ranges_to_write(spark: SparkSession, log: str, key: Sequence[str]) -> int:
    """How many ranges of keys, and files, a table should be written in: by the keys of its log (a
    relation), and not by the number of their changes as long as a task can sort those. Little is
    one; all else has a range for each core.
    """
    changes = keys = int(spark.sql(f"select count(*) from {log}").collect()[0][0])
    if changes > _CHANGES_OF_A_TASK:
        distinct = f"approx_count_distinct(xxhash64({', '.join(key)}))"
        keys = int(spark.sql(f"select {distinct} from {log}").collect()[0][0])
    ranges = max(-(-keys // _KEYS_OF_A_FILE), -(-changes // _CHANGES_OF_A_TASK), 1)
    return ranges if ranges == 1 else max(ranges, spark.sparkContext.defaultParallelism)


def _ranges(keys: Sequence[Any]) -> list[Range]:
    """Sorted keys as few ranges, with the widest gaps between them."""
    if not keys:
        return [(None, None)]
    narrow = max(1, (keys[-1] - keys[0]) / _MOST_GAPS)
    gaps = ((after - before, place) for place, (before, after) in enumerate(pairwise(keys), 1))
    widest = nlargest(_MOST_RANGES - 1, (gap for gap in gaps if gap[0] > narrow))
    cuts = [0, *sorted(place for _, place in widest), len(keys)]
    return [(keys[start], keys[end - 1]) for start, end in pairwise(cuts)]
