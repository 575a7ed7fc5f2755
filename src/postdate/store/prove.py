"""Proofs over the whole ledger, in one snapshot."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from postdate.store.database import LONG_SECONDS, Connection, Database, lift_time_limits
from postdate.store.query import query

CHECKS: Final = (
    "transfer_sums_to_zero",
    "ledger_sums_to_zero",
    "versions_have_no_gaps",
    "balance_is_its_entries",
    "held_is_open_payments",
    "payment_is_open_or_ended",
    "timer_has_payment",
    "payment_moved_once",
    "events_are_legal",
)
"""Every proof, in the order in which they are made."""

BUCKET_CHECKS: Final = (
    "balance_is_last_entry",
    "held_is_open_payments",
    "payment_is_open_or_ended",
    "timer_has_payment",
)
"""Those that can be made for one bucket, for little enough to do it all day long."""

_QUERIES: Final = {
    "transfer_sums_to_zero": "prove_transfer_sums_to_zero",
    "ledger_sums_to_zero": "prove_ledger_sums_to_zero",
    "versions_have_no_gaps": "prove_versions_have_no_gaps",
    "balance_is_its_entries": "prove_balance_is_its_entries",
    "balance_is_last_entry": "prove_balance_is_last_entry",
    "held_is_open_payments": "prove_held_is_open_payments",
    "payment_is_open_or_ended": "prove_payment_is_open_or_ended",
    "timer_has_payment": "prove_timer_has_payment",
    "payment_moved_once": "prove_payment_moved_once",
    "events_are_legal": "prove_events_are_legal",
}


class Finding(msgspec.Struct, frozen=True):
    """Something that contradicts a proof."""

    check: str
    tenant_id: int
    subject: str
    detail: str


class Range(msgspec.Struct, frozen=True):
    """What to look at: a tenant, a bucket, how many findings; `floor` is where history begins."""

    tenant_id: int | None = None
    bucket: int | None = None
    most: int = 10
    floor: UUID = UUID(int=0)


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[Connection]:
    """Open one view of the whole database, which nothing that happens meanwhile changes."""
    async with database.connection() as connection:
        await connection.execute(query("prove_begin"))
        await lift_time_limits(connection)
        try:
            yield connection
        finally:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")


async def check(connection: Connection, name: str, where: Range) -> list[Finding]:
    """Make one proof and give what contradicts it."""
    asked = (where.tenant_id, where.bucket, where.most, where.floor)
    rows = await connection.fetch(query(_QUERIES[name]), *asked, timeout=LONG_SECONDS)
    return _findings(name, rows)


async def overdue(connection: Connection, where: Range, seconds: float) -> list[Finding]:
    """List the payments of a bucket that nobody settles though they are due for so long."""
    rows = await connection.fetch(
        query("prove_overdue"), where.tenant_id, where.bucket, where.most, seconds
    )
    return _findings("overdue", rows)


async def parked(connection: Connection, where: Range) -> list[Finding]:
    """List the payments of a bucket that wait for a person."""
    rows = await connection.fetch(query("prove_parked"), where.tenant_id, where.bucket, where.most)
    return _findings("dead_lettered", rows)


def _findings(name: str, rows: Sequence[asyncpg.Record]) -> list[Finding]:
    return [Finding(name, *row) for row in rows]
