"""A batch that is done leaves nothing behind: Spark keeps its Python workers as long as it can."""

import gc
import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest

from benchmarks.decoders import arrow_batches
from benchmarks.payloads import SHAPES, WRITES_ONLY, messages
from dbt_lakehouse.spark.functions import (
    decode_payload_batch,
    json_elements_batch,
    json_entries_batch,
    row_texts_batch,
)

PAYLOADS = 1_000
BATCHES = 6
FIELDS = '[["order_id", "note", "name", "limits"], []]'
# What has been learned of messages may grow, a leak has the bytes of all batches.
LEFT = 50_000


def left_behind(work: Callable[[], object]) -> int:
    """Bytes of Python's and Arrow's that are there after some batches, and were not before: the
    least of three times. A leak is in each; what the short way learns, when it finds the time to
    (``core.pace``), is in one.
    """
    for _ in range(3):
        work()
    least = _left_by(work)
    for _ in range(2):
        if least >= LEFT:
            least = min(least, _left_by(work))
    return least


def _left_by(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    arrow = int(pa.total_allocated_bytes())
    for _ in range(BATCHES):
        work()
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return left + int(pa.total_allocated_bytes()) - arrow


@pytest.mark.parametrize(
    "name",
    [
        *("aerospike", "aerospike_nested", "aerospike_layouts", "aerospike_json"),
        *("aerospike_flat_json", "debezium", "debezium_schema", "debezium_schema_mixed"),
        *("debezium_layouts", "mongodb", "unwrapped", "maxwell", "canal", "avro"),
        "unwrapped_avro",
    ],
)
def test_batches_leave_nothing_behind(name: str) -> None:
    stream = list(messages(SHAPES[name], range(PAYLOADS), WRITES_ONLY))
    (batch,) = arrow_batches(SHAPES[name], stream, True)
    assert left_behind(lambda: decode_payload_batch(*batch)) < LEFT
    events = decode_payload_batch(*batch).flatten()
    images = [events.field(column) for column in ("before", "after", "record_key")]
    fields = pa.array([FIELDS] * len(events))
    assert left_behind(lambda: row_texts_batch(*images, fields)) < LEFT


def test_collections_leave_nothing_behind() -> None:
    arrays = pa.array(['["a", 1.50, [2], null]'] * PAYLOADS)
    objects = pa.array(['{"a": 1.50, "b": {"c": []}}'] * PAYLOADS)
    assert left_behind(lambda: (json_elements_batch(arrays), json_entries_batch(objects))) < LEFT
