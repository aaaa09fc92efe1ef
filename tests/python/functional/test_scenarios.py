"""The whole pipeline through dbt: random streams in many batchings against the plain reference.

And the proof that each data test fails when it should. One lake serves all tests, for a dbt run
costs seconds. Five clones of one random stream (the same events for other records and partitions)
come in five different batchings within the same three runs. What a test changes in the lake, it
puts back.
"""

import json
import random
import re
import shutil
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from support import expected_gold, streams
from support.aerospike_encoder import pack
from support.expected_gold import (
    EPOCH,
    GOLD,
    MODELS,
    TABLES,
    Logged,
    Row,
    Table,
    by_key,
    changes_by_key,
    differences,
    gold,
    log_of,
    micros_of,
    states,
)
from support.lakes import Lake, as_of_text, copy_project
from support.streams import DAY, HOUR, MINUTE, ORDERS, PROFILES, SESSIONS, START, Message

from dbt_lakehouse.build import templates
from dbt_lakehouse.reference.fold import Change, known_time, log_order

# The moments the three runs are for. In the second, what the first remembered is purged.
RUNS: Final = tuple(
    EPOCH + timedelta(milliseconds=START + ms) for ms in (2 * HOUR, 9 * DAY, 10 * DAY)
)
LAST: Final = RUNS[-1]
CLONES: Final = (
    "in order",
    "a partition late",
    "out of order",
    "all in the first run",
    "all in the last run",
)
MESSAGES: Final = 60
# Records of these clones are written by hand, by the tests themselves.
BY_HAND: Final = 7
# Behind the streams, so that nothing is out of place or older than what was purged.
BY_HAND_START: Final = START + 5 * DAY


# --- batchings ------------------------------------------------------------------------------------


def batches(clones: list[list[Message]]) -> list[list[Message]]:
    """The messages of all clones, dealt out to the runs, each clone in its own way."""
    dice = random.Random("batches")
    runs: list[list[Message]] = [[] for _ in RUNS]
    for kind, messages in zip(CLONES, clones, strict=True):
        partitions: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            partitions.setdefault(message[:2], []).append(message)
        for (topic, partition), own in partitions.items():
            first = partition % streams.PARTITIONS_PER_CLONE == 0
            for message, run in zip(own, _runs(kind, topic, first, len(own), dice), strict=True):
                runs[run].append(message)
    for batch in runs:
        dice.shuffle(batch)
    return runs


def _runs(kind: str, topic: str, first: bool, count: int, dice: random.Random) -> list[int]:
    """The run that each message of a partition comes in. ``first``: a topic's partition 0."""
    last = len(RUNS) - 1
    if kind == "all in the first run":
        return [0] * count
    if kind == "all in the last run" or (
        kind == "a partition late" and first == (topic == SESSIONS)
    ):
        return [last] * count
    scattered = [dice.randint(0, last) for _ in range(count)]
    # Only timestamps that never go back keep their log time when offsets come out of order.
    return scattered if kind == "out of order" and not first else sorted(scattered)


# --- what was built -------------------------------------------------------------------------------


@dataclass
class Scenario:
    """A lake after the three runs, and what was seen on the way."""

    lake: Lake
    landed: list[Message] = field(default_factory=list)
    differences: list[list[str]] = field(default_factory=list)
    live: list[dict[str, set[Any]]] = field(default_factory=list)

    def run(self, *arguments: str) -> None:
        """``dbt run`` as of the last run, which must succeed."""
        succeed(self.lake.dbt("run", *(arguments or ("-s", *MODELS)), as_of=as_of_text(LAST)))

    def differences_now(self, as_of: datetime = LAST) -> list[str]:
        """How gold differs from the reference for what has landed."""
        return differences(self.lake, self.landed, as_of)


