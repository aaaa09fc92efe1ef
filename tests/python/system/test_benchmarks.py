"""Each benchmark measures something: what it measures by changes with the product."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dbt_lakehouse.config.paths import ROOT
from tools.benchmarks.__main__ import BENCHMARKS


# Long: a benchmark that fails fails alone, and `make bench` says which.
@pytest.mark.long
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_figures_of_few_events(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.benchmarks", name, "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--events", "2000", "--rounds", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    figures = json.loads((tmp_path / "results.json").read_text())["figures"]
    assert figures and {each["benchmark"] for each in figures} == {name}
