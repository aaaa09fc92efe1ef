"""The results of the last dbt command."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dbt_lakehouse.commands.status.facts import Run
from dbt_lakehouse.report.runs import INTERRUPTED, kept

_FAILURES: Final = frozenset({"error", "fail", "runtime error"})
# Other commands leave results too, which don't concern the lake.
_RUNS: Final = frozenset({"run", "build", "test", "retry"})


def read_run(target: Path, gold: str) -> Run | None:
    """The last command's results in dbt's target folder; None without any.

    A command that ends before its models, as a landing on a full disk does, leaves no results of
    dbt: then the report of the run, for the same gold, tells of it.
    """
    run, invocation = _results(target)
    reported = next(iter(kept(target, gold, 1)), None)
    if reported is None or reported.error is None:
        return run
    is_interrupted = reported.error == INTERRUPTED
    if is_interrupted and run is not None and invocation == reported.invocation_id:
        # Models that had failed before count.
        return replace(run, is_interrupted=True)
    if run is not None and datetime.fromisoformat(run.ended_at) >= reported.ended_at:
        return run
    return Run(
        command=f"dbt {reported.command}",
        ended_at=_in_seconds(reported.ended_at),
        is_failed=not is_interrupted,
        error=None if is_interrupted else " ".join(reported.error.split()),
        is_interrupted=is_interrupted,
    )


def _results(target: Path) -> tuple[Run | None, str | None]:
    """The results of dbt's last command, and its invocation id."""
    try:
        written = json.loads((target / "run_results.json").read_bytes())
        if written["args"]["which"] not in _RUNS:
            return None, None
        results = {each["unique_id"]: each for each in written["results"]}
        failed = sorted(name for name, each in results.items() if each["status"] in _FAILURES)
        run = Run(
            command=f"dbt {written['args']['which']}",
            ended_at=_in_seconds(datetime.fromisoformat(written["metadata"]["generated_at"])),
            is_failed=bool(failed),
            failed=failed,
            statuses={
                relation.replace("`", ""): str(each["status"])
                for each in results.values()
                if (relation := each.get("relation_name"))
                and each["unique_id"].startswith("model.")
            },
        )
        return run, written["metadata"].get("invocation_id")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # No command has run here, or one is writing it.
        return None, None


def _in_seconds(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%FT%TZ}"
