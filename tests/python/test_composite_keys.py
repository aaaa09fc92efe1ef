"""A table whose key has several columns, one of them a time: keys that differ in a microsecond, or
in the case of a name, are keys of their own wherever a key is remembered. And dbt's own options and
commands, on the same table.
"""

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pytest
from lakes import Lake
from small_project import small_project
from streams import MINUTE, START, Message

from dbt_lakehouse.commands.forget.command import Options, forget
from dbt_lakehouse.config.paths import ROOT

AS_OF: Final = "2026-10-03 00:00:00"
TOPIC: Final = "debezium.lab.readings"
# Sorted, `B` comes first, and without regard to case last.
KEY: Final = {"a": "string", "at": "timestamp_ntz", "B": "bigint"}
CHANGES: Final = f"""{{{{ change_log(
    source_table="readings", key={json.dumps(KEY)}, columns={{"level": "double"}}
) }}}}
"""
GOLD: Final = '{{ current_state(ref("readings_changes")) }}'
COLUMNS: Final = {
    **KEY,
    "level": "double",
    "_occurred_at": "timestamp",
    "_max_occurred_at": "timestamp",
    "_position": (
        "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
    ),
}
FIRST, SECOND, THIRD = (f"2026-10-01T10:00:00.12345{digit}" for digit in (6, 7, 8))


class Readings:
    """A lake with one such table."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def run(self, *messages: Message) -> None:
        """Land the messages and bring gold up to date."""
        self.lake.land(each.line() for each in messages)
        statuses = self.lake.dbt("build", "--exclude", "quarantine_rate", as_of=AS_OF)
        assert set(statuses.values()) <= {"success", "pass"}, statuses

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
    # What `forget` has to look into, too.
    for suffix in ("sql", "yml"):
        shutil.copy(
            ROOT / f"shared/models/silver/quarantined_payloads.{suffix}", project / "models/silver"
        )
    lake = Lake(folder, project)
    with lake.dbt_folders():
        built = Readings(lake)
        built.run(*(change(n, "c", at, n) for n, at in enumerate((FIRST, SECOND, THIRD))))
        yield built


def test_keys_that_differ_in_a_microsecond_are_deleted_each_for_itself(readings: Readings) -> None:
    assert readings.gold() == {FIRST: 0, SECOND: 1, THIRD: 2}
    readings.run(change(3, "d", FIRST), change(4, "d", SECOND))
    assert readings.gold() == {THIRD: 2}
    assert readings.remembered() == [record_key(FIRST), record_key(SECOND)]
    # Touched again: each finds its own state.
    readings.run(change(5, "d", FIRST), change(6, "c", SECOND, 6))
    assert readings.gold() == {SECOND: 6, THIRD: 2}
    # Late, from another partition: only a key whose delete is remembered stays away.
    readings.run(change(0, "c", FIRST, 9, partition=1))
    assert readings.gold() == {SECOND: 6, THIRD: 2}


def test_what_is_remembered_of_a_key_is_forgotten_with_it(readings: Readings) -> None:
    readings.run(Message(TOPIC, 0, 7, START + 7 * MINUTE, key(FIRST), None))
    given = json.dumps({"a": "x", "at": FIRST, "B": 7})
    report = forget(
        readings.lake.load(captures=[], as_of=AS_OF), Options("readings", [given], purge=False)
    )
    assert report.rows["silver.deleted_keys"] == 1
    assert record_key(FIRST) not in readings.remembered()
    # The tombstone goes too, though it names no table.
    left = readings.lake.read("bronze.raw_payloads")
    emptied = [row["offset"] for row in left if row["partition"] == 0 and row["key"] is None]
    assert sorted(emptied) == [0, 3, 5, 7]
    assert readings.gold() == {SECOND: 6, THIRD: 2}


def test_times_in_gold_have_their_microseconds(readings: Readings) -> None:
    times = {row["at"] for row in readings.lake.read("gold.readings")}
    assert times == {datetime.fromisoformat(SECOND), datetime.fromisoformat(THIRD)}


TEST: Final = "equals_refold_readings_"


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
        assert lake.dbt("build", as_of=AS_OF)[TEST] == "fail"
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
