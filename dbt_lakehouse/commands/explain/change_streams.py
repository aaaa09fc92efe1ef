"""The columns that the parts of events and documents of MongoDB's Kafka connector became.

Source: the docstring of ``python_udfs.change_stream``.
"""

from collections.abc import Sequence
from typing import Final

from dbt_lakehouse.commands.explain.columns import Columns
from dbt_lakehouse.commands.explain.debezium import taken_apart
from dbt_lakehouse.commands.explain.nodes import ELIDED, Node
from dbt_lakehouse.texts import time_text
from python_udfs import change_stream
from python_udfs.core.events import Event

_IMAGES: Final = {change_stream.DOCUMENT: "after", change_stream.BEFORE: "before"}
_NAMES: Final = {"db": "source_database", "coll": "source_table"}


def name_value(root: Node, text: bytes, events: Sequence[Event]) -> None:
    """Name the parts of a value."""
    columns = Columns(events[0])
    payload = taken_apart(root, text)
    if payload.kind != "object":
        # A text by the JsonConverter.
        columns.fill(payload, "operation", "before", "after")
    elif change_stream.TYPE in columns.metadata:
        for part in payload.children:
            _fill(part, columns)
    else:
        for part in payload.children:
            columns.fill(part, f"after.{part.step}")


def name_key(root: Node, text: bytes, events: Sequence[Event]) -> None:
    """Name the parts of a Kafka key."""
    columns = Columns(events[0])
    row = taken_apart(root, text)
    columns.fill(root, "metadata.event_key")
    for part in row.children:
        columns.fill(part, f"record_key.{part.step}")


def _fill(part: Node, columns: Columns) -> None:
    name = str(part.step)
    if name in _IMAGES:
        for value in part.children:
            columns.fill(value, f"{_IMAGES[name]}.{value.step}")
        if part.kind == "string":
            columns.fill(part, _IMAGES[name])
    elif name == change_stream.NAMESPACE:
        for each in part.children:
            if each.kind != ELIDED and each.step in _NAMES:
                columns.fill(each, _NAMES[str(each.step)])
    elif name == change_stream.TYPE:
        columns.fill(part, "operation")
    elif name == change_stream.KEY:
        for each in part.children:
            columns.fill(each, f"record_key.{each.step}")
    elif name == change_stream.DESCRIPTION and part.kind == "object":
        columns.fill(part, "after")
    elif name == change_stream.CLUSTER_TIME:
        columns.fill(part, "occurred_at")
        _tell_time(part)
    columns.fill(part, f"metadata.{name}")


def _tell_time(part: Node) -> None:
    """Note the time that a cluster time's seconds mean."""
    seconds = (part.part("$timestamp") or part).part("t")
    if seconds is not None and isinstance(seconds.value, int):
        seconds.note = time_text(seconds.value * 1_000_000)
