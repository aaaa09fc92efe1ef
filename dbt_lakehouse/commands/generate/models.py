"""The files of a new table in the project's style: change log, gold table, descriptions.

A table is declared once: key, columns, types and source fields in its change log. Gold is one
line; its description is the contract, and also describes the change log's columns.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ruamel.yaml.scalarstring import DoubleQuotedScalarString, FoldedScalarString

from dbt_lakehouse.commands.generate.documents import CommentedMap, dumped, scalar
from dbt_lakehouse.commands.generate.naming import needs_quotes
from dbt_lakehouse.commands.generate.profile import TableId
from dbt_lakehouse.declared import declarations, fold_of_log
from dbt_lakehouse.declared.fold_of_log import Fold

_WIDTH: Final = 100
_REGEX_SPECIAL: Final = re.compile(r"([\\.^$|?*+()\[\]{}])")


class Spec(NamedTuple):
    """A column of a table."""

    column: str
    field: str
    type: str
    description: str
    encoding: str | None = None


class GeneratedTable(NamedTuple):
    """A source table, and the declaration of its models."""

    name: str
    source: TableId
    topics: Sequence[str]
    formats: Sequence[str]
    key: Sequence[Spec]
    """Empty for Aerospike, and for a table without a key."""
    columns: Sequence[Spec]
    several_sources: bool = False
    """Whether the change log takes events of several source tables."""
    message_key: Sequence[Sequence[str]] = ()
    """The names of the messages' own keys, where they differ on purpose."""
    order_by: str | Sequence[str] | None = None
    """The order of its change log before Kafka's."""
    order_said: str | None = None
    """The source order in which all of its events give a place, if any."""

    @property
    def fold(self) -> Fold:
        """The fold of its gold table, from its change log's declaration."""
        is_aerospike = self.source.is_aerospike
        return fold_of_log.fold(
            declarations.change_log(
                {
                    "key": {spec.column: spec.type for spec in self.key},
                    "columns": {spec.column: spec.type for spec in self.columns},
                    "keyless": not self.key and not is_aerospike,
                    "partial": False,
                    "order_by_source_time": None,
                    "order_by": self.order_by,
                    "namespace": self.source.schema if is_aerospike else None,
                    "set": self.source.table,
                    "source_database": self.source.database,
                    "source_schema": self.source.schema,
                    "source_table": declarations.ANY if self.several_sources else self.source.table,
                }
            )
        )


# --- SQL ------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A string literal of Jinja."""
    return json.dumps(text, ensure_ascii=False)


def topic_pattern(topics: Iterable[str]) -> str:
    """A Java regular expression that matches these topics and no others."""
    return "|".join(_REGEX_SPECIAL.sub(r"\\\1", topic) for topic in topics)


def entry_lines(spec: Spec, indent: int) -> list[str]:
    """A column's lines in the dict of a change log."""
    space = " " * indent
    if spec.field == spec.column and spec.encoding is None:
        return [f"{space}{quoted(spec.column)}: {quoted(spec.type)},"]
    parts = {"name": spec.field, "type": spec.type, "encoding": spec.encoding}
    shown = [f'"{name}": {quoted(part)}' for name, part in parts.items() if part is not None]
    line = f"{space}{quoted(spec.column)}: {{{', '.join(shown)}}},"
    if len(line) <= _WIDTH:
        return [line]
    return [
        f"{space}{quoted(spec.column)}: {{",
        *(f"{space}    {part}," for part in shown),
        f"{space}}},",
    ]


