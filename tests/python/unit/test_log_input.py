"""Which payloads a change log reads: a native filter may only let too much pass."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from support.fuzzing import seeds

from dbt_lakehouse.runs import source_filter
from dbt_lakehouse.runs.formats import JSON_ESCAPE
from dbt_lakehouse.runs.log_input import NAMING, _may_name
from python_udfs.core.events import CHANGES
from python_udfs.registry import FORMATS, decode_payload
from tools.benchmarks.payloads import SHAPES, messages

Message = tuple[bytes | None, bytes | None]
LETTERS = "profiles"


def known(format: str) -> list[Message]:
    """Messages of a format: those that fuzzing begins with, and those of the benchmarks."""
    found: list[Message] = [(payload[0], payload[1]) for payload in seeds()[format]]
    for name, shape in SHAPES.items():
        if shape.format == format and not name.endswith(("shuffled", "toast")):
            found += messages(shape, range(60))
    return found


def condition(names: list[str], monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The condition on payloads of a log of tables in a topic that has others too."""
    monkeypatch.setattr(source_filter, "all_pairs", lambda _: [["t", None, None, "others"]])
    table: Any = SimpleNamespace()
    return _may_name(table, ["t"], [(None, None, name) for name in names])


@pytest.mark.parametrize("format", NAMING)
def test_a_change_of_a_row_has_its_tables_name_in_its_value(format: str) -> None:
    """As such, unless JSON escapes it."""
    changes = 0
    for key, value in known(format):
        for event in decode_payload(format, key, value):
            if event.operation not in CHANGES or event.source_table is None:
                continue
            assert value is not None
            assert event.source_table.encode() in value or JSON_ESCAPE in value
            changes += 1
    assert changes


def test_an_escaped_name_passes() -> None:
    value = json.dumps({"op": "c", "after": {"id": 1}, "source": {"table": LETTERS}}).encode()
    escaped = value.replace(b"profiles", b"pr\\u006ffiles")
    for sent in (value, escaped):
        (event,) = decode_payload("debezium_json", None, sent)
        assert event.source_table == LETTERS
    assert LETTERS.encode() not in escaped
    assert JSON_ESCAPE in escaped


def test_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(NAMING) <= set(FORMATS)
    found = condition(["b", "a"], monkeypatch)
    assert found is not None
    assert found.endswith(
        " or contains(value, X'61') or contains(value, X'62') or contains(value, X'5c75'))"
    )
    assert all(f"'{format}'" in found for format in NAMING)
    # JSON has several forms of other letters.
    assert condition(["a", "caf\u00e9"], monkeypatch) is None
    assert condition(['a"b'], monkeypatch) is None
    monkeypatch.setattr(source_filter, "all_pairs", lambda _: [["t", None, None, "a"]])
    table: Any = SimpleNamespace()
    # All of the topic's events are wanted.
    assert _may_name(table, ["t"], [(None, None, "a")]) is None
