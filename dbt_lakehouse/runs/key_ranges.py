"""The ranges of the keys that a run touches, as arguments of its statements.

With such ranges Iceberg skips files, and row groups of files, without any of the keys. Keys are
often personal data, and dbt writes each statement to its log. So statements have parameter
markers, and Spark gets the values beside the statement:

    lake.sql.hold_key_ranges(name, found)       keeps the ranges under that name, say two
    ... where order_id between :name_low_0 and :name_high_0
           or order_id between :name_low_1 and :name_high_1

Python's dates, times and texts differ from Spark's: they lack years before 1 and after 9999, and
PySpark uses another calendar for dates before 1582. So a bound leaves Spark as a number or as
hexadecimal text, and only Spark turns it back into a value of its type.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from heapq import nlargest
from itertools import pairwise
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.session.pool import Argument


class _Form(NamedTuple):
    """How values of a type leave Spark, and how an argument becomes a value again; SQL templates
    with ``{}``.
    """

    leaving: str
    coming: str
    has_gaps: bool = True
    """Whether values leave as numbers, so that gaps between them are known."""


# The types whose statistics Iceberg compares as Spark compares values. Floats are not among them:
# NaN is in no statistics, and -0.0 is less than 0.0 there. (Sessions run in UTC.)
_FORMS: Final = (
    (re.compile(r"tinyint|smallint|int|bigint"), _Form("{}", "{}")),
    (re.compile(r"decimal\(.*"), _Form("{}", "cast({} as {type})")),
    (re.compile(r"date"), _Form("unix_date({})", "date_from_unix_date({})")),
    (re.compile(r"timestamp"), _Form("unix_micros({})", "timestamp_micros({})")),
    (
        re.compile(r"timestamp_ntz"),
        _Form("unix_micros(cast({} as timestamp))", "cast(timestamp_micros({}) as {type})"),
    ),
    (re.compile(r"string"), _Form("hex({})", "cast(unhex({}) as {type})", has_gaps=False)),
)
# New keys are often far from changed ones, and one range of both would include most keys. A gap
# counts if it is wider than the whole span divided by this, which limits their number.
_MOST_GAPS: Final = 100
_MOST_RANGES: Final = 8
# Sorting takes about a second; of more keys only one range is made.
_KEYS_TO_SORT: Final = 1_000_000

Range = tuple[Any, Any]
"""The least and the greatest value; both None for the null values."""
_ENDS: Final = ("low", "high")


class KeyRanges(NamedTuple):
    """Ranges of a column."""

    type_name: str
    ranges: Sequence[Range]

    def arguments(self, name: str) -> dict[str, Argument]:
        """The bounds of the ranges, by the names of their markers."""
        return {
            f"{name}_{end}_{number}": _argument(value)
            for number, ends in enumerate(self.ranges)
            for end, value in zip(_ENDS, ends, strict=True)
        }

    def sql(self, name: str) -> list[list[str]]:
        """The two bounds of each range, as SQL with the markers."""
        form = _form(self.type_name)
        if form is None:
            return []
        return [
            [form.coming.format(f":{name}_{end}_{number}", type=self.type_name) for end in _ENDS]
            for number in range(len(self.ranges))
        ]


def _argument(value: Any) -> Argument:
    # A decimal with all of its digits, whatever its exponent.
    return format(value, "f") if isinstance(value, Decimal) else value


def _form(type_name: str) -> _Form | None:
    return next((form for types, form in _FORMS if types.fullmatch(type_name)), None)


def type_of(spark: SparkSession, relation: str, column: str) -> str:
    """The type of a relation's column, from its schema, which takes no Spark job."""
    return spark.sql(f"select {column} from {relation}").schema[0].dataType.simpleString()


def values_sql(column: str, type_name: str, rows: int) -> str:
    """An aggregate for the input of ``ranges_of``: an array of a column's values, all of them
    sorted, or only the least and the greatest; empty if its type has no ranges, null without
    rows.
    """
    form = _form(type_name)
    if form is None:
        return "cast(array() as array<string>)"
    if form.has_gaps and rows <= _KEYS_TO_SORT:
        return f"array_sort(collect_list({form.leaving.format(column)}))"
    least, greatest = (form.leaving.format(f"{end}({column})") for end in ("min", "max"))
    return f"array({least}, {greatest})"


def ranges_of(values: Sequence[Any]) -> list[Range]:
    """The ranges of sorted values, split at their widest gaps; empty without values."""
    if not values:
        return []
    if not isinstance(values[0], int | Decimal) or len(values) == 2:
        return [(values[0], values[-1])]
    return _ranges(values)


def key_ranges(spark: SparkSession, relation: str, column: str, rows: int) -> KeyRanges:
    """The ranges of a relation's column with ``rows`` rows."""
    type_name = type_of(spark, relation, column)
    query = f"select {values_sql(column, type_name, rows)} as values from {relation}"
    return KeyRanges(
        type_name, ranges_of(spark.sql(query).toArrow().column(0).to_pylist()[0] or [])
    )


def _ranges(keys: Sequence[Any]) -> list[Range]:
    """Sorted keys as few ranges, split at their widest gaps."""
    narrow = max(1, (keys[-1] - keys[0]) / _MOST_GAPS)
    gaps = ((after - before, place) for place, (before, after) in enumerate(pairwise(keys), 1))
    widest = nlargest(_MOST_RANGES - 1, (gap for gap in gaps if gap[0] > narrow))
    cuts = [0, *sorted(place for _, place in widest), len(keys)]
    return [(keys[start], keys[end - 1]) for start, end in pairwise(cuts)]
