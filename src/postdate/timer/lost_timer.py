"""Lost timers: payments and jobs with neither timer nor outcome, and how they come back."""

from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from postdate.core.ids import BUCKETS, bucket_of, floor_id, unix_ms_of
from postdate.core.test_clock import own_lane
from postdate.database.connection.query import Connection, fetch_all, query
from postdate.timer.timer import LANE_APPROVAL, LANE_PAYMENT
from postdate.words.error import Code, RefusedError, refuse

Noun = Literal["payment", "job"]

CLOCK_MS: Final = 86_400_000
"""How far the clock of who made an id may be ahead of the clock of who ended its subject."""


class LostTimer(msgspec.Struct, frozen=True):
    """A payment or job that will never be settled or run."""

    tenant_id: int
    subject: UUID
    noun: Noun
    test: bool = False


async def page(
    connection: Connection, bucket: int, tenant_id: int | None, floor: UUID, limit: int
) -> list[LostTimer]:
    """List the payments and jobs of one bucket that have lost their timers."""
    asked = (bucket, tenant_id, floor, limit)
    return await fetch_all(connection, LostTimer, "lost_timer_list", *asked)


async def put_back(connection: Connection, lost: LostTimer) -> datetime | None:
    """Put a timer back and return its instant, None if it waits for a person.

    The new row is the lock. Only what is read afterwards shows whether the subject has ended.
    """
    key = bucket_of(lost.subject), lost.tenant_id, lost.subject
    if lost.noun == "payment":
        lanes = own_lane(LANE_PAYMENT), own_lane(LANE_APPROVAL)
        rows = await connection.fetch(query("lost_timer_put_back_payment"), *key, *lanes)
    else:
        rows = await connection.fetch(query("lost_timer_put_back_job"), *key)
    if not rows:
        raise _is_back(lost)
    if proof := await _ended(connection, lost):
        detail = f"The {lost.noun} {lost.subject} has ended ({proof}), and its outcome was lost."
        raise refuse(Code.CONFLICT, detail)
    due_at: datetime | None = rows[0]["due_at"]
    return due_at


async def refuse_found(connection: Connection, lost: LostTimer) -> None:
    """Refuse a request for a timer that was put back, or whose subject has ended, meanwhile.

    The request of a second person is used up by then: another one would wait for a later loss.
    """
    bucket = bucket_of(lost.subject)
    if await connection.fetchval(query("lost_timer_has_end"), bucket, lost.subject):
        raise refuse(Code.CONFLICT, f"The {lost.noun} {lost.subject} has ended meanwhile.")
    if await connection.fetchval(query("lost_timer_has_timer"), bucket, lost.subject):
        raise _is_back(lost)


def _is_back(lost: LostTimer) -> RefusedError:
    detail = (
        f"The {lost.noun} {lost.subject} was put back meanwhile, or its timer lies where none "
        "of its kind belongs: `postdate prove` says which."
    )
    return refuse(Code.CONFLICT, detail)


async def _ended(connection: Connection, lost: LostTimer) -> str | None:
    """Return what shows that a payment or job has ended, if anything does."""
    about = lost.tenant_id, lost.subject, floor_id(max(unix_ms_of(lost.subject) - CLOCK_MS, 0))
    proof: str | None = await connection.fetchval(
        query("lost_timer_ended"), bucket_of(lost.subject), *about
    )
    if proof is None:
        chain = lost.tenant_id % BUCKETS
        proof = await connection.fetchval(query("lost_timer_sealed"), chain, *about)
    return proof


async def tenant_of(connection: Connection, payment_id: UUID) -> int | None:
    """Find whose payment one is that has neither timer nor outcome."""
    return await connection.fetchval(query("lost_timer_tenant"), bucket_of(payment_id), payment_id)


async def requested(
    connection: Connection, lost: LostTimer, seconds: float
) -> tuple[str, dict[str, Any]] | None:
    """Return who requested that a payment is put back, and what was recorded then."""
    key = bucket_of(lost.subject), lost.tenant_id, lost.subject
    row = await connection.fetchrow(query("lost_timer_requested"), *key, seconds)
    return (row[0], msgspec.json.decode(row[1])) if row else None


def is_lost(lost: LostTimer) -> RefusedError:
    """Make the refusal for a call that needs the timer."""
    detail = (
        f"The {lost.noun} {lost.subject} has lost its timer. Cancel it, or have the operator put "
        "it back with `postdate reconcile --repair`."
    )
    return refuse(Code.CONFLICT, detail, current_status="PENDING")
