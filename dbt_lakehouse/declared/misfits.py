"""The message of a build about values that don't fit: the columns, the values, and the remedy.

dbt itself only says how many rows the test ``no_misfits`` has found.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dbt_lakehouse.declared.columns import is_beside, is_header
from dbt_lakehouse.declared.widening import may_follow
from dbt_lakehouse.texts import counted
from python_udfs.typed.masks import MASKED

TEST: Final = "no_misfits"
NO_KEY: Final = "no key"
"""The text of a misfit whose key is missing."""
REPLACED: Final = "\ufffd"
"""The character in place of bytes that are not UTF-8."""
_WIDTH: Final = 40


class Misfits(NamedTuple):
    """The misfits of a column."""

    column: str
    number: int
    examples: Sequence[str]
    topics: Sequence[str]


def summary_sql(found: str) -> str:
    """The query for ``Misfits`` from the test's own query."""
    return f"""
        select
            column,
            count(distinct _position) as number,
            array_distinct(array(min(short), max(short), any_value(short))) as examples,
            slice(array_sort(collect_set(_position.topic)), 1, 3) as topics
        from (select *, left(text, {_WIDTH}) as short from ({found}))
        group by column
        order by column
    """


def told(table: str, log: Mapping[str, Any], found: Iterable[Misfits]) -> str:
    """A sentence for each column with misfits."""
    return "; ".join(_told(table, log, each) for each in found)


def _told(table: str, log: Mapping[str, Any], misfits: Misfits) -> str:
    # A key that does not fit is reported as missing too.
    texts = [each for each in misfits.examples if each != NO_KEY]
    if not texts:
        return (
            f"{table}: {counted(misfits.number, 'change')} without {misfits.column}, a key, and so"
            " in no gold table"
        )
    spec: Mapping[str, Any] = next(
        (each for each in log["columns"] if each["column"] == misfits.column), {}
    )
    is_masked = "mask" in spec
    is_key = misfits.column in log["key"] and not log["keyless"]
    one = misfits.number == 1
    such = "" if one or len(texts) == misfits.number else "such as "
    shown = [repr(each) for each in texts if each != MASKED]
    examples = f"{such}{', '.join(shown)}, " if shown else ""
    topics = "".join(f" --topic {topic}" for topic in misfits.topics)
    lost = (
        "so the row is in no gold table"
        if is_key
        else f"and {'is' if one else 'are'} null in tables made from it"
    )
    kept = "bronze" if is_masked else "the log"
    remedy = (
        f"`lakehouse generate{topics}` writes a type that holds {'it' if one else 'them'}, or says"
        " why not"
        if not is_beside(spec) and not is_masked
        else "declare a type in its model that does"
    )
    if is_header(spec) and any(REPLACED in each for each in texts):
        remedy = "bytes of a header that are not UTF-8 fit no type, so its producer must send text"
    follows = misfits.column in may_follow(log) and not log.get("follow") and not log["keyless"]
    return (
        f"{table}.{misfits.column}: {counted(misfits.number, 'value')}"
        f" {'does' if one else 'do'} not fit {spec.get('clear') or spec.get('type', 'its type')}, "
        f"{examples}{lost} ({kept} keeps the text); {remedy}"
        + (', and follow="widening" in the log\'s model lets builds do so' if follows else "")
    )
