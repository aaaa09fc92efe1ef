"""Unknown table and column names in a query, from DuckDB's errors, with suggestions."""

import difflib
import re
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.models import declared_models
from dbt_lakehouse.texts import did_you_mean

_TABLE: Final = re.compile(r"^Catalog Error: (?:Table|View) with name (?P<name>.+?) does not exist")
_COLUMN: Final = re.compile(
    r"^Binder Error: (?:"
    r'(?:Values list|Table) "(?P<of>.+)" does not have a column named "(?P<name>.+)"'
    r'|(?:Referenced column|Column) "(?P<column>.+?)"'
    r" (?:not found in FROM clause|was not found|in \w+ list not found|does not exist on \w+ side))"
)


def table_missed(text: str) -> str | None:
    """The name of the table, without its schema, that an error of DuckDB misses; None for another
    error.
    """
    found = _TABLE.search(text)
    return None if found is None else found["name"].replace('"', "").rpartition(".")[2]


def column_missed(text: str) -> tuple[str, str | None] | None:
    """The name of the column that an error of DuckDB misses, and the query's name of its table;
    None for another error.
    """
    found = _COLUMN.search(text)
    return None if found is None else (found["column"] or found["name"], found["of"])


def missing_table(name: str, there: Collection[str], root: Path | None) -> str:
    """The message about a missing table. ``there`` are the existing tables, ``schema.x``; the
    project in the folder ``root`` declares more.
    """
    bare = {each: each.partition(".")[2].lower() for each in there}
    declared = {} if root is None else declared_models(root)
    unbuilt = {
        each.lower(): (
            f"{file} declares {each}, which is not built yet: `dbt build -s +{each}` builds it"
        )
        for each, file in declared.items()
        if each.lower() not in bare.values()
    }
    lower = name.lower()
    if lower in unbuilt:
        return unbuilt[lower]
    # A table in another schema, or with other capitals.
    is_there = lower in bare.values()
    like = [lower] if is_there else difflib.get_close_matches(lower, {*bare.values(), *unbuilt})
    near = sorted(each for each in bare if bare[each] in like)
    text = f"there is no table {name}"
    if near:
        return f"{text} (did you mean {' or '.join(near)}?)"
    if like:
        return f"{text} (did you mean {like[0]}?): {unbuilt[like[0]]}"
    return f"{text}; `lakehouse sql 'show all tables'` lists those there are"


def missing_column(
    name: str, of: str | None, columns: Mapping[str, Collection[str]], sql: str = ""
) -> str:
    """The message about a column that a table, by the query's name for it, doesn't have;
    ``columns`` are those of the existing tables.
    """
    named = [each for table, each in columns.items() if of in (table, table.partition(".")[2])]
    near = did_you_mean(name, dict.fromkeys(chain(*(named or columns.values()))))
    if not near and of is None and f'"{name}"' in sql:
        text = name.replace("'", "''")
        near = f": a name is in double quotes, a text in single ones, '{text}'"
    return f"there is no column {name}{'' if of is None else f' of {of}'}{near}"
