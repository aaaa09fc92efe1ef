"""Masks of personal columns: what rows of a change log tell of them, and what they don't."""

import hmac
import json
from contextlib import AbstractContextManager, nullcontext
from hashlib import md5
from typing import Any, Final, cast

import duckdb
import pytest
from dbt_common.exceptions import CompilationError
from test_model_run import made_of
from test_typed_rows import image, row_of

from dbt_lakehouse.commands.hashed_keys import clear_types
from dbt_lakehouse.commands.why.events import KeyedTable, typed_key
from dbt_lakehouse.declared import declarations, fold_of_log, redeclared
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from python_udfs.typed.declared import Log
from python_udfs.typed.masks import know_key
from python_udfs.typed.row import Change

KEY: Final = "a key of our own, long"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_MASK_KEY", KEY)
    know_key(KEY.encode())


def declared(key: dict[str, Any], columns: dict[str, Any], **more: Any) -> dict[str, Any]:
    arguments = {
        **{"keyless": False, "partial": False, "order_by_source_time": None},
        **{"source_table": "people", "source_schema": None, "source_database": None},
    }
    return declarations.change_log({"key": key, "columns": columns, **arguments, **more})


def log_of(key: dict[str, Any], columns: dict[str, Any], **more: Any) -> Log:
    return declarations.rows_of(declared(key, columns, **more))


def hashed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), "sha256").hexdigest()


def mask(mask: str, type: str = "string") -> dict[str, str]:
    return {"type": type, "mask": mask}


PEOPLE: Final = log_of(
    {"id": "int"},
    {
        "email": mask("hash"),
        "born": mask("null", "date"),
        "card": mask("last4"),
        "pin": mask("last4", "int"),
        "plain": "string",
    },
)


def test_a_masked_column_has_its_mask_and_the_others_their_values() -> None:
    person = image(id=1, email="a@b.c", born="1990-01-02", card="4111-0042", pin=1234, plain="x")
    row = row_of(Change("insert", None, person), PEOPLE)
    assert (row["email"], row["born"], row["card"]) == (hashed("a@b.c"), None, "*****0042")
    assert (row["pin"], row["plain"], row["_misfits"]) == ("****", "x", [])


def test_what_has_changed_is_said_as_without_a_mask() -> None:
    before = image(id=1, email="a", born="1990-01-02", card="1-0042", pin=1, plain="x")
    after = image(id=1, email="a", born="1990-01-03", card="2-0042", pin=1, plain="x")
    row = row_of(Change("update", before, after), PEOPLE)
    assert row["_changed_columns"] == ["born", "card"]


def test_a_value_that_does_not_fit_is_told_without_its_text() -> None:
    row = row_of(Change("insert", None, image(id=1, born="no date", pin="secret")), PEOPLE)
    assert row["_misfits"] == [
        {"column": "born", "text": "(masked)"},
        {"column": "pin", "text": "(masked)"},
    ]
    hidden = Change("insert", None, image(id=1, email="__debezium_unavailable_value"))
    assert row_of(hidden, PEOPLE)["_misfits"] == [
        {"column": "email", "text": "__debezium_unavailable_value"}
    ]


@pytest.mark.parametrize("type", ["int", "bigint", "decimal(12,2)", "decimal(9,0)"])
@pytest.mark.parametrize("value", [42, "42", 42.0])
def test_a_number_has_one_hash_in_all_tables(type: str, value: object) -> None:
    if isinstance(value, float) and "int" in type:
        value = int(value)
    log = log_of({"id": "int"}, {"n": mask("hash", type)})
    assert row_of(Change("insert", None, image(id=1, n=value)), log)["n"] == hashed("42")


