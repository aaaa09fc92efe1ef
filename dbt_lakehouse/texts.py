"""Texts that are put together in many places: SQL literals, and words of messages."""

import difflib
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Whatever ends a line somewhere: SQL is indented, and a literal must not be.
_LINE_ENDS: Final = re.compile("[\n-\r\x1c-\x1e\x85\u2028\u2029]")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-f]{4})|(.))", re.DOTALL)


def sql_text(text: str) -> str:
    """A string literal of Spark's SQL, on one line, of any text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + _LINE_ENDS.sub(lambda end: f"\\u{ord(end[0]):04x}", escaped) + "'"


def text_of(literal: str) -> str:
    """The text that a literal of ``sql_text`` means."""
    return _ESCAPED.sub(lambda each: chr(int(each[1], 16)) if each[1] else each[2], literal[1:-1])


def printable(text: str) -> str:
    """A text without what a terminal would obey instead of showing it."""
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else repr(each)[1:-1] for each in text)


def _is_shown(character: str) -> bool:
    # Wide spaces, and what joins letters and emoji, are of ordinary texts.
    return (
        character.isprintable()
        or unicodedata.category(character) == "Zs"
        or character in "\u200c\u200d"
    )


def sql_texts(texts: Iterable[str]) -> str:
    """SQL literals, separated by commas."""
    return ", ".join(map(sql_text, texts))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question to put behind a name that is not known, if one is near: `` (did you mean x?)``."""
    near = difflib.get_close_matches(given, [*known], 1)
    return f" (did you mean {near[0]}?)" if near else ""


def counted(number: int, noun: str) -> str:
    """A number of things, whose plural has an s: ``1 topic``, ``2,000 topics``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time_text(micros: int) -> str:
    """A moment, in microseconds since the epoch, as ISO 8601: ``2026-11-21T10:00:00.123Z``."""
    return iso_text(_EPOCH + timedelta(microseconds=micros))


def iso_text(moment: datetime) -> str:
    """The same of a moment that knows its time zone."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"
