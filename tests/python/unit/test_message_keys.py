"""The keys of messages, held against the key that a change log declares: which are an error, which
were there before, which are meant. Without Spark; what comes of it in a lake is in
test_schema_drift.py.
"""

import json
from typing import Any, Final

import pytest
from dbt_common.exceptions import CompilationError

from dbt_lakehouse.declared import declarations, message_keys, redeclared
from dbt_lakehouse.declared.message_keys import judge, question
from python_udfs.registry import decode_payload
from python_udfs.typed.images import have_other_key

MINUTE: Final = 60_000_000


def log(*key: str, **more: Any) -> dict[str, Any]:
    """A change log of a table `t` with this key, and columns a, b and c."""
    arguments = {
        "key": dict.fromkeys(key, "int"),
        "columns": {n: "int" for n in ("a", "b", "c") if n not in " ".join(key).lower()},
        "source_table": "t",
        "source_schema": None,
        "source_database": None,
        "keyless": not key,
        "partial": False,
        "order_by_source_time": None,
    }
    return declarations.change_log(arguments | more)


def keys(
    names: str,
    first: int,
    last: int,
    *,
    partition: int = 0,
    topic: str = "x",
    fields: str = "a b c",
    without: int = 0,
    at: int | None = None,
) -> dict[str, Any]:
    """What the question finds of keys of some names, between two offsets of a partition; a minute
    lies between two messages.
    """
    return {
        "topic": topic,
        "partition": partition,
        "source_database": None,
        "source_schema": None,
        "source_table": "t",
        "names": names.split(),
        "first_offset": first,
        "last_offset": last,
        "first_time": MINUTE * first if at is None else at,
        "last_time": MINUTE * last if at is None else at,
        "images": 4,
        "without_key": without,
        "fields": fields.split(),
    }


@pytest.mark.parametrize(
    "others",
    ["a b", "b", "A", "a b c", ""],
    ids=["widened", "renamed", "in another case", "widened twice", "none left"],
)
def test_a_key_that_changes_is_an_error(others: str) -> None:
    rows = [keys("a", 0, 9), keys(others, 10, 12)]
    for found in (rows, rows[::-1]):
        error = judge(found, log("a"), "silver.t_changes").error
        assert error is not None and error.startswith("silver.t_changes: ")
        shown = ", ".join(others.split())
        assert f"topic x, partition 0, offset 10 has a key of ({shown})" in error
        assert "declared columns (a)" in error
        assert "`lakehouse generate --topic x`" in error


def test_a_key_that_loses_a_column_is_an_error() -> None:
    error = judge([keys("a b", 0, 9), keys("a", 10, 12)], log("a", "b"), "t").error
    assert error is not None and "offset 10 has a key of (a)" in error


def test_a_key_that_goes_back_and_forth_is_an_error() -> None:
    """Also where the newest are the declared ones: those in between folded rows together."""
    error = judge([keys("a", 0, 30), keys("a b", 10, 12)], log("a"), "t").error
    assert error is not None and "offset 10" in error
    # The first of them came before.
    error = judge([keys("a", 5, 30), keys("a b", 1, 12)], log("a"), "t").error
    assert error is not None and "offset 12" in error


def test_events_from_before_the_key_was_declared_anew() -> None:
    rows = [keys("a", 0, 9), keys("a b", 10, 12), keys("a", 0, 8, partition=1)]
    verdict = judge(rows, log("a", "b"), "t")
    assert (verdict.error, verdict.taken, verdict.has_former) == (None, [], True)
    assert verdict.renamed == {}


def test_the_clocks_of_partitions_differ() -> None:
    """In another partition the former key may be some seconds behind; not for minutes, and not if
    nothing of the declared one is newer.
    """
    second = 1_000_000
    now = [keys("a b", 10, 10, at=600 * second), keys("a b", 11, 11, at=900 * second)]
    late = keys("a", 3, 3, partition=1, at=605 * second)
    assert judge([*now, late], log("a", "b"), "t").error is None
    assert judge([now[0], late], log("a", "b"), "t").error is not None
    later = keys("a", 4, 4, partition=1, at=700 * second)
    assert judge([*now, later], log("a", "b"), "t").error is not None


