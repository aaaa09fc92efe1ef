"""The interactive shell: queries and a few commands of its own, with history and completion."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from dbt_lakehouse.config.paths import cache_folder
from dbt_lakehouse.errors import CacheError, ConfigurationError, LakehouseError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.drawing import expanded_lines, fitted
from dbt_lakehouse.queries.output import FORMS, Screen, Write
from dbt_lakehouse.queries.query import answer, moment

HELP: Final = """\
\\d [TABLE]       list the tables, or a table's columns, with their descriptions
\\as-of TIME|now  show the tables as they were then
\\limit N|all     print so many rows at most
\\form FORM       print rows as table, expanded, csv or json
\\x [on|off]      print a line for each column, or (off) a table again
\\timing [on|off] print the seconds that each query takes
\\?, \\h           list these
\\q               leave; so does Ctrl-D
Anything else is a query, up to its semicolon. Ctrl-C ends one, Tab completes names.
"""
_WORDS: Final = (
    "select from where group by order by having limit with as join left using on and or not in is"
    " null like between case when then else end distinct count sum min max avg desc asc union all"
    " except intersect exists cast coalesce describe summarize"
).split()
_COMMANDS: Final = re.findall(r"^\\[\w?-]+", HELP, re.MULTILINE)
_SWITCHES: Final = {"on": True, "off": False}
_WORD: Final = re.compile(r"\\?[\w.]*$")


class Shell:
    """Answers what a person types, until the input ends."""

    def __init__(
        self,
        reader: Reader,
        form: str,
        limit: int | None,
        write: Write,
        width: Callable[[], int | None],
    ) -> None:
        self._reader: Final = reader
        self._form = form
        self._limit = limit
        self._write: Final = write
        self._width: Final = width
        self._is_timed = False

    def run(self, tell: Write) -> None:
        """Read and answer, with errors to ``tell``, until the input ends."""
        session: PromptSession[str] = PromptSession(
            "lake> ",
            history=_history(),
            completer=Names(self._reader),
            complete_while_typing=False,
            # Enter ends a complete query, and otherwise begins a new line.
            multiline=Condition(lambda: not _is_whole(get_app().current_buffer.text)),
        )
        self._write(b"\\? for help, \\q to leave\n")
        while True:
            try:
                line = session.prompt().strip()
                if line == "\\q":
                    return
                self._answer(line, tell)
            except EOFError:
                return
            except KeyboardInterrupt:
                continue
            except LakehouseError as error:
                tell(f"{' '.join(str(error).split())}\n".encode())

    def _answer(self, line: str, tell: Write) -> None:
        if not line:
            return
        if not line.startswith("\\"):
            with self._timed(tell):
                self._reader.refresh()
                screen = Screen(self._width(), "\\limit", "\\x")
                answer(self._reader, line, self._form, self._limit, self._write, screen)
            return
        word, _, rest = line.rstrip("; ").partition(" ")
        rest = rest.strip()
        if word in ("\\?", "\\h"):
            self._write(HELP.encode())
        elif word == "\\d":
            self._reader.refresh()
            self._write(self._drawn(listing(self._reader, rest)).encode())
        elif word == "\\as-of" and rest:
            self._reader.set_time(None if rest == "now" else moment(rest))
        elif word == "\\limit" and (rest.isdecimal() or rest == "all"):
            self._limit = None if rest == "all" else int(rest)
        elif word == "\\form" and rest in FORMS and rest != "parquet":
            self._form = rest
        elif word == "\\x" and rest in ("", *_SWITCHES):
            is_on = _SWITCHES.get(rest, self._form != "expanded")
            self._form = "expanded" if is_on else "table"
            self._write(f"expanded display is {'on' if is_on else 'off'}\n".encode())
        elif word == "\\timing" and rest in ("", *_SWITCHES):
            self._is_timed = _SWITCHES.get(rest, not self._is_timed)
            self._write(f"timing is {'on' if self._is_timed else 'off'}\n".encode())
        else:
            raise ConfigurationError(f"{line} is not a command here: \\? lists them")

    @contextmanager
    def _timed(self, tell: Write) -> Iterator[None]:
        """Report the time taken, errors included, separately from the rows, which may be CSV."""
        begin = time.monotonic()
        try:
            yield
        finally:
            if self._is_timed:
                tell(f"{time.monotonic() - begin:.3f} s\n".encode())

    def _drawn(self, listing: "Listing") -> str:
        if self._form == "expanded":
            return "".join(f"{line}\n" for line in expanded_lines(*listing))
        return fitted(*listing, self._width()).text


class Listing(NamedTuple):
    """The listing of tables or columns to draw."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def listing(reader: Reader, name: str) -> Listing:
    """The tables, or the columns of one. Raises ``ConfigurationError``."""
    columns = reader.columns()
    if not name:
        tables = [
            (each, len(columns.get(each, {})), _on_one_line(reader.description(each)))
            for each in reader.names
        ]
        return Listing(("table", "columns", "description"), tables)
    name = reader.known(name)
    comments = reader.comments(name)
    described = [
        (column, kind.lower(), _on_one_line(comments.get(column, "")))
        for column, kind in columns[name].items()
    ]
    return Listing(("column", "type", "description"), described)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


class Names(Completer):
    """Completes tables, columns of the tables that a query names, and SQL keywords."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Final = reader

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        found = _WORD.search(document.text_before_cursor)
        begun = found[0] if found else ""
        for name in self._candidates(document.text):
            if name.lower().startswith(begun.lower()):
                yield Completion(name, start_position=-len(begun))

    def _candidates(self, text: str) -> list[str]:
        if text.startswith("\\") and " " not in text:
            return _COMMANDS
        columns = self._reader.columns()
        words = set(re.findall(r"[\w.]+", text))
        named = [name for name in columns if {name, name.partition(".")[2]} & words]
        of_tables = {column for name in named or columns for column in columns[name]}
        bare = {name.partition(".")[2] for name in columns}
        return [*sorted(of_tables), *sorted(columns), *sorted(bare), *_WORDS]


def _is_whole(text: str) -> bool:
    line = text.strip()
    return not line or line.startswith("\\") or line.endswith(";")


def _history() -> History:
    try:
        return FileHistory(cache_folder("sql") / "history")
    except CacheError:
        # Another user's checkout.
        return InMemoryHistory()
