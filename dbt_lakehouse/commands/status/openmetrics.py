"""The numbers of `lakehouse status` in OpenMetrics' text format, for Prometheus.

All are gauges without timestamps, so the text is also valid in Prometheus' older format, which
the node exporter's textfile collector reads.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from dbt_lakehouse.commands.status.facts import Outcome
from dbt_lakehouse.commands.status.status_output import Report
from dbt_lakehouse.errors import WriteError

# Metrics by the fields of the facts.
_OF_TOPICS: Final = {
    "landed": ("landed_payloads", "Payloads that have landed"),
    "decoded": ("decoded_payloads", "Payloads all of whose events are good"),
    "invalid": ("invalid_payloads", "Payloads with an event that could not be decoded"),
    "waiting": ("waiting_payloads", "Payloads that the next run decodes"),
    "lag_messages": ("lag_messages", "Messages in Kafka that had not landed, at most"),
    "is_all_quarantined": ("all_quarantined", "1 if nothing of the topic could be decoded"),
    "built_messages": ("built_messages", "Messages that a stream has brought to gold, last hour"),
}
_OF_TABLES: Final = {
    "rows": ("rows", "Rows"),
    "waiting": ("waiting_rows", "Rows of its upstream tables that the next run reads"),
    "absent_keys": ("absent_keys", "Keys of its log without a row, deleted or expired"),
    "unread_keys": ("unread_keys", "Keys with a row that the newest full snapshot did not read"),
    "late_events": (
        "late_events",
        "Events that were rejected as late, except in rebuilds",
    ),
    "expired_keys": ("expired_keys", "Keys that had expired, in all runs"),
    "refolded_keys": ("refolded_keys", "Keys with changes out of order, in all runs"),
    "purged_keys": ("purged_keys", "Remembered keys that were purged for age, in all runs"),
}


def write_metrics(file: Path, report: Report) -> None:
    """Write the file atomically: a reader finds either the new content or the previous one.

    Raises ``WriteError``.
    """
    # No collector reads a file whose name begins with a point.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_bytes(metrics(report))
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WriteError(f"{file} can't be written: {error.strerror}") from error


def metrics(report: Report) -> bytes:
    """The text."""
    return bytes(generate_latest(_Metrics(report)))


class _Metrics(Collector):
    def __init__(self, report: Report) -> None:
        self._report: Final = report

    def collect(self) -> Iterable[Metric]:
        facts = self._report.facts
        for names, of, rows in (
            (_OF_TOPICS, "topic", facts.topics),
            (_OF_TABLES, "table", facts.tables),
        ):
            for field, (name, told) in names.items():
                values = [([getattr(row, of)], getattr(row, field)) for row in rows]
                yield _gauge(f"{of}_{name}", told, [of], values)
        yield _gauge(
            "topic_lag_seconds",
            "Age of the last landed message while others were missing",
            ["topic"],
            [([each.topic], each.lag_seconds) for each in facts.topics],
            "seconds",
        )
        yield _gauge(
            "topic_built",
            "Time from Kafka's timestamp to gold's commit, of the last hour's messages",
            ["topic", "quantile"],
            [
                ([each.topic, quantile], seconds)
                for each in facts.topics
                for quantile, seconds in (
                    ("0.5", each.built_seconds_p50),
                    ("0.99", each.built_seconds_p99),
                )
            ],
            "seconds",
        )
        yield _times(
            "topic_last_event",
            "Kafka's newest timestamp",
            "topic",
            [(each.topic, each.last_event_at) for each in facts.topics],
        )
        yield _times(
            "table_written",
            "The newest commit",
            "table",
            [(each.table, each.written_at) for each in facts.tables],
        )
        checked = [link for link in facts.links if link.outcome is not Outcome.UNCHECKED]
        yield _gauge(
            "sum_agrees",
            "1 if a link has the rows that it must have, else 0",
            ["link", "of"],
            [([each.link, each.of], each.outcome is Outcome.WHOLE) for each in checked],
        )
        if (run := facts.last_run) is not None:
            yield _gauge("run_failed", "1 if the last dbt command has", [], [([], run.is_failed)])
        if self._report.partitions is not None:
            yield _gauge(
                "partition_lag_messages",
                "Messages in Kafka that have not landed, at most",
                ["topic", "partition"],
                [
                    ([row["topic"], str(row["partition"])], row["lag_messages"])
                    for row in self._report.partitions
                ],
            )
        yield _gauge("alerts", "What is not well", [], [([], len(self._report.alerts))])
        yield _times("checked", "When all this was so", None, [("", facts.checked_at)])


def _gauge(
    name: str,
    told: str,
    labels: Sequence[str],
    values: Iterable[tuple[list[str], Any]],
    unit: str = "",
) -> Metric:
    gauge = GaugeMetricFamily(f"lakehouse_{name}", told, labels=labels, unit=unit)
    for of, value in values:
        if value is not None:
            gauge.add_metric(of, float(value))
    return gauge


def _times(
    name: str, told: str, label: str | None, values: Iterable[tuple[str, str | None]]
) -> Metric:
    return _gauge(
        f"{name}_timestamp_seconds",
        told,
        [label] if label else [],
        _seconds(values, bool(label)),
        "seconds",
    )


def _seconds(
    values: Iterable[tuple[str, str | None]], is_labelled: bool
) -> Iterator[tuple[list[str], float]]:
    for of, text in values:
        if text is not None:
            yield [of] if is_labelled else [], datetime.fromisoformat(text).timestamp()
