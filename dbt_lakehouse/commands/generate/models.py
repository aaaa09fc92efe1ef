"""The files of a new table in the project's style: change log, gold table, descriptions."""

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import yaml

from dbt_lakehouse.commands.generate.naming import needs_quotes
from dbt_lakehouse.commands.generate.profile import TableId

_WIDTH: Final = 100
POSITION_TYPE: Final = (
    "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
)
_WHY_WARN: Final = (
    "A bad value or a row without a key is reported; it must not keep good rows from gold."
)
_REGEX_SPECIAL: Final = re.compile(r"([\\.^$|?*+()\[\]{}])")


class Spec(NamedTuple):
    """A column of a table."""

    column: str
    field: str
    type: str
    description: str
    encoding: str | None = None


class Table(NamedTuple):
    """A source table, and what its models are to be."""

    name: str
    source: TableId
    topics: Sequence[str]
    formats: Sequence[str]
    key: Sequence[Spec]
    """Empty for Aerospike."""
    columns: Sequence[Spec]

    @property
    def key_columns(self) -> list[str]:
        """The gold table's key."""
        return ["_digest"] if self.source.is_aerospike else [spec.column for spec in self.key]


class _Technical(NamedTuple):
    """A column that the macros add."""

    name: str
    doc: str
    type: str


def _technical_before(table: Table) -> list[_Technical]:
    if not table.source.is_aerospike:
        return []
    return [
        _Technical("_namespace", "namespace", "string"),
        _Technical("_set", "set", "string"),
        _Technical("_digest", "digest", "string"),
        _Technical("_expires_at", "expires_at", "timestamp"),
    ]


def _technical_behind(table: Table) -> list[_Technical]:
    columns = [
        _Technical("_operation", "change_operation", "string"),
        _Technical("_occurred_at", "occurred_at", "timestamp"),
        _Technical("_position", "position", POSITION_TYPE),
        _Technical("_changed_columns", "changed_columns", "array<string>"),
        _Technical("_misfits", "misfits", "array<struct<column:string,text:string>>"),
        _Technical("_kafka_timestamp", "kafka_timestamp", "timestamp"),
    ]
    if not table.source.is_aerospike:
        key = struct_type((spec.column, spec.type) for spec in table.key)
        columns[4:4] = [
            _Technical("_unchanged_columns", "unchanged_columns", "array<string>"),
            _Technical("_previous_key", "previous_key", key),
        ]
    return columns


def _technical_gold(table: Table) -> list[_Technical]:
    columns = [
        _Technical("_occurred_at", "occurred_at", "timestamp"),
        _Technical("_max_occurred_at", "max_occurred_at", "timestamp"),
        _Technical("_position", "position", POSITION_TYPE),
    ]
    if table.source.is_aerospike:
        columns.append(_Technical("_expires_at", "expires_at", "timestamp"))
    return columns


def struct_type(fields: Iterable[tuple[str, str]]) -> str:
    """A struct of named fields and their types."""
    parts = (
        f"`{name}`:{part}" if needs_quotes(name) else f"{name}:{part}" for name, part in fields
    )
    return f"struct<{','.join(parts)}>"


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


def changes_sql(table: Table) -> str:
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
        where = {
            name: value
            for name, value in where.items()
            if value is not None or name == "source_table"
        }
    lines = ['{{ config(unique_key=["_position"]) }}', "", "{{", f"    {macro}("]
    lines += _pattern_lines(table.topics)
    for name, value in where.items():
        lines.append(f"        {name}={'none' if value is None else quoted(value)},")
    if not source.is_aerospike:
        lines += _dict_lines("key", table.key)
    lines += _dict_lines("columns", table.columns)
    return "\n".join([*lines, "    )", "}}", ""])


