"""Notify a webhook of a failed run: a JSON document, or Slack's form of it.

The address of a webhook is a secret, since it suffices to write there: messages contain only its
scheme and host. Rows that tests have found are not sent: they are the user's data.
"""

import json
import queue
import threading
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.report.facts import Facts
from dbt_lakehouse.report.page import iso, verdict
from dbt_lakehouse.report.runs import Node
from dbt_lakehouse.texts import counted

_SLACK: Final = "hooks.slack.com"
_SECONDS: Final = 10.0
# The most failures in Slack's form, whose texts are short; a JSON document has all of them.
_SHOWN: Final = 10
_WIDTH: Final = 300


class Webhook(NamedTuple):
    """The address and format of a webhook."""

    url: str
    format: str
    """One of ``WEBHOOK_FORMATS``."""

    @property
    def place(self) -> str:
        """The part of the address that may be shown."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}"


class _Unfollowed(HTTPRedirectHandler):
    """Don't follow redirects: a notification goes only to the given address."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def webhook_of(url: str, form: str | None) -> Webhook:
    """The webhook of an address. Slack's address takes Slack's form unless a form is named.
    Raises ``ConfigurationError``, which does not repeat the address.
    """
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_known = False
    if not is_known or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigurationError(
            "the webhook's address is none: give it whole, as https://host/path, by --notify or in"
            " LAKEHOUSE_NOTIFY_URL"
        )
    if "@" in parts.netloc:
        raise ConfigurationError(
            "the webhook's address has a user or a password in it, which are not sent: give one"
            " with a token in its path or query"
        )
    return Webhook(url, form or ("slack" if parts.hostname == _SLACK else "json"))


def notify(webhook: Webhook, facts: Facts, page: Path) -> str:
    """Post the failures, and return a sentence about it; nothing is posted for a run without
    failures. Takes at most 10 s.
    """
    told = verdict(facts)
    if told.word != "failed":
        return f"the webhook at {webhook.place} was not told: nothing has failed"
    document = document_of(facts, page)
    body = {"text": _slack_text(document)} if webhook.format == "slack" else document
    trouble = _post(webhook.url, json.dumps(body).encode())
    if trouble is not None:
        return (
            f"the webhook at {webhook.place} could not be told: {trouble}; look whether its address"
            " is right and can be reached from here"
        )
    return f"told the webhook at {webhook.place} what has failed"


def document_of(facts: Facts, page: Path) -> dict[str, Any]:
    """The JSON document, see docs/report.md."""
    run = facts.run
    told = verdict(facts)
    return {
        "project": facts.project,
        "verdict": told.word,
        "summary": told.sentence,
        "since": iso(facts.since) if facts.since else None,
        "run": None
        if run is None
        else {
            "invocation_id": run.invocation_id,
            "command": f"dbt {run.command}",
            "target": run.target,
            "started_at": iso(run.started_at),
            "ended_at": iso(run.ended_at),
        },
        "failures": list(_failures(facts)),
        "report": str(page.resolve()),
    }


def _failures(facts: Facts) -> Iterable[dict[str, Any]]:
    run = facts.run
    if run is not None and run.error is not None:
        yield _failure("command", f"dbt {run.command}", "error", run.error)
    for text in [] if run is None else run.troubles:
        yield _failure("topic", None, "not landed", text)
    for node in facts.failures:
        yield _failure(node.kind, node.table or node.name, node.status, node.message)
    for test in facts.tests:
        if test.is_failure:
            yield _failure(test.kind, test.name, test.status, _rows(test))


def _failure(kind: str, name: str | None, status: str, message: str | None) -> dict[str, Any]:
    return {"kind": kind, "name": name, "status": status, "message": message}


def _rows(test: Node) -> str | None:
    return counted(test.failures, "row") if test.failures else None


def _slack_text(document: dict[str, Any]) -> str:
    name = document["project"] or "Lake"
    lines = [f"*{_escaped(name)}: run report* Failed. {_escaped(document['summary'])}"]
    failures = document["failures"]
    for each in failures[:_SHOWN]:
        parts = (each["kind"], each["name"], each["status"])
        said = " ".join((each["message"] or "").split())
        text = f"{' '.join(filter(None, parts))}{': ' if said else ''}{said}"
        lines.append(f"• {_escaped(text if len(text) <= _WIDTH else text[: _WIDTH - 3] + '...')}")
    if len(failures) > _SHOWN:
        lines.append(f"and {len(failures) - _SHOWN} more")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Text escaped for Slack, for which these characters mark links and mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _post(url: str, body: bytes) -> str | None:
    """Post a document. Returns the trouble, without the address."""
    answers: queue.Queue[str | None] = queue.Queue()
    # A slow server, or a slow name look-up, does not trigger a socket's timeout.
    threading.Thread(target=lambda: answers.put(_answer(url, body)), daemon=True).start()
    try:
        return answers.get(timeout=_SECONDS)
    except queue.Empty:
        return f"no answer in {_SECONDS:.0f} s"


def _answer(url: str, body: bytes) -> str | None:
    request = Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with build_opener(_Unfollowed()).open(request, timeout=_SECONDS):
            return None
    except HTTPError as error:
        with error:
            return f"it answers {error.code}"
    except URLError as error:
        return _without_address(error.reason)
    except (OSError, HTTPException, UnicodeError) as error:
        return _without_address(error)


def _without_address(reason: object) -> str:
    """An error's text, without the parts that may repeat the address."""
    return getattr(reason, "strerror", None) or type(reason).__name__
