"""How commands print: tables for people; JSON, JSON lines or CSV for programs; bars while it lasts.

Data goes to standard output, everything else to standard error; nothing is ever asked.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMATS: Final = ("table", "json", "jsonl", "csv")
FLAGS: Final = ("-o", "--output")
BAR_WIDTH: Final = 40

Step = Callable[[str], None]
"""Told the name of each part of long work that is done."""


class Choice:
    """The form that the whole command line asked for."""

    form: str = "table"


def show(value: Any, *, as_json: bool) -> None:
    """Print a struct, a list of them, or a mapping, in the form that was asked for."""
    form = "json" if as_json and Choice.form == "table" else Choice.form
    if form == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")
        return
    rows = msgspec.to_builtins(value)
    rows = rows if isinstance(rows, list) else [rows]
    match form:
        case "jsonl":
            sys.stdout.writelines(msgspec.json.encode(row).decode() + "\n" for row in rows)
        case "csv":
            _csv(rows)
        case _:
            _table(rows)
    sys.stdout.flush()


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv(rows: Sequence[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, _names(rows), restval="")
    if rows:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(cell) for name, cell in row.items()})


def _cell(cell: Any) -> Any:
    return msgspec.json.encode(cell).decode() if isinstance(cell, dict | list) else cell


def _table(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not rows:
        Console(stderr=True).print("none")
        return
    names = _names(rows)
    table = Table(*names)
    for row in rows:
        cells = (row.get(name) for name in names)
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    Console().print(table)


def take_format(arguments: Sequence[str]) -> list[str]:
    """Take `-o FORMAT` out of a command line, wherever it stands, and remember it."""
    left: list[str] = []
    given = iter(arguments)
    for word in given:
        name, equals, value = word.partition("=")
        if name not in FLAGS:
            left.append(word)
            continue
        wanted = value if equals else next(given, "")
        if wanted not in FORMATS:
            raise ValueError(f"{name} takes one of {', '.join(FORMATS)}")
        Choice.form = wanted
        if wanted == "json":
            left.append("--json")
    return left


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Step]:
    """Show how far long work has come; on a terminal only, and on standard error."""
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
    """Draw how far it is; without a total only that it goes on."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    line = Table.grid(padding=(0, 1))
    count = str(done) if total is None else f"{done}/{total}"
    bar = ProgressBar(total=total, completed=done, width=BAR_WIDTH, pulse=total is None)
    line.add_row(label, bar, count)
    return line
