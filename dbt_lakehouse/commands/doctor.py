"""`lakehouse doctor`: checks that a run has everything it needs, one line each.

It starts no Spark and creates nothing. A broker or database that may hang is waited for only some
seconds.
"""

import csv
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dbt_lakehouse.config.paths import CACHE
from dbt_lakehouse.config.topics import topic_rules, unlisted_text
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.extras import missing
from dbt_lakehouse.lake import leases
from dbt_lakehouse.lake.buckets import need_s3
from dbt_lakehouse.lake.catalog import (
    CATALOG_URI,
    WAREHOUSE,
    entries,
    refuse_unfit_to_write,
    require_file,
    sqlite_file,
)
from dbt_lakehouse.lake.locks import held_beside
from dbt_lakehouse.lake.names import LEASES, Silver
from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.session.project import Project, ProjectOptions, load
from dbt_lakehouse.spark.jars import JARS, S3_JARS, digest
from dbt_lakehouse.spark.java import OLDEST, find_java, major_of
from dbt_lakehouse.texts import counted

if TYPE_CHECKING:
    from dbt_lakehouse.lake.reader import Reader

_Answer = TypeVar("_Answer")

_SECONDS: Final = 10.0
_LITTLE_DISK: Final = 5_000_000_000
_NO_DISK: Final = 500_000_000
# Names per line.
_FEW: Final = 5
_CLOCKS_DIFFER: Final = timedelta(minutes=1)
_JAVA_VERSION: Final = re.compile(r'version "(\d[^"]*)"')
_PINNED: Final = re.compile(r"([\w.-]+)(?:\[[^]]*\])?==([^;\s]+)")
_EXTRA: Final = re.compile(r"\bextra == [\"']([\w-]+)")
# The extras that a run needs. Packages of other extras may be missing.
_NEEDED: Final = frozenset({"", "lake"})


class State(StrEnum):
    """The state of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its subject, its state, and the remedy if there is trouble."""

    state: State
    about: str
    told: str

    def text(self) -> str:
        """As a line of text."""
        return f"{self.state:<5}{self.about:<9}{' '.join(self.told.split())}"


def doctor(options: ProjectOptions) -> list[Check]:
    """All checks. Checks that need no project are made without one."""
    project: Project | None = None
    checks = []
    try:
        project = load(options)
    except LakehouseError as error:
        checks.append(_fail("project", str(error)))
    else:
        found = project.options
        checks.append(
            _ok(
                "project",
                f"{project.root}, profile {found.profile} in {found.profiles_dir}, target"
                f" {found.target} with schema {project.schema}",
            )
        )
    checks.append(_ok("python", f"{platform.python_version()}, {sys.executable}"))
    checks += [_java(), _packages(), *_jars(project), _cache()]
    if project is not None:
        checks += _of_lake(project)
        checks.append(_kafka(project))
        checks += _schema_registry(project)
    return [Check(each.state, each.about, without_secrets(each.told)) for each in checks]


def checks_json(checks: list[Check]) -> str:
    """The checks as JSON, for scripts."""
    return json.dumps([asdict(each) for each in checks])


def _ok(about: str, told: str) -> Check:
    return Check(State.OK, about, told)


def _warn(about: str, told: str) -> Check:
    return Check(State.WARN, about, told)


def _fail(about: str, told: str) -> Check:
    return Check(State.FAIL, about, told)


def _within(ask: Callable[[], _Answer]) -> _Answer:
    """The answer of ``ask``, or its error. Raises ``TimeoutError`` if there is none in time."""
    answers: list[_Answer] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            errors.append(error)

    # A daemon: the process can end without it.
    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(_SECONDS)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(f"no answer within {_SECONDS:g} s")
    return answers[0]


# --- This machine ---------------------------------------------------------------------------------


def _java() -> Check:
    try:
        java = find_java()
        said = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except LakehouseError as error:
        return _fail("java", str(error))
    except (OSError, subprocess.TimeoutExpired) as error:
        return _fail(
            "java", f"it can't be asked for its version ({error}): JAVA_HOME names another"
        )
    found = _JAVA_VERSION.search(said.stderr + said.stdout)
    if found is None:
        return _fail("java", f"{java} doesn't say its version: JAVA_HOME names another")
    if major_of(found[1]) < OLDEST:
        return _fail(
            "java",
            f"{found[1]}, {java}: Spark needs {OLDEST} or newer; JAVA_HOME names another",
        )
    return _ok("java", f"{found[1]}, {java}")


