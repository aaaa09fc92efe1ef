"""Rows of a query as text and as files: drawn for people, CSV, JSON lines, Parquet."""

import base64
import io
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.queries.drawing import cell, encode_json, expanded_lines, fitted
from dbt_lakehouse.texts import counted, date_text, wall_text

# A small batch, so that the first rows are there soon.
_BATCH: Final = 2_000
# The default number of rows for people.
_ROWS: Final = 1_000

# Digits of a second's fraction, by Arrow's names of units.
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}

Write = Callable[[bytes], object]
_Convert = Callable[[Any], Any]


class Screen(NamedTuple):
    """The screen for rows, and how to show more."""

    width: int | None = None
    """The characters of a line; None for unlimited."""
    more_rows: str = "--limit"
    more_columns: str = "--expanded"


UNBOUNDED: Final = Screen()


class Rows:
    """The rows of a query, up to ``limit``."""

    def __init__(self, result: DuckDBPyConnection, limit: int | None = None) -> None:
        self._reader: Final = result.to_arrow_reader(_BATCH)
        self.limit: Final = limit
        self.names: Final = _different(self._reader.schema.names)
        """The names of the columns, without duplicates."""

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types."""
        fields = zip(self._reader.schema, self.names, strict=True)
        return pa.schema([field.with_name(name) for field, name in fields])

    @property
    def numeric(self) -> list[bool]:
        """Whether each column is numeric."""
        return [_is_number(kind) for kind in self._reader.schema.types]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come."""
        left = math.inf if self.limit is None else self.limit
        while left > 0 and (batch := next(self._reader, None)) is not None:
            part = batch if batch.num_rows <= left else batch.slice(0, int(left))
            left -= part.num_rows
            yield pa.RecordBatch.from_arrays(part.columns, schema=self.schema)

    def values(self) -> Iterator[tuple[Any, ...]]:
        """The rows as values that JSON has too, and decimals."""
        for batch in self.batches():
            yield from zip(*map(_values, batch.columns), strict=True)


def write_table(rows: Rows, write: Write, screen: Screen) -> None:
    """Write a table for people, as wide as the screen, with the number of rows."""
    found, told = _first(rows, screen)
    text, left_out = fitted(rows.names, found, screen.width, rows.numeric)
    write(text.encode())
    if left_out:
        every = counted(len(rows.names), "column")
        write(
            f"{len(rows.names) - len(left_out):,} of {every} are shown: see all with"
            f" {screen.more_columns}, or name columns in the query\n".encode()
        )
    write(f"{told}\n".encode())


def write_expanded(rows: Rows, write: Write, screen: Screen) -> None:
    """Write a line for each column, complete, with the number of rows."""
    found, told = _first(rows, screen)
    for line in expanded_lines(rows.names, found):
        write(f"{line}\n".encode())
    write(f"{told}\n".encode())


def _first(rows: Rows, screen: Screen) -> tuple[list[tuple[Any, ...]], str]:
    """The rows to show, and a line with their number."""
    most = _ROWS if rows.limit is None else rows.limit
    found = list(islice(rows.values(), most + 1))
    more = f"; there are more: {screen.more_rows}" if len(found) > most else ""
    return found[:most], f"{counted(min(len(found), most), 'row')}{more}"


def write_csv(rows: Rows, write: Write) -> None:
    """Write CSV with a header: null is nothing, an empty text is quoted."""
    write(_csv_line(rows.names))
    for row in rows.values():
        write(_csv_line([None if value is None else cell(value) for value in row]))


def write_json(rows: Rows, write: Write) -> None:
    """Write JSON, a line for each row."""
    for row in rows.values():
        write(encode_json(dict(zip(rows.names, row, strict=True))) + b"\n")


def write_parquet(rows: Rows, write: Write) -> None:
    """Write a Parquet file."""
    from pyarrow import parquet

    try:
        with parquet.ParquetWriter(_Sink(write), rows.schema) as writer:
            for batch in rows.batches():
                writer.write_batch(batch)
    except pa.ArrowNotImplementedError as error:
        raise ConfigurationError(f"that can't be written as Parquet: {error}") from error


