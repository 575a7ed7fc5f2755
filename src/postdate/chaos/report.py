"""The report of a run: verdict, figures, a picture of the timeline, and how to run it again."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

from postdate.chaos.evidence import Evidence, Violation
from postdate.chaos.plan import ChaosPlan
from postdate.chaos.system_check import CHECKS

WIDTH: Final = 960
LEFT: Final = 90
ROW: Final = 18
SERVER_ERROR: Final = 500
SLOTS: Final = 120
VIOLATIONS_SHOWN: Final = 20
_COLOURS: Final = {"ok": "#2a7f62", "fail": "#b7791f", "info": "#b83232", "arrival": "#3b6ea5"}
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
}


class ChaosReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run."""

    plan: ChaosPlan
    verdict: str
    violations: list[Violation]
    figures: dict[str, float]

    @property
    def holds(self) -> bool:
        """Return whether every invariant held."""
        return not self.violations


def judge(plan: ChaosPlan, seen: Evidence) -> ChaosReport:
    """Ask every checker, and count what happened."""
    found = [violation for check in CHECKS.values() for violation in check(seen)]
    broken = sorted({each.invariant for each in found}, key=lambda name: int(name[1:]))
    verdict = f"violated: {', '.join(broken)}" if broken else "every invariant held"
    return ChaosReport(plan=plan, verdict=verdict, violations=found, figures=figures(seen))


def figures(seen: Evidence) -> dict[str, float]:
    """Count what the run has done and met."""
    types = Counter((line.type, line.by.partition("-")[0]) for line in seen.lines)
    faults = Counter(line.op for line in seen.lines if line.by == "nemesis" and line.type == "ok")
    ended = Counter(row.status for row in seen.left.outcomes)
    repeated = sum(1 for found in seen.arrivals.values() if len(found) > 1)
    late = sorted(
        (row.started_at - row.due_at).total_seconds()
        for row in seen.left.outcomes
        if row.started_at is not None
    )
    errors = sum(1 for line in seen.lines if line.data.get("status") == SERVER_ERROR)
    return {
        "payments": len(seen.left.payments),
        "jobs": len(seen.left.jobs),
        "occurrences": len(seen.left.occurrences),
        "calls acknowledged": types["ok", "client"],
        "calls refused": types["fail", "client"],
        "calls asked again": types["info", "client"],
        "answers 500": errors,
        "arrivals": sum(map(len, seen.arrivals.values())),
        "jobs that arrived again": repeated,
        "messages in the stream": len(seen.messages),
        "events verified": seen.chain.get("links", 0),
        "faults": sum(faults.values()),
        **{f"fault {name}": count for name, count in sorted(faults.items())},
        **{f"ended {status}": count for status, count in sorted(ended.items())},
        "lateness p50 (s)": round(_part(late, 0.5), 3),
        "lateness p99 (s)": round(_part(late, 0.99), 3),
        "seconds until nothing was open": round(seen.drained_seconds or -1, 1),
        "worst probe afterwards (s)": round(max(seen.probe_seconds, default=-1), 2),
    }


def _part(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def picture(seen: Evidence) -> str:
    """Draw the timeline: faults as bars, answers of each kind as a row of columns."""
    last = max((line.at for line in seen.lines), default=1.0) or 1.0
    scale = (WIDTH - LEFT) / last
    rows: list[str] = []
    names = sorted({line.op for line in seen.lines if line.by == "nemesis"})
    began: dict[int, float] = {}
    for line in seen.lines:
        if line.by != "nemesis":
            continue
        if line.type == "invoke":
            began[line.n] = line.at
        else:
            top = names.index(line.op) * ROW
            first = LEFT + began[line.n] * scale
            wide = max(2.0, (line.at - began[line.n]) * scale)
            title = escape(f"{line.op}: {line.data.get('did', '')} at {began[line.n]:.1f} s")
            rows.append(
                f'<rect x="{first:.1f}" y="{top + 3}" width="{wide:.1f}" height="{ROW - 6}" '
                f'fill="#444"><title>{title}</title></rect>'
            )
    rows += [_label(name, n * ROW) for n, name in enumerate(names)]
    top = len(names) * ROW
    for kind, colour in _COLOURS.items():
        rows.append(_label(kind, top + ROW))
        rows += _columns(seen, kind, colour, top, last)
        top += 2 * ROW + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + ROW}" '
        f'font-family="sans-serif" font-size="11">{"".join(rows)}'
        f'<text x="{LEFT}" y="{top + 12}">0 s</text>'
        f'<text x="{WIDTH}" y="{top + 12}" text-anchor="end">{last:.0f} s</text></svg>'
    )


def _label(name: str, top: float) -> str:
    return f'<text x="{LEFT - 6}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'


def _columns(seen: Evidence, kind: str, colour: str, top: float, last: float) -> list[str]:
    counts = Counter(
        min(SLOTS - 1, int(line.at / last * SLOTS))
        for line in seen.lines
        if (line.op == "arrival" if kind == "arrival" else line.type == kind)
        and (kind == "arrival" or line.by.startswith("client"))
    )
    most, wide = max(counts.values(), default=1), (WIDTH - LEFT) / SLOTS
    return [
        f'<rect x="{LEFT + slot * wide:.1f}" width="{wide - 0.5:.1f}" fill="{colour}" '
        f'y="{top + 2 * ROW - 2 * ROW * count / most:.1f}" '
        f'height="{2 * ROW * count / most:.1f}"/>'
        for slot, count in sorted(counts.items())
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
        *(f"| {name} | {value:g} |" for name, value in report.figures.items()),
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
        f"<tr><td>{escape(name)}</td><td>{value:g}</td></tr>"
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
