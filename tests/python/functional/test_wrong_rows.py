"""Wrong rows that were seen from outside, each through dbt on tables of its own.

One lake serves all: what a run is to show for one table, it shows for the others too. Each fixture
is one more run; the tests stand in the order of the runs.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from dbt_common.exceptions import DbtBaseException
from support.expected_gold import EPOCH
from support.lakes import Lake, Outcome, Rows, as_of_text
from support.small_messages import aerospike_write, digest_text, row_change, set_less_delete
from support.small_project import (
    Gold,
    Log,
    add_gold,
    add_log,
    current_state,
    history,
    remove_model,
    small_project,
)
from support.streams import DAY, HOUR, MINUTE, START, UNAVAILABLE, Message

Named = Mapping[str, Any]
POSTGRESQL: Final[Named] = {"connector": "postgresql", "db": "shop", "schema": "app"}
VITESS: Final[Named] = {"connector": "vitess", "db": "", "shard": "-80"}
USERS: Final = "aerospike.users.all"
ID: Final = {"id": "bigint"}
TITLE: Final = {"title": "string"}

# A column of the log that gold declares only later, and one that the log does.
NOTES: Final = Log("notes", "notes", ID, {**TITLE, "note": "string"}, database="shop", schema="app")
NOTES_LATER: Final = replace(NOTES, columns={**NOTES.columns, "extra": "string"})
# Source tables of one shape, with a key and without.
SHARDS: Final = Log(
    "shards", ["shard_a", "shard_b", "shard_c"], ID, {**TITLE, "note": "string"}, "shop", "app"
)
LINES: Final = replace(SHARDS, name="lines", key={}, columns=TITLE)
# Deletes of its records come without a set, and find it lagging.
PROFILES: Final = Log(
    "profiles", "profiles", {}, {"display_name": "string"}, schema="users", is_aerospike=True
)
# Its model is gone from the project when a record is deleted, and comes back.
BADGES: Final = replace(PROFILES, name="badges", table="badges")
# Changed bins only, which its log alone declares.
GAUGES: Final = replace(
    PROFILES,
    name="gauges",
    table="gauges",
    columns={"level": "bigint", "label": "string"},
    partial=True,
)
# Debezium, ordered by source time, which its log alone declares too.
CLOCKS: Final = replace(
    NOTES, name="clocks", table="clocks", columns=TITLE, order_by_source_time=True
)
# The same with columns that changed only.
DIALS: Final = replace(CLOCKS, name="dials", table="dials", partial=True)
# One name in several databases and schemas, all in one topic.
CUSTOMERS: Final = Log("bare", "customers", ID, {})
PLACES: Final = (
    CUSTOMERS,
    replace(CUSTOMERS, name="keyspace", schema="commerce"),
    replace(CUSTOMERS, name="database", database="crm"),
    replace(CUSTOMERS, name="schema", database="crm", schema="public"),
    replace(CUSTOMERS, name="anywhere", database="*", schema="*"),
    replace(CUSTOMERS, name="any_schema", database="crm", schema="*"),
)
NOT_AGAIN: Final = [place.model for place in PLACES]

# dbt's own kind of table, as its users write them.
RUN_LOG: Final = """
{{ config(materialized="incremental", incremental_strategy="append") }}
select '{{ var("as_of") }}' as as_of, count(*) as notes from {{ ref("notes") }}
"""
LAST_SEEN: Final = """
{{ config(materialized="incremental", unique_key="id") }}
select 1 as id, '{{ var("as_of") }}' as seen
{% if not is_incremental() %}union all select 2, '{{ var("as_of") }}'{% endif %}
"""
OWN: Final = {"run_log": RUN_LOG, "last_seen": LAST_SEEN}

LATER: Final = START + 8 * DAY
LATER_MINUTE: Final = 8 * DAY // MINUTE
FIRST, SECOND, THIRD, LAST = (
    as_of_text(EPOCH + timedelta(milliseconds=moment))
    for moment in (START + HOUR, START + 2 * HOUR, LATER + HOUR, LATER + 2 * HOUR)
)


def note(offset: int, op: str, key: int | None = None, **values: Any) -> Message:
    return row_change("debezium.notes", offset, op, key, {**POSTGRESQL, "table": "notes"}, **values)


def shard(offset: int, table: str, op: str, key: int | None = None, **values: Any) -> Message:
    """A change of a shard; those without a key have the same rows."""
    return row_change("debezium.shards", offset, op, key, {**POSTGRESQL, "table": table}, **values)


def sent_at(minute: int, partition: int, message: Message) -> Message:
    """In another partition, sent at another minute than its offset's."""
    return message._replace(partition=partition, timestamp_ms=START + minute * MINUTE)


