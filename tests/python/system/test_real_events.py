"""From a real database to change events, by every setting of its connector: decoded and folded,
each table has the rows that the source has, value by value. All settings read the same changes,
each by a connector of its own; no Spark and no dbt, so it takes seconds for each.

``test_real_source`` goes the whole way to gold, by one setting.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from commands import wait_until
from kafka_topics import Kafka, Record
from real_mariadb import MARIADB
from real_postgres import POSTGRES
from real_settings import DEFAULT, SETTINGS, Setting, connector
from real_source import MARKER, VISITS, Database, Source, Writer, differing
from real_values import READERS, Column, Kind, Table

from local_kafka.broker import Broker
from local_kafka.connect import kafka_connect
from python_udfs.core.events import DELETE, TOMBSTONE, TRUNCATE, Event
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.registry import decode_batch

TRANSACTIONS: Final = 60


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each database with each seed that the call asks for."""
    options = metafunc.config.option
    metafunc.parametrize("source", [POSTGRES, MARIADB], ids=lambda source: source.name)
    metafunc.parametrize("seed", range(options.seed, options.seed + options.seeds))


@pytest.mark.real
def test_events_equal_the_source(
    source: Source,
    seed: int,
    tmp_path: Path,
    broker: Broker,
    kafka: Kafka,
    pytestconfig: pytest.Config,
) -> None:
    (tmp_path / "database").mkdir()
    prefixes = {name: f"{source.name}-{seed}-{name}" for name in SETTINGS}
    with source.started(tmp_path / "database") as database:
        writer = source.writer(seed, SETTINGS[DEFAULT])
        database.run(writer.script(TRANSACTIONS))
        connectors = {}
        for number, (name, prefix) in enumerate(prefixes.items()):
            folder = tmp_path / "connect" / name
            folder.mkdir(parents=True)
            own = {**database.connector(folder), **source.own(number)}
            # In one partition all is in the source's order.
            connectors[name] = connector(own, SETTINGS[name], prefix, partitions=1)
        with kafka_connect(
            tmp_path / "connect", broker.bootstrap_servers, connectors, source.jars, memory="768m"
        ) as check:
            for number in range(1, pytestconfig.option.rounds + 1):
                if number > 1:
                    altered = writer.alter() if number == pytestconfig.option.rounds else ""
                    database.run(altered + writer.script(TRANSACTIONS))
                database.run(f"update marker set round = {number} where id = 1;")
                for prefix in prefixes.values():
                    last = re.compile(rb'"round":%d[,}]' % number)
                    topic = f"{prefix}.shop.{MARKER}"
                    has_come = partial(_has, kafka, topic, last, check)
                    wait_until(has_come, f"round {number} is in {topic}")
            found = []
            for name, prefix in prefixes.items():
                found += list(_differences(kafka, database, writer, source, name, prefix))
    assert found == [], "\n".join([f"{len(found)} differences", *found[:60]])


def _has(kafka: Kafka, topic: str, last: re.Pattern[bytes], check: Callable[[], None]) -> bool:
    check()
    if not kafka.partitions(topic):
        return False
    return any(last.search(each.value or b"") for each in kafka.records(topic))


def _differences(
    kafka: Kafka, database: Database, writer: Writer, source: Source, name: str, prefix: str
) -> Iterator[str]:
    setting = SETTINGS[name]
    for table in source.tables:
        # The transform leaves out truncates, and what names the row of a table without a key.
        if setting.unwrapped and table in ("emptied", VISITS):
            continue
        topic = f"{prefix}.shop.{re.sub('[^A-Za-z0-9._-]', '_', table)}"
        events = _decoded(kafka.records(topic), setting.format)
        declared = writer.tables[table]
        there = database.rows(table, declared)
        images = _rows(events) if declared.key else _copies(events)
        ours = [_plain(image, declared, setting) for image in images]
        if declared.key:
            lines = differing(ours, there, declared, setting)
            yield from (f"{name}, {table} {line}" for line in lines)
        elif _counted(ours) != _counted(there):
            yield f"{name}, {table}: {_counted(ours) - _counted(there)}"


def _decoded(records: list[Record], format: str) -> list[Event]:
    decoded = decode_batch(
        format,
        [each.key for each in records],
        [each.value for each in records],
        [each.headers for each in records],
    )
    return [event for events in decoded.payloads() for event in events]


def _rows(events: list[Event]) -> list[dict[str, Any]]:
    """What is left of a table's rows."""
    rows: dict[bytes, dict[str, Any]] = {}
    gone: dict[bytes, dict[str, Any]] = {}
    for event in events:
        assert event.operation != "invalid", event
        if event.operation == TRUNCATE:
            rows.clear()
            continue
        key = event.record_key
        assert key is not None, event
        if event.operation in (DELETE, TOMBSTONE):
            if key in rows:
                gone[key] = rows.pop(key)
            continue
        noted = json.loads(event.metadata or b"{}")
        old = noted.get("old_key")
        was = gone.get(old.encode(), {}) if old else rows.get(key, {})
        image = _image(event.after)
        rows[key] = {
            name: was[name] if value == UNAVAILABLE else value for name, value in image.items()
        }
    return list(rows.values())


def _copies(events: list[Event]) -> list[dict[str, Any]]:
    """What is left of the rows of a table without a key."""
    rows: Counter[bytes] = Counter()
    for event in events:
        if event.before is not None:
            rows[event.before] -= 1
        if event.after is not None:
            rows[event.after] += 1
    assert min(rows.values()) >= 0
    return [_image(each) for each in rows.elements()]


def _image(text: bytes | None) -> dict[str, Any]:
    assert text is not None
    image: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return image


def _plain(image: dict[str, Any], table: Table, setting: Setting) -> dict[str, Any]:
    return {
        name: setting.of_gold(_typed(image.get(name), column, setting), column)
        for name, column in table.columns.items()
    }


def _typed(value: Any, column: Column, setting: Setting) -> Any:
    """What a table's column of the declared type has of a value of an image."""
    if value is None or not setting.schemas:
        # A value with parts is text.
        return json.dumps(value) if isinstance(value, dict) else value
    match column.kind:
        case Kind.NUMBER:
            if Kind.NUMBER in setting.loses:
                return float(value)
            return value if type(value) is str else Decimal(value)
        case Kind.SINGLE | Kind.DOUBLE:
            return float(value)
        case Kind.BINARY | Kind.BITS:
            shipped = setting.readers.get(column.kind, READERS[column.kind])
            is_bytes = shipped is READERS[column.kind]
            return base64.b64decode(value, validate=True) if is_bytes else value
        case Kind.DATE:
            return date.fromisoformat(value)
        case Kind.LOCAL | Kind.INSTANT:
            return datetime.fromisoformat(value)
        case Kind.LIST:
            return [_typed(each, column.part, setting) for each in value]
    return value


def _counted(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(repr, row.values())) for row in rows)
