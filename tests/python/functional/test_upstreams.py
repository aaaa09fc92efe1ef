"""Tables that their upstreams have changed beneath: exchanged, trimmed, rolled back, dropped,
deferred to another target; and what lands beside a run. Each through dbt on tables of its own.

One lake serves all. Each fixture is one more run; the tests stand in the order of the runs.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml
from support.lakes import Lake, Outcome
from support.small_messages import aerospike_write, row_change
from support.small_project import (
    Log,
    add_gold,
    add_log,
    add_target,
    current_state,
    history,
    remove_model,
    small_project,
)
from support.streams import UNAVAILABLE, Message

from dbt_lakehouse.lake.bronze import create_table

AS_OF: Final = "2026-10-01 12:00:00"
USERS: Final = "aerospike.users.all"
PLACE: Final = ("topic", "partition", "offset")
DECODED: Final = "every_payload_is_accounted_for"
# A model's hook: what a landing beside the run does, if it is told to.
LANDING: Final = """
{%- if var('lands_beside', false) -%}
insert into bronze.raw_payloads
select topic, partition, offset + 1000, * except (topic, partition, offset)
from bronze.raw_payloads
{%- endif -%}
"""
COLUMNS: Final = {"title": "string", "note": "string"}


def log_of(name: str) -> Log:
    """A source table with the name of its gold table."""
    return Log(name, name, {"id": "bigint"}, COLUMNS, database="shop", schema="app")


# Two logs of equal shape, and a gold table of the one, then of the other.
ONE, OTHER = log_of("one"), log_of("other")
PICKED: Final = "picked"
# Of these, the logs don't keep all that gold holds.
TRIMMED: Final = log_of("trimmed")
PROFILES: Final = Log(
    "profiles", "profiles", {}, {"display_name": "string"}, schema="users", is_aerospike=True
)
# Nor these: the value of a column, one of two equal rows, a deleted key.
VALUES, DELETED = log_of("values"), log_of("deleted")
COPIES: Final = Log("copies", "copies", {}, {"title": "string"}, database="shop", schema="app")
LOSING: Final = (VALUES, DELETED, COPIES)
# Of this, the log is rolled back to before a delete, and not built again.
REVIVED: Final = log_of("revived")
# Of these, the log is rolled back, or gold is.
ROLLED_LOG, ROLLED_GOLD = log_of("rolled_log"), log_of("rolled_gold")
ROLLED: Final = (ROLLED_LOG, ROLLED_GOLD)


def change(table: str, offset: int, op: str, key: int, title: str, note: str = "a") -> Message:
    source = {"connector": "postgresql", "db": "shop", "schema": "app", "table": table}
    return row_change(f"debezium.{table}", offset, op, key, source, title=title, note=note)


class Upstreams(NamedTuple):
    """The lake, all that has landed in it, and its snapshots after the first run."""

    lake: Lake
    landed: list[Message]
    first: dict[str, str]

    def land(self, *messages: Message) -> None:
        self.lake.land(message.line() for message in messages)
        self.landed.extend(messages)

    def run(self, *arguments: str) -> dict[str, Outcome]:
        return self.lake.outcomes("run", *arguments, as_of=AS_OF)

    def titles(self, table: str) -> dict[int, str]:
        """The titles of a table with the key ``id``."""
        return {row["id"]: row["title"] for row in self.lake.read(table)}

    def snapshots(self, *but: str) -> dict[str, str]:
        """The current snapshot of each gold table but some."""
        return {
            table: self.lake.current_snapshot(table)
            for table in self.lake.tables()
            if table.startswith("gold.") and table not in but
        }


def current_snapshots(lake: Lake) -> dict[str, str]:
    """The current snapshot of each table of the first target."""
    return lake.current_snapshots(lake.tables())


def succeeded(outcomes: dict[str, Outcome], *names: str) -> None:
    """Those nodes, or all, have run without error."""
    for name in names or outcomes:
        assert outcomes[name].status in ("success", "pass"), (name, outcomes[name])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Upstreams:
    """All tables, after two runs."""
    folder = tmp_path_factory.mktemp("upstreams")
    project = small_project(folder / "project", tests=[DECODED])
    _add_target(project)
    for log in (ONE, OTHER, TRIMMED, PROFILES, *LOSING, REVIVED, *ROLLED):
        add_log(project, log)
    add_gold(project, current_state(ONE, PICKED))
    for log in (TRIMMED, PROFILES, *LOSING, REVIVED, *ROLLED):
        add_gold(project, current_state(log))
    for log in (TRIMMED, REVIVED):
        add_gold(project, replace(history(log, f"{log.name}_history"), data_tests=[]))
    upstreams = Upstreams(Lake(folder, project), [], {})
    upstreams.land(
        *(change("one", n, "c", n, f"one {n}") for n in (1, 2)),
        *(change("other", n, "c", n, f"other {n}") for n in (2, 3)),
        *(change("trimmed", n, "c", n, f"trimmed {n}") for n in (1, 2)),
        *(aerospike_write(USERS, n, "profiles", n, display_name="x") for n in (1, 2)),
        *(change(log.name, 1, "c", 1, "first") for log in (*LOSING, REVIVED, *ROLLED)),
        change("values", 2, "u", 1, "second", UNAVAILABLE),
        change("deleted", 2, "d", 1, "first"),
        change("deleted", 3, "c", 2, "second"),
        change("copies", 2, "c", 2, "first"),
    )
    succeeded(upstreams.run())
    upstreams.first.update(current_snapshots(upstreams.lake))
    upstreams.land(
        *(change(log.name, 2, "c", 2, "second") for log in ROLLED),
        change("revived", 2, "d", 1, "first"),
    )
    with_news = ("revived", "revived_history", *(log.name for log in ROLLED))
    succeeded(upstreams.run("-s", *(f"+{name}" for name in with_news)))
    return upstreams


def _add_target(project: Path) -> None:
    """A second target, and the hook that lands beside a run."""
    add_target(project, "other")
    file = project / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    silver = settings["models"]["cdc_lakehouse"]["silver"]
    silver["other_events"] = {"+post-hook": LANDING}
    file.write_text(yaml.safe_dump(settings))


# --- another upstream, a column less, a rebuild beside --------------------------------------------


class Exchanged(NamedTuple):
    """What became of the nodes of a run, and gold's snapshots before it."""

    outcomes: dict[str, Outcome]
    before: dict[str, str]
    said: str


