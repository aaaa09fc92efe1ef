"""`lakehouse forget`: a key's data out of all tables, and with --purge out of all files."""

import json
import random
import struct
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from support.aerospike_encoder import pack
from support.lakes import Lake, Rows
from support.needles import holders
from support.small_messages import digest, digest_text, order, order_key, profile, profile_key
from support.small_project import small_project
from support.streams import MINUTE, ORDERS, PROFILES, START, Message

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands.forget import erasing, leaving
from dbt_lakehouse.commands.forget.entities import read_models
from dbt_lakehouse.commands.forget.forget_steps import ForgetError, Options, Report, forget
from dbt_lakehouse.commands.forget.leaving import InseparableError
from dbt_lakehouse.commands.forget.payloads import BATCH_FORMATS, without_records
from dbt_lakehouse.commands.keys import is_rounded
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.commands.why.why_output import Answer, Reason
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.runs.commits import carry_on, note
from dbt_lakehouse.runs.marks import mark_of, noted
from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.session.project import ProjectOptions, load
from python_udfs.core.events import FORGOTTEN, Event
from python_udfs.registry import AEROSPIKE_FORMATS, AVRO_FORMATS, decode_payload

AS_OF: Final = "2026-10-03 00:00:00"
MODELS: Final = ("-s", "+profiles", "+orders", "+profiles_history", "quarantined_payloads")
GOLD: Final = ("gold.profiles", "gold.orders")
SILVER: Final = ("silver.other_events", "silver.profiles_changes", "silver.orders_changes")
# The two who are to be forgotten; a key of the second was another one before.
DIGEST: Final = 0xA7
NUMBER: Final = 7_770_123_456_789
OLD_NUMBER: Final = 7_770_123_456_788
OTHER: Final = "ada_silver.other_events"
FORMER: Final = "silver.former_changes"
BRONZE: Final = "bronze.raw_payloads"
MARKER: Final = "FORGET-ME-7f3a"
NEEDLES: Final = [
    MARKER.encode(),
    digest(DIGEST),
    digest_text(DIGEST).encode(),
    *(str(number).encode() for number in (NUMBER, OLD_NUMBER)),
    # As Parquet and Iceberg's bounds have them.
    *(struct.pack("<q", number) for number in (NUMBER, OLD_NUMBER)),
]


# --- messages -------------------------------------------------------------------------------------


def send(topic: str, offset: int, key: bytes | None, value: bytes | None) -> Message:
    return Message(topic, 0, offset, START + offset * MINUTE, key, value)


def at(offset: int) -> int:
    return START + offset * MINUTE


def mine(clock: int, name: str) -> list[Any]:
    """A write of the profile that is to be forgotten, with a user key."""
    bins = [["display_name", 3, 0, f"{MARKER} {name}"], ["email", 3, 0, f"{MARKER}@example.org"]]
    return [1, 1, [profile_key(DIGEST, f"{MARKER} key"), 1, 0, clock, bins]]


def with_header(message: Message) -> dict[str, Any]:
    """The capture line of a message, with a header that names who is to be forgotten if it is of
    such a one.
    """
    line = message.line()
    is_meant = any(each in (message.key or b"") + (message.value or b"") for each in NEEDLES)
    header = b64encode(MARKER.encode()).decode()
    return {**line, "headers": [[f"of {MARKER}", header]]} if is_meant else line


def moved(offset: int, before: int, after: int) -> Message:
    """An update that changes an order's key."""
    message = order(ORDERS, offset, at(offset), "u", after, f"{MARKER} moved")
    assert message.value is not None
    value = json.loads(message.value)
    value["before"] = {"order_id": before, "status": f"{MARKER} new"}
    value["source"]["query"] = f"update orders set note = '{MARKER}'"
    block = {"type": "string", "field": "status", "optional": True, "default": MARKER}
    number = {"type": "int64", "field": "order_id", "doc": f"of {MARKER}"}
    image = {"type": "struct", "field": "after", "optional": True, "fields": [number, block]}
    schema = {"type": "struct", "fields": [image]}
    return message._replace(value=json.dumps({"schema": schema, "payload": value}).encode())


