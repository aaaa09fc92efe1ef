"""The vars of dbt_project.yml that the lake knows, checked before anything runs: a value that
can't be meant would otherwise show only in the run in which it first matters.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final

from dbt.config.project import Project

from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.errors import ConfigurationError

_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.]\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)


def variables_of(project: Project, given: Mapping[str, Any]) -> dict[str, Any]:
    """The project's vars, those of its own scope and of ``--vars`` on top.

    Raises ``ConfigurationError`` for a value that can't be meant.
    """
    # Through Any: dbt's method has no annotations.
    scopes: Any = project.vars
    declared: dict[str, Any] = scopes.to_dict()
    return checked({**declared, **declared.get(project.project_name, {}), **given})


def checked(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The same vars; those that are not set stay so.

    Raises ``ConfigurationError`` for a value that can't be meant.
    """
    topic_rules(variables.get("topics"))
    for name, (is_valid, expected) in _EXPECTED.items():
        if name in variables and not is_valid(variables[name]):
            raise ConfigurationError(
                f"vars.{name} in dbt_project.yml is {variables[name]!r}, not {expected}"
            )
    return dict(variables)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_days(value: Any) -> bool:
    # More would lead to before the calendar of Spark and Python.
    return _is_number(value) and 0 <= value <= 100_000


def _is_part(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_moment(value: Any) -> bool:
    if value is None or isinstance(value, date):
        return True
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_captures(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(pattern, str) for pattern in value)
    )


_Check = tuple[Callable[[Any], bool], str]

_EXPECTED: Final[Mapping[str, _Check]] = {
    "captures": (_is_captures, "a list of globs"),
    "max_messages_per_run": (_is_positive_integer, "a whole number from 1"),
    "lock_timeout_seconds": (_is_positive_integer, "a whole number from 1"),
    "as_of": (
        _is_moment,
        "a date, or a time like 2026-11-21 10:00:00 (UTC, unless it ends in a zone)",
    ),
    "tombstone_retention_days": (_is_days, "a number from 0 to 100000"),
    "snapshot_retention_days": (_is_days, "a number from 0 to 100000"),
    # Who had it refuse late events would get their rows back without a word.
    "late_after_purge": (
        lambda _: False,
        "taken out, for it is gone: late events are folded with what the change log has of their"
        " keys, and a longer vars.tombstone_retention_days spares the question",
    ),
    "max_quarantine_rate": (_is_part, "a number from 0 to 1"),
}
