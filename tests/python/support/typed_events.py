"""Random change logs and events of them, of which most have something rare: placeholders, partial
images, key updates, keys that only the message says, values that fit no type, columns of what the
source said beside the row.
"""

import json
import random
from typing import Any, Final

from msgspec.structs import replace

from python_udfs.core.events import DELETE, INSERT, SNAPSHOT, UPDATE, UPSERT
from python_udfs.typed.declared import Log, LogColumn, PlacePart
from python_udfs.typed.masks import HASH, LAST4, NULL, has_text, know_key, masked_type
from python_udfs.typed.row import Change
from support.typed_texts import TYPES, near_text

know_key(b"a key that the tests have")
PLACEHOLDER: Final = "__debezium_unavailable_value"
# JSON escapes the last one.
_FIELDS: Final = ("id", "k2", "a", "b", "c", "d", 'e"\\')
_VALUES: Final = (
    *(None, 1, 2, 3, -7, 1.5, True, "a", "b", "\u00e9", "2024-01-01", "x\ny", [1, 2], {"a": "x"}),
    *("1.50", 2**70, 10, "\u0001", '{"a":"y"}', "[1, 2]", "", "q", "q", "q"),
    # Python has neither of these days.
    *("+10000-01-01", "-0001-01-01", ["+10000-01-01"], ["2024-01-01"]),
)
_KEY_TYPES: Final = ("int", "bigint", "decimal(9,2)", "double", "string", "date", "array<date>")
_HBASE_TYPES: Final = ("int", "string", "double", "decimal(9,2)", "binary")
_WHOLE: Final = LogColumn("all", "string", "$", ())
_FORMER: Final = ((), (("id", "_id"),), (("k2", "a"), ("id", "k0")))
_PATHS: Final = (
    *(("source", "n"), ("source", "at", "lsn"), ("ts_ms",), ("transaction", "id")),
    *(("source",), ("list", "1"), ("list",), ("old_key",), ("none", "of", "it"), ()),
    ("source", 'a"b'),
)
_OPERATIONS: Final = (SNAPSHOT, INSERT, UPDATE, UPDATE, UPDATE, UPSERT, DELETE, "truncate")


def random_log(rng: random.Random) -> Log:
    """A log of any kind: with a key, keyless, of partial images, or whose key is no column."""
    kind = rng.choice(("key", "key", "key", "keyless", "none"))
    columns = [LogColumn("id_", rng.choice(_KEY_TYPES), "id")]
    if rng.random() < 0.5:
        columns.append(LogColumn("k2", rng.choice(("string", "int")), "k2"))
    keys = len(columns)
    for field in _FIELDS[2:]:
        path = ("c", "a") if field == "c" and rng.random() < 0.3 else None
        type = rng.choice(TYPES)
        encoding = None
        if field == "b" and rng.random() < 0.2:
            type, encoding = rng.choice(_HBASE_TYPES), "hbase"
        columns.append(LogColumn(field.upper(), type, field, path, encoding))
    if rng.random() < 0.1:
        columns.append(_WHOLE)
    beside = [] if rng.random() < 0.5 else rng.sample(_PATHS, rng.choice((1, 2, 4)))
    if kind == "none" and beside and rng.random() < 0.1:
        columns = []
    of_key = columns if kind == "keyless" else columns[:keys] if kind == "key" else []
    masks = rng.random() < 0.3
    log = Log(
        tuple(_masked(rng, each, each in of_key) if masks else each for each in columns),
        tuple(each.column for each in of_key),
        keyless=kind == "keyless",
        partial=kind != "keyless" and columns[-1:] != [_WHOLE] and rng.random() < 0.3,
        keys=rng.choice(((), (("id",),), (("id", "k2"), ("id",)))),
        former=rng.choice((None, None, None, *_FORMER)) if kind == "key" else None,
        beside=tuple(
            _masked(rng, each, False) if masks else each
            for each in (
                LogColumn(f"beside {place}", rng.choice(("string", *TYPES)), ".".join(path), path)
                for place, path in enumerate(beside)
            )
        ),
    )
    return log if rng.random() < 0.6 else replace(log, order_by=_order(rng, log))


