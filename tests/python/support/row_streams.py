"""Random streams of row events, and their batchings.

They hold what real topics hold: late events, duplicates, ties, unknown times, wrong clocks, expiry,
images that leave columns out, updates that change the key, truncates. Each *clone* has a seed,
records and partitions of its own, so that several batchings can be built side by side in one lake.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Final

from support.row_events import (
    BY_THE_SECOND,
    COLUMNS,
    NOTHING,
    POISON,
    TOMBSTONE,
    Event,
    Image,
    Source,
    Value,
)
from support.streams import DAY, HOUR, MINUTE, SECOND, START, UNAVAILABLE, clone_partition

# How the events of a clone come: one clone for each.
BATCHINGS: Final = (
    "in order",
    "a partition late",
    "out of order",
    "all in the first run",
    "all in the last run",
)
KEYS: Final = 5
# They differ in microseconds only.
_INSTANTS: Final = (None, "2026-11-21T10:00:00.123456", "2026-11-21T10:00:00.123999")
# The events of each partition of a clone.
EVENTS: Final = 22
# Truncates come among the first of them, so that they leave something.
_TRUNCATES_BEFORE: Final = 5

# What happens at a place of the log, about that time.
Make = Callable[[Event, int], Event]


def key_number(clone: int, number: int) -> int:
    """The key of a row of a clone."""
    return clone * 1000 + number


def aerospike_stream(source: Source, seed: int, clone: int) -> list[Event]:
    """Writes and deletes of a set's records."""
    dice = random.Random(f"{seed} {source.table}")
    luts: list[int] = [START]

    def make(place: Event, clock: int) -> Event:
        luts.append(clock)
        time = dice.choice(
            [
                *(clock, clock, clock + 3, dice.choice(luts[-6:]), dice.choice(luts[-6:])),
                *(clock - dice.randint(1, 20) * MINUTE, clock - dice.randint(1, 20) * MINUTE),
                # Unknown; a wrong clock; one that is hardly ahead.
                *(None, clock + 2 * DAY, clock + 2 * MINUTE),
            ]
        )
        event = place._replace(key=key_number(clone, dice.randrange(KEYS)), time_ms=time)
        if dice.random() < 0.25:
            return event._replace(operation="delete", has_set=dice.random() < 0.6)
        expiry = dice.choice([None] * 5 + [-HOUR, HOUR // 2, 12 * HOUR, 5 * DAY, 60 * DAY])
        return event._replace(
            named=_image(dice, clone, dice.randint(0, len(COLUMNS))),
            expires_s=None if expiry is None else (START + expiry) // SECOND,
        )

    return list(_places(source, "upsert", dice, clone, make))


def debezium_stream(
    source: Source, seed: int, clone: int, *, truncates: float = 0.0, lane: int = 0
) -> list[Event]:
    """Changes of a table with a key. ``lane`` keeps tables of one topic in partitions apart."""
    dice = random.Random(f"{seed} {source.table}")

    def make(place: Event, clock: int) -> Event:
        place = _of_one(place, dice)
        hours = dice.choice([0, 0, 0, -5, 5, 72, None])
        time = None if hours is None else clock + hours * HOUR + dice.randint(-3, 3) * MINUTE
        event = place._replace(time_ms=time)
        if source.is_ordered and dice.random() < 0.85:
            # Of few, some are the same; some are of what was changed long before.
            minutes = (clock - START) // MINUTE + dice.choice([0, 0, 0, 1, -9, -40])
            event = event._replace(lsn=95 + minutes)
        if event.offset < _TRUNCATES_BEFORE and dice.random() < truncates:
            # Of those of a log that its source orders, many say no place.
            lsn = event.lsn if event.offset % 2 else None
            return event._replace(operation="truncate", lsn=lsn)
        event = event._replace(key=key_number(clone, dice.randrange(KEYS)))
        operation = dice.choice(["snapshot", "insert", "update", "update", "update", "delete"])
        event = event._replace(operation=operation, before=dice.choice([None, NOTHING]))
        if operation == "delete":
            return event
        size = dice.randint(0, len(COLUMNS)) if source.partial else dice.choice([3, 4, 4])
        named = dict(_image(dice, clone, size))
        if operation == "update":
            if dice.random() < 0.1:
                event = event._replace(previous_key=key_number(clone, dice.randrange(KEYS)))
            for column in dice.sample([*named], dice.choice([0, 0, min(1, len(named))])):
                if COLUMNS[column] == "string":
                    # Only texts can be too large for the source's log.
                    named[column] = UNAVAILABLE
                    if event.before is not None and dice.random() < 0.3:
                        event = event._replace(before={column: f"before {dice.randrange(9)}"})
        if event.previous_key == event.key:
            event = event._replace(previous_key=None)
        return event._replace(named=named)

    return list(_places(source, "update", dice, clone, make, lane))


def compacted_stream(source: Source, seed: int, clone: int, *, lane: int = 0) -> list[Event]:
    """Changes of a table with a key in a compacted topic: a tombstone follows each delete, and of
    what a reader had not read yet when the topic was compacted, the last message of each key is
    left.
    """
    events = with_tombstones(debezium_stream(source, seed, clone, lane=lane))
    dice = random.Random(f"compaction {seed} {source.table}")
    left = []
    for partition in sorted({event.partition for event in events}):
        own = [event for event in events if event.partition == partition]
        # Mostly all of the topic is compacted behind a reader that has read about half of it: only
        # then do many rows rest on a tombstone, since nothing comes behind it.
        read = dice.randint(EVENTS // 2, 3 * EVENTS // 2)
        cleaned = 2 * EVENTS if clone else dice.randint(read, 2 * EVENTS)
        last = {event.key: event.offset for event in own if event.offset < cleaned}
        left += [
            event
            for event in own
            if not read <= event.offset < cleaned or event.offset == last[event.key]
        ]
    return left


def with_tombstones(events: Sequence[Event]) -> list[Event]:
    """The events, each delete followed by its tombstone. Updates replace no keys and leave nothing
    as it was: the last message of a key has all of its row.
    """
    found = []
    for event in events:
        named = {k: None if v == UNAVAILABLE else v for k, v in event.named.items()}
        event = event._replace(offset=2 * event.offset, previous_key=None, named=named)
        found.append(event)
        if event.operation == "delete":
            following = event._replace(operation=TOMBSTONE, offset=event.offset + 1, raw=None)
            found.append(following)
    return found


def with_lone_tombstones(events: Sequence[Event]) -> list[Event]:
    """The events, some of them no more than a tombstone of their key, whatever it has: in a topic
    that keeps all messages it is nothing.
    """
    return [
        event._replace(operation=TOMBSTONE, raw=None) if event.offset % 7 == 6 else event
        for event in events
    ]


def as_told(event: Event) -> Event:
    """The event as its format can tell it."""
    match event.source.format:
        case "arcion_json":
            # Which ships a changed key as a delete and an insert.
            return event._replace(previous_key=None)
        case "lindorm_json" if event.operation == "delete":
            # No Kafka key is documented.
            return event._replace(before=NOTHING)
        case "debezium_unwrapped_json" | "debezium_unwrapped_avro":
            return event._replace(before=None, previous_key=None)
        case "debezium_avro" if event.before is not None:
            # Of a table whose log has the key alone of rows before: all else is null there.
            return event._replace(before=NOTHING)
        case "aws_dms_json" | "cockroachdb_json" | "maxwell_json" | "canal_json" | "mongodb_json":
            named = {k: None if v == UNAVAILABLE else v for k, v in event.named.items()}
            event = event._replace(named=named)
            if event.source.format == "mongodb_json":
                # An _id is never replaced.
                event = event._replace(previous_key=None)
            if event.source.format == "cockroachdb_json":
                # Which ships a changed key as a delete and an insert, and scanned rows as inserts.
                scanned = event.operation == "snapshot"
                operation = "insert" if scanned else event.operation
                return event._replace(operation=operation, previous_key=None)
            if event.source.format in BY_THE_SECOND and event.time_ms is not None:
                return event._replace(time_ms=event.time_ms // SECOND * SECOND)
    return event


def with_noise(events: Sequence[Event], seed: int) -> list[Event]:
    """The stream with some of its places taken by what changes no row, and from some places on with
    a column that no model declares, with one of another type, and without one.
    """
    dice = random.Random(f"noise {seed}")
    drifts_from = {place: dice.randrange(2 * EVENTS) for place in (0, 1)}
    retyped_from, dropped_from = dice.randrange(3 * EVENTS), dice.randrange(3 * EVENTS)
    found = []
    for event in events:
        if (roll := dice.random()) < 0.02:
            raw = dice.choice([b"\xc1", b"{", b'{"__op":"x"}', b"[]", b"\x93\x01\x01"])
            event = event._replace(operation=POISON, raw=raw, key=None)
        elif roll < 0.04:
            event = event._replace(operation=TOMBSTONE, raw=dice.choice([None, b""]), key=None)
        elif event.named:
            named = dict(event.named)
            if event.offset >= drifts_from[event.partition % 2]:
                named["new_column"] = event.offset
            # Rows without a key are told by their images, those from before the drift too.
            if event.source.has_key and event.offset >= dropped_from:
                named.pop("note", None)
            if _is_retyped(event.source) and event.offset >= retyped_from and "level" in named:
                named["level"] = f"level {named['level']}"
            event = event._replace(named=named)
        found.append(event)
    return found


def _is_retyped(source: Source) -> bool:
    # Where the payload declares its types, a value of another one is no payload.
    return source.has_key and source.format not in ("arcion_json", "canal_json")


def keyless_stream(source: Source, seed: int, clone: int, *, truncates: float = 0.0) -> list[Event]:
    """Changes of a table without a key, whose images before are shipped in full, or not at all."""
    dice = random.Random(f"{seed} {source.topic} {source.table}")

    def make(place: Event, clock: int) -> Event:
        place = _of_one(place, dice)
        event = place._replace(time_ms=dice.choice([clock, clock - HOUR, None]))
        if event.offset < _TRUNCATES_BEFORE and dice.random() < truncates:
            return event._replace(operation="truncate")
        operation = dice.choice(["snapshot", "insert", "insert", "update", "update", "delete"])
        before = _one_of_few(dice, clone)
        if operation == "delete":
            return event._replace(operation=operation, before=before)
        named = dict(_one_of_few(dice, clone))
        if operation != "update" or dice.random() < 0.15:
            return event._replace(operation=operation, named=named)
        if dice.random() < 0.3:
            named["note"] = UNAVAILABLE
        return event._replace(operation=operation, named=named, before=before)

    return list(_places(source, "insert", dice, clone, make))


def _of_one(place: Event, dice: random.Random) -> Event:
    """The event as one of any of its source's tables, if they are several."""
    tables = place.source.tables
    return place._replace(of_table=dice.choice(tables)) if tables else place


def _image(dice: random.Random, clone: int, size: int) -> Image:
    values: dict[str, Value] = {
        "level": dice.choice([None, 1, 2, 3]),
        "label": dice.choice([None, "", "a", "b", f"{clone} \u00e9"]),
        "note": dice.choice([None, f"note {dice.randrange(10**6)}", 'with "quotes"']),
        "seen": dice.choice(_INSTANTS),
    }
    return {column: values[column] for column in dice.sample([*values], size)}


def _one_of_few(dice: random.Random, clone: int) -> Image:
    return {
        "level": dice.choice([None, 1]),
        "label": f"clone {clone}",
        "note": dice.choice([None, "a"]),
        "seen": dice.choice(_INSTANTS[1:]),
    }


def beside_others(event: Event, newest: int | None = None) -> Event:
    """A truncate at a millisecond of its own: of rows in the same one, in other partitions, nothing
    says whether they come before it (test_truncates.py). ``newest``: the largest timestamp before
    it in its partition, for it counts too.
    """
    times = [time for time in (event.sent_ms, newest) if time is not None]
    if event.operation != "truncate" or not times:
        return event
    return event._replace(sent_ms=max(times) + 1 + event.partition)


def _places(
    source: Source, operation: str, dice: random.Random, clone: int, make: Make, lane: int = 0
) -> Iterator[Event]:
    """The events of two partitions, some of them sent again later.

    Partition 0's timestamps go back and forth, and the first are missing. Partition 1's never go
    back: only there can offsets that come out of order have the log time that they would have had.
    """
    sent: list[Event] = []
    for partition in (0, 1):
        newest: int | None = None
        for offset in range(EVENTS):
            clock = START + offset * 3 * MINUTE
            timestamp: int | None = clock
            if partition == 0:
                timestamp = clock + dice.randint(-8, 8) * MINUTE
                if offset < 2 or dice.random() < 0.05:
                    timestamp = None
            number = clone_partition(clone, 2 * lane + partition)
            place = Event(source, number, offset, timestamp, operation)
            event = beside_others(make(place, clock), newest)
            again = [each for each in sent if each.operation != "truncate"]
            if again and dice.random() < 0.08:
                event = dice.choice(again)._replace(
                    partition=number, offset=offset, sent_ms=timestamp
                )
            sent.append(event)
            if event.sent_ms is not None:
                newest = max(event.sent_ms, newest or 0)
            yield event


def in_runs(
    clones: Sequence[Sequence[Event]], runs: int, seed: int | str = "runs"
) -> list[list[Event]]:
    """The events of all clones dealt out to the runs, those of each clone in its own batching.

    Each partition has dice of its own: another topic beside it changes nothing of it.
    """
    batches: list[list[Event]] = [[] for _ in range(runs)]
    for batching, events in zip(cycle(BATCHINGS), clones, strict=False):
        partitions: dict[tuple[str, int], list[Event]] = {}
        for event in events:
            partitions.setdefault((event.source.topic, event.partition), []).append(event)
        for (topic, partition), own in partitions.items():
            dice = random.Random(f"{seed} {topic} {partition}")
            places = _runs(batching, partition % 2 == 1, len(own), runs, dice)
            for event, run in zip(own, places, strict=True):
                batches[run].append(event)
    for batch in batches:
        random.Random(seed).shuffle(batch)
    return batches


def _runs(
    batching: str, never_goes_back: bool, count: int, runs: int, dice: random.Random
) -> list[int]:
    last = runs - 1
    if batching == "all in the first run":
        return [0] * count
    if batching == "all in the last run" or (batching == "a partition late" and never_goes_back):
        return [last] * count
    scattered = [dice.randint(0, last) for _ in range(count)]
    return scattered if batching == "out of order" and never_goes_back else sorted(scattered)
