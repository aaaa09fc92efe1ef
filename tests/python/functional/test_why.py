"""`lakehouse why`: what became of each event of a key, by the reference folds."""

import json
from base64 import b64encode
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from support import compacted_tables, history_tables, partial_tables, shard_tables
from support.expected_gold import micros_of
from support.row_events import DATABASE, Event, Source, changes_by_key, key_value
from support.row_examples import example_key
from support.row_lake import LAST, expected_state, key_column
from support.streams import DAY

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.standard_streams import NOT_WELL
from dbt_lakehouse.commands.why.events import KeyedTable, keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.commands.why.why_output import Reason
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.reference.fates import APPLIED, Fate, fates
from dbt_lakehouse.reference.fold import Change, State, fold, fold_partial, log_order
from dbt_lakehouse.session.dbt_commands import read_manifest

if TYPE_CHECKING:
    from support.built_rows import Built

pytest_plugins = ["support.built_rows"]

MODULES = (history_tables, partial_tables, shard_tables)
SOURCES = [(module, source) for module in MODULES for source in module.SOURCES if source.has_key]
CLONES = range(100, 120)
WRITTEN = {Fate.APPLIED, Fate.UNCHANGED}


# --- fates ----------------------------------------------------------------------------------------


def told(source: Source, changes: list[Change]) -> list[tuple[Change, Fate]]:
    return fates(changes, order_by_source_time=source.order_by_source_time, partial=source.partial)


def folded(source: Source, changes: list[Change]) -> State | None:
    """Before anything expires."""
    return (fold_partial if source.partial else fold)(
        changes, order_by_source_time=source.order_by_source_time, as_of=-DAY * 10**6
    )


@pytest.mark.parametrize(("module", "source"), SOURCES, ids=[each.table for _, each in SOURCES])
def test_fates_are_what_each_event_does_to_the_fold(module: ModuleType, source: Source) -> None:
    seen = set()
    for clone in CLONES:
        for changes in changes_by_key(source, module.stream(clone)).values():
            log = sorted(changes, key=log_order)
            whole = told(source, changes)
            assert [change for change, _ in whole] == log
            before = None
            for place, (change, fate) in enumerate(whole):
                after = folded(source, log[: place + 1])
                then = told(source, log[: place + 1])[-1][1]
                refuse_wrong(then, change, before, after)
                later = {fate for _, fate in whole[place + 1 :]}
                if Fate.TRUNCATE in later and then is not Fate.OTHER_TABLE:
                    then = Fate.BEFORE_TRUNCATE
                elif Fate.PLACED in later and fate in WRITTEN:
                    # Whether it changes anything may depend on what is put before it later.
                    assert then in WRITTEN
                    then = fate
                assert fate is then
                before = after
                seen.add(fate)
            last = [change for change, fate in whole if fate in APPLIED]
            assert before is not None
            assert last[-1].position == before.position
    wanted = {Fate.APPLIED, Fate.UNCHANGED, Fate.DELETE}
    if source.order_by_source_time:
        wanted.add(Fate.PLACED if source.partial else Fate.LATE)
    if source.tables:
        wanted |= {Fate.TRUNCATE, Fate.BEFORE_TRUNCATE, Fate.OTHER_TABLE}
    assert seen >= wanted


def refuse_wrong(fate: Fate, change: Change, before: State | None, after: State | None) -> None:
    """Fail if an event's fate is not what the fold has made of it, when it came last."""
    if fate in (Fate.LATE, Fate.OTHER_TABLE):
        assert after == before
        assert (change.operation == "truncate") == (fate is Fate.OTHER_TABLE)
        return
    assert after is not None
    assert (after.position == change.position) == (fate in APPLIED)
    if fate in (Fate.DELETE, Fate.TRUNCATE):
        assert not after.is_live and change.operation == fate
    elif fate in APPLIED:
        assert after.is_live
        is_same = (
            before is not None
            and before.is_live
            and (list(before.values), before.expires_at, before.source)
            == (list(after.values), after.expires_at, after.source)
        )
        assert is_same == (fate is Fate.UNCHANGED)
    else:
        assert fate is Fate.PLACED


# --- the command ----------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The lake to ask, and the graph of its project."""

    built: "Built"
    graph: Any
    reader: Reader

    def table(self, name: str) -> KeyedTable:
        return keyed_table(self.graph, name)


