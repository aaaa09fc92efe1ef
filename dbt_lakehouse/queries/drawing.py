"""Rows drawn for people: as a table, or with a line for each column.

Null is ``NULL``, as DuckDB prints it, and a text that reads the same is quoted, ``'NULL'``, as
DuckDB prints it within a list. Numbers are aligned right, everything else left.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.texts import printable, shown_width

_NULL: Final = "NULL"
# Quoted ones are quoted again: no two texts look the same.
_LIKE_NULL: Final = re.compile("'*null'*", re.IGNORECASE)
_CUT: Final = "…"
# Values are shortened to this length before columns are left out: a time to its second.
_LEAST: Final = 20

encode_json: Final = msgspec.json.Encoder(decimal_format="number").encode


class Fitted(NamedTuple):
    """A table fitted to a line width."""

    text: str
    left_out: list[int]
    """The indexes of the columns for which there was no room."""


class _Column(NamedTuple):
    texts: list[str]
    """The name, then the values."""
    is_numeric: bool
    width: int


def table_text(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of complete values, as Spark draws it."""
    return fitted(names, rows, None).text


def fitted(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None,
    numeric: Sequence[bool] | None = None,
) -> Fitted:
    """A table with lines of up to ``width`` characters, None for unlimited. Long values are
    shortened, except for numbers; then columns in the middle are left out. Without ``numeric``,
    the values tell which columns are numbers.
    """
    if numeric is None:
        numeric = [_is_numeric([row[at] for row in rows]) for at in range(len(names))]
    columns = [
        _column([printable(name), *(shown(row[at]) for row in rows)], numeric[at])
        for at, name in enumerate(names)
    ]
    if width is None:
        return Fitted(_drawn(columns), [])
    columns = _shortened(columns, width)
    left, right = _kept([column.width for column in columns], width)
    left_out = [*range(left, right)]
    if left_out:
        gap = _column([_CUT] * (len(rows) + 1), is_numeric=False)
        columns = [*columns[:left], gap, *columns[right:]]
    return Fitted(_drawn(columns), left_out)


def expanded_lines(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """A line for each column of each row, as psql draws them, with complete values."""
    heads = [printable(name) for name in names]
    width = max(map(shown_width, heads))
    for number, row in enumerate(rows, 1):
        yield f"-[ RECORD {number} ]".ljust(width + len(" | "), "-")
        for head, value in zip(heads, row, strict=True):
            yield f"{_padded(head, width)} | {shown(value)}"


def shown(value: Any) -> str:
    """A value in one line for people."""
    if value is None:
        return _NULL
    text = printable(cell(value))
    return f"'{text}'" if isinstance(value, str) and _LIKE_NULL.fullmatch(text) else text


def cell(value: Any) -> str:
    """A value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    return encode_json(value).decode()


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether all values are numbers, or missing."""
    kinds = {type(value) for value in values if value not in (None, "")}
    return bool(kinds) and kinds <= {int, float, Decimal}


def _column(texts: list[str], is_numeric: bool) -> _Column:
    return _Column(texts, is_numeric, max(map(shown_width, texts)))


def _shortened(columns: Sequence[_Column], width: int) -> list[_Column]:
    """The columns as wide as this line width allows, no narrower than ``_LEAST``."""
    least = max(1, min(_LEAST, width - len(f"||{_CUT}|")))
    # A truncated number would be another number.
    floors = [
        max([least, *map(shown_width, column.texts[1:])]) if column.is_numeric else least
        for column in columns
    ]
    for most in range(width, least - 1, -1):
        widths = [
            min(column.width, max(floor, most))
            for column, floor in zip(columns, floors, strict=True)
        ]
        if _line_width(widths) <= width:
            break
    return [
        _column([_cut(text, most) for text in column.texts], column.is_numeric)
        for column, most in zip(columns, widths, strict=True)
    ]


def _kept(widths: Sequence[int], width: int) -> tuple[int, int]:
    """The bounds of the columns without room: columns are kept from both sides as long as they
    fit, at least the first.
    """
    if _line_width(widths) <= width:
        return len(widths), len(widths)
    left, right = 1, len(widths)
    is_growing = True
    while is_growing:
        is_growing = False
        for more_left, more_right in ((0, 1), (1, 0)):
            tried = left + more_left, right - more_right
            # One character stands for them.
            if _line_width([*widths[: tried[0]], 1, *widths[tried[1] :]]) <= width:
                left, right = tried
                is_growing = True
    return left, right


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(widths) + 1


def _drawn(columns: Sequence[_Column]) -> str:
    rule = "+".join(["", *("-" * column.width for column in columns), ""])
    lines = [
        "|".join(["", *texts, ""])
        for texts in zip(
            *(
                [_padded(text, column.width, to_right=column.is_numeric) for text in column.texts]
                for column in columns
            ),
            strict=True,
        )
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], *([rule] if lines[1:] else []), ""])


def _padded(text: str, width: int, *, to_right: bool = False) -> str:
    space = " " * (width - shown_width(text))
    return space + text if to_right else text + space


def _cut(text: str, width: int) -> str:
    if shown_width(text) <= width:
        return text
    end = width - 1
    while shown_width(text[:end]) >= width:
        end -= 1
    return text[:end] + _CUT
