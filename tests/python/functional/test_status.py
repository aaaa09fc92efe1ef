"""`lakehouse status`: the numbers, held against counts of their own; sums, broken on purpose."""

import json
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

import duckdb
import pytest
from click.testing import CliRunner
from dbt_common.exceptions import DbtRuntimeError
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from prometheus_client import parser as older
from prometheus_client.openmetrics import parser
from support.lakes import DEMO_AS_OF, Lake
from support.report_pages import Page, is_sound
from support.small_messages import row_change
from support.small_project import Log, add_gold, add_log, current_state, small_project

from dbt.adapters.lakehouse.connections import ending_text
from dbt_lakehouse.cli import lakehouse, main
from dbt_lakehouse.commands.doctor import State, doctor
from dbt_lakehouse.commands.standard_streams import NOT_WELL, UNUSABLE
from dbt_lakehouse.commands.status.facts import (
    Facts,
    Link,
    Outcome,
    Run,
    TableStatus,
    Topic,
)
from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.commands.status.lake import TargetTables
from dbt_lakehouse.commands.status.last_run import read_run
from dbt_lakehouse.commands.status.live_keys import live_keys
from dbt_lakehouse.commands.status.openmetrics import metrics, write_metrics
from dbt_lakehouse.commands.status.places import PAYLOAD, Placed, placed_sql
from dbt_lakehouse.commands.status.similar_source import similar_source
from dbt_lakehouse.commands.status.status_output import report_of
from dbt_lakehouse.commands.status.tables import _gold
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import WriteError
from dbt_lakehouse.reference.fold import Change, Position, fold
from dbt_lakehouse.report import runs
from dbt_lakehouse.runs.inventory import Kind, LakeTable
from dbt_lakehouse.runs.model_run import DECLARED
from dbt_lakehouse.texts import printable

HOUR = 3_600_000_000


class Told(NamedTuple):
    code: int | str | None
    stdout: str
    stderr: str


def status(lake: Lake, *arguments: str, command: str = "status", **variables: Any) -> Told:
    options = ["--project-dir", str(lake.project)]
    options += ["--profiles-dir", str(lake.project / "profiles")]
    options += ["--vars", json.dumps({"captures": [], "as_of": DEMO_AS_OF, **variables})]
    with (
        lake.dbt_folders(),
        pytest.MonkeyPatch.context() as environment,
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as error,
    ):
        environment.setenv("LAKEHOUSE_LAKE", lake.environment["LAKEHOUSE_LAKE"])
        with pytest.raises(SystemExit) as ended:
            main([command, *arguments, *options])
    return Told(ended.value.code, out.getvalue(), error.getvalue())


def facts(lake: Lake) -> Facts:
    return gather(lake.reader(), "silver")


# --- The demo -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_demo(demo: Lake) -> Facts:
    """What is found in the demo as its build has left it."""
    return facts(demo)


def test_the_numbers_are_those_of_the_tables(demo: Lake, of_demo: Facts) -> None:
    found = of_demo
    events = demo.decoded()
    landed = Counter(row["topic"] for row in demo.read("bronze.raw_payloads"))
    bad = {
        (row["topic"], row["partition"], row["offset"])
        for row, event in events
        if event.operation == "invalid"
    }
    invalid = Counter(topic for topic, *_ in bad)
    assert {each.topic: each.landed for each in found.topics} == landed
    for topic in found.topics:
        assert topic.invalid == invalid[topic.topic]
        assert topic.landed == topic.decoded + topic.invalid + topic.waiting
        assert topic.waiting == 0
        operations = [event.operation for row, event in events if row["topic"] == topic.topic]
        assert topic.events == len(operations)
        assert topic.changes == sum(each not in ("invalid", "tombstone") for each in operations)
    tables = {each.table: each for each in found.tables}
    made = {name for name in demo.tables() if name.partition(".")[0] in ("silver", "gold")}
    assert tables.keys() == made - {"silver.fold_counters"}
    assert {name: each.rows for name, each in tables.items()} == {
        name: len(demo.read(name)) for name in tables
    }
    log = {
        row["order_id"] for row in demo.read("silver.orders_changes") if row["order_id"] is not None
    }
    orders = tables["gold.orders"]
    assert orders.rows + (orders.absent_keys or 0) == len(log)
    outcomes = Counter(link.outcome for link in found.links)
    assert outcomes == {Outcome.WHOLE: len(found.links) - 2, Outcome.UNCHECKED: 2}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ([None, "ns", "Set"], "ns.set"),
        ([None, None, "sets"], "ns.set"),
        ([None, "ns", "carts"], None),
        # Of the demo's own logs.
        ([None, "iot", "Devices"], None),
    ],
)
def test_a_log_without_events_is_told_of_a_source_named_alike(
    demo: Lake,
    of_demo: Facts,
    monkeypatch: pytest.MonkeyPatch,
    source: list[str | None],
    found: str | None,
) -> None:
    name = "silver.devices_changes"
    lake = TargetTables(demo.reader(), "silver")
    table = lake.table(name)
    declared = json.dumps({**table.declared, "sources": [source]})
    noted = f"{DECLARED}.{table.metadata.noted(DECLARED)}"
    changed = LakeTable(name, structs.replace(table.metadata, properties={noted: declared}))
    monkeypatch.setattr(lake, "table", lambda _: changed)
    assert similar_source(lake, name) == found
    tables = [replace(each, similar_source=found) for each in of_demo.tables[:1]]
    told = f"{tables[0].table} has no events, and no change log takes those of {found}: "
    assert (told in report_of(replace(of_demo, tables=tables)).text()) == (found is not None)


