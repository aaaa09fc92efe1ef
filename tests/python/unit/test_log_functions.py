"""The names by which SQL calls the functions of a change log."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbt.adapters.lakehouse.lake.functions import Functions
from dbt_lakehouse.declared.declarations import change_log, decoder_name
from dbt_lakehouse.spark import payload_functions


def declare(**more: Any) -> dict[str, Any]:
    arguments = {
        "source_database": "shop",
        "source_schema": "sales",
        "source_table": "orders",
        "topic": None,
        "key": {"id": "bigint"},
        "columns": {"note": "string"},
        "keyless": False,
        "partial": False,
        "order_by_source_time": None,
    }
    return change_log({**arguments, **more})


class Session:
    """A session and what was registered in it."""

    def __init__(self, *, only_compiles: bool = False) -> None:
        self.registered: list[str] = []
        self.functions: set[str] = set()
        self.decoders: dict[str, str] = {}
        self.schemas: dict[int, Any] = {}
        self.spark = self
        handle = SimpleNamespace(session=self)
        lake = SimpleNamespace(only_compiles=only_compiles, handle=handle)
        self.of_lake = Functions(cast(Any, lake))

    def name(
        self, model: str, log: dict[str, Any], *, keys: Any = (), schemas: bool = False
    ) -> str:
        return self.of_lake.log_function(model, log, keys, None, (), schemas)


@pytest.fixture(autouse=True)
def registering(monkeypatch: pytest.MonkeyPatch) -> None:
    def register(session: Any, name: str, *_: Any) -> None:
        session.registered.append(name)

    monkeypatch.setattr(payload_functions, "register_log_events", register)


def test_the_first_declaration_of_a_session_has_the_plain_name() -> None:
    session = Session()
    first = session.name("orders_changes", declare())
    assert first == decoder_name("orders_changes") == "decode_orders_changes"
    assert session.name("orders_changes", declare()) == first
    # What was compiled with it must not run with another.
    wider = session.name("orders_changes", declare(columns={"note": "string", "a": "int"}))
    checked = session.name("orders_changes", declare(), keys=(("id",),))
    assert len({first, wider, checked}) == 3
    assert wider.startswith("decode_orders_changes_")
    assert session.name("orders_changes", declare()) == first
    assert session.registered == [first, wider, checked]
    # With schemas it is registered again each time.
    assert session.name("orders_changes", declare(), schemas=True) == first
    assert session.registered == [first, wider, checked, first]


def test_a_log_does_not_take_the_name_of_another_function() -> None:
    session = Session()
    name = session.name("payload", declare())
    assert name.startswith("decode_payload_") and session.registered == [name]
    # Of two logs whose names differ in what SQL has no room for, the second has another.
    assert session.name("a-b", declare()) == "decode_a_b"
    assert session.name("a b", declare(source_table="b")) != "decode_a_b"


def test_what_is_only_compiled_registers_nothing() -> None:
    session = Session(only_compiles=True)
    for log in (declare(), declare(columns={"a": "int"})):
        assert session.name("orders_changes", log) == "decode_orders_changes"
    assert session.registered == []
