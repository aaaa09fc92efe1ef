"""The family of errors for bad payloads.

A ``DecodeError`` never leaves ``decode``: it becomes an ``invalid`` event. Any other exception is a
bug in a decoder; the registry makes a ``DecoderFailed`` of it, so that one message can't stop all
topics, and ``dbt test`` fails on those.
"""

from pathlib import Path
from typing import ClassVar, Final

# The longest text of an exception: it may quote the payload.
_LONGEST_REASON: Final = 500


class DecodeError(Exception):
    """A payload that can't be decoded.

    ``code`` is stable and is stored as ``error_code``; the message names the field
    (``$.bins[2].value``) or the byte position, what was expected and what was found, and is stored
    as ``error_detail``.
    """

    code: ClassVar[str]


class Truncated(DecodeError):
    """The bytes end before the value does."""

    code = "truncated"


class NotMessagePack(DecodeError):
    """A byte that MessagePack never uses (0xc1)."""

    code = "not_messagepack"


class NotJson(DecodeError):
    """Text that is not JSON."""

    code = "not_json"


class BadShape(DecodeError):
    """Not the array or object expected here, the wrong number of elements, or an empty batch."""

    code = "bad_shape"


class BadVersion(DecodeError):
    """An unknown version of the format."""

    code = "bad_version"


class BadType(DecodeError):
    """An unknown message type, ``msg`` or ``op``."""

    code = "bad_type"


class BadField(DecodeError):
    """A field that is missing, has the wrong type, or holds invalid UTF-8."""

    code = "bad_field"


class TooDeep(DecodeError):
    """Nested deeper than ``limits.MAX_DEPTH``."""

    code = "too_deep"


class TooLarge(DecodeError):
    """Larger than ``limits.MAX_PAYLOAD_BYTES``, or more would be made of it than its ``Budget``."""

    code = "too_large"


class TrailingBytes(DecodeError):
    """A complete value with more bytes behind it."""

    code = "trailing_bytes"


class UnknownFormat(DecodeError):
    """No wire format is configured for the payload's topic."""

    code = "unknown_format"


class UnknownSchema(DecodeError):
    """No schema has the id that the payload names, or its format can't use the schema."""

    code = "unknown_schema"


class DecoderFailed(DecodeError):
    """A decoder raised another exception: a bug of ours, not an error of the payload."""

    code = "decoder_failed"

    @classmethod
    def by(cls, error: Exception) -> "DecoderFailed":
        """The error for an exception: its class, its text, and where it was raised."""
        try:
            reason = str(error)
        except Exception:
            reason = "an exception that can't be written"
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[: _LONGEST_REASON // 2]}...{reason[-_LONGEST_REASON // 2 :]}"
        # A text may contain half a character, which no column can hold.
        reason = reason.encode("utf-8", "backslashreplace").decode()
        traceback, where = error.__traceback__, ""
        while traceback is not None:
            code = traceback.tb_frame.f_code
            where = f" ({Path(code.co_filename).name}, line {traceback.tb_lineno})"
            traceback = traceback.tb_next
        return cls(f"{type(error).__name__}: {reason}{where}")


CODES: Final = tuple(error.code for error in DecodeError.__subclasses__())
"""All values of ``error_code``."""
