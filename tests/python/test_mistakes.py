"""A mistake that can be told without Spark is told before Spark starts, and leaves nothing."""

import json
from pathlib import Path

import pytest
from lakes import Lake

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.generate.project_files import ProjectFiles
from dbt_lakehouse.commands.generate.report import GenerateError
from dbt_lakehouse.config.project import Project
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.landing.kafka.stream import refuse_unlisted


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
        (("land", "{folder}/bad.jsonl", "--vars", "{{"), "--vars '{{' is no YAML or JSON of names"),
        (("generate", "--topic", "any"), "there is no lake yet, for "),
        (("redrive",), "there is no lake yet, for "),
        (("forget", "--purge"), "there is no lake yet, for "),
        (("maintain", "--dry-run"), "there is no lake yet, for "),
        (("report",), "there is no lake yet, for "),
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("generate", "--topic", "no.topic"), "bronze holds no message of the topic no.topic: "),
        (("redrive", "--topic", "no.topic"), "bronze holds no message of the topic no.topic: "),
        (("forget", "--table", "nothing", "--key", "{}"), "nothing is no table of keys; such are"),
        (("forget", "--table", "accounts", "--key", '{"id": 1}'), "a JSON object with account_id"),
        (
            ("forget", "--table", "accounts", "--key", '{"account_id": "one"}'),
            "a value of account_id is no bigint",
        ),
        (("maintain", "nothing"), "nothing: no table that is maintained has this name; such are"),
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
