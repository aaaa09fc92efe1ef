"""The live page: it shows what the report shows, answers what is asked of the demo's lake, changes
nothing, and answers no page but itself.
"""

import re
import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from flask.testing import FlaskClient
from support.lakes import Lake as BuiltLake
from support.live_pages import page_of
from support.report_pages import Page, is_sound

from dbt_lakehouse.cli import lakehouse, main
from dbt_lakehouse.commands.kept_cycles import KeptCycles
from dbt_lakehouse.commands.page import lake as lake_module
from dbt_lakehouse.commands.page.app import app_of
from dbt_lakehouse.commands.page.lake import ROWS, Lake
from dbt_lakehouse.commands.page.server import served
from dbt_lakehouse.commands.why.why_output import Answer, Reason, Told
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.report.runs import CYCLES, kept
from dbt_lakehouse.session.profile import Place
from dbt_lakehouse.session.project import Project, ProjectOptions

HOSTILE = "</table><script>alert(1)</script>"


@pytest.fixture(scope="module")
def demo_lake(demo: BuiltLake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return page_of(demo, tmp_path_factory.mktemp("page"))


@pytest.fixture
def client(demo_lake: Lake) -> FlaskClient:
    return app_of(demo_lake).test_client()


def alert_of(page: Page) -> str:
    (alert,) = (each for each in page.all("div") if each.attributes.get("role") == "alert")
    return alert.text


def test_a_page_shows_what_its_report_shows(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A minute may end between the two.
    monkeypatch.setattr(lake_module, "_FRESH_SECONDS", 600.0)
    live, report = (Page(client.get(path).text) for path in ("/", "/report"))
    is_sound(report)
    assert live.all("h1")[0].text == "shop: live"
    assert live.table("Gold") == report.table("Gold")
    assert live.table("Gold")["gold.orders"]["Rows"].split()[0] == "36"
    assert [each.attributes for each in live.all("script")] == [{"src": "/live.js", "defer": None}]
    assert client.get("/live.js").mimetype == "text/javascript"


def test_a_table_without_news_is_shown_beside_the_others(
    demo_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others have built parts of this lake since.
    run, nodes = next(
        (run, nodes)
        for run in kept(demo_lake.place.root / "target", "gold")
        if (nodes := [node for node in run.nodes if node.table == "gold.orders"])
    )
    cycle = msgspec.structs.replace(run, nodes=nodes)
    monkeypatch.setattr(lake_module, "kept", lambda *_, folder="": [cycle] if folder else [])
    facts = Lake(demo_lake.place, ProjectOptions()).facts()
    assert nodes and facts.rest == []
    assert {"gold.orders", "gold.accounts"} <= {table.name for table in facts.gold}


def test_a_query_is_answered_and_changes_nothing(client: FlaskClient) -> None:
    query = f"select order_id, '{HOSTILE}' as x, null as n from orders order by 1 limit 2"
    page = Page(client.post("/sql", data={"query": query}).text)
    rows = page.all("tbody")[0].all("tr")
    assert [[cell.text for cell in row.all("td")] for row in rows] == [
        ["5001", HOSTILE, "NULL"],
        ["5002", HOSTILE, "NULL"],
    ]
    assert page.all("textarea")[0].text == query
    assert page.all("caption")[0].text.startswith("2 rows, in ")
    for refused, why in (
        ("delete from orders", "only queries are answered here"),
        ("select 1; select 2", "one query is answered at a time"),
        ("select * from read_csv('/etc/passwd')", "a query reads tables of the lake alone"),
        ("", "there is no query"),
        ("select \0", "SELECT clause without selection list"),
    ):
        answer = client.post("/sql", data={"query": refused})
        assert answer.status_code == 400 and why in alert_of(Page(answer.text))


def test_an_answer_has_an_end(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = client.post("/sql", data={"query": "select range, repeat('x', 2000) from range(2000)"})
    page = Page(answer.text)
    assert page.all("caption")[0].text.startswith("the first 1,000 rows of more, in ")
    assert len(page.all("tbody")[0].all("tr")) == ROWS
    assert len(page.all("td")[1].text) == 1_001
    monkeypatch.setattr(lake_module, "SECONDS", 0.3)
    endless = "select count(*) from range(1000000) a, range(1000000) b"
    answer = client.post("/sql", data={"query": endless})
    assert alert_of(Page(answer.text)) == "there was no answer within 0 s"
    # Of the next one nothing is interrupted.
    assert client.post("/sql", data={"query": "select 1"}).status_code == 200


def test_a_quarantined_message_is_taken_apart(client: FlaskClient) -> None:
    (link, *_) = re.findall(r'href="(/explain\?[^"]+)"', client.get("/").text)
    page = Page(client.get(unescape(link)).text)
    (text,) = page.all("pre")
    assert ": invalid, " in text.text
    asked = {each.attributes["name"]: each.attributes["value"] for each in page.all("input")[1:]}
    assert asked["topic"] and asked["offset"]
    for more, why in (
        ("topic=x&offset=1", "no message of the topic x"),
        ("topic=%00&offset=1&partition=999999999999999999", "no message of the topic"),
        ("topic=x&offset=" + "9" * 5_000, "is not a whole number"),
        ("", "is not a whole number"),
    ):
        answer = client.get(f"/explain?{more}")
        assert answer.status_code == 400 and why in alert_of(Page(answer.text))


def test_why_is_asked_of_the_command(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is tested itself; no list of processes has the key."""
    place = ("debezium.sales.orders", 0, 4, 0, "2026-10-06T09:57:09Z", "update", None, None)
    event = Told(*place, "applied", True, False, False, True, "there", {"operation": HOSTILE})
    row = {"order_id": 5001, "amount": Decimal("12345678901234567.89"), "note": HOSTILE}
    said = Answer("gold.orders", {"order_id": 5001}, Reason.LIVE, "2026", row, [event], ["x is 1"])

    def run(command: list[str], **options: Any) -> Any:
        _, _, _, name, *arguments = command
        why = lakehouse.commands[name]
        assert why.make_context(name, arguments).params["table"] == "orders"
        assert options["input"] == '{"order_id": 5001}' and "5001" not in " ".join(command)
        return SimpleNamespace(stdout=said.json(), stderr="lakehouse: not what it must be")

    monkeypatch.setattr(subprocess, "run", run)
    asked = {"table": "orders", "key": '{"order_id":\n5001}'}
    page = Page(client.post("/why", data=asked).text)
    assert "a row, by the event at debezium.sales.orders, partition 0, offset 4" in page.root.text
    assert "12345678901234567.89" in page.root.text and HOSTILE in page.root.text
    assert alert_of(page).endswith("x is 1")
    links = [each.attributes["href"] for each in page.all("table")[1].all("a")]
    assert links == ["/explain?topic=debezium.sales.orders&partition=0&offset=4"]

    failed = SimpleNamespace(
        stdout="", stderr="lakehouse: --key: a value of order_id is not of type int\n"
    )
    monkeypatch.setattr(subprocess, "run", lambda *_, **options: failed)
    answer = client.post("/why", data={**asked, "table": "\0"})
    assert alert_of(Page(answer.text)) == "'\\x00' is not a table of gold"
    answer = client.post("/why", data=asked)
    assert alert_of(Page(answer.text)) == "--key: a value of order_id is not of type int"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
    ],
)
def test_others_are_refused(client: FlaskClient, headers: dict[str, str]) -> None:
    assert client.get("/", headers=headers).status_code in (400, 403)
    answer = client.post("/sql", data={"query": "select 42 as x"}, headers=headers)
    assert answer.status_code in (400, 403) and "42" not in answer.text


def test_a_page_loads_nothing_of_others_and_is_in_no_frame(client: FlaskClient) -> None:
    own = {"Host": "localhost:8088", "Origin": "http://localhost:8088"}
    answer = client.post("/sql", data={"query": "select 1"}, headers=own)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "frame-ancestors 'none'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert client.get("/sql").status_code == 405
    assert client.post("/sql", data={"query": "x" * 100_000}).status_code == 413


def test_without_a_lake_the_page_says_so(tmp_path: Path) -> None:
    settings = {
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}",
        "spark.sql.catalog.lake.warehouse": str(tmp_path),
    }
    lake = Lake(Place(settings, "gold", tmp_path, "shop"), ProjectOptions())
    client = app_of(lake).test_client()
    live = client.get("/")
    assert live.status_code == 200 and "no lake yet" in live.text
    answer = client.post("/sql", data={"query": "select 1"})
    assert answer.status_code == 400 and "no lake yet" in alert_of(Page(answer.text))


def test_a_page_is_served_on_loopback(demo_lake: Lake) -> None:
    with served(demo_lake, 0) as address:
        assert address.startswith("http://127.0.0.1:")
        with urlopen(f"{address}live.js") as answer:
            assert b"renew" in answer.read()
        port = int(address.strip("/").rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"port {port} .* choose another"):
            with served(demo_lake, port):
                pass


def test_a_server_with_passwords_has_no_page_without(capsys: pytest.CaptureFixture[str]) -> None:
    project = ("--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles"))
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--users", "users", "--page", "0", *project])
    assert ended.value.code == 2 and "--page needs no password" in capsys.readouterr().err


def test_a_cycle_that_can_not_be_noted_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    project = Project({}, {}, "gold", tmp_path, name="shop")
    cycles = KeptCycles("run", told.append)
    (tmp_path / "target").write_text("no folder")
    for _ in range(2):
        cycles.keep(project, datetime.now(UTC), [])
    assert len(told) == 1 and told[0].startswith("the cycle can't be noted: ")
    (tmp_path / "target").unlink()
    cycles.keep(project, datetime.now(UTC), [], error="Kafka is gone")
    (run,) = kept(tmp_path / "target", "gold", folder=CYCLES)
    assert (run.command, run.error) == ("run, by stream --build", "Kafka is gone")
    assert kept(tmp_path / "target", "gold") == []
