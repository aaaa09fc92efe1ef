"""Logs that go by their source's own order (``order_by``): changes that are sent again, partitions
that lie between each other, and rows that say no place, through dbt and held against the reference.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from support.expected_gold import EPOCH
from support.lakes import Lake, as_of_text
from support.small_messages import row_change
from support.small_project import Log, add_gold, add_log, current_state, history, small_project
from support.streams import DAY, HOUR, START, UNAVAILABLE, Message

AS_OF: Final = EPOCH + timedelta(milliseconds=START + DAY)
# By then, what was remembered of deleted keys is purged.
LATER: Final = AS_OF + timedelta(days=20)
COLUMNS: Final = {"title": "string", "note": "string"}
TICKETS: Final = Log("tickets", "tickets", {"id": "bigint"}, COLUMNS, "shop", "public")
ORDERED: Final = replace(TICKETS, order_by="postgresql")
STAMPS: Final = replace(ORDERED, name="stamps", table="stamps")
# The tickets in the end.
LEFT: Final = {5: "five", 8: "seven", 10: "nine", 12: "twelve"}
SHEETS: Final = Log(
    "sheets",
    "sheets",
    {"id": "bigint"},
    {"title": "string", "version": "int"},
    "shop",
    "public",
    order_by="version",
)


class Moved(NamedTuple):
    """A message of a row that gets another key, with the header that names the other one."""

    message: Message
    header: str
    key: int

    def line(self) -> dict[str, Any]:
        """Its capture line."""
        key = b64encode(json.dumps({"id": self.key}).encode()).decode()
        return {**self.message.line(), "headers": [[f"__debezium.{self.header}", key]]}


class Topic:
    """A topic of two partitions, whose offsets count up."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.offsets = [0, 0]
        self.sent = 0
        self.withheld: list[Message] = []

    def change(
        self, op: str, key: int | None, lsn: int | None, partition: int = 0, **values: Any
    ) -> Message:
        """The next message of a partition; its transaction is behind a commit at a round LSN."""
        source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": self.table}
        if lsn is not None:
            source["sequence"] = json.dumps([str(lsn // 10 * 10), str(lsn)])
        self.sent += 1
        message = row_change(f"debezium.{self.table}", self.sent, op, key, source, **values)
        self.offsets[partition] += 1
        return message._replace(partition=partition, offset=self.offsets[partition])

    def withhold(self, *said: Any, **values: Any) -> list[Message]:
        """Leave the next message of a partition to a later run."""
        self.withheld.append(self.change(*said, **values))
        return []

    def moved(self, old: int, new: int, lsn: int | None, **values: Any) -> list[Moved]:
        """A row that gets another key: the delete and the insert that its one change is."""
        deleted = self.change("d", old, lsn, **values)
        self.sent -= 1
        inserted = self.change("c", new, lsn, **values)
        return [Moved(deleted, "newkey", new), Moved(inserted, "oldkey", old)]


class Ordered:
    """A lake, and what its gold tables have after each of its runs, by the run's name."""

    def __init__(self, folder: Path) -> None:
        self.project = small_project(folder / "project")
        self.lake = Lake(folder, self.project)
        self.rows: dict[str, dict[str, dict[int, str]]] = {}
        self.said: dict[str, str] = {}

    def declare(self, *logs: Log) -> None:
        """Write the models of logs, their gold tables and, but for sheets, their histories."""
        for log in logs:
            add_log(self.project, log)
            add_gold(self.project, current_state(log))
            if log.name != SHEETS.name:
                add_gold(self.project, history(log, f"{log.name}_history"))

    def run(self, name: str, messages: Sequence[Message | Moved], as_of: Any = AS_OF) -> None:
        """Land and build."""
        self.lake.land(each.line() for each in messages)
        statuses = self.lake.dbt("run", as_of=as_of_text(as_of))
        assert set(statuses.values()) == {"success"}
        self.rows[name] = {
            table: {row["id"]: row["title"] for row in self.lake.read(f"gold.{table}")}
            for table in ("tickets", "sheets", "stamps")
            if f"gold.{table}" in self.lake.tables()
        }
        rows = self.lake.read("gold.tickets")
        self.rows[name]["notes"] = {row["id"]: row["note"] for row in rows}
        self.said[name] = self.lake.log_text().rpartition("Running with dbt")[2]

    def in_log(self, offset: int, partition: int = 0) -> str | None:
        """The place of a row of the log in its source's order."""
        (place,) = [
            row["_position"]["source"]
            for row in self.lake.read("silver.tickets_changes")
            if (row["_position"]["partition"], row["_position"]["offset"]) == (partition, offset)
        ]
        return str(place) if place is not None else None


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Ordered:
    """The lake behind its last run."""
    lake = Ordered(tmp_path_factory.mktemp("source-order"))
    of, sheets, stamps = Topic("tickets"), Topic("sheets"), Topic("stamps")
    lake.declare(TICKETS, SHEETS)
    lake.run(
        "by Kafka's log",
        [
            of.change("r", 1, 100, title="old", note="kept"),
            of.change("r", 2, 100, title="two", note="n"),
            of.change("c", 3, 111, title="gone", note="n"),
            of.change("u", 1, 121, title="new", note=UNAVAILABLE),
            of.change("d", 3, 131, title="gone", note="n"),
            of.change("c", 3, 111, title="gone", note="n"),
            sheets.change("c", 1, None, title="a", version=9),
            sheets.change("u", 1, None, title="c", version=11),
            sheets.change("u", 1, None, 1, title="b", version=10),
            sheets.change("c", 2, None, title="x", version=-1),
            sheets.change("d", 2, None, title="x", version=-1),
            sheets.change("u", 2, None, 1, title="y", version=-2),
            sheets.change("c", 3, None, title="x", version=1),
            *sheets.withhold("u", 3, None, title="y", version=2),
            # It says its key alone.
            sheets.change("d", 3, None),
        ],
    )
    lake.declare(ORDERED, STAMPS)
    stamped = [
        stamps.change("c", 1, 111, title="one", note="n"),
        *stamps.withhold("c", 2, 151, title="two", note="n"),
        *stamps.withhold("u", 1, 121, title="one again", note="n"),
        # Without a place: behind whichever of those has landed last before it.
        stamps.change("t", None, None),
        stamps.change("c", 3, 131, 1, title="three", note="n"),
        stamps.change("c", 4, 171, 1, title="four", note="n"),
    ]
    lake.run("declared", [*sheets.withheld, *stamped])
    lake.run(
        "a range again",
        [
            of.change("r", 2, 100, title="two", note="n"),
            of.change("c", 3, 111, title="gone", note="n"),
            # In another partition, an update from before the last one; and a read beside the log.
            of.change("u", 1, 119, 1, title="between", note="late"),
            of.change("r", 1, 120, 1, title="read", note="read"),
            of.change("c", 4, 141, 1, title="four", note="n"),
            of.change("c", 6, 145, title="six", note="n"),
            # Without a place: it is behind the one before it.
            of.change("d", 6, None, title="six", note="n"),
            of.change("d", 4, 151, title="four", note="n"),
            # What their inserts leave out is of the old keys' rows; one says no place.
            of.change("c", 7, 172, title="seven", note="n"),
            *of.moved(7, 8, 182, title="seven", note=UNAVAILABLE),
            of.change("c", 9, 192, title="nine", note="nine"),
            *of.moved(9, 10, None, title="nine", note=UNAVAILABLE),
            of.change("u", 11, 203, 1, title="eleven", note="n"),
            *of.withhold("c", 12, 205, title="twelve", note="n"),
            stamps.withheld[0],
            of.change("d", 11, None, title="eleven", note="n"),
        ],
    )
    lake.run(
        "after deletes",
        [
            of.change("u", 4, 146, 1, title="again", note="n"),
            of.change("c", 6, 144, 1, title="six", note="n"),
            of.change("c", 5, 171, title="five", note="n"),
            # What it emptied, its source had then.
            of.change("t", None, 161, 1),
            of.change("u", 2, 155, title="late two", note="n"),
            # Now the delete of another row, which says no place, is behind this one.
            *of.withheld,
            stamps.withheld[1],
            # Hours after the row had got another key.
            of.change("u", 7, 177, 1, title="seven", note="late seven")._replace(
                timestamp_ms=START + 5 * HOUR
            ),
        ],
    )
    # Nothing is remembered of deleted keys by now: the log says what became of them.
    lake.run(
        "after a purge",
        [
            of.change("u", 4, 146, 1, title="again", note="n"),
            of.change("u", 1, 121, 1, title="new", note="n"),
        ],
        LATER,
    )
    return lake


def test_what_is_sent_again_changes_nothing_that_is_newer(ordered: Ordered) -> None:
    # Where Kafka's log decides, a row that was deleted is back.
    assert ordered.rows["by Kafka's log"]["tickets"] == {1: "new", 2: "two", 3: "gone"}
    assert ordered.rows["declared"]["tickets"] == {1: "new", 2: "two"}
    rows = {1: "new", 2: "two", 8: "seven", 10: "nine", 11: "eleven"}
    assert ordered.rows["a range again"]["tickets"] == rows
    # The last update left the note as it was: by its place, that is what was read before it.
    assert ordered.rows["a range again"]["notes"] == {
        1: "read",
        2: "n",
        8: "n",
        10: "nine",
        11: "n",
    }


def test_values_of_an_old_key_are_those_of_its_place(ordered: Ordered) -> None:
    """Of an event that is sent long after, too, and of one that says no place."""
    notes = {5: "n", 8: "late seven", 10: "nine", 12: "n"}
    assert ordered.rows["after deletes"]["notes"] == notes


def test_another_order_makes_the_log_and_its_tables_anew(ordered: Ordered) -> None:
    said = ordered.said["declared"]
    assert "silver.tickets_changes is rebuilt: its declaration has changed (order by)" in said
    assert "gold.tickets is rebuilt: " in said and "gold.tickets_history is rebuilt: " in said
    assert "is rebuilt" not in ordered.said["a range again"]


def test_what_is_remembered_of_deleted_keys_goes_by_the_same_order(ordered: Ordered) -> None:
    assert ordered.rows["after deletes"]["tickets"] == LEFT
    assert ordered.rows["after a purge"]["tickets"] == LEFT
    assert "all 2 new rows of debezium.tickets/1 lie before" in ordered.said["after a purge"]


def test_a_row_that_says_no_place_comes_behind_the_one_before_it(ordered: Ordered) -> None:
    assert "4 rows of 16 new ones without a place" in ordered.said["a range again"]
    assert ordered.in_log(10) == f"{ordered.in_log(9)} !"
    assert "without a place" not in ordered.said["after deletes"]


def test_the_one_before_it_may_land_later(ordered: Ordered) -> None:
    """Of its partition or, where a column orders, of its key: a row that it had left is gone."""
    assert ordered.rows["declared"]["sheets"] == {1: "c"}
    assert 11 in ordered.rows["a range again"]["tickets"]
    assert 11 not in ordered.rows["after deletes"]["tickets"]


def test_a_truncate_that_says_no_place_is_moved_with_the_row_before_it(ordered: Ordered) -> None:
    """Behind it and before it, and so are the rows that it takes."""
    assert ordered.rows["declared"]["stamps"] == {3: "three", 4: "four"}
    assert ordered.rows["a range again"]["stamps"] == {4: "four"}
    left = {2: "two", 3: "three", 4: "four"}
    assert ordered.rows["after deletes"]["stamps"] == left


def test_a_column_of_the_row_can_order_its_log(ordered: Ordered) -> None:
    assert ordered.rows["by Kafka's log"]["sheets"] == {1: "c"}


def test_gold_and_histories_are_those_of_the_reference(ordered: Ordered) -> None:
    names = ("test_name:equals_refold", "test_name:is_history")
    tests = ordered.lake.dbt("test", "-s", *names, as_of=as_of_text(LATER))
    assert len(tests) == 5 and set(tests.values()) == {"pass"}
    versions = ordered.lake.read("gold.tickets_history")
    assert {row["id"]: row["title"] for row in versions if row["is_current"]} == LEFT
