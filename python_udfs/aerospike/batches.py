"""Find the boundaries of a batch's records in its bytes, whether the batch is complete or broken.

A batch is an array of records. Decoders read it as a whole; if that fails, they read its
recognizable elements one by one. `lakehouse forget`, which removes records from a batch, has to
find the same elements by their bytes. Both use this module, so an element has the same index for
both.

An element is complete with its last byte, whatever is wrong inside it. Bytes after the last
complete element are not an element: the batch ends early there, or can't be read on.
"""

import re
from array import array
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgpack

from python_udfs.core.errors import DecodeError
from python_udfs.core.events import FORGOTTEN
from python_udfs.text import json_text
from python_udfs.text.messagepack import Walker


class Batch(NamedTuple):
    """The elements of an outer array, and how it ends."""

    starts: "array[int]"
    ends: "array[int]"
    """The end positions of the elements in the payload, in order. An element without bytes stands
    for bytes that can't be recognized as one.
    """
    size: int
    """The number of elements that the array declares, or has begun."""
    whole: bool
    """Whether these are all elements."""
    rest: int | None = None
    """The position from which nothing can be read; None if the payload ends with the array."""
    stand_in: bytes = b""
    """For JSON, the text that would have to precede ``rest``."""

    def spans(self) -> Iterator[tuple[int, int]]:
        """Start and end of each element."""
        return zip(self.starts, self.ends, strict=True)


def _positions() -> "array[int]":
    # Eight bytes each: a batch may consist of elements of one byte.
    return array("q")


# MessagePack


def split_messagepack(data: bytes) -> Batch | None:
    """The elements of a MessagePack array; None for anything else."""
    walker = Walker(data, _no_path)
    try:
        kind, size = walker.header()
    except DecodeError:
        return None
    if kind != "array":
        return None
    starts, ends = _positions(), _positions()
    start = walker.pos
    unpacker = msgpack.Unpacker(max_buffer_size=len(data))
    unpacker.feed(data)
    unpacker.read_array_header()
    try:
        for _ in range(size):
            unpacker.skip()
            starts.append(start)
            start = unpacker.tell()
            ends.append(start)
    except (ValueError, msgpack.UnpackException):
        # Incomplete, or nested deeper than the library allows: the walker continues in either
        # case.
        walker.pos = start
        try:
            for _ in range(size - len(ends)):
                walker.skip()
                starts.append(start)
                start = walker.pos
                ends.append(start)
        except DecodeError:
            pass
    whole = len(ends) == size
    return Batch(starts, ends, size, whole, None if whole and start == len(data) else start)


def join_messagepack(elements: list[bytes]) -> bytes:
    """A batch of these records."""
    return bytes(msgpack.Packer().pack_array_header(len(elements))) + b"".join(elements)


def _no_path(root: str, path: list[int | str]) -> str:
    return root


