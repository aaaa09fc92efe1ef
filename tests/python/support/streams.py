"""Random streams of Kafka messages for the demo's topics, for tests of the whole pipeline.

A stream holds what real topics hold: inserts, updates, deletes, re-inserts, late events,
duplicates, ties, unknown times, wrong clocks, expiry, batches, poison. The same seed gives the same
stream; a *clone* is the same stream for records and partitions of its own, so that several
batchings of it can be built side by side in one lake and compared.
"""

import json
import random
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from support.aerospike_encoder import Map, pack

PROFILES: Final = "aerospike.users.profiles"
SESSIONS: Final = "aerospike.web.sessions"
ORDERS: Final = "debezium.sales.orders"

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
# 2026-10-01T00:00:00Z: when every stream starts.
START: Final = 1_790_812_800_000

KEYS: Final = 9
# Debezium's placeholder for a value that it can't say.
UNAVAILABLE: Final = "__debezium_unavailable_value"
# Partition numbers of a clone start here; clones never share a partition.
PARTITIONS_PER_CLONE: Final = 10
# As Aerospike numbers its particle types.
INTEGER, DOUBLE, STRING, BLOB, BOOLEAN, MAP, LIST = 1, 2, 3, 4, 17, 19, 20


class Message(NamedTuple):
    """One Kafka message of a clone; ``timestamp_ms`` None means that the capture has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None

    def line(self) -> dict[str, Any]:
        """The capture line of the message."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key_b64": None if self.key is None else b64encode(self.key).decode(),
            "value_b64": None if self.value is None else b64encode(self.value).decode(),
        }


def clone_partition(clone: int, partition: int) -> int:
    """The number that partition 0 or 1 of the stream has in a clone."""
    return clone * PARTITIONS_PER_CLONE + partition


def digest(clone: int, number: int) -> bytes:
    """The digest of a record of a clone: 20 bytes that say which it is."""
    return bytes([clone, number]) + b"\x00" * 18


def order_id(clone: int, number: int) -> int:
    """The key of an order of a clone."""
    return clone * 1000 + number


def stream(seed: int, clone: int = 0, messages: int = 60, truncates: float = 0.0) -> list[Message]:
    """Three topics with two partitions each and ``messages`` in each of those, ordered by offset.

    Partition 0's timestamps go back and forth; some are missing, the first ones too, so that those
    events have no log time. Partition 1's never go back: only there can offsets that arrive out of
    order get the log time they would have had in order. Timestamps of both are rounded, so that the
    partitions tie. ``truncates`` is their part of the orders: half of them empty the table for all
    clones, the others are another table's of that topic.
    """
    makers: dict[str, Callable[[random.Random], Maker]] = {
        PROFILES: lambda dice: _Aerospike(dice, clone, "users", "profiles", _profile_bins),
        SESSIONS: lambda dice: _Aerospike(dice, clone, "web", "sessions", _session_bins),
        ORDERS: lambda dice: _Orders(dice, clone, truncates),
    }
    result = []
    for topic, maker_of in makers.items():
        dice = random.Random(f"{seed} {topic}")
        maker = maker_of(dice)
        for partition in (0, 1):
            for offset in range(messages):
                clock = START + offset * MINUTE
                timestamp: int | None = clock
                if partition == 0:
                    timestamp = clock + 30 * SECOND * dice.randint(-10, 10)
                    if offset < 4 or dice.random() < 0.04:
                        timestamp = None
                key, value = maker.message(clock)
                result.append(
                    Message(topic, clone_partition(clone, partition), offset, timestamp, key, value)
                )
    return result


class Maker(ABC):
    """Makes the messages of one topic."""

    @abstractmethod
    def message(self, clock: int) -> tuple[bytes | None, bytes | None]:
        """Key and value of a message sent about ``clock`` (milliseconds)."""