FIRST: Final = [
    send(PROFILES, 0, pack(profile_key(1)), pack(profile(1, at(0), "one"))),
    send(PROFILES, 1, pack(profile_key(DIGEST)), pack(mine(at(1), "first"))),
    # A batch of three people, with their keys concatenated.
    send(
        PROFILES,
        2,
        pack([profile_key(2), profile_key(DIGEST), profile_key(3)]),
        pack([profile(2, at(2), "two"), mine(at(2), "second"), profile(3, at(2), "three")]),
    ),
    # The key of the first is the key of all; one can't be decoded, and whose it is is unknown.
    send(
        PROFILES,
        3,
        pack(profile_key(DIGEST)),
        pack([mine(at(3), "third"), [9, 1, [MARKER]], profile(4, at(3), "four")]),
    ),
    order(ORDERS, 0, at(0), "c", 1, "new"),
    order(ORDERS, 1, at(1), "c", OLD_NUMBER, f"{MARKER} new"),
    order(ORDERS, 2, at(2), "c", 2, "new"),
]
SECOND: Final = [
    # A delete without a set, and one in a batch behind another person's.
    send(PROFILES, 4, None, pack([1, 2, [["users", None, digest(DIGEST), None], 0]])),
    send(PROFILES, 5, None, pack([profile(1, at(5), "one again"), mine(at(5), "back")])),
    # Poison with the key of the profile.
    send(PROFILES, 6, pack(profile_key(DIGEST)), b"\x93\x01" + MARKER.encode()),
    moved(3, OLD_NUMBER, NUMBER),
    order(ORDERS, 4, at(4), "d", 2, "new"),
    send(ORDERS, 5, order_key(2), None),
    send(ORDERS, 6, order_key(NUMBER), f'{{"op":"{MARKER}'.encode()),
    send(ORDERS, 7, order_key(NUMBER), None),
    # A key that many rows have says nothing of the poison behind it.
    order(ORDERS, 8, at(8), "u", NUMBER, f"{MARKER} again")._replace(key=b'"default"'),
    send(ORDERS, 9, b'"default"', b'{"op":'),
    # Gold has no row of it any more, but in what it was before.
    order(ORDERS, 10, at(10), "d", NUMBER, f"{MARKER} gone"),
]


# --- the lake -------------------------------------------------------------------------------------


class Told:
    """What the calls in the module's lake have reported, and how it was before them and after:
    tests that let more happen in it can come in any order.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.held = holders(lake.folder / "lake", NEEDLES)
        self.before = self.rows(*GOLD)
        snapshots = self.snapshots()
        keys = [{"order_id": NUMBER}]
        self.dry = self.forget("orders", *keys, purge=True, dry_run=True)
        self.is_unchanged_by_it = self.snapshots().items() >= snapshots.items()
        self.profile = self.forget("profiles", {"digest": digest_text(DIGEST)})
        self.after_profile = self.snapshots()
        self.order = self.forget("orders", {"order_id": NUMBER}, purge=True)
        readers = (OTHER, "silver.other_events", "silver.orders_changes", "silver.profiles_changes")
        self.marks = [lake.marks(table)[BRONZE] for table in readers]
        self.bronze = mark_of(lake.look_at(BRONZE))
        # All else that the tests do is about this target alone.
        lake.sql(f"drop table lake.{OTHER} purge")
        self.after = self.rows(*GOLD, BRONZE, "bronze.forgotten")
        self.left = holders(lake.folder, NEEDLES)

    def forget(
        self,
        table: str | None,
        *keys: str | dict[str, Any],
        purge: bool = False,
        dry_run: bool = False,
    ) -> Report:
        texts = [key if isinstance(key, str) else json.dumps(key) for key in keys]
        options = Options(table, texts, purge, dry_run)
        return forget(self.lake.load(captures=[], as_of=AS_OF), options)

    def rows(self, *tables: str) -> dict[str, Rows]:
        return {table: self.lake.read(table) for table in tables}

    def why(self, table: str, **key: Any) -> Answer:
        """As the tables are now."""
        graph = read_manifest(self.lake.load(captures=[], as_of=AS_OF)).nodes
        return why(self.lake.reader(), keyed_table(graph, table), json.dumps(key))

    def snapshots(self) -> dict[str, str]:
        return self.lake.current_snapshots(self.lake.tables())


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A lake built in two runs, in which both have been forgotten."""
    lake = Lake(tmp_path_factory.mktemp("forget"))
    with lake.dbt_folders():
        for messages in (FIRST, SECOND):
            lake.land(map(with_header, messages))
            run(lake)
        # What a rebuild has replaced is in the files too.
        run(lake, "-s", "orders", "--full-refresh")
        # As another target of the same bronze has it.
        lake.sql("create schema lake.ada_silver")
        lake.sql(f"create table lake.{OTHER} as select * from silver.other_events")
        # As a change log whose model is gone.
        lake.sql(f"create table lake.{FORMER} (topic string) using iceberg")
        for table in (OTHER, FORMER):
            note(lake.spark, table, noted({BRONZE: lake.marks("silver.other_events")[BRONZE]}))
        # The snapshots that were read up to are gone, as after maintenance: a row that is changed
        # must not look like a new one for that.
        for table in (BRONZE, "silver.other_events"):
            note(lake.spark, table, {"note": "of a test"})
            carry_on(lake.spark, table)
            lake.sql(
                f"call lake.system.expire_snapshots(table => '{table}', retain_last => 1,"
                " older_than => timestamp '2100-01-01')"
            )
        (lake.folder / "capture.jsonl").unlink()
        yield Told(lake)


