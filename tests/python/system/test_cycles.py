"""`lakehouse stream --build`: gold follows a real broker, in one process."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.request import urlopen

import pytest
import yaml
from support.commands import lakehouse, wait_until
from support.kafka_topics import Kafka, Outgoing
from support.lakes import Lake, Rows
from support.report_pages import Page
from support.small_messages import order
from support.small_project import small_project
from support.streams import MINUTE, ORDERS, START

from dbt_lakehouse.cli import main
from dbt_lakehouse.cli.landing import stream
from dbt_lakehouse.commands import watched_project
from dbt_lakehouse.commands.stream_lags import done_at, tables_of_topics
from dbt_lakehouse.commands.stream_news import has_same_rows
from dbt_lakehouse.commands.watched_project import WatchedProject, looked_at
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake.tables import Snapshot, Table
from dbt_lakehouse.session import parsed_project

BUILDS = ("stream", "--build", "--interval", "0.3")

# What dbt writes into a manifest when it compiles one: it puts the first model into the second, and
# a table's name for the `ref` of a foreign key. A seed can't be compiled.
FILES = {
    "models/gold/paid.sql": "{{ config(materialized='ephemeral') }}"
    " select order_id from {{ ref('orders') }} where status = 'paid'",
    "models/gold/paid_orders.sql": "{{ config(materialized='table') }}"
    " select count(*) as n from {{ ref('paid') }}",
    "models/gold/paid_orders.yml": """
models:
  - name: paid_orders
    columns: [{name: n, data_type: bigint}]
    constraints:
      - {type: foreign_key, columns: [n], to: ref('orders'), to_columns: [order_id]}
""",
    "seeds/colours.csv": "name\nred\n",
    "models/silver/returns_changes.sql": "{{ change_log(columns={'status': 'string'},"
    " source_database='shop', source_schema='sales', source_table='returns',"
    " key={'order_id': 'bigint'}) }}",
    "models/gold/returns.sql": "{{ config(contract={'enforced': false}) }}"
    "{{ current_state(ref('returns_changes')) }}",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("cycles")
    # Each change of a file has dbt parse: a small project is parsed sooner.
    project = small_project(folder / "project")
    for file in (ROOT / "models").glob("*/orders*"):
        if file.stem in ("orders", "orders_changes"):
            shutil.copy(file, project / file.relative_to(ROOT))
    for name, text in FILES.items():
        (project / name).write_text(text)
    contract = project / "models" / "gold" / "orders.yml"
    policy = "  - name: orders\n    config: {meta: {maintenance: {min_files: 2}}}\n"
    contract.write_text(contract.read_text().replace("  - name: orders\n", policy))
    return Lake(folder, project)


def change(place: int, op: str, number: int, status: str | None = None) -> Outgoing:
    """A change of an order, sent now; all changes of an order are in one partition."""
    message = order(ORDERS, place, START + place * MINUTE, op, number, status)
    sent = time.time_ns() // 1_000_000
    return Outgoing(message.value, message.key, None, number % 2, sent)


def returned(place: int, op: str, number: int, status: str | None = None) -> Outgoing:
    """The same of another table, whose topic has one partition."""
    sent = change(place, op, number, status)
    assert sent.value is not None
    value = json.loads(sent.value)
    value["source"]["table"] = "returns"
    return sent._replace(value=json.dumps(value).encode(), partition=0)


def orders(lake: Lake, columns: Sequence[str] = ("order_id", "status")) -> Rows:
    """Gold's rows as any reader sees them; none while there is no table."""
    try:
        rows = lake.read("gold.orders")
    except Exception:
        return []
    found = [{name: row[name] for name in columns if name in row} for row in rows]
    return sorted(found, key=lambda row: int(row["order_id"]))


def page_of(said: str) -> Page:
    """The page that is served beside the cycles."""
    found = re.search("the page is at (http://127.0.0.1:[0-9]+/)", said)
    assert found is not None
    with urlopen(found[1]) as answer:
        return Page(answer.read().decode())