# What is done to tables, and the sums that don't agree then, with their numbers.
BROKEN = {
    "delete from bronze.raw_payloads where topic = 'arcion.tpch.region' and offset = 3"
    " and partition = 0": {
        ("landed_decoded", "arcion.tpch.region"): (30, 31),
        ("events_logged", "silver.regions_changes"): (25, 26),
    },
    "delete from silver.other_events where topic = 'arcion.crm.accounts' and offset = 16": {
        ("landed_decoded", "arcion.crm.accounts"): (39, 38),
        # Without decoding nobody can tell that the payload has no event of that table.
        ("events_logged", "silver.accounts_changes"): (34, 33),
    },
    "delete from silver.quarantined_payloads where topic = 'legacy.audit'": {
        ("invalid_quarantined", "legacy.audit"): (2, 0),
    },
    "delete from silver.contacts_changes where _position.offset = 7": {
        ("landed_decoded", "lindorm.hbase.customers"): (57, 56),
        ("events_logged", "silver.contacts_changes"): (56, 55),
    },
    "insert into silver.set_less_deletes select * from silver.set_less_deletes limit 1": {
        ("events_logged", "silver.set_less_deletes"): (28, 29),
    },
    "delete from gold.accounts where account_id = 1001": {
        ("log_gold", "gold.accounts"): (14, 13),
    },
    "delete from gold.sessions where _digest = (select min(_digest) from gold.sessions)": {
        ("log_gold", "gold.sessions"): (22, 21),
    },
    "update gold.regions set r_regionkey = -5 where r_regionkey ="
    " (select min(r_regionkey) from gold.regions)": {
        ("log_gold", "gold.regions"): (7, 7),
    },
    "insert into gold.profiles select * from gold.profiles limit 1": {
        ("log_gold", "gold.profiles"): (28, 29),
    },
}


def test_a_sum_that_does_not_agree_is_named(demo: Lake) -> None:
    expected = {link: numbers for links in BROKEN.values() for link, numbers in links.items()}
    with demo.tampered(*BROKEN):
        found = status(demo, "--json")
    assert found.code == NOT_WELL
    told = json.loads(found.stdout)
    broken = {
        (each["link"], each["of"]): each for each in told["links"] if each["outcome"] == "broken"
    }
    numbers = {link: (each["expected"], each["found"]) for link, each in broken.items()}
    assert numbers == expected
    for (_, of), link in broken.items():
        assert of in link["told"]
        assert "`dbt run --full-refresh -s" in link["told"] or "backup" in link["told"]
    lost = broken["landed_decoded", "lindorm.hbase.customers"]["told"]
    assert "events of 1 payload, of 57 that" in lost and "(silver.contacts_changes)" in lost
    assert [each["of"] for each in told["alerts"]] == [of for _, of in broken]
    regions = broken["log_gold", "gold.regions"]["told"]
    assert "1 keys are missing, 1 should not be there" in regions
    assert found.stderr.startswith(f"lakehouse: {len(broken)} alerts: broken_link ")


