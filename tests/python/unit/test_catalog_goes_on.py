"""A process looks for commits that its catalog doesn't know once, and again if it goes back."""

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import Entry
from dbt_lakehouse.lake.wholeness import committed, note_committed, refuse_older


class Orders:
    """A table in a warehouse folder, with the commits that the test makes."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self._folder = warehouse / "gold" / "orders" / "metadata"
        self._folder.mkdir(parents=True)

    def commit(self, number: int) -> Entry:
        """The table in a catalog behind this commit."""
        file = self._folder / f"{number:05}-{uuid4()}.metadata.json"
        file.write_text(json.dumps({"table-uuid": "orders", "last-updated-ms": number}))
        return Entry("gold", "orders", f"file://{file}", is_view=False)

    def check(self, entry: Entry) -> None:
        """What opening the lake checks."""
        refuse_older("catalog.db", {}, [entry])

    def note(self, entry: Entry) -> list[str]:
        """What the end of a command notes, and what is noted then."""
        place = str(self.warehouse)
        note_committed(place, committed(place), {}, [entry])
        return sorted(Path(each).name[:5] for each in committed(place))


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "warehouse")


def test_nothing_is_listed_while_the_catalog_goes_on(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.check(orders.commit(1))
    listed = []

    def listing(folder: Path) -> Any:
        listed.append(folder)
        return scandir(folder)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", listing)
    for number in range(2, 5):
        entry = orders.commit(number)
        orders.check(entry)
        assert orders.note(entry) == [f"{number:05}"]
    assert listed == []


def test_a_catalog_that_went_back_is_refused(orders: Orders) -> None:
    first, second = orders.commit(1), orders.commit(2)
    orders.check(second)
    assert orders.note(second) == ["00002"]
    third, fourth = orders.commit(3), orders.commit(4)
    for older, newest in ((first, "00004"), (second, "00004")):
        with pytest.raises(ConfigurationError, match=f"older than the files.*{newest}"):
            orders.check(older)
        assert orders.note(older) == ["00002"]
    # The process that has written them.
    orders.check(fourth)
    assert orders.note(fourth) == ["00004"]
    # A killed commit may have left one that nothing notes, and this one is noted.
    with pytest.raises(ConfigurationError, match="older than the files"):
        refuse_older("catalog.db", {}, [third], committed(str(orders.warehouse)))


def test_commits_of_another_process_are_found_behind_the_same_state(orders: Orders) -> None:
    first = orders.commit(1)
    orders.check(first)
    orders.check(first)
    orders.commit(2)
    orders.commit(3)
    # A clock with coarse ticks may give the folder the time that it had.
    os.utime(orders.warehouse / "gold" / "orders" / "metadata", (1, 1))
    with pytest.raises(ConfigurationError, match="00003"):
        orders.check(first)
