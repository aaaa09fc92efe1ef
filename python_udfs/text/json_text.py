"""JSON text (RFC 8259) for every decoder: strict, with all digits, and with errors that say where.

    >>> parse(b'{"price": 1.50, "n": 123456789012345678901234567890}')
    {'price': Decimal('1.50'), 'n': 123456789012345678901234567890}

``msgspec`` reads the text. It can't tell some errors apart (an incomplete number looks malformed to
it, an unpaired surrogate truncated). ``scan`` can, a strict scanner that runs only if a text is
known to be bad, or if its brackets alone don't show whether it nests too deep.

Policies:

- Numbers keep their digits: integers of any size are ``int`` (beyond 4,300 digits, where CPython
  stops converting, ``Decimal``), all others ``Decimal``. Nothing here expands an exponent:
  ``1e999999999`` stays those few digits, and ``1E0`` is ``1.0``. An exponent that ``Decimal``
  can't hold (beyond 18 digits) is ``bad_field``.
- An integer ``-0`` is 0.
- A UTF-8 byte order mark before the text is skipped, as RFC 8259 allows.
- Invalid UTF-8 in a string and an unpaired surrogate escape (``"\\ud800"``) are ``bad_field``:
  neither names text that a column could hold unchanged.
- ``NaN``, ``Infinity``, comments, single quotes, raw control characters and leading zeros are
  ``not_json``.
- If a name comes twice in one object, the last value wins, as in most parsers. A decoder that must
  not lose one asks ``duplicate_name``.
- Text that ends before its value does is ``truncated``, even in the middle of a character, of a
  number or of ``true``. White space alone is ``truncated`` too.
"""

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from python_udfs.core.errors import (
    BadField,
    DecodeError,
    NotJson,
    TooDeep,
    TooLarge,
    TrailingBytes,
    Truncated,
)
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES
from python_udfs.text.counting import count_brackets

BOM: Final = b"\xef\xbb\xbf"

# CPython's own limit for int(text), a guard against quadratic work (sys.set_int_max_str_digits).
_MAX_INT_DIGITS: Final = 4300

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_CANONICAL: Final = msgspec.json.Encoder(decimal_format="number", order="sorted")

_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
# The longest prefix of a number that could still become one.
_NUMBER_PREFIX: Final = re.compile(
    rb"-?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?(?:(?<=[0-9])[eE](?:[+-]?[0-9]*+))?)?"
)
_STRING_BODY: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_ESCAPE_PREFIX: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_BRACKETS_OR_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]++|[\]}]++', re.DOTALL)
# Complete elements of an array or object, each with its comma and without anything that needs a
# check (surrogates, too deep a nesting): a scan skips them at once.
_PLAIN_STRING: Final = (
    r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))*+"'
)
_PLAIN_SCALAR: Final = (
    rf"(?:{_PLAIN_STRING}|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)"
)
_BLANK: Final = r"[ \t\n\r]*+"


def _elements_of(value: str) -> tuple[str, str]:
    """Patterns of an array's and of an object's complete elements, each with its comma."""
    element = rf"{_BLANK}{value}{_BLANK},"
    return element, rf"{_BLANK}{_PLAIN_STRING}{_BLANK}:{element}"


def _plain_elements(levels: int) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """For arrays and for objects, with values of this many levels."""
    value = _PLAIN_SCALAR
    for _ in range(levels):
        in_array, in_object = _elements_of(value)
        last = rf"{_BLANK}{value}{_BLANK}"
        value = (
            rf"(?>{_PLAIN_SCALAR}|\[(?:{in_array})*+(?:{last}\]|(?<=\[){_BLANK}\])"
            rf"|\{{(?:{in_object})*+(?:{_BLANK}{_PLAIN_STRING}{_BLANK}:{last}\}}"
            rf"|(?<=\{{){_BLANK}\}}))"
        )
    first, second = (re.compile(f"(?:{each})*+".encode()) for each in _elements_of(value))
    return first, second


_PLAIN_LEVELS: Final = 2
_ELEMENTS, _MEMBERS = _plain_elements(_PLAIN_LEVELS)
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_NUMBER_START: Final = frozenset(b"-0123456789")
_VALUE_END: Final = frozenset(b" \t\n\r,]}")


