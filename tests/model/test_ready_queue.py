from datetime import UTC, datetime, timedelta

from postdate.lane.spec import PRIORITY_STEP
from postdate.lane.store.lane import Lane
from postdate.runtime.capacity import Capacity
from postdate.worker.lane_bucket import LaneBucket
from postdate.worker.ready_queue import ReadyQueue

NOW = datetime(2031, 1, 1, tzinfo=UTC)


def bucket_of_priority(priority: int, waited: timedelta) -> LaneBucket:
    lane = Lane(
        16 + priority, 1, "mail", "push", 1, 8, None, None, None, None, None, NOW, NOW,
        priority=priority,
    )  # fmt: skip
    found = LaneBucket(lane, 3)
    found.mark.learn_empty_below(NOW - waited, NOW)
    return found


def first_priority(*ready: tuple[int, timedelta]) -> int:
    queue = ReadyQueue(Capacity(10), lambda _: 1)
    for priority, waited in ready:
        queue.add(bucket_of_priority(priority, waited))
    taken = queue.take_next()
    assert taken is not None
    return taken.lane.priority


def test_the_most_urgent_row_of_a_lane_is_next() -> None:
    none = timedelta()
    assert first_priority((9, none), (5, none), (0, none)) == 0


def test_waiting_raises_a_row_by_a_step_each_minute() -> None:
    bound = 9 * PRIORITY_STEP
    moment = timedelta(seconds=1)
    assert first_priority((0, timedelta()), (9, bound - moment)) == 0
    assert first_priority((0, timedelta()), (9, bound + moment)) == 9
