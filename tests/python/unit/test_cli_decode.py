"""The contract of `lakehouse decode`: lines in, lines out, exit codes, one line on stderr."""

import base64
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import pytest

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands import decode
from dbt_lakehouse.landing import captures
from dbt_lakehouse.landing.captures import CaptureError, read_captures, read_lines
from python_udfs import registry
from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS, UPDATE, UPSERT, Decode, Event
from python_udfs.registry import FORMATS

COLUMNS = [
    "topic",
    "partition",
    "offset",
    "event_index",
    "timestamp",
    "format",
    "operation",
    "source_database",
    "source_schema",
    "source_table",
    "record_key",
    "before",
    "after",
    "occurred_at",
    "expires_at",
    "metadata",
    "error_code",
    "error_detail",
]
DIGEST = bytes(range(20))
DIGEST_B64 = base64.b64encode(DIGEST).decode()


def run_alone(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, with every warning an error."""
    command = [sys.executable, "-W", "error", "-m", "dbt_lakehouse.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60)


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What the console script does in such a process, in this one: that takes a tenth."""
    streams = {"stdin": io.BytesIO(stdin), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
    with pytest.MonkeyPatch.context() as standard:
        texts = {
            name: io.TextIOWrapper(each, encoding="utf-8", write_through=True)
            for name, each in streams.items()
        }
        for name, text in texts.items():
            standard.setattr(sys, name, text)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    said = [streams[name].getvalue() for name in ("stdout", "stderr")]
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(arguments, ended.value.code, *said)


def decoded(*lines: bytes, format: str = "aerospike_messagepack") -> list[dict[str, Any]]:
    """The events of capture lines, through a call that must succeed and say nothing else."""
    result = run("decode", "--format", format, stdin=b"\n".join(lines))
    assert (result.returncode, result.stderr) == (0, b"")
    return [json.loads(line) for line in result.stdout.splitlines()]


def line(value: bytes | None = None, **fields: Any) -> bytes:
    """A capture line."""
    value_b64 = None if value is None else base64.b64encode(value).decode()
    return json.dumps({"value_b64": value_b64, **fields}).encode()


def write(**overrides: Any) -> bytes:
    """An Aerospike write of namespace `users`, set `profiles`, with one bin."""
    fields = {"lut": 1_700_000_000_123, "expiry": 1_702_592_000, "bins": [["n", 1, 0, 7]]}
    fields |= overrides
    key = ["users", "profiles", DIGEST, None]
    message = [1, 1, [key, 3, fields["expiry"], fields["lut"], fields["bins"]]]
    packed: bytes = msgpack.packb(message)
    return packed


TOMBSTONE = line()


def failure(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line on stderr of a call that exits 2."""
    assert result.returncode == 2
    text = result.stderr.decode()
    assert text.startswith("lakehouse: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return text


def test_writes_the_columns_of_other_events_in_order() -> None:
    position = {"topic": "t", "partition": 2, "offset": 9, "timestamp_ms": 1_700_000_000_456}
    (event,) = decoded(line(write(), key_b64=None, **position))
    assert list(event) == COLUMNS
    metadata = event.pop("metadata")
    assert metadata["generation"] == 3
    assert event == {
        "topic": "t",
        "partition": 2,
        "offset": 9,
        "event_index": 0,
        "timestamp": "2023-11-14T22:13:20.456Z",
        "format": "aerospike_messagepack",
        "operation": "upsert",
        "source_database": None,
        "source_schema": "users",
        "source_table": "profiles",
        "record_key": {"digest": DIGEST_B64},
        "before": None,
        "after": {"n": 7},
        "occurred_at": "2023-11-14T22:13:20.123Z",
        "expires_at": "2023-12-14T22:13:20.000Z",
        "error_code": None,
        "error_detail": None,
    }


@pytest.mark.parametrize("format", FORMATS)
def test_missing_positions_are_null_and_a_null_or_empty_value_is_a_tombstone(format: str) -> None:
    events = decoded(
        b'{"value_b64":null}', b'{"key_b64":null,"value_b64":""}', TOMBSTONE, format=format
    )
    assert len(events) == 3
    for event in events:
        assert list(event) == COLUMNS
        assert event["operation"] == "tombstone"
        assert event["format"] == format
        for column in ("topic", "partition", "offset", "timestamp", "occurred_at", "expires_at"):
            assert event[column] is None


@pytest.mark.parametrize("format", FORMATS)
def test_an_invalid_payload_is_an_event_and_no_failure(format: str) -> None:
    (event,) = decoded(line(b"\xc1"), format=format)
    assert event["operation"] == "invalid"
    assert event["error_code"]
    assert event["error_detail"]


def test_a_batch_gives_a_line_for_each_change() -> None:
    batch = msgpack.packb([msgpack.unpackb(write()), msgpack.unpackb(write(lut=None))])
    events = decoded(line(batch, offset=5))
    assert [(event["offset"], event["event_index"]) for event in events] == [(5, 0), (5, 1)]
    assert events[1]["occurred_at"] is None


def test_names_are_escaped_and_large_positions_kept() -> None:
    topic = 'quote " back \\ line\n \u2028 \U0001f600 \x01'
    offset = 2**63 - 1
    (event,) = decoded(line(topic=topic, partition=2**31 - 1, offset=offset))
    assert (event["topic"], event["partition"], event["offset"]) == (topic, 2**31 - 1, offset)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (MIN_TIME_MS, "0001-01-01T00:00:00.000Z"),
        (MAX_TIME_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_utc_with_milliseconds(timestamp_ms: int, expected: str) -> None:
    (event,) = decoded(line(timestamp_ms=timestamp_ms))
    assert event["timestamp"] == expected


def test_blank_lines_crlf_byte_order_mark_and_no_last_line_feed() -> None:
    stdin = b"\xef\xbb\xbf" + line(offset=1) + b"\r\n\r\n  \t\n" + line(offset=2)
    result = run("decode", "--format", "arcion_json", stdin=stdin)
    assert (result.returncode, result.stderr) == (0, b"")
    assert [json.loads(event)["offset"] for event in result.stdout.splitlines()] == [1, 2]


def test_an_empty_input_is_no_event() -> None:
    assert decoded() == []
    assert decoded(b"\n\n") == []


def test_headers_are_accepted() -> None:
    headers = [["trace", "AAE="], ["empty", None], ["trace", ""]]
    (event,) = decoded(line(write(), headers=headers))
    assert event["operation"] == "upsert"


def test_file_dash_and_default_read_the_same(tmp_path: Path) -> None:
    capture = tmp_path / "capture.jsonl"
    capture.write_bytes(line(write()) + b"\n")
    by_file = run_alone("decode", "--format", "aerospike_messagepack", str(capture))
    assert by_file.returncode == 0
    for arguments in ((), ("-",)):
        by_stdin = run_alone(
            "decode", *arguments, "--format", "aerospike_messagepack", stdin=capture.read_bytes()
        )
        assert by_stdin.stdout == by_file.stdout


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "truncated"),
        (b"nonsense", "not a JSON object"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b'"text"', "Expected `object`, got `str`"),
        (b'{"value_b64":null} {}', "trailing characters"),
        (b'{"topic":"\xff"}', "not UTF-8"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"x":' + b"[" * 100_000, "unknown field `x`"),
        (b'{"headers":' + b"[" * 100_000, "`$.headers[0][0]`"),
        (b'{"value_b64":"AAE"}', "Invalid base64 encoded string - at `$.value_b64`"),
        (b'{"value_b64":"A_-="}', "Invalid base64 encoded string - at `$.value_b64`"),
        (b'{"key_b64":"AA E"}', "Invalid base64 encoded string - at `$.key_b64`"),
        (b'{"value_b64":{}}', "Expected `bytes | null`, got `object` - at `$.value_b64`"),
        (b'{"topic":1}', "Expected `str | null`, got `int` - at `$.topic`"),
        (b'{"offset":"1"}', "Expected `int | null`, got `str` - at `$.offset`"),
        (b'{"offset":true}', "Expected `int | null`, got `bool` - at `$.offset`"),
        (b'{"offset":1.5}', "Expected `int | null`, got `float` - at `$.offset`"),
        (b'{"offset":-1}', "`$.offset`"),
        (b'{"offset":9223372036854775808}', "`$.offset`"),
        (b'{"partition":-1}', "`$.partition`"),
        (b'{"partition":2147483648}', "`$.partition`"),
        (b'{"timestamp_ms":-62135596800001}', "`$.timestamp_ms`"),
        (b'{"timestamp_ms":253402300800000}', "`$.timestamp_ms`"),
        (b'{"headers":{"a":"AA=="}}', "`$.headers`"),
        (b'{"headers":[["a"]]}', "Expected `array` of length 2 - at `$.headers[0]`"),
        (b'{"headers":[["a","?"]]}', "Invalid base64"),
        (b"{}", "missing required field `value_b64`"),
        (b'{"topic":"t","partition":0,"offset":7}', "missing required field `value_b64`"),
        # A tombstone is said, not left out.
        (b'{"key_b64":"AA=="}', "missing required field `value_b64`"),
        (b'{"valu_b64":"AAE="}', "unknown field `valu_b64`; known are topic, partition, offset, "),
        (b'{"valu_b64":"AAE=","value_b64":null}', "unknown field `valu_b64`"),
        (b'{"Value_B64":"AAE=","key_b64":null}', "unknown field `Value_B64`"),
        (b'{"key":"x","value_b64":null}', "unknown field `key`"),
        (b'{"value_b64":null,"timestamp":1}', "unknown field `timestamp`"),
        (b'{"value_b64":null,"broker":null}', "unknown field `broker`"),
        (b'{"value_b64":null,"value_b64":"AAE="}', "the field `value_b64` comes twice"),
        (b'{"value_b64": "AAE=", "value_b64": null}', "the field `value_b64` comes twice"),
        (b'{"offset":1,"value_b64":null,"offset":1}', "the field `offset` comes twice"),
        (b'{"key_b64" :"AA==","value_b64":null,"value_b64":""}', "`value_b64` comes twice"),
        (b'{"topic":"\\":","value_b64":null,"value_b6\\u0034":""}', "`value_b64` comes twice"),
    ],
)
def test_a_bad_line_ends_with_its_number_after_what_came_before(bad: bytes, reason: str) -> None:
    stdin = b"\n".join((line(offset=1), b"", line(offset=2), bad, line(offset=3)))
    result = run("decode", "--format", "aerospike_json", stdin=stdin)
    message = failure(result)
    assert message.startswith("lakehouse: standard input: line 4: ")
    assert reason in message
    assert [json.loads(event)["offset"] for event in result.stdout.splitlines()] == [1, 2]


def test_line_numbers_go_on_across_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "READ_BYTES", 7)
    stream = io.BytesIO(b"%b\n\n%b\n%b\nbad" % tuple(line(offset=number) for number in (1, 2, 3)))
    found = []
    with pytest.raises(CaptureError) as error:
        for number, capture in read_captures(stream):
            found.append((number, capture.offset))
    assert found == [(1, 1), (3, 2), (4, 3)]
    assert error.value.line_number == 5
    stream.seek(0)
    written: list[bytes] = []
    with pytest.raises(CaptureError, match="line 5"):
        decode.decode_stream(stream, written.append, "lindorm_json")
    assert [json.loads(event)["offset"] for event in b"".join(written).splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("size", range(1, 12))
def test_lines_do_not_depend_on_how_they_are_read(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "READ_BYTES", size)
    content = b"\xef\xbb\xbfab\n\n\xef\xbb\xbfcdefghijkl\r\nm"
    lines = [line for lines in read_lines(io.BytesIO(content)) for line in lines]
    assert lines == [b"ab", b"", b"\xef\xbb\xbfcdefghijkl\r", b"m"]


def test_an_unknown_format_names_the_known_ones() -> None:
    message = failure(run("decode", "--format", "avro"))
    assert "avro" in message
    for name in FORMATS:
        assert name in message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("decode",), "--format"),
        (("decode", "--format"), "--format"),
        (("decode", "--format", "AEROSPIKE_JSON"), "AEROSPIKE_JSON"),
        (("decode", "--format", "aerospike_json", "--colour"), "--colour"),
        (("decode", "--format", "aerospike_json", "a", "b"), "b"),
        (("decode", "--format", "aerospike_json", "no/such/file"), "No such file or directory"),
        (("decode", "--format", "aerospike_json", "."), "Is a directory"),
        (("land",), "FILES"),
        (("nonsense",), "nonsense"),
    ],
)
def test_an_unusable_call_says_why(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert reason in failure(result)
    assert result.stdout == b""


def test_help_and_version_succeed() -> None:
    for arguments in (("--help",), ("-h",), ("decode", "--help"), ("land", "-h"), ("--version",)):
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (0, b"")
        assert result.stdout
    assert b"\nlakehouse 0.1.0\n" in b"\n" + result.stdout and b"\niceberg 1." in result.stdout
    bare = run()
    assert bare.returncode == 2
    assert b"decode" in bare.stderr


def test_a_reader_that_goes_away_is_no_news() -> None:
    command = [sys.executable, "-m", "dbt_lakehouse.cli", "decode", "--format", "aerospike_json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(TOMBSTONE + b"\n")
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_disk_is_one_line_and_not_the_callers_fault() -> None:
    command = [sys.executable, "-m", "dbt_lakehouse.cli", "decode", "--format", "aerospike_json"]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            command, input=TOMBSTONE, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert result.returncode == 1
    assert result.stderr == (
        b"lakehouse: can't write to standard output: No space left on device\n"
    )


def test_events_come_while_the_producer_is_still_writing() -> None:
    command = [sys.executable, "-m", "dbt_lakehouse.cli", "decode", "--format", "aerospike_json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for offset in range(3):
            process.stdin.write(line(offset=offset) + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["offset"] == offset
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def replace_decoder(monkeypatch: pytest.MonkeyPatch, decode: Decode) -> None:
    """Of the format aerospike_json."""
    monkeypatch.setitem(FORMATS, "aerospike_json", decode)
    monkeypatch.delitem(registry._BATCHES, "aerospike_json")


def test_white_space_of_a_payload_stays_out_of_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def pretty(key: bytes | None, value: bytes | None) -> list[Event]:
        row = b'{\r\n "a" : 1.00,\n\t"b": "x\\n y"}'
        return [Event(0, UPDATE, after=row), Event(1, UPSERT, after=b"{}")]

    replace_decoder(monkeypatch, pretty)
    written: list[bytes] = []
    decode.decode_stream(io.BytesIO(TOMBSTONE), written.append, "aerospike_json")
    first, second = b"".join(written).split(b"\n")[:-1]
    assert b'"after":{"a":1.00,"b":"x\\n y"}' in first
    assert json.loads(second)["event_index"] == 1


def test_a_bug_in_a_decoder_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(key: bytes | None, value: bytes | None) -> list[Event]:
        if key:
            raise KeyError("bug")
        return [Event(0, UPDATE)]

    replace_decoder(monkeypatch, broken)
    written: list[bytes] = []
    lines = (line(offset=1), line(key_b64="AA==", offset=2), line(offset=3))
    decode.decode_stream(io.BytesIO(b"\n".join(lines)), written.append, "aerospike_json")
    good, failed, last = (json.loads(each) for each in b"".join(written).splitlines())
    assert (good["offset"], good["operation"]) == (1, "update")
    assert (failed["offset"], failed["error_code"]) == (2, "decoder_failed")
    assert failed["error_detail"].startswith("KeyError: 'bug'")
    assert (last["offset"], last["operation"]) == (3, "update")


def test_decode_starts_without_spark_and_dbt() -> None:
    script = (
        "import sys; from dbt_lakehouse import cli; from dbt_lakehouse.commands import decode;"
        "heavy = {'pyspark', 'dbt', 'pyarrow', 'py4j'};"
        "sys.exit(any(name.split('.')[0] in heavy for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_times_beyond_the_caches_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = decode._Minutes()
    texts = {minute: minutes[minute] for minute in range(100_001)}
    assert len(minutes) == 1
    assert texts[0] == b'"1970-01-01T00:00:'
    assert texts[100_000] == b'"1970-03-11T10:40:'
