"""Settings of connectors and converters by which a real source is held against gold: one by
default, the others on request (``--settings``).

Each says how its values are read, and what Debezium itself loses by it: that is left out of the
source's values before they are compared, and nothing else is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from real_values import (
    AS_SENT,
    READERS,
    Column,
    Kind,
    Reader,
    as_double,
    binary_of_base64,
    binary_of_hex,
    days_span,
    listed_label,
    local_of_instant,
    millis_of_day,
    number_of_text,
    time_of_day,
    to_millis,
)

_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_UNWRAP: Final = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.replace.null.with.default": "false",
}
# Without a schema block nobody says the scale of a number that is shipped as bytes.
_SCHEMALESS: Final = {
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "key.converter.decimal.format": "NUMERIC",
    "value.converter.decimal.format": "NUMERIC",
}
_MODE: Final = "transforms.unwrap.delete.tombstone.handling.mode"


@dataclass(frozen=True)
class Setting:
    """A setting of the source's connector."""

    connector: Mapping[str, str] = field(default_factory=dict)
    unwrapped: bool = False
    """Behind the transform, which drops truncates and has no row before an update: no table
    without a key can be followed."""
    schemas: bool = True
    readers: Mapping[Kind, Reader] = field(default_factory=dict)
    loses: Mapping[Kind, Callable[[Any], Any]] = field(default_factory=dict)
    """What Debezium leaves of the source's values of a kind."""

    @property
    def format(self) -> str:
        """The name for ``vars.topics``."""
        return "debezium_unwrapped_json" if self.unwrapped else "debezium_json"

    def of_gold(self, value: Any, column: Column) -> Any:
        """Gold's value as a plain one."""
        if value is None:
            return None
        read = {**READERS, **self.readers}
        if column.kind is not Kind.LIST:
            return read[column.kind](value, column)
        found = read[Kind.LIST](value, column)
        if type(found) is not list:
            return found
        return [self.of_gold(each, column.part) for each in found]

    def of_source(self, value: Any, column: Column) -> Any:
        """The source's value as this setting can say it."""
        if column.kind is Kind.LIST and value is not None:
            return [self.of_source(each, column.part) for each in value]
        lost = self.loses.get(column.kind)
        return value if value is None or lost is None else lost(value)


def connector(
    own: Mapping[str, str], setting: Setting, prefix: str, partitions: int
) -> dict[str, str]:
    """The settings of a connector: its source's own, what all have, and what is asked for. Topics'
    names begin with ``prefix``.
    """
    return {
        **own,
        "topic.prefix": prefix,
        # Its default leaves truncates out.
        "skipped.operations": "none",
        "topic.creation.default.partitions": str(partitions),
        "topic.creation.default.replication.factor": "1",
        "poll.interval.ms": "50",
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        # Else a null comes as the column's default.
        "value.converter.replace.null.with.default": "false",
        **setting.connector,
    }


DEFAULT: Final = "default"
SETTINGS: Final[Mapping[str, Setting]] = {
    DEFAULT: Setting(),
    "schemaless": Setting(
        _SCHEMALESS,
        schemas=False,
        readers=AS_SENT,
        loses={Kind.LABEL: listed_label},
    ),
    "unwrapped-rewrite": Setting({**_UNWRAP, _MODE: "rewrite"}, unwrapped=True),
    "unwrapped-tombstone": Setting(
        {**_UNWRAP, _MODE: "tombstone", "transforms.unwrap.add.fields": "op,source.ts_ms"},
        unwrapped=True,
    ),
    "unwrapped-rewrite-with-tombstone": Setting(
        {**_UNWRAP, _MODE: "rewrite-with-tombstone", "transforms.unwrap.add.headers": "op,table"},
        unwrapped=True,
    ),
    "unwrapped-schemaless": Setting(
        {
            **_UNWRAP,
            **_SCHEMALESS,
            _MODE: "rewrite",
        },
        unwrapped=True,
        schemas=False,
        readers=AS_SENT,
        loses={Kind.LABEL: listed_label},
    ),
    # Of a BIGINT UNSIGNED, the bits of a signed one.
    "source-types": Setting(
        {"bigint.unsigned.handling.mode": "long", "column.propagate.source.type": ".*"}
    ),
    "transactions": Setting({"provide.transaction.metadata": "true"}),
    "interval-string": Setting(
        {"interval.handling.mode": "string"}, readers={Kind.SPAN: days_span}
    ),
    "no-tombstones": Setting({"tombstones.on.delete": "false"}),
    "decimal-string": Setting(
        {"decimal.handling.mode": "string"}, readers={Kind.NUMBER: number_of_text}
    ),
    # A double has 17 digits.
    "decimal-double": Setting({"decimal.handling.mode": "double"}, loses={Kind.NUMBER: as_double}),
    # Connect's own types have milliseconds, and times of day only.
    "time-connect": Setting(
        {"time.precision.mode": "connect"},
        readers={Kind.LOCAL: local_of_instant},
        loses={Kind.LOCAL: to_millis, Kind.TIME: millis_of_day},
    ),
    "time-isostring": Setting({"time.precision.mode": "isostring"}, loses={Kind.TIME: time_of_day}),
    "binary-base64": Setting(
        {"binary.handling.mode": "base64"}, readers={Kind.BINARY: binary_of_base64}
    ),
    "binary-hex": Setting({"binary.handling.mode": "hex"}, readers={Kind.BINARY: binary_of_hex}),
}
