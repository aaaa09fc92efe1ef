"""Settings of all Python tests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Allow for what others leave to the garbage collector: py4j its sockets, dbt its log files."""
    for message in ("unclosed <socket.socket", "unclosed file <_io.TextIOWrapper name='.*dbt.log'"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}:ResourceWarning")
