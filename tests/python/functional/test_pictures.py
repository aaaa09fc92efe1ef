"""docs/current-state.md: the pictures are as the command draws them, say what the folds do, and
gold says the same.
"""

import re
from typing import TYPE_CHECKING, Any

import pytest
from support.pictured import key_of, source_of
from support.row_events import key_value
from support.row_examples import minute
from support.row_lake import key_column

from dbt_lakehouse.reference.fates import Fate
from tools.pictures.cases import CASES, MINUTE, Case, Event
from tools.pictures.files import FOLDER, PAGE, files

if TYPE_CHECKING:
    from support.built_rows import Built

pytest_plugins = ["support.built_rows"]

each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])

# By hand: after each event, what became of it and gold; None where there is no row.
EXPECTED: dict[str, list[tuple[str, Any]]] = {
    "late-event": [("applied", "free"), ("applied", "team"), ("late", "team")],
    "log-order": [("applied", "free"), ("applied", "team"), ("applied", "business")],
    "delete": [("applied", "free"), ("delete", None), ("late", None)],
    "re-insert": [("applied", "free"), ("delete", None), ("applied", "team")],
    "tie": [("applied", "free"), ("applied", "team"), ("changes_nothing", "team")],
    "expiry": [("applied", "free"), ("", None), ("late", None), ("applied", "business")],
    "truncate": [
        ("applied", "1001 free"),
        ("applied", "1001 free, 1002 team"),
        ("truncate", None),
        ("applied", "1003 free"),
    ],
    "key-change": [
        ("applied", "1001 free"),
        ("delete, applied", "1002 free"),
        ("applied", "1002 team"),
    ],
    "partial-image": [
        ("applied", "free Oslo"),
        ("applied", "team Oslo"),
        ("late_in_place", "team Rome"),
        ("applied", "team None"),
    ],
    "history": [("applied", "free"), ("applied", "team"), ("late", "team"), ("delete", None)],
}
VERSIONS = [
    [("free", 0, None)],
    [("free", 0, 30), ("team", 30, None)],
    [("free", 0, 15), ("business", 15, 30), ("team", 30, None)],
    [("free", 0, 15), ("business", 15, 30), ("team", 30, 45)],
]


def test_the_files_are_what_the_command_draws() -> None:
    assert {path: path.read_text() for path in files()} == files()
    assert {*FOLDER.glob("*.svg")} == {*files()} - {PAGE}


def test_the_page_shows_each_picture_once_and_says_what_it_shows() -> None:
    shown = re.findall(r"!\[(.+)\]\(pictures/(.*)\.svg\)", PAGE.read_text())
    assert [name for _, name in shown] == [case.name for case in CASES]


@each_case
def test_the_steps_are_as_by_hand(case: Case) -> None:
    told = []
    for step in case.steps():
        several = len(case.keys) > 1
        rows = [
            " ".join([str(key)] * several + [str(value) for value in row])
            for key, row in step.gold.items()
        ]
        told.append((", ".join(dict.fromkeys(step.fates.values())), ", ".join(rows) or None))
    assert told == EXPECTED[case.name]


def test_a_truncate_is_what_becomes_of_all_before_it() -> None:
    (case,) = (case for case in CASES if case.name == "truncate")
    gone = {Fate.BEFORE_TRUNCATE}
    assert [{*step.at_last.values()} for step in case.steps()] == [gone, gone, set(), set()]


def test_the_versions_are_as_by_hand() -> None:
    (case,) = (case for case in CASES if case.with_history)
    assert [
        [
            (each.values[0], each.valid_from // MINUTE, each.valid_to and each.valid_to // MINUTE)
            for each in step.versions
            if each.valid_from is not None
        ]
        for step in case.steps()
    ] == VERSIONS


@each_case
def test_gold_is_as_pictured(built: "Built", case: Case) -> None:
    source = source_of(case)
    keys = {key_value(source, key_of(case, key)): key for key in case.keys}
    rows = {
        keys[row[key_column(source)]]: (row["label"], row["note"])[: len(case.columns)]
        for row in built.rows[source.table]
        if row[key_column(source)] in keys
    }
    assert rows == case.steps()[-1].gold


def test_the_history_is_as_pictured(built: "Built") -> None:
    (case,) = (case for case in CASES if case.with_history)
    (key,) = (key_value(source_of(case), key_of(case, key)) for key in case.keys)
    versions = [
        (row["label"], minute(row["valid_from"]), minute(row["valid_to"]))
        for row in built.rows["meters_history"]
        if row["_digest"] == key
    ]
    assert sorted(versions, key=lambda each: each[1] or 0) == VERSIONS[-1]


def test_the_causes_are_in_log_order() -> None:
    for case in CASES:
        logged = [cause.logged for cause in case.causes]
        assert logged == sorted({*logged}), case.name
        assert all(e.happened <= e.logged for e in case.causes if isinstance(e, Event)), case.name
