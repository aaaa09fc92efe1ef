"""Payload bytes to complete events in Arrow, in plain Python on one core, beside bare msgspec.

Bare msgspec turns the bytes of each payload into Python objects and throws them away: nothing is
checked, named or converted. The bar is for Aerospike writes of about 250 bytes; other shapes are
shown beside it. CPU seconds count.

Beside that, for formats that have a fast path for many messages at once: its time against that of
the careful path, message by message. It may never be slower on any mix, so the worst shape has a
bar.
"""

import gc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Final
from unittest.mock import patch

import msgspec
import pyarrow as pa

from dbt_lakehouse.spark.functions import decode_payload_batch
from python_udfs import registry
from tools.benchmarks.measuring import Figure, Options, cpu_seconds, medians
from tools.benchmarks.payloads import (
    SHAPES,
    WRITES_ONLY,
    Message,
    Shape,
    bare_avro,
    chosen_shapes,
    messages,
)

BENCHMARK: Final = "decoders"
BATCH: Final = 10_000
MOST_MESSAGES: Final = 200_000
"""All of a measurement's payloads are in memory."""
MOST_BYTES: Final = 50_000_000
BAR: Final = 0.25
CAREFUL_BAR: Final = 1.1
SHAPES_BAR: Final = 3.0

_AGAINST_CAREFUL: Final = "time against the careful path's"
_WITH_KEYS: Final = ", with keys"

Batch = tuple[pa.Array, pa.Array, pa.Array]


def bare_decoder(format: str) -> Callable[[bytes], object]:
    """msgspec's own decoder of such payloads, to plain objects; of Avro, fastavro's."""
    if format == "aerospike_messagepack":
        return msgspec.msgpack.Decoder().decode
    if format in registry.AVRO_FORMATS:
        return bare_avro
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
    """The same without the ways for many messages at once."""
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


def _figures(name: str, options: Options) -> list[Figure]:
    shape = SHAPES[name]
    stream = usual_stream(shape, options)
    seconds = medians(
        {
            ", without keys": partial(decode_batches, arrow_batches(shape, stream, False)),
            _WITH_KEYS: partial(decode_batches, arrow_batches(shape, stream, True)),
            "careful": partial(decode_carefully, arrow_batches(shape, stream, True)),
            "bare": partial(_bare, bare_decoder(shape.format), [each.value for each in stream]),
        },
        options.rounds,
        cpu_seconds,
    )
    size = sum(len(each.value) for each in stream) / len(stream)
    figures = [
        Figure(
            BENCHMARK,
            name + keys,
            seconds["bare"] / seconds[keys],
            BAR if name == "aerospike" else None,
            measured={
                "payloads/s": len(stream) / seconds[keys],
                "bare msgspec payloads/s": len(stream) / seconds["bare"],
                "bytes each": size,
                "bytes/s": len(stream) * size / seconds[keys],
            },
        )
        for keys in (", without keys", _WITH_KEYS)
    ]
    if shape.format in registry._BATCHES:
        figures.append(
            Figure(
                BENCHMARK,
                f"{name}, {_AGAINST_CAREFUL}",
                seconds[_WITH_KEYS] / seconds["careful"],
                higher_is_better=False,
                measured={"careful payloads/s": len(stream) / seconds["careful"]},
            )
        )
    return figures


def measure(options: Options) -> list[Figure]:
    """For each shape, payloads whose Kafka keys are null, with their keys, and the fast path's time
    against the careful path's; and the worst of the latter.
    """
    figures: list[Figure] = []
    apart = get_context("spawn")
    for name in chosen_shapes(options.shapes):
        # What was learned from one shape's table is no part of another's time.
        with ProcessPoolExecutor(1, mp_context=apart) as process:
            figures += process.submit(_figures, name, options).result()
    against = [figure for figure in figures if figure.name.endswith(_AGAINST_CAREFUL)]
    if against:
        worst = max(against, key=lambda figure: figure.ratio)
        name = f"worst {_AGAINST_CAREFUL}: {worst.name.removesuffix(f', {_AGAINST_CAREFUL}')}"
        figures.append(replace(worst, name=name, bar=CAREFUL_BAR))
    return figures + _per_byte(figures)


def _per_byte(figures: list[Figure]) -> list[Figure]:
    """Of each format with several shapes, the worst one's time for a byte against the best's."""
    seconds: dict[str, dict[str, float]] = {}
    for figure in figures:
        name = figure.name.removesuffix(_WITH_KEYS)
        if name != figure.name:
            rate = figure.measured["payloads/s"] * figure.measured["bytes each"]
            seconds.setdefault(SHAPES[name].format, {})[name] = 1 / rate
    return [
        Figure(
            BENCHMARK,
            f"{format}, time for a byte: {worst} against {best}",
            of_shapes[worst] / of_shapes[best],
            SHAPES_BAR,
            higher_is_better=False,
            measured={"bytes/s": 1 / of_shapes[worst], "best bytes/s": 1 / of_shapes[best]},
        )
        for format, of_shapes in seconds.items()
        if len(of_shapes) > 1
        for best, *_, worst in [sorted(of_shapes, key=of_shapes.__getitem__)]
    ]