def succeed(statuses: dict[str, str]) -> None:
    """Every node of a dbt command ran without error."""
    assert statuses and set(statuses.values()) <= {"success", "pass", "warn"}, statuses


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """The clones' messages in three runs, gold compared after each."""
    scenario = Scenario(Lake(tmp_path_factory.mktemp("scenario")))
    clones = [streams.stream(1, clone, MESSAGES) for clone in range(len(CLONES))]
    for as_of, messages in zip(RUNS, batches(clones), strict=True):
        if as_of == RUNS[-2]:
            messages += by_hand_deletes()
        if as_of == LAST:
            messages += by_hand_before()
        # What has landed before is skipped: a consumer that starts over.
        again = scenario.landed[-20:]
        result = scenario.lake.land(each.line() for each in [*again, *messages])
        assert result == (len(messages), len(again))
        scenario.landed += messages
        succeed(scenario.lake.dbt("run", "-s", *MODELS, as_of=as_of_text(as_of)))
        scenario.differences.append(scenario.differences_now(as_of))
        scenario.live.append({name: set(gold(scenario.lake, name)) for name in GOLD})
    return scenario


# --- the scenario ---------------------------------------------------------------------------------


@pytest.mark.parametrize("run", range(len(RUNS)))
def test_gold_equals_the_reference_after_each_run(scenario: Scenario, run: int) -> None:
    assert scenario.differences[run] == []


def test_every_batching_gives_the_same_rows(scenario: Scenario) -> None:
    for name, table in GOLD.items():
        clones: list[dict[Any, Row]] = [{} for _ in CLONES]
        for row in gold(scenario.lake, name).values():
            clone, row["_position"]["partition"] = divmod(
                row["_position"]["partition"], streams.PARTITIONS_PER_CLONE
            )
            if clone < len(CLONES):
                number = row.pop(table.key)
                clones[clone][plain_key(number, clone)] = row
        assert clones[0]
        for kind, rows in zip(CLONES, clones, strict=True):
            assert rows == clones[0], f"{name}: {kind}"


def plain_key(key: Any, clone: int) -> int:
    """The number of a record within its clone."""
    numbers = {streams.order_id(clone, n): n for n in range(streams.KEYS)} | {
        digest(clone, n): n for n in range(streams.KEYS)
    }
    return numbers[key]


def digest(clone: int, number: int) -> str:
    """The ``_digest`` of a record."""
    return b64encode(streams.digest(clone, number)).decode()


def situations(table: Table, log: list[Logged]) -> set[str]:
    """What happens to the keys of a table."""
    found = set()
    for own in changes_by_key(table, log).values():
        newest: int | None = None
        before: Change | None = None
        for change in sorted((logged.change for logged in own), key=log_order):
            time = known_time(change)
            found.add("delete" if change.operation == "delete" else "write")
            if before and before.operation == "delete" and change.operation != "delete":
                found.add("write after delete")
            if before and before.position.partition != change.position.partition:
                found.add("other partition")
                if before.position.log_time == change.position.log_time:
                    found.add("tie of partitions")
            if time is None:
                found.add("no time" if change.occurred_at is None else "wrong clock")
            elif newest is not None and time <= newest:
                found.add("tie" if time == newest else "late")
            newest = max((known for known in (time, newest) if known is not None), default=None)
            if change.position.log_time is None:
                found.add("no log time")
            if change.position.event_index:
                found.add("batch")
            if change.expires_at is not None:
                past = change.expires_at <= micros_of(LAST)
                found.add("expired" if past else "expires later")
            before = change
        if any(logged.event.source_table is None for logged in own):
            found.add("delete without a set")
    return found


def test_the_stream_holds_every_situation(scenario: Scenario) -> None:
    log = log_of(scenario.landed)
    of_any = {
        *("write", "delete", "write after delete", "other partition", "tie of partitions"),
        *("no time", "wrong clock", "tie", "late", "no log time"),
    }
    of_aerospike = of_any | {"batch", "expired", "expires later", "delete without a set"}
    for table in TABLES:
        wanted = of_any if table is expected_gold.ORDERS else of_aerospike
        assert wanted == situations(table, log), table.name
    assert {"invalid", "tombstone", "message"} <= {logged.event.operation for logged in log}
    # Rows that are gone in one run and back in a later one.
    history = [
        "".join(str(int(key in run[name])) for run in scenario.live)
        for name in GOLD
        for key in set().union(*(run[name] for run in scenario.live))
    ]
    assert any(re.search("10+1", each) for each in history)


def test_keys_were_refolded_and_states_purged(scenario: Scenario) -> None:
    counters = scenario.lake.sql("select gold_table, refolded_keys from silver.fold_counters")
    refolded = {row["gold_table"] for row in counters if row["refolded_keys"]}
    assert refolded == {f"gold.{name}" for name in GOLD}
    commits = scenario.lake.snapshots("silver.deleted_keys")
    assert any("lakehouse.purge_horizon" in commit.summary for commit in commits)


