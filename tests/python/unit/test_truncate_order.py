"""The places that truncates of a source table get in its change log."""

from dataclasses import replace

from dbt_lakehouse.build.truncate_order import Bounds, Truncate, placed
from dbt_lakehouse.build.truncate_sql import NEARBY

FIRST = Truncate(
    topic="t",
    partition=0,
    offset=7,
    event_index=0,
    source="s",
    said=("lsn", 10, 0),
    log_time=1_500,
    place=1_500,
    is_new=True,
)
SECOND = replace(FIRST, partition=1, said=("lsn", 20, 0), log_time=1_000, place=1_000)


def test_what_the_source_says_goes_before_kafkas_time() -> None:
    """Rows between them lie behind the first, so the second leaves room."""
    assert placed([SECOND, FIRST], {}) == [FIRST, replace(SECOND, place=1_502)]
    # A truncate that was written before keeps its place.
    known = replace(SECOND, is_new=False)
    assert placed([known, FIRST], {}) == [replace(FIRST, place=998), known]


def test_without_the_sources_word_kafkas_time_decides() -> None:
    for other in (
        replace(SECOND, said=None),
        # Another server, or the same place.
        replace(SECOND, said=("binlog", 20, 0)),
        replace(SECOND, said=FIRST.said),
    ):
        assert placed([FIRST, other], {}) == [other, FIRST]
    # Clocks of one source are not that far apart.
    long_ago = replace(SECOND, log_time=1_500 - NEARBY - 1, place=0)
    assert placed([FIRST, long_ago], {}) == [long_ago, FIRST]


def test_a_place_is_between_the_rows_around() -> None:
    bounds = {0: Bounds(own_before=1_600, others_before=1_700, written_after=1_650)}
    assert placed([FIRST], bounds) == [replace(FIRST, place=1_650)]
    # Rows of its own partition that are written stay before it.
    bounds = {0: Bounds(own_written=1_680, written_after=1_650)}
    assert placed([FIRST], bounds) == [replace(FIRST, place=1_680)]
