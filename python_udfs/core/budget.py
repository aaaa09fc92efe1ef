"""A budget for each payload limits what is made from it, in events and in text.

Most of a decoder's output is as large as its input. The rest can be far larger than the payload:
a path is written for each of many small values, a scale turns three bytes into thousands of
digits, a byte that is not a record becomes an event with a sentence. All of that is spent from
one budget, before it is made, so no payload can take more memory than a small multiple of its
bytes:

    budget = Budget(len(key) + len(value))
    budget.spend(digits)             what is about to be written, in bytes
    budget.spend_text(path)          a text that is kept, a path in metadata
"""

from sys import getsizeof
from typing import Final

from python_udfs.core.errors import TooLarge
from python_udfs.core.limits import BUDGET_BYTES, BUDGET_FACTOR

# The overhead of a text: its place in a dict or a list.
_PLACE_BYTES: Final = 64


class Budget:
    """The memory in bytes that may still be used for one payload."""

    __slots__ = ("bytes", "left")

    def __init__(self, payload_bytes: int) -> None:
        self.bytes = BUDGET_FACTOR * payload_bytes + BUDGET_BYTES
        self.left = self.bytes

    def spend(self, size: int) -> None:
        """Take ``size`` bytes. ``TooLarge`` if fewer are left; the rest then stays available for
        something smaller.
        """
        if size > self.left:
            raise TooLarge(f"more than the {self.bytes} bytes that may be made of the payload")
        self.left -= size

    def spend_text(self, text: str) -> None:
        """Take the cost of keeping a text that was made. Raises ``TooLarge``."""
        self.spend(getsizeof(text) + _PLACE_BYTES)
