"""Each event counts in one place, whichever change logs there are, and whichever have run."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from support.lakes import Lake
from support.small_messages import row_change
from support.small_project import Log, add_gold, add_log, current_state, remove_model, small_project
from support.streams import START, Message

from dbt_lakehouse.runs import commits, marks, source_filter
from dbt_lakehouse.runs.moving import MOVED
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.dbt_commands import run_dbt

AS_OF: Final = "2026-10-03 00:00:00"
TOPIC: Final = "debezium.shop"
TEST: Final = "every_payload_is_accounted_for"
NAMES: Final = ("orders", "returns")
LOGS: Final = {
    name: Log(name, name, {"id": "bigint"}, {"note": "string"}, database="shop", schema="sales")
    for name in NAMES
}
# Of this, the words of a condition are the columns of an event.
LOGS["gifts"] = replace(
    LOGS["orders"], name="gifts", table="gifts", where="log_time >= timestamp '2000-01-01'"
)
BOXES: Final = replace(LOGS["orders"], name="boxes", table="boxes", schema=None)
BATCHES: Final = "canal.shop"


def change(offset: int, table: str, number: int, note: str, op: str = "c") -> dict[str, Any]:
    """A line of a capture."""
    source = {"db": "shop", "schema": "sales", "table": table}
    return row_change(TOPIC, offset, op, number, source, note=note).line()


def batch(offset: int, *numbers: int) -> dict[str, Any]:
    """A line of a message with several rows."""
    rows = [{"id": str(each), "note": f"box {each}"} for each in numbers]
    value = {
        **{"data": rows, "database": "shop", "table": "boxes", "type": "INSERT", "isDdl": False},
        **{"pkNames": ["id"], "mysqlType": {"id": "bigint", "note": "text"}},
        **{"es": START, "ts": START, "old": None},
    }
    return Message(BATCHES, 0, offset, START, None, json.dumps(value).encode()).line()


def raw(offset: int, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    return Message(TOPIC, 0, offset, START, key, value).line()


class Shop:
    """A lake with the change logs that a project declares at the time."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder / "lake", small_project(folder / "project", [TEST]))

    def declare(self, *names: str) -> None:
        """Have the project declare these change logs, and no others."""
        for name, log in LOGS.items():
            for model in (name, log.model):
                remove_model(self.lake.project, model)
            if name in names:
                add_log(self.lake.project, log)
                add_gold(self.lake.project, current_state(log))

    def run(self, *arguments: str) -> None:
        """Build, and hold every payload to account."""
        # In one command, for each takes seconds.
        chosen = arguments if "-s" in arguments else (*arguments, "-s", "resource_type:model")
        command = ("build", *chosen, TEST, "--indirect-selection", "empty")
        statuses = self.lake.dbt(*command, as_of=AS_OF)
        assert set(statuses.values()) <= {"success", "pass"}, statuses
        assert statuses[TEST] == "pass" and len(statuses) > 1

    def others(self) -> list[tuple[int, str, str | None]]:
        """What no log takes: offset, operation and source table."""
        rows = self.lake.read("silver.other_events")
        rows.sort(key=lambda row: row["offset"])
        return [(row["offset"], row["operation"], row["source_table"]) for row in rows]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a log, in their order."""
        rows = self.lake.read(f"silver.{name}_changes")
        return sorted(rows, key=lambda row: int(row["_position"]["offset"]))

    def logged(self, name: str) -> list[int]:
        """The offsets of a log's rows."""
        return [row["_position"]["offset"] for row in self.rows(name)]

    def gold(self, name: str) -> dict[int, str]:
        """The notes of a table's rows by their ids."""
        return {row["id"]: row["note"] for row in self.lake.read(f"gold.{name}")}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A lake of two tables in one topic, of which one is declared."""
    shop = Shop(tmp_path_factory.mktemp("other-events"))
    shop.declare("orders")
    shop.lake.land(
        [
            change(0, "orders", 1, "a"),
            change(1, "returns", 1, "r"),
            raw(2, b'{"id":9}', b"{"),
            raw(3, b'{"id":9}', None),
        ]
    )
    shop.run()
    yield shop


INVALID: Final = (2, "invalid", None)
TOMBSTONE: Final = (3, "tombstone", None)


def test_what_no_log_takes_is_kept(shop: Shop) -> None:
    assert shop.others() == [(1, "insert", "returns"), INVALID, TOMBSTONE]
    assert shop.logged("orders") == [0]
    # The commit counts all of them.
    found = look_at(shop.lake.spark, "silver.other_events")
    assert found is not None and source_filter.payloads_of(found) == 4


def test_a_log_that_is_left_out_reads_on_later(shop: Shop) -> None:
    shop.lake.land([change(4, "orders", 2, "b"), change(5, "returns", 2, "s")])
    shop.run("-s", "other_events")
    assert shop.logged("orders") == [0]
    shop.lake.land([change(6, "orders", 1, "c", "u")])
    shop.run("-s", "other_events")
    shop.run("-s", "orders_changes", "orders")
    assert shop.logged("orders") == [0, 4, 6]
    assert shop.gold("orders") == {1: "c", 2: "b"}


def test_a_log_that_is_declared_later_takes_its_events_over(shop: Shop) -> None:
    shop.declare("orders", "returns")
    # A log that has run alone has them as well until other_events runs.
    shop.run("-s", "returns_changes")
    shop.lake.sql("drop table silver.returns_changes")
    # It gives them away before the log has read them: they wait for it.
    shop.run("-s", "other_events")
    assert shop.others() == [INVALID, TOMBSTONE]
    shop.run()
    assert shop.logged("returns") == [1, 5]
    assert shop.gold("returns") == {1: "r", 2: "s"}


# In CI, the next test has such a log too.
@pytest.mark.long
def test_what_a_log_took_that_is_not_there_any_more_is_kept_again(shop: Shop) -> None:
    shop.declare("orders")
    kept = [(1, "insert", "returns"), INVALID, TOMBSTONE, (5, "insert", "returns")]
    shop.lake.sql("drop table silver.returns_changes")
    for _ in range(2):
        shop.run()
        assert shop.others() == kept
    shop.declare("orders", "returns")
    shop.run()
    assert (shop.others(), shop.logged("returns")) == ([INVALID, TOMBSTONE], [1, 5])


def test_rolled_back_it_follows_the_logs_once_more(shop: Shop) -> None:
    """Of each commit, the commit itself tells what logs took."""
    lake = shop.lake
    both = lake.current_snapshot("silver.other_events")
    shop.declare("orders")
    lake.sql("drop table silver.returns_changes")
    shop.run()
    kept = shop.others()
    assert kept == [(1, "insert", "returns"), INVALID, TOMBSTONE, (5, "insert", "returns")]
    lake.roll_back("silver.other_events", both)
    shop.run()
    assert shop.others() == kept
    # Both of the new logs take what they find, the one what was there, the other what comes.
    shop.declare("orders", "returns", "gifts")
    lake.land([change(7, "gifts", 1, "g")])
    shop.run()
    assert shop.others() == [INVALID, TOMBSTONE]
    assert (shop.logged("returns"), shop.logged("gifts")) == ([1, 5], [7])


def test_a_name_may_be_written_with_escapes(shop: Shop) -> None:
    line = change(9, "orders", 4, "e")
    sent = b64decode(line["value_b64"]).replace(b'"orders"', b'"\\u006frders"')
    shop.lake.land([line | {"value_b64": b64encode(sent).decode()}])
    shop.run()
    assert shop.logged("orders") == [0, 4, 6, 9]


# In CI, the next test makes both tables anew.
@pytest.mark.long
def test_a_rebuilt_log_has_the_same_rows(shop: Shop) -> None:
    before = shop.rows("orders")
    shop.run("--full-refresh", "-s", "orders_changes")
    assert shop.rows("orders") == before
    shop.run("--full-refresh", "-s", "other_events")
    shop.run()
    assert shop.rows("orders") == before
    assert shop.others() == [INVALID, TOMBSTONE]


def test_a_lake_of_before_moves_on(shop: Shop) -> None:
    lake = shop.lake
    # One of a time before those in front of it.
    lake.land([change(8, "orders", 5, "f") | {"timestamp_ms": START - 1000}])
    shop.run()
    bronze = lake.marks("silver.other_events")["bronze.raw_payloads"]
    make_it_as_before(shop)
    before = {table: lake.build(table) for table in lake.tables()}
    lake.land([change(10, "orders", 3, "d"), change(11, "others", 1, "x")])
    shop.run()
    # It goes on where it was: bronze as far as change_events had read it, and then the rest.
    chain = lake.look_at("silver.other_events").chain
    moved = next(each for each in chain if MOVED in each.summary)
    assert marks.parsed(moved.summary[f"{marks.PREFIX}bronze.raw_payloads"]) == bronze
    shop.run()
    assert shop.others() == [INVALID, TOMBSTONE, (11, "insert", "others")]
    assert shop.logged("orders") == [0, 4, 6, 8, 9, 10]
    assert shop.gold("orders") == {1: "c", 2: "b", 3: "d", 4: "e", 5: "f"}
    # No log and no gold table was made anew.
    after = {table: lake.build(table) for table in before}
    assert {table for table in before if after[table] != before[table]} == set()
    run_dbt(lake.load(captures=[], as_of=AS_OF), "run-operation", "drop_change_events")
    assert "silver.change_events" not in lake.tables()
    # Nor does a rebuild find the log times twice.
    rows = shop.rows("orders")
    assert [row["_position"]["offset"] for row in rows if is_corrected(row)] == [8]
    shop.run("--full-refresh", "-s", "other_events", "orders_changes")
    assert shop.rows("orders") == rows


def is_corrected(row: dict[str, Any]) -> bool:
    """Whether a row's payload has another log time than its own."""
    return bool(row["_position"]["log_time"] != row["_kafka_timestamp"])


