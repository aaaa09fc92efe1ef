"""Masks of personal values: what a change log stores in place of one."""

import hmac
from decimal import Decimal
from typing import Final

from python_udfs.typed.values import INTEGER_BITS, Value

HASH: Final = "hash"
NULL: Final = "null"
LAST4: Final = "last4"
MASKS: Final = (HASH, NULL, LAST4)
MASKED: Final = "(masked)"
"""Replaces the text of a value that fits no type."""
_SHOWN: Final = 4
_FINGERPRINT: Final = b"cdc_lakehouse: fingerprint of the key of masks"
_keys: Final[list[bytes]] = []
"""The mask key of this process, if it has one."""


def know_key(key: bytes) -> None:
    """Hash with this key from now on."""
    _keys[:] = [key]


def fingerprint(key: bytes) -> str:
    """An identifier of a key that reveals nothing about it."""
    return hmac.digest(key, _FINGERPRINT, "sha256").hex()[:16]


def has_text(type: str) -> bool:
    """Whether values of a type have a unique text, which ``hash`` and ``last4`` need."""
    return type == "string" or type in INTEGER_BITS or type.startswith("decimal")


def masked_type(mask: str, type: str) -> str:
    """The type of a masked column that is declared with ``type``."""
    return type if mask == NULL else "string"


def masked(value: Value | None, mask: str | None) -> Value | None:
    """The masked form of a value."""
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
    """A unique text for a number, whatever its type, digits and scale."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def keyed_hash(text: str) -> str:
    """HMAC-SHA-256 of a text, in hexadecimal digits. A key must be known."""
    (key,) = _keys
    # JSON can escape half a surrogate pair, which also counts as text.
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()
