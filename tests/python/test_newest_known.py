"""What a run looks up of the keys that it touches: only what may make a difference; and that what
a first load remembers of absent keys is all that can.
"""

import json
from datetime import timedelta
from typing import Any

import pytest
from expected_gold import EPOCH, ORDERS, expected_rows, log_of
from lakes import Lake
from small_messages import order
from streams import HOUR, MINUTE, START, Message
from streams import ORDERS as TOPIC

from dbt_lakehouse import evaluated_views

AS_OF = EPOCH + timedelta(milliseconds=START + HOUR)


def change(
    offset: int, minute: int, op: str, number: int, *, partition: int = 0, made: int | None = None
) -> Message:
    """A change of an order, sent in a minute, and ``made`` in it or in another one."""
    clock, made_at = (START + each * MINUTE for each in (minute, minute if made is None else made))
    message = order(TOPIC, offset, clock, op, number, f"minute {minute}", made_at)
    return message._replace(partition=partition)


class Watched:
    """A lake of orders, what has landed in it, and what its last run has evaluated."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake = lake
        self.evaluated: dict[str, int] = {}
        self._landed: list[Message] = []
        create = evaluated_views.create

        def create_watched(spark: Any, name: str, query: str) -> int:
            number = create(spark, name, query)
            self.evaluated[name.partition("__dbt_tmp__")[2]] = number
            return number

        monkeypatch.setattr(evaluated_views, "create", create_watched)

    def run(self, *messages: Message) -> None:
        """Land the messages and have gold brought up to date, which must be as the reference."""
        self.evaluated.clear()
        self.lake.land(each.line() for each in messages)
        self._landed += messages
        statuses = self.lake.dbt("run", "-s", "+orders", as_of=f"{AS_OF:%F %T}")
        assert set(statuses.values()) == {"success"}
        actual = {row["order_id"]: row for row in self.lake.read("gold.orders")}
        assert actual == expected_rows(ORDERS, log_of(self._landed), AS_OF)

    @property
    def newest(self) -> dict[str, int]:
        """The table's property, in minutes."""
        held = json.loads(self.lake.properties("gold.orders")["lakehouse.newest"])
        return {name: (micros // 1000 - START) // MINUTE for name, micros in held.items()}


def test_only_keys_that_may_be_late_are_looked_up(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Watched(Lake(tmp_path_factory.mktemp("newest")), monkeypatch)
    orders.run(change(0, 10, "c", 1), change(1, 11, "c", 2), change(2, 12, "d", 3))
    # The newest of all is that of a key without a row.
    assert orders.newest == {"log_time": 12, "time": 12}

    orders.run(change(3, 20, "u", 1), change(4, 21, "d", 2), change(5, 22, "c", 4))
    assert orders.evaluated["unsettled"] == 0
    assert "known" not in orders.evaluated
    assert orders.newest == {"log_time": 22, "time": 22}

    # Earlier in the log though made later: one key has a row, one only a remembered state.
    orders.run(
        change(0, 15, "u", 1, partition=1, made=30),
        change(1, 16, "u", 2, partition=1, made=31),
        change(6, 32, "u", 4),
    )
    assert (orders.evaluated["unsettled"], orders.evaluated["known"]) == (2, 2)
    assert orders.newest == {"log_time": 32, "time": 32}

    # Made earlier though later in the log: the row's newest time is not this one's.
    orders.run(change(7, 40, "u", 4, made=25), change(8, 41, "c", 2))
    assert orders.evaluated["unsettled"] == 1
    assert orders.newest == {"log_time": 41, "time": 41}


def test_a_table_that_remembers_no_newest_looks_all_up(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Watched(Lake(tmp_path_factory.mktemp("newest")), monkeypatch)
    orders.run(change(0, 10, "c", 1), change(1, 11, "d", 2))
    # As a run leaves it that dies between a rebuild and its end.
    orders.lake.set_properties("gold.orders", {"lakehouse.newest": ""})
    orders.run(change(2, 20, "u", 1), change(3, 21, "c", 3))
    assert orders.evaluated["unsettled"] == 2
    assert orders.newest == {"log_time": 21, "time": 21}


def test_a_first_load_remembers_the_key_that_an_update_replaces(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Watched(Lake(tmp_path_factory.mktemp("newest")), monkeypatch)
    renamed = change(1, 20, "u", 2)
    value = json.loads(renamed.value or b"")
    value["before"] = {"order_id": 1, "status": "minute 10"}
    orders.run(change(0, 10, "c", 1), renamed._replace(value=json.dumps(value).encode()))
    # The same, but that it comes late.
    orders.run(change(0, 15, "u", 1, partition=1))
    assert orders.lake.sql(
        "select record_key, position.offset from silver.deleted_keys where scope = 'gold.orders'"
    ) == [{"record_key": '{"order_id":1}', "offset": 1}]
