"""The fast path: messages of one layout are decoded together. It is the same for all formats.

Idea: a table's messages have the same names in the same order, with the same types. A layout,
their common part, is learned from a few of them; it decodes many in one call, in C. If a table
has more layouts than are kept, its format may have a mixed one, for messages of any names.
Precondition: a message has a layout's parts and no others, and nothing of it is lost: written
again, it gives the bytes that were sent, and the careful path would not write any of its values
differently.
Fallback: any other message is decoded alone by the careful path, the format's ``decode``; its
neighbours are not affected. There are no errors here, and both paths give the same events.
Never slower: where the fast path doesn't pay it isn't taken, and making layouts takes a small part
of the total time, and of what they save (``pace``).

A format defines how its messages are told apart and what their layouts are (``Format``). This
module decides what is cached, and when to try or learn something.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from python_udfs.core.events import Decode, Decoded, EventColumns
from python_udfs.core.pace import Learning, Pace
from python_udfs.core.recent import Recent

Messages = Sequence[bytes | None]
"""The keys or the values of many messages."""
Names = tuple[bytes, ...]

MAX_BYTES: Final = 128 * 1024
"""The largest message that takes the fast path, as all of a batch are in memory at once."""

# So few messages are as fast one by one.
_FEWEST: Final = 8
# The number of messages from which a layout is learned at a time, and the number that are tried
# first where not all are plain.
LESSON: Final = 16
# After the fast path has tried this many messages of a table, and after each rest, some of those
# that it has decoded also take the careful path, to measure its time: the messages that it leaves
# over may take longer.
_UNPROBED: Final = 8192
_PROBE: Final = 16
# Cache limits. The decoders of a layout take some 20 KB, those of many columns 100 KB.
_MAX_TABLES: Final = 512
_MAX_TABLES_BYTES: Final = 48 * 1024 * 1024
_TABLE_BYTES: Final = 64 * 1024
_MAX_LAYOUTS: Final = 4


class Rows(Protocol):
    """Messages that a layout has read."""

    places: Sequence[int]
    """Their places among all messages."""


class Layout(Protocol):
    """The common part of messages, and the decoders made for it."""

    @property
    def shape(self) -> Any:
        """The shape from which the layout was made."""


_Shape = TypeVar("_Shape")
_Layout = TypeVar("_Layout", bound=Layout)
_Rows = TypeVar("_Rows", bound=Rows)


class Format(ABC, Generic[_Shape, _Layout, _Rows]):
    """A format's part of the fast path. ``Names`` usually tell the messages of a table from
    others; where they don't, no layout fits.
    """

    bytes_of_names: int = 1
    """The size of cached names, as a multiple of their bytes."""

    def prefixes(self, key: bytes | None, value: bytes | None) -> Names:
        """Names that tell the messages of a topic from others."""
        return ()

    @abstractmethod
    def names(self, key: bytes | None, value: bytes | None) -> Names:
        """Names that tell the messages of a table from others; empty for messages that can't be
        plain.
        """

    @abstractmethod
    def shape(self, names: Names, key: bytes | None, value: bytes) -> _Shape | None:
        """The shape of a message; None if it isn't plain."""

    def merged(self, known: _Shape, seen: _Shape) -> _Shape | None:
        """The common shape of messages of both; None without one."""
        return known if known == seen else None

    def mixed(self, shapes: Sequence[_Shape]) -> _Shape | None:
        """A shape for messages of all these and of others like them; None if there is none."""
        return None

    @abstractmethod
    def layout(self, names: Names, shape: _Shape) -> _Layout:
        """The layout of a shape. Raises ``ValueError`` if messages of that shape can't be plain."""

    @abstractmethod
    def rows(
        self, layout: _Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> _Rows | None:
        """The messages at these places that have the layout; None if hardly any has."""

    @abstractmethod
    def columns(self, layout: _Layout, rows: _Rows) -> EventColumns | None:
        """The events of messages that have the layout. Messages that are not plain are dropped
        from ``rows``. None if no message is left.
        """


class _Table:
    """The state of a table's fast path."""

    __slots__ = ("layouts", "lessons", "names", "pace", "unprobed")

    def __init__(self, names: Names) -> None:
        self.names = names
        self.layouts: list[Layout] = []
        """The last used one first."""
        self.pace = Pace()
        self.lessons = Pace()
        """Rests when the learned layouts decode few messages, or none could be learned."""
        self.unprobed = _UNPROBED
        """The number of messages tried since the careful path was last measured."""

    def rests(self, messages: int) -> bool:
        """Whether this many messages are to take the careful path."""
        if not self.pace.rests(messages):
            return False
        self.lessons.rests(messages)
        self.unprobed = _UNPROBED
        return True


class FastPath:
    """Decodes batches of messages, and learns from them. One for each format."""

    def __init__(
        self, decode: Decode, format: Format[Any, Any, Any], learning: Learning | None = None
    ) -> None:
        """``decode`` is the format's careful path."""
        self._decode = decode
        self._format = format
        self.learning = learning or Learning()
        self.tables: Recent[Names, _Table] = Recent(_MAX_TABLES, _MAX_TABLES_BYTES)
        self._last: _Table | None = None
        self._paces: Recent[Names, Pace] = Recent(_MAX_TABLES, _MAX_TABLES_BYTES)
        self._pace = Pace()
        """The pace of batches that begin with the same prefixes."""
        self._careful_seconds = 0.0

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        """Names that tell the messages of a table from others; empty for messages that take the
        careful path.
        """
        return self._format.names(key, value)

    def rests(self, names: Names, messages: int) -> bool:
        """Whether so many messages of a table are to take the careful path, as far as is known
        before they are decoded.
        """
        table = self.tables.get(names)
        if table is None:
            return False
        return table.rests(messages) if table.layouts else table.lessons.rests(messages)

    def decode_batch(self, keys: Messages, values: Messages) -> Decoded:
        """The events of each message."""
        decoded = Decoded()
        if not values:
            return decoded
        clock = self.learning.clock
        start, others = clock(), self._careful_seconds + self.learning.spent
        rest: Sequence[int] = range(len(values))
        last, is_alone = self._likely(keys, values)
        if last is not None and (len(values) < _FEWEST or last.rests(len(values))):
            if is_alone:
                self._pace = self._pace_of(keys[0], values[0])
                self._carefully(decoded, rest, keys, values, self._pace)
                return decoded
            last = None
        if last is not None:
            # A batch usually has one table.
            rest = self._take(decoded, last, last.layouts[:], rest, keys, values)
            if not rest:
                return decoded
        self._pace = self._pace_of(keys[rest[0]], values[rest[0]]) if rest else self._pace
        # If that table's layouts decode nothing any more, something has changed, and a table whose
        # fast path rests is tried all the same.
        is_changed = last is not None and len(rest) == len(values)
        if self._pace.rests(len(rest)) and not is_changed:
            self._carefully(decoded, rest, keys, values, self._pace)
            return decoded
        tables: dict[Names, list[int]] = {}
        for place in rest:
            names = self._format.names(keys[place], values[place])
            tables.setdefault(names, []).append(place)
        for names, places in tables.items():
            table = self._table(names) if len(places) >= _FEWEST else None
            if table is None:
                self._carefully(decoded, places, keys, values, self._pace)
            # It may have been found not to pay because of new messages: those are to be learned
            # from first.
            elif table is not last and table.rests(len(places)):
                self._carefully(decoded, places, keys, values, self._pace)
            else:
                # If it has decoded none, only a few were tried.
                was_tried = table is last and len(rest) < len(values)
                self._decode_table(decoded, table, was_tried, places, keys, values)
        # Finding the tables takes its time too.
        seconds = clock() - start - (self._careful_seconds + self.learning.spent - others)
        self._pace.went_fast(len(values), len(values) - len(decoded.events), seconds)
        return decoded

    def _likely(self, keys: Messages, values: Messages) -> tuple[_Table | None, bool]:
        """The table that most messages seem to have, and whether all seem to have it. None if it is
        not known, or each seems to have another one.
        """
        places = {0, len(values) // 2, len(values) - 1}
        named = [self._format.names(keys[place], values[place]) for place in places]
        seen = [names for names in named if names]
        if not seen:
            return self._last, False
        names = max(seen, key=seen.count)
        times = seen.count(names)
        are_all_different = len(seen) == 3 and times == 1
        return None if are_all_different else self.tables.get(names), times == len(places)

    def _pace_of(self, key: bytes | None, value: bytes | None) -> Pace:
        prefixes = self._format.prefixes(key, value)
        pace = self._paces.get(prefixes)
        if pace is None:
            pace = Pace()
            pace.careful = self._pace.careful
            self._paces.add(prefixes, pace, sum(map(len, prefixes)))
        return pace

    def _table(self, names: Names) -> _Table | None:
        if not names:
            return None
        table = self.tables.get(names)
        if table is None:
            table = _Table(names)
            size = _TABLE_BYTES + self._format.bytes_of_names * sum(map(len, names))
            self.tables.add(names, table, size)
        return table

    def _decode_table(
        self,
        decoded: Decoded,
        table: _Table,
        was_tried: bool,
        places: list[int],
        keys: Messages,
        values: Messages,
    ) -> None:
        """Add the events of a table's messages at these places."""
        rest: Sequence[int] = places
        if not was_tried:
            rest = self._take(decoded, table, table.layouts[:], places, keys, values)
        if (
            len(rest) >= _FEWEST
            and self.learning.is_affordable
            and not table.lessons.rests(len(rest))
        ):
            start, tried = self.learning.clock(), len(rest)
            learned = self._learn(table, [(keys[place], values[place]) for place in rest[:LESSON]])
            seconds = self.learning.clock() - start
            self.learning.learned(seconds)
            rest = self._take(decoded, table, learned, rest, keys, values)
            # As if it had to pay with these messages, but at most with a quarter of them.
            table.lessons.went_fast(tried, 4 * (tried - len(rest)), tried, careful=1.0)
        has_taken_none = not was_tried and len(rest) == len(places)
        paces = (self._pace, table.pace) if has_taken_none else (self._pace,)
        self._carefully(decoded, rest, keys, values, *paces)

    def _take(
        self,
        decoded: Decoded,
        table: _Table,
        layouts: list[Layout],
        places: Sequence[int],
        keys: Messages,
        values: Messages,
    ) -> Sequence[int]:
        """Add the events of the messages that have one of those layouts. Returns the places of
        the others.
        """
        start, tried = self.learning.clock(), len(places)
        rest: Sequence[int] = places
        taken: Sequence[int] = ()
        for number, layout in enumerate(layouts):
            if not rest:
                break
            if number and len(rest) > 2 * LESSON:
                # If few of the first have it, the others are not tried.
                first = self._format.rows(layout, rest[:LESSON], keys, values)
                if first is None or len(first.places) < LESSON // 4:
                    continue
            rows = self._format.rows(layout, rest, keys, values)
            columns = None if rows is None else self._format.columns(layout, rows)
            if rows is not None and columns is not None:
                decoded.columns.append((rows.places, columns))
                table.layouts.remove(layout)
                table.layouts.insert(0, layout)
                self._last = table
                taken = rows.places
                gone = set(taken)
                all_gone = len(gone) == len(rest)
                rest = () if all_gone else [place for place in rest if place not in gone]
        if layouts:
            seconds = self.learning.clock() - start
            self.learning.decoded(seconds)
            if taken:
                probed = min(_PROBE, len(taken) // _FEWEST + 1)
                self._probe(table, tried, taken[:probed], keys, values)
            known = [pace.careful for pace in (table.pace, self._pace) if pace.careful]
            self.learning.saved(min(known, default=0.0) * (tried - len(rest)) - seconds)
            table.pace.went_fast(tried, tried - len(rest), seconds, self._pace.careful)
        return rest

    def _probe(
        self, table: _Table, tried: int, taken: Sequence[int], keys: Messages, values: Messages
    ) -> None:
        """Measure the careful path with some of the messages that the fast path has decoded."""
        table.unprobed += tried
        if table.unprobed >= _UNPROBED:
            table.unprobed = 0
            self._carefully(Decoded(), taken, keys, values, table.pace)

    def _carefully(
        self,
        decoded: Decoded,
        places: Sequence[int],
        keys: Messages,
        values: Messages,
        *paces: Pace,
    ) -> None:
        """Add the events of those messages by the careful path. If they are like others,
        ``paces`` record their time.
        """
        if not places:
            return
        start = self.learning.clock()
        decode = self._decode
        for place in places:
            decoded.events[place] = decode(keys[place], values[place])
        seconds = self.learning.clock() - start
        self.learning.decoded(seconds)
        self._careful_seconds += seconds
        for pace in paces:
            pace.went_carefully(len(places), seconds)

    def _learn(
        self, table: _Table, messages: list[tuple[bytes | None, bytes | None]]
    ) -> list[Layout]:
        """Make layouts of messages that no layout of the table fits: new ones, or known ones with
        more names.
        """
        shapes = [layout.shape for layout in table.layouts]
        times = [0] * len(shapes)
        for key, value in messages:
            seen = None if value is None else self._format.shape(table.names, key, value)
            if seen is None:
                continue
            for number, known in enumerate(shapes):
                merged = self._format.merged(known, seen)
                if merged is not None:
                    shapes[number] = merged
                    times[number] += 1
                    break
            else:
                shapes.append(seen)
                times.append(1)
        before: list[Layout | None] = [*table.layouts, *[None] * len(messages)]
        if len(shapes) > _MAX_LAYOUTS:
            shapes, times = self._mixed(shapes, times)
            before = [
                next((known for known in table.layouts if known.shape == shape), None)
                for shape in shapes
            ]
        kept: list[Layout] = []
        learned: list[Layout] = []
        # The most frequent first: there may be more than the cache holds.
        for number in sorted(range(len(shapes)), key=times.__getitem__, reverse=True):
            known_layout = before[number]
            if known_layout is not None and known_layout.shape == shapes[number]:
                kept.append(known_layout)
            elif len(learned) < _MAX_LAYOUTS:
                try:
                    learned.append(self._format.layout(table.names, shapes[number]))
                except ValueError:
                    if known_layout is not None:
                        kept.append(known_layout)
        table.layouts = [*learned, *kept][:_MAX_LAYOUTS] or table.layouts
        return learned

    def _mixed(self, shapes: list[Any], times: list[int]) -> tuple[list[Any], list[int]]:
        """Shapes and how often they were seen, with as few mixed ones in their place as there can
        be.
        """
        mixed = self._format.mixed(shapes)
        if mixed is not None:
            return [mixed], [sum(times)]
        # Messages with a key and without one, for example.
        found: list[Any] = []
        of_found: list[int] = []
        for shape, seen in zip(shapes, times, strict=True):
            for number, known in enumerate(found):
                mixed = self._format.mixed((known, shape))
                if mixed is not None:
                    found[number] = mixed
                    of_found[number] += seen
                    break
            else:
                found.append(shape)
                of_found.append(seen)
        return found, of_found
