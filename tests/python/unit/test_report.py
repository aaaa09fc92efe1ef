"""The page of a run's report, of facts by hand: nothing that it shows is taken for HTML, what
failed is told first, and numbers are those of the commits.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from dbt.cli.exceptions import ExceptionExit, ResultExit
from pyspark.sql import Row
from support.report_pages import Page, is_sound

from dbt.adapters.lakehouse.connections import ending_text
from dbt_lakehouse.errors import WriteError
from dbt_lakehouse.lake.tables import Snapshot, Table
from dbt_lakehouse.landing.lags import bucket_of
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.facts import Counters, Decoded, Facts, Lag, TableFacts, of_runs
from dbt_lakehouse.report.over_time import past_runs, tell_of_history
from dbt_lakehouse.report.page import ago, number, page, seconds, trends, verdict, write_page
from dbt_lakehouse.report.runs import Node, Rows, Run, cells, keep, kept, nodes_of
from dbt_lakehouse.runs.source_filter import PROPERTY
from dbt_lakehouse.stored.quarantine import Example, Group

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOSTILE = "</svg></title><script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{ 7 * 7 }}"


def node(name: str, kind: str = "model", status: str = "success", **more: Any) -> Node:
    return Node(f"{kind}.shop.{name}", name, kind, status, 1.5, **more)


def run(*nodes: Node, hour: int = 11, command: str = "build", **more: Any) -> Run:
    began = NOW.replace(hour=hour)
    ended = began + timedelta(seconds=75)
    return Run(f"run-{hour}", command, "dev", "gold", began, ended, [*nodes], **more)


def hostile_facts() -> Facts:
    """All that a page can show, each text of it hostile."""
    failed = node(
        HOSTILE,
        "test",
        "fail",
        failures=7,
        message=HOSTILE,
        compiled=HOSTILE,
        path=HOSTILE,
        rows=Rows([HOSTILE, "b"], [[HOSTILE, None]]),
    )
    unit = node("unit", "unit_test", "fail", message=HOSTILE)
    model = node(HOSTILE, status="error", table=HOSTILE, message=HOSTILE, path=HOSTILE)
    skipped = node("skipped", status="skipped", table=HOSTILE)
    facts = of_runs([run(failed, unit, model, skipped, troubles=[HOSTILE], error=HOSTILE)], NOW)
    facts.landed, facts.read, facts.newly_quarantined, facts.quarantined = 12_431, 12_500, 3, 9
    facts.operations = {HOSTILE: 3}
    table = TableFacts(HOSTILE, rows=12_345_678, rows_before=None, written_at=NOW, node=model)
    table.tests = [failed]
    facts.gold, facts.others = [table], [TableFacts(f"{HOSTILE} too", 1, 0, None)]
    facts.rest = [TableFacts(f"{HOSTILE} rest", 1, 0, None)]
    example = Example(0, 5, 1, None, HOSTILE, "PHNjcmlwdD4=")
    facts.groups = [Group(HOSTILE, HOSTILE, HOSTILE, 9, HOSTILE, None, [example])]
    facts.lag = Lag(5, 61.0, 2, NOW)
    facts.built = {HOSTILE: {bucket_of(2.0): 98, bucket_of(40.0): 2}}
    facts.decoded_by_run = [Decoded(NOW, 5, 0), Decoded(NOW, 7, 2)]
    facts.gold_rows = [(NOW, 3), (NOW, 4)]
    facts.counters = [Counters(NOW, 1, 2, 3)]
    return facts


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("docs", [None, "docs.html"])
def test_a_page_runs_and_fetches_nothing(is_empty: bool, docs: str | None) -> None:
    html = page(of_runs([], NOW) if is_empty else hostile_facts(), docs)
    drawn = Page(html)
    is_sound(drawn)
    assert ("{{ 7 * 7 }}" in html) is not is_empty
    assert html.count("docs.html#!/model/") == (0 if is_empty or docs is None else 4)


def test_a_page_has_the_name_of_its_project() -> None:
    drawn = Page(page(of_runs([run(project="shop"), run(project="older")], NOW)))
    (title,), (heading,) = drawn.all("title"), drawn.all("h1")
    assert title.text == "shop: run report, good, 2026-11-24T11:00:00Z"
    assert heading.text == "shop: run report"


@pytest.mark.parametrize(
    ("statuses", "shown", "total"),
    [
        (["pass", "pass"], "2", "All 2 tests passed."),
        (["pass", "skipped"], "1 of 2", "1 of 2 tests passed."),
        (["skipped", "fail"], "2 of 2", "0 of 2 tests passed."),
    ],
)
def test_tests_that_were_skipped_have_not_passed(
    statuses: list[str], shown: str, total: str
) -> None:
    tests = [node(f"t{n}", "test", status) for n, status in enumerate(statuses)]
    facts = of_runs([run(*tests)], NOW)
    facts.gold = [table("gold.a", tests=tests)]
    drawn = Page(page(facts))
    assert drawn.table("Gold")["gold.a"]["Tests"] == shown
    assert total in drawn.root.text


def test_a_stream_s_lags_are_shown_by_topic_and_nothing_without_one() -> None:
    facts = of_runs([run()], NOW)
    assert "Kafka to gold" not in page(facts)
    facts.built = {"orders": {bucket_of(2.0): 97, bucket_of(40.0): 3}, "bins": {bucket_of(90.0): 1}}
    drawn = Page(page(facts))
    (caption,) = (each.text for each in drawn.all("caption") if "Kafka's timestamp" in each.text)
    lags = drawn.table(caption)
    assert {name: row["Messages"] for name, row in lags.items()} == {"orders": "100", "bins": "1"}


def test_hostile_texts_stand_as_they_are() -> None:
    drawn = Page(page(hostile_facts()))
    (group,) = (each for each in drawn.all("table") if "All that could not be" in each.text)
    told = "".join(HOSTILE.split())
    cells_of = [each.text for each in group.all("tbody")[0].all("td")]
    assert told in "".join(cells_of[0].split()) and told in "".join(cells_of[3].split())
    (rows,) = (each for each in drawn.all("table") if "first 1 of 7 rows" in each.text)
    assert told in "".join(rows.text.split()) and "null" in rows.text
    assert "12,345,678" in drawn.root.text and "12,431 messages landed" in drawn.root.text


def test_what_is_not_known_is_a_gap() -> None:
    facts = of_runs([run()], NOW)
    facts.gold = [table("gold.a", rows=None, rows_before=None, waiting=None)]
    drawn = Page(page(facts))
    assert {each.text.split()[0] for each in drawn.all("dl")[0].all("dd")} == {"-"}
    row = drawn.table("Gold")["gold.a"]
    assert {row[each] for each in row if each not in ("Table", "State")} == {"-"}


def test_a_chart_of_nothing_is_not_drawn() -> None:
    facts = of_runs([], NOW)
    facts.counters = [Counters(NOW, 0, None, 0)]
    facts.gold_rows = [(NOW, None), (NOW, 0)]
    assert trends(facts) == [] and "There is nothing to draw yet." in page(facts)
    facts.counters.append(Counters(NOW, 0, 0, 1))
    assert [each.title for each in trends(facts)] == ["Late, expired, refolded"]


def table(name: str, **more: Any) -> TableFacts:
    known = {"rows": 1, "rows_before": 1, "written_at": None, "waiting": False}
    return TableFacts(name, **{**known, **more})


@pytest.mark.parametrize(
    ("nodes", "gold", "more", "word", "sentence"),
    [
        ([], [], {}, "good", "Nothing landed, 0 events decoded, no table in gold yet."),
        (
            [node("a", "test", "pass")],
            [table("gold.a")],
            {"landed": 1, "read": 1, "operations": {"insert": 2, "invalid": 1}},
            "good",
            "1 message landed, 2 events decoded, all tables up to date, 1 test passed.",
        ),
        (
            [],
            [table("gold.a", waiting=True), table("gold.b")],
            {"undecoded": 4, "newly_quarantined": 3},
            "look",
            "Nothing landed, 0 events decoded, 4 messages not yet decoded, 1 of 2 tables not up to"
            " date (gold.a), 3 events quarantined.",
        ),
        (
            [],
            [],
            {"landed": 2, "read": 300, "operations": {"insert": 310}},
            "good",
            "2 messages landed, 300 read, 310 events decoded, no table in gold yet.",
        ),
        (
            [],
            [],
            {"landed": None, "read": None, "operations": None},
            "good",
            "How many messages landed is not known, how many events were decoded is not known, no"
            " table in gold yet.",
        ),
        (
            [node("a", "test", "warn")],
            [table("gold.a")],
            {},
            "look",
            "1 test warned.",
        ),
        (
            [node("a", "test", "fail")],
            [table("gold.a")],
            {},
            "failed",
            "1 test failed.",
        ),
        (
            [node("a", "test", "pass"), node("b", "test", "skipped")],
            [table("gold.a")],
            {},
            "look",
            "all tables up to date, 1 test skipped.",
        ),
        (
            [node("a", status="error")],
            [table("gold.a", node=node("a", status="error"))],
            {},
            "failed",
            "1 of 1 table not up to date (gold.a), 1 model failed.",
        ),
        (
            [],
            [],
            {"run": run(error="interrupted")},
            "look",
            "The command was interrupted, nothing landed, 0 events decoded, no table in gold yet.",
        ),
        (
            [],
            [],
            {"run": run(error="no space left")},
            "failed",
            "The command ended early, nothing landed, 0 events decoded, no table in gold yet.",
        ),
        ([], [], {"trouble": "no lake"}, "look", "The lake could not be read for this page."),
    ],
)
def test_the_verdict(
    nodes: list[Node], gold: list[TableFacts], more: dict[str, Any], word: str, sentence: str
) -> None:
    facts = of_runs([run(*nodes)], NOW)
    facts.gold, facts.landed, facts.operations = gold, 0, {}
    for name, value in more.items():
        setattr(facts, name, value)
    assert verdict(facts).word == word
    assert verdict(facts).sentence.endswith(sentence)


def test_a_test_is_told_as_it_came_out_last() -> None:
    built = run(node("model"), node("a", "test", "fail"), node("b", "test", "pass"), hour=9)
    tested = run(node("a", "test", "pass"), hour=10, command="test")
    older = run(node("model"), node("c", "test", "fail"), hour=8)
    facts = of_runs([tested, built, older], NOW)
    assert {each.name: each.status for each in facts.tests} == {"a": "pass", "b": "pass"}
    assert facts.since == built.started_at


# --- commits --------------------------------------------------------------------------------------


def grown(*rows: int, gone: Sequence[int] = ()) -> Table:
    """A table after commits that leave so many rows in its files, hours apart; so many of them are
    taken away by deletion vectors.
    """
    chain = [
        Snapshot(
            snapshot_id=at + 1,
            sequence_number=at + 1,
            parent_snapshot_id=at or None,
            summary={
                "operation": "overwrite",
                "total-records": str(number),
                "total-position-deletes": str(gone[at] if gone else 0),
            },
            timestamp_ms=int((NOW + timedelta(hours=at)).timestamp() * 1000),
        )
        for at, number in enumerate(rows)
    ]
    return Table("uuid", {}, {}, frozenset(), tuple(reversed(chain)), frozenset())


def test_rows_before_and_after() -> None:
    merged = grown(10, 15, gone=(0, 7))
    assert commits.rows_now(merged) == 8
    half = NOW + timedelta(minutes=30)
    assert commits.rows_before(merged, half) == 10
    assert commits.rows_before(merged, NOW) == 0
    assert commits.rows_over([merged, grown(1)], [half, NOW + timedelta(days=1)]) == [11, 9]
    assert [rows for _, rows in commits.growth(merged)] == [10]
    expired = msgspec.structs.replace(merged, chain=merged.chain[:1])
    assert commits.rows_before(expired, half) is None
    anew = msgspec.structs.replace(grown(3), log=((NOW - timedelta(days=1), 9),))
    assert commits.rows_before(anew, NOW) is None


def test_what_commits_no_longer_tell_is_not_counted() -> None:
    whole, later = grown(10, 15, 18), NOW + timedelta(minutes=30)
    expired = msgspec.structs.replace(whole, chain=whole.chain[:1])
    assert commits.added_since(whole, later) == 8
    assert commits.added_since(expired, later) is None
    assert commits.added_since(expired, NOW + timedelta(hours=3)) == 0
    rolled_back = msgspec.structs.replace(whole, log=((NOW + timedelta(hours=3), 9),))
    assert commits.added_since(rolled_back, later) == 8
    anew = msgspec.structs.replace(whole, log=((NOW - HOUR, 9),))
    assert commits.added_since(anew, NOW - 2 * HOUR) is None
    assert commits.added_since(anew, NOW - HOUR / 2) == 18
    assert commits.added_since(None, later) == 0


def counted_events(events: Table) -> Table:
    """As other_events, each of whose commits has decoded one event."""
    counts = [{"snapshot": each.name, "operations": [1] + [0] * 9} for each in events.chain]
    properties = {PROPERTY: json.dumps({"commits": counts})}
    return msgspec.structs.replace(events, properties=properties)


def test_rows_are_those_of_their_run() -> None:
    """A table that a later run has made has none in an earlier one; a mart, which each run makes
    anew, is in none.
    """
    events = counted_events(grown(1, 2))
    first, second = (
        Run(str(at), "run", "dev", "gold", at, at + HOUR / 2, []) for at in (NOW, NOW + HOUR)
    )
    facts = of_runs([second, first], NOW + 9 * HOUR)
    logs = {"gold.a": "silver.a_changes", "gold.late": "silver.b_changes", "gold.mart": None}
    facts.gold = [table(name, log=log) for name, log in logs.items()]
    tables = {"gold.a": grown(3, 4), "gold.late": grown(0, 7), "gold.mart": grown(50)}
    tell_of_history(facts, tables, events)
    assert facts.gold_rows == [(NOW, 3), (NOW + HOUR, 11)]


def test_a_week_has_its_runs_and_gaps_for_what_is_gone() -> None:
    """A run that is kept, one of which the lake alone knows, and one before what commits tell."""
    events = counted_events(grown(1, 2, 4))
    own = Run("own", "build", "dev", "gold", NOW + 2 * HOUR, NOW + 3 * HOUR, [node("a")])
    failed = node("t", "test", "fail")
    first = Run("first", "build", "dev", "gold", NOW, NOW + HOUR / 2, [node("a"), failed])
    runs = [own, first]
    past = past_runs(runs, events, NOW)
    found = [(each.at, each.run, each.decoded) for each in past]
    assert found == [(NOW + 2 * HOUR, own, 1), (NOW + HOUR, None, 1), (NOW, first, 1)]
    expired = msgspec.structs.replace(events, chain=events.chain[:2])
    assert [each.decoded for each in past_runs(runs, expired, NOW)] == [1, 1, None]
    facts = of_runs(runs, NOW + 9 * HOUR, NOW)
    facts.period = past
    drawn = Page(page(facts, "docs.html"))
    is_sound(drawn)
    rows = drawn.table("The newest first; a dash where what a run has left is gone")
    assert [row["Result"] for row in rows.values()] == ["good", "-", "failed"]
    assert [row["Took"] for row in rows.values()] == ["60 min 0 s", "-", "30 min 0 s"]
    assert rows["2026-11-24T12:00Z"]["Failed or warned"] == "t"
    assert of_runs(runs, NOW + 9 * HOUR, NOW + HOUR).run == own
    assert of_runs(runs, NOW + 9 * HOUR, NOW + 5 * HOUR).run is None


# --- runs that are kept ---------------------------------------------------------------------------


def test_runs_are_kept_and_old_ones_forgotten(tmp_path: Path) -> None:
    for minute in range(210):
        began = NOW + timedelta(minutes=minute)
        one = Run(
            f"../{minute}", "run", "dev", "gold", began, began, [node("a", wanted=[["x", None]])]
        )
        keep(tmp_path, one)
    found = kept(tmp_path, "gold", 1000)
    assert [each.invocation_id for each in found] == [f"../{n}" for n in range(209, 9, -1)]
    assert found[0].nodes == [node("a", wanted=[["x", None]])]
    (tmp_path / "report" / "9.json").write_text('{"of": "another version"}')
    assert kept(tmp_path, "gold", 1000) == found and kept(tmp_path, "gold") == found[:30]
    assert kept(tmp_path, "dev_gold") == kept(tmp_path / "nothing", "gold") == []


def test_failed_tests_that_are_quick_are_asked_for_rows() -> None:
    def result(name: str, seconds_taken: float, failures: int | None) -> Any:
        of = SimpleNamespace(
            unique_id=name,
            name=name,
            resource_type="test",
            config=SimpleNamespace(meta={}),
            package_name="shop" if name == "a" else "cdc_lakehouse",
            original_file_path="a.yml",
            compiled_path="b.sql",
            compiled_code=f"select {name}",
            depends_on=SimpleNamespace(nodes=["model.shop.a"]),
        )
        return SimpleNamespace(
            node=of, status="fail", execution_time=seconds_taken, message=None, failures=failures
        )

    asked: list[str] = []
    rows = Rows(["a"], [cells([b"123", "x" * 200, None])])

    def rows_of(sql: str) -> Rows:
        asked.append(sql)
        return rows

    results = [result("a", 1, 2), result("slow", 60, 2), result("none", 1, 0)]
    found = nodes_of(results, "shop", rows_of)
    assert asked == ["select a"]
    assert [each.rows for each in found] == [rows, None, None]
    assert rows.values == [["3 bytes", "x" * 157 + "...", None]]
    # Whole, as its offset is what one looks for.
    place = {
        "log_time": datetime(2026, 11, 25, 9, 46, 43, 123456),
        "topic": "debezium.sales.orders",
    }
    position = Row(**place, partition=11, offset=12_345_678, event_index=0)
    (text,) = cells([position])
    assert text is not None and text.endswith("partition 11, offset 12345678, event_index 0")
    assert found[0].of == ["model.shop.a"]
    assert [each.path for each in found[:2]] == ["a.yml", "cdc_lakehouse://a.yml"]


def test_a_page_that_can_not_be_written(tmp_path: Path) -> None:
    write_page(of_runs([], NOW), tmp_path / "new" / "a.html", tmp_path)
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["a.html"]
    with pytest.raises(WriteError, match=r"a\.html/b\.html can't be written: .*--output"):
        write_page(of_runs([], NOW), tmp_path / "new" / "a.html" / "b.html", tmp_path)


def test_values() -> None:
    assert [number(each) for each in (None, 0, 1234567, 1500.0, 0.5)] == [
        *("-", "0", "1,234,567", "1,500", "0.5")
    ]
    assert [seconds(each) for each in (None, 0.456, 12.4, 184.2)] == [
        *("-", "0.46 s", "12 s", "3 min 4 s")
    ]
    passed = [ago(NOW - timedelta(seconds=each), NOW) for each in (5, 61, 7200, 200_000, -1)]
    assert passed == ["5 s ago", "1 min ago", "2 h ago", "2 d ago", "in the future"]


def test_what_a_command_has_ended_by() -> None:
    assert ending_text(KeyboardInterrupt()) == "interrupted"
    assert ending_text(ExceptionExit(ValueError("no packages"))) == "no packages"
    assert ending_text(ValueError("no packages")) == "no packages"
    assert ending_text(AssertionError()) == "AssertionError"
    assert ending_text(ResultExit([])) == "failed"