def decimal(text: str) -> Decimal:
    """The value of a JSON number, as it is written again: a ``Decimal`` of 1E0 would be written
    as the integer 1, so it has the digits 1.0.
    """
    value = Decimal(text)
    if "e" in text or "E" in text:
        sign, digits, exponent = value.as_tuple()
        if not exponent:
            return Decimal((sign, (*digits, 0), -1))
    return value


_DECODER: Final = msgspec.json.Decoder(float_hook=decimal)

# Failures of msgspec for which `scan` finds the reason. msgspec.ValidationError, for an integer
# beyond _MAX_INT_DIGITS, is a DecodeError; InvalidOperation is Decimal's, for a huge exponent.
FAILURES: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation)


def parse(payload: bytes, *, trailing_commas: bool = False) -> Any:
    """The value of a JSON text: dict, list, str, int, Decimal, bool or None.

    ``trailing_commas`` accepts one comma before ``]`` and ``}``. Raises ``Truncated``, ``NotJson``,
    ``BadField``, ``TooDeep``, ``TooLarge`` or ``TrailingBytes``, each with the byte position.
    """
    payload = checked(payload)
    try:
        return _DECODER.decode(payload)
    except FAILURES:
        commas = scan(payload, trailing_commas=trailing_commas)
    if commas:
        # White space is insignificant there, and every position stays the same.
        text = bytearray(payload)
        for position in commas:
            text[position] = 0x20
        payload = bytes(text)
        try:
            return _DECODER.decode(payload)
        except FAILURES:
            pass
    return parse_slowly(payload, _checked_decimal)


def dumps(value: Any) -> bytes:
    """Compact JSON text. ``Decimal`` becomes a number with its digits, ``bytes`` base64 text, and
    ``msgspec.Raw`` stands for itself."""
    return _ENCODER.encode(value)


def canonical(value: Any) -> bytes:
    """Compact JSON text whose names are sorted at every level: equal values, equal bytes."""
    return _CANONICAL.encode(value)


def checked(payload: bytes) -> bytes:
    """``payload``, with a byte order mark blanked out, after checking its size and depth."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{len(payload)} bytes: at most {MAX_PAYLOAD_BYTES} are decoded")
    if payload.startswith(BOM):
        payload = without_bom(payload)
    check_depth(payload)
    return payload


def without_bom(text: bytes) -> bytes:
    """A text that starts with a byte order mark, with blanks instead: its positions stay."""
    return text if text == BOM else b" " * len(BOM) + text[len(BOM) :]


def check_depth(text: bytes) -> None:
    """Raise ``TooDeep``, or the error before that, if ``text`` is deeper than ``MAX_DEPTH``."""
    # A text with so few brackets can't be too deep: nearly all are done with two counts.
    if count_brackets(text) <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKETS_OR_STRING.finditer(text):
        found = match[0]
        first = found[0]
        if first == 0x5B or first == 0x7B:  # [ {
            depth += len(found)
            if depth > MAX_DEPTH:
                # Or unbalanced, or inside something that only looks like a string.
                scan(text)
        elif first != 0x22:
            depth -= len(found)


def parse_slowly(payload: bytes, number: Any) -> Any:
    """The value of a text that ``scan`` has found to be JSON, although msgspec could not read it.

    ``number`` converts the text of a number that is not an integer, or too long for ``int``.
    """

    def integer(text: str) -> Any:
        return int(text) if len(text) < _MAX_INT_DIGITS else number(text)

    return json.loads(payload, parse_float=number, parse_int=integer)


def duplicate_name(payload: bytes) -> str | None:
    """A duplicate name in an object anywhere in a valid JSON text, or None."""
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        if len({name for name, _ in items}) != len(items):
            names = Counter(name for name, _ in items)
            found.append(next(name for name, count in names.items() if count > 1))

    # Numbers are not converted: their size is of no interest here.
    json.loads(payload, object_pairs_hook=pairs, parse_float=str, parse_int=str)
    return found[0] if found else None


def _checked_decimal(text: str) -> Decimal:
    try:
        return decimal(text)
    except InvalidOperation:
        shown = text if len(text) <= 60 else f"{text[:30]}...{text[-30:]}"
        raise BadField(f"the number {shown} has an exponent of more than 18 digits") from None


class Fault(NamedTuple):
    """The first error of a text, and where reading stops."""

    position: int
    error: DecodeError


def fault(text: bytes, *, trailing_commas: bool = False) -> Fault | None:
    """The error that ``scan`` would raise; None if it wouldn't."""
    try:
        _scan(text, trailing_commas)
    except _At as at:
        return Fault(at.position, at.error)
    return None


