"""Which commits of change_events a change log need not look at."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from metadata import UUID, commit, is_behind, row, table

from dbt_lakehouse.dbt import news
from dbt_lakehouse.dbt.marks import Mark, reading
from dbt_lakehouse.dbt.news import Wanted
from dbt_lakehouse.dbt.node_run import NodeRun
from dbt_lakehouse.lake.tables import Table

ORDERS = ["shop", "sales", "orders"]
OTHERS = ["shop", None, "customers"]
READ = Mark(UUID, "2000", 2)


def observed(*sources: Sequence[str | None], **counts: int) -> dict[str, Any]:
    """What Spark has counted of new events of these tables: words of 64 bits with a sign."""
    bits = 0
    for source in sources:
        bits |= news._bit(source)
    words = [(bits >> place) % (1 << 64) for place in range(0, 512, 64)]
    signed = [word - (1 << 64) if word >> 63 else word for word in words]
    return {f"word_{number}": word or None for number, word in enumerate(signed)} | counts


def events(*commits: dict[str, Any], more: tuple[dict[str, Any], ...] = ()) -> Table:
    """change_events with commits behind the second one, and what is kept of them."""
    kept: list[dict[str, Any]] = []
    for number, each in enumerate(commits, 3):
        before = table(properties={news.PROPERTY: json.dumps(kept)})
        kept = news.kept(before, f"{number * 1000}", each)
    snapshots = [commit(number, number - 1) for number in range(3, 3 + len(commits))]
    return table([*row(1, 2), *snapshots, *more], properties={news.PROPERTY: json.dumps(kept)})


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
    assert news.may_have(upstream, reading(READ, upstream), wanted) is expected


def test_all_is_wanted_by_who_has_read_nothing() -> None:
    upstream = events(observed(OTHERS))
    assert news.may_have(upstream, reading(None, upstream), [ORDERS])


def test_the_newest_commits_are_kept() -> None:
    found = events(*[observed(OTHERS)] * 150)
    kept = json.loads(found.properties[news.PROPERTY])
    assert [each["snapshot"] for each in kept] == [f"{at}000" for at in range(152, 52, -1)]
    assert news.may_have(found, reading(READ, found), [ORDERS])
    assert not news.may_have(found, reading(Mark(UUID, "60000", 60), found), [ORDERS])


def test_a_run_without_what_it_wants_has_nothing_to_do() -> None:
    log = table([commit(1, notes={"lakehouse.read.silver.change_events": str(READ)})])
    for source, has_news in ((OTHERS, False), (ORDERS, True)):
        tables = {"silver.log": log, "silver.change_events": events(observed(source))}
        run = NodeRun(tables.get, "silver.log", ["silver.change_events"], wanted=[ORDERS])
        assert (run.has_news, run.has_news_of("silver.change_events")) == (has_news, has_news)
        assert run.is_incremental
        assert is_behind(run, "silver.change_events")


def test_what_is_counted() -> None:
    found = news.aggregates()
    assert set(found) == {*(f"word_{number}" for number in range(8)), *news.COUNTS}
    assert "div 64 = 7" in found["word_7"]
