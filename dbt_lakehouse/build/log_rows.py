"""The rows of a change log as SQL: of its events, each with its typed row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.declared import declarations, message_keys
from dbt_lakehouse.declared.columns import is_beside, quoted
from dbt_lakehouse.runs.full_snapshots import NO_RECONCILING, reconciles
from dbt_lakehouse.runs.log_input import LogInput, Part, all_input
from dbt_lakehouse.runs.model_run import NodeRun

Log = Mapping[str, Any]
"""A change log's declaration (``declarations.change_log``)."""
Keys = Sequence[Sequence[str]]
"""The names that record keys may have, a list for each; none for any."""

# Whether an event changes a row.
_IS_CHANGE: Final = "operation in ('snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate')"
# The columns of an event that tell where it is from, and what its row does not say.
_HEAD: Final = (
    "event_index",
    "operation",
    "source_database",
    "source_schema",
    "source_table",
    "record_key",
    "occurred_at",
    "expires_at",
    "metadata",
)


@dataclass(frozen=True, slots=True)
class AllThere:
    """What is read of a log that is compiled only: all that there is."""

    events: Any
    """other_events."""
    payloads: Any
    """Those of bronze."""


def read(
    decoding: Decoding,
    of: NodeRun | AllThere,
    log: Log,
    which: Part = Part.NEW,
    near: str | None = None,
) -> str:
    """The events that a run of a log reads, or a part of all that it has read and is to read, as
    their payloads say them: a relation with the columns of other_events. ``near`` is a condition on
    `log_time` that they meet.
    """
    return decoding.events_of(
        _input(decoding.lake, of, log, which),
        [*declarations.payload_conditions(log), *([near] if near else [])],
        [*_changes_of(log), *declarations.event_conditions(log)],
    )


def _changes_of(log: Log) -> list[str]:
    """The conditions on events that change a row of some log: those of snapshots are not all
    logs'.
    """
    return [_IS_CHANGE, *([] if reconciles(log) else [NO_RECONCILING])]


def _input(lake: Lake, of: NodeRun | AllThere, log: Log, which: Part) -> LogInput:
    if isinstance(of, NodeRun):
        return lake.events.log_input(of, log, which)
    return all_input(of.events, of.payloads)


class LogRows:
    """What gives the rows of a change log, that of the model of a name."""

    def __init__(self, name: str, log: Log, decoding: Decoding) -> None:
        self._name: Final = name
        self._decoding: Final = decoding
        self.log: Final = log

    @property
    def leaves_columns(self) -> bool:
        """Whether its rows have a column of what events leave as it was."""
        return bool(self.log["key"]) or self.log["partial"]

    @property
    def has_key(self) -> bool:
        """Whether the source's table has a key of its own."""
        return bool(self.log["key"]) and not self.log["keyless"]

    @property
    def value_columns(self) -> list[str]:
        """The value columns of its rows, quoted: what the source said beside those is of one event
        alone.
        """
        return quoted(
            spec["column"]
            for spec in self.log["columns"]
            if not is_beside(spec) and spec["column"] not in self.log["key"]
        )

    def sql(
        self,
        events: str,
        keys: Keys = (),
        places: str | None = None,
        has_former: bool = False,
    ) -> str:
        """Its rows, of a relation of ``new`` or ``typed``; the query fails on an event whose record
        key has other names than ``keys``. ``places`` is a relation of the events that get another
        log time, ``has_former`` as in ``typed``.
        """
        refusal = message_keys.REFUSAL if keys else None
        return render(
            "change_log",
            log=self.log,
            events=events,
            refusal=refusal,
            places=places,
            has_former=has_former,
        )

    def new(self, of: NodeRun | AllThere, keys: Keys) -> str:
        """The events that a run reads, with their rows, as a relation."""
        if declarations.is_chosen_by_texts(self.log):
            return self.typed(self.read(of), keys)
        found = _input(self._decoding.lake, of, self.log, Part.NEW)
        relations = []
        if found.payloads is not None:
            relations.append(self._decoded(found, keys))
        if found.added is not None or not relations:
            added = part(
                "payloads", "added", found, [*_changes_of(self.log), *self.log["conditions"]]
            )
            relations.append(self.typed(added, keys))
        return f"(\n{render('log_events', relations=relations, head=_HEAD)}\n)"

    def _decoded(self, found: LogInput, keys: Keys) -> str:
        """Events of payloads by a function that knows the log, straight from the bytes."""
        format_sql = found.format or self._decoding.payload_format()
        conditions = declarations.payload_conditions(self.log)
        payloads = part("payloads", "payloads_to_read", found, format_sql, conditions)
        schemas = self._decoding.know_schemas_of(payloads, format_sql)
        function = self._decoding.lake.functions.log_function(self._name, self.log, keys, schemas)
        events = part(
            "payloads",
            "events_in",
            payloads,
            format_sql,
            function,
            [*_HEAD, "change"],
            more=["log_time"],
        )
        return part("payloads", "wanted", events, found, declarations.event_conditions(self.log))

    def read(self, of: NodeRun | AllThere, which: Part = Part.NEW, near: str | None = None) -> str:
        """The same events, or others of the log's, see ``read``."""
        return read(self._decoding, of, self.log, which, near)

    def typed(self, events: str, keys: Keys = (), former: Mapping[str, str] | None = None) -> str:
        """Events with their rows, of a relation with the columns of other_events. ``former`` is
        given if events with other keys come before all others: what fields of the key were called
        in those, by their names.
        """
        function = self._decoding.lake.functions.typed_rows(self._name, self.log, keys, former)
        # No column has a record's digest.
        is_of_record = self.log["namespace"] is not None
        record_key = "cast(null as string)" if is_of_record else "record_key"
        rows = render("typed_events", events=events, function=function, record_key=record_key)
        return f"(\n{rows}\n)"

    def of_former(self, run: NodeRun, keys: Keys, former: Mapping[str, str]) -> str:
        """Its rows where events with other keys come before all others."""
        return self.sql(self.typed(self.read(run), keys, former), keys, run.places, has_former=True)

    def fitting(self, columns: Sequence[str]) -> str:
        """The name of a function that gives what of misfits has a place in some columns."""
        return self._decoding.lake.functions.typed_misfits(self._name, self.log, columns)
