"""Writes the demo's captures: one JSON-lines file per topic, the same bytes each time.

    python seeds/generate.py

Users never need it: the captures are committed. Maintainers change it, run it and commit both. It
builds every payload from the wire formats' own documents (MessagePack from their diagrams) and
shares nothing with the decoders, so that a mistake there can't hide here. All chance comes from
``random.Random(<topic>).random()``, which Python promises to keep the same between versions.

Digests are the SHA-1 of set, key type and user key: 20 stable bytes that every Python has. A real
server uses RIPEMD-160 there, which OpenSSL 3 often ships switched off; nothing downstream depends
on the algorithm.
"""

import hashlib
import json
import random
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

import msgpack

T = TypeVar("T")
Image = dict[str, Any]
Header = tuple[str, bytes | None]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
# Seconds since the epoch: an expiry that no run of the demo will live to see, 2040-01-01.
YEAR_2040: Final = 2_208_988_800


# --- what every topic shares ----------------------------------------------------------------------


def at(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 date and time, taken as UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


def iso(ms: int, digits: int = 3) -> str:
    """``2026-10-03T09:00:00.123``: ``digits`` is 3 or 6."""
    moment = EPOCH + timedelta(milliseconds=ms)
    return moment.replace(tzinfo=None).isoformat(
        timespec="milliseconds" if digits == 3 else "microseconds"
    )


def b64(data: bytes) -> str:
    """Base64 text with padding."""
    return b64encode(data).decode("ascii")


def compact(value: object) -> bytes:
    """JSON without white space, as the connectors write it; non-ASCII letters as UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def pretty(value: object) -> bytes:
    """JSON indented by two: how the Arcion and Lindorm pages print theirs."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


class Dice:
    """Repeatable chance, seeded by a name."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(f"cdc_lakehouse demo: {name}")

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """One of ``choices``."""
        return choices[self.between(0, len(choices) - 1)]


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message before it has an offset."""

    arrival: int
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(slots=True)
class Topic:
    """Collects a topic's messages in any order and writes them in the order of their arrival."""

    name: str
    partitions: int = 1
    messages: list[Message] = field(default_factory=list)
    dice: Dice = field(init=False)

    def __post_init__(self) -> None:
        self.dice = Dice(self.name)

    def partition_of(self, route: bytes) -> int:
        """The partition of a record: as in Kafka, a hash of what identifies it."""
        return crc32(route) % self.partitions

    def send(
        self,
        arrival: int,
        key: bytes | None,
        value: bytes | None,
        *,
        route: bytes = b"",
        partition: int | None = None,
        headers: Iterable[Header] = (),
    ) -> None:
        """Add a message that reaches the broker at ``arrival`` (milliseconds since the epoch)."""
        if partition is None:
            partition = self.partition_of(route)
        self.messages.append(Message(arrival, partition, key, value, tuple(headers)))

    def capture(self) -> bytes:
        """The JSON lines. Producers' clocks differ: timestamps are not monotonic in a partition."""
        clock = Dice(f"{self.name} clock")
        offsets = [0] * self.partitions
        newest = [0] * self.partitions
        lines: list[bytes] = []
        for message in sorted(self.messages, key=lambda m: m.arrival):
            timestamp = message.arrival
            if clock.chance(0.2) and timestamp - newest[message.partition] < 10 * HOUR:
                # The producer stamped it before the one in front, and its buffer held it back.
                behind = clock.between(2, 900) if clock.chance(0.6) else clock.between(1, 240_000)
                timestamp = newest[message.partition] - behind
            newest[message.partition] = max(newest[message.partition], timestamp)
            line: dict[str, Any] = {
                "topic": self.name,
                "partition": message.partition,
                "offset": offsets[message.partition],
                "timestamp_ms": timestamp,
                "key_b64": None if message.key is None else b64(message.key),
                "value_b64": None if message.value is None else b64(message.value),
            }
            if message.headers:
                line["headers"] = [[n, None if v is None else b64(v)] for n, v in message.headers]
            offsets[message.partition] += 1
            lines.append(compact(line) + b"\n")
        return b"".join(lines)


CITIES: Final[dict[str, tuple[float, float]]] = {
    "Lisbon": (-9.1393, 38.7223),
    "Leipzig": (12.3731, 51.3397),
    "Kraków": (19.945, 50.0647),
    "Ghent": (3.7174, 51.0543),
    "Bologna": (11.3426, 44.4949),
    "Aarhus": (10.2039, 56.1629),
    "Nantes": (-1.5536, 47.2184),
    "Valencia": (-0.3763, 39.4699),
    "Tartu": (26.729, 58.378),
    "Graz": (15.4395, 47.0707),
}
PEOPLE: Final = (
    ("Ana", "Ferreira", "Lisbon"),
    ("Jonas", "Keller", "Leipzig"),
    ("Zofia", "Nowak", "Kraków"),
    ("Lotte", "De Smet", "Ghent"),
    ("Giulia", "Conti", "Bologna"),
    ("Mikkel", "Holm", "Aarhus"),
    ("Élodie", "Garnier", "Nantes"),
    ("Pablo", "Ibáñez", "Valencia"),
    ("Kertu", "Saar", "Tartu"),
    ("Lukas", "Gruber", "Graz"),
    ("Inês", "Carvalho", "Lisbon"),
    ("Friederike", "Voss", "Leipzig"),
    ("Tomasz", "Wójcik", "Kraków"),
    ("Bram", "Claes", "Ghent"),
    ("Matteo", "Ricci", "Bologna"),
    ("Signe", "Lund", "Aarhus"),
    ("Hugo", "Lefèvre", "Nantes"),
    ("Carmen", "Soler", "Valencia"),
    ("Rasmus", "Tamm", "Tartu"),
    ("Theresa", "Pichler", "Graz"),
    ("Rui", "Matos", "Lisbon"),
    ("Nele", "Brandt", "Leipzig"),
    ("Agnieszka", "Lis", "Kraków"),
    ("Wout", "Maes", "Ghent"),
    ("Chiara", "Fontana", "Bologna"),
    ("Freja", "Dahl", "Aarhus"),
    ("Maël", "Rousseau", "Nantes"),
    ("Irene", "Vidal", "Valencia"),
    ("Liis", "Kask", "Tartu"),
    ("Felix", "Hofer", "Graz"),
    ("Beatriz", "Lopes", "Lisbon"),
    ("Moritz", "Engel", "Leipzig"),
    ("Kacper", "Zając", "Kraków"),
    ("Elise", "Wouters", "Ghent"),
)


def email_of(first: str, last: str) -> str:
    """An address of the reserved domain example.org, without accents or spaces."""
    plain = f"{first}.{last}".lower().replace(" ", "")
    return plain.translate(str.maketrans("éèëêáàãâñóòôíìúùçłżź", "eeeeaaaanoooiiuuclzz")) + (
        "@example.org"
    )


# --- Aerospike, MessagePack -----------------------------------------------------------------------

UserKey = str | int | bytes
WRITE: Final = 1
DELETE: Final = 2
DURABLE_DELETE: Final = 0x01
# Particle types of bins; 9 (Python object) is one that the documents do not list.
NULL, INTEGER, DOUBLE, STRING, BLOB, JAVA_OBJ, PYTHON_OBJ = 0, 1, 2, 3, 4, 7, 9
BOOLEAN, HLL, MAP, LIST, GEOJSON = 17, 18, 19, 20, 23
UNORDERED, KEY_ORDERED, KEY_VALUE_ORDERED = 0, 1, 3
ORDERED: Final = 1

Bin = list[Any]


def pack(value: object) -> bytes:
    """MessagePack, with ``bin`` for bytes and ``ext`` for ``msgpack.ExtType``."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


@dataclass(frozen=True, slots=True)
class Record:
    """What the keys of an Aerospike record are made of.

    ``stored`` says whether the server keeps the user key.
    """

    namespace: str
    set: str
    user_key: UserKey
    stored: bool = True

    @property
    def digest(self) -> bytes:
        """20 bytes; see the module's docstring."""
        if isinstance(self.user_key, int):
            typed = b"\x01" + struct.pack(">q", self.user_key)
        elif isinstance(self.user_key, str):
            typed = b"\x03" + self.user_key.encode()
        else:
            typed = b"\x04" + self.user_key
        return hashlib.sha1(self.set.encode() + typed).digest()

    def key(self) -> list[Any]:
        """The key of a write."""
        return [self.namespace, self.set, self.digest, self.user_key if self.stored else None]

    def delete_key(self) -> list[Any]:
        """The key of a delete, which by the documents has neither set nor user key."""
        return [self.namespace, None, self.digest, None]


def write(
    key: list[Any], generation: int | None, expiry: int | None, lut: int | None, bins: list[Bin]
) -> list[Any]:
    """A WRITE message."""
    return [1, WRITE, [key, generation, expiry, lut, bins]]


def point(city: str) -> str:
    """The GeoJSON text of a city."""
    return json.dumps({"type": "Point", "coordinates": list(CITIES[city])})


def java_string(text: str) -> bytes:
    """What Java's ObjectOutputStream writes for a String."""
    data = text.encode()
    return b"\xac\xed\x00\x05t" + struct.pack(">H", len(data)) + data


def gif(seed: str) -> bytes:
    """A GIF of one pixel."""
    colour = hashlib.sha256(seed.encode()).digest()[:3]
    head = b"GIF89a\x01\x00\x01\x00\x80\x00\x00" + colour + b"\x00\x00\x00"
    return head + bytes.fromhex("2c000000000100010000020244 01003b")


def sketch(seed: str) -> bytes:
    """Bytes of the length of a small HyperLogLog bin."""
    return hashlib.sha512(seed.encode()).digest()[:38]


def preferences(n: int) -> Bin:
    """Preferences of person ``n``: each map order, and keys and values that plain JSON lacks."""
    city = PEOPLE[n][2]
    if n == 7:
        odd = {"theme": "light", 3: "three", 2.5: "half", b"\x00\xff": b"raw", None: [None, True]}
        return ["preferences", MAP, UNORDERED, odd]
    match n % 4:
        case 0:
            plain = {"theme": "dark", "newsletter": n % 8 == 0, "language": "en", "volume": 0.8}
            return ["preferences", MAP, UNORDERED, plain]
        case 1:
            ordered = {"alerts": ["email", "sms"], "currency": "EUR", "theme": "light"}
            return ["preferences", MAP, KEY_ORDERED, ordered]
        case 2:
            topics = {1: "news", 2: "offers", 7: "surveys"}
            return ["preferences", MAP, KEY_VALUE_ORDERED, topics]
        case _:
            nested = {
                "theme": "dark",
                "quiet_hours": {22: "on", 7: "off"},
                "pickup": msgpack.ExtType(GEOJSON, point(city).encode()),
                "legacy": msgpack.ExtType(JAVA_OBJ, java_string(f"pref-{n}")),
                "signature": gif(f"signature {n}")[:12],
            }
            return ["preferences", MAP, UNORDERED, nested]


def profile_bins(n: int, revision: int) -> list[Bin]:
    """All bins of person ``n``: an Aerospike write ships the whole record."""
    first, last, city = PEOPLE[n]
    names = list(CITIES)
    visited = [names[(n * 3 + step) % len(names)] for step in range(2 + (n + revision) % 3)]
    bins: list[Bin] = [
        ["email", STRING, 0, email_of(first, last)],
        ["display_name", STRING, 0, f"{first} {last}"],
        ["age", INTEGER, 0, 21 + (n * 7) % 45],
        ["balance", DOUBLE, 0, round(12.5 * (n % 9) + 7.35 * revision - 20 * (n % 5 == 3), 2)],
        ["is_vip", BOOLEAN, 0, (n + revision) % 4 == 0],
        preferences(n),
        ["visited_cities", LIST, ORDERED, sorted(visited)]
        if n % 2
        else ["visited_cities", LIST, UNORDERED, visited],
        ["home", GEOJSON, 0, point(city)],
    ]
    if n % 3 == 0:
        bins.append(["avatar", BLOB, 0, gif(f"avatar {n} {revision}")])
    if n % 4 == 0:
        bins.append(["visitors", HLL, 0, sketch(f"visitors {n} {revision}")])
    if n % 5 == 0:
        bins.append(["legacy_obj", JAVA_OBJ, 0, java_string(f"profile-{1000 + n}")])
    if n % 7 == 0:
        places = [
            "home",
            msgpack.ExtType(GEOJSON, point(city).encode()),
            [1, [2, [3, {"deep": True}]]],
            msgpack.ExtType(JAVA_OBJ, java_string("place")),
        ]
        bins.append(["places", LIST, UNORDERED, places])
    if n % 11 == 0:
        bins.append(["py_cache", PYTHON_OBJ, 0, b"\x80\x04K" + bytes([n]) + b"."])
    if n % 13 == 0:
        bins.append(["nickname", NULL, 0, None])
    return bins


def profile_record(n: int) -> Record:
    """The record of person ``n``: user keys of each kind, and some that the server keeps not."""
    match n % 5:
        case 2:
            return Record("users", "profiles", 1000 + n)
        case 3:
            return Record("users", "profiles", hashlib.md5(b"profile %d" % n).digest())
        case 4:
            return Record("users", "profiles", f"u{1000 + n}", stored=False)
        case _:
            return Record("users", "profiles", f"u{1000 + n}")


def profiles() -> Topic:
    """aerospike.users.profiles: MessagePack of a connector from 4.0 on, LUT in milliseconds."""
    topic = Topic("aerospike.users.profiles", partitions=2)
    dice = topic.dice
    generation: dict[int, int] = {}

    def record_write(n: int, lut: int | None, revision: int, **fields: Any) -> list[Any]:
        generation[n] = generation.get(n, 0) + 1
        return write(
            profile_record(n).key(),
            fields.get("generation", generation[n]),
            fields.get("expiry", 0),
            lut,
            fields.get("bins", profile_bins(n, revision)),
        )

    def put(n: int, lut: int, revision: int, **fields: Any) -> bytes:
        """Send a write; ``arrival`` and ``shipped_lut`` are for situations that need them."""
        message = pack(record_write(n, fields.pop("shipped_lut", lut), revision, **fields))
        arrival = fields.get("arrival", lut + dice.between(40, 900))
        key = None if n % 9 == 8 else pack(profile_record(n).key())
        topic.send(arrival, key, message, route=profile_record(n).digest)
        return message

    def remove(
        n: int,
        lut: int | None,
        arrival: int,
        *,
        durable: bool = False,
        with_set: bool = False,
        known: bool = True,
    ) -> None:
        record = profile_record(n)
        key = record.delete_key()
        if with_set:
            key[1] = record.set
        shipped = generation.get(n, 0) + 1 if known else None
        value = pack([1, DELETE, [key, int(durable), shipped, 0 if known else None, lut]])
        topic.send(arrival, pack(key), value, route=record.digest)

    scripted = set(range(16)) | {19}
    for n in range(len(PEOPLE)):
        if n in scripted:
            continue
        when = at("2026-10-01T08:00:00") + n * 9 * HOUR + dice.between(0, 6 * HOUR)
        for revision in range(dice.between(1, 4)):
            put(n, when, revision)
            when += dice.between(2 * HOUR, 9 * DAY)
        if n in (22, 29):
            remove(n, when, when + 250, durable=n == 29)

    # Every bin type at once, at both ends of the history.
    put(0, at("2026-10-01T08:12:09.417"), 0)
    put(0, at("2026-11-20T17:45:31.002"), 1)
    # A late write: the newer one has already arrived.
    put(1, at("2026-10-09T10:00:00.000"), 0)
    put(1, at("2026-10-09T12:30:00.000"), 2)
    put(1, at("2026-10-09T12:29:58.500"), 1, arrival=at("2026-10-09T12:41:07.310"))
    # The same message twice.
    put(2, at("2026-10-10T07:05:11.000"), 0)
    again = put(2, at("2026-10-12T19:22:40.120"), 1)
    twice = profile_record(2)
    topic.send(at("2026-10-12T19:23:10.007"), pack(twice.key()), again, route=twice.digest)
    # Two writes in the same millisecond: the later one in the log counts.
    put(3, at("2026-10-13T06:50:00.000"), 0)
    put(3, at("2026-10-14T11:11:11.111"), 1)
    put(3, at("2026-10-14T11:11:11.111"), 2, arrival=at("2026-10-14T11:11:13.000"))
    # Deleted for good, and registered again two days later.
    put(4, at("2026-10-05T15:00:00.000"), 0)
    remove(4, at("2026-10-15T08:00:00.250"), at("2026-10-15T08:00:00.700"), durable=True)
    generation[4] = 0
    put(4, at("2026-10-17T09:30:00.000"), 3)
    # The delete arrives before the only write: the record must not come back.
    remove(5, at("2026-10-16T14:00:05.000"), at("2026-10-16T14:00:05.400"))
    put(5, at("2026-10-16T14:00:01.000"), 0, arrival=at("2026-10-16T14:00:44.918"))
    # Trial accounts: one expired, one that will in 2040, one expired and bought in time.
    put(6, at("2026-10-06T12:00:00.000"), 0, expiry=at("2026-11-05T12:00:00") // SECOND)
    put(7, at("2026-10-07T13:00:00.000"), 0, expiry=YEAR_2040)
    put(8, at("2026-10-08T12:00:00.000"), 0, expiry=at("2026-11-07T12:00:00") // SECOND)
    put(8, at("2026-11-09T16:20:00.000"), 1, expiry=0)
    # The server ships neither generation, nor expiry, nor LUT.
    put(9, at("2026-10-11T09:00:00.000"), 0)
    put(9, at("2026-10-19T09:00:00.000"), 1, generation=None, expiry=None, shipped_lut=None)
    # A node's clock three days ahead must not freeze the record.
    put(10, at("2026-10-12T09:00:00.000"), 0)
    put(10, at("2026-10-20T09:00:00.000"), 1, shipped_lut=at("2026-10-23T09:00:00.000"))
    put(10, at("2026-10-21T18:00:00.000"), 2)
    # Deletes: with the set, without anything but the digest, and one that comes too late to count.
    put(11, at("2026-10-13T10:00:00.000"), 0)
    remove(
        11,
        at("2026-10-24T10:00:00.000"),
        at("2026-10-24T10:00:00.300"),
        durable=True,
        with_set=True,
    )
    put(12, at("2026-10-13T21:00:00.000"), 0)
    remove(12, None, at("2026-10-25T07:15:00.120"), known=False)
    put(14, at("2026-10-14T21:00:00.000"), 0)
    put(14, at("2026-10-26T08:00:02.000"), 1)
    remove(14, at("2026-10-26T08:00:01.000"), at("2026-10-26T08:03:19.640"))
    # All bins removed: still a record, without values.
    put(13, at("2026-10-14T08:00:00.000"), 0)
    put(13, at("2026-10-27T08:00:00.000"), 1, bins=[])
    # An old write, sent again days later by a replay that chose the other partition.
    put(15, at("2026-10-15T08:00:00.000"), 0)
    old = put(15, at("2026-10-28T08:00:00.000"), 1)
    put(15, at("2026-10-29T08:00:00.000"), 2)
    replayed = profile_record(15)
    other = 1 - topic.partition_of(replayed.digest)
    topic.send(at("2026-11-02T03:00:00.000"), pack(replayed.key()), old, partition=other)
    # An expiry of -1 says never, too.
    put(19, at("2026-10-30T10:00:00.000"), 0, expiry=-1)

    # Batches of records of one partition: keys concatenated, absent, and with a delete inside.
    by_partition = [
        [n for n in range(20, 34) if topic.partition_of(profile_record(n).digest) == p]
        for p in range(2)
    ]
    for step, when in enumerate(
        at(text) for text in ("2026-11-11T02:00:00", "2026-11-12T02:00:00", "2026-11-13T02:00:00")
    ):
        members = by_partition[step % 2][step : step + 4]
        records = [
            record_write(n, when + i * 130, 5 + step) for i, n in enumerate(members) if n != 29
        ]
        keys = [profile_record(n).key() for n in members if n != 29]
        if step == 1:
            leaver = profile_record(members[0])
            records.append(
                [1, DELETE, [leaver.delete_key(), DURABLE_DELETE, 9, 0, when + 2 * SECOND]]
            )
            keys.append(leaver.delete_key())
        topic.send(
            when + 3 * SECOND,
            None if step == 2 else pack(keys),
            pack(records),
            partition=step % 2,
        )
    # Two versions of one record in one batch.
    when = at("2026-11-14T02:00:00")
    both = [record_write(27, when, 8), record_write(27, when + 40, 9)]
    topic.send(when + 500, None, pack(both), route=profile_record(27).digest)

    # Poison: a producer killed in the middle of a write; a byte that MessagePack never uses.
    torn = pack(
        write(profile_record(16).key(), 9, 0, at("2026-11-01T00:00:00"), profile_bins(16, 9))
    )
    topic.send(at("2026-11-01T00:00:01"), pack(profile_record(16).key()), torn[:-17], partition=0)
    topic.send(at("2026-11-03T04:05:06"), None, b"\x93\x01\x01\xc1\x95", partition=1)
    return topic


USER_AGENTS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Mobile/15E148",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/142.0.0.0 Safari/537.36",
    "curl/8.11.0",
)
LANDING_PAGES: Final = ("/", "/sale", "/products/teapot", "/blog/how-to-descale", "/account")


def session_bins(n: int, started: int, views: int) -> list[Bin]:
    """The bins of web session ``n``; only types that the older page lists."""
    cart: list[Any] = [
        {"sku": f"TEA-{100 + (n + item) % 20}", "qty": 1 + item} for item in range((n + views) % 3)
    ]
    bins: list[Bin] = [
        ["user_id", INTEGER, 0, 1000 + n % len(PEOPLE)],
        ["user_agent", STRING, 0, USER_AGENTS[n % len(USER_AGENTS)]],
        ["started_at", INTEGER, 0, started // SECOND],
        ["page_views", INTEGER, 0, views],
        ["landing_page", STRING, 0, LANDING_PAGES[n % len(LANDING_PAGES)]],
        ["cart", LIST, UNORDERED, cart],
        ["cart_total", DOUBLE, 0, round(sum((14.9 * line["qty"] for line in cart), 0.0), 2)],
    ]
    if n % 3 == 0:
        utm = {"campaign": "autumn", "medium": "email", "source": "newsletter"}
        bins.append(["utm", MAP, KEY_ORDERED, utm])
    return bins


def sessions() -> Topic:
    """aerospike.web.sessions: MessagePack of a connector before 4.0, LUT zero or in seconds."""
    topic = Topic("aerospike.web.sessions", partitions=2)
    dice = topic.dice

    def session(n: int) -> Record:
        if n % 10 == 9:
            return Record("web", "sessions", 7_000_000_000 + n)
        token = hashlib.sha256(b"session %d" % n).hexdigest()[:16]
        return Record("web", "sessions", f"s-{token}", stored=n % 10 != 8)

    def record_write(n: int, started: int, when: int, views: int) -> list[Any]:
        # Visitors who asked to be remembered stay for years, a few forever; guests half an hour.
        if n % 4 == 1:
            expiry = YEAR_2040 + n * 86_400
        elif n % 4 == 3:
            expiry = 0
        else:
            expiry = (when + 30 * MINUTE) // SECOND
        # The server of that time shipped no LUT; a later one shipped it in seconds.
        lut = when // SECOND if n % 7 == 5 else 0
        return write(session(n).key(), views, expiry, lut, session_bins(n, started, views))

    def put(n: int, started: int, when: int, views: int) -> bytes:
        value = pack(record_write(n, started, when, views))
        key = None if n % 11 == 10 else pack(session(n).key())
        topic.send(when + dice.between(20, 600), key, value, route=session(n).digest)
        return value

    def remove(n: int, when: int, *, durable: bool = False) -> None:
        key = session(n).delete_key()
        value = pack([1, DELETE, [key, int(durable)]])
        topic.send(when + dice.between(20, 600), pack(key), value, route=session(n).digest)

    for n in range(46):
        started = at("2026-10-02T06:00:00") + n * 25 * HOUR + dice.between(0, 9 * HOUR)
        when = started
        views = 1
        for _ in range(dice.between(1, 3)):
            put(n, started, when, views)
            when += dice.between(20 * SECOND, 12 * MINUTE)
            views += dice.between(1, 5)
        if n % 6 == 3:
            remove(n, when, durable=n % 12 == 9)
        if n == 9:
            # The visitor comes back with the same cookie after logging out.
            put(n, when + 5 * HOUR, when + 5 * HOUR, 1)
        if n == 13:
            # A producer's retry: the same bytes, one offset further on.
            value = put(n, started, when, views)
            topic.send(when + SECOND, pack(session(n).key()), value, route=session(n).digest)

    # A delete of a session that is never written, and one that comes before the first write:
    # without times, the order of the log decides.
    remove(60, at("2026-10-20T10:00:00"))
    remove(61, at("2026-10-21T10:00:00"))
    put(61, at("2026-10-21T10:00:00"), at("2026-10-21T10:00:01"), 1)
    # An old page view that arrives after a newer one: the connector ships no time to tell by.
    put(65, at("2026-10-22T10:00:00"), at("2026-10-22T10:05:00"), 4)
    put(65, at("2026-10-22T10:00:00"), at("2026-10-22T10:06:00"), 3)

    for step, day in enumerate((9, 10)):
        when = at(f"2026-11-{day:02}T01:00:00")
        members = [n for n in range(70, 90) if topic.partition_of(session(n).digest) == step % 2][
            :4
        ]
        records = [record_write(n, when, when + i, 1 + i) for i, n in enumerate(members)]
        keys = [session(n).key() for n in members]
        records.append([1, DELETE, [session(members[-1]).delete_key(), 0]])
        keys.append(session(members[-1]).delete_key())
        topic.send(when, pack(keys) if step else None, pack(records), partition=step % 2)

    # Poison: a version of the future; a batch in which only the middle record is bad.
    future = record_write(3, at("2026-11-15T00:00:00"), at("2026-11-15T00:00:00"), 1)
    topic.send(at("2026-11-15T00:00:01"), None, pack([2, *future[1:]]), partition=0)
    when = at("2026-11-16T00:00:00")
    mixed = [
        record_write(91, when, when, 2),
        [1, 5, [session(92).key(), 1, 0, 0, []]],
        record_write(93, when, when, 6),
    ]
    topic.send(when + SECOND, None, pack(mixed), partition=1)
    return topic


# --- Aerospike, JSON ------------------------------------------------------------------------------

# The examples of the JSON page, exactly as it prints them: not indented, with trailing commas.
AEROSPIKE_JSON_WRITE: Final = b"""{
"msg": "write",
"key": ["ns", "set", "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null],
"gen": 4,
"exp": 1682797792,
"lut": 1617167159548,
"bins": [
{
"name": "myString",
"type": "str",
"value": "a string value"
},
{
"name": "myBlob",
"type": "blob",
"value": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
},
{
"name": "myList",
"type": "list",
"value": ["abc", "def", "ghi", "jkl"],
"ordered": true,
},
{
"name": "myMap",
"type": "map",
"value": {
"i": 42,
"f": 3.1415,
"l": [3, 2, 1, 0]
},
"order": "key-value"
},
{
"name": "myGeo",
"type": "geojson",
"value": { "type": "Point", "coordinates": [1.30824, 103.91327] }
}
]
}"""
AEROSPIKE_JSON_DELETE: Final = b"""{
"msg": "delete",
"key": ["ns", null, "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null],
"durable": true,
"gen": 4,
"lut": 1617167159548
}"""
AEROSPIKE_JSON_BATCH: Final = b"""[
{
"msg": "write",
"key": [
"ns",
"set",
"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",
null
],
"gen": 4,
"exp": 1682797792,
"lut": 1617167159548,
"bins": [
{
"name": "myString",
"type": "str",
"value": "a string value"
},
{
"name": "myBlob",
"type": "blob",
"value": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
},
{
"name": "myList",
"type": "list",
"value": [
"abc",
"def",
"ghi",
"jkl"
],
"ordered": true
},
{
"name": "myMap",
"type": "map",
"value": {
"i": 42,
"f": 3.1415,
"l": [
3,
2,
1,
0
]
},
"order": "key-value"
},
{
"name": "myGeo",
"type": "geojson",
"value": {
"type": "Point",
"coordinates": [
1.30824,
103.91327
]
}
}
]
},
{
"msg": "delete",
"key": [
"ns",
null,
"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",
null
],
"durable": true,
"gen": 4,
"lut": 1617167159548
}
]"""
AEROSPIKE_JSON_KEYS: Final = b"""[
["users", "premium", "k9lDquN7AXrX4BGwwdLiFDwvs30=", "id1234"],
["users", "premium", "JQlDquN7AXrX4BGwwdLiFDwvs30=", "id1235"],
]"""

MODELS: Final = ("HomeSense 2", "HomeSense 2 Pro", "LeakGuard", "AirNode")


def device_bins(n: int, revision: int) -> list[dict[str, Any]]:
    """The bins of device ``n``."""
    city = list(CITIES)[n % len(CITIES)]
    settings: dict[str, Any] = {
        "interval_s": 60 * (1 + n % 5),
        "thresholds": {"high": 28.5, "low": 4.0},
        "channels": [1, 6, 11],
    }
    bins: list[dict[str, Any]] = [
        {"name": "serial", "type": "str", "value": f"SN-{20_000 + n * 37}"},
        {"name": "model", "type": "str", "value": MODELS[n % len(MODELS)]},
        {"name": "firmware", "type": "str", "value": f"{2 + revision // 3}.{revision % 3}.0"},
        {"name": "battery", "type": "int", "value": 100 - (n * 3 + revision * 11) % 90},
        {"name": "temperature", "type": "float", "value": round(17.5 + n % 7 - revision * 0.3, 1)},
        {"name": "online", "type": "bool", "value": (n + revision) % 5 != 0},
        {
            "name": "location",
            "type": "geojson",
            "value": {"type": "Point", "coordinates": list(CITIES[city])},
        },
        {
            "name": "tags",
            "type": "list",
            "value": sorted({"indoor" if n % 2 else "outdoor", city.lower()}),
            "ordered": n % 3 != 0,
        },
        {"name": "settings", "type": "map", "value": settings},
    ]
    if n % 3 == 1:
        bins[-1]["order"] = "key"
    elif n % 3 == 2:
        bins[-1]["order"] = "key-value"
    if n % 4 == 0:
        calibration = struct.pack(">4f", 1.0, 0.25 * n, -0.5, revision)
        bins.append({"name": "calibration", "type": "blob", "value": b64(calibration)})
    return bins


def devices() -> Topic:
    """aerospike.iot.devices: Aerospike's JSON."""
    topic = Topic("aerospike.iot.devices", partitions=2)
    dice = topic.dice
    generation: dict[int, int] = {}

    def device(n: int) -> Record:
        user_key: UserKey = 500_000 + n if n % 4 == 2 else f"dev-{n:03}"
        return Record("iot", "devices", user_key, stored=n % 4 != 3)

    def key(n: int) -> list[Any]:
        namespace, name, digest, user_key = device(n).key()
        return [namespace, name, b64(digest), user_key]

    def record_write(n: int, lut: int, revision: int, expiry: int = 0) -> dict[str, Any]:
        generation[n] = generation.get(n, 0) + 1
        return {
            "msg": "write",
            "key": key(n),
            "gen": generation[n],
            "exp": expiry,
            "lut": lut,
            "bins": device_bins(n, revision),
        }

    def record_delete(n: int, *, with_set: bool = False, **fields: Any) -> dict[str, Any]:
        name = device(n).set if with_set else None
        return {"msg": "delete", "key": ["iot", name, b64(device(n).digest), None], **fields}

    def send(n: int, arrival: int, record: dict[str, Any], *, commas: bool = False) -> bytes:
        text, key_text = compact(record), compact(record["key"])
        if commas:
            # A trailing comma in the record, in its list of bins and in the key.
            text = text[:-1].replace(b"}]", b"},]", 1) + b",}"
            key_text = key_text[:-1] + b",]"
        topic.send(arrival, None if n % 8 == 7 else key_text, text, route=device(n).digest)
        return text

    def put(n: int, lut: int, revision: int, *, expiry: int = 0, arrival: int = 0) -> bytes:
        record = record_write(n, lut, revision, expiry)
        return send(n, arrival or lut + dice.between(30, 700), record, commas=revision == 1)

    for n in range(8, 34):
        when = at("2026-10-01T05:00:00") + n * 7 * HOUR + dice.between(0, 5 * HOUR)
        for revision in range(dice.between(1, 4)):
            put(n, when, revision)
            when += dice.between(6 * HOUR, 11 * DAY)
        if n in (12, 20, 27):
            send(n, when + 90, record_delete(n, durable=True, gen=generation[n] + 1, lut=when))

    # A late write and the same message twice.
    put(0, at("2026-10-04T06:00:00.000"), 0)
    put(0, at("2026-10-05T06:00:09.000"), 2)
    put(0, at("2026-10-05T06:00:01.000"), 1, arrival=at("2026-10-05T06:12:30.500"))
    put(1, at("2026-10-04T07:00:00.000"), 0)
    again = put(1, at("2026-10-06T07:00:00.000"), 1)
    topic.send(at("2026-10-06T07:00:02.000"), compact(key(1)), again, route=device(1).digest)
    # Returned to the shop, then sold again; deletes as real servers ship them, with fewer fields.
    put(2, at("2026-10-04T08:00:00.000"), 0)
    send(2, at("2026-10-18T08:00:00.000"), record_delete(2, with_set=True))
    put(2, at("2026-10-20T08:00:00.000"), 3)
    put(3, at("2026-10-04T09:00:00.000"), 0)
    lut = at("2026-10-19T09:00:00.000")
    send(3, lut + 80, record_delete(3, with_set=True, durable=False, gen=2, exp=0, lut=lut))
    put(4, at("2026-10-04T10:00:00.000"), 0)
    send(4, at("2026-10-21T10:00:00.000"), record_delete(4))
    # The delete overtakes the write.
    lut = at("2026-10-22T10:00:00.000")
    send(5, lut + 60, record_delete(5, durable=True, gen=2, lut=lut))
    put(5, lut - 4 * SECOND, 0, arrival=lut + 9 * SECOND)
    # Leased devices: the lease is over, or runs until 2040.
    put(6, at("2026-10-04T12:00:00.000"), 0, expiry=at("2026-11-01T12:00:00") // SECOND)
    put(7, at("2026-10-04T13:00:00.000"), 0, expiry=YEAR_2040)
    # A server that ships no LUT, behind an old connector: zero.
    send(7, at("2026-10-25T13:00:00.000"), record_write(7, 0, 1, YEAR_2040))
    # A tie.
    put(30, at("2026-11-16T10:00:00.000"), 4)
    put(30, at("2026-11-16T10:00:00.000"), 5, arrival=at("2026-11-16T10:00:01.250"))

    for step, day in enumerate((17, 18)):
        when = at(f"2026-11-{day}T03:00:00")
        members = [n for n in range(8, 34) if topic.partition_of(device(n).digest) == step][
            step : step + 4
        ]
        records = [record_write(n, when + i * 75, 6) for i, n in enumerate(members)]
        leaver = record_delete(members[0], durable=False, lut=when + SECOND)
        keys = [record["key"] for record in [*records, leaver]]
        topic.send(
            when + 2 * SECOND,
            compact(keys)[:-1] + b",]" if step else None,
            compact([*records, leaver])[:-1] + (b",]" if step else b"]"),
            partition=step,
        )

    # The page's own examples; they belong to another namespace.
    page_key = b'["ns", "set", "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null]'
    when = at("2026-10-02T12:00:00")
    topic.send(when, page_key, AEROSPIKE_JSON_WRITE, partition=0)
    topic.send(when + MINUTE, None, AEROSPIKE_JSON_DELETE, partition=0)
    topic.send(when + 2 * MINUTE, AEROSPIKE_JSON_KEYS, AEROSPIKE_JSON_BATCH, partition=0)

    # Poison: cut off by a full disk; a message type that nobody has specified.
    torn = compact(record_write(9, at("2026-11-04T00:00:00"), 1))
    topic.send(at("2026-11-04T00:00:01"), compact(key(9)), torn[: len(torn) // 2], partition=1)
    touch = {"msg": "touch", "key": key(10), "gen": 3}
    topic.send(at("2026-11-05T00:00:01"), compact(key(10)), compact(touch), partition=0)
    return topic


# --- Arcion ---------------------------------------------------------------------------------------

# Arcion's samples stamp source.ts_ms with local time, 5:30 h ahead of the UTC beside it.
ARCION_AHEAD: Final = 5 * HOUR + 30 * MINUTE
ARCION_SOURCE_FIELDS: Final = (
    ("string", False, "version"),
    ("string", False, "connector"),
    ("string", False, "name"),
    ("int64", False, "ts_ms"),
    ("string", False, "db"),
    ("string", False, "schema"),
    ("string", True, "table"),
    ("string", True, "query"),
    ("string", True, "snapshot"),
    ("int64", False, "server_id"),
    ("string", True, "gtid"),
    ("string", False, "file"),
    ("int64", False, "pos"),
    ("int32", False, "row"),
)
ARCION_TRANSACTION_FIELDS: Final = (
    ("string", False, "id"),
    ("int64", False, "total_order"),
    ("int64", False, "data_collection_order"),
)
SNAPSHOT_CONNECTOR: Final = "KAFKA_snapshot_connector"
REALTIME_CONNECTOR: Final = "KAFKA_Connector"


def arcion_fields(fields: Iterable[tuple[str, bool, str]]) -> list[Image]:
    """Fields of a schema block, in the order of properties that Arcion writes."""
    return [{"type": t, "optional": optional, "field": name} for t, optional, name in fields]


@dataclass(frozen=True, slots=True)
class ArcionTable:
    """A source table as Arcion describes it; images list the columns in ``image_order``."""

    database: str
    schema: str | None
    table: str
    connector: str
    version: str
    columns: tuple[Image, ...]
    key: str
    image_order: tuple[str, ...]

    @property
    def path(self) -> str:
        """Dotted name, as in schema names and queries."""
        return ".".join(part for part in (self.database, self.schema, self.table) if part)

    def key_message(self, connector: str, row: Image) -> Image:
        """The Kafka key of ``row``."""
        column = next(c for c in self.columns if c["field"] == self.key)
        return {
            "schema": {
                "type": "struct",
                "optional": False,
                "name": f"{connector}.{self.path}.Key",
                "fields": [column],
            },
            "payload": {self.key: row[self.key]},
        }

    def value_schema(self, connector: str, *, revised: bool) -> Image:
        """The envelope's schema; ``revised`` as in the page's later revision.

        That one declares images optional and has no transaction.
        """
        images = [
            {
                "type": "struct",
                "optional": revised,
                "field": side,
                "name": f"{connector}.{self.path}.Value",
                "fields": list(self.columns),
            }
            for side in ("before", "after")
        ]
        source = arcion_fields(
            (t, optional or (name == "ts_ms" and connector == SNAPSHOT_CONNECTOR), name)
            for t, optional, name in ARCION_SOURCE_FIELDS
        )
        fields: list[Image] = [
            *images,
            {
                "type": "struct",
                "optional": False,
                "field": "source",
                "name": connector,
                "fields": source,
            },
        ]
        if not revised:
            fields.append(
                {
                    "type": "struct",
                    "optional": True,
                    "field": "transaction",
                    "name": None,
                    "fields": arcion_fields(ARCION_TRANSACTION_FIELDS),
                }
            )
        fields += arcion_fields((("string", False, "op"), ("int64", True, "ts_ms")))
        return {
            "type": "struct",
            "optional": False,
            "name": f"{connector}.{self.path}.Envelope",
            "fields": fields,
        }

    def query(self, op: str, before: Image | None, after: Image | None) -> str:
        """The statement that Arcion puts into the source block, unquoted, with its odd AND."""
        names = [column["field"] for column in self.columns]

        def pairs(row: Image) -> str:
            return " AND ".join(f"{name}={row[name]}" for name in names)

        if op == "d" and before is not None:
            return f"DELETE FROM {self.path} WHERE {pairs(before)}"
        if op == "u" and before is not None and after is not None:
            return f"UPDATE {self.path} SET {pairs(after)} WHERE {pairs(before)}"
        row = after or {}
        values = ", ".join(str(row[name]) for name in names)
        return f"INSERT INTO {self.path}({', '.join(names)}) VALUES({values})"

    def value_message(
        self,
        op: str,
        before: Image | None,
        after: Image | None,
        *,
        ts_ms: int | None = None,
        source_ts_ms: int | None = None,
        pos: int | None = None,
        thread: int = 160,
        file: str = "log-bin.000001",
        revised: bool = False,
    ) -> Image:
        """The Kafka value of a change. Snapshot mode, op ``r``, has no position and no times."""
        snapshot = op == "r"
        connector = SNAPSHOT_CONNECTOR if snapshot else REALTIME_CONNECTOR

        def image(row: Image | None) -> Image | None:
            if row is None:
                return {} if revised else None
            return {name: row[name] for name in self.image_order}

        source = {
            "schema": self.schema,
            "query": self.query(op, before, after),
            "thread": None if snapshot else thread,
            "server_id": None if snapshot else "1",
            "version": self.version,
            "file": None if snapshot else file,
            "connector": self.connector,
            "pos": pos,
            "name": connector,
            "gtid": None,
            "row": None if snapshot else 1,
            "ts_ms": source_ts_ms,
            "db": self.database,
            "table": self.table,
            "snapshot": "true" if snapshot else "false",
        }
        payload: Image = {
            "before": image(before),
            "after": image(after),
            "source": source,
            "op": op,
            "ts_ms": ts_ms,
        }
        if not revised:
            payload["transaction"] = {"id": "", "total_order": None if snapshot else 1}
        return {"schema": self.value_schema(connector, revised=revised), "payload": payload}


REGION: Final = ArcionTable(
    database="tpch",
    schema=None,
    table="region",
    connector="MYSQL",
    version="5.7.24",
    columns=(
        {"type": "int32", "optional": False, "field": "r_regionkey"},
        {"type": "string", "optional": False, "field": "r_name"},
        {"type": "string", "optional": True, "field": "r_comment"},
    ),
    key="r_regionkey",
    image_order=("r_regionkey", "r_comment", "r_name"),
)
# The five rows of TPC-H's region table.
TPCH_REGIONS: Final = (
    (
        "AFRICA",
        "lar deposits. blithely final packages cajole. regular waters are final requests. "
        "regular accounts are according to ",
    ),
    ("AMERICA", "hs use ironic, even requests. s"),
    ("ASIA", "ges. thinly even pinto beans ca"),
    ("EUROPE", "ly final courts cajole furiously final excuse"),
    (
        "MIDDLE EAST",
        "uickly special accounts cajole carefully blithely close requests. carefully final "
        "asymptotes haggle furiousl",
    ),
)


def region_row(key: int, name: str, comment: str | None) -> Image:
    """A row as Arcion ships it: every value as a string."""
    return {"r_regionkey": str(key), "r_name": name, "r_comment": comment}


def regions() -> Topic:
    """arcion.tpch.region: MySQL through Arcion; the page's examples as printed."""
    topic = Topic("arcion.tpch.region")
    dice = topic.dice
    rows: dict[int, Image] = {}
    when = at("2026-10-01T06:00:00")
    pos = 4_000

    for key, (name, comment) in enumerate(TPCH_REGIONS):
        rows[key] = region_row(key, name, comment)
        render = pretty if key == 0 else compact
        topic.send(
            when + key * 40,
            render(REGION.key_message(SNAPSHOT_CONNECTOR, rows[key])),
            render(REGION.value_message("r", None, rows[key])),
        )

    def page(op: str, key: int, after: Image | None, ts: int, source_ts: int, at_pos: int) -> None:
        """A realtime example of the page: the same bytes as printed there."""
        nonlocal when
        when += 20 * MINUTE
        before = rows.pop(key, None)
        value = REGION.value_message(
            op, before, after, ts_ms=ts, source_ts_ms=source_ts, pos=at_pos
        )
        key_row = after or before or {}
        topic.send(
            when,
            pretty(REGION.key_message(REALTIME_CONNECTOR, key_row)),
            pretty(value),
        )
        if after is not None:
            rows[key] = after
        if op == "d":
            tombstone = pretty(REGION.key_message(REALTIME_CONNECTOR, key_row))
            topic.send(when + 1, tombstone, b'"default"')

    page("u", 0, region_row(0, "AFRICA", "Test_Replication"), 1677138289062, 1677158088000, 1248)
    page("d", 0, None, 1677139520242, 1677159319000, 2077)
    page("c", 6, region_row(6, "Test_Region", "Test_Comment"), 1677139769357, 1677159568000, 2690)

    def change(op: str, key: int, after: Image | None = None, *, late: int = 0) -> bytes:
        """A realtime change; ``late`` moves the source's time back by so many milliseconds."""
        nonlocal when, pos
        when += dice.between(20 * HOUR, 90 * HOUR)
        pos += dice.between(300, 900)
        before = rows.pop(key, None)
        value = compact(
            REGION.value_message(
                op,
                before,
                after,
                ts_ms=when - 30,
                source_ts_ms=(when + ARCION_AHEAD - SECOND - late) // SECOND * SECOND,
                pos=pos,
            )
        )
        key_bytes = compact(REGION.key_message(REALTIME_CONNECTOR, after or before or {}))
        topic.send(when, key_bytes, value)
        if after is not None:
            rows[key] = after
        if op == "d":
            topic.send(when + 1, key_bytes, b'"default"')
        return value

    change("c", 7, region_row(7, "OCEANIA", None))
    change("u", 7, region_row(7, "OCEANIA", "islands, and a continent"))
    change("u", 1, region_row(1, "AMERICA", "north and south"))
    change("c", 8, region_row(8, "ANTARCTICA", "no customers yet"))
    # Region 0 comes back, after the page's delete.
    change("c", 0, region_row(0, "AFRICA", "back on the map"))
    change("u", 6, region_row(6, "TEST", "Test_Comment"))
    change("d", 8)
    # A key change: Arcion ships the delete of the old key and the insert of the new one.
    change("d", 7)
    change("c", 9, region_row(9, "OCEANIA", "islands, and a continent"))
    # The source's clock went backwards: the log's order counts, so this update does, too.
    change("u", 2, region_row(2, "ASIA", "second edition"))
    change("u", 2, region_row(2, "ASIA", "third edition"), late=3 * HOUR + 70 * DAY)
    # Replicant restarted and sent its last change again.
    again = change("u", 3, region_row(3, "EUROPE", "fähig, naïve, 東 — any letter"))
    topic.send(when + 2 * MINUTE, compact(REGION.key_message(REALTIME_CONNECTOR, rows[3])), again)
    change("u", 4, region_row(4, "MIDDLE EAST", ""))
    change("d", 6)
    change("u", 0, region_row(0, "AFRICA", "fifty-four countries"))
    change("c", 10, region_row(10, "OUTER SPACE", "reserved"))
    change("u", 10, region_row(10, "OUTER SPACE", None))

    # Poison: an operation that Arcion does not have.
    odd = REGION.value_message("x", rows[4], rows[4], ts_ms=when, source_ts_ms=when, pos=pos)
    topic.send(when + HOUR, compact(REGION.key_message(REALTIME_CONNECTOR, rows[4])), compact(odd))
    return topic


ACCOUNTS: Final = ArcionTable(
    database="crm",
    schema="public",
    table="accounts",
    connector="POSTGRESQL",
    version="13.9",
    columns=(
        {"type": "int64", "optional": False, "field": "account_id"},
        {"type": "string", "optional": False, "field": "email"},
        {"type": "string", "optional": False, "field": "plan"},
        {"type": "double", "optional": True, "field": "monthly_fee"},
        {"type": "int32", "optional": True, "field": "seats"},
        {"type": "boolean", "optional": True, "field": "active"},
        {
            "type": "int64",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Timestamp",
            "version": 1,
            "field": "created_at",
        },
    ),
    key="account_id",
    image_order=(
        "account_id",
        "email",
        "plan",
        "monthly_fee",
        "seats",
        "active",
        "created_at",
    ),
)
FEES: Final[dict[str, str | None]] = {"free": None, "team": "49.90", "business": "199.00"}


def accounts() -> Topic:
    """arcion.crm.accounts: PostgreSQL through Arcion.

    Values are strings up to Replicant's upgrade; after it they are typed, and an absent image is
    ``{}``.
    """
    topic = Topic("arcion.crm.accounts")
    dice = topic.dice
    rows: dict[int, Image] = {}
    when = at("2026-10-02T04:00:00")
    lsn = 26_000_000
    revised = False

    def row(key: int, plan: str, seats: int | None, active: bool = True, email: str = "") -> Image:
        first, last, _ = PEOPLE[key % len(PEOPLE)]
        created = at("2026-01-05T09:30:00.250") + key % 1000 * 11 * HOUR
        fee = FEES[plan]
        return {
            "account_id": key,
            "email": email or email_of(first, last),
            "plan": plan,
            "monthly_fee": None if fee is None else float(fee),
            "seats": seats,
            "active": active,
            "created_at": created,
        }

    def shipped(image: Image | None) -> Image | None:
        """The image in the style of the time: strings before the upgrade, typed values after it."""
        if image is None or revised:
            return image
        text: Image = {}
        for name, value in image.items():
            if isinstance(value, bool):
                text[name] = "true" if value else "false"
            elif isinstance(value, float):
                text[name] = f"{value:.2f}"
            else:
                text[name] = None if value is None else str(value)
        return text

    def message_key(image: Image, connector: str = REALTIME_CONNECTOR) -> bytes:
        return compact(ACCOUNTS.key_message(connector, shipped(image) or {}))

    def change(
        op: str, key: int, after: Image | None = None, *, late: int = 0
    ) -> tuple[bytes, bytes]:
        nonlocal when, lsn
        when += dice.between(12 * HOUR, 70 * HOUR)
        lsn += dice.between(80, 4_000)
        before = rows.pop(key, None)
        value = compact(
            ACCOUNTS.value_message(
                op,
                shipped(before),
                shipped(after),
                ts_ms=when - 45,
                source_ts_ms=(when + ARCION_AHEAD - SECOND - late) // SECOND * SECOND,
                pos=lsn,
                thread=4411,
                file="000000010000000000000031",
                revised=revised,
            )
        )
        key_bytes = message_key(after or before or {})
        topic.send(when, key_bytes, value)
        if after is not None:
            rows[key] = after
        return key_bytes, value

    plans = ("free", "team", "business")
    for n in range(12):
        key = 1001 + n
        rows[key] = row(key, plans[n % 3], None if n % 3 == 0 else 2 + n, active=n != 5)
        value = ACCOUNTS.value_message("r", None, shipped(rows[key]))
        topic.send(when + n * 25, message_key(rows[key], SNAPSHOT_CONNECTOR), compact(value))

    change("c", 1013, row(1013, "team", 5))
    change("u", 1001, row(1001, "team", 3))
    change("c", 1014, row(1014, "free", None))
    # A key change, as its DELETE, tombstone and INSERT.
    key_bytes, _ = change("d", 1004)
    topic.send(when + 1, key_bytes, b'"default"')
    change("c", 2004, row(2004, "free", None, email="finance@ghent-bikes.example.org"))
    change("u", 1005, row(1005, "business", 40))
    key_bytes, _ = change("d", 1006)
    topic.send(when + 1, key_bytes, b'"default"')
    # The customer comes back under the old number.
    change("c", 1006, row(1006, "team", 2, email="welcome.back@example.org"))
    change("u", 1013, row(1013, "team", 5, active=False))
    key_bytes, again = change("u", 1009, row(1009, "business", 25))
    topic.send(when + 90 * SECOND, key_bytes, again)

    revised = True
    change("c", 1015, row(1015, "business", 120))
    change("u", 1015, row(1015, "business", 140))
    change("u", 1002, row(1002, "free", None))
    # Tombstones of the later revision: the JSON null, and no value at all.
    key_bytes, _ = change("d", 1007)
    topic.send(when + 1, key_bytes, b"null")
    key_bytes, _ = change("d", 1014)
    topic.send(when + 1, key_bytes, None)
    change("c", 1014, row(1014, "team", 4))
    key_bytes, _ = change("d", 1010)
    topic.send(when + 1, key_bytes, b"")
    change("c", 1016, row(1016, "team", 8))
    # The source's clock was set back: the log's order counts.
    change("u", 1016, row(1016, "team", 9), late=5 * DAY)
    change("u", 2004, row(2004, "team", 6, email="finance@ghent-bikes.example.org"))

    # Poison: a proxy's error page that a retry wrote into the topic.
    topic.send(when + HOUR, None, b"<html><body><h1>502 Bad Gateway</h1></body></html>\n")
    return topic


# --- Lindorm --------------------------------------------------------------------------------------

# The page's first example, exactly as printed: the only one with a schema block.
LINDORM_WITH_SCHEMA: Final = b"""{
  "payload": {
    "op": "u",
    "ts_ms": 1465491411815,
    "before": {
      "id": 1004,
      "name": "Jane"
    },
    "after": {
      "id": 1004,
      "name": "Anne"
    },
    "source": {
      "version": "v1.0",
      "db": "ld-xxxx",
      "namespace": "default",
      "table": "customers",
      "ts_ms": 1465491411807
    }
  },
  "schema": {
    "type": "struct",
    "fields": [
      { "type": "string", "optional": false, "field": "op" },
      { "type": "int64",  "optional": false, "field": "ts_ms" },
      {
        "type": "struct",
        "fields": [
          { "type": "int32",  "optional": false, "field": "id" },
          { "type": "string", "optional": false, "field": "name" }
        ],
        "optional": true,
        "field": "before"
      },
      {
        "type": "struct",
        "fields": [
          { "type": "int32",  "optional": false, "field": "id" },
          { "type": "string", "optional": false, "field": "name" }
        ],
        "optional": true,
        "field": "after"
      },
      {
        "type": "struct",
        "fields": [
          { "type": "string", "optional": false, "field": "version" },
          { "type": "string", "optional": false, "field": "db" },
          { "type": "string", "optional": false, "field": "namespace" },
          { "type": "string", "optional": false, "field": "table" },
          { "type": "int64",  "optional": false, "field": "ts_ms" }
        ],
        "optional": false,
        "field": "source"
      }
    ],
    "optional": false
  }
}"""
LINDORM_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "int32",
    float: "double",
}


def lindorm_schema(payload: Image) -> Image:
    """The schema block that Lindorm generates from a payload."""
    sample = payload["after"] or payload["before"]

    def image(row: Image | None, name: str) -> Image:
        fields = [
            {"type": LINDORM_TYPES[type(value)], "optional": key != "id", "field": key}
            for key, value in (row or sample).items()
        ]
        return {"type": "struct", "fields": fields, "optional": True, "field": name}

    source = [
        {"type": "int64" if name == "ts_ms" else "string", "optional": False, "field": name}
        for name in payload["source"]
    ]
    return {
        "type": "struct",
        "fields": [
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": False, "field": "ts_ms"},
            image(payload["before"], "before"),
            image(payload["after"], "after"),
            {"type": "struct", "fields": source, "optional": False, "field": "source"},
        ],
        "optional": False,
    }


def lindorm_message(
    op: str,
    before: Image | None,
    after: Image | None,
    ts_ms: int = 1465491411815,
    source_ts_ms: int = 1465491411807,
    *,
    version: str = "v1.0",
    full: bool = False,
) -> Image:
    """A Lindorm message; the default times are those of the page's samples."""
    payload: Image = {
        "op": op,
        "ts_ms": ts_ms,
        "before": before,
        "after": after,
        "source": {
            "version": version,
            "db": "ld-xxxx",
            "namespace": "default",
            "table": "customers",
            "ts_ms": source_ts_ms,
        },
    }
    return {"schema": lindorm_schema(payload) if full else {}, "payload": payload}


def lindorm_customers() -> Topic:
    """lindorm.customers: a Lindorm SQL table, no Kafka keys; the page's five examples."""
    topic = Topic("lindorm.customers", partitions=2)
    dice = topic.dice
    rows: dict[str, Image] = {}

    def send(key: str, when: int, value: bytes) -> None:
        topic.send(when + dice.between(5, 60), None, value, route=key.encode())

    def change(
        op: str, key: str, when: int, after: Image | None, *, full: bool = False, late: int = 0
    ) -> bytes:
        before = rows.pop(key, None)
        message = lindorm_message(op, before, after, when + 12, when - late, full=full)
        value = compact(message)
        send(key, when, value)
        if after is not None:
            rows[key] = after
        return value

    # The page's examples, in an order in which they make sense, with what must lie between them.
    page = at("2026-10-01T09:00:00")
    anne = {"id": "1004", "first_name": "Anne", "last_name": "Kretchmar"}
    marie = {**anne, "first_name": "Anne Marie"}
    send("1004", page, LINDORM_WITH_SCHEMA)
    send("1004", page + HOUR, pretty(lindorm_message("c", None, anne)))
    rows["1004"] = anne
    change("u", "1004", page + 2 * HOUR, marie)
    send("1004", page + 3 * HOUR, pretty(lindorm_message("u", marie, anne)))
    rows["1004"] = anne
    change("u", "1004", page + 4 * HOUR, marie)
    shortened = {"id": "1004", "first_name": "Anne Marie"}
    send("1004", page + 5 * HOUR, pretty(lindorm_message("u", marie, shortened)))
    rows["1004"] = shortened
    change("u", "1004", page + 6 * HOUR, marie)
    send("1004", page + 7 * HOUR, pretty(lindorm_message("d", marie, None)))
    del rows["1004"]

    def customer(n: int, **changed: Any) -> Image:
        first, last, city = PEOPLE[n]
        return {
            "id": str(2000 + n),
            "first_name": first,
            "last_name": last,
            "email": email_of(first, last),
            "city": city,
            "loyalty_points": 10 * n,
            "newsletter": n % 2 == 0,
            **changed,
        }

    for n in range(28):
        key = str(2000 + n)
        when = at("2026-10-02T08:00:00") + n * 17 * HOUR + dice.between(0, 8 * HOUR)
        change("c", key, when, customer(n), full=n % 5 == 0)
        points = 10 * n
        for _ in range(dice.between(0, 2)):
            when += dice.between(3 * HOUR, 12 * DAY)
            points += dice.between(5, 120)
            change("u", key, when, {**rows[key], "loyalty_points": points}, full=n % 5 == 0)
        if n == 3:
            # A column delete: the column is missing from `after`.
            moved = {k: v for k, v in rows[key].items() if k != "city"}
            change("u", key, when + HOUR, moved)
        if n == 6:
            change("d", key, when + HOUR, None)
            change("c", key, when + 30 * HOUR, customer(n, city="Porto"))
        if n == 9:
            # Sent again after a newer one of the same key: the log's order decides.
            old = change("u", key, when + HOUR, {**rows[key], "city": "Vienna"})
            change("u", key, when + 2 * HOUR, {**rows[key], "city": "Linz"})
            send(key, when + 3 * HOUR, old)
            rows[key] = {**rows[key], "city": "Vienna"}
        if n == 12:
            again = change("u", key, when + HOUR, {**rows[key], "newsletter": False})
            send(key, when + HOUR + 500, again)
        if n == 15:
            # The source's time is older than that of the change before it.
            renamed = {**rows[key], "last_name": "Lund-Berg"}
            change("u", key, when + HOUR, renamed, late=2 * DAY)
        if n in (18, 24):
            change("d", key, when + HOUR, None, full=n == 24)

    # Poison: a bare row that some tool unwrapped; two messages glued together.
    send("2001", at("2026-11-07T00:00:00"), compact(customer(1)))
    twice = compact(lindorm_message("c", None, customer(2), 1794441600012, 1794441600000))
    send("2002", at("2026-11-12T00:00:00"), twice + twice)
    return topic


def lindorm_contacts() -> Topic:
    """lindorm.hbase.customers: a Lindorm HBase table, every value base64 of what HBase stores."""
    topic = Topic("lindorm.hbase.customers")
    dice = topic.dice
    rows: dict[str, Image] = {}

    def contact(n: int, points: int, **changed: bytes) -> Image:
        first, last, city = PEOPLE[n % len(PEOPLE)]
        columns = {
            "ROW": f"user{n}".encode(),
            "f_name": f"{first} {last}".encode(),
            "f_city": city.encode(),
            "f_age": struct.pack(">i", 20 + n * 3 % 50),
            "f_points": struct.pack(">q", points),
            **changed,
        }
        if n % 3 == 0:
            columns.setdefault("f_photo", gif(f"photo {n}"))
        return {name: b64(value) for name, value in columns.items()}

    def change(op: str, key: str, when: int, after: Image | None, *, late: int = 0) -> bytes:
        before = rows.pop(key, None)
        message = lindorm_message(op, before, after, when + 20, when - late, version="v2.0")
        if op == "c":
            # As in the page's HBase sample, an insert carries no `before` at all.
            del message["payload"]["before"]
        value = compact(message)
        topic.send(when + dice.between(5, 60), None, value)
        if after is not None:
            rows[key] = after
        return value

    lucky = {"ROW": b64(b"user1"), "f_name": b64(b"lucky")}
    printed = lindorm_message("c", None, lucky, 1725258859839, 1725258833727, version="v2.0")
    del printed["payload"]["before"]
    topic.send(at("2026-10-01T10:00:00"), None, pretty(printed))
    rows["user1"] = lucky
    change("u", "user1", at("2026-10-03T10:00:00"), {**lucky, "f_city": b64(b"Nantes")})
    for n in range(2, 22):
        key = f"user{n}"
        when = at("2026-10-02T11:00:00") + n * 26 * HOUR + dice.between(0, 9 * HOUR)
        change("c", key, when, contact(n, 50 * n))
        for step in range(dice.between(0, 2)):
            when += dice.between(HOUR, 6 * DAY)
            # One balance is negative and one needs all 64 bits.
            points = {4: -15, 5: 9_007_199_254_740_993}.get(n, 50 * n + 35 * (step + 1))
            change("u", key, when, contact(n, points))
        if n == 6:
            # A column delete.
            bare = {k: v for k, v in rows[key].items() if k != "f_photo"}
            change("u", key, when + HOUR, bare)
        if n == 8:
            change("d", key, when + HOUR, None)
            change("c", key, when + DAY, contact(n, 0, f_city=b"Brno"))
        if n == 11:
            again = change("u", key, when + HOUR, contact(n, 777))
            topic.send(when + HOUR + SECOND, None, again)
        if n == 14:
            change("u", key, when + HOUR, contact(n, 1234), late=3 * DAY)
        if n in (10, 17):
            change("d", key, when + HOUR, None)

    # Poison: an image that is no object.
    broken = lindorm_message("u", None, None, 1794614400020, 1794614400000, version="v2.0")
    broken["payload"]["after"] = "user3"
    topic.send(at("2026-11-14T00:00:00"), None, compact(broken))
    return topic


# --- Debezium -------------------------------------------------------------------------------------


def column(
    type_: str, name: str, *, optional: bool = True, logical: str = "", **more: Any
) -> Image:
    """A field of a Kafka Connect schema as its JSON converter writes it."""
    result: Image = {"type": type_, "optional": optional}
    if logical:
        result |= {"name": logical, "version": 1}
    return result | more | {"field": name}


def struct_schema(fields: list[Image], name: str, *, optional: bool = False, **more: Any) -> Image:
    """A struct of a Kafka Connect schema."""
    result: Image = {"type": "struct", "fields": fields, "optional": optional, "name": name}
    return result | more


PRODUCT_COLUMNS: Final = [
    column("int32", "id", optional=False),
    column("string", "sku", optional=False),
    column("string", "name", optional=False),
    column("string", "description"),
    column("double", "weight"),
    column(
        "bytes",
        "price",
        optional=False,
        logical="org.apache.kafka.connect.data.Decimal",
        parameters={"scale": "2", "connect.decimal.precision": "10"},
    ),
    column(
        "string",
        "tags",
        logical="io.debezium.data.EnumSet",
        parameters={"allowed": "new,sale,eco,fragile"},
    ),
    column(
        "string",
        "status",
        optional=False,
        logical="io.debezium.data.Enum",
        parameters={"allowed": "draft,active,retired"},
    ),
    column("string", "dims", logical="io.debezium.data.Json"),
    column("int32", "released", logical="io.debezium.time.Date"),
    column("string", "updated_at", logical="io.debezium.time.ZonedTimestamp"),
    column("int64", "created_at", optional=False, logical="io.debezium.time.Timestamp"),
    column("int64", "checked_at", logical="io.debezium.time.MicroTimestamp"),
    column("int32", "year_made", logical="io.debezium.time.Year"),
    column("int64", "duration", logical="io.debezium.time.MicroTime"),
]
MYSQL_SOURCE: Final = struct_schema(
    [
        column("string", "version", optional=False),
        column("string", "connector", optional=False),
        column("string", "name", optional=False),
        column("int64", "ts_ms", optional=False),
        column(
            "string",
            "snapshot",
            logical="io.debezium.data.Enum",
            parameters={"allowed": "true,first,last,false,incremental"},
            default="false",
        ),
        column("string", "db", optional=False),
        column("string", "sequence"),
        column("string", "table"),
        column("int64", "server_id", optional=False),
        column("string", "gtid"),
        column("string", "file", optional=False),
        column("int64", "pos", optional=False),
        column("int32", "row", optional=False),
        column("int64", "thread"),
        column("string", "query"),
    ],
    "io.debezium.connector.mysql.Source",
    field="source",
)
PRODUCT_PREFIX: Final = "shop.inventory.products"
PRODUCT_ENVELOPE: Final = struct_schema(
    [
        struct_schema(PRODUCT_COLUMNS, f"{PRODUCT_PREFIX}.Value", optional=True, field=side)
        for side in ("before", "after")
    ]
    + [
        MYSQL_SOURCE,
        column("string", "op", optional=False),
        column("int64", "ts_ms"),
        struct_schema(
            [
                column("string", "id", optional=False),
                column("int64", "total_order", optional=False),
                column("int64", "data_collection_order", optional=False),
            ],
            "event.block",
            optional=True,
            version=1,
            field="transaction",
        ),
    ],
    f"{PRODUCT_PREFIX}.Envelope",
    version=1,
)
PRODUCT_KEY: Final = struct_schema([column("int32", "id", optional=False)], f"{PRODUCT_PREFIX}.Key")
WARES: Final = (
    ("Teapot, cast iron", "Holds one litre.\nHand wash only.", 1.9, "39.90", "new,fragile"),
    ("Kettle, enamelled", "Whistles at boiling point", 1.25, "27.50", ""),
    ('Mug "Ödön"', None, 0.31, "9.95", "sale"),
    ("Matcha whisk", "Bamboo, 100 prongs", 0.04, "14.00", "eco"),
    ("Travel tumbler", "0.4 l, steel", 0.28, "22.25", "new,eco"),
    ("Gift card", None, None, "50.00", None),
    ("Tea caddy", "Tin, 250 g", 0.2, "12.80", "sale,eco"),
    ("Descaler", "Citric acid, 500 g", 0.52, "6.49", ""),
    ("Return fee correction", "Booked by support, never shipped", None, "-3.50", None),
    ("Samovar", "Restored, one of a kind", 8.4, "12345678.99", "fragile"),
    ("Strainer", "Mesh 0.3 mm", 0.05, "7.20", ""),
    ("Honey dipper", "Olive wood", 0.03, "4.10", "eco"),
)


def decimal_bytes(text: str, scale: int) -> str:
    """Kafka Connect's Decimal: the unscaled integer, big-endian two's complement, as base64."""
    unscaled = int(Decimal(text).scaleb(scale))
    return b64(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))


def mysql_source(when: int, pos: int, **changed: Any) -> Image:
    """The source block of a MySQL event."""
    return {
        "version": "2.7.4.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": when // SECOND * SECOND,
        "snapshot": "false",
        "db": "inventory",
        "sequence": None,
        "table": "products",
        "server_id": 223344,
        "gtid": None,
        "file": "binlog.000007",
        "pos": pos,
        "row": 0,
        "thread": 31,
        "query": None,
        **changed,
    }


def products() -> Topic:
    """debezium.inventory.products: MySQL, schema blocks in each message, all in one topic."""
    topic = Topic("debezium.inventory.products")
    dice = topic.dice
    rows: dict[int, Image] = {}
    when = at("2026-10-03T03:00:00")
    pos = 157

    def row(n: int, **changed: Any) -> Image:
        name, description, weight, price, tags = WARES[n % len(WARES)]
        created = at("2025-03-01T10:00:00") + n * 31 * DAY
        size = {"h": 10 + n, "w": 8.5, "unit": "cm"}
        # A TIME column holds more than a day and less than nothing.
        durations = (3 * 3_600_000_000 + 1, None, -90_500_000, 30 * 3_600_000_000, 75_000_000)
        return {
            "id": 101 + n,
            "sku": f"TEA-{100 + n}",
            "name": name,
            "description": description,
            "weight": weight,
            "price": decimal_bytes(price, 2),
            "tags": tags,
            "status": "active",
            "dims": None if n % 4 == 1 else json.dumps(size, separators=(",", ":")),
            "released": None
            if n % 6 == 5
            else (date(2025, 3, 1) - date(1970, 1, 1)).days + n * 31 - (20_500 if n == 9 else 0),
            "updated_at": iso(created + n * HOUR)[:-4] + "Z",
            "created_at": created,
            "checked_at": None if n % 3 == 2 else (created + DAY) * 1000 + 123_456,
            "year_made": 1868 if n == 9 else 2024 + n % 3,
            "duration": durations[n % 5],
            **changed,
        }

    def key_of(n: int) -> bytes:
        return compact({"schema": PRODUCT_KEY, "payload": {"id": 101 + n}})

    def envelope(op: str, before: Image | None, after: Image | None, source: Image) -> bytes:
        payload = {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": when + 21,
            "transaction": None,
        }
        return compact({"schema": PRODUCT_ENVELOPE, "payload": payload})

    def change(op: str, n: int, after: Image | None, **source: Any) -> bytes:
        nonlocal when, pos
        when += dice.between(4 * HOUR, 40 * HOUR)
        pos += dice.between(300, 1_200)
        value = envelope(op, rows.pop(n, None), after, mysql_source(when, pos, **source))
        topic.send(when + dice.between(25, 400), key_of(n), value)
        if after is not None:
            rows[n] = after
        return value

    def update(n: int, **changed: Any) -> bytes:
        stamp = iso(when)[:-4] + "Z"
        return change("u", n, {**rows[n], "updated_at": stamp, **changed})

    def delete(n: int, *, tombstone: bool = True) -> None:
        change("d", n, None)
        if tombstone:
            topic.send(when + 450, key_of(n), None)

    # The table as the connector first finds it: its DDL, then its rows.
    ddl = "CREATE TABLE `products` (`id` int NOT NULL AUTO_INCREMENT, `sku` varchar(32) NOT NULL)"
    server = struct_schema(
        [column("string", "databaseName", optional=False)],
        "io.debezium.connector.mysql.SchemaChangeKey",
    )
    change_schema = struct_schema(
        [
            MYSQL_SOURCE,
            column("int64", "ts_ms", optional=False),
            column("string", "databaseName"),
            column("string", "schemaName"),
            column("string", "ddl"),
            column("array", "tableChanges", items={"type": "string", "optional": True}),
        ],
        "io.debezium.connector.mysql.SchemaChangeValue",
    )

    def schema_change(text: str, arrival: int, snapshot: str) -> None:
        payload = {
            "source": mysql_source(arrival, pos, snapshot=snapshot),
            "ts_ms": arrival + 9,
            "databaseName": "inventory",
            "schemaName": None,
            "ddl": text,
            "tableChanges": [],
        }
        topic.send(
            arrival + 10,
            compact({"schema": server, "payload": {"databaseName": "inventory"}}),
            compact({"schema": change_schema, "payload": payload}),
        )

    schema_change(ddl, when, "true")
    for n in range(8):
        rows[n] = row(n)
        snapshot = {0: "first", 7: "last"}.get(n, "true")
        source = mysql_source(when, 157, snapshot=snapshot, server_id=0, thread=None)
        topic.send(when + 100 + n, key_of(n), envelope("r", None, rows[n], source))

    def transaction(status: str, identity: str, arrival: int, count: int | None) -> None:
        fields = [
            column("string", "status", optional=False),
            column("string", "id", optional=False),
            column("int64", "event_count"),
            column(
                "array",
                "data_collections",
                items=struct_schema(
                    [
                        column("string", "data_collection", optional=False),
                        column("int64", "event_count", optional=False),
                    ],
                    "event.collection",
                    version=1,
                ),
            ),
            column("int64", "ts_ms", optional=False),
        ]
        collections = (
            None
            if count is None
            else [{"data_collection": "inventory.products", "event_count": count}]
        )
        payload = {
            "status": status,
            "id": identity,
            "event_count": count,
            "data_collections": collections,
            "ts_ms": arrival,
        }
        name = "io.debezium.connector.common.TransactionMetadata"
        key_schema = struct_schema([column("string", "id", optional=False)], f"{name}Key")
        topic.send(
            arrival,
            compact({"schema": key_schema, "payload": {"id": identity}}),
            compact({"schema": struct_schema(fields, f"{name}Value"), "payload": payload}),
        )

    def heartbeat(arrival: int) -> None:
        name = "io.debezium.connector.common"
        key_schema = struct_schema(
            [column("string", "serverName", optional=False)], f"{name}.ServerNameKey"
        )
        value_schema = struct_schema(
            [column("int64", "ts_ms", optional=False)], f"{name}.Heartbeat"
        )
        topic.send(
            arrival,
            compact({"schema": key_schema, "payload": {"serverName": "shop"}}),
            compact({"schema": value_schema, "payload": {"ts_ms": arrival}}),
        )

    change("c", 8, row(8, status="draft"))
    change("c", 9, row(9))
    update(2, price=decimal_bytes("8.95", 2), tags="sale")
    heartbeat(when + HOUR)
    transaction("BEGIN", "file=binlog.000007,pos=9113", when + 2 * HOUR, None)
    update(3, description=None)
    update(4, price=decimal_bytes("21.00", 2))
    transaction("END", "file=binlog.000007,pos=9113", when + 500, 2)
    delete(1)
    change("c", 10, row(10, dims=None))
    # Sold out, deleted, and back in the shop under the same number.
    delete(6)
    change("c", 6, row(6, price=decimal_bytes("0.00", 2), tags=""))
    schema_change("ALTER TABLE `products` COMMENT = 'what we sell'", when + HOUR, "false")
    update(9, status="retired")
    # The connector restarted and sent its last change again.
    again = update(0, weight=1.95)
    topic.send(when + 8 * MINUTE, key_of(0), again)
    # The source's time is older than that of the change before it; the log's order counts.
    late = {**rows[0], "weight": 1.85}
    change("u", 0, late, ts_ms=when // SECOND * SECOND - 10 * DAY)
    change("c", 11, row(11))
    heartbeat(when + HOUR)
    delete(5, tombstone=False)
    update(11, status="retired", description="Olive wood — sold by the piece")

    # Poison: Avro with a schema registry's five bytes in front; an insert without its row.
    framed = b"\x00" + struct.pack(">i", 42) + b"\x00\x02\xca\x01\x0cTEA-11"
    topic.send(at("2026-11-10T00:00:00"), key_of(12), framed)
    topic.send(
        at("2026-11-11T00:00:00"), key_of(12), envelope("c", None, None, mysql_source(when, pos))
    )
    return topic


def raw_numbers(value: object) -> bytes:
    """Compact JSON in which a string ``#12.30#`` becomes the number 12.30, with its digits."""
    return compact(value).replace(b'"#', b"").replace(b'#"', b"")


def orders() -> Topic:
    """debezium.sales.orders: PostgreSQL without schema blocks, in the three shapes of that."""
    topic = Topic("debezium.sales.orders", partitions=2)
    dice = topic.dice
    rows: dict[int, Image] = {}
    lsn = 24_023_128
    shapes: tuple[Callable[[Image], Image], ...] = (
        lambda payload: payload,
        lambda payload: {"payload": payload},
        lambda payload: {"schema": None, "payload": payload},
    )

    def source(when: int, snapshot: str) -> Image:
        nonlocal lsn
        lsn += dice.between(40, 900)
        return {
            "version": "3.0.8.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": when,
            "snapshot": snapshot,
            "db": "shop",
            "sequence": f'["{lsn - 56}","{lsn}"]',
            "ts_us": when * 1000 + 417,
            "ts_ns": when * 1_000_000 + 417_000,
            "schema": "sales",
            "table": "orders",
            "txId": 700 + lsn % 997,
            "lsn": lsn,
            "xmin": None,
        }

    def send(key: int, arrival: int, payload: Image) -> bytes:
        wrap = shapes[key % 3]
        value = raw_numbers(wrap(payload))
        headers: list[Header] = []
        if key % 10 == 4:
            headers = [("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
        if key % 10 == 5:
            headers = [("retry", None)]
        topic.send(
            arrival,
            compact(wrap({"order_id": key})),
            value,
            route=b"%d" % key,
            headers=headers,
        )
        return value

    def change(
        op: str,
        key: int,
        when: int,
        after: Image | None,
        *,
        snapshot: str = "false",
        bare: bool = False,
        late: int = 0,
    ) -> bytes:
        before = rows.pop(key, None)
        payload: Image = {
            # No old row without REPLICA IDENTITY FULL; for some deletes only the Kafka key.
            "before": before if op == "d" and not bare else None,
            "after": after,
            "source": source(when - late, snapshot),
            "op": op,
            "ts_ms": when + 35,
            "transaction": None,
        }
        if key % 6 == 1:
            identity = f"{payload['source']['txId']}:{payload['source']['lsn']}"
            payload["transaction"] = {
                "id": identity,
                "total_order": 1,
                "data_collection_order": 1,
            }
        value = send(key, when + dice.between(40, 300), payload)
        if after is not None:
            rows[key] = after
        return value

    amounts = ("19.90", "54.00", "7.25", "1234567.10", "0.10", "129.99", "88.8", "250.00")
    currencies = ("EUR", "EUR", "PLN", "DKK", "EUR")

    def order(n: int, when: int) -> Image:
        return {
            "order_id": 5001 + n,
            "customer_id": 2000 + n % 28,
            "status": "new",
            "amount": f"#{amounts[n % len(amounts)]}#",
            "currency": currencies[n % len(currencies)],
            "placed_at": iso(when, 6)[:-3] + f"{n * 37 % 1000:03}Z",
            "shipped_at": None,
            "note": "leave with the neighbour, 2nd floor" if n % 7 == 3 else None,
        }

    for n in range(6):
        when = at("2026-10-04T02:00:00") + n * 15
        snapshot = {0: "first", 5: "last"}.get(n, "true")
        change("r", 5001 + n, when, order(n, when - 3 * DAY), snapshot=snapshot)
    for n in range(38):
        key = 5001 + n
        when = at("2026-10-04T08:00:00") + n * 22 * HOUR + dice.between(0, 9 * HOUR)
        if n >= 6:
            change("c", key, when, order(n, when))
        for status in ("paid", "shipped", "delivered")[: dice.between(0, 3)]:
            when += dice.between(2 * HOUR, 60 * HOUR)
            after = {**rows[key], "status": status}
            if status == "shipped":
                # A MicroTimestamp: without a schema block it stays the number that was sent.
                after["shipped_at"] = when * 1000 + 250
            change("u", key, when, after)
        if n in (8, 20):
            # Cancelled: the whole old row, or just the key, and in either case a tombstone.
            change("d", key, when + HOUR, None, bare=n == 20)
            topic.send(
                when + HOUR + 400,
                compact(shapes[key % 3]({"order_id": key})),
                None,
                route=b"%d" % key,
            )
        if n == 12:
            change("d", key, when + HOUR, None)
            change("c", key, when + 9 * HOUR, {**order(n, when), "amount": "#12.30#"})
        if n == 15:
            # The connector restarted and repeated its last two changes, in order.
            first = change("u", key, when + HOUR, {**rows[key], "status": "on hold"})
            second = change("u", key, when + 2 * HOUR, {**rows[key], "status": "paid"})
            for step, value in enumerate((first, second)):
                topic.send(
                    when + 3 * HOUR + step,
                    compact(shapes[key % 3]({"order_id": key})),
                    value,
                    route=b"%d" % key,
                )
        if n == 18:
            refunded = {**rows[key], "status": "refunded"}
            change("u", key, when + HOUR, refunded, late=4 * DAY)

    # Logical messages: pg_logical_emit_message() of the shop's own jobs.
    for step, text in enumerate(("nightly export started", "nightly export done")):
        when = at("2026-11-05T01:00:00") + step * 11 * MINUTE
        payload = {
            "op": "m",
            "ts_ms": when + 5,
            "source": {**source(when, "false"), "schema": "", "table": ""},
            "message": {"prefix": "audit", "content": b64(text.encode())},
        }
        topic.send(when, compact({"prefix": "audit"}), compact(payload), partition=0)

    # Poison: a MongoDB connector's envelope; a message cut off at the broker's old size limit.
    document = {"_id": {"$oid": "6539f1c2a1b2c3d4e5f60718"}, "status": "new"}
    mongo = {
        "before": None,
        "after": json.dumps(document),
        "updateDescription": None,
        "source": {
            "version": "3.0.8.Final",
            "connector": "mongodb",
            "name": "shop",
            "ts_ms": at("2026-11-08T00:00:00"),
            "snapshot": "false",
            "db": "shop",
            "rs": "rs0",
            "collection": "orders",
            "ord": 1,
        },
        "op": "c",
        "ts_ms": at("2026-11-08T00:00:00") + 30,
    }
    topic.send(
        at("2026-11-08T00:00:01"),
        compact({"id": '{"$oid": "6539f1c2a1b2c3d4e5f60718"}'}),
        compact(mongo),
        partition=1,
    )
    when = at("2026-11-09T00:00:00")
    torn = raw_numbers({"before": None, "after": order(1, when), "source": source(when, "false")})
    topic.send(when, compact({"order_id": 5002}), torn[:256], partition=0)
    return topic


# --- and a topic that nobody has configured -------------------------------------------------------


def legacy_audit() -> Topic:
    """legacy.audit: no configuration matches it, so its payloads are quarantined."""
    topic = Topic("legacy.audit")
    topic.send(at("2026-10-15T00:00:00"), b"audit-1", b"2026-10-15 00:00:00 login ok user=ana")
    topic.send(at("2026-10-16T00:00:00"), None, b'{"event":"login","user":"jonas"}')
    return topic


TOPICS: Final[tuple[Callable[[], Topic], ...]] = (
    profiles,
    sessions,
    devices,
    regions,
    accounts,
    lindorm_customers,
    lindorm_contacts,
    products,
    orders,
    legacy_audit,
)


def captures() -> dict[str, bytes]:
    """File name to content of every capture."""
    return {f"{topic.name}.jsonl": topic.capture() for topic in (build() for build in TOPICS)}


def main() -> None:
    """Write the captures beside this file."""
    for name, content in captures().items():
        (Path(__file__).parent / name).write_bytes(content)


if __name__ == "__main__":
    main()
