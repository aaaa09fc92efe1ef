"""Commands of the project on a lake, as processes of their own, to wait for and to kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.config.paths import ROOT
from support.lakes import Lake

# How long to wait for what comes within a few seconds unless the machine has other work.
SECONDS: Final = 240.0
A_MESSAGE: Final = '{"topic": "t", "partition": 0, "offset": 0, "value_b64": null}\n'
"""A capture: the smallest that there is something to land of."""
DBT: Final = ("-c", "from dbt.cli.main import cli; cli()")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait until the condition holds; fail with ``what`` should have come if it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not after {seconds:g} s: {what}"
        time.sleep(0.05)


def without_rights(folder: Path) -> list[str]:
    """What stands before a command to make it one of a Unix user who may read all files and write
    none of ours, those in ``folder`` too. Only root can; for others it is nothing.
    """
    if os.geteuid() != 0:
        return []
    # pytest closes its folders. Who may read them all the same is told by SQLite that he can't.
    for each in (folder, *folder.parents):
        if (mode := each.stat().st_mode) & 0o001:
            break
        each.chmod(mode | 0o011)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return [*nobody, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


class Command:
    """A command of the project in a process of its own, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process: Final = process
        self._log: Final = log

    @property
    def said(self) -> str:
        """Its output and its errors as they came."""
        return self._log.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until it has said this, so many times."""
        wait_until(lambda: self._has_said(text, times), f"{text!r} in {self.said!r}")

    def _has_said(self, text: str, times: int) -> bool:
        # Whether it has ended is asked first: what it says last counts.
        ended = self.process.poll() is not None
        if self.said.count(text) >= times:
            return True
        assert not ended, f"ended without {text!r}: {self.said}"
        return False

    def end(self, code: int = 0) -> str:
        """Wait until it ends, with this exit code; what it has said."""
        assert self.process.wait(SECONDS) == code, self.said
        return self.said

    def said_by_all(self, seconds: float = SECONDS) -> str:
        """Wait until its JVM has ended too; what both have said."""
        wait_until(self._group_is_gone, "the end of its processes", seconds)
        return self.said

    def _group_is_gone(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def kill(self) -> None:
        """Kill the Python process. Its JVM ends by itself a moment later."""
        self.process.kill()
        self.process.wait()

    def leave_nothing(self) -> None:
        """Kill what is still there, the JVM too."""
        # The group outlives its first process, and its id is nobody else's as long as it does.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def lakehouse(lake: Lake, *arguments: str, **variables: Any) -> Iterator[Command]:
    """The `lakehouse` command in a process of its own."""
    options = ["--vars", json.dumps(variables)]
    arguments = ("-m", "dbt_lakehouse.cli", *arguments, *options)
    with program([*arguments], lake.folder, lake.environment) as command:
        yield command


@contextmanager
def dbt(lake: Lake, *arguments: str, **variables: Any) -> Iterator[Command]:
    """The `dbt` command in a process of its own."""
    options = ["--vars", json.dumps({"captures": [], **variables}), "--no-use-colors"]
    options += ["--target-path", str(lake.folder / f"target-{time.monotonic_ns()}")]
    options += ["--log-path", str(lake.folder / "logs")]
    with program([*DBT, *arguments, *options], lake.folder, lake.environment) as command:
        yield command


@contextmanager
def program(
    arguments: list[str], logs: Path, environment: dict[str, str], checkout: Path = ROOT
) -> Iterator[Command]:
    """A Python program in a checkout, as a process of its own; ``logs`` is where what it says is
    kept.
    """
    log = logs / f"command-{time.monotonic_ns()}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout,
            env={**os.environ, **environment},
            # A group of its own, so that no JVM stays behind.
            start_new_session=True,
        )
        command = Command(process, log)
        try:
            yield command
        finally:
            command.leave_nothing()
