"""`lakehouse report`, and the report of a dbt run: the page of ``dbt_lakehouse.report``."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from dbt_lakehouse.errors import ConfigurationError, LakehouseError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.landing.lags import hour_file, last_hour
from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.report.facts import Facts, of_runs
from dbt_lakehouse.report.gather import gather
from dbt_lakehouse.report.page import write_page
from dbt_lakehouse.report.runs import RUNS_KEPT, RUNS_SHOWN, Run, keep, kept
from dbt_lakehouse.session.profile import Place
from dbt_lakehouse.session.project import Project, target_folder

_PAGE: Final = "report.html"


def leave(run: Run, project: Project, target: Path) -> Path:
    """Store a run that has ended, and write its page. Returns the page's path. If a lake can't be
    read without Spark, or a bug of ours raises, the page has dbt's results only: an earlier run's
    page never stays.
    """
    path = target / _PAGE
    try:
        keep(target, run)
        runs = kept(target, project.gold)
        now = datetime.now(UTC)
        try:
            facts = gather(project.reader(sparing=True), project.gold, project.silver, runs, now)
            facts.built = last_hour(hour_file(target, project.settings, project.gold), now)
        except Exception as error:
            facts = of_runs(runs, now)
            facts.trouble = told(error)
        write_page(facts, path, target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def told(error: Exception) -> str:
    """The message about a lake that could not be read for a page."""
    if isinstance(error, LakehouseError):
        return str(error)
    return without_secrets(f"{type(error).__name__} of its report, a mistake of ours: {error}")


def report(
    place: Place,
    output: Path | None,
    span: timedelta | None = None,
    *,
    show_payloads: bool = False,
) -> tuple[Facts, Path]:
    """Write the page of the newest run, or of all runs in a span until now, from the current
    lake. Returns its facts and its path.

    Raises ``ConfigurationError`` if there is no lake, or it is empty, and the errors of reading
    and writing.
    """
    reader = Reader(place.settings, place.gold, sparing=True)
    target = target_folder(place.root)
    runs = kept(target, place.gold, RUNS_SHOWN if span is None else RUNS_KEPT)
    now = datetime.now(UTC)
    facts = gather(
        reader,
        place.gold,
        place.silver,
        runs,
        now,
        None if span is None else now - span,
        show_payloads=show_payloads,
    )
    facts.project = place.project
    facts.built = last_hour(hour_file(target, place.settings, place.gold), now)
    if not runs and not facts.gold and not facts.others:
        raise ConfigurationError("there is nothing to report yet: `dbt build` makes the tables")
    path = output or target / _PAGE
    if output is not None and not output.absolute().parent.is_dir():
        raise ConfigurationError(f"{output} can't be written: there is no folder {output.parent}")
    write_page(facts, path, target)
    return facts, path
