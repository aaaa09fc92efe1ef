"""Print tables of the lake for people."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.drawing import fitted
from dbt_lakehouse.queries.query import answered, rows_of
from dbt_lakehouse.texts import counted, did_you_mean

ROWS: Final = 5
# Technical columns that would make a row too wide for the screen.
_LEFT_OUT: Final = ("_position", "_max_occurred_at", "_digest", "_namespace", "_set")


class Choice(NamedTuple):
    """What to show of each table."""

    limit: int = ROWS
    columns: Sequence[str] = ()
    """All but technical columns if empty."""
    where: str | None = None
    """A condition in DuckDB's SQL."""
    width: int | None = None
    """The characters of a line; None for unlimited."""


_FIRST: Final = Choice()


def show_tables(
    reader: Reader,
    tables: Sequence[str],
    choice: Choice = _FIRST,
    *,
    gold: str = "gold",
    as_json: bool = False,
) -> str:
    """The tables with row counts and first rows, or as JSON. A table is ``schema.x``, or ``x`` in
    the target's schema ``gold``; if no tables are named, all of that schema.

    Raises ``ConfigurationError`` for a table or column that does not exist.
    """
    names = [reader.known(name) for name in tables]
    names = names or [name for name in reader.names if name.startswith(f"{gold}.")]
    if not names:
        raise ConfigurationError(f"there is no table in {gold} yet: build it with `dbt build`")
    for name in names if choice.where is not None else ():
        _check_condition(reader, name, choice)
    if as_json:
        return json.dumps({name: _count(reader, name, choice) for name in names})
    return "\n".join(_picture(reader, name, choice) for name in names).rstrip()


def _check_condition(reader: Reader, name: str, choice: Choice) -> None:
    alone = f"(from {reader.quoted(name)} limit 0) where {choice.where}"
    try:
        # First as typed, then in parentheses, which it must not break out of.
        for rows in (alone, f"{_chosen(reader, name, choice)} limit 0"):
            reader.query(f"select * from {rows}")
    except ConfigurationError as error:
        raise ConfigurationError(f"--where {choice.where}: {error}") from None


def _count(reader: Reader, name: str, choice: Choice) -> int:
    ((count,),) = rows_of(reader, f"select count(*) from {_chosen(reader, name, choice)}")
    return int(count)


def _chosen(reader: Reader, name: str, choice: Choice) -> str:
    # A condition may end with a comment.
    where = "" if choice.where is None else f" where (\n{choice.where}\n)"
    return f"{reader.quoted(name)}{where}"


def _picture(reader: Reader, name: str, choice: Choice) -> str:
    with answered(reader, f"select * from {_chosen(reader, name, choice)}", choice.limit) as rows:
        shown = _columns(name, rows.names, choice.columns)
        first = [[row[at] for at in shown] for row in rows.values()]
    names = [rows.names[at] for at in shown]
    picture, left_out = fitted(names, first, choice.width, [rows.numeric[at] for at in shown])
    if left_out:
        picture += (
            f"{len(names) - len(left_out):,} of {counted(len(names), 'column')} are shown:"
            f" --columns {','.join(names[at] for at in left_out)} shows the others\n"
        )
    found = counted(_count(reader, name, choice), "row")
    if choice.where is not None:
        found += f" of {_count(reader, name, _FIRST):,}"
    return f"{name}: {found}\n{picture}"


def _columns(table: str, names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The indexes of the shown columns, in order."""
    if not wanted:
        return [at for at, name in enumerate(names) if name not in _LEFT_OUT]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        missing = ", ".join(f"{name}{did_you_mean(name, names)}" for name in unknown)
        raise ConfigurationError(
            f"{table} has no column {missing}: its columns are {', '.join(names)}"
        )
    return [names.index(name) for name in wanted]