@pytest.fixture(scope="module")
def exchanged(built: Upstreams) -> Exchanged:
    """A gold table reads another log, another has a column less; of logs, old rows are purged, and
    the table of deletes without a set is built anew.
    """
    lake = built.lake
    lake.sql(f"delete from silver.{TRIMMED.model} where id = 1")
    lake.sql(f"delete from silver.{PROFILES.model} where _position.offset = 1")
    add_gold(lake.project, current_state(OTHER, PICKED))
    add_gold(lake.project, current_state(TRIMMED, columns=["title"]))
    succeeded(built.run("--full-refresh", "-s", "set_less_deletes"))
    before = built.snapshots()
    said = len(lake.log_text())
    return Exchanged(built.run(), before, lake.log_text()[said:])


def test_another_log_is_another_table(built: Upstreams, exchanged: Exchanged) -> None:
    """Nothing of the old one stays, and the run says why."""
    succeeded(exchanged.outcomes, PICKED)
    assert built.titles(f"gold.{PICKED}") == {2: "other 2", 3: "other 3"}
    reasons = [line for line in exchanged.said.splitlines() if f"gold.{PICKED}" in line]
    assert any(ONE.model in line and OTHER.model in line for line in reasons), reasons


def test_nothing_is_lost_that_the_log_no_longer_says(
    built: Upstreams, exchanged: Exchanged
) -> None:
    """Neither by a column that is no longer declared, nor by another table's rebuild; a history
    would fold what is left of the log.
    """
    for table in ("trimmed", "trimmed_history"):
        assert built.titles(f"gold.{table}") == {1: "trimmed 1", 2: "trimmed 2"}
    outcome = exchanged.outcomes["trimmed_history"]
    reason = f"rows of silver.{TRIMMED.model} were deleted after it was read"
    assert outcome.status == "error" and reason in outcome.message, outcome
    assert len(built.lake.read("gold.profiles")) == 2


def test_what_has_not_changed_is_not_rebuilt(built: Upstreams, exchanged: Exchanged) -> None:
    changed = (f"gold.{PICKED}", "gold.trimmed")
    before = {table: each for table, each in exchanged.before.items() if table not in changed}
    assert built.snapshots(*changed) == before
    assert {log.name: exchanged.outcomes[log.name].status for log in ROLLED} == {
        log.name: "success" for log in ROLLED
    }