_PICTURES: Final[dict[str, Callable[[Rows, Write, Screen], None]]] = {
    "table": write_table,
    "expanded": write_expanded,
}
_WRITERS: Final[dict[str, Callable[[Rows, Write], None]]] = {
    "csv": write_csv,
    "json": write_json,
    "parquet": write_parquet,
}
FORMS: Final = (*_PICTURES, *_WRITERS)
"""The output forms of rows."""


def write_rows(rows: Rows, form: str, write: Write, screen: Screen = UNBOUNDED) -> None:
    """Write rows in one of ``FORMS``."""
    if form in _PICTURES:
        _PICTURES[form](rows, write, screen)
    else:
        _WRITERS[form](rows, write)


def _csv_line(values: Sequence[str | None]) -> bytes:
    texts = ("" if value is None else _csv_text(value) for value in values)
    return (",".join(texts) + "\n").encode()


def _csv_text(value: str) -> str:
    if value and not any(mark in value for mark in ',"\r\n'):
        return value
    return '"' + value.replace('"', '""') + '"'


def _different(names: Sequence[str]) -> list[str]:
    """The names, with a number appended to duplicates."""
    given: list[str] = []
    for name in names:
        free, number = name, 0
        while free in given:
            number += 1
            free = f"{name}_{number}"
        given.append(free)
    return given


# --- Values ---------------------------------------------------------------------------------------


def _values(column: pa.Array) -> list[Any]:
    """A column's values, converted by ``_plain``."""
    plain = _plain(column.type)
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        # Years outside of Python's range.
        plain = _plain(column.type, counted=True)
        values = column.cast(_counts(column.type)).to_pylist()
    return [None if value is None else plain(value) for value in values]


def _counts(kind: pa.DataType) -> pa.DataType:
    """A type with numbers in place of days and times."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([field.with_type(_counts(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_counts(kind.key_type), _counts(kind.item_type))
    if types.is_list(kind):
        return pa.list_(_counts(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_counts(kind.value_type), kind.list_size)
    if types.is_date32(kind):
        return pa.int32()
    return pa.int64() if types.is_timestamp(kind) else kind


def _plain(kind: pa.DataType, *, counted: bool = False) -> _Convert:
    """A conversion of Arrow's values to values that JSON has too: times become texts, binary
    becomes base64, and a map with keys other than texts a list of pairs. With ``counted``, days
    and times are numbers, as in ``_counts``.
    """
    types = pa.types
    inner = partial(_plain, counted=counted)
    if types.is_struct(kind):
        return partial(_plain_struct, {field.name: inner(field.type) for field in kind})
    if types.is_map(kind):
        convert = inner(kind.key_type), inner(kind.item_type)
        return partial(_plain_map, types.is_string(kind.key_type), *convert)
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return partial(_plain_list, inner(kind.value_type))
    if counted and types.is_date32(kind):
        return date_text
    if counted and types.is_timestamp(kind):
        return partial(_counted_time, _DIGITS[kind.unit], "Z" if kind.tz else "")
    if types.is_timestamp(kind):
        return _instant if kind.tz else _wall_time
    if types.is_floating(kind):
        return _number
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _base64
    if _is_number(kind) or types.is_boolean(kind):
        return _same
    return str


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _same(value: Any) -> Any:
    return value


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _wall_time(value: datetime) -> str:
    text = value.isoformat()
    return text.rstrip("0") if value.microsecond else text


def _instant(value: datetime) -> str:
    return _wall_time(value.replace(tzinfo=None)) + "Z"


def _counted_time(digits: int, zone: str, value: int) -> str:
    return wall_text(value, digits) + zone


def _plain_list(convert: _Convert, value: list[Any]) -> list[Any]:
    return [None if each is None else convert(each) for each in value]


def _plain_struct(convert: dict[str, _Convert], value: dict[str, Any]) -> dict[str, Any]:
    return {name: None if each is None else convert[name](each) for name, each in value.items()}


def _plain_map(
    is_object: bool, key: _Convert, item: _Convert, value: list[tuple[Any, Any]]
) -> dict[str, Any] | list[list[Any]]:
    pairs = [[key(name), None if each is None else item(each)] for name, each in value]
    return dict(pairs) if is_object else pairs


class _Sink(io.RawIOBase):
    """A file that is written sequentially."""

    def __init__(self, write: Write) -> None:
        self._write: Final = write
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, block: Any) -> int:
        data = bytes(block)
        self._write(data)
        self._position += len(data)
        return len(data)