def _packages() -> Check:
    """Whether the pinned versions are installed, and their files are unchanged."""
    wrong = []
    right = []
    left_out = []
    for (name, wanted), extras in _pins().items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "missing"
        if found == "missing" and not extras & _NEEDED:
            left_out.append(name)
        elif found != wanted:
            wrong.append(f"{name} is {found}, and must be {wanted}")
        else:
            right.append(name)
    if changed := _changed_files(right):
        more = f" and {len(changed) - _FEW} more" if len(changed) > _FEW else ""
        wrong.append(f"not as they were installed: {', '.join(changed[:_FEW])}{more}")
    if wrong:
        return _fail("packages", f"{'; '.join(wrong)}: `make setup`, or reinstall cdc_lakehouse")
    told = f"{counted(len(right), 'package')} as pinned and installed"
    if left_out:
        told += f"; of extras, not installed: {', '.join(left_out)}"
    return _ok("packages", told)


def _pins() -> dict[tuple[str, str], set[str]]:
    """The pinned packages and their versions, with the extras that need them; the empty name
    means always installed.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for each in requires("cdc_lakehouse") or ():
        if pin := _PINNED.match(each):
            extra = _EXTRA.search(each)
            found.setdefault((pin[1], pin[2]), set()).add(extra[1] if extra else "")
    return found


def _changed_files(names: Iterable[str]) -> list[str]:
    """The files of packages that are missing, or differ from the packages' RECORDs."""
    recorded: dict[Path, tuple[str, set[str]]] = {}
    for name in names:
        package = distribution(name)
        # Not package.files, which skips missing files.
        for file, wanted, _ in csv.reader((package.read_text("RECORD") or "").splitlines()):
            if wanted:
                place = Path(str(package.locate_file(file)))
                recorded.setdefault(place, (file, set()))[1].add(wanted)
    # Reading and hashing files releases Python's lock.
    with ThreadPoolExecutor() as workers:
        known = workers.map(_is_any_of, recorded, (digests for _, digests in recorded.values()))
        return [
            file
            for (file, _), is_known in zip(recorded.values(), known, strict=True)
            if not is_known
        ]


def _is_any_of(file: Path, digests: Iterable[str]) -> bool:
    """Whether the file has one of the digests. If several packages have it, such as
    dbt/__init__.py, the last one installed has written it.
    """
    for each in digests:
        algorithm, _, wanted = each.partition("=")
        try:
            with file.open("rb") as opened:
                found = hashlib.file_digest(opened, algorithm).digest()
        except OSError:
            return False
        if urlsafe_b64encode(found).rstrip(b"=").decode() == wanted:
            return True
    return False


def _jars(project: Project | None) -> Iterator[Check]:
    wanted = list(JARS)
    if project is not None and need_s3(dict(project.parameters)):
        wanted += S3_JARS
    missing = [jar.coordinates for jar in wanted if not jar.path.exists()]
    changed = [
        str(jar.path) for jar in wanted if jar.path.exists() and digest(jar.path) != jar.sha256
    ]
    fetch = "lakehouse jars --s3" if len(wanted) > len(JARS) else "lakehouse jars"
    if changed:
        yield _fail(
            "jars",
            f"{', '.join(changed)} is not the file that is locked: delete it, `{fetch}` fetches it",
        )
    if missing:
        yield _warn("jars", f"{', '.join(missing)} missing: `{fetch}`, or the next run fetches it")
    if not changed and not missing:
        yield _ok("jars", f"{counted(len(wanted), 'jar')} as locked")


# --- The lake -------------------------------------------------------------------------------------


def _of_lake(project: Project) -> Iterator[Check]:
    try:
        settings = project.settings
    except LakehouseError as error:
        yield _fail("catalog", str(error))
        return
    uri = settings.get(CATALOG_URI, "")
    yield _storage(settings[WAREHOUSE])
    try:
        refuse_unfit_to_write(settings)
    except LakehouseError as error:
        yield _fail("catalog", str(error))
        return
    try:
        require_file(settings)
    except LakehouseError as error:
        yield _warn("catalog", str(error))
        return
    try:
        found = _within(lambda: entries(settings))
    except (LakehouseError, OSError) as error:
        yield _fail("catalog", f"{uri}: {error}")
        return
    yield _ok("catalog", f"{uri}, {counted(len(found), 'table')}")
    if told := missing("sql"):
        yield _warn("lake", f"tables are not looked at: {told}")
        return
    try:
        yield from _within(lambda: _seen(project, uri))
    except (LakehouseError, OSError) as error:
        yield _fail("lake", f"{settings[WAREHOUSE]}: {error}")


