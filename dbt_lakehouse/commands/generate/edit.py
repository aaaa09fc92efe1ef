"""Changes to files that are there: pieces put in or replaced, everything else left as it is."""

import ast
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import yaml

from dbt_lakehouse.commands.generate.models import (
    Spec,
    column_lines,
    entry_lines,
    quoted,
    scalar,
    type_scalar,
)
from dbt_lakehouse.commands.generate.sources import Call, Span
from dbt_lakehouse.errors import ConfigurationError
from python_udfs.registry import FORMATS

_TRAILING: Final = " \t\r\n"


class Piece(NamedTuple):
    """Text that takes the place of a span; of an empty one, it is put in."""

    at: Span
    text: str


def edited(text: str, pieces: Iterable[Piece]) -> str:
    """The text with the pieces in place; their spans don't overlap."""
    for piece in sorted(pieces, key=lambda piece: piece.at, reverse=True):
        text = text[: piece.at.start] + piece.text + text[piece.at.end :]
    return text


# --- Models ---------------------------------------------------------------------------------------


def retype(at: Span, type_name: str) -> Piece:
    """Another type for a column of a change log."""
    return Piece(at, quoted(type_name))


def more_entries(call: Call, specs: Sequence[Spec]) -> Piece:
    """Further columns in a change log's ``columns``."""
    node = call.arguments["columns"]
    assert isinstance(node, ast.Dict)
    last = call.span(node.values[-1]) if node.values else None
    return _more(call, call.spans["columns"], last, [entry_lines(spec, 0) for spec in specs])


def more_names(call: Call, names: Sequence[str]) -> Piece:
    """Further columns in a gold table's ``columns``."""
    node = call.arguments["columns"]
    assert isinstance(node, ast.List)
    last = call.span(node.elts[-1]) if node.elts else None
    return _more(call, call.spans["columns"], last, [[f"{quoted(name)},"] for name in names])


def _more(call: Call, whole: Span, last: Span | None, items: list[list[str]]) -> Piece:
    """Items behind the last one of a dict or list, written as those before them."""
    text = call.text
    if last is None or "\n" not in text[whole.start : whole.end]:
        if last is None:
            indent = _indent_of(text, whole.start) + 4
            lines = _indented(items, indent)
            opening, closing = text[whole.start], text[whole.end - 1]
            return Piece(whole, f"{opening}\n{lines}\n{' ' * (indent - 4)}{closing}")
        inline = "".join(f", {' '.join(' '.join(item).split()).rstrip(',')}" for item in items)
        return Piece(Span(last.end, last.end), inline)
    rest = text[last.end : whole.end - 1]
    has_comma = rest.lstrip().startswith(",")
    at = last.end + rest.index(",") + 1 if has_comma else last.end
    lines = _indented(items, _indent_of(text, last.start))
    return Piece(Span(at, at), f"{'' if has_comma else ','}\n{lines}")


def _indent_of(text: str, position: int) -> int:
    """How far the line that holds a position is indented."""
    line = text[text.rfind("\n", 0, position) + 1 :]
    return len(line) - len(line.lstrip(" "))


def _indented(items: list[list[str]], indent: int) -> str:
    return "\n".join(" " * indent + line for item in items for line in item)


# --- Descriptions ---------------------------------------------------------------------------------


