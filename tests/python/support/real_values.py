"""Values of real sources: what a column holds, and how gold's value of it is read to be compared.

Source and gold are compared as plain Python values, whatever JSON, SQL or Arrow make of them:

| kind | a value is |
|---|---|
| WHOLE | int |
| NUMBER | Decimal |
| SINGLE, DOUBLE | float |
| BOOLEAN, TEXT, LABEL | bool, str |
| BINARY | bytes |
| BITS | int |
| DATE, LOCAL | date, datetime without a zone |
| INSTANT | datetime with one |
| TIME | timedelta: MariaDB's are negative, and longer than a day |
| JSON | what the text says, numbers as Decimal |
| SPAN | Decimal, an interval's seconds |
| LIST | list of the values of its elements |
"""

import base64
import json
import math
import re
from collections.abc import Callable, Collection
from ctypes import c_float
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final

_TIME: Final = re.compile(r"(-?)([0-9]+):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?")
_EPOCH: Final = datetime(1970, 1, 1)


class Kind(Enum):
    """What the values of a column are."""

    WHOLE = auto()
    NUMBER = auto()
    SINGLE = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    TEXT = auto()
    LABEL = auto()
    BINARY = auto()
    BITS = auto()
    DATE = auto()
    TIME = auto()
    LOCAL = auto()
    INSTANT = auto()
    JSON = auto()
    SPAN = auto()
    LIST = auto()


@dataclass(frozen=True)
class Column:
    """A column of a source table."""

    kind: Kind
    digits: int | None = None
    """Of a number behind its point, of a time behind its second; None for any number of them."""
    elements: Kind | None = None
    """Of a list."""
    nullable: bool = True
    default: Any = None
    is_generated: bool = False
    """Whether the source works it out, and its log lacks it."""

    @property
    def part(self) -> "Column":
        """An element of a list."""
        assert self.elements is not None
        return Column(self.elements)


@dataclass(frozen=True)
class Table:
    """A source table. Without ``key`` it has none."""

    columns: dict[str, Column]
    key: tuple[str, ...] = ()

    def without(self, left_out: Collection[str]) -> "Table":
        """The table as a connector sees it that leaves columns out."""
        columns = {name: each for name, each in self.columns.items() if name not in left_out}
        return replace(self, columns=columns)


Reader = Callable[[Any, Column], Any]
"""Gold's value as a plain one. A value of an unexpected type comes back as it is."""


def is_same(gold: Any, source: Any, kind: Kind) -> bool:
    """Whether two plain values of a kind are the same one."""
    if gold is None or source is None or type(gold) is not type(source):
        return gold is source
    if isinstance(source, float):
        if kind is Kind.SINGLE:
            # The source says its nearest double, a connector its shortest text.
            gold, source = c_float(gold).value, c_float(source).value
        return (math.isnan(gold) and math.isnan(source)) or gold == source
    return bool(gold == source)


def json_value(text: str) -> Any:
    """What a text of JSON says, no digit lost."""
    return json.loads(text, parse_float=Decimal)


