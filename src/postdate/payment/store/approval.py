"""Approvals of large payments by a second person."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.test_clock import current_tenant, own_lane
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.event.store import event
from postdate.event.store.event import NewEvent
from postdate.timer.timer import LANE_APPROVAL, LANE_PAYMENT

ApprovalDecision = Literal["approved", "refused", "expired", "withdrawn"]


class ApprovalRequest(NamedTuple):
    """A payment that needs approval, and for how long it may be given."""

    bucket: int
    tenant_id: int
    payment_id: UUID
    actor: str
    persons: Collection[str]
    schedule_id: UUID | None
    schedule_version: int | None
    seconds: float


class Decider(NamedTuple):
    """Who decides: the key, and the people who may be behind it."""

    key_id: str
    persons: Collection[str] = ()


class Approval(msgspec.Struct, frozen=True):
    """Who requested approval, and the decision if there is one."""

    requested_by: str
    requested_at: datetime
    expires_at: datetime
    decision: ApprovalDecision | None
    decided_by: str | None
    decided_at: datetime | None
    note: str | None


async def request(connection: Connection, requests: Sequence[ApprovalRequest]) -> None:
    """Make new payments wait for approval by a second person."""
    if requests:
        columns = [list(column) for column in zip(*requests, strict=True)]
        columns[4] = [msgspec.json.encode(sorted(persons)).decode() for persons in columns[4]]
        await connection.execute(query("approval_request"), *columns)
        await connection.execute(
            query("approval_set_aside"), columns[0], columns[2], own_lane(LANE_APPROVAL)
        )
        kind = "payment.approval_requested"
        events = [NewEvent(one.tenant_id, one.payment_id, kind, one.actor) for one in requests]
        await event.insert(connection, events)


async def requested(connection: Connection, payments: Sequence[tuple[int, UUID]]) -> set[UUID]:
    """Return those of the payments, by tenant and id, that needed approval when accepted."""
    if not payments:
        return set()
    keys = [(bucket_of(payment_id), tenant_id, payment_id) for tenant_id, payment_id in payments]
    rows = await connection.fetch(query("approval_requested"), *zip(*keys, strict=True))
    return {row[0] for row in rows}


async def find(
    connection: Connection, tenant_id: int, payment_id: UUID
) -> tuple[Approval, frozenset[str]] | None:
    """Read the approval of a payment and its requesters; None if it needs none."""
    key = bucket_of(payment_id), tenant_id, payment_id
    row = await connection.fetchrow(query("approval_find"), *key)
    return (Approval(*row[:-1]), frozenset(row[-1])) if row else None


async def decide(
    connection: Connection,
    tenant_id: int,
    payment_id: UUID,
    decision: ApprovalDecision,
    decided_by: Decider,
    note: str | None = None,
) -> Approval | None:
    """Record a decision; return None if there is nothing left to decide."""
    key = bucket_of(payment_id), tenant_id, payment_id
    return await fetch_one(
        connection,
        Approval,
        "approval_decide",
        *key,
        decision,
        decided_by.key_id,
        note,
        sorted(decided_by.persons) or None,
    )


async def void(
    connection: Connection, tenant_id: int, payment_id: UUID, asks: Decider, seconds: float
) -> bool:
    """Void the approval of a payment whose terms changed; return False if it needs no approval."""
    key = bucket_of(payment_id), tenant_id, payment_id
    row = await connection.fetchrow(
        query("approval_void"), *key, asks.key_id, sorted(asks.persons), seconds
    )
    if row is None:
        return False
    await connection.execute(
        query("approval_set_aside"), [key[0]], [payment_id], own_lane(LANE_APPROVAL)
    )
    return True


async def admit(connection: Connection, payment_id: UUID) -> None:
    """Move an approved payment back to the lane of payments, due at its instant."""
    await connection.execute(
        query("approval_open"), bucket_of(payment_id), payment_id, own_lane(LANE_PAYMENT)
    )


class Expired(NamedTuple):
    """A payment whose approval has expired."""

    tenant_id: int
    payment_id: UUID
    from_account: str


async def expired(
    connection: Reader,
    limit: int,
    held: Collection[UUID] = (),
    accounts: Collection[tuple[int, str]] = (),
) -> list[Expired]:
    """List expired approvals, without payments and accounts that other transactions have locked."""
    tenants, names = [each[0] for each in accounts], [each[1] for each in accounts]
    return await fetch_all(
        connection, Expired, "approval_expired", limit, list(held), tenants, names, current_tenant()
    )


async def next_end(connection: Connection, tenant_id: int) -> datetime | None:
    """Return when the next approval of a tenant expires; None if none is open."""
    return await connection.fetchval(query("approval_next_end"), tenant_id)
