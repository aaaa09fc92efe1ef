"""What a command says while it works (whom it waits for, what it reads): a line on standard error,
or an event of dbt's in a dbt command, whose `--quiet` and `--log-format` are then heeded.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import click

Tell = Callable[[str], None]


def _on_standard_error(text: str) -> None:
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
