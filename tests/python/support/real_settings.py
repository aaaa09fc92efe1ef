"""Settings of connectors and converters by which a real source is held against gold: one by
default, the others on request (``--settings``).

Each says how its values are read, and what Debezium itself loses by it: that is left out of the
source's values before they are compared, and nothing else is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from support.real_values import (
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
_AVRO: Final = {
    setting: value
    for side in ("key", "value")
    for setting, value in {
        f"{side}.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        f"{side}.converter.apicurio.registry.as-confluent": "true",
        f"{side}.converter.apicurio.registry.use-id": "contentId",
        f"{side}.converter.apicurio.registry.headers.enabled": "false",
        f"{side}.converter.apicurio.registry.auto-register": "true",
    }.items()
}
_REGISTRY: Final = "converter.apicurio.registry.url"
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
# Names have no backslash: files of settings lose it.
_ALL_TABLES: Final = "([^.]*[.]shop)[.].*"
_REGEX_ROUTER: Final = {
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": _ALL_TABLES,
    "transforms.route.replacement": "$1",
}
_TABLE_ROUTER: Final = {
    "transforms": "route",
    "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
    "transforms.route.topic.regex": _ALL_TABLES,
    "transforms.route.topic.replacement": "$1",
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
    avro: bool = False
    """In Avro, whose schemas are in a registry."""
    is_one_topic: bool = False
    """Whether one topic has the changes of all tables."""
    is_incremental: bool = False
    """Whether the rows of tables that have a key come by incremental snapshots alone, each round
    all of them once more, while they change.
    """
    named: Callable[[str], str] = str
    """What a column is called in messages."""
    fills_nulls: bool = False
    """Whether a null of a column with a default comes as the default."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Columns that the connector is told to leave out, by name their tables: it would ship them
    wrong by this setting.
    """
    readers: Mapping[Kind, Reader] = field(default_factory=dict)
    loses: Mapping[Kind, Callable[[Any], Any]] = field(default_factory=dict)
    """What Debezium leaves of the source's values of a kind."""

    @property
    def format(self) -> str:
        """The name for ``vars.topics``."""
        return f"debezium_{'unwrapped_' * self.unwrapped}{'avro' if self.avro else 'json'}"

    def topic(self, prefix: str, table: str) -> str:
        """The topic of a table, by the connector's own rule for names that Kafka refuses."""
        own = re.sub("[^A-Za-z0-9._-]", "_", table)
        return f"{prefix}.shop" if self.is_one_topic else f"{prefix}.shop.{own}"

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
        if value is None and self.fills_nulls:
            return column.default
        if column.kind is Kind.LIST and value is not None:
            return [self.of_source(each, column.part) for each in value]
        lost = self.loses.get(column.kind)
        return value if value is None or lost is None else lost(value)


def connector(
    own: Mapping[str, str], setting: Setting, prefix: str, partitions: int, registry: str
) -> dict[str, str]:
    """The settings of a connector: its source's own, what all have, and what is asked for. Topics'
    names begin with ``prefix``; ``registry`` is the address of Apicurio's own API.
    """
    settings = {
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
    if setting.left_out:
        named = [f"shop.{table}.{column}" for column, table in setting.left_out.items()]
        settings["column.exclude.list"] = ",".join(named)
    if setting.avro:
        settings |= {f"{side}.{_REGISTRY}": registry for side in ("key", "value")}
    if setting.is_incremental:
        settings |= {
            # No incremental snapshot reads a table without a key.
            "snapshot.include.collection.list": "shop.visits",
            "signal.data.collection": "shop.signals",
            "incremental.snapshot.chunk.size": "3",
            "incremental.snapshot.allow.schema.changes": "true",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": notifications(prefix),
        }
    return settings


def notifications(prefix: str) -> str:
    """The topic in which a connector says that a snapshot has ended."""
    return f"{prefix}.notifications"


def _avro_name(name: str) -> str:
    """A name that Avro takes, by ``field.name.adjustment.mode=avro``."""
    return re.sub("[^A-Za-z0-9_]", "_", name)


def _avro_unicode_name(name: str) -> str:
    """The same by ``avro_unicode``."""
    return re.sub("[^A-Za-z0-9]", lambda found: f"_u{ord(found[0]):04x}", name)


# Null where an update leaves them as they were, out of line.
_LONG_DATES: Final = {"dl": "kinds"}
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
        left_out=_LONG_DATES,
        readers={Kind.LOCAL: local_of_instant},
        loses={Kind.LOCAL: to_millis, Kind.TIME: millis_of_day},
    ),
    "time-microseconds": Setting({"time.precision.mode": "microseconds"}),
    "time-isostring": Setting(
        {"time.precision.mode": "isostring"},
        left_out=_LONG_DATES,
        loses={Kind.TIME: time_of_day},
    ),
    "binary-base64": Setting(
        {"binary.handling.mode": "base64"},
        # One that an update leaves as it was is null.
        left_out={"scan": "orders", "bya": "kinds"},
        readers={Kind.BINARY: binary_of_base64},
    ),
    "binary-hex": Setting(
        {"binary.handling.mode": "hex"},
        left_out={"bya": "kinds"},
        readers={Kind.BINARY: binary_of_hex},
    ),
    # Apicurio's AvroConverter has no setting that keeps nulls.
    "avro": Setting(
        {
            **_AVRO,
            "field.name.adjustment.mode": "avro",
            "schema.name.adjustment.mode": "avro",
        },
        avro=True,
        named=_avro_name,
        fills_nulls=True,
    ),
    "unwrapped-avro": Setting(
        {
            **_UNWRAP,
            **_AVRO,
            _MODE: "rewrite",
            "transforms.unwrap.add.fields": "op,source.ts_ms",
            "field.name.adjustment.mode": "avro_unicode",
            "schema.name.adjustment.mode": "avro_unicode",
        },
        unwrapped=True,
        avro=True,
        named=_avro_unicode_name,
        fills_nulls=True,
    ),
    "one-topic": Setting({"transforms": "route", **_REGEX_ROUTER}, is_one_topic=True),
    # It adds a column to keys, and copies rows with their defaults.
    "one-topic-logical": Setting(_TABLE_ROUTER, is_one_topic=True, fills_nulls=True),
    "unwrapped-one-topic": Setting(
        {
            **_UNWRAP,
            **_REGEX_ROUTER,
            "transforms": "unwrap,route",
            _MODE: "rewrite",
            "transforms.unwrap.add.fields": "op,db,table,source.ts_ms",
        },
        unwrapped=True,
        is_one_topic=True,
    ),
    # Which rows the log has changed is not known.
    "incremental": Setting(is_incremental=True, left_out={"twice": "prices"}),
}
