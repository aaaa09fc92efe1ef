"""What dbt's catalog, the source of its documentation pages, shows of tables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_LONGEST: Final = 30
_STRUCT: Final = "struct"


def shown_type(kind: str) -> str:
    """A column's type. If it is long, the fields of its structs are left out, for they would
    leave no room for the column's description.
    """
    head, struct, rest = kind.partition(f"{_STRUCT}<")
    if len(kind) <= _LONGEST or not struct:
        return kind
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "<") - (letter == ">")
        if depth == 0:
            return head + _STRUCT + shown_type(rest[place + 1 :])
    return kind


def columns_to_come(
    nodes: Iterable[Any], known: Iterable[tuple[str, str]]
) -> Iterator[Mapping[str, Any]]:
    """The catalog's rows for sources that are not among the ``known`` tables (schema and name):
    the lake creates those tables when it first needs them. Their columns are the declared ones.
    """
    there = {*known}
    for node in nodes:
        if node.resource_type != "source" or (node.schema, node.identifier) in there:
            continue
        there.add((node.schema, node.identifier))
        for index, column in enumerate(node.columns.values()):
            yield {
                "table_database": None,
                "table_schema": node.schema,
                "table_name": node.identifier,
                "table_type": "table to come",
                "column_name": column.name,
                "column_type": shown_type(column.data_type or ""),
                "column_index": index,
            }
