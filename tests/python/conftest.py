"""What all tests need: the reference fold, and quiet about what isn't ours to close."""

import sys
from pathlib import Path

import pytest

# tests/reference_fold.py is dbt's too, so it lives one folder up.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def pytest_configure(config: pytest.Config) -> None:
    """Allow for py4j, which leaves its threads' sockets to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")
