"""The choice of the tables and of their key columns."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dbt_lakehouse.commands.generate import naming, rekey
from dbt_lakehouse.commands.generate.columns import HBASE_KEY, is_hbase
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Outcome
from dbt_lakehouse.commands.generate.profile import TableId, TableProfile
from dbt_lakehouse.texts import did_you_mean, listed


class NoSuchTable(GenerateError):
    """A named table is not in the topic."""


def named_table(tables: Sequence[TableId], wanted: str, option: str = "--table") -> TableId:
    """The single table that an option names, with or without schema and database.

    Raises ``NoSuchTable``, and ``GenerateError`` if the name is ambiguous.
    """
    for fold in (str, str.lower):
        matching = [
            table for table in tables if fold(wanted) in {fold(name) for name in _spellings(table)}
        ]
        exact = [table for table in matching if fold(str(table)) == fold(wanted)]
        if len(exact or matching) == 1:
            return (exact or matching)[0]
        if matching:
            shown = listed("it may be", [str(table) for table in matching])
            raise GenerateError(f"{option} {wanted} is ambiguous: {shown}")
    names = [str(table) for table in tables]
    meant = did_you_mean(wanted, chain(names, *map(_spellings, tables)))
    raise NoSuchTable(
        f"{option} {wanted}: no such table in the topic{meant}. {listed('There are', names)}"
    )


def _spellings(table: TableId) -> set[str]:
    database, schema, name = table[:3]
    if name is None:
        return {str(table), schema} if table.is_aerospike and schema else {str(table)}
    prefixes = [(), (schema,), (database,), (database, schema)]
    return {".".join([*(part for part in prefix if part), name]) for prefix in prefixes} | {
        str(table)
    }


class GivenKeys(NamedTuple):
    """The keys that a call names."""

    key: Sequence[str] = ()
    """The key of the only table, from --key."""
    of_tables: Mapping[str, Sequence[str]] = {}
    """Keys by table name, from the file of --keys."""
    columns: Sequence[Sequence[str]] = ()
    """Keys from --key-column: each is for all tables that have its columns, and no key of their
    own.
    """
    keyless: bool = False
    """Whether the rows of tables have no key where none is given and their messages have none."""


def keys_in(path: Path) -> dict[str, list[str]]:
    """The keys in the file of --keys, by table name: YAML, of which JSON is a subset.

    Raises ``GenerateError`` for anything else.
    """
    wanted = "expected a mapping of tables to key columns, like `shop.public.orders: [order_id]`"
    try:
        # It refuses duplicate tables.
        held: Any = YAML(typ="safe").load(path.read_bytes())
    except OSError as error:
        raise GenerateError(f"--keys {path} can't be read: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise GenerateError(f"--keys {path} is not YAML: {reason}; {wanted}") from error
    if not isinstance(held, dict):
        raise GenerateError(f"--keys {path}: {wanted}")
    keys = {}
    for table, names in held.items():
        columns = names.split(",") if isinstance(names, str) else names
        if (
            not isinstance(table, str)
            or not isinstance(columns, list)
            or not columns
            or not all(isinstance(name, str) and name.strip() for name in columns)
        ):
            raise GenerateError(f"--keys {path}, {table}: {wanted}")
        keys[table] = [name.strip() for name in columns]
    return keys


def key_given(
    named: tuple[Sequence[str], str],
    columns: Sequence[Sequence[str]],
    profile: TableProfile,
    entity: str,
) -> list[str]:
    """The key fields that the call gives a table, in the source's spelling; empty if it gives
    none. ``named`` are those of this table and the option that names them, ``columns`` are those
    of --key-column.
    """
    names, option = named
    own = rekey.newest_key(profile)
    if names:
        found = named_key(names, profile, option)
    elif is_hbase(profile) or (own is not None and rekey.doubt(profile, own, entity) is None):
        # The messages' own key counts.
        return []
    else:
        complete = (_spelt(each, profile) for each in columns)
        found = next((each for each in complete if each), [])
    return found


def _spelt(names: Sequence[str], profile: TableProfile) -> list[str]:
    """Columns in the source's spelling; empty if the table lacks one of them."""
    found = [matching[0] for name in names if len(matching := _matching(name, profile)) == 1]
    return found if len(found) == len(names) else []


def _matching(name: str, profile: TableProfile) -> list[str]:
    if name in profile.columns:
        return [name]
    return [each for each in profile.columns if each.lower() == name.lower()]


def named_key(names: Sequence[str], profile: TableProfile, option: str) -> list[str]:
    """The fields that an option names, in the source's spelling."""
    resolved = []
    for name in names:
        matching = _matching(name, profile)
        if len(matching) != 1:
            columns = profile.ordered_columns()
            raise GenerateError(
                f"{option} {name}: no such column{did_you_mean(name, columns)}."
                f" {listed('There are', columns)}"
            )
        resolved.append(matching[0])
    if len(set(resolved)) < len(resolved):
        raise GenerateError(f"{option} {','.join(names)}: a column is named twice")
    return resolved


def shipped_key(
    table_id: TableId, profile: TableProfile, outcome: Outcome, *, is_only_table: bool
) -> list[str]:
    """The fields of the messages' own keys. Raises ``GenerateError`` if there are none or they
    don't identify rows, with columns that may.
    """
    newest = rekey.newest_key(profile)
    if newest is not None:
        entity = table_id.table or ""
        doubt = rekey.doubt(profile, newest, entity)
        if doubt is not None:
            own = ",".join(newest)
            raise GenerateError(
                f"its messages have the key {', '.join(newest)}, which doesn't seem to"
                f" identify its rows: {doubt}. Name the key of its rows:"
                f" {_how_to_give(table_id, profile, is_only_table, newest)}. --key {own} takes the"
                " messages' key anyway"
            )
        if note := rekey.hint(profile, newest):
            outcome.notes.append(note)
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
        # record_key has them sorted by name; a table's own order is more natural.
        place = {name: index for index, name in enumerate(profile.ordered_columns())}
        return sorted(newest, key=lambda name: place[name])
    if is_hbase(profile):
        return [HBASE_KEY]
    raise GenerateError(
        f"its messages have no key: give {_how_to_give(table_id, profile, is_only_table)}. If"
        " its rows have none either, give --keyless: gold then counts equal rows"
    )


def _how_to_give(
    table_id: TableId, profile: TableProfile, is_only_table: bool, but: Sequence[str] = ()
) -> str:
    """The options that set a table's key, with likely columns."""
    candidates = sorted(
        (
            name
            for name, column in profile.columns.items()
            if profile.afters == column.afters and not column.unavailable and [name] != [*but]
        ),
        key=lambda name: _key_likeness(name, table_id),
    )
    hint = "no column always has a value"
    if candidates:
        hint = listed("columns that always have a value are", candidates)
    which = "" if is_only_table else f"--table {table_id} "
    many = "" if is_only_table else ", or --key-column or --keys for many tables"
    return f"{which}--key COLUMN,... ({hint}){many}"


def _key_likeness(name: str, table: TableId) -> tuple[int, str]:
    """A sort key that puts columns with key-like names first."""
    plain = naming.snake(name)
    entity = naming.snake(table.table or "").removesuffix("s")
    likely = ("id", f"{entity}_id", "uuid", "key", "pk", "code")
    if plain in likely:
        return likely.index(plain), name
    return (len(likely) if plain.endswith(("_id", "_key", "_no", "_nr")) else len(likely) + 1), name
