"""`make setup` on a machine that lacks something says so in its first line."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dbt_lakehouse.config.paths import ROOT

SCRIPT = ROOT / ".ci" / "prerequisites"
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'


def run(folder: Path, programs: dict[str, str], **environment: str) -> tuple[int, str, str]:
    """The script where PATH has only these programs: name to shell text."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name, text in programs.items():
        (binaries / name).write_text(f"#!/bin/sh\n{text}\n")
        (binaries / name).chmod(0o755)
    shell = shutil.which("sh")
    assert shell is not None
    result = subprocess.run(
        [shell, str(SCRIPT)],
        cwd=folder,
        env={"PATH": str(binaries), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return result.returncode, result.stdout, result.stderr


def python(version: str) -> str:
    """A Python that says it is that version: the script asks by exit code, then for the number."""
    new = version.startswith("3.1") and int(version.split(".")[1]) >= 11
    return f'case "$2" in *print*) echo {version} ;; *) exit {0 if new else 1} ;; esac'


def java(line: str) -> str:
    """A Java that prints this line about itself, as Java does, on stderr."""
    return f"echo Picked up JAVA_TOOL_OPTIONS: -Xmx1g >&2\necho '{line}' >&2"


def test_both_are_there(tmp_path: Path) -> None:
    programs = {"python3": python("3.11.4"), "java": java(JAVA_17)}
    assert run(tmp_path, programs) == (0, "python3\n", "")


def test_the_environment_that_is_there_comes_first(tmp_path: Path) -> None:
    environment = tmp_path / ".venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").write_text(f"#!/bin/sh\n{python('3.12.0')}\n")
    (environment / "python").chmod(0o755)
    assert run(tmp_path, {"java": java(JAVA_17)}) == (0, ".venv/bin/python\n", "")


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"java": java(JAVA_17)}, ["Python 3.11 or newer", "none found", "python3-venv"]),
        (
            {"java": java(JAVA_17), "python3": python("3.9.18")},
            ["Python 3.11 or newer", "python3 is 3.9.18"],
        ),
        ({"python3": python("3.13.0")}, ["Java 17 or newer", "none found", "openjdk-17"]),
        (
            {"python3": python("3.13.0"), "java": java('openjdk version "11.0.2" 2019-01-15')},
            ["Java 17 or newer", "java is 11.0.2"],
        ),
        (
            {"python3": python("3.13.0"), "java": java('java version "1.8.0_292"')},
            ["Java 17 or newer", "java is 1.8.0_292"],
        ),
        ({}, ["Python 3.11 or newer", "Java 17 or newer"]),
    ],
)
def test_one_line_says_what_to_install(
    programs: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    code, out, error = run(tmp_path, programs)
    assert (code, out) == (1, "")
    assert error.count("\n") == 1
    for text in expected:
        assert text in error


def test_chosen_ones_that_are_wrong_are_named(tmp_path: Path) -> None:
    programs = {"python3": python("3.13.0"), "java": java(JAVA_17)}
    code, _, error = run(tmp_path, programs, PYTHON="/no/python", JAVA_HOME="/no/java")
    assert code == 1
    assert "/no/python" in error
    assert "/no/java" in error


def test_newer_javas_count(tmp_path: Path) -> None:
    for version in ("21", "21.0.2", "17-ea"):
        folder = tmp_path / version
        folder.mkdir()
        programs = {"python3": python("3.12.1"), "java": java(f'openjdk version "{version}"')}
        assert run(folder, programs, LANG=os.environ.get("LANG", "C"))[0] == 0
