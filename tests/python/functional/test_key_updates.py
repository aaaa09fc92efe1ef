"""Keys that change: values that an insert leaves as they were under the old key are those of the
old key's row, through decoders and through dbt.
"""

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.key_update_tables import (
    ACCOUNTS,
    ALL,
    EMPTIED,
    EXAMPLES,
    LEDGERS,
    TABLES,
    UNKNOWN,
    Example,
    stream,
    table,
)
from support.row_events import COLUMNS, Source, key_value
from support.row_examples import events_of, example_key
from support.row_lake import LAST, RUNS, expected_state, typed
from support.row_streams import BATCHINGS
from support.streams import UNAVAILABLE

from dbt_lakehouse.build.key_update_values import Source as Origin
from dbt_lakehouse.build.key_update_values import sources
from python_udfs.registry import decode_batch, decode_payload

if TYPE_CHECKING:
    from support.built_rows import Built, Refreshed

pytest_plugins = ["support.built_rows"]

OLD, NEW = "__debezium.oldkey", "__debezium.newkey"


# --- headers --------------------------------------------------------------------------------------

BLOCK = {
    "type": "struct",
    "name": "shop.Key",
    "fields": [
        {"type": "string", "field": "code"},
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
            "field": "number",
        },
        {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
    ],
}


