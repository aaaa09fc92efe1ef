"""Another dbt project that installs this one, as docs/package.md has it: the wheel and no checkout,
two commands, and a topic of its own is in gold, that of examples/debezium_postgresql. It has macros
of the names of ours, too, and ours stay ours.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

import pytest
from support.commands import DBT
from support.lakes import Lake
from support.small_project import add_namesakes

from dbt_lakehouse.config.paths import ROOT

EXAMPLE: Final = ROOT / "examples" / "debezium_postgresql"
TOPIC: Final = "erp.billing.invoices"
LAKEHOUSE: Final = ("-m", "dbt_lakehouse.cli")


def run(folder: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """A Python program in a folder; what it says, and it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel installs."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    # Else what an earlier build has left in the checkout would be in it too.
    settings = folder / "build.cfg"
    settings.write_text(f"[build]\nbuild_base={folder / 'build'}\n")
    run(ROOT, {"DIST_EXTRA_CONFIG": str(settings)}, "-m", "pip", "wheel", *options, str(ROOT))
    (path,) = folder.glob("*.whl")
    with ZipFile(path) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_the_example_has_the_files_of_the_page() -> None:
    packages, settings = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "package.md").read_text(), flags=re.DOTALL
    )
    captures = '  captures: ["seeds/*.jsonl"]\n'
    assert (EXAMPLE / "dbt_project.yml").read_text().replace(captures, "") == settings
    example = (EXAMPLE / "packages.yml").read_text()
    assert packages.startswith(example.replace("../../shared", "../cdc_lakehouse/shared"))


class Warehouse(NamedTuple):
    """A project of its own."""

    lake: Lake
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> str:
        """A command in its folder."""
        return run(self.lake.project, self.environment, *arguments)


@pytest.fixture(scope="module")
def warehouse(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("package")
    lake = Lake(folder, folder / "warehouse")
    # Before the checkout, which Python's path ends with.
    environment = {**lake.environment, "PYTHONPATH": str(wheel), "DBT_PROFILES_DIR": "."}
    return Warehouse(lake, environment | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"})


def test_a_project_of_its_own_has_its_topics_in_gold(wheel: Path, warehouse: Warehouse) -> None:
    lake = warehouse.lake
    project = lake.project
    said = run(lake.folder, warehouse.environment, *LAKEHOUSE, "init", project.name)
    assert "lakehouse add TOPIC --captures FILE" in said
    namesakes = add_namesakes(project)
    captures = str(EXAMPLE / "seeds" / f"{TOPIC}.jsonl")
    said = warehouse.run(*LAKEHOUSE, "add", TOPIC, "--captures", captures)
    for file in (EXAMPLE / "models").rglob("*.*"):
        assert (project / file.relative_to(EXAMPLE)).read_text() == file.read_text()
    landed, _, why, *_ = said.splitlines()
    assert landed == "landed 6, skipped 0"
    looks = "according to the source blocks of the 5 messages read"
    assert why == f"  note: topic {TOPIC} is debezium_json, {looks}"
    shown = warehouse.run(*LAKEHOUSE, "show")
    assert re.search(r"\nbuilt 8 models, \d+ tests passed\n", said) and said.endswith(shown)
    assert shown in (EXAMPLE / "README.md").read_text()
    reader = lake.reader()
    assert "silver.other_events" in reader.names
    # Its files are like the demo's, whose project says no more of them.
    made = {name: reader.look_at(name).properties for name in reader.names}
    for name in ("silver.other_events", "silver.invoices_changes", "gold.invoices"):
        assert made[name]["write.parquet.compression-level"] == "1", name
    assert made["gold.invoices"]["write.parquet.row-group-size-bytes"] == str(8 << 20)
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    (macro,) = (each for each in manifest["macros"].values() if each["name"] == "current_state")
    assert (wheel / "dbt/include/lakehouse" / macro["original_file_path"]).exists()
    assert {f"macro.warehouse.{name}" for name in namesakes} <= manifest["macros"].keys()


# In CI, the test before it has the tables made by the same macros, and other tests replace them.
@pytest.mark.long
def test_tables_are_replaced_whatever_the_project_says_of_their_format(
    warehouse: Warehouse,
) -> None:
    settings = warehouse.lake.project / "dbt_project.yml"
    settings.write_text(settings.read_text().replace("    +file_format: iceberg\n", ""))
    warehouse.run(*DBT, "run", "--full-refresh", "-s", "invoices_changes+")
    assert warehouse.run(*LAKEHOUSE, "show") in (EXAMPLE / "README.md").read_text()


def test_the_wheel_has_all_of_it(wheel: Path) -> None:
    for package in ("dbt", "dbt_lakehouse", "python_udfs"):
        ours = {
            path.relative_to(ROOT).as_posix(): path.read_bytes()
            for path in (ROOT / package).rglob("*.*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert len(ours) > 5
        installed = {name: wheel / name for name in ours}
        assert [name for name, path in installed.items() if not path.is_file()] == []
        assert all(installed[name].read_bytes() == text for name, text in ours.items())
