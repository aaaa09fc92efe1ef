"""What maintenance decides, by the figures of tables."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from support.metadata import metadata, row

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.tables import parse
from dbt_lakehouse.maintenance.policy import (
    Figures,
    Maintained,
    Policy,
    candidates,
    cannot_wait,
    is_worth_merging,
    oldest_kept,
)


def node(name: str, materialized: str = "current_state", **maintenance: Any) -> Any:
    config = SimpleNamespace(
        materialized=materialized, meta={"maintenance": maintenance} if maintenance else {}
    )
    return SimpleNamespace(
        resource_type="model", name=name, alias=f"{name}_as", schema="gold", config=config
    )


def manifest(*nodes: Any, sources: tuple[Any, ...] = ()) -> Any:
    return SimpleNamespace(
        nodes={each.name: each for each in nodes}, sources={each.name: each for each in sources}
    )


def source(name: str, of: str) -> Any:
    return SimpleNamespace(
        source_name=of,
        name=name,
        identifier=name,
        schema="bronze",
        config=SimpleNamespace(meta={}),
    )


def test_tables_with_a_history_are_maintained() -> None:
    found = candidates(
        manifest(
            node("orders"),
            node("orders_log", "change_log"),
            node("report", "table"),
            node("rows", "incremental"),
            node("left_out", enabled=False),
            sources=(source("raw_payloads", "bronze"), source("prices", "shop")),
        ),
        [],
        3,
    )
    assert [f"{each.schema}.{each.name}" for each in found] == [
        "bronze.raw_payloads",
        "gold.orders_as",
        "gold.orders_log_as",
        "gold.rows_as",
    ]
    assert {each.policy for each in found} == {Policy(snapshot_retention_days=3)}


def test_some_are_chosen_by_their_names() -> None:
    of = manifest(node("orders"), node("rows"), node("others"))
    found = candidates(of, ["gold.rows_as", "orders_as"], 7)
    assert [each.name for each in found] == ["orders_as", "rows_as"]
    with pytest.raises(ConfigurationError, match=r"orders: no table .* such are gold.orders_as"):
        candidates(of, ["orders"], 7)


def test_a_model_has_a_policy_of_its_own() -> None:
    of = manifest(node("orders", snapshot_retention_days=0.5, min_files=2), node("rows"))
    assert [each.policy for each in candidates(of, [], 7)] == [
        Policy(snapshot_retention_days=0.5, min_files=2),
        Policy(),
    ]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"min_file": 5}, "unknown field `min_file`; it may have enabled, target_file_mb"),
        ({"min_files": 1}, "Expected `int` >= 2 - at `\\$.min_files`"),
        ({"orphan_retention_hours": 1}, ">= 25"),
        ({"enabled": "no"}, "Expected `bool`"),
        ({"snapshot_retention_days": -1}, ">= 0"),
        ({"max_snapshots": 0}, ">= 1"),
    ],
)
def test_a_policy_that_can_not_be_meant_is_refused(declared: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=r"meta\.maintenance of orders: .*" + message):
        candidates(manifest(node("orders", **declared)), [], 7)


def test_a_policy_is_a_mapping() -> None:
    of = node("orders")
    of.config.meta = {"maintenance": "daily"}
    with pytest.raises(ConfigurationError, match=r"meta\.maintenance of orders"):
        candidates(manifest(of), [], 7)


@pytest.mark.parametrize(
    ("manifests", "megabytes", "worth"),
    [(8, 0, False), (9, 0, True), (20, 80, False), (23, 80, True), (11, 80, False)],
)
def test_manifests_are_merged_when_they_become_few(
    manifests: int, megabytes: int, worth: bool
) -> None:
    of = Figures(0, 0, manifests, megabytes << 20)
    assert is_worth_merging(of) is worth


def test_snapshots_that_have_to_stay_are_no_reason_to_maintain() -> None:
    """A stream of many tables has thousands within an hour, and looked for old ones each time."""
    stream = parse(metadata(row(*range(1, 1_252))))
    first = stream.chain[-1].made_at
    hour = first + timedelta(hours=1)
    assert not cannot_wait(stream, Policy(), hour)
    assert cannot_wait(stream, Policy(), hour + timedelta(milliseconds=1))
    fewer = parse(metadata(row(*range(1, 1_251))))
    assert not cannot_wait(fewer, Policy(), hour + timedelta(days=1))


def test_a_stream_keeps_as_many_snapshots_as_its_commits_can_list() -> None:
    """Its lists had the snapshots of seven days: 60,000 of a cycle in 10 s."""
    stream = parse(metadata(row(*range(1, 3_001))))
    first, last = stream.chain[-1].made_at, stream.chain[0].made_at
    later = last + timedelta(hours=2)

    assert oldest_kept(stream, Policy(), later) == stream.chain[999].made_at
    assert oldest_kept(stream, Policy(max_snapshots=1), later) == last
    # Those of the last hour stay.
    now = first + timedelta(hours=1, milliseconds=500)
    assert oldest_kept(stream, Policy(), now) == first + timedelta(milliseconds=500)
    # What is too old goes, however few there are, and what is not stays up to the number.
    week = later - timedelta(days=7)
    assert oldest_kept(stream, Policy(max_snapshots=3_000), later) == week
    assert oldest_kept(stream, Policy(snapshot_retention_days=0), later) == later
    assert oldest_kept(parse(metadata()), Policy(), datetime(2026, 1, 8, tzinfo=UTC)) == datetime(
        2026, 1, 1, tzinfo=UTC
    )


def test_a_line_says_what_was_done() -> None:
    done = Maintained(
        table_name="gold.orders",
        data_files_before=12,
        data_files_after=1,
        rewritten_files=12,
        merged_manifests=9,
        expired_snapshots=1,
        deleted_files=14,
        orphan_files=1,
    )
    assert done.text() == (
        "gold.orders: 12 of 12 data files rewritten, 1 now, 9 manifests merged, 1 snapshot expired"
        " with 14 files, 1 file of no snapshot deleted"
    )
    todo = Maintained(
        table_name="gold.orders",
        data_files_before=12,
        data_files_after=None,
        rewritten_files=6,
        expired_snapshots=40,
    )
    assert todo.text() == "gold.orders: 6 of 12 data files to rewrite, 40 snapshots to expire"
    idle = Maintained(table_name="gold.orders", data_files_before=1, data_files_after=1)
    assert idle.text() == "gold.orders: nothing to do"


def test_what_a_project_says_leaves_what_the_package_says_of_its_own_tables() -> None:
    of = node("states", min_files=7)
    of.config.meta["own_maintenance"] = {"sort_by": ["key"], "min_files": 3}
    (found,) = candidates(manifest(of), [], 3)
    assert (found.policy.min_files, found.policy.sort_by) == (7, ("key",))


@pytest.mark.parametrize(
    ("key", "namespace", "order"),
    [
        (["tenant", "id"], None, ("is_current", "tenant", "id")),
        ([], "shop", ("is_current", "_digest")),
    ],
)
def test_a_history_keeps_its_open_versions_together(
    key: list[str], namespace: str | None, order: tuple[str, ...]
) -> None:
    log, history, gold = node("log", "change_log"), node("past", "history"), node("now")
    log.config.meta["change_log"] = {"key": key, "namespace": namespace}
    for each in (history, gold):
        each.depends_on = SimpleNamespace(nodes=["deletes", "log"])
    found = candidates(manifest(node("deletes", "append_only"), log, history, gold), [], 7)
    assert {each.model: each.order for each in found} == {
        "deletes": (),
        "log": (),
        "past": order,
        "now": (),
    }
