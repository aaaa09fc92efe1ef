"""Additions to dbt's console: a line for work that takes long, NO_COLOR, and hidden secrets, in
dbt's log too.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, cast

import click
from click.core import ParameterSource
from dbt_common import ui
from dbt_common.events.event_manager_client import add_callback_to_manager, get_event_manager
from dbt_common.events.logger import PRINT_EVENT_NAMES

from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.telling import Beside, show_progress, working

# The name of dbt's logger for the console (dbt_common.events.functions.get_stdout_config).
_CONSOLE: Final = "stdout_log"
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ASKED_FOR: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def heed_no_color() -> None:
    """Turn off the colours of the current dbt command if NO_COLOR says so (no-color.org), unless
    it was started with `--use-colors` or DBT_USE_COLORS. dbt does not know NO_COLOR.
    """
    if not os.environ.get("NO_COLOR") or _is_asked_for("use_colors"):
        return
    # The colours of texts.
    ui.USE_COLOR = False
    for logger in cast(list[Any], get_event_manager().loggers):
        if getattr(logger, "use_colors", False):
            # The colours of the line prefix.
            logger.use_colors = False
            logger.create_line = _WithoutColors(logger.create_line)


def hide_secrets() -> None:
    """Hide secrets in dbt's console and log, as text or JSON, including tracebacks. Output that
    the user requests, rows and compiled SQL, is shown as it is.
    """
    # It replaces a method of dbt's loggers.
    for logger in cast(list[Any], get_event_manager().loggers):
        if not isinstance(logger.create_line, _WithoutSecrets):
            logger.create_line = _WithoutSecrets(logger.create_line)


class _WithoutColors:
    """Makes a logger's line of an event, without colours. dbt colours the differences of unit tests
    by its flags, which are frozen by the time that it asks an adapter.
    """

    def __init__(self, create_line: Callable[[Any], str]) -> None:
        self._create_line: Final = create_line

    def __call__(self, event: Any) -> str:
        line = self._create_line(event)
        return line if event.info.name in PRINT_EVENT_NAMES else _COLOR.sub("", line)


class _WithoutSecrets:
    """Makes a logger's line of an event, without secrets."""

    def __init__(self, create_line: Callable[[Any], str]) -> None:
        self._create_line: Final = create_line

    def __call__(self, event: Any) -> str:
        line = self._create_line(event)
        if event.info.name in PRINT_EVENT_NAMES:
            return line
        if not line.startswith("{"):
            return without_secrets(line)
        return json.dumps(_hidden_in(json.loads(line)), sort_keys=True)


def _hidden_in(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: _hidden_in(each) for name, each in value.items()}
    return [_hidden_in(each) for each in value] if isinstance(value, list) else value


def _is_asked_for(option: str) -> bool:
    context = click.get_current_context(silent=True)
    while context is not None:
        if context.get_parameter_source(option) in _ASKED_FOR:
            return True
        context = context.parent
    return False


class RunningNodes:
    """The line of a dbt command's current work: each model, test and so on that takes long. dbt's
    own lines replace it.
    """

    def __init__(self, flags: Any, how_far: Callable[[], str]) -> None:
        self._how_far: Final = how_far
        self._running: Final[dict[str, ExitStack]] = {}
        show_progress(not flags.QUIET and flags.LOG_FORMAT != "json")
        for handler in logging.getLogger(_CONSOLE).handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
                handler.setStream(Beside(handler.stream))
        # dbt forgets it when the next command begins.
        add_callback_to_manager(self._heed)

    def clear(self) -> None:
        """Remove the line: dbt does not report the end of interrupted work."""
        for each in [*self._running.values()]:
            each.close()
        self._running.clear()

    def _heed(self, event: Any) -> None:
        if event.info.name == "NodeStart":
            node = event.data.node_info
            running = self._running.setdefault(node.unique_id, ExitStack())
            running.enter_context(working(_label(node), self._how_far))
        elif event.info.name == "NodeFinished":
            self._running.pop(event.data.node_info.unique_id, ExitStack()).close()


def _label(node: Any) -> str:
    relation = node.node_relation
    if node.resource_type == "model" and relation.alias:
        return f"{relation.schema}.{relation.alias}"
    return f"{node.resource_type.replace('_', ' ')} {node.node_name}"