def text(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def metadata(format: str, key: bytes, value: bytes | None, *headers: tuple[str, bytes]) -> Any:
    """What the event says beside its images, the same alone and among others."""
    (event,) = decode_payload(format, key, value, headers)
    many = decode_batch(format, [key] * 9, [value] * 9, [None, headers] * 4 + [headers])
    assert many.payloads()[1] == [event]
    (alone,) = decode_payload(format, key, value)
    assert many.payloads()[0] == [alone]
    assert event.operation == alone.operation != "invalid"
    return json.loads(event.metadata or b"{}")


def change(op: str = "c") -> bytes:
    """An envelope without a schema block."""
    row = {"id": 2, "note": UNAVAILABLE}
    source = {"connector": "postgresql", "db": "shop", "schema": "s", "table": "t"}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return text({**images, "op": op, "source": source})


def test_headers_name_the_other_key() -> None:
    old = metadata("debezium_json", text({"id": 2}), change(), (OLD, b'{"id":1}'))
    assert old["old_key"] == '{"id":1}' and "new_key" not in old
    new = metadata("debezium_json", text({"id": 2}), change("d"), (NEW, b'{"id":1}'))
    assert new["new_key"] == '{"id":1}' and "old_key" not in new


def test_rows_without_envelopes_have_them_too() -> None:
    found = metadata("debezium_unwrapped_json", b'{"id":2}', b'{"id":2}', (OLD, b'{"id":1}'))
    assert found["old_key"] == '{"id":1}'
    found = metadata("debezium_unwrapped_json", b'{"id":2}', None, (NEW, b'{"id":1}'))
    assert found["new_key"] == '{"id":1}'


def test_other_headers_say_nothing() -> None:
    found = metadata("debezium_json", b'{"id":2}', change(), ("__debezium.context.taskId", b"0"))
    assert not {"old_key", "new_key"} & found.keys()


def test_a_key_in_a_header_is_typed_as_the_messages_own() -> None:
    """SimpleHeaderConverter writes decimals as numbers and leaves control characters unescaped."""
    own = text({"schema": BLOCK, "payload": {"code": "a", "number": "BOI=", "day": 18295}})
    header = b'{"code":"a\nb \\"","number":12.5,"day":1}'
    found = metadata("debezium_json", own, change(), (OLD, header))
    assert found["old_key"] == '{"code":"a\\nb \\"","day":"1970-01-02","number":12.5}'


def test_a_header_can_have_a_schema_of_its_own() -> None:
    header = text({"schema": BLOCK, "payload": {"code": "a", "number": "BOI=", "day": 18295}})
    found = metadata("debezium_json", text({"id": 2}), change(), (OLD, header))
    assert found["old_key"] == '{"code":"a","day":"2020-02-03","number":12.5}'


@pytest.mark.parametrize("header", [b"", b"{", b"Struct{id=1}", b"1", b"{}", b"null", b"\0\0\0"])
def test_what_cant_be_read_says_nothing(header: bytes) -> None:
    assert "old_key" not in metadata("debezium_json", b'{"id":2}', change(), (OLD, header))


@pytest.mark.parametrize(
    "placeholder",
    [UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", list(UNAVAILABLE.encode())],
)
def test_placeholders_of_keys_are_plain_text(placeholder: Any) -> None:
    """Whatever the column's type: in the key of a message as in its images."""
    key = text({"code": placeholder, "id": 1})
    for format, value in {"debezium_json": change(), "debezium_unwrapped_json": b'{"a":1}'}.items():
        events = decode_batch(format, [key, b'{"code":"a","id":1}'] * 20, [value] * 40).payloads()
        for (event,) in events[::2]:
            assert json.loads(event.record_key or b"") == {"code": UNAVAILABLE, "id": 1}


# --- where values come from -----------------------------------------------------------------------


def test_a_row_has_the_values_of_the_last_one_that_says_them() -> None:
    found = sources(
        {
            "c": ("b", ["note", "photo"]),
            "d": ("c", ["note"]),
            "b": ("a", ["note"]),
        }
    )
    assert sorted(found) == [
        Origin("b", "a", ["note"]),
        Origin("c", "a", ["note"]),
        Origin("c", "b", ["photo"]),
        Origin("d", "a", ["note"]),
    ]


def test_rows_that_rest_on_each_other_have_no_source() -> None:
    assert sources({"a": ("b", ["note"]), "b": ("a", ["note"]), "c": ("a", ["note"])}) == []


def test_long_chains() -> None:
    chain = {str(number): (str(number - 1), ["note"]) for number in range(5000, 0, -1)}
    assert {each.source for each in sources(chain)} == {"0"}


# --- through dbt ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clone", range(len(BATCHINGS)))
def test_the_reference_gives_the_source_table(clone: int) -> None:
    """That says what is right: gold is held against the reference, for it knows what has landed."""
    there = table(clone)
    found = expected_state(ACCOUNTS, there.events, LAST).rows.values()
    assert {row["id"]: {name: row[name] for name in COLUMNS} for row in found} == {
        key: typed(image) for key, image in there.rows.items()
    }


def test_the_stream_holds_every_situation() -> None:
    events = [event for clone in range(len(BATCHINGS)) for event in stream(clone)]
    inserts = [each for each in events if each.operation == "insert" and each.other_key is not None]
    left = [each for each in inserts if each.named["note"] == UNAVAILABLE]
    assert len(left) > 40
    assert any(each.key % 2 == each.other_key % 2 for each in left if each.key and each.other_key)
    assert any(each.key % 2 != each.other_key % 2 for each in left if each.key and each.other_key)
    again = [(each.key, each.lsn) for each in inserts]
    assert len(again) > len(set(again))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: "Built", run: int, table: str) -> None:
    assert built.differences[run][table] == []


# In CI, the first run makes all tables from nothing, with streams that come whole in it too, and
# test_scenarios has a full refresh.
@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_a_full_refresh_gives_the_same(built: "Built", refreshed: "Refreshed", table: str) -> None:
    assert refreshed[table] == built.rows[table]


each_example = pytest.mark.parametrize(
    ("number", "example"), [*enumerate(ALL)], ids=[example.name for example in ALL]
)


@each_example
def test_examples(built: "Built", number: int, example: Example) -> None:
    keys = {example_key(number, key): key for key in range(10)}
    assert {
        keys[row["id"]]: {name: row[name] for name in COLUMNS}
        for row in built.rows[ACCOUNTS.table]
        if row["id"] in keys
    } == example.images


@each_example
def test_the_reference_gives_the_examples(number: int, example: Example) -> None:
    assert_reference_gives(ACCOUNTS, number, example)


def test_the_reference_gives_what_a_truncate_leaves() -> None:
    assert_reference_gives(LEDGERS, 0, EMPTIED)


def assert_reference_gives(source: Source, number: int, example: Example) -> None:
    """The images of an example."""
    events = [event for _, event in events_of(source, number, example.steps)]
    found = expected_state(source, events, LAST).rows
    assert {
        key: {name: row[name] for name in COLUMNS}
        for key in example.images
        if (row := found.get((key_value(source, example_key(number, key)),)))
    } == example.images
    assert len(found) == len(example.images)


def test_what_nobody_knows_is_told(built: "Built") -> None:
    told = {
        (change["id"], misfit["column"], misfit["text"])
        for change in built.changes[ACCOUNTS.table]
        for misfit in change["_misfits"]
    }
    assert told == {
        (example_key(len(EXAMPLES) + number, 1), "note", UNAVAILABLE)
        for number in range(len(UNKNOWN))
    }