def _pattern_lines(topics: Sequence[str]) -> list[str]:
    line = f"        topic={quoted(topic_pattern(topics))},"
    if len(line) <= _WIDTH or len(topics) == 1:
        return [line]
    parts = [quoted(topic_pattern([topic]) + "|") for topic in topics[:-1]]
    parts.append(quoted(topic_pattern(topics[-1:])))
    # Literals beside each other are one, in Jinja as in Python.
    return ["        topic=(", *(f"            {part}" for part in parts), "        ),"]


def _dict_lines(name: str, specs: Sequence[Spec]) -> list[str]:
    if not specs:
        return [f"        {name}={{}},"]
    lines = [line for spec in specs for line in entry_lines(spec, 12)]
    return [f"        {name}={{", *lines, "        },"]


def gold_sql(table: Table) -> str:
    """The model file of the gold table."""
    lines = ["{{", "    current_state(", f'        changes=ref("{table.name}_changes"),']
    lines += _list_lines("key", table.key_columns)
    if table.source.is_aerospike:
        lines.append(f"        namespace={quoted(table.source.schema or '')},")
    columns = [spec.column for spec in table.columns]
    if columns:
        lines += ["        columns=["]
        lines += [f"            {quoted(column)}," for column in columns]
        lines += ["        ],"]
    else:
        lines += ["        columns=[],"]
    return "\n".join([*lines, "    )", "}}", ""])


def _list_lines(name: str, values: Sequence[str]) -> list[str]:
    line = f"        {name}=[{', '.join(quoted(value) for value in values)}],"
    if len(line) <= _WIDTH:
        return [line]
    return [
        f"        {name}=[",
        *(f"            {quoted(value)}," for value in values),
        "        ],",
    ]


# --- YAML -----------------------------------------------------------------------------------------


def scalar(text: str) -> str:
    """A YAML scalar of the text, plain where YAML reads that as the same text."""
    try:
        if text and yaml.safe_load(f"- {text}\n- [{text}]") == [text, [text]]:
            return text
    except yaml.YAMLError:
        pass
    return json.dumps(text, ensure_ascii=False)


def _prose(text: str) -> str:
    """Text for a description: one line, and nothing that dbt would take for Jinja."""
    plain = "".join(each if each.isprintable() else " " for each in text)
    return re.sub(r"([{}])(?=[{}%#])|(?<=[%#])(?=})", r"\1 ", plain)


def description_lines(text: str, indent: int) -> list[str]:
    """The lines of a description."""
    space = " " * indent
    text = _prose(text)
    try:
        plain = yaml.safe_load(f"x: {text}") == {"x": text}
    except yaml.YAMLError:
        plain = False
    line = f"{space}description: {text if plain else json.dumps(text, ensure_ascii=False)}"
    if len(line) <= _WIDTH:
        return [line]
    folded = textwrap.wrap(
        text, _WIDTH - 2 - indent, break_long_words=False, break_on_hyphens=False
    )
    return [f"{space}description: >-", *(f"{space}  {each}" for each in folded)]


def column_lines(spec: Spec, *, is_key: bool = False, is_unique: bool = False) -> list[str]:
    """A column's lines in the list of a model's columns; key columns of gold have tests."""
    lines = [f"      - name: {scalar(spec.column)}"]
    lines += description_lines(spec.description, 8)
    lines.append(f"        data_type: {type_scalar(spec.type)}")
    if needs_quotes(spec.column):
        lines.append("        quote: true")
    if is_key:
        lines += ["        data_tests:", "          - not_null"]
        if is_unique:
            lines.append("          - unique")
    return lines


def type_scalar(type_name: str) -> str:
    """A data type as the project's files write it."""
    if any(each in type_name for each in ",:("):
        return json.dumps(type_name, ensure_ascii=False)
    return scalar(type_name)


def _technical_lines(columns: Iterable[_Technical]) -> list[str]:
    lines = []
    for column in columns:
        lines += [
            f"      - name: {column.name}",
            f"        description: \"{{{{ doc('{column.doc}') }}}}\"",
            f"        data_type: {type_scalar(column.type)}",
        ]
    return lines


