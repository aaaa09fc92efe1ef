"""`make recording`: README's picture of a terminal, of commands that are run on the demo's lake."""

import io
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from dbt_lakehouse.config.paths import ROOT

PICTURE: Final = ROOT / "docs" / "terminal.svg"
_COLUMNS: Final = 126


class Shown(NamedTuple):
    """A command, and how many lines of its output are shown."""

    arguments: Sequence[str]
    lines: int | None = None

    @property
    def line(self) -> str:
        """As one types it."""
        head = "" if self.lines is None else f" | head -{self.lines}"
        return shlex.join(self.arguments) + head


COMMANDS: Final = (
    Shown(
        (
            "lakehouse",
            "sql",
            "select status, count(*) as orders, sum(amount) as amount from orders group by all"
            " order by 2 desc",
        )
    ),
    Shown(
        (
            "lakehouse",
            "sql",
            "select status, amount, valid_from, valid_to from orders_history where order_id = 5013"
            " order by valid_from",
        )
    ),
    Shown(("lakehouse", "why", "--table", "orders", "--key", '{"order_id": 5021}'), 11),
)
# Rich's own, without the font that it would fetch.
_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def picture(output_of: Callable[[Sequence[str]], str]) -> str:
    """The picture; ``output_of`` runs a command."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for shown in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (shown.line, "bold")), soft_wrap=False)
        lines = output_of(shown.arguments).splitlines()[: shown.lines]
        for line in lines:
            console.print(Text(line), no_wrap=True, overflow="crop")
        console.print()
    return console.export_svg(title="cdc_lakehouse", code_format=_FORMAT, unique_id="terminal")


def _run(arguments: Sequence[str]) -> str:
    program = Path(sys.executable).with_name(arguments[0])
    done = subprocess.run([program, *arguments[1:]], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    PICTURE.write_text(picture(_run))