def clocks(
    offset: int, minute: int, op: str, key: int | None = None, partition: int = 0, **values: Any
) -> list[Message]:
    """A change of a clock and one of a dial, made at another minute than they were sent."""
    return [
        row_change(
            f"debezium.{table}", minute, op, key, {**POSTGRESQL, "table": table}, **values
        )._replace(offset=offset, partition=partition, timestamp_ms=START + offset * MINUTE)
        for table in ("clocks", "dials")
    ]


def customer(offset: int, number: int, **source: Any) -> Message:
    return row_change("debezium.all", offset, "c", number, {"connector": "any", **source})


def other(offset: int, value: str) -> Message:
    """A message that is no change of a row."""
    return Message("debezium.all", 0, offset, START, None, value.encode())


EVERYTHING: Final = [
    customer(0, 1, **VITESS, keyspace="commerce", table="customers"),
    customer(1, 2, **VITESS, keyspace="billing", table="customers"),
    customer(2, 3, db="crm", table="customers"),
    customer(3, 4, db="crm", schema="public", table="customers"),
    customer(4, 5, table="customers"),
    customer(5, 6, db="crm", table="customers_old"),
    customer(6, 7),
    other(7, '{"status": "BEGIN", "id": "571", "event_count": null, "ts_ms": 1790812800000}'),
    other(
        8,
        '{"source": {"connector": "mysql", "db": "crm", "table": "customers"}, "databaseName":'
        ' "crm", "ddl": "create table customers (id bigint)", "tableChanges": []}',
    ),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A project with these tables, and a lake for it."""
    folder = tmp_path_factory.mktemp("wrong-rows")
    project = small_project(folder / "project")
    for log in (NOTES, PROFILES, BADGES, GAUGES, CLOCKS, DIALS, *PLACES):
        add_log(project, log)
    add_gold(project, current_state(NOTES, columns=["title"]))
    for log in (PROFILES, BADGES, GAUGES, CLOCKS, DIALS):
        add_gold(project, current_state(log))
    add_gold(project, history(NOTES, "notes_history"))
    own = project / "models" / "own"
    own.mkdir()
    for name, text in OWN.items():
        (own / f"{name}.sql").write_text(text)
    return Lake(folder, project)


def ids(rows: Rows) -> list[int]:
    return sorted(row["id"] for row in rows)


def titles_of(lake: Lake, table: str) -> dict[int, str]:
    return {row["id"]: row["title"] for row in lake.read(f"gold.{table}")}


def succeeded(statuses: Mapping[str, str], *names: str) -> bool:
    """Whether these nodes have run without error."""
    return [statuses.get(name) for name in names] == ["success"] * len(names)


# --- the first run --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first(lake: Lake) -> dict[str, str]:
    """All tables, from what has landed before any run."""
    messages = [
        note(0, "c", 1, title="one", note="gone", extra="gone"),
        note(1, "t"),
        note(2, "c", 2, title="two", note="there", extra="more"),
        aerospike_write(USERS, 0, "badges", 5, display_name="x"),
        *(aerospike_write(USERS, n, "profiles", n, display_name="x") for n in (1, 2)),
        *(aerospike_write(USERS, n, "gauges", n, level=n, label="set once") for n in (3, 4)),
        *clocks(0, 30, "u", 1, title="newest"),
        *clocks(40, 20, "u", 1, title="late"),
        *clocks(50, 20, "c", 2, title="older than the truncate"),
        *clocks(51, 45, "c", 3, title="newer than the truncate"),
        *EVERYTHING,
    ]
    lake.land(message.line() for message in messages)
    return lake.dbt("run", as_of=FIRST)


def test_all_tables_are_built(first: dict[str, str]) -> None:
    assert set(first.values()) == {"success"}, first


@pytest.mark.parametrize(
    ("place", "expected"),
    [*zip(PLACES, ([5], [1], [3], [4], [1, 2, 3, 4, 5], [3, 4]), strict=True)],
    ids=[place.name for place in PLACES],
)
def test_what_a_log_does_not_name_is_null_and_any_must_be_asked_for(
    lake: Lake, first: dict[str, str], place: Log, expected: list[int]
) -> None:
    assert ids(lake.read(f"silver.{place.model}")) == expected


def test_a_log_of_one_table_does_not_say_where_its_changes_are_from(
    lake: Lake, first: dict[str, str]
) -> None:
    assert not any("_source" in row for row in lake.read(f"silver.{NOTES.model}"))


def test_source_time_counts_where_the_log_says_so(lake: Lake, first: dict[str, str]) -> None:
    titles = {1: "newest", 2: "older than the truncate", 3: "newer than the truncate"}
    for table in ("clocks", "dials"):
        assert titles_of(lake, table) == titles


# --- a column is declared later, and one gold table lags ------------------------------------------


@pytest.fixture(scope="module")
def second(lake: Lake, first: dict[str, str]) -> dict[str, str]:
    """Everything but the profiles and the badges, of each of which a record is deleted."""
    remove_model(lake.project, "badges")
    add_log(lake.project, NOTES_LATER)
    add_gold(lake.project, current_state(NOTES_LATER))
    add_gold(lake.project, history(NOTES_LATER, "notes_history"))
    messages = [
        aerospike_write(USERS, 5, "gauges", 3, level=33),
        set_less_delete(USERS, 6, 4),
        set_less_delete(USERS, 7, 1),
        set_less_delete(USERS, 8, 5),
        # Late: it lies before rows of which one is older by its time.
        *clocks(45, 44, "t", partition=1),
        *clocks(60, 60, "d", 5, title="gone"),
    ]
    lake.land(message.line() for message in messages)
    return lake.dbt("run", "--exclude", "profiles", *NOT_AGAIN, as_of=SECOND)


NOTE: Final = ("id", "title", "note", "extra")


def test_a_column_declared_later_brings_no_truncated_row_back(
    lake: Lake, second: dict[str, str]
) -> None:
    assert succeeded(second, "notes", "notes_history")
    rows = [tuple(row[name] for name in NOTE) for row in lake.read("gold.notes")]
    assert rows == [(2, "two", "there", "more")]
    current = [row for row in lake.read("gold.notes_history") if row["is_current"]]
    assert [tuple(row[name] for name in NOTE) for row in current] == rows


def test_what_the_log_declares_holds_for_gold(lake: Lake, second: dict[str, str]) -> None:
    """A bin that is not shipped keeps its value, and a delete without a set finds its record."""
    gauges = [(row["_digest"], row["level"], row["label"]) for row in lake.read("gold.gauges")]
    assert gauges == [(digest_text(3), 33, "set once")]


@pytest.mark.parametrize("table", ["clocks", "dials"])
def test_a_late_truncate_takes_what_is_older_by_its_time(
    lake: Lake, second: dict[str, str], table: str
) -> None:
    """Wherever that lies in the log, as if the truncate had landed first."""
    assert titles_of(lake, table) == {3: "newer than the truncate"}


NOTES_GOLD: Final = ("gold.notes", "gold.notes_history")


class Third(NamedTuple):
    """The third run, and what the notes were before it."""

    statuses: dict[str, str]
    notes_before: list[str]


@pytest.fixture(scope="module")
def third(lake: Lake, second: dict[str, str]) -> Third:
    """Eight days later, still without the profiles; their other record is deleted too."""
    before = [lake.current_snapshot(table) for table in NOTES_GOLD]
    deleted = set_less_delete(USERS, LATER_MINUTE, 2)
    # A clock that is days ahead says no time, so what it writes is not late.
    ahead = clocks(LATER_MINUTE, LATER_MINUTE + 2 * DAY // MINUTE, "c", 5, title="back")
    lake.land(message.line() for message in [deleted, *ahead])
    statuses = lake.dbt("run", "--exclude", "profiles", *NOT_AGAIN, as_of=THIRD)
    return Third(statuses, before)


def test_a_column_is_filled_once(lake: Lake, third: Third) -> None:
    assert succeeded(third.statuses, "notes", "notes_history")
    assert [lake.current_snapshot(table) for table in NOTES_GOLD] == third.notes_before


# --- what lagged comes after ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def last(lake: Lake, third: Third) -> dict[str, str]:
    """The profiles too, when nothing is to be remembered any longer."""
    late = clocks(LATER_MINUTE + 1, 59, "u", 5, title="from before the delete")
    lake.land(message.line() for message in late)
    names = ("profiles", "deleted_keys", *OWN, "+clocks", "+dials")
    return lake.dbt("run", "-s", *names, "+notes", as_of=LAST, tombstone_retention_days=0)


def test_deletes_are_remembered_until_every_table_has_read_them(
    lake: Lake, last: dict[str, str]
) -> None:
    """One of them for longer than the retention, the other with none."""
    assert succeeded(last, "profiles")
    assert [row["_digest"] for row in lake.read("gold.profiles")] == []


def test_deletes_are_forgotten_once_every_table_has_read_them(
    lake: Lake, last: dict[str, str]
) -> None:
    """Those too that had no new events since; and one whose model was gone is built anew."""
    forgotten = lake.dbt("run", "-s", "deleted_keys", as_of=LAST, tombstone_retention_days=0)
    assert succeeded(forgotten, "deleted_keys")
    scopes = {row["scope"] for row in lake.read("silver.deleted_keys")}
    assert "aerospike:users" not in scopes
    assert len(lake.read("gold.badges")) == 1
    add_gold(lake.project, current_state(BADGES))
    assert succeeded(lake.dbt("run", "-s", "badges", as_of=LAST), "badges")
    assert lake.read("gold.badges") == []
    assert lake.broken_sums() == []


@pytest.mark.parametrize("table", ["clocks", "dials"])
def test_a_change_from_before_a_forgotten_delete_is_late(
    lake: Lake, last: dict[str, str], table: str
) -> None:
    """Though all that is known of its row is a write without a time."""
    assert titles_of(lake, table) == {3: "newer than the truncate", 5: "back"}


def test_an_ordinary_incremental_model_appends(lake: Lake, last: dict[str, str]) -> None:
    assert succeeded(last, "run_log")
    runs = sorted((row["as_of"], row["notes"]) for row in lake.read("gold.run_log"))
    assert runs == [(as_of, 1) for as_of in (FIRST, SECOND, THIRD, LAST)]


def test_an_ordinary_incremental_model_with_a_key_merges(lake: Lake, last: dict[str, str]) -> None:
    assert succeeded(last, "last_seen")
    seen = {row["id"]: row["seen"] for row in lake.read("gold.last_seen")}
    assert seen == {1: LAST, 2: FIRST}


# --- declarations that can't be meant -------------------------------------------------------------


def stopped(lake: Lake, *arguments: str) -> dict[str, Outcome]:
    """What became of the nodes of a dbt command that nothing has come of."""
    before = lake.current_snapshots(lake.tables())
    outcomes = lake.outcomes(*arguments, as_of=LAST)
    assert lake.current_snapshots(lake.tables()) == before
    return outcomes


def test_sql_behind_the_call_is_refused(lake: Lake, last: dict[str, str]) -> None:
    """``dbt show`` would obey it, and the runs would not."""
    condition = "where title <> 'two'\n"
    models = (current_state(NOTES, "filtered"), history(NOTES, "filtered_history"))
    try:
        for gold in models:
            add_gold(lake.project, replace(gold, text=gold.text + condition, data_tests=[]))
            # A command that only compiles ends with the first error.
            with pytest.raises(DbtBaseException, match=gold.name):
                stopped(lake, "compile", "-s", gold.name)
        outcomes = stopped(lake, "run", "-s", "filtered", "filtered_history")
        assert {name: outcome.status for name, outcome in outcomes.items()} == {
            "filtered": "error",
            "filtered_history": "error",
        }
        for name, outcome in outcomes.items():
            assert name in outcome.message
            assert "where=" in outcome.message and "on top" in outcome.message
    finally:
        for gold in models:
            remove_model(lake.project, gold.name)


# In CI, test_composite_keys (test_a_contract_is_held_before_silver_is_made_anew) breaks a
# contract.
@pytest.mark.long
def test_a_contract_is_held_at_each_run(lake: Lake, last: dict[str, str]) -> None:
    """With news and without, before anything is written."""
    declared: Gold = current_state(NOTES_LATER)
    try:
        add_gold(lake.project, replace(declared, types={**declared.types, "title": "int"}))
        lake.land([note(3, "c", 3, title="three", note="new").line()])
        assert lake.dbt("run", "-s", f"+{NOTES.model}", as_of=LAST)[NOTES.model] == "success"
        for _ in range(2):
            (outcome,) = stopped(lake, "run", "-s", "notes").values()
            assert outcome.status == "error"
            assert "title" in outcome.message and "contract" in outcome.message
    finally:
        add_gold(lake.project, declared)
    assert succeeded(lake.dbt("run", "-s", "notes", as_of=LAST), "notes")
    assert ids(lake.read("gold.notes")) == [2, 3]


@pytest.mark.parametrize(("name", "value"), [("key", "['id']"), ("partial", "true")])
def test_what_the_log_declares_is_not_declared_again(
    lake: Lake, last: dict[str, str], name: str, value: str
) -> None:
    """Two declarations of one thing could differ."""
    gold = current_state(NOTES, "again")
    call = gold.text.replace(") }}", f", {name}={value}) }}}}")
    assert call != gold.text
    try:
        add_gold(lake.project, replace(gold, text=call, data_tests=[]))
        assert name in refusal(lake, "compile", "-s", "again")
    finally:
        remove_model(lake.project, "again")


def test_a_run_that_was_held_up_leaves_what_another_has_written(
    lake: Lake, last: dict[str, str]
) -> None:
    """The other one is the hook, which comes behind the moment at which a model looks at its own
    table.
    """
    models: list[Gold] = [current_state(NOTES_LATER), history(NOTES_LATER, "notes_history")]
    names = [gold.name for gold in models]
    hook = "{{ config(pre_hook=\"update {{ this }} set title = 'theirs'\") }}\n"
    lake.land([note(4, "u", 3, title="later", note="new").line()])
    assert lake.dbt("run", "-s", f"+{NOTES.model}", as_of=LAST)[NOTES.model] == "success"
    try:
        for gold in models:
            add_gold(lake.project, replace(gold, text=hook + gold.text))
        outcomes = lake.outcomes("run", "-s", *names, as_of=LAST)
        assert outcomes.keys() == {*names}
        for outcome in outcomes.values():
            assert outcome.status == "error"
            assert "has got rows of another command" in outcome.message
        for name in names:
            assert {row["title"] for row in lake.read(f"gold.{name}")} == {"theirs"}
    finally:
        for gold in models:
            add_gold(lake.project, gold)
    assert succeeded(lake.dbt("run", "-s", *names, as_of=LAST), *names)
    rows = {row["id"]: row["title"] for row in lake.read("gold.notes")}
    assert rows == {2: "theirs", 3: "later"}


def refusal(lake: Lake, *arguments: str) -> str:
    """Why a dbt command of one node does nothing, be it refused while dbt parses or later."""
    try:
        (outcome,) = stopped(lake, *arguments).values()
    except DbtBaseException as error:
        return str(error)
    assert outcome.status == "error", outcome
    return outcome.message


# --- several source tables in one -----------------------------------------------------------------


def source(table: str) -> dict[str, str]:
    """Where a row of the shards is from."""
    return {"database": "shop", "schema": "app", "table": table}


def of_shards(rows: Rows) -> dict[int, tuple[str, str | None, dict[str, str]]]:
    return {row["id"]: (row["title"], row["note"], row["_source"]) for row in rows}


def of_lines(lake: Lake) -> list[tuple[str, str]]:
    lines = lake.read("gold.lines")
    return sorted((row["title"], row["_source"]["table"]) for row in lines)


FIRST_SHARDS: Final = [
    shard(0, "shard_a", "c", 1, title="row 1", note="a"),
    shard(1, "shard_b", "c", 2, title="row 2", note="b"),
    # The same key in both: the newest event says where the row is from.
    shard(2, "shard_a", "c", 3, title="a", note="kept"),
    shard(3, "shard_b", "c", 3, title="b", note="kept"),
    shard(4, "shard_b", "c", 4, title="b", note="gone"),
    shard(5, "shard_a", "c", 4, title="a", note="gone"),
    shard(6, "shard_a", "c", 5, title="gone", note="gone"),
    shard(7, "shard_a", "t"),
    shard(8, "shard_a", "u", 5, title="new", note=UNAVAILABLE),
    # Of the third table by the time of that truncate, and what it keeps is of the first.
    sent_at(0, 1, shard(20, "shard_a", "c", 8, title="a", note="kept until then")),
    sent_at(2, 1, shard(22, "shard_c", "u", 8, title="c", note=UNAVAILABLE)),
]
SECOND_SHARDS: Final = [
    shard(9, "shard_a", "c", 6, title="row 6", note="a"),
    # New to gold, as the truncate is that takes it away.
    shard(10, "shard_b", "c", 7, title="gone", note="gone"),
    shard(11, "shard_b", "t"),
    # Late: from between the two events of key 8, before one that is known.
    sent_at(1, 2, shard(21, "shard_a", "t")),
]
SHARD_ROWS: Final = {
    2: ("row 2", "b", source("shard_b")),
    3: ("b", "kept", source("shard_b")),
    5: ("new", None, source("shard_a")),
    8: ("c", "kept until then", source("shard_c")),
}


# In CI, test_shards has each of these cases as an example, in a table with a key, in one without
# and in a history, and random ones against the reference.
@pytest.mark.long
def test_a_truncate_deletes_only_what_came_from_its_table(tmp_path: Path) -> None:
    project = small_project(tmp_path / "project")
    for log in (SHARDS, LINES):
        add_log(project, log)
        add_gold(project, current_state(log))
    add_gold(project, history(SHARDS, "shards_history"))
    lake = Lake(tmp_path, project)
    lake.land(message.line() for message in FIRST_SHARDS)
    assert set(lake.dbt("run", as_of=FIRST).values()) == {"success"}
    # A log of several tables says where each change is from.
    changes = lake.read(f"silver.{SHARDS.model}")
    tables = {row["_position"]["offset"]: row["_source"]["table"] for row in changes}
    of_shard_a = dict.fromkeys((0, 2, 5, 6, 7, 8, 20), "shard_a")
    assert tables == of_shard_a | dict.fromkeys((1, 3, 4), "shard_b") | {22: "shard_c"}
    assert all(row["_source"] == source(row["_source"]["table"]) for row in changes)
    assert of_shards(lake.read("gold.shards")) == SHARD_ROWS
    current = [row for row in lake.read("gold.shards_history") if row["is_current"]]
    assert of_shards(current) == SHARD_ROWS
    # Without a key, each row is its own: those of the other table are all there.
    assert of_lines(lake) == [
        ("b", "shard_b"),
        ("b", "shard_b"),
        ("c", "shard_c"),
        ("new", "shard_a"),
        ("row 2", "shard_b"),
    ]
    lake.land(message.line() for message in SECOND_SHARDS)
    assert set(lake.dbt("run", as_of=SECOND).values()) == {"success"}
    # A later one takes its own rows too, and a late one what was left of them in a row of another.
    expected = {5: SHARD_ROWS[5], 6: ("row 6", "a", source("shard_a"))}
    expected[8] = ("c", None, source("shard_c"))
    assert of_shards(lake.read("gold.shards")) == expected
    current = [row for row in lake.read("gold.shards_history") if row["is_current"]]
    assert of_shards(current) == expected
    assert of_lines(lake) == [("c", "shard_c"), ("new", "shard_a"), ("row 6", "shard_a")]
    assert lake.broken_sums() == []
