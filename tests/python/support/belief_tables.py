"""The tables of test_beliefs: histories of two times, of the change logs of test_history."""

from pathlib import Path
from typing import Final

from support.history_tables import METERS, TICKETS
from support.row_events import Source
from support.row_lake import log_of
from support.small_project import Gold, add_gold, history

SOURCES: Final = (METERS, TICKETS)


def table_of(source: Source) -> str:
    """The history of what was believed."""
    return f"{source.table}_beliefs"


def gold_of(source: Source, track_columns: list[str] | None = None) -> Gold:
    """The model of the table, and its data test."""
    return history(log_of(source), table_of(source), track_columns, bitemporal=True)


def add_models(project: Path) -> None:
    """Add these tables to a project that has the logs and current states."""
    for source in SOURCES:
        add_gold(project, gold_of(source))