def test_spark_and_pyiceberg_read_the_same_rows(merged: "Merged") -> None:
    lake = merged.scenario.lake
    for name in GOLD:
        deletion_vectors = lake.sql(
            f"select count(*) as files from gold.{name}.delete_files where file_format = 'PUFFIN'"
        )
        assert deletion_vectors[0]["files"] > 0
        assert gold(lake, name) == by_key(name, lake.sql(f"select * from gold.{name}"))


# --- a second run is a merge ----------------------------------------------------------------------


def aerospike_write(topic: str, number: int, offset: int, minute: int) -> Message:
    """A write by hand; ``minute`` dates it by the source and, with the offset, by Kafka."""
    namespace, set_name, name = {
        PROFILES: ("users", "profiles", "display_name"),
        SESSIONS: ("web", "sessions", "user_agent"),
    }[topic]
    key = [namespace, set_name, streams.digest(BY_HAND, number), None]
    bins = [[name, streams.STRING, 0, f"minute {minute}"]]
    value = pack([1, 1, [key, 1, 0, BY_HAND_START + minute * MINUTE, bins]])
    return _by_hand(topic, offset, None, value)


def aerospike_delete(topic: str, number: int, offset: int, minute: int) -> Message:
    """A delete without a set by hand."""
    namespace = {PROFILES: "users", SESSIONS: "web"}[topic]
    key = [namespace, None, streams.digest(BY_HAND, number), None]
    value = pack([1, 2, [key, 0, 1, 0, BY_HAND_START + minute * MINUTE]])
    return _by_hand(topic, offset, None, value)


def order_change(op: str, number: int, offset: int, minute: int) -> Message:
    """A change of an order by hand."""
    key = {"order_id": streams.order_id(BY_HAND, number)}
    image = {**key, "status": f"minute {minute}", "amount": minute}
    source = {"connector": "postgresql", "db": "shop", "schema": "sales", "table": "orders"}
    value = {
        "before": None,
        "after": None if op == "d" else image,
        "source": {**source, "ts_ms": BY_HAND_START + minute * MINUTE},
        "op": op,
    }
    return _by_hand(ORDERS, offset, json.dumps(key).encode(), json.dumps(value).encode())


def _by_hand(topic: str, offset: int, key: bytes | None, value: bytes) -> Message:
    timestamp = BY_HAND_START + offset * MINUTE
    return Message(topic, streams.clone_partition(BY_HAND, 0), offset, timestamp, key, value)


def by_hand_deletes() -> list[Message]:
    """Row 9 of the Aerospike tables is written and deleted; ``by_hand_before`` belongs between."""
    topics = (PROFILES, SESSIONS)
    return [
        *(aerospike_write(topic, 9, 20, minute=10) for topic in topics),
        *(aerospike_delete(topic, 9, 22, minute=50) for topic in topics),
    ]


def by_hand_before() -> list[Message]:
    """Five rows of each table, for the next run to change, and what makes row 9's delete late."""
    return [
        *(aerospike_write(topic, 9, 21, minute=60) for topic in (PROFILES, SESSIONS)),
        *(aerospike_write(t, n, n, minute=100) for t in (PROFILES, SESSIONS) for n in range(5)),
        *(order_change("c", n, n, minute=100) for n in range(5)),
    ]


def by_hand_changes() -> list[Message]:
    """Row 0 is updated, 1 deleted, 2 written late, 3 left alone, 4 late, then on time; 5 is new."""
    changes = [
        order_change("u", 0, 5, minute=90),
        order_change("d", 1, 6, minute=110),
        order_change("u", 4, 7, minute=110),
        order_change("c", 5, 8, minute=110),
    ]
    for topic in (PROFILES, SESSIONS):
        changes += [
            aerospike_write(topic, 0, 5, minute=110),
            aerospike_delete(topic, 1, 6, minute=110),
            aerospike_write(topic, 2, 7, minute=90),
            aerospike_write(topic, 4, 8, minute=90),
            aerospike_write(topic, 4, 9, minute=110),
            aerospike_write(topic, 5, 10, minute=90),
        ]
    return changes


