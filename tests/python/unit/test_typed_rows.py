"""Rows of change logs by column, and one by one: the two ways are the same, and what they say."""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrow_values import differing, values_of
from support.typed_events import PLACEHOLDER, random_changes, random_log
from support.typed_seeds import seed_logs, shape_logs

from dbt_lakehouse.declared import declarations
from python_udfs.typed import chunks
from python_udfs.typed.batches import Changes
from python_udfs.typed.declared import Log, LogColumn, row_type
from python_udfs.typed.row import Change, change_row
from python_udfs.typed.rows import Rows, change_rows, told_rows

ORDERS: Final = Log(
    (
        LogColumn("id", "int", "id"),
        LogColumn("amount", "decimal(9,2)", "amount"),
        LogColumn("note", "string", "note"),
    ),
    ("id",),
)


def image(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def row_of(change: Change, log: Log = ORDERS) -> dict[str, Any]:
    """The row of a change, which both ways agree on."""
    row = change_row(log, change)
    expected = pa.array([row], row_type(log))
    got = rows_of(log, [change])
    assert not differing(got, expected), values_of(got)
    return row


def rows_of(log: Log, changes: list[Change]) -> pa.StructArray:
    columns = zip(*changes, strict=True) if changes else ([] for _ in Changes._fields)
    rows = change_rows(log, Changes(*map(list, columns)))
    rows.validate(full=True)
    return rows


@given(st.integers(0, 2**40))
@settings(deadline=None)
def test_rows_by_column_are_the_rows_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng)
    changes = random_changes(rng, log)
    got = rows_of(log, changes)
    expected = pa.array([change_row(log, each) for each in changes], row_type(log))
    assert [
        (changes[place], values_of(got)[place], values_of(expected)[place])
        for place in differing(got, expected)
    ] == []


@pytest.mark.parametrize("logs", [seed_logs, shape_logs])
def test_decoded_events_have_the_same_rows_both_ways(
    logs: Callable[[], Iterable[tuple[Log, list[Change]]]],
) -> None:
    of_all = list(logs())
    assert len(of_all) > 30
    for log, changes in of_all:
        expected = pa.array([change_row(log, each) for each in changes], row_type(log))
        assert differing(rows_of(log, changes), expected) == [], log


def test_both_ways_are_gone() -> None:
    with patch.object(chunks, "_long_way", wraps=chunks._long_way) as long_way:
        rows_of(ORDERS, [Change("insert", None, image(id=1, amount="1.5", note=None))] * 2000)
        assert not long_way.called
        rows_of(ORDERS, [Change("update", image(id=1), image(id=2))])
        assert long_way.called


def test_a_changed_column_differs_between_the_images() -> None:
    before, after = image(id=1, amount=1, note="a"), image(id=1, amount="1.00", note="a")
    row = row_of(Change("update", before, after))
    assert row["_changed_columns"] == ["amount"]
    assert row["_previous_key"] is None
    assert row_of(Change("update", None, after))["_changed_columns"] is None


def test_a_delete_has_the_values_before_it() -> None:
    row = row_of(Change("delete", image(id=7, amount=2), None, image(id=7)))
    assert (row["id"], str(row["amount"]), row["_changed_columns"]) == (7, "2.00", None)


def test_a_key_that_the_row_does_not_say_is_the_message_s() -> None:
    assert row_of(Change("delete", None, None, image(id=7)))["id"] == 7
    gone = Change("delete", None, None, image(id="8"))
    kept = Change("insert", None, image(id=7, amount=1), image(id=7))
    assert rows_of(ORDERS, [gone, kept, gone]).field("id").to_pylist() == [8, 7, 8]


def test_an_update_of_the_key_names_the_one_before() -> None:
    row = row_of(Change("update", image(id=1), image(id=2)))
    assert row["_previous_key"] == {"id": 1}
    # A number is the same however it is written.
    assert row_of(Change("update", image(id=1.0), image(id=1)))["_previous_key"] is None


def test_a_value_that_does_not_fit_is_told_by_its_text() -> None:
    row = row_of(Change("insert", None, image(id=1, amount="1.505", note="a")))
    assert row["amount"] is None
    assert row["_misfits"] == [{"column": "amount", "text": "1.505"}]
    row = row_of(Change("insert", None, image(id=2**40, amount="x")))
    assert [each["column"] for each in row["_misfits"]] == ["id", "amount"]


