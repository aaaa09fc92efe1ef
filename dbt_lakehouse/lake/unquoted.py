"""Columns named like SQL keywords, in a query that does not parse without quotes around them."""

from collections.abc import Collection
from itertools import combinations
from typing import Final

from duckdb import DuckDBPyConnection

from dbt_lakehouse.lake.parsing import Word, parses, replaced, words_of

# The ways to quote a query double with each word.
_MOST_WORDS: Final = 8
_AT_END: Final = ("at end of input", 'at or near ";"')


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
            quoted = [(word, f'"{word.text}"') for word in chosen]
            if parses(duck, replaced(sql, quoted)):
                return [*dict.fromkeys(word.text for word in chosen)]
    return []


def _words(duck: DuckDBPyConnection, sql: str, columns: Collection[str]) -> list[Word]:
    """Reserved words in a query that are also columns, as typed."""
    rows = duck.execute(
        "select keyword_name from duckdb_keywords() where keyword_category <> 'unreserved'"
    )
    named = {word for (word,) in rows.fetchall()}.intersection(columns)
    return [word for word in words_of(sql) if word.text.lower() in named]