def scan(text: bytes, *, trailing_commas: bool = False) -> list[int]:
    """Read ``text`` as strict JSON and raise its first error.

    Returns the positions of the commas that only ``trailing_commas`` allows. Raises as ``parse``
    does, except for the size limit.
    """
    try:
        return _scan(text, trailing_commas)
    except _At as at:
        raise at.error from None


def _scan(text: bytes, trailing_commas: bool) -> list[int]:
    if text and BOM.startswith(text):
        reason = f"the text ends at byte {len(text)}, inside or behind a byte order mark"
        raise _At(len(text), Truncated(reason))
    try:
        text.decode("utf-8")
        bad_utf8 = None
    except UnicodeDecodeError as error:
        bad_utf8 = error
    try:
        return _Scanner(text, trailing_commas).run()
    except _At as at:
        if bad_utf8 is not None and bad_utf8.start < at.position:
            incomplete = bad_utf8.end == len(text) and "end of data" in bad_utf8.reason
            if not incomplete:
                start = bad_utf8.start
                reason = f"invalid UTF-8 at byte {start}: {bad_utf8.reason}"
                raise _At(start, BadField(reason)) from None
        raise


class _At(Exception):
    """An error with the position where reading stopped, so that the earliest of several can be
    reported.
    """

    def __init__(self, position: int, error: DecodeError) -> None:
        super().__init__(position, error)
        self.position = position
        self.error = error