def run(lake: Lake, *arguments: str) -> None:
    statuses = lake.dbt("run", *(arguments or MODELS), as_of=AS_OF)
    assert set(statuses.values()) == {"success"}


def test_it_tells_how_much_was_forgotten(told: Told) -> None:
    # Alone 1, 4 and the poison at 6; in batches 2, 3 (with what can't be decoded) and 5.
    assert (told.profile.payloads, told.profile.records) == (6, 7)
    assert told.profile.rows == {
        "silver.quarantined_payloads": 2,
        "bronze.raw_payloads": 6,
        "gold.profiles": 1,
        **{
            name: rows
            for name, rows in told.profile.rows.items()
            if name == "gold.profiles_history"
        },
        "silver.deleted_keys": 1,
        "silver.set_less_deletes": 1,
        "silver.other_events": 7,
        "silver.profiles_changes": 4,
    }
    assert told.profile.to_purge and not told.profile.purged
    # 1, 3, 8 and 10, poison and tombstone.
    assert (told.order.payloads, told.order.records, told.order.linked_keys) == (6, 6, 1)
    assert "gold.orders" not in told.order.rows
    assert "1 more key" in told.order.text() and MARKER not in told.order.text()


def test_a_dry_run_tells_what_would_go_and_changes_nothing(told: Told) -> None:
    assert told.is_unchanged_by_it
    done = told.order
    assert (told.dry.payloads, told.dry.records, told.dry.rows, told.dry.linked_keys) == (
        *(done.payloads, done.records, done.rows, done.linked_keys),
    )
    assert (told.dry.request_id, told.dry.purged, told.dry.dry_run) == (None, {}, True)
    assert set(told.dry.to_purge) == {"gold.orders", *done.rows}
    assert "orders: would forget the key: 6 events" in told.dry.text()
    assert "would rewrite files of bronze.raw_payloads," in told.dry.text()


def test_at_a_terminal_it_asks_first(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def forget_keys(project: object, options: Options) -> Report:
        calls.append(options.dry_run)
        return told.dry if options.dry_run else told.order

    monkeypatch.setattr("dbt_lakehouse.commands.forget.forget_steps.forget", forget_keys)
    call = ["forget", "--table", "orders", "--key", "{}", "--project-dir", str(ROOT)]
    for is_terminal, answer, more, expected in (
        (True, "n\n", [], [True]),
        (True, "y\n", [], [True, False]),
        (True, "", ["--yes"], [False]),
        (True, "", ["--dry-run"], [True]),
        (False, "", [], [False]),
    ):
        calls.clear()
        with monkeypatch.context() as terminal:
            terminal.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _, t=is_terminal: t)
            result = CliRunner().invoke(lakehouse, [*call, *more], input=answer)
        assert calls == expected, result.output
        assert (result.exit_code != 0) == (answer == "n\n"), result.output


def test_gold_has_all_others_as_they_were(told: Told) -> None:
    before, after = (
        [state[table] for table in ("gold.profiles", "gold.orders")]
        for state in (told.before, told.after)
    )
    assert rest(before[0], "_digest") == {digest_text(n) for n in (1, 2, 3, 4, DIGEST)}
    profiles = [row for row in before[0] if row["_digest"] != digest_text(DIGEST)]
    assert ordered(after[0]) == ordered(profiles)
    assert rest(before[1], "order_id") == {1}
    assert ordered(after[1]) == ordered(before[1])


def test_bronze_keeps_the_places_and_the_others_bytes(told: Told) -> None:
    rows = {(row["topic"], row["offset"]): row for row in told.after[BRONZE]}
    assert len(rows) == len(FIRST) + len(SECOND)
    assert rows[PROFILES, 0]["value"] == FIRST[0].value
    for offset in (1, 4, 6):
        assert (rows[PROFILES, offset]["key"], rows[PROFILES, offset]["value"]) == (None, None)
    assert rows[PROFILES, 2]["key"] == pack([profile_key(2), FORGOTTEN, profile_key(3)])
    assert rows[PROFILES, 2]["value"] == pack(
        [profile(2, at(2), "two"), FORGOTTEN, profile(3, at(2), "three")]
    )
    assert rows[PROFILES, 3]["key"] is None
    assert rows[PROFILES, 3]["value"] == pack([FORGOTTEN, FORGOTTEN, profile(4, at(3), "four")])
    for offset in (1, 3, 6, 7, 8, 10):
        assert (rows[ORDERS, offset]["key"], rows[ORDERS, offset]["value"]) == (None, None)
    assert rows[ORDERS, 5]["key"] == order_key(2)
    assert rows[ORDERS, 9]["value"] == b'{"op":'


