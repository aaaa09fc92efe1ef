"""The rows of a change log as SQL: its events, each with its typed row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbt_lakehouse.build.decoding import Decoding, added_events
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.declared import declarations, message_keys
from dbt_lakehouse.declared.columns import header_names, is_beside, quoted
from dbt_lakehouse.runs.full_snapshots import NO_RECONCILING, reconciles
from dbt_lakehouse.runs.log_input import LogInput, Part, all_input
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.runs.source_filter import IS_CHANGE
from python_udfs.core.events import HEAD_FIELDS, fields_with

# The texts that former_key_parts reads.
_OF_FORMER: Final = ("record_key", "after")

Log = Mapping[str, Any]
"""A change log's declaration (``declarations.change_log``)."""
Keys = Sequence[Sequence[str]]
"""The names that record keys may have, a list for each key; empty for any."""


@dataclass(frozen=True, slots=True)
class AllThere:
    """The input of a log that is only compiled: everything."""

    events: Any
    """other_events."""
    payloads: Any
    """bronze's payloads."""


def read(
    decoding: Decoding,
    of: NodeRun | AllThere,
    log: Log,
    which: Part = Part.NEW,
    near: str | None = None,
) -> str:
    """The decoded events that a run of a log reads, or another part of its events: a relation
    with the columns of other_events. ``near`` is a condition on their `log_time`.
    """
    return decoding.events_of(
        _input(decoding.lake, of, log, which),
        [*declarations.payload_conditions(log), *([near] if near else [])],
        [*_changes_of(log), *declarations.event_conditions(log)],
    )


def _changes_of(log: Log) -> list[str]:
    """The conditions on events that change a row of a log. Only logs that reconcile snapshots
    take those of snapshots.
    """
    return [IS_CHANGE, *([] if reconciles(log) else [NO_RECONCILING])]


def _input(lake: Lake, of: NodeRun | AllThere, log: Log, which: Part) -> LogInput:
    if isinstance(of, NodeRun):
        return lake.events.log_input(of, log, which)
    return all_input(of.events, of.payloads)


class LogRows:
    """The SQL of the rows of a change log; ``name`` is its model's."""

    def __init__(self, name: str, log: Log, decoding: Decoding) -> None:
        self._name: Final = name
        self._decoding: Final = decoding
        self.log: Final = log

    @property
    def leaves_columns(self) -> bool:
        """Whether its rows have a column for what events leave unchanged."""
        return bool(self.log["key"]) or self.log["partial"]

    @property
    def has_key(self) -> bool:
        """Whether the source's table has a key of its own."""
        return bool(self.log["key"]) and not self.log["keyless"]

    @property
    def value_columns(self) -> list[str]:
        """The value columns of its rows, quoted. Columns beside the row are left out: they are of
        a single event.
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
        """The rows, as SQL, of a relation from ``events``; the query fails on an event whose record
        key has other names than ``keys``. ``places`` is a relation of the events whose log time
        changes; ``has_former`` means that ``events`` got ``former``.
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

    def events(
        self,
        of: NodeRun | AllThere,
        which: Part = Part.NEW,
        keys: Keys = (),
        former: Mapping[str, str] | None = None,
    ) -> str:
        """The events that a run reads, or another part of them, each with its row (`change`), as
        a relation. ``former`` is given if events with other keys come before all others: it maps
        the names of key fields to their names in those events.
        """
        found = _input(self._decoding.lake, of, self.log, which)
        relations = []
        if found.payloads is not None and found.topics != []:
            relations.append(self._decoded(found, keys, former))
        if found.added is not None or not relations:
            relations.append(self._typed(found, keys, former))
        head = HEAD_FIELDS if former is None else fields_with(_OF_FORMER)
        return f"(\n{render('log_events', relations=relations, head=head)}\n)"

    def _decoded(self, found: LogInput, keys: Keys, former: Mapping[str, str] | None) -> str:
        """The events of payloads, decoded from the bytes by a function that knows the log."""
        format_sql = found.format or self._decoding.payload_format()
        conditions = declarations.payload_conditions(self.log)
        payloads = part("payload_parts", "payloads_to_read", found, format_sql, conditions)
        schemas = self._decoding.know_schemas_of(payloads, format_sql)
        texts = declarations.texts_to_choose_by(self.log)
        if former is not None:
            texts = [*dict.fromkeys([*texts, *_OF_FORMER])]
        function = self._decoding.lake.functions.log_function(
            self._name, self.log, keys, former, texts, schemas
        )
        events = part(
            "payload_parts",
            "events_in",
            payloads,
            format_sql,
            function,
            [*fields_with(texts), "change"],
            more=["log_time"],
            headers=header_names(self.log),
        )
        return part(
            "payload_parts", "wanted", events, found, declarations.event_conditions(self.log)
        )

    def _typed(self, found: LogInput, keys: Keys, former: Mapping[str, str] | None) -> str:
        """The log's events that other_events has, which no payload contains itself: their rows are
        made from their texts.
        """
        names = header_names(self.log)
        conditions = [*_changes_of(self.log), *self.log["conditions"]]
        function = self._decoding.lake.functions.typed_rows(self._name, self.log, keys, former)
        # No column has a record's digest.
        is_of_record = self.log["namespace"] is not None
        rows = render(
            "typed_events",
            events=added_events(found, conditions, names),
            function=function,
            record_key="cast(null as string)" if is_of_record else "record_key",
            has_headers=bool(names),
        )
        return f"(\n{rows}\n)"

    def read(self, of: NodeRun | AllThere, which: Part = Part.NEW, near: str | None = None) -> str:
        """Events of the log as decoded, see the function ``read``."""
        return read(self._decoding, of, self.log, which, near)

    def of_former(self, run: NodeRun, keys: Keys, former: Mapping[str, str]) -> str:
        """The rows of a log where events with other keys come before all others."""
        return self.sql(
            self.events(run, keys=keys, former=former), keys, run.places, has_former=True
        )

    def fitting(self, columns: Sequence[str]) -> str:
        """The name of a function that gives the misfits which fit some columns."""
        return self._decoding.lake.functions.typed_misfits(self._name, self.log, columns)