@dataclass
class Merged:
    """The lake after one more run with changes by hand, and what it was before that run."""

    scenario: Scenario
    builds: dict[str, int | None]
    snapshots: dict[str, str]
    sequence_numbers: dict[str, dict[Any, int]]
    rows: dict[str, dict[Any, Row]]
    commits: dict[str, int]


def sequence_numbers(lake: Lake, name: str) -> dict[Any, int]:
    """The commit that last wrote each row of a gold table."""
    key = GOLD[name].key
    rows = lake.sql(f"select {key}, _last_updated_sequence_number as number from gold.{name}")
    return {row[key]: row["number"] for row in rows}


@pytest.fixture(scope="module")
def merged(scenario: Scenario) -> Merged:
    lake = scenario.lake
    merged = Merged(
        scenario,
        {table: lake.build(table) for table in lake.tables()},
        lake.current_snapshots(lake.tables()),
        {name: sequence_numbers(lake, name) for name in GOLD},
        {name: gold(lake, name) for name in GOLD},
        {table: len(lake.snapshots(table)) for table in lake.tables()},
    )
    messages = by_hand_changes()
    lake.land(each.line() for each in messages)
    scenario.landed += messages
    scenario.run()
    return merged


def test_a_run_merges_and_changes_only_what_it_should(merged: Merged) -> None:
    lake = merged.scenario.lake
    assert merged.scenario.differences_now() == []
    for name, table in GOLD.items():
        by_hand = [
            streams.order_id(BY_HAND, n) if table is expected_gold.ORDERS else digest(BY_HAND, n)
            for n in range(6)
        ]
        updated = {by_hand[0], by_hand[4]}
        before, after = merged.rows[name], gold(lake, name)
        old, new = merged.sequence_numbers[name], sequence_numbers(lake, name)
        assert set(before) - set(after) == {by_hand[1]}
        assert set(after) - set(before) == {by_hand[5]}
        assert {key for key in after if old.get(key) != new[key]} == {*updated, by_hand[5]}
        assert {key for key in after if before.get(key) != after[key]} == {*updated, by_hand[5]}

        assert lake.build(f"gold.{name}") == merged.builds[f"gold.{name}"]
        commits = lake.snapshots(f"gold.{name}")[merged.commits[f"gold.{name}"] :]
        assert [commit.operation for commit in commits] == ["overwrite"]
        summary = commits[0].summary
        # An update is the old row deleted and the new one added; no data file is written anew.
        assert int(summary["added-records"]) == 3
        replaced = int(summary.get("removed-position-deletes", 0))
        assert int(summary["added-position-deletes"]) - replaced == 3
        assert "deleted-data-files" not in summary
    for log in silver_logs(lake):
        commits = lake.snapshots(log)[merged.commits[log] :]
        assert {commit.operation for commit in commits} <= {"append"}, log


def test_a_run_counts_what_it_did(merged: Merged) -> None:
    """In one commit for all of its tables."""
    commits = merged.scenario.lake.snapshots("silver.fold_counters")
    assert len(commits) == merged.commits["silver.fold_counters"] + 1
    counters = {
        row.pop("gold_table"): row
        for row in merged.scenario.lake.sql(
            """
            select gold_table, new_events, touched_keys, refolded_keys, late_events
            from silver.fold_counters
            order by _last_updated_sequence_number desc
            limit 3
            """
        )
    }
    refolded = {"refolded_keys": 0}
    aerospike = {"new_events": 5, "touched_keys": 5, "late_events": 2} | refolded
    orders = {"new_events": 4, "touched_keys": 4, "late_events": 0} | refolded
    assert counters == {
        "gold.profiles": aerospike,
        "gold.sessions": aerospike,
        "gold.orders": orders,
    }


def test_a_run_with_nothing_new_commits_nothing(merged: Merged) -> None:
    lake = merged.scenario.lake
    before = lake.current_snapshots(lake.tables())
    merged.scenario.run()
    assert lake.current_snapshots(lake.tables()) == before


# --- crashes --------------------------------------------------------------------------------------


def silver_logs(lake: Lake) -> list[str]:
    """The tables of silver that only ever grow."""
    merged = {"silver.deleted_keys"}
    return [each for each in lake.tables() if each.startswith("silver.") and each not in merged]


