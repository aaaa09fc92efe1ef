"""The values of Kafka headers, for the columns that change logs declare of them.

A message may have several headers of one name: the last one counts, as for Kafka's ``lastHeader``.
Its value is UTF-8 text. Other bytes are no value of any type, not even of a string; a misfit has
them with replacement characters.
"""

import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.typed.declared import Log


def values_of(log: Log, headers: pa.ListArray) -> list[pa.Array]:
    """For each header column of a log, the value (binary) in each message's headers, a list of
    structs of key and value; null without such a header.
    """
    said, places = headers.flatten(), pc.list_parent_indices(headers)
    names, values = said.field("key"), said.field("value")
    found = []
    for spec in log.headed:
        is_it = pc.equal(names, spec.field)
        pairs = zip(places.filter(is_it).to_pylist(), values.filter(is_it).to_pylist(), strict=True)
        # The last one of a message replaces its others.
        of_message = dict(pairs)
        found.append(pa.array(map(of_message.get, range(len(headers))), pa.binary()))
    return found


def text_of(value: bytes | None) -> tuple[str | None, str | None]:
    """The text of a header's value, None for bytes that are not UTF-8; and the text that a misfit
    has of it.
    """
    if value is None:
        return None, None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None, value.decode(errors="replace")
    return text, text


def texts_of(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """``text_of`` for many values."""
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        said, shown = zip(*map(text_of, values.to_pylist()), strict=True)
        return pa.array(said, pa.string()), pa.array(shown, pa.string())
    return texts, texts