def test_what_waits_breaks_no_sum(demo: Lake) -> None:
    """Rows that the next run reads, and what was landed since."""
    statements = [
        "insert into bronze.raw_payloads select topic, partition, offset + 1000, timestamp,"
        " timestamp_type, key, value, headers, landed_at from bronze.raw_payloads"
        " where topic = 'debezium.sales.orders' and offset < 5",
        "insert into silver.orders_changes by name select * except (_position), named_struct("
        "'log_time', _position.log_time, 'topic', _position.topic, 'partition', 0, 'offset', 9999L,"
        " 'event_index', 0) as _position from silver.orders_changes limit 1",
    ]
    with demo.tampered(*statements):
        found = facts(demo)
    (topic,) = (each for each in found.topics if each.topic == "debezium.sales.orders")
    # Of two partitions.
    assert (topic.landed, topic.waiting) == (topic.decoded + topic.invalid + 10, 10)
    tables = {each.table: each.waiting for each in found.tables}
    assert (tables["silver.other_events"], tables["gold.orders"]) == (10, 1)
    # The row in the log is of no payload.
    broken = [link.of for link in found.links if link.outcome is Outcome.BROKEN]
    assert broken == ["debezium.sales.orders", "silver.orders_changes"]


def test_a_topic_of_which_nothing_can_be_decoded_is_named(demo: Lake) -> None:
    assert status(demo).code == 0
    found = status(demo, undecoded_topics=[])
    assert found.code == NOT_WELL
    assert found.stderr == "lakehouse: 1 alert: all_quarantined legacy.audit\n"
    assert "topic legacy.audit: none of its 2 payloads could be decoded" in found.stdout
    assert "topic legacy.audit: no entry of vars.topics matches it" in found.stdout
    assert "no entry of vars.topics" not in status(demo).stdout
    # By what other_events has looked at, which a run asks too.
    fewer = [{"pattern": "(aerospike|arcion|lindorm).*", "format": "aerospike_json"}]
    found = status(demo, command="doctor", topics=fewer)
    assert found.code == 0
    (told,) = (line for line in found.stdout.splitlines() if line.split()[1] == "topics")
    topics = "debezium.inventory.products, debezium.sales.orders"
    assert told.startswith(f"warn topics   topics {topics}: no entry of vars.topics matches them,")
    # With the project's own vars it has passed when the demo was built.
    name = "no_topic_is_all_quarantined"
    named = demo.outcomes("test", "-s", name, as_of=DEMO_AS_OF, undecoded_topics=["other"])
    assert named[name].status == "warn"
    assert "topic legacy.audit: none of it could be decoded, 2 payloads" in demo.log_text()


def test_the_numbers_for_prometheus(demo: Lake, tmp_path: Path) -> None:
    file = tmp_path / "lakehouse.prom"
    assert status(demo, "--openmetrics", str(file)).code == 0
    read = {each.name: each for each in parser.text_string_to_metric_families(file.read_text())}
    rows = {each.labels["table"]: each.value for each in read["lakehouse_table_rows"].samples}
    assert rows["gold.accounts"] == 14
    assert {each.value for each in read["lakehouse_sum_agrees"].samples} == {1.0}
    assert read["lakehouse_topic_last_event_timestamp_seconds"].unit == "seconds"
    assert [*tmp_path.iterdir()] == [file]


LOG: Final = Log("shops", "shops", {"id": "bigint"}, {"title": "string"}, "shop", "app")
NOW: Final = "2026-10-01 12:00:00"


def change(offset: int, op: str, key: int, title: str) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "shop", "schema": "app", "table": "shops"}
    return row_change("debezium.shops", offset, op, key, source, title=title).line()


