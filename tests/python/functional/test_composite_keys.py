"""A table whose key has several columns, one of them a time: keys that differ in a microsecond, or
in the case of a name, are keys of their own wherever a key is remembered. Beside it, days and times
of all calendars as the first columns of a key. And dbt's own options and commands, on the same
table.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import pytest
from support.lakes import Lake
from support.small_project import Log, add_gold, add_log, current_state, history, small_project
from support.streams import MINUTE, START, Message

from dbt_lakehouse.commands.forget.forget_steps import Options, forget
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.session.dbt_commands import read_manifest

AS_OF: Final = "2026-10-03 00:00:00"
TOPIC: Final = "debezium.lab.readings"
TEST: Final = "equals_refold_readings_"
# Sorted, `B` comes first, and without regard to case last.
KEY: Final = {"a": "string", "at": "timestamp_ntz", "B": "bigint"}
CHANGES: Final = f"""{{{{ change_log(
    source_table="readings", key={json.dumps(KEY)}, columns={{"level": "double"}}
) }}}}
"""
# Its deletes are those of Iceberg's earlier format version, for readers without deletion vectors.
GOLD: Final = """
{{ config(tblproperties={"format-version": "2"}) }}
{{ current_state(ref("readings_changes")) }}
"""

COLUMNS: Final = {
    **KEY,
    "level": "double",
    "_occurred_at": "timestamp",
    "_max_occurred_at": "timestamp",
    "_position": (
        "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
    ),
}
# The first column of a key is what a run looks for rows by.
# `_time` and `_rank` are like names of our steps, before their prefix.
DAYS: Final = Log("days", "days", {"day": "date", "_time": "timestamp"}, {"_rank": "string"})
MOMENTS: Final = Log(
    "moments", "moments", {"_time": "timestamp", "day": "date"}, {"_rank": "string"}
)
DIARY: Final = Log("diary", "diary", {}, {"day": "date", "_time": "timestamp", "_rank": "string"})
# The usual "no date", days that the Julian calendar has elsewhere, one that it lacks, and one that
# Python lacks.
OLD_DAYS: Final = ("0001-01-01", "1500-01-01", "1500-01-03", "1582-10-10", "+12000-01-01")
FIRST, SECOND, THIRD = (f"2026-10-01T10:00:00.12345{digit}" for digit in (6, 7, 8))


class Readings:
    """A lake with one such table."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def run(
        self,
        *messages: Message,
        models: str = "+readings,resource_type:model",
        tests: Sequence[str] = (TEST,),
    ) -> None:
        """Land the messages, bring gold up to date, and test it."""
        self.lake.land(each.line() for each in messages)
        arguments = ("build", "-s", models, *tests, "--indirect-selection", "empty")
        statuses = self.lake.dbt(*arguments, as_of=AS_OF)
        assert set(statuses.values()) <= {"success", "pass"}, statuses
        assert "pass" in statuses.values() or not tests

    def gold(self) -> dict[str, float]:
        """The level of each live key, by its time."""
        return {row["at"].isoformat(): row["level"] for row in self.lake.read("gold.readings")}

    def remembered(self) -> list[str]:
        """The keys whose absence is remembered."""
        return sorted(row["record_key"] for row in self.lake.read("silver.deleted_keys"))


def change(
    offset: int, op: str, at: str, level: float | None = None, partition: int = 0
) -> Message:
    """A change of the reading of a time; those of partition 1 were sent before all others."""
    image = None if op == "d" else {"a": "x", "at": at, "B": 7, "level": level}
    value = {"op": op, "before": None, "after": image, "source": {"table": "readings"}}
    clock = START + (offset - 100 * partition) * MINUTE
    return Message(TOPIC, partition, offset, clock, key(at), json.dumps(value).encode())


def of_day(table: str, step: int, op: str, day: str, note: str) -> Message:
    """A change of the row of a day in one of the tables that have any."""
    row = {"day": day, "_time": f"{day}T00:00:00Z"}
    image = {**row, "_rank": note}
    value = {"op": op, "before": image if op == "d" else None, "source": {"table": table}}
    value["after"] = None if op == "d" else image
    offset = step * len(OLD_DAYS) + OLD_DAYS.index(day)
    topic = f"debezium.lab.{table}"
    clock = START + offset * MINUTE
    return Message(topic, 0, offset, clock, json.dumps(row).encode(), json.dumps(value).encode())


