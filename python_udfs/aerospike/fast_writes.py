"""Plain writes of the Aerospike formats, by column: the part of the fast paths that they share.

A write is plain if it is alone in its payload, JSON can express its bins' values as they are, and
its Kafka key is absent or the record's own key, byte by byte. ``fast_messagepack`` and
``fast_json`` define that for their bytes, and extract the columns of many writes.

Aerospike has no schema: the records of a set may have any bins. A set with more combinations of
bins than layouts are kept has a mixed layout, whose writes have a dict of bins each instead of
columns.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress, repeat
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from python_udfs.aerospike.records import DIGEST_BYTES, expires_at_of_many, occurred_at_of_many
from python_udfs.core.events import UPSERT, EventColumns, Lines
from python_udfs.core.row_images import ColumnImages, DictImages, RowImages

Digest = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
USER_KEY_TYPES: Final = {str: "str", int: "int"}
"""The types of user keys."""
MAX_NAMES_BYTES: Final = 1024
"""The longest namespace and set together that are remembered."""

_encode_lines = msgspec.json.Encoder(decimal_format="number").encode_lines


class _RecordKey(msgspec.Struct, gc=False):
    digest: bytes


class _Metadata(msgspec.Struct, gc=False):
    generation: Any
    expiry: Any
    lut: Any
    user_key: Any
    user_key_type: Any
    bins: Any
    event_key: Any


class Common(NamedTuple):
    """The common part of the events of a layout's writes."""

    namespace: str
    set_name: str | None
    image: type[msgspec.Struct]
    """The row image, made from the bins' values in order."""
    bins: msgspec.Raw | msgspec.UnsetType
    """``metadata.bins``; unset in flat JSON."""


def common(namespace: str, set_name: str | None, bins: dict[str, dict[str, Any]]) -> Common:
    """``bins`` is ``metadata.bins``. Raises ``ValueError`` for a name that JSON has to escape."""
    fields = {f"bin_{place}": name for place, name in enumerate(bins)}
    image = msgspec.defstruct("Image", [(field, Any) for field in fields], gc=False, rename=fields)
    return Common(namespace, set_name, image, msgspec.Raw(msgspec.json.encode(bins)))


class Writes:
    """Writes of a layout that are plain as far as is known; lists have the same order."""

    __slots__ = ("keys", "places", "records")

    def __init__(
        self, places: Sequence[int], records: list[Any], keys: Sequence[bytes | None]
    ) -> None:
        self.places = places
        """Their places among all messages."""
        self.records = records
        """The writes as decoded."""
        self.keys = [keys[place] for place in places]
        """The Kafka keys."""

    def keep(self, flags: Sequence[bool]) -> None:
        """Drop writes whose flag is false."""
        self.places = list(compress(self.places, flags))
        self.records = list(compress(self.records, flags))
        self.keys = list(compress(self.keys, flags))

    def keep_own_keys(self, own_keys: Sequence[bytes]) -> None:
        """Drop writes with a Kafka key other than their own."""
        if self.keys != own_keys:
            self.keep(
                [key is None or key == own for key, own in zip(self.keys, own_keys, strict=True)]
            )

    @property
    def has_keys(self) -> bool:
        return self.keys.count(None) < len(self.keys)


class Parts(NamedTuple):
    """Columns of writes beside their bins."""

    record_keys: Sequence[tuple[str, str | None, bytes, Any]]
    generations: Sequence[int | None] | None
    """None if no write has one; the same for the next two."""
    expiries: Sequence[int | None] | None
    luts: Sequence[int | None] | None


def event_columns(
    common: Common, writes: Writes, parts: Parts, bins: list[list[Any]]
) -> EventColumns:
    """The events of plain writes, with the values of each bin of their layout."""
    count = len(parts.record_keys)
    columns = partial(_columns, common, bins)
    return _events(
        (common.namespace, common.set_name),
        writes,
        parts,
        partial(_images, common, bins),
        ColumnImages([False] * count, columns, _encode_lines),
        lambda: repeat(common.bins, count),
    )


def plain_images(
    writes: Writes,
    bins_of: Callable[[Any], Any],
    images_of: Callable[[list[Any]], list[dict[str, Any]] | None],
) -> list[dict[str, Any]] | None:
    """The bins of each write of a mixed layout by their names, by ``images_of`` of the bins of some
    writes, which is None if one is not plain. Such writes are dropped; None if none is left.
    """
    images = images_of(list(map(bins_of, writes.records)))
    if images is None:
        writes.keep([images_of([bins_of(record)]) is not None for record in writes.records])
        images = images_of(list(map(bins_of, writes.records))) if writes.places else None
    return images


def mixed_columns(
    source: tuple[str, str | None],
    writes: Writes,
    parts: Parts,
    images: list[dict[str, Any]],
    bins: Callable[[], Iterable[Any]],
) -> EventColumns:
    """The events of plain writes of a namespace and set, with the bins of each, and what
    ``metadata.bins`` says of them.
    """
    after = partial(_encode_lines, images)
    decoded = DictImages([None] * len(images), images, _encode_lines)
    return _events(source, writes, parts, after, decoded, bins)


def _events(
    source: tuple[str, str | None],
    writes: Writes,
    parts: Parts,
    after: Lines,
    images: RowImages,
    bins: Callable[[], Iterable[Any]],
) -> EventColumns:
    return EventColumns(
        operation=UPSERT,
        source_database=None,
        source_schema=source[0],
        source_table=source[1],
        record_key=partial(_record_keys, parts),
        before=None,
        after=after,
        occurred_at=[None] * len(parts.record_keys)
        if parts.luts is None
        else occurred_at_of_many(parts.luts),
        expires_at=None if parts.expiries is None else expires_at_of_many(parts.expiries),
        metadata=partial(_metadata, writes, parts, bins),
        key_names=_RecordKey.__struct_fields__,
        images=images,
    )


def _record_keys(parts: Parts) -> bytes:
    return _encode_lines([_RecordKey(digest) for _, _, digest, _ in parts.record_keys])


def _images(common: Common, bins: list[list[Any]]) -> bytes:
    return _encode_lines(list(map(common.image, *bins)))


def _columns(common: Common, bins: list[list[Any]]) -> dict[str, list[Any]]:
    """The images by column."""
    return dict(zip(common.image.__struct_encode_fields__, bins, strict=True))


def _metadata(writes: Writes, parts: Parts, bins: Callable[[], Iterable[Any]]) -> bytes:
    event_keys: Any = repeat(UNSET)
    if writes.has_keys:
        event_keys = [
            UNSET if key is None else own
            for key, own in zip(writes.keys, parts.record_keys, strict=True)
        ]
    user_keys = [key for *_, key in parts.record_keys]
    metadata = map(
        _Metadata,
        *(repeat(UNSET) if part is None else part for part in parts[1:]),
        [UNSET if key is None else key for key in user_keys],
        [USER_KEY_TYPES.get(type(key), UNSET) for key in user_keys],
        bins(),
        event_keys,
    )
    return _encode_lines(list(metadata))
