"""A spike for a fleet, against a queue that is stepped through item by item."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.foresight.spec.spike import Fleet, Spike, SpikeForecast, simulate_spike
from postdate.words.error import RefusedError


def told(spike: Spike, **fleet: float) -> SpikeForecast:
    given = {"processes": 1, "process_per_second": 100.0, "database_per_second": 1e9} | fleet
    return simulate_spike(Fleet(**given), spike)  # type: ignore[arg-type]


def stepped(rate: float, spike: Spike, until: float) -> list[tuple[float, float]]:
    """Return due instant and lateness of every item, first come first served."""
    due = [spike.spread_seconds * n / max(1, spike.items) for n in range(spike.items)]
    steady = int(spike.steady_per_second * until)
    due += [(n + 1) / spike.steady_per_second for n in range(steady)]
    free = 0.0
    found = []
    for at in sorted(due):
        free = max(free, at) + 1 / rate
        found.append((at, free - at))
    return found


@given(
    st.integers(1, 2000),
    st.sampled_from([0.0, 1.0, 7.5]),
    st.sampled_from([0.0, 10.0, 60.0]),
    st.sampled_from([80.0, 150.0, 400.0]),
)
def test_the_worst_lateness_is_that_of_the_queue(
    items: int, spread: float, steady: float, rate: float
) -> None:
    spike = Spike(items=items, spread_seconds=spread, steady_per_second=steady)
    found = told(spike, process_per_second=rate)
    assert found.over_after_seconds is not None
    within = [
        late
        for at, late in stepped(rate, spike, found.over_after_seconds + 2)
        if at <= spread + 1e-9
    ]
    # The queue serves whole items: each takes 1 / rate even when nobody waits.
    assert max(within) == pytest.approx(found.worst_seconds, abs=3 / rate)


@given(st.integers(1000, 3000), st.sampled_from([0.0, 20.0]))
def test_the_queue_is_empty_when_it_is_said_to_be(items: int, steady: float) -> None:
    spike = Spike(items=items, steady_per_second=steady)
    found = told(spike)
    assert found.over_after_seconds is not None
    items_and_lateness = stepped(100.0, spike, found.over_after_seconds + 3)
    waits = [at + late for at, late in items_and_lateness if late > 2 / 100.0]
    assert max(waits) == pytest.approx(found.over_after_seconds, abs=0.2)


def test_the_slowest_part_is_named() -> None:
    spike = Spike(items=1000)
    assert told(spike).limited_by == "processes"
    assert told(spike, database_per_second=50.0).limited_by == "database"
    calls = told(spike, window=10, call_ms=1000.0)
    assert (calls.limited_by, calls.per_second, calls.worst_seconds) == ("open calls", 10.0, 100.0)


def test_it_says_how_many_processes_keep_it_within_a_second() -> None:
    spike = Spike(items=1000)
    found = told(spike)
    assert (found.worst_seconds, found.needed_processes) == (10.0, 10)
    assert told(spike, processes=10).worst_seconds == 1.0
    assert told(spike, database_per_second=500.0).needed_processes is None


def test_a_stream_that_is_too_much_never_ends() -> None:
    assert told(Spike(items=1, steady_per_second=100.0)).over_after_seconds is None


@pytest.mark.parametrize(
    "wrong", [{"processes": 0}, {"window": 0}, {"call_ms": -1.0}, {"database_per_second": 0.0}]
)
def test_a_fleet_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RefusedError, match=next(iter(wrong))):
        told(Spike(items=1), **wrong)
