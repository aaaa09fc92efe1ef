"""Which format a message is decoded by: that of its topic when it was looked at."""

import json
from typing import cast

from support.metadata import row, table

from dbt_lakehouse.config.topics import Condition, Formats, TopicMatcher, unlisted_text
from dbt_lakehouse.runs.formats import (
    PROPERTY,
    TopicFormats,
    format_sql,
    formats_of,
    formats_then,
    kept,
    no_longer_listed,
)

JSON = Formats.only("debezium_json")
MAXWELL = Formats.only("maxwell_json")
MIXED = Formats([(Condition(first_byte=0), "debezium_avro"), (None, "debezium_json")])


def test_a_message_keeps_the_format_that_its_topic_had() -> None:
    first = table(row(1), properties={PROPERTY: kept(None, {"a": (10, JSON), "b": (10, MIXED)})})
    again = table(row(1), properties={PROPERTY: kept(first, {"a": (20, JSON), "b": (20, MIXED)})})
    assert formats_of(again) == formats_of(first)
    changed = table(row(1), properties={PROPERTY: kept(again, {"a": (30, MAXWELL)})})
    formats = formats_of(changed)
    assert formats == {
        "a": TopicFormats([(None, JSON), (30, MAXWELL)]),
        "b": TopicFormats.always(MIXED),
    }
    assert [formats["a"].then(at) for at in (5, 29, 30, 31)] == [JSON, JSON, MAXWELL, MAXWELL]
    # Of a table that is made anew, today's are those of all.
    anew = table(row(1), properties={PROPERTY: kept(None, {"a": (10, MAXWELL)})})
    assert formats_of(anew) == {"a": TopicFormats.always(MAXWELL)}


def test_a_topic_whose_entry_is_gone_is_named_unless_that_is_known() -> None:
    looked = dict.fromkeys(("a", "b", "c", "d"), (10, JSON))
    held = table(row(1), properties={PROPERTY: kept(None, looked)})
    variables = {
        "topics": [{"topic": "a", "format": "maxwell_json"}],
        "undecoded_topics": ["d"],
    }
    unlisted = no_longer_listed(held, variables)
    assert unlisted == ["b", "c"]
    assert unlisted_text(unlisted).startswith(
        "topics b, c: no entry of vars.topics matches them, so new messages of them don't land"
    )
    variables["topics"] = [{"pattern": "[abc]", "format": "debezium_json"}]
    assert no_longer_listed(held, variables) == []
    assert no_longer_listed(table(row(1)), {}) == []


def test_it_is_told_in_sql() -> None:
    changed = TopicFormats([(None, JSON), (30, MAXWELL)])
    assert changed.sql() == (
        "case when landed_at < timestamp_micros(30) then 'debezium_json' else 'maxwell_json' end"
    )
    alike = {"a": TopicFormats.always(JSON), "b": TopicFormats.always(JSON)}
    both = format_sql(alike)
    assert both.split() == "case when topic in ('a', 'b') then 'debezium_json' end".split()
    assert format_sql({}) == "cast(null as string)"
    assert "X'00'" in TopicFormats.always(MIXED).sql()
    assert json.loads(kept(None, {"b": (1, MIXED)}))["b"][0][0] is None


class Asked:
    """Which formats vars.topics tells, and of which topics it was asked."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def formats_in_bronze(self, topic: str) -> Formats | None:
        self.topics.append(topic)
        return {"a": MAXWELL, "b": MAXWELL}.get(topic)


def test_of_a_topic_that_was_looked_at_nobody_asks_the_patterns() -> None:
    looked = table(row(1), properties={PROPERTY: kept(None, {"a": (10, JSON)})})
    asked = Asked()
    matcher = cast(TopicMatcher, asked)
    # One without any format is left out.
    found = formats_then(looked, ["a", "b", "c"], lambda: matcher)
    assert found == {"a": TopicFormats.always(JSON), "b": TopicFormats.always(MAXWELL)}
    assert asked.topics == ["b", "c"]

    def refused() -> TopicMatcher:
        raise AssertionError("the patterns are compiled")

    assert formats_then(looked, ["a"], refused) == {"a": TopicFormats.always(JSON)}
