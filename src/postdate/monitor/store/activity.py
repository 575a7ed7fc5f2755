"""Activity: counted in slots of ten seconds, for each tenant, over all nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from postdate.database.connection.query import Connection, fetch_all, query
from postdate.monitor.spec.activity import COUNTED, KEEP_SECONDS, SLOT_SECONDS, Late

Counted = tuple[int, int, int]
"""A tenant, the number of a slot since the epoch, and the place in a row."""

_WIDTH: Final = len(COUNTED)


class ActivitySlot(msgspec.Struct, frozen=True):
    """What happened in ten seconds."""

    slot: datetime
    jobs_accepted: int
    payments_accepted: int
    jobs_executed: int
    payments_executed: int
    jobs_failed: int
    payments_failed: int
    jobs_late: list[int]
    payments_late: list[int]


async def count(connection: Connection, counted: Mapping[Counted, int]) -> None:
    """Add what was counted, inside the transaction that sealed it."""
    rows: dict[tuple[int, int], list[int]] = {}
    for (tenant_id, slot, column), many in counted.items():
        rows.setdefault((tenant_id, slot), [0] * _WIDTH)[column] += many
    if not rows:
        return
    await connection.execute(
        query("activity_count"),
        [tenant_id for tenant_id, _ in rows],
        [datetime.fromtimestamp(slot * SLOT_SECONDS, UTC) for _, slot in rows],
        *map(list, zip(*rows.values(), strict=True)),
    )


async def add_lateness(connection: Connection, late: Mapping[int, Late]) -> None:
    """Add the lateness of this process's work to the current slot."""
    if not late:
        return
    await connection.execute(
        query("activity_late"),
        list(late),
        [_array(jobs) for jobs, _ in late.values()],
        [_array(payments) for _, payments in late.values()],
        SLOT_SECONDS,
    )


async def forget(connection: Connection) -> None:
    """Delete expired slots."""
    await connection.execute(query("activity_forget"), KEEP_SECONDS)


async def recent(connection: Connection, tenant_id: int, seconds: float) -> list[ActivitySlot]:
    """Return a tenant's slots of the last seconds, in order; idle slots have no row."""
    return await fetch_all(connection, ActivitySlot, "activity_recent", tenant_id, seconds)


async def recent_of_all(connection: Connection, seconds: float) -> list[ActivitySlot]:
    """Return the slots of the last seconds over all tenants, without their lateness."""
    return await fetch_all(connection, ActivitySlot, "activity_recent_of_all", seconds)


def _array(values: list[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"
