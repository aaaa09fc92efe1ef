"""`make commands`: each command's options, as its `--help` has them, in docs/commands.md."""

from typing import Final

import click

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.config.paths import ROOT

PAGE: Final = ROOT / "docs" / "commands.md"
# Behind it, all of the page is written by this.
_TITLE: Final = "## All options\n"
# Told once, above.
_OF_ALL: Final = frozenset(
    ("project_dir", "profiles_dir", "profile", "target", "variables", "help")
)


def page() -> str:
    """The page, with the options that commands have by now."""
    written, title, _ = PAGE.read_text().partition(_TITLE)
    intro = (
        "Beside dbt's own (above), from each command's `--help`; `make commands` writes this part."
    )
    parts = [f"{written}{title}\n{intro}\n"]
    parts += [_options(name, command) for name, command in lakehouse.commands.items()]
    return "\n".join(parts)


def _options(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, parent=click.Context(lakehouse))
    rows = [
        (_spelled(each, context), _help(each, context))
        for each in command.params
        if isinstance(each, click.Option) and each.name not in _OF_ALL and not each.hidden
    ]
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join(["lakehouse", name, *(each.make_metavar(context) for each in arguments)])
    lines = [f"### {name}", "", f"`{usage}`: {command.get_short_help_str(200)}", ""]
    if rows:
        lines += ["| option | what it does |", "|---|---|"]
        lines += [f"| {spelled} | {text} |" for spelled, text in rows]
        lines.append("")
    return "\n".join(lines)


def _spelled(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.make_metavar(context)}"


def _help(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    text = " ".join((record[1] if record else "").split())
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
