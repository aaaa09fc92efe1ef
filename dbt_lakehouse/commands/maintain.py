"""`lakehouse maintain`: the work of `dbt run-operation maintain_tables`, reported and recorded."""

from collections.abc import Iterator, Sequence

from dbt_lakehouse.lake.locks import run_lock
from dbt_lakehouse.maintenance.policy import Maintained, candidates, retention_days
from dbt_lakehouse.maintenance.run import maintain as maintain_tables
from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.session.project import Project, lock_patience


def maintain(project: Project, names: Sequence[str], *, dry_run: bool) -> Iterator[Maintained]:
    """Maintain the tables of these names, or all, and yield each result; a dry run only looks.

    Waits for a dbt command that builds. Raises ``ConfigurationError`` before anything is done.
    """
    manifest = read_manifest(project)
    tables = candidates(manifest, names, retention_days(project.variables))
    project.require_lake()
    if not dry_run:
        project.refuse_readers()
    spark = project.open_session()
    if dry_run:
        yield from maintain_tables(spark, tables, dry_run=True)
        return
    with run_lock(spark).held("lakehouse maintain", lock_patience(project.variables)):
        yield from maintain_tables(spark, tables, dry_run=False)
