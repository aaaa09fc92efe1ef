"""The findings of our tests and the codes of quarantine: the cause, and what to run. Builds, the
report and docs/findings.md use the same text.

dbt itself only says how many rows a test has found. The sentences are in dbt's log, so they
contain no row's key: an example is the place of its message, a table's name or a column's.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dbt_lakehouse.texts import counted


class Meaning(NamedTuple):
    """The meaning of a test's findings."""

    noun: str
    """The noun for a row; its plural has an s."""
    fault: str
    """The fault, as text after the noun."""
    todo: str
    """What to run, with placeholders ``{table}``, ``{model}``, ``{columns}`` and, for the first
    row, ``{topic}``, ``{partition}`` and ``{offset}``.
    """
    shown: Sequence[str] = ()
    """The columns of the first row that are given as an example; a position is always given."""
    table: str | None = None
    """For a test without a model: the table of silver that it is about."""
    number: str | None = None
    """The column with the number of findings, if a row is not one finding."""


_FOLD_ANEW: Final = (
    "`lakehouse why --table {model} --key KEY` tells what a row must be, and"
    " `dbt run --full-refresh -s {model}` folds the log again"
)
_POSITION: Final = ("topic", "partition", "offset")
_POSITIONS: Final = ("_position", "first_position")
_EXPLAIN: Final = "`lakehouse explain --topic {topic} --partition {partition} --offset {offset}`"

TESTS: Final[Mapping[str, Meaning]] = {
    "unique_key": Meaning(
        "key", "that more than one row has, or of which a part is null", _FOLD_ANEW
    ),
    "equals_refold": Meaning(
        "row",
        "differing from the reference's result for the change log",
        _FOLD_ANEW,
        ("difference",),
    ),
    "no_absent_keys": Meaning(
        "row", "of keys that are deleted or have expired", _FOLD_ANEW, ("reason",)
    ),
    "is_history": Meaning(
        "version",
        "differing from the reference's result for the change log",
        "`dbt run --full-refresh -s {model}` rebuilds the history",
        ("fault",),
    ),
    "no_misfits": Meaning(
        "value",
        "that do not fit their columns' types, or missing keys",
        "`lakehouse generate --topic {topic}` writes types that hold them",
        ("column",),
    ),
    "no_unknown_columns": Meaning(
        "field",
        "that the change log does not declare",
        "`lakehouse generate --topic {topic}` adds columns to the models",
        ("column", "observed_type"),
    ),
    "one_change_per_position": Meaning(
        "position",
        "with a change that is there twice, or one that its source does not make",
        "`dbt run --full-refresh -s {model}+` reads the changes again",
        ("copies", "operations"),
    ),
    "not_null_columns": Meaning(
        "row",
        "without a value of {columns}",
        "`lakehouse sql 'select * from {table} where {nulls}'` shows them",
    ),
    "unique_combination": Meaning(
        "combination",
        "of {columns} that more than one row has",
        "`lakehouse sql 'select {quoted}, count(*) from {table} group by all having count(*) > 1'`"
        " shows them",
    ),
    "every_payload_is_accounted_for": Meaning(
        "payload",
        "whose events are not each in one place",
        "`dbt run --full-refresh -s other_events+` reads bronze again",
        table="other_events",
    ),
    "every_event_is_accounted_for": Meaning(
        "payload",
        "whose events do not add up, or that quarantine lacks",
        "`dbt run --full-refresh -s other_events+` reads bronze again",
        table="other_events",
    ),
    "no_decoder_has_failed": Meaning(
        "event",
        "on which a decoder has failed, a bug of ours",
        f"{_EXPLAIN} says where; once it is fixed, `lakehouse redrive --code decoder_failed`",
        table="other_events",
    ),
    "log_time_follows_the_offsets": Meaning(
        "payload",
        "whose log time is before that of the offset before",
        "`dbt run --full-refresh -s log_times+` computes the times again",
        table="log_times",
    ),
    "quarantine_rate": Meaning(
        "payload",
        "of {total} could not be decoded, more than vars.max_quarantine_rate lets pass",
        "`lakehouse quarantine` says why",
        table="quarantined_payloads",
        number="bad",
    ),
    "no_topic_is_all_quarantined": Meaning(
        "topic",
        "of which nothing could be decoded",
        "`lakehouse quarantine --topic {topic}` says why: is its format in vars.topics right?",
        ("topic", "payloads"),
        table="quarantined_payloads",
    ),
    "no_topic_looks_compacted": Meaning(
        "topic",
        "with tombstones that no delete stands before, as in a compacted one",
        "say `compacted: true` or `false` in its entry in vars.topics (docs/kafka.md)",
        ("tombstones",),
        table="other_events",
    ),
    "late_after_purge": Meaning(
        "table",
        "with changes from before what deleted_keys remembers",
        "nothing is wrong, but whole logs were read: a longer vars.tombstone_retention_days"
        " spares that",
        ("gold_table", "late_after_purge"),
        table="fold_counters",
    ),
}
"""Our own tests, generic ones by their macro's name and others by their own."""

