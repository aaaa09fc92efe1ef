"""What `make soak` plays: streams of every wire format that say what the references take of them,
and what is left of a failure. No lake is opened.
"""

import json

import pytest
from support import soak
from support.row_avro import registered
from support.row_events import POISON, TOMBSTONE, Event, Source, key_value
from support.row_messages import message
from support.soak_streams import SOURCES, Do, Episode, deep, wide

from python_udfs.core.events import Event as Decoded
from python_udfs.debezium import avro
from python_udfs.registry import FORMATS, decode_payload


@pytest.fixture(scope="module")
def episode() -> Episode:
    return wide(1, 3)


def test_every_wire_format_is_played(episode: Episode) -> None:
    assert {source.format for source in SOURCES} == {*FORMATS}
    for operation in ("delete", "truncate", POISON, TOMBSTONE):
        formats = {each.source.format for each in soak.events_of(episode)}
        having = {
            each.source.format for each in soak.events_of(episode) if each.operation == operation
        }
        truncated = {"debezium_json", "aws_dms_json", "canal_json"}
        assert having == (truncated if operation == "truncate" else formats)


@pytest.mark.parametrize("source", SOURCES, ids=[source.table for source in SOURCES])
def test_messages_say_what_their_events_are(episode: Episode, source: Source) -> None:
    avro.know(registered())
    for event in (each for each in soak.events_of(episode) if each.source == source):
        sent = message(event)
        decoded, *neighbours = decode_payload(source.format, sent.key, sent.value)
        assert len(neighbours) <= (event.is_marked and source.is_aerospike)
        wanted = "invalid" if event.operation == POISON else event.operation
        assert decoded.operation == wanted, (event, decoded)
        if event.is_change:
            assert decoded.occurred_at == event.time_ms
            names_table = event.has_set and source.names_table
            assert decoded.source_table == (event.table if names_table else None)
            assert _key(source, event) in (None, *_keys(decoded))


def _key(source: Source, event: Event) -> int | str | None:
    return None if event.key is None else key_value(source, event.key)


def _keys(decoded: Decoded) -> list[int | str]:
    """All values among which the key is."""
    images = (decoded.record_key, decoded.after, decoded.before)
    return [value for image in images if image for value in json.loads(image).values()]


def test_a_failure_shrinks_to_what_it_needs() -> None:
    """Here two messages, of whatever streams and runs."""
    episode = deep(7, 8, 3)
    events = soak.events_of(episode)
    needed = {id(events[3]), id(events[-4])}
    steps = [step.do for step in episode.steps]

    def fails(smaller: Episode) -> bool:
        return needed <= {id(each) for each in soak.events_of(smaller)}

    small = soak.shrunk(episode, fails, until=float("inf"))
    assert {id(each) for each in soak.events_of(small)} == needed
    assert {step.do for step in small.steps} <= {Do.RUN, Do.LEAVE_OUT}
    assert len(small.steps) < len(steps)
    lines = [line for line in soak.told(small, ["wrong"]).splitlines() if line[0] == "{"]
    assert [json.loads(line)["offset"] for line in lines] == [
        each.offset for each in soak.events_of(small)
    ]
