"""What a run of a gold table looks up, by what it has found, and how a first load is divided."""

from decimal import Decimal
from typing import Any

import pytest
from test_declarations import aerospike_log, log

from dbt_lakehouse.declared import fold_of_log
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs.decisions import (
    Found,
    Newest,
    Plan,
    Truncate,
    found_in,
    last_event_decides,
    moment,
    newest,
    plan,
    ranges_to_write,
    truncate,
)
from dbt_lakehouse.runs.key_ranges import KeyRanges, Range, ranges_of, values_sql

FOLD = fold_of_log.fold(log())
SET = fold_of_log.fold(aerospike_log())
KNOWN = Newest(7, 5)
NEW = Truncate("p", "t", "", True)
OLD = NEW._replace(is_new=False)
# Keys with new events, and nothing else to mind.
SOME = Found(keys=2, events=3)


def planned(of: Fold, found: Found, **but: Any) -> Plan:
    known: dict[str, Any] = {
        "newest_known": KNOWN,
        "truncates": (),
        "may_be_hit": False,
        "has_set_less_deletes": False,
        "to_fill": False,
        "resting": False,
    }
    return plan(of, found, **(known | but))


def names(found: Plan) -> set[str]:
    fields = ("all_keys", "late_keys", "hit_keys", "truncated", "filled", "resting")
    return {name for name in fields if getattr(found, name)}


@pytest.mark.parametrize(
    ("of", "found", "but", "expected"),
    [
        # All newer than what is known.
        (FOLD, SOME, {}, set()),
        (SET, SOME, {}, set()),
        # None new at all.
        (FOLD, Found(), {"newest_known": None, "has_set_less_deletes": True}, set()),
        (FOLD, Found(possibly_late=0, leaving=0), {}, set()),
        # Late.
        (FOLD, Found(keys=2, possibly_late=1), {}, {"late_keys"}),
        # An event leaves columns as they were: what they were is to be known.
        (FOLD, Found(keys=2, leaving=1), {}, {"all_keys"}),
        (FOLD, Found(keys=2, leaving=1, possibly_late=2), {}, {"all_keys"}),
        (FOLD.without_columns(), Found(keys=2, leaving=1), {}, set()),
        (SET, Found(keys=2, leaving=1), {}, set()),
        (fold_of_log.fold(log(partial=True)), SOME, {}, {"all_keys"}),
        (fold_of_log.fold(aerospike_log(partial=True)), SOME, {}, {"all_keys"}),
        # What is the newest is not known.
        (FOLD, SOME, {"newest_known": None}, {"all_keys"}),
        (FOLD, SOME, {"newest_known": Newest(None, None)}, set()),
        # Deletes without a set.
        (SET, SOME, {"has_set_less_deletes": True}, {"all_keys"}),
        (SET, Found(), {"may_be_hit": True}, {"hit_keys"}),
        (SET, Found(keys=1, possibly_late=1), {"may_be_hit": True}, {"hit_keys", "late_keys"}),
        # Truncates.
        (FOLD, SOME, {"truncates": [OLD]}, set()),
        (FOLD, SOME, {"truncates": [OLD, NEW]}, {"truncated"}),
        (FOLD, Found(), {"truncates": [NEW]}, {"truncated"}),
        # Columns that are declared later.
        (FOLD, Found(), {"to_fill": True}, {"filled"}),
        (FOLD, Found(keys=1, possibly_late=1), {"to_fill": True}, {"filled", "late_keys"}),
    ],
)
def test_what_is_looked_up(of: Fold, found: Found, but: dict[str, Any], expected: set[str]) -> None:
    decided = planned(of, found, **but)
    assert names(decided) == expected
    assert decided.looks_up is bool(expected)


@pytest.mark.parametrize(
    ("of", "but", "expected"),
    [
        (FOLD, {}, True),
        (FOLD, {"fills": True}, False),
        (FOLD, {"doubts": True}, False),
        # One that is known may lie between an event and the known state.
        (FOLD, {"truncates": [OLD]}, False),
        (fold_of_log.fold(log(order_by_source_time=True)), {}, False),
        (fold_of_log.fold(log(order_by=["source.ts_ns"])), {}, False),
        (SET, {}, False),
        # A delete without a set is in no log.
        (fold_of_log.fold(aerospike_log(order_by_source_time=False)), {}, False),
    ],
)
def test_whether_an_event_before_a_known_state_makes_a_difference(
    of: Fold, but: dict[str, Any], expected: bool
) -> None:
    circumstances: dict[str, Any] = {"fills": False, "doubts": False, "truncates": ()}
    assert last_event_decides(of, **(circumstances | but)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7|5", Newest(7, 5)),
        ("|5", Newest(None, 5)),
        ("-7|", Newest(-7, None)),
        ("0|0", Newest(0, 0)),
        ("|", Newest(None, None)),
    ],
)
def test_the_newest_times_as_text(text: str, expected: Newest) -> None:
    assert newest(text) == expected
    assert str(expected) == text


def test_the_newest_times() -> None:
    assert newest(None) is newest("") is None
    assert KNOWN.and_those(6, 9) == Newest(7, 9)
    assert KNOWN.and_those(None, None) == KNOWN
    assert Newest(None, None).and_those(None, -1) == Newest(None, -1)
    assert Newest(-3, None).and_those(0, None) == Newest(0, None)