def test_what_can_not_be_taken_apart_is_not_begun(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a Canal message with rows of two keys.
    monkeypatch.setattr(leaving, "BATCH_FORMATS", ("aerospike_json",))
    before = told.snapshots()
    with pytest.raises(InseparableError, match=f"at {PROFILES}/0/2 holds rows of other keys"):
        told.forget("profiles", {"digest": digest_text(2)})
    assert told.snapshots().items() >= before.items()


def test_another_target_is_named_and_does_not_read_changed_rows_again(told: Told) -> None:
    assert told.profile.other_targets == told.order.other_targets == ["ada_silver"]
    assert "note: ada_silver belongs to another target" in told.profile.text()
    assert told.profile.unmodelled == [FORMER]
    assert f"note: {FORMER}, which no model builds any more, keeps its rows" in told.profile.text()
    assert {*told.marks} == {told.bronze}
    # One that is behind would take the emptied rows for new.
    told.lake.sql(f"create table lake.{OTHER} (topic string) using iceberg")
    try:
        behind = told.bronze._replace(snapshot="1", sequence=0)
        note(told.lake.spark, OTHER, noted({BRONZE: behind}))
        with pytest.raises(ForgetError, match=r"ada_silver[.]other_events, which no model"):
            told.forget("orders", {"order_id": 1})
    finally:
        for table in (OTHER, FORMER):
            told.lake.sql(f"drop table lake.{table} purge")


def test_no_file_holds_any_of_it(told: Told) -> None:
    # The same look found it before: in data, in bounds.
    assert {path.suffix for path in told.held} >= {".parquet", ".avro"}
    assert told.left == set()
    assert all(each["expired_snapshots"] for each in told.order.purged.values())


def test_the_request_is_remembered_without_personal_data(told: Told) -> None:
    rows = sorted(told.after["bronze.forgotten"], key=lambda row: str(row["requested_at"]))
    assert [row["table_name"] for row in rows] == ["gold.profiles", "gold.orders"]
    assert [row["request_id"] for row in rows] == [told.profile.request_id, told.order.request_id]
    assert all(row["forgotten_at"] and row["purged_at"] for row in rows)
    counted = dict(rows[0]["table_rows"])
    assert {name: count for name, count in counted.items() if count} == told.profile.rows
    # What it looked through and found nothing in: there may be some in the snapshots before.
    assert dict(rows[1]["table_rows"])["gold.orders"] == 0


def test_why_tells_what_may_have_become_of_a_forgotten_key(told: Told) -> None:
    for answer in (
        told.why("orders", order_id=NUMBER),
        told.why("profiles", digest=digest_text(DIGEST)),
    ):
        assert (answer.reason, answer.row, answer.events) == (Reason.UNKNOWN, None, [])
        assert answer.forgotten == 1 and "or was forgotten" in answer.text()
    # The others of a batch are found in what is left of it.
    for number in (2, 3):
        answer = told.why("profiles", digest=digest_text(number))
        (event,) = answer.events
        assert (answer.reason, answer.differences, event.offset) == (Reason.LIVE, [], 2)
        assert event.decoded is not None
        assert json.loads(bytes(event.decoded["record_key"])) == {"digest": digest_text(number)}
    assert answer.events[0].event_index == 2


def test_a_run_finds_nothing_new(told: Told) -> None:
    before = told.snapshots()
    run(told.lake)
    after = told.snapshots()
    changed = {table for table in before if before[table] != after[table]}
    assert changed == set()
    tests = ("test", *MODELS, "--exclude", "test_type:unit", "quarantine_rate")
    statuses = told.lake.dbt(*tests, "--indirect-selection", "cautious", as_of=AS_OF)
    assert len(statuses) > 20 and set(statuses.values()) == {"pass"}, statuses
    assert told.lake.broken_sums() == []


# In CI, test_new_events_of_the_key_make_a_new_row has a call that is made again.
@pytest.mark.long
def test_done_again_it_finds_nothing(told: Told) -> None:
    again = told.forget("orders", {"order_id": NUMBER}, {"order_id": OLD_NUMBER})
    assert again.text() == "orders: nothing is known of 2 keys"
    assert told.forget(None, purge=True).text() == "nothing to purge"


# In CI, the one before was in a batch of three.
@pytest.mark.long
def test_another_of_the_same_batch_is_forgotten(told: Told) -> None:
    assert told.forget("profiles", {"digest": digest_text(3)}).records == 1
    (event,) = told.why("profiles", digest=digest_text(2)).events
    assert (event.offset, event.message) == (2, "there")


def test_what_was_landed_lands_again_without_a_conflict(told: Told) -> None:
    result = told.lake.land(each.line() for each in [*FIRST, *SECOND])
    (told.lake.folder / "capture.jsonl").unlink()
    assert result == (0, len(FIRST) + len(SECOND))


class BrokenOff(Exception):
    """Stands for whatever may end a call."""


def test_new_events_of_the_key_make_a_new_row(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = told.lake
    before = lake.read("gold.orders")
    lake.land(
        each.line()
        for each in [
            send(PROFILES, 8, None, pack(profile(DIGEST, at(8), "new here"))),
            order(ORDERS, 11, at(11), "u", NUMBER, "new here"),
        ]
    )
    run(lake, "-s", "+profiles", "+orders", "quarantined_payloads")
    names = {row["_digest"]: row["display_name"] for row in lake.read("gold.profiles")}
    assert names[digest_text(DIGEST)] == "new here"
    added = [row for row in lake.read("gold.orders") if row not in before]
    assert [(row["order_id"], row["status"]) for row in added] == [(NUMBER, "new here")]

    # One that breaks off when bronze and gold are done: the same call does the rest.
    def break_off(*_: object) -> None:
        raise BrokenOff

    with monkeypatch.context() as breaking, pytest.raises(BrokenOff):
        breaking.setattr(erasing, "_clear_events", break_off)
        told.forget("orders", {"order_id": NUMBER})
    assert ordered(lake.read("gold.orders")) == ordered(before)
    rest_of_it = f"select 1 from silver.orders_changes where order_id = {NUMBER}"
    assert lake.sql(rest_of_it)
    answer = told.why("orders", order_id=NUMBER)
    assert [event.message for event in answer.events] == ["forgotten"]
    assert answer.differences == ["gold has no row, but must have one"]
    assert "`lakehouse forget` has broken off" in answer.text()
    assert told.forget("orders", {"order_id": NUMBER}).records == 1
    assert not lake.sql(rest_of_it)
    unchanged = told.snapshots()
    run(lake, "-s", "+orders")
    assert told.snapshots() == unchanged


# In CI, test_bronze_keeps_the_places_and_the_others_bytes has what all is made of.
@pytest.mark.long
def test_a_full_refresh_gives_the_same(told: Told) -> None:
    before = told.rows(*GOLD, *SILVER)
    run(told.lake, *MODELS, "--full-refresh")
    for name, rows in before.items():
        assert ordered(told.lake.read(name)) == ordered(rows)
    assert told.lake.broken_sums() == []


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("orders", "7", "--key: expected a JSON object with order_id"),
        ("orders", "{", "--key is not JSON: expected a JSON object with order_id"),
        ("orders", '{"id": 7}', "--key: expected a JSON object with order_id, and nothing else"),
        ("orders", '{"order_id": "x7"}', "--key: a value of order_id is not of type bigint"),
        ("orders", '{"order_id": 7.5}', "--key: a value of order_id only fits bigint rounded"),
        ("orders", '{"order_id": 7, "order_id": 8}', "--key: a name comes twice, expected a JSON"),
        ("profiles", '{"digest": "x", "_digest": "y"}', "--key: a name comes twice"),
        ("orders", '{"order_id": null}', "expected text, a number or true or false as order_id"),
        (
            "no_such",
            '{"order_id": 7}',
            "no_such is not a gold table with a key; these are: .*orders",
        ),
        ("orders_changes", '{"order_id": 7}', "orders_changes is not a gold table with a key"),
        (None, None, "forget needs --table and --key, or --purge"),
        ("orders", None, "forget needs --table and --key, or --purge"),
    ],
)
def test_what_can_not_be_meant(told: Told, table: str, key: str | None, message: str) -> None:
    with pytest.raises(LakehouseError, match=message):
        told.forget(table, *([] if key is None else [key]))


