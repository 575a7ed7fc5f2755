"""Count the stored timers that become due by minute: one by one, or estimated with the error."""

import math
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from statistics import variance
from typing import Final

import msgspec

from postdate.model.ids import BUCKETS
from postdate.model.tenant.test_clock import lane_purpose, own_lane
from postdate.store.foresight.due import DueMinutes, DueWalk, WalkWindow
from postdate.store.operate.overview import Places
from postdate.store.timer.lane import Lane
from postdate.store.timer.timer import LANE_PAYMENT

EXACT_LIMIT: Final = 100_000
"""Up to so many timers are counted one by one."""

SAMPLES: Final = ((8, 4000), (2, 20_000))
"""Beyond that so many buckets of the payments and of the lanes stand for all of them, and so many
timers are walked in each; the first that reaches the end of the window decides."""

WALK_LIMIT: Final = 80_000
"""How many timers a walk over a sample sees at the most."""

PROBE: Final = (2, 5000)
"""A first look: where it says that there is twice as much as can be counted, none of it is."""

DEVIATIONS: Final = 2.0
"""The error is told as two standard errors: about 19 of 20 estimates lie within it."""

Walk = Callable[[WalkWindow], Awaitable[DueWalk]]


class StoredDue(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored and becomes due; `known_until` is where counting stopped."""

    found: list[DueMinutes]
    known_until: datetime
    error_percent: int | None = None
    """None when everything was counted; else how far the estimated total may be off."""

    @property
    def backlog(self) -> int:
        """Return how much is due before the window begins."""
        return sum(each.counts[0] for each in self.found if each.minutes[0] < 0)


def lane_buckets(lanes: Sequence[Lane], *own: int) -> Places:
    """Return where the timers of lanes lie, and those of the system's own, of payments if none."""
    pairs = [
        (bucket, lane_id)
        for lane_id in own or (own_lane(LANE_PAYMENT),)
        for bucket in range(BUCKETS)
    ]
    pairs += [(bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets]
    return [bucket for bucket, _ in pairs], [lane_id for _, lane_id in pairs]


async def stored_due(
    walk: Walk, everywhere: Places, begin: datetime, until: datetime, exact_limit: int = EXACT_LIMIT
) -> StoredDue:
    """Count what becomes due; estimate it from a sample of lane buckets when there is too much."""
    look = partial(_walk, walk, everywhere, begin, until)
    probed, drawn = await look(*PROBE)
    if _estimate(probed, _sizes(everywhere, drawn), drawn) <= 2 * exact_limit:
        exact = await walk(
            WalkWindow(
                begin=begin,
                until=until,
                lane_buckets=everywhere,
                lane_bucket_limit=exact_limit + 1,
                walk_limit=exact_limit + 1,
            )
        )
        if exact.walked <= exact_limit:
            return StoredDue(found=exact.found, known_until=until)
    for count, limit in SAMPLES:
        sampled, drawn = await look(count, limit)
        if sampled.known_until >= until:
            break
    return _estimated(sampled, everywhere, drawn)


async def _walk(
    walk: Walk, everywhere: Places, begin: datetime, until: datetime, count: int, limit: int
) -> tuple[DueWalk, Places]:
    """Walk some lane buckets that are drawn, each up to a limit."""
    drawn = _draw(everywhere, count)
    window = WalkWindow(
        begin=begin,
        until=until,
        lane_buckets=drawn,
        lane_bucket_limit=limit,
        walk_limit=WALK_LIMIT,
    )
    return await walk(window), drawn


def _sizes(everywhere: Places, drawn: Places) -> dict[bool, tuple[int, int]]:
    """Return how many buckets of payments and of lanes were drawn, and how many there are."""
    return {kind: (_count(drawn, kind), _count(everywhere, kind)) for kind in (False, True)}


def _estimate(sampled: DueWalk, sizes: dict[bool, tuple[int, int]], drawn: Places) -> float:
    """Return how much there is, as far as a sample tells."""
    return sum(
        whole * sum(_counts(sampled, drawn, kind)) / part
        for kind, (part, whole) in sizes.items()
        if part
    )


def _counts(sampled: DueWalk, drawn: Places, payments: bool) -> list[int]:  # noqa: FBT001
    return [
        sampled.by_lane_bucket.get(number, 0)
        for number, lane_id in enumerate(drawn[1], 1)
        if (lane_purpose(lane_id) == LANE_PAYMENT) is payments
    ]


def _draw(everywhere: Places, count: int) -> Places:
    """Draw some buckets of payments and some of the lanes, each as likely as any other."""
    pairs = list(zip(*everywhere, strict=True))
    drawn: list[tuple[int, int]] = []
    for payments in (True, False):
        kind = [pair for pair in pairs if (lane_purpose(pair[1]) == LANE_PAYMENT) is payments]
        drawn += random.sample(kind, min(count, len(kind)))
    return [bucket for bucket, _ in drawn], [lane_id for _, lane_id in drawn]


def _estimated(sampled: DueWalk, everywhere: Places, drawn: Places) -> StoredDue:
    sizes = _sizes(everywhere, drawn)
    weights = {kind: whole / max(1, part) for kind, (part, whole) in sizes.items()}
    found = [_weighted(each, weights[each.payments]) for each in sampled.found]
    return StoredDue(
        found=found,
        known_until=sampled.known_until,
        error_percent=_error_percent(sampled, drawn, sizes),
    )


def _weighted(each: DueMinutes, weight: float) -> DueMinutes:
    """Multiply counts; what is rounded in one minute is made up for in the next."""
    return DueMinutes(each.key, each.payments, each.minutes, list(_carried(each.counts, weight)))


def _carried(counts: Sequence[int], weight: float) -> Iterator[int]:
    total, given = 0.0, 0
    for count in counts:
        total += count * weight
        yield round(total) - given
        given = round(total)


def _count(everywhere: Places, payments: bool) -> int:  # noqa: FBT001 - it is the kind counted
    return sum((lane_purpose(lane_id) == LANE_PAYMENT) is payments for lane_id in everywhere[1])


def _error_percent(sampled: DueWalk, drawn: Places, sizes: dict[bool, tuple[int, int]]) -> int:
    """Return the error of the estimated total, as of sampling without replacement.

    Few buckets tell little of how much buckets differ: they differ at least as much as if each
    timer had drawn its bucket.
    """
    total, squares = _estimate(sampled, sizes, drawn), 0.0
    for kind, (part, whole) in sizes.items():
        counts = _counts(sampled, drawn, kind)
        if part < whole and part:
            least = sum(counts) / part
            spread = max(variance(counts), least) if part > 1 else least
            squares += whole * whole * (1 - part / whole) * spread / part
    return math.ceil(100 * DEVIATIONS * math.sqrt(squares) / total) if total else 0