class States:
    """A lake that goes through all its states: what is told of each."""

    def __init__(self, folder: Path) -> None:
        project = small_project(folder / "project", quarantine=True)
        add_log(project, LOG)
        add_gold(project, current_state(LOG))
        self.lake: Final = Lake(folder, project)
        self.target: Final = folder / "target-project"

    def build(self, *arguments: str) -> set[str]:
        return {*self.lake.dbt("run", "--write-json", *arguments, as_of=NOW).values()}

    def land(self, *lines: dict[str, Any]) -> None:
        self.lake.land(lines)

    def page(self) -> Page:
        """The page that the last command has left, and that `lakehouse report` writes then."""
        file = self.target / "report.html"
        left = file.read_text()
        file.unlink()
        options = ["--project-dir", str(self.lake.project)]
        options += ["--profiles-dir", str(self.lake.project / "profiles")]
        environment = {**self.lake.environment, "DBT_TARGET_PATH": str(self.target)}
        pages = [left]
        for period in (["--since", "7d"], []):
            done = CliRunner().invoke(
                lakehouse, ["report", *period, *options], env=environment, catch_exceptions=False
            )
            assert done.exit_code == 0, done.output
            pages.append(file.read_text())
        for html in pages:
            is_sound(Page(html))
        told = status(self.lake, "--json")
        assert "Traceback" not in told.stderr and json.loads(told.stdout)
        return Page(file.read_text())

    def rows_by_run(self) -> list[str]:
        """What the page says of the rows of gold after each run, the newest first; nothing if none
        is known.
        """
        name = {"aria-label": "Rows in gold"}
        tables = [each for each in self.page().all("table") if each.attributes == name]
        rows = (row for table in tables for row in table.all("tbody")[0].all("tr"))
        return [row.all("td")[0].text for row in rows]


