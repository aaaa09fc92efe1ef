"""`lakehouse peek`: the newest messages of a topic, decoded."""

from collections.abc import Iterable, Sequence

import msgspec

from dbt_lakehouse.commands.explain.explain_output import events_lines
from dbt_lakehouse.commands.explain.guess import Guess, guess
from dbt_lakehouse.lake.schema_registry import know_schemas_of
from dbt_lakehouse.landing.kafka.peeking import Peeked
from dbt_lakehouse.stored.messages import event_json
from dbt_lakehouse.texts import time_text
from python_udfs.core.events import Event
from python_udfs.registry import decode_payload

_encode = msgspec.json.Encoder(decimal_format="number").encode


def peek_text(topic: str, messages: Iterable[Peeked]) -> str:
    """The messages as text."""
    lines = []
    for message in messages:
        found, events = _decoded(message)
        place = f"{topic}, partition {message.partition}, offset {message.offset}"
        moment = "without a time" if message.timestamp is None else time_text(message.timestamp)
        lines.append(f"{place}, {moment}: {found.format} ({found.how})")
        lines += [*events_lines(events, len(events)), ""]
    return "\n".join(lines).rstrip() or f"{topic} has no messages"


def peek_json(topic: str, messages: Iterable[Peeked]) -> str:
    """The messages as JSON lines."""
    lines = []
    for message in messages:
        found, events = _decoded(message)
        told = {
            "topic": topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": None if message.timestamp is None else time_text(message.timestamp),
            "format": found.format,
            "how": found.how,
            "events": [event_json(event) for event in events],
        }
        lines.append(_encode(told).decode())
    return "\n".join(lines)


def _decoded(message: Peeked) -> tuple[Guess, Sequence[Event]]:
    """The format of a message by vars.topics, or a guess; and its events."""
    know_schemas_of(message.format, (message.key, message.value))
    if message.format is None:
        found = guess(message.key, message.value, message.headers)
        return found, found.events
    found = Guess(message.format, "as vars.topics says")
    return found, decode_payload(message.format, message.key, message.value, message.headers)
