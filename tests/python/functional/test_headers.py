"""Columns of Kafka headers through dbt: of new messages, of what is declared later, of a log that
chooses its events, of redriven messages and of events that are derived; and all again the same.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from support.lakes import Lake
from support.small_messages import row_change
from support.small_project import Log, add_gold, add_log, current_state, history, small_project

from dbt_lakehouse.commands.redrive import Redriven, redrive

AS_OF: Final = "2026-11-21 00:00:00"
TOPIC: Final = "debezium.headers"
OTHER: Final = "erp.headers"
MAXWELL: Final = "maxwell.headers"
FORMATS: Final = {TOPIC: "debezium_json", MAXWELL: "maxwell_json", OTHER: "debezium_json"}
TRACE: Final = {"type": "string", "from": "headers", "path": "trace.id"}
TRY: Final = {"type": "int", "from": "headers", "path": "it's the try"}
PARTS: Final = Log("parts", "parts", {"id": "int"}, {"note": "string", "trace": TRACE})
# By their texts, of the same source table.
SOME: Final = Log(
    "some", "parts", {"id": "int"}, {"note": "string", "try": TRY}, where="after like '%some%'"
)
BINS: Final = Log("bins", "bins", {"id": "int"}, {"trace": TRACE}, database="d")
LOGS: Final = ("parts_changes", "some_changes", "bins_changes")
GOLD: Final = ("parts", "parts_history")


def message(
    offset: int, op: str, number: int, note: str | None, *headers: Any, topic: str = TOPIC
) -> dict[str, Any]:
    """A message about a part, with headers by name and value."""
    sent = row_change(topic, offset, op, number, {"table": "parts"}, note=note)
    return sent.line() | {"headers": [[name, value and _base64(value)] for name, value in headers]}


def bin_of(offset: int, number: int, trace: bytes) -> dict[str, Any]:
    """A message of Maxwell's, with a header."""
    row = {"database": "d", "table": "bins", "type": "insert", "ts": 1, "data": {"id": number}}
    sent = row_change(MAXWELL, offset, "c", number, {})._replace(value=json.dumps(row).encode())
    return sent.line() | {"headers": [["trace.id", _base64(trace)]]}


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def run(lake: Lake, *arguments: str, known: Mapping[str, str] = FORMATS) -> None:
    statuses = lake.dbt("run", *arguments, as_of=AS_OF, topics=topics(known))
    assert set(statuses.values()) == {"success"}


def topics(known: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "format": name, "compacted": topic == TOPIC}
        for topic, name in known.items()
    ]


def rows_of(lake: Lake, table: str) -> list[dict[str, Any]]:
    found = [
        {name: value for name, value in row.items() if name[:1] != "_" or name == "_misfits"}
        | {"at": (row["_position"]["topic"], row["_position"]["offset"])}
        for row in lake.read(table)
    ]
    return sorted(found, key=lambda row: (row["at"], str(row)))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake that has read messages with headers, of which one topic is not configured."""
    project = small_project(tmp_path / "project", quarantine=True)
    for log in (PARTS, SOME, BINS):
        add_log(project, log)
    add_gold(project, current_state(PARTS))
    add_gold(project, history(PARTS, "parts_history"))
    lake = Lake(tmp_path, project)
    tries = [("it's the try", each) for each in (b"1", b"2")]
    with lake.dbt_folders():
        lake.land(
            [
                message(0, "c", 1, "some", ("trace.id", b"a"), ("trace.id", b"b"), *tries),
                message(1, "c", 2, "none", ("trace", b"x"), *tries),
                message(2, "c", 3, "some", ("trace.id", b"caf\xc3"), ("it's the try", b"many")),
                message(3, "u", 1, "some"),
                message(4, "d", 2, None, ("trace.id", b"gone")),
                message(5, "c", 4, "none", ("trace.id", b"d")),
                # Of whose delete compaction has left this.
                message(6, "d", 4, None, ("trace.id", b"gone")) | {"value_b64": None},
                message(0, "c", 9, "some", ("trace.id", b"erp"), *tries, topic=OTHER),
                bin_of(0, 7, b"m"),
            ]
        )
        run(lake, known={topic: FORMATS[topic] for topic in (TOPIC, MAXWELL)})
        yield lake


def test_columns_of_headers(lake: Lake) -> None:
    misfit = {"column": "trace", "text": "caf\ufffd"}
    assert [
        (row["id"], row["trace"], row["_misfits"]) for row in rows_of(lake, "silver.parts_changes")
    ] == [
        *((1, "b", []), (2, None, []), (3, None, [misfit]), (1, None, []), (2, "gone", [])),
        *((4, "d", []), (4, None, [])),
    ]
    assert [
        (row["id"], row["try"], row["_misfits"]) for row in rows_of(lake, "silver.some_changes")
    ] == [(1, 2, []), (3, None, [{"column": "try", "text": "many"}]), (1, None, [])]
    assert [row["trace"] for row in rows_of(lake, "silver.bins_changes")] == ["m"]
    # The newest event's own, even if it has none.
    assert [(row["id"], row["trace"]) for row in rows_of(lake, "gold.parts")] == [
        (3, None),
        (1, None),
    ]

    # One is declared later, others are redriven, and news come.
    for log in (PARTS, SOME):
        later = replace(log, columns={**log.columns, "trace": TRACE, "try": TRY})
        add_log(lake.project, later)
    parts = replace(PARTS, columns={**PARTS.columns, "try": TRY})
    add_gold(lake.project, current_state(parts))
    add_gold(lake.project, history(parts, "parts_history"))
    lake.land([message(7, "u", 3, "some", ("trace.id", b"c"), ("it's the try", b"5"))])
    configured = lake.load(topics=topics(FORMATS), as_of=AS_OF, captures=[])
    assert redrive(configured, [], []) == Redriven(1, 1, 1)
    before = {name: lake.look_at(f"silver.{name}").chain[-1].name for name in LOGS}
    run(lake)
    # Filled in place.
    assert {name: lake.look_at(f"silver.{name}").chain[-1].name for name in LOGS} == before
    expected = [
        (1, "b", 2, []),
        (2, None, 2, []),
        (3, None, None, [misfit, {"column": "try", "text": "many"}]),
        (1, None, None, []),
        (2, "gone", None, []),
        (4, "d", None, []),
        (4, None, None, []),
        (3, "c", 5, []),
        (9, "erp", 2, []),
    ]

    def values(name: str) -> list[tuple[Any, ...]]:
        names = ("id", "trace", "try", "_misfits")
        rows = rows_of(lake, f"silver.{name}_changes")
        for row in rows:
            row["_misfits"] = sorted(row["_misfits"], key=lambda each: each["column"])
        return [tuple(row[each] for each in names) for row in rows]

    assert values("parts") == expected
    assert values("some") == [expected[place] for place in (0, 2, 3, 7, 8)]
    gold = rows_of(lake, "gold.parts")
    assert [(row["id"], row["trace"], row["try"]) for row in gold] == [
        (1, None, None),
        (3, "c", 5),
        (9, "erp", 2),
    ]
    versions = rows_of(lake, "gold.parts_history")
    assert [(row["id"], row["trace"]) for row in versions] == [
        *((1, "b"), (2, None), (3, None), (1, None), (4, "d"), (3, "c"), (9, "erp")),
    ]

    run(lake, "--full-refresh")
    assert values("parts") == expected
    assert values("some") == [expected[place] for place in (0, 2, 3, 7, 8)]
    assert rows_of(lake, "gold.parts") == gold
    assert rows_of(lake, "gold.parts_history") == versions
