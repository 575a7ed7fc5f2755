"""The predicted effect of changes: what moves, what is late, what fails."""

from collections import Counter
from datetime import datetime, timedelta

import msgspec

from postdate.foresight.spec.capacity import LoadCapacity
from postdate.foresight.spec.hypothesis import Hypothesis, merged
from postdate.foresight.spec.money import FailingPayment
from postdate.foresight.store.due import DueMinutes
from postdate.foresight.view.due import StoredDue
from postdate.foresight.view.load import CAPACITY_SETTINGS, MINUTE, LoadParts, LoadViews
from postdate.foresight.view.load_shape import LoadQuestion, LoadQueue
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.rules import (
    CountedSchedules,
    PlannedSchedule,
    RuleBook,
    count_schedules,
    supposed,
)

MAX_NAMED = 50
"""How many payments are named that would fail only then."""


class ChangeEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What changes would do within a window; null or empty is what the key may not see."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    error_percent: int | None
    moved: int | None
    """How many stored jobs and payments would be due at another instant, or never."""
    moved_amount: int | None
    """What the payments among them come to."""
    released_amount: int | None
    """How much of what is held would be released at once."""
    held: int | None
    """How many jobs and payments would wait: in paused lanes, or for the end of a freeze."""
    skipped: int | None
    """How many occurrences of schedules would not happen."""
    queues_before: list[LoadQueue]
    queues_after: list[LoadQueue]
    failing_before: int | None
    failing_after: int | None
    failing: list[FailingPayment]
    """Payments that would fail, and would not otherwise."""


class EffectViews:
    """Computes effects."""

    def __init__(self, load: LoadViews, money: MoneyViews) -> None:
        self._load = load
        self._money = money

    async def effect(
        self, tenant_id: int, hypothesis: Hypothesis, until: datetime | None
    ) -> ChangeEffect:
        """Compute load and money as they are and as they would be."""
        question = LoadQuestion(until=until, by="lane")
        parts, book, counting = await self._load.prepare(tenant_id, question)
        before, after, held, skipped = await self._load.answered(
            tenant_id, _both, parts, book, counting, hypothesis
        )
        was, would, released = await self._money.suppose(tenant_id, parts.window[1], hypothesis)
        known = {_identity(each) for each in was.failing}
        return ChangeEffect(
            from_at=parts.window[0],
            until_at=parts.window[1],
            known_until=min(parts.stored.known_until, was.known_until),
            error_percent=parts.stored.error_percent,
            moved=len(hypothesis.moved),
            moved_amount=hypothesis.amount,
            released_amount=released,
            held=held,
            skipped=skipped,
            queues_before=before,
            queues_after=after,
            failing_before=was.failing_count,
            failing_after=would.failing_count,
            failing=[each for each in would.failing if _identity(each) not in known][:MAX_NAMED],
        )


def _identity(each: FailingPayment) -> tuple[object, ...]:
    return each.payment_id, each.schedule_id, each.due_at


def _both(
    parts: LoadParts, book: RuleBook, counted: CountedSchedules | None, hypothesis: Hypothesis
) -> tuple[list[LoadQueue], list[LoadQueue], int, int]:
    """Return the queues as they are and as they would be, what would wait and what be skipped."""
    naming, window = parts.naming, parts.window
    lanes = {
        lane_id: msgspec.structs.replace(
            lane, rate_per_second=hypothesis.rates.get(lane.name, lane.rate_per_second)
        )
        for lane_id, lane in naming.lanes.items()
    }
    changed = msgspec.structs.replace(
        parts,
        stored=_stored(parts, hypothesis),
        naming=naming.with_lanes(lanes),
        capacities=_capacities(parts, hypothesis),
    )
    would = count_schedules(supposed(_planned(book, hypothesis)), naming.by, *window)
    grids, held = changed.grids(would), 0
    for key in [key for key in grids if not key[0] and key[1] in hypothesis.paused_lanes]:
        held += grids.pop(key).count
    if hypothesis.freeze is not None:
        begin, until = ((at or window[0]) - window[0] for at in hypothesis.freeze)
        first, last = max(0, begin // MINUTE), until // MINUTE
        held += sum(grid.hold(first, last) for grid in grids.values())
    counted = counted or count_schedules(book, naming.by, *window)
    before = parts.queues(parts.grids(counted))
    return before, changed.queues(grids), held, _occurrences(parts, book, hypothesis)


def _capacities(parts: LoadParts, hypothesis: Hypothesis) -> dict[bool, LoadCapacity]:
    """Return the capacities under the changed settings."""
    known = dict(parts.capacities)
    for payments, name in CAPACITY_SETTINGS.items():
        value = hypothesis.settings.get(name)
        if value and known[payments].source != "given":
            known[payments] = LoadCapacity(per_second=float(value), source="setting")
    return known


def _planned(book: RuleBook, hypothesis: Hypothesis) -> list[PlannedSchedule]:
    return [
        each.with_jitter(hypothesis.jitter_of(each.schedule.schedule_id, each.jitter_seconds))
        for each in book.planned
        if each.schedule.schedule_id not in hypothesis.paused_schedules
    ]


def _occurrences(parts: LoadParts, book: RuleBook, hypothesis: Hypothesis) -> int:
    """Count the occurrences that paused schedules would skip."""
    paused = [
        each for each in book.planned if each.schedule.schedule_id in hypothesis.paused_schedules
    ]
    counted = count_schedules(supposed(paused), parts.naming.by, *parts.window)
    return sum(sum(counts) for counts in counted.counts.values())


def _stored(parts: LoadParts, hypothesis: Hypothesis) -> StoredDue:
    """Move the counts of moved jobs to the minutes in which they would be due."""
    begin, until = parts.window
    changes: dict[int, Counter[int]] = {}
    for job in hypothesis.moved:
        own = changes.setdefault(job.lane_id, Counter())
        own[_minute(job.due_at, begin)] -= 1
        if job.to is not None and job.to < until:
            own[_minute(job.to, begin)] += 1
    found = []
    for each in parts.stored.found:
        moved = changes.pop(int(each.key or 0), None)
        found.append(each if moved is None else _merged(each, moved))
    found += [_merged(DueMinutes(lane, lane, [], []), own) for lane, own in changes.items()]
    return msgspec.structs.replace(parts.stored, found=found)


def _merged(each: DueMinutes, moved: Counter[int]) -> DueMinutes:
    both = merged(dict(zip(each.minutes, each.counts, strict=True)), moved)
    kept = {minute: count for minute, count in both.items() if count} or {0: 0}
    return DueMinutes(each.key, each.lane_id, list(kept), list(kept.values()))


def _minute(at: datetime, begin: datetime) -> int:
    return max(-1, (at - begin) // timedelta(minutes=1))