@pytest.mark.long
def test_each_state_of_a_lake_has_a_report_and_a_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = States(tmp_path)
    lake = states.lake
    # Bronze alone, and nothing in it; then tables of no rows.
    assert states.build("-s", "quarantined_payloads") == {"error"}
    assert "Nothing landed" in states.page().root.text
    assert states.build() == {"success"}
    assert states.page().table("Gold")["gold.shops"]["Rows"] == "0"
    # Before any model: a page of this run, and not the one before.
    with pytest.raises(DbtRuntimeError, match="nowhere"):
        lake.dbt("run", "--write-json", as_of=NOW, captures=["nowhere.jsonl"])
    assert "The command ended early" in states.page().root.text
    # Runs with rows.
    states.land(change(0, "c", 1, "one"), change(1, "c", 2, "two"))
    assert states.build() == {"success"}
    first = lake.current_snapshot("gold.shops")
    states.land(change(2, "c", 3, "three"))
    assert states.build() == {"success"}
    assert states.rows_by_run() == ["3", "2"]
    # Rolled back: what was there after the run is not what is there now.
    lake.roll_back("gold.shops", first)
    assert states.rows_by_run() == ["-", "2"]
    # Made anew: how many rows there were after either run is not known any more.
    assert states.build("--full-refresh", "-s", "shops") == {"success"}
    assert states.rows_by_run() == []
    assert states.build("--full-refresh") == {"success"}
    states.page()
    # What the commits told is gone with them.
    forget = ["forget", "--table", "shops", "--key", '{"id": 1}', "--purge", "--yes"]
    forget += ["--project-dir", str(lake.project), "--vars", json.dumps({"captures": []})]
    forget += ["--profiles-dir", str(lake.project / "profiles")]
    with lake.dbt_folders():
        done = CliRunner().invoke(lakehouse, forget, env=lake.environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    monkeypatch.setenv("DBT_TARGET_PATH", str(states.target))
    assert states.build() == {"success"}
    assert states.page().table("Gold")["gold.shops"]["Rows"] == "2"
    # Dropped, one after the other.
    for table in ("gold.shops", "silver.other_events", "silver.shops_changes"):
        lake.sql(f"drop table {table}")
        (states.target / "report.html").touch()
        states.page()
    # A page that can't be made leaves one that says so; one that can't be written leaves none.
    monkeypatch.setattr("dbt_lakehouse.commands.report.gather", lambda *_, **__: 1 / 0)
    assert states.build() == {"success"}
    html = (states.target / "report.html").read_text()
    assert "ZeroDivisionError of its report, a mistake of ours" in html
    monkeypatch.setattr("dbt_lakehouse.commands.report.write_page", lambda *_, **__: 1 / 0)
    assert states.build() == {"success"}
    assert not (states.target / "report.html").exists()


# In CI, test_what_waits_breaks_no_sum has payloads and rows that wait, and
# test_a_sum_that_does_not_agree_is_named each sum broken.
@pytest.mark.long
def test_what_waits_for_a_log(tmp_path: Path) -> None:
    """Payloads whose events are nowhere yet, for a log that has not read them, was never built, or
    is not built as it is declared by now; and those that a log has lost.
    """
    states = States(tmp_path)
    lake = states.lake

    def waiting() -> tuple[int, int | None]:
        found = facts(lake)
        assert [link for link in found.links if link.outcome is Outcome.BROKEN] == []
        (topic,) = found.topics
        assert topic.landed == topic.decoded + topic.invalid + topic.waiting
        logs = [each.waiting for each in found.tables if each.kind is Kind.LOG]
        return topic.waiting, logs[0] if logs else None

    states.land(change(0, "c", 1, "one"), change(1, "c", 2, "two"))
    assert waiting() == (2, None)
    assert states.build("-s", "other_events", "log_times") == {"success"}
    assert waiting() == (2, None)
    assert states.build() == {"success"}
    assert waiting() == (0, 0)
    states.land(change(2, "c", 3, "three"))
    assert waiting() == (1, 0)
    assert states.build("-s", "other_events", "log_times", "quarantined_payloads") == {"success"}
    assert waiting() == (1, 1)
    assert states.page().table("As other runs have left them")["gold.shops"]["Waiting"] == "1"
    assert states.build() == {"success"}
    assert waiting() == (0, 0)
    page = states.page()
    assert page.table("Gold")["gold.shops"]["Waiting"] == "0"
    # One that is not for the log.
    other = {"connector": "postgresql", "db": "shop", "schema": "app", "table": "others"}
    states.land(row_change("debezium.shops", 3, "c", 1, other, title="other").line())
    assert states.build("-s", "other_events", "log_times", "quarantined_payloads") == {"success"}
    assert waiting() == (0, 0)
    assert states.build() == {"success"}
    with lake.tampered("delete from silver.shops_changes where _position.offset = 1"):
        broken = {
            (link.link, link.of): (link.expected, link.found)
            for link in facts(lake).links
            if link.outcome is Outcome.BROKEN
        }
    assert broken == {
        ("landed_decoded", "debezium.shops"): (4, 3),
        ("events_logged", "silver.shops_changes"): (3, 2),
        ("log_gold", "gold.shops"): (2, 3),
    }


def test_the_doctor_looks_at_the_lake(demo: Lake) -> None:
    project = demo.load(captures=[])
    found = {each.about: each for each in doctor(project.options)}
    assert {each.state for each in found.values()} == {State.OK}
    assert found["locks"].told == "no process holds one"
    assert f"{demo.folder}/lake/catalog.db" in found["catalog"].told
    moved = datetime.now(UTC) - timedelta(days=9)
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr("dbt_lakehouse.commands.doctor.now", lambda: moved)
        found = {each.about: each for each in doctor(project.options)}
    assert found["clock"].state is State.WARN and "by NTP" in found["clock"].told


# --- Without a lake -------------------------------------------------------------------------------


def test_there_is_no_lake_and_none_is_made(tmp_path: Path) -> None:
    found = status(Lake(tmp_path), "--json")
    assert (found.code, found.stdout) == (UNUSABLE, "")
    assert "there is no lake yet" in found.stderr
    assert [*tmp_path.iterdir()] == []


def test_the_page_names_what_the_document_has() -> None:
    page = (ROOT / "docs/monitoring.md").read_text()
    names = {each.name for kind in (Facts, Topic, TableStatus, Link, Run) for each in fields(kind)}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
    assert [kind for kind in Kind if f"`{kind}`" not in page] == []


HOSTILE = ['a"b', "back\\slash", "new\nline", '{x="1"} 7 # EOF', "\u202eright-to-left", "é\x1b[0m"]


def test_labels_are_any_text(tmp_path: Path) -> None:
    at = "2026-11-21T10:00:00Z"
    topics = [
        Topic(name, 2, 0, 2, 0, 2, 0, True, False, False, at, None, 7, 1.5, None, 6, 2.0, 8.5)
        for name in HOSTILE
    ]
    report = report_of(Facts("2026-11-21T10:00:00Z", topics, [], [], None))
    assert [each.of for each in report.alerts] == HOSTILE
    # A terminal shows them, and obeys none; what one is told to type is one word to a shell.
    told = report.text().splitlines()
    assert all(each.isprintable() for each in [*told, report.summary()])
    for name, line in zip(HOSTILE, told[-len(HOSTILE) :], strict=True):
        assert f"--topic {printable(quote(name))}`" in line
    file = tmp_path / "metrics.prom"
    write_metrics(file, report)
    text = file.read_text()
    assert text.endswith("\n# EOF\n") and text.count("# EOF\n") == 1
    for parse in (parser.text_string_to_metric_families, older.text_string_to_metric_families):
        samples = {each.name: each.samples for each in parse(text)}
        found = samples["lakehouse_topic_lag_seconds"]
        assert [(each.labels["topic"], each.value) for each in found] == [
            (name, 1.5) for name in HOSTILE
        ]
        found = samples["lakehouse_topic_built_seconds"]
        assert [(each.labels["topic"], each.labels["quantile"], each.value) for each in found] == [
            (name, *each) for name in HOSTILE for each in (("0.5", 2.0), ("0.99", 8.5))
        ]
    with pytest.raises(WriteError):
        write_metrics(tmp_path / "missing" / "metrics.prom", report)
    assert metrics(report).decode() == text


@pytest.mark.parametrize(
    ("written", "is_failed"),
    [
        (None, None),
        ("{", None),
        ({"args": {"which": "compile"}}, None),
        ([("model.shop.orders", "success"), ("test.shop.unique", "warn")], False),
        ([("model.shop.orders", "error"), ("test.shop.unique", "skipped")], True),
        ([("model.shop.orders", "success"), ("test.shop.unique", "fail")], True),
    ],
)
def test_the_last_run(tmp_path: Path, written: Any, is_failed: bool | None) -> None:
    if isinstance(written, list):
        results = [
            {"unique_id": name, "status": how, "relation_name": "`gold`.`orders`"}
            for name, how in written
        ]
        written = {
            "metadata": {"generated_at": "2026-11-21T10:00:00.123456Z"},
            "args": {"which": "build"},
            "results": results,
        }
    if written is not None:
        text = written if isinstance(written, str) else json.dumps(written)
        (tmp_path / "run_results.json").write_text(text)
    run = read_run(tmp_path, "gold")
    assert (None if run is None else run.is_failed) == is_failed
    report = report_of(Facts("2026-11-21T10:00:00Z", [], [], [], run))
    assert [each.alert for each in report.alerts] == (["run_failed"] if is_failed else [])
    if run is not None:
        assert run.statuses.keys() == {"gold.orders"}
        assert run.ended_at == "2026-11-21T10:00:00Z"


@pytest.mark.parametrize(
    ("gold", "minute", "has_failed"), [("gold", 1, True), ("gold", -1, False), ("other", 1, False)]
)
def test_a_run_that_failed_before_its_models(
    tmp_path: Path, gold: str, minute: int, has_failed: bool
) -> None:
    """dbt leaves no results of it, and those of the run before stay."""
    moment = datetime(2026, 11, 21, 10, tzinfo=UTC)
    metadata = {"generated_at": f"{moment:%FT%TZ}"}
    written = {"metadata": metadata, "args": {"which": "run"}, "results": []}
    (tmp_path / "run_results.json").write_text(json.dumps(written))
    ended = moment + timedelta(minutes=minute)
    runs.keep(
        tmp_path, runs.Run("a", "build", "dev", gold, ended, ended, [], error="the disk is full")
    )
    alerts = report_of(Facts("any", [], [], [], read_run(tmp_path, "gold"))).alerts
    assert [each.alert for each in alerts] == (["run_failed"] if has_failed else [])
    for alert in alerts:
        assert "before its models, the disk is full; `dbt build` once" in str(alert)


@pytest.mark.parametrize(
    ("status", "same", "told", "has_failed"),
    [
        ("success", True, "dbt build was interrupted, 2026-11-21T10:00:00Z", False),
        ("error", True, "dbt build failed, 2026-11-21T10:00:00Z", True),
        # Of the command before.
        ("error", False, "dbt build was interrupted, 2026-11-21T10:01:00Z", False),
    ],
)
def test_an_interrupted_run_is_told_and_has_not_failed(
    tmp_path: Path, status: str, same: bool, told: str, has_failed: bool
) -> None:
    """dbt leaves the results of what was done by then, if anything."""
    moment = datetime(2026, 11, 21, 10, tzinfo=UTC)
    metadata = {"generated_at": f"{moment:%FT%TZ}", "invocation_id": "b" if same else "a"}
    results = [{"unique_id": "model.shop.orders", "status": status}]
    written = {"metadata": metadata, "args": {"which": "build"}, "results": results}
    (tmp_path / "run_results.json").write_text(json.dumps(written))
    ended, how = moment + timedelta(minutes=1), ending_text(KeyboardInterrupt())
    runs.keep(tmp_path, runs.Run("b", "build", "dev", "gold", ended, ended, [], error=how))
    report = report_of(Facts("any", [], [], [], read_run(tmp_path, "gold")))
    assert told in report.text()
    assert [each.alert for each in report.alerts] == (["run_failed"] if has_failed else [])


# --- Where events are ---------------------------------------------------------------------------


@pytest.mark.parametrize("may_be_forgotten", [False, True])
@pytest.mark.parametrize("waits", [[], ["(values ('t', 0, 4), ('t', 0, 5)) as w ({})"]])
@pytest.mark.parametrize("looked", [None, '(select * from bronze where "offset" < 9)'])
def test_payloads_are_told_by_the_places_of_their_events(
    may_be_forgotten: bool, waits: list[str], looked: str | None
) -> None:
    """Of ten payloads: two in a log, one in both tables, one invalid, two nowhere, a batch without
    its first event and one without a middle one, one that was forgotten, and one that nobody has
    looked at; and an event of none.
    """
    with duckdb.connect() as duck:
        duck.execute(
            """
            create table bronze as
            select 't' as topic, 0 as partition, i as offset,
                case when i = 8 then [{'key': 'lakehouse.forgotten', 'value': ''::blob}]
                    when i = 7 then null else [] end as headers
            from range(10) as r (i);
            create table events (place bigint, number int, is_invalid bool, is_change bool);
            insert into events values (0, 0, false, true), (1, 0, false, true), (2, 0, false, true),
                (2, 0, false, false), (3, 0, true, false), (3, 1, false, true), (6, 1, false, true),
                (7, 0, false, true), (7, 2, false, true), (20, 0, false, true)
            """
        )
        rows = """select 't' as topic, 0 as "partition", place as "offset", number as event_index,
            is_invalid, is_change from events"""
        given = [each.format(PAYLOAD) for each in waits]
        sql = placed_sql(
            "bronze", [rows], looked=looked, waits=given, may_be_forgotten=may_be_forgotten
        )
        ((topic, *counts),) = duck.execute(sql).fetchall()
    without = 2 + (not may_be_forgotten) + (looked is None)
    assert topic == "t"
    assert Placed(*counts) == Placed(
        looked=10 if looked is None else 9,
        payloads=6,
        events=9,
        changes=8,
        invalid=1,
        strays=1,
        forgotten=1 if may_be_forgotten else 0,
        waiting=2 if waits else 0,
        missing=2 + without - (2 if waits else 0),
    )


# --- Which keys are live --------------------------------------------------------------------------

events = st.builds(
    Change,
    operation=st.sampled_from(["insert", "update", "delete", "truncate"]),
    occurred_at=st.none() | st.integers(0, 4).map(lambda hour: hour * HOUR) | st.just(40 * HOUR),
    kafka_timestamp=st.integers(0, 4).map(lambda hour: hour * HOUR),
    position=st.builds(
        Position,
        st.none() | st.integers(0, 3).map(lambda hour: hour * HOUR),
        st.sampled_from("ab"),
        st.integers(0, 1),
        st.integers(0, 99),
        st.just(0),
        st.none() | st.sampled_from(["p11", "p11 !", "p12", "p210"]),
    ),
    expires_at=st.none() | st.integers(0, 4).map(lambda hour: hour * HOUR),
    values=st.just(()),
    unchanged=st.just(()),
    source=st.sampled_from(["one", "two"]),
)
TIME = "make_timestamptz({}::bigint)"


def row(change: Change, key: int | None, previous: int | None) -> str:
    """A row of a log, as SQL."""
    at, topic, *place, source = change.position

    def time(micros: int | None) -> str:
        return "null::timestamptz" if micros is None else TIME.format(micros)

    position = (
        f"{{'source': {'null' if source is None else repr(source)}::varchar,"
        f" 'log_time': {time(at)}, 'topic': '{topic}', 'partition': {place[0]},"
        f" 'offset': {place[1]}, 'event_index': {place[2]}}}"
    )
    keys = ["null::int" if each is None else f"{each}::int" for each in (key, previous)]
    return (
        f"select {keys[0]} as id, {{'id': {keys[1]}}} as _previous_key,"
        f" '{change.operation}' as _operation, {time(change.occurred_at)} as _occurred_at,"
        f" {time(change.kafka_timestamp)} as _kafka_timestamp, {position} as _position,"
        f" '{change.source}' as _source, {key or 0}::varchar as _digest,"
        f" {time(change.expires_at)} as _expires_at, 'ns' as _namespace"
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(events, st.integers(1, 3), st.none() | st.integers(1, 3)),
        min_size=1,
        max_size=12,
        unique_by=lambda each: each[0].position._replace(source=None),
    ),
    st.sampled_from(["several", "single", "ordered", "by_time", "aerospike"]),
    st.lists(st.integers(1, 4), max_size=4),
)
def test_live_keys_are_those_of_the_fold(
    log: list[tuple[Change, int, int | None]], kind: str, gold: list[int]
) -> None:
    is_aerospike = kind == "aerospike"
    if kind != "ordered":
        # Only such a log has places of its source's.
        log = [
            (change._replace(position=change.position._replace(source=None)), key, old)
            for change, key, old in log
        ]
    if is_aerospike or kind == "by_time":
        log = [each for each in log if each[0].operation != "truncate"]
    # Of a namespace, the previous key says that the event has no set: a delete.
    deletes = [each for each in log if is_aerospike and each[2] and each[0].operation == "delete"]
    own = [each for each in log if each not in deletes]
    keys = {key for change, key, _ in own if change.operation != "truncate"}
    if not is_aerospike:
        moved = {old for change, _, old in own if old and change.operation != "truncate"}
        keys |= moved
    expected = set()
    for key in keys:
        changes = []
        for change, of, old in [*own, *deletes]:
            source = change.source if kind == "several" else None
            change = change._replace(source=source)
            if not is_aerospike:
                change = change._replace(expires_at=None)
            if change.operation == "truncate":
                changes.append(change)
                continue
            if of == key:
                changes.append(change)
            if not is_aerospike and old == key and old != of:
                changes.append(change._replace(operation="delete"))
        state = fold(changes, order_by_source_time=kind in ("by_time", "aerospike"), as_of=2 * HOUR)
        if state is not None and state.is_live:
            expected.add(key)
    rows = [
        row(
            change if is_aerospike else change._replace(expires_at=None),
            None if change.operation == "truncate" else key,
            None if change.operation == "truncate" or is_aerospike or old == key else old,
        )
        for change, key, old in own
    ]
    if not rows:
        return
    with duckdb.connect() as duck:
        duck.execute("set timezone = 'UTC'")
        duck.execute(f"create table log as {' union all '.join(rows)}")
        without_set = [row(change, key, None) for change, key, _ in deletes]
        empty = f"{rows[0]} limit 0"
        duck.execute(f"create table deletes as {' union all '.join(without_set) or empty}")
        held = ", ".join(f"({each}, '{each}')" for each in gold) or "(null, null)"
        duck.execute(
            f"create table gold as select * from (values {held}) as g (id, _digest)"
            " where id is not null"
        )

        def one(sql: str) -> tuple[Any, ...]:
            (found,) = duck.execute(sql).fetchall()
            return found

        declared = {
            "key": ["_digest"] if is_aerospike else ["`id`"],
            "order_by_source_time": kind in ("by_time", "aerospike"),
            "several_sources": kind == "several",
            "namespace": "ns" if is_aerospike else None,
        }
        if kind == "ordered":
            declared["order_by"] = [{"form": "number", "column": "id"}]
        found = live_keys(
            one,
            declared,
            log="log",
            gold="gold",
            deletes="deletes" if is_aerospike else None,
            as_of="1970-01-01 02:00:00.000000",
        )
    assert found is not None
    assert (found.keys, found.live) == (len(keys), len(expected))
    assert found.missing == len(expected - {*gold})
    assert found.extra == len({*gold} - expected)


def test_nothing_is_said_to_compare_a_table_without_a_key() -> None:
    """It has no data test of that kind: they refuse it."""
    no_lake: Any = None
    for kind, said in (
        (
            Kind.KEYLESS,
            "gold.scans has no key, so nothing compares it with its log: `dbt run --full",
        ),
        (
            Kind.HISTORY,
            "gold.scans: its data test compares it with its log, by `dbt test -s scans`",
        ),
    ):
        _, link = _gold(no_lake, "gold.scans", "silver.scans_changes", kind, 4)
        assert link.outcome == "unchecked" and str(link.told).startswith(said)