def test_keys_that_never_were_the_declared_ones_are_their_author_s() -> None:
    """Debezium's message.key.columns: told in each run until the declaration says it."""
    verdict = judge([keys("b", 0, 9)], log("a"), "t")
    assert (verdict.error, verdict.taken, verdict.has_former) == (None, [["b"]], False)
    warning = message_keys.warning(log("a"), verdict.taken, "t")
    assert warning is not None and 'message_key=["b"]' in warning
    said = log("a", message_key=["b"])
    assert message_keys.warning(said, verdict.taken, "t") is None
    assert message_keys.allowed(log("a"), [["b"]]) == [["a"], ["b"]]
    # When they change then, it is not clear which are meant.
    error = judge([keys("b", 0, 9), keys("c", 10, 10)], log("a"), "t").error
    assert error is not None and "offset 10 has a key of (c)" in error


def test_keys_of_which_no_row_has_the_declared_ones() -> None:
    error = judge([keys("b", 0, 9, without=4)], log("a"), "t").error
    assert error is not None and "no row has all of these columns" in error


def test_each_topic_has_a_history_of_its_own() -> None:
    """Shards whose keys change one after the other."""
    rows = [
        keys("a", 0, 9),
        keys("a b", 10, 12),
        keys("a", 0, 40, topic="y"),
        keys("a b", 41, 42, topic="y"),
    ]
    assert judge(rows, log("a", "b"), "t").error is None
    error = judge([*rows, keys("a", 13, 13)], log("a", "b"), "t").error
    assert error is not None and "topic x, partition 0, offset 13" in error


def test_a_key_that_is_not_found_is_no_verdict() -> None:
    # The log's query has met one: if the question has not, nothing may be written.
    assert not judge([keys("a", 0, 9)], log("a"), "silver.t_changes").explains
    for rows in ([keys("a", 0, 9), keys("b", 10, 12)], [keys("b", 0, 9)]):
        assert judge(rows, log("a"), "silver.t_changes").explains


def test_what_is_said_is_meant() -> None:
    rows = [keys("a", 0, 9), keys("b", 10, 12), keys("b c", 13, 14)]
    assert judge(rows, log("a", message_key=[["b"], ["c", "b"]]), "t").error is None
    assert judge(rows, log("a", message_key=["b"]), "t").error is not None
    assert message_keys.allowed(log("a", message_key="*"), []) == []
    assert message_keys.allowed(log(), []) == []


@pytest.mark.parametrize(
    ("former", "had", "now", "has", "renamed"),
    [
        ("a", "a c", "b", "b c", {"b": "a"}),
        ("a", "a c", "A", "A c", {"A": "a"}),
        ("a b", "a b c", "A B", "A B c", {"A": "a", "B": "b"}),
        ("a b", "a b", "a c", "a c", {"c": "b"}),
        # Another column that was there before, and one beside the former.
        ("a", "a b", "b", "b", {}),
        ("a", "a", "b", "a b", {}),
        ("a b", "a b", "c d", "c d", {}),
        ("a", "a", "a b", "a b", {}),
    ],
)
def test_columns_of_the_key_that_were_renamed(
    former: str, had: str, now: str, has: str, renamed: dict[str, str]
) -> None:
    rows = [keys(former, 0, 9, fields=had), keys(now, 10, 12, fields=has)]
    assert judge(rows, log(*now.split()), "t").renamed == renamed


def test_the_question_is_of_the_log_s_events() -> None:
    text = question(log("a", where="offset > 7", topic="x'y"), "silver.other_events")
    assert "and (offset > 7)" in text and r"topic rlike '^(?:x\'y)$'" in text
    assert "array('a'))) < 1" in text


@pytest.mark.parametrize("given", [[], "a", {"a": "int"}, [["a"], "b"], [[]], 7, [None]])
def test_what_can_not_be_said_of_messages_keys(given: Any) -> None:
    with pytest.raises(CompilationError, match=r"message_key=.*it is a list of the names"):
        log("a", message_key=given)


def test_what_is_said_of_messages_makes_no_table_anew() -> None:
    """Nor does a lake that was built before it could be said have it in its declarations."""
    plain, said = log("a"), log("a", message_key=["c", "b"])
    assert "message_key" not in plain and said["message_key"] == [["b", "c"]]
    before, after = redeclared.declared(plain), redeclared.declared(said)
    assert redeclared.changes(before, after) == redeclared.Changes({})
    assert redeclared.changes(before, redeclared.declared(log("a", "b"))).rebuild