def key(at: str) -> bytes:
    return json.dumps({"a": "x", "at": at, "B": 7}).encode()


def record_key(at: str) -> str:
    """A key as `deleted_keys` has it."""
    return json.dumps({"B": 7, "a": "x", "at": at}, separators=(",", ":"))


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readings]:
    folder = tmp_path_factory.mktemp("composite")
    project = small_project(folder / "project")
    (project / "models/silver/readings_changes.sql").write_text(CHANGES)
    (project / "models/gold/readings.sql").write_text(GOLD)
    columns = [{"name": name, "data_type": kind} for name, kind in COLUMNS.items()]
    tests = ["equals_refold"]
    model: dict[str, Any] = {"name": "readings", "columns": columns, "data_tests": tests}
    (project / "models/gold/readings.yml").write_text(json.dumps({"models": [model]}))
    for log in (DAYS, MOMENTS, DIARY):
        add_log(project, log)
        add_gold(project, current_state(log))
    add_gold(project, history(MOMENTS, "moments_history"))
    # What `forget` has to look into, too.
    for suffix in ("sql", "yml"):
        shutil.copy(
            ROOT / f"shared/models/silver/quarantined_payloads.{suffix}", project / "models/silver"
        )
    lake = Lake(folder, project)
    with lake.dbt_folders():
        built = Readings(lake)
        tables = (DAYS.name, MOMENTS.name, DIARY.name)
        built.run(
            *(change(n, "c", at, n) for n, at in enumerate((FIRST, SECOND, THIRD))),
            *(of_day(table, 0, "c", day, "old") for table in tables for day in OLD_DAYS),
            models="resource_type:model",
            tests=(),
        )
        yield built


def test_keys_that_differ_in_a_microsecond_are_deleted_each_for_itself(readings: Readings) -> None:
    assert readings.gold() == {FIRST: 0, SECOND: 1, THIRD: 2}
    readings.run(change(3, "d", FIRST), change(4, "d", SECOND))
    assert readings.gold() == {THIRD: 2}
    assert readings.remembered() == [record_key(FIRST), record_key(SECOND)]
    # Touched again: each finds its own state.
    readings.run(change(5, "d", FIRST), change(6, "c", SECOND, 6))
    assert readings.gold() == {SECOND: 6, THIRD: 2}
    formats = "select distinct file_format from gold.readings.delete_files"
    assert readings.lake.sql(formats) == [{"file_format": "PARQUET"}]
    # Late, from another partition: only a key whose delete is remembered stays away.
    readings.run(change(0, "c", FIRST, 9, partition=1))
    assert readings.gold() == {SECOND: 6, THIRD: 2}


def test_what_is_remembered_of_a_key_is_forgotten_with_it(readings: Readings) -> None:
    readings.run(Message(TOPIC, 0, 7, START + 7 * MINUTE, key(FIRST), None))
    given = json.dumps({"a": "x", "at": FIRST, "B": 7})
    report = forget(
        readings.lake.load(captures=[], as_of=AS_OF), Options("readings", [given], purge=False)
    )
    # It was deleted twice.
    assert report.rows["silver.deleted_keys"] == 2
    assert record_key(FIRST) not in readings.remembered()
    # The tombstone goes too, though it names no table.
    left = readings.lake.read("bronze.raw_payloads")
    emptied = [row["offset"] for row in left if row["partition"] == 0 and row["key"] is None]
    assert sorted(emptied) == [0, 3, 5, 7]
    assert readings.gold() == {SECOND: 6, THIRD: 2}


def test_times_in_gold_have_their_microseconds(readings: Readings) -> None:
    times = {row["at"] for row in readings.lake.read("gold.readings")}
    assert times == {datetime.fromisoformat(SECOND), datetime.fromisoformat(THIRD)}


