"""The last cycles of `lakehouse stream --build`, stored like runs, for its live page."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.report.runs import CYCLES, RUNS_SHOWN, Run, keep, nodes_of
from dbt_lakehouse.session.project import Project, target_folder

# dbt's command, and the command that runs it.
_COMMAND: Final = "{}, by stream --build"


class KeptCycles:
    """The cycles of a stream. ``tell`` takes a message for the user."""

    def __init__(self, command: str, tell: Callable[[str], None]) -> None:
        self._command: Final = _COMMAND.format(command)
        self._tell: Final = tell
        self._told = ""

    def keep(
        self,
        project: Project,
        began: datetime,
        results: Sequence[Any],
        landed: Sequence[str] = (),
        troubles: Sequence[str] = (),
        error: str | None = None,
    ) -> None:
        """Store a cycle that has ended: dbt's results, the landing's messages, topics that could
        not be landed, and an error that ended it before there were results. A failure to store it
        is reported, once if it repeats: gold has its rows anyway.
        """
        try:
            run = Run(
                invocation_id=f"{began:%H%M%S%f}",
                command=self._command,
                target=project.options.target or "",
                gold=project.gold,
                started_at=began,
                ended_at=datetime.now(UTC),
                nodes=nodes_of(results, project.name, lambda _: None),
                landed=[*landed],
                troubles=[*troubles],
                error=None if error is None else without_secrets(error),
                project=project.name,
            )
            keep(target_folder(project.root), run, CYCLES, RUNS_SHOWN)
        except Exception as failure:
            sentence = f"the cycle can't be noted: {failure}"
            if sentence != self._told:
                self._told = sentence
                self._tell(sentence)
