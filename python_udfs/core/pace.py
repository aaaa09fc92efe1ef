"""Measure whether a fast path pays, in seconds of this thread's work.

- ``Learning``: making layouts takes a small part of the total decoding time, and of the time that
  layouts have saved.
- ``Pace``: a table whose messages take longer on the fast path than without it takes the careful
  path for a while, each time twice as long.
"""

from collections.abc import Callable
from time import thread_time
from typing import Final

# The part of the decoding time, and the amount that may be spent at once: a layout takes about
# one millisecond.
_LEARNING_PART: Final = 0.03
_FIRST_SECONDS: Final = 0.02
# The part of the time that layouts have saved by which they pay for others: a topic may have
# hundreds of tables. What they have saved is known roughly.
_PAID_PART: Final = 0.25

# A fast path pays if it takes at most this part of the careful path's time.
_PAYS: Final = 0.95
_FIRST_REST: Final = 64
# A failed attempt costs some hundredths of what this many messages take.
_LONGEST_REST: Final = 8192
# The weight of the newest measurement.
_NEWEST: Final = 0.25


class Learning:
    """The time that may be spent on layouts."""

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self.clock = clock
        self.spent = 0.0
        self._paid = 0.0
        """The part of it that layouts have paid for."""
        self._decoding = 0.0

    @property
    def is_affordable(self) -> bool:
        return self.spent - self._paid <= _FIRST_SECONDS + _LEARNING_PART * self._decoding

    def learned(self, seconds: float) -> None:
        self.spent += seconds

    def decoded(self, seconds: float) -> None:
        self._decoding += seconds

    def saved(self, seconds: float) -> None:
        """Record that layouts have taken so much less time than the careful path; nothing if it is
        negative.
        """
        self._paid = min(self._paid + _PAID_PART * max(seconds, 0.0), self.spent)


class Pace:
    """Whether the fast path pays for a table."""

    __slots__ = ("_next_rest", "_part", "_resting", "careful")

    def __init__(self) -> None:
        self.careful: float | None = None
        """Seconds that a message takes on the careful path."""
        self._part: float | None = None
        """The fast path's part of the careful path's time, since it last rested."""
        self._resting = 0
        """The number of further messages that take the careful path."""
        self._next_rest = _FIRST_REST

    def rests(self, messages: int) -> bool:
        """Whether this many messages are to take the careful path."""
        if self._resting <= 0:
            return False
        self._resting -= messages
        return True

    def went_carefully(self, messages: int, seconds: float) -> None:
        self.careful = _average(self.careful, seconds / messages)

    def went_fast(
        self, tried: int, taken: int, seconds: float, careful: float | None = None
    ) -> None:
        """Record an attempt: of ``tried`` messages ``taken`` were decoded, in ``seconds``
        altogether.

        ``careful`` stands for ``Pace.careful`` while that isn't known: the time of other
        messages.
        """
        careful = self.careful or careful
        if not careful:
            return
        # A failed attempt counts as if it had decoded half a message.
        self._part = _average(self._part, seconds / (careful * max(taken, 0.5)))
        if self._part <= _PAYS:
            self._next_rest = _FIRST_REST
            self._resting = 0
            return
        self._part = None
        self._resting = max(self._next_rest, 8 * tried)
        self._next_rest = min(2 * self._resting, _LONGEST_REST)


def _average(known: float | None, measured: float) -> float:
    return measured if known is None else known + (measured - known) * _NEWEST
