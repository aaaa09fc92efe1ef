"""The fast path of Maxwell's and Canal's messages gives the events of the careful path, of messages
that are alike and of those between them that are not.
"""

import json
import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from python_udfs.binlog import canal as canal_json
from python_udfs.binlog import fast_canal, fast_maxwell
from python_udfs.binlog import maxwell as maxwell_json
from python_udfs.core.events import Decode, Event
from python_udfs.core.fast_path import FastPath, Format
from python_udfs.core.pace import Learning

Message = tuple[bytes | None, bytes | None]

FORMATS: Final[dict[str, tuple[Decode, Callable[[], Format[Any, Any, Any]]]]] = {
    "maxwell": (maxwell_json.decode, fast_maxwell.MaxwellRows),
    "canal": (canal_json.decode, fast_canal.CanalRows),
}


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def compared(format: str, messages: list[Message]) -> tuple[int, list[Event]]:
    """How many messages took the fast path, and the events of all, which are those of the careful
    way.
    """
    decode, format_of = FORMATS[format]
    # It always pays to learn.
    way = FastPath(decode, format_of(), Learning(lambda: 0.0))
    keys, values = zip(*messages, strict=True)
    short: set[int] = set()
    for _ in range(2):
        decoded = way.decode_batch(keys, values)
        short |= {place for places, _ in decoded.columns for place in places}
        expected = [decode(*message) for message in messages]
        for found, wanted, message in zip(decoded.payloads(), expected, messages, strict=True):
            assert found == wanted, message
    return len(short), [event for events in expected for event in events]


# --- Maxwell --------------------------------------------------------------------------------------


def maxwell(n: int, key: str = "hash", **fields: Any) -> Message:
    type_name = ("insert", "update", "delete", "bootstrap-insert")[n % 4]
    row = {"id": n, "Part": f"p{n}", "price": 1.5 * n, "note": None, "doc": {"b": [n], "a": {}}}
    message: dict[str, Any] = {"database": "shop", "table": "items", "type": type_name, "ts": n}
    message["xid"] = n
    message["commit" if n % 3 else "xoffset"] = True if n % 3 else n
    if key == "columns":
        message |= {"primary_key": [n, f"p{n}"], "primary_key_columns": ["id", "Part"]}
    message["data"] = row
    if type_name == "update":
        message["old"] = {"price": n, "note": "é\n"} if n % 8 < 6 else {}
    kafka_keys = {
        "hash": {"database": "shop", "table": "items", "pk.part": f"p{n}", "pk.id": n},
        "array": ["shop", "items", [{"id": n}, {"part": f"p{n}"}]],
        "uuid": {"database": "shop", "table": "items", "_uuid": str(n)},
    }
    message = {name: each for name, each in (message | fields).items() if each != "absent"}
    return (dumps(kafka_keys[key]) if key in kafka_keys else None), dumps(message)


@pytest.mark.parametrize("key", ["hash", "array", "uuid", "columns", "none"])
def test_maxwell(key: str) -> None:
    short, events = compared("maxwell", [maxwell(n, key) for n in range(200)])
    assert short == 200
    assert {event.operation for event in events} == {"insert", "update", "delete", "snapshot"}
    assert (events[1].record_key is None) == (key in ("uuid", "none"))
    assert events[1].before is not None and events[0].before is None


