"""Whatever a decoder raises stops no run: the message becomes ``decoder_failed``, others stay."""

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pyarrow as pa
import pytest
import yaml

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.spark.functions import (
    change_rows_batch,
    decode_payload_batch,
    is_value_batch,
    misfit_values_batch,
)
from python_udfs import registry
from python_udfs.aerospike.fast_messagepack import MessagePackWrites
from python_udfs.core.errors import CODES
from python_udfs.core.events import Decoded, Event
from python_udfs.registry import FORMATS, decode_batch, decode_payload
from python_udfs.typed.columns import typed_column
from python_udfs.typed.declared import Log, LogColumn
from python_udfs.typed.row import Change, change_row

POISON = b"poison"
GOOD = b'{"op":"c","after":{"id":1},"source":{"table":"t"}}'


class Unwritable(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


def endless(_: Any = None) -> Any:
    return endless()


def raising(error: BaseException) -> Callable[..., Any]:
    def broken(*_: Any) -> Any:
        raise error

    return broken


BUGS: dict[str, tuple[Callable[..., Any], str]] = {
    "ValueError": (raising(ValueError("year 10000 is out of range")), "year 10000 is out of range"),
    "KeyError": (raising(KeyError("x")), "'x'"),
    "AssertionError": (raising(AssertionError()), ""),
    "MemoryError": (raising(MemoryError()), ""),
    "RecursionError": (endless, "maximum recursion depth exceeded"),
    "StopIteration": (raising(StopIteration()), ""),
    "UnicodeEncodeError": (lambda *_: "\ud800".encode(), "can't encode character"),
    "RuntimeError": (raising(RuntimeError("half a character \ud800")), r"half a character \ud800"),
    "OverflowError": (raising(OverflowError("x" * 100_000 + "end")), "xend"),
    "Unwritable": (raising(Unwritable()), "can't be written"),
}


def decode_rows(format: str, values: list[bytes]) -> list[list[dict[str, Any]]]:
    rows: list[list[dict[str, Any]]] = decode_payload_batch(
        pa.array([format] * len(values)),
        pa.array([None] * len(values), pa.binary()),
        pa.array(values, pa.binary()),
    ).to_pylist()
    return rows


def failed_as(event: dict[str, Any], name: str, reason: str) -> bool:
    detail = event["error_detail"]
    return bool(
        (event["operation"], event["error_code"]) == ("invalid", "decoder_failed")
        and detail.startswith(f"{name}: ")
        and reason in detail
        and ".py, line " in detail
        and len(detail) < 700
    )


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", BUGS)
def test_one_message_fails_and_the_others_stay(
    format: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug, reason = BUGS[name]
    careful, of_many = FORMATS[format], registry._BATCHES.get(format)

    def decode(key: bytes | None, value: bytes | None) -> list[Event]:
        return bug(value) if value == POISON else careful(key, value)

    monkeypatch.setitem(FORMATS, format, decode)
    if of_many:

        def decode_many(keys: Any, values: Any) -> Decoded:
            return bug(values) if POISON in values else of_many(keys, values)

        monkeypatch.setitem(registry._BATCHES, format, decode_many)
    (first,), (failed,), (last,) = decode_rows(format, [GOOD, POISON, GOOD])
    assert failed_as(failed, name, reason), failed
    assert first == last == decode_rows(format, [GOOD])[0][0]
    assert first["error_code"] != "decoder_failed"
    # And wherever else the registry is asked.
    for events in (
        decode_payload(format, None, POISON),
        decode_batch(format, [None], [POISON]).payloads()[0],
    ):
        assert [event.error_code for event in events] == ["decoder_failed"]


def test_only_the_batch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the fast path alone costs nothing but time."""
    value = msgpack.packb([1, 1, [["ns", None, b"d" * 20, None], 1, 0, 0, [["n", 1, 0, 5]]]])
    expected = decode_rows("aerospike_messagepack", [value] * 3)
    monkeypatch.setattr(MessagePackWrites, "names", raising(KeyError("bug")))
    assert decode_rows("aerospike_messagepack", [value] * 3) == expected
    assert expected[0][0]["error_code"] is None


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ([Event(0, "upsert", after=b"\xff")], "ArrowInvalid"),
        ([Event(0, "upsert", source_table="\ud800")], "UnicodeEncodeError"),
        ([Event(0, "upsert", occurred_at=2**70)], "OverflowError"),
        # A bug that mypy would find, too.
        ([Event(0, "upsert", metadata=7)], "ArrowTypeError"),  # type: ignore[arg-type]
        (None, "AssertionError"),
        ([], "AssertionError"),
        ([None], "TypeError"),
    ],
)
def test_what_no_column_can_hold(made: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    careful = FORMATS["aerospike_json"]
    monkeypatch.delitem(registry._BATCHES, "aerospike_json")
    monkeypatch.setitem(
        FORMATS, "aerospike_json", lambda key, value: made if value == POISON else careful(key, b"")
    )
    (first,), (failed,), (last,) = decode_rows("aerospike_json", [b"1", POISON, b"2"])
    assert failed["error_code"] == "decoder_failed"
    assert failed["error_detail"].startswith(f"{name}: ")
    assert first["operation"] == last["operation"] == "tombstone"


def test_a_wrong_configuration_still_stops() -> None:
    with pytest.raises(ValueError, match="unknown wire format 'json'"):
        decode_rows("json", [GOOD])


def test_who_stops_a_run_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._BATCHES, "aerospike_json", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        decode_rows("aerospike_json", [GOOD])


def test_the_codes_are_those_that_dbt_accepts() -> None:
    (model,) = yaml.safe_load((ROOT / "shared/models/silver/other_events.yml").read_text())[
        "models"
    ]
    (column,) = (each for each in model["columns"] if each["name"] == "error_code")
    (accepted,) = (each["accepted_values"] for each in column["data_tests"])
    assert sorted(accepted["arguments"]["values"]) == sorted(CODES)


LOG = Log((LogColumn("id", "int", "id"), LogColumn("a", "string", "a")), ("id",))


def typed_rows(*columns: Sequence[str | None]) -> list[dict[str, Any]]:
    """Rows of a log, of images before and after, and record keys."""
    count = len(columns[0])
    texts = (["update"] * count, *columns, [None] * count)
    rows = change_rows_batch(LOG, *(pa.array(each, pa.string()) for each in texts))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def test_one_row_of_a_change_log_fails() -> None:
    """A row image that is not JSON gives nothing but a misfit, and costs no other row anything.
    Text that is no image before the change may be another key, and costs nothing at all.
    """
    images = ['{"id":1,"a":"x"}', "no JSON", '{"id":1', "[1]", '{"id":2,"a":null}', None]
    for place in range(3):
        columns: list[list[str | None]] = [[None] * 6, ['{"id":3}'] * 6, ['{"id":3}'] * 6]
        columns[place] = list(images)
        rows = typed_rows(*columns)
        failed = [row["_misfits"] for row in rows]
        # A record key is looked at only where the image lacks a key column.
        assert failed == [
            [{"column": "id", "text": text}] if place == 1 and 0 < number < 4 else []
            for number, text in enumerate(images)
        ]
        if place == 1:
            assert [row["id"] for row in rows] == [1, None, None, None, 2, 3]
            assert [row["a"] for row in rows] == ["x", None, None, None, None, None]
    keys = ['{"id":7}', "no JSON", '{"id":8}']
    rows = typed_rows([None] * 3, ["{}"] * 3, keys)
    assert [row["id"] for row in rows] == [7, None, 8]


@pytest.mark.parametrize("alone", [False, True])
def test_whatever_raises_it_is_one_row(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the code by column alone costs nothing but time; one of a single row's, too,
    costs that row.
    """
    read, one_row = typed_column, change_row

    def broken(texts: pa.Array, type: str) -> pa.Array:
        return endless() if "bad" in texts.to_pylist() else read(texts, type)

    def broken_alone(log: Log, change: Change) -> dict[str, Any]:
        return endless() if change.after and b"bad" in change.after else one_row(log, change)

    monkeypatch.setattr("python_udfs.typed.rows.typed_column", broken)
    if alone:
        monkeypatch.setattr("python_udfs.typed.rows.change_row", broken_alone)
    texts = ["good", "bad", "good"]
    images = [f'{{"id":{number},"a":"{text}"}}' for number, text in enumerate(texts)]
    rows = typed_rows([None] * 3, list(images), [None] * 3)
    assert [row["id"] for row in rows] == [0, None if alone else 1, 2]
    assert [row["a"] for row in rows] == ["good", None if alone else "bad", "good"]
    failed = [{"column": "id", "text": images[1]}] if alone else []
    assert [row["_misfits"] for row in rows] == [[], failed, []]


def test_one_misfit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    read = typed_column

    def broken(texts: pa.Array, type: str) -> pa.Array:
        return endless() if "2" in texts.to_pylist() else read(texts, type)

    monkeypatch.setattr("dbt_lakehouse.spark.functions.typed_column", broken)
    misfits = [[{"column": "a", "text": text}, {"column": "b", "text": "9"}] for text in "123"]
    found = misfit_values_batch([LogColumn("a", "bigint", "a")], pa.array([*misfits, [], None]))
    assert [row["a"] for row in found.to_pylist()] == [1, None, 3, None, None]


def test_a_text_is_a_value_of_a_type_or_not() -> None:
    texts = pa.array(["1", "x", str(2**63), None])
    assert is_value_batch(texts, pa.array(["bigint"] * 4)).to_pylist() == [True, False, False, None]
    with pytest.raises(ValueError, match="type 'text'"):
        is_value_batch(texts, pa.array(["text"] * 4))