@dataclass
class _Aerospike(Maker):
    dice: random.Random
    clone: int
    namespace: str
    set_name: str
    bins: Callable[[random.Random, int], list[Any]]
    written: int = 0
    last_lut: dict[int, int | None] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)

    def message(self, clock: int) -> tuple[bytes | None, bytes | None]:
        roll = self.dice.random()
        if roll < 0.03:
            return self._poison()
        if roll < 0.05:
            return None, None if self.dice.random() < 0.5 else b""
        if roll < 0.12 and self.sent:
            # Sent twice: the same bytes at another offset.
            return None, self.dice.choice(self.sent)
        if roll < 0.24:
            records = [self._record(clock) for _ in range(self.dice.randint(1, 4))]
            if self.dice.random() < 0.3:
                # Unknown version: one bad record spoils none of the others.
                records.insert(self.dice.randint(0, len(records)), [2, 1, []])
            value = pack(records)
        else:
            value = pack(self._record(clock))
        self.sent.append(value)
        return None, value

    def _poison(self) -> tuple[bytes | None, bytes | None]:
        whole = pack(self._record(START))
        cut = self.dice.randint(1, 10)
        return None, self.dice.choice([b"\xc1", b"\x93\x01", whole[:-cut], whole + b"\x00"])

    def _record(self, clock: int) -> list[Any]:
        number = self.dice.randrange(KEYS)
        roll = self.dice.random()
        set_name: str | None = self.set_name
        if roll < 0.07:
            # Another set of the namespace, of which no table is made: it has digests of its own.
            set_name, number = "archive", number + 100
        lut = self._lut(number, clock)
        expiry = self.dice.choice(
            [
                *(0, 0, -1, None),
                # In the past; within the stream; between the runs of the scenario; far away.
                *((START + ms) // 1000 for ms in (-HOUR, 30 * MINUTE, 12 * HOUR, 5 * DAY)),
                *((START + ms) // 1000 for ms in (9 * DAY + 12 * HOUR, 60 * DAY, 60 * DAY)),
            ]
        )
        if roll > 0.72:
            shipped = set_name if self.dice.random() < 0.4 else None
            key = [self.namespace, shipped, digest(self.clone, number), None]
            flags = self.dice.choice([0, 1])
            if self.dice.random() < 0.3:
                return [1, 2, [key, flags]]
            return [1, 2, [key, flags, 3, expiry, lut]]
        self.written += 1
        key = [self.namespace, set_name, digest(self.clone, number), f"user {number}"]
        return [1, 1, [key, 1, expiry, lut, self.bins(self.dice, self.written)]]

    def _lut(self, number: int, clock: int) -> int | None:
        lut = self.dice.choice(
            [
                *(clock, clock, clock + 7, clock - 2),
                *(
                    clock - self.dice.randint(1, 40) * MINUTE,
                    clock - self.dice.randint(1, 40) * MINUTE,
                ),
                *(clock - 3 * HOUR, self.last_lut.get(number, clock)),
                *(None, 0, clock // 1000),
                # 2 days ahead is a wrong clock, 2 minutes is not.
                *(clock + 2 * DAY, clock + 2 * MINUTE),
            ]
        )
        if lut is not None and lut < clock + DAY:
            self.last_lut[number] = lut
        return lut


def _profile_bins(dice: random.Random, written: int) -> list[Any]:
    bins = [
        ["display_name", STRING, 0, f"name {written} \u00e9\u4e2d\U0001f600"],
        ["email", STRING, 0, f"{written}@example.org"],
        ["age", INTEGER, 0, dice.randint(0, 120)],
        ["balance", DOUBLE, 0, dice.randint(-1000, 1000) / 8],
        ["is_vip", BOOLEAN, 0, dice.random() < 0.5],
        ["visited_cities", LIST, 0, [f"city {n}" for n in range(dice.randint(0, 3))]],
        ["avatar", BLOB, 0, dice.randbytes(dice.randint(0, 5))],
    ]
    return dice.sample(bins, dice.randint(0, len(bins)))


def _session_bins(dice: random.Random, written: int) -> list[Any]:
    bins = [
        ["user_id", INTEGER, 0, 2**53 + written],
        ["user_agent", STRING, 0, f"agent {written}"],
        ["page_views", INTEGER, 0, dice.randint(1, 99)],
        ["cart_total", DOUBLE, 0, dice.randint(0, 9999) / 4],
        ["utm", MAP, 0, Map([("source", f"s{written}"), ("medium", "mail")])],
    ]
    return dice.sample(bins, dice.randint(0, len(bins)))


@dataclass
class _Orders(Maker):
    dice: random.Random
    clone: int
    truncates: float
    written: int = 0
    sent: list[tuple[bytes, bytes]] = field(default_factory=list)

    def message(self, clock: int) -> tuple[bytes | None, bytes | None]:
        roll = self.dice.random()
        payload: dict[str, Any]
        number = order_id(self.clone, self.dice.randrange(KEYS))
        wrap = self.dice.choice(
            [lambda payload: payload, lambda payload: {"payload": payload}, _with_null_schema]
        )
        key = _compact(wrap({"order_id": number}))
        if roll < 0.04:
            return key, self.dice.choice([b"{", b'{"op":"x"}', b"\xff", b'{"op":"c"} {}'])
        if roll < 0.09:
            return key, None
        if roll < 0.11:
            payload = {"op": "m", "ts_ms": clock, "source": self._source(clock), "message": {}}
            return None, _compact(wrap(payload))
        if roll < 0.18 and self.sent:
            return self.dice.choice(self.sent)
        if roll > 1 - self.truncates:
            source = self._source(clock)
            if self.dice.random() < 0.5:
                source["table"] = "returns"
            payload = {"op": "t", "ts_ms": clock, "source": source}
            return None, _compact(wrap(payload))
        op = self.dice.choice("rccuuuuddd")
        payload = {
            "before": None,
            "after": None,
            "source": self._source(clock),
            "op": op,
            "ts_ms": clock,
            "transaction": None,
        }
        if op == "d":
            # Without the old row, only the message key says which order is gone.
            payload["before"] = self._image(number) if self.dice.random() < 0.5 else None
        else:
            payload["after"] = self._image(number)
            if op == "u" and self.dice.random() < 0.5:
                # Sometimes another order's: the update has changed the key.
                changes = self.dice.random() < 0.2
                other = order_id(self.clone, self.dice.randrange(KEYS)) if changes else number
                payload["before"] = self._image(other)
            if op == "u":
                # What was too large to be in the source's log, and has not changed.
                for name in self.dice.sample(["note", "status"], self.dice.choice([0, 0, 1, 2])):
                    payload["after"][name] = UNAVAILABLE
                    if payload["before"] and self.dice.random() < 0.5:
                        payload["before"][name] = UNAVAILABLE
        message = key, _compact(wrap(payload))
        self.sent.append(message)
        return message

    def _source(self, clock: int) -> dict[str, Any]:
        source = {"version": "3.0.8.Final", "connector": "postgresql", "name": "shop", "db": "shop"}
        when = self.dice.choice(
            [clock, clock, clock - 5 * HOUR, clock + 5 * HOUR, clock + 3 * DAY, None]
        )
        dated = {} if when is None else {"ts_ms": when}
        return {**source, **dated, "snapshot": "false", "schema": "sales", "table": "orders"}

    def _image(self, number: int) -> dict[str, Any]:
        self.written += 1
        image = {
            "order_id": number,
            "customer_id": self.dice.randint(1, 5),
            "status": f"status {self.written}",
            "amount": self.dice.randint(0, 10**6) / 4,
            "currency": self.dice.choice(["EUR", "PLN", None]),
            "placed_at": f"2026-10-01T02:00:00.{self.written:06}Z",
            "shipped_at": self.dice.choice([None, (START + self.written) * 1000]),
            "note": self.dice.choice([None, "", 'with "quotes" and \u00fcmlauts']),
        }
        # A column that a full image lacks is null.
        for name in self.dice.sample(["note", "shipped_at", "currency"], self.dice.randint(0, 2)):
            del image[name]
        return image


def _with_null_schema(payload: dict[str, Any]) -> dict[str, Any]:
    return {"schema": None, "payload": payload}


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
