"""The invariants of money and of things that must end: I1 to I6. Each is a pure function."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from postdate.core.status import PAYMENT_FINAL
from postdate_lab.chaos.evidence import CLOCK_SECONDS, AcceptedItem, Evidence, Violation
from postdate_lab.chaos.history import answered

if TYPE_CHECKING:
    from datetime import datetime

    from postdate_lab.chaos.database import AccountEvidence, EntryEvidence

LANES_APART: Final = frozenset({1, 2})
"""Timers of schedules and of event deliveries: they have no end."""


def conservation(seen: Evidence) -> Iterator[Violation]:
    """I1: each transfer is there once, moves something, and the balances of a tenant sum to zero.

    An account has no balance but through transfers: what one gains, another loses.
    """
    known: set[tuple[int, UUID]] = set()
    for one in seen.left.transfers:
        if (one.tenant_id, one.transfer_id) in known:
            yield Violation("I1", str(one.transfer_id), "it is there twice")
        known.add((one.tenant_id, one.transfer_id))
        if type(one.amount) is not int or one.amount < 1 or one.from_account == one.to_account:
            detail = f"it moves {one.amount} from {one.from_account} to {one.to_account}"
            yield Violation("I1", str(one.transfer_id), detail)
    sums: Counter[int] = Counter()
    for account in seen.left.accounts:
        sums[account.tenant_id] += account.balance
    for tenant_id, total in sums.items():
        if total != 0:
            yield Violation("I1", f"tenant {tenant_id}", f"its balances sum to {total}")


def replay(seen: Evidence) -> Iterator[Violation]:
    """I2: balances follow from entries, what is held from open payments; `prove` agrees."""
    books: dict[tuple[int, str], list[EntryEvidence]] = defaultdict(list)
    for entry in (side for each in seen.left.transfers for side in each.entries):
        books[entry.tenant_id, entry.account_id].append(entry)
    open_now = {timer.subject for timer in seen.left.timers}
    held: Counter[tuple[int, str]] = Counter()
    for payment in seen.left.payments:
        if payment.hold and payment.payment_id in open_now:
            held[payment.tenant_id, payment.from_account] += payment.amount
    for account in seen.left.accounts:
        key = account.tenant_id, account.account_id
        yield from _book(account, sorted(books[key], key=lambda e: e.version))
        if account.held != held[key]:
            detail = f"{account.held} is held, its payments hold {held[key]}"
            yield Violation("I2", account.account_id, detail)
    for found in seen.proof:
        yield Violation("I2", "prove", found)


def _book(account: "AccountEvidence", entries: "list[EntryEvidence]") -> Iterator[Violation]:
    name, balance, floor = account.account_id, 0, account.floor
    for version, entry in enumerate(entries, 1):
        balance += entry.amount
        if (entry.version, entry.balance) != (version, balance):
            yield Violation("I2", name, f"entry {entry.version} says {entry.balance}")
        if floor is not None and balance < floor:
            yield Violation("I2", name, f"entry {version} leaves {balance}, below its floor")
    if (account.balance, account.version) != (balance, len(entries)):
        yield Violation("I2", name, f"it says {account.balance}, its entries say {balance}")
    if floor is not None and balance - account.held < floor:
        yield Violation("I2", name, f"{balance - account.held} is available")


def nothing_lost(seen: Evidence) -> Iterator[Violation]:
    """I3: what was acknowledged is there and has ended."""
    payments = {str(row.payment_id) for row in seen.left.payments}
    jobs = {str(row.job_id) for row in seen.left.jobs}
    ended = {str(subject) for subject in seen.statuses}
    for payment_id in seen.accepted_payments:
        if payment_id not in payments:
            yield Violation("I3", payment_id, "this acknowledged payment is not there")
    for job_id in seen.accepted_jobs:
        if job_id not in jobs:
            yield Violation("I3", job_id, "this acknowledged job is not there")
    for subject in (payments | jobs) - ended:
        yield Violation("I3", subject, "it has not ended")
    for timer in seen.left.timers:
        if timer.lane_id not in LANES_APART and str(timer.subject) in ended:
            yield Violation("I3", str(timer.subject), "it has ended and still has a timer")


def once(seen: Evidence) -> Iterator[Violation]:
    """I4: one payment for a key, one transfer for a payment."""
    by_key: dict[str, set[str]] = defaultdict(set)
    for payment_id, calls in seen.accepted_payments.items():
        for one in calls:
            by_key[one.key].add(payment_id)
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Violation("I4", key, f"the key has {len(ids)} payments: {sorted(ids)}")
    own = sum(1 for row in seen.left.payments if row.schedule_id is None)
    if own > len(seen.payment_keys):
        yield Violation("I4", "payments", f"{own} payments for {len(seen.payment_keys)} keys")
    moved: dict[UUID, set[UUID]] = defaultdict(set)
    for each in seen.left.transfers:
        if each.payment_id is not None:
            moved[each.payment_id].add(each.transfer_id)
    for payment in seen.left.payments:
        wanted = 1 if seen.statuses.get(payment.payment_id) == "COMPLETED" else 0
        if len(moved[payment.payment_id]) != wanted:
            count = len(moved[payment.payment_id])
            yield Violation("I4", str(payment.payment_id), f"{count} transfers, not {wanted}")


def not_early(seen: Evidence) -> Iterator[Violation]:
    """I5: nothing began before it was due, by the database's clock and by ours."""
    for begun_id, due_at, started_at in _begun(seen):
        if started_at is not None and started_at < due_at:
            early = (due_at - started_at).total_seconds()
            yield Violation("I5", str(begun_id), f"began {early:.3f} s early")
    for job_id, job in seen.accepted_jobs.items():
        arrivals = seen.arrivals.get(job_id)
        if arrivals and job_id not in seen.changed:
            due = job.asked_at + job.delay - seen.slack(job.asked_at)
            if arrivals[0].at < due:
                yield Violation("I5", job_id, f"arrived {due - arrivals[0].at:.3f} s early")
    yield from _by_the_callers_clock(seen)
    reported = {line.data["id"]: line for line in seen.lines if line.op == "arrival"}
    for line in reported.values():
        if '"payment.completed"' not in line.data["body"]:
            continue
        subject = line.data["body"].partition('"subject":"')[2].partition('"')[0]
        calls = seen.accepted_payments.get(subject)
        if calls and subject not in seen.changed:
            due = calls[0].asked_at + calls[0].delay - seen.slack(calls[0].asked_at)
            if line.at < due:
                yield Violation("I5", subject, "its completion was reported before it was due")


