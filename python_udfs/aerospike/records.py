"""The common parts of the Aerospike wire formats: keys, times, nested paths, batches and Kafka
keys.

Both formats ship ``[namespace, set, digest, user key]`` as a record's key, beside the record and
again as the Kafka key; if a batch's keys are concatenated, the Kafka key is an array of such keys.

``metadata.bins`` (both formats) is an object of bin name -> facts about the bin that ``after``
can't express. Its property ``nested``, if present, maps paths inside the value, as it is in
``after``, to the shipped type:

    "bin"       binary, base64 in ``after``
    "java"      a serialized Java object (MessagePack ext 7), base64
    "geojson"   a GeoJSON object inside a list or map (ext 23), an object
    "ext <n>"   any other MessagePack ext type (a timestamp is ext -1), base64; an ext 23 too that
                holds no JSON object
    "map"       a map whose keys aren't all strings, or not all different: an array of [key, value]
    "float"     NaN or an infinity: the string NaN, Infinity or -Infinity
    "text"      a GEOJSON bin whose text is not a JSON object: that text as a string

Paths are written as in ``paths``.

Policies for undocumented cases:

- ``expires_at`` is null for 0, -1 and nil only. 4294967295, which is -1 read as an unsigned number,
  is taken as that second of the year 2106.
- A bin name that comes twice in one record is ``bad_field``: no column could keep both values.
- A Kafka key is kept as an array if it is an Aerospike key, else as base64 text.
- An element of a batch that is the string ``lakehouse.forgotten`` is a ``tombstone``, and such an
  element of a concatenated Kafka key is a tombstone's key: `lakehouse forget` has removed the data,
  and the other elements keep their places.
"""

from binascii import b2a_base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, BadShape, DecodeError, TooLarge
from python_udfs.core.events import FORGOTTEN, MAX_TIME_MS, MIN_TIME_MS, TOMBSTONE, Event
from python_udfs.core.paths import Path, PathTexts

DIGEST_BYTES: Final = 20  # 160 bits

# Connectors before 4.0 ship the last-update time in seconds. This number is March 1973 in
# milliseconds and the year 5138 in seconds, so it distinguishes the two.
FIRST_LUT_MS: Final = 10**11

NON_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class EventKeys(NamedTuple):
    """A Kafka key. ``keys`` are the Aerospike keys in it, each JSON-able; empty without any."""

    raw: bytes
    keys: list[list[Any]]
    concatenated: bool = False


class NestedKinds:
    """Collects ``nested`` for one bin of a record after the other."""

    __slots__ = ("_budget", "_kinds", "_paths")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        # Most records need none.
        self._paths: PathTexts | None = None
        self._kinds: dict[str, str] = {}

    def add(self, path: Path, kind: str) -> None:
        """Note what was shipped at a path of the bin. Raises ``TooLarge``: a small payload can
        hold many values below a long path.
        """
        if self._paths is None:
            self._paths = PathTexts()
        text = self._paths.of(path)
        try:
            self._budget.spend_text(text)
        except TooLarge as error:
            raise TooLarge(f": the paths of nested values are {error}") from None
        self._kinds[text] = kind

    def of_bin(self) -> dict[str, str]:
        """Return the notes on a bin, and begin the next one."""
        kinds = self._kinds
        if kinds:
            self._kinds = {}
        return kinds


def record_key(digest: bytes) -> bytes:
    """The ``record_key`` column of a record: ``{"digest":"<base64>"}``."""
    return b'{"digest":"' + b2a_base64(digest, newline=False) + b'"}'


def occurred_at(lut: int | None) -> int | None:
    """The last-update time in UTC milliseconds.

    None if it is unknown, zero, in seconds, or beyond the year 9999.
    """
    return lut if lut is not None and FIRST_LUT_MS <= lut <= MAX_TIME_MS else None


def expires_at(expiry: int | None) -> int | None:
    """The expiry, shipped in seconds since the epoch, in UTC milliseconds.

    None for never (0, -1), for a missing one, and beyond the range of timestamps.
    """
    if not expiry or expiry == -1:
        return None
    milliseconds = expiry * 1000
    return milliseconds if MIN_TIME_MS <= milliseconds <= MAX_TIME_MS else None


def occurred_at_of_many(luts: Sequence[Any]) -> Sequence[int | None]:
    """``occurred_at`` of each."""
    if None not in luts and FIRST_LUT_MS <= min(luts) <= max(luts) <= MAX_TIME_MS:
        return luts
    return list(map(occurred_at, luts))


