"""What a change says of a row, one change at a time: ``images.row_texts_of_many`` for tests."""

from typing import NamedTuple

import msgspec

from python_udfs.typed.images import Texts, row_texts_of_many


class RowTexts(NamedTuple):
    """The texts of fields in each of a change's images."""

    before: Texts
    after: Texts
    key: Texts
    parts: Texts = None


def row_texts(
    before: str | None, after: str | None, record_key: str | None, fields: str
) -> RowTexts:
    """``fields`` is JSON of two lists: the fields, of which a path is a list; those of the key."""
    asked, key = msgspec.json.decode(fields)
    images = [[None if text is None else text.encode()] for text in (before, after, record_key)]
    found = row_texts_of_many(
        images[0],
        images[1],
        images[2],
        tuple(each if isinstance(each, str) else tuple(each) for each in asked),
        tuple(key),
    )
    return RowTexts(*(texts for (texts,) in found))
