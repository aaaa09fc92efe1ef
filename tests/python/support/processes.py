"""Programs as processes of their own, and what they say."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dbt_lakehouse.config.paths import ROOT


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
