"""Settlement: due payments found and locked, their ends written as sets."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from postdate.account.store.account import AccountKey, key_of
from postdate.core.ids import bucket_of
from postdate.core.test_clock import own_lane
from postdate.database.connection.column import compact
from postdate.database.connection.query import Connection, fetch_one, query
from postdate.payment.spec.payment import OnBroken
from postdate.timer.timer import LANE_PAYMENT

DUE_ORIGIN: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""Seconds from here tell microseconds apart from 1964 to 2236; `payment_settle` adds them to it.

A float of 2^32 seconds and more, which those since 1970 are from 2106 on, does not.
"""

SettlementOrder = tuple[datetime, UUID]
"""A place in the one order of settling: the instant, then the payment's id."""


class Candidate(NamedTuple):
    """A due timer seen, not locked; candidates sort in the order of settling."""

    due_at: datetime
    subject: UUID
    bucket: int


class BucketLook(NamedTuple):
    """Which timers to read: of a bucket, from its low-water mark, overdue by some seconds."""

    bucket: int
    low: datetime
    grace: float


class LockedTimer(msgspec.Struct, frozen=True, gc=False):
    """A due timer that this transaction has locked; `at` is the database's time."""

    bucket: int
    tenant_id: int
    subject: UUID
    due_at: datetime
    token: int
    at: datetime


class PaymentTerms(msgspec.Struct, frozen=True, gc=False):
    """The terms of a payment."""

    from_account: str
    to_account: str
    amount: int
    hold: bool
    retry_until: datetime | None
    traceparent: str | None


class LockedPayment(LockedTimer, frozen=True, gc=False):
    """A due payment whose timer this transaction has locked, with its terms."""

    from_account: str
    to_account: str
    amount: int
    hold: bool
    retry_until: datetime | None
    traceparent: str | None


class TransferRow(NamedTuple):
    """A completed payment about to be written, and its transfer.

    The payment's id carries the payer's bucket, the transfer's id the payee's. Instants are given
    in seconds since `DUE_ORIGIN`: a datetime costs the driver three times as much.
    """

    tenant_id: int
    payment_id: UUID
    token: int
    due_seconds: float
    transfer_id: UUID
    amount: int
    from_account: str
    from_balance: int
    from_version: int
    to_account: str
    to_balance: int
    to_version: int


class SettlementBatch(msgspec.Struct, frozen=True):
    """What the rows of one batch share; the name is the caller's execution id, if given."""

    started_at: datetime
    execution_id: str | None = None
    actor: str | None = None


class FailedAttempt(NamedTuple):
    """An execution without a transfer: the reason, and when it is retried, if at all."""

    timer: LockedTimer
    code: str
    error: str
    retry_at: datetime | None = None


async def peek(
    connection: Connection,
    positions: Sequence[BucketLook],
    depth: int,
    limit: int,
    aside: Sequence[UUID] = (),
) -> tuple[datetime, list[Candidate]]:
    """Read the time and the first due timers among the first `depth` of each bucket.

    Those `aside` are left out.
    """
    columns = zip(*positions, strict=True)
    *rows, last = await connection.fetch(
        query("settlement_peek"), *map(list, columns), own_lane(LANE_PAYMENT), depth, limit, aside
    )
    return last["at"], [Candidate(*row[:3]) for row in rows]


async def lock(
    connection: Connection, keys: Iterable[tuple[int, UUID]]
) -> tuple[list[LockedPayment], list[LockedPayment]]:
    """Lock timers that are still due; skip the ones that another transaction has locked.

    Returns the payments that may be settled, and the payments whose tenant is halted.
    """
    ordered = sorted(keys)
    *rows, last = await connection.fetch(
        query("settlement_lock"),
        own_lane(LANE_PAYMENT),
        [k[0] for k in ordered],
        [k[1] for k in ordered],
    )
    at = last["at"]
    free = [_locked(row, at) for row in rows if not row["held"]]
    return free, [_locked(row, at) for row in rows if row["held"]]


def _locked(row: asyncpg.Record, at: datetime) -> LockedPayment:
    bucket, tenant_id, subject, due_at, token, *asked, _, _ = row
    return LockedPayment(bucket, tenant_id, subject, due_at, token, at, *asked)


async def first_due(
    connection: Connection, tried: Sequence[tuple[int, UUID]]
) -> dict[UUID, datetime]:
    """Find when payments that were tried before were due for the first time."""
    if not tried:
        return {}
    buckets, subjects = zip(*tried, strict=True)
    rows = await connection.fetch(query("settlement_first_due"), buckets, subjects)
    return {row[0]: row[1] for row in rows}


