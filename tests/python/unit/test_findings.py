"""What tests of ours say of what they have found, and that each of them and each code of quarantine
has a line in one document.
"""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.findings import CODES, TESTS, lines, own_test, told
from python_udfs.core import errors

POSITION = Row(log_time=None, topic="erp.orders", partition=2, offset=17, event_index=0)


def test_each_code_and_each_test_has_its_line() -> None:
    macros = "".join(file.read_text() for file in (ROOT / "macros" / "data_tests").glob("*.sql"))
    generic = re.findall(r"{% test (\w+)\(", macros)
    singular = [file.stem for file in (ROOT / "shared" / "tests").glob("*.sql")]
    assert TESTS.keys() == {*generic, *singular}
    assert CODES.keys() == {*errors.CODES}
    page = (ROOT / "docs" / "findings.md").read_text()
    told_there = [line for line in page.splitlines() if line.startswith("| `")]
    assert told_there == [f"| `{name}` | {meaning} | {todo} |" for name, meaning, todo in lines()]


@pytest.mark.parametrize(
    ("test", "table", "columns", "number", "first", "said"),
    [
        (
            "equals_refold",
            "gold.orders",
            [],
            2,
            {"id": 7, "difference": "missing in gold", "_position": None},
            "gold.orders: 2 rows differing from the reference's result for the change log, such as"
            " difference missing in gold; `lakehouse why --table orders --key KEY` tells what a row"
            " must be, and `dbt run --full-refresh -s orders` folds the log again",
        ),
        (
            "no_unknown_columns",
            "silver.orders_changes",
            [],
            1,
            {"column": "note", "observed_type": "STRING", "first_position": POSITION},
            "silver.orders_changes: 1 field that the change log does not declare, such as column"
            " note, observed_type STRING, topic erp.orders, partition 2, offset 17;"
            " `lakehouse generate --topic erp.orders` adds columns to the models",
        ),
        (
            "not_null_columns",
            "bronze.raw_payloads",
            ["topic", "offset"],
            1200,
            {"topic": None, "offset": 3},
            "bronze.raw_payloads: 1,200 rows without a value of topic, offset, such as offset 3;"
            ' `lakehouse sql \'select * from bronze.raw_payloads where "topic" is null or'
            ' "offset" is null\'` shows them',
        ),
        (
            "quarantine_rate",
            "silver.quarantined_payloads",
            [],
            1,
            {"total": 4000, "bad": 300},
            "silver.quarantined_payloads: 300 payloads of 4,000 could not be decoded, more than"
            " vars.max_quarantine_rate lets pass; `lakehouse quarantine` says why",
        ),
        (
            "no_topic_is_all_quarantined",
            "silver.quarantined_payloads",
            [],
            1,
            {"topic": "erp.scans", "payloads": 2},
            "silver.quarantined_payloads: 1 topic of which nothing could be decoded, such as topic"
            " erp.scans, payloads 2; `lakehouse quarantine --topic erp.scans` says why: is its"
            " format in vars.topics right?",
        ),
        (
            "unique_key",
            "gold.orders",
            [],
            3,
            {},
            "gold.orders: 3 keys that more than one row has, or of which a part is null; `lakehouse"
            " why --table orders --key KEY` tells what a row must be, and `dbt run --full-refresh"
            " -s orders` folds the log again",
        ),
    ],
)
def test_what_is_told_of_what_a_test_has_found(
    test: str, table: str, columns: list[str], number: int, first: dict[str, Any], said: str
) -> None:
    assert told(test, table, columns, number, first) == said


def test_tests_of_a_user_are_none_of_ours() -> None:
    def node(name: str, generic: str | None, macro: str = "", path: str = "") -> Any:
        return SimpleNamespace(
            name=name,
            test_metadata=generic and SimpleNamespace(name=generic),
            depends_on=SimpleNamespace(macros=[macro]),
            original_file_path=path,
        )

    assert own_test(node("a", "unique_key", "macro.dbt_lakehouse.test_unique_key")) == "unique_key"
    assert own_test(node("a", "unique_key", "macro.shop.test_unique_key")) is None
    assert own_test(node("a", "accepted_values", "macro.dbt.test_accepted_values")) is None
    assert own_test(node("quarantine_rate", None, path="tests/quarantine_rate.sql"))
    assert own_test(node("mine", None, path="tests/mine.sql")) is None
