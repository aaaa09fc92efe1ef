"""The maintenance policy of a table from its description, the work that is due by the table's own
figures, and the record of work done.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from dbt_lakehouse.declared.fold_of_log import key_of
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.tables import KEPT_FOR, Table
from dbt_lakehouse.texts import counted, did_you_mean

_HISTORY: Final = "history"
# Tables whose history only maintenance bounds.
_MATERIALIZATIONS: Final = frozenset(
    {
        *("append_only", "other_events", "change_log", "current_state", _HISTORY),
        *("state_table", "incremental"),
    }
)
# Iceberg's target size of manifests (commit.manifest.target-size-bytes).
_MANIFEST_BYTES: Final = 8 << 20
_MOST_MANIFESTS: Final = 8
CROWDED: Final = 10
"""A table with this multiple of its policy's ``min_files`` does not wait for a pause."""


class Superseded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Superseded rows: there is a greater row with the same key."""

    of: tuple[str, ...]
    """The key columns."""
    by: tuple[str, ...]
    """The columns that are compared, in this order."""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``meta.maintenance`` of a model, or of a table of the source bronze."""

    enabled: bool = True
    target_file_mb: Annotated[int, Meta(ge=1)] = 512
    """The target size of data files; files below three quarters of it are small."""
    min_files: Annotated[int, Meta(ge=2)] = 5
    """The number of small files in a partition from which on they are rewritten into large ones."""
    deleted_rows_percent: Annotated[float, Meta(ge=0, le=100)] = 10
    """A data file with this percentage of deleted rows is rewritten without them."""
    snapshot_retention_days: Annotated[float, Meta(ge=0, le=100_000)] = 7
    """Older snapshots are expired."""
    max_snapshots: Annotated[int, Meta(ge=1)] = 1_000
    """So many snapshots are kept, and those of the last hour. Each commit writes the list of all,
    and a stream commits thousands of times a day.
    """
    orphan_retention_hours: Annotated[float, Meta(ge=25, le=1_000_000)] = 26
    """Files that no snapshot names are deleted at this age."""
    sort_by: tuple[str, ...] = ()
    """The sort columns of rewritten files; empty keeps the order of their rows, or that of
    ``Candidate.order``.
    """
    superseded: Superseded | None = None
    """The rows to delete."""

    @property
    def columns(self) -> list[str]:
        """The columns that the policy names."""
        named = [] if self.superseded is None else [*self.superseded.of, *self.superseded.by]
        return [*self.sort_by, *named]

    @property
    def small_file_bytes(self) -> int:
        """The size below which a data file is small, by Iceberg's own measure."""
        return self.target_file_bytes * 3 // 4

    @property
    def target_file_bytes(self) -> int:
        """The size of data files."""
        return self.target_file_mb << 20


class Candidate(NamedTuple):
    """A table to maintain."""

    schema: str
    name: str
    model: str
    """The model or source table that it belongs to."""
    policy: Policy
    order: tuple[str, ...] = ()
    """The sort columns of rewritten files where the policy has none."""

    @property
    def table(self) -> str:
        """The table, ``schema.name``."""
        return f"{self.schema}.{self.name}"


def retention_days(variables: Mapping[str, Any]) -> float:
    """The retention of snapshots where a table's policy has none."""
    return float(variables.get("snapshot_retention_days", 7))


def candidates(manifest: Any, chosen: Sequence[str], retention_days: float) -> list[Candidate]:
    """The tables of bronze and of incremental models in dbt's manifest; if any names are
    ``chosen`` (``orders``, ``gold.orders``), only those.

    Raises ``ConfigurationError`` for an unknown name and for an invalid policy.
    """
    found = [
        Candidate(node.schema, alias, node.name, policy, _order(node, manifest.nodes))
        for node, alias in _described(manifest)
        if (policy := _policy(node, retention_days)).enabled
    ]
    if not chosen:
        return found
    known = {name for each in found for name in (each.name, each.table)}
    if unknown := [name for name in chosen if name not in known]:
        raise ConfigurationError(
            f"{', '.join(unknown)}: no table that is maintained has this name"
            f"{did_you_mean(unknown[0], known)}; such are"
            f" {', '.join(sorted(each.table for each in found))}"
        )
    return [each for each in found if {each.name, each.table} & frozenset(chosen)]


def _described(manifest: Any) -> Iterator[tuple[Any, str]]:
    """The nodes of maintained tables, each with its table's name."""
    for source in manifest.sources.values():
        if source.source_name == "bronze":
            yield source, source.identifier
    for node in manifest.nodes.values():
        if node.resource_type == "model" and node.config.materialized in _MATERIALIZATIONS:
            yield node, node.alias