async def terms(connection: Connection, tenant_id: int, payment_id: UUID) -> PaymentTerms | None:
    """Load the terms of a payment."""
    return await fetch_one(
        connection, PaymentTerms, "settlement_terms", bucket_of(payment_id), tenant_id, payment_id
    )


async def earlier(
    connection: Connection,
    lows: Sequence[tuple[int, datetime]],
    until: SettlementOrder,
    ours: Sequence[UUID],
    accounts: Collection[AccountKey],
) -> dict[AccountKey, SettlementOrder]:
    """Find the first open payment before a place in the order that touches each account.

    Payments in our batch do not count. Almost always there is none, which is quick to check.
    """
    where = (*map(list, zip(*lows, strict=True)), own_lane(LANE_PAYMENT), *until, ours)
    tenants = sorted({key.tenant_id for key in accounts})
    if not await connection.fetchval(query("settlement_earlier"), *where, tenants):
        return {}
    asked = [key.tenant_id for key in accounts], [key.account_id for key in accounts]
    rows = await connection.fetch(query("settlement_earliest"), *where, *asked)
    return {key_of(row[0], row[1]): (row[2], row[3]) for row in rows}


async def delete_timers(connection: Connection, payment_ids: Sequence[UUID]) -> None:
    """Delete the timers of payments that complete; raise if one is missing."""
    if not payment_ids:
        return
    deleted = await connection.fetchval(query("settlement_delete_timers"), payment_ids)
    if deleted != len(payment_ids):
        raise RuntimeError(f"{len(payment_ids)} locked timers, but {deleted} deleted")


async def write_transfers(
    connection: Connection, rows: Sequence[TransferRow], execution: SettlementBatch
) -> None:
    """Write transfers and outcomes of completed payments; the outcome is the event."""
    if rows:
        tenants, ids, tokens, *columns = zip(*rows, strict=True)
        await connection.execute(
            query("settlement_complete"),
            compact(tenants),
            ids,
            compact(tokens),
            *columns,
            execution.started_at,
            execution.execution_id,
            execution.actor,
        )


async def write_failed(
    connection: Connection, endings: Sequence[FailedAttempt], execution: SettlementBatch
) -> None:
    """Write the outcomes of payments that failed permanently."""
    if endings:
        await connection.execute(query("settlement_failed"), *_columns(endings, execution))


async def write_attempts(
    connection: Connection, endings: Sequence[FailedAttempt], execution: SettlementBatch
) -> None:
    """Write the executions that did not end their payment."""
    if endings:
        retries = [e.retry_at for e in endings]
        columns = _columns(endings, execution)
        await connection.execute(query("settlement_attempt"), *columns, retries)


async def retry(connection: Connection, endings: Sequence[FailedAttempt]) -> None:
    """Move timers to their next try."""
    if endings:
        await connection.execute(
            query("settlement_retry"),
            [e.timer.bucket for e in endings],
            [e.timer.subject for e in endings],
            [e.retry_at for e in endings],
        )


async def park(connection: Connection, timer: LockedTimer) -> None:
    """Park a payment until a person decides."""
    await connection.execute(query("settlement_park"), timer.bucket, timer.subject)


async def delete(connection: Connection, timers: Sequence[LockedTimer]) -> None:
    """Delete the timers of ended payments; raise if one is missing."""
    if timers:
        done: str = await connection.execute(
            query("settlement_delete"), [t.bucket for t in timers], [t.subject for t in timers]
        )
        if done != f"DELETE {len(timers)}":
            raise RuntimeError(f"{len(timers)} locked timers, but {done}")


async def count_tries(connection: Connection, timer: LockedTimer, code: str) -> int:
    """Count the executions of a payment that broke with this code."""
    return await connection.fetchval(
        query("settlement_broken_count"), timer.bucket, timer.subject, code
    )


async def on_broken(connection: Connection, timer: LockedTimer) -> OnBroken | None:
    """Read the `on_broken` of a payment."""
    return await connection.fetchval(
        query("settlement_on_broken"), timer.bucket, timer.tenant_id, timer.subject
    )


def _columns(endings: Sequence[FailedAttempt], execution: SettlementBatch) -> list[object]:
    timers = [e.timer for e in endings]
    keys = zip(
        *((t.bucket, t.tenant_id, t.subject, t.token, t.due_at) for t in timers), strict=True
    )
    batch = execution.started_at, execution.execution_id
    return [*map(list, keys), *batch, [e.code for e in endings], [e.error for e in endings]]