def status(lake: Lake, *places: str) -> Any:
    """What `lakehouse status` says of the topic of orders."""
    with pytest.MonkeyPatch.context() as environment, redirect_stdout(StringIO()) as out:
        environment.setenv("LAKEHOUSE_LAKE", lake.environment["LAKEHOUSE_LAKE"])
        with pytest.raises(SystemExit):
            main(["status", "--no-kafka", "--json", *places])
    (topic,) = (each for each in json.loads(out.getvalue())["topics"] if each["topic"] == ORDERS)
    return topic


ENTRY: Final = {"topic": "cycles", "land_as": ORDERS, "format": "debezium_json"}
CHOSEN: Final = ("-s", "+orders paid_orders +returns", "--maintain-every", "0.1")


def in_order(lake: Lake, messages: int) -> None:
    """So many messages have landed, each once."""
    rows = lake.read("bronze.raw_payloads")
    places = {(row["topic"], row["partition"], row["offset"]) for row in rows}
    assert len(rows) == len(places) == messages


def test_gold_follows_kafka_in_one_process(lake: Lake, kafka: Kafka, tmp_path: Path) -> None:
    began = time.time()
    topic = kafka.create("cycles", 2)
    other = kafka.create("cycles-returns", 1)
    missing = {"topic": "cycles-not-there", "format": "debezium_json"}
    topics = [ENTRY, missing, {"topic": other, "format": "debezium_json"}]
    kafka.send(topic, [change(0, "c", 1, "new"), change(1, "c", 2, "new"), change(2, "c", 3)])
    kafka.send(other, [returned(0, "c", 2, "sent back")])
    log = lake.project / "models" / "silver" / "orders_changes.sql"
    contract = lake.project / "models" / "gold" / "orders.yml"
    declared, alive = log.read_text(), tmp_path / "alive"
    places = ("--project-dir", str(lake.project), "--profiles-dir", f"{lake.project}/profiles")
    options = (*BUILDS, *CHOSEN, "--liveness", str(alive), "--page", "0", *places)
    with lakehouse(lake, *options, topics=topics, captures=[]) as running:
        running.wait_for("kafka: landed 4 messages; topic cycles-not-there can't go on; built ")
        wait_until(alive.exists, "the file is touched")
        first = [{"order_id": 1, "status": "new"}, {"order_id": 2, "status": "new"}]
        assert orders(lake) == [*first, {"order_id": 3, "status": None}]

        kafka.send(topic, [change(3, "u", 1, "paid"), change(4, "d", 2)])
        second = [{"order_id": 1, "status": "paid"}, {"order_id": 3, "status": None}]
        running.wait_for("; built ", times=2)
        assert orders(lake) == second
        assert lake.read("gold.paid_orders") == [{"n": 1}]
        # The other table's models are none of those that this cycle was for.
        first_built, then_built = map(int, re.findall(r"; built (\d+) models", running.said))
        assert then_built == first_built - 2
        # Without news tables are maintained, and nothing is built; the process lives.
        running.wait_for(" gold.orders: 2 of 2 data files rewritten, 1 now")
        touched = alive.stat().st_mtime_ns
        wait_until(lambda: alive.stat().st_mtime_ns > touched, "it looks for news")
        assert running.said.count("; built ") == 2
        kafka.send(other, [returned(1, "u", 2, "refunded")])
        running.wait_for("; built ", times=3)
        (refunded,) = lake.read("gold.returns")
        assert refunded["status"] == "refunded"

        # A project that can't be read is told of, and waited for.
        log.write_text("{{ change_log(")
        running.wait_for("cycle failed, 1 time in turn: dbt parse: model orders_changes")
        page = page_of(running.said)
        (runs,) = (each for each in page.all("section") if each.attributes["id"] == "runs")
        cells = [[each.text for each in row.all("td")] for row in runs.all("tr")[1:]]
        assert all(row[0].startswith("dbt run, by stream --build") for row in cells)
        # By now a second one may have failed. The others have a topic that can't go on.
        assert [row[1:3] for row in cells[-4:]] == [["failed", each] for each in "0124"]
        assert "dbt parse: model orders_changes" in cells[0][5]
        assert all("cycles-not-there" in row[5] for row in cells[-3:])
        (lags,) = (each for each in page.all("details") if "From Kafka to gold" in each.text)
        assert ORDERS in lags.text
        contract.write_text(contract.read_text().replace("name: note", "name: remark"))
        log.write_text(declared.replace('"note":', '"remark":'))
        wait_until(lambda: "remark" in orders(lake, ("order_id", "remark"))[0], "it has the column")
        kafka.send(topic, [change(5, "d", 3)])
        wait_until(lambda: orders(lake) == [second[0]], "it goes on")

        os.kill(running.process.pid, signal.SIGTERM)
        said = running.end()
    assert said.endswith(f"built {said.count('; built ')} times\n")
    assert "Traceback" not in said
    # A topic that can't go on is told of once, and keeps no other from it.
    assert said.count("vars.topics names cycles-not-there, which") == 1

    in_order(lake, 8)
    told = status(lake, *places)
    assert told["built_messages"] == 6
    assert 0 < told["built_seconds_p50"] <= told["built_seconds_p99"]
    assert told["built_seconds_p99"] < 1.1 * (time.time() - began)


