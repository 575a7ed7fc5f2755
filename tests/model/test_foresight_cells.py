"""A forecast with many groups over a long window: what is counted is bounded before it is made."""

import tracemalloc
from datetime import UTC, datetime, timedelta

from postdate.foresight.spec.capacity import UNKNOWN
from postdate.foresight.spec.minutes import no_counts
from postdate.foresight.store.due import DueMinutes
from postdate.foresight.view.due import StoredDue
from postdate.foresight.view.load import LoadNaming, LoadParts
from postdate.foresight.view.load_shape import LoadQuestion, LoadView
from postdate.foresight.view.rules import MAX_SERIES, OTHERS, CountedSchedules, supposed
from postdate.lane.store.lane import Lane

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=366)
MINUTES = YEAR // timedelta(minutes=1)
FIRST_LANE = 1000


def _view(counts: list[int], scheduled: dict[str, int]) -> LoadView:
    """Return the forecast of a year by lane, in which each lane has stored jobs at one minute."""
    lanes = [
        Lane(FIRST_LANE + n, 1, f"n{n}", "push", 1, 1, None, None, None, None, None, BEGIN, BEGIN)
        for n in range(len(counts))
    ]
    found = [
        DueMinutes(lane.lane_id, lane.lane_id, [n], [count])
        for n, (lane, count) in enumerate(zip(lanes, counts, strict=True))
    ]
    dense = {}
    for name, each_minute in scheduled.items():
        dense[False, name] = no_counts(MINUTES)
        dense[False, name][7] = each_minute
    parts = LoadParts(
        LoadQuestion(by="lane"),
        (BEGIN, BEGIN + YEAR),
        StoredDue(found=found, known_until=BEGIN + YEAR),
        LoadNaming("lane", lanes, {}),
        {False: UNKNOWN, True: UNKNOWN},
    )
    return parts.view(CountedSchedules(dense, 0), supposed([]))


def test_a_year_of_a_thousand_lanes_takes_little_memory() -> None:
    counts = [1 + n % 50 for n in range(1000)]
    tracemalloc.start()
    try:
        view = _view(counts, {})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000, "a grid of minutes for each lane takes 4 GB"
    assert len(view.series) == MAX_SERIES + 1
    assert sum(sum(each.counts) for each in view.series) == sum(counts)
    largest = sorted(counts, reverse=True)[:MAX_SERIES]
    shown = {each.name: each.stored for each in view.series}
    assert shown.pop(OTHERS) == sum(counts) - sum(largest)
    assert sorted(shown.values(), reverse=True) == largest


def test_stored_and_scheduled_work_of_a_lane_decide_together_whether_it_is_shown() -> None:
    counts = [10 + n for n in range(100)]
    view = _view(counts, {"n0": 1000, "only_scheduled": 500, "n99": 1})
    shown = {each.name: (each.stored, each.scheduled) for each in view.series}
    assert shown["n0"] == (10, 1000)
    assert shown["only_scheduled"] == (0, 500)
    assert shown["n99"] == (109, 1)
    assert shown[OTHERS] == (sum(counts[1:78]), 0)
    assert view.queues[0].total == sum(counts) + 1501
