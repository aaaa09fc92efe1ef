"""`lakehouse doctor`: what it says of a machine that is well, and of all that may not be."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from support.lakes import copy_project

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands import doctor
from dbt_lakehouse.commands.standard_streams import NOT_WELL
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake import leases
from dbt_lakehouse.lake.locks import held_beside
from dbt_lakehouse.spark.jars import JARS, Jar

ALL = ["project", "python", "java", "packages", "jars", "cache", "storage"]
ALL += ["catalog", "kafka"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake that is not there, and folders of dbt's that nobody may make."""
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("DBT_LOG_PATH", str(tmp_path / "logs"))
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


def looked(
    capfd: pytest.CaptureFixture[str], code: int = 0, project: Path = ROOT
) -> dict[str, tuple[str, str]]:
    """The state and the sentence of each check."""
    capfd.readouterr()
    places = ["--project-dir", str(project), "--profiles-dir", str(project / "profiles")]
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", *places])
    said = capfd.readouterr()
    assert (ended.value.code or 0) == code, said
    assert all(name in said.err for name in ["not well"] if code)
    return {
        each["about"]: (each["state"], each["told"])
        for each in json.loads(said.out.splitlines()[-1])
    }


def test_a_machine_that_is_well(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = looked(capfd)
    assert [*found] == ALL
    states = {about: state for about, (state, _) in found.items()}
    assert states == {**dict.fromkeys(ALL, "ok"), "catalog": "warn"}
    assert "there is no lake yet" in found["catalog"][1]
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(SystemExit):
        main(["doctor", "--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles")])
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ALL
    assert {line.split()[0] for line in lines} == {"ok", "warn"}


def test_what_is_not_well_is_told_with_what_to_do(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    pins = ["click==0.1", "nobody[has]==1.0 ; extra == 'lake'", "msgpack==1.2.4"]
    monkeypatch.setattr(doctor, "requires", lambda _: pins)
    changed = JARS[0]._replace(sha256="0" * 64)
    monkeypatch.setattr(doctor, "JARS", (changed, Jar("org.nobody:nothing:1.0", "")))
    monkeypatch.setattr(doctor, "_NO_DISK", 10**18)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "localhost:1")
    found = looked(capfd, NOT_WELL)
    failed = {about: told for about, (state, told) in found.items() if state == "fail"}
    assert failed.keys() == {"java", "packages", "cache", "storage", "kafka"}
    assert "1.8.0_292" in failed["java"] and "JAVA_HOME" in failed["java"]
    assert failed["packages"].startswith("click is 8.")
    assert "nobody is missing, and must be 1.0" in failed["packages"]
    assert "msgpack" not in failed["packages"]
    assert "make room" in failed["storage"] and "LAKEHOUSE_CACHE" in failed["cache"]
    assert "localhost:1 (Connection refused)" in failed["kafka"]
    assert found["jars"][0] == "warn" and "org.nobody:nothing:1.0 missing" in found["jars"][1]
    monkeypatch.setattr(doctor, "JARS", (changed,))
    state, told = looked(capfd, NOT_WELL)["jars"]
    assert state == "fail" and str(changed.path) in told and "`lakehouse jars` fetches" in told
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "without a bin/java" in looked(capfd, NOT_WELL)["java"][1]


def test_files_that_are_not_as_installed_and_folders_that_are_not_writable(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = [f"{name}==1 ; python_version > '3'" for name in ("six", "click")]
    monkeypatch.setattr(doctor, "requires", lambda _: kept)
    monkeypatch.setattr(doctor, "version", lambda _: "1")
    package = tmp_path / "six-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: six\nVersion: 1\n")
    (tmp_path / "six.py").write_text("changed")
    recorded = ["six.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0", "gone.py,sha256=x,1"]
    (package / "RECORD").write_text("\n".join([*recorded, "six-1.dist-info/RECORD,,"]) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(doctor, "CACHE", tmp_path / "nowhere")
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and writable(path, mode))
    found = looked(capfd, NOT_WELL)
    assert found["packages"] == (
        "fail",
        "not as they were installed: six.py, gone.py: `make setup`, or reinstall cdc_lakehouse",
    )
    for about in ("cache", "storage"):
        state, told = found[about]
        assert state == "fail" and f"this user may not write {tmp_path}" in told


def test_without_a_project(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "requires", lambda _: [])
    found = looked(capfd, NOT_WELL, tmp_path)
    assert [*found] == ALL[:6] and found["project"][0] == "fail"


def test_packages_of_extras_may_have_been_left_out(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_extras = [f'nobody==1.0; extra == "{extra}"' for extra in ("sql", "all")]
    pins = [f"msgspec=={version('msgspec')}", *of_extras]
    monkeypatch.setattr(doctor, "requires", lambda _: pins)
    monkeypatch.setattr(doctor, "missing", lambda extra: f"no {extra}")
    monkeypatch.setattr(doctor, "require_file", lambda _: None)
    monkeypatch.setattr(doctor, "entries", lambda _: [])
    found = looked(capfd)
    left_out = "1 package as pinned and installed; of extras, not installed: nobody"
    assert found["packages"] == ("ok", left_out)
    assert found["lake"] == ("warn", "tables are not looked at: no sql")


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_who_does_not_answer_is_waited_for_some_seconds_and_secrets_are_not_shown(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    silent: int,
) -> None:
    project = copy_project(tmp_path / "project")
    profile = project / "profiles" / "profiles.yml"
    lines = [
        f'spark.sql.catalog.lake.uri: "jdbc:postgresql://localhost:{silent}/lake?password=hunter2"'
        if line.strip().startswith("spark.sql.catalog.lake.uri")
        else line.strip()
        for line in profile.read_text().splitlines()
    ]
    text = profile.read_text().splitlines()
    profile.write_text(
        "\n".join(
            line[: len(line) - len(line.lstrip())] + new
            for line, new in zip(text, lines, strict=True)
        )
    )
    monkeypatch.setattr(doctor, "requires", lambda _: [])
    monkeypatch.setattr(doctor, "_SECONDS", 1.0)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", f"localhost:{silent}")
    before = time.monotonic()
    found = looked(capfd, NOT_WELL, project)
    assert time.monotonic() - before < 30
    assert {about for about, (state, _) in found.items() if state == "fail"} >= {"catalog", "kafka"}
    assert "password=***" in found["catalog"][1] and "no answer within 1 s" in found["catalog"][1]
    assert "hunter2" not in json.dumps(found)


def test_who_holds_a_lock(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.db"
    assert held_beside(catalog) == {}
    (tmp_path / "locks").mkdir()
    holder = {"pid": os.getpid(), "purpose": "dbt run", "since": "2026-11-21T10:00:00Z"}
    for name in ("run", "landing"):
        (tmp_path / "locks" / f"{name}.lock").write_text(json.dumps(holder))
    with (tmp_path / "locks" / "run.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        told = f"`dbt run` (process {os.getpid()}, since 2026-11-21T10:00:00Z)"
        assert held_beside(catalog) == {"run": told}
    assert held_beside(catalog) == {}

    lease = {"id": "1", "purpose": "dbt run", "host": "here", "pid": 7, "since": "then"}
    summary = {
        "run": {**lease, "until": time.time() + 60},
        "landing": {**lease, "until": time.time() - 1},
    }
    held_now = leases.unexpired(json.dumps(summary))
    assert {name: str(each) for name, each in held_now.items()} == {
        "run": "`dbt run` (process 7 on here, since then)"
    }
    assert leases.unexpired(None) == {}
