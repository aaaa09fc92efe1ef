"""`lakehouse redrive`: quarantined payloads that can be decoded now take their places."""

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pytest
from click.testing import CliRunner
from support.aerospike_encoder import pack
from support.lakes import Lake, Rows
from support.small_messages import digest_text, order, profile
from support.streams import HOUR, MINUTE, ORDERS, PROFILES, START, Message

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands.generate import scan
from dbt_lakehouse.commands.redrive import Redriven, redrive
from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
from dbt_lakehouse.session.project import Project

AS_OF: Final = "2026-10-03 00:00:00"
# Carries the same source table as the demo's topic of orders, and no entry matches it at first.
ERP: Final = "erp.orders"
OTHER: Final = "erp.invoices"
ENTRIES: Final = [
    {"topic": ORDERS, "format": "debezium_json"},
    {"topic": PROFILES, "format": "aerospike_messagepack"},
]
MODELS: Final = ("-s", "+orders", "+profiles", "quarantined_payloads")
TESTS: Final = (
    "-s",
    *(
        "every_payload_is_accounted_for",
        "every_event_is_accounted_for",
        "log_time_follows_the_offsets",
    ),
    "no_decoder_has_failed",
    *("equals_refold_orders_orders_changes", "quarantined_payloads", "other_events"),
    *("--exclude", "quarantine_rate", "no_topic_is_all_quarantined"),
)