def test_a_model_that_may_hold_data_is_missing(tmp_path: Path) -> None:
    project = small_project(tmp_path / "project")
    with pytest.raises(LakehouseError, match="has no model quarantined_payloads, which"):
        read_models(load(ProjectOptions(str(project), str(project / "profiles"))), None)


def test_what_is_on_its_way_comes_first(told: Told) -> None:
    lake = told.lake
    lake.land(
        each.line()
        for each in [
            order(ORDERS, 20, at(20), "u", 1, "paid"),
            order(ORDERS, 21, at(21), "c", 3, "new"),
            send(PROFILES, 20, None, pack([1, 2, [["users", None, digest(2), None], 0]])),
        ]
    )
    assert "messages that the next `dbt run` decodes" in told.why("orders", order_id=1).text()
    unread = "silver.other_events has not read all of bronze.raw_payloads: `dbt run` first"
    with pytest.raises(LakehouseError, match=unread):
        told.forget("orders", {"order_id": 1})
    run(lake, "-s", "+orders_changes", "+deleted_keys", "quarantined_payloads")
    unread = "gold.orders has not read all of silver.orders_changes: `dbt run` first"
    with pytest.raises(LakehouseError, match=unread):
        told.forget("orders", {"order_id": 1})
    deleted = told.why("profiles", digest=digest_text(2))
    assert [event.fate for event in deleted.events] == ["applied", "unread"]
    assert (deleted.reason, deleted.differences) == (Reason.LIVE, [])
    updated = told.why("orders", order_id=1)
    assert [event.fate for event in updated.events] == ["applied", "unread"]
    assert (updated.reason, updated.differences) == (Reason.LIVE, [])
    inserted = told.why("orders", order_id=3)
    assert (inserted.reason, inserted.row, inserted.differences) == (Reason.UNREAD, None, [])
    # Nor is the snapshot needed that gold was built from.
    lake.sql(
        "call lake.system.expire_snapshots(table => 'silver.orders_changes', retain_last => 1,"
        " older_than => timestamp '2100-01-01')"
    )
    assert told.why("orders", order_id=1) == updated
    run(lake, "-s", "+profiles", "+orders")
    assert told.why("profiles", digest=digest_text(2)).reason is Reason.DELETED
    assert told.forget("orders", {"order_id": 1}).records == 2


