"""The whole demo as a user builds it: every model, data test and unit test, and the docs."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner
from dbt_common.exceptions import DbtRuntimeError
from support.lakes import DEMO_AS_OF, Lake
from support.report_pages import Page, is_sound

from dbt.adapters.lakehouse.connections import LakehouseConnectionManager
from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake.at_rest import tables_at_rest
from dbt_lakehouse.report.runs import RUNS_KEPT, kept
from dbt_lakehouse.runs.tables import columns_of
from tools.benchmarks.statements import asked_by
from tools.documents.recording import PICTURE, picture

# Rows that are live on that day, by a throwaway fold of the captures that whoever wrote the demo
# made from the semantics, without the project's SQL.
LIVE_ROWS = {
    "accounts": 14,
    "contacts": 19,
    "customers": 26,
    "devices": 26,
    "orders": 36,
    "products": 10,
    "profiles": 28,
    "regions": 7,
    "sessions": 22,
}
WITH_HISTORY = ("orders", "profiles")


def test_every_gold_table_holds_the_live_rows(demo: Lake) -> None:
    assert {name: len(demo.read(f"gold.{name}")) for name in LIVE_ROWS} == LIVE_ROWS
    gold = {table.removeprefix("gold.") for table in demo.tables() if table.startswith("gold.")}
    assert gold == set(LIVE_ROWS) | {f"{name}_history" for name in WITH_HISTORY}


def test_a_build_warns_of_nothing(demo: Lake) -> None:
    # Other commands come after it.
    log, _, _ = (demo.folder / "logs" / "dbt.log").read_text().partition("Done. PASS=")
    assert "OK created sql current_state model" in log
    assert [line for line in log.splitlines() if "[warn " in line] == []


def test_how_fresh_the_sources_are(demo: Lake) -> None:
    """Bronze by when it was landed; each source table by its last event, which is long ago."""
    fresh = demo.dbt("source", "freshness", as_of=DEMO_AS_OF)
    assert fresh == {"raw_payloads": "pass", **dict.fromkeys(LIVE_ROWS, "warn")}


def test_histories_end_with_the_live_rows(demo: Lake) -> None:
    for name in WITH_HISTORY:
        versions = demo.read(f"gold.{name}_history")
        assert sum(version["is_current"] for version in versions) == LIVE_ROWS[name]
        assert len(versions) > LIVE_ROWS[name]


def test_every_captured_message_is_in_bronze(demo: Lake) -> None:
    captured = {
        (message["topic"], message["partition"], message["offset"])
        for capture in (ROOT / "seeds").glob("*.jsonl")
        for message in map(json.loads, capture.read_text().splitlines())
    }
    landed = demo.read("bronze.raw_payloads")
    assert {(row["topic"], row["partition"], row["offset"]) for row in landed} == captured
    assert len(landed) == len(captured)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command may open the lake."""

    def refuse(_: LakehouseConnectionManager) -> NoReturn:
        raise AssertionError("the lake was opened")

    monkeypatch.setattr(LakehouseConnectionManager, "_open_lake", refuse)


@pytest.mark.usefixtures("no_spark")
def test_a_compilation_starts_no_spark(demo: Lake) -> None:
    compiled = demo.dbt("compile", as_of=DEMO_AS_OF)
    assert compiled.keys() >= {*LIVE_ROWS, "no_topic_looks_compacted"}
    assert {*compiled.values()} == {"success"}


@pytest.mark.usefixtures("no_spark")
def test_a_compilation_needs_no_lake(tmp_path: Path) -> None:
    compiled = Lake(tmp_path).dbt("compile", as_of=DEMO_AS_OF)
    assert compiled.keys() >= {*LIVE_ROWS, "every_payload_is_accounted_for"}
    assert {*compiled.values()} == {"success"}
    assert not (tmp_path / "lake").exists()


def test_tables_are_without_spark_as_spark_has_them(demo: Lake) -> None:
    at_rest = tables_at_rest(demo.load().settings)
    assert at_rest is not None
    for name in demo.tables():
        assert at_rest.look_at(name) == demo.look_at(name)
        fields = columns_of(demo.spark, name)
        assert at_rest.columns_of(name) == {
            field.name: field.dataType.simpleString() for field in fields
        }


