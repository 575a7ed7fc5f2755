"""The figures of a run as a page: a table for each arm, and a chart where rates are compared."""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

import psutil

from postdate.bench.testbed import Measure

MIN_BARS: Final = 3
"""Fewer rates than this are read faster in the table."""

WHOLE: Final = 100.0
"""From here on a figure has no decimals."""

OURS: Final = "postdate"
WIDTH: Final = 720
LABEL: Final = 230
VALUE: Final = 90
BAR: Final = 16
STEP: Final = 24

STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#333}.bar{fill:#9aa5b1}.ours{fill:#2563eb}"
    ".range{stroke:#333;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.range{stroke:#ddd}.bar{fill:#6b7280}}"
)


def write(path: Path, figures: Mapping[str, Sequence[Measure]], command: str) -> list[Path]:
    """Write the page and, beside it, its charts; return the files."""
    parts = [f"# Figures\n\n{_machine(command)}\n"]
    files = [path]
    for suite, measures in figures.items():
        parts.append(f"\n## {suite.capitalize()}\n")
        for arm in dict.fromkeys(each.arm for each in measures):
            found = [each for each in measures if each.arm == arm]
            parts.append(f"\n### {arm}\n\n")
            if rates := _rates(found):
                chart = path.with_name(f"{path.stem}-{_slug(suite)}-{_slug(arm)}.svg")
                chart.write_text(_chart(rates))
                files.append(chart)
                parts.append(f"![{arm}: {rates[0].unit}]({chart.name})\n\n")
            parts.append(_table(found))
    path.write_text("".join(parts))
    return files


def _machine(command: str) -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"Measured by `{command}` on {datetime.now(UTC):%Y-%m-%d}: {psutil.cpu_count()} cores, "
        f"{memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}. Medians, with "
        "the lowest and the highest round behind them. Trust the ratios, which were measured in "
        "one run; the absolute figures are this machine's."
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= WHOLE else f"{value:,.2f}".rstrip("0").rstrip(".")


def _table(found: Iterable[Measure]) -> str:
    rows = ["| what | figure | rounds | target | held |", "|---|---:|---|---|---|"]
    for each in found:
        rounds = ""
        if each.low is not None and each.high is not None:
            rounds = f"{_number(each.low)} to {_number(each.high)}"
        held = {None: "", True: "yes", False: "**no**"}[each.held]
        figure = f"{_number(each.value)} {each.unit}"
        rows.append(f"| {each.what} | {figure} | {rounds} | {each.target} | {held} |")
    return "\n".join(rows) + "\n"


def _rates(found: Sequence[Measure]) -> list[Measure]:
    """Return the rates that a chart may compare: of one unit, and enough of them."""
    rates = [each for each in found if each.unit.endswith("/s") and not each.target]
    rates = [each for each in rates if each.unit == rates[0].unit]
    return sorted(rates, key=lambda each: -each.value) if len(rates) >= MIN_BARS else []


def _chart(rates: Sequence[Measure]) -> str:
    scale = (WIDTH - LABEL - VALUE) / max(each.high or each.value for each in rates)
    height = STEP * len(rates) + 8
    bars = [_bar(each, number * STEP + 4, scale) for number, each in enumerate(rates)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<style>{STYLE}</style>{''.join(bars)}</svg>\n"
    )


def _bar(each: Measure, top: float, scale: float) -> str:
    middle, width = top + BAR / 2, each.value * scale
    kind = "ours" if each.what.startswith(OURS) else "bar"
    text = f'y="{middle + 4:.0f}"'
    parts = [
        f'<text x="{LABEL - 8}" {text} text-anchor="end">{escape(each.what)}</text>',
        f'<rect class="{kind}" x="{LABEL}" y="{top}" width="{width:.1f}" height="{BAR}"/>',
    ]
    end = width
    if each.low is not None and each.high is not None:
        low, end = each.low * scale, each.high * scale
        parts.append(
            f'<line class="range" x1="{LABEL + low:.1f}" x2="{LABEL + end:.1f}" '
            f'y1="{middle}" y2="{middle}"/>'
        )
    parts.append(f'<text x="{LABEL + max(end, width) + 6:.1f}" {text}>{_number(each.value)}</text>')
    return "".join(parts)
