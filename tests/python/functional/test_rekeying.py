"""Keys that are none of their rows, keys that have changed at the source, and what `lakehouse
generate` makes of them. What a run makes of them is in test_message_keys.py and
test_schema_drift.py.
"""

from typing import Any, Final

import pytest
import yaml
from test_generate import Capture, Line, Paper, Row, change, keys_of, paper, source

from dbt_lakehouse.commands.generate.choices import GivenKeys
from dbt_lakehouse.commands.generate.generate_output import GenerateError
from dbt_lakehouse.commands.generate.key_evidence import EVENTS_KEPT, KEYS_KEPT, KeyEvidence
from python_udfs.core.events import Event

__all__ = ["paper"]


def change_lines(topic: str, *changes: tuple[str, Any, Row | None, Row | None]) -> list[Line]:
    """Changes of the table `orders`: op, key, the rows before and after."""
    capture = Capture(topic)
    return [
        capture.json(key, change(op, source("orders"), before, after))
        for op, key, before, after in changes
    ]


def order(id: int, customer: int, **more: Any) -> Row:
    return {"id": id, "customer": customer, **more}


SEVEN: Final = {"customer": 7}
TWO_OF_SEVEN: Final = (("c", SEVEN, None, order(1, 7)), ("c", SEVEN, None, order(2, 7)))


def test_a_message_key_that_is_none_of_the_rows_is_a_question(paper: Paper) -> None:
    """Debezium's message.key.columns: two rows of one key, and no delete in between."""
    paper.topics["orders"] = change_lines("orders", *TWO_OF_SEVEN)
    with pytest.raises(GenerateError) as refused:
        paper.generate("orders")
    assert str(refused.value) == (
        "shop.public.orders: its messages have the key customer, which doesn't seem to"
        " identify its rows: 1 of 1 key of customer that were looked at have a second row inserted"
        " while the first one is there, the first time at topic orders, partition 0, offset 2. Name"
        " the key of its rows: --key COLUMN,... (columns that always have a value are id). --key"
        " customer takes the messages' key anyway"
    )
    assert not (paper.root / "models").exists()
    report = paper.generate("orders", keys=GivenKeys(["id"]))
    assert keys_of(report) == {"orders": ["id"]}
    assert 'key={"id": "int"},\n        message_key=["customer"],' in paper.read(
        "silver", "orders_changes.sql"
    )
    assert paper.generate("orders").tables[0].status == "unchanged"
    assert paper.generate("orders").tables[0].notes == []


def test_a_key_that_is_called_like_one_is_believed(paper: Paper) -> None:
    """Deletes may have been lost or left out, as by skipped.operations: told, and no question."""
    twice = [("c", {"id": 1}, None, {"id": 1, "note": note}) for note in ("a", "b")]
    paper.topics["orders"] = change_lines("orders", *twice)
    (table,) = paper.generate("orders").tables
    assert table.notes == [
        "1 of 1 key of id that were looked at have a second row inserted while the first one is"
        " there, the first time at topic orders, partition 0, offset 2. If the rows have another"
        " key, give it with --key"
    ]
    with pytest.raises(GenerateError, match="doesn't seem to identify its rows"):
        uuid = [("c", {"id": 1}, None, {"id": 1, "uuid": text}) for text in ("a", "b")]
        paper.topics["events"] = change_lines("events", *uuid)
        paper.generate("events", name="events")


def test_a_key_for_many_tables_takes_the_place_of_one_that_is_none(paper: Paper) -> None:
    paper.topics["orders"] = change_lines("orders", *TWO_OF_SEVEN)
    report = paper.generate("orders", keys=GivenKeys(columns=[["id"]]))
    assert keys_of(report) == {"orders": ["id"]}