ROW: Final = {"id": 1, "Part": "a", "price": 1}
ODD_MAXWELL: Final[dict[str, dict[str, Any]]] = {
    "another column": {"data": ROW | {"colour": "red"}},
    "a column less": {"data": ROW},
    "in another order": {"data": dict(reversed(ROW.items()))},
    "no columns": {"data": {}},
    "a key that is absent": {"data": {"note": 1, "doc": 2}},
    "old only": {"type": "update", "data": ROW, "old": {"note": 1, "doc": 2}},
    "old in another order": {"type": "update", "old": {"note": 1, "price": 2}},
    "old of an insert": {"type": "insert", "old": {"price": 2}},
    "old that is null": {"type": "update", "old": None},
    "a null old of an insert": {"type": "insert", "old": None},
    "old that is none": {"type": "update", "old": 7},
    "milliseconds": {"ts": 10**12},
    "no time": {"ts": "absent"},
    "a time of no use": {"ts": 10**17},
    "a time that is none": {"ts": True},
    "another type": {"type": "replace"},
    "another table": {"table": "others"},
    "no table": {"table": ""},
    "event_key": {"event_key": 1},
    "old_key": {"old_key": "Struct{id=1}"},
    "new_key": {"new_key": "7"},
    "deep": {"data": ROW | {"doc": json.loads("[" * 300 + "]" * 300)}},
    "deep beside": {"comment": json.loads("[" * 250 + "]" * 250)},
    "as deep as can be": {"data": ROW | {"doc": json.loads("[" * 240 + "]" * 240)}},
    "huge": {"data": ROW | {"note": 10**40}},
    "a row query": {"query": "delete from items where name = '{\\u00e9}'"},
    "an object as key": {"data": ROW | {"id": {"b": 1, "a": 2}}},
    "other key columns": {"primary_key_columns": ["Part"], "primary_key": [1]},
    "key columns that are not there": {"primary_key_columns": ["x"]},
    "key columns that are none": {"primary_key_columns": [1]},
    "key columns in camel case": {"primaryKeyColumns": ["part"], "primaryKey": [1]},
    "reason": {"reason": "too big"},
    "encrypted": {"encrypted": {"iv": "", "bytes": ""}},
}


@pytest.mark.parametrize("odd", ODD_MAXWELL)
@pytest.mark.parametrize("key", ["hash", "array", "columns"])
def test_odd_messages_of_maxwell(key: str, odd: str) -> None:
    """Few of them between others, and many of them."""
    messages = [
        maxwell(n, key, **(ODD_MAXWELL[odd] if n % 10 == 1 or n > 40 else {})) for n in range(70)
    ]
    assert compared("maxwell", messages)[0] >= 30


def test_odd_keys_of_maxwell() -> None:
    odd: list[bytes | None] = [
        *(None, b"", b"1", b"\xff", b"null", b"{}", b"[]", b'["shop","items",{"id":1}]'),
        b'["shop","items",[{"id":1},{"id":2}]]',
        b'["shop","items",[{"id":1,"part":2}]]',
        b'["shop","items",[{"id":{"b":1,"a":2}},{"part":2}]]',
        b'{"database":"shop","table":"items","pk.part":{"b":1,"a":2},"pk.id":1}',
        b'{"database":"shop","table":"items","pk.part":1.50,"pk.id":1}',
        b'{"database":"shop","table":"items","pk.part":"\\u0041","pk.id":1}',
        b'{"database":"shop","table":"items","pk.part":1, "pk.id":1}',
        b'{"database":"shop","table":"items","pk.part":1,"pk.id":1,"pk.id":2}',
        b'{"database":"shop","table":"items","pk.part":1}',
        b'{"database":"shop","table":"items","pk.part":1,"pk.none":1}',
        b'{"database":"shop","table":"items","pk.part":1,"pk.PART":1}',
        b'{"database":"other","table":"items","pk.part":1,"pk.id":1}',
        b'{"database":7,"table":"items","pk.part":1,"pk.id":1}',
        b'{"database":"shop","table":"items","pk.part":' + b"[" * 300 + b"]" * 300 + b"}",
    ]
    for key in odd:
        messages = [maxwell(n) for n in range(40)]
        for place in range(5, 30, 3):
            messages[place] = (key, messages[place][1])
        compared("maxwell", messages)
        compared("maxwell", [(key, value) for _, value in messages])


# --- Canal ----------------------------------------------------------------------------------------

TYPES: Final = {"id": "bigint(20)", "price": "decimal(10,2)", "raw": "blob", "note": "text"}


def canal(n: int, key: bytes | None = None, **fields: Any) -> Message:
    type_name = ("INSERT", "UPDATE", "DELETE", "INIT")[n % 4]
    row = {"id": f"{n}", "price": f"{n}.50", "raw": "\x00ÿ" if n % 5 else None, "note": "é\n"}
    old = [{"price": "0.10", "raw": "ab"}, {"note": None}, {"id": "7", "price": None}][n % 3]
    message: dict[str, Any] = {
        "data": [row],
        "database": "shop",
        "es": 1668673476000 + n,
        "id": n,
        "isDdl": False,
        "mysqlType": TYPES,
        "old": [old] if type_name == "UPDATE" else None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "price": 3, "raw": 2004, "note": 2005},
        "table": "items",
        "ts": 1668673476732,
        "type": type_name,
    }
    message = {name: each for name, each in (message | fields).items() if each != "absent"}
    return key, dumps(message)


