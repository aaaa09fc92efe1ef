"""What Iceberg's metadata says of a table, and what of a table is new since a mark on it."""

import json
from typing import Any

import pytest
from support.metadata import UUID, commit, metadata, row, table

from dbt_lakehouse.lake.tables import NO_SNAPSHOT, Table, parse
from dbt_lakehouse.runs.marks import (
    MADE,
    REWRITTEN,
    HistoryLost,
    Mark,
    Reading,
    Window,
    mark_of,
    marks_of,
    noted,
    parsed,
    reading,
)


def read_up_to(number: int) -> Mark:
    return Mark(UUID, str(number * 1000), number)


def test_what_metadata_says() -> None:
    found = table(row(1, 2), properties={"a": "b"})
    assert found.uuid == UUID
    assert found.properties == {"a": "b"}
    assert found.comments == {"id": "The key.", "at": "", "tags": ""}
    assert found.instants == {"at"}
    assert [each.name for each in found.chain] == ["2000", "1000"]
    assert (found.snapshot, found.sequence) == ("2000", 2)
    assert found.others == frozenset()


def test_a_table_without_snapshots() -> None:
    old = json.loads(metadata())
    for found in (table(), parse(json.dumps({**old, "current-snapshot-id": -1}))):
        assert (found.snapshot, found.sequence, found.chain) == (NO_SNAPSHOT, 0, ())
        assert found.noted("lakehouse.as_of") is None
    # Of format version 1 and 2, which may leave out what is empty.
    always = ("format-version", "table-uuid", "schemas", "current-schema-id")
    bare = {name: old[name] for name in always}
    assert parse(json.dumps({**bare, "current-snapshot-id": None})) == table()


def test_the_chain_goes_back_as_far_as_it_is_kept() -> None:
    kept = table([commit(3, 2), commit(4, 3)])
    assert [each.snapshot_id for each in kept.chain] == [4000, 3000]
    rolled_back = table([*row(1, 2), commit(3, 1)])
    assert [each.snapshot_id for each in rolled_back.chain] == [3000, 1000]
    assert rolled_back.others == {2000}


def test_the_newest_commit_that_notes_a_name_counts() -> None:
    found = table(
        [commit(1, notes={"a": "old", "b": "only"}), commit(2, 1, notes={"a": "new"}), commit(3, 2)]
    )
    assert [found.noted(name) for name in "abc"] == ["new", "only", None]


@pytest.mark.parametrize(
    ("summary", "appends"),
    [
        ({"operation": "append", "added-records": "3", "added-data-files": "1"}, True),
        ({"operation": "append", "added-records": "0"}, False),
        # Of a writer that does not count rows.
        ({"operation": "append", "added-data-files": "1"}, True),
        ({"operation": "append"}, False),
        ({"operation": "replace", "added-records": "3"}, False),
        ({"operation": "overwrite", "added-records": "3"}, False),
        ({"operation": "delete", "deleted-records": "3"}, False),
        ({}, False),
    ],
)
def test_which_commits_append_rows(summary: dict[str, str], appends: bool) -> None:
    (found,) = table([{**commit(1), "summary": summary}]).chain
    assert found.appends is appends


def test_marks_are_written_and_read() -> None:
    marks = {"bronze.raw_payloads": read_up_to(2), "silver.deleted_keys": mark_of(table())}
    notes = noted(marks)
    assert notes == {
        "lakehouse.read.bronze.raw_payloads": f"{UUID}|2000|2",
        "lakehouse.read.silver.deleted_keys": f"{UUID}|none|0",
    }
    assert [parsed(text) for text in notes.values()] == list(marks.values())
    assert marks_of(table([commit(1, notes=notes), commit(2, 1, operation="replace")])) == marks


def test_the_newest_commit_with_marks_has_all_of_them() -> None:
    """One of an upstream that is no longer read is none."""
    old, new = noted({"a.b": read_up_to(1), "c.d": read_up_to(1)}), noted({"a.b": read_up_to(2)})
    assert marks_of(table([commit(1, notes=old), commit(2, 1, notes=new)])) == {
        "a.b": read_up_to(2)
    }
    assert marks_of(table(row(1))) == {}


NEWS = commit(3, 2)
# By what it is of an upstream that was read up to its second commit.
CASES: dict[str, tuple[list[dict[str, Any]], Window]] = {
    "nothing new": (row(1, 2), Window.NOTHING),
    "appended": ([*row(1, 2), NEWS], Window.SINCE_SNAPSHOT),
    "compacted": ([*row(1, 2), commit(3, 2, "replace", rows=5)], Window.NOTHING),
    "rows deleted": ([*row(1, 2), commit(3, 2, "delete", rows=0)], Window.NOTHING),
    "rows updated": ([*row(1, 2), commit(3, 2, "overwrite", rows=5)], Window.NOTHING),
    "only notes": (
        [*row(1, 2), commit(3, 2, rows=None, notes={"lakehouse.as_of": "now"})],
        Window.NOTHING,
    ),
    "appended, then compacted": (
        [*row(1, 2), NEWS, commit(4, 3, "replace", rows=5)],
        Window.SINCE_SNAPSHOT,
    ),
    "compacted, then appended": (
        [*row(1, 2), commit(3, 2, "replace", rows=5), commit(4, 3)],
        Window.SINCE_SNAPSHOT,
    ),
    "its snapshot has expired": ([NEWS], Window.SINCE_SEQUENCE),
    "those behind it, too": ([commit(5, 4), commit(6, 5)], Window.SINCE_SEQUENCE),
}


