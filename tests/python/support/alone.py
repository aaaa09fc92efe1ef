"""What messages give when each is decoded alone: what a fast path is held against."""

from collections.abc import Sequence

from python_udfs.core.events import Decode, Event


def each_alone(
    decode: Decode, keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> list[list[Event]]:
    """The events of each message. The same message is decoded once: a batch that is large enough
    for a fast path repeats a few.
    """
    found: dict[tuple[bytes | None, bytes | None], list[Event]] = {}
    events = []
    for message in zip(keys, values, strict=True):
        if message not in found:
            found[message] = list(decode(*message))
        events.append(found[message])
    return events
