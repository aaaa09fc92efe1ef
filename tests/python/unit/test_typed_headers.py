"""Columns of Kafka headers: what they have, by column and one by one, in all formats."""

import random
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.arrow_values import differing, values_of
from support.fuzzing import know_schemas, seeds
from support.typed_events import random_changes, random_log

from dbt_lakehouse.spark import payload_functions
from dbt_lakehouse.spark.by_events import log_events_of
from dbt_lakehouse.spark.event_arrays import careful_events
from dbt_lakehouse.spark.functions import change_rows_batch
from dbt_lakehouse.spark.payload_functions import log_events_batch
from python_udfs.registry import FORMATS
from python_udfs.typed import headers, rows
from python_udfs.typed.batches import Changes
from python_udfs.typed.declared import Log, LogColumn, PlacePart, row_type
from python_udfs.typed.row import Change, change_row
from python_udfs.typed.rows import change_rows, told_rows

Sent = Sequence[tuple[str, bytes | None]] | None
TRACE: Final = LogColumn("trace", "string", "trace.id", ("trace.id",))
TRY: Final = LogColumn("try", "int", "try", ("try",))
HEADED: Final = (TRACE, TRY)
LOG: Final = Log((LogColumn("id", "int", "id"),), ("id",), headed=HEADED)
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def array_of(*sent: Sent) -> pa.Array:
    """Headers as bronze has them."""
    return pa.array(
        [
            None if each is None else [{"key": key, "value": value} for key, value in each]
            for each in sent
        ],
        HEADERS,
    )


def row_of(*sent: tuple[str, bytes | None], log: Log = LOG) -> dict[str, Any]:
    """The row of an event with these headers, which both ways agree on."""
    change = Change("insert", None, b'{"id":1}')
    values = headers.values_of(log, array_of(sent))
    row = change_row(log, change, [each[0].as_py() for each in values])
    got = change_rows(log, changes_of([change]), values)
    assert not differing(got, pa.array([row], row_type(log))), values_of(got)
    return row


def changes_of(changes: Sequence[Change]) -> Changes:
    return Changes(*map(list, zip(*changes, strict=True)))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([], (None, None)),
        ([("trace.id", None), ("try", None)], (None, None)),
        ([("trace.id", b""), ("try", b" 7 ")], ("", 7)),
        ([("trace.id", "\u00e9\U0001f600\0".encode())], ("\u00e9\U0001f600\0", None)),
        # A name is whole, and its case counts.
        ([("trace", b"a"), ("id", b"b"), ("Trace.id", b"c"), ("trace.id ", b"d")], (None, None)),
        # The last of a name counts, even if it is null.
        ([("try", b"1"), ("trace.id", b"a"), ("try", b"2"), ("trace.id", b"b")], ("b", 2)),
        ([("try", b"1"), ("try", None), ("trace.id", b"\xff"), ("trace.id", b"b")], ("b", None)),
        # It is text, not JSON.
        ([("trace.id", b'"a"'), ("try", b"7")], ('"a"', 7)),
        ([("trace.id", b"__debezium_unavailable_value")], ("__debezium_unavailable_value", None)),
    ],
)
def test_a_column_has_the_last_header_of_its_name(
    sent: list[tuple[str, bytes | None]], expected: tuple[str | None, int | None]
) -> None:
    row = row_of(*sent)
    assert (row["trace"], row["try"]) == expected
    assert (row["_misfits"], row["_unchanged_columns"]) == ([], [])


@pytest.mark.parametrize(
    ("sent", "column", "text"),
    [
        (("try", b"many"), "try", "many"),
        (("try", b""), "try", ""),
        (("try", b"7\xff"), "try", "7\ufffd"),
        # Not even a string has bytes that are no text: a surrogate, an overlong form, a rest.
        (("trace.id", b"a\xed\xa0\x80"), "trace", "a\ufffd\ufffd\ufffd"),
        (("trace.id", b"\xc0\xaf"), "trace", "\ufffd\ufffd"),
        (("trace.id", b"caf\xc3"), "trace", "caf\ufffd"),
    ],
)
def test_what_does_not_fit_is_told_by_its_text(
    sent: tuple[str, bytes], column: str, text: str
) -> None:
    row = row_of(sent)
    assert (row["trace"], row["try"]) == (None, None)
    assert row["_misfits"] == [{"column": column, "text": text}]


def test_each_of_a_message_s_events_has_its_headers() -> None:
    """A delete and a truncate too; and where they are not known, null."""
    values = headers.values_of(LOG, array_of([("try", b"3")]))
    known = [each[0].as_py() for each in values]
    for change in (
        Change("delete", b'{"id":1}', None, b'{"id":1}'),
        Change("truncate"),
        Change("update", b'{"id":1}', b'{"id":1}'),
    ):
        assert change_row(LOG, change, known)["try"] == 3
        assert change_row(LOG, change)["try"] is None
        assert change_rows(LOG, changes_of([change] * 3)).field("try").null_count == 3
    assert change_row(LOG, change, known)["_changed_columns"] == []


