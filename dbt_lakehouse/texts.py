"""Texts that many places need: SQL literals, and words of messages."""

import difflib
import re
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Final

# The Gregorian calendar repeats after this many years, and days.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_SECONDS: Final = 86_400
# All line ends: SQL is indented, and a literal must not be.
_LINE_ENDS: Final = re.compile("[\n-\r\x1c-\x1e\x85\u2028\u2029]")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-f]{4})|(.))", re.DOTALL)
# The most names in a sentence.
_MAX_LISTED: Final = 12


def sql_text(text: str) -> str:
    """A string literal of Spark's SQL, on one line, of any text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + _LINE_ENDS.sub(lambda end: f"\\u{ord(end[0]):04x}", escaped) + "'"


def text_of(literal: str) -> str:
    """The text of a literal made by ``sql_text``."""
    return _ESCAPED.sub(lambda each: chr(int(each[1], 16)) if each[1] else each[2], literal[1:-1])


def printable(text: str) -> str:
    """A text without characters that a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else repr(each)[1:-1] for each in text)


def _is_shown(character: str) -> bool:
    # Wide spaces, and joiners of letters and emoji, belong to ordinary texts.
    return (
        character.isprintable()
        or unicodedata.category(character) == "Zs"
        or character in "\u200c\u200d"
    )


def shown_width(text: str) -> int:
    """The number of terminal columns of a printable text: East Asian characters and emoji take
    two, combining accents none.
    """
    if text.isascii():
        return len(text)
    return sum(map(_columns_taken, text))


def _columns_taken(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def sql_texts(texts: Iterable[str]) -> str:
    """SQL literals, separated by commas."""
    return ", ".join(map(sql_text, texts))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A suffix for an unknown name, if a known one is similar, in any case: `` (did you mean
    x?)``.
    """
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(given.lower(), by_lower, 1)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""


def unmatched_bracket(pattern: str) -> str | None:
    """The bracket that a regular expression lacks, which needs no JVM to see; None if all match, as
    far as Python can tell of Java's.
    """
    try:
        with warnings.catch_warnings():
            # Warnings about syntax that Python will change.
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (OverflowError, RecursionError):
        # Python has its own limits of numbers and depths.
        return None
    except re.error as error:
        # Java's classes may be nested, so that one may end elsewhere.
        is_group = error.msg.startswith(("missing )", "unbalanced parenthesis"))
        if error.msg == "unterminated character set" or (is_group and "[" not in pattern):
            return f"{error.msg} at position {error.pos}"
    return None


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural has an s: ``1 topic``, ``2,000 topics``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def date_text(days: int) -> str:
    """A date, in days since the epoch, as ISO 8601, even outside of Python's range:
    ``2026-11-21``, ``+12000-01-01``, ``-0043-03-15``.
    """
    cycles, rest = divmod(days, _CYCLE_DAYS)
    day = date.fromordinal(_EPOCH_DAY + rest)
    year = day.year + cycles * _CYCLE_YEARS
    return f"{year:04}-{day:%m-%d}" if 0 <= year <= 9999 else f"{year:+05}-{day:%m-%d}"


def wall_text(ticks: int, digits: int = 6) -> str:
    """A date and time, in units of ``digits`` decimals since the epoch, as ISO 8601:
    ``2026-11-21T10:00:00.123``.
    """
    seconds, fraction = divmod(ticks, 10**digits)
    days, second = divmod(seconds, _DAY_SECONDS)
    minutes, second = divmod(second, 60)
    behind = f".{fraction:0{digits}}".rstrip("0") if fraction else ""
    return f"{date_text(days)}T{minutes // 60:02}:{minutes % 60:02}:{second:02}{behind}"


def time_text(micros: int) -> str:
    """A moment, in microseconds since the epoch, as ISO 8601: ``2026-11-21T10:00:00.123Z``."""
    return wall_text(micros) + "Z"


def iso_text(moment: datetime) -> str:
    """A moment with a time zone, in the form of ``time_text``."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def listed(start: str, names: Sequence[str]) -> str:
    """The names after the start of a sentence, only the first ones if there are many."""
    if not names:
        return f"{start} nothing"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{start} {', '.join(names[:_MAX_LISTED])}{more}"
