"""The moment of a command: the time at which rows are judged to have expired (``as_of``).

It is ``vars.as_of``, or the time at which the command got the lake's lock. So of two commands
that wait for the lock, the later one has the later moment. An expired row is gone from its table,
so the moment never goes back: if the clock is behind the table's moment (another machine's clock,
or one set back), the table's moment is taken.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

# Clocks of machines may differ by this much without a warning.
_UNTOLD: Final = timedelta(minutes=1)


class Moment(NamedTuple):
    """The moment of a command as text, and the message about it, if any."""

    text: str
    warning: str | None = None


def text_of(moment: datetime) -> str:
    """A moment in UTC in one format, so that texts compare as the moments do."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(sep=" ", timespec="microseconds")


def given_moment(value: Any) -> Moment:
    """The moment of ``vars.as_of``: a text in ISO 8601, or a date or time from YAML."""
    return Moment(text_of(datetime.fromisoformat(str(value))))


def moment_of(began: datetime, built: Mapping[str, str | None]) -> Moment:
    """The moment of a command that began at a time. ``built`` maps the models of tables with
    expiring rows to the moments of these tables, None for a table that does not exist.
    """
    now = text_of(began)
    later = {name: text for name, text in built.items() if text is not None and text > now}
    if not later:
        return Moment(now)
    newest = max(later.values())
    if datetime.fromisoformat(newest) - datetime.fromisoformat(now) < _UNTOLD:
        return Moment(newest)
    names = sorted(later)
    return Moment(
        newest,
        f"the clock says {now[:19]}, but {', '.join(names)} {'was' if len(names) == 1 else 'were'}"
        f" built as of up to {newest[:19]}, and rows that had expired by then are gone: rows expire"
        " as of that moment in this run too. If that moment was wrong, `dbt run --full-refresh -s"
        f" {' '.join(names)}` builds by the clock",
    )
