"""`lakehouse add`, from Kafka, in a project as `lakehouse init` writes it; test_package has it from
captures.
"""

import re
import shutil
from pathlib import Path
from shlex import quote
from textwrap import indent
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.debezium_messages import dumps
from support.kafka_topics import Kafka, Outgoing
from support.lakes import Lake, topic_entries
from support.metadata import row, table

from dbt_lakehouse.commands import add as add_module
from dbt_lakehouse.commands.add import Addition, add, built_text, others_text
from dbt_lakehouse.commands.add_dry_run import foresee
from dbt_lakehouse.commands.generate.generate_output import GenerateError
from dbt_lakehouse.commands.generate.generated_models import refuse_unlistable
from dbt_lakehouse.commands.init.new_project import Choice, init
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.landing.kafka.peeking import no_such_topic
from dbt_lakehouse.landing.stalled import TopicsStalledError
from dbt_lakehouse.session.dbt_commands import DbtError
from dbt_lakehouse.stored.topics import landed_topics
from dbt_lakehouse.telling import telling


@pytest.fixture
def fresh(tmp_path: Path) -> Lake:
    """The lake of a project that was just made, with its packages installed."""
    project = tmp_path / "depot"
    init(Choice(project))
    # Where lakes of tests look for it.
    (project / "profiles").mkdir()
    shutil.move(project / "profiles.yml", project / "profiles")
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "cdc_lakehouse").symlink_to(ROOT / "shared")
    return Lake(tmp_path, project)


# In CI, test_package takes topics of such a project to gold by `add`, from captures, and
# test_tutorial one from Kafka, by hand.
@pytest.mark.long
def test_a_fresh_project_builds_and_takes_a_topic_from_kafka_to_gold(
    fresh: Lake, kafka: Kafka
) -> None:
    # A broker is named, but no topic, and nothing has landed yet.
    outcomes = fresh.dbt("build", as_of=None)
    assert len(outcomes) > 20
    assert set(outcomes.values()) <= {"success", "pass"}

    settings = fresh.project / "dbt_project.yml"
    before = settings.read_text()
    with pytest.raises(ConfigurationError, match=r"the broker at .+ has no topic parsels, or does"):
        list(add(fresh.load(), Addition(["parsels"])))
    strange = kafka.create("strange")
    kafka.send(strange, [Outgoing(b"?")])
    with pytest.raises(GenerateError, match=r"strange: give --format.+; its pay.+ do not tell"):
        list(add(fresh.load(), Addition([strange])))
    assert settings.read_text() == before

    topic = kafka.create("depot.parcels")
    place = {"connector": "postgresql", "db": "depot", "schema": "public", "table": "parcels"}
    rows = [{"id": number, "kg": 0.5} for number in (1, 2)]
    kafka.send(
        topic,
        [
            Outgoing(dumps({"op": "c", "after": row, "source": place}), dumps({"id": row["id"]}))
            for row in rows
        ],
    )
    foreseen = "".join(foresee(fresh.load(), Addition([topic])))
    assert "\n  would write models/gold/parcels.yml\n" in foreseen
    assert f"+    - {{ topic: {topic}, format: debezium_json }}\n" in foreseen
    assert settings.read_text() == before and not (fresh.project / "models" / "gold").exists()
    assert topic not in landed_topics(fresh.reader())
    landed, written, built, shown = add(fresh.load(), Addition([topic]))
    assert landed == "kafka: landed 2 messages"
    assert f"\n  note: topic {topic} is debezium_json, according to the source" in written
    assert "\n  wrote models/gold/parcels.yml" in written and "next:" not in written
    # Of the strange topic.
    assert built.startswith("built 8 models, ") and "\n  warning: quarantine_rate: silver." in built
    assert shown.startswith("gold.parcels: 2 rows\n")
    assert settings.read_text() == before.replace(
        "topics: []", f"topics:\n    - {{ topic: {topic}, format: debezium_json }}"
    )


