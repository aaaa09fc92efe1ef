"""The words of a query, and whether DuckDB parses it, for what is said of one that it does not."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

# A name may continue with a letter of any script.
_WORD: Final = re.compile(rb"[\w$\x80-\xff]+")


class Word(NamedTuple):
    """A word of a query, as typed."""

    begin: int
    """The position in bytes, as DuckDB counts."""
    text: str


def words_of(sql: str) -> list[Word]:
    """The names and keywords of a query; none of its texts and comments."""
    content = sql.encode()
    found = ((begin, _WORD.match(content, begin)) for begin, _ in duckdb.tokenize(sql))
    return [Word(begin, match[0].decode()) for begin, match in found if match is not None]


def parses(duck: DuckDBPyConnection, sql: str) -> bool:
    """Whether a query is SQL, whatever its names are."""
    try:
        duck.extract_statements(sql)
    except duckdb.Error:
        return False
    return True


def replaced(sql: str, changes: Sequence[tuple[Word, str]]) -> str:
    """A query with another text for some of its words, which are given in their order."""
    content = sql.encode()
    for word, text in reversed(changes):
        end = word.begin + len(word.text.encode())
        content = content[: word.begin] + text.encode() + content[end:]
    return content.decode()
