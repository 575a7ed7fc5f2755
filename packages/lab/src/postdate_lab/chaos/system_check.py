"""The invariants of leases, deliveries, schedules, tenants, recovery and chain: I7 to I13."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from postdate.recurrence.rule import Status
from postdate_lab.chaos import item_check
from postdate_lab.chaos.evidence import Evidence, Violation
from postdate_lab.chaos.history import HistoryLine, answered
from postdate_lab.chaos.life import foreign_canaries
from postdate_lab.chaos.readiness_check import readiness
from postdate_lab.chaos.side_fault import REACHED_NONE

if TYPE_CHECKING:
    from uuid import UUID

PROBE_SECONDS: Final = 5.0
"""How late a job may begin once everything is calm again."""

OBEDIENT: Final = frozenset({"obey", "slow"})
SECOND_BY_CRON: Final = 2


def stale_tokens(seen: Evidence) -> Iterator[Violation]:
    """I7: a report with an old token changes nothing."""
    claims: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for _, done in answered(seen.lines, "lease.claim"):
        for lease in done.data["answer"]["leases"]:
            claims[lease["job_id"]].append((done.at, lease["token"]))
    completed: dict[str, set[int]] = defaultdict(set)
    for verb in ("complete", "fail", "renew"):
        for asked, done in _reports(seen, f"lease.{verb}"):
            subject, token = done.data["subject"], done.data["token"]
            newer = [t for at, t in claims[subject] if t > token and at < asked.at]
            if newer:
                yield Violation("I7", subject, f"{verb} took token {token} after {newer[0]}")
            if verb == "complete":
                completed[subject].add(token)
    for subject, tokens in completed.items():
        if len(tokens) > 1:
            yield Violation("I7", subject, f"completed with each of {sorted(tokens)}")


def _reports(seen: Evidence, op: str) -> Iterator[tuple[HistoryLine, HistoryLine]]:
    """Pair reports by operation and lease: one claim has many leases."""
    began: dict[tuple[str, int, str], HistoryLine] = {}
    for line in seen.lines:
        if line.op == op:
            key = line.by, line.n, line.data.get("subject", "")
            if line.type == "invoke":
                began[key] = line
            elif line.type == "ok":
                yield began[key], line


def arrivals(seen: Evidence) -> Iterator[Violation]:
    """I8: what is complete has arrived; what arrived again has a reason and the same id."""
    in_stream = {message_id for _, message_id, _ in seen.messages}
    for job in seen.left.jobs:
        job_id, status = str(job.job_id), seen.statuses.get(job.job_id)
        if status == "COMPLETED" and job.type == "webhook" and job_id not in seen.arrivals:
            yield Violation("I8", job_id, "complete, but it has never arrived")
        if status == "COMPLETED" and job.type == "queue" and job_id not in in_stream:
            yield Violation("I8", job_id, "complete, but it is not in the stream")
    ids: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    scheduled = {str(job.job_id) for job in seen.left.jobs if job.schedule_id is not None}
    for job_id, found in seen.arrivals.items():
        yield from _extra(seen, job_id, found)
        if job_id not in scheduled:
            for line in found:
                payload = msgspec.json.decode(line.data["body"])
                ids[line.tenant, payload["n"], payload["part"]].add(job_id)
    for key, several in ids.items():
        if len(several) > 1:
            yield Violation("I8", str(key), f"one job arrived as {sorted(several)}")


def _extra(seen: Evidence, job_id: str, found: list[HistoryLine]) -> Iterator[Violation]:
    behaviour = found[0].data["behaviour"]
    asked = seen.accepted_jobs.get(job_id)
    if len(found) == 1:
        return
    if asked and asked.holds:
        if behaviour in {*OBEDIENT, "lie"}:
            yield Violation("I8", job_id, f"at most once, but it arrived {len(found)} times")
    elif behaviour in OBEDIENT:
        reasons = seen.disturbed(found[0].at, found[-1].at)
        if len(found) > 1 + reasons:
            why = f"{len(found)} arrivals, {reasons} faults at that time"
            yield Violation("I8", job_id, why)


def schedules(seen: Evidence) -> Iterator[Violation]:
    """I9: the book has every occurrence once, and each that fired became one job or payment."""
    rules = {
        done.data["answer"]["schedule_id"]: done.data
        for _, done in answered(seen.lines, "schedule.create")
    }
    books: dict[UUID, list[tuple[float, str]]] = defaultdict(list)
    became: Counter[UUID] = Counter()
    for row in seen.left.occurrences:
        if row.cause == "rule":
            books[row.schedule_id].append((row.scheduled_for.timestamp(), row.status))
        if row.subject is not None:
            became[row.subject] += 1
    for schedule_id, book in books.items():
        if known := rules.get(str(schedule_id)):
            yield from _book(str(schedule_id), sorted(book), known)
    made = [row.job_id for row in seen.left.jobs if row.schedule_id is not None]
    made += [row.payment_id for row in seen.left.payments if row.schedule_id is not None]
    for subject in made:
        if became[subject] != 1:
            yield Violation("I9", str(subject), f"it has {became[subject]} occurrences")
    for subject in set(became) - set(made):
        yield Violation("I9", str(subject), "an occurrence became something that is not there")


def _book(
    schedule_id: str, book: list[tuple[float, str]], known: dict[str, Any]
) -> Iterator[Violation]:
    step = known["rule"]["every_seconds"] or SECOND_BY_CRON
    for (before, _), (after, _) in pairwise(book):
        if after - before != step:
            gap = timedelta(seconds=after - before)
            yield Violation("I9", schedule_id, f"{gap} apart, not {step} s")
    statuses = {status for _, status in book}
    if known["rule"]["overlap"] == "allow" and Status.SKIPPED_BY_OVERLAP in statuses:
        yield Violation("I9", schedule_id, "skipped by an overlap that it allows")
    if known["misfire"] == "fire_all" and Status.MISSED in statuses:
        yield Violation("I9", schedule_id, "missed, though all should fire")


def tenants_apart(seen: Evidence) -> Iterator[Violation]:
    """I10: nothing of one tenant in an answer, a delivery or a log of another."""
    for line in seen.lines:
        if line.type in {"ok", "fail"} or line.op == "arrival":
            for foreign in foreign_canaries(str(line.data).encode(), line.tenant):
                yield Violation("I10", line.op, f"{foreign} reached {line.tenant}")
    for subject, _, body in seen.messages:
        tenant = subject.rpartition(".")[2]
        for foreign in foreign_canaries(body.encode(), tenant):
            yield Violation("I10", subject, f"{foreign} reached {tenant}")
    for leak in seen.leaks:
        yield Violation("I10", "log", leak)
    for line in seen.lines:
        did = line.data.get("did", "")
        if line.by == "nemesis" and did.startswith("reached ") and did != REACHED_NONE:
            yield Violation("I10", "guest", f"a bound login {did}")


def recovery(seen: Evidence) -> Iterator[Violation]:
    """I11: after the last fault everything ends in time, and new work is on time."""
    drained = seen.drained_seconds
    if drained is None:
        yield Violation("I11", "backlog", f"something is open after {seen.drain_seconds:g} s")
    if not seen.probe_seconds:
        yield Violation("I11", "probe", "no job could be run after the faults")
    for late in seen.probe_seconds:
        if late > PROBE_SECONDS:
            yield Violation("I11", "probe", f"{late:.1f} s late")


def chain(seen: Evidence) -> Iterator[Violation]:
    """I12: the chain of events verifies, and the anchor outside agrees."""
    for found in seen.chain:
        yield Violation("I12", "chain", found)
    for name, count in (("links", seen.links), ("anchors", seen.anchored)):
        if not count:
            yield Violation("I12", name, "nothing was verified")


Check = Callable[[Evidence], Iterator[Violation]]

CHECKS: Final[dict[str, Check]] = {
    "I1": item_check.conservation,
    "I2": item_check.replay,
    "I3": item_check.nothing_lost,
    "I4": item_check.once,
    "I5": item_check.not_early,
    "I6": item_check.legal,
    "I7": stale_tokens,
    "I8": arrivals,
    "I9": schedules,
    "I10": tenants_apart,
    "I11": recovery,
    "I12": chain,
    "I13": readiness,
}
"""One checker for each invariant, in their order."""

OF_THE_RUN: Final = frozenset({"I11", "I12", "I13"})
"""Those that no tenant has for itself."""
