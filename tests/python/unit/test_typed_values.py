"""Values of declared types from their texts, one by one: what Spark's casts take, and nothing that
is rounded, cut or guessed. Every example was given to the SQL too, as long as there was any.
"""

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Final

import pytest

from python_udfs.typed.values import Value, typed

DAY: Final = 86_400_000_000
NOON: Final = 12 * 3_600_000_000


def assert_values(type: str, examples: Mapping[str, Value | None]) -> None:
    found = {text: typed(text, type) for text in examples}
    assert {text: repr(value) for text, value in found.items()} == {
        text: repr(value) for text, value in examples.items()
    }


def test_no_text_has_no_value_whatever_the_type() -> None:
    for type in ("string", "int", "decimal(9,2)", "array<int>", "map<string,date>"):
        assert typed(None, type) is None


def test_a_string_is_its_text() -> None:
    assert typed(" \x00a\n", "string") == " \x00a\n"


def test_booleans_have_the_words_that_spark_knows() -> None:
    assert_values(
        "boolean",
        {
            "true": True,
            " YES\t": True,
            "t": True,
            "1": True,
            "n": False,
            "\x7f0\x00": False,
            "on": None,
            "01": None,
            "": None,
            "true\xa0": None,
        },
    )


def test_integers_fit_their_type_or_are_none() -> None:
    assert_values("tinyint", {"127": 127, "-128": -128, "128": None, "-129": None})
    assert_values(
        "int",
        {
            "+5": 5,
            " 007\n": 7,
            "-0": 0,
            "2147483647": 2147483647,
            "2147483648": None,
            "0" * 5000 + "7": 7,
            "1.": None,
            "1.0": None,
            "1e2": None,
            "0x1F": None,
            "\uff11": None,
            "+": None,
            "- 1": None,
            "1_0": None,
        },
    )
    assert_values("bigint", {str(-(2**63)): -(2**63), str(2**63): None})


def test_decimals_keep_all_of_their_digits() -> None:
    assert_values(
        "decimal(5,2)",
        {
            "1.5": Decimal("1.50"),
            " +.5\n": Decimal("0.50"),
            " +.05\n": None,
            "+.5": Decimal("0.50"),
            "1.": Decimal("1.00"),
            "-0.0": Decimal("0.00"),
            "1.5000": Decimal("1.50"),
            "1.50 ": Decimal("1.50"),
            "1.505": None,
            "999.99": Decimal("999.99"),
            "1000": None,
            "00001": Decimal("1.00"),
            ".": None,
            "": None,
            "1,5": None,
            "0x1": None,
        },
    )
    digits = "1234567890" * 3 + "12345678"
    assert typed(digits, "decimal(38,0)") == Decimal(digits)
    assert typed("9" + digits, "decimal(38,0)") is None
    assert typed("0" * 20_000 + "7", "decimal") == Decimal(7)


def test_decimals_have_exponents_within_reason() -> None:
    assert_values(
        "decimal(5,2)",
        {
            "1e2": Decimal("100.00"),
            "15E-1": Decimal("1.50"),
            "150.0e-2": Decimal("1.50"),
            "15e-3": None,
            "1e3": None,
            "0e30": Decimal("0.00"),
            "0e40": None,
            "1e-999": None,
            "0e-999": Decimal("0.00"),
            "0e1000": None,
            "1e99999999999": None,
            "1e": None,
            "e1": None,
        },
    )


def test_digits_of_decimals_may_be_of_any_script_that_java_knows() -> None:
    assert typed("\u0661\u0662.\u0663", "decimal(5,2)") == Decimal("12.30")
    assert typed("\U0001d7d8", "decimal(5,2)") is None
    assert typed("1e\u0661", "decimal(5,2)") is None


def test_floats_are_as_java_writes_them() -> None:
    assert_values(
        "double",
        {
            "1.5": 1.5,
            "-0.0": -0.0,
            "1.": 1.0,
            ".5e-3": 0.0005,
            "\t1d\n": 1.0,
            "2F": 2.0,
            "0x1.8p1": 3.0,
            "0x.8P+1D": 1.0,
            "0x1": None,
            "1_0": None,
            "1.5\x7f": None,
            "1e400": None,
            "0x1p1024": None,
            "0.12345678901234567": 0.12345678901234567,
            "0.123456789012345678": None,
            "00.50000000000000000000": 0.5,
        },
    )


def test_infinities_are_those_that_are_written_so() -> None:
    assert_values(
        "double",
        {
            "Infinity": math.inf,
            "-inf": -math.inf,
            "+INFINITY": math.inf,
            "NaN": math.nan,
            "nan": math.nan,
            "+NaN": math.nan,
            "+nan": None,
            "infinite": None,
        },
    )
    assert typed("-Infinity", "float") == -math.inf


def test_a_float_has_nine_digits_or_is_written_as_a_double() -> None:
    assert_values(
        "float",
        {
            "0.1": 0.10000000149011612,
            "0.10000000149011612": 0.10000000149011612,
            "0.1000000015": None,
            "16777217": 16777216.0,
            "3.4028235e38": 3.4028234663852886e38,
            "3.4028236e38": None,
        },
    )


