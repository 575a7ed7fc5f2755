"""What would be if something were changed: the parts of it that load and money ahead depend on."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.model.schedule.schedule import InsufficientFunds


class MovedJob(msgspec.Struct, frozen=True):
    """A stored job that would be due at another instant, or never (None)."""

    lane_id: int
    due_at: datetime
    to: datetime | None


class Hypothesis(msgspec.Struct, kw_only=True):
    """Changes that were not made."""

    paused_lanes: set[str] = set()
    rates: dict[str, float | None] = {}
    """What lanes may start in a second."""
    paused_schedules: set[UUID] = set()
    jitter: dict[UUID, int] = {}
    funds: dict[UUID, InsufficientFunds] = {}
    freeze: tuple[datetime, datetime] | None = None
    moved: list[MovedJob] = []

    def held(self, at: datetime) -> datetime:
        """Return when something that is due at an instant would run."""
        if self.freeze is not None and self.freeze[0] <= at < self.freeze[1]:
            return self.freeze[1]
        return at

    def jitter_of(self, schedule_id: UUID, before: int) -> int:
        """Return the jitter that a schedule would have."""
        return self.jitter.get(schedule_id, before)


def merged(parts: Mapping[int, int], moved: Mapping[int, int]) -> dict[int, int]:
    """Add changes to counts by minute; none falls below zero."""
    minutes = {*parts, *moved}
    return {at: max(0, parts.get(at, 0) + moved.get(at, 0)) for at in sorted(minutes)}
