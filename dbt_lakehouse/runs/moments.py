"""The moment of a command: as of when rows are judged to be expired (``as_of``).

It is ``vars.as_of``, or the time at which the command has got the lake's lock: of two commands that
wait for it, the later one has the later moment. A row that has expired is gone from its table, so
the moment never goes back: where the clock is behind it, of another machine or set back, it stays.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

# By so much the clocks of machines may differ without a word.
_UNTOLD: Final = timedelta(minutes=1)


class Moment(NamedTuple):
    """The moment of a command, as text, and what is to be told of it, if anything."""

    text: str
    warning: str | None = None


def text_of(moment: datetime) -> str:
    """A moment in UTC and in one form, so that texts compare as the moments do."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(sep=" ", timespec="microseconds")


def given_moment(value: Any) -> Moment:
    """The moment that ``vars.as_of`` names: a text in ISO 8601, or a date or time of YAML's."""
    return Moment(text_of(datetime.fromisoformat(str(value))))


def moment_of(began: datetime, built: Mapping[str, str | None]) -> Moment:
    """The moment of a command that began at a time; ``built`` has the tables with rows that expire,
    by their models, and as of when each is, None for one that is not there.
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
        " as of that moment in this run too. If it was wrong, `dbt run --full-refresh -s"
        f" {' '.join(names)}` builds by the clock",
    )
