"""Hypothetical changes, as far as the load and money forecasts depend on them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.setting.table import SettingValue
from postdate.schedule.spec.schedule import InsufficientFunds

FOR_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


class MovedItem(msgspec.Struct, frozen=True):
    """A stored job or payment that would be due at another instant, or never (None)."""

    lane_id: int
    due_at: datetime
    to: datetime | None


class Hypothesis(msgspec.Struct, kw_only=True):
    """A set of hypothetical changes."""

    paused_lanes: set[str] = set()
    rates: dict[str, float | None] = {}
    """What lanes may start in a second."""
    paused_schedules: set[UUID] = set()
    jitter: dict[UUID, int] = {}
    funds: dict[UUID, InsufficientFunds] = {}
    freeze: tuple[datetime | None, datetime] | None = None
    """From when (None: now) until when nothing starts."""
    moved: list[MovedItem] = []
    payments: dict[UUID, datetime | None] = {}
    """Payments that would be due at another instant, or never."""
    amount: int = 0
    """What these payments come to."""
    settings: dict[str, SettingValue] = {}

    def held(self, at: datetime) -> datetime:
        """Return when something that is due at an instant would run."""
        begin, until = self.freeze or (at, at)
        return until if (begin is None or begin <= at) and at < until else at

    def jitter_of(self, schedule_id: UUID, before: int) -> int:
        """Return the jitter that a schedule would have."""
        return self.jitter.get(schedule_id, before)


def merged(parts: Mapping[int, int], moved: Mapping[int, int]) -> dict[int, int]:
    """Add changes to counts by minute; none falls below zero."""
    minutes = {*parts, *moved}
    return {at: max(0, parts.get(at, 0) + moved.get(at, 0)) for at in sorted(minutes)}
