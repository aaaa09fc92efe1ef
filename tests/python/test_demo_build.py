"""The whole demo as a user builds it: every model, data test and unit test, and the docs."""

import json
import re
from collections.abc import Sequence

import pytest
from click.testing import CliRunner
from lakes import DEMO_AS_OF, Lake

from benchmarks.statements import asked_by
from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands.docs import write_docs
from dbt_lakehouse.config.paths import ROOT
from docs.recording import PICTURE, picture

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


def test_a_run_without_news_asks_nothing_of_spark(demo: Lake) -> None:
    """Not for sets either, though other tables have remembered deleted keys beside theirs."""
    asked = asked_by(demo.spark, lambda: demo.dbt("run", as_of=DEMO_AS_OF))
    assert asked.jobs == 0


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


def test_the_docs_know_every_column(demo: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the build was: dbt need not parse the project again.
    target = demo.folder / f"target-{demo.project.name}"
    monkeypatch.setenv("DBT_TARGET_PATH", str(target))
    monkeypatch.setenv("DBT_LOG_PATH", str(demo.folder / "logs"))
    page = write_docs(demo.load(captures=[], as_of=DEMO_AS_OF))
    assert page == target / "docs.html"
    told = json.loads((target / "catalog.json").read_text())
    catalog, sources = told["nodes"], told["sources"]
    manifest = json.loads((target / "manifest.json").read_text())
    nodes = manifest["nodes"]
    models = {name: node for name, node in nodes.items() if node["resource_type"] == "model"}
    assert catalog.keys() == models.keys()
    for name, node in models.items():
        assert node["description"]
        # A change log's columns, and a history's, are described where gold and the docs have them.
        described = demo.look_at(f"{node['schema']}.{node['alias']}").comments
        assert catalog[name]["columns"].keys() == described.keys()
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
    text = page.read_text()
    assert "INLINE DATA" not in text and "</style></head>" in text
    # dbt's own overrides and tests take what they are given.
    macros = [
        each for each in manifest["macros"].values() if each["package_name"] == "dbt_lakehouse"
    ]
    assert [each["name"] for each in macros if not each["description"]] == []