def reported(demo: Lake, target: Path, *options: str) -> Page:
    """The page of `lakehouse report`, which must be sound."""
    place = ["--project-dir", str(demo.project), "--profiles-dir", str(demo.project / "profiles")]
    environment = {**demo.environment, "DBT_TARGET_PATH": str(target)}
    result = CliRunner().invoke(
        lakehouse, ["report", *place, *options], env=environment, catch_exceptions=False
    )
    path = target / "report.html"
    assert (result.exit_code, result.stdout) == (0, f"wrote {path}\n"), result.output
    page = Page(path.read_text())
    is_sound(page)
    return page


def test_a_lake_that_others_have_built_has_a_report(demo: Lake, tmp_path: Path) -> None:
    """Of what the lake keeps alone: no run is remembered there."""
    page = reported(demo, tmp_path)
    assert "No run of dbt is remembered" in page.root.text
    gold = page.table("Gold")
    rows = {name.removeprefix("gold."): int(row["Rows"]) for name, row in gold.items()}
    assert {name: rows[name] for name in LIVE_ROWS} == LIVE_ROWS
    assert {row["State"] for row in gold.values()} == {"up to date"}
    assert {row["Waiting"] for row in gold.values()} == {"0"}
    assert {(row["New"], row["Gone"]) for row in gold.values()} == {
        (row["Rows"], "0") for row in gold.values()
    }
    for name in WITH_HISTORY:
        history, now = gold[f"gold.{name}_history"], gold[f"gold.{name}"]
        assert history["Newest event"] == now["Newest event"] != "-"
    changes = demo.reader()
    for name, row in gold.items():
        log = f"silver.{name.removeprefix('gold.').removesuffix('_history')}_changes"
        query = f"select count(*), count(*) filter (_operation = 'delete') from {log}"
        assert (int(row["Events"]), int(row["Deletes"])) == changes.query(query).fetchone()
    landed = len(demo.read("bronze.raw_payloads"))
    events = demo.decoded()
    decoded = sum(event.operation != "invalid" for _, event in events)
    assert 0 < decoded < len(events)
    assert f"{landed} messages read, {decoded} events decoded" in page.root.text
    quarantined = page.table("All that could not be decoded so far")
    assert quarantined.keys() >= {"unknown_format", "bad_shape"}
    assert "'***'" in quarantined["bad_shape"]["What the decoder says, of the newest"]
    assert len(page.all("svg")) >= 2
    told = reported(demo, tmp_path, "--payloads")
    assert "'***'" not in told.root.text and "'***'" in page.root.text


def test_the_report_counts_what_waits(demo: Lake, tmp_path: Path) -> None:
    """For the tables that it is for; a run of all others would find nothing, and they are up to
    date.
    """
    events = (
        "select * except (operation, source_database, source_schema, source_table, added_by),"
        " 'delete' as operation, 'shop' as source_database, 'sales' as source_schema,"
        " 'orders' as source_table, 'redrive' as added_by from silver.other_events limit 3"
    )
    with demo.tampered(f"insert into silver.other_events by name {events}"):
        gold = reported(demo, tmp_path).table("Gold")
    waiting = {name: row["Waiting"] for name, row in gold.items() if row["Waiting"] != "0"}
    assert waiting == {"gold.orders": "3", "gold.orders_history": "3"}
    behind = {name for name, row in gold.items() if row["State"] == "behind"}
    assert behind == waiting.keys()


def test_a_run_without_news_asks_nothing_of_spark(demo: Lake) -> None:
    """Not for sets either, though other tables have remembered deleted keys beside theirs. It
    leaves a report, as each run that may write dbt's artifacts.
    """
    page = demo.folder / f"target-{demo.project.name}" / "report.html"
    page.unlink(missing_ok=True)
    asked = asked_by(demo.spark, lambda: demo.dbt("run", "--write-json", as_of=DEMO_AS_OF))
    assert asked.jobs == 0
    drawn = Page(page.read_text())
    is_sound(drawn)
    assert "Good. Nothing landed, 0 events decoded, all tables up to date." in drawn.root.text
    gold = drawn.table("Gold")
    counts = ("Waiting", "New", "Gone", "Events", "Deletes")
    assert {row[name] for row in gold.values() for name in counts} == {"0"}
    assert f"report of this run: {page}" in demo.log_text()


