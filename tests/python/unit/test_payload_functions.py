"""From payloads to a log's typed rows, and to what no log takes: the same as by way of events."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from dbt_lakehouse.spark.payload_functions import Taken, log_events_batch, other_events_batch
from python_udfs import registry
from python_udfs.typed.declared import Log, LogColumn

LOG = Log(
    columns=(LogColumn("id", "bigint", "id"), LogColumn("name", "string", "name")), key=("id",)
)


def payload(operation: str, table: str, before: str = "null", after: str = "null") -> bytes:
    source = f'{{"db":"shop","schema":"sales","table":"{table}","ts_ms":1}}'
    return f'{{"before":{before},"after":{after},"source":{source},"op":"{operation}"}}'.encode()


def arrays(*values: bytes | None) -> list[pa.Array]:
    return [
        pa.array(["debezium_json"] * len(values)),
        pa.array([b'{"id":1}'] * len(values), pa.binary()),
        pa.array(values, pa.binary()),
    ]


SENT = arrays(
    payload("c", "orders", after='{"id":1,"name":"a"}'),
    payload("c", "others", after='{"id":1,"name":"b"}'),
    b"{",
    None,
    payload("u", "orders", '{"id":1,"name":"a"}', '{"id":1,"name":"c"}'),
)
ORDERS = frozenset({("shop", "sales", "orders")})


def test_a_log_gets_its_own_events_alone() -> None:
    found = log_events_batch(LOG, ORDERS, *SENT).to_pylist()
    assert [len(each) for each in found] == [1, 0, 0, 0, 1]
    assert [each[0]["change"]["name"] for each in found if each] == ["a", "c"]
    assert found[4][0]["change"]["_changed_columns"] == ["name"]


def test_the_tables_of_all_formats_that_decode_many_are_known() -> None:
    assert registry._FAST_PATHS.keys() == registry._BATCHES.keys()
    for format in registry.FORMATS:
        fast_path = registry.fast_path_of(format)
        assert (fast_path is not None) == (format in registry._BATCHES)
    assert registry.fast_path_of(None) is None


def test_what_a_log_takes_is_counted_alone() -> None:
    other = '{"id":1,"name":"b"}'
    topics = pa.array(["a"] * 5, pa.string())
    found = other_events_batch(Taken(frozenset(), ORDERS), topics, *SENT).to_pylist()
    assert [
        [(event["operation"], event["is_taken"], event["events"], event["after"]) for event in each]
        for each in found
    ] == [
        [("insert", True, 1, None)],
        [("insert", False, 1, other)],
        [("invalid", False, 1, None)],
        [("tombstone", False, 1, None)],
        [("update", True, 1, None)],
    ]


@pytest.mark.parametrize("topics", ["aaaaa", "abbba", "abcde", "aabbb"])
def test_every_event_is_counted_once_with_a_payload_of_its_topic(topics: str) -> None:
    messages = [each for _ in range(4) for each in range(5)]
    sent = [array.take(pa.array(messages)) for array in SENT]
    names = pa.array([topics[each] for each in messages], pa.string())
    found = other_events_batch(Taken(frozenset(), ORDERS), names, *sent).to_pylist()
    counted: Counter[Any] = Counter()
    assert sum(event["payloads"] for events in found for event in events) == len(messages)
    for topic, events in zip(names.to_pylist(), found, strict=True):
        for event in events:
            key = (topic, event["source_table"], event["operation"], event["is_taken"])
            counted[key] += event["events"]
    assert counted == {
        (topics[0], "orders", "insert", True): 4,
        (topics[1], "others", "insert", False): 4,
        (topics[2], None, "invalid", False): 4,
        (topics[3], None, "tombstone", False): 4,
        (topics[4], "orders", "update", True): 4,
    }
