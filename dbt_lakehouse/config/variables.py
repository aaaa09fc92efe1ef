"""The vars of dbt_project.yml that the lake knows, checked before anything runs: an invalid value
would otherwise only show in the run that first needs it.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from dbt.config.project import Project

from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.telling import tell
from dbt_lakehouse.texts import did_you_mean

_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.]\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
# dbt's files that can refer to a var, and the form of a reference.
_WITH_VARS: Final = frozenset({".sql", ".yml", ".yaml", ".py"})
_ASKED: Final = re.compile(r"""\bvar\(\s*["']([^"']+)["']""")


def variables_of(project: Project, given: Mapping[str, Any]) -> dict[str, Any]:
    """The project's vars: those of its own scope, overridden by ``--vars``. Warns of unknown
    names.

    Raises ``ConfigurationError`` for an invalid value.
    """
    # Through Any: dbt's method has no annotations.
    scopes: Any = project.vars
    declared: dict[str, Any] = scopes.to_dict()
    own = declared.get(project.project_name, {})
    if not isinstance(own, Mapping):
        raise ConfigurationError(
            f"vars.{project.project_name} is {own!r}, not the names and values of this project's"
            " vars"
        )
    variables = checked({**declared, **own, **given})
    folders = [*project.all_source_paths, project.packages_install_path]
    for sentence in unknown(variables, [Path(project.project_root, each) for each in folders]):
        tell(sentence)
    return variables


def refuse_unreadable(text: str | None) -> None:
    """Raise ``ConfigurationError`` for ``--vars`` that are not a mapping, for which dbt itself
    would print several lines.
    """
    try:
        given = {} if text is None else yaml.safe_load(text)
    except yaml.YAMLError:
        given = None
    if not isinstance(given, dict):
        raise ConfigurationError(f"--vars {text!r} is not YAML or JSON of names and values")


def require_topics(variables: Mapping[str, Any]) -> None:
    """Raise ``ConfigurationError`` if vars.topics is missing. `lakehouse generate` can write it,
    and all decoding needs it.
    """
    if variables.get("topics") is None:
        given = [str(name) for name in variables if name not in _SETTINGS]
        near = difflib.get_close_matches("topics", given, 1)
        question = f" (did you mean it by vars.{near[0]}?)" if near else ""
        raise ConfigurationError(
            f"vars.topics is missing in dbt_project.yml{question}: a list that says of each topic"
            " which format it has, like [{topic: name, format: debezium_json}], which"
            " `lakehouse generate --topic name` writes; [] for no topics"
        )


def unknown(variables: Mapping[str, Any], folders: Iterable[Path]) -> list[str]:
    """A sentence for each name that is neither a setting of the lake nor used by a model or macro
    in these folders: a misspelt name has no effect. A mapping is another package's scope.
    """
    names = {str(name) for name, value in variables.items() if not isinstance(value, Mapping)}
    names -= _SETTINGS
    if not names:
        return []
    files = (each for folder in folders for each in folder.rglob("*") if each.suffix in _WITH_VARS)
    asked = {name for each in files for name in _ASKED.findall(each.read_text(errors="replace"))}
    sentences = []
    for name in sorted(names - asked):
        sentences.append(
            f"vars.{name}: no setting has this name, and no model uses it"
            f"{did_you_mean(name, _SETTINGS)}"
        )
    return sentences


def checked(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The same vars; missing ones stay missing.

    Raises ``ConfigurationError`` for an invalid value.
    """
    topic_rules(variables.get("topics"))
    for name, (is_valid, expected) in _EXPECTED.items():
        if name in variables and not is_valid(variables[name]):
            raise ConfigurationError(f"vars.{name} is {variables[name]!r}, not {expected}")
    return dict(variables)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_days(value: Any) -> bool:
    # More days would go back beyond the calendar of Spark and Python.
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


def _is_texts(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )


_Check = tuple[Callable[[Any], bool], str]

_EXPECTED: Final[Mapping[str, _Check]] = {
    "captures": (_is_texts, "a list of globs"),
    "max_messages_per_run": (_is_positive_integer, "a whole number from 1"),
    "lock_timeout_seconds": (_is_positive_integer, "a whole number from 1"),
    "as_of": (
        _is_moment,
        "a date, or a time like 2026-11-21 10:00:00 (UTC, unless it ends in a zone)",
    ),
    "tombstone_retention_days": (_is_days, "a number from 0 to 100000"),
    "snapshot_retention_days": (_is_days, "a number from 0 to 100000"),
    # Otherwise a project that had it reject late events would silently get their rows back.
    "late_after_purge": (
        lambda _: False,
        "taken out, because it no longer exists: late events are folded with all events of their"
        " keys in the change log, and a longer vars.tombstone_retention_days makes that rare",
    ),
    "max_quarantine_rate": (_is_part, "a number from 0 to 1"),
    "undecoded_topics": (_is_texts, "a list of topics"),
}

_SETTINGS: Final = frozenset({*_EXPECTED, "topics"})
