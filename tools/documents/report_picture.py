"""`make report-picture`: pictures of a run's report, of the demo landed in ten bites, and of dbt's
documentation.

Needs Chromium. The lake is one of its own, in .cache.
"""

import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image

from dbt_lakehouse.commands.docs import write_docs
from dbt_lakehouse.commands.report import report
from dbt_lakehouse.config.paths import ROOT, cache_folder
from dbt_lakehouse.session.profile import find
from dbt_lakehouse.session.project import ProjectOptions, load
from tools.documents.browser import Browser, find_browser


class Shot(NamedTuple):
    """A picture: what is drawn, in which window."""

    name: str
    width: int
    height: int
    dark: bool
    place: str = ""
    """What follows the address of the page."""
    drawn: str = "true"
    """JavaScript that is true once it is there."""


PICTURES: Final = ROOT / "docs"
_ORDERS: Final = "#!/model/model.cdc_lakehouse.orders"
_TABLE: Final = "document.querySelectorAll('table tr').length > 3"
REPORT: Final = (
    Shot("report", 1420, 1010, dark=False),
    Shot("report-dark", 1420, 1010, dark=True),
    Shot("report-narrow", 390, 844, dark=False),
)
DOCS: Final = (Shot("dbt-docs", 1280, 860, dark=False, place=_ORDERS, drawn=_TABLE),)
_RUNS: Final = 10
_AS_OF: Final = "2026-11-21 00:00:00"
_COLOURS: Final = 96


def bites() -> list[str]:
    """The demo's captures by time, in so many parts as there are runs."""
    lines = [
        line
        for capture in sorted((ROOT / "seeds").glob("*.jsonl"))
        for line in capture.read_text().splitlines(keepends=True)
    ]
    lines.sort(key=lambda line: json.loads(line)["timestamp_ms"])
    ends = [len(lines) * number // _RUNS for number in range(_RUNS + 1)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(ends)]


def build(folder: Path) -> None:
    """Land and build one bite after the other."""
    from dbt.cli.main import dbtRunner

    os.environ |= {
        "LAKEHOUSE_LAKE": str(folder / "lake"),
        "LAKEHOUSE_SMALL": "true",
        "DBT_TARGET_PATH": str(folder / "target"),
        "DBT_LOG_PATH": str(folder / "logs"),
    }
    variables = json.dumps({"captures": [str(folder / "*.jsonl")], "as_of": _AS_OF})
    for number, lines in enumerate(bites()):
        (folder / f"{number}.jsonl").write_text(lines)
        # Of the last one's tests the page tells.
        command = ["build", "--exclude-resource-type", "unit_test"]
        if number < _RUNS - 1:
            command = ["run"]
        done = dbtRunner().invoke(["--quiet", *command, "--vars", variables])
        if not done.success:
            sys.exit(f"run {number} failed: {done.exception or folder / 'logs'}")


def pages() -> tuple[Path, Path]:
    """The report of the last run, which leads to dbt's documentation, and that."""
    options = ProjectOptions(vars=json.dumps({"captures": [], "as_of": _AS_OF}))
    docs = write_docs(load(options))
    return report(find(options), None)[1], docs


def photograph(browser: Browser, shot: Shot, page: Path) -> None:
    """Have a browser draw a page."""
    picture = PICTURES / f"{shot.name}.png"
    browser.look(shot.width, shot.height, dark=shot.dark)
    browser.open(page.as_uri() + shot.place, shot.drawn)
    browser.photograph(picture)
    # A third of the size, and nobody sees it.
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(_COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    if find_browser() is None:
        sys.exit("no Chromium is here; on Debian `apt-get install chromium` brings it")
    work = cache_folder("report-picture")
    shutil.rmtree(work)
    work.mkdir()
    build(work)
    left, docs = pages()
    with Browser() as browser:
        for shot in REPORT:
            photograph(browser, shot, left)
        for shot in DOCS:
            photograph(browser, shot, docs)
