"""What a connector of a real source sends: its topics, and how far it is."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from dbt_lakehouse.lake.schema_registry import know_schemas_of
from python_udfs.core.events import TOMBSTONE, Event
from python_udfs.registry import decode_batch
from support.commands import wait_until
from support.kafka_topics import Kafka, Record
from support.real_settings import Setting, notifications
from support.real_source import MARKER

_ENDED: Final = b'"type":"COMPLETED","aggregate_type":"%b Snapshot"'


class Feed:
    """The topics of a connector. ``check`` raises if it has stopped."""

    def __init__(
        self, kafka: Kafka, setting: Setting, prefix: str, check: Callable[[], None]
    ) -> None:
        self.check = check
        self._kafka: Final = kafka
        self._setting: Final = setting
        self._prefix: Final = prefix

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return self._setting.topic(self._prefix, table)

    def events(self, table: str) -> list[Event]:
        """The change events of a table so far."""
        decoded = decoded_by(self._setting.format, self._kafka.records(self.topic(table)))
        if not self._setting.is_one_topic:
            return decoded
        # A tombstone names no table.
        assert all(each.source_table or each.operation == TOMBSTONE for each in decoded), decoded
        return [each for each in decoded if each.source_table == table]

    def wait_for_snapshot(self, number: int) -> None:
        """With incremental snapshots, wait until that of a round is in Kafka. The 0th is what was
        there when the connector came; behind it no signal is lost.
        """
        if self._setting.is_incremental:
            kind = b"Incremental" if number else b"Initial"
            self._wait(lambda: self._ended(kind) >= max(1, number), f"snapshot {number} has ended")

    def wait_for_round(self, number: int) -> None:
        """Wait until the last change of a round is in Kafka."""
        last = re.compile(rb'"round":%d[,}]' % number)

        def has_come() -> bool:
            if not self._kafka.partitions(self.topic(MARKER)):
                return False
            return any(last.search(each.after or b"") for each in self.events(MARKER))

        self._wait(has_come, f"the changes of round {number} are in Kafka")

    def _ended(self, kind: bytes) -> int:
        topic = notifications(self._prefix)
        if not self._kafka.partitions(topic):
            return 0
        ended = _ENDED % kind
        return sum(ended in (each.value or b"") for each in self._kafka.records(topic))

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        def is_so_now() -> bool:
            self.check()
            return is_so()

        wait_until(is_so_now, f"{self._prefix}: {what}")


def decoded_by(format: str, records: Iterable[Record]) -> list[Event]:
    """The change events of messages, in their order."""
    records = list(records)
    keys, values = [each.key for each in records], [each.value for each in records]
    headers = [each.headers for each in records]
    of_headers = [value for some in headers for _, value in some or ()]
    know_schemas_of(format, [*keys, *values, *of_headers])
    decoded = decode_batch(format, keys, values, headers)
    return [event for events in decoded.payloads() for event in events]