class Described:
    """A model in a YAML file: where its columns are."""

    def __init__(self, text: str, model: str) -> None:
        """``LookupError`` if the file does not describe the model."""
        self._text = text
        self._items: dict[str, yaml.MappingNode] = {}
        columns = _value(_model_node(text, model), "columns")
        if not isinstance(columns, yaml.SequenceNode) or not columns.value:
            raise LookupError(model)
        for item in columns.value:
            name = _value(item, "name")
            if isinstance(name, yaml.ScalarNode):
                self._items[name.value] = item
        self._start = columns.start_mark.index

    def __contains__(self, column: str) -> bool:
        return column in self._items

    def add(self, specs: Sequence[Spec], behind: Iterable[str]) -> Piece:
        """Further columns behind the last of some, else in front of all."""
        anchors = [self._items[name] for name in behind if name in self._items]
        if not anchors:
            first = min(self._items.values(), key=lambda item: item.start_mark.index)
            line = self._text.rfind("\n", 0, first.start_mark.index) + 1
            indent = first.start_mark.index - line - 2
            return Piece(Span(line, line), self._lines(specs, indent))
        last = max(anchors, key=lambda item: item.start_mark.index)
        end = max(_scalar_ends(last))
        end = len(self._text[:end].rstrip(_TRAILING))
        # A comment behind the value stays on its line.
        newline = self._text.find("\n", end)
        end = len(self._text) if newline < 0 else newline
        return Piece(Span(end, end), "\n" + self._lines(specs, last.start_mark.column - 2)[:-1])

    def retype(self, column: str, type_name: str) -> Piece | None:
        """Another ``data_type`` for a column, None if it has none."""
        node = _value(self._items[column], "data_type") if column in self._items else None
        if node is None:
            return None
        span = Span(node.start_mark.index, node.end_mark.index)
        return Piece(span, type_scalar(type_name))

    @staticmethod
    def _lines(specs: Sequence[Spec], indent: int) -> str:
        # Written for the project's own indentation of 6.
        shift = indent - 6
        lines = [line for spec in specs for line in column_lines(spec)]
        return "".join(f"{' ' * shift + line if shift >= 0 else line[-shift:]}\n" for line in lines)


def _model_node(text: str, model: str) -> yaml.Node:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    models = _value(root, "models")
    if isinstance(models, yaml.SequenceNode):
        for node in models.value:
            name = _value(node, "name")
            if isinstance(name, yaml.ScalarNode) and name.value == model:
                return node
    raise LookupError(model)


def describes(text: str, model: str) -> bool:
    """Whether a YAML file describes a model."""
    try:
        _model_node(text, model)
    except (LookupError, yaml.YAMLError):
        return False
    return True


def _value(node: Any, name: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value
    return None


def _scalar_ends(node: yaml.Node) -> list[int]:
    if isinstance(node, yaml.ScalarNode):
        return [node.end_mark.index]
    if node.value and node.flow_style:
        return [node.end_mark.index]
    parts = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
    return [end for part in parts for end in _scalar_ends(part)] or [node.end_mark.index]


# --- vars.topics ----------------------------------------------------------------------------------


def with_topic(text: str, topic: str, format_name: str) -> str:
    """The text of dbt_project.yml with one more entry at the end of ``vars.topics``."""
    if format_name not in FORMATS:
        raise ValueError(format_name)
    entry = f"- {{ topic: {scalar(topic)}, format: {format_name} }}"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    variables = _value(root, "vars")
    topics = _value(variables, "topics")
    if isinstance(topics, yaml.SequenceNode) and topics.value and not topics.flow_style:
        end = max(_scalar_ends(topics.value[-1]))
        newline = text.find("\n", len(text[:end].rstrip(_TRAILING)))
        end = len(text) if newline < 0 else newline
        line = f"\n{' ' * topics.start_mark.column}{entry}"
        return text[:end] + line + text[end:]
    if topics is not None and (
        (isinstance(topics, yaml.SequenceNode) and not topics.value)
        or (isinstance(topics, yaml.ScalarNode) and topics.value in ("", "null", "~"))
    ):
        for key, value in variables.value:
            if value is topics:
                indent = " " * (key.start_mark.column + 2)
                start, end = topics.start_mark.index, topics.end_mark.index
                return f"{text[:start].rstrip(' ')}\n{indent}{entry}{text[end:]}"
    raise ConfigurationError(
        f"dbt_project.yml has no list vars.topics, one entry a line: add `{entry}` by hand"
    )
