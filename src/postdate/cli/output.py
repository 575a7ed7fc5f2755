"""How commands print: tables for people; JSON, JSON lines or CSV for programs; progress bars.

Data goes to standard output, everything else to standard error. Only commands that change many
items ask for confirmation, and only at a terminal.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from postdate.cli.table import money_cell, print_rows
from postdate.core.money import MONEY_FIELDS, money_number
from postdate.words.error import StartError

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMATS: Final = ("table", "json", "jsonl", "csv")
TIMES: Final = ("iso", "relative")
BAR_WIDTH: Final = 40

EVERYWHERE: Final = (
    "With every command: `-o`, `--output` table|json|jsonl|csv (`--json` is short for `-o json`); "
    "`--time` iso|relative shows instants in tables relative to now; `--no-input` never "
    "asks; `--watch` repeats a read-only command."
)
"""The options that are taken out of a command line wherever they stand."""


class UsageError(Exception):
    """The command line is wrong: one sentence, and its own exit code."""


@dataclass(slots=True)
class OutputOptions:
    """The common options of a command line: output format, time format, no input, watch."""

    form: str = "table"
    time: str = "iso"
    no_input: bool = False
    watch: bool = False


_OPTIONS: Final[ContextVar[OutputOptions]] = ContextVar("output_options")


def options() -> OutputOptions:
    """Return the common options of this command line."""
    found = _OPTIONS.get(None)
    if found is None:
        _OPTIONS.set(found := OutputOptions())
    return found


def wants_json() -> bool:
    """Return whether the output must be one JSON document."""
    return options().form == "json"


def show(value: Any, columns: Sequence[str] = ()) -> None:
    """Print a struct, a list of structs, or a mapping, in the chosen format.

    A table shows `columns` only, if there are any, as far as they fit.
    """
    if wants_json():
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")
        return
    rows = msgspec.to_builtins(value)
    rows = rows if isinstance(rows, list) else [rows]
    match options().form:
        case "jsonl":
            sys.stdout.writelines(msgspec.json.encode(row).decode() + "\n" for row in rows)
        case "csv":
            _csv(rows)
        case _:
            print_rows(rows, columns, options().time)
    sys.stdout.flush()


def show_line(row: dict[str, Any], names: Sequence[str]) -> None:
    """Print one item of a stream: a short line for a person, JSON for a program."""
    if options().form != "table" or not sys.stdout.isatty():
        sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
    else:
        print("  ".join(money_cell(row, name, options().time) for name in names))
    sys.stdout.flush()


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv(rows: Sequence[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, _names(rows), restval="")
    if rows:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(row, name) for name in row})


def _cell(row: dict[str, Any], name: str) -> Any:
    cell = row[name]
    if name in MONEY_FIELDS and isinstance(cell, int):
        return money_number(cell, row.get("currency"))
    return msgspec.json.encode(cell).decode() if isinstance(cell, dict | list | bool) else cell


FLAGS: Final[dict[str, dict[str, Any]]] = {
    "--no-input": {"no_input": True},
    "--watch": {"watch": True},
    "--json": {"form": "json"},
}
VALUES: Final = {
    "-o": ("form", FORMATS),
    "--output": ("form", FORMATS),
    "--time": ("time", TIMES),
}


def take(arguments: Sequence[str]) -> list[str]:
    """Remove the common options from a command line; return the remaining words."""
    left: list[str] = []
    chosen: dict[str, Any] = {}
    given = iter(arguments)
    for word in given:
        name, equals, value = word.partition("=")
        if word in FLAGS:
            chosen |= FLAGS[word]
        elif name in VALUES:
            option, values = VALUES[name]
            chosen[option] = value if equals else next(given, "")
            if chosen[option] not in values:
                raise UsageError(f"{name} takes one of {', '.join(values)}")
        else:
            left.append(word)
    _OPTIONS.set(OutputOptions(**chosen))
    return left


def asks() -> bool:
    """Return whether a person can be asked for confirmation."""
    plain = options().form == "table" and not options().no_input
    return plain and sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> str | None:
    """Ask a person for a value; an empty line is none."""
    print(f"{question}: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() or None


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation of a change of many items; a program must pass --yes."""
    if yes:
        return
    if not asks():
        raise UsageError(f"this would {what}: pass --yes to do it, --dry-run to preview it")
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise StartError("nothing was done")


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[str], None]]:
    """Show the progress of long work, on standard error and on a terminal only."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    done = 0
    with Live(_bar(label, 0, total), console=console, transient=True) as live:

        def step(name: str) -> None:
            nonlocal done
            done += 1
            live.update(_bar(f"{label}: {name}" if name else label, done, total))

        yield step


def _bar(label: str, done: int, total: int | None) -> "RenderableType":
    """Draw a progress bar; without a total, only that work goes on."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    line = Table.grid(padding=(0, 1))
    count = str(done) if total is None else f"{done}/{total}"
    bar = ProgressBar(total=total, completed=done, width=BAR_WIDTH, pulse=total is None)
    line.add_row(label, bar, count)
    return line
