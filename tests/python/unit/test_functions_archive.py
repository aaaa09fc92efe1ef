"""The archive of our packages for the workers of a cluster."""

import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from dbt_lakehouse.config import paths
from dbt_lakehouse.spark.functions_archive import functions_archive


def test_threads_of_a_process_write_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    threads = 6
    at_once = Barrier(threads)

    def archive(_: int) -> Path:
        at_once.wait()
        return functions_archive()

    with ThreadPoolExecutor(threads) as pool:
        (written,) = set(pool.map(archive, range(threads)))
    with zipfile.ZipFile(written) as held:
        assert held.testzip() is None
        assert "python_udfs/registry.py" in held.namelist()
    assert [*written.parent.iterdir()] == [written]