def silver_rows(lake: Lake) -> dict[str, list[str]]:
    """Every row of the silver logs but the counters of runs, as text and in order."""
    logs = [log for log in silver_logs(lake) if log != "silver.fold_counters"]
    return {log: sorted(map(repr, lake.read(log))) for log in logs}


# In CI, test_run_crashes kills a run for good before a commit of gold.
@pytest.mark.long
def test_a_crash_before_gold_is_written_repeats_without_effect(merged: Merged) -> None:
    """The run had remembered the absent keys, but not merged yet."""
    lake = merged.scenario.lake
    silver = silver_rows(lake)
    rows = {name: gold(lake, name) for name in GOLD}
    for name in GOLD:
        lake.roll_back(f"gold.{name}", merged.snapshots[f"gold.{name}"])
        assert gold(lake, name) != rows[name]
    merged.scenario.run()
    assert silver_rows(lake) == silver
    assert {name: gold(lake, name) for name in GOLD} == rows


# --- the data tests can fail ----------------------------------------------------------------------


def failing_tests(lake: Lake, *names: str) -> set[str]:
    """Which of the data tests fail; a name may end in ``*``."""
    statuses = lake.dbt("test", "-s", *names, as_of=as_of_text(LAST))
    assert set(statuses.values()) <= {"pass", "fail"}, statuses
    return {name for name, status in statuses.items() if status == "fail"}


def refold_test(name: str) -> str:
    """The test that a gold table equals the refold of its log."""
    return f"equals_refold_{name}_"


def absent_test(name: str) -> str:
    """The test that a gold table has no deleted or expired key."""
    return f"no_absent_keys_{name}_"


GOLD_TESTS: Final = tuple(test(name) for name in GOLD for test in (refold_test, absent_test))
DECODED: Final = "every_payload_is_accounted_for"
ACCOUNTED: Final = "every_event_is_accounted_for"
LOG_TIME: Final = "log_time_follows_the_offsets"


def put_back(lake: Lake, name: str, key: Any) -> str:
    """SQL that puts the last row that a key's log wrote into gold."""
    columns = [row["col_name"] for row in lake.sql(f"describe gold.{name}")]
    logged = ["_occurred_at" if column == "_max_occurred_at" else column for column in columns]
    return f"""
        insert into gold.{name} ({", ".join(columns)})
        select {", ".join(logged)} from silver.{name}_changes
        where {GOLD[name].key} = {key!r} and _operation <> 'delete'
        order by _position desc limit 1
    """


def expired_key(scenario: Scenario, name: str) -> Any:
    """A key that is absent because its last write has expired."""
    for key, (state, event) in states(GOLD[name], log_of(scenario.landed), LAST).items():
        if not state.is_live and event.operation != "delete":
            return key
    raise AssertionError(f"nothing has expired in {name}")


def test_all_data_tests_pass(merged: Merged) -> None:
    tests = (*GOLD_TESTS, DECODED, ACCOUNTED, LOG_TIME)
    statuses = merged.scenario.lake.dbt("test", "-s", *tests, as_of=as_of_text(LAST))
    assert statuses == dict.fromkeys(tests, "pass")
    assert merged.scenario.lake.broken_sums() == []


def test_changes_of_gold_are_found(merged: Merged) -> None:
    lake = merged.scenario.lake
    altered, missing = digest(BY_HAND, 0), streams.order_id(BY_HAND, 0)
    with lake.tampered(
        f"update gold.profiles set display_name = 'altered' where _digest = '{altered}'",
        put_back(lake, "sessions", digest(BY_HAND, 1)),
        f"delete from gold.orders where order_id = {missing}",
    ):
        assert failing_tests(lake, *GOLD_TESTS) == {
            refold_test("profiles"),
            refold_test("sessions"),
            absent_test("sessions"),
            refold_test("orders"),
        }


def test_absent_keys_and_wrong_times_are_found(merged: Merged) -> None:
    lake = merged.scenario.lake
    redated = digest(BY_HAND, 0)
    with lake.tampered(
        put_back(lake, "profiles", expired_key(merged.scenario, "profiles")),
        "update gold.sessions set _max_occurred_at = _max_occurred_at + interval 1 second "
        f"where _digest = '{redated}'",
        put_back(lake, "orders", streams.order_id(BY_HAND, 1)),
    ):
        assert failing_tests(lake, *GOLD_TESTS) == {
            refold_test("profiles"),
            absent_test("profiles"),
            refold_test("sessions"),
            refold_test("orders"),
            absent_test("orders"),
        }