def test_each_record_key_is_looked_at() -> None:
    mine, other, third = b'{"a":1,"b":"x,}"}', b'{"a":2}', b'{"a":1,"b":2,"c":3}'
    names = ("a", "b")
    assert have_other_key([mine, None, mine], [names]) == [False] * 3
    assert have_other_key([mine, other, None, third], [names]) == [False, True, False, True]
    assert have_other_key([mine, other], [names, ("a",)]) == [False, False]
    assert have_other_key([mine, other, third], [names, ("a",)]) == [False, False, True]
    assert have_other_key([other, third], []) == [False, False]
    assert have_other_key([b'{"B":1,"a":1}'], [names]) == [True]
    assert have_other_key([b'{"a":{"b":1},"b":[{}]}'], [names]) == [False]


def test_doubts_say_where_and_what_to_do() -> None:
    found = {"keys": 2, "topic": "x", "partition": 3, "offset": 4}
    text = message_keys.doubt(log("b"), found, "gold.t")
    assert text.startswith("gold.t: (b) doesn't seem to identify its rows")
    assert "topic x, partition 3, offset 4" in text and 'message_key=["b"]' in text
    assert message_keys.is_certain(log("b", message_key=["b"]))
    assert message_keys.is_certain(log("b", message_key="*"))
    assert not message_keys.is_certain(log("b", message_key=["c"]))


@pytest.mark.parametrize(
    ("key", "columns", "table", "believed"),
    [
        ("id", "a b", "t", True),
        ("tenant id", "a", "t", True),
        ("orderId", "customer_id", "Orders", True),
        ("id", "uuid", "t", False),
        ("customer_id", "id", "orders", False),
        ("a", "b", "t", False),
    ],
)
def test_keys_that_are_called_like_one(key: str, columns: str, table: str, believed: bool) -> None:
    assert message_keys.is_believed(key.split(), columns.split(), table) is believed
    declared = dict.fromkeys(columns.split(), "int")
    of_table = log(*key.split(), columns=declared, source_table=table)
    assert message_keys.is_certain(of_table) is believed


SOURCE: Final = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t"}


def envelope(row: dict[str, int]) -> Any:
    return {"op": "c", "before": None, "after": row, "source": SOURCE}


def maxwell(row: dict[str, int], columns: list[str]) -> Any:
    return {
        "database": "d",
        "table": "t",
        "type": "insert",
        "ts": 1,
        "data": row,
        "primary_key": [row[name] for name in columns],
        "primary_key_columns": columns,
    }


def canal(row: dict[str, int], columns: list[str]) -> Any:
    texts = {name: str(value) for name, value in row.items()}
    types = dict.fromkeys(row, "int")
    told = {"database": "d", "table": "t", "type": "INSERT", "isDdl": False, "es": 1, "ts": 1}
    return told | {"pkNames": columns, "mysqlType": types, "sqlType": {}, "data": [texts]}


@pytest.mark.parametrize("columns", [["a", "b"], ["b"], ["A"]], ids=str)
@pytest.mark.parametrize(
    "format_name",
    ["debezium_json", "debezium_unwrapped_json", "arcion_json", "maxwell_json", "canal_json"],
)
def test_a_key_changes_in_every_format(format_name: str, columns: list[str]) -> None:
    """In the Kafka key, and where a message names its key's columns itself."""
    found = []
    for names in (["a"], columns):
        row = {"a": 1, "b": 2} | dict.fromkeys(names, 3)
        key: Any = {name: row[name] for name in names}
        value = envelope(row)
        if format_name == "debezium_unwrapped_json":
            value = {**row, "__op": "c", "__table": "t"}
        elif format_name == "maxwell_json":
            key, value = None, maxwell(row, names)
        elif format_name == "canal_json":
            key, value = None, canal(row, names)
        texts = [None if each is None else json.dumps(each).encode() for each in (key, value)]
        (event,) = decode_payload(format_name, texts[0], texts[1])
        assert event.operation == "insert", event
        found.append(event.record_key)
    assert have_other_key(found, [("a",)]) == [False, True]
    assert have_other_key(found, [tuple(columns)]) == [True, False]


def test_messages_without_a_key_have_none_of_another_table() -> None:
    """As of Lindorm, and of Arcion's tables without a key."""
    value = json.dumps(envelope({"a": 1})).encode()
    events = [decode_payload("arcion_json", key, value)[0] for key in (None, b'"default"')]
    assert have_other_key([event.record_key for event in events], [("a",)]) == [False, False]