# In CI, test_kafka_crashes has streams that end with what is there, and the test before it builds.
@pytest.mark.long
def test_what_waits_in_kafka_is_built_and_no_more(lake: Lake, kafka: Kafka) -> None:
    before = orders(lake)
    kafka.send("cycles", [change(6, "c", 4, "last")])
    places = ("--project-dir", str(lake.project), "--profiles-dir", f"{lake.project}/profiles")
    options = (*BUILDS, *CHOSEN, *places, "--available-now")
    with lakehouse(lake, *options, topics=[ENTRY], captures=[]) as running:
        assert running.end().endswith("built 1 time\n")
    assert orders(lake) == [*before, {"order_id": 4, "status": "last"}]
    in_order(lake, 9)
    # Of both processes.
    assert status(lake, *places)["built_messages"] == 7


def test_what_builds_nothing_is_told_before_spark_starts(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create("cycles-nothing")
    topics = [{"topic": "cycles-nothing", "format": "debezium_json"}]
    places = ("--project-dir", str(lake.project), "--profiles-dir", f"{lake.project}/profiles")
    variables = ("--vars", json.dumps({"topics": topics}))
    with pytest.raises(SystemExit) as ended, lake.dbt_folders():
        main(["stream", "--build", "-s", "nothing", *places, *variables])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.err == "lakehouse: --select and --exclude leave no model to build\n"
    assert said.out == ""


def test_files_that_come_change_and_go_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "model.sql"
    states = [looked_at([tmp_path, path])]
    for text in ("select 1", "select 12", None):
        # The clock of a file system may be coarse.
        time.sleep(0.01)
        path.unlink() if text is None else path.write_text(text)
        states.append(looked_at([tmp_path, path]))
    assert all(states[number] != states[number + 1] for number in range(3))
    assert states[0][path] is states[3][path] is None


def test_an_edit_while_the_project_is_first_read_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    model = models / "orders.sql"
    model.write_text("select 1")
    path = SimpleNamespace(full_path=str(model), project_root=str(tmp_path), searched_path="models")
    manifest = SimpleNamespace(files={"orders": SimpleNamespace(path=path)}, nodes={})
    project: Any = SimpleNamespace(
        root=tmp_path,
        folders=(models,),
        options=SimpleNamespace(profiles_dir=None),
        require_kafka=lambda: None,
    )

    def edited(_: object) -> Any:
        # dbt has read the model by now, and reads on.
        model.write_text("select 12")
        return manifest

    monkeypatch.setattr(parsed_project, "read_manifest", edited)
    monkeypatch.setattr(watched_project, "load", lambda _: project)
    watched = WatchedProject(project)
    monkeypatch.setattr(parsed_project, "read_manifest", lambda _: manifest)
    assert watched.read_again()
    assert not watched.read_again()


def node(materialized: str, *upstreams: str, **meta: Any) -> Any:
    return SimpleNamespace(
        resource_type="model",
        config=SimpleNamespace(materialized=materialized, meta=meta),
        depends_on=SimpleNamespace(nodes=[*upstreams]),
    )


NODES: Mapping[str, Any] = {
    "orders_changes": node("change_log", change_log={"sources": [["shop", "sales", "orders"]]}),
    "any_changes": node("change_log", change_log={"sources": None}),
    "orders": node("current_state", "orders_changes", current_state={}),
    "orders_history": node("history", "orders_changes", history={}),
    "any": node("current_state", "any_changes"),
    "paid": node("table", "orders"),
    "unique": SimpleNamespace(resource_type="test"),
}


def test_a_topic_is_in_gold_when_all_that_is_folded_of_its_events_is_built() -> None:
    pairs = [["a", "shop", "sales", "orders"], ["a", "shop", "sales", "x"], ["b", "s", "s", "x"]]
    assert tables_of_topics(pairs, NODES) == {
        "a": {"orders", "orders_history", "any"},
        "b": {"any"},
    }
    assert tables_of_topics([], NODES) == {}


def built(name: str, status: str, second: int) -> Any:
    timing = [
        SimpleNamespace(
            name="compile", completed_at=datetime(2026, 1, 1, 0, 0, 59)
        ),  # as dbt has it
        SimpleNamespace(
            name="execute", completed_at=datetime(2026, 1, 1, 0, 0, second)
        ),  # as dbt has it
    ]
    node = SimpleNamespace(unique_id=name)
    return SimpleNamespace(node=node, status=status, timing=timing)


def test_gold_has_a_topic_when_the_last_of_its_models_is_done() -> None:
    results = [built("a", "success", 3), built("b", "success", 7), built("c", "skipped", 9)]
    assert done_at({"a", "b"}, results) == (datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC), True)
    # What was skipped comes later; what the command had not to build is waited for by nobody.
    assert done_at({"a", "c"}, results)[1] is False
    assert done_at({"not selected"}, results) == (None, True)


