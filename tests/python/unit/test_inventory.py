"""What tables tell about themselves by what runs have noted with them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import test_declarations
from msgspec.structs import replace
from support.metadata import UUID, commit, table

from dbt_lakehouse.declared import declarations, fold_of_log, redeclared
from dbt_lakehouse.report.backlog import is_waiting
from dbt_lakehouse.runs.inventory import Kind, LakeTable
from dbt_lakehouse.runs.marks import Mark, noted
from dbt_lakehouse.runs.model_run import AS_OF, DECLARED

EVENTS = "silver.other_events"
LOG = "silver.orders_changes"
BRONZE = "bronze.raw_payloads"
DELETES = "dev_silver.set_less_deletes"
KEYS = "dev_silver.deleted_keys"


def log(**but: Any) -> dict[str, Any]:
    """The declaration of a log of a schema's table."""
    return test_declarations.log(**{"source_schema": "sales"} | but)


def built(name: str, of: Any, *upstreams: str, notes: Mapping[str, str] | None = None) -> LakeTable:
    """A table as a run leaves it that has read these upstreams."""
    found = {**noted(dict.fromkeys(upstreams, Mark(UUID, "1000", 1))), **(notes or {})}
    properties = {}
    if of is not None:
        text = redeclared.declared(of)
        found[DECLARED] = declarations.digest(text)
        properties[f"{DECLARED}.{found[DECLARED]}"] = text
    return LakeTable(name, table([commit(1, notes=found)], properties=properties))


@pytest.mark.parametrize(
    ("name", "of", "upstreams", "kind", "upstream", "wanted"),
    [
        (EVENTS, None, [BRONZE], Kind.EVENTS, BRONZE, None),
        ("silver.quarantined_payloads", None, [EVENTS], Kind.QUARANTINE, EVENTS, "invalid"),
        (DELETES, None, [EVENTS], Kind.DELETES, EVENTS, "set_less_deletes"),
        (KEYS, None, [DELETES], Kind.STATE, DELETES, None),
        # Its events' places are in other_events, its rows are from bronze.
        (LOG, log(), [EVENTS, BRONZE], Kind.LOG, BRONZE, [[None, "sales", "orders"]]),
        ("gold.orders", fold_of_log.fold(log()), [KEYS, DELETES, LOG], Kind.GOLD, LOG, None),
        (
            "gold.orders",
            fold_of_log.fold(log(key={}, keyless=True)),
            [LOG],
            Kind.KEYLESS,
            LOG,
            None,
        ),
        ("gold.mart", None, [LOG], Kind.OTHER, LOG, None),
        ("bronze.maintained", None, [], Kind.OTHER, None, None),
    ],
)
def test_a_table_tells_its_kind_and_its_upstream(
    name: str, of: Any, upstreams: list[str], kind: Kind, upstream: str | None, wanted: Any
) -> None:
    found = built(name, of, *upstreams)

    assert (found.kind, found.upstream, found.wanted) == (kind, upstream, wanted)


def test_a_history_is_known_by_its_columns() -> None:
    of = fold_of_log.fold(log(), is_history=True)
    found = built("gold.orders_history", of, LOG)
    columns = dict.fromkeys([*of.version_columns], "")
    found = LakeTable(found.name, replace(found.metadata, comments=columns))

    assert found.kind is Kind.HISTORY


def test_what_is_remembered_beside_a_log_makes_no_rows() -> None:
    found = built("dev.devices", fold_of_log.fold(log()), KEYS, LOG, DELETES)

    assert [*found.marks] == [KEYS, LOG, DELETES]
    assert [*found.made_of] == [LOG]


def test_the_declaration_is_the_one_that_the_newest_commit_notes() -> None:
    found, then = built(LOG, log()), built(LOG, log(source_schema="shop"))
    properties = then.metadata.properties | found.metadata.properties

    declared = LakeTable(LOG, replace(found.metadata, properties=properties)).declared
    assert declared["sources"] == log()["sources"]
    assert built("gold.mart", None).declared == {}


def test_the_moment_of_a_table_is_in_utc() -> None:
    noted_then = built("gold.sessions", None, notes={AS_OF: "2026-01-02 03:04:05.000006"})

    assert noted_then.as_of == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert built("gold.orders", None).as_of is None


def test_the_log_times_wait_for_nothing_that_was_on_time() -> None:
    """The report called them behind: they are written for late payloads only."""
    bronze = LakeTable(BRONZE, table([commit(1), commit(2)]))
    tables = {each: built(each, None, BRONZE) for each in (EVENTS, "silver.log_times")}

    assert is_waiting(EVENTS, {BRONZE: bronze, **tables}, {}) is True
    assert is_waiting("silver.log_times", {BRONZE: bronze, **tables}, {}) is None
