"""Places in a source's own order: what connectors say of them, as text that compares as they do,
and what a run says of rows without one, or with old ones.
"""

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt_lakehouse.build.source_places import Found, doubts, last_offsets, newest_places
from dbt_lakehouse.declared.source_order import CONNECTORS, parts_of
from python_udfs.typed.source_places import number, source_place

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3)


def place(connector: str, *said: Any, is_read: bool = False) -> str | None:
    """The place that an event of a connector says by its parts."""
    forms = [part["form"] for part in parts_of(connector, [], "t")]
    return source_place(forms, said, is_read=is_read)


@given(st.one_of(st.integers(), DECIMALS), st.one_of(st.integers(), DECIMALS))
def test_numbers_compare_as_their_texts(one: int | Decimal, other: int | Decimal) -> None:
    texts = [number(format(Decimal(each), "f")) for each in (one, other)]
    assert None not in texts
    first, second = (str(each) for each in texts)
    assert (first < second, first == second) == (one < other, one == other)
    # In front of another part too.
    assert (f"{first} z" < f"{second} ") == (one < other)


@pytest.mark.parametrize("text", ["", "1e5", "abc", "0x10", "1.", " 1", "9" * 100, "-"])
def test_what_is_no_number(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    ("connector", "places"),
    [
        (
            "postgresql",
            [
                # As transactions were committed, though their LSNs lie between each other.
                ('["24023119","24023110"]',),
                ('["24023119","24023128"]',),
                ('["24023130","24023120"]',),
                ('["100000000","24023120"]',),
            ],
        ),
        (
            "mysql",
            [
                ("mysql-bin.000003", "154", None),
                ("mysql-bin.000003", "154", "0"),
                ("mysql-bin.000003", "154", "1"),
                ("mysql-bin.000003", "1540", "0"),
                ("mysql-bin.000004", "4", "0"),
                ("mysql-bin.999999", "4", "0"),
                ("mysql-bin.1000000", "4", "0"),
            ],
        ),
        (
            "sqlserver",
            [
                ("00000027:00000ac0:0002", None, None),
                ("00000027:00000ac0:0002", "00000027:00000ab0:0001", "1"),
                ("00000027:00000ac0:0002", "00000027:00000ab0:0001", "2"),
                ("00000027:00000AC0:0003", "00000027:00000aa0:0001", "1"),
            ],
        ),
        ("oracle", [("99", None), ("99", "97"), ("1122334", "98"), ("281474976710656", "5")]),
    ],
)
def test_places_compare_as_the_source_s(connector: str, places: list[tuple[Any, ...]]) -> None:
    texts = [place(connector, *each) for each in places]
    assert all(one < other for one, other in pairwise(map(str, texts))), texts
    assert None not in texts
    assert all(len(each) == len(CONNECTORS[connector]) for each in places)


@pytest.mark.parametrize(
    ("connector", "said"),
    [
        ("postgresql", (None,)),
        ("postgresql", ("24023128",)),
        # The first transaction behind a snapshot: what it had written by then is not in that.
        ("postgresql", ('[null,"24023128"]',)),
        ("postgresql", ('["24023119",null]',)),
        ("postgresql", ('["a","b"]',)),
        ("mysql", (None, "4", "0")),
        ("mysql", ("binlog", "4", "0")),
        ("sqlserver", ("NULL", "00000027:00000ab0:0001", "1")),
        ("oracle", ("1,2", "1")),
        ("oracle", (None, "1")),
    ],
)
def test_an_event_may_say_no_place(connector: str, said: tuple[Any, ...]) -> None:
    assert place(connector, *said) is None


def test_a_row_that_was_read_comes_before_what_was_not_committed_by_then() -> None:
    read = place("postgresql", '["100","200"]', is_read=True)
    assert str(place("postgresql", '["90","99"]')) < str(read)
    assert str(read) < str(place("postgresql", '["100","150"]'))
    # Of a first snapshot, or of one more after the slot was lost.
    read = place("postgresql", '[null,"200"]', is_read=True)
    assert str(place("postgresql", '["190","199"]')) < str(read)
    assert str(read) < str(place("postgresql", '["210","150"]'))
    read = place("oracle", None, "200", is_read=True)
    assert str(place("oracle", "199", "150")) < str(read) < str(place("oracle", "201", "150"))
    read = place("mysql", "binlog.000002", "157", "0", is_read=True)
    assert read == place("mysql", "binlog.000002", "157", "0")


def test_a_place_behind_another_comes_before_all_later_ones() -> None:
    for later in ("p15 p11", "p15.5", "p16", "p210"):
        assert "p15" < "p15 !" < later


def test_a_run_says_which_places_are_missing_or_old() -> None:
    found = [
        Found("t", 0, 5, 2, 0, "p15", 7, 11),
        Found("t", 1, 1, 0, 0, "p14", 3, 3),
        Found("u", 0, 3, 3, 1, None, 0, 2),
    ]
    assert newest_places({"t/0": "p19", "t/1": "p11"}, found) == {"t/0": "p19", "t/1": "p14"}
    assert last_offsets({"t/0": 20, "t/1": 2}, found) == {"t/0": 20, "t/1": 3, "u/0": 2}
    placeless, old = doubts("silver.t", {"t/0": "p19", "t/1": "p11"}, found)
    assert placeless.startswith("silver.t: 5 rows of 9 new ones without a place in the order")
    assert old.startswith(
        "silver.t: all 5 new rows of t/0 lie before earlier rows of their partition"
    )
    assert doubts("silver.t", {}, found[1:2]) == []
