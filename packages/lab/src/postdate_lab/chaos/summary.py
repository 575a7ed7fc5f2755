"""What a run has done and met, counted tenant by tenant."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from postdate_lab.chaos.evidence import Evidence
from postdate_lab.chaos.history import RUN, HistoryLine
from postdate_lab.chaos.side_fault import MISSED

SERVER_ERROR: Final = 500
KINDS: Final = ("ok", "fail", "info", "arrival", "payments", "jobs")
"""Rows of the timeline: answers by kind, arrivals at receivers, and what has ended."""


class Summary:
    """Counts that do not grow with the run; add the evidence of the run first."""

    def __init__(self) -> None:
        self.seconds: dict[str, Counter[int]] = {kind: Counter() for kind in KINDS}
        self.faults: list[tuple[str, float, float, str]] = []
        """Name, begin, end and what it did, of each fault."""
        self.last = 1.0
        self._counts: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._late: Counter[int] = Counter()
        self._began_wall = 0.0
        self._run: dict[str, float] = {}

    def add(self, seen: Evidence) -> None:
        """Count one piece of evidence."""
        self._lines(seen.lines)
        self._faults(seen.lines)
        self._outcomes(seen)
        left, counts = seen.left, self._counts
        counts["tenants"] += bool(left.accounts)
        counts["payments"] += len(left.payments)
        counts["jobs"] += len(left.jobs)
        counts["occurrences"] += len(left.occurrences)
        counts["arrivals"] += sum(map(len, seen.arrivals.values()))
        counts["jobs that arrived again"] += sum(len(n) > 1 for n in seen.arrivals.values())
        counts["messages in the stream"] += len(seen.messages)
        if seen.of_run:
            self._run = {
                "events verified": seen.links,
                "open after the last fault": seen.open_at_first,
                "seconds until nothing was open": round(seen.drained_seconds or -1, 1),
                "worst probe afterwards (s)": round(max(seen.probe_seconds, default=-1), 2),
            }

    def _lines(self, lines: Iterable[HistoryLine]) -> None:
        for line in lines:
            self.last = max(self.last, line.at)
            if line.op == "clock" and line.by == RUN:
                self._began_wall = line.data["wall"]
            if line.data.get("status") == SERVER_ERROR:
                self._counts["answers 500"] += 1
            if line.op == "arrival":
                self.seconds["arrival"][int(line.at)] += 1
            elif line.by.startswith("client") and line.type != "invoke":
                self._counts[f"calls {line.type}"] += 1
                self.seconds[line.type][int(line.at)] += 1

    def _faults(self, lines: Iterable[HistoryLine]) -> None:
        began: dict[int, float] = {}
        for line in lines:
            if line.by != "nemesis":
                continue
            if line.type == "invoke":
                began[line.n] = line.at
            else:
                did = str(line.data.get("did", ""))
                self.faults.append((line.op, began[line.n], line.at, did))

    def _outcomes(self, seen: Evidence) -> None:
        payments = {row.payment_id for row in seen.left.payments}
        for row in seen.left.outcomes:
            self._ended[row.status] += 1
            kind = "payments" if row.subject in payments else "jobs"
            self.seconds[kind][int(row.finished_at.timestamp() - self._began_wall)] += 1
            if row.started_at is not None:
                late = (row.started_at - row.due_at).total_seconds()
                self._late[round(late * 1000)] += 1

    def figures(self) -> dict[str, float]:
        """Return every count by its name."""
        counts = self._counts
        done = Counter(name for name, _, _, did in self.faults if not did.startswith(MISSED))
        return {
            **{name: counts[name] for name in ("tenants", "payments", "jobs", "occurrences")},
            "calls acknowledged": counts["calls ok"],
            "calls refused": counts["calls fail"],
            "calls asked again": counts["calls info"],
            **{
                name: counts[name]
                for name in (
                    "answers 500", "arrivals", "jobs that arrived again", "messages in the stream",
                )
            },
            "faults": done.total(),
            "faults that met nothing": len(self.faults) - done.total(),
            **{f"fault {name}": count for name, count in sorted(done.items())},
            **{f"ended {status}": count for status, count in sorted(self._ended.items())},
            "lateness p50 (s)": part(self._late, 0.5) / 1000,
            "lateness p99 (s)": part(self._late, 0.99) / 1000,
            **self._run,
        }  # fmt: skip


def part(counts: Mapping[int, int], share: float) -> int:
    """Return the value below which this share of what was counted lies."""
    left = share * sum(counts.values())
    for value, count in sorted(counts.items()):
        left -= count
        if left < 0:
            return value
    return max(counts, default=0)
