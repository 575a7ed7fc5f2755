"""Prove the ledger from its entries, and reconcile it bucket by bucket: report, never repair."""

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from postdate.account.store.repair import RepairRow
from postdate.core.ids import BUCKETS
from postdate.database.connection.database import Connection, Database
from postdate.monitor.store import history as history_store
from postdate.proof import prove as store
from postdate.proof.prove import LedgerFinding, Range
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer

OVERDUE_SECONDS: Final = 60.0
"""How late a payment must be before it counts as forgotten."""


MAX_LOST: Final = 1000
"""How many lost timers are put back in one go."""


class Proof(msgspec.Struct, frozen=True):
    """What was proved, what contradicts it, and which accounts a repair corrected."""

    proved: list[str]
    findings: list[LedgerFinding]
    repairs: list[RepairRow] = []


StepDone = Callable[[str], None]
"""Called with the name of each part that is done."""


async def attached_range(
    connection: Connection, tenant_id: int | None = None, buckets: Sequence[int] | None = None
) -> Range:
    """Return the range of everything that is not detached."""
    return Range(
        tenant_id,
        buckets,
        floor=await history_store.floor(connection),
        event_floor=await history_store.floor(connection, history_store.EVENT_TABLES),
    )


async def prove(
    database: Database, tenant_id: int | None = None, step: StepDone = lambda _: None
) -> Proof:
    """Run every proof over one snapshot."""
    found: dict[str, list[LedgerFinding]] = {}
    async with store.snapshot(database) as connection:
        where = await attached_range(connection, tenant_id)
        for name in store.CHECKS:
            found[name] = await store.check(connection, name, where)
            step(name)
    return Proof(
        [name for name, findings in found.items() if not findings],
        [finding for findings in found.values() for finding in findings],
    )


async def reconcile(
    database: Database, bucket: int, tenant_id: int | None = None, since: UUID | None = None
) -> list[LedgerFinding]:
    """Find inconsistencies in one bucket; with `since` only among newer payments."""
    async with store.snapshot(database) as connection:
        where = await attached_range(connection, tenant_id, [bucket])
        newer = msgspec.structs.replace(where, floor=max(where.floor, since or where.floor))
        found = await store.overdue(connection, where, OVERDUE_SECONDS)
        found += await store.parked(connection, where)
        for name in store.BUCKET_CHECKS:
            only = newer if name.endswith("_is_open_or_ended") else where
            found += await store.check(connection, name, only)
    return found


async def lost_timers(
    database: Database, tenant_id: int | None = None, limit: int = MAX_LOST
) -> list[LostTimer]:
    """List payments and jobs that have neither timer nor outcome, the first ones of many."""
    found: list[LostTimer] = []
    async with store.snapshot(database) as connection:
        floor = (await attached_range(connection, tenant_id)).floor
        for bucket in range(BUCKETS):
            if len(found) < limit:
                left = limit - len(found)
                found += await lost_timer.page(connection, bucket, tenant_id, floor, left)
    return found


async def reconcile_all(
    database: Database, tenant_id: int | None = None, step: StepDone = lambda _: None
) -> list[LedgerFinding]:
    """Reconcile every bucket."""
    found: list[LedgerFinding] = []
    for bucket in range(BUCKETS):
        found += await reconcile(database, bucket, tenant_id)
        step("")
    return found
