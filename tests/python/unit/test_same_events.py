"""Change logs that take the same events: the warning about them."""

from typing import Any

from dbt_lakehouse.declared import same_events
from dbt_lakehouse.declared.declarations import change_log


def log(table: str, columns: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    given = dict.fromkeys(("source_database", "topic", "where", "order_by_source_time"))
    given |= {"source_schema": "shop", "source_table": table, "key": {"id": "bigint"}}
    given |= {"columns": columns or {"note": "string"}, "keyless": False, "partial": False}
    return change_log(given | more)


def test_a_copied_log_is_told() -> None:
    copied = log("orders", {"email": "string"})
    logs = [("b.sql", copied), ("c.sql", log("users")), ("a.sql", log("orders"))]
    assert same_events.told(logs) == [
        "a.sql and b.sql take the same events, those of shop.orders, so each has a log of its own"
        " of them: if one is a copy, correct its source or its topic; if it is left over, delete it"
    ]
    [three] = same_events.told([*logs, ("d.sql", log("orders"))])
    assert three.startswith("a.sql, b.sql and d.sql take the same events, ")
    every = [(name, log("*", source_schema="*")) for name in ("a.sql", "b.sql")]
    assert same_events.told(every)[0].startswith("a.sql and b.sql take the same events, so each")


def test_logs_of_other_events_are_wanted() -> None:
    masked = {"note": {"type": "string", "mask": "hash"}}
    logs = [
        log("orders"),
        log("orders", masked),
        log("orders", topic="other"),
        log("orders", where="source_ts is null"),
        log("orders", source_schema=None),
        log("users"),
    ]
    assert same_events.told((str(number), each) for number, each in enumerate(logs)) == []
