"""What `lakehouse stream --build` tells dbt to do, and when it ends with an error."""

from types import SimpleNamespace
from typing import Any

import pytest

from dbt_lakehouse.commands.cycles import (
    FAILURES,
    CycleOptions,
    ends_stream,
    paused,
    tolerated,
)
from dbt_lakehouse.errors import LockedError
from dbt_lakehouse.session.dbt_commands import DbtError, ProjectError


def test_pauses_grow_with_each_failure() -> None:
    assert [paused(5, failures) for failures in range(4)] == [5, 10, 20, 40]
    assert paused(5, 9) == 300
    assert paused(600, 0) == paused(600, 3) == 600
    assert paused(5, 10_000) == 300


def test_the_first_failure_ends_it_and_the_tenth_in_turn() -> None:
    error = LockedError("another builds")
    assert FAILURES == 10
    assert ends_stream(error, 1, cycles=0)
    assert not any(ends_stream(error, failures, cycles=1) for failures in range(1, 10))
    assert ends_stream(error, 10, cycles=1)


def test_a_project_that_is_being_edited_is_waited_for() -> None:
    error = ProjectError("no such macro")
    assert not ends_stream(error, 1_000, cycles=1)
    assert ends_stream(error, 1, cycles=0)


def test_the_command_of_a_cycle() -> None:
    options = CycleOptions(5, select=("gold", "tag:live"), exclude=("orders",))
    chosen = ("--select", "gold", "--select", "tag:live", "--exclude", "orders")
    assert options.command(None) == ("run", "--no-write-json", *chosen)
    some = ("--select", "fqn:a.b", "fqn:a.c", "--exclude", "orders")
    assert options.command({"a.c", "a.b"}) == ("run", "--no-write-json", *some)
    tested = options._replace(with_tests=True).command({"a.b"})
    assert tested == (
        *("build", "--resource-type", "model", "--resource-type", "test", "--no-write-json"),
        *("--select", "fqn:a.b", "--exclude", "orders"),
    )


def result(name: str, status: str, kind: str = "test") -> Any:
    node = SimpleNamespace(name=name, resource_type=kind)
    return SimpleNamespace(node=node, status=status, message=f"{name} went wrong")


def failed(*results: Any) -> DbtError:
    return DbtError("dbt ended with 1", SimpleNamespace(results=[*results]))


def test_a_test_that_fails_is_told_and_ends_no_cycle() -> None:
    """What is below it is skipped."""
    done = [
        result("orders_changes", "success", "model"),
        result("is_known", "fail"),
        result("orders", "skipped", "model"),
    ]
    results, trouble = tolerated(failed(*done))
    assert [*results] == done
    assert trouble == "1 test failed: is_known"


@pytest.mark.parametrize("kind", ["model", "test"])
def test_whatever_could_not_run_ends_the_cycle(kind: str) -> None:
    with pytest.raises(DbtError, match="is_known went wrong; orders: orders went wrong"):
        tolerated(failed(result("is_known", "fail"), result("orders", "error", kind)))
    nothing = failed()
    with pytest.raises(DbtError) as raised:
        tolerated(nothing)
    assert raised.value is nothing
