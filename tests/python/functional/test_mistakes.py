"""A mistake that can be told without Spark is told before Spark starts, and leaves nothing."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner
from support.lakes import Lake

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.generate.generate_output import GenerateError
from dbt_lakehouse.commands.generate.project_files import ProjectFiles
from dbt_lakehouse.commands.standard_streams import (
    FAILED,
    INTERRUPTED,
    NOT_WELL,
    READER_GONE,
    UNUSABLE,
)
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.errors import ConfigurationError, SessionError
from dbt_lakehouse.lake.catalog import CATALOG_URI, SQLITE, WAREHOUSE
from dbt_lakehouse.landing.kafka.stream import refuse_unlisted
from dbt_lakehouse.session import opening as session
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.spark.java import find_java


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a session after all fails."""

    def open_session(project: Project) -> None:
        raise AssertionError("a session was opened")

    monkeypatch.setattr(Project, "open_session", open_session)


def told(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a call which can't be used prints."""
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, error = capfd.readouterr()
    assert (ended.value.code, out, error.count("\n")) == (2, "", 1), error
    return error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("land", "nowhere.jsonl"), "nowhere.jsonl: No such file or directory"),
        (("land", "{folder}"), "{folder}: Is a directory"),
        (("land", "{folder}/bad.jsonl"), "bad.jsonl: line 1: not a JSON object"),
        (
            ("land", "{folder}/bad.jsonl", "--vars", "{{"),
            "--vars '{{' is not YAML or JSON of names",
        ),
        (("generate", "--topic", "any"), "there is no lake yet, because "),
        (("redrive",), "there is no lake yet, because "),
        (("forget", "--purge"), "there is no lake yet, because "),
        (("maintain", "--dry-run"), "there is no lake yet, because "),
        (("report",), "there is no lake yet, because "),
        (("show",), "there is no lake yet, because "),
        (("why", "--table", "accounts", "--key", "1"), "there is no lake yet, because "),
        (
            ("land", "--kafka", "--vars", "{{topics: [{{pattern: 'a(', format: lindorm_json}}]}}"),
            "pattern 'a(', which is not a regular expression: missing ), unterminated subpattern",
        ),
        (("migrate-catalog", "--to", "cluster"), "is the catalog that the lake is in"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_without_a_lake(
    demo: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    (tmp_path / "bad.jsonl").write_text("no JSON\n")
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(tmp_path / "lake"))
    with demo.dbt_folders():
        line = told(capfd, *(each.format(folder=tmp_path) for each in arguments))
    assert sentence.format(folder=tmp_path) in line
    assert not (tmp_path / "lake").exists()


def test_documentation_without_a_lake_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("DBT_LOG_PATH", str(tmp_path / "logs"))
    folders = ["--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles")]
    with pytest.raises(SystemExit) as ended:
        main(["docs", *folders])
    assert not ended.value.code
    assert "what the project declares, without SQL: there is no lake yet" in capfd.readouterr().err
    assert "Number of the order." in (tmp_path / "target" / "docs.html").read_text()
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("generate", "--topic", "no.topic"), "bronze holds no message of the topic no.topic: "),
        (("redrive", "--topic", "no.topic"), "bronze holds no message of the topic no.topic: "),
        (
            ("forget", "--table", "nothing", "--key", "{}"),
            "nothing is not a gold table with a key; these are:",
        ),
        (
            ("why", "--table", "accuonts", "--key", "{}"),
            "accuonts is not a gold table with a key (did you mean accounts?); these are:",
        ),
        (
            ("maintain", "gold.ordres"),
            "no table that is maintained has this name (did you mean gold.orders?); such are",
        ),
        (
            ("generate", "--topic", "debezium.sales.order"),
            "the topic debezium.sales.order (did you mean debezium.sales.orders?): land it first",
        ),
        (("forget", "--table", "accounts", "--key", '{"id": 1}'), "a JSON object with account_id"),
        (
            ("forget", "--table", "accounts", "--key", '{"account_id": "one"}'),
            "a value of account_id is not of type bigint",
        ),
        (("maintain", "nothing"), "nothing: no table that is maintained has this name; such are"),
        (
            ("why", "--table", "nothing", "--key", "{}"),
            "nothing is not a gold table with a key; these are:",
        ),
        (("why", "--table", "orders", "--key", "{"), "--key is not JSON: expected an object with"),
        (
            ("explain", "--topic", "debezium.sales.order", "--offset", "1"),
            "bronze.raw_payloads has no message of the topic debezium.sales.order (did you mean"
            " debezium.sales.orders?): --kafka reads it from Kafka",
        ),
        (("show", "orders", "--columns", ""), "'': expected names, with a comma between two"),
        (("show", "orders", "--where", "status ="), "--where status =: syntax error at end of"),
        (("show", "orders", "--where", "true limit 1"), "--where true limit 1: syntax error at"),
        (("status", "--openmetrics", "nowhere/a"), "nowhere/a: there is no such folder"),
        (("show", "accuonts"), "there is no table accuonts (did you mean gold.accounts"),
        (("quarantine", "--topic", "no.topic"), "bronze holds no message of the topic no.topic: "),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_in_a_lake(
    demo: Lake,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setenv("LAKEHOUSE_LAKE", demo.environment["LAKEHOUSE_LAKE"])
    tables = demo.reader().names
    with demo.dbt_folders():
        assert sentence in told(capfd, *arguments)
    assert demo.reader().names == tables


def test_nothing_to_redrive_needs_no_spark(
    demo: Lake, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_LAKE", demo.environment["LAKEHOUSE_LAKE"])
    with pytest.raises(SystemExit) as ended:
        main(["redrive", "--code", "too_large", "--json"])
    assert not ended.value.code
    done = json.loads(capfd.readouterr().out)
    assert done == {"payloads": 0, "decoded": 0, "events": 0, "left": 0}


def test_models_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("model-paths: [file/models]")
    files = ProjectFiles(tmp_path)
    files.refuse_unwritable()
    (tmp_path / "file").touch()
    with pytest.raises(GenerateError, match="file/models can't be written, and models are made"):
        files.refuse_unwritable()


def test_a_topic_that_surely_is_not_streamed() -> None:
    listed = {"topic": "shop.orders", "format": "debezium_json"}
    captured = {"topic": "shop.files", "format": "debezium_json", "kafka": False}
    pattern = {"pattern": "erp[.].*", "format": "debezium_json"}
    refuse_unlisted(topic_rules([listed, captured]), ["shop.orders"])
    # Java says what a pattern matches.
    refuse_unlisted(topic_rules([listed, pattern]), ["shop.carts"])
    for topic in ("shop.carts", "shop.files"):
        with pytest.raises(ConfigurationError, match=f"no entry for {topic} from Kafka"):
            refuse_unlisted(topic_rules([listed, captured]), [topic])
    with pytest.raises(ConfigurationError, match=r"for shop\.order from .+ mean shop\.orders\?"):
        refuse_unlisted(topic_rules([listed, captured]), ["shop.order"])


def test_of_a_pattern_only_its_brackets_are_judged_without_java() -> None:
    for pattern in (
        r"\p{L}+",
        "(?<a>x)",
        "[a[(]b)]",
        r"\Qa(\E",
        "[a-z&&[^b]]",
        "x{",
        "*",
        "a{9999999999}",
    ):
        assert topic_rules([{"pattern": pattern, "format": "debezium_json"}])
    for pattern in ("(a|b", "a)", "[a"):
        with pytest.raises(ConfigurationError, match="which is not a regular expression: "):
            topic_rules([{"pattern": pattern, "format": "debezium_json"}])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user's own project, in which commands are called."""
    folder = tmp_path / "depot"
    folder.mkdir()
    (folder / "dbt_project.yml").write_text("name: depot\nprofile: cdc_lakehouse\n")
    (folder / "profiles.yml").write_text((ROOT / "profiles" / "profiles.yml").read_text())
    for name in [each for each in os.environ if each.startswith("DBT_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("LAKEHOUSE_LAKE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("files", "environment", "sentence"),
    [
        ({"profiles.yml": None}, {}, "there is no profiles.yml in {folder}, nor in {home}/.dbt: "),
        ({}, {"DBT_PROFILES_DIR": "conf"}, "DBT_PROFILES_DIR is conf: there is no such folder"),
        ({}, {"DBT_PROJECT_DIR": ".."}, "DBT_PROJECT_DIR is ..: there is no dbt_project.yml in it"),
        (
            {"dbt_project.yml": "name: depot\nvars:\n\ttopics: []\n"},
            {},
            "{folder}/dbt_project.yml, line 3, column 1: this is not YAML: a tab; YAML is indented",
        ),
        (
            {"profiles.yml": "cdc_lakehouse:\n  target: dev\n outputs: {}\n"},
            {},
            "{folder}/profiles.yml, line 3, column 2: this is not YAML: ",
        ),
        ({"dbt_project.yml": ""}, {}, "{folder}/dbt_project.yml is empty"),
        ({}, {"DBT_TARGET": "prod"}, "lakehouse: The profile 'cdc_lakehouse' does not have a targ"),
        (
            {"dbt_project.yml": "name: depot\nprofile: nobody\n"},
            {},
            "Could not find profile named 'nobody': {folder}/profiles.yml has cdc_lakehouse; ",
        ),
        (
            {"dbt_project.yml": "name: depot\nprofile: cdc_lakehouse\nvars: {captures: some}\n"},
            {},
            "vars.captures is 'some', not a list of globs",
        ),
    ],
    ids=str,
)
def test_in_a_project(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    files: dict[str, str | None],
    environment: dict[str, str],
    sentence: str,
) -> None:
    for name, text in files.items():
        (project / name).unlink() if text is None else (project / name).write_text(text)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    left = sorted(project.iterdir())
    line = told(capfd, "peek", "--topic", "t")
    assert sentence.format(folder=project, home=project.parent) in line
    assert sorted(project.iterdir()) == left


def test_outside_of_any_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir("/")
    line = told(capfd, "peek", "--topic", "t")
    assert "there is no dbt_project.yml in /, nor in a folder above it: go to the project's" in line


def test_an_entry_of_a_topic_with_a_misspelt_field(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = '{"patern": "depot.*", "format": "debezium_json"}'
    (project / "dbt_project.yml").write_text(
        f"name: depot\nprofile: cdc_lakehouse\nvars: {{topics: [{entry}]}}\n"
    )
    line = told(capfd, "peek", "--topic", "t")
    known = "compacted, format, kafka, land_as, pattern"
    assert f"has patern (did you mean pattern?); known are {known}" in line


def test_without_packages(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (project / "dbt_project.yml").open("a") as file:
        file.write("vars: {topics: []}\n")
    (project / "packages.yml").write_text("packages: [{local: ../shared}]\n")
    (project / "lake").mkdir()
    # That there is one suffices.
    (project / "lake" / "catalog.db").touch()
    line = told(capfd, "why", "--table", "parcels", "--key", "{}")
    assert 'Run "dbt deps"' in line and "Error" not in line
    assert not (project / ".user.yml").exists()


def test_macros_that_take_the_place_of_ours(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of those that a project calls by their plain names; all others are ours whatever it has."""
    with (project / "dbt_project.yml").open("a") as file:
        file.write("vars: {topics: []}\n")
    (project / "macros").mkdir()
    nothing = "{% macro NAME() %}{% endmacro %}\n"
    (project / "macros" / "times.sql").write_text(
        "".join(
            nothing.replace("NAME", name)
            for name in ("as_of", "history", "_place", "lakehouse__persist_docs", "of_its_own")
        )
    )
    (project / "macros" / "rest.sql").write_text(
        nothing.replace("NAME", "maintain_tables")
        + "{% test unique_key(model) %}select 1{% endtest %}\n"
        "{% materialization current_state, adapter='lakehouse' %}{% endmaterialization %}\n"
    )
    assert dbtRunner().invoke(["--no-use-colors", "parse"]).success
    lines = capfd.readouterr().out.splitlines()
    told = [line.split("macros/")[1] for line in lines if "takes the place" in line]
    assert [each.split(" takes the place")[0] for each in told] == [
        "times.sql: this project's macro history",
        "rest.sql: this project's macro maintain_tables",
        "rest.sql: this project's materialization current_state",
        "rest.sql: this project's generic test unique_key",
    ]
    assert "rename it, or call ours by its whole name, dbt.history" in told[0]
    assert "name, dbt_lakehouse.maintain_tables" in told[1]
    assert told[2].endswith("rename it")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("shwo",), "No such command 'shwo'. Did you mean 'show'?"),
        (("decode", "--format", "debezium-json"), "(did you mean debezium_json?); known are"),
        (("decode", "--formt", "debezium_json"), "'--formt'. Did you mean '--format'?"),
        (("why", "orders", "7"), "'--table': `lakehouse why --help` shows its usage"),
        (("status", "--frmt"), "'--frmt': `lakehouse status --help` shows its usage"),
        (("land",), "land needs either capture FILES or --kafka"),
        (("land", "--captures", "a b.jsonl"), "without an option: lakehouse land 'a b.jsonl'"),
        (("sql", "select 1", "--csv", "--json"), "--csv, --json: which? Rows are printed in one"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_in_a_call(
    project: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in told(capfd, *arguments)


def test_an_old_java_is_told_before_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("exit 1")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    release = tmp_path / "release"
    for version in ("11.0.2", "1.8.0_392"):
        release.write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        with pytest.raises(SessionError, match=f"needs Java 17 or later, and {java} is {version}:"):
            find_java()
    for text in ('JAVA_VERSION="17"\n', 'JAVA_VERSION="21.0.2"\n', "nothing of it\n"):
        release.write_text(text)
        assert find_java() == str(java)


def test_a_spark_that_does_not_start_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: object) -> None:
        raise SessionError("no Java")

    monkeypatch.setattr(session, "_start", start)
    parameters = {WAREHOUSE: "new/lake/warehouse", CATALOG_URI: f"{SQLITE}new/lake/catalog.db"}
    with pytest.raises(SessionError, match="no Java"):
        session.start_session(parameters, tmp_path)
    assert not [*tmp_path.iterdir()]
    # What was there stays.
    (tmp_path / "new").mkdir()
    with pytest.raises(SessionError, match="no Java"):
        session.start_session(parameters, tmp_path)
    assert [*tmp_path.rglob("*")] == [tmp_path / "new"]


@pytest.mark.parametrize("asked_for", [False, True])
def test_a_selection_of_nothing_is_told_without_colour_if_that_is_not_wanted(
    demo: Lake,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    asked_for: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    folders = ["--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles")]
    colours = ["--use-colors"] if asked_for else []
    with demo.dbt_folders():
        done = dbtRunner().invoke(["run", "-s", "nothing", *folders, *colours])
    assert done.success
    shown = capfd.readouterr().out
    assert "The selection criterion 'nothing' does not match any enabled nodes" in shown
    # Its first line comes before any adapter is asked.
    assert ("\x1b" in shown.partition("\n")[2]) == asked_for


def test_a_clone_is_refused_with_what_to_do_instead(project: Path) -> None:
    settings = "name: depot\nprofile: cdc_lakehouse\nvars: {topics: []}\n"
    (project / "dbt_project.yml").write_text(settings)
    (project / "models").mkdir()
    (project / "models" / "one.sql").write_text("select 1 as one")
    assert dbtRunner().invoke(["parse"]).success
    state = (project / "target").rename(project / "state")
    done = dbtRunner().invoke(["clone", "--state", str(state)])
    assert "dbt clone is not supported: Iceberg has no shallow clone. To" in str(done.exception)
    assert not (project / "lake").exists()


def test_names_are_completed(
    demo: Lake,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def completed(*words: str) -> set[str]:
        environment = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setenv("_LAKEHOUSE_COMPLETE", "bash_complete")
            with pytest.raises(SystemExit) as ended:
                main([])
        assert ended.value.code == 0
        return {line.partition(",")[2] for line in capfd.readouterr().out.split()}

    assert completed("lakehouse", "mig") == {"migrate-catalog"}
    assert completed("lakehouse", "decode", "--format", "canal") == {"canal_json"}
    assert "bad_shape" in completed("lakehouse", "redrive", "--code", "bad_")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LAKEHOUSE_LAKE", demo.environment["LAKEHOUSE_LAKE"])
    assert completed("lakehouse", "show", "orders") == {"orders", "orders_history"}
    assert completed("lakehouse", "maintain", "bronze.raw_") == {"bronze.raw_payloads"}
    assert completed("lakehouse", "why", "--table", "prof") == {"profiles", "profiles_history"}
    assert completed("lakehouse", "forget", "--table", "silver.") == set()
    # Where there is no lake the command itself says so.
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(tmp_path))
    assert completed("lakehouse", "show", "") == set()


def test_help_tells_the_exit_codes(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capfd.readouterr().out
    for code in (0, FAILED, UNUSABLE, NOT_WELL, INTERRUPTED, READER_GONE):
        assert re.search(rf"^  +{code} +\w", shown, re.MULTILINE), code


@pytest.mark.parametrize(("output", "code"), [("a pipe", READER_GONE), ("/dev/full", FAILED)])
def test_output_that_nobody_takes(output: str, code: int) -> None:
    if output == "a pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(output, os.O_WRONLY)
    with os.fdopen(writer, "w") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ended:
            main(["--version"])
    assert ended.value.code == code
