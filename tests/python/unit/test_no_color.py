"""NO_COLOR in dbt's console (no-color.org)."""

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common import ui

from dbt.adapters.lakehouse.connections import terminal

RED = "\x1b[31m-\x1b[0m"


def _logger() -> Any:
    return SimpleNamespace(use_colors=True, create_line=lambda event: event.info.msg)


def _line(logger: Any, name: str) -> str:
    line: str = logger.create_line(SimpleNamespace(info=SimpleNamespace(name=name, msg=RED)))
    return line


def test_a_line_has_no_colours_if_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = _logger()
    monkeypatch.setattr(ui, "USE_COLOR", True)
    monkeypatch.setattr(terminal, "get_event_manager", lambda: SimpleNamespace(loggers=[logger]))
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal.heed_no_color()
    # As dbt colours the differences of a unit test.
    assert _line(logger, "RunResultFailure") == RED and ui.USE_COLOR

    monkeypatch.setenv("NO_COLOR", "1")
    terminal.heed_no_color()
    plain = logger.create_line
    # A command may ask an adapter more than once.
    terminal.heed_no_color()
    assert logger.create_line is plain
    assert _line(logger, "RunResultFailure") == "-"
    assert not ui.USE_COLOR and not logger.use_colors
    # Rows that a user asked for are shown as they are.
    assert _line(logger, "ShowNode") == RED
