"""Count the stored timers that come due by minute: exactly, or estimated with an error."""

import math
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from statistics import variance
from typing import Final

import msgspec

from postdate.core.ids import BUCKETS
from postdate.core.test_clock import own_lane
from postdate.database.connection.database import Connection
from postdate.foresight.store import due as due_store
from postdate.foresight.store.due import DueMinutes, DueWalk, WalkWindow
from postdate.lane.store.lane import Lane
from postdate.monitor.store.overview import Places
from postdate.timer.timer import LANE_PAYMENT

EXACT_LIMIT: Final = 100_000
"""Up to this number, timers are counted one by one."""

PROBE_ROWS: Final = 4000
"""Timers that are read in one bucket of each lane first, to estimate how many there are."""

SAMPLE_ROWS: Final = 60_000
"""If there are more, a sample of the buckets of each lane with about this many timers is read."""

WALK_LIMIT: Final = 100_000
"""Maximum number of timers that a walk over a sample reads."""

MIN_ROWS: Final = 50
"""How many timers are walked at each place at least."""

MINUTE: Final = timedelta(minutes=1)

DEVIATIONS: Final = 2.0
"""The error is given as two standard errors: about 19 of 20 estimates are within it."""

TimerWalk = Callable[[WalkWindow], Awaitable[DueWalk]]


class StoredDue(msgspec.Struct, frozen=True, kw_only=True):
    """Stored timers that come due; `known_until` is where counting stopped."""

    found: list[DueMinutes]
    known_until: datetime
    error_percent: int | None = None
    """None when everything was counted; else how far the estimated total may be off."""

    @property
    def backlog(self) -> int:
        """Return how much is due before the window begins."""
        return sum(each.counts[0] for each in self.found if each.minutes[0] < 0)


def lane_buckets(lanes: Sequence[Lane], *own: int) -> Places:
    """Return the lane buckets of these lanes and of the system's own lanes."""
    pairs = [
        (bucket, lane_id)
        for lane_id in own or (own_lane(LANE_PAYMENT),)
        for bucket in range(BUCKETS)
    ]
    pairs += [(bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets]
    return [bucket for bucket, _ in pairs], [lane_id for _, lane_id in pairs]


async def stored_due(
    connection: Connection,
    walk: TimerWalk,
    everywhere: Places,
    begin: datetime,
    until: datetime,
    exact_limit: int = EXACT_LIMIT,
) -> StoredDue:
    """Count what comes due; if it is too much, estimate it from some buckets of each lane."""
    lanes = _by_lane(everywhere)
    look = partial(_look, walk, begin, until)
    # What is added between the two is counted as well.
    if not await due_store.exceeds(connection, lanes, until, exact_limit):
        exact = await look(everywhere, 2 * exact_limit, 2 * exact_limit)
        return StoredDue(found=exact.found, known_until=until)
    drawn = _draw(lanes, dict.fromkeys(lanes, 1))
    probe = await look(drawn, max(MIN_ROWS, PROBE_ROWS // max(1, len(lanes))))
    rates = _rates(probe, drawn, (until - begin) / max(probe.known_until - begin, MINUTE))
    share = SAMPLE_ROWS / len(lanes)
    drawn = _draw(lanes, {lane: max(1, int(share / max(1.0, rates[lane]))) for lane in lanes})
    sampled = await look(drawn, max(MIN_ROWS, WALK_LIMIT // len(drawn[0])))
    return _estimated(sampled, lanes, drawn)


async def _look(
    walk: TimerWalk,
    begin: datetime,
    until: datetime,
    where: Places,
    limit: int,
    walk_limit: int = WALK_LIMIT,
) -> DueWalk:
    """Walk some lane buckets, each up to a limit."""
    return await walk(
        WalkWindow(
            begin=begin,
            until=until,
            lane_buckets=where,
            lane_bucket_limit=limit,
            walk_limit=walk_limit,
        )
    )


def _by_lane(everywhere: Places) -> dict[int, list[int]]:
    lanes: dict[int, list[int]] = {}
    for bucket, lane_id in zip(*everywhere, strict=True):
        lanes.setdefault(lane_id, []).append(bucket)
    return lanes


def _draw(lanes: Mapping[int, Sequence[int]], sizes: Mapping[int, int]) -> Places:
    """Sample some buckets of each lane uniformly."""
    drawn = [
        (bucket, lane_id)
        for lane_id, buckets in lanes.items()
        for bucket in random.sample(buckets, min(sizes[lane_id], len(buckets)))
    ]
    return [bucket for bucket, _ in drawn], [lane_id for _, lane_id in drawn]


def _rates(probe: DueWalk, drawn: Places, ratio: float) -> dict[int, float]:
    """Estimate how many timers a bucket of each lane has in the window."""
    return {
        lane_id: probe.by_lane_bucket.get(place, 0) * ratio
        for place, lane_id in enumerate(drawn[1], 1)
    }


def _estimated(sampled: DueWalk, lanes: Mapping[int, Sequence[int]], drawn: Places) -> StoredDue:
    counts: dict[int, list[int]] = {lane_id: [] for lane_id in lanes}
    for place, lane_id in enumerate(drawn[1], 1):
        counts[lane_id].append(sampled.by_lane_bucket.get(place, 0))
    weights = {lane_id: len(lanes[lane_id]) / len(own) for lane_id, own in counts.items()}
    return StoredDue(
        found=[_weighted(each, weights[each.lane_id]) for each in sampled.found],
        known_until=sampled.known_until,
        error_percent=_error_percent(counts, weights),
    )


def _weighted(each: DueMinutes, weight: float) -> DueMinutes:
    """Scale counts; carry rounding errors over to the next minute."""
    return DueMinutes(each.key, each.lane_id, each.minutes, list(_carried(each.counts, weight)))


def _carried(counts: Sequence[int], weight: float) -> Iterator[int]:
    total, given = 0.0, 0
    for count in counts:
        total += count * weight
        yield round(total) - given
        given = round(total)


def _error_percent(counts: Mapping[int, Sequence[int]], weights: Mapping[int, float]) -> int:
    """Return the error of the estimated total, for sampling each lane without replacement.

    A few buckets say little about the variance: it is at least that of timers assigned to buckets
    at random.
    """
    total, squares = 0.0, 0.0
    for lane_id, own in counts.items():
        part, weight = len(own), weights[lane_id]
        total += weight * sum(own)
        least = sum(own) / part
        spread = max(variance(own), least) if part > 1 else least
        squares += part * weight * weight * (1 - 1 / weight) * spread
    return math.ceil(100 * DEVIATIONS * math.sqrt(squares) / total) if total else 0
