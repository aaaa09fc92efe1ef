"""examples/: the models are what `lakehouse generate` writes, and each README prints what it says.
debezium_postgresql is the project of test_package.
"""

import re
import shutil
from pathlib import Path
from typing import Final

import pytest
from support.pages import Terminal

from dbt_lakehouse.config.paths import ROOT
from local_kafka.postgres import USER, postgres

EXAMPLES: Final = ROOT / "examples"
# Where the README has PostgreSQL; here, wherever it can.
DATABASE: Final = "localhost:5432/lake"


def files(folder: Path) -> dict[str, str]:
    """The files in a folder, and their text."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_text() for each in found}


def play(
    name: str,
    page: str,
    folder: Path,
    environment: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Make a copy of an example without its models, write them as the page says, and do the rest of
    the page.
    """
    project = folder / "examples" / name
    shutil.copytree(EXAMPLES / name, project, ignore=shutil.ignore_patterns("models"))
    for each in ("shared", "profiles"):
        (folder / each).symlink_to(ROOT / each)
    generate, land = re.findall(r"`(lakehouse [^`]+)`", page)
    build = "dbt build\n"
    assert page.count(build) == 1
    Terminal(project, environment).play(page.replace(build, f"{land}\n{generate}\n{build}"), capfd)
    assert files(project / "models") == files(EXAMPLES / name / "models")


def test_an_aerospike_namespace_with_several_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "aerospike_namespace"
    play(name, (EXAMPLES / name / "README.md").read_text(), tmp_path, monkeypatch, capfd)


# In CI, test_catalogs builds, reads and maintains a lake in PostgreSQL.
@pytest.mark.long
def test_a_lake_whose_catalog_is_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "lake_on_postgresql"
    page = (EXAMPLES / name / "README.md").read_text()
    assert DATABASE in page and f"LAKEHOUSE_CATALOG_USER={USER} " in page
    with postgres(tmp_path) as address:
        database = address.removeprefix("jdbc:postgresql://")
        play(name, page.replace(DATABASE, database), tmp_path, monkeypatch, capfd)
        assert not list(tmp_path.rglob("catalog.db"))