@pytest.mark.parametrize("type", ["double", "float"])
def test_no_number_but_zero_is_zero(type: str) -> None:
    assert_values(
        type,
        {
            **dict.fromkeys(("1e-400", "-1E-400", "0.001e-398", "0x1p-99999999999"), None),
            **dict.fromkeys(("." + "0" * 400 + "1", "0." + "0" * 400 + "10", "0xfp-1200f"), None),
            **dict.fromkeys(("0", "0.00", "0e-400", "0E5", "0d", "0f", ".0e1F", "0x0.0p-5"), 0.0),
            **dict.fromkeys(("-0", "-0.0", "-0e9", "-0x0p0d"), -0.0),
        },
    )


def test_the_smallest_floats_are_values() -> None:
    assert_values("double", {"5e-324": 5e-324, "4.9E-324": 5e-324, "2e-324": None})
    assert_values("float", {"1.4E-45": 1.401298464324817e-45, "1e-46": None, "5e-324": None})


def test_a_float_is_the_nearest_one_and_not_that_of_the_nearest_double() -> None:
    # Between 1 and the next float is 1 + 2**-24, to which the nearest double of this is.
    assert typed("0x1.0000010000000001p0", "float") is None
    assert typed("0x1.000001p0", "float") == 1.0


def test_dates_are_gregorian_in_all_years() -> None:
    first = date(1, 1, 1).toordinal() - date(1970, 1, 1).toordinal()
    assert_values(
        "date",
        {
            "1970-01-01": 0,
            "2024-02-29": 19782,
            "2023-02-29": None,
            "1900-02-29": None,
            "0001-01-01": first,
            "0000-12-31": first - 1,
            "-0001-12-31": first - 366 - 1,
            "+12024-01-01": 19723 + 3652425,
            "5881580-07-11": 2**31 - 1,
            "5881580-07-12": None,
            "00002024-01-01": None,
            "2024-1-1": None,
            "2024-01-01 ": None,
            "2024-01-01\r\n": 19723,
            "2024-01-01\u2028": None,
            "2024-01-01T00:00:00": None,
            "20240101": None,
        },
    )


def test_local_times_have_no_zone_and_microseconds_at_most() -> None:
    assert_values(
        "timestamp_ntz",
        {
            "1970-01-01T12:00": NOON,
            "1970-01-02 12:00:00": DAY + NOON,
            "1970-01-01T12:00:00.": NOON,
            "1970-01-01T12:00:00.5": NOON + 500_000,
            "1970-01-01T12:00:00.123456000": NOON + 123_456,
            "1970-01-01T12:00:00.1234567": None,
            "1970-01-01T24:00:00": None,
            "1970-01-01T12:00:60": None,
            "1970-01-01T12:00:00Z": None,
            "1970-01-01": None,
            "12:00:00": None,
            "294247-01-10T04:00:54.775807": 2**63 - 1,
            "294247-01-10T04:00:54.775808": None,
            "-290308-12-21T19:59:05.224192": -(2**63),
            "-290308-12-21T19:59:05.224191": None,
        },
    )


def test_instants_have_a_zone_and_seconds() -> None:
    assert_values(
        "timestamp",
        {
            "1970-01-01T12:00:00Z": NOON,
            "1970-01-01T12:00:00.5+01": NOON - 3_600_000_000 + 500_000,
            "1970-01-01T12:00:00-0130": NOON + 5_400_000_000,
            "1970-01-01T12:00:00+18:00": NOON - 18 * 3_600_000_000,
            "1970-01-01T12:00:00+18:01": None,
            "1970-01-01T12:00:00+01:60": None,
            "1970-01-01T12:00Z": None,
            "1970-01-01T12:00:00": None,
            "1970-01-01T12:00:00z": None,
            "1970-01-01T12:00:00+1": None,
            "1970-01-01T12:00:00 UTC": None,
            "0000-01-01T00:00:00Z": -719_528 * DAY,
        },
    )


def test_binary_is_base64_with_all_of_its_padding_or_none() -> None:
    assert_values(
        "binary",
        {
            "": b"",
            "QUI=": b"AB",
            "QUI": b"AB",
            "QQ==": b"A",
            "QQ=": None,
            "Q": None,
            "=": None,
            "QU I=": None,
            "QUI_": None,
            "QUI\r\n": b"AB",
            "QUI\u2028": b"AB",
            "QUI\x85": None,
            "QUI=\n": None,
        },
    )


def test_a_collection_fits_if_all_that_is_in_it_does() -> None:
    assert_values(
        "array<int>",
        {'[1, "2",null]': [1, 2, None], "[]": [], '[1,"a"]': None, "{}": None, "x": None},
    )
    assert_values("array<decimal(5,2)>", {"[1.50,2]": [Decimal("1.50"), Decimal("2.00")]})
    assert_values(
        "map<string,date>",
        {'{"a":"1970-01-02","b":null}': {"a": 1, "b": None}, '{"a":1}': None, "[]": None},
    )
    # As decoders give it: the last one of a name.
    assert typed('{"a":1,"b":2,"a":3}', "map<string,int>") == {"a": 3, "b": 2}
    assert typed('{"a":[1, 2]}', "map<string,string>") == {"a": "[1, 2]"}


@pytest.mark.parametrize("type", ["struct<a:int>", "varchar(9)", "decimal(39,2)", "decimal(2,3)"])
def test_other_types_are_refused(type: str) -> None:
    with pytest.raises(ValueError, match="type"):
        typed("1", type)
