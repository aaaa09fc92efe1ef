"""Which tables of a lake from before other_events go on, and which are made again."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from support.metadata import UUID, commit, row, table

from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import marks
from dbt_lakehouse.runs.marks import Mark
from dbt_lakehouse.runs.moving import MOVED, before_of, marks_moved
from dbt_lakehouse.runs.source_filter import PROPERTY, Wanted

OLD, NEW, BRONZE = "silver.change_events", "silver.other_events", "bronze.raw_payloads"
ORDERS: Final = ("shop", "sales", "orders")
PROFILES: Final = (None, "users", "profiles")
# The bit field that the version of before (40280c43) has kept of the demo's commit.
TABLES: Final = (
    "40000000000400000400400000004000400000000000100010000000000000000a"
    "0002000000008002000000000000000000000004001000"
)
READ: Final = Mark(UUID, "1000", 1)
BRONZE_MARK: Final = Mark(UUID, "7000", 7)


def noted(number: int, **counts: int) -> dict[str, Any]:
    return {"snapshot": f"{number}000", "tables": TABLES, "invalid": 17, "truncates": 0, **counts}


def change_events(commits: Sequence[Any], *kept: dict[str, Any]) -> Table:
    return table(commits, properties={PROPERTY: json.dumps([*kept])})


def other_events(*, moved: bool = True, bronze: bool = True) -> Table:
    notes = {MOVED: "true"} if moved else {}
    if bronze:
        notes |= marks.noted({BRONZE: BRONZE_MARK})
    return table([commit(4, notes=notes), commit(5, 4)])


def moved(
    wanted: Wanted,
    old: Table | None,
    new: Table | None = None,
    held: Mark | None = READ,
) -> dict[str, Mark] | None:
    tables = {OLD: old, NEW: new or other_events()}
    marks_held = {} if held is None else {OLD: held}
    return marks_moved(marks_held, [NEW, BRONZE], tables.get, wanted)


GOES_ON: Final = {NEW: Mark(UUID, "4000", 4), BRONZE: BRONZE_MARK}


def test_a_table_that_has_read_everything_goes_on_where_other_events_began() -> None:
    assert before_of(NEW) == OLD
    read = change_events(row(1))
    for wanted in (None, "invalid", [ORDERS]):
        assert moved(wanted, read) == GOES_ON


@pytest.mark.parametrize(
    ("wanted", "goes_on"),
    [
        ([ORDERS], False),
        ([PROFILES], False),
        ([("shop", "sales", "returns"), PROFILES], False),
        ([("shop", "sales", "returns")], True),
        # A name that is not there is none of another.
        ([("users", None, "profiles")], True),
        ("invalid", False),
        ("truncates", True),
        # It kept no count of these.
        ("added", False),
        (None, False),
    ],
)
def test_what_it_has_not_read_may_be_nothing_of_its_own(wanted: Wanted, goes_on: bool) -> None:
    assert moved(wanted, change_events(row(1, 2), noted(2))) == (GOES_ON if goes_on else None)
    # Of a commit of which nothing is kept, anything may be.
    assert moved(wanted, change_events(row(1, 2, 3), noted(2))) is None


def test_a_commit_that_appends_nothing_is_no_news() -> None:
    read = change_events([*row(1), commit(2, 1, "replace")])
    assert moved([ORDERS], read) == GOES_ON


def test_a_table_is_made_again_if_its_place_is_not_known() -> None:
    read = change_events(row(1))
    assert moved([ORDERS], None) is None
    assert moved([ORDERS], read, held=None) is None
    assert moved([ORDERS], read, other_events(moved=False)) is None
    assert moved([ORDERS], read, other_events(bronze=False)) is None
    # What it has read was rolled back, or is another table's.
    assert moved([ORDERS], read, held=Mark(UUID, "9000", 9)) is None
    assert moved([ORDERS], read, held=Mark("another", "1000", 1)) is None
    assert marks_moved({OLD: READ}, [NEW, BRONZE], {OLD: read}.get, [ORDERS]) is None