@pytest.mark.parametrize("key", [None, b'{"id":1.50}', b"7"])
def test_canal(key: bytes | None) -> None:
    short, events = compared("canal", [canal(n, key) for n in range(200)])
    assert short == 200
    assert {event.operation for event in events} == {"insert", "update", "delete", "snapshot"}
    assert events[9].before == b'{"id":9,"price":0.10,"raw":"YWI=","note":"\xc3\xa9\\n"}'


TEXTS: Final = {"id": "1", "price": "1.50", "raw": "a", "note": ""}
ODD_CANAL: Final[dict[str, dict[str, Any]]] = {
    "another column": {"data": [TEXTS | {"colour": "red"}]},
    "a column less": {"data": [{"id": "1", "note": "x"}]},
    "in another order": {"data": [dict(reversed(TEXTS.items()))]},
    "no columns": {"data": [{}]},
    "no key": {"data": [{"price": "1"}]},
    "a null key": {"data": [TEXTS | {"id": None}]},
    "no rows": {"data": []},
    "several rows": {"data": [TEXTS, TEXTS], "old": None},
    "no data": {"data": None},
    "no number": {"data": [TEXTS | {"price": "nan"}]},
    "two numbers": {"data": [TEXTS | {"price": "1\n2"}]},
    "a line": {"data": [TEXTS | {"price": "1\n"}]},
    "nothing": {"data": [TEXTS | {"price": ""}]},
    "zerofill": {"data": [TEXTS | {"id": "007"}]},
    "digits of another script": {"data": [TEXTS | {"id": "٣"}]},
    "no bytes": {"data": [TEXTS | {"raw": "\u0100"}]},
    "values that are no text": {"data": [TEXTS | {"id": 1, "price": 1.5}]},
    "a bad old": {"type": "UPDATE", "old": [{"price": "x", "raw": "\u0100"}]},
    "old of a column that is not there": {"type": "UPDATE", "old": [{"x": "1"}]},
    "old only": {"type": "UPDATE", "data": [{"id": "1"}], "old": [{"note": "1"}]},
    "an old that is null": {"type": "UPDATE", "old": [None]},
    "old of an insert": {"type": "INSERT", "old": [{"note": "1"}]},
    "a null in old of an insert": {"type": "INSERT", "old": [None]},
    "no old": {"old": "absent"},
    "other types": {"mysqlType": TYPES | {"price": "varchar(9)"}},
    "types in another order": {"mysqlType": dict(reversed(TYPES.items()))},
    "types of other columns": {"mysqlType": {"x": "int"}},
    "no types": {"mysqlType": None, "sqlType": None},
    "types that are none": {"mysqlType": 7},
    "other numbers of types": {"sqlType": {"id": 12}},
    "no names of the key": {"pkNames": None},
    "names of the key in another case": {"pkNames": ["ID"]},
    "names of the key twice": {"pkNames": ["id", "id"]},
    "a name of no column": {"pkNames": ["x"]},
    "names that are none": {"pkNames": [1]},
    "no time": {"es": None},
    "a time of no use": {"es": -1},
    "a time that is none": {"es": "1"},
    "a definition": {"isDdl": True, "type": "ALTER", "data": None},
    "a truncate": {"isDdl": True, "type": "TRUNCATE", "data": None},
    "a row in a definition": {"isDdl": True},
    "another type": {"type": "MERGE"},
    "another table": {"table": "others"},
    "no database": {"database": "absent"},
    "event_key": {"event_key": 1},
    "old_key": {"old_key": "Struct{id=1}"},
    "new_key": {"new_key": "7"},
    "gtid": {"gtid": "a:1-5"},
    "only the key": {"_tidb": {"commitTs": 1, "onlyHandleKey": True}},
    "elsewhere": {"_tidb": {"commitTs": 1, "claimCheckLocation": "s3:/a"}},
    "tidb": {"_tidb": {"commitTs": 429918007904436226, "onlyHandleKey": False}},
    "deep": {"_tidb": json.loads("[" * 300 + "]" * 300)},
}