def rest(rows: Rows, key: str) -> set[Any]:
    return {row[key] for row in rows}


def ordered(rows: Rows) -> list[str]:
    """Rows in an order of their own."""
    return sorted(json.dumps(row, default=_plain, sort_keys=True) for row in rows)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


# --- batches --------------------------------------------------------------------------------------


def json_record(number: int, extra: str = "") -> bytes:
    key = json.dumps(["users", "profiles", digest_text(number), None])
    return f'{{"msg":"write", "key":{key},"bins":[ ]{extra}}}'.encode()


def flat_record(number: int) -> bytes:
    metadata = {"msg": "write", "namespace": "users", "digest": digest_text(number)}
    return json.dumps({"metadata": metadata, "name": "x"}).encode()


def flat_key(number: int) -> bytes:
    key = {"namespace": "users", "set": "profiles", "digest": digest_text(number)}
    return json.dumps(key).encode()


JSON_FORGOTTEN: Final = json.dumps(FORGOTTEN).encode()
JSON_KEY: Final = json.dumps(["users", "profiles", digest_text(1), None]).encode()
OTHER_JSON_KEY: Final = json.dumps(["users", "profiles", digest_text(2), None]).encode()


@pytest.mark.parametrize(
    ("format", "value", "left"),
    [
        ("aerospike_messagepack", pack([profile(1, 1, "x")]), None),
        ("aerospike_messagepack", pack(profile(1, 1, "x")), None),
        (
            "aerospike_messagepack",
            pack([profile(2, 1, "x"), profile(1, 1, "x"), profile(1, 2, "y")]),
            pack([profile(2, 1, "x"), FORGOTTEN, FORGOTTEN]),
        ),
        # Sixteen records need a longer header than fifteen.
        (
            "aerospike_messagepack",
            pack([profile(n, 1, "x") for n in range(1, 17)]),
            pack([FORGOTTEN, *(profile(n, 1, "x") for n in range(2, 17))]),
        ),
        # Cut short, with bytes behind, with something unreadable in it.
        (
            "aerospike_messagepack",
            pack([profile(2, 1, "x"), profile(3, 1, "x")])[:-1],
            pack([profile(2, 1, "x"), FORGOTTEN]),
        ),
        (
            "aerospike_messagepack",
            pack([profile(2, 1, "x"), profile(1, 1, "x")]) + b"rest",
            pack([profile(2, 1, "x"), FORGOTTEN, FORGOTTEN]),
        ),
        (
            "aerospike_messagepack",
            pack([None, profile(2, 1, "x"), [1, 3, []]]),
            pack([FORGOTTEN, profile(2, 1, "x"), FORGOTTEN]),
        ),
        # No batch, and one in which an array of a record is none.
        ("aerospike_messagepack", pack(profile(2, 1, "x")), None),
        (
            "aerospike_messagepack",
            pack([[profile(3, 1, "x")], profile(2, 1, "x")]),
            pack([FORGOTTEN, profile(2, 1, "x")]),
        ),
        ("aerospike_messagepack", b"", None),
        ("aerospike_messagepack", None, None),
        ("aerospike_json", b"[" + json_record(1) + b"]", None),
        ("aerospike_json", json_record(1), None),
        (
            "aerospike_json",
            b" [ " + json_record(2, ',"a]":"\\"]"') + b" , " + json_record(1) + b" , ]",
            b"[" + json_record(2, ',"a]":"\\"]"') + b"," + JSON_FORGOTTEN + b"]",
        ),
        (
            "aerospike_json",
            b"[" + json_record(2) + b",null," + json_record(3) + b',{"msg":"write"',
            b",".join(
                [b"[" + json_record(2), JSON_FORGOTTEN, json_record(3), JSON_FORGOTTEN + b"]"]
            ),
        ),
        (
            "aerospike_json",
            b"[" + json_record(2) + b"}",
            b"[" + json_record(2) + b"," + JSON_FORGOTTEN + b"]",
        ),
        (
            "aerospike_json",
            b"[" + json_record(2),
            b"[" + json_record(2) + b"," + JSON_FORGOTTEN + b"]",
        ),
        (
            "aerospike_json",
            b"[" + json_record(2) + json_record(1) + b"," + json_record(3) + b"]",
            b"[" + json_record(2) + b"," + JSON_FORGOTTEN + b"," + json_record(3) + b"]",
        ),
        ("aerospike_json", b'["', None),
        (
            "aerospike_flat_json",
            b"[" + flat_record(1) + b"," + flat_record(2) + b"]",
            b"[" + JSON_FORGOTTEN + b"," + flat_record(2) + b"]",
        ),
        ("aerospike_flat_json", flat_record(1), None),
    ],
)
def test_a_batch_without_a_record(format: str, value: bytes | None, left: bytes | None) -> None:
    meant = ("users", frozenset([digest_text(1)]))
    key, rest, gone = without_records(format, None, value, *meant)
    assert (key, rest) == (None, left)
    assert without_records(format, None, rest, *meant) == (None, rest, [])
    before = decode_payload(format, None, value)
    # A record alone goes as a whole.
    others = [each for each in before if is_left(each) and rest is not None]
    assert gone == [
        each.event_index for each in before if each not in others and each.operation != "tombstone"
    ]
    if rest is not None:
        # Each in its place.
        after = decode_payload(format, None, rest)
        assert [each.event_index for each in after] == [each.event_index for each in before]
        for old, new in zip(before, after, strict=True):
            assert new.operation == ("tombstone" if old.event_index in gone else "upsert")
            if old.event_index not in gone:
                assert new[:-3] == old[:-3]


