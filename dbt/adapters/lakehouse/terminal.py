"""What dbt's own console lacks: the line of work that takes long, NO_COLOR, and that neither it nor
the log shows secrets.
"""

import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, cast

import click
from click.core import ParameterSource
from dbt.flags import get_flags
from dbt_common import ui
from dbt_common.events.event_manager_client import add_callback_to_manager, get_event_manager
from dbt_common.events.logger import PRINT_EVENT_NAMES

from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.telling import Beside, show_progress, working

# Of the logger that dbt prints with (dbt_common.events.functions.get_stdout_config).
_CONSOLE: Final = "stdout_log"
_ASKED_FOR: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def heed_no_color() -> None:
    """Turn off the colours of the dbt command at work if NO_COLOR says so (no-color.org), unless
    it was started with `--use-colors` or DBT_USE_COLORS. dbt knows nothing of NO_COLOR.
    """
    if not os.environ.get("NO_COLOR") or _is_asked_for("use_colors"):
        return
    # Of unit tests' differences, of texts, and of what stands in front of each line.
    # dbt's has no annotations.
    flags: Any = cast(Any, get_flags)()
    for name in ("USE_COLORS", "use_colors"):
        object.__setattr__(flags, name, False)
    ui.USE_COLOR = False
    for logger in get_event_manager().loggers:
        if hasattr(logger, "use_colors"):
            logger.use_colors = False


def hide_secrets() -> None:
    """Have dbt's console and log, of text or JSON, show none that a message of whomever repeats,
    tracebacks among them. What the user asks to see, rows and compiled SQL, is shown as it is.
    """
    # A method of theirs is replaced.
    for logger in cast(list[Any], get_event_manager().loggers):
        if not isinstance(logger.create_line, _WithoutSecrets):
            logger.create_line = _WithoutSecrets(logger.create_line)


class _WithoutSecrets:
    """What makes a logger's line of an event, without secrets."""

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
    """The line of what a dbt command is at: each model, test and so on that takes long. Its own
    lines take that line's place.
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
        """Take the line away: dbt says nothing of the end of what was interrupted."""
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
