"""Permits in a simulation of workers: the statements of `lane/store/permit.sql`, on slots."""

import asyncio
from uuid import UUID

from postdate.core.limit import Limit
from postdate.lane.store.permit import Grant
from sim.rows import Transaction


async def acquire(
    transaction: Transaction,
    limit: Limit,
    holder: UUID,
    held: int,
    wanted: int,
    seconds: float,
    **_: float,
) -> Grant:
    """Stand for the statements of `permit.acquire`."""
    await transaction.database.step("permit")
    world, now = transaction.database.world, asyncio.get_running_loop().time()
    others = sum(
        slots
        for (scope, who), (slots, until) in world.slots.items()
        if scope == limit.scope and who != holder and until > now
    )
    starts = max(0, min(wanted, (limit.max_running or wanted) - others - held))
    _put(transaction, limit.scope, holder, held + starts, seconds)
    return Grant(starts)


async def keep(
    transaction: Transaction, scope: str, holder: UUID, slots: int, seconds: float
) -> None:
    """Stand for permit_put and permit_drop."""
    await transaction.database.step("keep")
    _put(transaction, scope, holder, slots, seconds)


def _put(transaction: Transaction, scope: str, holder: UUID, slots: int, seconds: float) -> None:
    world = transaction.database.world
    transaction.slots.append((scope, holder, world.slots.get((scope, holder))))
    until = asyncio.get_running_loop().time() + seconds
    world.put_slots(scope, holder, (slots, until) if slots else None)