def test_a_log_that_is_no_longer_read_is_forgotten(built: Upstreams, exchanged: Exchanged) -> None:
    before = built.snapshots()
    built.lake.sql(f"drop table silver.{ONE.model} purge")
    remove_model(built.lake.project, ONE.model)
    succeeded(built.run(), PICKED)
    assert built.snapshots() == before


# --- rebuilds that would lose rows, rollbacks -----------------------------------------------------


@pytest.fixture(scope="module")
def rolled_back(built: Upstreams, exchanged: Exchanged) -> dict[str, Outcome]:
    """A run after some logs have less than gold has of them, others are rolled back, and so is a
    gold table. Those have had news since, and all but one have more now.
    """
    lake = built.lake
    add_gold(lake.project, current_state(TRIMMED))
    for log in (TRIMMED, *LOSING):
        last = 2 if log is DELETED else 1
        lake.sql(
            "delete from bronze.raw_payloads"
            f" where topic = 'debezium.{log.name}' and offset <= {last}"
        )
    made_anew = ["other_events", *(log.model for log in (TRIMMED, *LOSING))]
    succeeded(built.run("--full-refresh", "-s", *made_anew))
    rolled = (f"silver.{log.model}" for log in (ROLLED_LOG, REVIVED))
    for table in (*rolled, f"gold.{ROLLED_GOLD.name}"):
        lake.roll_back(table, built.first[table])
    built.land(*(change(log.name, 3, "u", 1, "third") for log in ROLLED))
    return built.run("--exclude", REVIVED.model)


def test_a_rebuild_that_would_lose_rows_stops(
    built: Upstreams, rolled_back: dict[str, Outcome]
) -> None:
    outcome = rolled_back["trimmed"]
    assert outcome.status == "error"
    assert "gold.trimmed" in outcome.message and "--full-refresh" in outcome.message
    assert built.titles("gold.trimmed") == {1: "trimmed 1", 2: "trimmed 2"}


@pytest.mark.parametrize(
    ("table", "loss"),
    [
        ("trimmed_history", "1 of its rows are of events"),
        ("values", "1 of its rows have values of events"),
        ("copies", "1 of its rows are of events"),
        ("deleted", "1 of the deleted keys that it remembers are of events"),
        # Nothing of theirs: a row that was deleted would be back.
        ("revived", "1 of the rows that it has read are of events"),
        ("revived_history", "1 of the rows that it has read are of events"),
    ],
)
def test_so_does_one_that_would_lose_what_earlier_events_said(
    built: Upstreams, rolled_back: dict[str, Outcome], table: str, loss: str
) -> None:
    assert rolled_back[table].status == "error"
    assert f"{loss} that silver.{table.partition('_')[0]}_changes no" in rolled_back[table].message


@pytest.mark.parametrize("log", ROLLED, ids=[log.name for log in ROLLED])
def test_what_is_rolled_back_is_made_good(
    built: Upstreams, rolled_back: dict[str, Outcome], log: Log
) -> None:
    succeeded(rolled_back, log.model, log.name)
    offsets = sorted(row["_position"]["offset"] for row in built.lake.read(f"silver.{log.model}"))
    assert offsets == [1, 2, 3]
    assert built.titles(f"gold.{log.name}") == {1: "third", 2: "second"}


def test_a_full_refresh_is_the_users_choice(
    built: Upstreams, rolled_back: dict[str, Outcome]
) -> None:
    succeeded(built.run("--full-refresh", "-s", "trimmed"))
    assert built.titles("gold.trimmed") == {2: "trimmed 2"}


# --- a second target ------------------------------------------------------------------------------


class Deferred(NamedTuple):
    """What a deferred run in the other target has made of the first one's tables."""

    outcomes: dict[str, Outcome]
    before: dict[str, str]
    after: dict[str, str]
    said: str


