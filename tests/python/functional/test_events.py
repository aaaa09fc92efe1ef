"""`lakehouse events`: what landed messages say, as the decoders say it, and which are chosen."""

import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from support import compacted_tables, history_tables, key_update_tables
from support.row_events import Source
from support.row_messages import line

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands import events
from dbt_lakehouse.commands.decode import decode_stream
from dbt_lakehouse.commands.events import Choice, find, write_json, write_text
from dbt_lakehouse.commands.keys import UnusableKeyError
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.stored.landed import Landed, spans
from python_udfs.core.events import Event

if TYPE_CHECKING:
    from support.built_rows import Built

pytest_plugins = ["support.built_rows"]

OTHER_EVENTS: Final = "silver.other_events"
TIMES: Final = ("timestamp", "occurred_at", "expires_at")


def message(offset: int, format: str | None = "debezium_json", **fields: Any) -> Landed:
    known = {"key": None, "value": b"{}", "headers": [], "has_forgotten": False, **fields}
    return Landed("t", 0, offset, 1_790_000_000_123_000, **known, format=format)


def found(*counts: int) -> Sequence[events.Found]:
    """Messages with so many events each."""
    return [
        (message(offset), [Event(index, "insert") for index in range(count)], count)
        for offset, count in enumerate(counts)
    ]


def text_of(messages: Iterable[events.Found], limit: int | None = None) -> str:
    written: list[bytes] = []
    write_text(messages, limit, written.append)
    return b"".join(written).decode()


# --- what is printed ------------------------------------------------------------------------------


def test_events_for_people_stand_under_their_messages() -> None:
    assert text_of(found(1, 2)) == (
        "t, partition 0, offset 0, 2026-09-21T14:13:20.123Z: debezium_json\n"
        "  event: insert\n"
        "\n"
        "t, partition 0, offset 1, 2026-09-21T14:13:20.123Z: debezium_json\n"
        "  event 0: insert\n"
        "  event 1: insert\n"
    )
    assert text_of([]) == "no such event has landed\n"
    nothing = [(message(0, None), [Event(0, "invalid", error_code="unknown_format")], 1)]
    assert text_of(nothing).splitlines()[0].endswith(": of no format")
    forgotten = [(message(0, value=None, has_forgotten=True), [Event(0, "tombstone")], 1)]
    assert text_of(forgotten).splitlines()[0].endswith(": forgotten")


@pytest.mark.parametrize(
    ("counts", "limit", "shown", "are_more"),
    [
        ((1, 2), 3, 3, False),
        ((1, 2), 2, 2, True),
        ((1, 2), 1, 1, True),
        ((2,), 1, 1, True),
        ((99, 1), None, 100, False),
        ((99, 2), None, 100, True),
        ((99, 1, 1), None, 100, True),
    ],
)
def test_so_many_events_are_printed(
    counts: tuple[int, ...], limit: int | None, shown: int, are_more: bool
) -> None:
    text = text_of(found(*counts), limit)
    assert text.count(": insert") == shown
    assert text.endswith("\nthere are more: --limit\n") == are_more
    lines: list[bytes] = []
    write_json(found(*counts), limit, lines.append)
    assert len(lines) == (sum(counts) if limit is None else shown)


def test_an_event_for_scripts_is_one_line() -> None:
    lines: list[bytes] = []
    spread = Event(0, "insert", after=b'{\n "a": 1.50}', occurred_at=1_790_000_000_000)
    write_json([(message(7), [spread], 1)], None, lines.append)
    (row,) = lines
    assert row.count(b"\n") == 1
    assert b'"after":{"a":1.50}' in row
    assert json.loads(row)["occurred_at"] == "2026-09-21T14:13:20Z"


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "row", "is_wanted"),
    [
        ('{"id": 7}', b'{"id":7}', True),
        ('{"id": 7}', b'{"id":7,"name":"x"}', True),
        ('{"id": 7}', b'{"id":8}', False),
        ('{"id": 7}', b'{"no":7}', False),
        ('{"id": 7}', b"[7]", False),
        ('{"id": 7}', b"7", False),
        ('{"id": 7, "no": 1}', b'{"id":7}', False),
        ('{"id": 7.0}', b'{"id":7}', True),
        ('{"id": 7}', b'{"id":"7"}', True),
        ('{"id": "7"}', b'{"id":7.00}', True),
        ('{"id": "07"}', b'{"id":7}', False),
        ('{"id": 1}', b'{"id":true}', False),
        ('{"id": null}', b'{"id":null}', True),
        ('{"id": null}', b"{}", False),
        ('{"id": 12345678901234567890123}', b'{"id":12345678901234567890124}', False),
        ('{"id": {"a": [1]}}', b'{"id":{"a":[1.0]}}', True),
    ],
)
def test_an_event_is_of_a_key_by_its_key_or_a_row(key: str, row: bytes, is_wanted: bool) -> None:
    choose = events._is_wanted(key)
    for name in ("record_key", "before", "after"):
        fields: dict[str, Any] = {name: row}
        assert choose(Event(0, "update", **fields)) == is_wanted
    assert not choose(Event(0, "tombstone"))