# Places of events by hand.
EVENT_1: Final = f"topic = '{PROFILES}' and partition = {BY_HAND * 10} and offset = 1"
LOGGED_1: Final = EVENT_1.replace("topic", "_position.topic").replace("and ", "and _position.")
BACK: Final = "timestamp '2001-01-01'"


@pytest.mark.parametrize(
    ("statements", "failing"),
    [
        pytest.param(
            [
                f"delete from silver.profiles_changes where {LOGGED_1}",
                f"insert into silver.log_times values ('{PROFILES}', {BY_HAND * 10}, 2L, {BACK})",
            ],
            {DECODED, LOG_TIME},
            id="event deleted, another's log time set back",
        ),
        pytest.param(
            [
                "insert into silver.profiles_changes select * from silver.profiles_changes "
                f"where {LOGGED_1}",
                "delete from silver.quarantined_payloads where error_code = 'truncated'",
            ],
            {DECODED, ACCOUNTED},
            id="event duplicated, a quarantined payload deleted",
        ),
        pytest.param(
            [
                f"delete from bronze.raw_payloads where {EVENT_1}",
                "update silver.other_events set operation = 'other' where operation = 'delete'",
            ],
            {DECODED, ACCOUNTED},
            id="payload deleted, an event of no kind",
        ),
        pytest.param(
            [
                "update silver.other_events set error_code = null "
                "where operation = 'invalid' and error_code = 'truncated'"
            ],
            {ACCOUNTED},
            id="error without a code",
        ),
    ],
)
def test_lost_and_doubled_events_are_found(
    merged: Merged, statements: list[str], failing: set[str]
) -> None:
    lake = merged.scenario.lake
    with lake.tampered(*statements):
        assert failing_tests(lake, DECODED, ACCOUNTED, LOG_TIME) == failing


@pytest.fixture
def copied_project(tmp_path: Path) -> Path:
    """A copy of the dbt project, for a test to change."""
    return copy_project(tmp_path / "project")


