"""The vars of dbt_project.yml: what can't be meant stops each command before it does anything."""

from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import yaml
from dbt_common.exceptions import DbtRuntimeError
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aerospike_encoder import pack
from support.lakes import Lake
from support.small_messages import profile
from support.streams import PROFILES, START, Message

from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.config.variables import checked, require_topics, unknown, variables_of
from dbt_lakehouse.errors import ConfigurationError

AS_OF = "2026-12-31T10:00:00Z"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("captures", "seeds/*.jsonl"),
        ("captures", [1]),
        ("max_messages_per_run", 0),
        ("max_messages_per_run", 1.5),
        ("max_messages_per_run", None),
        ("lock_timeout_seconds", True),
        ("lock_timeout_seconds", "600"),
        ("as_of", "tomorrow"),
        ("as_of", "2027-01-01 10"),
        ("as_of", "1798761600"),
        ("as_of", 1798761600),
        ("as_of", "2026-02-30"),
        ("as_of", "2026-01-01 10:00:00+25:00"),
        ("tombstone_retention_days", -1),
        ("tombstone_retention_days", None),
        ("tombstone_retention_days", float("nan")),
        ("snapshot_retention_days", "a week"),
        ("snapshot_retention_days", 100_001),
        ("max_quarantine_rate", "5 %"),
        ("max_quarantine_rate", 5),
    ],
)
def test_a_value_that_can_not_be_meant(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked({name: value})
    assert str(caught.value).startswith(f"vars.{name} is {value!r}, not ")


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("orders", "is 'orders', not a list"),
        ({"topic": "orders", "format": "debezium_json"}, "not a list"),
        (["orders"], "'orders' is not a mapping"),
        ([None], "None is not a mapping"),
        ([{"topic": 7, "format": "debezium_json"}], "topic is text"),
        ([{"pattern": ["a"], "format": "debezium_json"}], "pattern is text"),
        *(
            ([{"topic": "orders", "when": when, "format": "debezium_json"}], "when is {first_byte")
            for when in (
                *(None, {}, "0", {"first_byte": 256}, {"first_byte": -1}, {"first_byte": "0"}),
                *({"first_byte": True}, {"header": "a"}, {"is": "a"}, {"header": "", "is": "a"}),
                *({"header": "a", "is": 1}, {"first_byte": 0, "header": "a", "is": "b"}),
            )
        ),
        *(
            (
                [
                    {"topic": "orders", "when": {"first_byte": 0}, "format": "debezium_avro"},
                    {"topic": "orders", "format": "debezium_json", **more},
                ],
                "differ in compacted, kafka or land_as",
            )
            for more in ({"kafka": False}, {"land_as": "new"}, {"compacted": False})
        ),
        *(
            ([{"topic": "orders", "format": "debezium_json", name: value}], f"{name} is true or")
            for name in ("kafka", "compacted")
            for value in ("yes", 1, None)
        ),
    ],
)
def test_topics_that_can_not_be_meant(topics: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=r"vars\.topics") as caught:
        checked({"topics": topics})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        yaml.safe_load((ROOT / "dbt_project.yml").read_text())["vars"],
        {"as_of": date(2026, 11, 21)},
        {"as_of": datetime(2026, 11, 21, 10, 30)},
        {"as_of": "2026-11-21T10:30:00.5+02:00", "captures": None},
        {"tombstone_retention_days": 0, "snapshot_retention_days": 0.5},
        {"max_quarantine_rate": 0},
        {"max_quarantine_rate": 1, "of_another_package": "any"},
    ],
)
def test_values_that_can_be_meant_are_left_as_they_are(variables: dict[str, Any]) -> None:
    assert checked(variables) == variables


