"""Rows of cells, as the connectors of Cassandra, ScyllaDB and YugabyteDB ship them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import each_alone
from support.avro_messages import Writer, avro_schema, avro_value
from support.debezium_messages import dumps, loads

from python_udfs.core.events import Event
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.debezium import avro, fast_rows, unwrapped, unwrapped_avro
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium.fast_envelopes import DebeziumFormat
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.registry import decode_batch, decode_payload

Value = dict[str, Any]

YUGABYTE: Value = {
    "version": "1.9.5.y.220",
    "connector": "yugabytedb",
    "name": "db",
    "ts_ms": 1_764_590_400_000,
    "snapshot": "false",
    "db": "yugabyte",
    "schema": "public",
    "table": "orders",
}
CASSANDRA: Value = {
    "version": "3.6.0.Final",
    "connector": "cassandra",
    "name": "db",
    "ts_ms": 1_764_590_400_000,
    "snapshot": "false",
    "db": "NULL",
    "keyspace": "shop",
    "table": "orders",
    "cluster": "c",
    "file": "CommitLog-7-1.log",
    "pos": 1,
}
SCYLLA: Value = {
    "version": "1.1.4",
    "connector": "scylla",
    "name": "db",
    "ts_ms": 1_764_590_400_000,
    "snapshot": "false",
    "db": "ks",
    "keyspace_name": "ks",
    "table_name": "orders",
}


def cell(value: Any, **more: Any) -> Value:
    return {"value": value, "set": True, **more}


def cassandra(value: Any, deletion_ts: int | None = None) -> Value:
    return {"value": value, "deletion_ts": deletion_ts, "set": True}


def change(source: Value | None, op: str, before: Any = None, after: Any = None) -> Value:
    named = {} if source is None else {"source": source}
    return {"before": before, "after": after, **named, "op": op, "ts_ms": 1, "transaction": None}


def decoded(value: Value, key: Any = None) -> Event:
    (event,) = debezium_json.decode(None if key is None else dumps(key), dumps(value))
    return event


def images(event: Event) -> tuple[Any, Any]:
    assert event.operation != "invalid", event
    return loads(event.before), loads(event.after)


# --- What they say --------------------------------------------------------------------------------

KEY = {"id": cell(1)}


def test_yugabyte() -> None:
    created = change(YUGABYTE, "c", None, {"id": cell(1), "a": cell(2), "b": cell("x")})
    event = decoded(created, KEY)
    # YCQL's inserts may meet a row that is there.
    assert (event.operation, event.record_key) == ("upsert", b'{"id":1}')
    assert event[2:5] == ("yugabyte", "public", "orders")
    assert images(event) == (None, {"id": 1, "a": 2, "b": "x"})
    updated = decoded(change(YUGABYTE, "u", None, {"id": cell(1), "a": None, "b": cell(None)}), KEY)
    assert images(updated) == (None, {"id": 1, "a": UNAVAILABLE, "b": None})
    full = {"id": cell(1), "a": cell(2), "b": cell("x")}
    both = decoded(change(YUGABYTE, "u", full, {"id": cell(1), "a": None, "b": cell("y")}), KEY)
    assert images(both) == ({"id": 1, "a": 2, "b": "x"}, {"id": 1, "a": UNAVAILABLE, "b": "y"})
    deleted = decoded(change(YUGABYTE, "d", {"id": cell(1), "a": None, "b": None}), KEY)
    assert (deleted.operation, *images(deleted)) == ("delete", {"id": 1}, None)
    (tombstone,) = debezium_json.decode(dumps(KEY), None)
    assert (tombstone.operation, tombstone.record_key) == ("tombstone", b'{"id":1}')
    # The Kafka key stays as it was sent.
    assert loads(tombstone.metadata) == {"event_key": KEY}
    truncated = decoded(change(YUGABYTE, "t"))
    assert (truncated.operation, *images(truncated)) == ("truncate", None, None)
    snapshot = decoded(change(YUGABYTE, "r", None, full), KEY)
    assert (snapshot.operation, *images(snapshot)) == ("snapshot", None, loads(event.after))
    # A row of a snapshot is whole.
    snapshot = decoded(change(YUGABYTE, "r", None, {"id": cell(1), "a": None}), KEY)
    assert images(snapshot) == (None, {"id": 1, "a": None})


def test_the_other_key_of_a_key_update_is_of_values_too() -> None:
    headers = [("__debezium.oldkey", dumps({"id": cell(7)}))]
    created = dumps(change(YUGABYTE, "c", None, {"id": cell(1), "a": None}))
    (event,) = decode_payload("debezium_json", dumps(KEY), created, headers)
    assert loads(event.metadata)["old_key"] == '{"id":7}'


def test_a_cell_that_is_not_set_is_unchanged() -> None:
    after = {"id": cell(1), "a": {"value": 5, "set": False}, "b": {"value": None, "set": False}}
    event = decoded(change(YUGABYTE, "u", None, after), KEY)
    assert images(event) == (None, {"id": 1, "a": UNAVAILABLE, "b": UNAVAILABLE})
    told = {"a": {"value": 5, "set": False}, "b": {"value": None, "set": False}}
    assert loads(event.metadata)["cells"] == {"after": told}


def test_cassandra() -> None:
    columns: Value = {"_range_start": None, "_range_end": None}
    after = columns | {"id": cassandra(1), "a": cassandra(2, 1_764_600_000_000_000), "b": None}
    event = decoded(change(CASSANDRA, "i", None, after), {"id": 1})
    # The row may be there.
    assert (event.operation, event.record_key) == ("upsert", b'{"id":1}')
    # It has no databases, and says so with this word.
    assert event[2:5] == (None, "shop", "orders")
    assert images(event) == (None, {"id": 1, "a": 2, "b": UNAVAILABLE})
    # When it expires, of which nothing is shipped then.
    told = {"after": {"a": {"deletion_ts": 1_764_600_000_000_000}}}
    assert loads(event.metadata)["cells"] == told
    assert loads(event.metadata)["source"] == CASSANDRA
    after = columns | {"id": cassandra(1), "a": cassandra(None), "b": cassandra(["x", "y"])}
    updated = decoded(change(CASSANDRA, "u", None, after), {"id": 1})
    assert images(updated) == (None, {"id": 1, "a": None, "b": ["x", "y"]})
    # What was deleted is null since then: of what it was nothing is said.
    for gone in (None, cassandra(None, 1_764_600_000_000_000)):
        after = columns | {"id": cassandra(1), "a": gone, "b": gone}
        deleted = decoded(change(CASSANDRA, "d", None, after), {"id": 1})
        assert (deleted.operation, deleted.record_key) == ("delete", b'{"id":1}')
        assert images(deleted) == ({"id": 1}, None)
    # Of all ops its EnvelopeTransformation makes Debezium's.
    assert decoded(change(CASSANDRA, "c", None, after), {"id": 1}).operation == "upsert"


def test_scylla() -> None:
    key = {"ck": 2, "pk": 1}
    event = decoded(
        change(SCYLLA, "c", None, key | {"a": {"value": 7}, "b": None, "c": {"value": None}}), key
    )
    assert event[1:6] == ("upsert", "ks", "ks", "orders", b'{"ck":2,"pk":1}')
    assert images(event) == (None, key | {"a": 7, "b": UNAVAILABLE, "c": None})
    deleted = decoded(change(SCYLLA, "d", key | {"a": None, "b": None}), key)
    assert images(deleted) == (key, None)
    with_before = decoded(
        change(SCYLLA, "u", key | {"a": {"value": 1}}, key | {"a": {"value": 2}}), key
    )
    assert images(with_before) == (key | {"a": 1}, key | {"a": 2})
    # A row of which only the key was written.
    assert images(decoded(change(SCYLLA, "c", None, key | {"a": None}), key)) == (
        None,
        key | {"a": UNAVAILABLE},
    )
    assert images(decoded(change(SCYLLA, "c", None, {"pk": 1, "a": {"value": 7}}))) == (
        None,
        {"pk": 1, "a": 7},
    )


def test_scylla_s_advanced_format_has_no_cells() -> None:
    key = {"pk": 1}
    rows: list[Value] = [
        {"pk": 1, "a": "x", "b": None},
        {"pk": 1, "a": {"value": 1, "at": 2}, "b": None},
    ]
    for after in rows:
        assert images(decoded(change(SCYLLA, "u", None, after), key)) == (None, after)
        assert decoded(change(SCYLLA, "c", None, after), key).operation == "upsert"
    # The row before says it too.
    before: Value = {"pk": 1, "a": "x"}
    after = {"pk": 1, "a": None}
    assert images(decoded(change(SCYLLA, "u", before, after), key)) == (before, after)


@pytest.mark.parametrize(
    ("name", "after"),
    [("orders.a.Cell", {"pk": 1, "a": UNAVAILABLE}), ("orders.address", {"pk": 1, "a": None})],
)
def test_scylla_s_cells_are_told_by_their_schema(name: str, after: Value) -> None:
    fields = [{"field": "value", "type": "string", "optional": True}]
    columns = [
        {"field": "pk", "type": "int32"},
        {"field": "a", "type": "struct", "name": name, "optional": True, "fields": fields},
    ]
    block = {
        "type": "struct",
        "fields": [{"field": "after", "type": "struct", "optional": True, "fields": columns}],
    }
    payload = change(SCYLLA, "u", None, {"pk": 1, "a": None})
    event = decoded({"schema": block, "payload": payload}, {"pk": 1})
    assert images(event) == (None, after)


FORK: Value = YUGABYTE | {"connector": "postgresql"}
"""YugabyteDB's connector for logical replication may say that it is PostgreSQL's."""


def test_a_fork_of_postgresql_s_connector_may_have_cells() -> None:
    after = {"id": cell(1), "a": cell(3), "b": None}
    updated = decoded(change(FORK, "u", None, after), KEY)
    assert (updated.operation, updated.record_key) == ("update", b'{"id":1}')
    assert images(updated) == (None, {"id": 1, "a": 3, "b": UNAVAILABLE})
    created = decoded(change(FORK, "c", None, {"id": cell(1), "a": cell(None)}), KEY)
    assert (created.operation, *images(created)) == ("upsert", None, {"id": 1, "a": None})
    snapshot = decoded(change(FORK, "r", None, after), KEY)
    assert images(snapshot) == (None, {"id": 1, "a": 3, "b": None})
    deleted = decoded(change(FORK, "d", {"id": cell(1), "a": None}), KEY)
    assert images(deleted) == ({"id": 1}, None)


@pytest.mark.parametrize(
    ("row", "key"),
    [
        # Of PostgreSQL: a document beside plain columns, alone, and as the key.
        ({"id": 1, "doc": cell(2), "b": None}, {"id": 1}),
        ({"doc": cell(2), "b": None}, {"id": 1}),
        ({"doc": cell(2), "b": None}, None),
        ({"id": cell(1), "a": 2}, KEY),
        ({"id": cell(1), "a": cassandra(2)}, KEY),
        ({"id": cell(1), "a": cell(2)}, {"id": cassandra(1)}),
        ({"id": cell(1), "a": {"value": 2, "set": 1}}, KEY),
    ],
)
def test_other_rows_of_postgresql_s_connector_stay(row: Value, key: Any) -> None:
    event = decoded(change(FORK, "u", row, row), key)
    assert (event.operation, *images(event)) == ("update", row, row)
    inserted = change(FORK, "c", None, row)
    assert decoded(inserted, key).operation == "insert"
    text = None if key is None else dumps(key)
    added = row | {"__op": "c", "__connector": "postgresql"}
    (event,) = unwrapped.decode(text, dumps(added))
    assert (event.operation, *images(event)) == ("insert", None, row)
    for format, value in (("debezium_json", inserted), ("debezium_unwrapped_json", added)):
        together = decode_batch(format, [text] * 20, [dumps(value)] * 20).payloads()
        assert together == [decode_payload(format, text, dumps(value))] * 20


def test_other_sources_have_no_cells() -> None:
    """A table may have columns of that shape."""
    odd = {"value": 1, "set": True}
    rows: list[Value] = [{"id": 1, "a": odd, "b": None}, {"a": odd}, {"a": odd, "b": None}]
    for connector in ("postgresql", "mysql", "oracle"):
        for each in rows:
            of_other = YUGABYTE | {"connector": connector}
            assert images(decoded(change(of_other, "u", each, each))) == (each, each)
    # Without a connector all columns must be cells.
    for source in (None, {"db": "shop", "table": "orders"}):
        row: Value = {"id": 1, "a": odd, "b": None}
        assert images(decoded(change(source, "c", None, row))) == (None, row)
        cells = {"id": cell(1), "a": odd, "b": None}
        assert images(decoded(change(source, "c", None, cells))) == (
            None,
            {"id": 1, "a": 1, "b": UNAVAILABLE},
        )
    # YugabyteDB's PGCompatible has taken the values out of them.
    row = {"id": 1, "a": None}
    assert images(decoded(change(YUGABYTE, "u", None, row), {"id": 1})) == (None, row)
    # A cell of a cell is a value.
    row = {"id": cell(1), "a": cell(cell(2))}
    assert images(decoded(change(YUGABYTE, "c", None, row), KEY)) == (None, {"id": 1, "a": cell(2)})


RANGE = {"method": "INCL_START_BOUND", "values": [{"name": "ck", "value": "3", "type": "int"}]}


@pytest.mark.parametrize(
    ("value", "key", "says"),
    [
        *(
            (
                change(source, op, None, {"pk": cassandra(1), "ck": None} | bounds),
                {"pk": 1},
                "range",
            )
            # Debezium's EnvelopeTransformation makes a truncate of it, which is another thing.
            for op in ("r", "t")
            for bounds in (
                {"_range_start": RANGE, "_range_end": RANGE},
                {"_range_start": RANGE, "_range_end": None},
                {"_range_start": None, "_range_end": RANGE},
            )
            for source in (CASSANDRA, None)
        ),
        (change(CASSANDRA, "t"), None, "range"),
        (change(CASSANDRA, "r", None, {"pk": cassandra(1)}), {"pk": 1}, "range"),
        (
            change(CASSANDRA, "d", None, {"pk": cassandra(1), "ck": cassandra(None, 5)}),
            {"pk": 1, "ck": None},
            "'ck' of the key is null",
        ),
        (
            change(CASSANDRA, "u", None, {"pk": cassandra(1), "ck": None, "s": cassandra("x")}),
            {"pk": 1, "ck": None},
            "static columns",
        ),
        (
            change(SCYLLA, "u", None, {"pk": 1, "ck": None, "s": {"value": "x"}}),
            {"pk": 1, "ck": None},
            "'ck' of the key is null",
        ),
    ],
)
def test_what_a_table_can_not_do_is_refused(value: Value, key: Any, says: str) -> None:
    event = decoded(value, key)
    assert (event.operation, event.error_code) == ("invalid", "bad_type"), event
    assert says in str(event.error_detail)


def test_only_cells_have_the_op_of_cassandra_s_insert() -> None:
    event = decoded(change(YUGABYTE | {"connector": "mysql"}, "i", None, {"id": 1}))
    assert event.error_code == "bad_type"
    event = decoded(change(None, "i", None, {"id": cassandra(1)}))
    assert (event.operation, images(event)) == ("upsert", (None, {"id": 1}))


@pytest.mark.parametrize("form", ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", [UNAVAILABLE]])
def test_a_placeholder_in_a_cell_is_one(form: Any) -> None:
    event = decoded(change(YUGABYTE, "u", None, {"id": cell(1), "a": cell(form)}), KEY)
    assert images(event) == (None, {"id": 1, "a": UNAVAILABLE})


# --- Rows without an envelope ---------------------------------------------------------------------


ROWS_OF_ENVELOPES: list[tuple[Value | None, str, Value, Any]] = [
    (YUGABYTE, "c", {"id": cell(1), "a": None}, KEY),
    (YUGABYTE, "c", {"id": 1, "a": None}, {"id": 1}),
    (YUGABYTE, "r", {"id": cell(1), "a": None}, KEY),
    (YUGABYTE, "u", {"id": cell(1), "a": cell(None), "b": {"value": 2, "set": False}}, KEY),
    (YUGABYTE, "d", {"id": cell(1), "a": None}, KEY),
    (FORK, "u", {"id": cell(1), "a": None}, KEY),
    (FORK, "c", {"id": cell(1), "a": None}, KEY),
    (FORK, "c", {"doc": cell(2)}, {"id": 1}),
    (FORK, "c", {"doc": cell(2)}, None),
    (CASSANDRA, "i", {"id": cassandra(1), "a": cassandra(2, 5), "b": None}, {"id": 1}),
    (CASSANDRA, "c", {"id": cassandra(1), "a": None, "_range_start": None}, {"id": 1}),
    (CASSANDRA, "r", {"id": cassandra(1)}, {"id": 1}),
    (CASSANDRA, "d", {"id": cassandra(1), "a": cassandra(None, 5)}, {"id": 1}),
    (CASSANDRA, "d", {"id": cassandra(1), "ck": cassandra(None)}, {"id": 1, "ck": None}),
    (CASSANDRA, "u", {"id": cassandra(1), "ck": None, "s": cassandra(2)}, {"id": 1, "ck": None}),
    (CASSANDRA, "i", {"id": 1}, {"id": 1}),
    (SCYLLA, "c", {"id": 1, "a": {"value": 2}, "b": None, "c": {"value": None}}, {"id": 1}),
    (SCYLLA, "u", {"id": 1, "a": None}, {"id": 1}),
    (SCYLLA, "c", {"id": 1, "a": "x", "b": None}, {"id": 1}),
    (SCYLLA, "d", {"id": 1, "a": None}, {"id": 1}),
    (SCYLLA, "d", {"id": 1, "ck": None}, {"id": 1, "ck": None}),
    (None, "i", {"id": cassandra(1), "a": None}, {"id": 1}),
    (None, "i", {"id": 1}, {"id": 1}),
    (YUGABYTE | {"connector": "mysql"}, "i", {"id": 1}, {"id": 1}),
    (YUGABYTE | {"connector": "mysql"}, "c", {"id": cell(1), "a": None}, KEY),
    (None, "c", {"id": cell(1), "a": cell(["__debezium_unavailable_value"])}, KEY),
]


@pytest.mark.parametrize(("source", "op", "row", "key"), ROWS_OF_ENVELOPES)
@pytest.mark.parametrize("is_in_header", [False, True])
def test_unwrapped_rows_are_read_as_those_in_envelopes(
    source: Value | None, op: str, row: Value, key: Any, is_in_header: bool
) -> None:
    wanted = decoded(change(source, op, *((row, None) if op == "d" else (None, row))), key)
    said = {"op": op} | ({} if source is None else {"connector": source["connector"]})
    headers = [(f"__{name}", text.encode()) for name, text in said.items()]
    fields = {} if is_in_header else {f"__{name}": text for name, text in said.items()}
    text = None if key is None else dumps(key)
    (found,) = unwrapped.decode(text, dumps(row | fields), headers if is_in_header else None)
    places = (1, 5, 6, 7, 11)
    assert [found[place] for place in places] == [wanted[place] for place in places], found
    told = [loads(each.metadata or b"{}").get("cells") for each in (found, wanted)]
    assert told[0] == told[1]
    if not is_in_header:
        together = decode_batch("debezium_unwrapped_json", [text] * 20, [dumps(row | fields)] * 20)
        assert together.payloads() == [[found]] * 20


def test_a_null_value_of_a_partition_deletes_no_row() -> None:
    key, headers = dumps({"id": 1, "ck": None}), [("__connector", b"cassandra"), ("__op", b"d")]
    (event,) = unwrapped.decode(key, None, headers)
    assert (event.operation, event.error_code) == ("invalid", "bad_type")
    assert "'ck' of the key is null" in str(event.error_detail)
    (event,) = unwrapped.decode(b'{"id":1}', None, headers)
    assert event.operation == "delete"
    # Another database may have such keys.
    (event,) = unwrapped.decode(key, None, [("__connector", b"mysql"), ("__op", b"d")])
    assert event.operation == "delete"


def test_unwrapped_rows_of_cells() -> None:
    row = {"id": cell(1), "a": None, "b": cell(None), "__deleted": "false", "__op": "u"}
    (event,) = unwrapped.decode(dumps(KEY), dumps(row))
    assert images(event) == (None, {"id": 1, "a": UNAVAILABLE, "b": None})
    assert (event.operation, event.record_key) == ("update", b'{"id":1}')
    gone = {"id": cell(1), "a": None, "__deleted": "true"}
    (event,) = unwrapped.decode(dumps(KEY), dumps(gone))
    assert images(event) == ({"id": 1}, None)
    (event,) = unwrapped.decode(dumps(KEY), None)
    assert (event.operation, event.record_key) == ("delete", b'{"id":1}')
    # A table with such a column.
    plain = {"id": 1, "a": cell(2), "b": None}
    (event,) = unwrapped.decode(b'{"id":1}', dumps(plain))
    assert images(event) == (None, plain)


# --- The forms of a message, and what is alike ----------------------------------------------------

COLUMNS = ("id", "a", "b")
TYPES = {"id": "int32", "a": "string", "b": "int64"}


def declared(with_deletion: bool, *, is_key: bool = False) -> list[Value]:
    more = [{"field": "deletion_ts", "type": "int64", "optional": True}] if with_deletion else []
    return [
        {
            "field": name,
            "type": "struct",
            "name": f"{'key' if is_key else 'value'}.{name}.cell",
            "optional": not is_key,
            "fields": [
                {"field": "value", "type": TYPES[name], "optional": True},
                *more,
                {"field": "set", "type": "boolean"},
            ],
        }
        for name in (COLUMNS[:1] if is_key else COLUMNS)
    ]


def blocks(source: Value, with_deletion: bool) -> tuple[Value, Value]:
    """The schema blocks of a key and of an envelope."""
    columns = declared(with_deletion)
    image = {"type": "struct", "name": "db.orders.Value", "optional": True, "fields": columns}
    fields = [
        {"field": name, "type": "int64" if type(value) is int else "string", "optional": True}
        for name, value in source.items()
    ]
    return {"type": "struct", "name": "db.Key", "fields": declared(False, is_key=True)}, {
        "type": "struct",
        "name": "db.Envelope",
        "fields": [
            image | {"field": "before"},
            image | {"field": "after"},
            {"field": "source", "type": "struct", "name": "db.Source", "fields": fields},
            {"field": "op", "type": "string"},
            {"field": "ts_ms", "type": "int64", "optional": True},
        ],
    }


CELLS = st.none() | st.builds(cell, st.none() | st.text(max_size=3))
NUMBERS = st.none() | st.builds(cell, st.none() | st.integers(-9, 9))
ROWS = st.fixed_dictionaries({"id": st.builds(cell, st.integers(0, 9)), "a": CELLS, "b": NUMBERS})
# Rows of other tables, whose columns may look like cells.
PLAIN = st.fixed_dictionaries(
    {"id": st.integers(0, 9), "a": st.none() | st.text(max_size=3) | CELLS, "b": NUMBERS}
)
SOURCES = st.sampled_from(
    [
        YUGABYTE,
        SCYLLA,
        {name: value for name, value in CASSANDRA.items() if name not in ("connector", "db")},
        FORK,
        YUGABYTE | {"connector": None},
        SCYLLA | {"connector": "cockroachdb", "ts_ns": 1_764_590_400_123_456_789},
    ]
)


@settings(max_examples=120, deadline=None)
@given(
    SOURCES,
    st.lists(
        st.tuples(st.sampled_from("crud"), ROWS | PLAIN, ROWS | PLAIN, st.booleans()),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
    st.booleans(),
)
def test_together_they_give_what_each_gives_alone(
    source: Value,
    changes: list[tuple[str, Value, Value, bool]],
    key_is_as_sent: bool,
    says_deleted: bool,
) -> None:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    rows: list[bytes | None] = []
    for op, before, after, has_before in changes * 6:
        row = before if op == "d" else after
        keys.append(dumps({"id": row["id"] if key_is_as_sent else 1}))
        value = change(
            source, op, before if has_before or op == "d" else None, None if op == "d" else after
        )
        values.append(dumps(value))
        added = {f"__{name}": source[name] for name in ("connector",) if name in source}
        if says_deleted:
            added["__deleted"] = "true" if op == "d" else "false"
        rows.append(dumps(row | added | {"__op": op}))
    way = FastPath(debezium_json.decode, DebeziumFormat(), Learning(lambda: 0.0))
    for _ in range(2):
        assert way.decode_batch(keys, values).payloads() == each_alone(
            debezium_json.decode, keys, values
        )
    of_rows = FastPath(unwrapped.decode, fast_rows.UnwrappedRows(), Learning(lambda: 0.0))
    for _ in range(2):
        assert of_rows.decode_batch(keys, rows).payloads() == each_alone(
            unwrapped.decode, keys, rows
        )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([YUGABYTE, FORK, {"db": "shop", "table": "orders"}]),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from("crud"), ROWS, ROWS), min_size=1, max_size=4),
)
def test_the_same_comes_of_json_with_a_schema_and_of_avro(
    source: Value, with_deletion: bool, changes: list[tuple[str, Value, Value]]
) -> None:
    # None of YugabyteDB's connectors ship when a cell expires.
    with_deletion = with_deletion and source != FORK
    key_block, block = blocks(source, with_deletion)
    row_block = {**block["fields"][1], "name": "db.orders.Row", "optional": False}
    of_value = Writer(2, avro_schema(block))
    of_key, of_row = Writer(1, avro_schema(key_block)), Writer(3, avro_schema(row_block))
    for number, each in ((1, key_block), (2, block), (3, row_block)):
        text = dumps(avro_schema(each)).decode()
        avro.know({number: avro.Registered("AVRO", (text,))})
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    rows: list[bytes | None] = []
    for op, before, after in changes:
        more = {"deletion_ts": None} if with_deletion else {}
        before, after = (
            {name: None if row[name] is None else row[name] | more for name in COLUMNS}
            for row in (before, after)
        )
        row = before if op == "d" else after
        key = {"id": {"value": row["id"]["value"], "set": True}}
        payload = change(source, op, before, None if op == "d" else after)
        del payload["transaction"]
        bare = decoded(payload, key)
        (in_json,) = debezium_json.decode(
            dumps({"schema": key_block, "payload": key}),
            dumps({"schema": block, "payload": payload}),
        )
        metadata = {**loads(bare.metadata), "schema_name": "db.Envelope"}
        assert in_json._replace(metadata=None) == bare._replace(metadata=None)
        assert loads(in_json.metadata) == metadata
        keys.append(of_key.write(avro_value(key_block, key)))
        values.append(of_value.write(avro_value(block, payload)))
        rows.append(of_row.write(avro_value(row_block, row)))
        (in_avro,) = avro.decode(keys[-1], values[-1])
        assert in_avro._replace(metadata=None) == bare._replace(metadata=None)
        (as_row,) = unwrapped_avro.decode(keys[-1], rows[-1])
        assert as_row[5:6] == bare[5:6]
    for decode, format_of, messages in (
        (avro.decode, avro.AvroFormat(), values),
        (unwrapped_avro.decode, unwrapped_avro.AvroRows(), rows),
    ):
        way: Any = FastPath(decode, format_of, Learning(lambda: 0.0))
        for _ in range(2):
            together = way.decode_batch(keys * 8, messages * 8).payloads()
            assert together == [*map(decode, keys, messages)] * 8


def test_formats_of_debezium_s_own_connectors_read_cells() -> None:
    value = change(YUGABYTE, "c", None, {"id": cell(1), "a": None})
    for name in ("debezium_json", "lindorm_json"):
        (event,) = decode_payload(name, dumps(KEY), dumps(value))
        assert images(event) == (None, {"id": 1, "a": UNAVAILABLE})


@pytest.mark.parametrize("connector", ["CASSANDRA", "SCYLLA", "YUGABYTEDB", None])
def test_arcion_s_sources_have_no_cells(connector: str | None) -> None:
    source = {"connector": connector, "db": "shop", "schema": None, "table": "orders", "ts_ms": 1}
    rows: list[Value] = [{"id": "1", "a": None}, {"a": cell(1), "b": None}]
    for op, operation in (("c", "insert"), ("u", "update"), ("r", "snapshot")):
        for row in rows:
            value = dumps(change(source, op, None, row))
            (event,) = decode_payload("arcion_json", b'{"id":"1"}', value)
            assert (event.operation, *images(event)) == (operation, None, row)
            together = decode_batch("arcion_json", [b'{"id":"1"}'] * 20, [value] * 20)
            assert together.payloads() == [[event]] * 20
    (event,) = decode_payload("arcion_json", b'"default"', dumps(change(source, "t")))
    assert event.operation == "truncate"
    (event,) = decode_payload("arcion_json", None, dumps(change(source, "i", None, rows[0])))
    assert event.error_code == "bad_type"
