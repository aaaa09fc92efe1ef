"""What the command writes: the pictures, and their words in the page that shows them."""

import re
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import ROOT
from tools.pictures.cases import CASES
from tools.pictures.drawing import picture, words

FOLDER: Final = ROOT / "docs" / "pictures"
PAGE: Final = FOLDER.parent / "current-state.md"


def files() -> dict[Path, str]:
    """All files, and what they must hold."""
    page = PAGE.read_text()
    for case in CASES:
        image = rf"!\[[^\]]*\]\(pictures/{case.name}\.svg\)"
        page = re.sub(image, f"![{words(case)}](pictures/{case.name}.svg)", page)
    return {FOLDER / f"{case.name}.svg": picture(case) for case in CASES} | {PAGE: page}
