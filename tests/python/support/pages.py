"""Documents whose examples are run: their blocks, a terminal that types them, and what they say is
printed.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from glob import glob
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest
from dbt.cli.main import dbtRunner

from dbt_lakehouse.cli import main

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```\n", re.S | re.M)
# A line that stands for any number of others.
_ANYTHING: Final = "..."
# Ends a file that is written in a shell's block.
_END: Final = "END"
# What differs from run to run, and what stands for it. Of times, those that are not of the payloads
# of a page; their columns are as wide as they are long.
_VARYING: Final = (
    (r"^\d\d:\d\d:\d\d", "00:00:00"),
    (r"(?!2026-10-01)\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"(PASS|TOTAL)=\d+", r"\1=N"),
    (r" +", " "),
    (r"-+", "-"),
)


def blocks(page: str) -> Iterator[tuple[str, str, str | None]]:
    """Language and text of each block of a page, and the text of the block behind it that says
    what it prints, or None.
    """
    found = [*_BLOCK.finditer(page)]
    for block, following in zip_longest(found, found[1:]):
        language, text = block.groups()
        if language == "text":
            continue
        told = None
        if following is not None and following[1] == "text":
            assert following.start() == block.end(), f"nothing has printed {following[2]}"
            told = following[2]
        yield language, text, told


def without_blanks(text: str) -> str:
    """The lines that are not empty, without blanks at their ends."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


def lakehouse(arguments: list[str]) -> None:
    """Run the `lakehouse` command in this process; it must succeed."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


class Terminal:
    """A shell in ``folder``. dbt and `lakehouse` run in this process, which has one Spark."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        self._environment = environment
        environment.chdir(folder)
        # Other tests lead to lakes of theirs; a page's is in its project.
        environment.delenv("LAKEHOUSE_LAKE", raising=False)
        programs = Path(sys.executable).parent
        environment.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        environment.setenv("DBT_USE_COLORS", "false")
        environment.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
        # Those of what every lake has run with the demo, and take a quarter of a small build.
        environment.setenv("DBT_EXCLUDE_RESOURCE_TYPES", "unit_test")

    def play(self, page: str, capfd: pytest.CaptureFixture[str]) -> None:
        """Type all of a page: run each command and make each change to a file; what is printed must
        be what the page says.
        """
        for language, text, told in blocks(page):
            if language == "diff":
                _edit(text)
                continue
            assert language == "sh"
            capfd.readouterr()
            for statement in _statements(text):
                self.run(statement)
            printed = _comparable(capfd.readouterr().out)
            expected = _comparable(told or "")
            shown = _shortened(printed, expected)
            assert shown == expected, "\n".join((text, "has printed", *printed))

    def run(self, statement: str) -> None:
        """Run a statement; what it prints is on standard output."""
        word, *arguments = shlex.split(statement)
        match word:
            case "export":
                for name, _, value in (each.partition("=") for each in arguments):
                    self._environment.setenv(name, value)
            case "cd":
                self._environment.chdir(arguments[0])
            case "lakehouse":
                lakehouse([name for each in arguments for name in sorted(glob(each)) or [each]])
            case "dbt":
                assert dbtRunner().invoke(arguments).success
            case _:
                subprocess.run(["bash", "-c", statement], check=True)


def _statements(text: str) -> Iterator[str]:
    """The statements of a block: a line each, with the lines of a file that it writes."""
    lines = iter(text.splitlines())
    for line in lines:
        statement = [line]
        if line.endswith(f"<<'{_END}'"):
            while statement[-1] != _END:
                statement.append(next(lines))
        yield "\n".join(statement)


def _edit(diff: str) -> None:
    """Make the change to a file."""
    head, *lines = diff.splitlines()
    file = Path(head.removeprefix("--- "))
    old, new = (
        "".join(f"{line[1:]}\n" for line in lines if line[0] in kinds) for kinds in (" -", " +")
    )
    text = file.read_text()
    assert text.count(old) == 1 and old != new
    file.write_text(text.replace(old, new))


def _comparable(text: str) -> list[str]:
    lines = without_blanks(text).splitlines()
    for varying, same in _VARYING:
        lines = [re.sub(varying, same, line) for line in lines]
    return lines


def _shortened(printed: Sequence[str], told: Sequence[str]) -> list[str]:
    """The printed lines, cut short where those that were told are."""
    lines = []
    rest = list(printed)
    for line, following in zip_longest(told, told[1:]):
        if line != _ANYTHING:
            lines += rest[:1]
            del rest[:1]
            continue
        end = rest.index(following) if following in rest else len(rest)
        lines += [_ANYTHING] if end else []
        del rest[:end]
    return [*lines, *rest]
