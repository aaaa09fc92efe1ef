"""Warnings about what a table's messages can't show."""

from collections.abc import Iterator, Sequence

from dbt_lakehouse.commands.generate.profile import TableProfile
from dbt_lakehouse.texts import counted
from python_udfs.registry import UNWRAPPED_FORMATS


def cautions_of_rows(profile: TableProfile) -> Iterator[str]:
    """Warnings about a table without a key, whose rows are found by all of their values."""
    if profile.without_before:
        yield (
            f"{profile.without_before:,} of its updates and deletes lack the row before them, by"
            " which gold finds the row that goes: the source has to ship it (PostgreSQL: `alter"
            " table ... replica identity full`)"
        )


def cautions(profile: TableProfile, key: Sequence[str]) -> Iterator[str]:
    """Warnings about a table with these fields as its key."""
    in_images = [name for name in key if name in profile.columns and profile.columns[name].in_image]
    absent = profile.afters - min((profile.columns[name].afters for name in in_images), default=0)
    if in_images and absent:
        yield (
            f"{counted(absent, 'row')} of {profile.afters:,} have no value of"
            f" {', '.join(in_images)}: they are in the change log, and not in gold"
        )
    replaced = [
        name
        for name, column in profile.columns.items()
        if column.defaulted and column.afters == profile.afters
    ]
    if replaced:
        yield (
            f"{', '.join(replaced)}: may be null by the schema, and never is, but has its default."
            " A converter ships a null as the default unless its replace.null.with.default is"
            " false, and nothing tells the two apart: docs/wire-formats.md"
        )
    url_safe = [name for name, column in profile.columns.items() if column.values.is_base64_url]
    if url_safe:
        yield (
            f"{', '.join(url_safe)}: base64 as of binary.handling.mode=base64-url-safe. In this"
            " mode, a large value that an update left as it was comes as null, and gold loses it:"
            " give the connector the mode bytes or hex"
        )
    # Only PostgreSQL's connector has these types of them.
    lost = [
        name
        for name, column in profile.columns.items()
        if any(declared.lacks_placeholder for declared in column.declared)
    ]
    if lost and "postgresql" in profile.orders and not profile.whole_updates:
        yield (
            f"{', '.join(lost)}: where an update leaves a long value (2 kB and more) as it was,"
            " PostgreSQL does not log it, and Debezium ships null for these types, which gold"
            " takes: `alter table ... replica identity full` at the source has it log all values"
        )
    snapshots = max(profile.snapshots_begun, profile.snapshots_ended)
    if snapshots > 1:
        yield (
            f"there are {snapshots} snapshots of it: a row that was deleted between two of them"
            " stays in gold, since no message says so: if they were of the whole table, declare"
            " reconcile_snapshots=true in its log (docs/current-state.md)"
        )
    if profile.formats & set(UNWRAPPED_FORMATS):
        yield (
            "the topic has no TRUNCATE, because ExtractNewRecordState drops it, so rows stay. If"
            " the source truncates, send envelopes, without the transform, and give the connector"
            " skipped.operations=none"
        )
