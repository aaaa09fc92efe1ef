"""A batch that is done leaves nothing behind: Spark keeps its Python workers as long as it can."""

import gc
import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest

from dbt_lakehouse.spark.functions import (
    change_rows_batch,
    decode_payload_batch,
)
from python_udfs.typed.declared import Log, LogColumn
from tools.benchmarks.decoders import arrow_batches
from tools.benchmarks.payloads import SHAPES, WRITES_ONLY, messages

PAYLOADS = 500
BATCHES = 6
LOG = Log(
    tuple(
        LogColumn(name, type, name)
        for name, type in (
            ("order_id", "bigint"),
            ("note", "string"),
            ("name", "string"),
            ("limits", "map<string,string>"),
            ("tags", "array<decimal(9,2)>"),
        )
    )
)
# What has been learned of messages may grow, a leak has the bytes of all batches.
LEFT = 25_000


def left_behind(work: Callable[[], object]) -> int:
    """Bytes of Python's and Arrow's that are there after some batches, and were not before: the
    least of three times. A leak is in each; what the fast path learns, when it finds the time to
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
        *("aerospike", "debezium", "unwrapped", "avro"),
        # Others that are read by the same code, and other shapes of the same formats.
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in (
                *("aerospike_json", "aerospike_flat_json", "mongodb", "maxwell", "canal"),
                *("aerospike_nested", "aerospike_layouts", "debezium_schema"),
                *("debezium_schema_mixed", "debezium_layouts", "unwrapped_avro"),
            )
        ),
    ],
)
def test_batches_leave_nothing_behind(name: str) -> None:
    stream = list(messages(SHAPES[name], range(PAYLOADS), WRITES_ONLY))
    (batch,) = arrow_batches(SHAPES[name], stream, True)
    assert left_behind(lambda: decode_payload_batch(*batch)) < LEFT
    events = decode_payload_batch(*batch).flatten()
    fields = ("operation", "before", "after", "record_key", "metadata")
    columns = [events.field(name) for name in fields]
    assert left_behind(lambda: change_rows_batch(LOG, *columns)) < LEFT


def test_collections_leave_nothing_behind() -> None:
    image = '{"tags": ["1.50", 2, null], "limits": {"a": 1.50, "b": {"c": []}}}'
    columns: list[list[str | None]] = [["insert"], [None], [image], [None], [None]]
    arrays = [pa.array(column * PAYLOADS, pa.string()) for column in columns]
    assert left_behind(lambda: change_rows_batch(LOG, *arrays)) < LEFT
