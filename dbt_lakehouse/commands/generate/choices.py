"""Which table the call means, and which columns are its key."""

from collections.abc import Sequence

from dbt_lakehouse.commands.generate import naming
from dbt_lakehouse.commands.generate.columns import HBASE_KEY, is_hbase
from dbt_lakehouse.commands.generate.profile import TableId, TableProfile
from dbt_lakehouse.commands.generate.report import GenerateError, Outcome, listed


def named_table(tables: Sequence[TableId], wanted: str) -> TableId:
    """The one table that --table names, with or without schema and database."""
    for fold in (str, str.lower):
        matching = [
            table for table in tables if fold(wanted) in {fold(name) for name in _spellings(table)}
        ]
        exact = [table for table in matching if fold(str(table)) == fold(wanted)]
        if len(exact or matching) == 1:
            return (exact or matching)[0]
        if matching:
            shown = listed("it may be", [str(table) for table in matching])
            raise GenerateError(f"--table {wanted} is ambiguous: {shown}")
    shown = listed("There are", [str(table) for table in tables])
    raise GenerateError(f"--table {wanted}: no such table in the topic. {shown}")


def _spellings(table: TableId) -> set[str]:
    database, schema, name = table[:3]
    if name is None:
        return {str(table), schema} if table.is_aerospike and schema else {str(table)}
    prefixes = [(), (schema,), (database,), (database, schema)]
    return {".".join([*(part for part in prefix if part), name]) for prefix in prefixes} | {
        str(table)
    }


def named_key(names: Sequence[str], profile: TableProfile) -> list[str]:
    """The fields that --key names, as they are spelt at the source."""
    fields = profile.columns
    folded: dict[str, list[str]] = {}
    for name in fields:
        folded.setdefault(name.lower(), []).append(name)
    resolved = []
    for name in names:
        matching = [name] if name in fields else folded.get(name.lower(), [])
        if len(matching) != 1:
            raise GenerateError(
                f"--key {name}: no such column. {listed('There are', profile.ordered_columns())}"
            )
        resolved.append(matching[0])
    if len(set(resolved)) < len(resolved):
        raise GenerateError(f"--key {','.join(names)}: a column is named twice")
    return resolved


def shipped_key(
    table_id: TableId, profile: TableProfile, outcome: Outcome, *, is_only_table: bool
) -> list[str]:
    """The fields of the messages' own keys. Raises ``GenerateError`` if they have none, with
    columns that may do.
    """
    if profile.keys:
        newest = max(profile.keys, key=lambda names: profile.keys[names])
        if len(profile.keys) > 1:
            others = sorted({", ".join(names) for names in profile.keys if names != newest})
            outcome.notes.append(
                f"the newest message keys are of {', '.join(newest)}; there are others, of"
                f" {'; '.join(others)}"
            )
        if profile.keyless:
            outcome.notes.append(
                f"{profile.keyless:,} changes have no message key; theirs is read from the row"
            )
        # record_key has them by name; a table's own order tells more.
        place = {name: index for index, name in enumerate(profile.ordered_columns())}
        return sorted(newest, key=lambda name: place[name])
    if is_hbase(profile):
        return [HBASE_KEY]
    candidates = sorted(
        (
            name
            for name, column in profile.columns.items()
            if profile.afters == column.afters and not column.unavailable
        ),
        key=lambda name: _key_likeness(name, table_id),
    )
    hint = "no column always has a value"
    if candidates:
        hint = listed("columns that always have a value are", candidates)
    which = "" if is_only_table else f"--table {table_id} "
    raise GenerateError(
        f"its messages have no key: give {which}--key COLUMN,... ({hint}). Of a table without any,"
        " write the change log by hand, with keyless=true: docs/add-a-table.md"
    )


def _key_likeness(name: str, table: TableId) -> tuple[int, str]:
    """Sorts columns whose names look like keys to the front."""
    plain = naming.snake(name)
    entity = naming.snake(table.table or "").removesuffix("s")
    likely = ("id", f"{entity}_id", "uuid", "key", "pk", "code")
    if plain in likely:
        return likely.index(plain), name
    return (len(likely) if plain.endswith(("_id", "_key", "_no", "_nr")) else len(likely) + 1), name