def is_left(event: Event) -> bool:
    """Whether an event is one of another record that can be decoded."""
    return event.operation == "upsert" and event.record_key != RECORD_KEY


def test_every_format_of_batches_can_be_taken_apart() -> None:
    # In Avro a payload is one record.
    assert set(BATCH_FORMATS) == set(AEROSPIKE_FORMATS) - set(AVRO_FORMATS)


def broken_batches(good: bytes, others: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """Batches with a record that is good, and something wrong anywhere else."""
    for _ in range(700):
        parts = [good] * rng.randrange(1, 3) + rng.choices(others, k=rng.randrange(4))
        rng.shuffle(parts)
        damaged = bytearray(b"".join(parts))
        for _ in range(rng.randrange(4)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randrange(3)] = rng.choice(others)[: rng.randrange(4)]
        yield bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged) + 1)])])


MESSAGEPACK_PARTS: Final = [
    *(b"\x91", b"\x92", b"\x93", b"\x94", b"\xc1", b"\xc0", b"\xa2\xff\xff", b"\xdc\x00\x02"),
    *(
        pack(profile(2, 1, "x")),
        pack([profile(1, 1, "x")]),
        b"\x91" * 2000,
        pack(profile(3, 1, "x")),
    ),
]
JSON_PARTS: Final = [
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b",,",
        b" ",
        b'"',
        b"\\",
        b"1",
        b"null",
        b"[[]]",
        b"\xef\xbb\xbf",
    ),
    *(json_record(2), b"," + json_record(3) + b",", b"[" + json_record(1) + b"],", b'{"a":"]"}'),
]
FLAT_PARTS: Final = [
    *JSON_PARTS[:-4],
    *(flat_record(2), b"," + flat_record(3) + b",", b"[" + flat_record(1) + b"],", b'{"a":"]"}'),
]


