"""The SQL templates of models: files in ``sql/``, one for each statement. What statements share
are the macros of the files whose names end in ``parts``; every template has them by these names.

An undefined name in a template is an error, never an empty text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, nodes

from dbt_lakehouse.declared.fold_of_log import MOST_AHEAD
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.core.events import OF_ROWS, WITH_ROW, Event
from python_udfs.registry import AVRO_FORMATS

FOLDER: Final = Path(__file__).parent / "sql"
_PLACE: Final = ("topic", "partition", "offset", "timestamp", "log_time", "format")


def of_folder(folder: Path) -> Environment:
    """The template environment of a folder."""
    found = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # SQL, not HTML: texts are quoted by ``literal``.
        autoescape=False,
    )
    found.filters["literal"] = sql_text
    found.filters["each"] = _each
    found.filters["tuples"] = _tuples
    found.filters["lines"] = ",\n".join
    found.filters["lines_with_commas"] = _lines_with_commas
    found.globals["operations_of_rows"] = sql_texts(OF_ROWS)
    found.globals["operations_with_row"] = sql_texts(WITH_ROW)
    # The columns that `decode_payload` returns for an event, and all of an event's.
    found.globals["event_fields"] = [*Event._fields]
    found.globals["event_columns"] = [*_PLACE, *Event._fields]
    found.globals["avro_formats"] = sql_texts(AVRO_FORMATS)
    found.globals["most_ahead"] = MOST_AHEAD
    names = sorted(path.stem for path in folder.glob("*parts.sql"))
    found.globals.update({name: _Parts(found, name) for name in names})
    return found


def _each(names: Iterable[str], pattern: str) -> list[str]:
    """The pattern for each of some names, which take the place of `{}`: columns, for example, with
    the relation that they are of.
    """
    return [pattern.replace("{}", name) for name in names]


def _tuples(rows: Iterable[Mapping[str, str]], *names: str) -> list[str]:
    """Rows of a ``values`` clause, from the SQL of their values by name."""
    return [f"({', '.join(row[name] for name in names)})" for row in rows]


def _lines_with_commas(items: Iterable[str]) -> str:
    """The items with a comma behind each, for a list that may be empty and that goes on."""
    return "\n".join(f"{item}," for item in items)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The macros of a file of parts, as attributes. The file is read when the first one is used."""

    environment: Environment
    name: str

    def __getattr__(self, macro: str) -> Any:
        return getattr(self.environment.get_template(f"{self.name}.sql").module, macro)


_TEMPLATES: Final = of_folder(FOLDER)


def render(template: str, /, **arguments: Any) -> str:
    """The SQL of a template, which its file name without the ending names."""
    return _TEMPLATES.get_template(f"{template}.sql").render(arguments)


def union(queries: Iterable[str | None], word: str = "union all") -> str:
    """The rows of several queries; None is left out."""
    return f"\n{word}\n".join(filter(None, queries))


def parsed(template: str) -> nodes.Template:
    """The syntax tree of a template, without rendering it."""
    return _TEMPLATES.parse((FOLDER / f"{template}.sql").read_text())


def part(file: str, name: str, /, *arguments: Any, **named: Any) -> str:
    """A part of a statement: a macro of one of the files of parts, such as ``event_parts``."""
    return str(getattr(_TEMPLATES.globals[file], name)(*arguments, **named))
