"""Maintenance of tables: the work that ``policy`` finds due, done by Iceberg's procedures.

Rows stay the same, with the sequence numbers of the commits that wrote them. By those, readers
that have not read everything, or whose last snapshot is gone, go on (``marks``). Each step can be
repeated; running readers keep the snapshot that they began with, and files of running writers are
too young to be deleted.
"""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import SparkSession

from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.tables import NO_SNAPSHOT, Table
from dbt_lakehouse.maintenance import orphans
from dbt_lakehouse.maintenance.policy import (
    Candidate,
    Figures,
    Maintained,
    Policy,
    Superseded,
    is_worth_merging,
    oldest_kept,
)
from dbt_lakehouse.runs import commits, tables
from dbt_lakehouse.spark.jvm import java_class
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import sql_text, sql_texts

TABLE: Final = f"{CATALOG}.bronze.maintained"
# Properties that the profile gives to new tables: of metadata files, each a list of all snapshots,
# only the newest ones stay, and a commit merges small manifests.
_LEAN: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest.min-count-to-merge": "8",
}
# Iceberg's format version with deletion vectors; before, delete files name rows by file and
# position.
_VECTORS_SINCE: Final = 3


def maintain(
    spark: SparkSession, candidates: Sequence[Candidate], *, dry_run: bool
) -> Iterator[Maintained]:
    """Maintain the tables that exist and have rows, and yield each result when it is done; at the
    end all results are written to ``bronze.maintained``. A dry run only looks. Raises
    ``ConfigurationError``.
    """
    done = []
    for number, each in enumerate(candidates, 1):
        with working(f"{each.table}, table {number} of {len(candidates)}", tasks_of(spark)):
            work = _looked(spark, each) if dry_run else maintain_table(spark, each)
        if work is not None:
            done.append(work)
            yield work
    if not dry_run:
        keep(spark, done)


def maintain_table(
    spark: SparkSession, candidate: Candidate, *, with_orphans: bool = True
) -> Maintained | None:
    """The result of maintaining a table; None if it does not exist or has no rows. To find orphan
    files, its whole folder is listed. Raises ``ConfigurationError``.
    """
    table = _table(spark, candidate)
    if table is None:
        return None
    return _maintained(spark, candidate, table, with_orphans=with_orphans)


def _table(spark: SparkSession, candidate: Candidate) -> Table | None:
    table = tables.look_at(spark, candidate.table)
    if table is None or table.snapshot == NO_SNAPSHOT:
        return None
    _refuse_unknown(spark, candidate.table, candidate.policy)
    return table


def _looked(spark: SparkSession, candidate: Candidate) -> Maintained | None:
    table, name, policy = _table(spark, candidate), candidate.table, candidate.policy
    if table is None:
        return None
    figures = _figures(spark, name, table, policy)
    unnamed, older = _delete_orphans(spark, name, policy, dry_run=True)
    return Maintained(
        table_name=name,
        data_files_before=figures.data_files,
        data_files_after=None,
        superseded_rows=_superseded(spark, name, policy),
        rewritten_files=figures.to_rewrite,
        merged_manifests=figures.manifests if is_worth_merging(figures) else 0,
        expired_snapshots=_expiring(table, oldest_kept(table, policy, datetime.now(UTC))),
        orphan_files=unnamed,
        older_files=older,
    )