def changes_sql(table: GeneratedTable) -> str:
    """The model file of the change log."""
    source = table.source
    if source.is_aerospike:
        macro = "aerospike_change_log"
        where = {"namespace": source.schema, "set": source.table}
    else:
        macro = "change_log"
        where = {
            "source_database": source.database,
            "source_schema": source.schema,
            "source_table": source.table,
        }
        # Unnamed parts are null; the table is always named.
        where = {
            name: value
            for name, value in where.items()
            if value is not None or name == "source_table"
        }
    lines = ["{{", f"    {macro}("]
    if table.order_said is not None:
        lines.insert(0, _PROPOSED_ORDER.format(quoted(table.order_said)))
    lines += _pattern_lines(table.topics)
    for name, value in where.items():
        lines.append(f"        {name}={'none' if value is None else quoted(value)},")
    if not source.is_aerospike:
        lines += _key_lines(table.key) if table.key else ["        keyless=true,"]
        if table.message_key:
            lines.append(f"        message_key={message_key_text(table.message_key)},")
    lines += _dict_lines("columns", table.columns)
    return "\n".join([*lines, "    )", "}}", ""])


# Not by default: if a source counts anew after a failover, all its changes would be ignored.
_PROPOSED_ORDER: Final = (
    "{{# order_by={} keeps what is sent again from undoing later changes: docs/current-state.md #}}"
)


def _pattern_lines(topics: Sequence[str]) -> list[str]:
    line = f"        topic={quoted(topic_pattern(topics))},"
    if len(line) <= _WIDTH or len(topics) == 1:
        return [line]
    parts = [quoted(topic_pattern([topic]) + "|") for topic in topics[:-1]]
    parts.append(quoted(topic_pattern(topics[-1:])))
    # Adjacent literals are one, in Jinja as in Python.
    return ["        topic=(", *(f"            {part}" for part in parts), "        ),"]


def message_key_text(keys: Sequence[Sequence[str]]) -> str:
    """Names of messages' own keys as a model declares them."""
    lists = [f"[{', '.join(map(quoted, names))}]" for names in keys]
    return lists[0] if len(lists) == 1 else f"[{', '.join(lists)}]"


def _key_lines(specs: Sequence[Spec]) -> list[str]:
    entries = [line.removesuffix(",") for spec in specs for line in entry_lines(spec, 0)]
    line = f"        key={{{', '.join(entries)}}},"
    return [line] if len(line) <= _WIDTH else _dict_lines("key", specs)


def _dict_lines(name: str, specs: Sequence[Spec]) -> list[str]:
    if not specs:
        return [f"        {name}={{}},"]
    lines = [line for spec in specs for line in entry_lines(spec, 12)]
    return [f"        {name}={{", *lines, "        },"]


def gold_sql(table: GeneratedTable) -> str:
    """The model file of the gold table."""
    return f"{{{{ current_state(ref({quoted(f'{table.name}_changes')})) }}}}\n"


# --- YAML -----------------------------------------------------------------------------------------


def description_node(text: str, indent: int) -> str:
    """A description starting at column ``indent``: folded if it is too long."""
    text = _prose(text)
    room = _WIDTH - indent - 2
    # With the quotes that it may need.
    if len("  description: ") + len(text) <= room:
        return scalar(text)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    folded = FoldedScalarString(" ".join(lines))
    folds, end = [], -1
    for line in lines[:-1]:
        end += len(line) + 1
        folds.append(end)
    # As ruamel's own loader does, which adds the attribute to a class that does not declare it.
    folded.fold_pos = folds  # type: ignore[attr-defined]
    return folded


def _prose(text: str) -> str:
    """Text for a description: one line, without anything that dbt would read as Jinja."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return re.sub(r"([{}])(?=[{}%#])|(?<=[%#])(?=})", r"\1 ", plain)


def type_node(type_name: str) -> str:
    """A data type as the project's files write it."""
    if len(type_name) > 60:
        return FoldedScalarString(type_name)
    is_plain = not any(each in type_name for each in ",:(")
    return type_name if is_plain else DoubleQuotedScalarString(type_name)


def column_node(spec: Spec) -> CommentedMap:
    """A column for the list of a model's columns."""
    return _column_node(spec.column, description_node(spec.description, 8), spec.type)


def _column_node(name: str, description: str, type_name: str) -> CommentedMap:
    node = CommentedMap(name=scalar(name), description=description, data_type=type_node(type_name))
    if needs_quotes(name):
        node["quote"] = True
    return node


