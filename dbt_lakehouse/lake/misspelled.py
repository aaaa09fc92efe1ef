"""Misspelled and missing keywords, in a query that parses once they are put right."""

import difflib
from itertools import combinations, product
from typing import Final

from duckdb import DuckDBPyConnection

from dbt_lakehouse.lake.parsing import Word, parses, replaced, words_of

_KEYWORDS: Final = (
    *("select", "distinct", "from", "where", "group", "having", "order", "limit", "offset"),
    *("join", "left", "inner", "outer", "using", "union", "with", "between", "like", "case"),
    *("when", "then", "else", "end", "desc", "qualify", "describe", "summarize", "null"),
)
# Their second word is often forgotten.
_WITH_BY: Final = ("group", "order")
# Each candidate is parsed, so a query that has many is left alone.
_MOST_CANDIDATES: Final = 24
_MOST_WRONG: Final = 2


def misspelled(duck: DuckDBPyConnection, sql: str) -> list[tuple[str, str]]:
    """The words that keep a query from being parsed, as typed and as meant: each is like a
    keyword, or lacks its ``by``. Empty if no such change makes the query parse.
    """
    changes = [[(word, meant) for meant in _meant(word)] for word in words_of(sql)]
    changes = [each for each in changes if each]
    if len(changes) > _MOST_CANDIDATES:
        return []
    for number in range(1, _MOST_WRONG + 1):
        for chosen in combinations(changes, number):
            for tried in product(*chosen):
                if parses(duck, replaced(sql, tried)):
                    return [(word.text, meant) for word, meant in tried]
    return []


def _meant(word: Word) -> list[str]:
    """The keywords that a word may stand for."""
    typed = word.text.lower()
    if typed in _KEYWORDS:
        return [f"{typed} by"] if typed in _WITH_BY else []
    near = difflib.get_close_matches(typed, _KEYWORDS, 2, cutoff=0.66)
    return [each for keyword in near for each in (keyword, *_with_by(keyword))]


def _with_by(keyword: str) -> list[str]:
    return [f"{keyword} by"] if keyword in _WITH_BY else []
