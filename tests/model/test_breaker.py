from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from postdate.delivery.breaker import (
    FAILURES,
    LEARN_SECONDS,
    LINE_SECONDS,
    MAX_OPEN_SECONDS,
    OPEN_SECONDS,
    RAMP,
    REMEMBERED,
    Breaker,
    Breakers,
    Health,
)


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES):
        assert breaker.admit(0.0) == 0
        breaker.record(0.0, 0.0, Health.DOWN)
    assert not breaker.closed
    return breaker


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker.record(0, 0, Health.DOWN)
    breaker.record(0, 0, Health.UP)
    for _ in range(FAILURES - 1):
        breaker.record(0, 0, Health.DOWN)
    assert breaker.closed
    breaker.record(0, 0, Health.DOWN)
    assert breaker.admit(0) == OPEN_SECONDS


def test_one_probe_passes_when_the_time_is_up() -> None:
    breaker = opened()
    assert breaker.admit(OPEN_SECONDS - 0.1) == pytest.approx(0.1, abs=2 * LINE_SECONDS)
    assert breaker.admit(OPEN_SECONDS) == 0
    assert breaker.admit(OPEN_SECONDS) > 0


def test_a_failed_probe_doubles_the_wait_up_to_a_bound() -> None:
    breaker, now, waits = opened(), OPEN_SECONDS, []
    for _ in range(10):
        assert breaker.admit(now) == 0
        breaker.record(now, now, Health.DOWN)
        waits.append(breaker.admit(now))
        now += waits[-1]
    assert waits[:3] == [2.0, 4.0, 8.0]
    assert waits[-1] == MAX_OPEN_SECONDS


def test_what_comes_back_is_let_in_by_and_by() -> None:
    breaker, now, admitted = opened(), OPEN_SECONDS, []
    while not breaker.closed:
        wave = 0
        while wave <= RAMP and breaker.admit(now) == 0:
            wave += 1
        admitted.append(wave)
        for _ in range(wave):
            breaker.record(now, now, Health.UP)
    assert admitted[0] == 1
    assert sum(admitted) < RAMP


def test_who_was_turned_away_comes_back_one_after_the_other() -> None:
    """Long after an outage that lasted long, nobody still waits for as long as it did."""
    breaker, now = opened(), OPEN_SECONDS
    while breaker._open_seconds < MAX_OPEN_SECONDS:
        assert breaker.admit(now) == 0
        breaker.record(now, now, Health.DOWN)
        now += breaker._open_seconds
    assert breaker.admit(now) == 0  # the probe; the others learn soon what it met
    waits = [breaker.admit(now) for _ in range(100)]
    assert waits == sorted(set(waits))
    assert waits[0] == pytest.approx(OPEN_SECONDS)
    assert waits[-1] == pytest.approx(OPEN_SECONDS + 99 * LINE_SECONDS)


def test_a_breaker_may_leave_its_destination_alone_for_less_long() -> None:
    breaker, now = Breaker(max_open_seconds=3.0), 0.0
    for _ in range(20):
        while (wait := breaker.admit(now)) > 0:
            assert wait <= 3.0
            now += wait
        breaker.record(now, now, Health.DOWN)


def test_calls_from_before_the_opening_do_not_count_as_probes() -> None:
    breaker = opened()
    breaker.record(0.0, 0.5, Health.DOWN)
    breaker.record(0.0, 0.5, Health.UP)
    assert breaker.admit(OPEN_SECONDS) == 0
    breaker.record(0.0, OPEN_SECONDS, Health.UP)
    assert not breaker.closed
    assert breaker.admit(OPEN_SECONDS) > 0


def test_a_busy_destination_is_left_alone_for_as_long_as_it_asks() -> None:
    breaker = Breaker()
    breaker.record(0, 0, Health.BUSY, 7.0)
    assert breaker.admit(0) == 7.0
    breaker.record(0, 0, Health.BUSY, 10_000.0)
    assert breaker.admit(0) == MAX_OPEN_SECONDS


def test_a_probe_given_up_makes_room_for_the_next() -> None:
    breaker = opened()
    assert breaker.admit(OPEN_SECONDS) == 0
    breaker.record(OPEN_SECONDS, OPEN_SECONDS, Health.SILENT)
    assert breaker.admit(OPEN_SECONDS) == 0


def test_only_trouble_is_remembered_and_only_so_much() -> None:
    breakers = Breakers()
    for number in range(REMEMBERED + 10):
        breakers.record((1, str(number)), 0, 0, Health.DOWN)
        breakers.record((1, ""), 0, 0, Health.UP)
    assert len(breakers._breakers) == REMEMBERED
    breakers.record((1, str(REMEMBERED)), 0, 0, Health.UP)
    assert len(breakers._breakers) == REMEMBERED - 1


def test_jobs_of_a_destination_that_fails_each_first_attempt_are_not_held_back_for_long() -> None:
    """Found by an hour of faults: 172 jobs of such receivers waited for half an hour."""
    breaker, jobs, jitter = Breaker(), 200, Random(1)
    asking = [(0.0, number, 1) for number in range(jobs)]
    ended = [0.0] * jobs
    while asking:
        now, job, attempt = heappop(asking)
        if wait := breaker.admit(now):
            heappush(asking, (now + wait + jitter.uniform(0, 0.5), job, attempt))
        elif attempt == 1:
            breaker.record(now, now, Health.DOWN)
            heappush(asking, (now + 1.0, job, 2))
        else:
            breaker.record(now, now, Health.UP)
            ended[job] = now
    assert max(ended) < 600