def expires_at_of_many(expiries: Sequence[Any]) -> Sequence[int | None]:
    """``expires_at`` of each."""
    if None not in expiries and 0 < min(expiries) <= max(expiries) <= MAX_TIME_MS // 1000:
        return [expiry * 1000 for expiry in expiries]
    return list(map(expires_at, expiries))


def batch_events(
    items: Iterable[Any],
    metadata_of: Callable[[int], dict[str, Any]],
    record: Callable[[Any, int, str, dict[str, Any]], Event],
    invalid: Callable[[DecodeError, int, dict[str, Any]], Event],
    budget: Budget,
) -> list[Event]:
    """One event per item of a batch, some of which may be errors; one event for everything that
    is left after more errors than half a budget can hold.

    ``record`` makes an event from an item, its index, its path and its metadata (which it may
    extend), or raises ``DecodeError``; ``invalid`` makes one from an error.
    """
    events: list[Event] = []
    # Not from the rest of the budget: good records after one that has used it up must stay.
    most_errors = budget.bytes // (2 * _ERROR_BYTES)
    errors = 0
    for index, item in enumerate(items):
        at = f"$[{index}]"
        metadata = metadata_of(index)
        try:
            if isinstance(item, DecodeError):
                raise item
            events.append(record(item, index, at, metadata))
        except DecodeError as error:
            if errors == most_errors:
                too_many = TooLarge(
                    f"{at}: neither this element nor those after it are decoded, because {errors}"
                    " elements before it can't be"
                )
                events.append(invalid(too_many, index, {}))
                break
            errors += 1
            events.append(invalid(error, index, metadata))
    return events


# The size of an error event, with its sentence, on its way into a table.
_ERROR_BYTES: Final = 1024


def check_key_shape(key: Any, at: str, kind: Callable[[Any], str]) -> None:
    """Raise unless a record's key is an array of four; ``kind`` names what a value is instead."""
    if type(key) is not list:
        raise BadField(
            f"{at}.key: expected an array [namespace, set, digest, user key], got {kind(key)}"
        )
    if len(key) != 4:
        raise BadShape(
            f"{at}.key: expected 4 elements [namespace, set, digest, user key], got {len(key)}"
        )


def event_keys(
    raw: bytes | None,
    read: Callable[[bytes], Any],
    failures: type[Exception] | tuple[type[Exception], ...],
    is_key: Callable[[Any], bool],
) -> EventKeys | None:
    """The Aerospike keys in a Kafka key, which ``read`` parses."""
    if raw is None:
        return None
    try:
        tree = read(raw)
    except failures:
        return EventKeys(raw, [])
    if is_key(tree):
        return EventKeys(raw, [tree])
    if type(tree) is list:
        keys = [each for each in tree if each != FORGOTTEN]
        if keys and all(map(is_key, keys)):
            return EventKeys(raw, tree, concatenated=True)
    return EventKeys(raw, [])


def event_key_metadata(
    keys: EventKeys | None, index: int, count: int, room: int = 0
) -> dict[str, Any]:
    """The ``event_key`` part of the metadata of record ``index`` out of ``count``.

    Concatenated keys are assigned one to one; an error behind the last record gets none. Any
    other key belongs to the whole batch: each record gets it, but only the first one if all of
    them would take more than ``room`` bytes.
    """
    if keys is None:
        return {}
    if keys.concatenated and len(keys.keys) == count:
        if index >= count:
            return {}  # an error behind the records
        shown = [keys.keys[index]]
        key: Any = shown[0]
    elif index and len(keys.raw) * count > room:
        return {}
    else:
        shown = keys.keys
        if not shown:
            key = b2a_base64(keys.raw, newline=False).decode()
        else:
            key = shown if keys.concatenated else shown[0]
    metadata: dict[str, Any] = {"event_key": key}
    for each in shown:
        if type(each[3]) is bytes:
            # In JSON a binary user key looks like a string, and the record's own may differ.
            metadata["event_key_user_key_type"] = "bin"
            break
    return metadata


def forgotten(index: int) -> Event:
    """The event for the place of a removed record in a batch."""
    return Event(index, TOMBSTONE)


def tombstone(
    keys: EventKeys | None, digest: bytes | None, encode: Callable[[Any], bytes]
) -> Event:
    """The event of an empty value. ``digest`` is given if the Kafka key is a single Aerospike
    key.
    """
    metadata = event_key_metadata(keys, 0, 1)
    encoded = encode(metadata) if metadata else None
    if keys is None or digest is None:
        return Event(0, TOMBSTONE, metadata=encoded)
    namespace, set_name = keys.keys[0][:2]
    return Event(
        0,
        TOMBSTONE,
        source_schema=namespace,
        source_table=set_name,
        record_key=record_key(digest),
        metadata=encoded,
    )
