"""Leases: claimed timers, and what their holders may do with them."""

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from postdate.database.connection.column import Columns, call
from postdate.database.connection.query import Connection, fetch_all, fetch_one, query
from postdate.lane.store.lane import Lane

TOKEN_BITS: Final = 12
"""The random part of a token; see claim_token in the schema."""


class ClaimedLease(NamedTuple):
    """A lease just taken."""

    subject: UUID
    token: int
    ready_at: datetime


class TakenJob(NamedTuple):
    """A job just claimed. Without a destination its description is gone."""

    subject: UUID
    token: int
    attempt: int
    revision: int
    ready_at: datetime
    late_seconds: float
    lost_at: datetime | None
    lost_by: UUID | None
    lost_ready_at: datetime | None
    # None when it is ready_at: the job was never put off.
    first_due_at: datetime | None
    expires_at: datetime | None
    destination: str | None
    policy: str | None
    payload: bytes | None
    content_type: str | None
    payload_ref: str | None
    metadata: str | None
    schedule_id: UUID | None
    scheduled_for: datetime | None
    origin_id: UUID | None
    traceparent: str | None
    # Whether it was claimed before: only then can it have progress.
    again: bool = False


_taken: Final[Callable[[Iterable[Any]], TakenJob]] = partial(tuple.__new__, TakenJob)
"""`TakenJob._make`, at half its cost: every job passes here."""


class FoundLease(NamedTuple):
    """A lease as its holder's report finds it."""

    subject: UUID
    tenant_id: int
    lane_id: int
    token: int
    attempt: int
    revision: int
    claimed_at: datetime
    key_id: int | None = None


class ReportedEnd(NamedTuple):
    """How a job ended, and by which token its worker reported it; None while it has not."""

    token: int | None
    status: str | None


class Endings(NamedTuple):
    """The ends of leases of one bucket and of their matters, column by column, by subject."""

    subjects: Sequence[UUID]
    tokens: Sequence[int]
    statuses: Sequence[str]
    http_statuses: Sequence[int | None]
    codes: Sequence[str | None]
    errors: Sequence[str | None]
    responses: Sequence[bytes | None]
    # True where nothing ran: no attempt is counted, and none is listed. None is the rule.
    untried: Sequence[bool | None]
    # True where the attempt had no clear answer. None is the rule.
    unknown: Sequence[bool | None]


class LeaseMove(NamedTuple):
    """The end of a lease whose matter goes on: after some seconds, or (None) by a person."""

    subject: UUID
    token: int
    seconds: float | None
    # Whether an attempt was made: it is counted.
    tried: bool = False


class MovedTimer(NamedTuple):
    """What a moved timer was: enough to write the attempt down."""

    subject: UUID
    tenant_id: int
    retry_at: datetime | None
    ready_at: datetime
    claimed_at: datetime
    claimed_by: UUID | None


class Attempt(NamedTuple):
    """An execution that did not end the matter."""

    tenant_id: int
    subject: UUID
    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    retry_at: datetime | None
    http_status: int | None
    code: str
    error: str | None
    response: bytes | None
    node_id: UUID | None


ENDINGS: Final = Columns("lease_endings", Endings._fields, {"tokens", "statuses"}, row=None)
ATTEMPTS: Final = Columns("attempt_columns", Attempt._fields, row=tuple)
_END: Final = call("lease_end", "bucket", ENDINGS, "actor", "reported")
_ATTEMPT: Final = call("lease_attempt", "bucket", ATTEMPTS)


async def claim(
    connection: Connection,
    position: tuple[int, int],
    low: datetime,
    limit: int,
    lease_seconds: float,
    claimed_by: UUID,
) -> list[ClaimedLease]:
    """Take up to `limit` due timers of one (bucket, lane), none of them below the mark."""
    return await fetch_all(
        connection,
        ClaimedLease,
        "lease_claim",
        *position,
        low,
        limit,
        lease_seconds,
        claimed_by,
        _random_bits(),
    )


