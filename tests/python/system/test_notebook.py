"""examples/notebook.ipynb: run anew on the demo's lake it prints and draws what it holds, and its
slider moves.
"""

import io
from base64 import b64decode
from typing import Any, Final

import matplotlib.image
import nbformat
import numpy as np
import pytest
from support.lakes import Lake

from dbt_lakehouse.config.paths import ROOT
from tools.documents.notebook import NOTEBOOK, executed

# As a hand moves the slider: to its first place, and on to the next.
MOVED: Final = """\
slider.index = 1
first = as_of.widget.result
slider.index = 0
print(first.name, first.sum(), as_of.widget.result.name, as_of.widget.result.sum())
"""


def outputs(notebook: Any) -> list[tuple[str, str]]:
    """Kind and content of all that the cells show."""
    return [
        (kind, content)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        for kind, content in sorted(output.get("data", {"text": output.get("text")}).items())
    ]


def pixels(image: str) -> Any:
    return matplotlib.image.imread(io.BytesIO(b64decode(image)))


def test_the_notebook_holds_what_a_run_shows(demo: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in demo.environment.items():
        monkeypatch.setenv(name, value)
    run = executed([MOVED])
    (moved,) = run.cells.pop().outputs
    # The six are what docs/query.md has of that day.
    assert moved.text == "2026-10-10 7 2026-10-05 6\n"
    held = nbformat.read(NOTEBOOK, as_version=4)
    images = 0
    for (kind, content), (held_kind, held_content) in zip(outputs(run), outputs(held), strict=True):
        assert kind == held_kind
        if kind != "image/png":
            assert content == held_content
            continue
        images += 1
        drawn, kept = pixels(content), pixels(held_content)
        # Another machine may draw the edge of a letter otherwise.
        assert drawn.shape == kept.shape and np.abs(drawn - kept).mean() < 0.002
    assert images == 2
    text = NOTEBOOK.read_text()
    assert len(text) < 100_000
    assert str(ROOT) not in text and str(demo.folder) not in text
