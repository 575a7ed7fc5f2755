"""Why a job that is due has not started: one sentence for its page."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET

from postdate.console.render import duration
from postdate.core.limit import limit_texts
from postdate.destination.spec.destination import DestinationView
from postdate.halt.spec import HaltView
from postdate.job.spec.job import Queue, Webhook
from postdate.job.spec.view import JobView
from postdate.lane.spec import LaneView
from postdate.monitor.view.secret_key import MissingKey


class WaitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What may keep a due job from starting."""

    lane: LaneView
    pulled: bool
    """It waits for a worker to claim it; else a node delivers it."""
    halts: Sequence[HaltView]
    worker_nodes: int
    missing_keys: Sequence[MissingKey] = ()
    destination: DestinationView | None
    now: datetime
    who: Callable[[object], str]
    """Names a key."""


def why_waiting(job: JobView, facts: WaitFacts) -> str:
    """Return the first reason that holds, the one that must go away before the others count."""
    held = _halted(facts) or _paused(facts) or _destination_paused(facts)
    held = held or _at_key_limit(job, facts.lane) or _at_limit(facts.lane)
    if not held and not facts.pulled and not facts.worker_nodes:
        held = "No node with the role worker is alive."
    busy = _why_not_claimed(job, facts) if facts.pulled else _why_not_delivered(facts)
    return held or why_put_off(job, facts) or busy


def _halted(facts: WaitFacts) -> str | None:
    for halt in facts.halts:
        if halt.mode == "hold" and halt.from_at <= facts.now:
            kind = "kill switch" if halt.kind == "kill" else "freeze"
            return f"The tenant is halted by a {kind} of {facts.who(halt.set_by)}: {halt.note}."
    return None


def _paused(facts: WaitFacts) -> str | None:
    lane = facts.lane
    if lane.paused_at is None:
        return None
    by = f" by {facts.who(lane.paused_by)}" if lane.paused_by else ""
    note = f": {lane.paused_note}" if lane.paused_note else ""
    return f"Lane {lane.lane} was paused {_ago(lane.paused_at, facts.now)} ago{by}{note}."


def _destination_paused(facts: WaitFacts) -> str | None:
    found = facts.destination
    if found is None or found.paused_at is None:
        return None
    by = f" by {facts.who(found.paused_by)}" if found.paused_by else ""
    ago = _ago(found.paused_at, facts.now)
    return f"Destination {found.name} was paused {ago} ago{by}: {found.paused_reason}."


def _at_key_limit(job: JobView, lane: LaneView) -> str | None:
    if lane.per_key is None or job.jobs_before is None:
        return None
    before = f"{job.jobs_before:,} of its jobs wait before this one"
    if job.waiting_for == "key_max_running":
        return f"Key {job.key} is at its limit: {lane.per_key.max_running} run, and {before}."
    if job.waiting_for == "key_rate_per_second":
        rate = lane.per_key.rate_per_second
        return f"Key {job.key} may start {rate:g} a second, and {before}."
    return None


def _at_limit(lane: LaneView) -> str | None:
    if lane.max_running is not None and lane.running >= lane.max_running:
        return (
            f"Lane {lane.lane} is at its limit: {lane.running} of {lane.max_running} run, and "
            f"{lane.ready:,} are due. The next starts when one ends."
        )
    if lane.rate_per_second is not None and lane.ready > lane.rate_per_second:
        return (
            f"Lane {lane.lane} may start {lane.rate_per_second:g} a second, and {lane.ready:,} "
            "are due."
        )
    return None


def why_put_off(job: JobView, facts: WaitFacts) -> str | None:
    """Return why a job whose instant has come is tried again later: a pause, or a missing key."""
    return _destination_paused(facts) or _missing_key(job, facts)


def _missing_key(job: JobView, facts: WaitFacts) -> str | None:
    """Say which secret key is missing for this job, where no node that could run it has it."""
    name = destination_name(job)
    needed = set() if facts.pulled else {("destination", name) if name else ("url", "")}
    if job.payload is not UNSET or job.payload_base64 is not None or job.payload_error is not None:
        needed.add(("payload", ""))
    role = "api" if facts.pulled else "worker"
    for key in facts.missing_keys:
        opens = {(need.kind, need.name) for need in key.needs}
        if key.role == role and not key.having and not needed.isdisjoint(opens):
            since = _ago(key.since, facts.now)
            return (
                f"No node with the role {role} has had the secret key {key.name} for {since}, "
                f"which opens {key.what}: it is put off until one has."
            )
    return None


def _why_not_claimed(job: JobView, facts: WaitFacts) -> str:
    lane = facts.lane
    if lane.running:
        return f"Its workers are busy: {lane.running:,} jobs run, {lane.ready:,} are due."
    due = job.next_attempt_at or job.effective_at
    return f"No worker has claimed a job of lane {lane.lane} for {_ago(due, facts.now)}."


def _why_not_delivered(facts: WaitFacts) -> str:
    limits = _limits(facts.destination)
    lane = facts.lane
    return (
        f"The nodes are at work: {lane.running:,} jobs of lane {lane.lane} run, {lane.ready:,} "
        f"are due.{limits}"
    )


def _limits(destination: DestinationView | None) -> str:
    if destination is None:
        return ""
    limits = limit_texts(destination)
    return f" Destination {destination.name} takes {' and '.join(limits)}." if limits else ""


def destination_name(job: JobView) -> str | None:
    """Return the name of the stored destination that a job goes to."""
    match job.destination:
        case Webhook(name=str(name)) | Queue(name=name):
            return name
        case _:
            return None


def _ago(since: datetime, now: datetime) -> str:
    return duration(max(0, round((now - since).total_seconds() * 1000)))
