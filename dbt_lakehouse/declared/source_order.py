"""The source's own order of events, for change logs that don't follow Kafka's (``order_by``).

A place is text that compares as the source's own places do (``python_udfs.typed.source_places``).
It comes first in the log's `_position`, so that every comparison of positions follows it, and
Kafka's order only for equal places.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from python_udfs.typed.source_places import COMMIT, NUMBER, SEQUENCE

CONNECTORS: Final[Mapping[str, Sequence[str]]] = {
    # The LSN of the last commit, then the event's own: transactions are sent in the order of
    # their commits, and the LSNs of their events interleave.
    "postgresql": ("source.sequence",),
    "mysql": ("source.file", "source.pos", "source.row"),
    "sqlserver": ("source.commit_lsn", "source.change_lsn", "source.event_serial_no"),
    # A change has the SCN of the time at which it was made: a snapshot between that and its
    # commit lacks it.
    "oracle": ("source.commit_scn", "source.scn"),
}
"""The places of events that Debezium's connectors give."""
_FORMS: Final = {
    "source.sequence": SEQUENCE,
    "source.commit_scn": COMMIT,
    "source.file": "file",
    "source.gtid": "file",
    "source.commit_lsn": "lsn",
    "source.change_lsn": "lsn",
}
"""The forms of place parts that are not numbers."""
_POSITION: Final = "log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")


def position_type(by_source: bool) -> str:
    """The type of `_position`, in a log that its source orders or in Kafka's order."""
    return f"struct<{'source:string,' if by_source else ''}{_POSITION}"


def parts_of(order_by: Any, specs: Sequence[Mapping[str, Any]], title: str) -> list[dict[str, Any]]:
    """The parts of places, as ``python_udfs.typed.declared.PlacePart``, from a change log's
    declaration: the name of a connector, or names of columns and paths of metadata.

    Raises ``CompilationError`` for what can't be compared.
    """
    names = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(names, list | tuple) or not names or not all(map(_is_name, names)):
        raise CompilationError(
            f"the change log of {title} has order_by={json.dumps(order_by, default=str)}: it is"
            f" a connector ({', '.join(CONNECTORS)}), or a list of columns of the log and paths of"
            ' metadata: ["source.lsn"]'
        )
    if isinstance(order_by, str):
        names = CONNECTORS.get(order_by, names)
    columns = {spec["column"]: spec for spec in specs}
    if "source.sequence" in names[1:]:
        raise CompilationError(
            f"the change log of {title} is ordered by source.sequence after another place: it has"
            " the last commit, so it can only be the first"
        )
    return [_part(name, columns, title) for name in names]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and all(name.split("."))


def _part(name: str, columns: Mapping[str, Mapping[str, Any]], title: str) -> dict[str, Any]:
    if name not in columns:
        if "." in name:
            return {"form": _FORMS.get(name, NUMBER), "path": name.split(".")}
        raise CompilationError(
            f"the change log of {title} is ordered by {name}, which is not one of its columns"
            f" ({', '.join(columns)}), nor a connector ({', '.join(CONNECTORS)}), nor a path of"
            " metadata, which has a dot (source.lsn)"
        )
    spec = columns[name]
    if "mask" in spec:
        raise CompilationError(
            f"the change log of {title} is ordered by {name}, which has a mask: the places of rows"
            " would reveal its values. Order it by another column"
        )
    type = spec["type"]
    if type in _TIMES or type.startswith(_INTEGERS):
        return {"form": NUMBER, "column": name}
    raise CompilationError(
        f"the change log of {title} is ordered by {name}, which is {type}: it must be an"
        " integer, a decimal, a date or a timestamp"
    )
