"""The types of a seed's columns where dbt-spark's would change a number."""

from collections.abc import Iterable
from decimal import Decimal

from dbt_lakehouse.declared.columns import decimal_type


def type_of_numbers(column: Iterable[Decimal | int | None], usual: str) -> str:
    """The type of a column of numbers: the usual ``bigint`` or ``double`` if it keeps all digits
    of each, otherwise a decimal that does. Numbers of too many digits for one stay texts.
    """
    numbers = [Decimal(each) for each in column if each is not None]
    if all(map(_is_bigint if usual == "bigint" else _is_double, numbers)):
        return usual
    scale = max(map(_scale, numbers))
    return decimal_type(scale + max(max(each.adjusted() + 1, 1) for each in numbers), scale)


def _is_bigint(number: Decimal) -> bool:
    return -(2**63) <= number < 2**63


def _is_double(number: Decimal) -> bool:
    """Whether the double of a number is shown with the same digits."""
    return Decimal(repr(float(number))) == number


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(-exponent, 0)
