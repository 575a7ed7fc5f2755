"""The activity of a tenant: accepted, executed and failed per second, and lateness."""

from collections.abc import Sequence
from typing import Final

import msgspec

from postdate.monitor.spec.activity import SLOT_SECONDS, percentile, sum_histograms
from postdate.monitor.store.activity import ActivitySlot

NOW_SECONDS: Final = SLOT_SECONDS
"""The current rate covers the previous slot and the elapsed part of the present one."""

LATE_SECONDS: Final = 60
"""The current lateness covers the last minute."""

HOUR_SECONDS: Final = 3600
MINUTE_SECONDS: Final = 60


class ActivityRate(msgspec.Struct, frozen=True):
    """Counts per second."""

    jobs: float
    payments: float

    @property
    def total(self) -> float:
        """Add both."""
        return self.jobs + self.payments


class Latency(msgspec.Struct, frozen=True):
    """Seconds from due to started: p50 and p99; None when nothing started."""

    p50: float | None
    p99: float | None


class Minutes(msgspec.Struct, frozen=True, kw_only=True):
    """The last hour by minute: counts per second, and lateness."""

    x: list[int]
    accepted: list[float]
    executed: list[float]
    failed: list[float]
    p50: list[float | None]
    p99: list[float | None]


class ActivityView(msgspec.Struct, frozen=True, kw_only=True):
    """Now, and the last hour."""

    accepted: ActivityRate
    executed: ActivityRate
    failed: ActivityRate
    late: Latency
    late_jobs: Latency
    late_payments: Latency
    minutes: Minutes


def activity_view(slots: Sequence[ActivitySlot], unix_seconds: float) -> ActivityView:
    """Derive rates and lateness from slots."""
    begin = unix_seconds // SLOT_SECONDS * SLOT_SECONDS - NOW_SECONDS
    now = [slot for slot in slots if slot.slot.timestamp() >= begin]
    seconds = max(1.0, unix_seconds - begin)
    minute = [slot for slot in slots if slot.slot.timestamp() >= unix_seconds - LATE_SECONDS]
    return ActivityView(
        accepted=_rate(now, "accepted", seconds),
        executed=_rate(now, "executed", seconds),
        failed=_rate(now, "failed", seconds),
        late=_late(minute, ("jobs", "payments")),
        late_jobs=_late(minute, ("jobs",)),
        late_payments=_late(minute, ("payments",)),
        minutes=_minutes(slots, int(unix_seconds)),
    )


def _rate(slots: Sequence[ActivitySlot], verb: str, seconds: float) -> ActivityRate:
    return ActivityRate(
        _sum(slots, f"jobs_{verb}") / seconds, _sum(slots, f"payments_{verb}") / seconds
    )


def _sum(slots: Sequence[ActivitySlot], name: str) -> int:
    return sum(getattr(slot, name) for slot in slots)


def _late(slots: Sequence[ActivitySlot], kinds: Sequence[str]) -> Latency:
    histogram = sum_histograms(getattr(slot, f"{kind}_late") for slot in slots for kind in kinds)
    return Latency(percentile(histogram, 0.5), percentile(histogram, 0.99))


def _minutes(slots: Sequence[ActivitySlot], unix_seconds: int) -> Minutes:
    last = unix_seconds // MINUTE_SECONDS
    begins = range(last - HOUR_SECONDS // MINUTE_SECONDS, last)
    grouped: dict[int, list[ActivitySlot]] = {begin: [] for begin in begins}
    for slot in slots:
        grouped.get(int(slot.slot.timestamp()) // MINUTE_SECONDS, []).append(slot)
    late = [_late(group, ("jobs", "payments")) for group in grouped.values()]
    return Minutes(
        x=[begin * MINUTE_SECONDS for begin in begins],
        accepted=[_rate(group, "accepted", MINUTE_SECONDS).total for group in grouped.values()],
        executed=[_rate(group, "executed", MINUTE_SECONDS).total for group in grouped.values()],
        failed=[_rate(group, "failed", MINUTE_SECONDS).total for group in grouped.values()],
        p50=[one.p50 for one in late],
        p99=[one.p99 for one in late],
    )
