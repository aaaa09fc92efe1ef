"""Change existing files: only what is needed, everything else stays as it is.

A model's SQL is Jinja, in which pieces of text are inserted or replaced; `documents` changes
YAML.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dbt_lakehouse.commands.generate import documents
from dbt_lakehouse.commands.generate.documents import CommentedMap, CommentedSeq, scalar
from dbt_lakehouse.commands.generate.models import (
    Spec,
    column_node,
    description_node,
    entry_lines,
    quoted,
    type_node,
)
from dbt_lakehouse.commands.generate.sources import Call, Span
from dbt_lakehouse.errors import ConfigurationError


class Piece(NamedTuple):
    """A text that replaces a span; an empty span inserts it."""

    at: Span
    text: str


def edited(text: str, pieces: Iterable[Piece]) -> str:
    """The text with the pieces in place; their spans don't overlap."""
    for piece in sorted(pieces, key=lambda piece: piece.at, reverse=True):
        text = text[: piece.at.start] + piece.text + text[piece.at.end :]
    return text


# --- Models ---------------------------------------------------------------------------------------


def retype(at: Span, type_name: str) -> Piece:
    """The change of a column's type in a change log."""
    return Piece(at, quoted(type_name))


def more_entries(call: Call, specs: Sequence[Spec]) -> Piece:
    """Further columns in a change log's ``columns``, in the style of the existing ones."""
    text, whole = call.text, call.spans["columns"]
    node = call.arguments["columns"]
    assert isinstance(node, ast.Dict)
    last = call.span(node.values[-1]) if node.values else None
    items = [entry_lines(spec, 0) for spec in specs]
    if last is None:
        indent = _indent_of(text, whole.start) + 4
        return Piece(whole, f"{{\n{_indented(items, indent)}\n{' ' * (indent - 4)}}}")
    if "\n" not in text[whole.start : whole.end]:
        inline = "".join(f", {' '.join(' '.join(item).split()).rstrip(',')}" for item in items)
        return Piece(Span(last.end, last.end), inline)
    rest = text[last.end : whole.end - 1]
    has_comma = rest.lstrip().startswith(",")
    at = last.end + rest.index(",") + 1 if has_comma else last.end
    lines = _indented(items, _indent_of(text, last.start))
    return Piece(Span(at, at), f"{'' if has_comma else ','}\n{lines}")


def _indent_of(text: str, position: int) -> int:
    """The indentation of the line at a position."""
    line = text[text.rfind("\n", 0, position) + 1 :]
    return len(line) - len(line.lstrip(" "))


def _indented(items: list[list[str]], indent: int) -> str:
    return "\n".join(" " * indent + line for item in items for line in item)


# --- Descriptions ---------------------------------------------------------------------------------


def _model(document: Any, name: str) -> Any:
    """The entry of a model in a YAML file. Raises ``LookupError`` without one."""
    found = document.get("models") if isinstance(document, Mapping) else None
    for model in found if isinstance(found, list) else ():
        if isinstance(model, Mapping) and model.get("name") == name:
            return model
    raise LookupError(name)


def _columns(model: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
    """A model's columns with their places."""
    listed = model.get("columns")
    return {
        column["name"]: (place, column)
        for place, column in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(column, Mapping) and "name" in column
    }


def describes(text: str, model: str) -> bool:
    """Whether a YAML file describes a model. Raises ``YAMLError``."""
    try:
        _model(documents.loaded(text), model)
    except LookupError:
        return False
    return True


def column_descriptions(text: str, model: str) -> dict[str, str]:
    """The columns that a YAML file lists for a model, with their descriptions."""
    return {
        name: str(column.get("description") or "")
        for name, (_, column) in _columns(_model(documents.loaded(text), model)).items()
    }


def column_type(text: str, model: str, column: str) -> str | None:
    """The data type that a YAML file gives a column of a model, None without one."""
    _, found = _columns(_model(documents.loaded(text), model)).get(column, (0, {}))
    data_type = found.get("data_type")
    return None if data_type is None else str(data_type)


def described(
    text: str,
    model: str,
    added: Sequence[Spec],
    behind: Iterable[str],
    retyped: Iterable[Spec],
    reworded: Iterable[Spec],
) -> str:
    """The YAML text with further columns of a model, and new types and descriptions of others.

    ``behind``: the new columns go after the last of these, or before all. Raises ``LookupError``
    if the text lists no columns of the model.
    """

    def change(document: Any) -> None:
        node = _model(document, model)
        columns = _columns(node)
        for spec in retyped:
            if "data_type" in columns.get(spec.column, (0, {}))[1]:
                columns[spec.column][1]["data_type"] = type_node(spec.type)
        for spec in reworded:
            if spec.column in columns:
                columns[spec.column][1]["description"] = description_node(spec.description, 8)
        new = [column_node(spec) for spec in added if spec.column not in columns]
        last = max((columns[name][0] for name in behind if name in columns), default=-1)
        documents.insert(node["columns"], last, new)

    return documents.changed(text, change)


def regrained(text: str, model: str, before: str, after: str) -> str:
    """The YAML text with a new beginning of a model's description, if it begins with ``before``.
    Raises ``LookupError`` if the text does not describe the model.
    """

    def change(document: Any) -> None:
        node = _model(document, model)
        words = " ".join(str(node.get("description") or "").split())
        if words.startswith(before):
            node["description"] = description_node(after + words.removeprefix(before), 4)

    return documents.changed(text, change)


# --- vars.topics ----------------------------------------------------------------------------------


def with_topics(text: str, formats: Mapping[str, str], *, from_kafka: bool = True) -> str:
    """The text of dbt_project.yml with more entries at the end of ``vars.topics``: topics, their
    formats, and whether Kafka brings them. Raises ``ConfigurationError`` if it has no such list.
    """
    beside = {} if from_kafka else {"kafka": False}

    def change(document: Any) -> None:
        topics = document["vars"]["topics"]
        entries = [
            CommentedMap(topic=scalar(topic), format=name, **beside)
            for topic, name in formats.items()
        ]
        if topics:
            if not isinstance(topics[-1], CommentedMap) or topics[-1].fa.flow_style():
                _flow(entries)
            documents.insert(topics, len(topics) - 1, entries)
        else:
            _flow(entries)
            document["vars"]["topics"] = CommentedSeq(entries)

    try:
        return documents.changed(text, change)
    except (KeyError, TypeError):
        shown = ", ".join(f"{{topic: {topic}, format: {name}}}" for topic, name in formats.items())
        raise ConfigurationError(
            f"dbt_project.yml has no list vars.topics: add it by hand, with {shown}"
        ) from None


def _flow(entries: Iterable[CommentedMap]) -> None:
    for entry in entries:
        entry.fa.set_flow_style()
