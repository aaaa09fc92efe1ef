"""What a gold table or a history takes of its change log's declaration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.declared.columns import is_beside, quoted
from dbt_lakehouse.declared.source_order import position_type
from dbt_lakehouse.texts import did_you_mean

_TECHNICAL_TYPES: Final = {
    "_namespace": "string",
    "_set": "string",
    "_digest": "string",
    "_source": "struct<database:string,schema:string,table:string>",
    "_occurred_at": "timestamp",
    "_max_occurred_at": "timestamp",
    "_expires_at": "timestamp",
    "_deleted_at": "timestamp",
    "_row": "string",
    "_copy": "int",
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "is_current": "boolean",
    "recorded_from": "timestamp",
    "recorded_to": "timestamp",
}
_VALID: Final = ("valid_from", "valid_to", "is_current")
RECORDED: Final = ("recorded_from", "recorded_to")
"""The columns with the time in which runs believed a version of a bitemporal history."""
DELETED_AT: Final = "_deleted_at"
"""When the row was deleted, in a gold table that keeps deleted rows; null in live rows."""

MOST_AHEAD: Final = 24 * 60 * 60 * 1_000_000
"""A source time that is more microseconds ahead of Kafka's timestamp counts as unknown: it comes
from a wrong clock, and would block all later events of its key. ``reference.fold`` states the rule
on its own.
"""


@dataclass(frozen=True, slots=True)
class Fold:
    """The declaration from which the SQL of a gold table or a history is made. Names are quoted."""

    key: list[str]
    columns: list[str]
    """The value columns; for Aerospike sets also `_namespace` and `_set`, for logs of several
    source tables also `_source`.
    """
    namespace: str | None
    order_by_source_time: bool
    partial: bool
    keyless: bool
    several_sources: bool
    types: dict[str, str]
    """The types of all columns of the log by name, as Spark's DDL."""
    track_columns: list[str] | None = None
    beside: list[str] = field(default_factory=list)
    """The value columns that the source gave beside the row."""
    bitemporal: bool = False
    """Whether a history also has what was believed before."""
    masked: list[str] = field(default_factory=list)
    """The value columns that are masked."""
    deleted_rows: bool = False
    """Whether a gold table keeps the rows of deleted keys."""
    order_by: list[dict[str, Any]] = field(default_factory=list)
    """The order of the log that goes before Kafka's (``source_order``); empty without one."""

    @property
    def key_list(self) -> str:
        """The key columns as a list in SQL."""
        return ", ".join(self.key)

    @property
    def position_type(self) -> str:
        """The type of positions in the log."""
        return position_type(bool(self.order_by))

    @property
    def takes_late(self) -> bool:
        """Whether late events are folded in their place rather than rejected: two partial images
        of different columns both count, in whatever order they come.
        """
        return self.partial and self.order_by_source_time

    @property
    def ends_lives(self) -> bool:
        """Whether a row's expiry matters to later events: a partial image of an expired row has
        no columns to leave unchanged.
        """
        return self.partial and self.namespace is not None and bool(self.columns)

    @property
    def may_leave(self) -> bool:
        """Whether events can leave columns unchanged without giving their values."""
        return bool(self.columns) and (self.partial or self.namespace is None)

    @property
    def hashable_columns(self) -> list[str]:
        """The columns of the row that Spark can hash, which excludes maps."""
        return [name for name in self.row_columns if "map<" not in self.types[name.strip("`")]]

    @property
    def row_columns(self) -> list[str]:
        """The value columns without those beside the row: they tell rows apart."""
        return [name for name in self.columns if name not in self.beside]

    @property
    def values(self) -> list[str]:
        """The value columns without `_source`: that of an event is known without its row."""
        return [name for name in self.columns if name != "`_source`"]

    @property
    def gold_columns(self) -> list[str]:
        """The columns of the gold table, in order."""
        return [*self.state_columns, *([DELETED_AT] if self.deleted_rows else ())]

    @property
    def state_columns(self) -> list[str]:
        """The columns of the gold table in which a live row has values."""
        expiry = ["_expires_at"] if self.namespace is not None else []
        return [
            *self.key,
            *self.columns,
            "_occurred_at",
            "_max_occurred_at",
            "_position",
            *expiry,
        ]

    @property
    def rows_columns(self) -> list[str]:
        """The columns of the gold table of a keyless table."""
        return [*self.columns, "_row", "_copy", "_position"]

    @property
    def history_columns(self) -> list[str]:
        """The columns of a version, without its key and its times."""
        expiry = ["_expires_at"] if self.namespace is not None else []
        return [*self.columns, "_occurred_at", "_position", *expiry]

    @property
    def tracked_places(self) -> list[int]:
        """The places of the tracked columns among the value columns."""
        return [self.columns.index(name) for name in self.track_columns or ()]

    @property
    def version_columns(self) -> list[str]:
        """The columns of a history, in order."""
        recorded = RECORDED if self.bitemporal else ()
        return [*self.key, *self.history_columns, *_VALID, *recorded]

    def typed(self, columns: Sequence[str]) -> dict[str, str]:
        """Columns (quoted or not) with their types."""
        return {name: self.types[name] for name in (column.strip("`") for column in columns)}

    def without_columns(self) -> "Fold":
        """The fold of the keys alone, with the columns that truncates need."""
        columns = ["`_source`"] if self.several_sources else []
        return replace(self, columns=columns, beside=[], masked=[])


