"""The existing models: the source table and the declaration of each change log.

A model's call of ``change_log``, ``aerospike_change_log`` or ``current_state`` is parsed as the
Python expression that it also is. Its literals tell what the model takes, and their places in the
file let ``edit`` change a type without touching anything else. A call with expressions other than
literals can only be edited by its author.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from dbt_common.exceptions import CompilationError
from jinja2 import Environment, TemplateSyntaxError

from dbt_lakehouse.commands.generate.profile import TableId
from dbt_lakehouse.declared import message_keys
from dbt_lakehouse.declared.columns import HEADERS
from dbt_lakehouse.declared.declarations import ANY, ARGUMENTS
from python_udfs.typed.masks import masked_type

SUFFIX: Final = "_changes"
CHANGE_LOGS: Final = ("change_log", "aerospike_change_log")
_ARGUMENTS: Final = {name: ARGUMENTS[name] for name in (*CHANGE_LOGS, "current_state")}
_FORMER: Final = (
    "it is of the former kind, with key and columns in gold too: docs/add-a-table.md says how to"
    " move it"
)
_JINJA: Final = Environment(autoescape=False)
# Jinja's literals that Python capitalizes.
_NAMES: Final = {"none": None, "true": True, "false": False}


class Unreadable(Exception):
    """The reason why a model can't be read or edited."""


class Span(NamedTuple):
    """A span of a file, from its first character to before ``end``."""

    start: int
    end: int


class Entry(NamedTuple):
    """A column in a change log's declaration."""

    column: str
    field: str
    type: str
    encoding: str | None
    type_at: Span
    """The literal of the type, with its quotes."""
    is_inside: bool = False
    """Whether the column is inside of the field, at a path."""
    is_beside: bool = False
    """Whether the source gave it beside the row: then the field is its whole path."""
    is_masked: bool = False
    is_header: bool = False
    """Whether it is a Kafka header of the message: then the field is its name."""


@dataclass
class Call:
    """A macro call in a model file: its arguments, and the span of each value."""

    macro: str
    positional: list[ast.expr]
    arguments: dict[str, ast.expr]
    spans: dict[str, Span]
    start: int
    text: str

    def span(self, node: ast.expr) -> Span:
        """The span of a part of an argument in the file."""
        return Span(
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno or 0, node.end_col_offset or 0),
        )

    def _offset(self, line: int, column: int) -> int:
        """The character offset of a place that ``ast`` gives as a line and a byte offset."""
        # The expression is in parentheses of our own.
        lines = ("(" + self.text[self.start :]).split("\n")
        before = sum(len(each) + 1 for each in lines[: line - 1])
        return self.start - 1 + before + len(lines[line - 1].encode()[:column].decode())

    def literal(self, name: str) -> Any:
        """The value of an argument, None without one. Raises ``ValueError`` unless it is a
        literal.
        """
        node = self.arguments.get(name)
        return None if node is None else _literal(node)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    return ast.literal_eval(node)


def find_call(text: str) -> Call | None:
    """The call of one of the macros in a model's text, None without one.

    Raises ``Unreadable`` for a call that generate does not understand.
    """
    for start, end in _expressions(text):
        match = re.match(r"\s*((?:\w+\.)?(\w+))\s*\(", text[start:end])
        if match and match[2] in _ARGUMENTS:
            return _call(text, start + match.start(1), end, match[2])
    return None


def _expressions(text: str) -> Iterator[Span]:
    """The insides of a template's ``{{ }}``."""
    position = start = 0
    try:
        for _, kind, value in _JINJA.lex(text):
            # The lexer drops the blanks before `{{-`.
            position = text.index(value, position) + len(value)
            if kind == "variable_begin":
                start = position
            elif kind == "variable_end":
                yield Span(start, position - len(value))
    except TemplateSyntaxError as error:
        raise Unreadable(f"it is not valid Jinja: {error.message}") from None


def _call(text: str, start: int, end: int, macro: str) -> Call:
    try:
        node = ast.parse(f"({text[start:end].rstrip()})", mode="eval").body
    except SyntaxError:
        raise Unreadable("it has other expressions than literals") from None
    if not isinstance(node, ast.Call) or isinstance(node.func, ast.Call):
        raise Unreadable("it does more than to call the macro")
    arguments = {each.arg or "**": each.value for each in node.keywords}
    if macro == "current_state" and "changes" in arguments:
        raise Unreadable(_FORMER)
    unknown = sorted(arguments.keys() - _ARGUMENTS[macro])
    if unknown:
        raise Unreadable(f"generate knows no argument {', '.join(unknown)} of {macro}")
    call = Call(macro, node.args, arguments, {}, start, text)
    call.spans = {name: call.span(value) for name, value in arguments.items()}
    return call


class Source(NamedTuple):
    """The source tables that a change log takes: a name, None for null, ``ANY``, or a list of
    names for each part.
    """

    database: Any
    schema: Any
    table: Any
    is_aerospike: bool = False

    def takes(self, table: TableId) -> bool:
        """Whether it takes a table's events, whatever their topic."""
        return self.is_aerospike == table.is_aerospike and all(
            want == ANY or has in (want if isinstance(want, list | tuple) else (want,))
            for want, has in zip(self[:3], table[:3], strict=True)
        )

    @property
    def is_several(self) -> bool:
        """Whether events of several source tables can come together."""
        return any(part == ANY or isinstance(part, list | tuple) for part in self[:3])

    @property
    def wildcards(self) -> int:
        """The number of wildcards among the parts of the name."""
        return sum(part == ANY for part in self[:3])


