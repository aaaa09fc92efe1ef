"""`lakehouse quarantine`: payloads that could not be decoded, by code and topic, without Spark."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.drawing import table_text
from dbt_lakehouse.queries.query import rows_of, sql_literal
from dbt_lakehouse.stored.messages import bytes_of
from dbt_lakehouse.stored.topics import landed_topics, refuse_missing
from dbt_lakehouse.texts import counted
from python_udfs.core.errors import DecoderFailed

_HEADER: Final = ("code", "topic", "format", "events", "first seen", "last seen")
# The most bytes of a payload that are shown.
_PAYLOAD_BYTES: Final = 200
# In a sentence, a payload's content is in quotes or in the path, with these exceptions, or is a
# number.
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?<=the number )\S+")
_STEP: Final = re.compile(r"\[\d+\]|\.(\w+)\b")
_BEHIND_PATH: Final = re.compile(r": (?=expected|nested|the |missing|a |an |arrays )")
_OURS: Final = frozenset(
    "version type payload key namespace set digest user_key generation expiry lut flags bins name"
    " value msg gen exp durable ordered order op before after source ts_ms db schema keyspace table"
    " connector snapshot transaction fields field items keys values".split()
)
_PLAIN: Final = frozenset(['"write"', '"delete"', "'true'", "'false'", "'null'"])
_encode: Final = msgspec.json.encode


@dataclass
class Example:
    """An event that could not be decoded."""

    partition: int
    offset: int
    event_index: int
    timestamp: str | None
    """Kafka's."""
    error_detail: str
    payload_b64: str | None = None
    """The value of its message, if payloads are shown."""

    def payload(self) -> str:
        """The beginning of the value as text."""
        value = bytes_of(self.payload_b64) or b""
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in value)
        return text if len(text) <= _PAYLOAD_BYTES else f"{text[:_PAYLOAD_BYTES]}..."


@dataclass
class Group:
    """The events of a topic with the same error code."""

    error_code: str
    topic: str
    format: str | None
    events: int
    first_seen: str | None
    last_seen: str | None
    examples: list[Example] = field(default_factory=list)


@dataclass
class Quarantine:
    """The quarantined events, the most frequent groups first."""

    groups: list[Group]

    def json(self) -> str:
        """As JSON, for scripts."""
        return _encode(self.groups).decode()

    def text(self) -> str:
        """As text."""
        if not self.groups:
            return "nothing is quarantined"
        rows = [
            (each.error_code, each.topic, each.format, each.events, each.first_seen, each.last_seen)
            for each in self.groups
        ]
        lines = [table_text(_HEADER, rows).rstrip()]
        for group in self.groups:
            lines += ["", f"{group.error_code} in {group.topic}, the newest:"]
            for each in group.examples:
                record = f", event {each.event_index}" if each.event_index else ""
                place = f"partition {each.partition}, offset {each.offset}{record}"
                lines.append(f"  {place}: {each.error_detail}")
                if each.payload_b64 is not None:
                    lines.append(f"    {each.payload()}")
        # A payload without a format can't break at a place.
        one = next((group for group in self.groups if group.format), self.groups[0])
        lines += [
            "",
            f"{counted(sum(group.events for group in self.groups), 'event')} in all. To see where"
            " one breaks:",
            f"  lakehouse explain --topic {one.topic} --partition {one.examples[0].partition}"
            f" --offset {one.examples[0].offset}",
        ]
        return "\n".join(lines)


def quarantine(
    reader: Reader,
    silver: str,
    codes: tuple[str, ...] = (),
    topics: tuple[str, ...] = (),
    examples: int = 1,
    *,
    show_payloads: bool = False,
) -> Quarantine:
    """The quarantined events of these codes and topics, all if none are named, with the newest
    examples of each. Raises ``ConfigurationError`` for a topic that has not landed, and if the
    table is not built yet, and the errors of reading.
    """
    built = f"{silver}.quarantined_payloads"
    if built not in reader.names:
        raise ConfigurationError(f"{built} is not built yet: `dbt run -s +quarantined_payloads`")
    table = reader.quoted(reader.known(built))
    where = f" where {chosen(codes, topics)}"
    groups = [
        Group(*row)
        for row in rows_of(
            reader,
            'select error_code, topic, format, count(*), min("timestamp"), max("timestamp")'
            f" from {table}{where} group by all order by count(*) desc, error_code, topic, format",
        )
    ]
    if without := {*topics} - {group.topic for group in groups}:
        refuse_missing(sorted(without), landed_topics(reader))
    newest: dict[tuple[Any, ...], list[Example]] = {}
    value = "value" if show_payloads else "null::blob"
    for *name, partition, offset, index, moment, detail, payload in rows_of(
        reader,
        'select error_code, topic, format, "partition", "offset", event_index, "timestamp",'
        f" error_detail, {value} from {table}{where} qualify row_number() over (partition by"
        ' error_code, topic, format order by "timestamp" desc, "partition", "offset" desc,'
        f" event_index) <= {max(examples, 1)}"
        ' order by "timestamp" desc, "partition", "offset" desc, event_index',
    ):
        sentence = detail if show_payloads else masked(name[0], detail)
        example = Example(partition, offset, index, moment, sentence, payload)
        newest.setdefault(tuple(name), []).append(example)
    for group in groups:
        group.examples = newest[group.error_code, group.topic, group.format]
    return Quarantine(groups)


def chosen(codes: Sequence[str], topics: Sequence[str]) -> str:
    """The condition, in DuckDB's SQL, for these codes and topics; for all, if none are named."""
    conditions = [
        f"{column} in ({', '.join(map(sql_literal, wanted))})"
        for column, wanted in (("error_code", codes), ("topic", topics))
        if wanted
    ]
    return " and ".join(conditions) or "true"


def masked(code: str, sentence: str) -> str:
    """A decoder's sentence without the payload's content."""
    if code == DecoderFailed.code:
        # Any exception's text may contain anything.
        return f"{sentence.partition(':')[0]}: ***"
    end = 1
    while sentence.startswith("$") and (step := _STEP.match(sentence, end)):
        if step[1] and step[1] not in _OURS:
            break
        end = step.end()
    if sentence.startswith("$") and sentence[end : end + 1] in (".", "["):
        behind = [match.start() for match in _BEHIND_PATH.finditer(sentence, end)]
        sentence = f"{sentence[:end]}.***{sentence[behind[-1] :] if behind else ''}"
    return _QUOTED.sub(_masked_text, sentence)


def _masked_text(found: re.Match[str]) -> str:
    # A single character tells nothing about a person.
    is_plain = found[0] in _PLAIN or len(found[0]) == len("'c'")
    return found[0] if is_plain else "'***'"
