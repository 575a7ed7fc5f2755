from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as some

from postdate.core.ids import new_id
from postdate.core.setting.setting import Settings, Stored
from postdate.job.spec.job import JobPolicy, Retry, decode_policy, encode_policy, spread_offset
from postdate.job.spec.retry import Policy, next_attempt_at, resolve, wait_seconds

DUE = datetime(2026, 3, 1, tzinfo=UTC)
JOB = UUID("0195a000-0000-7005-8000-0000000000aa")
POLICY = resolve(JobPolicy(retry=Retry(jitter=0.0, initial_seconds=1.0)), Settings(), 1)


def test_absent_members_follow_the_tenants_settings() -> None:
    stored = Stored(7, "job.max_attempts", 3)
    settings = Settings({(7, "job.max_attempts"): stored})
    given = JobPolicy(retry=Retry(backoff="linear"), timeout_seconds=5)
    policy = resolve(given, settings, 7)
    assert (policy.max_attempts, policy.backoff, policy.timeout_seconds) == (3, "linear", 5)
    assert resolve(given, settings, 8).max_attempts == 10


def test_the_wait_grows_as_the_policy_says() -> None:
    def waits(**changes: object) -> list[float]:
        policy = msgspec.structs.replace(POLICY, **changes)
        return [wait_seconds(policy, attempt, JOB) for attempt in (1, 2, 3, 99)]

    assert waits() == [1, 2, 4, 3600]
    assert waits(backoff="linear") == [1, 2, 3, 99]
    assert waits(backoff="fixed") == [1, 1, 1, 1]


@given(some.integers(1, 60), some.floats(0, 1), some.integers(0, 63))
def test_jitter_stays_within_its_part_and_repeats(attempt: int, jitter: float, at: int) -> None:
    policy = msgspec.structs.replace(POLICY, jitter=jitter)
    job_id = new_id(at, 1_700_000_000_000)
    wait, plain = wait_seconds(policy, attempt, job_id), wait_seconds(POLICY, attempt, job_id)
    assert plain * (1 - jitter) - 1e-9 <= wait <= min(plain * (1 + jitter), policy.max_seconds)
    assert wait == wait_seconds(policy, attempt, job_id)


def following(policy: Policy = POLICY, attempt: int = 1, **more: object) -> datetime | None:
    finished = DUE + timedelta(seconds=10)
    return next_attempt_at(
        policy,
        job_id=JOB,
        attempt=attempt,
        first_due_at=DUE,
        finished_at=finished,
        **more,  # type: ignore[arg-type]
    )


def test_the_next_attempt_ends_with_attempts_age_or_expiry() -> None:
    assert following() == DUE + timedelta(seconds=11)
    assert following(retry_after_seconds=60.0) == DUE + timedelta(seconds=70)
    assert following(retry_after_seconds=0.1) == DUE + timedelta(seconds=11)
    assert following(attempt=10) is None
    assert following(msgspec.structs.replace(POLICY, max_age_seconds=10.5)) is None
    assert following(expires_at=DUE + timedelta(seconds=11)) is None
    assert following(expires_at=DUE + timedelta(seconds=12)) == DUE + timedelta(seconds=11)


def test_a_spread_is_even_and_fixed() -> None:
    offsets = [spread_offset(new_id(3, 1_700_000_000_000), 100) for _ in range(2000)]
    assert min(offsets) >= 0
    assert max(offsets) < 100
    assert 45 < sum(offsets) / len(offsets) < 55
    assert spread_offset(JOB, 100) == spread_offset(JOB, 100)


def test_a_policy_is_stored_as_given() -> None:
    given = JobPolicy(retry=Retry(max_attempts=3), timeout_seconds=2.5)
    assert encode_policy(given) == '{"retry":{"max_attempts":3},"timeout_seconds":2.5}'
    assert decode_policy(encode_policy(given)) == given
    assert encode_policy(JobPolicy()) is None
