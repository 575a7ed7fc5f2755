"""How `postdate top` draws a page: tables with aligned numbers, sparklines, and the help."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from postdate.cli.table import printable
from postdate.cli.top_facts import FAILED_HOURS, MoneyLine, TenantFacts
from postdate.cli.vitals_page import KINDS, VitalsPage
from postdate.core.money import money_text

BARS: Final = "▁▂▃▄▅▆▇█"
UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))
KEYS: Final = {
    "/": "show only lanes whose name has a text; Enter keeps the filter, Esc clears it",
    "s": "sort lanes by the next column",
    "p": "freeze the screen, or let it go on",
    "j k": "move the cursor, which stays with its lane",
    "P": "pause the lane under the cursor: none of its jobs starts; asks first",
    "R": "resume it; asks first",
    "q": "leave",
}
COLUMNS: Final = {
    "due": "is due and has not begun",
    "oldest": "for how long the oldest of them has been due",
    "undecided": "waits for a person: an outcome that is unknown, or a broken payment",
    "a second": "started a second since the last look; beside it the last minute",
    "late p50, p99": "half, and 99 of 100, started at most so late",
    "≥": "a minimum: only the newest 100 were read",
}


def head(page: VitalsPage, state: str) -> RenderableType:
    """Draw nodes and rates."""
    nodes = "  ".join(f"{role} {count}" for role, count in sorted(page.nodes.items()))
    rates = "  ".join(f"{name} {value:.1f}/s" for name, value in page.rates.items())
    failed = "  ".join(f"{name} {value:.2f}/s" for name, value in page.failures.items())
    since = f"attempts that failed in the last {page.seconds:.0f} s: {failed or 'none'}"
    return Panel(
        Text(f"nodes: {nodes or 'not read yet'}\n{rates}\n{since}"),
        title=Text(f"postdate {page.url} ({state})"),
    )


def kinds(page: VitalsPage, history: Mapping[str, Sequence[float]]) -> RenderableType:
    """Draw what waits of each kind of work."""
    table = _table("work", "due", "oldest", "undecided", "a second", "late p50", "late p99")
    table.add_column("last minute")
    for each in page.kinds:
        table.add_row(
            KINDS[each.kind],
            f"{each.backlog:,}",
            duration(each.oldest_seconds) if each.backlog else "",
            f"{each.parked:,}",
            f"{each.per_second:,.1f}",
            duration(each.late_p50_seconds),
            duration(each.late_p99_seconds),
            sparkline(history.get(each.kind, ())),
        )
    return table


def tenant(facts: TenantFacts | None) -> Iterable[RenderableType]:
    """Draw money, destinations and failures of the key's tenant."""
    if facts is None:
        yield Text("without a key: no money, destinations, failures and lanes", style="dim")
        return
    money = [_money(each) for each in facts.money if each.count]
    yield Text(f"payments: {'; '.join(money) or 'none waits for a person, none failed'}")
    for one in facts.destinations:
        why = printable(one.why)
        yield Text(f"! destination {one.name} is {one.status}: {why}".rstrip(": "), "yellow")
    least = "≥ " if facts.failures_at_least else ""
    total = sum(each.count for each in facts.failures)
    count = f"{least}{total:,}" if total else "none"
    yield Text(f"jobs that failed for good, {FAILED_HOURS} h: {count}")
    if not total:
        return
    table = _table("destination", "failed")
    table.add_column("error")
    for each in facts.failures:
        table.add_row(Text(each.destination), f"{least}{each.count:,}", Text(printable(each.code)))
    yield table


def _money(line: MoneyLine) -> str:
    amounts = " + ".join(money_text(each, name or None) for name, each in line.amounts.items())
    return f"{'≥ ' if line.at_least else ''}{line.count:,} {line.what} ({amounts})"


def lanes(rows: Iterable[Mapping[str, Any]], cursor: str | None, title: str) -> RenderableType:
    """Draw the lanes; the one under the cursor is reversed."""
    table = _table("lane", "due now", "running", "pending", "unknown", title=title)
    table.add_column("paused")
    for row in rows:
        numbers = (f"{row[name]:,}" for name in ("ready", "running", "pending", "unknown"))
        # As text: brackets in a name or a note are no markup.
        why = Text(printable(row["paused_note"] or ("yes" if row["paused"] else "")))
        style = "reverse" if row["lane"] == cursor else None
        table.add_row(Text(row["lane"]), *numbers, why, style=style)
    return table


def help_page() -> RenderableType:
    """Draw what keys and columns mean."""
    parts: list[RenderableType] = []
    for title, words in (("keys", KEYS), ("columns", COLUMNS)):
        table = Table.grid(Column(style="bold", no_wrap=True), Column(), padding=(0, 2))
        for name, means in words.items():
            table.add_row(Text(name), Text(means))
        parts.append(Panel(table, title=title))
    return Group(*parts, Text("any key goes back", style="dim"))


def _table(first: str, *numbers: str, title: str | None = None) -> Table:
    """Make a table whose columns after the first are numbers."""
    columns = (Column(name, justify="right", no_wrap=True) for name in numbers)
    return Table(first, *columns, title=Text(title) if title else None, title_justify="left")


def sparkline(values: Sequence[float]) -> str:
    """Draw values as bars, the highest as the highest one."""
    top = max(values, default=0.0)
    if not top:
        return ""
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in values)


def duration(seconds: float | None) -> str:
    """Write a duration in the unit that fits."""
    if seconds is None:
        return ""
    for unit, name in UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