# In CI, test_changes_of_gold_are_found has the same data tests find rows that differ.
@pytest.mark.long
def test_a_missing_stale_guard_is_found(
    merged: Merged, copied_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = merged.scenario.lake
    # No project can replace our templates: the folder is another one.
    fold = shutil.copytree(templates.FOLDER, tmp_path / "sql") / "fold.sql"
    guard = "{% if fold.order_by_source_time %}"
    assert fold.read_text().count(guard) == 1
    fold.write_text(fold.read_text().replace(guard, "{% if false %}"))
    unguarded = Lake(lake.folder, copied_project)
    try:
        arguments = ("run", "--full-refresh", "-s", "profiles", "sessions", "orders")
        with monkeypatch.context() as patch:
            patch.setattr(templates, "_TEMPLATES", templates.of_folder(fold.parent))
            succeed(unguarded.dbt(*arguments, as_of=as_of_text(LAST)))
        assert failing_tests(lake, *GOLD_TESTS) >= {
            refold_test("profiles"),
            refold_test("sessions"),
        }
        assert not failing_tests(lake, refold_test("orders"))
    finally:
        merged.scenario.run("--full-refresh", "-s", "profiles", "sessions", "orders")


# --- rebuilds -------------------------------------------------------------------------------------


REBUILT: Final = (
    "silver.profiles_changes is rebuilt: silver.other_events was replaced after it was read"
)


def logged(scenario: Scenario, text: str) -> int:
    """How often dbt's log has it."""
    return sum(path.read_text().count(text) for path in (scenario.lake.folder / "logs").iterdir())


# In CI, test_other_events (test_a_rebuilt_log_has_the_same_rows) and test_upstreams rebuild
# what others read.
@pytest.mark.long
def test_what_reads_a_rebuilt_table_is_rebuilt(merged: Merged) -> None:
    scenario = merged.scenario
    before = {table: scenario.lake.build(table) for table in scenario.lake.tables()}
    scenario.run("--full-refresh", "-s", "other_events")
    told = logged(scenario, REBUILT)
    scenario.run()
    assert logged(scenario, REBUILT) == told + 1
    assert scenario.differences_now() == []
    tests = (*GOLD_TESTS, DECODED, ACCOUNTED)
    assert not failing_tests(scenario.lake, *tests)
    for table, build in before.items():
        is_rebuilt = not table.startswith("bronze.") and table not in (
            *("silver.fold_counters", "silver.deleted_keys", "silver.log_times"),
        )
        assert (scenario.lake.build(table) != build) == is_rebuilt, table


def test_a_full_refresh_gives_the_same_rows(merged: Merged) -> None:
    scenario = merged.scenario
    scenario.run("--full-refresh", "-s", *MODELS)
    assert scenario.differences_now() == []
    assert not failing_tests(scenario.lake, *GOLD_TESTS)


# --- temporary views ------------------------------------------------------------------------------

TWINS_PROJECT: Final = """
name: twins
profile: cdc_lakehouse
version: "1.0"
models: {twins: {+file_format: iceberg, +materialized: incremental}}
vars: {topics: []}
"""
TWINS_SNAPSHOT: Final = """
snapshots:
  - name: twins_snapshot
    relation: ref('gold_twins_1')
    config:
      schema: gold
      # Of a list dbt-spark makes columns that its second snapshot then has twice.
      unique_key: concat_ws('/', topic, partition, offset)
      strategy: check
      check_cols: all
"""
TWINS_SOURCE: Final = """
sources: [{name: bronze, schema: bronze, tables: [{name: raw_payloads}]}]
"""
TWIN: Final = """
{{{{
    config(
        schema="{schema}",
        alias="{alias}",
        incremental_strategy="merge",
        unique_key=["topic", "partition", "offset"],
    )
}}}}
select '{schema}' as owner, topic, partition, offset
from {{{{ source("bronze", "raw_payloads") }}}}
"""


def test_models_of_one_name_in_two_schemas_stay_apart(
    scenario: Scenario, copied_project: Path
) -> None:
    """Incremental models with the same alias, run by several threads at once, and dbt's snapshot of
    one of them.
    """
    shutil.rmtree(copied_project / "models")
    shutil.rmtree(copied_project / "shared")
    models = copied_project / "models"
    models.mkdir()
    (copied_project / "dbt_project.yml").write_text(TWINS_PROJECT)
    (models / "sources.yml").write_text(TWINS_SOURCE)
    (snapshots := copied_project / "snapshots").mkdir()
    (snapshots / "twins.yml").write_text(TWINS_SNAPSHOT)
    aliases = ["twins_1", "twins_2"]
    for alias in aliases:
        for schema in ("silver", "gold"):
            model = TWIN.format(schema=schema, alias=alias)
            (models / f"{schema}_{alias}.sql").write_text(model)
    lake = Lake(scenario.lake.folder, copied_project)
    try:
        succeed(lake.dbt("run", as_of=as_of_text(LAST)))
        succeed(lake.dbt("snapshot", as_of=as_of_text(LAST)))
        message = Message("nobody.knows", 0, 0, START, None, b"twins")
        lake.land([message.line()])
        succeed(lake.dbt("run", "--threads", "4", as_of=as_of_text(LAST)))
        succeed(lake.dbt("snapshot", as_of=as_of_text(LAST)))
        (kept,) = lake.sql(
            "select count(*) - count(dbt_valid_to) as rows, count(distinct dbt_valid_from) as runs"
            " from gold.twins_snapshot"
        )
        (landed,) = lake.sql("select count(*) as rows from bronze.raw_payloads")
        assert kept == {**landed, "runs": 2}
        for alias in aliases:
            for schema in ("silver", "gold"):
                assert len(lake.snapshots(f"{schema}.{alias}")) == 2
                owners = lake.sql(
                    f"select owner, count(distinct topic, partition, offset) as positions, "
                    f"count(*) as copies from {schema}.{alias} group by owner"
                )
                landed = lake.sql("select count(*) as copies from bronze.raw_payloads")[0]["copies"]
                assert owners == [{"owner": schema, "positions": landed, "copies": landed}]
    finally:
        lake.sql("drop table if exists gold.twins_snapshot purge")
        for alias in aliases:
            for schema in ("silver", "gold"):
                lake.sql(f"drop table if exists {schema}.{alias} purge")