@pytest.mark.parametrize("odd", ODD_CANAL)
def test_odd_messages_of_canal(odd: str) -> None:
    for key in (None, b'{"b":1,"a":2}'):
        messages = [
            canal(n, key, **(ODD_CANAL[odd] if n % 10 == 1 or n > 40 else {})) for n in range(70)
        ]
        assert compared("canal", messages)[0] >= 30


LABELS: Final = {"id": "int", "state": "enum('0','it''s, 1')", "tags": "set('a','b','c')"}


@pytest.mark.parametrize("sql_types", [{"state": 4, "tags": -7}, {"state": 12, "tags": 12}, None])
def test_labels_of_canal(sql_types: Any) -> None:
    values = ["0", "1", "2", "it's, 1", "9", None, "", "5", "x"]
    messages = []
    for n in range(200):
        row = {
            "id": f"{n}",
            "state": values[n % 9],
            "tags": ["0", "5", "a,b", None, "", "9"][n % 6],
        }
        old = [{"state": values[n % 5]}] if n % 4 == 1 else None
        messages.append(canal(n, data=[row], old=old, mysqlType=LABELS, sqlType=sql_types))
    short, events = compared("canal", messages)
    assert 100 < short < 200
    assert any(b'"tags":"a,c"' in (event.after or b"") for event in events)
    assert any(b'"tags":"9"' in (event.after or b"") for event in events)


@pytest.mark.parametrize("names", [{}, {"database": None, "table": None}, {"database": None}])
def test_rows_without_a_table(names: dict[str, Any]) -> None:
    nothing = {"database": "absent", "table": "absent"}
    messages = [canal(n, **(nothing | names)) for n in range(60)]
    assert compared("canal", messages)[0] == 60
    mixed = [canal(n, **(nothing | names if n % 3 else {})) for n in range(60)]
    assert compared("canal", mixed)[0] == 60
    for key in ("hash", "columns"):
        rows = [maxwell(n, key, **(nothing | names if n % 3 else {})) for n in range(60)]
        assert compared("maxwell", rows)[0] == 60


def test_types_that_tidb_has_in_any_order() -> None:
    """Go's maps have none."""
    dice = random.Random(3)
    messages = [
        canal(n, mysqlType=dict(dice.sample([*TYPES.items()], len(TYPES)))) for n in range(100)
    ]
    assert compared("canal", messages)[0] == 100


@pytest.mark.parametrize("odd", [b'"b":"int","b":"int","z":1.0', b'"b":"int", "z":1.0000000000'])
def test_types_that_are_as_long_and_equal_and_written_otherwise(odd: bytes) -> None:
    usual = b'"b":"int","z":1.00000000000'
    assert len(odd) == len(usual)
    key, text = canal(0, mysqlType={"b": "int", "z": 0})
    assert text is not None and b'"b":"int","z":0' in text
    messages: list[Message] = [
        (key, text.replace(b'"b":"int","z":0', types)) for types in [usual] * 50 + [odd]
    ]
    assert compared("canal", messages)[0] >= 30


# --- Both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_messages(format: str) -> None:
    dice = random.Random(7)
    make: Callable[[int], Message] = maxwell if format == "maxwell" else canal
    parts = (b"null", b"7", b'"x"', b"[]", b"{}", b" ", b"\\u0041", b'"id":1,', b"\n", b"1.0", b"")
    for _ in range(40):
        messages = [make(n) for n in range(48)]
        for place in dice.sample(range(48), 12):
            key, value = messages[place]
            assert value is not None
            damaged = bytearray(value)
            at = dice.randrange(len(damaged))
            if dice.random() < 0.5:
                damaged[at : at + dice.randrange(9)] = dice.choice(parts)
            else:
                damaged[at] ^= 1 << dice.randrange(8)
            messages[place] = (key, bytes(damaged))
        short, _ = compared(format, messages)
        assert short >= 30
