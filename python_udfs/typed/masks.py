"""Masks of personal values: what a change log has in place of one."""

import hmac
from decimal import Decimal
from typing import Final

from python_udfs.typed.values import INTEGER_BITS, Value

HASH: Final = "hash"
NULL: Final = "null"
LAST4: Final = "last4"
MASKS: Final = (HASH, NULL, LAST4)
MASKED: Final = "(masked)"
"""Instead of the text of a value that fits no type."""
_SHOWN: Final = 4
_FINGERPRINT: Final = b"cdc_lakehouse: fingerprint of the key of masks"
_keys: Final[list[bytes]] = []
"""That of this process, if it has any."""


def know_key(key: bytes) -> None:
    """Let this process hash with a key."""
    _keys[:] = [key]


def fingerprint(key: bytes) -> str:
    """What tells a key from another one, and nothing of either."""
    return hmac.digest(key, _FINGERPRINT, "sha256").hex()[:16]


def has_text(type: str) -> bool:
    """Whether values of a type have one text each, as ``hash`` and ``last4`` need it."""
    return type == "string" or type in INTEGER_BITS or type.startswith("decimal")


def masked_type(mask: str, type: str) -> str:
    """The type of a column that is declared to be of ``type``."""
    return type if mask == NULL else "string"


def masked(value: Value | None, mask: str | None) -> Value | None:
    """What stands in place of a value."""
    if mask is None:
        return value
    if value is None or mask == NULL:
        return None
    text = _text(value)
    if mask == HASH:
        return keyed_hash(text)
    hidden = len(text) - _SHOWN if len(text) > _SHOWN else len(text)
    return "*" * hidden + text[hidden:]


def _text(value: Value) -> str:
    """A number has one text, whatever its type, its digits and its scale are."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def keyed_hash(text: str) -> str:
    """HMAC-SHA-256 of a text, in hexadecimal digits. A key must be known."""
    (key,) = _keys
    # Half a surrogate pair, which JSON can escape, is text too.
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()
