from postdate.worker.claim_size import FIRST_JOBS, MAX_JOBS, MIN_JOBS, TARGET_SECONDS, ClaimSize


def _learn(pace: ClaimSize, per_second: float, claims: int = 60) -> int:
    for _ in range(claims):
        pace.learn(pace.size, pace.size / per_second)
    return pace.size


def test_a_claim_takes_about_as_long_whatever_the_machine() -> None:
    for per_second in (10_000, 20_000, 30_000):
        size = _learn(ClaimSize(), per_second)
        assert abs(size / per_second - TARGET_SECONDS) < 0.001


def test_a_size_has_its_bounds() -> None:
    assert _learn(ClaimSize(), 10**9) == MAX_JOBS
    assert _learn(ClaimSize(), 1) == MIN_JOBS
    assert _learn(ClaimSize(max_size=10), 10**9) == 10
    assert _learn(ClaimSize(max_size=10), 1) == 10


def test_a_claim_that_found_little_says_nothing() -> None:
    pace = ClaimSize()
    pace.learn(FIRST_JOBS - 1, 10.0)
    pace.learn(FIRST_JOBS, 0.0)
    assert pace.size == FIRST_JOBS


def test_one_slow_claim_does_not_spoil_the_next() -> None:
    pace = ClaimSize()
    _learn(pace, 10**9)
    pace.learn(MAX_JOBS, 5.0)
    assert pace.size > MAX_JOBS * 0.75
    assert _learn(pace, 10**9) == MAX_JOBS