def test_what_was_appended_before_a_column_was_written_anew_is_told_by_its_rows() -> None:
    """Its files have the column under another number, and would be read without it."""
    rewritten = commit(4, 3, "overwrite", rows=9, notes={REWRITTEN: "amount"})
    then_appended = [{**rewritten, "parent-snapshot-id": 2000}, commit(5, 4)]
    for behind in ([NEWS, rewritten], then_appended):
        snapshots = [*row(1, 2), *behind]
        later = [{**each, "first-row-id": 10 * each["sequence-number"]} for each in snapshots]
        upstream = table(later)
        first = later[2]["first-row-id"]
        found = reading(read_up_to(2), upstream)
        assert found == Reading(Window.SINCE_ROW, mark_of(upstream), read_up_to(2), first)
        until = upstream.chain[0].name
        assert found.sql("a.b") == (
            f"(select * from a.b version as of {until} where _row_id >= {first})"
        )
    # A table of an earlier format numbers no rows.
    unnumbered = [{**each, "first-row-id": None} for each in [*row(1, 2), NEWS, rewritten]]
    assert reading(read_up_to(2), table(unnumbered)).window is Window.SINCE_SEQUENCE
    # Rows that were there before are none that are new.
    assert reading(read_up_to(3), table([*row(1, 2), NEWS, rewritten])).window is Window.NOTHING


@pytest.mark.parametrize(("snapshots", "window"), CASES.values(), ids=CASES.keys())
def test_what_is_new(snapshots: list[dict[str, Any]], window: Window) -> None:
    upstream = table(snapshots)
    found = reading(read_up_to(2), upstream)
    assert found == Reading(window, mark_of(upstream), read_up_to(2))
    assert found.has_news is (window is not Window.NOTHING)


def test_all_is_new_that_was_never_read() -> None:
    for upstream in (table(), table(row(1, 2))):
        assert reading(None, upstream) == Reading(Window.WHOLE, mark_of(upstream))


def test_a_mark_on_an_empty_table() -> None:
    mark = mark_of(table())
    assert reading(mark, table()) == Reading(Window.NOTHING, mark)
    assert reading(mark, table(row(1))) == Reading(Window.WHOLE, read_up_to(1))
    # Its first snapshots may have expired: all of it is new nevertheless.
    assert reading(mark, table([commit(3, 2)])).window is Window.WHOLE


@pytest.mark.parametrize(
    ("upstream", "message"),
    [
        (table(row(1, 2), uuid="another"), "was dropped and created again"),
        (table(uuid="another"), "was dropped and created again"),
        (table([*row(1, 2), commit(3)]), "was replaced"),
        # Replaced, and the snapshots before that have expired.
        (table([commit(3)]), "was replaced"),
        (table([commit(3), commit(4, 3)]), "was replaced"),
        (table(), "was replaced"),
        # And those that replaced it have expired, too: only the property tells.
        (table([commit(4, 3)], properties={MADE: "again"}), "was replaced"),
        (table(row(1, 2), current=1), "was rolled back"),
        (table([*row(1, 2), commit(3, 1)]), "was rolled back"),
        # Rolled back, and the snapshot that was read has expired.
        (table([commit(1, 0)]), "was rolled back"),
        # Rolled back and continued, before the oldest that is kept.
        (table([commit(1, 0), commit(3, 1)]), "was rolled back"),
    ],
)
def test_a_mark_that_is_no_place_in_the_history(upstream: Table, message: str) -> None:
    with pytest.raises(HistoryLost) as caught:
        reading(read_up_to(2), upstream)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("found", "sql"),
    [
        (Reading(Window.NOTHING, read_up_to(2), read_up_to(2)), "(select * from a.b where false)"),
        (Reading(Window.WHOLE, mark_of(table())), "(select * from a.b where false)"),
        (Reading(Window.WHOLE, read_up_to(2)), "(select * from a.b version as of 2000)"),
        (
            Reading(Window.SINCE_SNAPSHOT, read_up_to(3), read_up_to(2)),
            "(select * from a.b with ('start-snapshot-id' = '2000', 'end-snapshot-id' = '3000'))",
        ),
        (
            Reading(Window.SINCE_SEQUENCE, read_up_to(5), read_up_to(2)),
            "(select * from a.b version as of 5000 where _last_updated_sequence_number > 2)",
        ),
    ],
)
def test_what_is_read(found: Reading, sql: str) -> None:
    assert found.sql("a.b") == sql


def test_a_table_that_was_made_anew_is_another() -> None:
    """And goes on from there: what has read it since has read this one."""
    upstream = table([commit(4, 3), commit(5, 4)], properties={MADE: "again"})
    mark = Mark(f"{UUID}+again", "4000", 4)
    assert reading(mark, upstream).window is Window.SINCE_SNAPSHOT
    assert parsed(str(mark)) == mark
    assert mark_of(upstream).identity == mark.identity
