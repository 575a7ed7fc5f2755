"""Tables for people: numbers aligned, lists in words, ids short where a person reads them."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from postdate.core.money import MONEY_FIELDS, money_text

if TYPE_CHECKING:
    from rich.console import Console

WIDEST: Final = 10_000
FEWEST: Final = 3
"""With fewer columns than these, one thing is printed below the other instead."""
UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
ID: Final = re.compile(
    r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}([0-9a-f]{4})"
)
PrintedRow = dict[str, Any]


def print_rows(
    rows: Sequence[PrintedRow], columns: Sequence[str], time: str, currency: str | None = None
) -> None:
    """Print rows as a table: of `columns` as many as fit, or all fields if none is named.

    Amounts are in the currency that their row names, or else in the given one.
    """
    from rich.console import Console

    if not rows:
        Console(stderr=True).print("none")
        return
    console = Console()
    if len(rows) == 1 and not columns and _is_nested(rows[0]):
        _print_parts(console, rows[0], time, currency)
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    chosen = [name for name in columns if name in names]
    own = [{"currency": currency, **row} for row in rows]
    texts = _texts(own, chosen or names, time, short=console.is_terminal and len(rows) > 1)
    if chosen:
        names = _fitting(console, texts)
    numbers = [name for name in names if all(_is_number(row.get(name)) for row in rows)]
    print_table(console, names, [[row[name] for name in names] for row in texts], numbers)


def money_cell(row: PrintedRow, name: str, time: str = "iso") -> str:
    """Return what a person reads of a field: amounts in units of the row's currency.

    A field of an object within the row is named by the way to it: `end.balance`.
    """
    cell, currency = row.get(name), row.get("currency")
    if currency and name.rpartition(".")[2] in MONEY_FIELDS and isinstance(cell, int):
        return money_text(cell, currency)
    return cell_text(cell, time)


def _is_nested(row: PrintedRow) -> bool:
    return any(isinstance(each, dict) or _is_listing(each) for each in row.values())


def _is_listing(cell: Any) -> bool:
    return isinstance(cell, list) and bool(cell) and all(isinstance(each, dict) for each in cell)


def _print_parts(
    console: "Console", row: PrintedRow, time: str, inherited: str | None = None
) -> None:
    """Print one thing: its fields below each other, then a table for each list in it."""
    from rich.text import Text

    currency = row.get("currency", inherited)
    own = {name: cell for name, cell in _flat(row) if not _is_listing(cell)}
    texts = {name: money_cell({"currency": currency, **own}, name, time) for name in own}
    _print_below(console, [(name, text) for name, text in texts.items() if text])
    for name, cell in _flat(row):
        if _is_listing(cell):
            console.print(Text(f"\n{name}"))
            print_rows([dict(_flat(each)) for each in cell], (), time, currency)


def _flat(row: PrintedRow) -> Iterator[tuple[str, Any]]:
    """Name the fields of objects by the way to them: `misfire.policy`."""
    for name, cell in row.items():
        if isinstance(cell, dict):
            yield from ((f"{name}.{inner}", each) for inner, each in _flat(cell))
        else:
            yield name, cell


def cell_text(cell: Any, time: str = "iso") -> str:
    """Return what a person reads of a value."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case str() if time == "relative" and INSTANT.fullmatch(cell):
            return relative((datetime.fromisoformat(cell) - datetime.now(UTC)).total_seconds())
        case [] | [str() | int() | float(), *_]:
            return ", ".join(cell_text(each, time) for each in cell)
        case dict() | list():
            return _nested_text(cell, time)
        case _:
            return printable(str(cell))


def _nested_text(cell: dict[str, Any] | list[Any], time: str) -> str:
    if isinstance(cell, list):
        return "; ".join(cell_text(each, time) for each in cell)
    return ", ".join(f"{printable(name)}={cell_text(each, time)}" for name, each in cell.items())


def printable(text: str) -> str:
    """Write control characters as escapes: a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def relative(seconds: float) -> str:
    """Return how far away an instant is."""
    size = abs(seconds)
    for unit, name in UNITS:
        if size >= unit:
            text = f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
            return f"in {text}" if seconds > 0 else f"{text} ago"
    return "now"


def _texts(
    rows: Sequence[PrintedRow], names: Sequence[str], time: str, *, short: bool
) -> list[dict[str, str]]:
    """Write every cell; with `short` the ids of other things, for the own one is copied whole."""
    found = [{name: money_cell(row, name, time) for name in names} for row in rows]
    if short:
        for row in found:
            row |= {name: ID.sub(r"\1…\2", row[name]) for name in names[1:]}
    return found


def _is_number(cell: Any) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _fitting(console: "Console", rows: Sequence[dict[str, str]]) -> list[str]:
    """Drop the least important columns until the rest fits; keep all for another program."""
    names = list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) + 3 for name in names]
    count = len(names)
    while console.is_terminal and count > FEWEST and sum(widths[:count]) + 1 > console.width:
        count -= 1
    return names[:count]


def print_table(
    console: "Console",
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[str] = (),
) -> None:
    """Print a table; if it is too wide for the terminal, print the fields below each other.

    Output to another program has no width limit.
    """
    from rich.measure import Measurement
    from rich.table import Column, Table
    from rich.text import Text

    # As text: what a tenant wrote in brackets is no instruction to us.
    texts = [[Text(cell) for cell in row] for row in rows]
    table = Table(*(Column(name, justify=_side(name in numbers)) for name in names))
    for row in texts:
        table.add_row(*row)
    wide = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    if not console.is_terminal:
        console.width = max(console.width, wide)
    if wide <= console.width:
        console.print(table)
        return
    for number, fields in enumerate(rows):
        if number:
            console.print()
        _print_below(console, [(n, cell) for n, cell in zip(names, fields, strict=True) if cell])


def _print_below(console: "Console", fields: Sequence[tuple[str, str]]) -> None:
    """Print fields below each other; to another program each stays on its line."""
    from rich.table import Column, Table
    from rich.text import Text

    one = Table.grid("", Column(overflow="fold"), padding=(0, 2))
    for name, cell in fields:
        one.add_row(Text(printable(name)), Text(cell))
    console.print(one, width=None if console.is_terminal else WIDEST)


def _side(is_number: bool) -> Literal["left", "right"]:  # noqa: FBT001 - it says which
    return "right" if is_number else "left"
