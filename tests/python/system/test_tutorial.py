"""docs/tutorial.md, typed from its own text: each command is run, each change to a file made, and
what is printed is what the page says.
"""

import shlex
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from support.commands import program
from support.pages import Terminal

from dbt_lakehouse.config.paths import LOOPBACK, ROOT
from local_kafka.broker import free_port

PAGE: Final = ROOT / "docs" / "tutorial.md"
# Where `make kafka` is; here, wherever it can.
ADDRESS: Final = "127.0.0.1:9092"


class Terminals(Terminal):
    """The page's two: the second begins with `source`, while the first serves Kafka."""

    def __init__(
        self, folder: Path, environment: pytest.MonkeyPatch, servers: ExitStack, port: int
    ) -> None:
        super().__init__(folder, environment)
        self._folder = folder
        self._servers = servers
        self._port = port

    def run(self, statement: str) -> None:
        match shlex.split(statement):
            case ["make", "kafka"]:
                assert Path.cwd().samefile(ROOT)
                self._start_kafka()
            case ["source", "cdc_lakehouse/.venv/bin/activate"]:
                self._environment.chdir(self._folder)
            case _:
                super().run(statement)

    def _start_kafka(self) -> None:
        arguments = ["-m", "local_kafka", "--port", str(self._port)]
        arguments += ["--folder", str(self._folder / "kafka")]
        command = self._servers.enter_context(program(arguments, self._folder, {}))
        # Ctrl-C.
        self._servers.callback(command.process.send_signal, signal.SIGINT)
        command.wait_for("Ctrl-C stops it.")
        print(command.said)


# In CI, test_package has a first project's commands.
@pytest.mark.long
def test_the_tutorial_typed_by_hand_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cdc_lakehouse").symlink_to(ROOT)
    port = free_port()
    with ExitStack() as servers:
        terminals = Terminals(tmp_path, monkeypatch, servers, port)
        terminals.play(PAGE.read_text().replace(ADDRESS, f"{LOOPBACK}:{port}"), capfd)