def _by_the_callers_clock(seen: Evidence) -> Iterator[Violation]:
    """Compare when a batch was sent with when its items began; one machine has one clock."""
    asked: dict[str, AcceptedItem] = dict(seen.accepted_jobs)
    asked |= {subject: calls[0] for subject, calls in seen.accepted_payments.items()}
    for begun_id, _, started_at in _begun(seen):
        one = asked.get(str(begun_id))
        if one is None or one.asked_wall is None or started_at is None:
            continue
        early = one.asked_wall + one.delay - CLOCK_SECONDS - started_at.timestamp()
        if seen.slack(one.asked_at) > CLOCK_SECONDS:
            continue  # the database's clock was wrong: what it says of the begin is no witness
        if early > 0 and str(begun_id) not in seen.changed:
            yield Violation("I5", str(begun_id), f"began {early:.3f} s early by our clock")


def _begun(seen: Evidence) -> "Iterator[tuple[UUID, datetime, datetime | None]]":
    """Return when each execution was due and when it began."""
    for outcome in seen.left.outcomes:
        yield outcome.subject, outcome.due_at, outcome.started_at
    for attempt in seen.left.attempts:
        yield attempt.subject, attempt.due_at, attempt.started_at


def legal(seen: Evidence) -> Iterator[Violation]:
    """I6: a final status never changes, attempts and tokens rise."""
    yield from _final_reads(seen)
    for _, done in answered(seen.lines, "payment.cancel"):
        subject = done.data["subject"]
        status = seen.statuses.get(UUID(subject))
        if status != "CANCELLED":
            yield Violation("I6", subject, f"its cancel was acknowledged, but it is {status}")
    attempts: dict[UUID, list[int]] = defaultdict(list)
    for row in seen.left.attempts:
        attempts[row.subject].append(row.attempt)
    for subject, numbers in attempts.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            yield Violation("I6", str(subject), f"its attempts are {sorted(numbers)}")
    yield from _rising_tokens(seen)


def _final_reads(seen: Evidence) -> Iterator[Violation]:
    for op in ("payment.read", "job.read"):
        for _, done in answered(seen.lines, op):
            subject, read = done.data["subject"], done.data["answer"]["status"]
            last = seen.statuses.get(UUID(subject))
            if read in PAYMENT_FINAL and last != read:
                yield Violation("I6", subject, f"it was {read} and is {last}")


def _rising_tokens(seen: Evidence) -> Iterator[Violation]:
    claims: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for asked, done in answered(seen.lines, "lease.claim"):
        for lease in done.data["answer"]["leases"]:
            claims[lease["job_id"]].append((asked.at, done.at, lease["token"]))
    for job_id, found in claims.items():
        for first, second in pairwise(found):
            if second[0] >= first[1] and second[2] <= first[2]:
                yield Violation("I6", job_id, f"token {second[2]} after {first[2]}")
        if len({token for _, _, token in found}) < len(found):
            yield Violation("I6", job_id, "a token was given twice")
    for job_id, arrivals in seen.arrivals.items():
        tokens: Counter[Any] = Counter(line.data["token"] for line in arrivals)
        for token, count in tokens.items():
            if count > 1:
                yield Violation("I6", job_id, f"token {token} arrived {count} times")