def test_days_and_times_of_all_calendars_are_keys(readings: Readings) -> None:
    """Updates and deletes find their rows, in gold and in a history; their data tests pass."""
    keyed = (DAYS.name, MOMENTS.name)
    readings.run(
        *(of_day(table, 1, "u", day, "new") for table in keyed for day in OLD_DAYS[::2]),
        *(of_day(table, 1, "d", OLD_DAYS[1], "old") for table in (*keyed, DIARY.name)),
        models="+days +moments +diary moments_history",
        tests=("test_name:equals_refold", "test_name:is_history"),
    )
    kept = [OLD_DAYS[0], *OLD_DAYS[2:]]
    for table in (*keyed, DIARY.name):
        rows = readings.lake.sql(
            "select cast(day as string) as day, cast(unix_micros(_time) as string) as at, _rank"
            f" from gold.{table} order by day, _time"
        )
        assert len(rows) == 4 == len({row["at"] for row in rows})
        assert {row["day"] for row in rows} == {*kept}
        changed = {row["day"] for row in rows if row["_rank"] == "new"}
        assert changed == (set() if table == DIARY.name else {*OLD_DAYS[::2]})
    (versions,) = readings.lake.sql(
        "select count(*) as all, count_if(is_current) as current from gold.moments_history"
    )
    assert versions == {"all": 8, "current": 4}
    # Without Spark.
    nodes = read_manifest(readings.lake.load(captures=[], as_of=AS_OF)).nodes
    reader = readings.lake.reader()
    for day in OLD_DAYS:
        given = json.dumps({"day": day, "_time": f"{day}T00:00:00Z"})
        for table in keyed:
            found = why(reader, keyed_table(nodes, table), given)
            assert found.key["day"] == day
            assert (found.row is None) == (day == OLD_DAYS[1])
            assert not found.differences


def test_a_test_of_another_kind_of_table_says_so(readings: Readings) -> None:
    """A table without a key has neither a key that is unique, nor a fold."""
    wrong = ["unique_key", "equals_refold", "no_absent_keys"]
    copies = {"unique_combination": {"arguments": {"columns": ["_row", "_copy"]}}}
    diary = current_state(DIARY)
    add_gold(readings.lake.project, replace(diary, data_tests=[*wrong, copies]))
    outcomes = readings.lake.outcomes("test", "-s", "diary", as_of=AS_OF)
    add_gold(readings.lake.project, diary)
    statuses = {name: each.status for name, each in outcomes.items()}
    assert sorted(statuses.values()) == ["error", "error", "error", "pass"]
    for test in wrong:
        (told,) = (each.message for name, each in outcomes.items() if name.startswith(test))
        assert (
            f"{test} is a test of a gold table with a key, made by current_state, and diary is a"
            " table without a key"
        ) in " ".join(told.split())


def test_a_build_tests_what_it_has_touched(readings: Readings) -> None:
    """And `dbt test` all of the table."""
    lake = readings.lake
    model = lake.project / "models/gold/readings.sql"
    wrong = f"update gold.readings set level = 100 where at = timestamp_ntz '{THIRD}'"
    with lake.tampered():
        model.write_text(f'{{{{ config(post_hook="{wrong}") }}}}\n\n{GOLD}')
        readings.run(change(8, "u", SECOND, 8))
        assert readings.gold() == {SECOND: 8, THIRD: 100}
        assert lake.dbt("test", "-s", TEST, as_of=AS_OF) == {TEST: "fail"}
        lake.land([change(9, "u", THIRD, 9).line()])
        assert lake.dbt("build", "-s", "+readings", as_of=AS_OF)[TEST] == "fail"
        model.write_text(GOLD)
    # Nothing is touched.
    readings.run()


def test_what_can_not_be_done_says_why(readings: Readings) -> None:
    lake = readings.lake
    model = lake.project / "models/gold/readings.sql"
    lake.land([change(10, "u", SECOND, 10).line()])
    before = readings.gold()
    model.write_text(f'{{{{ config(grants={{"select": ["ana"]}}) }}}}\n\n{GOLD}')
    refused = lake.outcomes("run", "--write-json", as_of=AS_OF)
    assert refused["readings"].status == "error"
    assert "the config `grants` can not be applied" in refused["readings"].message
    model.write_text(GOLD)
    assert readings.gold() == before
    assert lake.dbt("retry", as_of=AS_OF) == {"readings": "success"}
    assert readings.gold() == {**before, SECOND: 10}
    for options in (["--empty"], ["--sample", "3 days"]):
        refused = lake.outcomes("run", "-s", "readings", *options, as_of=AS_OF)
        assert refused["readings"].status == "error"
        assert "not built with --empty or --sample" in refused["readings"].message
    assert readings.gold() == {**before, SECOND: 10}