def _flow(values: Iterable[Any]) -> str:
    return f"[{', '.join(scalar(value) for value in values)}]"


def _model_lines(name: str, description: str) -> list[str]:
    return ["models:", f"  - name: {name}", *description_lines(description, 4)]


def changes_yml(table: Table) -> str:
    """The description of the change log."""
    if table.source.is_aerospike:
        operations = ["upsert", "delete"]
    else:
        operations = ["snapshot", "insert", "update", "delete", "truncate"]
    lines = [
        *_model_lines(f"{table.name}_changes", _describe_changes(table)),
        "    data_tests:",
        "      - one_change_per_position:",
        "          arguments:",
        f"            operations: {_flow(operations)}",
        f"      # {_WHY_WARN}",
        "      - no_misfits:",
        "          arguments:",
        *_wrapped_flow("            key: ", table.key_columns),
        "          config:",
        "            severity: warn",
        "      - no_unknown_columns",
        "    columns:",
        *_technical_lines(_technical_before(table)),
    ]
    for spec in (*table.key, *table.columns):
        lines += column_lines(spec)
    lines += _technical_lines(_technical_behind(table))
    return "\n".join([*lines, ""])


def _wrapped_flow(start: str, values: Sequence[str]) -> list[str]:
    line = f"{start}{_flow(values)}"
    if len(line) <= _WIDTH:
        return [line]
    space = " " * (len(start) - len(start.lstrip()))
    return [start.rstrip(), *(f"{space}  - {scalar(value)}" for value in values)]


def gold_yml(table: Table) -> str:
    """The description of the gold table, its contract."""
    lines = [
        *_model_lines(table.name, _describe_gold(table)),
        "    data_tests:",
        "      - equals_refold:",
        "          arguments:",
        f"            changes: {table.name}_changes",
        "      - no_absent_keys",
    ]
    key = table.key_columns
    if len(key) > 1:
        lines += ["      - unique_combination:", "          arguments:"]
        lines += _wrapped_flow("            columns: ", key)
    lines.append("    columns:")
    if table.source.is_aerospike:
        technical = {column.name: column for column in _technical_before(table)}
        lines += _technical_lines([technical["_digest"]])
        lines += ["        data_tests:", "          - not_null", "          - unique"]
        lines += _technical_lines([technical["_namespace"], technical["_set"]])
    for spec in table.key:
        lines += column_lines(spec, is_key=True, is_unique=len(key) == 1)
    for spec in table.columns:
        lines += column_lines(spec)
    lines += _technical_lines(_technical_gold(table))
    return "\n".join([*lines, ""])


_WRITERS: Final = {
    "aerospike_messagepack": "Aerospike's connector (MessagePack)",
    "aerospike_json": "Aerospike's connector (JSON)",
    "arcion_json": "Arcion",
    "lindorm_json": "Lindorm",
    "debezium_json": "Debezium",
}


def _origin(table: Table) -> str:
    # A format that was added has no product's name.
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


def _describe_changes(table: Table) -> str:
    if table.source.is_aerospike:
        return (
            f"One row per write or delete of a record: {_source_text(table.source)}, "
            f"{_origin(table)}. Deletes that name no set are in `set_less_deletes` instead."
        )
    return (
        "One row per snapshot, insert, update or delete of a row, and per truncate: "
        f"{_source_text(table.source)}, {_origin(table)}."
    )


def _describe_gold(table: Table) -> str:
    if table.source.is_aerospike:
        return (
            f"One row per record that exists now: {_source_text(table.source)}, {_origin(table)}. "
            "Deleted and expired records are absent."
        )
    key = " and ".join(f"`{_prose(column)}`" for column in table.key_columns)
    return (
        f"One row per {key} that exists now: {_source_text(table.source)}, {_origin(table)}. "
        "The order of the log decides."
    )