@dataclass
class ChangeLog:
    """A typed change log that a model file declares."""

    model: str
    path: Path
    call: Call
    source: Source
    topic: str | None
    entries: dict[str, Entry] = field(default_factory=dict)
    key: list[str] = field(default_factory=list)
    """The names of key columns."""
    message_key: str | list[list[str]] | None = None
    """The declaration of the messages' own keys, see ``message_keys.declared``."""
    order_by: str | list[str] | None = None
    """Its order before Kafka's."""

    @property
    def key_fields(self) -> list[str]:
        """The key's field names at the source."""
        return [self.entries[column].field for column in self.key if column in self.entries]

    @property
    def entity(self) -> str:
        """The name for its gold table."""
        return self.model.removesuffix(SUFFIX)

    @property
    def fields(self) -> dict[str, Entry]:
        """Its columns of the row, by their names at the source."""
        return {entry.field: entry for entry in self.entries.values() if not entry.is_beside}

    @property
    def taken(self) -> dict[str, str | None]:
        """Its columns, and their names at the source; None for those beside the row."""
        return {
            column: None if entry.is_beside else entry.field
            for column, entry in self.entries.items()
        }

    def reads(self, table: TableId, topics: Iterable[str]) -> bool:
        """Whether the log takes a table's events of these topics."""
        if not self.source.takes(table):
            return False
        if self.topic is None:
            return True
        try:
            return any(re.fullmatch(self.topic, topic) for topic in topics)
        except re.error:
            return False


@dataclass
class GoldModel:
    """A model that is the current state of a change log."""

    model: str
    path: Path
    changes: str
    columns: list[str] | None
    """None for all columns of the log."""


@dataclass
class Models:
    """The models of a project."""

    names: set[str]
    """The names of all models, seeds and snapshots, which dbt wants to be unique."""
    logs: list[ChangeLog]
    gold: list[GoldModel]
    unreadable: dict[Path, str]
    """Models of these macros that can't be read, with the reason."""


def read_models(files: Iterable[Path], text_of: Callable[[Path], str] = Path.read_text) -> Models:
    """Read the project's model and seed files; ``text_of`` gives a file's text."""
    models = Models(set(), [], [], {})
    for path in sorted(files):
        models.names.add(path.stem)
        if path.suffix != ".sql":
            continue
        text = text_of(path)
        if not any(macro in text for macro in _ARGUMENTS):
            continue
        try:
            call = find_call(text)
            if call is None:
                continue
            if call.macro in CHANGE_LOGS:
                models.logs.append(_change_log(path, call))
            else:
                models.gold.append(_gold_model(path, call))
        except Unreadable as error:
            models.unreadable[path] = str(error)
        except (ValueError, KeyError, TypeError):
            models.unreadable[path] = "it has other expressions than literals"
    return models


def _change_log(path: Path, call: Call) -> ChangeLog:
    if call.positional:
        raise Unreadable("its arguments have no names")
    if call.macro == "change_log":
        source = Source(
            call.literal("source_database"),
            call.literal("source_schema"),
            call.literal("source_table"),
        )
    else:
        source = Source(None, call.literal("namespace"), call.literal("set"), True)
    log = ChangeLog(path.stem, path, call, source, call.literal("topic"))
    for argument in ("key", "columns"):
        for entry in _entries(call, argument):
            log.entries[entry.column] = entry
            if argument == "key":
                log.key.append(entry.column)
    if call.macro == "aerospike_change_log":
        log.key = ["_digest"]
    log.order_by = call.literal("order_by")
    said = call.literal("message_key")
    if said is not None:
        try:
            log.message_key = message_keys.declared(said, log.entity)
        except CompilationError as error:
            raise Unreadable(error.msg) from None
    return log


def _entries(call: Call, argument: str) -> Iterator[Entry]:
    node = call.arguments.get(argument)
    if node is None:
        return
    if not isinstance(node, ast.Dict):
        raise ValueError(f"{argument} is not a dict")
    for name, value in zip(node.keys, node.values, strict=True):
        if name is None:
            raise ValueError(f"{argument} takes another dict")
        column = _literal(name)
        if not isinstance(value, ast.Dict):
            yield Entry(column, column, _literal(value), None, call.span(value))
            continue
        parts = {
            _literal(each): part
            for each, part in zip(value.keys, value.values, strict=True)
            if each is not None
        }
        unknown = sorted(parts.keys() - {"name", "type", "encoding", "path", "from", "mask"})
        if unknown or "type" not in parts:
            raise Unreadable(
                f"its column {column} has {f'an unknown {unknown[0]}' if unknown else 'no type'}:"
                " a column is a type, or has a type, a name or a path, and an encoding; or a type,"
                " from, and a path"
            )
        shipped = _literal(parts["name"]) if "name" in parts else column
        is_beside = "from" in parts
        if "path" in parts:
            path = _literal(parts["path"])
            shipped = path if is_beside else path.partition(".")[0]
        encoding = _literal(parts["encoding"]) if "encoding" in parts else None
        type_at = call.span(parts["type"])
        type = _literal(parts["type"])
        if "mask" in parts:
            type = masked_type(_literal(parts["mask"]), type)
        is_masked = "mask" in parts
        # A masked column can only be edited by its author: its type does not follow from the
        # values.
        is_inside = "path" in parts or is_masked
        is_header = is_beside and _literal(parts["from"]) == HEADERS
        yield Entry(
            column, shipped, type, encoding, type_at, is_inside, is_beside, is_masked, is_header
        )


def _gold_model(path: Path, call: Call) -> GoldModel:
    log = call.positional[0] if len(call.positional) == 1 else None
    if not isinstance(log, ast.Call) or len(log.args) != 1:
        raise Unreadable("its argument is not a ref of a change log")
    return GoldModel(path.stem, path, _literal(log.args[0]), call.literal("columns"))