# JSON

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
# From inside an element to its next bracket, from outside to the next bracket or comma.
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:%b[^"\[\]{}]*+)*+' % _STRING, re.DOTALL)
_TO_MARK: Final = re.compile(rb'[^"\[\]{},]*+(?:%b[^"\[\]{},]*+)*+' % _STRING, re.DOTALL)
_inside = rb'(?:[^"\[\]{}]++|%b)*+' % _STRING
for _ in range(4):
    _inside = rb'(?:[^"\[\]{}]++|%b|[\[{]%b[\]}])*+' % (_STRING, _inside)
# A usual element in one match: nested as deep as most records.
_USUAL: Final = re.compile(rb"[ \t\r\n]*+([\[{]%b[\]}])[ \t\r\n]*+(?=[,\]])" % _inside, re.DOTALL)
_OPENING: Final = frozenset(b"[{")
_CLOSING: Final = frozenset(b"]}")
_MARKS: Final = frozenset(b",]}")


def split_json(text: bytes) -> Batch | None:
    """The elements of a JSON array; None for anything else.

    The array is split at its outer commas, counting brackets of both kinds and skipping strings;
    one comma before the end of the array is allowed. If something else follows a record without a
    comma, the record is an element, and so is everything up to the next comma.
    """
    if text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    opening = _past(_SPACE, text, 0)
    if text[opening : opening + 1] != b"[":
        return None
    starts, ends = _positions(), _positions()

    def broken(rest: int, *, begun: bool = False, stand_in: bytes = b"") -> Batch:
        return Batch(starts, ends, len(ends) + begun, False, rest, stand_in)

    read = opening + 1  # up to the end of the complete elements, with the comma behind them
    while True:
        usual = _USUAL.match(text, read)
        if usual is not None:
            starts.append(usual.start(1))
            ends.append(usual.end(1))
            at = usual.end()
        else:
            start = _past(_SPACE, text, read)
            if start == len(text):
                return broken(read)
            if text[start] in _MARKS:
                at = start
                if text[at] != _ARRAY_END:
                    return broken(at)
            else:
                element = _element(text, start)
                if element.end < 0 and element.first < 0:
                    return broken(read, begun=True)
                if element.end < 0:
                    starts.append(start)
                    ends.append(element.first)
                    # The end of an element like `{]` may be the array's: nothing is known to be
                    # missing.
                    if text[start : start + 1] + text[element.first - 1 : element.first] == b"{]":
                        return Batch(starts, ends, len(ends), False)
                    return broken(element.first, stand_in=b"{}")
                at = element.end
                end = start + len(text[start:at].rstrip(_BLANKS))
                if 0 <= element.first < end and _is_record(text[start : element.first]):
                    starts.append(start)
                    ends.append(element.first)
                    start = end = _past(_SPACE, text, element.first)
                starts.append(start)
                ends.append(end)
                if text[at] not in _GOES_ON:
                    return broken(at, stand_in=b"0")
        if text[at] == _ARRAY_END:
            behind = _past(_SPACE, text, at + 1) < len(text)
            return Batch(starts, ends, len(ends), True, at if behind else None)
        read = at + 1


_ARRAY_END: Final = ord("]")
_GOES_ON: Final = frozenset(b",]")
_BLANKS: Final = b" \t\r\n"


class _Element(NamedTuple):
    first: int
    """The end of the element's first value in brackets; -1 if none is complete."""
    end: int
    """The position of the comma or bracket behind the element; -1 without one."""


def _element(text: bytes, at: int) -> _Element:
    """An unusual element of the outer array that starts at a position."""
    first = -1
    while at < len(text):
        if text[at] in _MARKS:
            return _Element(first, at)
        if text[at] in _OPENING:
            at = _closed(text, at)
            if at < 0:
                break
            if first < 0:
                first = at
        behind = _past(_TO_MARK, text, at)
        if behind < len(text) and text[behind] == _QUOTE:
            break  # a string without its end
        at = behind
    return _Element(first, -1)


_QUOTE: Final = ord('"')


def _closed(text: bytes, at: int) -> int:
    """The position behind the bracket that closes the one at ``at``; -1 without one."""
    depth = 0
    while at < len(text):
        mark = text[at]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
            if depth == 0:
                return at + 1
        else:
            return -1  # a string without its end
        at = _past(_TO_BRACKET, text, at + 1)
    return -1


def _is_record(text: bytes) -> bool:
    """Whether a text is an object with a record's properties."""
    try:
        tree = json_text.parse(text, trailing_commas=True)
    except DecodeError:
        return False
    return type(tree) is dict and "msg" in tree


def _past(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    """The end of a pattern's match at ``at``; the pattern matches everywhere, even if empty."""
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


def join_json(elements: list[bytes]) -> bytes:
    """A batch of these records."""
    return b"[" + b",".join(elements) + b"]"


class Splitter(NamedTuple):
    """Splits and joins the batches of a format."""

    split: Callable[[bytes], Batch | None]
    join: Callable[[list[bytes]], bytes]
    forgotten: bytes
    """The element that replaces a removed record."""


_JSON: Final = Splitter(split_json, join_json, b'"%b"' % FORGOTTEN.encode())

SPLITTERS: Final = {
    "aerospike_messagepack": Splitter(
        split_messagepack, join_messagepack, bytes(msgpack.packb(FORGOTTEN))
    ),
    "aerospike_json": _JSON,
    "aerospike_flat_json": _JSON,
}
"""The formats whose payloads can hold several records."""