def key_of(log: Mapping[str, Any]) -> list[str]:
    """The key columns of a change log, by its declaration; of a keyless one all that a row has."""
    return ["_digest"] if log["namespace"] is not None else list(log["key"])


def fold(
    log: Mapping[str, Any],
    columns: Sequence[str] | None = None,
    track_columns: Sequence[str] | None = None,
    *,
    is_history: bool = False,
    bitemporal: bool = False,
    deleted_rows: bool = False,
) -> Fold:
    """The fold of a model, with all columns of its log or some.

    Raises ``CompilationError`` for a column that the log doesn't have, or that the table would
    have twice.
    """
    key = key_of(log)
    all_columns = [spec["column"] for spec in log["columns"]]
    values = all_columns if log["keyless"] else [name for name in all_columns if name not in key]
    _refuse_unknown("change log", columns, values)
    if columns is not None:
        values = [name for name in values if name in columns]
    _refuse_unknown("history", track_columns, values)
    if is_history:
        if log["keyless"]:
            raise CompilationError(
                "a table without a key can't have a history: versions belong to a key"
            )
        own = (*_VALID, *(RECORDED if bitemporal else ()))
        _refuse_taken("a history", own, [*key, *values])
    if deleted_rows:
        if log["keyless"]:
            raise CompilationError(
                "a table without a key keeps no deleted rows, because a deleted row can't be"
                " identified: remove deleted_rows"
            )
        _refuse_taken("a table with deleted_rows", [DELETED_AT], [*key, *values])
    technical = ["_namespace", "_set"] if log["namespace"] is not None else []
    if log["several_sources"]:
        technical.append("_source")
    return Fold(
        key=[] if log["keyless"] else quoted(key),
        columns=quoted(technical + values),
        namespace=log["namespace"],
        order_by_source_time=log["order_by_source_time"],
        partial=log["partial"],
        keyless=log["keyless"],
        several_sources=log["several_sources"],
        types={spec["column"]: spec["type"] for spec in log["columns"]}
        | _TECHNICAL_TYPES
        | {"_position": position_type("order_by" in log)},
        track_columns=None if track_columns is None else quoted(track_columns),
        beside=quoted(
            spec["column"]
            for spec in log["columns"]
            if is_beside(spec) and spec["column"] in values
        ),
        bitemporal=bitemporal,
        masked=quoted(
            spec["column"] for spec in log["columns"] if "mask" in spec and spec["column"] in values
        ),
        order_by=log.get("order_by", []),
        deleted_rows=deleted_rows,
    )


def _refuse_taken(owner: str, own: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if name.lower() in own:
            raise CompilationError(
                f"{owner} has a column {name} of its own: give that of the source another"
                f' name in the change log, by {{"type": ..., "name": "{name}"}}'
            )


def _refuse_unknown(owner: str, chosen: Sequence[str] | None, values: Sequence[str]) -> None:
    unknown = [name for name in chosen or [] if name not in values]
    if unknown:
        meant = did_you_mean(unknown[0], values)
        raise CompilationError(
            f"the {owner} has no value column {', '.join(unknown)}{meant}: it has"
            f" {', '.join(values)}"
        )
