"""Plain writes of the Aerospike formats, by column: the part of the fast paths that they share.

A write is plain if it is alone in its payload, JSON can express its bins' values as they are, and
its Kafka key is absent or the record's own key, byte by byte. ``fast_messagepack`` and
``fast_json`` define that for their bytes, and extract the columns of many writes.
"""

from collections.abc import Sequence
from functools import partial
from itertools import compress, repeat
from operator import itemgetter
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from python_udfs.aerospike.records import DIGEST_BYTES, expires_at_of_many, occurred_at_of_many
from python_udfs.core.events import UPSERT, EventColumns
from python_udfs.core.row_images import ColumnImages

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
    user_key_type: type
    image: type[msgspec.Struct]
    """The row image, made from the bins' values in order."""
    bins: msgspec.Raw | msgspec.UnsetType
    """``metadata.bins``; unset in flat JSON."""


def common(
    namespace: str, set_name: str | None, user_key_type: type, bins: dict[str, dict[str, Any]]
) -> Common:
    """``bins`` is ``metadata.bins``. Raises ``ValueError`` for a name that JSON has to escape."""
    fields = {f"bin_{place}": name for place, name in enumerate(bins)}
    image = msgspec.defstruct("Image", [(field, Any) for field in fields], gc=False, rename=fields)
    return Common(namespace, set_name, user_key_type, image, msgspec.Raw(msgspec.json.encode(bins)))


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
    """Columns of writes."""

    record_keys: Sequence[tuple[str, str | None, bytes, Any]]
    generations: Sequence[int | None] | None
    """None if no write has one; the same for the next two."""
    expiries: Sequence[int | None] | None
    luts: Sequence[int | None] | None
    bins: list[list[Any]]
    """The values of each bin."""


def event_columns(common: Common, writes: Writes, parts: Parts) -> EventColumns:
    """The events of plain writes."""
    nothing = [None] * len(parts.record_keys)
    return EventColumns(
        operation=UPSERT,
        source_database=None,
        source_schema=common.namespace,
        source_table=common.set_name,
        record_key=partial(_record_keys, parts),
        before=None,
        after=partial(_images, common, parts),
        occurred_at=nothing if parts.luts is None else occurred_at_of_many(parts.luts),
        expires_at=None if parts.expiries is None else expires_at_of_many(parts.expiries),
        metadata=partial(_metadata, common, writes, parts),
        key_names=_RecordKey.__struct_fields__,
        images=ColumnImages(
            [False] * len(nothing), partial(_columns, common, parts), _encode_lines
        ),
    )


def _record_keys(parts: Parts) -> bytes:
    return _encode_lines([_RecordKey(digest) for _, _, digest, _ in parts.record_keys])


def _images(common: Common, parts: Parts) -> bytes:
    return _encode_lines(list(map(common.image, *parts.bins)))


def _columns(common: Common, parts: Parts) -> dict[str, list[Any]]:
    """The images by column."""
    return dict(zip(common.image.__struct_encode_fields__, parts.bins, strict=True))


def _metadata(common: Common, writes: Writes, parts: Parts) -> bytes:
    event_keys: Any = repeat(UNSET)
    if writes.has_keys:
        event_keys = [
            UNSET if key is None else own
            for key, own in zip(writes.keys, parts.record_keys, strict=True)
        ]
    metadata = map(
        _Metadata,
        *(repeat(UNSET) if part is None else part for part in parts[1:4]),
        map(itemgetter(3), parts.record_keys)
        if common.user_key_type in USER_KEY_TYPES
        else repeat(UNSET),
        repeat(USER_KEY_TYPES.get(common.user_key_type, UNSET)),
        repeat(common.bins, len(parts.record_keys)),
        event_keys,
    )
    return _encode_lines(list(metadata))