MESSAGES: Final = [
    order(ORDERS, 0, START + HOUR, "u", 1, "paid"),
    order(ORDERS, 1, START + HOUR, "c", 3, "new"),
    order(ERP, 0, START, "c", 1, "new"),
    order(ERP, 1, START + MINUTE, "c", 2, "new"),
    # Breaks off.
    Message(ERP, 0, 2, START + 2 * MINUTE, None, b'{"op":'),
    order(ERP, 3, START + 2 * HOUR, "d", 3, "new"),
    order(OTHER, 0, START, "c", 4, "new"),
    Message(
        PROFILES,
        0,
        0,
        START,
        None,
        pack([profile(1, START, "one"), profile(2, START, "two"), profile(1, START + 1, "again")]),
    ),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake whose quarantine holds what no topic matched, and a record of a batch that an older
    decoder failed on.
    """
    lake = Lake(tmp_path_factory.mktemp("redrive"))
    with lake.dbt_folders():
        lake.land(each.line() for each in MESSAGES)
        run(lake, "-s", "other_events")
        lake.sql(
            "insert into lake.silver.other_events"
            " (topic, partition, offset, event_index, timestamp, log_time, format, operation,"
            " error_code, error_detail)"
            " select topic, partition, offset, 1, timestamp, timestamp, 'aerospike_messagepack',"
            " 'invalid', 'decoder_failed', 'KeyError: a bug of that time'"
            f" from lake.bronze.raw_payloads where topic = '{PROFILES}'"
        )
        run(lake)
        yield lake


def run(lake: Lake, *arguments: str, entries: list[dict[str, Any]] | None = None) -> None:
    statuses = lake.dbt("run", *(arguments or MODELS), as_of=AS_OF, topics=entries or ENTRIES)
    assert set(statuses.values()) == {"success"}


def project(lake: Lake, *added: str) -> Project:
    """The project with topics added to ``vars.topics``."""
    return lake.load(topics=configured(*added), as_of=AS_OF, captures=[])


def configured(*topics: str) -> list[dict[str, Any]]:
    return [*ENTRIES, *({"topic": topic, "format": "debezium_json"} for topic in topics)]


def quarantined(lake: Lake) -> set[tuple[str, int, int, str]]:
    return {
        (row["topic"], row["offset"], row["event_index"], row["error_code"])
        for row in lake.read("silver.quarantined_payloads")
    }


def statuses_of(lake: Lake) -> dict[int, str]:
    return {row["order_id"]: row["status"] for row in lake.read("gold.orders")}


def test_redriven_events_take_their_places(lake: Lake) -> None:
    unknown = {(ERP, offset, 0, "unknown_format") for offset in range(4)}
    others = {(OTHER, 0, 0, "unknown_format"), (PROFILES, 0, 1, "decoder_failed")}
    assert quarantined(lake) == unknown | others
    assert statuses_of(lake) == {1: "paid", 3: "new"}

    # Nothing has become readable.
    assert redrive(project(lake), ["unknown_format"], []) == Redriven(5, 0, 0)
    assert quarantined(lake) == unknown | others
    snapshots = lake.snapshots("silver.other_events")

    # That topic has payloads of another code only.
    assert redrive(project(lake, ERP, OTHER), ["decoder_failed"], [ERP]) == Redriven(0, 0, 0)
    assert lake.snapshots("silver.other_events") == snapshots

    assert redrive(project(lake, ERP, OTHER), ["unknown_format"], [ERP]) == Redriven(4, 3, 3)
    assert quarantined(lake) == {(ERP, 2, 0, "truncated"), *others}
    before = lake.read("silver.other_events")
    # A run adds nothing to quarantine that is there already.
    run(lake, "-s", "quarantined_payloads", entries=configured(ERP, OTHER))
    assert len(lake.read("silver.quarantined_payloads")) == 1 + len(others)
    # Again: what still fails stays as it is.
    assert redrive(project(lake, ERP, OTHER), [], [ERP]) == Redriven(1, 0, 0)
    assert sorted_rows(lake.read("silver.other_events")) == sorted_rows(before)

    run(lake, entries=configured(ERP, OTHER))
    # 1: the earlier insert came late. 2: new. 3: its delete is later than what was known.
    assert statuses_of(lake) == {1: "paid", 2: "new"}
    assert quarantined(lake) == {(ERP, 2, 0, "truncated"), *others}
    consistent(lake, failing=frozenset({"no_decoder_has_failed"}))


def test_of_a_batch_only_what_was_missing_is_added(lake: Lake) -> None:
    appended = len(lake.snapshots("silver.other_events"))
    assert redrive(project(lake, ERP, OTHER), ["decoder_failed"], []) == Redriven(1, 1, 1)
    last = lake.snapshots("silver.other_events")[appended]
    assert (last.operation, last.summary["added-records"]) == ("append", "1")
    run(lake, entries=configured(ERP, OTHER))
    names = {row["_digest"]: row["display_name"] for row in lake.read("gold.profiles")}
    assert names == {digest_text(1): "again", digest_text(2): "two"}
    consistent(lake)


def test_a_crash_between_append_and_delete_is_made_good(lake: Lake) -> None:
    before = lake.read("silver.other_events")
    quarantine = lake.current_snapshot("silver.quarantined_payloads")
    last = lake.current_snapshot("silver.other_events")
    # As it would be had the call ended behind its append: the event is there twice.
    assert redrive(project(lake, ERP, OTHER), [], [OTHER]) == Redriven(1, 1, 1)
    after = lake.read("silver.other_events")
    history = [str(each.snapshot_id) for each in lake.snapshots("silver.other_events")]
    lake.roll_back("silver.other_events", history[history.index(last) + 1])
    lake.roll_back("silver.quarantined_payloads", quarantine)
    assert len(lake.read("silver.other_events")) == len(before) + 1
    run(lake, entries=configured(ERP, OTHER))
    assert redrive(project(lake, ERP, OTHER), [], [OTHER]) == Redriven(1, 1, 0)
    assert sorted_rows(lake.read("silver.other_events")) == sorted_rows(after)


# In CI, test_a_topic_of_several_formats makes the events anew.
@pytest.mark.long
def test_a_full_refresh_gives_the_same(lake: Lake) -> None:
    gold = {name: sorted_rows(lake.read(f"gold.{name}")) for name in ("orders", "profiles")}
    run(lake, *MODELS, "--full-refresh", entries=configured(ERP, OTHER))
    for name, rows in gold.items():
        assert sorted_rows(lake.read(f"gold.{name}")) == rows


MIXED: Final = "shop.mixed"
JSON_BYTE: Final = {"first_byte": ord("{")}
MIXED_ENTRIES: Final = [
    {
        **{"topic": MIXED, "format": "maxwell_json"},
        "when": {"header": "writer", "is": "Maxwell's daemon ü"},
    },
    {"pattern": r"shop\..*", "when": JSON_BYTE, "format": "debezium_json"},
    # A delete of that format has a key alone.
    {"topic": MIXED, "when": {"first_byte": 0x81}, "format": "aerospike_messagepack"},
]


def mixed(offset: int, key: bytes | None, value: bytes | None, **headers: bytes | None) -> Any:
    line = Message(MIXED, 0, offset, START, key, value).line()
    listed = [
        [name, None if text is None else b64encode(text).decode()] for name, text in headers.items()
    ]
    return {**line, "headers": listed}


def test_a_topic_of_several_formats(lake: Lake) -> None:
    row = {"database": "shop", "table": "notes", "type": "insert", "ts": 1, "data": {"id": 1}}
    maxwell, sent = json.dumps(row).encode(), order(ORDERS, 0, START, "c", 9, "new").value
    assert sent is not None
    # Of a table that no change log takes.
    debezium = sent.replace(b'"orders"', b'"returns"')
    batch = pack([profile(1, START, "one")])
    writer = "Maxwell's daemon ü".encode()
    payloads: list[tuple[bytes | None, bytes | None, dict[str, bytes | None], str | None]] = [
        (b"{}", maxwell, {"writer": None, "other": writer}, "debezium_json"),
        (None, maxwell, {"other": b"", "writer": writer}, "maxwell_json"),
        (None, maxwell, {"writer": writer + b"s"}, "debezium_json"),
        (None, debezium, {}, "debezium_json"),
        (b"{}", batch, {}, None),
        (b"\x81", None, {}, "aerospike_messagepack"),
        (b"{}", b"", {}, None),
        (None, None, {}, None),
        # One that was forgotten says nothing in any of them.
        (None, None, {"lakehouse.forgotten": None}, "maxwell_json"),
    ]
    lake.land(
        mixed(offset, key, value, **headers)
        for offset, (key, value, headers, _) in enumerate(payloads)
    )
    expected = [format_name for *_, format_name in payloads]
    entries = [*configured(ERP, OTHER), *MIXED_ENTRIES]
    run(lake, "-s", "other_events", "quarantined_payloads", entries=entries)
    assert formats_of_mixed(lake) == expected
    unknown = {offset for topic, offset, _, code in quarantined(lake) if code == "unknown_format"}
    assert unknown == {4, 6, 7}

    # The same without SQL.
    found = TopicMatcher(lake.spark._jvm, topic_rules(entries)).formats_in_bronze(MIXED)
    assert found is not None
    texts = [found.of(key, value, [*headers.items()]) for key, value, headers, _ in payloads]
    assert texts == expected
    profiled = scan.profile_topics(lake.spark, {MIXED: found})
    assert {table.table: each.events for table, each in profiled.tables.items()} == {
        **{"notes": 1, "returns": 1}
    }

    # An entry more: what it matches takes its place.
    more = {"topic": MIXED, "when": {"first_byte": batch[0]}, "format": "aerospike_messagepack"}
    added = lake.load(topics=[*entries, more], as_of=AS_OF, captures=[])
    assert redrive(added, ["unknown_format"], [MIXED]) == Redriven(3, 1, 1)
    assert formats_of_mixed(lake)[4] == "aerospike_messagepack"
    formats = formats_of_mixed(lake)
    run(lake, "--full-refresh", "-s", "other_events", entries=[*entries, more])
    # A payload that is decoded at once has its record in its log.
    assert formats_of_mixed(lake) == formats[:4] + formats[5:]


def formats_of_mixed(lake: Lake) -> list[str | None]:
    events = lake.sql(f"select * from lake.silver.other_events where topic = '{MIXED}'")
    return [each["format"] for each in sorted(events, key=lambda each: each["offset"])]


def consistent(lake: Lake, failing: frozenset[str] = frozenset()) -> None:
    """The data tests pass, but for those."""
    statuses = lake.dbt("test", *TESTS, as_of=AS_OF, topics=configured(ERP, OTHER))
    assert len(statuses) > 5 and set(statuses.values()) <= {"pass", "fail"}, statuses
    assert {name for name, status in statuses.items() if status == "fail"} == failing
    assert failing or lake.broken_sums() == []


def sorted_rows(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: json.dumps(row, default=_plain, sort_keys=True))


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def test_a_code_that_no_payload_can_have_is_refused() -> None:
    result = CliRunner().invoke(lakehouse, ["redrive", "--code", "trailing"])
    assert result.exit_code == 2
    assert "'trailing' is not known (did you mean trailing_bytes?)" in result.output
