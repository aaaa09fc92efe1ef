"""Whether a short way of decoding pays, measured in seconds that this thread works.

- ``Learning``: making layouts takes a small part of all time that decoding takes.
- ``Pace``: a table whose messages take longer with the short way than without goes the careful way
  for a while, each time twice as long.
"""

from collections.abc import Callable
from time import thread_time
from typing import Final

# Of the seconds that decoding takes, and what may be spent at once: a layout takes about one
# thousandth of a second.
_LEARNING_PART: Final = 0.03
_FIRST_SECONDS: Final = 0.02

# A short way pays if it takes at most so much of the careful way's time.
_PAYS: Final = 0.95
_FIRST_REST: Final = 64
# What is tried in vain costs some hundredths of what so many messages take.
_LONGEST_REST: Final = 8192
# How much the newest measurement counts.
_NEWEST: Final = 0.25


class Learning:
    """How much time may be spent on layouts."""

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self.clock = clock
        self.spent = 0.0
        self._decoding = 0.0

    @property
    def is_affordable(self) -> bool:
        return self.spent <= _FIRST_SECONDS + _LEARNING_PART * self._decoding

    def learned(self, seconds: float) -> None:
        self.spent += seconds

    def decoded(self, seconds: float) -> None:
        self._decoding += seconds


class Pace:
    """Whether the short way pays for a table."""

    __slots__ = ("_next_rest", "_part", "_resting", "careful")

    def __init__(self) -> None:
        self.careful: float | None = None
        """Seconds that a message takes on the careful way."""
        self._part: float | None = None
        """What the short way takes of the careful way's time, since it last rested."""
        self._resting = 0
        """So many messages more go the careful way."""
        self._next_rest = _FIRST_REST

    def rests(self, messages: int) -> bool:
        """Whether so many messages are to go the careful way."""
        if self._resting <= 0:
            return False
        self._resting -= messages
        return True

    def went_carefully(self, messages: int, seconds: float) -> None:
        self.careful = _average(self.careful, seconds / messages)

    def went_short(
        self, tried: int, taken: int, seconds: float, careful: float | None = None
    ) -> None:
        """Of ``tried`` messages ``taken`` ones were decoded, in all in so many seconds.

        ``careful`` is for ``Pace.careful`` while that isn't known: what other messages take.
        """
        careful = self.careful or careful
        if not careful:
            return
        # What is tried in vain counts as if it had decoded half a message.
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
