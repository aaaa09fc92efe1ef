"""A run of other_events reads what is new: of bronze, and for log times nothing of its own log."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lakes import Lake
from support.small_messages import set_less_delete
from support.streams import PROFILES

START = 1_700_000_000_000
PROPERTY = "lakehouse.log_times"
FIRST: dict[tuple[int, int], int | None] = {(0, 10): 10, (0, 11): 10}


class Partitions:
    """A lake to land payloads in, run by run; only their places and times matter."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder)

    def run(self, *payloads: tuple[int, int, int | None]) -> dict[tuple[int, int], int | None]:
        """Land (partition, offset, seconds) and build; the log times so far, in seconds."""
        self.lake.land([_line(*each) for each in payloads])
        assert self.lake.dbt("run", "-s", "other_events", as_of="2026-01-01 00:00:00") == {
            "other_events": "success"
        }
        rows = self.lake.sql(
            "select partition, offset, unix_seconds(log_time) as log_time from silver.other_events"
        )
        return {
            (row["partition"], row["offset"]): None
            if row["log_time"] is None
            else row["log_time"] - START // 1000
            for row in rows
        }

    @property
    def statements(self) -> str:
        """What the last run sent to Spark."""
        log = (self.lake.folder / "logs/dbt.log").read_text()
        return log.rpartition("Running with dbt")[2]

    @property
    def read_the_log(self) -> bool:
        """Whether the last run's SQL reads the log that it writes."""
        return "earlier_events" in self.statements


def _line(partition: int, offset: int, seconds: int | None) -> dict[str, Any]:
    return {
        "topic": "debezium.it's",
        "partition": partition,
        "offset": offset,
        "timestamp_ms": None if seconds is None else START + seconds * 1000,
        "value_b64": base64.b64encode(b'{"op":"m","ts_ms":1}').decode(),
        "key_b64": None,
    }


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partitions]:
    """A lake behind its first run."""
    partitions = Partitions(tmp_path_factory.mktemp("log-times"))
    assert partitions.run((0, 10, 10), (0, 11, 5)) == FIRST
    yield partitions


def test_log_times(partitions: Partitions) -> None:
    expected = FIRST | {(0, 12): 10, (1, 3): 1, (2, 0): None}
    assert partitions.run((0, 12, 7), (1, 3, 1), (2, 0, None)) == expected
    assert not partitions.read_the_log

    # Before offsets that came earlier: not above their log times, and above those that come next.
    expected |= {(0, 5): 10, (0, 13): 50}
    assert partitions.run((0, 5, 50), (0, 13, 8)) == expected
    assert partitions.read_the_log

    expected |= {(0, 14): 50, (2, 1): None, (2, 2): 3}
    assert partitions.run((0, 14, 9), (2, 1, None), (2, 2, 3)) == expected
    assert not partitions.read_the_log
    assert partitions.run() == expected

    # No earlier payload is near: the one before is found in all of them.
    expected |= {(0, 5000): 60}
    assert partitions.run((0, 5000, 60)) == expected
    expected |= {(0, 3000): 50, (0, 3001): 55, (0, 3002): 60, (0, 5001): 99}
    assert partitions.run((0, 3000, 9), (0, 3001, 55), (0, 3002, 99), (0, 5001, 1)) == expected

    # A table of before there was the property, or of too many partitions.
    partitions.lake.set_properties("silver.other_events", {PROPERTY: ""})
    expected |= {(2, 3): 3, (1, 4): 4}
    assert partitions.run((2, 3, 2), (1, 4, 4)) == expected
    assert partitions.lake.properties("silver.other_events")[PROPERTY] != ""


def test_a_run_scans_only_new_files(partitions: Partitions) -> None:
    partitions.run((7, 3, 3))
    relation = re.search(
        r"\(select \* from bronze\.raw_payloads .*?\)\)", partitions.statements, re.S
    )
    assert relation is not None
    # What the run read of bronze, by the metrics of Iceberg's scan.
    assert _rows_scanned(partitions.lake, relation[0]) == 1
    assert _rows_scanned(partitions.lake, "bronze.raw_payloads") >= 3


def test_a_run_leaves_alone_what_it_has_no_rows_for(partitions: Partitions) -> None:
    lake, deletes = partitions.lake, "silver.set_less_deletes"
    selected = {"other_events": "success", "set_less_deletes": "success"}
    assert lake.dbt("run", "-s", *selected, as_of="2026-01-01 00:00:00") == selected
    marks, snapshots = lake.marks(deletes), lake.snapshots(deletes)
    lake.land([_line(8, 0, 0)])
    assert lake.dbt("run", "-s", *selected, as_of="2026-01-01 00:00:00") == selected
    # Those that read it have no news, and where it has been read is not noted for nothing.
    assert lake.snapshots(deletes) == snapshots
    mark = marks["silver.other_events"]
    assert lake.marks(deletes) == marks
    assert mark.snapshot != lake.current_snapshot("silver.other_events")

    # The next run that has rows for it begins there, and reads all that has come since.
    lake.land([set_less_delete(PROFILES, 0, 1).line()])
    assert lake.dbt("run", "-s", *selected, as_of="2026-01-01 00:00:00") == selected
    read = lake.marks(deletes)["silver.other_events"].snapshot
    assert read == lake.current_snapshot("silver.other_events")
    assert len(lake.read(deletes)) == 1


def _rows_scanned(lake: Lake, relation: str) -> int:
    rows = lake.spark.sql(f"select * from {relation}")
    rows.collect()
    scan = rows._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.nodeName() == "BatchScan lake.bronze.raw_payloads"
    return int(scan.metrics().apply("numOutputRows").value())
