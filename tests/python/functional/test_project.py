"""Which project, profile and target a command takes: those that dbt takes."""

import os
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner
from support.lakes import copy_project

from dbt_lakehouse.cli import main
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import absolute
from dbt_lakehouse.session import profile
from dbt_lakehouse.session.project import ProjectOptions, load

OTHER_TARGET = """\
    ada:
      type: lakehouse
      method: session
      schema: ada
      server_side_parameters: {spark.sql.catalog.lake.warehouse: elsewhere}
"""

OTHER_PROFILES = """\
plain:
  target: "{{ env_var('NO_SUCH_TARGET', 'one') }}"
  outputs:
    one: &one
      type: "{{ 'lake' ~ 'house' }}"
      method: session
      schema: "{{ env_var('NO_SUCH_SCHEMA', 'gold') }}"
      server_side_parameters:
        spark.sql.catalog.lake.warehouse: "{% if env_var('NO_SUCH', '') %}a{% else %}b c{% endif %}"
        spark.number: "{{ 4 * 8 }}"
        spark.text: '{ "a": 1 }'
        spark.kept: |
          two
          lines {# and no more #}
    "{{ 1 }}": *one
filtered:
  target: one
  outputs:
    one:
      type: lakehouse
      method: session
      schema: gold
      server_side_parameters:
        spark.sql.catalog.lake.warehouse: "{{ 'elsewhere' | as_text }}"
        spark.version: "{{ dbt_version }}"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two targets, whose profile is beside it; the current folder is one of its
    own.
    """
    for name in [name for name in os.environ if name.startswith("DBT_")]:
        monkeypatch.delenv(name)
    project = copy_project(tmp_path / "project")
    profiles = (project / "profiles" / "profiles.yml").read_text()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "profiles.yml").write_text(profiles + OTHER_TARGET)
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "profiles"))
    monkeypatch.setenv("DBT_LOG_PATH", str(tmp_path / "logs"))
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.chdir(project / "models")
    return project


def schema_for_dbt() -> str:
    """The schema of a gold table, as dbt has it."""
    done = dbtRunner().invoke(["--quiet", "parse"])
    assert done.exception is None
    manifest: Any = done.result
    return str(manifest.nodes["model.cdc_lakehouse.orders"].schema)


def test_it_is_what_dbt_takes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(ProjectOptions()).gold == "gold"
    monkeypatch.setenv("DBT_TARGET", "ada")
    found = load(ProjectOptions())
    assert found.root == project
    assert found.gold == schema_for_dbt() == "ada_gold"


@pytest.mark.parametrize("call", [["land", "some.jsonl"], ["land", "--kafka"], ["stream"]])
def test_another_target_lands_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], call: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*call, "--target", "ada"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "lakehouse: nothing lands with target ada: bronze is shared, and landing is for the target"
        " whose schema is gold (dev)\n"
    )


def test_options_come_before_the_environment(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_TARGET", "ada")
    assert load(ProjectOptions(target="dev")).schema == "gold"
    other = copy_project(tmp_path / "other")
    monkeypatch.setenv("DBT_PROJECT_DIR", str(other))
    assert load(ProjectOptions()).root == other
    assert load(ProjectOptions(project_dir=str(project))).root == project
    # What commands pass on to dbt leads to the same.
    found = load(ProjectOptions())
    monkeypatch.delenv("DBT_TARGET")
    monkeypatch.delenv("DBT_PROJECT_DIR")
    assert load(found.options) == found


@pytest.mark.parametrize(
    ("options", "environment", "is_plain"),
    [
        (ProjectOptions(), {}, True),
        (ProjectOptions(), {"LAKEHOUSE_SMALL": "true", "LAKEHOUSE_LAKE": "other lake"}, True),
        (ProjectOptions(), {"DBT_TARGET": "ada", "DBT_PROFILE": ""}, True),
        (ProjectOptions(target="dev"), {"DBT_TARGET": "ada"}, True),
        (ProjectOptions(), {"DBT_ENGINE_TARGET": "ada", "DBT_TARGET": "dev"}, True),
        (ProjectOptions(profile="plain"), {}, True),
        (ProjectOptions(profile="plain", target="{{ 1 }}"), {}, True),
        (ProjectOptions(profile="filtered"), {}, False),
        (ProjectOptions(vars="{of_mine: ada}"), {}, False),
    ],
)
def test_a_profile_is_read_without_dbt_as_dbt_reads_it(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: ProjectOptions,
    environment: dict[str, str],
    is_plain: bool,
) -> None:
    with (tmp_path / "profiles" / "profiles.yml").open("a") as profiles:
        profiles.write(OTHER_PROFILES)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = load(options)
    settings = absolute(found.parameters, found.root)
    # dbt-spark's own, for Spark.
    del settings["spark.sql.ansi.enabled"]
    place = profile.find(options)
    assert {**place.settings, **settings} == place.settings
    assert place.gold == found.gold
    # Else the comparison is of dbt with itself.
    monkeypatch.setattr(profile, "load", lambda _: pytest.fail("asked dbt") if is_plain else found)
    profile.find(options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ProjectOptions(project_dir="nowhere"), "--project-dir is nowhere: there is no such fold"),
        (ProjectOptions(project_dir="/"), "--project-dir is /: there is no dbt_project.yml in it"),
        (ProjectOptions(profiles_dir="/"), "--profiles-dir is /: there is no profiles.yml in it"),
        (
            ProjectOptions(target="nobody"),
            r"^The profile 'cdc_lakehouse' does not have a target named 'nobody'\. The valid target"
            r" names for this profile are: \w+, \w+, \w+$",
        ),
        (
            ProjectOptions(profile="nobody"),
            "^Could not find profile named 'nobody': .*profiles.yml has cdc_lakehouse; `profile`",
        ),
        (ProjectOptions(vars="[1"), "vars"),
    ],
)
def test_what_is_not_there(project: Path, options: ProjectOptions, sentence: str) -> None:
    for find in (load, profile.find):
        with pytest.raises(ConfigurationError, match=sentence):
            find(options)


def test_another_adapters_target(project: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profiles" / "profiles.yml"
    profile.write_text(profile.read_text().replace("type: lakehouse", "type: spark\n      host: x"))
    with pytest.raises(ConfigurationError, match="has `type: spark`, and not `type: lakehouse`"):
        load(ProjectOptions())