async def take(  # noqa: PLR0913 - what to claim, for whom and how long, by name
    connection: Connection,
    bucket: int,
    lane: Lane,
    *,
    low: datetime | None = None,
    limit: int = 0,
    lease_seconds: float,
    claimed_by: UUID,
    only: Sequence[UUID] | None = None,
) -> list[TakenJob]:
    """Claim as `claim` does, in a tenant's lane, and load the jobs; or claim these alone."""
    lease = lease_seconds, claimed_by, lane.tenant_id, _random_bits()
    where = bucket, lane.lane_id
    if only is None:
        keyed = lane.keyed and not lane.test
        rows = await connection.fetch(query("lease_take"), *where, low, limit, *lease, keyed)
    else:
        rows = await connection.fetch(query("lease_take_these"), *where, only, len(only), *lease)
    return list(map(_taken, rows))


def _random_bits() -> int:
    """Draw what tells the tokens of two claims in one millisecond apart."""
    return random.getrandbits(TOKEN_BITS)


async def record_lost(
    connection: Connection, bucket: int, tenant_id: int, claims: Sequence[TakenJob]
) -> None:
    """Write down the leases that ran out before these claims."""
    lost = [
        (c.subject, c.attempt - 1, c.lost_ready_at or c.ready_at, c.lost_at, c.ready_at, c.lost_by)
        for c in claims
        if c.lost_at is not None
    ]
    if lost:
        columns = zip(*lost, strict=True)
        await connection.execute(query("lease_record_lost"), bucket, tenant_id, *columns)


async def find(
    connection: Connection, bucket: int, subjects: Sequence[UUID]
) -> dict[UUID, FoundLease]:
    """Find the leases of these jobs, of any holder."""
    rows = await connection.fetch(query("lease_find"), bucket, subjects)
    return {row[0]: FoundLease(*row) for row in rows}


async def find_end(
    connection: Connection, bucket: int, tenant_id: int, subject: UUID
) -> ReportedEnd | None:
    """Return how a tenant's job ended; None if there is no such job."""
    return await fetch_one(connection, ReportedEnd, "lease_find_end", bucket, tenant_id, subject)


async def lock(connection: Connection, bucket: int, subjects: Sequence[UUID]) -> set[UUID]:
    """Lock the free timers until the commit; return the ones that are locked elsewhere."""
    rows = await connection.fetch(query("lease_lock"), bucket, subjects)
    return {row[0] for row in rows}


async def renew(
    connection: Connection, bucket: int, held: Sequence[tuple[UUID, int, float]]
) -> dict[UUID, datetime | None]:
    """Renew leases for some seconds; return the new ends of those still held.

    None stands for a lease that could not be renewed now: another transaction has locked its timer.
    """
    rows = await connection.fetch(query("lease_renew"), bucket, *zip(*held, strict=True))
    return {row[0]: row[1] for row in rows}


async def wait(connection: Connection, bucket: int, job_id: UUID) -> None:
    """Wait until another transaction lets go of the timer of a job; it is locked then."""
    await connection.execute(query("lease_wait"), bucket, job_id)


async def end(
    connection: Connection, bucket: int, endings: Endings, actor: str, *, reported: bool = False
) -> Sequence[UUID]:
    """End leases with their outcomes, which are events; return those whose token still held.

    What a worker has reported keeps its token: the report may come again.
    """
    row = await connection.fetchrow(_END, bucket, *ENDINGS.arrays(endings), actor, reported)
    return endings.subjects if row is None or row[0] is None else row[0]


async def move(connection: Connection, bucket: int, moves: Sequence[LeaseMove]) -> list[MovedTimer]:
    """End leases whose matter goes on; return those whose token still held."""
    columns = zip(*sorted(moves), strict=True)
    return await fetch_all(connection, MovedTimer, "lease_move", bucket, *columns)


async def attempt(connection: Connection, bucket: int, tried: Sequence[Attempt]) -> None:
    """Write executions down."""
    if tried:
        await connection.execute(_ATTEMPT, bucket, *ATTEMPTS.arrays(tried))
