"""`lakehouse init`: what it writes, and what it refuses. test_add builds what it has written."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.init.new_project import Choice, init
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError, WriteError
from dbt_lakehouse.session.project import ProjectOptions, load

FILES = [
    *(".gitignore", "README.md", "dbt_project.yml", "models/.gitkeep"),
    *("packages.yml", "profiles.yml"),
]


def files(folder: Path) -> list[str]:
    found = (each for each in folder.rglob("*") if not each.is_dir())
    return sorted(each.relative_to(folder).as_posix() for each in found)


def test_a_new_folder_becomes_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    folder = tmp_path / "new" / "My-Depot"
    servers = "one:9092,[::1]:9093"
    topics = [("depot.parcels", "debezium_json"), ("007", "maxwell_json")]
    made = init(Choice(folder, servers=servers, topics=topics))
    assert files(folder) == FILES == sorted(made.written)
    assert made.text().endswith(
        f"\nnext:\n    cd {folder}\n    lakehouse doctor\n    lakehouse add TOPIC"
    )
    project = load(ProjectOptions(project_dir=str(folder), profiles_dir=str(folder)))
    assert project.variables["topics"] == [
        {"topic": topic, "format": name} for topic, name in topics
    ]
    source = project.kafka()
    assert source is not None and source.settings.servers == servers
    assert [rule.topic for rule in source.rules] == ["depot.parcels", "007"]
    settings = yaml.safe_load((folder / "dbt_project.yml").read_text())
    assert settings["name"] == "my_depot" and "my_depot" in settings["models"]
    (package,) = yaml.safe_load((folder / "packages.yml").read_text())["packages"]
    assert (folder / package["local"]).samefile(ROOT / "shared")
    # The environment comes first.
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "")
    again = load(ProjectOptions(project_dir=str(folder), profiles_dir=str(folder)))
    assert again.kafka() is None


def test_the_profile_is_ours_and_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    made = init(Choice(tmp_path, name="depot"))
    assert (tmp_path / "README.md").read_text() == "mine"
    assert made.left == ["README.md"] and "\nleft as they are: README.md\n" in made.text()
    assert files(tmp_path) == FILES
    profile = (tmp_path / "profiles.yml").read_bytes()
    assert profile == (ROOT / "profiles" / "profiles.yml").read_bytes()
    # One file, wherever it is looked for.
    for place in ("profiles.yml", "dbt_lakehouse/commands/init/profiles.yml"):
        assert (ROOT / place).resolve() == ROOT / "profiles" / "profiles.yml"


@pytest.mark.parametrize(
    ("catalog", "warehouse", "settings"),
    [
        (
            "jdbc:postgresql://db.example:5432/lake?ssl=true",
            "file:///srv/lake/warehouse",
            {"type": "jdbc", "jdbc.user": "reader", "jdbc.password": "p: 'w'"},
        ),
        ("https://catalog.example/api", "lake", {"type": "rest", "credential": "id:secret"}),
    ],
)
def test_the_catalog_is_one_that_machines_share(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    catalog: str,
    warehouse: str,
    settings: dict[str, str],
) -> None:
    """It differs from a project with a file in these settings only, also in the other target."""
    monkeypatch.delenv("LAKEHOUSE_LAKE", raising=False)
    init(Choice(tmp_path / "depot", catalog=catalog, warehouse=warehouse))
    init(Choice(tmp_path / "with_file"))
    for name, value in settings.items():
        suffix = {"jdbc.user": "USER", "jdbc.password": "PASSWORD", "credential": "CREDENTIAL"}
        if name in suffix:
            monkeypatch.setenv(f"LAKEHOUSE_CATALOG_{suffix[name]}", value)
    given = {"uri": catalog, "warehouse": warehouse, **settings}
    expected = {f"spark.sql.catalog.lake.{name}": value for name, value in given.items()}
    for target in ("dev", "cluster"):
        found, of_file = (
            load(ProjectOptions(str(tmp_path / each), str(tmp_path / each), target=target))
            for each in ("depot", "with_file")
        )
        assert {**found.parameters} == {**of_file.parameters, **expected}


def test_a_package_beside_the_project_has_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "cdc_lakehouse" / "shared"
    monkeypatch.setattr("dbt_lakehouse.commands.init.new_project._OUR_PACKAGE", package)
    for folder, path in (("depot", "../cdc_lakehouse/shared"), ("a/depot", str(package))):
        init(Choice(tmp_path / folder))
        (written,) = yaml.safe_load((tmp_path / folder / "packages.yml").read_text())["packages"]
        assert written == {"local": path}


@pytest.mark.parametrize("name", ["dbt_project.yml", "profiles.yml", "dependencies.yml"])
def test_a_folder_with_a_project_is_refused_and_left_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path)])
    assert ended.value.code == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert f"{tmp_path} has a dbt project already ({name})" in said
    assert files(tmp_path) == [name] and (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"name": "Depot"}, "--name 'Depot': a project's name has lower-case letters"),
        ({"name": "cdc_lakehouse"}, "is not one of cdc_lakehouse, dbt, "),
        ({"name": "on"}, "--name 'on': a project's name"),
        ({"folder": "2026"}, "2026: a project can't be called like this folder, so give --name"),
        ({"servers": "broker"}, "--kafka 'broker': expected servers like broker-1:9092"),
        ({"servers": "a:1, b:2"}, "--kafka 'a:1, b:2'"),
        ({"servers": "a:1') }}"}, "--kafka"),
        ({"catalog": "https://c.example/api"}, "--catalog and --warehouse go together"),
        ({"warehouse": "s3://lake"}, "--catalog and --warehouse go together"),
        (
            {"catalog": "jdbc:postgresql://me:secret@db/lake", "warehouse": "s3://lake"},
            "of a REST catalog, without a user",
        ),
        ({"catalog": "jdbc:mysql://db/lake", "warehouse": "s3://lake"}, "expected jdbc:postgresql"),
        ({"catalog": "jdbc:postgresql://db/lake", "warehouse": "lake"}, "--warehouse 'lake'"),
        ({"catalog": "https://c.example", "warehouse": '"lake'}, "--warehouse '\"lake'"),
        ({"topics": [("depot.*", "debezium_json")]}, "a pattern goes into vars.topics"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    tmp_path: Path, choice: dict[str, str], text: str
) -> None:
    folder = tmp_path / choice.pop("folder", "depot")
    with pytest.raises(ConfigurationError) as caught:
        init(Choice(folder, **choice))  # type: ignore[arg-type]
    assert text in str(caught.value)
    assert not folder.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "depot").write_text("")
    with pytest.raises(ConfigurationError, match="depot is a file: name a folder"):
        init(Choice(tmp_path / "depot"))
    with pytest.raises(WriteError, match="can't be written: Not a directory"):
        init(Choice(tmp_path / "depot" / "more"))


def test_neither_dbt_nor_spark_is_imported(tmp_path: Path) -> None:
    folder = tmp_path / "depot"
    look = "[each for each in ('dbt.cli', 'py4j', 'pyspark') if each in sys.modules]"
    program = (
        "import contextlib, sys; from dbt_lakehouse.cli import main\n"
        f"with contextlib.suppress(SystemExit): main(['init', {str(folder)!r}])\n"
        f"print({look})"
    )
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said.endswith("\n[]\n")
    assert files(folder) == FILES
