"""The load forecast: its query and its answer."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from postdate.foresight.spec.capacity import LoadCapacity
from postdate.foresight.spec.lateness import LateForecast
from postdate.foresight.view.rules import By, PlannedSchedule


class JitterSpread(msgspec.Struct, frozen=True):
    """A hypothetical jitter for one schedule, or for all."""

    seconds: int
    schedules: frozenset[UUID] | None = None

    def of(self, each: PlannedSchedule) -> PlannedSchedule:
        """Return a schedule with the jitter that it would have."""
        changed = self.schedules is None or each.schedule.schedule_id in self.schedules
        return each.with_jitter(self.seconds) if changed else each


class LoadQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a load forecast."""

    begin: datetime | None = None
    until: datetime | None = None
    by: By = "total"
    lane: str | None = None
    slot_minutes: int | None = None
    jobs_per_second: float | None = None
    payments_per_second: float | None = None
    spread: JitterSpread | None = None
    payments: bool = True
    """Whether payments are counted: not for a key that may not see all of them."""


class LoadSeries(msgspec.Struct, frozen=True, kw_only=True):
    """What comes due for one lane, destination or tenant, slot by slot."""

    kind: Literal["jobs", "payments"]
    name: str
    stored: int
    """How much of it is stored already."""
    scheduled: int
    """How much schedules will make of it."""
    counts: list[int]


class LoadPeak(msgspec.Struct, frozen=True):
    """The busiest minute."""

    at: datetime
    count: int


class LoadQueue(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs, all payments, or the jobs of a lane with a limit of its own, against a capacity."""

    kind: Literal["jobs", "payments"]
    name: str
    total: int
    backlog: int
    peak: LoadPeak | None
    capacity: LoadCapacity
    lateness: LateForecast | None
    """None where no capacity is known."""


class SpreadEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of another jitter: the same queues, computed again."""

    jitter_seconds: int
    schedule_id: UUID | None
    queues: list[LoadQueue]


class LoadView(msgspec.Struct, frozen=True, kw_only=True):
    """What comes due in a window that begins at a whole minute."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    """Where counting stopped; what is stored beyond is not in the figures."""
    slot_seconds: int
    by: By
    series: list[LoadSeries]
    queues: list[LoadQueue]
    error_percent: int | None
    """None where every stored item was counted; else how far the estimate may be off."""
    schedules: int
    left_out: int
    """Schedules that are not in the figures: they cannot be read, or take too long to count."""
    spread: SpreadEffect | None = None
