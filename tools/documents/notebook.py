"""`make notebook`: examples/notebook.ipynb run anew on the demo's lake, its plots kept in it."""

import os
from collections.abc import Sequence
from typing import Any, Final

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

from dbt_lakehouse.config.paths import CACHE, ROOT

NOTEBOOK: Final = ROOT / "examples" / "notebook.ipynb"
# Of a cell; it takes one or two.
_SECONDS: Final = 90
_WIDGET: Final = "application/vnd.jupyter.widget-view+json"


def executed(more: Sequence[str] = ()) -> Any:
    """The notebook after a run in a kernel of its own, with cells of code behind its own."""
    # Else Jupyter, IPython and Matplotlib write to the user's home.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "MPLCONFIGDIR"):
        os.environ.setdefault(name, str(CACHE / "jupyter"))
    os.environ.setdefault("JUPYTER_RUNTIME_DIR", str(CACHE / "jupyter" / "runtime"))
    try:
        notebook = _run(more)
    except CellTimeoutError:
        # At times nbclient waits forever for a reply of a kernel that has nothing to do
        # (jupyter/nbclient#312).
        notebook = _run(more)
    # What differs from run to run stays out of the file, also widgets: no page that shows the file
    # could move them.
    for name in ("language_info", "widgets"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if _WIDGET not in each.get("data", {})]
    return notebook


def _run(more: Sequence[str]) -> Any:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(code) for code in more]
    NotebookClient(
        notebook,
        timeout=_SECONDS,
        kernel_name="python3",
        # It would say that other users of this machine could listen.
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    ).execute()
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
