"""In which order a claim of a worker over HTTP goes through the buckets of a lane."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from postdate.lane.spec import order_at
from postdate.lane.store.lane import Lane

BucketOfLane = tuple[Lane, int]


def claim_order(
    found: Sequence[tuple[Lane, int, datetime]],
) -> Callable[[tuple[Lane, int, datetime]], tuple[datetime, float]]:
    """Order buckets by what is due first; where keys take turns, those of a row in any order."""
    first: dict[int, datetime] = {}
    for lane, _, due_at in found:
        first[lane.lane_id] = min(due_at, first.get(lane.lane_id, due_at))

    def order(each: tuple[Lane, int, datetime]) -> tuple[datetime, float]:
        lane, _, due_at = each
        if lane.key_rotation is None:
            return order_at(due_at, lane.priority), 0.0
        return order_at(first[lane.lane_id], lane.priority), random.random()

    return order


def divide(where: Sequence[BucketOfLane]) -> list[tuple[BucketOfLane, int]]:
    """Say into how many parts to divide what is left at each bucket; keys share it evenly.

    What those buckets did not need, any of them may have afterwards.
    """
    later: Counter[int] = Counter()
    parts = []
    for lane, bucket in reversed(where):
        later[lane.lane_id] += 1
        parts.append(((lane, bucket), 1 if lane.key_rotation is None else later[lane.lane_id]))
    parts.reverse()
    return [*parts, *((each, 1) for each, part in parts if part > 1)]
