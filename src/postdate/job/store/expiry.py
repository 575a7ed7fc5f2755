"""End due jobs that are past `expires_at` or `max_age_seconds`, in bounded batches."""

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from postdate.database.connection.database import Database
from postdate.database.connection.query import fetch_one
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.verdict import End, Move
from postdate.job.store import execution
from postdate.job.store.execution import HeldLease
from postdate.lane.store.lane import Lane

MAX_LOOK: Final = 500
"""Maximum number of due timers that one statement reads."""

LEASE_SECONDS: Final = 30.0
NOT_EXPIRED: Final = Move(seconds=0.0)


class ExpiryLook(NamedTuple):
    """One statement's result: the expired jobs, how many timers it read, and the last instant."""

    expired: list[UUID]
    looked: int
    last: datetime | None


class ExpiryStep(NamedTuple):
    """What one step ended, and from which instant to go on; None at the end of the due timers."""

    ended: list[tuple[HeldLease, End]]
    after: datetime | None


async def end_expired(
    database: Database,
    lane: Lane,
    bucket: int,
    policies: RetryPolicies,
    holder: UUID,
    low: datetime,
) -> ExpiryStep:
    """End the expired jobs among the first due timers of a bucket's lane, from an instant on."""
    max_age = policies.policy_of(None, lane.tenant_id).max_age_seconds
    asked = (bucket, lane.lane_id, lane.tenant_id, low, MAX_LOOK, max_age)
    async with database.connection() as connection:
        look = await fetch_one(connection, ExpiryLook, "expiry_look", *asked)
    if look is None or not look.looked:
        return ExpiryStep([], None)
    after = look.last if look.looked == MAX_LOOK else None
    if not look.expired:
        return ExpiryStep([], after)
    async with database.near.write("job.expire") as connection:
        taken = await execution.take(
            connection,
            lane,
            bucket,
            policies,
            only=look.expired,
            lease_seconds=LEASE_SECONDS,
            claimed_by=holder,
            opened=False,
        )
    verdicts = [(each.held, each.verdict or NOT_EXPIRED) for each in taken]
    done = (await execution.record(database, verdicts)).done
    ended = [
        (held, verdict)
        for held, verdict in verdicts
        if isinstance(verdict, End) and held.job_id in done
    ]
    return ExpiryStep(ended, after)
