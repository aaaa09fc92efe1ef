"""The output of `lakehouse status`, as text and JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import Any, Final

import msgspec

from dbt_lakehouse.commands.status.facts import Facts, Outcome, Run, TableStatus
from dbt_lakehouse.config.topics import unlisted_text
from dbt_lakehouse.queries.drawing import table_text
from dbt_lakehouse.texts import counted, iso_text, printable

_TOPICS: Final = (
    *("topic", "landed", "decoded", "invalid", "waiting", "compacted", "last event", "lag"),
    *("to gold p50 s", "to gold p99 s"),
)
_TABLES: Final = (
    *("table", "rows", "waiting", "absent keys", "late events", "expired", "refolded", "purged"),
    *("last event", "written", "last run"),
)
# Columns that are left out if they are empty.
_OPTIONAL: Final = frozenset(
    {
        *("lag", "to gold p50 s", "to gold p99 s", "compacted", "late events", "expired"),
        *("refolded", "purged", "last run", "streamed_by"),
    }
)
_PARTITIONS: Final = (
    "topic",
    "partition",
    "next_offset",
    "log_end_offset",
    "lag_messages",
    "lag_seconds",
    "landed_timestamp",
    "streamed_by",
)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert."""

    alert: str
    """broken_link, all_quarantined, run_failed, topic_stalled."""
    of: str
    """The topic, the table or the command."""
    told: str
    """The trouble, and the remedy."""


@dataclass(frozen=True, slots=True)
class Report:
    """The facts, Kafka's partitions if it was reached, and the alerts about them."""

    facts: Facts
    partitions: list[dict[str, Any]] | None
    alerts: list[Alert]
    unlisted: Sequence[str] = ()
    """Topics in bronze that vars.topics does not list."""

    def json(self) -> str:
        """A JSON document for scripts (docs/monitoring.md)."""
        document = msgspec.to_builtins(self.facts)
        document["partitions"] = self.partitions
        document["unlisted_topics"] = list(self.unlisted)
        document["alerts"] = msgspec.to_builtins(self.alerts)
        return json.dumps(document, default=_json_value)

    def text(self) -> str:
        """As text."""
        facts = self.facts
        topics = [
            (
                *(each.topic, each.landed, each.decoded, each.invalid, each.waiting),
                *("yes" if each.is_compacted else "", each.last_event_at, each.lag_messages),
                *map(_cell, (each.built_seconds_p50, each.built_seconds_p99)),
            )
            for each in facts.topics
        ]
        tables = [
            (
                *(each.table, each.rows, each.waiting, each.absent_keys, each.late_events),
                *(each.expired_keys, each.refolded_keys, each.purged_keys, each.last_event_at),
                *(each.written_at, each.last_run),
            )
            for each in facts.tables
        ]
        lines = [_table(_TOPICS, topics), _table(_TABLES, tables)]
        if self.partitions is not None:
            lines.append(_partitions_text(self.partitions))
        lines.append(self._sums())
        if facts.last_run is not None:
            lines.append(_run_text(facts.last_run))
        lines += [_unread_text(each) for each in facts.tables if each.unread_keys]
        lines += [_similar_text(each) for each in facts.tables if each.similar_source]
        lines += [printable(unlisted_text([each])) for each in self.unlisted]
        return "\n".join([*lines, *(printable(each.told) for each in self.alerts)])

    def summary(self) -> str:
        """The alerts in a line."""
        named = ", ".join(f"{each.alert} {printable(each.of)}" for each in self.alerts)
        return f"{counted(len(self.alerts), 'alert')}: {named}"

    def _sums(self) -> str:
        outcomes = [link.outcome for link in self.facts.links]
        whole = outcomes.count(Outcome.WHOLE)
        told = f"{counted(whole, 'sum')} {'agrees' if whole == 1 else 'agree'}"
        for outcome, words in (
            (Outcome.BROKEN, "do not"),
            (Outcome.UNCHECKED, "can't be checked (--json says why)"),
        ):
            if count := outcomes.count(outcome):
                told += f", {count:,} {words}"
        return told


def _json_value(value: Any) -> str:
    """The JSON of values without a JSON type: times as everywhere in the document."""
    if isinstance(value, datetime):
        return iso_text(value)
    return str(value)


def report_of(
    facts: Facts,
    partitions: list[dict[str, Any]] | None = None,
    unlisted: Sequence[str] = (),
) -> Report:
    """The report about facts, partitions, and topics that vars.topics does not list."""
    return Report(facts, partitions, [*_alerts(facts), *_stalled(partitions or [])], unlisted)


def _alerts(facts: Facts) -> Iterator[Alert]:
    for link in facts.links:
        if link.outcome is Outcome.BROKEN:
            yield Alert("broken_link", link.of, link.told or "")
    for topic in facts.topics:
        if topic.is_all_quarantined and not topic.is_known_undecoded:
            yield Alert(
                "all_quarantined",
                topic.topic,
                f"topic {topic.topic}: none of its {counted(topic.landed, 'payload')} could be"
                f" decoded: `lakehouse quarantine --topic {quote(topic.topic)}` says why; is its"
                " format in vars.topics right? vars.undecoded_topics lists topics to ignore",
            )
    run = facts.last_run
    if run is not None and run.is_failed:
        told = (
            f"{', '.join(run.failed)}; `dbt retry` once the errors in dbt.log are fixed"
            if run.error is None
            else f"before its models, {run.error}; `{run.command}` once that is fixed"
        )
        yield Alert("run_failed", run.command, f"{run.command} has failed, {run.ended_at}: {told}")


def _stalled(partitions: Sequence[dict[str, Any]]) -> Iterator[Alert]:
    problems = {row["topic"]: row["problem"] for row in partitions if row["problem"] is not None}
    return (Alert("topic_stalled", topic, problem) for topic, problem in problems.items())


def _run_text(run: Run) -> str:
    how = "was interrupted" if run.is_interrupted else "succeeded"
    return f"{run.command} {'failed' if run.is_failed else how}, {run.ended_at}"


def _unread_text(table: TableStatus) -> str:
    return printable(
        f"{table.table}: a full snapshot that ended at {table.unread_since} did not read"
        f" {counted(table.unread_keys or 0, 'key')} that the table has: their deletes may be lost."
        f" With reconcile_snapshots=true in {table.upstream} they end"
    )


def _similar_text(table: TableStatus) -> str:
    return printable(
        f"{table.table} has no events, and no change log takes those of {table.similar_source}: if"
        " they are meant, correct the source's names in the log's model (their case counts), then"
        " `dbt build`"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    shown = [
        at for at, name in enumerate(names) if name not in _OPTIONAL or any(row[at] for row in rows)
    ]
    cells = [["" if row[at] is None else row[at] for at in shown] for row in rows]
    return table_text([names[at] for at in shown], cells).rstrip()


def _partitions_text(rows: Sequence[dict[str, Any]]) -> str:
    behind = sum(row["lag_messages"] or 0 for row in rows)
    cells = [[_cell(row[name]) for name in _PARTITIONS] for row in rows]
    return f"{_table(_PARTITIONS, cells)}\n{counted(behind, 'message')} behind at most"


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 1)
    return f"{value:%F %T}" if hasattr(value, "strftime") else value
