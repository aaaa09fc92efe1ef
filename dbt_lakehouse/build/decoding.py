"""Events as their payloads say them: which payloads are read, and what decodes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.runs.formats import condition_sql
from dbt_lakehouse.runs.log_input import LogInput


@dataclass(frozen=True, slots=True)
class Decoding:
    """How payloads are decoded for a statement.

    ``topics`` is ``vars.topics``. ``runs``: whether what is compiled is run, and not of a unit
    test, whose payloads no other query finds.
    """

    lake: Lake
    topics: Any
    runs: bool

    def payload_format(self) -> str:
        """The wire format of a payload by ``vars.topics``, as SQL. Of topics that are known,
        ``formats.format_sql`` tells it in less time. Raises ``ConfigurationError``.
        """
        rules = topic_rules(self.topics)
        whens = [None if rule.when is None else condition_sql(rule.when) for rule in rules]
        return part("payloads", "payload_format", list(zip(rules, whens, strict=True)))

    def know_schemas_of(self, payloads: str, format_sql: str) -> bool:
        """Find the schemas of a registry that payloads name, if any may, for the functions that
        decode them in the statements of this model that follow: whether it has.

        ``payloads`` is a relation with topic, key, value, headers and format, ``format_sql`` what
        that format is made of.
        """
        if not self.runs or "_avro'" not in format_sql:
            return False
        self.lake.functions.know_schemas(render("framed_texts", payloads=payloads))
        return True

    def events_of(
        self, read: LogInput, of_payloads: Sequence[str] = (), of_events: Sequence[str] = ()
    ) -> str:
        """Events as their payloads say them, in the columns of other_events, to select from.
        Conditions are SQL that payloads meet, and that events meet.
        """
        format_sql = read.format or self.payload_format()
        payloads = None
        if read.payloads is not None and read.topics != []:
            payloads = part("payloads", "payloads_to_read", read, format_sql, [*of_payloads])
            self.know_schemas_of(payloads, format_sql)
        return part(
            "payloads", "events_of", read, payloads, format_sql, [*of_payloads], [*of_events]
        )

    def decoded_events(self, payloads: str) -> str:
        """The events of payloads as today's decoders and ``vars.topics`` read them, to select from:
        topic, partition, offset, timestamp, format, and what `decode_payload` says of each event.

        ``payloads`` is a relation with topic, partition, offset, timestamp, key, value and headers.
        """
        format_sql = self.payload_format()
        formatted = part("payloads", "formatted", payloads, format_sql)
        self.know_schemas_of(formatted, format_sql)
        return part("payloads", "events_in", formatted, format_sql)