@pytest.fixture(scope="module")
def asked(built: "Built") -> Asked:
    lake = built.lake.lake
    with lake.dbt_folders():
        return Asked(built, read_manifest(lake.load()).nodes, lake.reader())


def key_text(source: Source, key: int) -> str:
    return json.dumps({key_column(source).lstrip("_"): key_value(source, key)})


def reason_of(events: Sequence[tuple[Change, Fate]], state: State) -> Reason:
    if state.is_live:
        return Reason.LIVE
    (last,) = [change for change, _ in events if change.position == state.position]
    reasons = {"delete": Reason.DELETED, "truncate": Reason.TRUNCATED}
    return reasons.get(last.operation, Reason.EXPIRED)


# Others of the same kinds.
IN_SOAK: Final = ("gauges", "shipments", "tickets")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(each, id=each.table, marks=[pytest.mark.long] if each.table in IN_SOAK else [])
        for _, each in SOURCES
    ],
)
def test_each_key_of_a_table_is_explained(asked: Asked, source: Source) -> None:
    landed = asked.built.lake.landed
    rows = expected_state(source, landed, LAST).rows
    by_place = {(each.source.topic, each.partition, each.offset): each for each in landed}
    table = asked.table(source.table)
    seen = set()
    for key, changes in changes_by_key(source, landed).items():
        answer = why(asked.reader, table, key_text(source, key))
        assert answer.differences == []
        row = rows.get((key_value(source, key),))
        assert (answer.row is None) == (row is None)
        events = told(source, changes)
        state = (fold_partial if source.partial else fold)(
            changes,
            order_by_source_time=source.order_by_source_time,
            as_of=micros_of(LAST),
        )
        assert state is not None
        assert answer.reason is reason_of(events, state)
        assert [
            (each.topic, each.partition, each.offset, each.event_index, each.fate)
            for each in answer.events
        ] == [(*change.position[1:5], fate) for change, fate in events]
        (made,) = [each for each in answer.events if each.decides]
        assert (made.topic, made.partition, made.offset) == state.position[1:4]
        for each in answer.events:
            refuse_other_message(each.decoded, by_place[each.topic, each.partition, each.offset])
        assert json.loads(answer.json())["reason"] == answer.reason
        assert answer.text().count("\n") > 2 * len(events)
        seen.add(answer.reason)
    assert seen >= {Reason.LIVE, Reason.DELETED}
    if source.is_aerospike:
        assert Reason.EXPIRED in seen


def refuse_other_message(decoded: dict[str, Any] | None, event: Event) -> None:
    """Fail if that is not what the message of an event says."""
    assert decoded is not None
    assert decoded["operation"] == event.operation
    assert decoded["source_schema"] == event.source.schema
    if not event.source.is_aerospike:
        assert (decoded["source_database"], decoded["source_table"]) == (DATABASE, event.table)
    if event.key is not None:
        name = key_column(event.source).lstrip("_")
        assert json.loads(bytes(decoded["record_key"])) == {
            name: key_value(event.source, event.key)
        }


