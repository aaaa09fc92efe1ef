"""The ranges of the keys that a run touches, as arguments of its statements.

By such ranges Iceberg passes over files, and over parts of files, without any of the keys. Keys are
personal data as often as not, and dbt writes each statement to its log. So statements have markers
in the place of the values, and Spark gets the values beside the statement:

    adapter.hold_key_ranges(name, found)        keeps the ranges under that name, say two
    ... where order_id between :name_low_0 and :name_high_0
           or order_id between :name_low_1 and :name_high_1

Python has other dates, times and texts than Spark: none before the year 1 or after 9999, and what
PySpark hands over of those before 1582 is of another calendar. So an end of a range leaves Spark as
a number or as hexadecimal text, and only Spark makes a value of its type of that again.
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
    """How values of a type leave Spark, and how they are made of an argument; SQL of ``{}``."""

    leaving: str
    coming: str
    has_gaps: bool = True
    """Whether what leaves are numbers, so that it is known how far apart they are."""


# Of the types whose statistics Iceberg compares with a value as Spark does. Floats have none: NaN
# is in no statistics, and -0.0 is less than 0.0 there. (Sessions run in UTC.)
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
# New keys are often far from those that change: one range of both would have most keys in it. A gap
# counts if it is wider than all of them divided by this, so that there can be no more.
_MOST_GAPS: Final = 100
_MOST_RANGES: Final = 8
# About a second's work; more keys are in one range.
_KEYS_TO_SORT: Final = 1_000_000

Range = tuple[Any, Any]
"""The least and the greatest value; both None where there is no value."""
_ENDS: Final = ("low", "high")


class KeyRanges(NamedTuple):
    """Ranges of a column of a type."""

    type_name: str
    ranges: Sequence[Range]

    def arguments(self, name: str) -> dict[str, Argument]:
        """The ends of the ranges, by the names of their markers."""
        return {
            f"{name}_{end}_{number}": _argument(value)
            for number, ends in enumerate(self.ranges)
            for end, value in zip(_ENDS, ends, strict=True)
        }

    def sql(self, name: str) -> list[list[str]]:
        """The two ends of each range, as SQL of the markers."""
        form = _form(self.type_name)
        if form is None:
            return []
        return [
            [form.coming.format(f":{name}_{end}_{number}", type=self.type_name) for end in _ENDS]
            for number in range(len(self.ranges))
        ]


def _argument(value: Any) -> Argument:
    # A number with all of its digits, whatever its exponent.
    return format(value, "f") if isinstance(value, Decimal) else value


def _form(type_name: str) -> _Form | None:
    return next((form for types, form in _FORMS if types.fullmatch(type_name)), None)


def type_of(spark: SparkSession, relation: str, column: str) -> str:
    """The type of a relation's column. As a schema: to ask for it takes no query."""
    return spark.sql(f"select {column} from {relation}").schema[0].dataType.simpleString()


def values_sql(column: str, type_name: str, rows: int) -> str:
    """An aggregate for what ``ranges_of`` takes: an array of a column's values, all of them sorted,
    or the least and the greatest; empty if its type has no ranges, or a null array without rows.
    """
    form = _form(type_name)
    if form is None:
        return "cast(array() as array<string>)"
    if form.has_gaps and rows <= _KEYS_TO_SORT:
        return f"array_sort(collect_list({form.leaving.format(column)}))"
    least, greatest = (form.leaving.format(f"{end}({column})") for end in ("min", "max"))
    return f"array({least}, {greatest})"


def ranges_of(values: Sequence[Any]) -> list[Range]:
    """The ranges in which sorted values are, as few as have the widest gaps between them; none
    without values.
    """
    if not values:
        return []
    if not isinstance(values[0], int | Decimal) or len(values) == 2:
        return [(values[0], values[-1])]
    return _ranges(values)


def key_ranges(spark: SparkSession, relation: str, column: str, rows: int) -> KeyRanges:
    """The ranges in which the values of a relation's column are, of so many rows."""
    type_name = type_of(spark, relation, column)
    query = f"select {values_sql(column, type_name, rows)} as values from {relation}"
    return KeyRanges(
        type_name, ranges_of(spark.sql(query).toArrow().column(0).to_pylist()[0] or [])
    )


def _ranges(keys: Sequence[Any]) -> list[Range]:
    """Sorted keys as few ranges, with the widest gaps between them."""
    narrow = max(1, (keys[-1] - keys[0]) / _MOST_GAPS)
    gaps = ((after - before, place) for place, (before, after) in enumerate(pairwise(keys), 1))
    widest = nlargest(_MOST_RANGES - 1, (gap for gap in gaps if gap[0] > narrow))
    cuts = [0, *sorted(place for _, place in widest), len(keys)]
    return [(keys[start], keys[end - 1]) for start, end in pairwise(cuts)]