CODES: Final[Mapping[str, tuple[str, str]]] = {
    "truncated": ("the bytes end before the value does", "look at the producer"),
    "not_messagepack": (
        "a byte that MessagePack never uses",
        "is the topic's format in `vars.topics` right?",
    ),
    "not_json": ("text that is not JSON", "is the topic's format in `vars.topics` right?"),
    "bad_shape": (
        "an array or object of another shape than the format has",
        "is the topic's format in `vars.topics` right?",
    ),
    "bad_version": (
        "a version of the format that is not known",
        "set the connector to a version that is, then send again",
    ),
    "bad_type": (
        "a type of message or operation that the format does not have",
        "is the topic's format in `vars.topics` right?",
    ),
    "bad_field": (
        "a field that is missing, of the wrong type, or no UTF-8",
        "look at the producer: which field, the sentence says",
    ),
    "too_deep": ("nested deeper than the limit", "flatten it at the source"),
    "too_large": ("larger than the limit, or it would grow beyond it", "send smaller messages"),
    "trailing_bytes": ("more bytes behind a whole value", "look at the producer"),
    "unknown_format": (
        "no format is set for the topic",
        "add it to `vars.topics`, then `lakehouse redrive --code unknown_format`",
    ),
    "unknown_schema": (
        "a schema that neither the lake nor a registry has",
        "set `SCHEMA_REGISTRY_URL` (docs/kafka.md), then `lakehouse redrive --code unknown_schema`",
    ),
    "decoder_failed": (
        "a bug of ours: a decoder has raised an unexpected exception",
        "report it; once it is fixed, `lakehouse redrive --code decoder_failed`",
    ),
}
"""The meaning of each quarantine code, and the remedy."""


def own_test(node: Any) -> str | None:
    """The name in ``TESTS`` of dbt's node of a test; None for tests that are not ours."""
    metadata = getattr(node, "test_metadata", None)
    name = node.name if metadata is None else metadata.name
    if name not in TESTS:
        return None
    if metadata is None:
        return name if node.original_file_path.endswith(f"tests/{name}.sql") else None
    return name if f"macro.dbt_lakehouse.test_{name}" in node.depends_on.macros else None


def lines() -> list[tuple[str, str, str]]:
    """For each code and each test its name, its meaning, and what to run."""
    places = {name: name.upper() for name in ("table", "model", "columns", "total", *_POSITION)}
    places |= {"nulls": "COLUMN is null", "quoted": "COLUMNS"}
    codes = [(code, meaning, todo) for code, (meaning, todo) in CODES.items()]
    return codes + [
        (name, f"{each.noun}s {each.fault}".format_map(places), each.todo.format_map(places))
        for name, each in TESTS.items()
    ]


def told(
    test: str, table: str, columns: Sequence[str], number: int, first: Mapping[str, Any]
) -> str:
    """The sentence for a test that has found a number of rows in a table. The first row of its
    query is empty if it could not be read. Raises ``KeyError`` if the test needs it.
    """
    meaning = TESTS[test]
    if meaning.number is not None:
        number = first[meaning.number]
    place = _place_of(first)
    names = {
        "table": table,
        "model": table.rpartition(".")[2],
        "columns": ", ".join(columns),
        "quoted": ", ".join(f'"{each}"' for each in columns),
        "nulls": " or ".join(f'"{each}" is null' for each in columns),
        "total": f"{first.get('total', 0):,}",
        **{name: str(place.get(name, name.upper())) for name in _POSITION},
    }
    what = f"{counted(number, meaning.noun)} {meaning.fault}".format_map(names)
    shown = [f"{name} {_text(first[name])}" for name in meaning.shown if name in first]
    shown += [f"{name} {value}" for name, value in place.items() if name not in meaning.shown]
    example = f", such as {', '.join(shown)}" if shown else ""
    return f"{table}: {what}{example}; {meaning.todo.format_map(names)}"


def _place_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Topic, partition and offset of a row, as far as it has them."""
    for name in _POSITIONS:
        if (position := row.get(name)) is not None:
            row = position.asDict() if hasattr(position, "asDict") else position
            break
    return {name: row[name] for name in _POSITION if row.get(name) is not None}


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)