def test_a_variable_that_is_gone_is_not_ignored() -> None:
    """Who had it refuse late events would get their rows back without a word."""
    with pytest.raises(ConfigurationError, match=r"vars\.late_after_purge"):
        checked({"late_after_purge": "refuse"})
    assert "late_after_purge" not in (ROOT / "dbt_project.yml").read_text()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with one payload that no run has taken yet."""
    lake = Lake(tmp_path_factory.mktemp("variables"))
    lake.land([Message(PROFILES, 0, 0, START, None, pack(profile(1, START, "any"))).line()])
    return lake


@pytest.mark.parametrize("command", ["run", "test", "compile", "show"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_quarantine_rate", "5 %"),
        ("snapshot_retention_days", -1),
        ("as_of", "tomorrow"),
        ("topics", [{"pattern": "bad[", "format": "debezium_json"}]),
    ],
)
def test_dbt_stops_before_it_does_anything(lake: Lake, command: str, name: str, value: Any) -> None:
    variables = {"as_of": AS_OF, name: value}
    with pytest.raises(DbtRuntimeError, match=f"vars.{name} "):
        lake.dbt(command, "-s", "other_events", **variables)
    assert "silver.other_events" not in lake.tables()


def test_a_name_that_nobody_knows_is_told(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.sql").write_text("select {{ var( 'mine', 1) }}")
    variables = {
        "max_quarantine": 0.1,
        "anything": True,
        "mine": 2,
        "topics": [],
        "as_of": None,
        # Of a package.
        "other": {"max_quarantine": 1},
    }
    assert unknown(variables, [tmp_path / "models", tmp_path / "nowhere"]) == [
        "vars.anything: no setting has this name, and no model uses it",
        "vars.max_quarantine: no setting has this name, and no model uses it (did you mean"
        " max_quarantine_rate?)",
    ]
    declared = yaml.safe_load((ROOT / "dbt_project.yml").read_text())["vars"]
    assert unknown(declared, []) == []


def test_it_is_told_when_the_project_is_read(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    lake.load(tombstone_retention=3)
    assert "(did you mean tombstone_retention_days?)" in capfd.readouterr().err
    lake.dbt("parse", as_of=AS_OF, tombstone_retention=3)
    assert "(did you mean tombstone_retention_days?)" in lake.log_text()


ANY_VALUE: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["topic", "pattern", "format", "kafka", "land_as", "when", "header", "is"]
            )
            | st.text(max_size=3)
            | st.integers(),
            each,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    name=st.sampled_from(["topics", "captures", "max_quarantine_rate", "as_of", "my_own"]),
    value=ANY_VALUE | st.lists(ANY_VALUE, max_size=3),
)
def test_whatever_a_var_is_it_is_taken_or_refused_in_a_sentence(name: str, value: Any) -> None:
    with suppress(ConfigurationError):
        checked({name: value})
    unknown({name: value, 1: value}, [])  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({}, "vars.topics is missing in dbt_project.yml: a list that says"),
        ({"topcs": []}, "missing in dbt_project.yml (did you mean it by vars.topcs?): a list"),
        ({"Topics": [], 1: 2}, "(did you mean it by vars.Topics?)"),
        ({"topics": None}, "vars.topics is missing"),
        ({"shop": {"topics": None}}, "vars.topics is missing"),
        ({"shop": None}, "vars.shop is None, not the names and values"),
        ({"shop": "topics"}, "vars.shop is 'topics', not the names and values"),
        ({"topics": "orders"}, "vars.topics is 'orders', not a list"),
        (
            {"topics": [{"topic": "a", "format": ["debezium_json"]}]},
            "is not a format (did you mean debezium_json?); formats are aerospike_messagepack, ",
        ),
    ],
)
def test_a_project_without_its_topics(declared: dict[Any, Any], sentence: str) -> None:
    project: Any = SimpleNamespace(
        project_name="shop",
        project_root=".",
        vars=SimpleNamespace(to_dict=lambda: declared),
        all_source_paths=[],
        packages_install_path="none",
    )
    with pytest.raises(ConfigurationError) as raised:
        require_topics(variables_of(project, {}))
    assert sentence in str(raised.value) and "\n" not in str(raised.value)
