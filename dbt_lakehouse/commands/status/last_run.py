"""What the last dbt command has left of itself."""

import json
from pathlib import Path
from typing import Final

from dbt_lakehouse.commands.status.facts import Run

_FAILURES: Final = frozenset({"error", "fail", "runtime error"})
# Others leave results too, and of those the lake's state is none.
_RUNS: Final = frozenset({"run", "build", "test", "retry"})


def read_run(target: Path) -> Run | None:
    """What dbt has left in its target folder of the last command; None if nothing."""
    try:
        written = json.loads((target / "run_results.json").read_bytes())
        if written["args"]["which"] not in _RUNS:
            return None
        results = {each["unique_id"]: each for each in written["results"]}
        failed = sorted(name for name, each in results.items() if each["status"] in _FAILURES)
        return Run(
            command=f"dbt {written['args']['which']}",
            ended_at=written["metadata"]["generated_at"],
            is_failed=bool(failed),
            failed=failed,
            statuses={
                relation.replace("`", ""): str(each["status"])
                for each in results.values()
                if (relation := each.get("relation_name"))
                and each["unique_id"].startswith("model.")
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # None has run here, or one is at work on it.
        return None