def test_a_placeholder_leaves_its_column_as_it_was() -> None:
    row = row_of(Change("update", None, image(id=1, amount=1, note=PLACEHOLDER)))
    assert (row["note"], row["_unchanged_columns"], row["_misfits"]) == (None, ["note"], [])
    row = row_of(Change("update", image(id=1, note="a"), image(id=1, note=PLACEHOLDER)))
    assert (row["note"], row["_unchanged_columns"], row["_changed_columns"]) == ("a", [], [])


def test_a_placeholder_of_a_new_row_is_a_misfit() -> None:
    row = row_of(Change("insert", None, image(id=1, note=PLACEHOLDER)))
    assert row["_misfits"] == [{"column": "note", "text": PLACEHOLDER}]
    row = row_of(Change("update", None, image(id=PLACEHOLDER, note="a")))
    assert row["_misfits"] == [{"column": "id", "text": PLACEHOLDER}]


def test_a_placeholder_that_is_written_with_escapes_is_one_too() -> None:
    after = b'{"id":1,"note":"\\u005f_debezium_unavailable_value"}'
    assert row_of(Change("update", None, after))["_unchanged_columns"] == ["note"]


def test_events_of_a_key_update_share_a_name() -> None:
    old_key, new_key = '{"id":1}', '{"id":2}'
    source = {"source": {"lsn": 5}}
    delete = row_of(
        Change("delete", None, None, old_key.encode(), image(**source, new_key=new_key))
    )
    insert = row_of(
        Change(
            "insert",
            None,
            image(id=2, amount=3, note=PLACEHOLDER),
            new_key.encode(),
            image(**source, old_key=old_key),
        )
    )
    assert insert["_key_update"]["id"] == delete["_key_update"]["id"]
    assert insert["_key_update"]["change"] == delete["_key_update"]["change"]
    assert insert["_key_update"]["key_before"] == {"id": 1}
    assert insert["_key_update"]["columns"] == ["note"]
    assert delete["_key_update"]["key_before"] is None


def test_a_partial_image_leaves_what_it_does_not_name() -> None:
    log = Log(ORDERS.columns, ("id",), partial=True)
    row = row_of(Change("update", None, image(id=1, note=None)), log)
    assert (row["amount"], row["_unchanged_columns"]) == (None, ["amount"])


def test_a_name_that_json_escapes_is_one_like_others() -> None:
    name = 'a"b'
    beside = LogColumn("place", "int", "source", ("source", name))
    column = LogColumn("amount", "int", name)
    log = Log((ORDERS.columns[0], column), ("id",), partial=True, beside=(beside,))
    metadata = image(source={name: 7})
    row = row_of(Change("update", None, image(**{"id": 1, name: 5}), None, metadata), log)
    assert (row["amount"], row["place"], row["_unchanged_columns"]) == (5, 7, [])
    assert row_of(Change("update", None, image(id=1)), log)["_unchanged_columns"] == ["amount"]


@pytest.mark.parametrize("type", ["date", "array<date>"])
def test_a_key_may_be_a_day_of_any_year(type: str) -> None:
    log = Log((LogColumn("day", type, "day"),), ("day",))
    days = ["2024-01-01", "+10000-01-01"]
    before, after = (image(day=day if type == "date" else [day]) for day in days)
    row = row_of(Change("update", before, after), log)
    assert row["_previous_key"] is not None
    assert row["_misfits"] == []


def test_a_keyless_table_s_update_names_the_row_before() -> None:
    log = Log(ORDERS.columns[1:], ("amount", "note"), keyless=True)
    row = row_of(Change("update", image(amount=1, note="a"), image(amount=1, note="b")), log)
    assert {name: str(value) for name, value in row["_previous_key"].items()} == {
        "amount": "1.00",
        "note": "a",
    }


def test_a_key_of_other_columns_is_told() -> None:
    log = Log(ORDERS.columns, ("id",), keys=(("id",),))
    after = image(id=1)
    assert not row_of(Change("insert", None, after, image(id=1)), log)["_lh_has_other_key"]
    assert row_of(Change("insert", None, after, image(other=1)), log)["_lh_has_other_key"]
    assert not row_of(Change("insert", None, after), log)["_lh_has_other_key"]


def test_hbase_values_are_decoded() -> None:
    column = LogColumn("n", "int", "n", None, "hbase")
    log = Log((LogColumn("id", "string", "id"), column), ("id",))
    assert row_of(Change("insert", None, image(id="a", n="AAAABw==")), log)["n"] == 7
    row = row_of(Change("insert", None, image(id="a", n="AA==")), log)
    assert row["_misfits"] == [{"column": "n", "text": "AA=="}]


