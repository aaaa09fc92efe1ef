"""The SQL of what runs a model: templates in ``sql/``, one file a statement.

A name that a template is not given is an error, never an empty text.
"""

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, nodes

from dbt_lakehouse.texts import sql_text

FOLDER: Final = Path(__file__).parent / "sql"


def of_folder(folder: Path) -> Environment:
    """The templates of a folder."""
    found = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # SQL, not HTML: texts are quoted by ``literal``.
        autoescape=False,
    )
    found.filters["literal"] = sql_text
    return found


_TEMPLATES: Final = of_folder(FOLDER)


def render(template: str, /, **arguments: Any) -> str:
    """The SQL of a template, by its file's name without the ending."""
    return _TEMPLATES.get_template(f"{template}.sql").render(arguments)


def parsed(template: str) -> nodes.Template:
    """What a template's file says, for who looks at it without rendering it."""
    return _TEMPLATES.parse((FOLDER / f"{template}.sql").read_text())


def part(file: str, name: str, /, *arguments: Any, **named: Any) -> str:
    """A part of a statement: a macro of one of the files of parts (``parts``, ``events``)."""
    module = _TEMPLATES.get_template(f"{file}.sql").module
    return str(getattr(module, name)(*arguments, **named))
