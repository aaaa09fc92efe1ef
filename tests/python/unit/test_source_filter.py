"""Which commits of other_events a change log need not look at."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.metadata import UUID, commit, is_behind, row, table

from dbt_lakehouse.build.other_events import doubt_of_payloads
from dbt_lakehouse.lake.tables import EMPTIED, LOOKED, Table
from dbt_lakehouse.runs import source_filter
from dbt_lakehouse.runs.marks import Mark, reading
from dbt_lakehouse.runs.model_run import NodeRun, carried
from dbt_lakehouse.runs.source_filter import Wanted
from python_udfs.core.events import SOURCE_FIELDS

ORDERS = ["shop", "sales", "orders"]
OTHERS = ["shop", None, "customers"]
READ = Mark(UUID, "2000", 2)


def observed(*sources: Sequence[str | None], topic: str = "t", **counts: int) -> dict[str, Any]:
    """What Spark has collected and counted of new events of these tables."""
    pairs = [
        {"topic": topic, **dict(zip(SOURCE_FIELDS, source, strict=True))} for source in sources
    ]
    return {"pairs": pairs, **dict.fromkeys(source_filter.CONDITIONS, 0), **counts}


def events(*commits: dict[str, Any], more: tuple[dict[str, Any], ...] = ()) -> Table:
    """other_events with commits behind the second one, and what is kept of them."""
    kept: dict[str, Any] = {}
    for number, each in enumerate(commits, 3):
        before = table(looked(2, number), properties={source_filter.PROPERTY: json.dumps(kept)})
        kept = source_filter.kept(before, f"{number * 1000}", each, is_first=number == 3)
    snapshots = looked(2, 3 + len(commits))
    return table(
        [*row(1), *snapshots, *more], properties={source_filter.PROPERTY: json.dumps(kept)}
    )


def looked(first: int, end: int) -> list[dict[str, Any]]:
    """Commits that have looked at payloads; of the first one nothing is kept."""
    return [
        commit(number, number - 1, notes={LOOKED: "true"} if number > 2 else {})
        for number in range(first, end)
    ]


@pytest.mark.parametrize(
    ("upstream", "wanted", "expected"),
    [
        (events(observed(ORDERS)), [ORDERS], True),
        (events(observed(OTHERS)), [ORDERS], False),
        (events(observed(OTHERS)), [ORDERS, OTHERS], True),
        (events(observed(OTHERS), observed(ORDERS), observed(OTHERS)), [ORDERS], True),
        (events(observed()), [ORDERS], False),
        # No name is none of another.
        (events(observed(["shop", "", "customers"])), [OTHERS], False),
        (events(observed(ORDERS)), None, True),
        (events(observed(ORDERS, invalid=0)), "invalid", False),
        (events(observed(ORDERS, invalid=2)), "invalid", True),
        (events(observed(set_less_deletes=1)), "set_less_deletes", True),
        # Nothing is known of the commit of somebody else.
        (events(observed(OTHERS), more=(commit(4, 3),)), [ORDERS], True),
        (events(observed(OTHERS), more=(commit(4, 3, "replace"),)), [ORDERS], False),
        # Nor is a place of what was forgotten.
        (events(observed(OTHERS), more=(commit(4, 3, notes={EMPTIED: "true"}),)), [ORDERS], False),
        (table([*row(1, 2), commit(3, 2)]), [ORDERS], True),
        # Nor how far it is to what was read.
        (table([commit(4, 3)]), [ORDERS], True),
        # All was read.
        (events(), [ORDERS], False),
    ],
)
def test_whether_there_is_what_a_model_wants(
    upstream: Table, wanted: Wanted, expected: bool
) -> None:
    assert source_filter.may_have(upstream, reading(READ, upstream), wanted) is expected


def test_all_is_wanted_by_who_has_read_nothing() -> None:
    upstream = events(observed(OTHERS))
    assert source_filter.may_have(upstream, reading(None, upstream), [ORDERS])


def test_the_newest_commits_are_kept() -> None:
    found = events(*[observed(OTHERS)] * 150)
    kept = json.loads(found.properties[source_filter.PROPERTY])
    assert [each["snapshot"] for each in kept["commits"]] == [
        f"{at}000" for at in range(152, 52, -1)
    ]
    assert source_filter.may_have(found, reading(READ, found), [ORDERS])
    assert not source_filter.may_have(found, reading(Mark(UUID, "60000", 60), found), [ORDERS])


def test_a_run_without_what_it_wants_has_nothing_to_do() -> None:
    log = table([commit(1, notes={"lakehouse.read.silver.other_events": str(READ)})])
    for source, has_news in ((OTHERS, False), (ORDERS, True)):
        tables = {"silver.log": log, "silver.other_events": events(observed(source))}
        run = NodeRun(tables.get, "silver.log", ["silver.other_events"], wanted=[ORDERS])
        assert (run.has_news, run.has_news_of("silver.other_events")) == (has_news, has_news)
        assert run.is_incremental
        assert is_behind(run, "silver.other_events")


def test_a_log_opens_the_topics_that_hold_its_events() -> None:
    found = events(
        observed(ORDERS, topic="a"), observed(OTHERS, topic="b"), observed(ORDERS, topic="c")
    )
    assert source_filter.topics_with(found, None, [ORDERS]) == ["a", "c"]
    assert source_filter.topics_with(found, None, None) == ["a", "b", "c"]
    assert source_filter.topics_with(found, "3000", [ORDERS]) == ["c"]
    assert source_filter.topics_with(found, "4000", [OTHERS]) == []
    # Nothing is known of a commit that was cut off before it said so, nor of what has expired.
    cut = events(observed(ORDERS), more=(commit(4, 3, notes={LOOKED: "true"}),))
    assert source_filter.topics_with(cut, None, [ORDERS]) is None
    assert source_filter.topics_with(cut, "3000", [ORDERS]) is None
    assert source_filter.topics_with(found, "1", [ORDERS]) is None


def test_what_was_never_known_stays_unknown() -> None:
    cut = table(looked(2, 5))
    kept = source_filter.kept(cut, "5000", observed(ORDERS), is_first=False)
    found = table(looked(2, 6), properties={source_filter.PROPERTY: json.dumps(kept)})
    assert source_filter.topics_with(found, None, [ORDERS]) is None
    assert source_filter.topics_with(found, "4000", [ORDERS]) == ["t"]


def test_what_was_cut_off_stays_unknown_when_its_commit_has_expired() -> None:
    """Maintenance notes which was the last that has looked at payloads."""
    found = events(observed(ORDERS), more=(commit(4, 3, "replace"),))
    cut = (commit(4, 3, notes={LOOKED: "true"}), commit(5, 4, "replace"))
    for last, topics in ((found, ["t"]), (events(observed(ORDERS), more=cut), None)):
        number = last.sequence + 1
        tidied = commit(number, number - 1, rows=None, notes=carried(last))
        left = table([tidied], properties=last.properties)
        assert source_filter.topics_with(left, None, [ORDERS]) == topics
        # Nor do those that come after know of it.
        kept = source_filter.kept(left, f"{number + 1}000", observed(OTHERS), is_first=False)
        assert kept["is_whole"] is (topics is not None)


def test_so_many_tables_are_not_kept() -> None:
    many = [["shop", None, f"table_{number}"] for number in range(5001)]
    found = events(observed(ORDERS), observed(*many))
    assert source_filter.topics_with(found, None, [ORDERS]) is None
    assert source_filter.may_have(found, reading(READ, found), [["a", "b", "c"]])


def test_what_is_counted() -> None:
    assert set(source_filter.aggregates()) == {
        "pairs",
        "payloads",
        *source_filter.CONDITIONS,
        *source_filter.OPERATIONS,
    }


def test_a_commit_counts_the_payloads_that_it_has_looked_at() -> None:
    found = events(observed(ORDERS, payloads=2), observed(OTHERS, payloads=3))
    assert source_filter.payloads_of(found) == 3
    # Nothing is known of a commit that was cut off before it was noted, or of one of before.
    assert source_filter.payloads_of(events(observed(), more=(commit(4, 3),))) is None

    def doubt(new: int | None, of: Table = found) -> str | None:
        run = NodeRun(lambda _: None, "silver.other_events", [])
        run.payloads = new
        return doubt_of_payloads("silver.other_events", of, run)

    assert doubt(None) is doubt(3) is doubt(4, table()) is None
    assert "has looked at 3 payloads, and bronze has 4 new ones" in str(doubt(4))


def test_how_many_events_there_were() -> None:
    """Of each operation, in each commit that has looked at payloads and of which that is kept."""
    first, second = observed(ORDERS, insert=2, invalid=1), observed(OTHERS, delete=3)
    found = source_filter.decoded(events(first, observed(), second, more=(commit(6, 5),)))
    assert [
        (each.name, {*counts.items()} - {*dict.fromkeys(counts, 0).items()})
        for each, counts in found
    ] == [
        ("5000", {("delete", 3)}),
        ("3000", {("insert", 2), ("invalid", 1)}),
    ]
