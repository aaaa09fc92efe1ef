"""A message given as hexadecimal digits, as base64, or in a file of captures."""

import re
from base64 import b64decode
from typing import Final, NamedTuple

from dbt_lakehouse.commands.explain.guess import Guess
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.landing.captures import CaptureError, parse
from python_udfs.core.events import Headers

# What tools put between bytes and before them.
_HEX_MARKS: Final = re.compile(r"0[xX]|\\x|[\s:,]")


_NO_HEX: Final = re.compile("[^0-9a-fA-F]")
_NO_BASE64: Final = re.compile("[^0-9A-Za-z+/=]")


class UnusablePayloadError(LakehouseError):
    """A payload, or its place, that can't be used."""


class Message(NamedTuple):
    """A Kafka message, and its format as far as it is known."""

    key: bytes | None
    value: bytes | None
    told: Guess | None = None
    headers: Headers | None = None


def from_hex(text: str, option: str) -> bytes:
    """The bytes of a text in hexadecimal digits, with or without blanks, ``0x`` and ``\\x``.

    Raises ``UnusablePayloadError``.
    """
    digits = _HEX_MARKS.sub("", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        wrong = _NO_HEX.search(digits)
        reason = f"{len(digits)} digits, and a byte has two" if wrong is None else repr(wrong[0])
        raise UnusablePayloadError(f"{option}: no hexadecimal digits: {reason}") from None


def from_base64(text: str, option: str) -> bytes:
    """The bytes of base64 text. Raises ``UnusablePayloadError``."""
    digits = "".join(text.split())
    try:
        return b64decode(digits, validate=True)
    except ValueError:
        wrong = _NO_BASE64.search(digits)
        reason = (
            f"{len(digits)} characters, and four have three bytes: is it cut off?"
            if wrong is None
            else f"{wrong[0]!r}"
        )
        raise UnusablePayloadError(f"{option}: no base64: {reason}") from None


def from_captures(content: bytes, line: int, name: str) -> Message:
    """The message in a line (from 1) of captures. Raises ``UnusablePayloadError``."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    try:
        capture = parse(lines[line - 1], line) if line <= len(lines) else None
    except CaptureError as error:
        raise UnusablePayloadError(f"{name}: {error}") from error
    if capture is None:
        raise UnusablePayloadError(f"{name}: line {line}: there is no message")
    return Message(capture.key, capture.value, headers=capture.headers)


def refuse_captures(content: bytes, name: str) -> None:
    """Raise ``UnusablePayloadError`` for captured messages where a single payload is expected."""
    try:
        is_capture = parse(content.partition(b"\n")[0], 1) is not None
    except CaptureError:
        return
    if is_capture:
        raise UnusablePayloadError(f"{name} has captured messages: choose one with --line")
