"""Which messages of a batch are decoded together."""

import random
from itertools import chain

import pyarrow as pa
import pytest

from dbt_lakehouse.spark.message_chunks import chunks_of, together


def batch(tables: list[int | None], size: int = 300) -> list[pa.Array]:
    """Debezium messages of these tables, tombstones for None."""
    values = [
        None
        if table is None
        else b'{"after":{"id":%d,"x":"%b"},"source":{"db":"d","table":"t%d"},"op":"c"}'
        % (place, b"x" * (size + table % 7 * 30), table)
        for place, table in enumerate(tables)
    ]
    return [
        pa.array(["debezium_json"] * len(tables), pa.string()),
        pa.array([b'{"id":1}'] * len(tables), pa.binary()),
        pa.array(values, pa.binary()),
    ]


def are_in_order(arrays: list[pa.Array]) -> bool:
    chunks = list(chunks_of(*arrays))
    (places, *others) = chunks[0]
    length = len(places)
    assert not others
    assert list(chain.from_iterable(chain.from_iterable(chunks))) == list(range(len(arrays[0])))
    return all(len(chunk) == 1 and len(chunk[0]) <= length for chunk in chunks)


@pytest.mark.parametrize("tables", [1, 2, 6])
def test_messages_of_few_tables_stay_in_order(tables: int) -> None:
    assert are_in_order(batch([number % tables for number in range(3000)]))


def test_messages_stay_in_order_if_each_is_of_another_table() -> None:
    assert are_in_order(batch(list(range(3000))))


def test_few_messages_stay_in_order() -> None:
    assert are_in_order(batch([number % 20 for number in range(100)]))
    assert list(chunks_of(*batch([]))) == []
    assert are_in_order(batch([None] * 1000))


@pytest.mark.parametrize("size", [20, 300, 5000])
@pytest.mark.parametrize("step", [1, 4])
def test_messages_of_many_tables_are_together(size: int, step: int) -> None:
    tables: list[int | None] = [number // step % 100 for number in range(3000)]
    for place in random.Random(size).sample(range(3000), 300):
        # Some are of tables that have few, or of none.
        tables[place] = None if place % 2 else 1000 + place % 60
    arrays = batch(tables, size)
    chunks = list(chunks_of(*arrays))
    groups = list(chain.from_iterable(chunks))
    assert sorted(chain.from_iterable(groups)) == list(range(3000))
    assert all(list(group) == sorted(group) for group in groups)
    own = [group for group in groups if len({tables[place] for place in group}) == 1]
    assert sum(map(len, own)) > 2500
    sizes = {place: len(value) for place, value in enumerate(arrays[2].to_pylist()) if value}
    for chunk in chunks:
        bytes_of_chunk = sum(sizes.get(place, 0) for place in chain.from_iterable(chunk))
        assert bytes_of_chunk <= max(120_000, 32 * (size + 300))
        assert len(together(arrays, chunk)[0]) == sum(map(len, chunk)) <= 512
    taken = [together(arrays, chunk)[2] for chunk in chunks]
    expected = arrays[2].take(pa.array(list(chain.from_iterable(groups))))
    assert pa.concat_arrays(taken).equals(expected)


def test_a_large_table_among_many_is_decoded_in_parts() -> None:
    tables: list[int | None] = [0 if number % 4 else number // 4 % 50 + 1 for number in range(6000)]
    arrays = batch(tables)
    groups = list(chain.from_iterable(chunks_of(*arrays)))
    *own, last = [len(group) for group in groups if tables[group[0]] == 0]
    assert sum(own) + last == 4500
    assert len(set(own)) == 1
    assert 200 < own[0] < 400
