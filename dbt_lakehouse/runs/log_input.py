"""The input of a change log's run: which of bronze's payloads it reads for events, and which rows
of other_events.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from dbt_lakehouse.lake.tables import NO_SNAPSHOT, Table
from dbt_lakehouse.runs import source_filter
from dbt_lakehouse.runs.formats import JSON_ESCAPE
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.texts import sql_texts
from python_udfs.registry import AEROSPIKE_FORMATS, AVRO_FORMATS


class Part(StrEnum):
    """Which part of the input."""

    NEW = "new"
    BEFORE = "before"
    """Read by earlier runs."""
    SO_FAR = "so far"
    """Both."""


@dataclass(frozen=True, slots=True)
class LogInput:
    """The input of a run; relations are SQL to select from, None for nothing."""

    payloads: str | None
    """Payloads of bronze."""
    topics: list[str] | None
    """The topics of wanted events; None if that is unknown."""
    format: str | None
    """The format of a payload of these topics, as SQL; None if they are unknown."""
    added: str | None
    """Rows of other_events, including events that their payload alone does not give."""
    log_times: str | None
    """The log times that differ from their payload's timestamp."""
    excluded: str | None
    """Rows of other_events, including events that payloads must not give: those that could not be
    decoded once, and those that were decoded since and are among ``added``.
    """
    may_name: str | None
    """A condition on payloads with ``format`` (SQL). Payloads with a wanted event meet it, and
    most others of their topics don't; None if all of a topic's events are wanted.
    """
    none: str
    """A table of events, for an empty selection."""
    bronze: str | None = None
    """All payloads of bronze so far, for the headers of redriven ones. None if ``added`` has no
    event of these, or the log has no header columns.
    """


def all_input(events: Any, payloads: Any) -> LogInput:
    """All of other_events and bronze, now or later."""
    return LogInput(
        payloads=str(payloads),
        topics=None,
        format=None,
        added=str(events),
        log_times=None,
        excluded=None,
        may_name=None,
        none=str(events),
        bronze=str(payloads),
    )


def log_input(
    run: NodeRun,
    log: Mapping[str, Any],
    part: Part,
    log_times: str | None,
    format_of: Callable[[Sequence[str], Table], str],
    may_be_redriven: bool = False,
) -> LogInput:
    """The input of a change log's run, from its upstreams other_events and bronze. ``log_times``
    is the table of corrected log times if it has rows; ``format_of`` gives the format of payloads
    of some topics, as other_events has looked at them. ``may_be_redriven``: whether the log needs
    the headers of redriven payloads.
    """
    events, bronze = run.upstreams
    rows = {Part.NEW: run.rows, Part.BEFORE: run.rows_before, Part.SO_FAR: run.rows_so_far}[part]
    reading, table = run.reading(events), run.table_of(events)
    assert table is not None
    is_whole = part is not Part.NEW or reading.since is None
    since = None if is_whole or reading.since is None else reading.since.snapshot
    topics = source_filter.topics_with(table, since, log["sources"])
    is_there = run.has_news_of(bronze) if part is Part.NEW else True
    may_be_added = _may_have(run, table, "added", part)
    may_be_invalid = may_be_added or _may_have(run, table, "invalid", part)
    return LogInput(
        payloads=rows(bronze) if is_there and topics != [] else None,
        topics=topics,
        format=None if topics is None else format_of(topics, table),
        added=rows(events) if may_be_added else None,
        log_times=log_times,
        excluded=run.rows_so_far(events) if may_be_invalid else None,
        may_name=_may_name(table, topics, log["sources"]),
        none=str(events),
        bronze=run.rows_so_far(bronze) if may_be_redriven else None,
    )


# Payloads in these formats contain the table's name in a value. In Avro it may be only in the
# schema, and for rows without an envelope only in the topic's name.
NAMING: Final = (
    *(name for name in AEROSPIKE_FORMATS if name not in AVRO_FORMATS),
    *("debezium_json", "arcion_json", "lindorm_json"),
    *("aws_dms_json", "maxwell_json", "canal_json"),
)
# Other names may be escaped in JSON in other ways than as \u....
_PLAIN: Final = re.compile("[A-Za-z0-9_ .-]+")


def _may_name(
    table: Table, topics: Sequence[str] | None, sources: Sequence[Sequence[str | None]] | None
) -> str | None:
    names = {source[2] or "" for source in sources or ()}
    if not names or not all(map(_PLAIN.fullmatch, names)):
        return None
    pairs = source_filter.all_pairs(table)
    if topics is not None and pairs is not None:
        wanted = [list(source) for source in sources or ()]
        if all(pair[1:] in wanted for pair in pairs if pair[0] in topics):
            return None
    texts = [name.encode() for name in sorted(names)] + [JSON_ESCAPE]
    has_any = " or ".join(f"contains(value, X'{text.hex()}')" for text in texts)
    return f"(format not in ({sql_texts(NAMING)}) or {has_any})"


def _may_have(run: NodeRun, table: Table, wanted: str, part: Part) -> bool:
    if table.snapshot == NO_SNAPSHOT:
        return False
    if part is Part.NEW:
        return run.may_read(run.upstreams[0], wanted)
    return source_filter.may_ever_have(table, wanted)
