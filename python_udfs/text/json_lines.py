"""Many JSON texts decoded in one call, and encoded again: nothing of a text is lost if that gives
the bytes that were sent.
"""

from collections.abc import Callable, Sequence
from decimal import InvalidOperation
from typing import Any, Final

import msgspec

from python_udfs.core.limits import MAX_DEPTH
from python_udfs.text.counting import count_brackets, count_byte

FAILURES: Final = (
    msgspec.DecodeError,
    UnicodeDecodeError,
    RecursionError,
    TypeError,
    InvalidOperation,
)
"""The exceptions of msgspec and the types that it makes, for a text that isn't like that."""

FLAT_BYTES: Final = 2 * MAX_DEPTH - 2
"""A text of no more bytes can't be too deep: each level takes two."""

# If this many of the first texts can't be decoded, no more are tried.
_FIRST: Final = 16
_FAILED: Final = 12


def read_lines(
    decoder: msgspec.json.Decoder[Any],
    encode_lines: Callable[[list[Any]], bytes],
    texts: Sequence[Any],
) -> tuple[list[Any], Sequence[bytes | None]] | None:
    """A decoder's result for each text, and its text again, both None where the decoder fails;
    None if it fails for most of the first.
    """
    lines = b"\n".join(texts)
    # Each text must be one line: then each line that is read is one text.
    if count_byte(lines, b"\n") == len(texts) - 1:
        try:
            rows = decoder.decode_lines(lines)
        except FAILURES:
            rows = []
        if len(rows) == len(texts):
            again = encode_lines(rows)
            # Usually all are the same.
            return rows, texts if again == lines + b"\n" else again.splitlines()
    rows = []
    for number, text in enumerate(texts):
        try:
            rows.append(decoder.decode(text))
        except FAILURES:
            rows.append(None)
        if number == _FIRST and rows.count(None) > _FAILED:
            return None
    lines_again = encode_lines(rows).splitlines()
    return rows, [
        None if row is None else line for row, line in zip(rows, lines_again, strict=True)
    ]


def may_be_deep(text: bytes, around: int = 0) -> bool:
    """Whether a text with so many levels around it may nest deeper than is decoded."""
    # With so few brackets it can't be.
    return count_brackets(text) + around >= MAX_DEPTH
