"""Explain a message: what its decoder makes of it, and the trees of its key and value."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from dbt_lakehouse.commands.explain import (
    aerospike,
    avro,
    change_streams,
    debezium,
    json_tree,
    messagepack,
    rows,
)
from dbt_lakehouse.commands.explain.explain_output import Explanation, Part, Wrong
from dbt_lakehouse.commands.explain.guess import AEROSPIKE_AVRO, MONGODB, Guess, guess
from dbt_lakehouse.commands.explain.nodes import MOST_WANTED, Limits, Node, Tree, located
from dbt_lakehouse.lake.schema_registry import know_schemas_of
from python_udfs.aerospike.batches import split_json
from python_udfs.core.errors import NotJson, NotMessagePack, TrailingBytes, Truncated
from python_udfs.core.events import Event, Headers
from python_udfs.core.limits import MAX_PAYLOAD_BYTES
from python_udfs.registry import (
    AEROSPIKE_FORMATS,
    AVRO_FORMATS,
    UNWRAPPED_FORMATS,
    decode_payload,
)
from python_udfs.text import json_text

_MESSAGEPACK: Final = "aerospike_messagepack"
_MAXWELL: Final = "maxwell_json"
_CANAL: Final = "canal_json"
# Formats of records, alone or in batches, in which trailing commas are allowed.
_AEROSPIKE_JSON: Final = {
    "aerospike_json": aerospike.name_json,
    "aerospike_flat_json": aerospike.name_flat_json,
}
_ROWS: Final = {
    "aws_dms_json": rows.name_dms_record,
    "cockroachdb_json": rows.name_changefeed,
}
_BINARY: Final = frozenset((_MESSAGEPACK, *AVRO_FORMATS))
# The position of an Avro error.
_BYTE: Final = re.compile(r"\bat byte (\d+)")
# How sentences about MessagePack refer to their value.
_VALUE_AT: Final = re.compile(r"(?:in the str|arrays and maps) at byte (\d+)")
# Errors after which the bytes can't be read on.
_STRUCTURE: Final = frozenset(
    each.code for each in (NotJson, NotMessagePack, TrailingBytes, Truncated)
)


def explain(
    key: bytes | None,
    value: bytes | None,
    limits: Limits,
    told: Guess | None = None,
    headers: Headers | None = None,
) -> Explanation:
    """The explanation of a message, in the format that was ``told``, or in a guessed one."""
    know_schemas_of(told and told.format, (key, value))
    found = told or guess(key, value, headers)
    events = list(found.events) or decode_payload(found.format, key, value, headers)
    explanation = Explanation(found.format, found.how, list(found.others), events)
    if key is not None:
        explanation.key = Part(_key_tree(found.format, key, events, limits), key)
    if value is not None:
        tree = _value_tree(found.format, value, events, limits)
        explanation.value = Part(tree, value)
        explanation.wrong = [
            _wrong(found.format, tree, value, event)
            for event in events
            if event.error_code is not None
        ]
    return explanation


def _key_tree(format_name: str, key: bytes, events: Sequence[Event], limits: Limits) -> Tree:
    tree = _tree(format_name, key, limits)
    if tree.root is not None and tree.rest is None:
        if format_name in AEROSPIKE_FORMATS:
            root = _root(format_name, tree.root, key)
            if root is not None:
                aerospike.name_key(root, events)
        elif _is_avro(format_name, key):
            avro.name_key(tree.root, key, events)
        elif format_name == _MAXWELL:
            rows.name_maxwell_key(tree.root, events)
        elif format_name == MONGODB:
            change_streams.name_key(tree.root, key, events)
        else:
            debezium.name_key(tree.root, key, events)
    return tree


def _value_tree(format_name: str, value: bytes, events: Sequence[Event], limits: Limits) -> Tree:
    wanted = [each.event_index for each in events if each.error_code is not None][:MOST_WANTED]
    batch = split_json(value) if _is_broken_batch(format_name, value, events) else None
    if batch is not None:
        tree = json_tree.tree_of_batch(value, batch, limits, wanted)
    else:
        tree = _tree(format_name, value, limits, wanted, is_value=True)
    if (
        tree.rest is None
        and events[-1].error_code == Truncated.code
        and format_name not in AVRO_FORMATS
    ):
        # With another error before its end.
        tree.rest = tree.size
    if tree.root is not None:
        if format_name == _MESSAGEPACK:
            aerospike.name_messagepack(tree.root, events)
        elif format_name in _AEROSPIKE_JSON:
            _AEROSPIKE_JSON[format_name](tree.root, events)
        elif format_name == AEROSPIKE_AVRO:
            record = avro.value_of(tree.root)
            if record is not None:
                aerospike.name_flat_json(record, events)
        elif format_name in AVRO_FORMATS:
            avro.name_value(tree.root, value, events, format_name in UNWRAPPED_FORMATS)
        elif format_name in _ROWS:
            _ROWS[format_name](tree.root, events)
        elif format_name in (_MAXWELL, _CANAL):
            rows.name_message(format_name, tree.root, events)
        elif format_name == MONGODB:
            change_streams.name_value(tree.root, value, events)
        elif format_name in UNWRAPPED_FORMATS:
            rows.name_unwrapped(tree.root, value, events)
        else:
            debezium.name_value(tree.root, value, events)
    return tree


def _is_avro(format_name: str, text: bytes) -> bool:
    """Whether a text is in Avro: a key need not be."""
    return format_name in AVRO_FORMATS and avro.is_framed(text)


def _root(format_name: str, root: Node, text: bytes) -> Node | None:
    """The node that a decoder calls ``$``: in Avro the value in the frame, if that could
    be read.
    """
    return avro.value_of(root) if _is_avro(format_name, text) else root


def _is_broken_batch(format_name: str, value: bytes, events: Sequence[Event]) -> bool:
    """Whether the decoder has parsed the elements of a batch one by one."""
    return (
        format_name in _AEROSPIKE_JSON
        and (len(events) > 1 or (events[0].error_detail or "").startswith("$["))
        and json_text.fault(value, trailing_commas=True) is not None
    )


def _tree(
    format_name: str,
    text: bytes,
    limits: Limits,
    wanted: Collection[int] = (),
    is_value: bool = False,
) -> Tree:
    if not text or len(text) > MAX_PAYLOAD_BYTES:
        return Tree(len(text), rest=0 if text else None)
    if format_name == _MESSAGEPACK:
        return messagepack.tree_of(text, limits, wanted)
    if format_name in AVRO_FORMATS and (is_value or avro.is_framed(text)):
        return avro.tree_of(text, limits)
    commas = format_name in _AEROSPIKE_JSON
    return json_tree.tree_of(text, limits, wanted, trailing_commas=commas)


def _wrong(format_name: str, tree: Tree, value: bytes, event: Event) -> Wrong:
    """The decoder's error with its position, which is also noted at the node concerned."""
    code, sentence = event.error_code or "", event.error_detail or ""
    found = None
    if format_name in AVRO_FORMATS and (place := _BYTE.search(sentence)):
        return Wrong(event.event_index, code, sentence, int(place[1]))
    root = None if tree.root is None else _root(format_name, tree.root, value)
    if root is not None:
        found = located(root, sentence, "payload" if format_name == _MESSAGEPACK else "")
    is_element = sentence.startswith("$[") and format_name in _AEROSPIKE_JSON
    position: int | None
    if code == Truncated.code and not is_element and format_name not in _BINARY:
        # Not always where the tree ends: of a batch, the decoder reads on behind what is wrong.
        position = len(value)
    elif code in _STRUCTURE and not is_element:
        position = tree.rest
    elif found is not None:
        node, is_exact = found
        if format_name == _MESSAGEPACK and (place := _VALUE_AT.search(sentence)):
            # Within a map's key the path has fewer steps than here, and may lead elsewhere.
            start = int(place[1])
            node = next((each for each in tree.nodes() if each.start == start), node)
            is_exact = node.start == start
        if code not in node.wrong:
            node.wrong.append(code)
        position = node.start if is_exact else None
        if position is not None and is_element and ", from byte " in sentence:
            fault = json_text.fault(value[node.start : node.end], trailing_commas=True)
            position += fault.position if fault else 0
    else:
        commas = format_name in _AEROSPIKE_JSON
        fault = None
        if format_name not in _BINARY:
            fault = json_text.fault(value, trailing_commas=commas)
        position = fault.position if fault else None
    return Wrong(event.event_index, code, sentence, position)
