"""Another dbt project that installs this one: the wheel beside it and no checkout, the package of
models by packages.yml, and a topic of its own in gold: examples/debezium_postgresql, as
docs/package.md has it. It has macros of the names of ours, too, and ours stay ours.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest
from commands import DBT
from lakes import Lake
from small_project import add_namesakes

from dbt_lakehouse.config.paths import ROOT

EXAMPLE: Final = ROOT / "examples" / "debezium_postgresql"
TOPIC: Final = "erp.billing.invoices"


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


def copy_project(project: Path) -> None:
    """The example, without its models; docs/package.md has its files."""
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("models"))
    packages, settings = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "package.md").read_text(), flags=re.DOTALL
    )
    captures = '  captures: ["seeds/*.jsonl"]\n'
    assert (project / "dbt_project.yml").read_text().replace(captures, "") == settings
    shared = str(ROOT / "shared")
    (project / "packages.yml").write_text(packages.replace("../cdc_lakehouse/shared", shared))
    shutil.copytree(ROOT / "profiles", project / "profiles")


def test_a_project_of_its_own_has_its_topics_in_gold(wheel: Path, tmp_path: Path) -> None:
    project = tmp_path / "warehouse"
    copy_project(project)
    lake = Lake(tmp_path, project)
    # Before the checkout, which Python's path ends with.
    environment = {**lake.environment, "PYTHONPATH": str(wheel), "DBT_PROFILES_DIR": "profiles"}
    environment |= {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}

    namesakes = add_namesakes(project)
    run(project, environment, *DBT, "deps")
    run(project, environment, "-m", "dbt_lakehouse.cli", "land", f"seeds/{TOPIC}.jsonl")
    run(project, environment, "-m", "dbt_lakehouse.cli", "generate", "--topic", TOPIC)
    for file in (EXAMPLE / "models").rglob("*.*"):
        assert (project / file.relative_to(EXAMPLE)).read_text() == file.read_text()
    said = run(project, environment, *DBT, "build")
    assert "ERROR=0" in said

    page = (EXAMPLE / "README.md").read_text()
    assert run(project, environment, "-m", "dbt_lakehouse.cli", "show") in page
    # Tables are replaced whatever the project says of their format.
    settings = project / "dbt_project.yml"
    settings.write_text(settings.read_text().replace("    +file_format: iceberg\n", ""))
    run(project, environment, *DBT, "run", "--full-refresh", "-s", "invoices_changes+")
    assert run(project, environment, "-m", "dbt_lakehouse.cli", "show") in page
    assert "silver.other_events" in lake.tables()
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    (macro,) = (each for each in manifest["macros"].values() if each["name"] == "current_state")
    assert (wheel / "dbt/include/lakehouse" / macro["original_file_path"]).exists()
    assert {f"macro.warehouse.{name}" for name in namesakes} <= manifest["macros"].keys()


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
