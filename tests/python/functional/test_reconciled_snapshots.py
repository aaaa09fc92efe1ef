"""Full snapshots that change logs reconcile, through dbt: what is left of the keys that they did
not read, and who says so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest
from support.debezium_messages import SOURCE, dumps
from support.lakes import Lake
from support.small_project import Log, add_gold, add_log, current_state, history, small_project
from support.streams import START, Message

from dbt_lakehouse.commands.status.facts import Outcome
from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.commands.status.status_output import report_of
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.commands.why.why_output import Ending, Reason
from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.texts import time_text

AS_OF: Final = "2026-11-23 00:00:00"


class Sent(NamedTuple):
    """A row as a connector sends it. ``mark`` None: it is no row of a snapshot."""

    run: int
    key: int
    op: str
    mark: str | None = None
    snapshot: int = 0
    """Which snapshot it is of."""
    partition: int = 0
    tick: int | None = None
    """When; by default a millisecond after the one before it."""
    is_broken: bool = False


def created(*keys: int, run: int = 0, partition: int = 0) -> list[Sent]:
    return [Sent(run, key, "c", partition=partition) for key in keys]


def read(run: int, key: int, mark: str, snapshot: int = 1, **but: Any) -> Sent:
    return Sent(run, key, "r", mark, snapshot, **but)


RUNS: Final = 2
REFERENCES: Final = ("test_name:equals_refold", "test_name:is_history")
SENT: Final[dict[str, list[Sent]]] = {
    # 3 is lost, and 4 was deleted before; 6 comes after it, and 7 while it goes on.
    "whole": [
        *created(1, 2, 3, 4, 7),
        Sent(0, 4, "d"),
        read(1, 1, "first"),
        Sent(1, 7, "u"),
        read(1, 2, "true"),
        read(1, 5, "last"),
        *created(6, run=1),
    ],
    "incremental": [*created(11, 12), read(1, 11, "incremental")],
    "over_two_runs": [*created(21, 22, 23), read(0, 21, "first"), read(1, 22, "last")],
    # 33 was deleted between the two.
    "begun_again": [
        *created(31, 32, 33, 34),
        *(read(0, 31, "first"), read(0, 33, "true")),
        *(read(1, 31, "first", 2), read(1, 32, "last_in_data_collection", 2)),
    ],
    # Rows of one millisecond, some of which an earlier run has written.
    "parted": [
        *created(41, 42, 43),
        *created(51, 52, 53, partition=1),
        read(0, 51, "first_in_data_collection", partition=1, tick=50),
        read(0, 41, "true", tick=50),
        read(1, 42, "true", tick=50),
        read(1, 52, "last", partition=1, tick=50),
    ],
    "misread": [*created(61, 62), read(1, 61, "first"), read(1, 61, "last", is_broken=True)],
    "unasked": [*created(1, 2, 3), read(1, 1, "first"), read(1, 2, "last")],
}
SINGLE: Final = ("whole", "unasked")
LEFT: Final[dict[str, list[set[int]]]] = {
    "whole": [{1, 2, 3, 7}, {1, 2, 5, 6, 7}],
    "several": [
        {11, 12, 21, 22, 23, 31, 32, 33, 34, 41, 42, 43, 51, 52, 53, 61, 62},
        {11, 12, 21, 22, 31, 32, 41, 42, 51, 52, 61, 62},
    ],
    "unasked": [{1, 2, 3}] * 2,
}


def log_named(name: str) -> Log:
    return Log(
        name,
        name if name in SINGLE else [each for each in SENT if each not in SINGLE],
        {"id": "bigint"},
        {"value": "bigint"},
        *("shop", "public"),
        reconcile_snapshots=name != "unasked",
    )


def messages(table: str) -> Iterator[tuple[int, Message]]:
    """The messages of a table, with the run in which they land."""
    offsets: dict[int, int] = defaultdict(int)
    clock = START
    for number, each in enumerate(SENT[table]):
        clock = clock + 1 if each.tick is None else START + each.tick
        # The rows of a snapshot share the position at which it began.
        lsn = 1000 * (each.snapshot + 1) if each.op == "r" else 500 + 1000 * each.run + number
        if each.mark == "incremental":
            lsn = 500 + 1000 * each.run + number
        source = SOURCE | {"table": table, "ts_ms": clock, "lsn": lsn}
        source |= {"snapshot": each.mark or "false", "sequence": None}
        image = {"id": each.key, "value": number}
        is_delete = each.op == "d"
        value = dumps(
            {
                "before": image if is_delete else None,
                "after": None if is_delete else image,
                "source": source,
                "op": each.op,
                "ts_ms": clock,
            }
        )
        if table == "over_two_runs":
            # JSON may escape any letter.
            value = value.replace(b'"first"', b'"f\\u0069rst"').replace(b'"last"', b'"l\\u0061st"')
        message = Message(
            *(f"debezium.{table}", each.partition, offsets[each.partition], clock),
            dumps({"id": each.key}),
            value[:-1] if each.is_broken else value,
        )
        offsets[each.partition] += 1
        yield each.run, message


def keys_in(rows: Iterable[dict[str, Any]]) -> list[int]:
    return sorted(each["id"] for each in rows)


class Built(NamedTuple):
    """A lake after all of its runs."""

    lake: Lake
    left: dict[str, list[list[int]]]
    """The keys of each gold table after each run."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    root = tmp_path_factory.mktemp("snapshots")
    project = small_project(root / "project")
    for log in map(log_named, LEFT):
        add_log(project, log)
        add_gold(project, current_state(log))
        if log.name in ("whole", "several"):
            add_gold(project, history(log, f"{log.name}_history"))
    lake = Lake(root, project)
    sent = [each for table in SENT for each in messages(table)]
    left: dict[str, list[list[int]]] = {name: [] for name in LEFT}
    for run in range(RUNS):
        lake.land(message.line() for when, message in sent if when == run)
        assert set(lake.dbt("run", as_of=AS_OF).values()) == {"success"}
        for name, keys in left.items():
            keys.append(keys_in(lake.read(f"gold.{name}")))
    return Built(lake, left)


