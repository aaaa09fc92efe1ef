"""How fast `lakehouse decode` is, start-up included, beside a bare msgspec loop on the same lines.

The payloads are Aerospike MessagePack writes of about 250 bytes, made from a seed. The bare loop
parses the same lines, decodes the same MessagePack and writes it as JSON, with nothing checked,
named or converted: the floor for one Python process. Both run as processes of their own, and what
counts is their CPU time: lines a second on one core, whatever else the machine does meanwhile.

    python benchmarks/decode_cli.py --lines 1000000
"""

import argparse
import base64
import hashlib
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

import msgspec

FIRST_TIME_MS = 1_700_000_000_000
WRITE = 1
INTEGER, DOUBLE, STRING, BOOLEAN, MAP, LIST = 1, 2, 3, 17, 19, 20


class BareLine(msgspec.Struct, gc=False):
    """What the bare loop reads and writes of a line."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value_b64: bytes


def write_payload(rng: random.Random, number: int) -> bytes:
    """One WRITE of a connector from 4.0 on, about 250 bytes, with six kinds of bins."""
    user = f"user-{number % 100_000:06}"
    written = FIRST_TIME_MS + number * 7
    key = ["users", "profiles", hashlib.sha1(user.encode()).digest(), user]
    bins = [
        ["name", STRING, 0, f"Customer {rng.getrandbits(40):010x}"],
        ["email", STRING, 0, f"{user}@{rng.getrandbits(24):06x}.example"],
        ["visits", INTEGER, 0, rng.randrange(100_000)],
        ["balance", DOUBLE, 0, rng.uniform(0, 10_000)],
        ["active", BOOLEAN, 0, rng.random() < 0.9],
        ["segments", LIST, 0, [f"s{rng.randrange(50):02}" for _ in range(5)]],
        ["limits", MAP, 1, {"daily": rng.randrange(500), "monthly": rng.randrange(9_000)}],
    ]
    expiry = written // 1000 + 30 * 86_400
    return msgspec.msgpack.encode([1, WRITE, [key, number % 50 + 1, expiry, written, bins]])


def write_captures(stream: BinaryIO, lines: int) -> float:
    """Write that many capture lines; the mean size of a payload in bytes."""
    rng = random.Random(20231114)
    total = 0
    for number in range(lines):
        value = write_payload(rng, number)
        total += len(value)
        stream.write(
            b'{"topic":"aerospike.users.profiles","partition":%d,"offset":%d,"timestamp_ms":%d,'
            b'"key_b64":null,"value_b64":"%b"}\n'
            % (number % 4, number // 4, FIRST_TIME_MS + number * 7 + 40, base64.b64encode(value))
        )
    return total / lines


def bare_loop(path: str) -> None:
    """The floor: parse, decode, encode, write."""
    parse = msgspec.json.Decoder(BareLine).decode
    decode = msgspec.msgpack.Decoder().decode
    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer
    with open(path, "rb") as stream:
        for line in stream:
            message = parse(line)
            value = decode(message.value_b64)
            out.write(
                encode(
                    (message.topic, message.partition, message.offset, message.timestamp_ms, value)
                )
            )
            out.write(b"\n")


def seconds_of(command: list[str]) -> float:
    """CPU time, user and system, of a process whose output is thrown away; raises if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Generate, time both, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=int, default=200_000, help="capture lines (200,000)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the best counts (3)")
    parser.add_argument("--keep", type=Path, help="write the captures to this file and keep it")
    parser.add_argument("--bare", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare_loop(options.bare)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "captures.jsonl"
        with open(path, "wb") as stream:
            size = write_captures(stream, options.lines)
        decode = [sys.executable, "-m", "dbt_lakehouse.cli", "decode"]
        decode += ["--format", "aerospike_messagepack", str(path)]
        bare = [sys.executable, __file__, "--bare", str(path)]
        # In turn, so that a busy machine with cold caches slows both.
        times = [(seconds_of(decode), seconds_of(bare)) for _ in range(options.repeat)]
    rates = [options.lines / min(column) for column in zip(*times, strict=True)]
    print(f"{options.lines:,} Aerospike writes of {size:.0f} bytes, best of {options.repeat}")
    print(f"lakehouse decode   {rates[0]:>9,.0f} lines/s")
    print(f"bare msgspec loop  {rates[1]:>9,.0f} lines/s")
    print(f"ratio              {rates[0] / rates[1]:>9.2f}")


if __name__ == "__main__":
    main()