def test_maintenance_is_no_news() -> None:
    rows = Snapshot(1, summary={"operation": "append", "added-records": "1"})
    rewritten = Snapshot(2, parent_snapshot_id=1, summary={"operation": "replace"})
    noted = Snapshot(3, parent_snapshot_id=2, summary={"operation": "append"})
    more = Snapshot(4, parent_snapshot_id=3, summary={**rows.summary, "added-data-files": "1"})

    def table(*chain: Snapshot) -> Table:
        return Table("uuid", {}, {}, frozenset(), chain, frozenset())

    assert has_same_rows(table(noted, rewritten, rows), "1")
    assert not has_same_rows(table(more, noted, rewritten, rows), "1")
    assert has_same_rows(table(more, noted, rewritten, rows), "4")
    # It has expired.
    assert has_same_rows(table(noted, rewritten), "1")
    assert not has_same_rows(table(noted), "1")
    assert not has_same_rows(None, "1")


@pytest.mark.parametrize(
    "options",
    [
        *(("--build", "--topic", "t"), ("--build", "--accept-loss")),
        *(("--test",), ("-s", "orders"), ("--liveness", "alive")),
        *(("--no-maintain",), ("--maintain-every", "60")),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["stream", *options])
    assert ended.value.code == 2
    assert "--build" in capsys.readouterr().err


def test_what_is_deployed_can_be_called() -> None:
    """The commands of the manifests have options that there are."""
    unit = (ROOT / "deploy" / "lakehouse-stream.service").read_text()
    (line,) = (each for each in unit.splitlines() if each.startswith("ExecStart="))
    deployment = yaml.safe_load((ROOT / "deploy" / "kubernetes-stream.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for program, command, *options in (line.split("=", 1)[1].split(), container["command"]):
        assert (Path(program).name, command) == ("lakehouse", "stream")
        assert stream.make_context("stream", [*options]).params["build"] is True
    assert "/tmp/alive" in container["command"] and "/tmp/alive" in str(container["livenessProbe"])
