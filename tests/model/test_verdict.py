from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from postdate.core.setting.setting import Settings
from postdate.job.spec.job import JobPolicy
from postdate.job.spec.outcome import Throttled
from postdate.job.spec.retry import resolve
from postdate.job.spec.verdict import EXPIRED, LAST_CALL_SECONDS, End, Facts, Move, decide

DUE = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = resolve(JobPolicy(), Settings(), 1)


def held_back(wait: float, left: float | None, age: float = 0.0) -> End | Move:
    now = DUE + timedelta(seconds=age)
    facts = Facts(
        job_id=UUID(int=1),
        attempt=1,
        first_due_at=DUE,
        expires_at=None if left is None else now + timedelta(seconds=left),
        policy=POLICY,
    )
    verdict = decide(facts, Throttled(seconds=wait, reason="breaker_open"), now)
    assert isinstance(verdict, (End, Move))
    return verdict


def test_what_is_held_back_waits_as_long_as_asked() -> None:
    assert held_back(60.0, None) == Move(seconds=60.0)
    assert held_back(60.0, 60.5) == Move(seconds=60.0)


@pytest.mark.parametrize("wait", [30.0, 60.0, 3600.0])
def test_what_is_held_back_beyond_its_deadline_gets_a_last_call(wait: float) -> None:
    assert held_back(wait, 30.0) == Move(seconds=30.0 - LAST_CALL_SECONDS)
    old = held_back(wait, None, age=POLICY.max_age_seconds - 30.0)
    assert isinstance(old, Move)
    assert old.seconds == pytest.approx(30.0 - LAST_CALL_SECONDS)


def test_what_is_held_back_at_its_last_call_fails_and_says_why() -> None:
    verdict = held_back(5.0, LAST_CALL_SECONDS)
    assert isinstance(verdict, End)
    assert (verdict.status, verdict.code) == ("FAILED", EXPIRED)
    assert "breaker_open" in str(verdict.error)