def test_a_hashed_key_is_the_key_of_updates_and_deletes_too() -> None:
    log = log_of({"id": mask("hash", "int")}, {"n": "int"})
    moved = row_of(Change("update", image(id=1, n=1), image(id=2, n=1)), log)
    assert (moved["id"], moved["_previous_key"]) == (hashed("2"), {"id": hashed("1")})
    gone = row_of(Change("delete", None, None, image(id="2")), log)
    assert gone["id"] == hashed("2")
    notes = json.dumps({"old_key": '{"id":1}'}).encode()
    made = Change("insert", None, image(id=2, n=1), image(id=2), notes.replace(b": ", b":"))
    update = row_of(made, log)["_key_update"]
    assert update["key_before"] == {"id": hashed("1")}
    # A plain digest of two keys would be guessed.
    assert len(update["id"]) == 64


@pytest.mark.parametrize(
    ("columns", "keys", "hides"),
    [
        # Messages may have keys of columns that are not the log's.
        ({"mail": mask("hash")}, (), (True, True)),
        ({"mail": mask("hash")}, (("id",),), (True, True)),
        ({"mail": mask("last4")}, (), (True, False)),
        ({"mail": mask("null")}, (("id",), ("mail",)), (True, False)),
        ({"mail": mask("null")}, (("id",), ("nick",)), (False, False)),
        ({"mail": "string"}, (), (False, False)),
        (
            {"by": {**mask("last4"), "from": "metadata", "path": "source.user"}},
            (("id",),),
            (False, True),
        ),
    ],
)
def test_no_digest_of_a_key_update_lets_a_masked_value_be_guessed(
    columns: dict[str, Any], keys: tuple[tuple[str, ...], ...], hides: tuple[bool, bool]
) -> None:
    log = declarations.rows_of(declared({"id": "int"}, columns), keys)

    def digests(source: str) -> list[str | None]:
        notes = f'{{"new_key":"{{\\"mail\\":\\"b\\"}}","source":{source}}}'.encode()
        change = Change("delete", image(id=1), None, b'{"mail":"a"}', notes)
        update = row_of(change, log)["_key_update"]
        return [update["id"], update["change"]]

    plain = [md5(text).hexdigest() for text in (b'{"mail":"a"} {"mail":"b"}', b'{"user":"me"}')]
    found = digests('{"user":"me"}')
    assert tuple(digest != clear for digest, clear in zip(found, plain, strict=True)) == hides
    # A delete and its insert are still of one update.
    assert digests('{"user":"me"}') == found and found[0] is not None


def test_a_column_beside_the_row_and_one_inside_of_a_field_are_masked() -> None:
    log = log_of(
        {"id": "int"},
        {
            "city": {**mask("hash"), "path": "address.city"},
            "user": {**mask("last4"), "from": "metadata", "path": "source.user"},
        },
    )
    metadata = json.dumps({"source": {"user": "somebody"}}).encode()
    row = row_of(Change("insert", None, image(id=1, address={"city": "Rome"}), None, metadata), log)
    assert (row["city"], row["user"]) == (hashed("Rome"), "****body")


@pytest.mark.parametrize(
    ("key", "columns", "says"),
    [
        ({"id": mask("null")}, {}, 'the key column id has the mask "null"'),
        ({"id": mask("last4")}, {}, "could not be told apart"),
        ({"id": "int"}, {"a": mask("md5")}, 'column a has the mask "md5"'),
        ({"id": "int"}, {"a": {"type": "string", "mask": None}}, '"null" (in quotes)'),
        (
            {"id": "int"},
            {"a": mask("hash", "array<string>")},
            'the mask "hash" is only for strings',
        ),
        ({"id": "int"}, {"a": mask("last4", "double")}, "declare the column as string"),
    ],
)
def test_a_mask_that_can_not_be_is_refused(
    key: dict[str, Any], columns: dict[str, Any], says: str
) -> None:
    with pytest.raises(CompilationError) as error:
        declared(key, columns)
    assert says in str(error.value)


