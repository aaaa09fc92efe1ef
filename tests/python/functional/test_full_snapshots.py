"""Full snapshots that change logs reconcile: which have ended, and through dbt what is left of the
keys that they did not read.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final, NamedTuple

import pytest
from dbt_common.exceptions import CompilationError
from debezium_messages import SOURCE, dumps
from fastavro import parse_schema, schemaless_writer
from lakes import Lake
from small_project import Log, add_gold, add_log, current_state, history, small_project
from streams import START, Message
from test_templates import OF_ALL

from dbt_lakehouse.commands.dbt_commands import read_manifest
from dbt_lakehouse.commands.status.facts import Outcome
from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.commands.status.report import report_of
from dbt_lakehouse.commands.why.command import why
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.report import Ending, Reason
from dbt_lakehouse.declared import declarations
from dbt_lakehouse.reference.fold import Change, Position
from dbt_lakehouse.reference.history import history as versions_of
from dbt_lakehouse.runs.full_snapshots import (
    MAY_BE_MARKED,
    Ended,
    Row,
    ended,
    reconciled,
    row_of,
)
from dbt_lakehouse.texts import time_text

AS_OF: Final = "2026-11-23 00:00:00"
TABLE: Final = ("shop", "public", "orders")


# --- which have ended -----------------------------------------------------------------------------


def row(
    offset: int, mark: str, lsn: int | None = None, partition: int = 0, time: int | None = None
) -> Row:
    said = None if lsn is None else ("lsn", str(lsn))
    return Row("t", partition, offset, offset if time is None else time, TABLE, mark, said)


def test_a_snapshot_lasts_from_its_first_row_to_its_last() -> None:
    first, last = row(3, "first_in_data_collection"), row(7, "last")
    assert ended([last, first]) == [Ended(first, last)]
    assert ended([first]) == ended([last]) == []


def test_of_a_snapshot_that_was_begun_again_the_second_start_counts() -> None:
    cut_off, first, last = row(1, "first", 10), row(4, "first", 20), row(6, "last", 20)
    assert ended([cut_off, first, last]) == [Ended(first, last)]
    # Where the second start has not landed yet, the position tells that the first is another's.
    assert ended([cut_off, last]) == []


def test_of_two_snapshots_each_has_its_own_rows() -> None:
    rows = [row(1, "first"), row(2, "last"), row(5, "first"), row(9, "last_in_data_collection")]
    assert ended(rows) == [Ended(*rows[:2]), Ended(*rows[2:])]
    other = rows[3]._replace(source=("shop", "public", "other"))
    assert ended([*rows[:3], other]) == [Ended(*rows[:2])]


def test_rows_of_one_millisecond_in_two_partitions_are_of_one_snapshot() -> None:
    first, last = row(5, "first", partition=1, time=100), row(2, "last", partition=0, time=100)
    assert ended([first, last]) == [Ended(first, last)]
    assert ended([first, last._replace(log_time=99)]) == []
    assert ended([first, row(4, "last", partition=1, time=100)]) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"lsn": 7, "scn": None}, ("lsn", "7")),
        ({"scn": "9007199254740993"}, ("scn", "9007199254740993")),
        ({"file": "mysql-bin.000003", "pos": 4}, ("file", "pos", "mysql-bin.000003", "4")),
        ({"file": None, "pos": 4}, None),
        ({"ts_ms": 1}, None),
    ],
)
def test_a_row_says_its_sources_position(source: dict[str, Any], said: Any) -> None:
    place = {"topic": "t", "partition": 0, "offset": 1, "log_time": 2, "mark": "first"}
    names = ("source_database", "source_schema", "source_table")
    found = place | dict(zip(names, TABLE, strict=True))
    assert row_of(found | {"metadata": json.dumps({"source": source})}).said == said


@pytest.mark.parametrize("mark", ["first", "last", "last_in_data_collection", "incremental"])
def test_a_payload_of_avro_is_told_by_the_text_of_its_mark(mark: str) -> None:
    fields = [{"name": "last", "type": "int"}, {"name": "snapshot", "type": "string"}]
    schema = {"type": "record", "name": "Source", "fields": fields}
    text = BytesIO()
    schemaless_writer(text, parse_schema(schema), {"last": 4, "snapshot": mark})
    texts = [bytes.fromhex(each) for each in re.findall(r"X'([0-9a-f]+)'", MAY_BE_MARKED)]
    assert any(each in text.getvalue() for each in texts) == (mark != "incremental")


def log_of(**but: Any) -> dict[str, Any]:
    of: dict[str, Any] = {"key": {"id": "bigint"}, "source_table": "orders"}
    of |= {"source_schema": "public", "source_database": "shop", "reconcile_snapshots": True}
    return declarations.change_log({**OF_ALL, **of, **but})


def test_the_source_tables_are_those_of_the_logs_that_ask_for_it() -> None:
    assert reconciled([log_of(reconcile_snapshots=False)]) == ()
    several = log_of(source_table=["orders", "others"])
    assert reconciled([several, log_of()]) == (TABLE, ("shop", "public", "others"))
    assert reconciled([several, log_of(source_database="*")]) is None
    assert "reconcile_snapshots" not in log_of(reconcile_snapshots=False)
    with pytest.raises(CompilationError, match=r"partial: .* reconcile_snapshots"):
        log_of(partial=True)


# --- the reference of histories -------------------------------------------------------------------


def change(place: int, operation: str, *, event_index: int = 0, time: int | None = None) -> Change:
    return Change(operation, time, None, Position(place, "t", 0, place, event_index), None, ("v",))


def valid(*changes: Change) -> list[tuple[int | None, int | None]]:
    found = versions_of(changes, order_by_source_time=False, as_of=99)
    return [(each.valid_from, each.valid_to) for each in found]


def test_a_snapshot_ends_no_version_of_a_key_that_it_has_read() -> None:
    insert, started = change(1, "insert"), change(5, "truncate", event_index=-1)
    assert valid(insert, started, change(6, "snapshot")) == [(1, 6), (6, None)]
    assert valid(insert, started) == [(1, 5)]
    # What is inserted later had not been there; nor has what an earlier snapshot did not read.
    assert valid(insert, started, change(6, "insert")) == [(1, 5), (6, None)]
    again = change(7, "truncate", event_index=-1)
    assert valid(insert, started, again, change(8, "snapshot")) == [(1, 5), (8, None)]
    # A truncate of the source is one, whatever is read after it.
    assert valid(insert, change(5, "truncate"), change(6, "snapshot")) == [(1, 5), (6, None)]


# --- through dbt ----------------------------------------------------------------------------------


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


def test_a_rebuild_gives_the_same(built: Built) -> None:
    rebuilt = built.lake.dbt("run", "--full-refresh", as_of=AS_OF)
    assert set(rebuilt.values()) == {"success"}
    found = {name: keys_in(built.lake.read(f"gold.{name}")) for name in LEFT}
    assert found == {name: left[-1] for name, left in built.left.items()}