def _order(node: Any, nodes: Mapping[str, Any]) -> tuple[str, ...]:
    """A history's open versions lie together, as a rebuild writes them: runs read those alone."""
    if getattr(node.config, "materialized", None) != _HISTORY:
        return ()
    logs = (nodes[name].config.meta.get("change_log") for name in node.depends_on.nodes)
    key = next((key_of(log) for log in logs if log is not None), [])
    return ("is_current", *key)


def _policy(node: Any, retention_days: float) -> Policy:
    # dbt replaces a key of meta as a whole where a project has it too, so the package keeps its
    # own policies under another key.
    own = node.config.meta.get("own_maintenance", {})
    declared = node.config.meta.get("maintenance", {})
    try:
        return msgspec.convert(
            {"snapshot_retention_days": retention_days, **own, **dict(declared)}, Policy
        )
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"meta.maintenance of {node.name}: {error}; it may have"
            f" {', '.join(Policy.__struct_fields__)}"
        ) from error


class Figures(NamedTuple):
    """Figures of a table's files."""

    data_files: int
    to_rewrite: int
    """Small files and those with deleted rows, in partitions with enough of them."""
    manifests: int
    manifest_bytes: int


def is_worth_merging(figures: Figures) -> bool:
    """Whether manifests are worth merging: there are more than a few, and twice as many as their
    total size needs.
    """
    needed = figures.manifest_bytes // _MANIFEST_BYTES + 1
    return figures.manifests > max(_MOST_MANIFESTS, 2 * needed)


def oldest_kept(table: Table, policy: Policy, now: datetime) -> datetime:
    """The moment from which on the snapshots of a table stay."""
    oldest = now - timedelta(days=policy.snapshot_retention_days)
    if len(table.chain) <= policy.max_snapshots:
        return oldest
    return max(oldest, min(table.chain[policy.max_snapshots - 1].made_at, now - KEPT_FOR))


def small_files(summary: Mapping[str, str], policy: Policy) -> int:
    """The least number of small data files in a table, by the summary of its newest commit: all
    other files together are no larger than the table.
    """
    files, size = (int(summary.get(f"total-{name}", 0)) for name in ("data-files", "files-size"))
    return max(0, files - size // policy.small_file_bytes)


def cannot_wait(table: Table, policy: Policy, now: datetime) -> bool:
    """Whether a table is to be maintained before there is a pause: it has many small files, or a
    quarter more snapshots than its policy keeps, which can go. Each commit writes the list of all
    snapshots, and each reader reads it first.
    """
    summary = table.chain[0].summary if table.chain else {}
    if small_files(summary, policy) >= CROWDED * policy.min_files:
        return True
    most = policy.max_snapshots * 5 // 4
    return len(table.chain) > most and table.chain[most].made_at < now - KEPT_FOR


class Maintained(msgspec.Struct, frozen=True, kw_only=True):
    """The maintenance of a table that was done or, in a dry run, is due."""

    table_name: str
    data_files_before: int
    data_files_after: int | None
    """None in a dry run."""
    superseded_rows: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    merged_manifests: int = 0
    expired_snapshots: int = 0
    deleted_files: int = 0
    """Files deleted with expired snapshots."""
    orphan_files: int = 0
    older_files: int = 0
    """Files of no snapshot from before the lake was begun; they stay."""
    seconds: float = 0.0

    @property
    def is_changed(self) -> bool:
        """Whether there was any work."""
        done = (self.rewritten_files, self.merged_manifests, self.expired_snapshots)
        return any((*done, self.orphan_files, self.superseded_rows))

    def json(self) -> str:
        """As JSON, for scripts."""
        return msgspec.json.encode(self).decode()

    def text(self) -> str:
        """As text."""
        is_plan = self.data_files_after is None
        what = [
            (
                self.superseded_rows,
                f"{counted(self.superseded_rows, 'row')} that a newer one replaces",
                "to delete" if is_plan else "deleted",
            ),
            (
                self.rewritten_files,
                f"{self.rewritten_files:,} of {counted(self.data_files_before, 'data file')}",
                "to rewrite" if is_plan else f"rewritten, {self.data_files_after:,} now",
            ),
            (
                self.merged_manifests,
                counted(self.merged_manifests, "manifest"),
                "to merge" if is_plan else "merged",
            ),
            (
                self.expired_snapshots,
                counted(self.expired_snapshots, "snapshot"),
                "to expire" if is_plan else f"expired with {counted(self.deleted_files, 'file')}",
            ),
            (
                self.orphan_files,
                f"{counted(self.orphan_files, 'file')} of no snapshot",
                "to delete" if is_plan else "deleted",
            ),
            (
                self.older_files,
                f"{counted(self.older_files, 'file')} from before this lake was begun",
                "left alone",
            ),
        ]
        done = ", ".join(f"{noun} {verb}" for number, noun, verb in what if number)
        return f"{self.table_name}: {done or 'nothing to do'}"
