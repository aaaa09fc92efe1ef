"""What a command says while it works (whom it waits for, what it reads): a line on standard error,
or an event of dbt's in a dbt command, whose `--quiet` and `--log-format` are then heeded.

On a terminal, and there alone, work that takes longer than two seconds is shown in a line that goes
away with it: what is at work, how far it has come, and for how long.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

import click

Tell = Callable[[str], None]

_PATIENCE: Final = 2.0
_EVERY: Final = 0.5
_ERASE: Final = "\r\x1b[K"


class _Work(NamedTuple):
    what: str
    how_far: Callable[[], str]
    since: float


# What is at work now, in the order in which it has begun; the last is shown.
_at_work: Final[list[_Work]] = []
_line: Final = threading.RLock()
"""Held by who writes to standard error."""
_is_shown = False


def _on_standard_error(text: str) -> None:
    with _line:
        _erase()
        click.echo(text, err=True)


_tell: Final[ContextVar[Tell]] = ContextVar("tell", default=_on_standard_error)


def tell(text: str) -> None:
    """Say a sentence to who has started the command."""
    _tell.get()(text)


@contextmanager
def telling(to: Tell) -> Iterator[None]:
    """Within, sentences go to ``to``."""
    token = _tell.set(to)
    try:
        yield
    finally:
        _tell.reset(token)


@contextmanager
def working(what: str, how_far: Callable[[], str] = str) -> Iterator[None]:
    """Within, a terminal shows what is at work, and what ``how_far``, which another thread calls,
    says of it: ``reading captures: 120 of 800 MB, 14 s``. Nothing else may be printed within, but
    by ``tell``.
    """
    if _tell.get() is not _on_standard_error or not _is_terminal():
        yield
        return
    work = _Work(what, how_far, time.monotonic())
    with _line:
        _at_work.append(work)
        if len(_at_work) == 1:
            threading.Thread(target=_show, daemon=True).start()
    try:
        yield
    finally:
        with _line:
            _at_work.remove(work)
            _erase()


def _is_terminal() -> bool:
    is_one = sys.stderr is not None and sys.stderr.isatty()
    return is_one and os.environ.get("TERM") != "dumb"


def _show() -> None:
    global _is_shown
    while True:
        time.sleep(_EVERY)
        with _line:
            if not _at_work:
                return
            work = _at_work[-1]
        seconds = time.monotonic() - work.since
        if seconds < _PATIENCE:
            continue
        text = progress_text(work.what, work.how_far(), seconds)
        with _line:
            # It may have ended meanwhile.
            if _at_work and _at_work[-1] is work:
                width = shutil.get_terminal_size().columns - 1
                click.echo(f"{_ERASE}{text[:width]}", err=True, nl=False)
                _is_shown = True


def progress_text(what: str, how_far: str, seconds: float) -> str:
    """The line of work that has taken so long."""
    minutes, rest = divmod(int(seconds), 60)
    taken = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{what}: {how_far}, {taken}" if how_far else f"{what}: {taken}"


def _erase() -> None:
    global _is_shown
    if _is_shown:
        click.echo(_ERASE, err=True, nl=False)
        _is_shown = False
