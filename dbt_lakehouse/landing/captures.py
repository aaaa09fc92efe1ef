"""Captures: Kafka messages as JSON lines, the input of `lakehouse decode` and `lakehouse land`.

One message is one line, an object of::

    {"topic": "t", "partition": 0, "offset": 7, "timestamp_ms": 1700000000000,
     "key_b64": "base64 or null", "value_b64": "base64 or null",
     "headers": [["name", "base64 or null"], ...]}

``value_b64`` is required: it is null in a message without a value, a tombstone. Every other field
is optional here, and null and absent mean the same; code that needs a field checks it. Lines end
with LF or CRLF; blank lines are skipped (but counted), and so is a byte order mark at the very
start.

Any other line is an error, because its content would be lost: base64 is the standard alphabet
with padding, numbers are JSON integers, partitions and offsets are not negative, times fit ISO
8601, and no field is unknown or duplicate. An ignored field might be a misspelt one, which would
silently change the message.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import structs

from python_udfs.core.events import MAX_TIME_MS, MIN_TIME_MS
from python_udfs.text import json_text

READ_BYTES: Final = 1 << 20


class CaptureError(Exception):
    """A line that is not a Kafka message. The text names the line, in one line of text."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number


class Capture(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A captured Kafka message. A line may have these fields and no others. ``timestamp_ms`` is
    UTC milliseconds since the epoch.
    """

    topic: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    timestamp_ms: Annotated[int, msgspec.Meta(ge=MIN_TIME_MS, le=MAX_TIME_MS)] | None = None
    key: bytes | None = msgspec.field(name="key_b64", default=None)
    value: bytes | None = msgspec.field(name="value_b64")
    headers: list[tuple[str, bytes | None]] | None = None


class Readable(Protocol):
    """A binary stream that returns the available bytes without waiting for a full buffer."""

    def read1(self, size: int, /) -> bytes:
        """At most ``size`` bytes, empty at the end."""
        ...


_decode = msgspec.json.Decoder(Capture).decode
_NAMES: Final = Capture.__struct_encode_fields__
_QUOTED_NAMES: Final = tuple(f'"{name}"'.encode() for name in _NAMES)
_FIELDS: Final = len(_QUOTED_NAMES)


def parse(line: bytes, line_number: int) -> Capture | None:
    """The message of one line, or None if the line is blank. Raises ``CaptureError``."""
    try:
        capture = _decode(line)
    except msgspec.ValidationError as error:
        reason = str(error)
        if not line.lstrip().startswith(b"{"):
            reason = f"not a captured message, a JSON object with {', '.join(_NAMES)}: {reason}"
        if "unknown field" in reason:
            reason += f"; known are {', '.join(_NAMES)}"
        raise CaptureError(line_number, reason) from None
    except msgspec.DecodeError as error:
        if not line or line.isspace():
            return None
        # Another kind of file, like CSV.
        named = "" if line.lstrip().startswith(b"{") else f" with {', '.join(_NAMES)}"
        raise CaptureError(line_number, f"not a JSON object{named}: {error}") from None
    except UnicodeDecodeError as error:
        raise CaptureError(line_number, f"not UTF-8: {error.reason}") from None
    # All names and texts are in quotes, so without further quotes there is no duplicate. A null
    # or a header has quotes of its own: then the line is parsed again if a name occurs twice in
    # it, or may be written with an escape.
    texts = (capture.topic, capture.key, capture.value)
    there = len(texts) - texts.count(None) + _FIELDS - structs.astuple(capture).count(None)
    if line.count(b'"') != 2 * there and (
        b"\\" in line or any(line.count(name) > 1 for name in _QUOTED_NAMES)
    ):
        repeated = json_text.duplicate_name(line)
        if repeated is not None:
            raise CaptureError(line_number, f"the field `{repeated}` comes twice")
    return capture


def read_lines(stream: Readable) -> Iterator[list[bytes]]:
    """The lines of a stream without their line feeds, a list for each chunk read.

    Memory holds one chunk and the line that crosses into it. The last line needs no line feed.
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
    """Each message with its line number, from 1. Raises ``CaptureError`` at the first bad line."""
    lines = chain.from_iterable(read_lines(stream))
    for line_number, line in enumerate(lines, 1):
        capture = parse(line, line_number)
        if capture is not None:
            yield line_number, capture
