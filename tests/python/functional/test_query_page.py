"""docs/payloads.md, docs/query.md: each example is run, from the page's own text, and prints what
the page says.
"""

import re
import shlex
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from support.commands import Command, lakehouse
from support.lakes import DEMO_AS_OF, Lake
from support.pages import blocks, without_blanks
from support.pages import lakehouse as run_lakehouse

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake.duckdb_connection import extension_files

# The last example of query.md opens a session of Spark Connect; a process has no other afterwards.
PAGES: Final = [ROOT / "docs" / name for name in ("payloads.md", "query.md")]
# When the page's second run builds; and a moment between the two, whatever time it is here.
LATER: Final = "2040-02-01 00:00:00"
BETWEEN: Final = "2026-11-21 12:00"
# DuckDB would fetch it from elsewhere; here it comes from its package.
INSTALL: Final = '"install iceberg; load iceberg"'
# Where `lakehouse serve` listens, for either protocol; here, wherever it can.
SERVED: Final = {"port=10000": "127.0.0.1:", "localhost:15002": "localhost:"}


@pytest.fixture(scope="module")
def lake(demo: Lake) -> Iterator[Lake]:
    """The demo after a second run."""
    first = demo.current_snapshot("gold.sessions")
    assert demo.dbt("run", "-s", "sessions", as_of=LATER) == {"sessions": "success"}
    yield demo
    demo.roll_back("gold.sessions", first)


@pytest.fixture
def between(lake: Lake) -> str:
    """A moment between the two runs, as the page writes one."""
    (*_, run) = lake.sql("select made_current_at from gold.sessions.history order by 1")
    return f"{run['made_current_at'] - timedelta(milliseconds=1):%F %T.%f}"


@pytest.fixture
def server(lake: Lake) -> Iterator[Command]:
    with lakehouse(lake, "serve", "--port", "0", "--connect", "0") as command:
        yield command
        # Ctrl-C.
        command.process.send_signal(signal.SIGINT)
        assert command.end().endswith("stopped\n")


def test_each_example_prints_what_the_page_says(
    lake: Lake,
    between: str,
    server: Command,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    examples = [*blocks("".join(each.read_text() for each in PAGES))]
    # PySpark sets it when a session is not of this process.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    monkeypatch.chdir(lake.folder)
    monkeypatch.setenv("DBT_PROJECT_DIR", str(ROOT))
    monkeypatch.setenv("DBT_PROFILES_DIR", str(ROOT / "profiles"))
    # Where `lakehouse why` has dbt write.
    monkeypatch.setenv("DBT_TARGET_PATH", str(lake.folder / "target"))
    monkeypatch.setenv("DBT_LOG_PATH", str(lake.folder / "logs"))
    variables: dict[str, Any] = {}
    printed = []
    for language, code, _ in examples:
        capfd.readouterr()
        code = code.replace(BETWEEN, between)
        for address, said in SERVED.items():
            if address in code:
                # It has started while the others ran.
                server.wait_for("serving at sc://")
                port = server.said.partition(said)[2].partition("/")[0]
                code = code.replace(address, re.sub(r"\d+$", port, address))
        if language == "sql":
            lake.sql(code)
        elif language == "python":
            at_hand = "; ".join(f"load '{file}'" for file in extension_files())
            exec(code.replace(INSTALL, repr(at_hand)), variables)
        else:
            for command in code.splitlines():
                run(lake, shlex.split(command))
        output = capfd.readouterr().out
        printed.append(without_blanks(output))
    assert printed == [without_blanks(expected or "") for *_, expected in examples]


def run(lake: Lake, arguments: list[str]) -> None:
    program, *arguments = arguments
    if program == "dbt":
        lake.dbt(*arguments, as_of=DEMO_AS_OF)
        return
    assert program == "lakehouse"
    run_lakehouse(arguments)
