"""A bare msgspec loop, lines in, lines out: what `lakehouse decode` is compared with.

It parses the same lines, decodes the same MessagePack and writes an object of 18 columns for each,
as decode does; nothing is checked or converted, and nothing said of the bins' types. A module of
its own, so that it starts with nothing but msgspec.

    python -m tools.benchmarks.bare_decode FILE
"""

import sys
from typing import Any

import msgspec


class BareLine(msgspec.Struct, gc=False):
    """What the bare loop reads of a line."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value_b64: bytes


class BareEvent(msgspec.Struct, gc=False):
    """What it writes of it: the columns that `lakehouse decode` writes."""

    topic: str
    partition: int
    offset: int
    event_index: int
    timestamp: int
    format: str
    operation: str
    source_database: str | None
    source_schema: str
    source_table: str
    record_key: bytes
    before: None
    after: dict[str, Any]
    occurred_at: int
    expires_at: int
    metadata: dict[str, Any]
    error_code: str | None
    error_detail: str | None


def bare_loop(path: str) -> None:
    """The floor: parse, decode, encode, write."""
    parse = msgspec.json.Decoder(BareLine).decode
    decode = msgspec.msgpack.Decoder().decode
    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer
    with open(path, "rb") as stream:
        for line in stream:
            message = parse(line)
            _, _, (key, generation, expiry, lut, bins) = decode(message.value_b64)
            event = BareEvent(
                message.topic,
                message.partition,
                message.offset,
                0,
                message.timestamp_ms,
                "aerospike_messagepack",
                "upsert",
                None,
                key[0],
                key[1],
                key[2],
                None,
                {name: value for name, _, _, value in bins},
                lut,
                expiry,
                {"generation": generation, "expiry": expiry, "lut": lut, "user_key": key[3]},
                None,
                None,
            )
            out.write(encode(event))
            out.write(b"\n")


if __name__ == "__main__":
    bare_loop(sys.argv[1])