@pytest.fixture(scope="module")
def deferred(built: Upstreams, rolled_back: dict[str, Outcome]) -> Deferred:
    """A gold table with news built in the other target, its log deferred to the first one's; that
    project's vars name a capture.
    """
    lake = built.lake
    built.land(change("rolled_gold", 4, "d", 2, "gone"))
    succeeded(built.run("-s", f"+{ROLLED_GOLD.model}", "--write-json"))
    state = lake.folder / "state"
    state.mkdir()
    target = lake.folder / f"target-{lake.project.name}"
    shutil.copy(target / "manifest.json", state)
    capture = lake.folder / "developers.jsonl"
    capture.write_text(json.dumps(change("rolled_gold", 99, "c", 99, "not ours").line()))
    before, said = current_snapshots(lake), len(lake.log_text())
    run = ("run", "--target", "other", "--defer", "--state", str(state), "-s", "rolled_gold")
    # That alone may need to be told what else to build.
    lake.outcomes(*run, as_of=AS_OF, captures=[str(capture)])
    outcomes = lake.outcomes(*run, "deleted_keys", "fold_counters", as_of=AS_OF)
    return Deferred(outcomes, before, current_snapshots(lake), lake.log_text()[said:])


def test_a_second_target_never_writes_into_the_first(built: Upstreams, deferred: Deferred) -> None:
    assert deferred.after == deferred.before
    succeeded(deferred.outcomes)
    assert built.titles("other_gold.rolled_gold") == {1: "third"}
    scopes = {row["record_key"] for row in built.lake.read("other_silver.deleted_keys")}
    assert scopes == {'{"id":2}'}


def test_only_the_target_that_owns_bronze_lands(built: Upstreams, deferred: Deferred) -> None:
    assert deferred.after["bronze.raw_payloads"] == deferred.before["bronze.raw_payloads"]
    lines = [line for line in deferred.said.splitlines() if "landing" in line or "lands" in line]
    assert any("other" in line and "dev" in line for line in lines), lines


def test_a_deferred_table_is_not_rebuilt_at_each_run(built: Upstreams, deferred: Deferred) -> None:
    """Nor the one of the own log that comes after it; each for its own reason, once."""
    lake = built.lake
    first_target = current_snapshots(lake)
    run = ("run", "--target", "other", "-s")
    deferring = ("--defer", "--state", str(lake.folder / "state"), "--favor-state")
    for arguments in (("rolled_gold", *deferring), ("+rolled_gold",)):
        succeeded(lake.outcomes(*run, *arguments, as_of=AS_OF))
        assert built.titles("other_gold.rolled_gold") == {1: "third"}
        before = lake.current_snapshot("other_gold.rolled_gold")
        succeeded(lake.outcomes(*run, *arguments, as_of=AS_OF))
        assert lake.current_snapshot("other_gold.rolled_gold") == before
    # Its tests take the log that it is made of, though there is another.
    lake.sql("delete from other_silver.rolled_gold_changes")
    build = ("build", "--target", "other", "-s", "rolled_gold", *deferring)
    succeeded(lake.outcomes(*build, as_of=AS_OF))
    assert current_snapshots(lake) == first_target


# --- bronze ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def landed_again(built: Upstreams, deferred: Deferred) -> dict[str, Outcome]:
    """A run after bronze has been dropped, and all has landed again with something new; then more
    lands beside the next one, between its events and their test.
    """
    built.lake.sql("drop table bronze.raw_payloads purge")
    create_table(built.lake.spark)
    everything = [*built.landed, change("rolled_gold", 5, "c", 5, "new")]
    built.landed.clear()
    built.land(*everything)
    return built.run()


def test_bronze_that_has_landed_again_is_read_again(
    built: Upstreams, landed_again: dict[str, Outcome]
) -> None:
    """And each payload has its events once, in a log or beside all of them."""
    succeeded(landed_again, "other_events", ROLLED_GOLD.model, "rolled_gold")
    assert built.titles("gold.rolled_gold") == {1: "third", 5: "new"}
    logs = [table for table in built.lake.tables() if re.match(r"silver[.].*_changes$", table)]
    events = [row["_position"] for log in logs for row in built.lake.read(log)]
    events += built.lake.read("silver.other_events")
    found = [tuple(each[name] for name in (*PLACE, "event_index")) for each in events]
    assert len(set(found)) == len(found)
    assert {each[:3] for each in found} == {message[:3] for message in built.landed}


def test_tests_read_what_the_run_has_read(
    built: Upstreams, landed_again: dict[str, Outcome]
) -> None:
    """More lands between the events and their test."""
    before = len(built.lake.read("bronze.raw_payloads"))
    built.land(change("rolled_gold", 6, "u", 5, "newer"))
    outcomes = built.lake.outcomes("build", "-s", "other_events", as_of=AS_OF, lands_beside=True)
    succeeded(outcomes, "other_events", DECODED)
    assert len(built.lake.read("bronze.raw_payloads")) == 2 * (before + 1)
