"""Which payloads are read for events, and when a registry's schemas are looked for."""

import json
from typing import Any

import pytest

from dbt_lakehouse.build.compiling import near_positions
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.runs.log_input import LogInput

AVRO = [{"topic": "t", "format": "debezium_avro"}]
JSON = [{"topic": "t", "format": "debezium_json"}]


class Lake:
    """What is asked of a lake whose queries give the same rows."""

    def __init__(
        self, rows: list[dict[str, Any]] | None = None, *, only_compiles: bool = False
    ) -> None:
        self.rows = rows or []
        self.only_compiles = only_compiles
        self.texts: list[str] = []
        # Each part of the lake is all of it.
        self.sql = self.functions = self

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.rows

    def know_schemas(self, texts: str) -> None:
        self.texts.append(texts)


def decoding(lake: Any, topics: Any, runs: bool = True) -> Decoding:
    return Decoding(lake, topics, runs)


def read(**but: Any) -> LogInput:
    given = {"payloads": "bronze.raw_payloads", "topics": ["t"], "added": None, "format": None}
    given |= {"log_times": None, "excluded": None, "may_name": None, "none": "silver.other_events"}
    return LogInput(**given | but)


@pytest.mark.parametrize(
    ("topics", "runs", "asked"),
    [
        (AVRO, True, 1),
        # Of a unit test, whose payloads no other query finds.
        (AVRO, False, 0),
        (JSON, True, 0),
    ],
)
def test_schemas_are_looked_for_where_a_run_may_need_them(
    topics: Any, runs: bool, asked: int
) -> None:
    lake = Lake()
    of = decoding(lake, topics, runs)
    for found in (of.events_of(read()), of.decoded_events("bronze.raw_payloads")):
        assert "from bronze.raw_payloads" in found
    assert len(lake.texts) == 2 * asked


def test_the_format_that_messages_had_comes_before_that_of_vars() -> None:
    lake = Lake()
    events = decoding(lake, AVRO).events_of(read(format="'maxwell_json'"))
    assert "'maxwell_json' as format" in events and lake.texts == []


def test_payloads_of_no_topic_are_not_read() -> None:
    lake = Lake()
    events = decoding(lake, AVRO).events_of(read(topics=[], added="silver.other_events"))
    assert "raw_payloads" not in events and lake.texts == []


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (0, "false"),
        (1, "(topic = 'it\\'s' and partition = 0 and offset between 4 and 9)"),
        (100, None),
        (101, "true"),
    ],
)
def test_positions_are_near_those_of_a_few_partitions(
    partitions: int, expected: str | None
) -> None:
    rows = [
        {"place": json.dumps({"topic": "it's", "partition": each, "first": 4, "last": 9})}
        for each in range(partitions)
    ]
    lake: Any = Lake(rows)
    found = " ".join(near_positions(lake, "rows").split())
    if expected is None:
        assert found.count("offset between") == partitions
    else:
        assert found == expected


def test_what_is_compiled_alone_asks_for_no_positions() -> None:
    lake: Any = Lake([{"place": "not read"}], only_compiles=True)

    assert near_positions(lake, "rows") == "true"