def test_what_a_summary_says() -> None:
    row = {"keys": 2, "late_events": 1, "log_time": None, "key_values": [1, 2]}
    assert found_in(row, "int") == Found(keys=2, late_events=1, key_values=(1, 2), key_type="int")
    assert found_in({**row, "key_values": None}, "int").key_values == ()


def test_a_truncate_is_sql() -> None:
    place = {"topic": "it's", "partition": 1, "offset": 2, "event_index": 0}
    row = {"position": place, "log_time": 3, "time": None, "source": "{}", "is_new": True}
    assert truncate(row) == Truncate(
        "named_struct('log_time', timestamp_micros(3), 'topic', 'it\\'s', 'partition', 1,"
        " 'offset', cast(2 as bigint), 'event_index', 0)",
        "cast(null as timestamp)",
        "{}",
        True,
    )
    assert moment(0) == "timestamp_micros(0)"


@pytest.mark.parametrize(
    ("keys", "cores", "ranges"),
    [
        (0, 8, 1),
        (1, 8, 1),
        (50_000, 8, 1),
        (50_001, 2, 2),
        (50_001, 8, 8),
        (1_000_000, 2, 20),
        (1_000_000, 32, 32),
    ],
)
def test_how_a_first_load_is_divided(keys: int, cores: int, ranges: int) -> None:
    assert ranges_to_write(keys, cores) == ranges


@pytest.mark.parametrize(
    ("values", "ranges"),
    [
        ([], []),
        ([7], [(7, 7)]),
        # The least and the greatest.
        ([1, 10_000], [(1, 10_000)]),
        (["61", "71"], [("61", "71")]),
        ([None, None], [(None, None)]),
        # No gap is wide.
        ([1, 2, 3], [(1, 3)]),
        (list(range(0, 1010, 10)), [(0, 1000)]),
        # New keys are far from those that change.
        ([5, 7, 10_000, 10_001], [(5, 7), (10_000, 10_001)]),
        ([-(2**63), 0, 2**63 - 1], [(-(2**63), -(2**63)), (0, 0), (2**63 - 1, 2**63 - 1)]),
        ([Decimal(1), Decimal(2), Decimal(900)], [(1, 2), (900, 900)]),
        # Eight at most, by the widest gaps.
        (
            [number * number * 100 for number in range(11)],
            [(0, 900), *((n * n * 100,) * 2 for n in range(4, 11))],
        ),
    ],
)
def test_ranges_of_keys(values: list[Any], ranges: list[Range]) -> None:
    assert ranges_of(values) == ranges


def test_ranges_are_arguments() -> None:
    assert KeyRanges("int", [(1, 2), (5, 5)]).arguments("v") == {
        "v_low_0": 1,
        "v_high_0": 2,
        "v_low_1": 5,
        "v_high_1": 5,
    }
    assert KeyRanges("int", []).arguments("v") == {}


def test_a_number_is_an_argument_with_all_of_its_digits() -> None:
    """Python writes the first with an exponent, and computes with 28 digits."""
    ends = (Decimal("1E-38"), Decimal("0.12345678901234567890123456789012345678"))
    assert KeyRanges("decimal(38,38)", [ends]).arguments("v") == {
        "v_low_0": "0." + "0" * 37 + "1",
        "v_high_0": "0.12345678901234567890123456789012345678",
    }


@pytest.mark.parametrize(
    ("type_name", "low"),
    [
        ("smallint", ":v_low_0"),
        ("decimal(7,2)", "cast(:v_low_0 as decimal(7,2))"),
        ("date", "date_from_unix_date(:v_low_0)"),
        ("timestamp", "timestamp_micros(:v_low_0)"),
        ("timestamp_ntz", "cast(timestamp_micros(:v_low_0) as timestamp_ntz)"),
        ("string", "cast(unhex(:v_low_0) as string)"),
    ],
)
def test_values_are_made_of_arguments_by_spark(type_name: str, low: str) -> None:
    (ends,) = KeyRanges(type_name, [(1, 2)]).sql("v")
    assert ends == [low, low.replace("low", "high")]


@pytest.mark.parametrize(
    "type_name", ["double", "float", "boolean", "binary", "string collate UTF8_LCASE", ""]
)
def test_types_without_ranges(type_name: str) -> None:
    """Iceberg's statistics leave NaN out, and compare other texts than Spark."""
    assert values_sql("k", type_name, 7) == "cast(array() as array<string>)"
    assert KeyRanges(type_name, []).sql("v") == []


@pytest.mark.parametrize(
    ("type_name", "rows", "values"),
    [
        ("date", 1_000_000, "array_sort(collect_list(unix_date(k)))"),
        ("date", 1_000_001, "array(unix_date(min(k)), unix_date(max(k)))"),
        ("string", 1, "array(hex(min(k)), hex(max(k)))"),
    ],
)
def test_values_leave_spark_as_numbers_and_texts(type_name: str, rows: int, values: str) -> None:
    assert values_sql("k", type_name, rows) == values
