"""Change logs for real payloads, whatever these are: their columns are the fields that the images
have, of types that fit or not.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from python_udfs.core.events import DELETE, INSERT, SNAPSHOT, TRUNCATE, UPDATE, UPSERT
from python_udfs.registry import FORMATS, decode_batch
from python_udfs.typed.declared import Log, LogColumn
from python_udfs.typed.row import Change
from support.fuzzing import know_schemas, seeds
from support.typed_texts import TYPES
from tools.benchmarks.payloads import SHAPES, USUAL, WRITES_ONLY, messages

Payload = tuple[bytes | None, bytes]
_OF_ROWS: Final = frozenset({SNAPSHOT, INSERT, UPDATE, UPSERT, DELETE, TRUNCATE})
_MOST_COLUMNS: Final = 12
_OF_EACH_SHAPE: Final = 60


def seed_logs() -> Iterator[tuple[Log, list[Change]]]:
    """A log for each table of the fuzzer's seeds, with its events."""
    know_schemas()
    for format, payloads in sorted(seeds().items()):
        if format in FORMATS:
            yield from _logs(format, format, payloads)


def shape_logs() -> Iterator[tuple[Log, list[Change]]]:
    """The same of the benchmarks' messages."""
    for name, shape in SHAPES.items():
        # Of deletes there is no row to shuffle.
        mix = WRITES_ONLY if "shuffled" in name else USUAL
        yield from _logs(name, shape.format, list(messages(shape, range(_OF_EACH_SHAPE), mix)))


def _logs(
    name: str, format: str, payloads: Sequence[Payload]
) -> Iterator[tuple[Log, list[Change]]]:
    tables: dict[tuple[str | None, ...], list[Change]] = defaultdict(list)
    keys, values = zip(*payloads, strict=True)
    for events in decode_batch(format, keys, values).payloads():
        for event in events:
            if event.operation in _OF_ROWS:
                of = (event.source_database, event.source_schema, event.source_table)
                images = (event.before, event.after, event.record_key, event.metadata)
                tables[of].append(Change(event.operation, *images, format))
    for table, changes in tables.items():
        log = log_of(random.Random(f"{name} {table}"), changes)
        if log is not None:
            yield log, changes


def log_of(rng: random.Random, changes: Sequence[Change]) -> Log | None:
    """A log of the fields that these have; None if they have none."""
    key = dict.fromkeys(name for each in changes for name in _names(each.record_key))
    fields = dict.fromkeys(
        name for each in changes for name in (*_names(each.after), *_names(each.before))
    )
    columns = tuple(
        LogColumn(f"c{number}", _type(rng, name in key), name)
        for number, name in enumerate(list(key | fields)[:_MOST_COLUMNS])
    )
    named = tuple(each.column for each in columns if each.field in key)
    return Log(columns, named, partial=rng.random() < 0.2) if columns else None


def _type(rng: random.Random, is_key: bool) -> str:
    return rng.choice(("string", "bigint", "decimal(18,2)") if is_key else TYPES)


def _names(image: bytes | None) -> list[str]:
    return [] if image is None else list(msgspec.json.decode(image, type=dict[str, msgspec.Raw]))