def _maintained(
    spark: SparkSession, candidate: Candidate, table: Table, *, with_orphans: bool
) -> Maintained:
    started, name, policy = time.monotonic(), candidate.table, candidate.policy
    superseded = _superseded(spark, name, policy)
    if superseded:
        _delete_superseded(spark, name, policy)
        table = _known(spark, name)
    figures = _figures(spark, name, table, policy)
    rewritten_files = rewritten_bytes = merged = expired = deleted = 0
    if figures.to_rewrite:
        options = {
            "target-file-size-bytes": policy.target_file_bytes,
            "min-input-files": policy.min_files,
            "delete-ratio-threshold": max(policy.deleted_rows_percent / 100, 1e-9),
            "remove-dangling-deletes": "true",
        }
        given = sql_texts(str(text) for option in options.items() for text in option)
        rewritten = _call(
            spark,
            "rewrite_data_files",
            name,
            f"options => map({given})",
            *_sorting(spark, candidate),
        )
        rewritten_files = rewritten["rewritten_data_files_count"]
        rewritten_bytes = rewritten["rewritten_bytes_count"]
    if is_worth_merging(figures):
        merged = _call(spark, "rewrite_manifests", name)["rewritten_manifests_count"]
    given_since = dict(_LEAN)
    if f"{CATALOG}.{name}" == bronze.TABLE:
        given_since |= bronze.FILES
    if missing := {key: given_since[key] for key in given_since.keys() - table.properties.keys()}:
        tables.set_properties(spark, name, missing)
    table = _known(spark, name)
    oldest = oldest_kept(table, policy, datetime.now(UTC))
    if _expiring(table, oldest):
        # Notes in earlier commits, and properties tied to them, would be lost.
        commits.carry_on(spark, name)
        before = _known(spark, name)
        counts = _call(spark, "expire_snapshots", name, f"older_than => {_sql(oldest)}")
        expired = _snapshots(before) - _snapshots(_known(spark, name))
        deleted = sum(count or 0 for count in counts.asDict().values())
    unnamed = older = 0
    if with_orphans:
        unnamed, older = _delete_orphans(spark, name, policy, dry_run=False)
    return Maintained(
        table_name=name,
        data_files_before=figures.data_files,
        data_files_after=_data_files(_known(spark, name)),
        superseded_rows=superseded,
        rewritten_files=rewritten_files,
        rewritten_bytes=rewritten_bytes,
        merged_manifests=merged,
        expired_snapshots=expired,
        deleted_files=deleted,
        orphan_files=unnamed,
        older_files=older,
        seconds=round(time.monotonic() - started, 3),
    )


def _superseded(spark: SparkSession, name: str, policy: Policy) -> int:
    """The number of superseded rows."""
    if policy.superseded is None:
        return 0
    query = f"""
        select count(*) as rows
        from {name} as target
        join ({_newest(name, policy.superseded)}) as source on {_is_superseded(policy.superseded)}
    """
    return int(spark.sql(query).collect()[0]["rows"])


def _delete_superseded(spark: SparkSession, name: str, policy: Policy) -> None:
    assert policy.superseded is not None
    spark.sql(
        f"""
        merge into {name} as target
        using ({_newest(name, policy.superseded)}) as source
        on {_is_superseded(policy.superseded)}
        when matched then delete
        """
    )


def _newest(name: str, superseded: Superseded) -> str:
    """SQL of the greatest row of each key with several rows."""
    key, by = (", ".join(quoted(columns)) for columns in (superseded.of, superseded.by))
    return f"select {key}, max(struct({by})) as newest from {name} group by all having count(*) > 1"


def _is_superseded(superseded: Superseded) -> str:
    same = [f"target.{column} = source.{column}" for column in quoted(superseded.of)]
    by = ", ".join(f"target.{column}" for column in quoted(superseded.by))
    return " and ".join([*same, f"struct({by}) < source.newest"])


def _sorting(spark: SparkSession, candidate: Candidate) -> list[str]:
    """The arguments of the rewrite procedure for the order of rows."""
    columns = candidate.policy.sort_by
    if not columns:
        # A table may be from before what is declared now.
        known = frozenset(spark.table(candidate.table).columns if candidate.order else ())
        columns = candidate.order if known.issuperset(candidate.order) else ()
    if not columns:
        return []
    order = ", ".join(quoted(columns))
    return ["strategy => 'sort'", f"sort_order => {sql_text(order)}"]


def _refuse_unknown(spark: SparkSession, name: str, policy: Policy) -> None:
    columns = spark.table(name).columns if policy.columns else []
    if unknown := [column for column in policy.columns if column not in columns]:
        raise ConfigurationError(
            f"meta.maintenance of {name} names {', '.join(unknown)}, which it has not; its columns"
            f" are {', '.join(columns)}"
        )


