"""What a table's commits say of it, and which of it has to be said again before they expire; by the
metadata alone, without Spark.
"""

import json
from typing import Any, Final

import pytest

from dbt_lakehouse.dbt.marks import HistoryLost, Mark, Window, marks_of, reading
from dbt_lakehouse.dbt.node_run import LEAVES, carried, kept, kept_anew
from dbt_lakehouse.lake.tables import Snapshot, Table

READ: Final = "lakehouse.read.silver."
APPEND: Final = {"operation": "append", "added-records": "1"}
NOTE: Final = {"operation": "append"}
REWRITE: Final = {"operation": "replace"}


def table(*summaries: dict[str, str], first: int = 1, **properties: Any) -> Table:
    """A table with these commits, the oldest first; their ids are their sequence numbers."""
    chain = [
        Snapshot(number, number, number - 1 or None, summary)
        for number, summary in enumerate(summaries, first)
    ]
    texts = {name: json.dumps(value) for name, value in properties.items()}
    return Table("uuid", texts, {}, frozenset(), tuple(reversed(chain)), frozenset())


def test_what_earlier_commits_say_is_said_again() -> None:
    """Of what was read only the newest: a table that no longer reads another says so by leaving
    that out.
    """
    earlier = {f"{READ}a": "u|1|1", f"{READ}gone": "u|1|1", "lakehouse.newest": "1|1"}
    later = {f"{READ}a": "u|2|2", "lakehouse.as_of": "now"}
    held = table({**APPEND, **earlier}, {**APPEND, **later}, REWRITE)
    again = {**later, "lakehouse.newest": "1|1"}
    assert carried(held) == again
    assert marks_of(held) == {"silver.a": Mark("u", "2", 2)}
    # Once is enough.
    assert carried(table({**NOTE, **again})) == {}
    assert carried(table(APPEND)) == carried(table()) == {}


def test_what_is_kept_of_a_snapshot_moves_on_with_it() -> None:
    properties = {LEAVES: {"snapshot": "1", "value": False}}
    held = table(APPEND, REWRITE, NOTE, **properties)
    assert kept(held, LEAVES) is False
    anew = kept_anew(held)
    assert json.loads(anew[LEAVES]) == {"snapshot": "3", "value": False}
    expired = table(NOTE, first=3, **{LEAVES: json.loads(anew[LEAVES])})
    assert kept(expired, LEAVES) is False and kept_anew(expired) == {}
    # It says nothing of a table that has got rows since.
    assert kept_anew(table(APPEND, APPEND, **properties)) == {}


@pytest.mark.parametrize(
    ("mark", "window"),
    [
        (None, Window.WHOLE),
        (Mark("uuid", "3", 3), Window.NOTHING),
        # What was rewritten or noted since is nothing new.
        (Mark("uuid", "2", 2), Window.NOTHING),
        (Mark("uuid", "1", 1), Window.SINCE_SNAPSHOT),
        (Mark("uuid", "none", 0), Window.WHOLE),
    ],
)
def test_what_is_new_since_a_mark(mark: Mark | None, window: Window) -> None:
    assert reading(mark, table(APPEND, APPEND, REWRITE)).window is window


def test_a_mark_whose_snapshot_has_expired_goes_by_the_rows_numbers() -> None:
    assert reading(Mark("uuid", "1", 1), table(REWRITE, first=5)).window is Window.SINCE_SEQUENCE


@pytest.mark.parametrize(
    ("mark", "lost"),
    [
        (Mark("another", "1", 1), "made anew"),
        (Mark("uuid", "9", 9), "rolled back"),
    ],
)
def test_a_table_that_is_no_longer_what_was_read(mark: Mark, lost: str) -> None:
    with pytest.raises(HistoryLost, match=lost):
        reading(mark, table(APPEND, first=5))
    with pytest.raises(HistoryLost, match="replaced"):
        reading(Mark("uuid", "7", 7), table(APPEND))
