"""Find the message to explain: given on the command line, in the lake, or in Kafka."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt_lakehouse.commands.explain.guess import Guess
from dbt_lakehouse.commands.explain.source import (
    Message,
    UnusablePayloadError,
    from_base64,
    from_captures,
    from_hex,
    refuse_captures,
)
from dbt_lakehouse.extras import require

if TYPE_CHECKING:
    from dbt_lakehouse.session.project import ProjectOptions


@dataclass
class Arguments:
    """The options of `lakehouse explain` that choose the message."""

    file: str | None
    line: int | None
    hex_text: str | None
    base64_text: str | None
    key_hex: str | None
    key_base64: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    from_kafka: bool
    format_name: str | None

    def message(self, options: "ProjectOptions", read: Callable[[str], bytes]) -> Message:
        """The chosen message; ``read`` gives the content of a file.

        Raises ``UnusablePayloadError``, and the errors of reading.
        """
        self._refuse_misfits()
        if self.topic is not None:
            message = self._of_topic(options)
        else:
            message = self._given(read)
        if self.format_name is not None:
            message = message._replace(told=Guess(self.format_name, "as you say"))
        return message

    def _refuse_misfits(self) -> None:
        given = [self.file, self.hex_text, self.base64_text, self.topic]
        if sum(each is not None for each in given) != 1:
            raise UnusablePayloadError(
                "which payload? Give one of FILE, --hex, --base64, or --topic with --offset"
            )
        if (self.topic is None) != (self.offset is None):
            raise UnusablePayloadError("--topic and --offset go together")
        if self.topic is None and (self.partition is not None or self.from_kafka):
            raise UnusablePayloadError("--partition and --kafka go with --topic")
        if self.line is not None and self.file is None:
            raise UnusablePayloadError("--line goes with FILE")
        has_key = self.topic is not None or self.line is not None
        if has_key + (self.key_hex is not None) + (self.key_base64 is not None) > 1:
            raise UnusablePayloadError(
                "one key is enough: --key-hex, --key-base64, or that of a message with a place"
            )

    def _given(self, read: Callable[[str], bytes]) -> Message:
        if self.file is not None:
            content = read(self.file)
            if self.line is not None:
                return from_captures(content, self.line, self.file)
            refuse_captures(content, self.file)
            value = content
        elif self.hex_text is not None:
            value = from_hex(self.hex_text, "--hex")
        else:
            value = from_base64(self.base64_text or "", "--base64")
        key = None
        if self.key_hex is not None:
            key = from_hex(self.key_hex, "--key-hex")
        elif self.key_base64 is not None:
            key = from_base64(self.key_base64, "--key-base64")
        return Message(key, value)

    def _of_topic(self, options: "ProjectOptions") -> Message:
        assert self.topic is not None and self.offset is not None
        if self.from_kafka:
            from dbt_lakehouse.landing.kafka.peeking import message_at
            from dbt_lakehouse.session.project import load

            project = load(options)
            source = project.require_broker()
            spark = project.open_session()
            peeked = message_at(spark, source, self.topic, self.partition, self.offset)
            told = None if peeked.format is None else Guess(peeked.format, "as vars.topics says")
            return Message(peeked.key, peeked.value, told, peeked.headers)
        require("sql")
        from dbt_lakehouse.commands.explain.landed import from_bronze
        from dbt_lakehouse.lake.reader import Reader
        from dbt_lakehouse.session.profile import find

        place = find(options)
        reader = Reader(place.settings, place.gold)
        other_events = f"{place.silver}.other_events"
        return from_bronze(reader, other_events, self.topic, self.partition, self.offset)
