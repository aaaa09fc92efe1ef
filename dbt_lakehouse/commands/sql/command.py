"""One query, from the command line or standard input."""

from datetime import UTC, datetime

import duckdb

from dbt_lakehouse.commands.sql.output import WRITERS, Rows, Write
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader


def answer(reader: Reader, sql: str, form: str, limit: int | None, write: Write) -> None:
    """Write the rows of a query, ``limit`` at most, in one of the forms of ``WRITERS``.

    Raises what ``Reader.query`` raises.
    """
    result = reader.query(sql)
    try:
        WRITERS[form](Rows(result, limit), write)
    except duckdb.Error as error:
        raise reader.told(error) from error


def moment(text: str | None) -> datetime | None:
    """A day or a moment, in UTC unless it says otherwise. Raises ``ConfigurationError``."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is no time: write 2026-11-21, or 2026-11-21 07:30:00, which is UTC"
        ) from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
