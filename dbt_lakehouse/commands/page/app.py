"""The page's routes. All of them read the lake, and none writes.

A page of another site in the same browser can neither read answers nor send requests. The header
`Host` refuses a name that it has pointed to this machine (DNS rebinding), and browsers' origin
headers refuse its requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from flask import Flask, Response, abort, request

from dbt_lakehouse.commands.page.lake import ROWS, SECONDS, Lake
from dbt_lakehouse.errors import ConfigurationError, LakehouseError
from dbt_lakehouse.queries.drawing import shown
from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.report.page import environment, page, said

_HOSTS: Final = ("127.0.0.1", "localhost")
_MOST_BYTES: Final = 64 * 1024
# The digits of an offset, which has 63 bits.
_DIGITS: Final = 18
# The most characters in a cell.
_CHARACTERS: Final = 1_000
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Without a referrer policy, a form would not tell its origin.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def app_of(lake: Lake) -> Flask:
    """The application that shows a lake."""
    app = Flask(__name__, static_folder=None)
    app.config.update(TRUSTED_HOSTS=[*_HOSTS], MAX_CONTENT_LENGTH=_MOST_BYTES)
    templates = environment("dbt_lakehouse.commands.page", "dbt_lakehouse.report")
    templates.filters["shown"] = _cell
    script = files("dbt_lakehouse.commands.page").joinpath("live.js").read_text()

    @app.before_request
    def refuse_others() -> None:
        from_where = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get("Origin", request.host_url.rstrip("/"))
        if from_where not in ("none", "same-origin") or origin != request.host_url.rstrip("/"):
            abort(HTTPStatus.FORBIDDEN, "only this page itself may ask")

    @app.after_request
    def with_headers(response: Response) -> Response:
        response.headers.update(_HEADERS)
        return response

    def form(**asked: str) -> dict[str, Any]:
        """The values for the forms."""
        empty = dict.fromkeys(("query", "table", "key", "topic", "partition", "offset"), "")
        limits = {"rows": ROWS, "seconds": SECONDS}
        return {"asked": {**empty, **asked}, "tables": lake.tables(), "limits": limits}

    def answered(
        name: str, asked: Mapping[str, str], ask: Callable[[], dict[str, Any]]
    ) -> tuple[str, int]:
        """The page with an answer, or with the error."""
        told = dict.fromkeys(("trouble", "rows", "why", "explained"))
        try:
            told |= ask()
            code = HTTPStatus.OK
        except LakehouseError as error:
            told["trouble"] = without_secrets(str(error))
            code = HTTPStatus.BAD_REQUEST
        about = {"name": name, "project": lake.place.project}
        template = templates.get_template("answer.html.j2")
        return template.render(told, **about, **form(**asked)), code

    @app.get("/")
    def live() -> str:
        found = lake.facts()
        newest = sorted(found.groups, key=lambda group: group.last_seen or "", reverse=True)
        template = templates.get_template("live.html.j2")
        return template.render(said(replace(found, groups=newest)), live=True, **form())

    @app.get("/live.js")
    def live_script() -> Response:
        return Response(script, mimetype="text/javascript")

    @app.get("/report")
    def report() -> str:
        return page(lake.facts())

    @app.post("/sql")
    def sql() -> tuple[str, int]:
        asked = _given(request.form, "query")
        return answered("query", asked, lambda: {"rows": lake.rows(asked["query"])})

    @app.post("/why")
    def why() -> tuple[str, int]:
        asked = _given(request.form, "table", "key")
        return answered("why", asked, lambda: {"why": lake.why(**asked)})

    @app.get("/explain")
    def explain() -> tuple[str, int]:
        asked = _given(request.args, "topic", "partition", "offset")

        def ask() -> dict[str, Any]:
            partition = _number("Partition", asked["partition"]) if asked["partition"] else None
            offset = _number("Offset", asked["offset"])
            return {"explained": lake.explained(asked["topic"], partition, offset)}

        return answered("message", asked, ask)

    return app


def _given(fields: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: fields.get(name, "") for name in names}


def _number(name: str, text: str) -> int:
    """Raises ``ConfigurationError``."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise ConfigurationError(f"{name}: {text!r} is not a whole number")
    return int(text)


def _cell(value: Any) -> str:
    """A value as a table shows it."""
    text = shown(value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"
