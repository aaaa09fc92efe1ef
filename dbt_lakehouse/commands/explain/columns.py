"""The columns of a decoded event that the parts of its message became."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dbt_lakehouse.commands.explain.nodes import ELIDED, Node
from dbt_lakehouse.texts import printable, time_text
from python_udfs.core.events import INVALID, Event

_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_TIMES: Final = ("occurred_at", "expires_at")
_LONGEST: Final = 60


class Columns:
    """The columns that a part of a message became: none if its only event is invalid."""

    def __init__(self, event: Event | None) -> None:
        is_valid = event is not None and event.operation != INVALID
        self._event = event if is_valid else None
        self.exists = is_valid
        self.before = self._object("before")
        self.after = self._object("after")
        self.record_key = self._object("record_key")
        self.metadata = self._object("metadata")

    def _object(self, column: str) -> Mapping[str, msgspec.Raw]:
        return fields_of(getattr(self._event, column, None))

    def fill(self, node: Node | None, *columns: str) -> None:
        """Note that a node became these columns, or fields of JSON columns: ``metadata.lut``.
        Columns that the event lacks are left out.
        """
        if node is None or self._event is None:
            return
        for column in columns:
            name, dot, field = column.partition(".")
            if dot:
                self.fill_field(node, column, getattr(self, name).get(field))
            else:
                node.became.append(f"{column} = {shown(self._text(column))}")

    def fill_field(self, node: Node, name: str, value: msgspec.Raw | None) -> None:
        """Note that a node became this field of a JSON column, if the field exists."""
        if value is not None and node.kind != ELIDED:
            node.became.append(f"{shown(name)} = {shown(bytes(value).decode())}")

    def _text(self, column: str) -> str:
        value: Any = getattr(self._event, column)
        if value is None:
            return "null"
        if column in _TIMES:
            return time_text(value * 1000)
        return value.decode() if isinstance(value, bytes) else str(value)


def fields_of(column: bytes | None) -> Mapping[str, msgspec.Raw]:
    """The fields of a JSON column."""
    return {} if column is None else _fields(column)


def shown(text: str, longest: int = _LONGEST) -> str:
    """A text in one line that a terminal can show, cut to a readable length."""
    return printable(text if len(text) <= longest else f"{text[: longest - 3]}...")


def by_index(events: Iterable[Event]) -> dict[int, Event]:
    """Events by their index in a batch."""
    return {event.event_index: event for event in events}
