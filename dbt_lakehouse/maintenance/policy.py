"""What maintenance does to a table: the policy that its description declares, what of it there is
to do by the table's own figures, and what was done.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.texts import counted, did_you_mean

# Tables that keep a history which only maintenance bounds.
_MATERIALIZATIONS: Final = frozenset(
    {
        *("append_only", "other_events", "change_log", "current_state", "history"),
        *("state_table", "incremental"),
    }
)
# What Iceberg makes manifests of (its commit.manifest.target-size-bytes).
_MANIFEST_BYTES: Final = 8 << 20
_MOST_MANIFESTS: Final = 8


class Superseded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that count no more, since there is a greater one of the same key."""

    of: tuple[str, ...]
    """The columns of the key."""
    by: tuple[str, ...]
    """The columns that are compared, in this order."""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``meta.maintenance`` of a model, or of a table of the source bronze."""

    enabled: bool = True
    target_file_mb: Annotated[int, Meta(ge=1)] = 512
    """The size of data files; those below three quarters of it are small."""
    min_files: Annotated[int, Meta(ge=2)] = 5
    """From so many small files in a partition on, they become large ones."""
    deleted_rows_percent: Annotated[float, Meta(ge=0, le=100)] = 10
    """A data file of whose rows so many are deleted is rewritten without them."""
    snapshot_retention_days: Annotated[float, Meta(ge=0, le=100_000)] = 7
    """Older snapshots go."""
    orphan_retention_hours: Annotated[float, Meta(ge=25, le=1_000_000)] = 26
    """Files that no snapshot names go when they are so old."""
    sort_by: tuple[str, ...] = ()
    """Columns by which the rows of rewritten files are sorted; none leaves them in their order."""
    superseded: Superseded | None = None
    """Which rows are deleted."""

    @property
    def columns(self) -> list[str]:
        """The columns that it names."""
        named = [] if self.superseded is None else [*self.superseded.of, *self.superseded.by]
        return [*self.sort_by, *named]

    @property
    def small_file_bytes(self) -> int:
        """Below it a data file is small, by Iceberg's own measure."""
        return self.target_file_bytes * 3 // 4

    @property
    def target_file_bytes(self) -> int:
        """The size of data files."""
        return self.target_file_mb << 20


class Candidate(NamedTuple):
    """A table that is maintained."""

    schema: str
    name: str
    model: str
    """The model or source table that it is of."""
    policy: Policy

    @property
    def table(self) -> str:
        """The table, ``schema.name``."""
        return f"{self.schema}.{self.name}"


def retention_days(variables: Mapping[str, Any]) -> float:
    """How long snapshots are kept, where a table's policy says nothing else."""
    return float(variables.get("snapshot_retention_days", 7))


def candidates(manifest: Any, chosen: Sequence[str], retention_days: float) -> list[Candidate]:
    """The tables of bronze and of incremental models in dbt's manifest; of those, where any are
    ``chosen``, by their names (``orders``, ``gold.orders``), those alone.

    Raises ``ConfigurationError`` for an unknown name and for a policy that can't be meant.
    """
    found = [
        Candidate(node.schema, alias, node.name, policy)
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
    """Their nodes, each with its table's name."""
    for source in manifest.sources.values():
        if source.source_name == "bronze":
            yield source, source.identifier
    for node in manifest.nodes.values():
        if node.resource_type == "model" and node.config.materialized in _MATERIALIZATIONS:
            yield node, node.alias


def _policy(node: Any, retention_days: float) -> Policy:
    # dbt replaces a key of meta as a whole where a project has it too, so what the package says of
    # its own tables is another one.
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
    """A table's files."""

    data_files: int
    to_rewrite: int
    """Small ones and those with deleted rows, in partitions with enough of them."""
    manifests: int
    manifest_bytes: int


def is_worth_merging(figures: Figures) -> bool:
    """Whether manifests are to be merged: there are more than a few, and twice as many as their
    size asks for.
    """
    needed = figures.manifest_bytes // _MANIFEST_BYTES + 1
    return figures.manifests > max(_MOST_MANIFESTS, 2 * needed)


def small_files(summary: Mapping[str, str], policy: Policy) -> int:
    """How many small data files a table has at least, by the summary of its newest commit: all
    others together are no larger than the table.
    """
    files, size = (int(summary.get(f"total-{name}", 0)) for name in ("data-files", "files-size"))
    return max(0, files - size // policy.small_file_bytes)


class Maintained(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a table, or, in a dry run, what there is to do."""

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
    """With the snapshots."""
    orphan_files: int = 0
    older_files: int = 0
    """Files of no snapshot that were there before the lake was begun; they stay."""
    seconds: float = 0.0

    @property
    def is_changed(self) -> bool:
        """Whether there was anything to do."""
        done = (self.rewritten_files, self.merged_manifests, self.expired_snapshots)
        return any((*done, self.orphan_files, self.superseded_rows))

    def json(self) -> str:
        """For scripts."""
        return msgspec.json.encode(self).decode()

    def text(self) -> str:
        """For people."""
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
