"""The figures of a run as a page: the goals, a table for each arm, charts of compared rates."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from postdate_lab.bench.testbed import Measure


class BenchFacts(NamedTuple):
    """Where and when a run was made."""

    command: str
    began: datetime
    minutes: float
    load: float
    """The load average when it began: above the run's own, somebody else was busy too."""

    commit: str


class BenchClock:
    """Notes the facts of a run that can only be seen at its beginning."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._began = datetime.now(UTC)
        self._load = os.getloadavg()[0]
        self._start = time.monotonic()

    def facts(self) -> BenchFacts:
        """Return the facts, at the end of the run."""
        minutes = (time.monotonic() - self._start) / 60
        return BenchFacts(self._command, self._began, minutes, self._load, _commit())


MIN_BARS: Final = 3
"""Fewer rates than this are read faster in the table."""

_BUSY: Final = (
    "\n\n**The machine was busy with other things.** Rates, latencies and ratios of this run say "
    "little; bytes and counts hold."
)
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


def write(path: Path, figures: Mapping[str, Sequence[Measure]], facts: BenchFacts) -> list[Path]:
    """Write the page and, beside it, its charts; return the files."""
    parts = [f"# Figures of one run\n\n{_machine(facts)}\n", _goals(figures)]
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


def _commit() -> str:
    """Return the commit of this tree, marked where something in it was changed."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],  # noqa: S607
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "of an installed package"


def _machine(facts: BenchFacts) -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"Measured by `{facts.command}` on {facts.began:%Y-%m-%d %H:%M} UTC, commit "
        f"{facts.commit}: {psutil.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}; load average {facts.load:.1f} before it began, "
        f"{facts.minutes:.0f} minutes. Medians, with the lowest and the highest round behind "
        "them. Trust the ratios, which were measured in one run; the absolute figures are this "
        "machine's. [What each arm includes](bench.md)."
    ) + (_BUSY if facts.load > (psutil.cpu_count() or 1) / 2 else "")


def _goals(figures: Mapping[str, Sequence[Measure]]) -> str:
    """List every figure that has a target, the missed ones first."""
    aimed = [(suite, each) for suite, found in figures.items() for each in found if each.target]
    aimed.sort(key=lambda pair: bool(pair[1].held))
    held = sum(bool(each.held) for _, each in aimed)
    rows = [
        f"\n## Goals\n\n{held} of {len(aimed)} held.\n",
        "| suite | arm | what | figure | target | held |",
        "|---|---|---|---:|---|---|",
    ]
    for suite, each in aimed:
        figure = f"{_number(each.value)} {each.unit}"
        verdict = "yes" if each.held else "**no**"
        rows.append(
            f"| {suite} | {each.arm} | {each.what} | {figure} | {each.target} | {verdict} |"
        )
    return "\n".join(rows) + "\n"


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
