"""Changes to open payments: their timer locked, moved, or ended."""

from datetime import datetime
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.test_clock import lane_purpose, own_lane
from postdate.database.connection.query import Connection, fetch_one, query
from postdate.payment.store.settlement import LockedTimer
from postdate.timer.timer import LANE_APPROVAL, LANES_OF_PAYMENTS


class OpenPayment(msgspec.Struct, frozen=True):
    """The locked timer of an open payment; a parked one has the instant it was due at."""

    timer: LockedTimer
    parked: bool
    unapproved: bool = False
    revision: int = 0
    """How often its instant was changed."""


class PaymentEnd(msgspec.Struct, frozen=True):
    """How a payment ended."""

    tenant_id: int
    attempt: int
    status: str
    transfer_id: UUID | None
    execution_id: str | None
    code: str | None
    error: str | None


async def lock(
    connection: Connection, payment_id: UUID, tenant_id: int | None
) -> OpenPayment | None:
    """Lock a payment's timer, waiting for whoever has it; None when it is no longer open."""
    row = await connection.fetchrow(
        query("payment_change_lock"),
        bucket_of(payment_id),
        payment_id,
        [own_lane(lane_id) for lane_id in LANES_OF_PAYMENTS],
        tenant_id,
    )
    if row is None:
        return None
    timer = LockedTimer(*row[:6])
    if row["parked"]:
        timer = msgspec.structs.replace(timer, due_at=row["ready_at"])
    waits = lane_purpose(row["lane_id"]) == LANE_APPROVAL
    return OpenPayment(timer, row["parked"], waits, row["revision"])


async def move(connection: Connection, timer: LockedTimer, due_at: datetime) -> None:
    """Move a locked timer to another instant."""
    await connection.execute(query("payment_change_move"), timer.bucket, timer.subject, due_at)


async def write_end(
    connection: Connection, timer: LockedTimer, status: str, code: str | None, error: str | None
) -> None:
    """Write the outcome of a payment that was never executed."""
    await connection.execute(
        query("payment_change_end"),
        timer.bucket,
        timer.tenant_id,
        timer.subject,
        timer.token,
        timer.due_at,
        status,
        code,
        error,
    )


async def find_end(connection: Connection, payment_id: UUID) -> PaymentEnd | None:
    """Read how a payment or job ended."""
    return await fetch_one(
        connection, PaymentEnd, "payment_change_outcome", bucket_of(payment_id), payment_id
    )
