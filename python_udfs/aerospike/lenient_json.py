"""JSON as Aerospike's connector writes it: with trailing commas, and batches that break off.

``parse`` reads text as a whole; numbers as in ``json_text``. An object is a dict, or ``Pairs`` if a
name comes twice in it: a map may hold the keys 1 and "1", which JSON writes alike. ``split`` is for
a batch that can't be parsed: it reads what can be told of its records, one by one.
"""

import json
import re
from decimal import Decimal
from typing import Any, Final, NamedTuple

from python_udfs.core.errors import BadField, DecodeError, NotJson, TrailingBytes, Truncated
from python_udfs.core.limits import MAX_ERRORS
from python_udfs.text import json_text
from python_udfs.text.pairs import Pairs

# A JSON string, a bracket, a comma, a quote that opens no complete string, or anything else.
TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},"]|[^ \t\r\n\[\]{},"]+', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|,(?=[ \t\r\n]*[\]}])', re.DOTALL)
_NAME_END: Final = re.compile(rb'"[ \t\r\n]*:')
_ESCAPED: Final = re.compile(rb"\\u00(?:22|3[aA])")
_SPACE: Final = b" \t\r\n"
# As json_text: CPython converts no text of that length to an int, and the number is a Decimal.
MAX_INT_LENGTH: Final = 4300


def parse(text: bytes) -> Any:
    """The value of JSON text; an object with a name twice is ``Pairs`` instead of a dict."""
    tree = json_text.parse(text, trailing_commas=True)
    # A dict keeps one value per name. Each name ends in '":', so a lost one shows in how often that
    # comes in the text and in what was read. Inside strings it counts on both sides, unless the
    # text writes one of the two as an escape; white space before a colon is looked for only if
    # needed.
    if b" :" in text or b"\n:" in text or b"\t:" in text or b"\r:" in text:
        names = len(_NAME_END.findall(text))
    else:
        names = text.count(b'":')
    if names == json_text.dumps(tree).count(b'":') and not _ESCAPED.search(text):
        return tree
    return json.loads(
        _TRAILING_COMMA.sub(lambda match: match[1] or b"", text.removeprefix(json_text.BOM)),
        object_pairs_hook=_object,
        parse_float=Decimal,
        parse_int=_integer,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Pairs:
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else Pairs(pairs)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < MAX_INT_LENGTH else Decimal(text)


class Batch(NamedTuple):
    """The array of a batch, as far as it can be told."""

    items: list[Any]
    """Its records, or errors in their places; behind them, if so, why it can't be read on."""
    size: int
    """How many elements were begun."""
    whole: bool
    """Whether these are all."""


def split(text: bytes) -> Batch:
    """A batch that as a whole can't be parsed; without items if the text is no array.

    Splits at the commas of the outer array, with brackets counted and strings skipped.
    """
    if text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    items: list[Any] = []
    opening = TOKEN.search(text)
    if opening is None or opening[0] != b"[":
        return Batch(items, 0, False)
    read = opening.end()  # up to where elements are complete, with the comma behind them
    start = -1  # of the element that is being read
    end = -1  # of that element, if it can't go on
    depth = 0
    errors = 0
    for token in TOKEN.finditer(text, read):
        mark = token[0]
        at = token.start()
        if depth == 0 and mark in (b",", b"]", b"}"):
            if start >= 0:
                items.append(_element(text, start, at, len(items)))
                errors += isinstance(items[-1], DecodeError)
            size = len(items)
            if errors > MAX_ERRORS:
                return Batch(items, size, False)
            if mark == b"]":
                if text[token.end() :].strip(_SPACE):
                    items.append(_reason(text, at))
                return Batch(items, size, True)
            if mark == b"}" or start < 0:
                element = b"0" if start >= 0 else b""
                return Batch([*items, _reason(text, at, element)], size, False)
            read = token.end()
            start = end = -1
            continue
        if mark == b'"':
            break  # a string without its end
        if start < 0:
            start = at
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                end = token.end()
    if end < 0 or depth > 0:
        begun = text[read:].strip(_SPACE) != b""
        return Batch([*items, _reason(text, read)], len(items) + begun, False)
    items.append(_element(text, start, end, len(items)))
    size = len(items)
    # The end of an element like `{]` may be the array's: nothing is known to lack.
    if text[start : start + 1] + text[end - 1 : end] != b"{]":
        items.append(_reason(text, end, b"{}"))
    return Batch(items, size, False)


def _reason(text: bytes, position: int, element: bytes = b"") -> DecodeError:
    """Why a batch can't be read on from ``position``, whatever is wrong before that.

    ``element`` is any if there is one without a comma behind it.
    """
    try:
        # White space instead of what was read: every position stays what it is.
        before = b"[".ljust(position - len(element)) + element
        json_text.scan(before + text[position:], trailing_commas=True)
    except BadField as error:
        # A batch that is cut short says so, also if what it ends with is wrong.
        return Truncated(f"the text ends at byte {len(text)}, inside an element: {error}")
    except DecodeError as error:
        return error
    raise AssertionError("a batch that can be read on has its end")


def _element(text: bytes, start: int, end: int, index: int) -> Any:
    """One record of a batch, or the error that it is."""
    try:
        return parse(text[start:end])
    except DecodeError as error:
        # The element has its end, so what lacks or is left over is in its middle.
        kind = NotJson if isinstance(error, Truncated | TrailingBytes) else type(error)
        return kind(f"$[{index}], from byte {start} on: {error}")