def test_gold_that_differs_is_told_with_an_exit_code(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = asked.built.lake.lake
    source = history_tables.TICKETS
    row = asked.built.rows[source.table][0]
    level = (row["level"] or 0) + 1
    arguments = ["why", "--table", f"gold.{source.table}", "--key", json.dumps({"id": row["id"]})]
    arguments += ["--json", "--project-dir", str(lake.project)]
    arguments += ["--profiles-dir", str(lake.project / "profiles")]
    statement = f"update gold.{source.table} set level = {level} where id = {row['id']}"
    with lake.dbt_folders(), lake.tampered(statement), pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == NOT_WELL
    printed = capfd.readouterr()
    must = json.dumps(row["level"]) if row["level"] is not None else "None"
    difference = f"level is {level}, and must be {must}"
    answer = json.loads(printed.out)
    assert (answer["differences"], answer["row"]["level"]) == ([difference], level)
    assert difference in printed.err and printed.err.count("\n") == 1


def test_a_log_that_lags_is_told(asked: Asked) -> None:
    lake, table = asked.built.lake.lake, asked.table("tickets")
    # What speaks of any source table: nothing is kept of that commit.
    looked = "insert into silver.other_events select * from silver.other_events limit 1"
    assert why(asked.reader, table, '{"id": 1}').notes == []
    with lake.tampered(looked):
        (note,) = why(lake.reader(), table, '{"id": 1}').notes
    assert note.startswith("bronze.raw_payloads may have events of its source table")


def test_messages_that_are_not_decoded_yet_are_told(asked: Asked) -> None:
    lake, table = asked.built.lake.lake, asked.table("tickets")
    landed = (
        "insert into bronze.raw_payloads by name"
        " select * except (offset), offset + 1000000 as offset from bronze.raw_payloads limit 1"
    )
    with lake.tampered(landed):
        (note,) = why(lake.reader(), table, '{"id": 1}').notes
    assert note == "bronze.raw_payloads has messages that the next `dbt run` decodes"


def test_what_compaction_has_left_of_a_delete_is_told(asked: Asked) -> None:
    key = json.dumps({"id": example_key(0)})
    answer = why(asked.reader, asked.table(compacted_tables.STOCK.table), key)
    assert (answer.reason, answer.row, answer.differences) == (Reason.DELETED, None, [])
    (made,) = [each for each in answer.events if each.decides]
    assert made.decoded is not None
    said = (made.operation, made.event_index, made.decoded["operation"])
    assert said == ("delete", 1, "tombstone")
    assert made.story == "deletes the row; a tombstone is what compaction has left of it"
    assert ", record" not in answer.text()


def test_a_key_that_never_came(asked: Asked) -> None:
    answer = why(asked.reader, asked.table("tickets"), '{"id": 987654321}')
    assert (answer.reason, answer.row, answer.events) == (Reason.UNKNOWN, None, [])
    assert answer.text() == (
        'gold.tickets {"id":987654321}: no row: no event of this table has ever named it'
    )


def test_a_key_that_never_came_may_be_in_quarantine(asked: Asked) -> None:
    lake, table = asked.built.lake.lake, asked.table("tickets")
    poison = (
        "insert into silver.quarantined_payloads by name"
        " select distinct _position.topic, 987 as offset from silver.tickets_changes"
        " union all select 'another', 1"
    )
    with lake.tampered(poison):
        (note,) = why(lake.reader(), table, '{"id": 987654321}').notes
        assert why(lake.reader(), table, '{"id": 1}').notes == []
    assert note.startswith("1 event of its topics could not be decoded, of whatever key")


def test_a_key_that_only_deletes_without_a_set_name(asked: Asked) -> None:
    lake = asked.built.lake.lake
    source = next(each for _, each in SOURCES if each.is_aerospike)
    table = asked.table(source.table)
    digest = b64encode(b"\xee" * 20).decode()
    delete = (
        "insert into silver.set_less_deletes by name"
        f" select * except (_digest), '{digest}' as _digest"
        f" from silver.set_less_deletes where _namespace = '{table.fold.namespace}' limit 1"
    )
    key = json.dumps({"digest": digest})
    assert not any("without a set" in note for note in why(asked.reader, table, key).notes)
    with lake.tampered(delete):
        answer = why(lake.reader(), table, key)
    assert answer.reason is Reason.UNKNOWN
    (note,) = (each for each in answer.notes if "without a set" in each)
    assert note.startswith("silver.set_less_deletes has 1 delete of this digest, without a set: of")


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("no_such", '{"id": 7}', "no_such is not a gold table with a key; these are: .*tickets"),
        ("notes", '{"id": 7}', "notes has no key"),
        ("tickets_history", '{"id": 7}', "tickets_history is a history.* ask for .*tickets"),
        ("tickets", '{"name": 7}', "--key: expected a JSON object with id, and nothing else"),
        ("tickets", '{"id": "x7"}', "--key: a value of id is not of type bigint"),
        ("tickets", '{"id": 7.5}', "--key: a value of id only fits bigint rounded"),
        ("tickets", '{"id": 99999999999999999999}', "--key: a value of id is not of type bigint"),
    ],
)
def test_what_can_not_be_asked(asked: Asked, table: str, key: str, message: str) -> None:
    with pytest.raises(LakehouseError, match=message):
        why(asked.reader, asked.table(table), key)
