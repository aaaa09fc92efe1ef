"""Programs as processes of their own, and what they say."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from commands import wait_until

from dbt_lakehouse.config.paths import LOOPBACK, ROOT


@contextmanager
def python(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python with pipes for input and output, killed on leaving."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], start: str) -> str:
    """What follows ``start`` in the first line of the output that begins so."""
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if line.startswith(start):
            return line.removeprefix(start).strip()
    raise AssertionError(f"ended without {start!r}: {process.stderr.read()}")


@contextmanager
def server(
    program: Sequence[str],
    log: Path,
    is_up: Callable[[], bool],
    *,
    environment: Mapping[str, str] | None = None,
    stop: signal.Signals = signal.SIGKILL,
) -> Iterator[None]:
    """A server that writes to ``log`` and is up when ``is_up`` says so, stopped on leaving."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(environment or {})},
        )

        def is_up_or_ended() -> bool:
            return process.poll() is not None or is_up()

        try:
            wait_until(is_up_or_ended, f"{program[0]} is up, see {log}")
            assert process.poll() is None, f"{program[0]} has ended, see {log}"
            yield
        finally:
            process.send_signal(stop)
            process.wait()


def answers(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    with socket.socket() as connection:
        return connection.connect_ex((LOOPBACK, port)) == 0
