"""Columns named like SQL keywords, in a query that does not parse without quotes around them."""

import re
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

# The ways to quote a query double with each word.
_MOST_WORDS: Final = 8
_WORD: Final = re.compile(rb"[\w$\x80-\xff]+")
_AT_END: Final = ("at end of input", 'at or near ";"')


class _Word(NamedTuple):
    begin: int
    """The position in bytes, as DuckDB counts."""
    text: str


def in_want_of_quotes(
    duck: DuckDBPyConnection, sql: str, error: str, columns: Collection[str]
) -> list[str]:
    """The ``columns`` that a query names without the quotes that would make it parse, by the
    parser's error. Empty for a query that breaks off: a final ``offset`` may lack its number.
    """
    if any(end in error for end in _AT_END):
        return []
    words = _words(duck, sql, {each.lower() for each in columns})[:_MOST_WORDS]
    for number in range(1, len(words) + 1):
        for chosen in combinations(words, number):
            if _parses(duck, _quoted(sql, chosen)):
                return [*dict.fromkeys(word.text for word in chosen)]
    return []


def _words(duck: DuckDBPyConnection, sql: str, columns: Collection[str]) -> list[_Word]:
    """Reserved words in a query that are also columns, as typed."""
    rows = duck.execute(
        "select keyword_name from duckdb_keywords() where keyword_category <> 'unreserved'"
    )
    named = {word for (word,) in rows.fetchall()}.intersection(columns)
    content = sql.encode()
    # A name may continue with a letter of any script.
    found = ((begin, _WORD.match(content, begin)) for begin, _ in duckdb.tokenize(sql))
    words = [_Word(begin, match[0].decode()) for begin, match in found if match is not None]
    return [word for word in words if word.text.lower() in named]


def _parses(duck: DuckDBPyConnection, sql: str) -> bool:
    try:
        duck.extract_statements(sql)
    except duckdb.Error:
        return False
    return True


def _quoted(sql: str, words: Sequence[_Word]) -> str:
    content = sql.encode()
    for begin, text in reversed(words):
        end = begin + len(text)
        content = content[:begin] + f'"{text}"'.encode() + content[end:]
    return content.decode()
