"""Payload bytes to complete events in Arrow, in plain Python on one core, beside bare msgspec.

Bare msgspec turns the bytes of each payload into Python objects and throws them away: nothing is
checked, named or converted. The bar is for Aerospike writes of about 250 bytes; other shapes are
shown beside it. CPU seconds count.

On no mix of payloads may the short way that a format has for many of them be slower than decoding
them one by one, its careful way: that is the bar of the third figure.
"""

import gc
from collections.abc import Callable
from functools import partial
from typing import Final
from unittest.mock import patch

import msgspec
import pyarrow as pa

from benchmarks.measuring import Figure, Options, cpu_seconds, medians
from benchmarks.payloads import WRITES_ONLY, Message, Shape, chosen_shapes, messages
from dbt_lakehouse.spark.functions import decode_payload_batch
from python_udfs import registry

BATCH: Final = 10_000
MOST_MESSAGES: Final = 200_000
"""All of a measurement's payloads are in memory."""
MOST_BYTES: Final = 50_000_000
BAR: Final = 0.25
SLOWEST: Final = 1.1

Batch = tuple[pa.Array, pa.Array, pa.Array]


def bare_decoder(format: str) -> Callable[[bytes], object]:
    """msgspec's own decoder of such payloads, to plain objects."""
    if format == "aerospike_messagepack":
        return msgspec.msgpack.Decoder().decode
    return msgspec.json.Decoder().decode


def arrow_batches(shape: Shape, stream: list[Message], with_keys: bool) -> list[Batch]:
    """Formats, keys and values, as Spark hands them to the decode UDF."""
    batches = []
    for start in range(0, len(stream), BATCH):
        part = stream[start : start + BATCH]
        batches.append(
            (
                pa.array([shape.format] * len(part), pa.string()),
                pa.array([each.key if with_keys else None for each in part], pa.binary()),
                pa.array([each.value for each in part], pa.binary()),
            )
        )
    return batches


def decode_batches(batches: list[Batch]) -> None:
    """What Spark's Python workers do, without Spark."""
    for batch in batches:
        decode_payload_batch(*batch)


def decode_carefully(batches: list[Batch]) -> None:
    """The same without a format's short way."""
    with patch.dict(registry._BATCHES, clear=True):
        decode_batches(batches)


def _bare(decode: Callable[[bytes], object], values: list[bytes]) -> None:
    collecting = gc.isenabled()
    gc.disable()
    try:
        for value in values:
            decode(value)
    finally:
        if collecting:
            gc.enable()


def usual_stream(shape: Shape, options: Options) -> list[Message]:
    """Changes without deletes, as many as memory holds well."""
    sample = next(messages(shape, range(1), WRITES_ONLY))
    count = min(options.events, MOST_MESSAGES, MOST_BYTES // len(sample.value))
    return list(messages(shape, range(count), WRITES_ONLY))


def _figures(name: str, shape: Shape, options: Options) -> list[Figure]:
    stream = usual_stream(shape, options)
    seconds = medians(
        {
            "without keys": partial(decode_batches, arrow_batches(shape, stream, False)),
            "with keys": partial(decode_batches, arrow_batches(shape, stream, True)),
            "careful": partial(decode_carefully, arrow_batches(shape, stream, True)),
            "bare": partial(_bare, bare_decoder(shape.format), [each.value for each in stream]),
        },
        options.rounds,
        cpu_seconds,
    )
    size = sum(len(each.value) for each in stream) / len(stream)
    return [
        Figure(
            "decoders",
            f"{name}, {keys}",
            seconds["bare"] / seconds[keys],
            BAR if name == "aerospike" else None,
            measured={
                "payloads/s": len(stream) / seconds[keys],
                "bare msgspec payloads/s": len(stream) / seconds["bare"],
                "bytes each": size,
            },
        )
        for keys in ("without keys", "with keys")
    ] + [
        Figure(
            "decoders",
            f"{name}, to the careful way",
            seconds["with keys"] / seconds["careful"],
            SLOWEST,
            higher_is_better=False,
            measured={"careful payloads/s": len(stream) / seconds["careful"]},
        )
    ]


def measure(options: Options) -> list[Figure]:
    """Three figures for each shape: payloads whose Kafka keys are null, with their keys, and these
    beside the careful way.
    """
    figures: list[Figure] = []
    for name, shape in chosen_shapes(options.shapes).items():
        figures += _figures(name, shape, options)
    return figures