# In CI, test_redrive (test_a_topic_of_several_formats) has messages become readable by an entry
# more.
@pytest.mark.long
def test_a_message_that_was_invalid_as_a_whole_stays_so_as_a_whole(shop: Shop) -> None:
    """Its topic is listed later, and a log has others of it."""
    lake = shop.lake
    lake.land([batch(0, 1, 2)])
    shop.run()
    file = lake.project / "dbt_project.yml"
    listed = f"  topics:\n    - {{topic: {BATCHES}, format: canal_json}}\n"
    file.write_text(file.read_text().replace("  topics:\n", listed, 1))
    add_log(lake.project, BOXES)
    lake.land([batch(1, 3, 4)])
    for _ in range(2):
        shop.run()
        assert shop.logged("boxes") == [1, 1]
        shop.run("--full-refresh", "-s", "boxes_changes")
    assert [each for each in shop.others() if each[1] == "invalid"] == [
        (0, "invalid", None),
        INVALID,
    ]


# It goes on from the one before it. In CI, test_kafka_trouble (test_topics_that_can_not_go_on_keep_
# no_others_from_being_built_or_streamed) and test_redrive have formats that stay.
@pytest.mark.long
def test_messages_keep_the_format_that_they_were_looked_at_by(shop: Shop) -> None:
    """Another producer writes to the topic; a log that is rebuilt reads what both have written."""
    lake = shop.lake
    file = lake.project / "dbt_project.yml"
    file.write_text(file.read_text().replace("format: canal_json", "format: maxwell_json", 1))
    row = {"id": 5, "note": "box 5"}
    value = {
        "database": "shop",
        "table": "boxes",
        "type": "insert",
        "ts": START // 1000,
        "data": row,
    }
    lake.land([Message(BATCHES, 0, 2, START, None, json.dumps(value).encode()).line()])
    for arguments in ((), ("--full-refresh", "-s", "boxes_changes")):
        shop.run(*arguments)
        assert shop.logged("boxes") == [1, 1, 2]


def make_it_as_before(shop: Shop) -> None:
    """Give the lake the tables of the version before, which had every event in change_events."""
    lake = shop.lake
    rows = " union all ".join(
        f"select _position.topic, _position.partition, _position.offset, _position.event_index,"
        f" _kafka_timestamp, _position.log_time, 'debezium_json', _operation, 'shop', 'sales',"
        f" '{name}', null, null, null, _occurred_at, null, null, null, null"
        f" from silver.{name}_changes"
        for name in LOGS
    )
    held = lake.marks("silver.other_events")
    lake.sql(
        "create table silver.change_events using iceberg as"
        f" select * except (added_by) from silver.other_events union all {rows}"
    )
    commits.note(lake.spark, "silver.change_events", marks.noted(held))
    lake.sql("drop table silver.other_events")
    lake.sql("drop table silver.log_times")
    mark = marks.mark_of(lake.look_at("silver.change_events"))
    of_events = marks.noted({"silver.change_events": mark})
    for table in (*(f"silver.{name}_changes" for name in LOGS), "silver.set_less_deletes"):
        commits.note(lake.spark, table, of_events)