def _storage(warehouse: str) -> Check:
    folder = Path(warehouse.removeprefix("file://"))
    if not folder.is_absolute():
        return _ok("storage", f"{warehouse}: not of this machine")
    advice = "make room, or `lakehouse maintain` with a shorter vars.snapshot_retention_days"
    return _folder("storage", folder, advice)


def _cache() -> Check:
    """Whether the cache, for jars and for what Spark and SQLite spill, is usable."""
    return _folder("cache", CACHE / "tmp", "make room, or name another folder by LAKEHOUSE_CACHE")


def _folder(about: str, folder: Path, advice: str) -> Check:
    """Whether a folder, or its nearest existing parent, is writable and has space."""
    made = folder
    while not made.exists():
        made = made.parent
    free = shutil.disk_usage(made).free
    told = f"{folder}, {free / 1e9:,.1f} GB free"
    if not os.access(made, os.W_OK | os.X_OK):
        return _fail(about, f"{told}: this user may not write {made}, or its disk is read-only")
    if free < _NO_DISK:
        return _fail(about, f"{told}: {advice}")
    return _warn(about, f"{told}: {advice}") if free < _LITTLE_DISK else _ok(about, told)


def _seen(project: Project, uri: str) -> list[Check]:
    """The checks that read tables."""
    reader = project.reader()
    return [_locks(reader, uri), _clock(reader), *_topics(project, reader)]


def _topics(project: Project, reader: "Reader") -> Iterator[Check]:
    """Whether an entry of vars.topics is missing whose messages the lake has."""
    from dbt_lakehouse.runs.formats import no_longer_listed

    name = Silver.of(project.silver).other_events
    if name not in reader.tables:
        return
    unlisted = no_longer_listed(reader.look_at(reader.known(name)), project.variables)
    yield _warn("topics", unlisted_text(unlisted)) if unlisted else _ok("topics", "all are listed")


def _locks(reader: "Reader", uri: str) -> Check:
    """Which commands are at work."""
    file = sqlite_file(uri)
    if file is not None:
        held = held_beside(file)
    else:
        is_there = LEASES in reader.tables
        noted = reader.look_at(LEASES).noted(leases.SUMMARY) if is_there else None
        held = {name: str(lease) for name, lease in leases.unexpired(noted).items()}
    told = "; ".join(f"{name}: {holder}" for name, holder in sorted(held.items()))
    return _ok("locks", told or "no process holds one")


def now() -> datetime:
    """The time of this machine's clock."""
    return datetime.now(UTC)


def _clock(reader: "Reader") -> Check:
    """Whether commits come from the future: leases and expiry depend on clocks."""
    moment = now()
    ahead = {
        name: made - moment
        for name in reader.tables
        if (chain := reader.look_at(reader.known(name)).chain)
        and (made := chain[0].made_at) > moment + _CLOCKS_DIFFER
    }
    if not ahead:
        return _ok("clock", f"{moment:%FT%TZ}")
    name, by = max(ahead.items(), key=lambda each: each[1])
    return _warn(
        "clock",
        f"{moment:%FT%TZ}, and {name} was written {by.total_seconds():,.0f} s later than that: set"
        " the clocks of all hosts by NTP",
    )


def _kafka(project: Project) -> Check:
    from dbt_lakehouse.config.kafka import kafka_settings
    from dbt_lakehouse.config.kafka_probe import probe

    try:
        # It also reports impossible topics.
        project.kafka()
        settings = kafka_settings(project.parameters)
        if settings is None:
            return _ok("kafka", "no broker is configured")
        _within(lambda: probe(settings))
    except (LakehouseError, OSError) as error:
        return _fail("kafka", str(error))
    return _ok("kafka", f"{settings.servers} answers, {settings.security_protocol}")


def _schema_registry(project: Project) -> list[Check]:
    """The check of the schema registry, only if a topic's format needs one."""
    from dbt_lakehouse.lake.schema_registry import configured
    from python_udfs.registry import AVRO_FORMATS

    if all(
        rule.format not in AVRO_FORMATS for rule in topic_rules(project.variables.get("topics"))
    ):
        return []
    if told := missing("avro"):
        return [_warn("schemas", f"Avro is read value by value, eight times as slow: {told}")]
    try:
        registry = configured()
        if registry is None:
            told = "SCHEMA_REGISTRY_URL names no registry: topics in Avro may need one"
            return [_warn("schemas", told)]
        _within(registry.probe)
    except (LakehouseError, OSError) as error:
        return [_fail("schemas", str(error))]
    return [_ok("schemas", f"{registry.name} answers")]
