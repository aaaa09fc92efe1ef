"""JSON as Aerospike's connector writes it: with trailing commas, and batches that break off.

``parse`` reads text as a whole; numbers as in ``json_text``. An object is a dict, or ``Pairs`` if
a name comes twice in it: a map may hold the keys 1 and "1", which JSON writes alike. ``items`` is
for a batch that can't be parsed: it reads the recognizable records one by one.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from python_udfs.aerospike.batches import Batch
from python_udfs.core.errors import BadField, DecodeError, NotJson, TrailingBytes, Truncated
from python_udfs.core.limits import MAX_DEPTH
from python_udfs.core.paths import shorten
from python_udfs.text import json_text
from python_udfs.text.json_as_sent import count_names, has_names, has_space
from python_udfs.text.pairs import Pairs

_TRAILING_COMMA: Final = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|,(?=[ \t\r\n]*+[\]}])', re.DOTALL
)
_NAME_END: Final = re.compile(rb'"[ \t\r\n]*:')
_ESCAPED: Final = re.compile(rb"\\u00(?:22|3[aA])")
# As in json_text: CPython converts no text of that length to an int, so the number is a Decimal.
MAX_INT_LENGTH: Final = 4300


def parse(text: bytes) -> Any:
    """The value of JSON text; an object with a name twice is ``Pairs`` instead of a dict."""
    tree = json_text.parse(text, trailing_commas=True)
    if not has_space(text) and has_names(text, count_names(tree, MAX_DEPTH)):
        return tree
    # A dict keeps one value per name. Each name ends in '":', so a lost one shows when its
    # occurrences in the text are compared with the names read. Inside strings it counts on both
    # sides, unless the text escapes one of the two characters; white space before a colon is only
    # searched if needed.
    if b" :" in text or b"\n:" in text or b"\t:" in text or b"\r:" in text:
        names = len(_NAME_END.findall(text))
    else:
        names = text.count(b'":')
    if names == json_text.dumps(tree).count(b'":') and not _ESCAPED.search(text):
        return tree
    del tree
    return json.loads(
        _TRAILING_COMMA.sub(lambda match: match[1] or b"", text.removeprefix(json_text.BOM)),
        object_pairs_hook=_object,
        parse_float=json_text.decimal,
        parse_int=_integer,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Pairs:
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else Pairs(pairs)


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < MAX_INT_LENGTH else Decimal(text)


def items(text: bytes, batch: Batch) -> Iterator[Any]:
    """The records of a batch that can't be parsed as a whole, or errors in their places; at the
    end, if needed, the reason why it can't be read on.
    """
    if text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    for index, (start, end) in enumerate(batch.spans()):
        yield _element(text, start, end, index)
    if batch.rest is not None:
        yield _reason(text, batch.rest, batch.stand_in)


def _reason(text: bytes, position: int, stand_in: bytes) -> DecodeError:
    """The reason why a batch can't be read on from ``position``, whatever is wrong before that.

    ``stand_in`` is an element if there is one without a comma behind it.
    """
    try:
        # White space replaces what was read, so that every position stays the same.
        before = b"[".ljust(position - len(stand_in)) + stand_in
        json_text.scan(before + text[position:], trailing_commas=True)
    except BadField as error:
        # A truncated batch is reported as such, even if its last element is also wrong.
        return Truncated(f"the text ends at byte {len(text)}, inside an element: {error}")
    except DecodeError as error:
        return error
    raise AssertionError("a batch that can be read on has its end")


def _element(text: bytes, start: int, end: int, index: int) -> Any:
    """One record of a batch, or its error."""
    if start == end:
        got = shorten(repr(text[start : start + 1].decode("latin-1")))
        return NotJson(f"$[{index}]: expected ',' or ']' at byte {start}, got {got}")
    try:
        return parse(text[start:end])
    except DecodeError as error:
        # The element has its end, so anything missing or left over is in its middle.
        kind = NotJson if isinstance(error, Truncated | TrailingBytes) else type(error)
        return kind(f"$[{index}], from byte {start} on: {error}")