def test_a_masked_header_is_masked_in_misfits_too() -> None:
    masked = replace(TRACE, mask="last4", clear="string")
    hidden = LogColumn("try", "int", "try", mask="null", clear="int")
    log = Log(LOG.columns, ("id",), headed=(masked, hidden))
    row = row_of(("trace.id", b"0123456789"), ("try", b"many"), log=log)
    assert (row["trace"], row["try"]) == ("******6789", None)
    assert row["_misfits"] == [{"column": "try", "text": "(masked)"}]
    row = row_of(("trace.id", b"0123456789\xff"), log=log)
    assert (row["trace"], row["_misfits"]) == (None, [{"column": "trace", "text": "(masked)"}])


def test_a_header_may_be_the_place_of_an_event() -> None:
    log = Log(LOG.columns, ("id",), headed=HEADED, order_by=(PlacePart("number", "try"),))
    assert row_of(("try", b"12"), log=log)["_lh_source_place"] == "p0212"
    assert row_of(("try", b"no"), log=log)["_lh_source_place"] is None


def random_headers(rng: random.Random) -> Sent:
    values = (None, b"", b"1", b"2", b"x", b"\xff", "\u00e9".encode())
    names = ("trace.id", "try", "trace", "__debezium.newkey", "__op")
    some = [(rng.choice(names), rng.choice(values)) for _ in range(rng.randrange(5))]
    return None if rng.random() < 0.2 else some


@given(st.integers(0, 2**40))
@settings(deadline=None)
def test_rows_by_column_are_the_rows_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    log = replace(random_log(rng), headed=HEADED)
    changes = [each._replace(format="") for each in random_changes(rng, log)]
    sent = array_of(*(random_headers(rng) for _ in changes))
    values = headers.values_of(log, sent)
    of_each = zip(*(each.to_pylist() for each in values), strict=True)
    expected = pa.array(
        [change_row(log, each, own) for each, own in zip(changes, of_each, strict=True)],
        row_type(log),
    )
    assert differing(change_rows(log, changes_of(changes), values), expected) == []
    # As Spark calls it, on a part of longer arrays.
    columns = zip(*changes, strict=True)
    texts = [pa.array(each, pa.binary()).cast(pa.string()) for each in list(columns)[1:5]]
    operations = pa.array([each.operation for each in changes], pa.string())
    arrays = [each.slice(1) for each in (operations, *texts, sent)]
    assert differing(change_rows_batch(log, *arrays), expected.slice(1)) == []


def test_an_event_that_cannot_be_read_costs_no_other_its_headers() -> None:
    changes = changes_of(
        [Change("insert", None, b"[]" if n == 2 else b'{"id":1}') for n in range(5)]
    )
    values = headers.values_of(LOG, array_of(*([("try", str(n).encode())] for n in range(5))))
    got = told_rows(LOG, lambda start, end: [changes.slice(start, end - start)], 5, values)
    assert got.field("try").to_pylist() == [0, 1, None, 3, 4]


@pytest.mark.parametrize("way", ["together", "one by one", "by all events"])
@pytest.mark.parametrize("format", FORMATS)
def test_payloads_of_every_format_give_them(
    format: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_schemas()
    rng = random.Random(format)
    payloads = [each for each in seeds()[format] for _ in range(4)]
    log = Log((LogColumn("id", "string", "id"),), headed=HEADED)
    arrays = [
        pa.array([format] * len(payloads), pa.string()),
        pa.array([each.key for each in payloads], pa.binary()),
        pa.array([each.value for each in payloads], pa.binary()),
        # Each message's own, of those that no decoder reads.
        array_of(
            *(
                [("trace.id", str(place).encode()), *(random_headers(rng) or ())][::-1]
                if place % 5
                else None
                for place in range(len(payloads))
            )
        ),
    ]
    expected = log_events_of(log, None, careful_events(*arrays), arrays[3])
    if way == "one by one":
        monkeypatch.setattr(rows, "taken_apart", None)
    elif way == "by all events":
        monkeypatch.setattr(payload_functions, "parts_of", None)
    got = log_events_batch(log, None, *arrays)
    if way != "one by one":
        assert differing(got, expected) == []
    found = [event["change"]["trace"] for each in got.to_pylist() for event in each]
    said = [
        str(place) if place % 5 else None
        for place, each in enumerate(got.to_pylist())
        for _ in each
    ]
    assert found and found == said


def test_a_log_without_header_columns_has_the_headers_of_its_decoder_alone() -> None:
    log = replace(LOG, headed=())
    sent = array_of([("trace.id", b"a")])
    assert headers.values_of(log, sent) == []
    message = [pa.array(["maxwell_json"]), pa.array([None], pa.binary())]
    value = b'{"database":"d","table":"t","type":"insert","ts":1,"data":{"id":1}}'
    (event,) = log_events_batch(log, None, *message, pa.array([value]), sent)[0].as_py()
    assert "trace" not in event["change"]
