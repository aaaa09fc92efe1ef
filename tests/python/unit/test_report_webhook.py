"""What a webhook is told of a run that has failed, and that its address is told nowhere: by a real
server that answers, answers late, or is not there.
"""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_report import HOSTILE, NOW, hostile_facts, node, run, table

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands import report as command
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.report import webhook
from dbt_lakehouse.report.facts import Facts, of_runs
from dbt_lakehouse.report.webhook import notify, webhook_of

SECRET = "T0000/B0000/s3cr3t-token"
PAGE = Path("/somewhere/report.html")


class Server(ThreadingHTTPServer):
    """Keeps what it is sent, and answers with a code, or not at all."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, str | None, Any]] = []
        self.code = 200
        self.wait = threading.Event()
        self.wait.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/{SECRET}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.server.wait.wait(30)
        self.send_response(self.server.code)
        self.send_header("Location", f"http://localhost:{self.server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Not to the test's output."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.wait.set()
        server.shutdown()
        thread.join()


def failed() -> Facts:
    model = node("orders", status="error", table="gold.orders", message="no such column")
    test = node("unique_orders", "test", "fail", failures=3, message="id 7 has 2 copies")
    facts = of_runs([run(model, test, project="shop")], NOW)
    facts.landed, facts.operations, facts.gold = 1, {"insert": 1}, [table("gold.orders")]
    return facts


def test_a_failure_is_posted_as_a_document(server: Server) -> None:
    said = notify(webhook_of(server.url, None), failed(), PAGE)
    assert said == "told the webhook at http://127.0.0.1 what has failed"
    ((path, kind, document),) = server.got
    assert (path, kind) == (f"/services/{SECRET}", "application/json")
    assert document == {
        "project": "shop",
        "verdict": "failed",
        "summary": "1 message landed, 1 event decoded, all tables up to date, 1 model failed,"
        " 1 test failed.",
        "since": "2026-11-24T11:00:00Z",
        "run": {
            "invocation_id": "run-11",
            "command": "dbt build",
            "target": "dev",
            "started_at": "2026-11-24T11:00:00Z",
            "ended_at": "2026-11-24T11:01:15Z",
        },
        "failures": [
            {
                "kind": "model",
                "name": "gold.orders",
                "status": "error",
                "message": "no such column",
            },
            {"kind": "test", "name": "unique_orders", "status": "fail", "message": "3 rows"},
        ],
        "report": str(PAGE),
    }


def test_slack_is_told_in_its_form(server: Server) -> None:
    notify(webhook_of(server.url, "slack"), hostile_facts(), PAGE)
    ((_, _, document),) = server.got
    assert document.keys() == {"text"}
    assert "<" not in document["text"] and "&lt;script&gt;" in document["text"]
    assert "topic not landed: " in document["text"] and HOSTILE not in document["text"]
    assert webhook_of(f"https://hooks.slack.com/services/{SECRET}", None).format == "slack"
    assert webhook_of(f"https://hooks.slack.com/services/{SECRET}", "json").format == "json"


def test_a_run_that_has_not_failed_is_not_posted(server: Server) -> None:
    said = notify(
        webhook_of(server.url, None), of_runs([run(node("a", "test", "warn"))], NOW), PAGE
    )
    assert said == "the webhook at http://127.0.0.1 was not told: nothing has failed"
    assert server.got == []


@pytest.mark.parametrize(("code", "said"), [(404, "it answers 404"), (307, "it answers 307")])
def test_a_webhook_that_refuses(server: Server, code: int, said: str) -> None:
    server.code = code
    told = notify(webhook_of(server.url, None), failed(), PAGE)
    assert told.startswith(f"the webhook at http://127.0.0.1 could not be told: {said}; ")
    # Not sent on to another server.
    assert len(server.got) == 1 and SECRET not in told


def test_a_webhook_that_does_not_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_SECONDS", 0.3)
    server.wait.clear()
    told = notify(webhook_of(server.url, None), failed(), PAGE)
    assert (
        "could not be told: no answer in 0 s" in told or "could not be told: TimeoutError" in told
    )
    assert SECRET not in told


@pytest.mark.parametrize(
    "url",
    [
        f"hooks.example.org/{SECRET}",
        f"ftp://hooks.example.org/{SECRET}",
        f"https:///{SECRET}",
        f"https://hooks.example.org:99999/{SECRET}",
        f"https://hooks.example.org/{SECRET} more",
        f"https://user:{SECRET}@hooks.example.org/",
    ],
)
def test_what_is_no_address_of_a_webhook_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the webhook's address") as raised:
        webhook_of(url, None)
    assert "s3cr3t" not in str(raised.value)


def test_the_report_is_written_though_its_webhook_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/services/{SECRET}"
    monkeypatch.setattr(command, "report", lambda *_, **__: (failed(), tmp_path / "report.html"))
    place = ["--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles")]
    for options, environment in (
        (["--notify", url], {}),
        ([], {"LAKEHOUSE_NOTIFY_URL": url}),
    ):
        done = CliRunner().invoke(lakehouse, ["report", *place, *options], env=environment)
        assert (done.exit_code, done.stdout) == (0, f"wrote {tmp_path / 'report.html'}\n")
        assert (
            "the webhook at http://127.0.0.1 could not be told: Connection refused" in done.stderr
        )
        assert SECRET not in done.output
