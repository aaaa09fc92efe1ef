"""The formats of topics, as they were when other_events looked at their messages.

They are kept with its table. So a message is decoded later as it was then, whatever vars.topics
says by now, and without Spark, although vars.topics has patterns in Java's syntax.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from dbt_lakehouse.config.topics import Condition, Formats, TopicMatcher, unlisted_topics
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.decisions import moment
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.core.events import FORGOTTEN

PROPERTY: Final = "lakehouse.formats"
JSON_ESCAPE: Final = b"\\u"
"""A JSON text without it has each of its letters as such."""


class TopicFormats(NamedTuple):
    """The formats of a topic, the newest last."""

    since: list[tuple[int | None, Formats]]
    """The formats with the time from which on messages with them landed, in microseconds since
    the epoch; None for the first.
    """

    @classmethod
    def always(cls, formats: Formats) -> "TopicFormats":
        """A topic whose formats have not changed."""
        return cls([(None, formats)])

    def then(self, landed_at: int) -> Formats:
        """The formats of a message that landed at a time."""
        found = [each for since, each in self.since if since is None or since <= landed_at]
        return found[-1]

    def sql(self) -> str:
        """The format of a message, as SQL over the columns of bronze."""
        *earlier, newest = [chosen_sql(formats.chosen) for _, formats in self.since]
        if not earlier:
            return newest
        whens = " ".join(
            f"when landed_at < {moment(end)} then {sql}"
            for (end, _), sql in zip(self.since[1:], earlier, strict=True)
        )
        return f"case {whens} else {newest} end"


def formats_of(table: Table) -> dict[str, TopicFormats]:
    """The formats of all topics that other_events has looked at, by the topic's name in bronze."""
    held = json.loads(table.properties.get(PROPERTY) or "{}")
    return {
        topic: TopicFormats(
            [
                (
                    since,
                    Formats(
                        [
                            (None if when is None else Condition(*when), name)
                            for when, name in chosen
                        ]
                    ),
                )
                for since, chosen in each
            ]
        )
        for topic, each in held.items()
    }


def no_longer_listed(table: Table, variables: Mapping[str, Any]) -> list[str]:
    """The topics whose entry has been removed from ``vars.topics`` since other_events looked at
    their messages, without those that ``vars.undecoded_topics`` names.
    """
    topics = formats_of(table).keys() - {*(variables.get("undecoded_topics") or ())}
    return unlisted_topics(variables.get("topics"), sorted(topics))


def kept(table: Table | None, found: Mapping[str, tuple[int, Formats]]) -> str:
    """The property that other_events keeps after looking at more topics, at messages that have
    landed since a time. ``table`` is other_events as it was, None if it is rebuilt.
    """
    known = {} if table is None else formats_of(table)
    for topic, (landed_at, now) in found.items():
        held = known.setdefault(topic, TopicFormats.always(now)).since
        if held[-1][1] != now:
            held.append((landed_at, now))
    return json.dumps(
        {
            topic: [(since, each.chosen) for since, each in formats.since]
            for topic, formats in sorted(known.items())
        }
    )


def formats_then(
    table: Table | None, topics: Iterable[str], matcher: Callable[[], TopicMatcher]
) -> dict[str, TopicFormats]:
    """The formats by which other_events (``table``) has looked at some topics. For a topic that
    it has not looked at, those of ``matcher``, by vars.topics. A topic without formats is left
    out.
    """
    held = {} if table is None else formats_of(table)
    asked = [topic for topic in topics if topic not in held]
    found = {topic: held[topic] for topic in topics if topic in held}
    if asked:
        by_vars = matcher()
        for topic in asked:
            formats = by_vars.formats_in_bronze(topic)
            if formats is not None:
                found[topic] = TopicFormats.always(formats)
    return found


def format_sql(topics: Mapping[str, TopicFormats]) -> str:
    """The format of a message of one of these topics, as SQL over the columns of bronze; null for
    any other topic. It is faster than matching each message's topic against all patterns.
    """
    alike: dict[str, list[str]] = {}
    for topic, each in topics.items():
        alike.setdefault(each.sql(), []).append(topic)
    if not alike:
        return "cast(null as string)"
    whens = "\n".join(
        f"    when topic in ({sql_texts(names)})\n        then {sql}"
        for sql, names in alike.items()
    )
    return f"case\n{whens}\nend"


def chosen_sql(chosen: Iterable[tuple[Condition | None, str]]) -> str:
    """The first format whose condition a message meets, as SQL."""
    whens: list[str] = []
    for when, name in chosen:
        if when is None:
            last = sql_text(name)
            return f"case {' '.join(whens)} else {last} end" if whens else last
        whens.append(f"when {condition_sql(when)} then {sql_text(name)}")
    return f"case {' '.join(whens)} end" if whens else "cast(null as string)"


def condition_sql(when: Condition) -> str:
    """``Condition.holds`` as SQL."""
    if when.header is None:
        holds = f"substring(coalesce(value, key), 1, 1) = X'{when.first_byte or 0:02X}'"
    else:
        holds = f"exists(headers, header -> {is_asked_for(when)})"
    return (
        f"({holds} or (key is null and value is null"
        f" and exists(headers, header -> header.key = '{FORGOTTEN}')))"
    )


def is_asked_for(when: Condition) -> str:
    """Whether a ``header`` is the one that a condition names, as SQL."""
    value = f"cast({sql_text(when.value or '')} as binary)"
    return f"header.key = {sql_text(when.header or '')} and header.value = {value}"