def test_a_contract_is_held_before_silver_is_made_anew(readings: Readings) -> None:
    lake, contract = readings.lake, readings.lake.project / "models/gold/readings.yml"
    text, before = contract.read_text(), lake.current_snapshot("silver.readings_changes")
    model = json.loads(text)
    (level,) = (each for each in model["models"][0]["columns"] if each["name"] == "level")
    level["data_type"] = "string"
    contract.write_text(json.dumps(model))
    refresh = ("run", "--full-refresh", "-s", "readings_changes", "readings")
    refused = lake.outcomes(*refresh, as_of=AS_OF)
    contract.write_text(text)
    message = " ".join(refused["readings_changes"].message.split())
    assert "readings: level is declared string, and the model makes it" in message
    assert refused["readings"].status == "skipped"
    assert lake.current_snapshot("silver.readings_changes") == before
    # One that is not built is none of the command's business.
    contract.write_text(json.dumps(model))
    assert lake.dbt("run", "-s", "readings_changes", as_of=AS_OF) == {"readings_changes": "success"}
    contract.write_text(text)


def test_a_changed_description_is_found_and_written(readings: Readings) -> None:
    lake, contract = readings.lake, readings.lake.project / "models/gold/readings.yml"
    modified = ("run", "-s", "state:modified+", "--state", str(lake.folder / "state"))
    lake.dbt("parse", "--write-json", as_of=AS_OF)
    shutil.copytree(lake.folder / "target-project", lake.folder / "state")
    assert lake.dbt(*modified, as_of=AS_OF) == {}
    model = json.loads(contract.read_text())
    for own, text in (("All readings.", "What was read."), ("", "")):
        model["models"][0]["description"] = own
        model["models"][0]["columns"][3]["description"] = text
        contract.write_text(json.dumps(model))
        statuses = lake.dbt(*modified, as_of=AS_OF) if own else lake.dbt("run", as_of=AS_OF)
        assert statuses["readings"] == "success"
        assert not own or statuses.keys() == {"readings"}
        table = lake.look_at("gold.readings")
        assert (table.properties.get("comment", ""), table.comments["level"]) == (own, text)
        # The log's is gold's.
        lake.dbt("run", "-s", "readings_changes", as_of=AS_OF)
        assert lake.look_at("silver.readings_changes").comments["level"] == text


def test_a_full_refresh_takes_a_table_back_to_an_earlier_format_version(
    readings: Readings,
) -> None:
    lake, gold = readings.lake, current_state(DAYS)
    rows = "select cast(day as string) as day, _rank from gold.days order by all"
    before = lake.sql(rows)
    assert before and lake.properties("gold.days")["format-version"] == "3"
    earlier = '{{ config(tblproperties={"format-version": "2"}) }}'
    add_gold(lake.project, replace(gold, text=f"{earlier}\n{gold.text}"))
    statuses = lake.dbt("run", "-s", "days", "--full-refresh", as_of=AS_OF)
    assert set(statuses.values()) == {"success"}
    assert lake.properties("gold.days")["format-version"] == "2"
    assert lake.sql(rows) == before
    # Nobody goes on from its rows, which have no sequence numbers.
    reader = lake.project / "models" / "silver" / "days_read.sql"
    config = '{{ config(materialized="append_only") }}'
    reader.write_text(f'{config}\nselect day from {{{{ new_rows(ref("days")) }}}}\n')
    refused = lake.outcomes("run", "-s", "days_read", as_of=AS_OF)["days_read"]
    assert "gold.days has Iceberg's format version 2, and new_rows() needs 3" in refused.message
    reader.unlink()
    add_gold(lake.project, gold)
