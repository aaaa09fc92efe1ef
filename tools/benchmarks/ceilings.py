"""What ratios other benchmarks could reach at most: theirs, if our part of the work took no time.

In the decode UDF's place is one that hands out ready-made events. What is left of ``spark_decode``
is what Spark does for any Python UDF that returns such events. In the place of the pipeline's first
load its finished tables are copied with ``insert ... select``: nothing is decoded, typed or folded.
The bars are those of the other benchmarks; one that is not met here is out of reach for a Python
UDF, or for these tables.

A first load by functions that hand out what they have made of the same batches before is as fast as
decoders in another language could make it at most.
"""

import hashlib
import os
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from dbt_lakehouse.spark import payload_functions
from dbt_lakehouse.spark.functions import SQL_FUNCTIONS, BatchFunction, decode_payload_batch
from tools.benchmarks.decoders import arrow_batches, decode_batches, usual_stream
from tools.benchmarks.lake import BenchmarkLake, write_project
from tools.benchmarks.measuring import Figure, Options, medians, returned_seconds, wall_seconds
from tools.benchmarks.payloads import SHAPES, USUAL_SHAPES
from tools.benchmarks.pipeline import SOURCES, Pipelines, Source, pieces_of
from tools.benchmarks.spark_decode import (
    FROM_JSON,
    FROM_JSON_BAR,
    PLAIN_BAR,
    read_payloads,
    to_noop,
)

# What decoders in another language are to win of a first load, to be worth having.
_DECODERS_BAR: Final = 1.25
# A file beside what functions have made, as long as they are to hand it out.
_READY: Final = "ready"

# Of a Python worker: the events of its first payloads, and of longer batches, of which others get
# as many as they have payloads. The streams' payloads have one event each, and differ in nothing
# that takes Spark longer or shorter.
_ready: dict[str, pa.Array] = {}


def _ready_events(
    formats: pa.Array, keys: pa.Array, values: pa.Array, headers: pa.Array
) -> pa.Array:
    """``decode_payload_batch`` that decodes next to nothing."""
    name = formats[0].as_py()
    if name not in _ready or len(_ready[name]) < len(values):
        _ready[name] = decode_payload_batch(formats, keys, values, headers)
    return _ready[name].slice(0, len(values))


def _of_udf(spark: SparkSession, shape: str, decoded: str, options: Options) -> list[Figure]:
    """The decode UDF of a shape."""
    read_payloads(spark, options.folder, shape, options)
    ready = decoded.replace("decode_payload(", "ready_events(")
    jobs: dict[str, Callable[[], float]] = {
        "ready": partial(wall_seconds, lambda: to_noop(spark.sql(ready))),
    }
    if shape == "debezium":
        beside, bar = "native from_json", FROM_JSON_BAR
        times = 1.0
        jobs["beside"] = partial(wall_seconds, lambda: to_noop(spark.sql(FROM_JSON)))
    else:
        cores = len(os.sched_getaffinity(0))
        beside, bar = f"plain Python x {cores} cores", PLAIN_BAR
        stream = usual_stream(SHAPES[shape], options)
        # The stream may be shorter.
        times = cores * len(stream) / options.events
        batches = arrow_batches(SHAPES[shape], stream, True)
        jobs["beside"] = partial(wall_seconds, partial(decode_batches, batches))
    seconds = medians(jobs, options.rounds, returned_seconds)
    rates = {name: options.events / taken for name, taken in seconds.items()}
    rates["beside"] *= times
    return [
        Figure(
            "ceilings",
            f"{shape}, UDF to {beside}",
            rates["ready"] / rates["beside"],
            bar,
            measured={"ready payloads/s": rates["ready"], f"{beside} payloads/s": rates["beside"]},
        ),
    ]


