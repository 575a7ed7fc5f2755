"""The two charts of the overview: what comes due in the next hour and in the next day."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postdate.database.connection import clock
from postdate.database.connection.database import Connection
from postdate.foresight.spec.minutes import Counts, MinuteGrid, added, coarsen
from postdate.foresight.view.due import StoredDue
from postdate.foresight.view.load import DAY, LoadViews, Window, next_minute
from postdate.foresight.view.rules import CountedSchedules
from postdate.lane.store.lane import Lane

HOUR_SLOTS: Final = 60
DAY_JOINED: Final = 15
"""Minutes per slot in the chart of the day."""


class DueChart(msgspec.Struct, frozen=True, kw_only=True):
    """How much comes due in each slot from now on; None where counting did not reach."""

    slot_seconds: int
    jobs: list[int | None]
    payments: list[int | None]

    @property
    def total(self) -> int:
        """Add up what was counted."""
        return sum(many or 0 for many in (*self.jobs, *self.payments))

    @property
    def whole(self) -> bool:
        """Return whether the counting reached the end of the chart."""
        return None not in self.jobs


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What comes due in the next hour and in the next day, schedules included."""

    begin: datetime
    hour: DueChart
    day: DueChart
    error_percent: int | None = None
    """None when everything was counted; else how far the estimated total may be off."""


async def forecast(
    load: LoadViews, connection: Connection, tenant_id: int, lanes: Sequence[Lane]
) -> Forecast:
    """Count what comes due in the next day."""
    begin = next_minute(await clock.now(connection))
    window = begin, begin + DAY
    stored, scheduled = await load.counts(connection, tenant_id, lanes, window)
    counts = {kind: _counts(stored, scheduled, window, payments=kind) for kind in (False, True)}
    known = (stored.known_until - begin) // timedelta(minutes=1)
    return Forecast(
        begin=begin,
        hour=_chart(counts, 1, HOUR_SLOTS, known),
        day=_chart(counts, DAY_JOINED, len(counts[False]) // DAY_JOINED, known),
        error_percent=stored.error_percent,
    )


def _counts(
    stored: StoredDue, scheduled: CountedSchedules, window: Window, *, payments: bool
) -> Counts:
    grid = MinuteGrid(*window)
    for each in stored.found:
        if each.payments is payments:
            pairs = zip(each.minutes, each.counts, strict=True)
            grid.add_minutes((minute, count) for minute, count in pairs if minute >= 0)
    own = [counts for (kind, _), counts in scheduled.counts.items() if kind is payments]
    return added([grid.counts(), *own])


def _chart(counts: dict[bool, Counts], joined_minutes: int, slots: int, known: int) -> DueChart:
    whole = known // joined_minutes
    jobs, payments = (
        [
            many if slot < whole else None
            for slot, many in enumerate(coarsen(counts[kind], joined_minutes)[:slots])
        ]
        for kind in (False, True)
    )
    return DueChart(slot_seconds=joined_minutes * 60, jobs=jobs, payments=payments)