def span(text: str) -> timedelta | None:
    """A time of day, or a longer one; None for other text."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = int((fraction or "").ljust(6, "0")[:6])
    time = timedelta(0, int(seconds), micros, 0, int(minutes), int(hours))
    return -time if sign else time


def seconds(text: str) -> Decimal:
    """Those of an interval in ISO 8601 of hours, minutes and seconds."""
    hours, _, rest = text.removeprefix("PT").partition("H")
    minutes, _, rest = rest.partition("M")
    return Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(rest.removesuffix("S"))


# --- Messages with a schema block, and the connector's defaults -----------------------------------


def _as_it_is(value: Any, _: Column) -> Any:
    return value


def _whole(value: Any, _: Column) -> Any:
    # An unsigned bigint is a decimal(20,0).
    return int(value) if type(value) is Decimal and value == int(value) else value


def _number(value: Any, column: Column) -> Any:
    # No type but text holds a number of any scale, or of more than 38 digits.
    is_text = type(value) is str and (column.digits is None or column.digits > 20)
    return Decimal(value) if is_text else value


def _bits(value: Any, _: Column) -> Any:
    return int.from_bytes(value, "little") if type(value) is bytes else value


def _local(value: Any, _: Column) -> Any:
    return value if type(value) is datetime and value.tzinfo is None else ("instant", value)


def _instant(value: Any, _: Column) -> Any:
    return value if type(value) is datetime and value.tzinfo is not None else ("local", value)


def _time(value: Any, _: Column) -> Any:
    return span(value) if type(value) is str else value


def _json(value: Any, _: Column) -> Any:
    return json_value(value) if type(value) is str else value


def _seconds(value: Any, _: Column) -> Any:
    return seconds(value) if type(value) is str else value


def _list(value: Any, column: Column) -> Any:
    # No type but text holds numbers of any scale.
    if type(value) is str and column.elements is Kind.NUMBER:
        return json.loads(value, parse_float=Decimal, parse_int=Decimal)
    return value


READERS: Final[dict[Kind, Reader]] = {
    **dict.fromkeys(Kind, _as_it_is),
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.BITS: _bits,
    Kind.LOCAL: _local,
    Kind.INSTANT: _instant,
    Kind.TIME: _time,
    Kind.JSON: _json,
    Kind.SPAN: _seconds,
    Kind.LIST: _list,
}


# --- Messages without a schema block: values stay as they were sent -------------------------------


def _whole_as_sent(value: Any, _: Column) -> Any:
    return int(value)


def number_of_text(value: Any, _: Column) -> Any:
    """A decimal that is shipped as text."""
    return Decimal(value) if type(value) is str else value


def _number_as_sent(value: Any, _: Column) -> Any:
    if type(value) is str and value.startswith("{"):
        value = json.loads(value)
    if type(value) is not dict:
        return Decimal(str(value))
    # One that brings its scale.
    unscaled = base64.b64decode(value["value"], validate=True)
    # By its text, for no digit is lost so.
    return Decimal(f"{int.from_bytes(unscaled, 'big', signed=True)}E{-value['scale']}")


def _float_as_sent(value: Any, _: Column) -> Any:
    return float(value)


def _binary_as_sent(value: Any, _: Column) -> Any:
    return base64.b64decode(value, validate=True) if type(value) is str else value


def _bits_as_sent(value: Any, column: Column) -> Any:
    return _bits(_binary_as_sent(value, column), column)


def _date_as_sent(value: Any, _: Column) -> Any:
    return date.fromordinal(_EPOCH.toordinal() + int(value))


def _time_as_sent(value: Any, _: Column) -> Any:
    return timedelta(microseconds=int(value))


def _local_as_sent(value: Any, column: Column) -> Any:
    micros = 1 if column.digits is None or column.digits > 3 else 1000
    return _EPOCH + timedelta(microseconds=int(value) * micros)


def _instant_as_sent(value: Any, _: Column) -> Any:
    return datetime.fromisoformat(value) if type(value) is str else value


def _seconds_as_sent(value: Any, _: Column) -> Any:
    return Decimal(int(value)) / 10**6


def _list_as_sent(value: Any, _: Column) -> Any:
    return json_value(value) if type(value) is str else value


AS_SENT: Final[dict[Kind, Reader]] = {
    Kind.WHOLE: _whole_as_sent,
    Kind.NUMBER: _number_as_sent,
    Kind.SINGLE: _float_as_sent,
    Kind.DOUBLE: _float_as_sent,
    Kind.BINARY: _binary_as_sent,
    Kind.BITS: _bits_as_sent,
    Kind.DATE: _date_as_sent,
    Kind.TIME: _time_as_sent,
    Kind.LOCAL: _local_as_sent,
    Kind.INSTANT: _instant_as_sent,
    Kind.SPAN: _seconds_as_sent,
    Kind.LIST: _list_as_sent,
}


def listed_label(value: Any) -> Any:
    """A label of an ENUM as the connector of MariaDB has it in its list, which stands in the schema
    block.
    """
    return value.replace(",", "\\,")


# --- Other modes ----------------------------------------------------------------------------------


def binary_of_base64(value: Any, column: Column) -> Any:
    """Bytes that are shipped as base64, declared as text."""
    return _binary_as_sent(value, column) if type(value) is str else ("binary", value)


def binary_of_hex(value: Any, _: Column) -> Any:
    """Bytes that are shipped as hex."""
    return bytes.fromhex(value) if type(value) is str else value


def local_of_instant(value: Any, _: Column) -> Any:
    """A local time that is shipped as an instant, as Connect's own type is."""
    if type(value) is datetime and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return ("local", value)


def days_span(value: Any, _: Column) -> Any:
    """An interval of ISO 8601, of days and less."""
    if type(value) is not str:
        return value
    days, clock = value.removeprefix("P0Y0M").split("DT")
    return Decimal(days) * 86_400 + seconds(f"PT{clock}")


def as_double(value: Any) -> Any:
    """What a double has of a decimal."""
    return float(value)


def to_millis(value: Any) -> Any:
    """What milliseconds have of a moment."""
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def millis_of_day(value: Any) -> Any:
    """What milliseconds have of a time of day; of another time, nothing."""
    is_of_day = timedelta() <= value <= timedelta(days=1)
    return value // timedelta(milliseconds=1) * timedelta(milliseconds=1) if is_of_day else None


def time_of_day(value: Any) -> Any:
    """What a clock shows of a time: of 24 hours, none; of what is no time of day, nothing."""
    if value == timedelta(days=1):
        return timedelta()
    return value if timedelta() <= value < timedelta(days=1) else None