@pytest.mark.parametrize("key", ["", "{7", "7", "[7]", "{}", "null"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(UnusableKeyError, match=r"--key.* expected an object"):
        events._is_wanted(key)


# --- of a lake ------------------------------------------------------------------------------------


def rows_of(built: "Built", choice: Choice) -> list[dict[str, Any]]:
    lines: list[bytes] = []
    write_json(find(built.lake.lake.reader(), OTHER_EVENTS, choice), None, lines.append)
    return [json.loads(each) for each in lines]


def decoded(built: "Built", source: Source) -> list[dict[str, Any]]:
    """What `lakehouse decode` says of all messages of a topic."""
    sent = [each for each in built.lake.landed if each.source.topic == source.topic]
    text = "".join(json.dumps(line(each)) + "\n" for each in sent)
    printed: list[bytes] = []
    decode_stream(io.BytesIO(text.encode()), printed.append, source.format)
    rows = [json.loads(each) for each in b"".join(printed).splitlines()]
    return sorted(rows, key=place)


def timed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its times read, which commands write with more or fewer digits."""
    return row | {name: datetime.fromisoformat(row[name]) for name in TIMES if row[name]}


def place(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["partition"], row["offset"], row["event_index"]


def sources_of(built: "Built") -> list[Source]:
    """The sources of the lake, one of each topic that has one format."""
    by_topic = defaultdict(set)
    for each in built.lake.landed:
        by_topic[each.source.topic].add(each.source.format)
    one_format = {topic for topic, formats in by_topic.items() if len(formats) == 1}
    first = {each.source.topic: each.source for each in reversed(built.lake.landed)}
    return [source for topic, source in sorted(first.items()) if topic in one_format]


# Each kind of the lake: messages that are judged, records, keys in headers.
SOME: Final = {
    each.topic
    for each in (
        *(compacted_tables.STOCK, compacted_tables.BINS, compacted_tables.RACKS),
        *(history_tables.METERS, key_update_tables.ACCOUNTS),
    )
}


@pytest.mark.parametrize(
    "topics", [pytest.param(SOME, id="some"), pytest.param(None, id="all", marks=pytest.mark.long)]
)
def test_events_are_what_decode_prints_and_what_was_judged(
    built: "Built", topics: set[str] | None
) -> None:
    judged = 0
    sources = [each for each in sources_of(built) if topics is None or each.topic in topics]
    assert topics is None or {each.topic for each in sources} == topics
    assert {source.format for source in sources} >= {"debezium_json", "aerospike_messagepack"}
    for source in sources:
        rows = rows_of(built, Choice(source.topic))
        assert rows == sorted(rows, key=place)
        said = [row for row in rows if row["metadata"] != {"compacted": True}]
        assert [*map(timed, said)] == [*map(timed, decoded(built, source))]
        judged += len(rows) - len(said)
    kept = built.lake.lake.read(OTHER_EVENTS)
    assert judged == sum(row["added_by"] == "tombstone" for row in kept) > 0


def test_each_event_of_a_log_is_found_by_its_key(built: "Built") -> None:
    topic = compacted_tables.STOCK.topic
    log = built.changes[compacted_tables.STOCK.table]
    key = next(row["id"] for row in log if row["_position"]["event_index"] == 1)
    rows = rows_of(built, Choice(topic, key=json.dumps({"id": key})))
    wanted = {
        (each["partition"], each["offset"], each["event_index"])
        for each in (row["_position"] for row in log if row["id"] == key)
    }
    assert wanted <= {place(row) for row in rows}
    assert all({"id": key} in (row["record_key"], row["before"]) or row["after"] for row in rows)


def test_messages_are_chosen_by_their_places(built: "Built") -> None:
    source = key_update_tables.ACCOUNTS
    everything = rows_of(built, Choice(source.topic))
    partition = everything[0]["partition"]
    of_partition = [row for row in everything if row["partition"] == partition]
    first, *_, last = sorted({row["offset"] for row in of_partition})
    assert rows_of(built, Choice(source.topic, partition)) == of_partition
    assert rows_of(built, Choice(source.topic, partition, first + 1, last - 1)) == [
        row for row in of_partition if first < row["offset"] < last
    ]
    assert rows_of(built, Choice(source.topic, partition, last + 1)) == []
    with pytest.raises(ConfigurationError, match="no message of the topic nowhere"):
        rows_of(built, Choice("nowhere"))


def test_more_messages_than_memory_holds_are_read_in_parts(
    built: "Built", monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = Choice(compacted_tables.STOCK.topic)
    whole = rows_of(built, choice)
    monkeypatch.setattr("dbt_lakehouse.stored.landed._SPAN", 7)
    parts = spans(built.lake.lake.reader(), choice.condition)
    assert len(parts) > len(whole) // 14
    assert rows_of(built, choice) == whole


def test_the_command(built: "Built", capfd: pytest.CaptureFixture[str]) -> None:
    lake, topic = built.lake.lake, compacted_tables.STOCK.topic
    at = rows_of(built, Choice(topic))[0]
    options = ["--project-dir", str(lake.project)]
    options += ["--profiles-dir", str(lake.project / "profiles")]
    options += ["--topic", topic, "--partition", str(at["partition"])]
    for chosen in (["--offset", str(at["offset"])], ["--to", str(at["offset"])]):
        lake.load()
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["events", *options, *chosen, "--json"])
        assert ended.value.code == 0
        assert json.loads(capfd.readouterr().out) == at
    with pytest.raises(SystemExit) as ended:
        main(["events", *options, "--offset", "1", "--from", "1"])
    assert ended.value.code == 2
    assert "--offset is one message" in capfd.readouterr().err
