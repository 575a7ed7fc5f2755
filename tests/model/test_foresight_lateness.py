"""Lateness by minutes, against a queue that is followed second by second."""

from array import array
from collections import deque
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from postdate.foresight.spec.lateness import ERROR_SECONDS, MAX_LATE_SECONDS, late_forecast
from postdate.foresight.spec.minutes import hour_peaks

BEGIN = datetime(2026, 11, 17, 7, 58, tzinfo=UTC)


def _worst_seconds(counts: list[int], per_second: int, backlog: int) -> int:
    """Follow each item: everything of a minute is due at its first second, in order."""
    queue = deque([0] * backlog)
    worst = second = 0
    while second < len(counts) * 60 or queue:
        minute, within = divmod(second, 60)
        if within == 0 and minute < len(counts):
            queue.extend([second] * counts[minute])
        for _ in range(min(per_second, len(queue))):
            worst = max(worst, second + 1 - queue.popleft())
        second += 1
    return worst


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(0, 300),
)
def test_the_worst_lateness_is_within_its_error(
    counts: list[int], per_second: int, backlog: int
) -> None:
    found = late_forecast(array("I", counts), BEGIN, per_second, backlog)
    worst = _worst_seconds(counts, per_second, backlog)
    told = found.worst.late_seconds if found.worst else 0
    assert told <= worst <= told + ERROR_SECONDS + 1
    assert (found.worst is None) == (found.first_late_at is None)


def test_episodes_have_a_beginning_a_worst_hour_and_an_end() -> None:
    counts = [0, 0, 600, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0]
    [episode] = late_forecast(array("I", counts), BEGIN, 1.0).episodes
    assert episode.from_at == BEGIN + timedelta(minutes=2)
    assert episode.worst_at == BEGIN + timedelta(minutes=3)
    assert episode.worst_hour == datetime(2026, 11, 17, 8, tzinfo=UTC)
    assert (episode.late_seconds, episode.waiting) == (540, 540)
    assert episode.until_at == BEGIN + timedelta(minutes=13)
    assert late_forecast(array("I", counts[:8]), BEGIN, 1.0).episodes[0].until_at is None
    assert late_forecast(array("I", counts), BEGIN, 10.0).episodes == []


def test_next_to_no_capacity_is_a_lateness_without_an_end() -> None:
    found = late_forecast(array("I", [0, 3]), BEGIN, 5e-324)
    assert found.worst is not None
    assert (found.worst.late_seconds, found.worst.waiting) == (MAX_LATE_SECONDS, 3)


@given(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 3), min_size=1, max_size=400))
def test_the_peaks_of_hours_are_those_of_their_minutes(counts: list[int]) -> None:
    hours = [counts[at : at + 60] for at in range(0, len(counts), 60)]
    assert list(hour_peaks(array("I", counts))) == [max(hour) for hour in hours]
