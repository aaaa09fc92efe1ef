"""`lakehouse init`: write what a dbt project needs before its first topic."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import jinja2
import yaml

from dbt_lakehouse.config.mistakes import PROFILES, PROJECT
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError, WriteError

_PACKAGES: Final = "packages.yml"
# Files in which a project needs our content: with another's it would not run.
_OF_PROJECTS: Final = (PROJECT, PROFILES, _PACKAGES, "dependencies.yml")
_TEMPLATES: Final[Mapping[str, str]] = {
    PROJECT: "dbt_project.yml.j2",
    _PACKAGES: "packages.yml.j2",
    ".gitignore": "gitignore.j2",
    "README.md": "README.md.j2",
}
# Git does not keep an empty folder.
_MODELS: Final = "models/.gitkeep"
_PROFILE: Final = Path(__file__).with_name(PROFILES)
_NO_SERVERS: Final = "env_var('KAFKA_BOOTSTRAP_SERVERS', '')"
# A link to shared/ in a checkout, a folder in the wheel.
_OUR_PACKAGE: Final = ROOT / "dbt" / "include" / "lakehouse" / "shared"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
# The names of packages that dbt reads beside the project.
_TAKEN: Final = frozenset({"cdc_lakehouse", "dbt", "dbt_lakehouse", "dbt_spark"})
# Kafka's rule for topic names.
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER: Final = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}"
_SERVERS: Final = re.compile(rf"{_SERVER}(?:,{_SERVER})*")


class Choice(NamedTuple):
    """The arguments of the command."""

    folder: Path
    name: str | None = None
    servers: str | None = None
    topics: Sequence[tuple[str, str]] = ()
    """Topics, each with its wire format."""


class Made(NamedTuple):
    """The result of a call."""

    folder: Path
    written: Sequence[str]
    left: Sequence[str]
    """Files that existed already."""
    next: Sequence[str]
    """The next commands."""

    def text(self) -> str:
        """As text."""
        lines = [f"{self.folder}: wrote {', '.join(self.written)}"]
        if self.left:
            lines.append(f"left as they are: {', '.join(self.left)}")
        return "\n".join([*lines, "next:", *(f"    {command}" for command in self.next)])


def init(choice: Choice) -> Made:
    """Write a dbt project into a folder, which is created if needed.

    Raises ``ConfigurationError`` for a folder that has a project already and for impossible
    arguments, before anything is written; ``WriteError`` if the folder can't be written.
    """
    folder = choice.folder
    _refuse_project(folder)
    _check(choice)
    name = _project_name(choice)
    is_here = folder.resolve() == Path.cwd()
    commands = [*([] if is_here else [shlex.join(["cd", str(folder)])]), "lakehouse doctor"]
    commands.append(f"lakehouse add TOPIC{'' if choice.servers else ' --captures FILE'}")
    values = {
        "name": name,
        "topics": choice.topics,
        "package": _package(folder.resolve()),
        "servers": choice.servers,
    }
    try:
        written, left = _write(folder, _texts(values))
    except OSError as error:
        raise WriteError(f"{folder} can't be written: {error.strerror}") from error
    return Made(folder, written, left, commands)


def _refuse_project(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is a file: name a folder, which may be new")
    found = [name for name in _OF_PROJECTS if os.path.lexists(folder / name)]
    if found:
        raise ConfigurationError(
            f"{folder} has a dbt project already ({', '.join(found)}), and init changes none:"
            " docs/package.md says what to add to it; a new folder gets a project of its own"
        )


def _check(choice: Choice) -> None:
    if choice.servers is not None and not _SERVERS.fullmatch(choice.servers):
        raise ConfigurationError(
            f"--kafka {choice.servers!r}: expected servers like broker-1:9092,broker-2:9092"
        )
    for topic, _ in choice.topics:
        if not _TOPIC.fullmatch(topic):
            raise ConfigurationError(
                f"--topic {topic!r}: a topic's name has letters, digits, `.`, `_` and `-`, 249 at"
                f" most; a pattern goes into vars.topics of {PROJECT}"
            )


def _project_name(choice: Choice) -> str:
    """The given name, or one from the folder's name."""
    if choice.name is not None:
        if not _is_name(choice.name):
            raise ConfigurationError(
                f"--name {choice.name!r}: a project's name is of lower-case letters, digits and"
                f" underscores, begins with no digit, and is none of {', '.join(sorted(_TAKEN))}"
            )
        return choice.name
    name = re.sub(r"[^a-z0-9_]+", "_", choice.folder.resolve().name.lower()).strip("_")
    if not _is_name(name):
        raise ConfigurationError(
            f"{choice.folder}: a project can't be called like this folder, so give --name"
        )
    return name


def _is_name(name: str) -> bool:
    # Without quotes, `on` and `null` are not texts in YAML.
    return bool(_NAME.fullmatch(name)) and name not in _TAKEN and yaml.safe_load(name) == name


def _package(folder: Path) -> str:
    """The path of the package of models. It is relative if the package is in the project's folder
    or beside it, since it may then be there on other machines too.
    """
    package = _OUR_PACKAGE.resolve()
    return os.path.relpath(package, folder) if folder.parent in package.parents else str(package)


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    """The files of a project, by their names in it."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    texts = {name: templates.get_template(file).render(values) for name, file in _TEMPLATES.items()}
    # Its own text, not our template: its braces are dbt's.
    profile = _PROFILE.read_text()
    if values["servers"]:
        profile = profile.replace(_NO_SERVERS, _NO_SERVERS.replace("''", f"'{values['servers']}'"))
    return {**texts, PROFILES: profile, _MODELS: ""}


def _write(folder: Path, texts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Write the missing files. Returns their names, and those of existing files."""
    written, left = [], []
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x") as stream:
                stream.write(text)
        except FileExistsError:
            left.append(name)
        else:
            written.append(name)
    return written, left
