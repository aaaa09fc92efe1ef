"""Decoded events in the form that ``chunks`` takes: by their texts, or before their texts are
written, so that unneeded texts are never written.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import UNSET

from python_udfs.core.events import EventColumns, texts_of
from python_udfs.core.row_images import PARTIAL, RowImages
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.typed.declared import Layout, Log
from python_udfs.typed.images import FieldColumn, decoded_column, field_columns, have_other_key
from python_udfs.typed.names import named_fields
from python_udfs.typed.row import NEW_KEY, NOTING, OLD_KEY

# As many as for payloads (dbt_lakehouse/spark/event_arrays.py): ten times their bytes fill a
# cache.
_CHUNK_BYTES: Final = 96 * 1024
_SMALLEST_CHUNK, _LARGEST_CHUNK = 32, 512
_PLACEHOLDER: Final = UNAVAILABLE.encode()
# Other forms of a placeholder in JSON.
_ESCAPE: Final = b"\\u"
_PARTIAL_MARK: Final = f'"{PARTIAL}":'.encode()

Image = bytes | None


class Changes(NamedTuple):
    """Decoded events by field, as ``row.Change``; all of one length."""

    operation: Sequence[str]
    before: Sequence[Image]
    after: Sequence[Image]
    record_key: Sequence[Image]
    metadata: Sequence[Image]
    format: Sequence[str]

    def slice(self, start: int, length: int) -> "Changes":
        """A slice of them."""
        end = start + length
        return Changes(
            self.operation[start:end],
            self.before[start:end],
            self.after[start:end],
            self.record_key[start:end],
            self.metadata[start:end],
            self.format[start:end],
        )


def at_once(changes: Changes) -> int:
    """The number of these that are taken apart at a time, by a sample's size."""
    sample = changes.after[:_SMALLEST_CHUNK]
    size = sum(len(each) for each in sample if each is not None)
    fitting = _CHUNK_BYTES * len(sample) // max(1, size)
    return min(max(fitting, _SMALLEST_CHUNK), _LARGEST_CHUNK)


class Batch(ABC):
    """Events, few enough for a processor's cache."""

    operation: Sequence[str]
    has_before: Sequence[bool]
    has_after: Sequence[bool]

    @property
    @abstractmethod
    def changes(self) -> Changes:
        """The events' fields as texts."""

    @property
    @abstractmethod
    def record_keys(self) -> Sequence[Image]: ...

    @property
    @abstractmethod
    def metadata(self) -> Sequence[Image]: ...

    @abstractmethod
    def may_be_of_key_updates(self) -> bool:
        """Whether metadata may contain notes on a key update."""

    @abstractmethod
    def have_other_key(self, keys: Sequence[tuple[str, ...]]) -> list[bool]:
        """``images.have_other_key`` of the record keys."""

    @abstractmethod
    def rows(self, made: Layout) -> list[FieldColumn] | None:
        """The values of each field: one for each event with an image, from the image after the
        change or, without one, from that before it. None if they can't be read at once, or an
        image may be partial.
        """

    @abstractmethod
    def earlier(self, made: Layout) -> list[FieldColumn] | None:
        """The values in the images before, of events that have both. Called after ``rows``."""

    @abstractmethod
    def may_hide(self) -> bool:
        """Whether the result of ``rows`` may contain a placeholder."""

    @abstractmethod
    def named(self, log: Log, places: Sequence[int]) -> list[Sequence[bool]]:
        """For the columns at these places, whether the images after the changes name them."""


