"""The models that are there: which source table each change log reads, and what it declares.

A model's call of ``change_log``, ``aerospike_change_log`` or ``current_state`` is read as the
Python expression that it also is; its literals tell what the model takes, and their places in the
file let ``edit`` change a type without touching anything else. A call with other expressions than
literals is nobody's to edit but its author's.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.generate.profile import TableId

CHANGE_LOGS: Final = ("change_log", "aerospike_change_log")
SUFFIX: Final = "_changes"
_EXPRESSION: Final = re.compile(r"\{\{-?\s*(\w+)\s*\(")
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
# Literals of Jinja that Python writes with a capital letter.
_NAMES: Final = {"none": None, "true": True, "false": False}


class Span(NamedTuple):
    """A piece of a file, by the numbers of its first character and of the one behind it."""

    start: int
    end: int


class Entry(NamedTuple):
    """A column as a change log declares it."""

    column: str
    field: str
    type: str
    encoding: str | None
    type_at: Span
    """The type's literal, quotes included."""


@dataclass
class Call:
    """A call of a macro in a model file: its arguments, and where each of their values is."""

    macro: str
    arguments: dict[str, ast.expr]
    spans: dict[str, Span]
    start: int
    text: str

    def span(self, node: ast.expr) -> Span:
        """Where a part of an argument is in the file."""
        return Span(
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno or 0, node.end_col_offset or 0),
        )

    def _offset(self, line: int, column: int) -> int:
        """The character of a place that ``ast`` counts in lines and in bytes of a line."""
        # The expression stands in a parenthesis of our own.
        lines = ("(" + self.text[self.start :]).split("\n")
        before = sum(len(each) + 1 for each in lines[: line - 1])
        return self.start - 1 + before + len(lines[line - 1].encode()[:column].decode())

    def literal(self, name: str) -> Any:
        """The value of an argument, None if it is not given. ``ValueError`` for no literal."""
        node = self.arguments.get(name)
        return None if node is None else _literal(node)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    return ast.literal_eval(node)


def find_call(text: str, macros: Iterable[str]) -> Call | None:
    """The first call of one of the macros in a model's text that can be read."""
    # Comments go, places stay.
    readable = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _EXPRESSION.finditer(readable):
        if match[1] not in macros:
            continue
        start = match.start(1)
        end = readable.find("}}", start)
        while end >= 0:
            call = _parsed(text, start, readable[start:end].rstrip().removesuffix("-"))
            if call is not None:
                return call
            # Two braces may close two dicts as well.
            end = readable.find("}}", end + 1)
    return None


def _parsed(text: str, start: int, expression: str) -> Call | None:
    try:
        node = ast.parse(f"({expression})", mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        return None
    arguments = {each.arg: each.value for each in node.keywords if each.arg is not None}
    call = Call(node.func.id, arguments, {}, start, text)
    call.spans = {name: call.span(value) for name, value in arguments.items()}
    return call


@dataclass
class ChangeLog:
    """A typed change log that a model file declares."""

    model: str
    path: Path
    call: Call
    source: TableId
    """None in it matches any, as in the macro."""
    topic: str | None
    entries: dict[str, Entry] = field(default_factory=dict)
    key: list[str] = field(default_factory=list)
    """Names of key columns."""

    @property
    def entity(self) -> str:
        """The name that its gold table should have."""
        return self.model.removesuffix(SUFFIX)

    @property
    def fields(self) -> dict[str, Entry]:
        """What it declares, by the names at the source."""
        return {entry.field: entry for entry in self.entries.values()}

    def reads(self, table: TableId, topics: Iterable[str]) -> bool:
        """Whether the log takes a table's events of these topics."""
        if self.source.is_aerospike != table.is_aerospike:
            return False
        mine, theirs = self.source[:3], table[:3]
        if self.source.is_aerospike:
            if mine[1:] != theirs[1:]:
                return False
        elif any(want is not None and want != has for want, has in zip(mine, theirs, strict=True)):
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
    call: Call
    changes: str
    columns: list[str]


@dataclass
class Models:
    """The models of a project."""

    names: set[str]
    """Of all models, seeds and snapshots: dbt wants each once."""
    logs: list[ChangeLog]
    gold: list[GoldModel]
    unreadable: list[Path]
    """Change logs whose call is no list of literals."""


def read_models(files: Iterable[Path]) -> Models:
    """Read the project's model and seed files."""
    models = Models(set(), [], [], [])
    for path in sorted(files):
        models.names.add(path.stem)
        if path.suffix != ".sql":
            continue
        text = path.read_text()
        if not any(f"{macro}(" in text for macro in (*CHANGE_LOGS, "current_state")):
            continue
        try:
            log = _change_log(path, text)
            gold = _gold_model(path, text)
        except (ValueError, KeyError, TypeError):
            models.unreadable.append(path)
            continue
        if log is not None:
            models.logs.append(log)
        elif gold is not None:
            models.gold.append(gold)
        elif find_macro_name(text):
            models.unreadable.append(path)
    return models


def find_macro_name(text: str) -> bool:
    """Whether a text calls one of the macros at all, readable or not."""
    return any(match[1] in (*CHANGE_LOGS, "current_state") for match in _EXPRESSION.finditer(text))


def _change_log(path: Path, text: str) -> ChangeLog | None:
    call = find_call(text, CHANGE_LOGS)
    if call is None:
        return None
    if call.macro == "change_log":
        source = TableId(
            call.literal("source_database"),
            call.literal("source_schema"),
            call.literal("source_table"),
        )
    else:
        source = TableId(None, call.literal("namespace"), call.literal("set"), True)
    log = ChangeLog(path.stem, path, call, source, call.literal("topic"))
    for argument in ("key", "columns"):
        for entry in _entries(call, argument):
            log.entries[entry.column] = entry
            if argument == "key":
                log.key.append(entry.column)
    if call.macro == "aerospike_change_log":
        log.key = ["_digest"]
    return log


def _entries(call: Call, argument: str) -> Iterator[Entry]:
    node = call.arguments.get(argument)
    if node is None:
        return
    if not isinstance(node, ast.Dict):
        raise ValueError(f"{argument} is no dict")
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
        shipped = _literal(parts["name"]) if "name" in parts else column
        encoding = _literal(parts["encoding"]) if "encoding" in parts else None
        type_at = call.span(parts["type"])
        yield Entry(column, shipped, _literal(parts["type"]), encoding, type_at)


def _gold_model(path: Path, text: str) -> GoldModel | None:
    call = find_call(text, ("current_state",))
    if call is None:
        return None
    changes = call.arguments["changes"]
    if not isinstance(changes, ast.Call) or len(changes.args) != 1:
        raise ValueError("changes is no ref")
    return GoldModel(path.stem, path, call, _literal(changes.args[0]), call.literal("columns"))
