"""What `lakehouse generate` says of what a table's messages can't say."""

import json
from base64 import b64encode
from typing import Any

import pytest

from dbt_lakehouse.commands.generate.cautions import cautions
from dbt_lakehouse.commands.generate.profile import Position, TopicProfile

Message = tuple[Any, Any]
CONNECT = "org.apache.kafka.connect.data"


def notes(messages: list[Message], format: str = "debezium_json") -> list[str]:
    """The notes on the only table of a topic, whose key is its messages'; in parts as in whole."""
    profiles = [TopicProfile(), TopicProfile()]
    for offset, (key, value) in enumerate(messages):
        place = Position(offset, "topic", 0, offset)
        texts = [json.dumps(each).encode() for each in (key, value)]
        profiles[offset % 2].add(format, texts[0], texts[1], place)
    for profile in profiles:
        profile.settle()
    profiles[0].merge(profiles[1])
    (table,) = profiles[0].tables.values()
    return [*cautions(table, list(messages[0][0]))]


def change(after: Any, op: str = "c", snapshot: str = "false", **fields: Any) -> Any:
    """An envelope, with a schema block of these fields of an image; each ``[type, default]``."""
    source = {"connector": "postgresql", "db": "shop", "table": "t", "snapshot": snapshot}
    payload = {"before": None, "after": after, "source": source, "op": op}
    if not fields:
        return payload
    columns = [
        {"field": name, "type": type_name, "optional": True, "default": default}
        for name, (type_name, default) in fields.items()
    ]
    image = {"type": "struct", "field": "after", "optional": True, "fields": columns}
    return {"schema": {"type": "struct", "fields": [image]}, "payload": payload}


def test_of_most_tables_there_is_nothing_to_say() -> None:
    rows = [({"id": 1}, change({"id": 1, "note": "a"})), ({"id": 2}, change({"id": 2}))]
    assert notes(rows) == []


@pytest.mark.parametrize("key", [{"a": None, "id": 1}, {"a": 2, "id": None}])
def test_rows_with_a_null_in_their_key(key: Any) -> None:
    whole = {"a": 1, "id": 1}
    (note,) = notes([(whole, change(whole)), (key, change(key)), (key, change(key, "u"))])
    assert note.startswith("2 rows of 3 have no value of a, id: they are in the change log, and")


FIELDS: dict[str, Any] = {"note": ["string", "none"], "level": ["int32", 7]}


def test_nulls_that_a_converter_may_have_replaced() -> None:
    def row(number: int, note: Any, level: Any) -> Message:
        return {"id": number}, change({"id": number, "note": note, "level": level}, **FIELDS)

    (note,) = notes([row(1, "none", 7), row(2, "a", 7), row(3, "b", None)])
    assert note.startswith("note: may be null by the schema, and never is, but has its default.")
    assert "replace.null.with.default" in note
    # Where there are nulls, nothing replaces them; where no value is the default, neither.
    assert notes([row(1, None, None), row(2, "none", 7)]) == []
    assert notes([row(1, "a", 1), row(2, "b", 2)]) == []


def test_base64_that_is_url_safe() -> None:
    def rows(*texts: str) -> list[Message]:
        return [
            ({"id": place}, change({"id": place, "data": text})) for place, text in enumerate(texts)
        ]

    (note,) = notes(rows("-_-_", "__8=", ""))
    assert note.startswith("data: base64 as of binary.handling.mode=base64-url-safe.")
    for others in (
        # Letters of either alphabet; of the other one; uuids; words.
        ("AAAA", "YWI="),
        ("-_-_", b64encode(b"\xff\xff").decode(), "++//"),
        ("550e8400-e29b-41d4-a716-446655440000",),
        ("in-stock", "sold_out"),
        ("-_-_", "__8=", "a text"),
    ):
        assert notes(rows(*others)) == [], others


@pytest.mark.parametrize(
    ("column", "is_lost"),
    [
        ({"type": "array", "items": {"type": "int16"}}, True),
        ({"type": "array", "items": {"type": "double"}}, True),
        ({"type": "array", "items": {"type": "int64", "name": "io.debezium.time.Timestamp"}}, True),
        ({"type": "array", "items": {"type": "bytes", "name": f"{CONNECT}.Decimal"}}, True),
        ({"type": "array", "items": {"type": "int32", "name": f"{CONNECT}.Date"}}, True),
        ({"type": "array", "items": {"type": "map"}}, True),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, True),
        # These have a placeholder, or are never so long.
        ({"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}}, False),
        ({"type": "array", "items": {"type": "string", "name": "io.debezium.data.Uuid"}}, False),
        ({"type": "array", "items": {"type": "int64"}}, False),
        ({"type": "string"}, False),
        ({"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": "2"}}, False),
    ],
)
def test_values_out_of_line_without_a_placeholder(column: Any, is_lost: bool) -> None:
    def row(op: str, before: Any, connector: str = "postgresql") -> Message:
        message = change({"id": 1, "sums": None}, op, sums=["string", None])
        message["payload"]["before"] = before
        message["payload"]["source"] |= {"connector": connector, "sequence": '["1","2"]'}
        image = message["schema"]["fields"][0]
        image["fields"] = [{"field": "sums", "optional": True, **column}]
        return {"id": 1}, message

    found = notes([row("r", None), row("u", None)])
    assert [note.startswith("sums: where an update leaves") for note in found] == [True] * is_lost
    # With full replica identity, each update has the row before it; other sources log all values.
    assert notes([row("r", None), row("u", {"id": 1, "sums": None})]) == []
    assert notes([row("r", None, "mysql")]) == []


def test_snapshots_that_follow_each_other() -> None:
    def row(number: int, snapshot: str) -> Message:
        return {"id": number}, change({"id": number}, "r", snapshot)

    one = [row(1, "first_in_data_collection"), row(2, "true"), row(3, "last")]
    assert notes(one) == []
    again = [row(1, "first"), row(3, "last_in_data_collection")]
    (note,) = notes([*one, ({"id": 4}, change({"id": 4})), *again])
    assert note.startswith("there are 2 snapshots of it: a row that was deleted between two")
    # One that Debezium reads beside the log misses no delete.
    assert notes([*one, row(1, "incremental"), row(2, "incremental")]) == []


def test_rows_without_envelopes_have_no_truncates() -> None:
    (note,) = notes([({"id": 1}, {"id": 1, "__op": "c"})], "debezium_unwrapped_json")
    assert note.startswith("the topic has no TRUNCATE") and "skipped.operations=none" in note
