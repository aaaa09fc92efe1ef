"""How fast `lakehouse decode` is, start-up included, beside a bare msgspec loop on the same lines
(``tools.benchmarks.bare_decode``).

The payloads are Aerospike MessagePack writes of about 250 bytes, made from a seed. Both run as
processes of their own, and what counts is their CPU time: lines a second on one core, whatever else
the machine does meanwhile.
"""

import base64
import subprocess
import sys
from functools import partial
from typing import BinaryIO, Final

from dbt_lakehouse.config.paths import ROOT
from tools.benchmarks.measuring import Figure, Options, child_cpu_seconds, medians
from tools.benchmarks.payloads import FIRST_TIME_MS, SHAPES, STEP_MS, WRITES_ONLY, Message, messages

BAR: Final = 0.5


def write_captures(stream: BinaryIO, lines: int) -> float:
    """Write that many capture lines; the mean size of a payload in bytes."""
    total = 0
    for number, message in enumerate(messages(SHAPES["aerospike"], range(lines), WRITES_ONLY)):
        total += len(message.value)
        stream.write(_capture(number, message))
    return total / lines


def _capture(number: int, message: Message) -> bytes:
    return (
        b'{"topic":"aerospike.users.profiles","partition":%d,"offset":%d,"timestamp_ms":%d,'
        b'"key_b64":null,"value_b64":"%b"}\n'
        % (
            number % 4,
            number // 4,
            FIRST_TIME_MS + number * STEP_MS + 40,
            base64.b64encode(message.value),
        )
    )


def _run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)


def measure(options: Options) -> list[Figure]:
    """One figure."""
    path = options.folder / "captures.jsonl"
    with path.open("wb") as stream:
        size = write_captures(stream, options.events)
    decode = [sys.executable, "-m", "dbt_lakehouse.cli", "decode"]
    decode += ["--format", "aerospike_messagepack", str(path)]
    bare = [sys.executable, "-m", "tools.benchmarks.bare_decode", str(path)]
    seconds = medians(
        {"decode": partial(_run, decode), "bare": partial(_run, bare)},
        options.rounds,
        child_cpu_seconds,
    )
    return [
        Figure(
            "decode_cli",
            "aerospike, lines in, lines out",
            seconds["bare"] / seconds["decode"],
            BAR,
            measured={
                "lines/s": options.events / seconds["decode"],
                "bare loop lines/s": options.events / seconds["bare"],
                "bytes each": size,
            },
        )
    ]
