"""Errors in a project's files and their names, in a sentence each: dbt's own texts have several
lines, and concern options that the user has not given.
"""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from dbt_lakehouse.errors import ConfigurationError

PROJECT: Final = "dbt_project.yml"
PROFILES: Final = "profiles.yml"
_KIND: Final = re.compile(r"\A(?:[A-Z]\w+ )+[Ee]rror(?: in (?P<node>[^\n]+))?\n")
_FIRST_OF_LIST: Final = re.compile(r":\s*\n\s*- ")
_NEXT_OF_LIST: Final = re.compile(r"\s*\n\s*- ")
_NO_PROFILE: Final = "Could not find profile named"
_TAB: Final = r"found character '\t'"


class Folders(NamedTuple):
    """The folders of the project and its profiles, by dbt's rules."""

    project: Path
    profiles: Path


def find_folders(project_dir: str | None, profiles_dir: str | None) -> Folders:
    """The folders by the options, then by dbt's environment variables, then by their files.

    Raises ``ConfigurationError`` if one of the files is missing.
    """
    here = Path.cwd()
    given, name = _given(project_dir, "project-dir")
    above = (each for each in (here, *here.parents) if (each / PROJECT).exists())
    project = given or next(above, None)
    if project is None:
        raise ConfigurationError(
            f"there is no {PROJECT} in {here}, nor in a folder above it: go to the project's"
            " folder, or name it by --project-dir; `lakehouse init` makes a new one"
        )
    _refuse_without(project, PROJECT, name)
    given, name = _given(profiles_dir, "profiles-dir")
    home = Path.home() / ".dbt"
    profiles = given or (here if (here / PROFILES).exists() else home)
    if given is None and not (profiles / PROFILES).exists():
        raise ConfigurationError(
            f"there is no {PROFILES} in {here}, nor in {home}: copy profiles/{PROFILES} of"
            " cdc_lakehouse to the first, or name its folder by --profiles-dir"
        )
    _refuse_without(profiles, PROFILES, name)
    return Folders(project, profiles)


def variable(name: str) -> tuple[str, str] | None:
    """The environment variable for one of dbt's options: its value and its name."""
    for prefix in ("DBT_ENGINE_", "DBT_"):
        if value := os.environ.get(f"{prefix}{name}"):
            return value, f"{prefix}{name}"
    return None


def _given(option: str | None, name: str) -> tuple[Path | None, str]:
    """A folder that was named, and the option or variable that names it."""
    if option is not None:
        return Path(option), f"--{name}"
    found = variable(name.upper().replace("-", "_"))
    return (None, "") if found is None else (Path(found[0]), found[1])


def _refuse_without(folder: Path, file: str, named_by: str) -> None:
    by = f"{named_by} is {folder}: " if named_by else ""
    if not folder.is_dir():
        raise ConfigurationError(f"{by}there is no such folder")
    if not (folder / file).is_file():
        raise ConfigurationError(f"{by}there is no {file} in it")


def diagnosis(error: Exception, folders: Folders) -> str:
    """The message about an error of dbt when it read the files in these folders."""
    files = (folders.project / PROJECT, folders.profiles / PROFILES)
    for file in files:
        if sentence := _yaml_trouble(file):
            return sentence
    text = dbt_text(error)
    if text.startswith(_NO_PROFILE):
        names = ", ".join(sorted(map(str, yaml.safe_load(files[1].read_bytes()) or {}))) or "none"
        return (
            f"{text}: {files[1]} has {names}; `profile` in {PROJECT}, --profile or DBT_PROFILE"
            " names one"
        )
    return text


def dbt_text(error: Exception) -> str:
    """The text of an error of dbt, without its kind, and with lists in one line."""
    text = str(error)
    kind = _KIND.match(text)
    if kind is not None:
        node = f"{kind['node']}: " if kind["node"] else ""
        text = node + text[kind.end() :]
    text = _NEXT_OF_LIST.sub(", ", _FIRST_OF_LIST.sub(": ", text))
    return " ".join(text.split())


def _yaml_trouble(file: Path) -> str | None:
    """Where and why a file is not a YAML mapping; None if it is."""
    try:
        content = yaml.safe_load(file.read_bytes())
    except OSError as error:
        return f"{file} can't be read: {error.strerror}"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem = str(error.problem or error.context)
        if problem.startswith(_TAB):
            problem = "a tab; YAML is indented by blanks"
        return f"{file}{place}: this is not YAML: {problem}"
    except yaml.YAMLError as error:
        return f"{file}: this is not YAML: {' '.join(str(error).split())}"
    if not isinstance(content, dict):
        is_empty = "is empty" if content is None else "holds no names and values"
        return f"{file} {is_empty}"
    return None