def _of_pipeline(source: Source, options: Options) -> Figure:
    """A first load of a source."""
    pieces = pieces_of(source, options.folder / "pipeline", options.events)
    pipelines = Pipelines(source, options.folder)
    pipelines.load(pieces[:3], ours_first=True)
    handwritten, copies = [], []
    for number in range(options.rounds):
        at_once = [[path for piece in pieces for path in piece]]
        handwritten.append(pipelines.load(at_once, ours_first=number % 2 == 0).handwritten)
        copies.append(pipelines.seconds_to_copy_tables())
    taken = statistics.median(handwritten)
    copied = statistics.median(copies)
    return Figure(
        "ceilings",
        f"{source.shape}, pipeline's first load",
        taken / copied,
        source.bars.first_load,
        measured={
            "copied events/s": options.events / copied,
            "handwritten events/s": options.events / taken,
        },
    )


def _kept(function: BatchFunction, folder: Path) -> BatchFunction:
    """The function, which keeps in a folder what it makes, and hands it out for batches that are
    the same in length, first and last row. What it is given beside these is as it is written.
    """

    # Without the function's name: Spark's workers would import the function by it.
    def kept(*given: Any) -> pa.Array:
        arrays = [each for each in given if isinstance(each, pa.Array)]
        others = [each for each in given if not isinstance(each, pa.Array)]
        if not len(arrays[0]):
            return function(*given)
        ends = [(array[0].as_py(), array[-1].as_py()) for array in arrays]
        about = repr((function.__name__, others, len(arrays[0]), ends))
        file = folder / hashlib.sha256(about.encode()).hexdigest()
        if (folder / _READY).exists() and file.exists():
            return pa.ipc.open_stream(pa.memory_map(str(file))).read_next_batch().column(0)
        made = function(*given)
        if not file.exists():
            batch = pa.record_batch([made], names=["made"])
            with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, batch.schema) as stream:
                stream.write_batch(batch)
        return made

    return kept


def _of_decoders(source: Source, options: Options) -> Figure:
    """A first load of a source by functions that take no time."""
    folder = options.folder / f"{source.shape}-decoders"
    made = folder / "made"
    made.mkdir(parents=True)
    pieces = pieces_of(source, folder, options.events)
    at_once = [[path for piece in pieces for path in piece]]
    pipelines = Pipelines(source, folder)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    # Whoever opens the session registers them anew.
    kept = {
        function.__name__: _kept(function, made)
        for function in (payload_functions.log_events_batch, payload_functions.other_events_batch)
    }
    with patch.dict(vars(payload_functions), kept):
        # The second one keeps what the others are to hand out.
        for warm_up in (pieces[:3], at_once):
            pipelines.load(warm_up, ours_first=True)
        for number in range(2 * max(2, options.rounds)):
            is_ready = number % 2 == 1
            (made / _READY).touch() if is_ready else (made / _READY).unlink(missing_ok=True)
            seconds[is_ready].append(pipelines.load(at_once, ours_first=number % 4 < 2).ours)
    if len(list(made.iterdir())) < 2:
        raise RuntimeError("nothing was kept")
    ours, ready = (statistics.median(seconds[each]) for each in (False, True))
    return Figure(
        "ceilings",
        f"{source.shape}, first load with decoders that take no time to ours",
        ours / ready,
        _DECODERS_BAR,
        measured={"ready events/s": options.events / ready, "events/s": options.events / ours},
    )


def measure(options: Options) -> list[Figure]:
    """A figure for each bar that says what Spark has to do with the events."""
    lake = BenchmarkLake(options.folder, write_project(options.folder / "project"))
    decoded = lake.decoded("payloads")
    spark = lake.open_session()
    spark.sql("create namespace if not exists lake.silver")
    returns = SQL_FUNCTIONS["decode_payload"].returns
    # By the function's type hints; PySpark's own stubs know only the form that warns of it.
    make_udf: Any = arrow_udf
    spark.udf.register("ready_events", make_udf(_ready_events, returns))
    figures = [
        figure for shape in USUAL_SHAPES for figure in _of_udf(spark, shape, decoded, options)
    ]
    return [
        *figures,
        *(_of_pipeline(source, options) for source in SOURCES),
        *(_of_decoders(source, options) for source in SOURCES),
    ]
