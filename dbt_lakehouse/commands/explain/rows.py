"""The columns that the parts of rows without Debezium's envelope became: from Maxwell, Canal, AWS
DMS, CockroachDB, and unwrapped ones.

Sources: the docstrings of ``python_udfs.binlog.maxwell``, ``python_udfs.binlog.canal``,
``python_udfs.aws_dms``, ``python_udfs.cockroachdb`` and ``python_udfs.debezium.unwrapped``.
"""

from collections.abc import Sequence
from typing import Final

from dbt_lakehouse.commands.explain.columns import Columns, by_index
from dbt_lakehouse.commands.explain.debezium import taken_apart, tell_notes, time_of
from dbt_lakehouse.commands.explain.nodes import ELIDED, Node
from python_udfs.aws_dms import COMMITTED
from python_udfs.cockroachdb import TIMES
from python_udfs.core.events import DELETE, Event
from python_udfs.debezium.unwrapped import PREFIX

_OF_MESSAGE: Final = {
    "database": ("source_database",),
    "table": ("source_table",),
    "type": ("operation",),
}
_TIMES: Final = {"maxwell_json": "ts", "canal_json": "es"}
_OF_RECORD: Final = {
    "operation": ("operation",),
    "schema-name": ("source_schema",),
    "table-name": ("source_table",),
    COMMITTED: ("occurred_at",),
}
_ADDED: Final = {
    "op": ("operation",),
    "deleted": ("operation", "metadata.deleted"),
    "db": ("source_database",),
    "schema": ("source_schema",),
    "table": ("source_table",),
    "ts_ms": ("metadata.ts_ms",),
    "source_ts_ms": ("occurred_at",),
}


def name_message(format_name: str, root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a value from Maxwell or Canal."""
    columns = Columns(events[0])
    found = by_index(events)
    for part in root.children:
        name = str(part.step)
        if name in ("data", "old"):
            if part.kind != "array":
                _fill_row(part, name, events[0])
            for row in part.children if part.kind == "array" else ():
                if isinstance(row.step, int) and row.step in found:
                    _fill_row(row, name, found[row.step])
        elif name == _TIMES[format_name]:
            part.note = time_of(part)
            columns.fill(part, "occurred_at", f"metadata.{name}")
        else:
            columns.fill(part, *_OF_MESSAGE.get(name, ()), f"metadata.{name}")


def name_maxwell_key(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a Kafka key from Maxwell."""
    columns = Columns(events[0])
    columns.fill(root, "metadata.event_key")
    waiting = [*root.children]
    while waiting:
        part = waiting.pop()
        columns.fill(part, f"record_key.{str(part.step).removeprefix('pk.')}")
        waiting += part.children


def name_dms_record(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a value from AWS DMS."""
    columns = Columns(events[0])
    for part in root.children:
        name = str(part.step)
        if name == "metadata":
            for field in part.children:
                step = str(field.step)
                columns.fill(field, *_OF_RECORD.get(step, ()), f"metadata.{step}")
            columns.fill(part, "metadata.metadata")
        elif name != "data" and name in columns.metadata:
            columns.fill(part, f"metadata.{name}")
        elif part.kind == "object":
            _fill_row(part, "data" if name == "data" else "old", events[0])


def name_changefeed(root: Node, events: Sequence[Event]) -> None:
    """Name the parts of a value from a CockroachDB changefeed."""
    columns = Columns(events[0])
    names = [str(part.step) for part in root.children]
    time = next((name for name in TIMES if name in names), None)
    for part in root.children:
        name = str(part.step)
        if name in columns.metadata:
            columns.fill(part, *(("occurred_at",) if name == time else ()), f"metadata.{name}")
        else:
            _fill_row(part, "old" if name == "before" else "data", events[0])


def name_unwrapped(root: Node, text: bytes, events: Sequence[Event]) -> None:
    """Name the parts of a row's value, with or without its schema block."""
    name_row(taken_apart(root, text), events)


def name_row(row: Node, events: Sequence[Event]) -> None:
    """Name the parts of a row."""
    columns = Columns(events[0])
    image = "before" if events[0].operation == DELETE else "after"
    for part in row.children:
        name = str(part.step)
        before = len(part.became)
        columns.fill(part, f"{image}.{name}")
        if len(part.became) > before:
            tell_notes(part, image, columns)
        elif name.startswith(PREFIX):
            added = name[len(PREFIX) :]
            if added == "source_ts_ms":
                part.note = time_of(part)
            columns.fill(part, *_ADDED.get(added, _ADDED.get(added.removeprefix("source_"), ())))
            if part.kind != ELIDED and not part.became and "source" in columns.metadata:
                part.became.append("metadata.source")


def _fill_row(row: Node, name: str, event: Event) -> None:
    columns = Columns(event)
    image = "before" if name == "old" or event.operation == DELETE else "after"
    filled = False
    for part in row.children:
        columns.fill(part, f"{image}.{part.step}")
        tell_notes(part, image, columns)
        filled = filled or bool(part.became)
    if not filled:
        columns.fill(row, f"metadata.{name}")