def _order(rng: random.Random, log: Log) -> tuple[PlacePart, ...]:
    """Parts of places, of a column or of metadata each."""
    comparable = ("int", "bigint", "decimal", "date", "timestamp")
    columns = [
        PlacePart("number", column=each.column)
        for each in log.all_columns
        if each.mask is None and each.type.startswith(comparable)
    ]
    of_metadata = [PlacePart(rng.choice(("number", "file")), path=path) for path in _PATHS]
    return tuple(rng.sample([*columns, *columns, *of_metadata], rng.choice((1, 2, 3))))


def _masked(rng: random.Random, spec: LogColumn, is_key: bool) -> LogColumn:
    """A column that may have a mask."""
    masks = [None, *([] if is_key else [NULL])]
    if has_text(spec.type):
        masks += [HASH, *([] if is_key else [LAST4])]
    mask = rng.choice(masks)
    if mask is None:
        return spec
    return replace(spec, type=masked_type(mask, spec.type), mask=mask, clear=spec.type)


def random_changes(rng: random.Random, log: Log) -> list[Change]:
    """Events of a log, which may be plain ones only."""
    rarity = rng.choice((0.0, 0.0, 0.02, 0.3))
    return [_change(rng, log, rarity) for _ in range(rng.choice((1, 3, 40)))]


def _change(rng: random.Random, log: Log, rarity: float) -> Change:
    before = _image(rng, log, rarity) if rng.random() < 0.6 else None
    after = _image(rng, log, rarity) if rng.random() < (0.8 if rarity else 0.95) else None
    if after is None and not rarity and before is None:
        before = _image(rng, log, rarity)
    if after is not None and rng.random() < 0.3:
        before = after
    key: dict[str, Any] = {"id": rng.choice((1, 2, 3))}
    if rng.random() < 0.3:
        key["k2"] = "z"
    if rng.random() < rarity:
        key = {"_id": 1}
    metadata = _metadata(rng, log, rarity)
    if rng.random() < rarity:
        metadata["old_key"] = rng.choice(('{"id":9}', '{"id":9,"k2":"w"}', "garbage", "[1]"))
    if rng.random() < rarity:
        metadata["new_key"] = '{"id":8}'
    return Change(
        rng.choice(_OPERATIONS),
        before,
        after,
        _json(key) if rng.random() < 0.9 else None,
        _json(metadata, ascii=rng.random() < 0.3) if rng.random() < 0.9 else None,
        rng.choice(("debezium_json", "debezium_unwrapped_json")),
    )


def _metadata(rng: random.Random, log: Log, rarity: float) -> dict[str, Any]:
    types = [each.type for each in log.beside] or ["int"]

    def value() -> Any:
        if rng.random() < rarity:
            return rng.choice((*_VALUES, PLACEHOLDER, {"lsn": "x"}, [None, {"lsn": 2}]))
        return rng.choice((rng.randrange(3), near_text(rng, rng.choice(types))))

    source: Any = {"db": "x", "n": value(), "at": {"lsn": value(), "x": "\u00e9\n"}}
    metadata = {"source": source, "ts_ms": value(), "transaction": None, "list": [1, value()]}
    if rng.random() < 0.5:
        metadata["transaction"] = {"id": value(), "n": 2**70}
    return {name: each for name, each in metadata.items() if rng.random() < 0.95} | {
        name: value() for name in ("source", "list", "ts_ms") if rng.random() < rarity / 3
    }


def _image(rng: random.Random, log: Log, rarity: float) -> bytes:
    image: dict[str, Any] = {}
    for spec in log.columns:
        if rng.random() < 0.02 + rarity / 3:
            continue
        value: Any = rng.choice(_VALUES)
        if rng.random() < 0.6:
            value = near_text(rng, spec.type)
        if rng.random() < rarity:
            value = PLACEHOLDER
        image[spec.field] = value
    if rng.random() < 1 - rarity / 3:
        image["id"] = rng.choice((1, 1, 2, 2.0, 3))
    image.setdefault("k2", "z")
    if rng.random() < rarity:
        image["k0"] = rng.choice((7, 2.0, "a", PLACEHOLDER))
    if rng.random() < rarity:
        image["$partial"] = {"updated": {"a.x": 1}, "truncated": {"c": 2}}
    return _json(image, ascii=rng.random() < 0.3)


def _json(value: Any, *, ascii: bool = False) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=ascii).encode()
