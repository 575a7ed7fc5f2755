"""The report of a run: verdict, figures, a picture of the timeline, and how to run it again."""

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from itertools import islice
from typing import Final

import msgspec

from postdate_lab.chaos.evidence import Evidence, Violation
from postdate_lab.chaos.plan import ChaosPlan
from postdate_lab.chaos.summary import KINDS, Summary
from postdate_lab.chaos.system_check import CHECKS, OF_THE_RUN

WIDTH: Final = 960
LEFT: Final = 90
ROW: Final = 18
SLOTS: Final = 120
TICKS: Final = 6
VIOLATIONS_SHOWN: Final = 20
VIOLATIONS_MAX: Final = 100
"""How many of one invariant are kept for a tenant: a broken one breaks a million times."""

_COLOURS: Final = dict(
    zip(KINDS, ("#2a7f62", "#b7791f", "#b83232", "#3b6ea5", "#6b4fa0", "#6b4fa0"), strict=True)
)
_TITLES: Final = {
    "I1": "conservation",
    "I2": "balances and holds replay",
    "I3": "nothing lost",
    "I4": "one payment a key, one transfer a payment",
    "I5": "nothing early",
    "I6": "legal moves, rising tokens",
    "I7": "old tokens change nothing",
    "I8": "every job arrived, repeats explained",
    "I9": "every occurrence once",
    "I10": "tenants apart",
    "I11": "recovered in time",
    "I12": "chain and anchor",
    "I13": "readiness tells what works",
}


class ChaosReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    plan: ChaosPlan
    verdict: str
    violations: list[Violation]
    figures: dict[str, float]

    @property
    def holds(self) -> bool:
        """Return whether every invariant held."""
        return not self.violations


def judge(plan: ChaosPlan, parts: Iterable[Evidence]) -> tuple[ChaosReport, Summary]:
    """Ask every checker about the run and about each tenant, and count what happened."""
    found: list[Violation] = []
    summary = Summary()
    for seen in parts:
        found += violations(seen)
        summary.add(seen)
    broken = sorted({each.invariant for each in found}, key=lambda name: int(name[1:]))
    verdict = f"violated: {', '.join(broken)}" if broken else "every invariant held"
    made = ChaosReport(plan=plan, verdict=verdict, violations=found, figures=summary.figures())
    return made, summary


def violations(seen: Evidence) -> Iterator[Violation]:
    """Ask every checker about one piece of evidence."""
    for name, check in CHECKS.items():
        if seen.of_run or name not in OF_THE_RUN:
            yield from islice(check(seen), VIOLATIONS_MAX)


def picture(summary: Summary) -> str:
    """Draw the timeline: faults as bars, what happened in each slot as a row of columns."""
    scale = (WIDTH - LEFT) / summary.last
    names = sorted({name for name, _, _, _ in summary.faults})
    rows = [_label(name, n * ROW) for n, name in enumerate(names)]
    for name, begin, end, did in summary.faults:
        wide = max(1.5, (end - begin) * scale)
        title = escape(f"{name}: {did} at {begin:.1f} s")
        rows.append(
            f'<rect x="{LEFT + begin * scale:.1f}" y="{names.index(name) * ROW + 3}" '
            f'width="{wide:.1f}" height="{ROW - 6}" fill="#444"><title>{title}</title></rect>'
        )
    top = len(names) * ROW + 4
    for kind, colour in _COLOURS.items():
        rows += _columns(summary, kind, colour, top)
        top += 2 * ROW + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + ROW}" '
        f'font-family="sans-serif" font-size="11">{"".join(rows)}{_ticks(summary.last, top)}</svg>'
    )


def _ticks(last: float, top: int) -> str:
    """Write the time below, and a thin line above each mark."""
    marks = [(LEFT + (WIDTH - LEFT) * n / TICKS, last * n / TICKS) for n in range(TICKS + 1)]
    anchors = ["start", *["middle"] * (TICKS - 1), "end"]
    return "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{top}" stroke="#ccc" stroke-width=".5"/>'
        f'<text x="{x:.1f}" y="{top + 12}" text-anchor="{anchor}">{at:.0f} s</text>'
        for (x, at), anchor in zip(marks, anchors, strict=True)
    )


def _label(name: str, top: float) -> str:
    return f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'


def _columns(summary: Summary, kind: str, colour: str, top: float) -> list[str]:
    counts: Counter[int] = Counter()
    for second, count in summary.seconds[kind].items():
        counts[max(0, min(SLOTS - 1, int(second / summary.last * SLOTS)))] += count
    most, wide = max(counts.values(), default=1), (WIDTH - LEFT) / SLOTS
    rate = most * SLOTS / summary.last
    return [
        _label(kind, top),
        _label(f"to {rate:.3g}/s", top + ROW - 2),
        *(
            f'<rect x="{LEFT + slot * wide:.1f}" width="{wide - 0.5:.1f}" fill="{colour}" '
            f'y="{top + 2 * ROW - 2 * ROW * count / most:.1f}" '
            f'height="{2 * ROW * count / most:.1f}"/>'
            for slot, count in sorted(counts.items())
        ),
    ]


def markdown(report: ChaosReport) -> str:
    """Write the report for a terminal or an issue."""
    broken = Counter(each.invariant for each in report.violations)
    lines = [
        f"# Chaos, seed {report.plan.seed}: {report.verdict}",
        "",
        f"Again: `{report.plan.command()}`",
        "",
        "| invariant | | violations |",
        "|---|---|---|",
        *(f"| {name} | {_TITLES[name]} | {broken[name]} |" for name in CHECKS),
        "",
        "| figure | |",
        "|---|---|",
        *(f"| {name} | {value:,.10g} |" for name, value in report.figures.items()),
    ]
    for each in report.violations[:VIOLATIONS_SHOWN]:
        lines += ["", f"- {each.invariant} {each.subject}: {each.detail}"]
    return "\n".join(lines) + "\n"


def html(report: ChaosReport, drawn: str) -> str:
    """Write the report as a page of its own."""
    broken = Counter(each.invariant for each in report.violations)
    checks = "".join(
        f"<tr><td>{name}</td><td>{_TITLES[name]}</td><td>{broken[name]}</td></tr>"
        for name in CHECKS
    )
    numbers = "".join(
        f"<tr><td>{escape(name)}</td><td>{value:,.10g}</td></tr>"
        for name, value in report.figures.items()
    )
    found = "".join(
        f"<li><b>{each.invariant}</b> {escape(each.subject)}: {escape(each.detail)}</li>"
        for each in report.violations[:VIOLATIONS_SHOWN]
    )
    colour = "#2a7f62" if report.holds else "#b83232"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>Chaos, seed {report.plan.seed}</title>"
        "<style>body{font-family:sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}"
        "td{padding:.1rem .8rem .1rem 0;border-bottom:1px solid #ddd}"
        "code{background:#eee;padding:.1rem .3rem}</style>"
        f"<h1>Seed {report.plan.seed}</h1>"
        f'<p style="color:{colour};font-size:1.3rem">{escape(report.verdict)}</p>'
        f"<p>Again: <code>{escape(report.plan.command())}</code></p>{drawn}"
        f"<ul>{found}</ul><h2>Invariants</h2><table>{checks}</table>"
        f"<h2>Figures</h2><table>{numbers}</table></html>\n"
    )
