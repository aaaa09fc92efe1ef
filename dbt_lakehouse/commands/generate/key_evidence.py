"""Evidence from messages on whether their keys identify rows.

Debezium's ``message.key.columns`` lets messages have any columns as their key. With a key that
identifies rows, no row is inserted while one exists, and no update changes a row's key: Debezium
ships such an update as a delete and an insert.

    {"customer":7}  c  {"id":1,"customer":7}
    {"customer":7}  c  {"id":2,"customer":7}      two rows of one key

Messages come at least once, so a repeated insert is not evidence. Nor is an insert of a source
whose inserts are upserts. Rows of a snapshot are compared within that snapshot: with the same
place in the source's log.

A sample of keys is examined, those with the least digests, with their first events. So the state
does not grow with the topic, and profiles of parts add up to that of the whole.
"""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from python_udfs.core.events import DELETE, INSERT, SNAPSHOT, Event
from python_udfs.debezium.keys import key_text

KEYS_KEPT: Final = 512
EVENTS_KEPT: Final = 16
_TRUNCATES_KEPT: Final = 64
# The connectors of databases in which an insert replaces an existing row; and a connector that
# ships a row's new key in an update.
_UPSERTING: Final = tuple(
    b'"connector":"%b"' % name for name in (b"cassandra", b"scylla", b"yugabytedb")
)
_MOVING: Final = b'"connector":"TiCDC"'
# The place in the source's log at which a row was read.
_PLACES: Final = ("lsn", "file", "pos", "scn", "commit_scn", "change_lsn", "commit_lsn")


class KeyEvent(NamedTuple):
    """The evidence of an event about its key."""

    position: tuple[Any, ...]
    operation: str
    image: int
    """A digest of the row; 0 for a delete."""
    place: str
    """For a row of a snapshot, the snapshot's place."""


@dataclass(slots=True)
class Reinserted:
    """Evidence of keys for which rows were inserted again."""

    keys: int = 0
    looked_at: int = 0
    example: tuple[Any, ...] | None = None
    """The position of the first of those events."""


@dataclass(slots=True, eq=False)
class KeyEvidence:
    """The evidence of events about keys with the same names."""

    events: dict[int, list[KeyEvent]] = field(default_factory=dict)
    """The first events of the keys with the least digests, by digest."""
    moved: int = 0
    """Updates in which the row's key differs between before and after."""
    moved_at: tuple[Any, ...] | None = None
    kept: set[str] | None = None
    """The columns that no such update has changed."""
    _limit: int = 2**64

    def add(self, event: Event, position: tuple[Any, ...]) -> None:
        """Record an event with a key."""
        if event.operation not in (INSERT, SNAPSHOT, DELETE) or event.record_key is None:
            return
        key = _digest(event.record_key)
        if key > self._limit:
            return
        image, place = 0, ""
        if event.operation != DELETE:
            metadata = event.metadata or b""
            if event.after is None or any(each in metadata for each in _UPSERTING):
                return
            image = _digest(event.after)
            if event.operation == SNAPSHOT and not (place := _place(metadata)):
                return
        self._keep(key, [KeyEvent(position, event.operation, image, place)])

    def add_update(
        self,
        event: Event,
        names: Sequence[str],
        images: tuple[Mapping[str, Any], Mapping[str, Any]],
        position: tuple[Any, ...],
    ) -> None:
        """Record an update with both of its images."""
        before, after = images
        was, now = ({name: image.get(name) for name in names} for image in images)
        if None in (*was.values(), *now.values()) or _MOVING in (event.metadata or b""):
            return
        # Equal numbers are equal, whatever their scale.
        if was == now or key_text(was) == key_text(now):
            return
        self.moved += 1
        self.moved_at = min(self.moved_at or position, position)
        unchanged = {name for name in after if before.get(name) == after[name]}
        self.kept = unchanged if self.kept is None else self.kept & unchanged

    def merge(self, other: "KeyEvidence") -> None:
        """Add the evidence of another part."""
        for key, events in other.events.items():
            self._keep(key, events)
        self.moved += other.moved
        if other.moved_at is not None:
            self.moved_at = min(self.moved_at or other.moved_at, other.moved_at)
        if other.kept is not None:
            self.kept = other.kept if self.kept is None else self.kept & other.kept

    def _keep(self, key: int, events: Iterable[KeyEvent]) -> None:
        kept = self.events.setdefault(key, [])
        for event in events:
            insort(kept, event)
        del kept[EVENTS_KEPT:]
        if len(self.events) > KEYS_KEPT:
            del self.events[max(self.events)]
            self._limit = max(self.events)

    def reinserted(self, truncates: Sequence[tuple[Any, ...]]) -> Reinserted:
        """The keys for which a row is inserted while another one exists; ``truncates`` are the
        positions at which all rows went.
        """
        found = Reinserted(looked_at=len(self.events))
        for events in self.events.values():
            at = _second_row(events, truncates)
            if at is not None:
                found.keys += 1
                found.example = min(found.example or at, at)
        return found


def _second_row(
    events: Sequence[KeyEvent], truncates: Sequence[tuple[Any, ...]]
) -> tuple[Any, ...] | None:
    """The position of the first event that brings a row while another one exists."""
    seen: set[int] = set()
    last: KeyEvent | None = None
    for event in events:
        if event.operation == DELETE:
            last = None
            continue
        if last is not None and any(last.position < each < event.position for each in truncates):
            last = None
        is_new = event.image not in seen
        seen.add(event.image)
        # A snapshot reads existing rows again.
        is_second = (
            last is not None
            and is_new
            and (event.operation == INSERT or last.place == event.place)
            and (event.operation == SNAPSHOT or last.operation == INSERT)
        )
        if is_second:
            return event.position
        last = event
    return None


def add_truncate(truncates: list[tuple[Any, ...]], position: tuple[Any, ...]) -> None:
    """Keep the position of a truncate, if it is among the first."""
    insort(truncates, position)
    del truncates[_TRUNCATES_KEPT:]


def _digest(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class _Metadata(msgspec.Struct):
    source: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_metadata_of = msgspec.json.Decoder(_Metadata, float_hook=str).decode


def _place(metadata: bytes) -> str:
    """The place in the source's log at which it took a snapshot, empty without one."""
    try:
        source = _metadata_of(metadata or b"{}").source
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    if isinstance(source, msgspec.UnsetType):
        return ""
    return ",".join(f"{name}={source[name]}" for name in _PLACES if source.get(name) is not None)
