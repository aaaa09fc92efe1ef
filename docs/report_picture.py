"""`make report-picture`: README's picture of a run's report, of the demo landed in ten bites.

Needs Chromium. The lake is one of its own, in .cache.
"""

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

from PIL import Image

from dbt_lakehouse.config.paths import ROOT, cache_folder

PICTURE: Final = Path(__file__).with_name("report.png")
_RUNS: Final = 10
_AS_OF: Final = "2026-11-21 00:00:00"
_SIZE: Final = "1420,1010"
_COLOURS: Final = 96
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


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


def build(folder: Path) -> Path:
    """Land and build one bite after the other; the page of the last run."""
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
        command = ["--quiet", "build", "--exclude-resource-type", "unit_test", "--vars", variables]
        done = dbtRunner().invoke(command)
        if not done.success:
            sys.exit(f"run {number} failed: {done.exception or folder / 'logs'}")
    return folder / "target" / "report.html"


def photograph(page: Path, picture: Path, size: str = _SIZE) -> None:
    """Have a browser draw a page."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        sys.exit(f"none of these browsers is there: {', '.join(_BROWSERS)}")
    options = ("--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}")
    subprocess.run(
        [browser, *options, f"--screenshot={picture}", page.as_uri()],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    # A third of the size, and nobody sees it.
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(_COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    work = cache_folder("report-picture")
    shutil.rmtree(work)
    work.mkdir()
    photograph(build(work), PICTURE)
