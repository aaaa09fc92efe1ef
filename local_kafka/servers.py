"""Servers as separate processes, stopped when a block or this process ends, however it ends."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import LOOPBACK

# Other programs may be starting at the same time.
_START_SECONDS: Final = 120.0


class ServerError(Exception):
    """A server does not start. One line of text, which names its log."""


@contextmanager
def server(
    program: Sequence[str],
    log: Path,
    is_up: Callable[[], bool],
    *,
    environment: Mapping[str, str] | None = None,
    stop: signal.Signals = signal.SIGKILL,
) -> Iterator[None]:
    """Run a server that writes to ``log`` within the context; ``is_up`` tells when it is up.
    Raises ``ServerError``.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(environment or {})},
            # Ctrl-C is for the process that started it, which then stops it.
            start_new_session=True,
        )
        try:
            with ended_with_us(process.pid):
                deadline = time.monotonic() + _START_SECONDS
                while not is_up():
                    if process.poll() is not None:
                        raise ServerError(f"{program[0]} has ended while it started, see {log}")
                    if time.monotonic() > deadline:
                        raise ServerError(
                            f"{program[0]} is not up in {_START_SECONDS:g} s, see {log}"
                        )
                    time.sleep(0.05)
                yield
        finally:
            process.send_signal(stop)
            process.wait()


@contextmanager
def ended_with_us(process: int, by: signal.Signals = signal.SIGKILL) -> Iterator[None]:
    """Send a signal to another process (a negative number is its group) if this one ends within the
    context, also if it is killed.
    """
    with guard(process, by) as watching:
        try:
            yield
        finally:
            watching.communicate(b"done\n")


def guard(process: int, by: signal.Signals = signal.SIGKILL) -> subprocess.Popen[bytes]:
    """A shell that sends the signal when its input ends, as it does with this process. A line of
    input ends the shell instead.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", f"read -r done || kill -{int(by)} {process}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def answers(port: int) -> bool:
    """Whether a server listens at a port of this machine."""
    with socket.socket() as connection:
        return connection.connect_ex((LOOPBACK, port)) == 0
