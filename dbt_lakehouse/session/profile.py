"""The profile of a project, for commands that read the lake without dbt and Spark.

dbt alone takes two seconds to import, and such a command has answered by then. This module
handles a plain profile as dbt does: the same files, environment variables and templates. Anything
else in a profile, and every error, is left to dbt (``dbt_lakehouse.session.project``).
"""

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
import yaml

from dbt_lakehouse.config.mistakes import PROFILES, PROJECT, find_folders, variable
from dbt_lakehouse.lake.catalog import absolute
from dbt_lakehouse.session.project import ProjectOptions, layer_of, load

# The names that templates have here; dbt has more.
_TEMPLATES: Final = jinja2.Environment(undefined=jinja2.StrictUndefined)
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Place(NamedTuple):
    """The place of a lake."""

    settings: dict[str, str]
    """The profile's parameters, with absolute paths."""
    schema: str
    """The target's."""
    root: Path
    """The project's folder."""
    project: str
    """Its name."""

    @property
    def gold(self) -> str:
        """The schema of gold's tables."""
        return layer_of("gold", self.schema)

    @property
    def silver(self) -> str:
        """The schema of silver's tables."""
        return layer_of("silver", self.schema)


class _NotPlainError(Exception):
    """Something that is left to dbt."""


def find(options: ProjectOptions) -> Place:
    """The lake of the project, profile and target that dbt would take (see ``load``).

    Raises ``ConfigurationError``.
    """
    try:
        parameters, schema, root, name = _plain_profile(options)
    except (_NotPlainError, OSError, yaml.YAMLError, jinja2.TemplateError):
        project = load(options)
        parameters, schema, root = dict(project.parameters), project.schema, project.root
        name = project.name
    return Place(absolute(parameters, root), schema, root, name)


def _plain_profile(options: ProjectOptions) -> tuple[dict[str, str], str, Path, str]:
    """The parameters, the schema, the project's folder and its name."""
    if options.vars is not None:
        raise _NotPlainError
    project, profiles = find_folders(options.project_dir, options.profiles_dir)
    of_project = _read(project / PROJECT)
    name = options.profile or _variable("PROFILE") or _rendered(of_project.get("profile"))
    profile = _mapping(_read(profiles / PROFILES).get(name))
    target = options.target or _variable("TARGET") or _rendered(profile.get("target"))
    output = _mapping(_mapping(profile.get("outputs")).get(target))
    if _rendered(output.get("type")) != "lakehouse":
        raise _NotPlainError
    parameters = {
        each: _rendered(value)
        for each, value in _mapping(output.get("server_side_parameters")).items()
    }
    schema = _rendered(output.get("schema"))
    return parameters, schema, project.resolve(), _rendered(of_project.get("name"))


def _variable(name: str) -> str | None:
    """The environment variable for one of dbt's options."""
    found = variable(name)
    return None if found is None else found[0]


def _read(file: Path) -> dict[str, Any]:
    return _mapping(yaml.load(file.read_text(), Loader=_Loader))


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _NotPlainError
    return value


def _rendered(value: Any) -> str:
    if not isinstance(value, str):
        raise _NotPlainError
    return _TEMPLATES.from_string(value).render(env_var=_env_var) if "{" in value else value


def _env_var(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise _NotPlainError
    return value