def _technical_node(name: str, type_name: str) -> CommentedMap:
    """A column that the macros add."""
    doc = f"{{{{ doc('{name.removeprefix('_')}') }}}}"
    return _column_node(name, DoubleQuotedScalarString(doc), type_name)


def _model(
    table: GeneratedTable, suffix: str, description: str, tests: Sequence[Any], **more: Any
) -> str:
    model = CommentedMap(name=f"{table.name}{suffix}", description=description_node(description, 4))
    if tests:
        model["data_tests"] = [*tests]
    model.update(more)
    return dumped({"models": [model]})


def changes_yml(table: GeneratedTable) -> str:
    """The description of the change log."""
    tests = ("one_change_per_position", "no_misfits", "no_unknown_columns")
    return _model(table, "_changes", _describe_changes(table), tests)


def gold_yml(table: GeneratedTable) -> str:
    """The description of the gold table, which is its contract."""
    fold = table.fold
    described = {spec.column: spec for spec in (*table.key, *table.columns)}
    columns = [
        column_node(described[name]) if name in described else _technical_node(name, type_name)
        for name, type_name in fold.typed(
            fold.rows_columns if fold.keyless else fold.gold_columns
        ).items()
    ]
    tests: Sequence[Any] = ("unique_key", "equals_refold", "no_absent_keys")
    if fold.keyless:
        tests = [{"unique_combination": {"arguments": {"columns": ["_row", "_copy"]}}}]
    return _model(table, "", _describe_gold(table), tests, columns=columns)


_WRITERS: Final = {
    "aerospike_messagepack": "Aerospike's connector (MessagePack)",
    "aerospike_json": "Aerospike's connector (JSON)",
    "aerospike_flat_json": "Aerospike's connector (flat JSON)",
    "aerospike_avro": "Aerospike's connector (Avro)",
    "arcion_json": "Arcion",
    "lindorm_json": "Lindorm",
    "debezium_json": "Debezium",
    "debezium_avro": "Debezium",
    "debezium_unwrapped_json": "Debezium's ExtractNewRecordState",
    "debezium_unwrapped_avro": "Debezium's ExtractNewRecordState",
    "aws_dms_json": "AWS DMS",
    "cockroachdb_json": "a changefeed of CockroachDB",
    "maxwell_json": "Maxwell",
    "canal_json": "Canal",
    "mongodb_json": "MongoDB's Kafka connector",
}


def _origin(table: GeneratedTable) -> str:
    # A newly added format has no product's name.
    writers = " and ".join(_WRITERS.get(name, f"the writer of {name}") for name in table.formats)
    topics = " and ".join(f"`{topic}`" for topic in table.topics)
    return f"as {writers} ships them in the topic{'s' if len(table.topics) > 1 else ''} {topics}"


def _source_text(source: TableId) -> str:
    if source.is_aerospike:
        of_set = f"set `{source.table}`" if source.table else "records without a set"
        return f"Aerospike namespace `{source.schema}`, {of_set}"
    if source.table is None:
        return "a source table whose payloads do not name it"
    return f"source table `{source}`"


def _describe_changes(table: GeneratedTable) -> str:
    if table.source.is_aerospike:
        return (
            f"One row per write or delete of a record: {_source_text(table.source)}, "
            f"{_origin(table)}. Deletes that name no set are in `set_less_deletes` instead."
        )
    return (
        "One row per snapshot, insert, update or delete of a row, and per truncate: "
        f"{_source_text(table.source)}, {_origin(table)}."
    )


def grain(key: Iterable[str]) -> str:
    """The beginning of a gold table's description."""
    columns = " and ".join(f"`{_prose(column)}`" for column in key) or "row of the source"
    return f"One row per {columns} that exists now"


def _describe_gold(table: GeneratedTable) -> str:
    if table.source.is_aerospike:
        return (
            f"One row per record that exists now: {_source_text(table.source)}, {_origin(table)}. "
            "Deleted and expired records are absent."
        )
    order = "log" if table.order_by is None else "source"
    return (
        f"{grain(spec.column for spec in table.key)}: {_source_text(table.source)},"
        f" {_origin(table)}. The order of the {order} decides."
    )
