"""Halts of tenants, and the payments that wait for their end."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from postdate.core.test_clock import current_tenant, own_lane
from postdate.database.connection.query import Connection, Reader, fetch_all, query
from postdate.halt.spec import Halt, HaltKind, Mode
from postdate.payment.store.settlement import LockedTimer
from postdate.timer.timer import LANE_HELD, LANE_PAYMENT


class NewHalt(NamedTuple):
    """A halt about to be set."""

    tenant_id: int
    kind: HaltKind
    mode: Mode
    from_at: datetime | None
    until_at: datetime | None
    note: str
    set_by: str


class EndedHalt(NamedTuple):
    """A halt that has ended; `by_clock` when it was not lifted."""

    tenant_id: int
    kind: HaltKind
    by_clock: bool


async def load(reader: Reader, tenant_id: int | None = None) -> list[Halt]:
    """Read the current and future halts of one tenant or of all."""
    return await fetch_all(reader, Halt, "halt_all", tenant_id)


async def list_halted(reader: Reader) -> frozenset[int]:
    """Return the tenants that are halted now."""
    return frozenset(row[0] for row in await reader.fetch(query("halt_list_halted")))


async def wait_client_alone(connection: Connection, tenant_id: int) -> None:
    """Wait until every client transaction that did not see the switch has ended."""
    await connection.execute(query("halt_client_alone"), tenant_id)


async def wait_alone(connection: Connection) -> None:
    """Take the lock exclusively, waiting at most a second for transactions that share it."""
    await connection.execute(query("halt_alone"))


async def change_alone(connection: Connection, tenant_id: int) -> None:
    """Lock the tenant's halts against other changes until our commit."""
    await connection.execute(query("halt_change"), tenant_id)


async def share(connection: Connection) -> None:
    """Share the lock of halts: no kill switch changes before our commit."""
    await connection.execute(query("halt_share"))


async def refuse_held(connection: Connection, tenant_ids: Sequence[int]) -> None:
    """Raise if one of these tenants is halted; otherwise no switch changes before our commit."""
    await connection.execute(query("halt_refuse_held"), tenant_ids)


async def refuse_killed(connection: Connection, tenant_id: int) -> None:
    """Raise if the tenant's kill switch is on; otherwise no switch changes before our commit."""
    await connection.execute(query("halt_refuse_killed"), tenant_id)


async def put(connection: Connection, halt: NewHalt) -> datetime | None:
    """Set a halt and return when it begins; None if it would already be over."""
    return await connection.fetchval(query("halt_put"), *halt)


async def lift(connection: Connection, tenant_id: int, kind: HaltKind) -> None:
    """End a halt; the row stays until its timers are back."""
    await connection.execute(query("halt_lift"), tenant_id, kind)


async def list_ended(reader: Reader) -> list[EndedHalt]:
    """List the halts that have ended: of live tenants, or of the current one in test mode."""
    return await fetch_all(reader, EndedHalt, "halt_list_ended", current_tenant())


async def next_end(connection: Connection, tenant_id: int) -> datetime | None:
    """Return when the next halt of a tenant ends by itself; None when none does."""
    return await connection.fetchval(query("halt_next_end"), tenant_id)


async def set_aside(connection: Connection, timers: Sequence[LockedTimer]) -> None:
    """Make locked due payments wait for the end of a halt."""
    if timers:
        await connection.execute(
            query("halt_set_aside"),
            [timer.bucket for timer in timers],
            [timer.subject for timer in timers],
            own_lane(LANE_HELD),
        )


async def bring_back(connection: Connection, bucket: int, tenant_id: int) -> bool:
    """Move a tenant's waiting payments of one bucket back to settlement; return whether all moved.

    A payment that another transaction has locked is skipped.
    """
    waiting = (bucket, tenant_id, own_lane(LANE_HELD))
    await connection.execute(query("halt_return"), *waiting, own_lane(LANE_PAYMENT))
    left: bool = await connection.fetchval(query("halt_left"), *waiting)
    return not left


async def delete(connection: Connection, over: EndedHalt) -> bool:
    """Delete a halt that has ended; return False if another node has done so."""
    found = await connection.fetchval(query("halt_delete"), over.tenant_id, over.kind)
    return found is not None
