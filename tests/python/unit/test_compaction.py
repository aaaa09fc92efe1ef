"""Which tombstones of compacted topics a run judges, by what has come since the last did."""

from support.metadata import commit, row, table

from dbt_lakehouse.build.compaction import (
    PROPERTY,
    Judged,
    TopicNews,
    Window,
    judged,
    judging,
    unjudged,
)
from dbt_lakehouse.lake.policies import is_compacting
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.marks import MADE, Reading, mark_of
from dbt_lakehouse.runs.marks import Window as Read

BRONZE = table(row(1))
COMPACTED = {"a": True, "b": True, "kept": False}


def kept_by(*numbers: int, **properties: str) -> dict[str, str]:
    """The properties of a table that was judged when it had these commits."""
    found = judging(Judged(), [TopicNews("a", 5), TopicNews("kept", 1)], COMPACTED.__getitem__)
    read = table(row(*numbers), properties=properties)
    return {PROPERTY: found.kept(mark_of(BRONZE), read), **properties}


def test_at_first_all_of_a_compacted_topic_is_judged() -> None:
    found = judging(Judged(), [TopicNews("a", 5), TopicNews("kept", 1)], COMPACTED.__getitem__)
    assert found.windows == [Window("a", None)]
    assert found.topics == {"a": True, "kept": False}
    assert found.condition() == "(topic = 'a')"


def test_then_what_may_lie_behind_what_is_new() -> None:
    before = judged(table(row(1, 2), properties=kept_by(1, 2)))
    found = judging(before, [TopicNews("a", 7), TopicNews("b", 1)], COMPACTED.__getitem__)
    assert found.windows == [Window("a", 7), Window("b", None)]
    assert "topic = 'a' and log_time >= timestamp_micros(7)" in found.condition()
    # One without a log time comes before all others.
    (window,) = judging(before, [TopicNews("a", None)], COMPACTED.__getitem__).windows
    assert window == Window("a", None)


def test_a_topic_that_is_compacted_since_is_judged_from_its_beginning() -> None:
    before = judged(table(row(1), properties=kept_by(1)))
    everything = judging(before, [], lambda topic: True)
    assert everything.windows == [Window("kept", None)]
    # And one of which it is denied no longer.
    assert judging(before, [TopicNews("a", 9)], lambda topic: False).windows == []


def test_rows_are_new_since_the_table_was_judged() -> None:
    properties = kept_by(1, 2)

    def new(read: Table) -> Reading:
        return unjudged(judged(read).own, read)

    assert new(table(row(1, 2), properties=properties)).window is Read.NOTHING
    later = new(table(row(1, 2, 3), properties=properties))
    assert (later.window, later.since and later.since.sequence) == (Read.SINCE_SNAPSHOT, 2)
    # Before the first run, of a table that was made anew, or rolled back: all of it.
    assert new(table(row(1))).window is Read.WHOLE
    assert new(table(row(1, 2), properties={**properties, MADE: "new"})).window is Read.WHOLE
    back = table([*row(1, 2), commit(3, 1)], properties=properties)
    assert new(back).window is Read.WHOLE


def test_of_a_table_without_what_was_judged_nothing_is_judged() -> None:
    """One that was made anew, or rolled back: bronze is judged from its beginning."""
    properties = kept_by(1, 2)
    assert judged(table(row(1, 2, 3), properties=properties)).topics
    anew = table(row(1, 2), properties={**properties, MADE: "new"})
    back = table([*row(1, 2), commit(3, 1)], properties=properties)
    for now in (anew, back):
        assert judged(now) == Judged()
        assert unjudged(judged(now).bronze, BRONZE).window is Read.WHOLE


def test_payloads_are_new_since_bronze_was_judged() -> None:
    before = judged(table(row(1, 2), properties=kept_by(1, 2)))
    assert unjudged(before.bronze, BRONZE).window is Read.NOTHING
    assert unjudged(before.bronze, table(row(1, 2))).window is Read.SINCE_SNAPSHOT


def test_which_policies_compact() -> None:
    assert [each for each in ("compact", "compact,delete", "delete") if is_compacting(each)] == [
        "compact",
        "compact,delete",
    ]
