"""The names of a source table's models, and of its columns.

A model is named like the table, in lower snake case. If another table of the lake or a model of
another source has the same name, or SQL reserves it, the name is database, schema and table; then
the topic; finally these with a digest. So a table's name does not depend on which table was
generated first, only on what has landed by then. An existing model keeps its name, and a later
table takes a longer one. Columns keep their names at the source, whatever the case; only names
that no column can have are changed, and the model maps them (`{"name": "the field"}`).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final

from dbt_lakehouse.commands.generate.profile import TableId
from dbt_lakehouse.declared import columns

_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_NO_COLUMN: Final = re.compile(r"\W+")
_PLAIN_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MODEL_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_LONGEST: Final = 100

# Words reserved by SQL engines: `select * from gold.order` works only in Spark.
RESERVED: Final = frozenset(
    """
    all alter and any array as asc authorization begin between both by call case cast check collate
    column commit constraint create cross cube current current_catalog current_date current_role
    current_schema current_time current_timestamp current_user database default delete desc
    describe distinct drop else end escape except exists explain false fetch filter first for
    foreign from full function grant group grouping having identifier in inner insert intersect
    interval into is join lateral leading left like limit localtime localtimestamp map merge minus
    natural not null offset on only or order outer over overlaps partition position primary range
    recursive references replace returning revoke right rollback row rows schema select semi
    session_user set show some start struct system_user table tablesample then time timestamp to
    trailing true truncate uescape union unique unknown unnest update use user using values view
    when where window with
    """.split()
)


def snake(text: str) -> str:
    """A name in lower snake case, of letters, digits and underscores; may be empty."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    plain = "".join(each for each in plain if not unicodedata.combining(each))
    # Letters of other alphabets can't be in a file's name: their code points distinguish them.
    plain = "".join(
        f"u{ord(each):x}" if each.isalpha() and not each.isascii() else each for each in plain
    )
    name = _NO_NAME.sub("_", _WORD_ENDS.sub("_", plain).lower()).strip("_")
    return (f"t_{name}" if name[:1].isdigit() else name)[:_LONGEST]


def entity_names(
    tables: Mapping[TableId, Collection[str]],
    others: Iterable[tuple[TableId, str]],
    taken: Collection[str],
) -> dict[TableId, str]:
    """A unique name for each table, neither taken nor reserved.

    ``tables``: the tables with the topics that they come in. ``others``: further tables of the
    lake, each with a topic.
    """
    choices = {table: _choices(table, min(topics)) for table, topics in tables.items()}
    contested = Counter(name for names in choices.values() for name in names)
    contested.update(
        name
        for table, topic in set(others)
        if topic not in tables.get(table, ())
        for name in _choices(table, topic)
    )
    names = {}
    for table, own in choices.items():
        for name in own:
            is_free = {name, f"{name}_changes"}.isdisjoint(taken) and name not in RESERVED
            if name == own[-1] or (is_free and contested[name] == 1):
                names[table] = name
                break
    return names


def shortest(table: TableId, topic: str) -> str:
    """The name of a table if it is the only one with that name."""
    return _choices(table, topic)[0]


def _choices(table: TableId, topic: str) -> list[str]:
    """Names from short to long, without duplicates; the last one is unique."""
    database, schema, name = (snake(part or "") for part in table[:3])
    if table.is_aerospike and not name:
        schema, name = "", schema
    whole = "_".join(part for part in (database, schema, name) if part)[:_LONGEST]
    short = name or snake(re.split(r"[.]", topic)[-1]) or "table"
    of_topic = snake(topic) or short
    digest = sha256(repr((*table, topic)).encode()).hexdigest()[:8]
    names = (short, whole, of_topic, f"{whole or of_topic}_{digest}")
    return list(dict.fromkeys(each for each in names if each))


def column_names(fields: Iterable[str], taken: Mapping[str, str | None]) -> dict[str, str]:
    """A column for each field: its own name, if a column can have it.

    ``taken``: the existing columns, which stay, and their fields, None without one. Spark doesn't
    distinguish ``id`` and ``ID``, so the second one is ``ID_2``.
    """
    used = {column.lower() for column in taken}
    names = {field: column for column, field in taken.items() if field is not None}
    for field in fields:
        if field in names:
            continue
        name = _NO_COLUMN.sub("_", field)
        if name != field:
            name = name.strip("_")
        if not name:
            name = "column"
        elif name[0].isdigit():
            name = f"c_{name}"
        elif columns.is_reserved(name):
            name = f"source{name}"
        number, unique = 2, name
        while unique.lower() in used:
            unique = f"{name}_{number}"
            number += 1
        used.add(unique.lower())
        names[field] = unique
    return names


def needs_quotes(column: str) -> bool:
    """Whether SQL that dbt writes needs quotes around the name."""
    return not _PLAIN_COLUMN.fullmatch(column) or column.lower() in RESERVED
