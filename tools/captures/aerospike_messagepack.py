"""Aerospike's captures in MessagePack: a web shop's customers and their visits.

Digests are the SHA-1 of set, key type and user key: 20 stable bytes that every Python has. A real
server uses RIPEMD-160 there, which OpenSSL 3 often ships switched off; nothing downstream depends
on the algorithm.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from tools.captures.common import (
    CITIES,
    DAY,
    HOUR,
    MINUTE,
    PEOPLE,
    SECOND,
    YEAR_2040,
    Topic,
    at,
    email_of,
    gif,
)

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
