"""What every capture is made of: times, chance, messages and topics, people and where they live.

All chance comes from ``random.Random(<name>).random()``, which Python promises to keep the same
between versions.
"""

import hashlib
import json
import random
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zlib import crc32

Image = dict[str, Any]
Header = tuple[str, bytes | None]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
# Seconds since the epoch: an expiry that no run of the demo will live to see, 2040-01-01.
YEAR_2040: Final = 2_208_988_800


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


def gif(seed: str) -> bytes:
    """A GIF of one pixel."""
    colour = hashlib.sha256(seed.encode()).digest()[:3]
    head = b"GIF89a\x01\x00\x01\x00\x80\x00\x00" + colour + b"\x00\x00\x00"
    return head + bytes.fromhex("2c000000000100010000020244 01003b")
