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
# Without a user: an address with a password would be in the profile, and in each error's text.
_CATALOG: Final = re.compile(r"(?:jdbc:postgresql|https?)://[A-Za-z0-9.:/_?&=%~\[\]-]+")
# A REST catalog may know its warehouse by a name.
_WAREHOUSE: Final = re.compile(r"[A-Za-z0-9.:/_%~@+-]+")
_STORAGE: Final = re.compile(r"[a-z][a-z0-9+.-]*:/.+")
_SETTING: Final = "spark.sql.catalog.lake."
# docs/catalogs.md has the same settings.
_LOGINS: Final[Mapping[str, Mapping[str, str]]] = {
    "jdbc": {"jdbc.user": "LAKEHOUSE_CATALOG_USER", "jdbc.password": "LAKEHOUSE_CATALOG_PASSWORD"},
    "rest": {"credential": "LAKEHOUSE_CATALOG_CREDENTIAL"},
}


class Choice(NamedTuple):
    """The arguments of the command."""

    folder: Path
    name: str | None = None
    servers: str | None = None
    topics: Sequence[tuple[str, str]] = ()
    """Topics, each with its wire format."""
    catalog: str | None = None
    """The address of PostgreSQL or of a REST catalog; None for a file in the project's folder."""
    warehouse: str | None = None
    """The storage of such a catalog's tables."""


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
    texts = _texts(values)
    if choice.catalog and choice.warehouse:
        texts[PROFILES] = _with_catalog(texts[PROFILES], choice.catalog, choice.warehouse)
    try:
        written, left = _write(folder, texts)
    except OSError as error:
        raise WriteError(f"{folder} can't be written: {error.strerror}") from error
    return Made(folder, written, left, commands)


def _refuse_project(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is a file: name a folder, which may be new")
    found = [name for name in _OF_PROJECTS if os.path.lexists(folder / name)]
    if found:
        raise ConfigurationError(
            f"{folder} has a dbt project already ({', '.join(found)}), and init never changes one:"
            " docs/package.md says what to add to it; a new folder gets a project of its own"
        )


def _check(choice: Choice) -> None:
    if choice.servers is not None and not _SERVERS.fullmatch(choice.servers):
        raise ConfigurationError(
            f"--kafka {choice.servers!r}: expected servers like broker-1:9092,broker-2:9092"
        )
    _check_catalog(choice.catalog, choice.warehouse)
    for topic, _ in choice.topics:
        if not _TOPIC.fullmatch(topic):
            raise ConfigurationError(
                f"--topic {topic!r}: a topic's name has letters, digits, `.`, `_` and `-`, 249 at"
                f" most; a pattern goes into vars.topics of {PROJECT}"
            )


def _check_catalog(catalog: str | None, warehouse: str | None) -> None:
    if (catalog is None) != (warehouse is None):
        raise ConfigurationError(
            "--catalog and --warehouse go together: the catalog has the tables' names, the"
            " warehouse their files"
        )
    if catalog is None or warehouse is None:
        return
    if not _CATALOG.fullmatch(catalog):
        raise ConfigurationError(
            f"--catalog {catalog!r}: expected jdbc:postgresql://HOST:PORT/DATABASE or the https://"
            " address of a REST catalog, without a user (docs/catalogs.md)"
        )
    is_place = _STORAGE if _kind(catalog) == "jdbc" else _WAREHOUSE
    if not (_WAREHOUSE.fullmatch(warehouse) and is_place.fullmatch(warehouse)):
        raise ConfigurationError(
            f"--warehouse {warehouse!r}: expected storage that all users of the catalog reach by"
            " the same address, such as file:///srv/lake/warehouse or s3://bucket/lake"
        )


def _kind(catalog: str) -> str:
    """Iceberg's type of the catalog at an address."""
    return "jdbc" if catalog.startswith("jdbc:") else "rest"


def _project_name(choice: Choice) -> str:
    """The given name, or one from the folder's name."""
    if choice.name is not None:
        if not _is_name(choice.name):
            raise ConfigurationError(
                f"--name {choice.name!r}: a project's name has lower-case letters, digits and"
                " underscores, doesn't begin with a digit, and is not one of"
                f" {', '.join(sorted(_TAKEN))}"
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


def _with_catalog(profile: str, catalog: str, warehouse: str) -> str:
    """The profile with a catalog that several machines share."""
    kind = _kind(catalog)
    values = {"type": kind, "uri": catalog, "warehouse": warehouse}
    for name, value in values.items():
        profile = re.sub(
            rf"(?m)^( *{re.escape(_SETTING + name)}: ).*$", rf'\g<1>"{value}"', profile
        )
    logins = [f"{name}: \"{{{{ env_var('{each}') }}}}\"" for name, each in _LOGINS[kind].items()]

    def with_logins(found: re.Match[str]) -> str:
        return found["address"] + "".join(f"{found['begin']}{each}\n" for each in logins)

    # The comment in front of the address tells of the file.
    begin = rf"(?P<begin> *{re.escape(_SETTING)})"
    return re.sub(rf"(?m)^ *#.*\n(?P<address>{begin}uri: .*\n)", with_logins, profile)


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
