"""Row images as decoded, before their text is written: a reader that needs only fields takes them
here, and no text is written and read again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, Final

from msgspec import UNSET, structs

# In a partial image, the field with the changes, and its own fields (``debezium.mongodb``).
PARTIAL: Final = "$partial"
UPDATED: Final = "updated"
TRUNCATED: Final = "truncated"

EncodeLines = Callable[[Any], bytes]
"""Writes values in the form of an image's text, a line for each."""


class RowImages(ABC):
    """Both images of many events of one table."""

    def __init__(
        self, has_before: Sequence[bool], has_after: Sequence[bool], encode_lines: EncodeLines
    ) -> None:
        self.has_before = has_before
        self.has_after = has_after
        self.encode_lines = encode_lines

    @abstractmethod
    def rows(self, names: Sequence[str]) -> list[Sequence[Any]]:
        """The values of each field: one for each event with an image, from the image after the
        change or, without one, from that before it; ``UNSET`` where the image lacks the field.
        """

    @abstractmethod
    def earlier(self, names: Sequence[str]) -> list[Sequence[Any]]:
        """The values in the images before, of events that have both."""


class _ImagePairs(RowImages):
    """The images before and after of each event, as objects. Missing ones are None."""

    def __init__(
        self, befores: Sequence[Any], afters: Sequence[Any], encode_lines: EncodeLines
    ) -> None:
        super().__init__(
            [image is not None for image in befores],
            [image is not None for image in afters],
            encode_lines,
        )
        self._befores = befores
        self._afters = afters

    def rows(self, names: Sequence[str]) -> list[Sequence[Any]]:
        if None not in self._afters:
            return self._fields(self._afters, names)
        images = [
            image
            for before, after in zip(self._befores, self._afters, strict=True)
            if (image := before if after is None else after) is not None
        ]
        return self._fields(images, names)

    def earlier(self, names: Sequence[str]) -> list[Sequence[Any]]:
        return self._fields(
            [each for each in compress(self._befores, self.has_after) if each is not None], names
        )

    @staticmethod
    @abstractmethod
    def _fields(images: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]]:
        """The values of each field; ``UNSET`` where an image lacks it."""


class StructImages(_ImagePairs):
    """Images as Structs: those before of one type, and those after of another."""

    @staticmethod
    def _fields(images: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]]:
        return _fields(images, names)


class DictImages(_ImagePairs):
    """Images as dicts, which may have different fields."""

    @staticmethod
    def _fields(images: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]]:
        return [[image.get(name, UNSET) for image in images] for name in names]


class ColumnImages(RowImages):
    """One image of each event, by column; all have the same fields."""

    def __init__(
        self,
        has_before: Sequence[bool],
        columns: Callable[[], Mapping[str, Sequence[Any]]],
        encode_lines: EncodeLines,
    ) -> None:
        """``has_before``: whether the image is the one before; otherwise it is the one after."""
        super().__init__(has_before, list(map(not_, has_before)), encode_lines)
        self._columns = columns

    def rows(self, names: Sequence[str]) -> list[Sequence[Any]]:
        columns = self._columns()
        absent = [UNSET] * len(self.has_after)
        return [columns.get(name, absent) for name in names]

    def earlier(self, names: Sequence[str]) -> list[Sequence[Any]]:
        return [()] * len(names)


def _fields(images: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]]:
    """Fields of Structs. Reading all of a Struct's at once is three times as fast as one by one."""
    if not images:
        return [()] * len(names)
    kinds: dict[Any, tuple[str, ...]]
    kinds = {kind: kind.__struct_encode_fields__ for kind in set[Any](map(type, images))}
    fields, *others = set(kinds.values())
    rows: Iterable[tuple[Any, ...]] = map(structs.astuple, images)
    if others:
        fields = tuple(dict.fromkeys(names))
        places = {
            kind: [own.index(name) if name in own else len(own) for name in fields]
            for kind, own in kinds.items()
        }
        rows = [
            tuple(map((*structs.astuple(image), UNSET).__getitem__, places[type(image)]))
            for image in images
        ]
    columns = dict(zip(fields, zip(*rows, strict=True), strict=True))
    absent = [UNSET] * len(images)
    return [columns.get(name, absent) for name in names]