def test_what_a_snapshot_did_not_read_is_gone_once_it_has_ended(built: Built) -> None:
    expected = {name: [sorted(keys) for keys in left] for name, left in LEFT.items()}
    assert built.left == expected
    tests = built.lake.dbt("test", "-s", *REFERENCES, as_of=AS_OF)
    assert set(tests.values()) == {"pass"} and len(tests) == 5


def test_a_history_has_no_gap_where_a_snapshot_has_read_the_row(built: Built) -> None:
    versions: dict[int, list[Any]] = defaultdict(list)
    for each in sorted(built.lake.read("gold.whole_history"), key=lambda row: row["valid_from"]):
        versions[each["id"]].append((each["valid_from"], each["valid_to"]))
    assert [len(versions[key]) for key in (1, 3, 7)] == [2, 1, 2]
    assert versions[1][0][1] == versions[1][1][0]
    started = datetime.fromtimestamp((START + 7) / 1000, UTC)
    assert versions[3][0][1] == started
    # The update while it went on is of a row that it had not read so far.
    assert versions[7][0][1] == started and versions[7][1][0] > started


def test_why_names_the_snapshot_that_did_not_read_a_key(built: Built) -> None:
    lake = built.lake
    with lake.dbt_folders():
        graph, reader = read_manifest(lake.load()).nodes, lake.reader()
    lost = why(reader, keyed_table(graph, "whole"), '{"id": 3}')
    first, last = [each for _, each in messages("whole") if each.offset in (6, 9)]
    assert lost.reason is Reason.UNREAD_BY_SNAPSHOT and not lost.differences
    assert lost.events[-1].snapshot == Ending(
        last.topic, 0, last.offset, time_text((last.timestamp_ms or 0) * 1000)
    )
    assert (
        "no row: not read by the snapshot of its table that began at debezium.whole, partition 0,"
        f" offset {first.offset}, and ended at " in lost.text()
    )
    kept = why(reader, keyed_table(graph, "several"), '{"id": 52}')
    assert kept.reason is Reason.LIVE and not kept.differences


def test_keys_that_snapshots_did_not_read_are_counted(built: Built) -> None:
    counted: dict[str, int] = defaultdict(int)
    for each in built.lake.sql("select gold_table, unread_keys from silver.fold_counters"):
        counted[each["gold_table"]] += each["unread_keys"] or 0
    # 23; 33 and 34; 43 and 53.
    assert {name: keys for name, keys in counted.items() if keys} == {
        "gold.whole": 1,
        "gold.several": 5,
    }


def test_status_says_what_a_snapshot_did_not_read_where_nothing_reconciles_it(
    built: Built,
) -> None:
    report = report_of(gather(built.lake.reader(), "silver"))
    assert {each.outcome for each in report.facts.links} <= {Outcome.WHOLE, Outcome.UNCHECKED}
    unread = {each.table: each.unread_keys for each in report.facts.tables if each.unread_keys}
    assert unread == {"gold.unasked": 1}
    assert "did not read 1 key that the table has" in report.text()


# In CI, test_what_a_snapshot_did_not_read_is_gone_once_it_has_ended compares with the
# reference.
@pytest.mark.long
def test_a_rebuild_gives_the_same(built: Built) -> None:
    rebuilt = built.lake.dbt("run", "--full-refresh", as_of=AS_OF)
    assert set(rebuilt.values()) == {"success"}
    found = {name: keys_in(built.lake.read(f"gold.{name}")) for name in LEFT}
    assert found == {name: left[-1] for name, left in built.left.items()}
