"""Settings of all Python tests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Allow for py4j, which leaves its threads' sockets to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")