def test_what_fails_is_in_the_report(demo: Lake, tmp_path: Path) -> None:
    """A test with the row that shows it, a model with its error, and what has kept a run from
    building any: also a run that fails leaves its page.
    """
    target = demo.folder / f"target-{demo.project.name}"
    with demo.tampered("insert into gold.regions select * from gold.regions where r_regionkey = 0"):
        command = ("test", "--write-json", "-s", "regions,test_type:generic")
        statuses = demo.dbt(*command, as_of=DEMO_AS_OF)
        (name,) = (
            each for each, status in statuses.items() if status == "fail" and "unique" in each
        )
        drawn = Page((target / "report.html").read_text())
    (rows,) = (table for table in drawn.all("section") if table.attributes.get("id") == "tests")
    assert f"{name}: failed" in rows.text
    found = "gold.regions: 1 key that more than one row has, or of which a part is null; "
    assert found in rows.text and found in demo.log_text()
    assert any("r_regionkey" in each.text for each in rows.all("table"))
    # Of the build: each takes a second.
    runs = kept(target, "gold", most=RUNS_KEPT)
    units = [test for run in runs for test in run.nodes if test.kind == "unit_test"]
    assert len(units) > 10
    assert all(test.of == [f"model.{test.unique_id.rpartition('.')[0][10:]}"] for test in units)
    assert demo.dbt("run", "--write-json", "-s", "profiles", as_of="2020-01-01") == {
        "profiles": "error"
    }
    drawn = Page((target / "report.html").read_text())
    is_sound(drawn)
    assert "Failed." in drawn.root.text and "gold.profiles : error" in drawn.root.text
    assert "vars.as_of is 2020-01-01" in drawn.root.text
    # The tables of this run, and behind them all others.
    assert {name: row["State"] for name, row in drawn.table("Gold").items()} == {
        "gold.profiles": "failed"
    }
    assert {"gold.orders", "silver.orders_changes"} <= {
        *drawn.table("As other runs have left them")
    }
    capture = tmp_path / "bad.jsonl"
    capture.write_text("no JSON\n")
    with pytest.raises(DbtRuntimeError, match="line 1: not a JSON object"):
        demo.dbt("run", "--write-json", as_of=DEMO_AS_OF, captures=[str(capture)])
    drawn = Page((target / "report.html").read_text())
    is_sound(drawn)
    assert "Failed. The command ended early, nothing landed" in drawn.root.text
    assert "line 1: not a JSON object" in drawn.root.text


def test_the_recorded_terminal_is_what_the_commands_print(demo: Lake) -> None:
    place = ["--project-dir", str(demo.project), "--profiles-dir", str(demo.project / "profiles")]

    def output_of(arguments: Sequence[str]) -> str:
        result = CliRunner().invoke(
            lakehouse, [*arguments[1:], *place], env=demo.environment, catch_exceptions=False
        )
        assert result.exit_code == 0, result.output
        return result.stdout

    with demo.dbt_folders():
        assert picture(output_of) == PICTURE.read_text()


def test_the_docs_know_every_column(demo: Lake, demo_docs: Path) -> None:
    target = demo.folder / f"target-{demo.project.name}"
    assert demo_docs == target / "docs.html"
    written = json.loads((target / "catalog.json").read_text())
    catalog, sources = written["nodes"], written["sources"]
    manifest = json.loads((target / "manifest.json").read_text())
    nodes = manifest["nodes"]
    models = {name: node for name, node in nodes.items() if node["resource_type"] == "model"}
    assert catalog.keys() == models.keys()
    for name, node in models.items():
        assert node["description"]
        # A change log's columns, and a history's, are described where gold and the docs have them.
        described = demo.look_at(f"{node['schema']}.{node['alias']}").comments
        # The page reads them from dbt's catalog.
        columns = catalog[name]["columns"]
        assert {column: told["comment"] for column, told in columns.items()} == described
        assert not node["columns"] or node["columns"].keys() == described.keys()
        assert [column for column, text in described.items() if not text] == []
    assert sources.keys() == manifest["sources"].keys()
    for table in (*catalog.values(), *sources.values()):
        # A longer one leaves no room for descriptions.
        assert all(len(column["type"]) < 40 for column in table["columns"].values()), table
    overview = manifest["docs"]["doc.cdc_lakehouse.__overview__"]["block_contents"]
    linked = {*re.findall(r"\(#!/(?:model|source)/(.+?)\)", overview)}
    assert linked <= {*models, *sources}
    assert {name for name, node in models.items() if node["schema"] == "gold"} <= linked
    assert [name for name, node in models.items() if not node["group"]] == []
    # dbt's page has the places for both, and the one for our style.
    text = demo_docs.read_text()
    assert "INLINE DATA" not in text and "</style></head>" in text
    # dbt's own overrides and tests take what they are given.
    macros = [
        each for each in manifest["macros"].values() if each["package_name"] == "dbt_lakehouse"
    ]
    assert [each["name"] for each in macros if not each["description"]] == []
