"""Counts of appended rows, without Spark."""

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from dbt_lakehouse.landing.kafka.appended import Appended, counted
from dbt_lakehouse.landing.lags import bucket_of_millis

LANDED = datetime(2026, 11, 27, 14, 30, tzinfo=UTC)
MICROS = int(LANDED.timestamp()) * 1_000_000


def test_rows_are_counted_by_partition() -> None:
    rows = [
        ("a", 0, 7, MICROS - 2_000_000),
        ("a", 0, 9, MICROS - 1_000_001),
        ("a", 0, 8, MICROS - 2_000_999),
        ("a", 1, 0, None),
        ("b", 0, 3, MICROS + 5_000),
    ]
    assert counted(rows, {("a", 0): 8, ("a", 2): 1}, LANDED) == {
        ("a", 0): Appended(
            2,
            9,
            LANDED - timedelta(microseconds=1_000_001),
            # Times count to the millisecond.
            {bucket_of_millis(2_001): 2, bucket_of_millis(1_001): 1},
        ),
        ("a", 1): Appended(1, 0, None, {}),
        ("b", 0): Appended(1, 3, LANDED + timedelta(milliseconds=5), {0: 1}),
    }


def test_times_that_python_lacks_are_none() -> None:
    year_1, year_9999 = -62_135_596_800_000_000, 253_402_214_400_000_000
    rows = [
        ("a", 0, 0, year_1),
        ("a", 1, 0, year_1 - 1),
        ("a", 2, 0, year_9999),
        ("a", 3, 0, year_9999 + 1),
        ("a", 4, 0, 2**63 - 1),
    ]
    found = counted(rows, {}, LANDED)
    assert [found["a", number].landed_timestamp for number in range(5)] == [
        datetime(1, 1, 1, tzinfo=UTC),
        None,
        datetime(9999, 12, 31, tzinfo=UTC),
        None,
        None,
    ]
    # Times before 1970 have no age, later ones the least.
    assert [found["a", number].ages for number in range(5)] == [{}, {}, *[{0: 1}] * 3]


def test_no_logarithm_is_so_near_a_buckets_bound_that_its_last_digit_counts() -> None:
    """Spark's logarithm, which is Java's, may differ from Python's in the last digit. Of ages up to
    80 years.
    """
    for bucket in range(1, 300):
        bound = Fraction(11, 10) ** bucket
        for millis in (math.floor(bound), math.ceil(bound)):
            exact = math.log(millis) / math.log(1.1)
            assert abs(exact - bucket) > 3 * exact * 2**-52
            if Fraction(11, 10) ** (bucket - 1) <= millis < Fraction(11, 10) ** (bucket + 1):
                assert bucket_of_millis(millis) == (bucket if millis >= bound else bucket - 1)
