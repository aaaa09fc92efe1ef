"""`lakehouse decode`: capture lines in, one JSON line per change event out, without Spark.

A line is joined from ready pieces of JSON: the decoders deliver keys, images and metadata as JSON
text, and everything else either repeats (names, formats, days) or is a number. For a million
payloads this loop is the bottleneck, so it is one function with look-ups instead of calls; a
Struct and an encoder take 1.5 times as long.
"""

import gc
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Final

import msgspec

from dbt_lakehouse.lake.schema_registry import know_schemas_of
from dbt_lakehouse.landing.captures import Capture, CaptureError, Readable, parse, read_lines
from dbt_lakehouse.landing.progress import Reading
from python_udfs.registry import AVRO_FORMATS, HEADED, decode_batch

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

# Payloads are decoded in chunks that stay in a processor's cache.
_CHUNK: Final = 256

_text = msgspec.json.encode


def decode_stream(
    stream: Readable, write: Callable[[bytes], object], format: str, done: Reading | None = None
) -> None:
    """Decode the captures of ``stream`` and ``write`` their events, in pieces of whole lines. The
    messages are counted in ``done``.

    Raises ``CaptureError`` at the first line that is not a message, after writing the events
    before it.
    """
    line_number = 1
    for lines in read_lines(stream):
        events: list[bytes] = []
        # Decoded payloads are trees, freed by their reference counts; the garbage collector would
        # only traverse them.
        gc.disable()
        try:
            captures, error = _parse_lines(lines, line_number)
            for start in range(0, len(captures), _CHUNK):
                _decode_captures(captures[start : start + _CHUNK], format, events)
        finally:
            gc.enable()
        if events:
            write(_one_line_each(events))
        if error is not None:
            raise error
        if done is not None:
            done.messages += len(captures)
        line_number += len(lines)


def _parse_lines(
    lines: list[bytes], first_number: int
) -> tuple[list[Capture], CaptureError | None]:
    """The messages of the lines, up to the first invalid line, and its error."""
    captures: list[Capture] = []
    for number, line in enumerate(lines, first_number):
        try:
            capture = parse(line, number)
        except CaptureError as error:
            return captures, error
        if capture is not None:
            captures.append(capture)
    return captures, None


def _decode_captures(captures: list[Capture], format: str, lines: list[bytes]) -> None:
    """Append each event of the messages to ``lines``, as a JSON line."""
    append = lines.append
    join = b"".join
    format_and_operation = b',"format":%b,"operation":"' % _text(format)
    keys = [capture.key for capture in captures]
    values = [capture.value for capture in captures]
    if format in AVRO_FORMATS:
        know_schemas_of(format, keys + values, required=True)
    headers = [capture.headers for capture in captures] if format in HEADED else None
    decoded = decode_batch(format, keys, values, headers)
    for capture, events in zip(captures, decoded.payloads(), strict=True):
        position = _position(capture.topic, capture.partition)
        offset = b"null" if capture.offset is None else b"%d" % capture.offset
        if capture.timestamp_ms is None:
            timestamp = b"null"
        else:
            minute, millisecond = divmod(capture.timestamp_ms, 60_000)
            timestamp = _MINUTES[minute] + _SECONDS[millisecond]
        for (
            event_index,
            operation,
            source_database,
            source_schema,
            source_table,
            record_key,
            before,
            after,
            occurred_at,
            expires_at,
            metadata,
            error_code,
            error_detail,
        ) in events:
            if occurred_at is None:
                occurred = b"null"
            else:
                minute, millisecond = divmod(occurred_at, 60_000)
                occurred = _MINUTES[minute] + _SECONDS[millisecond]
            if expires_at is None:
                expires = b"null"
            else:
                minute, millisecond = divmod(expires_at, 60_000)
                expires = _MINUTES[minute] + _SECONDS[millisecond]
            append(
                join(
                    (
                        position,
                        offset,
                        b',"event_index":%d,"timestamp":' % event_index,
                        timestamp,
                        format_and_operation,
                        operation.encode(),
                        _source(source_database, source_schema, source_table),
                        record_key or b"null",
                        b',"before":',
                        before or b"null",
                        b',"after":',
                        after or b"null",
                        b',"occurred_at":',
                        occurred,
                        b',"expires_at":',
                        expires,
                        b',"metadata":',
                        metadata or b"null",
                        _NO_ERROR if error_code is None else _error(error_code, error_detail),
                    )
                )
            )


_NO_ERROR: Final = b',"error_code":null,"error_detail":null}\n'


def _error(code: str, detail: str | None) -> bytes:
    return b',"error_code":%b,"error_detail":%b}\n' % (_text(code), _text(detail))


@lru_cache(maxsize=1024)
def _position(topic: str | None, partition: int | None) -> bytes:
    return b'{"topic":%b,"partition":%b,"offset":' % (_text(topic), _text(partition))


@lru_cache(maxsize=4096)
def _source(database: str | None, schema: str | None, table: str | None) -> bytes:
    """The JSON from the quote that closes the operation to the colon before the key."""
    return b'","source_database":%b,"source_schema":%b,"source_table":%b,"record_key":' % (
        _text(database),
        _text(schema),
        _text(table),
    )


class _Minutes(dict[int, bytes]):
    """The first half of a time, ``"2026-11-21T10:00:``, by minutes since the epoch."""

    def __missing__(self, minute: int) -> bytes:
        if len(self) >= 100_000:
            self.clear()
        days, minute_of_day = divmod(minute, 1440)
        day = date.fromordinal(_EPOCH_DAY + days).isoformat().encode()
        text = self[minute] = b'"%bT%02d:%02d:' % (day, *divmod(minute_of_day, 60))
        return text


class _Seconds(dict[int, bytes]):
    """The second half of a time, ``00.000Z"``, by milliseconds of a minute."""

    def __missing__(self, millisecond: int) -> bytes:
        text = self[millisecond] = b'%02d.%03dZ"' % divmod(millisecond, 1000)
        return text


_MINUTES: Final = _Minutes()
_SECONDS: Final = _Seconds()


def _one_line_each(events: list[bytes]) -> bytes:
    block = b"".join(events)
    # A decoder may pass on white space between the tokens of a JSON payload. There can be no
    # other line break: in strings it is escaped.
    if b"\r" in block or block.count(b"\n") != len(events):
        return b"".join(msgspec.json.format(event, indent=-1) + b"\n" for event in events)
    return block