def test_kafka_has_topics_that_vars_do_not_list(
    fresh: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    listed = [*topic_entries(["a"]), {"topic": "b", "format": "debezium_json", "land_as": "c"}]
    found = fresh.load(topics=listed).kafka(["c", "d", "a"])
    assert found is not None
    assert [(rule.topic, rule.format) for rule in found.rules] == [
        *(("a", "debezium_json"), ("b", "debezium_json")),
        ("d", ""),
    ]
    said = str(no_such_topic(found, "dd"))
    assert said.endswith("has no topic dd, or doesn't let this user read it (did you mean d?)")
    said = str(no_such_topic(found, "invoices.jsonl"))
    assert said.endswith("user read it; `lakehouse add TOPIC --captures FILE` takes a file")
    none = fresh.load(topics=[])
    assert none.kafka() is None
    with pytest.raises(ConfigurationError, match=r"names a Kafka broker, but vars.topics"):
        none.require_kafka()
    only = none.kafka(["d"])
    assert only is not None and [rule.topic for rule in only.rules] == ["d"]
    # As `add --captures` lists it: its build must not ask the broker.
    captured = fresh.load(topics=[{"topic": "a", "format": "debezium_json", "kafka": False}])
    assert captured.kafka() is None
    with pytest.raises(ConfigurationError, match=r"names a Kafka broker, but vars.topics"):
        captured.require_kafka()


def test_a_dry_run_shows_what_would_be_written_and_writes_and_lands_nothing(tmp_path: Path) -> None:
    example = ROOT / "examples" / "debezium_postgresql"
    topic = "erp.billing.invoices"
    captures = [str(example / "seeds" / f"{topic}.jsonl")]
    project = tmp_path / "warehouse"
    init(Choice(project))
    depot: Any = SimpleNamespace(
        root=project, variables={}, refuse_landing_elsewhere=lambda: None, gold="gold"
    )
    before = texts_in(project)
    what, files, _ = foresee(depot, Addition([topic], captures))
    assert f"note: topic {topic} is debezium_json, according to the source blocks of the 5" in what
    assert f"{topic} -> invoices: would be created\n  invoice_id bigint, key\n" in what
    models = texts_in(example / "models")
    assert len(models) == 4
    for name, text in models.items():
        assert f"  would write models/{name}\n" in f"{what}\n"
        assert f"models/{name}:\n{indent(text, '    ')}" in files
    assert f"+    - {{ topic: {topic}, format: debezium_json, kafka: false }}" in files
    assert texts_in(project) == before

    # Where there are models, what would change.
    shutil.copytree(example / "models", project / "models", dirs_exist_ok=True)
    log = project / "models" / "silver" / "invoices_changes.sql"
    log.write_text(log.read_text().replace('            "due_on": "date",\n', ""))
    before = texts_in(project)
    what, files, _ = foresee(depot, Addition([topic], captures))
    assert f"{topic} -> invoices: would be changed\n  + due_on date\n" in what
    assert "models/silver/invoices_changes.sql, changed:\n" in files
    assert '    +            "due_on": "date",\n' in files and '"customer": "string"' not in files
    assert texts_in(project) == before

    with pytest.raises(ConfigurationError, match=r"topic erp\.billing\.invoice \(did you mean"):
        next(foresee(depot, Addition(["erp.billing.invoice"], captures)))
    with pytest.raises(GenerateError, match=r"--format maxwell_json: the topic .+ of another form"):
        next(foresee(depot, Addition([topic], captures, "maxwell_json")))
    # The file in place of its topic.
    other = tmp_path / "a file.txt"
    other.write_text("no JSON")
    for file, named in ((captures[0], topic), (str(other), "TOPIC")):
        told = re.escape(f"`lakehouse add {named} --captures {quote(file)}` adds those of captured")
        for taken in (add, foresee):
            with pytest.raises(ConfigurationError, match=told):
                next(taken(depot, Addition([file])))
    # A file that is not there, whose name no topic can have.
    for taken in (add, foresee):
        with pytest.raises(ConfigurationError, match=r"^no/file\.jsonl: there is no such file"):
            next(taken(depot, Addition(["no/file.jsonl"])))


def texts_in(folder: Path) -> dict[str, str]:
    """The texts of all files in a folder, by their names in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_a_project_without_a_list_of_topics_is_refused_before_anything_lands(
    tmp_path: Path,
) -> None:
    file = tmp_path / "dbt_project.yml"
    file.write_text("name: depot\nvars: {}\n")
    depot: Any = SimpleNamespace(root=tmp_path, variables={}, refuse_landing_elsewhere=lambda: None)
    said = r"has no list vars\.topics: add it by hand, with \{topic: parcels, format: maxwell_json"
    with pytest.raises(ConfigurationError, match=said):
        next(add(depot, Addition(["parcels"], format="maxwell_json")))
    file.write_text("name: depot\nvars: {topics: []}\n")
    refuse_unlistable(depot, ["parcels"], None)
    # Given on the command line, the list may have it.
    file.write_text("name: depot\n")
    depot.variables = {"topics": [{"topic": "parcels", "format": "maxwell_json"}]}
    refuse_unlistable(depot, ["parcels"], None)


def test_other_topics_that_can_not_go_on_are_told_and_are_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, told = "pass", list[str]()

    def stalled(*_: object) -> None:
        node = SimpleNamespace(name="not_null")
        result = SimpleNamespace(node=node, status=status, message="")
        error = TopicsStalledError("the topic orders has lost messages", [result])
        raise DbtError("dbt build: it has lost messages", None) from error

    monkeypatch.setattr(add_module, "run_dbt", stalled)
    with telling(told.append):
        (result,) = add_module._build(cast(Any, None))
    assert result.status == "pass" and told == ["the topic orders has lost messages"]
    status = "fail"
    with pytest.raises(DbtError):
        add_module._build(cast(Any, None))


def test_what_warns_is_told_of_a_build() -> None:
    def result(kind: str, status: str, name: str, message: str = "") -> SimpleNamespace:
        node = SimpleNamespace(resource_type=kind, name=name)
        return SimpleNamespace(node=node, status=status, message=message)

    results = [
        result("model", "success", "parcels"),
        result("model", "skipped", "orders"),
        result("unit_test", "pass", "one"),
        result("test", "pass", "two"),
        result("test", "warn", "quarantine_rate", "Got 1 result"),
        result("operation", "success", "hook"),
    ]
    assert built_text(results) == (
        "built 1 model, 2 tests passed\n  warning: quarantine_rate: Got 1 result"
    )


def test_events_of_other_tables_that_a_build_has_taken_are_told() -> None:
    def model(name: str, schema: str, *upstreams: str, **meta: object) -> SimpleNamespace:
        node = SimpleNamespace(resource_type="model", name=name, alias=name, schema=schema)
        node.unique_id = f"model.depot.{name}"
        node.depends_on = SimpleNamespace(nodes=[f"model.depot.{each}" for each in upstreams])
        node.config = SimpleNamespace(meta=meta)
        return SimpleNamespace(node=node, status="success")

    logs = ["parcels_changes", "orders_changes", "quiet_changes", "failed_changes"]
    results = [model(name, "silver", change_log={}) for name in logs]
    results += [model("parcels", "gold", "parcels_changes"), model("orders", "gold", logs[1])]
    before, after = table(row(1)), table(row(1, 2))
    assert after.chain[0].made_at > before.chain[0].made_at
    tables = {f"silver.{name}": after for name in logs[:2]} | {"silver.quiet_changes": before}
    tables["gold.orders"] = after
    began = after.chain[0].made_at
    assert others_text(results, ["gold.parcels"], tables, began) == (
        "the build also brought other tables up to date: silver.orders_changes 1 event"
    )
    assert others_text(results, ["gold.parcels", "gold.orders"], tables, began) == ""