class _Scanner:
    """One pass over a text, with a stack of its own: no nesting can exhaust CPython's."""

    def __init__(self, text: bytes, trailing_commas: bool) -> None:
        self.text = text
        self.end = len(text)
        self.trailing_commas = trailing_commas
        self.commas: list[int] = []

    def run(self) -> list[int]:
        text = self.text
        stack = bytearray()
        position = self.skip_space(0)
        closer_allowed = False  # right after an opening bracket
        after_comma = -1
        while True:
            byte = self.peek(position, stack, "a value" if not stack else "")
            if stack and byte == stack[-1] and (closer_allowed or after_comma >= 0):
                if after_comma >= 0:
                    if not self.trailing_commas:
                        self.fail(after_comma, f"comma before {chr(byte)!r}")
                    self.commas.append(after_comma)
                stack.pop()
                position += 1
            else:
                if stack and stack[-1] == 0x7D:  # }
                    if byte != 0x22:
                        self.fail(
                            position,
                            f"expected a name in double quotes, got {self.shown(position)}",
                        )
                    position = self.skip_space(self.string(position))
                    if self.peek(position, stack, "':'") != 0x3A:
                        self.fail(position, f"expected ':', got {self.shown(position)}")
                    position = self.skip_space(position + 1)
                    byte = self.peek(position, stack, "a value")
                if byte == 0x5B or byte == 0x7B:  # [ {
                    stack.append(byte + 2)
                    if len(stack) > MAX_DEPTH:
                        raise _At(
                            position,
                            TooDeep(f"nested deeper than {MAX_DEPTH} levels at byte {position}"),
                        )
                    position = self.skip_space(position + 1)
                    closer_allowed, after_comma = True, -1
                    continue
                position = self.scalar(position, byte)
            # A value is complete: what may follow?
            closer_allowed, after_comma = False, -1
            position = self.skip_space(position)
            while stack:
                byte = self.peek(position, stack, "")
                if byte == 0x2C:
                    passed = self.pass_elements(position + 1, stack)
                    after_comma = passed - 1
                    position = self.skip_space(passed)
                    break
                if byte != stack[-1]:
                    self.fail(
                        position, f"expected ',' or {chr(stack[-1])!r}, got {self.shown(position)}"
                    )
                stack.pop()
                position = self.skip_space(position + 1)
            else:
                if position < self.end:
                    raise _At(
                        position,
                        TrailingBytes(
                            f"{self.end - position} bytes after the end of the JSON value, "
                            f"from byte {position}"
                        ),
                    )
                # A complete text: only a string can still be invalid UTF-8.
                if not text.isascii():
                    self.check_utf8()
                return self.commas

    def pass_elements(self, position: int, stack: bytearray) -> int:
        """The position behind the plain elements that start there, each with its comma."""
        if len(stack) + _PLAIN_LEVELS > MAX_DEPTH:
            return position
        match = (_ELEMENTS if stack[-1] == 0x5D else _MEMBERS).match(self.text, position)
        assert match is not None
        return match.end()

    def skip_space(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        assert match is not None
        return match.end()

    def peek(self, position: int, stack: bytearray, expected: str) -> int:
        if position < self.end:
            return self.text[position]
        where = "an array" if stack and stack[-1] == 0x5D else "an object"
        what = f"where {expected} should come" if expected else f"inside {where}"
        self.truncated(what)

    def scalar(self, position: int, byte: int) -> int:
        """The position after the string, number or literal that starts at ``position``."""
        if byte == 0x22:
            return self.string(position)
        if byte in _NUMBER_START:
            match = _NUMBER.match(self.text, position)
            end = match.end() if match else position
            prefix = _NUMBER_PREFIX.match(self.text, position)
            if prefix is not None and prefix.end() == self.end > end:
                self.truncated("inside a number")
            if match is None:
                self.fail(position, "malformed number")
        else:
            literal = _LITERALS.get(byte)
            if literal is None:
                self.fail(position, f"expected a value, got {self.shown(position)}")
            found = self.text[position : position + len(literal)]
            if found != literal:
                if literal.startswith(found):
                    self.truncated(f"inside {literal.decode()!r}")
                self.fail(position, f"expected {literal.decode()!r}")
            end = position + len(literal)
        if end < self.end and self.text[end] not in _VALUE_END:
            self.fail(end, f"unexpected {self.shown(end)} after a number or literal")
        return end

    def string(self, position: int) -> int:
        match = _STRING_BODY.match(self.text, position + 1)
        assert match is not None
        end = match.end()
        if b"\\u" in self.text[position:end]:
            self.check_surrogates(position, end)
        if end == self.end:
            self.truncated("inside a string")
        byte = self.text[end]
        if byte == 0x5C:
            if _ESCAPE_PREFIX.match(self.text, end):
                self.truncated("inside a string")
            self.fail(end, "malformed escape in a string")
        if byte != 0x22:
            self.fail(end, f"raw control character 0x{byte:02x} in a string")
        return end + 1

    def check_surrogates(self, start: int, end: int) -> None:
        high = -1  # where a high surrogate stands that waits for its low one
        last = start + 1
        for match in _ESCAPE.finditer(self.text, start, end):
            unit = int(match[1], 16) if match[1] else 0
            if high >= 0 and (match.start() != last or not 0xDC00 <= unit <= 0xDFFF):
                self.unpaired(high)
            if high < 0 and 0xDC00 <= unit <= 0xDFFF:
                self.unpaired(match.start())
            high = match.start() if 0xD800 <= unit <= 0xDBFF else -1
            last = match.end()
        # At the end of a truncated text the low one may have been cut off.
        rest = self.text[last:end]
        cut = end == self.end or _ESCAPE_PREFIX.match(self.text, end) is not None
        if high >= 0 and (rest or not cut):
            self.unpaired(high)

    def unpaired(self, position: int) -> NoReturn:
        escape = self.text[position : position + 6].decode()
        raise _At(
            position,
            BadField(f"unpaired surrogate escape {escape} at byte {position}: no text can hold it"),
        )

    def check_utf8(self) -> None:
        try:
            self.text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _At(
                error.start, BadField(f"invalid UTF-8 at byte {error.start}: {error.reason}")
            ) from None

    def shown(self, position: int) -> str:
        byte = self.text[position]
        return repr(chr(byte)) if 0x20 <= byte < 0x7F else f"byte 0x{byte:02x}"

    def truncated(self, where: str) -> NoReturn:
        raise _At(self.end, Truncated(f"the text ends at byte {self.end}, {where}"))

    def fail(self, position: int, reason: str) -> NoReturn:
        raise _At(position, NotJson(f"no JSON: {reason} at byte {position}"))
