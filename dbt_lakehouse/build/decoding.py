"""Events of payloads: which payloads are read, and the SQL that decodes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.runs.formats import condition_sql
from dbt_lakehouse.runs.log_input import LogInput


def added_events(read: LogInput, conditions: Sequence[str], headers: Sequence[str] = ()) -> str:
    """Events that no payload contains itself, to select from, which meet SQL conditions. With
    names of ``headers``, those of redriven payloads are in a column `_lh_headers`.
    """
    events = part("payload_parts", "added", read, [*conditions])
    if not headers:
        return events
    if read.bronze is None:
        return part("payload_parts", "without_headers", events)
    return part("payload_parts", "with_headers_of_redriven", events, read.bronze, [*headers])


@dataclass(frozen=True, slots=True)
class Decoding:
    """How payloads are decoded for a statement.

    ``topics`` is ``vars.topics``. ``runs``: whether the compiled SQL is run. A unit test's is
    not: its payloads exist in no other query.
    """

    lake: Lake
    topics: Any
    runs: bool

    def payload_format(self) -> str:
        """The wire format of a payload by ``vars.topics``, as SQL. For known topics
        ``formats.format_sql`` is faster. Raises ``ConfigurationError``.
        """
        rules = topic_rules(self.topics)
        whens = [None if rule.when is None else condition_sql(rule.when) for rule in rules]
        return part("payload_parts", "payload_format", list(zip(rules, whens, strict=True)))

    def know_schemas_of(self, payloads: str, format_sql: str) -> bool:
        """Find the registry schemas that payloads name, for the functions that decode in this
        model's next statements. Returns whether it has looked for any.

        ``payloads`` is a relation with topic, key, value, headers and format; ``format_sql`` is
        the SQL of that format.
        """
        if not self.runs or "_avro'" not in format_sql:
            return False
        self.lake.functions.know_schemas(render("framed_texts", payloads=payloads))
        return True

    def events_of(
        self,
        read: LogInput,
        of_payloads: Sequence[str] = (),
        of_events: Sequence[str] = (),
    ) -> str:
        """The events of payloads, in the columns of other_events, to select from. ``of_payloads``
        and ``of_events`` are SQL conditions on payloads and on events.
        """
        format_sql = read.format or self.payload_format()
        relations = []
        if read.payloads is not None and read.topics != []:
            payloads = part("payload_parts", "payloads_to_read", read, format_sql, [*of_payloads])
            self.know_schemas_of(payloads, format_sql)
            events = part("payload_parts", "events_in", payloads, format_sql, more=["log_time"])
            relations.append(part("payload_parts", "wanted", events, read, [*of_events]))
        if read.added is not None or not relations:
            relations.append(added_events(read, [*of_payloads, *of_events]))
        return part("payload_parts", "all_of", relations)

    def decoded_events(self, payloads: str) -> str:
        """The events of payloads as the current decoders and ``vars.topics`` read them, to select
        from: topic, partition, offset, timestamp, format, and the columns of `decode_payload`.

        ``payloads`` is a relation with topic, partition, offset, timestamp, key, value and
        headers.
        """
        format_sql = self.payload_format()
        formatted = part("payload_parts", "formatted", payloads, format_sql)
        self.know_schemas_of(formatted, format_sql)
        return part("payload_parts", "events_in", formatted, format_sql)