def test_a_doubtful_key_that_the_call_names_is_taken(paper: Paper) -> None:
    """And the model says that it is meant, so no run warns of it."""
    paper.topics["orders"] = change_lines("orders", *TWO_OF_SEVEN)
    paper.generate("orders", keys=GivenKeys(["customer"]))
    assert 'message_key=["customer"],' in paper.read("silver", "orders_changes.sql")
    assert paper.generate("orders").tables[0].notes == []


MOVED: Final = ("u", {"customer": 8}, order(1, 7, total=1), order(1, 8, total=1))


def test_updates_that_give_rows_another_key_are_a_question(paper: Paper) -> None:
    """Where a column that is called like a key stays what it was; else that is a note."""
    first = ("c", SEVEN, None, order(1, 7, total=1))
    paper.topics["orders"] = change_lines("orders", first, MOVED)
    with pytest.raises(GenerateError, match="1 update have another value of customer before"):
        paper.generate("orders")
    move = ("u", {"id": 2}, order(1, 7), order(2, 7))
    paper.topics["moves"] = change_lines("moves", ("c", {"id": 1}, None, order(1, 7)), move)
    (moved,) = paper.generate("moves").tables
    assert moved.notes[0].startswith("1 update have another id before than after")


FINE: Final[dict[str, list[tuple[str, Any, Row | None, Row | None]]]] = {
    "deleted in between": [
        TWO_OF_SEVEN[0],
        ("d", SEVEN, order(1, 7), None),
        TWO_OF_SEVEN[1],
    ],
    "truncated in between": [TWO_OF_SEVEN[0], ("t", None, None, None), TWO_OF_SEVEN[1]],
    "messages that came again": [
        TWO_OF_SEVEN[0],
        ("u", SEVEN, None, order(1, 7, v=2)),
        ("d", SEVEN, order(1, 7), None),
        TWO_OF_SEVEN[1],
        TWO_OF_SEVEN[0],
        ("u", SEVEN, None, order(1, 7, v=2)),
        ("d", SEVEN, order(1, 7), None),
        TWO_OF_SEVEN[1],
    ],
    "a second snapshot": [("r", SEVEN, None, order(1, 7)), ("r", SEVEN, None, order(2, 7))],
    "inserted and read by a snapshot": [
        ("r", SEVEN, None, order(2, 7)),
        ("c", SEVEN, None, order(1, 7)),
    ],
}


@pytest.mark.parametrize("changes", FINE.values(), ids=FINE.keys())
def test_what_says_nothing_against_a_key(
    paper: Paper, changes: list[tuple[str, Any, Row | None, Row | None]]
) -> None:
    paper.topics["orders"] = change_lines("orders", *changes)
    assert keys_of(paper.generate("orders")) == {"orders": ["customer"]}


