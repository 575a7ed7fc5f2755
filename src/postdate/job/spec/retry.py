"""When to try again: one pure function, the same for every node and every reader."""

from datetime import datetime, timedelta
from typing import Final, assert_never
from uuid import UUID

import msgspec

from postdate.core.setting.setting import Settings
from postdate.job.spec.job import (
    BackoffCurve,
    JobPolicy,
    OnUnknown,
    Retry,
    decode_policy,
    stable_fraction,
)

_MAX_DOUBLINGS: Final = 40
"""Further doublings of any first wait are beyond the longest one."""

_MAX_KNOWN: Final = 10_000

_NOTHING: Final = Retry()


class Policy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The effective policy of a job: its own values, completed by its tenant's settings."""

    max_attempts: int
    backoff: BackoffCurve
    initial_seconds: float
    max_seconds: float
    jitter: float
    max_age_seconds: float
    on_unknown: OnUnknown
    timeout_seconds: float


def resolve(given: JobPolicy, settings: Settings, tenant_id: int) -> Policy:
    """Complete what a job says with what its tenant has set."""
    retry = given.retry or _NOTHING

    def value(name: str) -> int | float | bool | str:
        own = getattr(given if name == "timeout_seconds" else retry, name)
        return settings.get(f"job.{name}", tenant_id) if own is None else own

    return msgspec.convert({name: value(name) for name in Policy.__struct_fields__}, Policy)


class RetryPolicies:
    """Completed policies, remembered until a setting changes: most jobs share a few."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._version = settings.version
        self._known: dict[tuple[int, str | None], Policy] = {}

    def policy_of(self, policy_json: str | None, tenant_id: int) -> Policy:
        """Return the policy of a job from its stored text."""
        if self._version != self.settings.version or len(self._known) > _MAX_KNOWN:
            self._known.clear()
            self._version = self.settings.version
        found = self._known.get((tenant_id, policy_json))
        if found is None:
            found = resolve(decode_policy(policy_json), self.settings, tenant_id)
            self._known[tenant_id, policy_json] = found
        return found


def wait_seconds(policy: Policy, attempt: int, job_id: UUID) -> float:
    """Return how long to wait after this many attempts; the jitter is the same wherever asked."""
    first = policy.initial_seconds
    match policy.backoff:
        case "exponential":
            wait = first * 2 ** min(attempt - 1, _MAX_DOUBLINGS)
        case "linear":
            wait = first * attempt
        case "fixed":
            wait = first
        case other:
            assert_never(other)
    wait = min(wait, policy.max_seconds)
    jittered: float = wait * (1 + policy.jitter * (2 * stable_fraction(job_id, attempt) - 1))
    return min(jittered, policy.max_seconds)


def next_attempt_at(
    policy: Policy,
    *,
    job_id: UUID,
    attempt: int,
    first_due_at: datetime,
    finished_at: datetime,
    expires_at: datetime | None = None,
    retry_after_seconds: float | None = None,
) -> datetime | None:
    """Return the instant of the next attempt, or None when this one was the last.

    `attempt` is the number of those made. Its age counts from the first due instant, and
    `retry_after_seconds`, asked for by the destination, only ever makes the wait longer.
    """
    if attempt >= policy.max_attempts:
        return None
    wait = max(wait_seconds(policy, attempt, job_id), retry_after_seconds or 0.0)
    at = finished_at + timedelta(seconds=wait)
    if at > first_due_at + timedelta(seconds=policy.max_age_seconds):
        return None
    return None if expires_at is not None and at >= expires_at else at