class TextBatch(Batch):
    """Events by their texts."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self.operation = changes.operation
        self.has_before = [image is not None for image in changes.before]
        self.has_after = [image is not None for image in changes.after]

    @property
    def changes(self) -> Changes:
        return self._changes

    @property
    def record_keys(self) -> Sequence[Image]:
        return self._changes.record_key

    @property
    def metadata(self) -> Sequence[Image]:
        return self._changes.metadata

    def may_be_of_key_updates(self) -> bool:
        saying = [
            metadata
            for operation, metadata in zip(self.operation, self.metadata, strict=True)
            if operation in NOTING and metadata is not None
        ]
        text = b"".join(saying)
        return OLD_KEY in text or NEW_KEY in text

    def have_other_key(self, keys: Sequence[tuple[str, ...]]) -> list[bool]:
        return have_other_key(self.record_keys, keys)

    @cached_property
    def _lines(self) -> bytes:
        """The images for ``rows``."""
        return b"\n".join(self._images)

    @cached_property
    def _images(self) -> list[bytes]:
        return [
            row
            for before, after in zip(self._changes.before, self._changes.after, strict=True)
            if (row := before if after is None else after) is not None
        ]

    def rows(self, made: Layout) -> list[FieldColumn] | None:
        if not self._images or _PARTIAL_MARK in self._lines:
            return None
        return field_columns(self._images, made.fields, made.key_fields)

    def earlier(self, made: Layout) -> list[FieldColumn] | None:
        images = [
            before
            for before, has_after in zip(self._changes.before, self.has_after, strict=True)
            if before is not None and has_after
        ]
        return field_columns(images, made.fields, made.key_fields)

    def may_hide(self) -> bool:
        return _PLACEHOLDER in self._lines or _ESCAPE in self._lines

    def named(self, log: Log, places: Sequence[int]) -> list[Sequence[bool]]:
        fields = [log.columns[place].field for place in places]
        found = named_fields(self._changes.after, fields)
        return [found[field] for field in fields]


class DecodedBatch(Batch):
    """Events of one table as they were decoded. The log's columns are fields, not paths."""

    def __init__(self, columns: EventColumns, images: RowImages) -> None:
        self._columns = columns
        self._images = images
        length = len(columns.occurred_at)
        operation = columns.operation
        self.operation = [operation] * length if isinstance(operation, str) else operation
        self.has_before = images.has_before
        self.has_after = images.has_after
        self._values: list[Sequence[object]] = []
        """The values for ``rows``."""

    @cached_property
    def changes(self) -> Changes:
        return changes_of(self._columns)

    @cached_property
    def record_keys(self) -> Sequence[Image]:
        return texts_of(self._columns.record_key) or [None] * len(self.operation)

    @cached_property
    def metadata(self) -> Sequence[Image]:
        return texts_of(self._columns.metadata) or []

    def may_be_of_key_updates(self) -> bool:
        return False

    def have_other_key(self, keys: Sequence[tuple[str, ...]]) -> list[bool]:
        names = frozenset(self._columns.key_names)
        is_other = bool(names and keys) and names not in map(frozenset, keys)
        return [is_other] * len(self.operation)

    def rows(self, made: Layout) -> list[FieldColumn] | None:
        *values, partial = self._images.rows([*made.plain_fields, PARTIAL])
        if not partial or partial.count(UNSET) < len(partial) or not values:
            return None
        self._values = values
        return self._columns_of(made, values)

    def earlier(self, made: Layout) -> list[FieldColumn] | None:
        return self._columns_of(made, self._images.earlier(made.plain_fields))

    def _columns_of(self, made: Layout, columns: list[Sequence[object]]) -> list[FieldColumn]:
        return [
            decoded_column(values, name in made.key_fields, self._images.encode_lines)
            for name, values in zip(made.plain_fields, columns, strict=True)
        ]

    def may_hide(self) -> bool:
        return True

    def named(self, log: Log, places: Sequence[int]) -> list[Sequence[bool]]:
        found: list[Sequence[bool]] = []
        for place in places:
            left = iter(self._values[place])
            found.append(
                [
                    (before or after) and next(left) is not UNSET
                    for before, after in zip(self.has_before, self.has_after, strict=True)
                ]
            )
        return found


def changes_of(columns: EventColumns) -> Changes:
    """The same events by their texts."""
    length = len(columns.occurred_at)
    nothing: list[Image] = [None] * length
    operation = columns.operation
    return Changes(
        [operation] * length if isinstance(operation, str) else operation,
        texts_of(columns.before) or nothing,
        texts_of(columns.after) or nothing,
        texts_of(columns.record_key) or nothing,
        texts_of(columns.metadata) or nothing,
        [""] * length,
    )