def test_rows_of_one_snapshot_are_compared(paper: Paper) -> None:
    """By the place in the source's log at which it was taken."""
    capture = Capture("orders")
    for id, lsn in ((1, 5), (2, 5), (3, 9)):
        value = change("r", source("orders", lsn=lsn), None, order(id, 7 if id < 3 else 8))
        paper.topics.setdefault("orders", []).append(capture.json({"customer": id // 3}, value))
    with pytest.raises(GenerateError, match=r"1 of 2 keys of customer .* offset 2"):
        paper.generate("orders")


def test_an_insert_may_replace_a_row(paper: Paper) -> None:
    """In Cassandra, each one does."""
    capture = Capture("orders")
    block = {**source("orders"), "connector": "cassandra"}
    paper.topics["orders"] = [
        capture.json(SEVEN, change("c", block, None, order(id, 7))) for id in (1, 2)
    ]
    assert keys_of(paper.generate("orders")) == {"orders": ["customer"]}


def test_evidence_adds_up_in_any_parts() -> None:
    """And what is kept of it does not grow with the topic."""
    event = Event(0, "insert", record_key=b'{"k":1}', after=b'{"k":1,"v":1}')
    keys = [b'{"k":%d}' % number for number in range(4 * KEYS_KEPT)]
    events = [
        (event._replace(record_key=key, after=b'{"v":%d}' % number), ("", "t", 0, number))
        for number, key in enumerate([*keys, *keys, *[keys[0]] * 40])
    ]
    whole, parts = KeyEvidence(), [KeyEvidence() for _ in range(3)]
    for number, (each, position) in enumerate(events):
        whole.add(each, position)
        parts[number % 3].add(each, position)
    together = KeyEvidence()
    for part in reversed(parts):
        together.merge(part)
    assert together.events == whole.events
    assert len(whole.events) == KEYS_KEPT
    assert max(map(len, whole.events.values())) <= EVENTS_KEPT
    assert whole.reinserted([]).keys == KEYS_KEPT
    # None of what was inserted first was there at the end.
    assert together.reinserted([("", "t", 0, 4 * KEYS_KEPT - 0.5)]).keys <= 1


def narrow(id: int, op: str = "c") -> tuple[str, Any, Row | None, Row | None]:
    return op, {"id": id}, None, {"id": id, "tenant": 7, "v": "x"}


def wide(id: int, tenant: int, op: str = "c") -> tuple[str, Any, Row | None, Row | None]:
    row = {"id": id, "tenant": tenant, "v": "x"}
    return op, {"id": id, "tenant": tenant}, None, row


def test_a_key_that_has_changed_at_the_source_is_declared_anew(paper: Paper) -> None:
    """In the log and in what gold's description says of its rows, and nowhere else."""
    paper.topics["orders"] = change_lines("orders", narrow(1))
    paper.generate("orders")
    log = paper.root / "models" / "silver" / "orders_changes.sql"
    paper.topics["orders"] = change_lines("orders", narrow(1), wide(1, 8))
    (changed,) = paper.generate("orders").tables
    assert changed.changes == ["~ key: id -> id, tenant"]
    assert changed.notes == [
        "the next dbt build rebuilds orders_changes, orders and its histories from all landed"
        " events; rows are then told apart by id, tenant"
    ]
    assert log.read_text().endswith("""\
        key={"id": "int", "tenant": "int"},
        columns={
            "v": "string",
        },
    )
}}
""")
    description = paper.read("gold", "orders.yml")
    assert "One row per `id` and `tenant` that exists now" in " ".join(description.split())
    assert [line for line in description.splitlines() if "name: " in line][1:4] == [
        "      - name: id",
        "      - name: tenant",
        "      - name: v",
    ]
    assert paper.generate("orders").tables[0].status == "unchanged"
    # And back.
    paper.topics["orders"] = change_lines("orders", narrow(1), wide(1, 8), narrow(1))
    (back,) = paper.generate("orders").tables
    assert back.changes == ["~ key: id, tenant -> id"]
    assert log.read_text().endswith("""\
        key={"id": "int"},
        columns={
            "tenant": "int",
            "v": "string",
        },
    )
}}
""")


def test_a_column_of_the_key_that_was_renamed(paper: Paper) -> None:
    """One of another case stays, for SQL does not tell them apart."""
    for name, column in (("number", "number"), ("ID", "id")):
        topic = f"by_{name}"
        paper.topics[topic] = change_lines(topic, narrow(1))
        paper.generate(topic, name=topic.lower())
        moved = ("c", {name: 2}, None, {name: 2, "tenant": 7, "v": "y"})
        paper.topics[topic] = change_lines(topic, narrow(1), moved)
        (changed,) = paper.generate(topic, name=topic.lower()).tables
        text = paper.read("silver", f"{topic.lower()}_changes.sql")
        contract = yaml.safe_load(paper.read("gold", f"{topic.lower()}.yml"))
        columns = [each["name"] for each in contract["models"][0]["columns"]]
        if column == "id":
            assert 'key={"id": {"name": "ID", "type": "int"}},\n' in text
            assert columns[:3] == ["id", "tenant", "v"]
        else:
            assert 'key={"number": "int"},\n        columns={\n            "id": "int",' in text
            assert {*columns[:4]} == {"number", "id", "tenant", "v"}
            assert changed.notes[1].startswith("1 of 2 rows have no value of number")


@pytest.mark.parametrize(
    ("new", "key"),
    [
        (wide(1, 8), 'key={"id": "int", "tenant": "int"},\n'),
        (
            ("c", {"ID": 2}, None, {"ID": 2, "tenant": 7, "v": "y"}),
            'key={"id": {"name": "ID", "type": "int"}},\n',
        ),
    ],
)
def test_a_field_of_two_columns_is_the_key_by_that_which_was_it(
    paper: Paper, new: tuple[str, Any, Row | None, Row | None], key: str
) -> None:
    paper.topics["orders"] = change_lines("orders", narrow(1))
    paper.generate("orders")
    log = paper.root / "models" / "silver" / "orders_changes.sql"
    more = '"id_text": {"name": "id", "type": "string"},'
    log.write_text(log.read_text().replace('"v": "string",', f'"v": "string",\n            {more}'))
    paper.topics["orders"] = change_lines("orders", narrow(1), new)
    paper.generate("orders")
    assert key in log.read_text()
    assert more in log.read_text().partition("columns=")[2]


@pytest.mark.parametrize("types", [("int", "string"), ("string", "int")])
def test_a_field_of_two_columns_becomes_the_key_by_the_first(
    paper: Paper, types: tuple[str, str]
) -> None:
    paper.topics["orders"] = change_lines("orders", narrow(1))
    paper.generate("orders")
    log = paper.root / "models" / "silver" / "orders_changes.sql"
    two = [f'"t_{type}": {{"name": "tenant", "type": "{type}"}},' for type in types]
    text = log.read_text()
    log.write_text(text.replace('"tenant": "int",', "\n            ".join(two)))
    paper.topics["orders"] = change_lines("orders", narrow(1), wide(1, 8))
    paper.generate("orders")
    assert two[0].removesuffix(",") in log.read_text().partition("columns=")[0]
    assert two[1] in log.read_text().partition("columns=")[2]


def test_a_key_of_its_author_stays(paper: Paper) -> None:
    """The messages have never had it, or it is said that another one is meant."""
    key = {"region": 1, "id": 1}
    paper.topics["orders"] = change_lines("orders", ("c", key, None, order(1, 7, region=1)))
    paper.generate("orders", keys=GivenKeys(["id"]))
    text = paper.read("silver", "orders_changes.sql")
    assert 'message_key=["id", "region"],' in text
    for said in ('message_key=["id", "region"],', 'message_key="*",'):
        path = paper.root / "models" / "silver" / "orders_changes.sql"
        path.write_text(text.replace('message_key=["id", "region"],', said))
        assert paper.generate("orders").tables[0].status == "unchanged"
    # Another key of the messages is said too.
    other = ("c", {"customer": 7}, None, order(2, 7, region=1))
    paper.topics["orders"] = change_lines("orders", ("c", key, None, order(1, 7, region=1)), other)
    path.write_text(text)
    paper.generate("orders", keys=GivenKeys(["id"]))
    assert 'message_key=[["id", "region"], ["customer"]],' in path.read_text()


def test_gold_that_chooses_a_column_of_the_new_key(paper: Paper) -> None:
    paper.topics["orders"] = change_lines("orders", narrow(1))
    paper.generate("orders")
    gold = paper.root / "models" / "gold" / "orders.sql"
    gold.write_text('{{ current_state(ref("orders_changes"), columns=["tenant", "v"]) }}\n')
    paper.topics["orders"] = change_lines("orders", narrow(1), wide(1, 8))
    before = paper.read("silver", "orders_changes.sql")
    with pytest.raises(GenerateError, match="tenant is of the key now: take it out of the list"):
        paper.generate("orders")
    assert paper.read("silver", "orders_changes.sql") == before
