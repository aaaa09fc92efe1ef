"""Captures: Kafka messages as JSON lines, the input of `lakehouse decode` and `lakehouse land`.

One message is one line, an object of::

    {"topic": "t", "partition": 0, "offset": 7, "timestamp_ms": 1700000000000,
     "key_b64": "base64 or null", "value_b64": "base64 or null",
     "headers": [["name", "base64 or null"], ...]}

Every field is optional here; who needs one says so. A null and an absent field mean the same. Lines
end with LF or CRLF; blank lines are skipped (but counted), and so is a byte order mark at the very
start.

A line that is anything else is an error, because what it carries would be lost: base64 is the
standard alphabet with its padding, numbers are JSON integers, partitions and offsets are not
negative, and times fit ISO 8601. Other fields are ignored (capture tools add their own), with one
exception: a line that lacks ``key_b64`` or ``value_b64`` but has a non-null field that looks like a
misspelling of it (``value``, ``payload``, ``valueB64``) is refused, because the message would
silently become a tombstone.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Final, Protocol

import msgspec

from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS

READ_BYTES: Final = 1 << 20

# What other tools call the key and the value of a message, as the start of a lower-cased field
# name.
_KEY_NAMES: Final = ("key",)
_VALUE_NAMES: Final = ("value", "val_", "payload", "message", "data")


class CaptureError(Exception):
    """A line that is no Kafka message. The text names the line; one line of text."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number


class Capture(msgspec.Struct, gc=False):
    """One Kafka message, as captured. ``timestamp_ms`` is UTC milliseconds since the epoch."""

    topic: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    timestamp_ms: Annotated[int, msgspec.Meta(ge=MIN_TIME_MS, le=MAX_TIME_MS)] | None = None
    key: bytes | None = msgspec.field(name="key_b64", default=None)
    value: bytes | None = msgspec.field(name="value_b64", default=None)
    headers: list[tuple[str, bytes | None]] | None = None


class Readable(Protocol):
    """A binary stream that returns what is there without waiting for a full buffer."""

    def read1(self, size: int, /) -> bytes:
        """At most ``size`` bytes, empty at the end."""
        ...


_decode = msgspec.json.Decoder(Capture).decode
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def parse(line: bytes, line_number: int) -> Capture | None:
    """The message of one line, or None if the line is blank. Raises ``CaptureError``."""
    try:
        capture = _decode(line)
        # The field's bare name is looked for first: taking the line apart again is ten times
        # slower.
        if (capture.key is None and b'"key_b64"' not in line) or (
            capture.value is None and b'"value_b64"' not in line
        ):
            _refuse_misspelt(_fields_of(line), line_number)
    except msgspec.ValidationError as error:
        raise CaptureError(line_number, str(error)) from None
    except msgspec.DecodeError as error:
        if not line or line.isspace():
            return None
        raise CaptureError(line_number, f"not a JSON object: {error}") from None
    except UnicodeDecodeError as error:
        raise CaptureError(line_number, f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise CaptureError(line_number, "nested too deep for a message") from None
    return capture


def _refuse_other_times(line: bytes, line_number: int) -> None:
    """Raise if a line without ``timestamp_ms`` has another field that says when it was sent."""
    for name, raw in _fields_of(line).items():
        lowered = name.lower()
        if (
            lowered.startswith(("timestamp", "ts"))
            and not lowered.endswith("type")
            and name != "timestamp_ms"
            and bytes(raw) != b"null"
        ):
            raise CaptureError(
                line_number, f"has no `timestamp_ms`, but `{name}`: misspelt? (UTC milliseconds)"
            )


def _refuse_misspelt(fields: dict[str, msgspec.Raw], line_number: int) -> None:
    for field, names in (("key_b64", _KEY_NAMES), ("value_b64", _VALUE_NAMES)):
        if field in fields:
            continue
        for name, raw in fields.items():
            lowered = name.lower()
            if (
                name not in ("key_b64", "value_b64")
                and lowered.startswith(names)
                and bytes(raw) != b"null"
            ):
                raise CaptureError(line_number, f"has no `{field}`, but `{name}`: misspelt?")


def read_lines(stream: Readable) -> Iterator[list[bytes]]:
    """The lines of a stream, a list for each piece that was read, without their line feeds.

    Memory holds one piece and the line that crosses into it. The last line needs no line feed.
    """
    parts: list[bytes] = []
    first = True
    while chunk := stream.read1(READ_BYTES):
        if b"\n" not in chunk:
            parts.append(chunk)
            continue
        parts.append(chunk)
        lines = b"".join(parts).split(b"\n")
        parts = [lines.pop()]
        if first:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            first = False
        yield lines
    last = b"".join(parts)
    if first:
        last = last.removeprefix(b"\xef\xbb\xbf")
    if last:
        yield [last]


def read_captures(stream: Readable) -> Iterator[tuple[int, Capture]]:
    """Each message with its line number, from 1, for landing: what it is without its time can't be
    mended later. Raises ``CaptureError`` at the first bad line.
    """
    lines = chain.from_iterable(read_lines(stream))
    for line_number, line in enumerate(lines, 1):
        capture = parse(line, line_number)
        if capture is not None:
            if capture.timestamp_ms is None:
                _refuse_other_times(line, line_number)
            yield line_number, capture
