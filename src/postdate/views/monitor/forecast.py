"""Forecast how much becomes due in the next day: counted, or estimated with its error."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from statistics import variance
from typing import Final

import msgspec

from postdate.store.connection.database import Connection
from postdate.store.operate import overview as store
from postdate.store.operate.overview import DueCount, Places
from postdate.store.timer.timer import LANE_PAYMENT

EXACT_LIMIT: Final = 100_000
"""Up to so many timers are counted one by one."""

WALK_LIMIT: Final = EXACT_LIMIT + 1
"""How many timers one statement walks at the most; one more than is exact tells that it is not."""

SAMPLED_LANE_BUCKETS: Final = 12
"""Beyond that, so many buckets of the payments and of the lanes stand for all of them."""

SAMPLE_LIMIT: Final = 4000
"""How many timers of a sampled lane bucket are walked; the first full one ends the forecast."""

SLOT_SECONDS: Final = 60
AHEAD_SECONDS: Final = 24 * 3600
HOUR_SLOTS: Final = 60
DAY_JOINED: Final = 15
"""The day's chart joins so many slots into one."""

DEVIATIONS: Final = 2.0
"""The error is told as two standard errors: about 19 of 20 estimates lie within it."""


class DueChart(msgspec.Struct, frozen=True, kw_only=True):
    """How much becomes due, slot by slot from now on; None where it was not counted so far."""

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
    """What becomes due in the next hour and in the next day."""

    hour: DueChart
    day: DueChart
    error_percent: int | None = None
    """None when everything was counted; else how far the estimated total may be off."""


async def forecast(connection: Connection, tenant_id: int, lane_buckets: Places) -> Forecast:
    """Count what becomes due; estimate it from a sample of lane buckets when there is too much."""
    rows = await _due(connection, tenant_id, lane_buckets, EXACT_LIMIT + 1)
    if not rows or rows[0].walked <= EXACT_LIMIT:
        return _forecast(rows, {False: 1.0, True: 1.0}, None)
    drawn = _draw(lane_buckets)
    rows = await _due(connection, tenant_id, drawn, SAMPLE_LIMIT)
    sizes = {kind: (_count(drawn, kind), _count(lane_buckets, kind)) for kind in (False, True)}
    weights = {kind: whole / max(1, part) for kind, (part, whole) in sizes.items()}
    return _forecast(rows, weights, _error_percent(rows, sizes))


def _forecast(
    rows: Sequence[DueCount], weights: dict[bool, float], error_percent: int | None
) -> Forecast:
    slots = AHEAD_SECONDS // SLOT_SECONDS
    return Forecast(
        hour=_chart(rows, weights, 1, HOUR_SLOTS),
        day=_chart(rows, weights, DAY_JOINED, slots // DAY_JOINED),
        error_percent=error_percent,
    )


async def _due(
    connection: Connection, tenant_id: int, lane_buckets: Places, limit: int
) -> list[DueCount]:
    return await store.due(
        connection,
        tenant_id,
        lane_buckets,
        slot_seconds=SLOT_SECONDS,
        ahead_seconds=AHEAD_SECONDS,
        bucket_limit=limit,
        walk_limit=WALK_LIMIT,
    )


def _draw(lane_buckets: Places) -> Places:
    """Draw some buckets of payments and some of the lanes, each as likely as any other."""
    pairs = list(zip(*lane_buckets, strict=True))
    drawn: list[tuple[int, int]] = []
    for payments in (True, False):
        kind = [pair for pair in pairs if (pair[1] == LANE_PAYMENT) is payments]
        drawn += random.sample(kind, min(SAMPLED_LANE_BUCKETS, len(kind)))
    return [bucket for bucket, _ in drawn], [lane_id for _, lane_id in drawn]


def _count(lane_buckets: Places, payments: bool) -> int:  # noqa: FBT001 - it is the kind counted
    return sum((lane_id == LANE_PAYMENT) is payments for lane_id in lane_buckets[1])


def _error_percent(rows: Sequence[DueCount], sizes: dict[bool, tuple[int, int]]) -> int:
    """Return the error of the estimated total, as of sampling without replacement."""
    found: dict[bool, list[int]] = defaultdict(list)
    for row in rows:
        if row.lane_bucket is not None:
            found[row.payments].append(row.many)
    total = squares = 0.0
    for kind, (part, whole) in sizes.items():
        counts = found[kind] + [0] * (part - len(found[kind]))
        if part:
            total += whole * sum(counts) / part
        if 1 < part < whole:
            squares += whole * whole * (1 - part / whole) * variance(counts) / part
    return math.ceil(100 * DEVIATIONS * math.sqrt(squares) / total) if total else 0


def _chart(
    rows: Sequence[DueCount], weights: dict[bool, float], joined: int, slots: int
) -> DueChart:
    known = min((row.known_seconds for row in rows), default=AHEAD_SECONDS)
    whole = int(known // (joined * SLOT_SECONDS))
    found = {kind: [0.0] * (slots + 1) for kind in weights}
    for row in rows:
        if row.slot is not None:
            found[row.payments][min(row.slot // joined, slots)] += row.many * weights[row.payments]
    jobs, payments = (
        [round(many) if slot < whole else None for slot, many in enumerate(found[kind][:slots])]
        for kind in (False, True)
    )
    return DueChart(slot_seconds=joined * SLOT_SECONDS, jobs=jobs, payments=payments)
