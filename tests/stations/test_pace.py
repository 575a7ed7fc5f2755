from postdate.worker.pace import FIRST, LEAST, MOST, TARGET_SECONDS, Pace


def _learn(pace: Pace, per_second: float, claims: int = 60) -> int:
    for _ in range(claims):
        pace.took(pace.size, pace.size / per_second)
    return pace.size


def test_a_claim_takes_about_as_long_whatever_the_machine() -> None:
    for per_second in (10_000, 20_000, 30_000):
        size = _learn(Pace(), per_second)
        assert abs(size / per_second - TARGET_SECONDS) < 0.001


def test_a_size_has_its_bounds() -> None:
    assert _learn(Pace(), 10**9) == MOST
    assert _learn(Pace(), 1) == LEAST
    assert _learn(Pace(most=10), 10**9) == 10
    assert _learn(Pace(most=10), 1) == 10


def test_a_claim_that_found_little_says_nothing() -> None:
    pace = Pace()
    pace.took(FIRST - 1, 10.0)
    pace.took(FIRST, 0.0)
    assert pace.size == FIRST


def test_one_slow_claim_does_not_spoil_the_next() -> None:
    pace = Pace()
    _learn(pace, 10**9)
    pace.took(MOST, 5.0)
    assert pace.size > MOST * 0.75
    assert _learn(pace, 10**9) == MOST
