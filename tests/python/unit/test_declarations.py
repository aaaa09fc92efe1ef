"""What change logs declare, what gold tables and histories take of it, and what has changed."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from dbt_common.exceptions import CompilationError
from jinja2 import Undefined

from dbt_lakehouse.build.templates import render
from dbt_lakehouse.commands.status.tables import _SET_LESS
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.declared import declarations, fold_of_log, misfits, redeclared
from dbt_lakehouse.declared.columns import RESERVED, header_names, quoted
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.declared.redeclared import changes, declared
from dbt_lakehouse.declared.widening import (
    Kind,
    followed,
    following,
    is_widening,
    looked_at,
    may_follow,
    outgrown,
    wider,
)
from dbt_lakehouse.texts import printable, sql_text, text_of
from python_udfs.registry import AEROSPIKE_FORMATS

RECORDS = "'aerospike_messagepack', 'aerospike_json', 'aerospike_flat_json', 'aerospike_avro'"
OTHERS = f"format not in ({RECORDS})"
AEROSPIKE = f"format in ({RECORDS})"


def log(**but: Any) -> dict[str, Any]:
    """The declaration of a log, as the macro change_log hands it over."""
    arguments = {
        "columns": {"note": "string", "amount": "Decimal(18,2)"},
        "source_table": "orders",
        "key": {"id": "int"},
        "source_schema": None,
        "source_database": None,
        "topic": None,
        "where": None,
        "keyless": False,
        "partial": False,
        "order_by_source_time": None,
    }
    return declarations.change_log(arguments | but)


def aerospike_log(**but: Any) -> dict[str, Any]:
    """The same of a set."""
    arguments = {
        "columns": {"email": "string"},
        "namespace": "users",
        "set": "profiles",
        "key": {},
        "topic": None,
        "where": None,
        "keyless": False,
        "partial": False,
        "order_by_source_time": None,
    }
    return declarations.change_log(arguments | but)


def test_a_log() -> None:
    amount = {"type": "decimal(18,2)", "name": "Amount $"}
    assert log(columns={"raw": {"type": "binary", "encoding": "hbase"}, "amount": amount}) == {
        "columns": [
            {"column": "id", "type": "int", "field": "id", "encoding": None},
            {"column": "raw", "type": "binary", "field": "raw", "encoding": "hbase"},
            {"column": "amount", "type": "decimal(18,2)", "field": "Amount $", "encoding": None},
        ],
        "fields": ["id", "raw", "Amount $"],
        "key": ["id"],
        "conditions": [
            OTHERS,
            "source_table = 'orders'",
            "source_schema is null",
            "source_database is null",
        ],
        "technical": ["key_update as _key_update"],
        "keyless": False,
        "partial": False,
        "namespace": None,
        "order_by_source_time": False,
        "several_sources": False,
        "sources": [[None, None, "orders"]],
        "follow": None,
    }


def test_columns_by_path() -> None:
    city = {"type": "STRING", "path": "address.city"}
    found = log(columns={"city": city, "doc": {"type": "string", "path": "$"}})
    assert found["columns"][1:] == [
        {"column": "city", "type": "string", "field": "address", "encoding": None}
        | {"path": ["address", "city"]},
        {"column": "doc", "type": "string", "field": "$", "encoding": None, "path": []},
    ]
    assert found["fields"] == ["id", "address", "$"]


LSN: Final = {"type": "BIGINT", "from": "metadata", "path": "source.lsn"}


def test_columns_of_what_the_source_said_beside_the_row() -> None:
    columns = {"lsn": LSN, "note": "string", "all": {**LSN, "type": "string", "path": "$"}}
    found = log(columns=columns)
    assert found["columns"][1:] == [
        {"column": "lsn", "type": "bigint", "field": "source", "encoding": None}
        | {"from": "metadata", "path": ["source", "lsn"]},
        {"column": "note", "type": "string", "field": "note", "encoding": None},
        {"column": "all", "type": "string", "field": "$", "encoding": None}
        | {"from": "metadata", "path": []},
    ]
    # In no image is a field of theirs known.
    assert (found["fields"], found["key"]) == (["id", "note"], ["id"])
    assert may_follow(log(columns={"lsn": {**LSN, "type": "int"}})) == ["lsn"]
    taken = fold_of_log.fold(found)
    assert (taken.columns, taken.beside) == (["`lsn`", "`note`", "`all`"], ["`lsn`", "`all`"])
    assert (taken.row_columns, taken.hashable_columns) == (["`note`"], ["`note`"])
    assert taken.types["lsn"] == "bigint"
    some = fold_of_log.fold(found, ["note", "all"])
    assert (some.columns, some.beside) == (["`note`", "`all`"], ["`all`"])
    assert some.without_columns().beside == []
    # A partial image says nothing of them either way.
    whole = {**LSN, "type": "string", "path": "$"}
    assert log(partial=True, columns={"a": "int", "all": whole})["partial"]
    generation = {"type": "int", "from": "metadata", "path": "generation"}
    of_set = aerospike_log(columns={"generation": generation})
    assert (of_set["fields"], of_set["key"]) == ([], [])


HEADER: Final = {"type": "STRING", "from": "headers", "path": "trace_id"}


def test_columns_of_headers() -> None:
    odd = {**HEADER, "type": "int", "path": "$.it's 1..", "mask": "null"}
    found = log(columns={"trace": HEADER, "lsn": LSN, "odd": odd, "note": "string"})
    assert found["columns"][1] == (
        {"column": "trace", "type": "string", "field": "trace_id", "encoding": None}
        | {"from": "headers", "path": ["trace_id"]}
    )
    assert header_names(found) == ["trace_id", "$.it's 1.."]
    assert header_names(log(columns={"a": HEADER, "b": HEADER})) == ["trace_id"]
    assert header_names(log(columns={"lsn": LSN})) == []
    assert found["fields"] == ["id", "note"]
    taken = fold_of_log.fold(found)
    assert (taken.beside, taken.row_columns) == (["`trace`", "`lsn`", "`odd`"], ["`note`"])
    rows = declarations.rows_of(found)
    assert [each.column for each in rows.all_columns] == ["id", "note", "lsn", "trace", "odd"]
    assert [(each.field, each.clear) for each in rows.headed] == [
        ("trace_id", None),
        ("$.it's 1..", "int"),
    ]
    assert log(partial=True, columns={"a": "int", "trace": HEADER})["partial"]
    assert header_names(aerospike_log(columns={"trace": HEADER})) == ["trace_id"]
    # A column of the row, of metadata, or of another header has other values.
    kept = declared(found)
    for other in ("string", {**LSN, "type": "string"}, {**HEADER, "path": "Trace_id"}):
        again = log(columns={"trace": other, "lsn": LSN, "odd": odd, "note": "string"})
        assert changes(kept, declared(again)).rebuild == "column trace is declared otherwise"
    later = log(columns={"lsn": LSN, "odd": odd, "note": "string"})
    assert changes(declared(later), kept).to_fill == {"trace": None}


def test_what_a_message_says_beside_a_row_is_no_key_of_a_keyless_table() -> None:
    found = log(key={}, keyless=True, columns={"note": "string", "lsn": LSN, "a": "int"})
    assert found["key"] == ["note", "a"]
    taken = fold_of_log.fold(found)
    assert (taken.columns, taken.row_columns) == (["`note`", "`lsn`", "`a`"], ["`note`", "`a`"])
    assert taken.rows_columns[:3] == taken.columns


def test_tables_are_not_made_anew_because_there_may_be_columns_beside_rows() -> None:
    """What they keep is what it was before."""
    for of in (log(), fold_of_log.fold(log())):
        assert '"from"' not in declared(of)
        assert '"beside"' not in declared(of)


def test_a_condition_needs_the_texts_that_it_may_name() -> None:
    def texts(where: str | None) -> list[str]:
        return declarations.texts_to_choose_by(log(where=where))

    assert texts(None) == texts("event_index = 0 and source_table <> 'after_all'") == []
    assert texts("contains(AFTER, 'x') or `before` is null") == ["before", "after"]
    assert texts("get_json_object(metadata, '$.a') = record_key") == ["record_key", "metadata"]
    assert len(texts("to_json(struct(*)) like '%x%'")) == 6


def test_a_column_beside_the_row_that_is_declared_later_is_filled() -> None:
    def kept(made: Callable[..., Any], **more: Any) -> str:
        return declared(made(log(columns={"note": "string", **more})))

    small = {**LSN, "type": "int"}
    for made in (dict, fold_of_log.fold):
        assert changes(kept(made), kept(made, lsn=LSN)).to_fill == {"lsn": None}
        assert changes(kept(made, lsn=small), kept(made, lsn=LSN)).to_fill == {"lsn": "int"}
        assert changes(kept(made, lsn="bigint"), kept(made, lsn=LSN)).rebuild is not None
        assert changes(kept(made, lsn=LSN), kept(made)).rebuild is not None


def test_an_aerospike_log() -> None:
    found = aerospike_log()
    assert found["conditions"] == [
        AEROSPIKE,
        "source_schema = 'users'",
        "source_table = 'profiles'",
    ]
    assert [each.rpartition(" as ")[2] for each in found["technical"]] == [
        "_namespace",
        "_set",
        "_digest",
        "_expires_at",
    ]
    assert (found["namespace"], found["key"], found["order_by_source_time"]) == ("users", [], True)
    assert aerospike_log(set=None)["conditions"][2] == "source_table is null"
    assert aerospike_log(order_by_source_time=False)["order_by_source_time"] is False
    assert not found["several_sources"]
    assert found["sources"] == [[None, "users", "profiles"]]


@pytest.mark.parametrize(
    ("declared_as", "conditions", "several"),
    [
        ({"source_database": "shop"}, ["source_database = 'shop'"], False),
        ({"source_database": "*"}, [], True),
        ({"source_schema": "*", "source_database": "*"}, [], True),
        (
            {"source_table": ["orders_1", "orders_2"]},
            ["source_table in ('orders_1', 'orders_2')"],
            True,
        ),
        ({"source_table": "O'Neil\\s"}, ["source_table = 'O\\'Neil\\\\s'"], False),
        ({"topic": "shop\\.o.*|it's"}, ["topic rlike '^(?:shop\\\\.o.*|it\\'s)$'"], False),
        ({"where": "offset > 7 or true"}, ["(offset > 7 or true)"], False),
    ],
)
def test_which_events_are_a_logs(
    declared_as: dict[str, Any], conditions: list[str], several: bool
) -> None:
    found = log(**declared_as)
    assert [each for each in found["conditions"] if each in conditions] == conditions
    plain = log()["conditions"]
    others = {name for name in declared_as if name.startswith("source_")}
    expected = {each for each in plain if each.split(" ")[0] not in others}
    assert set(found["conditions"]) - set(conditions) == expected
    assert found["several_sources"] is several
    assert any("as _source" in each for each in found["technical"]) is several


@pytest.mark.parametrize(
    ("but", "message"),
    [
        ({"key": {}}, "the change log of orders needs its key columns"),
        ({"key": "id"}, "the change log of orders: key must be a mapping of names to types, key={"),
        ({"columns": ["title"]}, "columns must be a mapping of names"),
        # A type without quotes is an undefined name of Jinja's.
        (
            {"columns": {"total": Undefined(name="decimal")}},
            'put the type in quotes, "total": "dec',
        ),
        ({"columns": {"total": {"type": 12.2}}}, "column total has a type that is not text"),
        ({"keyless": True}, "it can have neither a key nor partial images"),
        ({"key": {}, "keyless": True, "partial": True}, "neither a key nor partial images"),
        ({"columns": {"_position": "string"}}, "a column can't be called _position"),
        ({"columns": {"_Row": "string"}}, 'other": {"type": ..., "name": "_Row"}'),
        ({"key": {"_row": "int"}}, "a column can't be called _row"),
        ({"columns": {"a`b": "string"}}, "a column can't be called a`b"),
        ({"columns": {"id": "string"}}, "can't have its column id twice"),
        ({"columns": {"Id": "string"}}, r"can't have its column id twice \(id, Id\)"),
        ({"columns": {"a": {"name": "b"}}}, "column a is declared as {'name': 'b'}"),
        ({"columns": {"a": {"type": "int", "field": "b"}}}, "a mapping of type, name"),
        ({"columns": {"a": {"typ": "int"}}}, r"declared as {'typ': 'int'} \(did you mean type\?\)"),
        (
            {"source_table": ["a", "b"], "order_by_source_time": True},
            "can't be ordered by source time",
        ),
        ({"source_table": []}, "the list of a change log's source_table is empty"),
        ({"columns": {"a": {"type": "int", "path": "b..c"}}}, "a path is the names that lead"),
        ({"columns": {"a": {"type": "int", "path": ["b"]}}}, "a path is the names that lead"),
        (
            {"columns": {"a": {"type": "int", "path": "b", "name": "c"}}},
            "A column has a path or a name, not both",
        ),
        ({"key": {"id": {"type": "int", "path": "_id.a"}}}, "key column id can't be declared by"),
        (
            {"partial": True, "columns": {"a": {"type": "string", "path": "$"}}},
            "no column can have a whole one",
        ),
        ({"key": {"id": LSN}}, "key column id can't be from metadata"),
        (
            {"columns": {"a": {**LSN, "from": "header"}}},
            'row has "from": "metadata", a type .* A Kafka header has "from": "headers", and',
        ),
        ({"key": {"id": HEADER}}, "key column id can't be from metadata or headers"),
        ({"columns": {"a": {**HEADER, "path": ""}}}, "the path of a header is its whole name"),
        ({"columns": {"a": {**HEADER, "path": ["b"]}}}, "the path of a header is its whole name"),
        ({"columns": {"a": {"type": "int", "from": "headers"}}}, "a path, and may have a mask"),
        ({"columns": {"a": {**HEADER, "name": "b"}}}, "a path, and may have a mask"),
        ({"columns": {"a": {**HEADER, "encoding": "hbase"}}}, "a path, and may have a mask"),
        ({"columns": {"a": {**HEADER, "type": "text"}}}, r"did you mean string\?"),
        ({"columns": {"a": {"type": "int", "header": "b"}}}, r"from \(metadata, headers\), path"),
        (
            {"key": {}, "keyless": True, "columns": {"a": HEADER}},
            "only columns from metadata or headers: its rows are told apart by their own columns",
        ),
        ({"columns": {"a": {**LSN, "name": "b"}}}, "a path, and may have a mask"),
        ({"columns": {"a": {**LSN, "encoding": "hbase"}}}, "a path, and may have a mask"),
        ({"columns": {"a": {"type": "int", "from": "metadata"}}}, "a path, and may have a mask"),
        ({"columns": {"a": {**LSN, "path": "b..c"}}}, "a path is the names that lead"),
        ({"columns": {"a": {**LSN, "type": "struct<a:int>"}}}, "can't have type 'struct<a:int>'"),
        ({"columns": {"a": {"from": "metadata", "path": "b"}}}, "column a is declared as"),
        (
            {"key": {}, "keyless": True, "columns": {"a": LSN}},
            "its rows are told apart by their own columns",
        ),
        (
            {"order_by": "postgres"},
            r"ordered by postgres, which is not one of its columns",
        ),
        ({"order_by": ["lsn"]}, r"nor a connector .*, nor a path of metadata, which has a dot"),
        ({"order_by": []}, r"has order_by=\[\]: it is a connector \(postgresql, mysql,"),
        (
            {"order_by": ["source..lsn"]},
            r"a list of columns of the log and paths of metadata: ",
        ),
        ({"order_by": 7}, "has order_by=7"),
        (
            {"order_by": ["id", "source.sequence"]},
            "it has the last commit, so it can only be the f",
        ),
        ({"order_by": ["note"]}, "ordered by note, which is string: it must be an integer"),
        (
            {"columns": {"a": {"type": "int", "mask": "null"}}, "order_by": "a"},
            "ordered by a, which has a mask",
        ),
        (
            {"order_by": "oracle", "source_table": "*"},
            "several source tables, whose positions are not comparable",
        ),
        ({"order_by": "oracle", "key": {}, "keyless": True}, "a change that is sent again counts"),
        (
            {"order_by": "oracle", "order_by_source_time": True},
            "has both order_by and order_by_source_time",
        ),
    ],
)
def test_what_can_not_be_declared(but: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        log(**but)


@pytest.mark.parametrize(
    ("declared", "meant"),
    [
        ("bool", "boolean"),
        ("BOOL", "boolean"),
        ("array<bool>", "boolean"),
        ("map<string,integer>", "int"),
        ("numeric(12,2)", "decimal(12,2)"),
        ("number", "decimal(p,s)"),
        ("varchar(20)", "string"),
        ("strng", "string"),
        ("timestamp_ltz", "timestamp_ntz"),
    ],
)
def test_a_type_that_is_called_otherwise_here_is_asked_for(declared: str, meant: str) -> None:
    question = rf"column a: a change log .+ \(did you mean {re.escape(meant)}\?\)$"
    with pytest.raises(CompilationError, match=question):
        log(columns={"a": declared})


@pytest.mark.parametrize("declared", ["decimal(50,2)", "struct<a:int>", "decimal(4,2) "])
def test_a_type_that_is_like_no_other_is_not_asked_for(declared: str) -> None:
    with pytest.raises(CompilationError) as refused:
        log(columns={"a": declared})
    assert "did you mean" not in str(refused.value)


def test_an_argument_that_a_macro_does_not_have_is_asked_for() -> None:
    declarations.refuse_arguments("history", {})
    with pytest.raises(
        CompilationError, match=r"no argument column \(did you mean columns\?\): it"
    ):
        declarations.refuse_arguments("history", {"column": ["a"]})


def test_a_meta_says_only_of_tables_with_deleted_rows_that_they_have_them() -> None:
    arguments = {"columns": None, "deleted_rows": False}
    assert declarations.declare("current_state", arguments, {}) == {
        "current_state": {"columns": None}
    }
    arguments["deleted_rows"] = True
    assert declarations.declare("current_state", arguments, {}) == {"current_state": arguments}


def test_the_arguments_are_those_of_the_macros() -> None:
    # A macro whose own argument is missing here would be refused nothing, and a message be wrong.
    folder = ROOT / "dbt" / "include" / "lakehouse" / "macros"
    texts = "".join(path.read_text() for path in folder.rglob("*.sql"))
    for macro, known in declarations.ARGUMENTS.items():
        (signature,) = re.findall(rf"\{{% macro {macro}\((.*?)\) -%\}}", texts, flags=re.DOTALL)
        assert {*re.findall(r"(?:^|, |\s)(\w+)(?=[,=]|$)", signature)} == known
        call = rf"adapter\.declare\(\s*'{macro}', \{{(.*?)\}}, kwargs\s*\)"
        (declared,) = re.findall(call, texts, flags=re.DOTALL)
        assert {*re.findall(r"'(\w+)': (\w+)", declared)} == {
            (name, name) for name in known - {"changes"}
        }


def test_what_a_log_is_ordered_by() -> None:
    assert "order_by" not in log()
    assert log(order_by="mysql")["order_by"] == [
        {"form": "file", "path": ["source", "file"]},
        {"form": "number", "path": ["source", "pos"]},
        {"form": "number", "path": ["source", "row"]},
    ]
    of_column = [{"form": "number", "column": "amount"}]
    assert log(order_by="amount")["order_by"] == log(order_by=["amount"])["order_by"] == of_column
    taken = fold_of_log.fold(log(order_by=["source.ts_ns", "id"]))
    assert taken.typed(["_position"])["_position"] == taken.position_type
    assert taken.position_type.startswith("struct<source:string,log_time:timestamp,")


def test_the_source_tables_of_a_log() -> None:
    found = log(source_database=["a", "b"], source_schema=None, source_table=["s", "t"])
    assert found["sources"] == [
        ["a", None, "s"],
        ["a", None, "t"],
        ["b", None, "s"],
        ["b", None, "t"],
    ]
    assert log(source_schema="*")["sources"] is None


def test_a_keyless_log_has_all_columns_as_its_key() -> None:
    found = log(key={}, keyless=True)
    assert found["key"] == ["note", "amount"]
    taken = fold_of_log.fold(found)
    assert (taken.key, taken.columns) == ([], ["`note`", "`amount`"])
    assert taken.rows_columns == ["`note`", "`amount`", "_row", "_copy", "_position"]
    with pytest.raises(CompilationError, match="a table without a key can't have a history"):
        fold_of_log.fold(found, is_history=True)


def test_reserved_names_are_of_the_models() -> None:
    assert all(name == name.lower() and name.startswith("_") for name in RESERVED)
    assert {"_position", "_last_updated_sequence_number"} <= RESERVED
    assert not {each for each in RESERVED if each.startswith("_lh_")}


def test_a_fold() -> None:
    taken = fold_of_log.fold(log())
    assert (taken.key, taken.columns) == (["`id`"], ["`note`", "`amount`"])
    assert taken.gold_columns == [
        "`id`",
        "`note`",
        "`amount`",
        "_occurred_at",
        "_max_occurred_at",
        "_position",
    ]
    assert taken.history_columns == ["`note`", "`amount`", "_occurred_at", "_position"]
    assert taken.typed(["`amount`", "_position", "valid_to"]) == {
        "amount": "decimal(18,2)",
        "_position": (
            "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
        ),
        "valid_to": "timestamp",
    }
    assert (taken.may_leave, taken.takes_late, taken.ends_lives) == (True, False, False)
    bare = taken.without_columns()
    assert (bare.key, bare.columns, bare.may_leave) == (["`id`"], [], False)
    # What a truncate empties is told by them.
    several = fold_of_log.fold(log(source_database="*")).without_columns()
    assert several.columns == ["`_source`"]


def test_a_fold_of_a_set() -> None:
    taken = fold_of_log.fold(aerospike_log(partial=True))
    assert (taken.key, taken.columns) == (["`_digest`"], ["`_namespace`", "`_set`", "`email`"])
    assert taken.gold_columns[-2:] == ["_position", "_expires_at"]
    assert taken.history_columns[-2:] == ["_position", "_expires_at"]
    assert (taken.may_leave, taken.takes_late, taken.ends_lives) == (True, True, True)
    full = fold_of_log.fold(aerospike_log())
    assert (full.may_leave, full.takes_late, full.ends_lives) == (False, False, False)


def test_a_fold_of_several_sources() -> None:
    taken = fold_of_log.fold(log(source_database="*"))
    assert taken.columns == ["`_source`", "`note`", "`amount`"]
    assert taken.typed(taken.columns)["_source"].startswith("struct<database:string")


def test_some_of_the_columns() -> None:
    declaration = log(columns={"a": "int", "b": "int", "c": "int"})
    # In the order of the log.
    taken = fold_of_log.fold(declaration, ["c", "a"], ["c"], is_history=True)
    assert (taken.columns, taken.track_columns) == (["`a`", "`c`"], ["`c`"])
    assert fold_of_log.fold(declaration, []).columns == []
    assert fold_of_log.fold(declaration).track_columns is None


@pytest.mark.parametrize(
    ("columns", "track_columns", "message"),
    [
        (
            ["note", "tax", "id"],
            None,
            "the change log has no value column tax, id: it has note, am",
        ),
        (None, ["tax"], "the history has no value column tax: it has note, amount"),
        # Nobody would see what makes the versions.
        (["note"], ["amount"], "the history has no value column amount: it has note"),
    ],
)
def test_columns_that_there_are_not(
    columns: list[str] | None, track_columns: list[str] | None, message: str
) -> None:
    with pytest.raises(CompilationError, match=message):
        fold_of_log.fold(log(), columns, track_columns, is_history=True)


@pytest.mark.parametrize(
    "declaration",
    [log(columns={"Valid_To": "date"}), log(key={"is_current": "int"})],
)
def test_names_that_histories_have_themselves(declaration: dict[str, Any]) -> None:
    with pytest.raises(CompilationError, match="a history has a column"):
        fold_of_log.fold(declaration, is_history=True)
    # Gold has none of that name.
    fold_of_log.fold(declaration)


def test_a_declaration_is_the_same_text_each_time() -> None:
    declaration = log()
    turned = dict(reversed(declaration.items()))
    assert declared(declaration) == declared(turned)
    taken = fold_of_log.fold(declaration)
    assert declared(taken) == declared(fold_of_log.fold(turned))
    assert changes(declared(taken), declared(taken)) == redeclared.Changes({})
    assert declarations.digest(declared(taken)) != declarations.digest(declared(declaration))


def test_a_format_that_was_added_changes_no_table() -> None:
    for declaration, names in ((log(), OTHERS), (aerospike_log(), AEROSPIKE)):
        after = declared(declaration)
        before = after.replace(names, names.replace(", 'aerospike_avro'", ""))
        assert before != after
        assert changes(before, after) == redeclared.Changes({})
        other = declared(declaration | {"conditions": [names, "false"]})
        assert "conditions" in str(changes(before, other).rebuild)


def test_a_format_that_was_added_changes_no_table_without_a_key() -> None:
    after = declared(log(key={}, keyless=True))
    before = after.replace(OTHERS, OTHERS.replace(", 'aerospike_avro'", ""))
    assert before != after
    assert changes(before, after) == redeclared.Changes({})


def test_what_a_gold_table_says_of_masks_makes_it_no_other_one() -> None:
    masked = log(key={}, keyless=True, columns={"note": {"type": "string", "mask": "last4"}})
    plain = log(key={}, keyless=True, columns={"note": "string"})
    before, after = (declared(fold_of_log.fold(each)) for each in (plain, masked))
    assert "masked" not in before and before != after
    assert changes(before, after) == changes(after, before) == redeclared.Changes({})


def test_types_of_columns_that_are_not_taken_do_not_matter() -> None:
    def note(**columns: str) -> Fold:
        return fold_of_log.fold(log(columns={"note": "string", **columns}), ["note"])

    assert declared(note(amount="int")) == declared(note(amount="string", tax="int"))


def test_whether_columns_follow_says_nothing_of_the_rows() -> None:
    assert declared(log(follow="widening")) == declared(log())
    with pytest.raises(CompilationError, match='has follow="all": it is widening or left out'):
        log(follow="all")
    with pytest.raises(CompilationError, match="is keyless, so its columns can't follow"):
        log(follow="widening", key={}, keyless=True)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "bigint", True),
        ("tinyint", "bigint", True),
        ("int", "smallint", False),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12, 2)", True),
        ("decimal(10,2)", "decimal(12,3)", True),
        ("decimal(10,2)", "decimal(12,5)", False),
        ("decimal(10)", "decimal(12,2)", True),
        ("decimal(12,2)", "decimal(10,2)", False),
        ("bigint", "int", False),
        ("double", "float", False),
        ("int", "double", False),
        ("int", "string", False),
        ("date", "timestamp", False),
        ("decimal(10,0)", "bigint", False),
    ],
)
def test_types_that_hold_all_values_of_others(old: str, new: str, expected: bool) -> None:
    assert is_widening(old, new) is expected


def numbers(whole: int, fraction: int = 0, *, bigint: bool = True, double: bool = True) -> Kind:
    return Kind("amount", whole, fraction, bigint, double)


@pytest.mark.parametrize(
    ("declared_type", "kinds", "expected"),
    [
        ("decimal(12,2)", [numbers(1, 3)], "decimal(13,3)"),
        ("decimal(12,2)", [numbers(11, 3), numbers(3, 4)], "decimal(15,4)"),
        ("decimal(12, 2)", [numbers(14)], "decimal(16,2)"),
        # One that no type holds beside the others stays a misfit, and the others don't.
        ("decimal(12,2)", [numbers(38), numbers(10, 5)], "decimal(15,5)"),
        ("decimal(38,2)", [numbers(2, 3)], "decimal(38,2)"),
        ("decimal(12, 2)", [numbers(39)], "decimal(12, 2)"),
        ("tinyint", [numbers(3)], "bigint"),
        ("int", [numbers(10), numbers(20, bigint=False)], "bigint"),
        ("int", [numbers(20, bigint=False)], "int"),
        ("int", [numbers(1, 2, bigint=False)], "int"),
        ("bigint", [numbers(20, bigint=False)], "bigint"),
        ("float", [numbers(1, 12)], "double"),
        ("float", [numbers(1, 40, double=False)], "float"),
    ],
)
def test_types_that_numbers_widen(declared_type: str, kinds: list[Kind], expected: str) -> None:
    assert wider(declared_type, kinds) == expected
    assert declared_type == expected or is_widening(declared_type, expected)


def test_the_types_of_a_log_that_follows() -> None:
    columns = {"amount": "decimal(12,2)", "pieces": "int", "note": "string", "at": "timestamp"}
    follows = log(columns=columns, follow="widening")
    assert may_follow(follows) == ["amount", "pieces"]
    assert outgrown(follows, [numbers(1, 3), numbers(12, 1)]) == {"amount": "decimal(15,3)"}
    kept = following({"amount": "decimal(13,3)", "pieces": "bigint", "gone": "bigint"}, 7)
    assert looked_at(kept)[1] == 7

    def now(of: Mapping[str, Any]) -> dict[str, str]:
        types = {each["column"]: each["type"] for each in followed(of, kept)["columns"]}
        return {name: types[name] for name in ("amount", "pieces")}

    assert now(follows) == {"amount": "decimal(13,3)", "pieces": "bigint"}
    # What is declared by now, by generate say, holds what was met before too.
    declared_now = log(columns={**columns, "amount": "decimal(16,2)"}, follow="widening")
    assert now(declared_now) == {"amount": "decimal(17,3)", "pieces": "bigint"}
    retyped = log(columns={**columns, "amount": "string"}, follow="widening")
    assert now(retyped)["amount"] == "string"
    assert followed(log(columns=columns), kept) == log(columns=columns)


def test_what_is_told_of_misfits() -> None:
    declared_log = log(columns={"amount": "decimal(12,2)", "at": "date"})

    def said(column: str, number: int, *examples: str) -> str:
        return misfits.told(
            "silver.orders_changes",
            declared_log,
            [misfits.Misfits(column, number, examples, ["shop.orders"])],
        )

    assert said("amount", 9, "1.125", "2.375") == (
        "silver.orders_changes.amount: 9 values do not fit decimal(12,2), such as '1.125', '2.375',"
        " and are null in tables made from it (the log keeps the text); `lakehouse generate --topic"
        ' shop.orders` writes a type that holds them, or says why not, and follow="widening" in'
        " the log's model lets builds do so"
    )
    assert "1 value does not fit date, 'soon', and is null in" in said("at", 1, "soon")
    assert "follow" not in said("at", 1, "soon")
    key = said("id", 1, "no key", "x")
    assert ".id: 1 value does not fit int, 'x', so the row is in no gold table" in key
    declared_log = log(columns={"lsn": {**LSN, "type": "int"}})
    beside = said("lsn", 2, "1e3", "9999999999")
    assert "(the log keeps the text); declare a type in its model that does, and follow=" in beside
    declared_log = log(columns={"trace": HEADER})
    headed = said("trace", 1, "caf\ufffd")
    assert (
        "(the log keeps the text); bytes of a header that are not UTF-8 fit no type, so" in headed
    )
    declared_log = log(columns={"try": {**HEADER, "type": "int"}})
    assert "declare a type in its model that does" in said("try", 1, "many")
    assert said("id", 2, "no key") == (
        "silver.orders_changes: 2 changes without id, a key, and so in no gold table"
    )


def test_what_is_told_of_misfits_of_a_masked_column() -> None:
    masked = log(columns={"pin": {"type": "int", "mask": "last4"}})
    of = misfits.Misfits("pin", 3, ["(masked)"], ["orders"])
    assert misfits.told("silver.orders_changes", masked, [of]) == (
        "silver.orders_changes.pin: 3 values do not fit int, and are null in tables"
        " made from it (bronze keeps the text); declare a type in its model that does"
    )


def test_any_text_is_a_literal() -> None:
    assert sql_text("it's a \\ and \\'") == "'it\\'s a \\\\ and \\\\\\''"
    # It stays what it is where a macro indents what it is in.
    assert sql_text("a\r\nb\x0bc\u2028") == "'a\\u000d\\u000ab\\u000bc\\u2028'"
    assert quoted(["a b", "c"]) == ["`a b`", "`c`"]


def test_a_terminal_shows_what_it_would_obey() -> None:
    assert printable("é \u3000\U0001f469\u200d\U0001f692") == "é \u3000\U0001f469\u200d\U0001f692"
    assert printable("a\x1b[2J\r\n\x9b\u202e\u2028") == r"a\x1b[2J\r\n\x9b\u202e\u2028"
    assert [text_of(sql_text(each)) for each in ("it's", "\\u000a\n", "\\")] == [
        *("it's", "\\u000a\n", "\\"),
    ]


def test_deletes_without_a_set_are_those_of_all_formats_of_aerospike() -> None:
    model = render("set_less_deletes", events="events", formats=AEROSPIKE_FORMATS)
    assert AEROSPIKE in model
    assert AEROSPIKE in _SET_LESS


@pytest.mark.parametrize(
    ("macro", "given", "message"),
    [
        # To Jinja, this text is true.
        (
            "change_log",
            {"partial": "false"},
            'change_log has partial="false" where true or false without quotes is needed',
        ),
        ("change_log", {"reconcile_snapshots": 1}, "reconcile_snapshots=1 where true or false"),
        (
            "aerospike_change_log",
            {"order_by_source_time": "no"},
            '="no" where true or false without',
        ),
        ("current_state", {"deleted_rows": "true"}, 'current_state has deleted_rows="true" where'),
        ("history", {"bitemporal": []}, "history has bitemporal=[] where true or false"),
        # And these names are false.
        (
            "change_log",
            {"keyless": Undefined(name="yes")},
            "keyless, a name that is not defined, where true or false without quotes is needed",
        ),
        (
            "change_log",
            {"where": Undefined(name="is_mine")},
            "change_log has where, a name that is not defined, where a text in quotes is needed",
        ),
        (
            "change_log",
            {"follow": Undefined(name="widening")},
            "follow, a name that is not defined",
        ),
        ("current_state", {"columns": Undefined(name="mine")}, "columns, a name that is not"),
        ("history", {"track_columns": "total"}, 'track_columns="total" where a list like ["tot'),
        ("change_log", {"topic": ["a", "b"]}, 'change_log has topic=["a", "b"] where a text in'),
    ],
)
def test_flags_and_texts_of_another_type(macro: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilationError) as refused:
        declarations.declare(macro, given, ())
    assert message in str(refused.value)


def test_a_topic_that_is_no_regular_expression() -> None:
    for topic, problem in (("shop(", "missing \\)"), ("shop[", "unterminated character set")):
        with pytest.raises(CompilationError, match=f"not a regular expression: {problem}"):
            log(topic=topic)
    # Java's own, and a nested class of its.
    for topic in (r"\Qshop(\E[(&&[^a]]", r"shop\.\w++"):
        assert log(topic=topic)["conditions"][-1].startswith("topic rlike ")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"encoding": "HBase"}, 'column note has the encoding "HBase": it is "hbase" or left out'),
        ({"encoding": Undefined()}, "column note has the encoding"),
        ({"mask": Undefined()}, 'it is "hash", "null" \\(in quotes\\) or "last4"'),
        ({"name": Undefined()}, "column note has a name that is not text: put the image's field"),
    ],
)
def test_a_column_of_which_a_part_is_mistyped(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        log(columns={"note": {"type": "string", **spec}})


@pytest.mark.parametrize("given", [7, {"orders": 1}, ["orders", Undefined()], Undefined()])
def test_a_source_that_is_no_name(given: Any) -> None:
    for part in ("source_table", "source_schema", "source_database"):
        with pytest.raises(
            CompilationError, match=f"a change log's {part} is .* in quotes, a list"
        ):
            log(**{part: given})
