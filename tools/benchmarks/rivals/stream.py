"""The loads that all sides get, and the rows that they should end with.

Debezium's envelopes of ``benchmarks.payloads``, changes and deletes of a fifth as many keys, with
what happens on a bad day: a message in 100 is sent again, as a message of its own, and a message in
100 of an increment lands with the next one, after its key's next change: a delete, or an update.
"""

import datetime
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tools.benchmarks.payloads import PARTITIONS, SHAPES, Make, Message, Mix, write_parquet
from tools.benchmarks.pipeline import EVENTS_PER_KEY, INCREMENTS

INCREMENT: Final = 3_000
COLUMNS: Final = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer_id", pa.int32()),
        ("status", pa.string()),
        ("amount", pa.decimal128(18, 2)),
        ("currency", pa.string()),
        ("placed_at", pa.timestamp("us", tz="UTC")),
        ("shipped_at", pa.int64()),
        ("note", pa.string()),
    ]
)
"""The table's columns, key first."""

# Of so many messages of a partition, by their offsets, each of these is one.
_CYCLE: Final = 100
_SENT_AGAIN, _LATE, _OVERTAKING = 0, 49, 50

Rows = dict[int, dict[str, Any]]
"""A table's rows, by key."""


@dataclass(frozen=True)
class _Change(Mix):
    """One change of one key."""

    order: int = 0
    change: str = "u"

    def key(self, rng: random.Random, number: int) -> int:
        """That one."""
        return self.order

    def operation(self, rng: random.Random) -> str:
        """That one."""
        return self.change


@dataclass
class _BadDay:
    """Messages, some of which are the one before in their partition once more, or its key's next
    change.
    """

    make: Make
    last: dict[int, Message] = field(default_factory=dict)

    def __call__(self, rng: random.Random, number: int, mix: Mix) -> Message:
        offset, partition = divmod(number, PARTITIONS)
        before = self.last.get(partition)
        if before and offset % _CYCLE == _SENT_AGAIN:
            return before
        if before and offset % _CYCLE == _OVERTAKING:
            change = "d" if offset // _CYCLE % 2 else "u"
            mix = _Change(order=msgspec.json.decode(before.key)["order_id"], change=change)
        self.last[partition] = self.make(rng, number, mix)
        return self.last[partition]


def write_loads(folder: Path, events: int) -> Path:
    """Write a first load of so many events, and increments; a folder with a folder for each, whose
    names are in their order.
    """
    first = -(-events // INCREMENT)
    shape = SHAPES["debezium"]
    files = write_parquet(
        folder / "made",
        shape._replace(make=_BadDay(shape.make)),
        (first + INCREMENTS) * INCREMENT,
        per_file=INCREMENT,
        mix=Mix(keys=events // EVENTS_PER_KEY),
    )
    made = [pq.read_table(file) for file in files]
    late = made[0].slice(0, 0)
    landed = [late]
    for number, table in enumerate(made, start=1):
        held = pa.array(
            first <= number < len(made) and offset % _CYCLE == _LATE
            for offset in table["offset"].to_pylist()
        )
        now = pa.concat_tables([late, table.filter(pc.invert(held))])
        late = table.filter(held)
        if number <= first:
            landed[0] = pa.concat_tables([landed[0], now])
        else:
            landed.append(now)
    for number, table in enumerate(landed):
        path = folder / "loads" / f"{number:03}"
        path.mkdir(parents=True)
        pieces = 4 if number == 0 else 1
        size = -(-len(table) // pieces)
        for piece in range(pieces):
            pq.write_table(table.slice(piece * size, size), path / f"{piece}.parquet")
    return folder / "loads"


def folded(loads: Path) -> Rows:
    """The rows that these loads leave, by the offset of each key's last change."""
    last: dict[int, tuple[int, bytes]] = {}
    for file in loads.glob("*/*.parquet"):
        columns = pq.read_table(file, columns=["offset", "key", "value"]).to_pydict()
        for offset, key, value in zip(*columns.values(), strict=True):
            order = msgspec.json.decode(key)["order_id"]
            if order not in last or offset > last[order][0]:
                last[order] = offset, value
    events = (msgspec.json.decode(value) for _, value in last.values())
    return rows_of(_typed(event["after"]) for event in events if event["op"] != "d")


def _typed(image: dict[str, Any]) -> dict[str, Any]:
    placed = datetime.datetime.fromisoformat(image["placed_at"])
    return image | {"amount": Decimal(image["amount"]), "placed_at": placed}


def read_rows(file: Path) -> Rows:
    """The rows that a side has left. Raises ``ArrowInvalid`` if its columns are others."""
    return rows_of(pq.read_table(file).cast(COLUMNS).to_pylist())


def rows_of(rows: Iterable[dict[str, Any]]) -> Rows:
    """Rows by key. Raises ``RuntimeError`` if one is there twice."""
    found = [(row["order_id"], row) for row in rows]
    by_key = dict(found)
    if len(by_key) < len(found):
        raise RuntimeError(f"{len(found) - len(by_key)} keys have several rows")
    return by_key