@pytest.mark.parametrize(
    ("format", "good", "parts", "wrapped"),
    [
        ("aerospike_messagepack", pack(profile(1, 1, "x")), MESSAGEPACK_PARTS, (b"\x94", b"")),
        ("aerospike_json", b"," + json_record(1) + b",", JSON_PARTS, (b"[" + json_record(4), b"]")),
        (
            "aerospike_flat_json",
            b"," + flat_record(1) + b",",
            FLAT_PARTS,
            (b"[" + flat_record(4), b"]"),
        ),
    ],
    ids=("MessagePack", "JSON", "flat JSON"),
)
def test_the_decoder_and_forget_know_the_same_records(
    format: str, good: bytes, parts: list[bytes], wrapped: tuple[bytes, bytes]
) -> None:
    """Whatever is broken: a record that the decoder reads can be forgotten, and others stay."""
    seen = 0
    for broken in broken_batches(good, parts, random.Random(20)):
        value = wrapped[0] + broken + wrapped[1]
        events = [event for event in decode_payload(format, None, value) if event.record_key]
        others = [
            event.record_key
            for event in events
            if (event.source_schema, event.record_key) != ("users", RECORD_KEY)
        ]
        if len(events) == 1 and not json.loads(events[0].metadata or b"").get("batch_size"):
            # Perhaps no batch.
            continue
        seen += len(events) > len(others) > 0
        _, left, gone = without_records(format, None, value, "users", frozenset([digest_text(1)]))
        stays = [] if left is None else decode_payload(format, None, left)
        assert [event.record_key for event in stays if event.record_key] == others, value
        assert {each.event_index for each in events} >= {
            each.event_index for each in stays if each.record_key
        }
        assert not stays or gone == [
            each.event_index for each in stays if each.operation == "tombstone"
        ]
    assert seen > 20


RECORD_KEY: Final = b'{"digest":"%b"}' % digest_text(1).encode()


@pytest.mark.parametrize(
    ("text", "type_name", "rounded"),
    [
        ("7", "bigint", False),
        ("7.0", "bigint", False),
        ("7.5", "int", True),
        ("70e-1", "bigint", False),
        ("75e-1", "bigint", True),
        ("x7", "bigint", False),
        ("0.000", "int", False),
        ("1.005", "decimal(10,2)", True),
        ("1.0050", "decimal(10,3)", False),
        ("1" * 40 + ".5", "decimal(38,0)", True),
        ("0.1", "double", False),
        ("123456789.125", "double", False),
        ("0.10000000000000000555", "double", True),
        ("9007199254740993", "double", True),
        ("1e999", "double", True),
        ("0.1", "float", False),
        ("16777217", "float", True),
        ("2026-01-01T00:00:00.123456", "timestamp", False),
        ("2026-01-01T00:00:00.1234560Z", "timestamp", False),
        ("2026-01-01T00:00:00.1234567", "timestamp_ntz", True),
        ("1.5", "string", False),
    ],
)
def test_what_only_fits_rounded(text: str, type_name: str, rounded: bool) -> None:
    assert is_rounded(text, type_name) == rounded


@pytest.mark.parametrize(
    ("format", "key", "left"),
    [
        ("aerospike_messagepack", pack(profile_key(1)), None),
        ("aerospike_messagepack", pack(profile_key(2)), pack(profile_key(2))),
        (
            "aerospike_messagepack",
            pack([profile_key(1), profile_key(2)]),
            pack([FORGOTTEN, profile_key(2)]),
        ),
        ("aerospike_messagepack", pack([profile_key(1)]), None),
        ("aerospike_messagepack", pack([FORGOTTEN, profile_key(1)]), None),
        # Nobody can tell what is in it.
        ("aerospike_messagepack", b"user 1", None),
        ("aerospike_messagepack", b"", b""),
        ("aerospike_json", JSON_KEY, None),
        ("aerospike_json", b"[" + JSON_KEY + b"]", None),
        (
            "aerospike_json",
            b"[" + OTHER_JSON_KEY + b"," + JSON_KEY + b"]",
            b"[" + OTHER_JSON_KEY + b"," + JSON_FORGOTTEN + b"]",
        ),
        ("aerospike_flat_json", flat_key(1), None),
        ("aerospike_flat_json", flat_key(2), flat_key(2)),
        (
            "aerospike_flat_json",
            b"[" + flat_key(2) + b"," + flat_key(1) + b"]",
            b"[" + flat_key(2) + b"," + JSON_FORGOTTEN + b"]",
        ),
    ],
)
def test_a_key_without_a_record(format: str, key: bytes, left: bytes | None) -> None:
    meant = ("users", frozenset([digest_text(1)]))
    assert without_records(format, key, None, *meant) == (left, None, [])
