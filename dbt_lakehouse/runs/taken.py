"""The events that change logs take, by their declarations. All other events stay in
other_events.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dbt_lakehouse.declared.declarations import digest, is_chosen_by_author
from dbt_lakehouse.lake.tables import TAKEN, Table
from dbt_lakehouse.runs.source_filter import IS_CHANGE
from dbt_lakehouse.spark.by_events import Taken
from dbt_lakehouse.texts import sql_texts
from python_udfs.core.events import Source
from python_udfs.registry import AEROSPIKE_FORMATS

_OF_RECORDS: Final = f"format in ({sql_texts(AEROSPIKE_FORMATS)})"
_IS_SET_LESS: Final = f"(operation = 'delete' and source_table is null and {_OF_RECORDS})"


@dataclass(frozen=True, slots=True)
class TakenEvents:
    """The events that a project's change logs take."""

    tables: Taken
    """The source tables whose events are all taken."""
    others: str
    """A condition on events (SQL) for the taken ones of all other tables."""
    condition: str
    """The condition for all taken events."""

    text: str
    """The conditions of each log, as JSON."""

    @classmethod
    def nothing(cls) -> "TakenEvents":
        """No events taken."""
        return taken([])

    @property
    def notes(self) -> dict[str, str]:
        """The notes of a commit whose rows are exactly the events not taken."""
        return {TAKEN: digest(self.text)}

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the table needs before such a commit."""
        return {f"{TAKEN}.{digest(self.text)}": self.text}

    def changed(self, before: str | None) -> "Changed | None":
        """The difference from the time when ``before`` was the text; None without a difference."""
        if before is None or before == self.text:
            return None
        then, now = set(json.loads(before)), set(json.loads(self.text))
        return Changed(come=_any_of(now - then), left=_any_of(then - now))


def text_of(table: Table) -> str | None:
    """The ``TakenEvents.text`` to which the rows of other_events (``table``) were last adapted;
    None if the table does not tell.
    """
    return table.noted_text(TAKEN)


def conditions_taken(table: Table) -> list[str]:
    """The conditions of the logs whose events other_events (``table``) leaves out, as SQL."""
    found: list[str] = json.loads(text_of(table) or "[]")
    return found


class Changed(NamedTuple):
    """Conditions on events, as SQL; ``false`` for no events."""

    come: str
    """Events that logs have begun to take."""
    left: str
    """Events that logs no longer take."""


def taken(logs: Iterable[Mapping[str, Any]]) -> TakenEvents:
    """The events that logs take, from their declarations (``declarations.change_log``).

    An Aerospike delete without a set concerns all tables of its namespace, so it stays in
    other_events.
    """
    of_records: set[Source] = set()
    of_rows: set[Source] = set()
    all_of, others = set(), set()
    for log in logs:
        all_of.add(condition_of(log))
        is_plain = not any(each.startswith("topic ") for each in log["conditions"])
        if log["sources"] is None or is_chosen_by_author(log) or not is_plain:
            others.add(condition_of(log))
            continue
        tables = of_rows if log["namespace"] is None else of_records
        tables.update((each[0], each[1], each[2]) for each in log["sources"])
    return TakenEvents(
        tables=Taken(frozenset(of_records), frozenset(of_rows)),
        others=_any_of(others),
        condition=_any_of(all_of),
        text=json.dumps(sorted(all_of)),
    )


def condition_of(log: Mapping[str, Any]) -> str:
    """The condition for the events that a log takes, as SQL."""
    return " and ".join(log["conditions"])


def _any_of(conditions: Iterable[str]) -> str:
    alternatives = " or ".join(f"({each})" for each in sorted(conditions))
    if not alternatives:
        return "false"
    return f"coalesce({IS_CHANGE} and not {_IS_SET_LESS} and ({alternatives}), false)"
