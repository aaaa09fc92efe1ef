"""Prints tables of the lake as a person would like to see them."""

import json
from collections.abc import Sequence
from typing import Final

from dbt_lakehouse.commands.sql.command import answered
from dbt_lakehouse.commands.sql.output import table_text
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader

_ROWS: Final = 5
_WIDTH: Final = 28
# Technical columns that would push a row out of the screen.
_LEFT_OUT: Final = ("_position", "_max_occurred_at", "_digest", "_namespace", "_set")


def show_tables(
    reader: Reader, tables: Sequence[str], *, gold: str = "gold", as_json: bool = False
) -> str:
    """The tables (``schema.x``, or ``x`` of the schema ``gold``, which is the target's; all of that
    if none are named) with row counts and first rows, or as JSON.

    Raises ``ConfigurationError`` for a table that isn't there.
    """
    names = [reader.known(name) for name in tables]
    names = names or [name for name in reader.names if name.startswith(f"{gold}.")]
    if not names:
        raise ConfigurationError(f"there is no table in {gold} yet: build it with `dbt build`")
    if as_json:
        return json.dumps({name: _count(reader, name) for name in names})
    return "\n".join(_picture(reader, name) for name in names)


def _count(reader: Reader, name: str) -> int:
    with answered(reader, f"select count(*) from {reader.quoted(name)}") as rows:
        ((count,),) = rows.values()
    return int(count)


def _picture(reader: Reader, name: str) -> str:
    with answered(reader, f"select * from {reader.quoted(name)}", _ROWS) as rows:
        shown = [at for at, column in enumerate(rows.names) if column not in _LEFT_OUT]
        first = [[row[at] for at in shown] for row in rows.values()]
    picture = table_text([rows.names[at] for at in shown], first, _WIDTH)
    return f"{name}: {_count(reader, name):,} rows\n{picture}"
