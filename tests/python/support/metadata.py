"""Tables as Iceberg's metadata files say they are, written by hand for tests of what is decided
from them. The names are those of "Table Metadata" in Iceberg's specification.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dbt_lakehouse.lake.tables import Table, parse
from dbt_lakehouse.runs.model_run import NodeRun

UUID: Final = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def commit(
    number: int,
    parent: int | None = None,
    operation: str = "append",
    rows: int | None = 1,
    notes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A snapshot; its id is a thousand times its sequence number. ``notes`` are of its summary."""
    summary = {"operation": operation, **(notes or {})}
    if rows is not None:
        summary |= {"added-records": str(rows), "added-data-files": "1"} if rows else {}
    found = {
        "snapshot-id": number * 1000,
        "sequence-number": number,
        "timestamp-ms": 1763683200000 + number,
        "manifest-list": f"s3://lake/metadata/snap-{number}.avro",
        "schema-id": 0,
        "first-row-id": 0,
        "summary": summary,
    }
    return found if parent is None else {**found, "parent-snapshot-id": parent * 1000}


def row(*numbers: int) -> list[dict[str, Any]]:
    """Appends that follow each other, the first without a parent."""
    parents: list[int | None] = [None, *numbers]
    return [commit(number, parent) for number, parent in zip(numbers, parents, strict=False)]


def metadata(
    snapshots: Sequence[Mapping[str, Any]] = (),
    current: int | None = None,
    properties: Mapping[str, str] | None = None,
    uuid: str = UUID,
) -> str:
    """The metadata of a table; its current snapshot is the last one, or that of this number."""
    last = snapshots[-1]["snapshot-id"] if snapshots else None
    document = {
        "format-version": 3,
        "table-uuid": uuid,
        "location": "s3://lake/silver/orders_changes",
        "last-sequence-number": 9,
        "last-updated-ms": 1763683200000,
        "last-column-id": 3,
        "current-schema-id": 1,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "id", "required": False, "type": "int"}],
            },
            {
                "type": "struct",
                "schema-id": 1,
                "fields": [
                    {"id": 1, "name": "id", "required": False, "type": "long", "doc": "The key."},
                    {"id": 2, "name": "at", "required": False, "type": "timestamptz"},
                    {
                        "id": 3,
                        "name": "tags",
                        "required": False,
                        "type": {
                            "type": "list",
                            "element-id": 4,
                            "element": "string",
                            "element-required": False,
                        },
                    },
                ],
            },
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "next-row-id": 0,
        "properties": dict(properties or {}),
        "snapshots": list(snapshots),
        "snapshot-log": [],
    }
    at = last if current is None else current * 1000
    return json.dumps(document if at is None else {**document, "current-snapshot-id": at})


def table(
    snapshots: Sequence[Mapping[str, Any]] = (),
    current: int | None = None,
    properties: Mapping[str, str] | None = None,
    uuid: str = UUID,
) -> Table:
    """The table of such metadata."""
    return parse(metadata(snapshots, current, properties, uuid))


def is_behind(run: NodeRun, upstream: str) -> bool:
    """Whether an upstream has any commit that is new to the run's table."""
    return run.reading(upstream).until.sequence > run.sequence_read(upstream)