@given(st.integers(1, 3600), st.integers(1, 50))
def test_a_destination_that_is_down_sees_little(seconds: int, per_second: int) -> None:
    """Whatever is retried, far less than a tenth of the offered load reaches it."""
    breaker, sent = Breaker(), 0
    for tick in range(seconds * per_second):
        now = tick / per_second
        if breaker.admit(now) == 0:
            sent += 1
            breaker.record(now, now, Health.DOWN)
    probes = 7 + seconds / MAX_OPEN_SECONDS
    assert sent <= FAILURES + probes


class Life(RuleBasedStateMachine):
    """Any order of calls, answers and pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.flying: list[float] = []

    @rule()
    def call(self) -> None:
        wait = self.breaker.admit(self.now)
        # A sum of floats may end one bit above its bound.
        assert 0 <= wait <= MAX_OPEN_SECONDS * (1 + 1e-9)
        if wait == 0:
            self.flying.append(self.now)

    @precondition(lambda self: self.flying)
    @rule(health=st.sampled_from(Health), which=st.integers(0, 99), busy=st.floats(0, 1e6))
    def answer(self, health: Health, which: int, busy: float) -> None:
        admitted_at = self.flying.pop(which % len(self.flying))
        self.breaker.record(admitted_at, self.now, health, busy)

    @rule(seconds=st.floats(0.001, 90))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def probes_are_counted(self) -> None:
        assert 0 <= self.breaker._probes <= max(self.breaker._allowance, RAMP)
        assert self.breaker._probes <= len(self.flying)

    def teardown(self) -> None:
        """However it went: once all calls have ended, a healthy destination is let in again."""
        for admitted_at in self.flying:
            self.breaker.record(admitted_at, self.now, Health.SILENT)
        self.now += MAX_OPEN_SECONDS + 1
        for _ in range(RAMP):
            assert self.breaker.admit(self.now) == 0
            self.breaker.record(self.now, self.now, Health.UP)
        assert self.breaker.closed


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_report_tells_of_an_open_breaker_only() -> None:
    breakers = Breakers()
    place = (1, "crm")
    for number in range(FAILURES):
        assert breakers.reports(0.0) == {}
        breakers.record(place, 0.0, 0.1 * number, Health.DOWN, 0.0, f"answer {number}")
    report = breakers.reports(0.8)[place]
    assert (report.calls, report.successes, report.recorded) == (FAILURES, 0, FAILURES)
    assert report.held_seconds == pytest.approx(0.9)
    assert report.p99_ms == 700
    assert report.answers[-1] == f"answer {FAILURES - 1}"
    breakers.forget(place)
    assert breakers.reports(0.8) == {}


def test_what_another_process_found_is_held_back_here_until_it_says_no_more() -> None:
    key, other = (1, "crm"), (1, "erp")
    here = Breakers()
    here.adopt({key: 10.0, other: 0.0}, now=0.0)
    assert (here.admit(key, 0.0), here.admit(other, 0.0)) == (10.0 + LEARN_SECONDS, 0.0)
    # It goes on probing, and tells so; nobody here needs to.
    here.adopt({key: 20.0}, now=10.0)
    assert here.admit(key, 14.0) > 0
    assert here.reports(14.0) == {}
    here.adopt({}, now=16.0)
    assert here.admit(key, 16.0) == 0.0


def test_hearsay_that_is_renewed_no_more_is_probed_by_one_call() -> None:
    key = (1, "crm")
    here = Breakers()
    here.adopt({key: 1.0}, now=0.0)
    here.adopt({key: -1.0}, now=2.0)
    after = 1.0 + LEARN_SECONDS
    assert here.admit(key, after) == 0.0
    assert here.admit(key, after) > 0.0
    here.record(key, after, after, Health.DOWN)
    assert key in here.reports(after)


def test_what_a_process_has_seen_itself_counts_more_than_what_others_say() -> None:
    key = (1, "crm")
    here = Breakers()
    for _ in range(FAILURES):
        here.record(key, 0.0, 0.0, Health.DOWN)
    held = here.admit(key, 0.0)
    here.adopt({key: 50.0}, now=0.0)
    assert here.admit(key, 0.0) == pytest.approx(held, abs=2 * LINE_SECONDS)
    here.adopt({}, now=0.5)
    assert here.admit(key, 0.5) > 0.0


@pytest.mark.parametrize("health", [Health.UP, Health.DOWN])
@pytest.mark.parametrize("failed_before", [True, False])
def test_what_others_say_is_not_told_again_as_something_found_here(
    health: Health,
    failed_before: bool,  # noqa: FBT001
) -> None:
    """Otherwise two processes go on telling each other of a trouble that is over."""
    key = (1, "crm")
    here = Breakers()
    if failed_before:
        here.record(key, 0.0, 0.0, Health.DOWN)
    here.adopt({key: 10.0}, now=1.0)
    # A call that was under way ends.
    here.record(key, 0.5, 2.0, health)
    assert here.reports(2.0) == {}
    here.adopt({}, now=3.0)
    assert here.admit(key, 3.0) == 0.0