BESIDE: Final = Log(
    ORDERS.columns,
    ("id",),
    beside=(
        LogColumn("lsn", "bigint", "source.lsn", ("source", "lsn")),
        LogColumn("transaction", "string", "transaction.id", ("transaction", "id")),
        LogColumn("sent", "bigint", "ts_ms", ("ts_ms",)),
    ),
)


def beside_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What the source said beside a row."""
    return tuple(row[each.column] for each in BESIDE.beside)


def test_what_the_source_said_beside_a_row_is_each_event_s_own() -> None:
    metadata = image(source={"lsn": 2**40, "db": "x"}, transaction={"id": "7:1"}, ts_ms=5)
    said = (2**40, "7:1", 5)
    for change in (
        Change("insert", None, image(id=1, amount=1), None, metadata),
        Change("update", image(id=1, amount=1), image(id=1, amount=2), None, metadata),
        Change("delete", image(id=1, amount=1), None, image(id=1), metadata),
        Change("delete", None, None, image(id=1), metadata),
        Change("truncate", None, None, None, metadata),
        # Nothing that is said of images is said of it.
        Change("update", None, image(id=PLACEHOLDER, note=PLACEHOLDER), None, metadata),
    ):
        row, without = row_of(change, BESIDE), row_of(change)
        assert beside_of(row) == said
        assert {name: row[name] for name in without} == without


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (None, (None, None, None)),
        (b"{}", (None, None, None)),
        (b'{"source":null,"transaction":{"id":null},"ts_ms":null}', (None, None, None)),
        (b'{"source":"lsn","transaction":[{"id":1}],"ts_ms":-0}', (None, None, 0)),
        (b'{"source":{"lsn":" 7 "},"transaction":{"id":1.50}}', (7, "1.50", None)),
        (b'{"transaction":{"id":{"a": [1, "\\u00e9"]}}}', (None, '{"a": [1, "\\u00e9"]}', None)),
        (b'{"transaction":{"id":"__debezium_unavailable_value"}}', (None, PLACEHOLDER, None)),
    ],
)
def test_what_metadata_does_not_say_is_null(metadata: bytes | None, said: tuple[Any, ...]) -> None:
    row = row_of(Change("insert", None, image(id=1), None, metadata), BESIDE)
    assert beside_of(row) == said
    assert row["_misfits"] == []


def test_what_does_not_fit_beside_a_row_is_told_by_its_text() -> None:
    row = row_of(
        Change("insert", None, image(id=1, amount="x"), None, image(source={"lsn": 2**70})), BESIDE
    )
    assert beside_of(row) == (None, None, None)
    assert row["_misfits"] == [
        {"column": "amount", "text": "x"},
        {"column": "lsn", "text": str(2**70)},
    ]


def test_a_key_update_is_one_beside_what_the_source_said() -> None:
    old, new = '{"id":1}', '{"id":2}'
    delete, insert = (
        Change("delete", None, None, old.encode(), image(source={"lsn": 5}, new_key=new)),
        Change(
            "insert",
            None,
            image(id=2, note=PLACEHOLDER),
            new.encode(),
            image(source={"lsn": 5}, old_key=old),
        ),
    )
    row = row_of(insert, BESIDE)
    assert row["lsn"] == 5
    assert row["_key_update"] == row_of(insert)["_key_update"]
    assert (row["_key_update"]["key_before"], row["_key_update"]["columns"]) == (
        {"id": 1},
        ["note"],
    )
    assert row["_key_update"]["id"] == row_of(delete, BESIDE)["_key_update"]["id"]


def test_what_was_said_beside_a_row_is_not_of_the_row_of_a_keyless_table() -> None:
    log = Log(ORDERS.columns[1:], ("amount", "note"), keyless=True, beside=BESIDE.beside)
    after = image(amount=1, note="a")
    row = row_of(Change("update", after, after, None, image(ts_ms=5)), log)
    assert (row["sent"], row["_changed_columns"]) == (5, [])
    assert {*row["_previous_key"]} == {"amount", "note"}


def test_a_record_may_be_logged_by_what_was_said_beside_it_alone() -> None:
    log = Log((), beside=BESIDE.beside[2:])
    for partial in (False, True):
        row = row_of(
            Change("upsert", None, image(a=1), image(digest="x"), image(ts_ms="x")),
            Log((), partial=partial, beside=log.beside),
        )
        assert (row["sent"], row["_changed_columns"]) == (None, None)
        assert row["_misfits"] == [{"column": "sent", "text": "x"}]


def test_many_events_have_each_its_own() -> None:
    places = range(2000)
    changes = [
        Change(
            "insert",
            None,
            image(id=place),
            None,
            None if place % 7 == 0 else image(source={"lsn": place}, ts_ms=None),
        )
        for place in places
    ]
    rows = rows_of(BESIDE, changes)
    assert rows.field("lsn").to_pylist() == [place if place % 7 else None for place in places]
    # One that can't be read at once with the others.
    changes[1000] = changes[1000]._replace(metadata=b'{"source":[{"lsn":1}],\n"ts_ms":3}')
    others = rows_of(BESIDE, changes)
    assert others.field("sent").to_pylist() == [3 if place == 1000 else None for place in places]
    assert others.field("lsn").drop_null().to_pylist() == [
        place for place in places if place % 7 and place != 1000
    ]


@pytest.mark.parametrize("bad", [b"no JSON", b"[]", b'{"id":1', b"\xff"])
def test_an_image_that_cannot_be_read_costs_its_own_event_only(bad: bytes) -> None:
    good = [Change("insert", None, image(id=number), image(id=number)) for number in range(5)]
    broken = Change("insert", None, bad, image(id=2))
    columns = zip(*[*good[:2], broken, *good[3:]], strict=True)
    changes = Changes(*map(list, columns))
    rows = told_rows(ORDERS, lambda start, end: [changes.slice(start, end - start)], 5)
    assert rows.field("id").to_pylist() == [0, 1, None, 3, 4]
    assert rows[2].as_py() == dict.fromkeys(field.name for field in row_type(ORDERS)) | {
        "_lh_has_other_key": False,
        "_misfits": [{"column": "id", "text": bad.decode(errors="replace")}],
        "_unchanged_columns": [],
    }


def test_an_event_on_which_the_rows_by_column_fail_has_the_row_of_its_own() -> None:
    changes = [Change("insert", None, image(id=number, amount="1.50")) for number in range(5)]
    expected = rows_of(ORDERS, changes)
    columns = Changes(*map(list, zip(*changes, strict=True)))
    add = Rows.add

    def failing(rows: Rows, some: Changes) -> None:
        if image(id=2, amount="1.50") in some.after:
            raise RuntimeError("an error of ours")
        add(rows, some)

    with patch.object(Rows, "add", failing):
        rows = told_rows(ORDERS, lambda start, end: [columns.slice(start, end - start)], 5)
    assert rows.equals(expected)


def test_events_may_be_added_as_they_are_decoded() -> None:
    changes = [Change("insert", None, image(id=number)) for number in range(5)]
    rows = Rows(ORDERS)
    for part in (changes[:2], changes[2:2], changes[2:]):
        columns = zip(*part, strict=True) if part else ([] for _ in Changes._fields)
        rows.add(Changes(*map(list, columns)))
    assert rows.array().equals(rows_of(ORDERS, changes))


def test_no_events_have_no_rows() -> None:
    rows = rows_of(ORDERS, [])
    assert rows.type == row_type(ORDERS)
    assert len(rows) == 0


def test_a_log_is_what_a_model_s_meta_says() -> None:
    meta = declarations.change_log(
        {
            "columns": {
                "a": "INT",
                "b": {"type": "string", "path": "x.0"},
                "scn": {"type": "BIGINT", "from": "metadata", "path": "source.scn"},
                "c": {"type": "string", "path": "$"},
            },
            "source_table": "t",
            "key": {"id": "bigint"},
            "source_schema": None,
            "source_database": None,
            "keyless": False,
            "partial": False,
            "order_by_source_time": None,
        }
    )
    assert declarations.rows_of(meta) == Log(
        (
            LogColumn("id", "bigint", "id"),
            LogColumn("a", "int", "a"),
            LogColumn("b", "string", "x", ("x", "0")),
            LogColumn("c", "string", "$", ()),
        ),
        ("id",),
        beside=(LogColumn("scn", "bigint", "source", ("source", "scn")),),
    )


def test_a_type_that_no_column_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="type"):
        change_rows(
            Log((LogColumn("id", "struct<a:int>", "id"),), ("id",)), Changes([], [], [], [], [], [])
        )


def test_a_key_that_was_called_otherwise_is_read_by_that_name() -> None:
    log = Log(ORDERS.columns, ORDERS.key, keys=(("id",),), former=(("id", "number"),))
    for change in (
        Change("insert", None, image(number=7, amount="1.00"), image(number=7)),
        Change("delete", None, None, image(number=7)),
    ):
        row = row_of(change, log)
        assert (row["id"], row["_lh_has_other_key"]) == (7, True)
        assert row["_lh_former"]["texts"] == ["7"]
    now = row_of(Change("insert", None, image(id=8), image(id=8)), log)
    assert (now["id"], now["_lh_has_other_key"]) == (8, False)