def _figures(spark: SparkSession, name: str, table: Table, policy: Policy) -> Figures:
    loaded = tables.load(spark, name)
    manifests = list(loaded.currentSnapshot().allManifests(loaded.io()))
    sizes = [manifest.length() for manifest in manifests]
    files = _data_files(table)
    to_rewrite = 0
    # The newest commit has their number: most tables have nothing to look for.
    if files >= policy.min_files or int(table.chain[0].summary.get("total-delete-files", 1)):
        place = "partition" if loaded.spec().isPartitioned() else "spec_id"
        row = spark.sql(
            f"""
            with deleted as ({_deleted_rows(name, loaded)}), files as (
                select
                    files.{place} as place,
                    files.file_size_in_bytes < {policy.small_file_bytes} as is_small,
                    coalesce(
                        deleted.rows * 100 >= {policy.deleted_rows_percent} * files.record_count,
                        false
                    ) as is_thinned
                from {CATALOG}.{name}.data_files as files
                left join deleted using (file_path)
            ), places as (
                select count(*) as files
                from files
                where is_small or is_thinned
                group by place
                having count_if(is_small) >= {policy.min_files} or bool_or(is_thinned)
            )
            select sum(files) as files from places
            """
        ).collect()[0]
        to_rewrite = row["files"] or 0
    return Figures(files, to_rewrite, len(sizes), sum(sizes))


def _deleted_rows(name: str, loaded: Any) -> str:
    """SQL of the number of deleted rows in each data file."""
    if java_class("org.apache.iceberg.TableUtil").formatVersion(loaded) < _VECTORS_SINCE:
        return f"""
            select file_path, count(*) as rows
            from {CATALOG}.{name}.position_deletes
            group by 1
        """
    # A deletion vector names its file and the number of its rows.
    return f"""
        select referenced_data_file as file_path, sum(record_count) as rows
        from {CATALOG}.{name}.delete_files
        group by 1
    """


def _delete_orphans(
    spark: SparkSession, name: str, policy: Policy, *, dry_run: bool
) -> tuple[int, int]:
    """Delete the files that no snapshot names, except in a dry run. Returns their number, and the
    number of files that belong to another lake and stay.
    """
    found = orphans.find(spark, name, _ago(hours=policy.orphan_retention_hours))
    if not dry_run:
        orphans.delete(spark, name, found.ours)
    return len(found.ours), len(found.older)


def _call(spark: SparkSession, procedure: str, name: str, *arguments: str) -> Any:
    given = ", ".join([f"table => {sql_text(name)}", *arguments])
    return spark.sql(f"call {CATALOG}.system.{procedure}({given})").collect()[0]


def _known(spark: SparkSession, name: str) -> Table:
    table = tables.look_at(spark, name)
    assert table is not None
    return table


def _data_files(table: Table) -> int:
    return int(table.chain[0].summary.get("total-data-files", 0))


def _snapshots(table: Table) -> int:
    return len(table.chain) + len(table.others)


def _expiring(table: Table, oldest: datetime) -> int:
    """The number of snapshots from before a moment, without the current one."""
    return sum(1 for each in table.chain[1:] if each.made_at < oldest)


def _ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


def _sql(moment: datetime) -> str:
    return f"timestamp '{moment:%F %T.%f}'"


def keep(spark: SparkSession, done: Sequence[Maintained]) -> None:
    """Record the maintenance in ``bronze.maintained``."""
    if not done:
        return
    spark.sql(
        f"""
        create table if not exists {TABLE} (
            maintained_at timestamp not null comment 'when it was done',
            table_name string not null comment 'schema and name of the table',
            data_files_before bigint not null comment 'its data files before',
            data_files_after bigint not null comment 'and afterwards',
            rewritten_files bigint not null comment 'data files that were rewritten',
            rewritten_bytes bigint not null comment 'their size',
            merged_manifests bigint not null comment 'lists of files that were merged',
            expired_snapshots bigint not null comment 'snapshots that went',
            deleted_files bigint not null comment 'files that went with them',
            orphan_files bigint not null comment 'files of no snapshot that were deleted',
            seconds double not null comment 'what it took'
        )
        using iceberg
        comment 'One row per table and maintenance call, with its results'
        """
    )
    rows = ", ".join(
        f"(current_timestamp(), {sql_text(each.table_name)}, {each.data_files_before},"
        f" {each.data_files_after}, {each.rewritten_files}, {each.rewritten_bytes},"
        f" {each.merged_manifests}, {each.expired_snapshots}, {each.deleted_files},"
        f" {each.orphan_files}, double({each.seconds}))"
        for each in done
    )
    spark.sql(f"insert into {TABLE} values {rows}")
