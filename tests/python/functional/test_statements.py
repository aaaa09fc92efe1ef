"""What an increment asks of Spark, counted: it grows with the tables that have news, and with
nothing else.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.benchmarks import statements
from tools.benchmarks.increments import OrderLake, write_orders_project


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[OrderLake]:
    """A lake of two tables, set up as for production."""
    before = {name: os.environ.get(name) for name in ("LAKEHOUSE_LAKE", "LAKEHOUSE_SMALL")}
    lake = OrderLake(tmp_path / "lake", write_orders_project(tmp_path / "project", 2), tables=2)
    lake.land_inserts(600)
    lake.run()
    yield lake
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def asked(lake: OrderLake) -> statements.Asked:
    """What the second of two increments asks: the first of a session does what none does later."""
    for _ in range(2):
        lake.land_inserts(300 * lake.tables)
        asked = statements.asked_by(lake.spark, lake.run)
    return asked


def test_an_increment_asks_little_of_spark(lake: OrderLake) -> None:
    two = asked(lake)
    # The other table has no news.
    of_one = OrderLake(lake.folder, lake.project, 1, lake.events)
    one = asked(of_one)
    nothing = statements.asked_by(of_one.spark, of_one.run)
    assert one.executions <= statements.EXECUTIONS
    assert one.jobs <= statements.JOBS
    assert 0 < two.executions - one.executions <= statements.FURTHER_EXECUTIONS
    assert 0 < two.jobs - one.jobs <= statements.FURTHER_JOBS
    assert nothing.executions <= one.executions / 2
