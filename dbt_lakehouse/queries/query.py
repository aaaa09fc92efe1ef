"""One query, from the command line or standard input."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from dbt_lakehouse.errors import ConfigurationError, LakehouseError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.decoders import add_decoders
from dbt_lakehouse.queries.output import UNBOUNDED, Rows, Screen, Write, write_rows

_AGAIN_SECONDS: Final = 0.1


@contextmanager
def answered(reader: Reader, sql: str, limit: int | None = None) -> Iterator[Rows]:
    """The rows of a query, up to ``limit``. Raises the errors of ``Reader.query`` while rows are
    fetched.
    """
    add_decoders(reader, sql)
    with reader.explained():
        yield Rows(reader.query(sql), limit)


@contextmanager
def within(reader: Reader, seconds: float) -> Iterator[None]:
    """End a query that exceeds a time limit within the context. Raises ``ConfigurationError``
    then.
    """
    done, is_over = threading.Event(), threading.Event()

    def end() -> None:
        if done.wait(seconds):
            return
        is_over.set()
        # Between two queries there is nothing to interrupt.
        while not done.wait(_AGAIN_SECONDS):
            reader.interrupt()

    thread = threading.Thread(target=end, name="time limit", daemon=True)
    thread.start()
    try:
        yield
    except (LakehouseError, KeyboardInterrupt) as error:
        if not is_over.is_set():
            raise
        raise ConfigurationError(f"there was no answer within {seconds:.0f} s") from error
    finally:
        done.set()
        thread.join()


def rows_of(reader: Reader, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, as values that JSON has too."""
    with answered(reader, sql) as rows:
        return list(rows.values())


def sql_literal(text: str) -> str:
    """A text literal in DuckDB's SQL."""
    # DuckDB's parser ends a literal at U+0000.
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return f"({' || chr(0) || '.join(parts)})" if len(parts) > 1 else parts[0]


def answer(
    reader: Reader,
    sql: str,
    form: str,
    limit: int | None,
    write: Write,
    screen: Screen = UNBOUNDED,
) -> None:
    """Write the rows of a query in one of the forms of ``FORMS``. Raises ``ConfigurationError`` for
    a command of the shell.
    """
    if sql.lstrip().startswith("\\"):
        raise ConfigurationError(
            f"{sql.split()[0]} is a command of the shell, which `lakehouse sql` opens without a"
            " query: as a query, `show tables` lists tables, and `describe NAME` a table's columns"
        )
    with answered(reader, sql, limit) as rows:
        write_rows(rows, form, write, screen)


def moment(text: str | None) -> datetime | None:
    """A date or a moment, in UTC by default. Raises ``ConfigurationError``."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is not a time: write 2026-11-21, or 2026-11-21 07:30:00, which is UTC"
        ) from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
