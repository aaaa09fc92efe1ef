"""Messages of a command while it works (what it waits for, what it reads): a line on standard
error, or in a dbt command an event of dbt's, so that its `--quiet` and `--log-format` apply.

Only on a terminal, work that takes longer than two seconds is shown in a line that disappears at
its end: the work, its progress, and the time. Of nested or concurrent work, the line shows the
latest that has taken so long.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import click

from dbt_lakehouse.texts import printable

Tell = Callable[[str], None]

_PATIENCE: Final = 2.0
_EVERY: Final = 0.5
# Where it is unknown.
_WIDTH: Final = 80
_ERASE: Final = "\r\x1b[K"


class _Work(NamedTuple):
    what: str
    how_far: Callable[[], str]
    since: float


# The current work, in the order of its beginning.
_at_work: Final[list[_Work]] = []
_line: Final = threading.RLock()
"""Held while writing to the terminal."""
_is_shown = False
# Whether a thread watches the current work.
_is_looked_at = False
_is_wanted = True


def _on_standard_error(text: str) -> None:
    with _line:
        _erase()
        click.echo(text, err=True)


_tell: Final[ContextVar[Tell]] = ContextVar("tell", default=_on_standard_error)


def tell(text: str) -> None:
    """Show a sentence to the user."""
    _tell.get()(text)


@contextmanager
def telling(to: Tell) -> Iterator[None]:
    """Send sentences to ``to`` within the context."""
    token = _tell.set(to)
    try:
        yield
    finally:
        _tell.reset(token)


def show_progress(wanted: bool) -> None:
    """Set whether a terminal shows the current work; it does by default."""
    global _is_wanted
    _is_wanted = wanted


def is_shown() -> bool:
    """Whether a terminal shows the current work."""
    return _is_wanted and _is_terminal()


class Beside:
    """A stream to standard error's terminal, whose output replaces the line."""

    def __init__(self, stream: Any) -> None:
        self._stream: Final = stream

    def write(self, text: str) -> None:
        with _line:
            _erase()
            self._stream.write(text)
            self._stream.flush()

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def working(what: str, how_far: Callable[[], str] = str) -> Iterator[None]:
    """Show the current work on a terminal within the context, with the progress from ``how_far``,
    which another thread calls: ``reading captures: 120 of 800 MB, 14 s``. Within it, only
    ``tell`` and ``Beside`` may print.
    """
    global _is_looked_at
    if not is_shown():
        yield
        return
    work = _Work(what, how_far, time.monotonic())
    with _line:
        _at_work.append(work)
        if not _is_looked_at:
            _is_looked_at = True
            threading.Thread(target=_look, daemon=True).start()
    try:
        yield
    finally:
        with _line:
            # By identity: other work may have the same values.
            _at_work[:] = [each for each in _at_work if each is not work]
            _erase()


def _is_terminal() -> bool:
    is_one = sys.stderr is not None and sys.stderr.isatty()
    return is_one and os.environ.get("TERM") != "dumb"


def _look() -> None:
    global _is_looked_at
    while True:
        time.sleep(_EVERY)
        with _line:
            if not _at_work:
                _is_looked_at = False
                return
            long_ago = time.monotonic() - _PATIENCE
            work = next((each for each in reversed(_at_work) if each.since <= long_ago), None)
        if work is not None:
            _show(work)


def _show(work: _Work) -> None:
    global _is_shown
    how_far = work.how_far()
    text = progress_text(work.what, how_far, time.monotonic() - work.since)
    with _line:
        # It may have ended meanwhile, or standard error may be another stream now.
        if _is_terminal() and any(each is work for each in _at_work):
            click.echo(f"{_ERASE}{printable(text)[: _width() - 1]}", err=True, nl=False)
            _is_shown = True


def _width() -> int:
    # Not shutil's, which uses standard output: that may be a file.
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def progress_text(what: str, how_far: str, seconds: float) -> str:
    """The line of work that has taken this long."""
    minutes, rest = divmod(int(seconds), 60)
    taken = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{what}: {how_far}, {taken}" if how_far else f"{what}: {taken}"


def _erase() -> None:
    global _is_shown
    if _is_shown:
        click.echo(_ERASE, err=True, nl=False)
        _is_shown = False