def test_another_key_makes_a_log_anew_and_its_value_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = declared({"id": "int"}, {"a": mask("hash")})
    before = redeclared.declared(log)
    assert KEY not in before
    monkeypatch.setenv("LAKEHOUSE_MASK_KEY", KEY + "!")
    changes = redeclared.changes(before, redeclared.declared(log))
    assert changes.rebuild == "its declaration has changed (mask key)"
    for short in ("", "fifteen bytes.."):
        monkeypatch.setenv("LAKEHOUSE_MASK_KEY", short)
        with pytest.raises(ConfigurationError, match="16 bytes or more"):
            redeclared.declared(log)
    without = declared({"id": "int"}, {"a": mask("null")})
    assert "mask_key" not in redeclared.declared(without)


def test_a_function_of_rows_has_another_name_for_another_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashes, others = (declared({"id": "int"}, {"a": mask(each)}) for each in ("hash", "null"))

    def names() -> list[str]:
        return [
            declarations.rows_function_name("typed", "t", log, declarations.rows_of(log))
            for log in (hashes, others)
        ]

    before = names()
    assert names() == before
    monkeypatch.setenv("LAKEHOUSE_MASK_KEY", KEY + "!")
    assert [name == old for name, old in zip(names(), before, strict=True)] == [False, True]


def test_the_first_column_with_hashes_is_filled_and_one_that_has_values_is_not() -> None:
    plain, more, other = (
        redeclared.declared(declared({"id": "int"}, columns))
        for columns in (
            {"a": "string"},
            {"a": "string", "b": mask("hash")},
            {"a": mask("hash")},
        )
    )
    assert redeclared.changes(plain, more) == redeclared.Changes({"b": None})
    assert redeclared.changes(plain, other).rebuild == "column a is declared otherwise"
    assert redeclared.changes(other, plain).rebuild == "column a is declared otherwise"
    assert redeclared.changes(more, plain).rebuild == "it has no column b any more"


class AskedLog:
    """A reader of a lake that has the log of a declaration alone."""

    functions: frozenset[str] = frozenset()

    def __init__(self, of: dict[str, Any]) -> None:
        self._log = made_of(of, {})

    def columns(self) -> dict[str, dict[str, str]]:
        return {"silver.people_changes": {"id": "VARCHAR", "region": "INTEGER"}}

    def known(self, name: str) -> str:
        return name

    def look_at(self, name: str) -> Table:
        assert name == "silver.people_changes"
        return self._log

    def explained(self) -> AbstractContextManager[None]:
        return nullcontext()

    def query(self, sql: str) -> duckdb.DuckDBPyConnection:
        return duckdb.connect().execute(sql)


@pytest.mark.parametrize("type", ["bigint", "string", "decimal(12,2)"])
def test_a_hashed_key_is_asked_for_by_its_clear_value(
    monkeypatch: pytest.MonkeyPatch, type: str
) -> None:
    log = declared({"id": mask("hash", type), "region": "int"}, {"name": "string"})
    fold, hashed_types = fold_of_log.fold(log), clear_types(log, log["key"])
    assert hashed_types == {"id": type}
    label = "silver.people_changes"
    table = KeyedTable("gold.people", label, "", "", "", frozenset(), fold, None, hashed_types)
    reader = cast(Reader, AskedLog(log))
    key = typed_key(reader, table, '{"id": 7, "region": 3}')
    assert key.condition(["id", "region"]) == (
        f"id = '{hashed('7')}' and region = try_cast('3' as INTEGER)"
    )
    assert str(key.values["id"]).partition(".")[0] == "7"
    monkeypatch.setenv("LAKEHOUSE_MASK_KEY", KEY + "!")
    with pytest.raises(ConfigurationError, match="was built by another LAKEHOUSE_MASK_KEY"):
        typed_key(reader, table, '{"id": 7, "region": 3}')


def test_another_mask_makes_a_log_anew() -> None:
    one, other = (declared({"id": "int"}, {"a": mask(each)}) for each in ("hash", "last4"))
    found = redeclared.changes(redeclared.declared(one), redeclared.declared(other))
    assert found.rebuild is not None
