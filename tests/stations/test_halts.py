"""A tenant that stands still: nothing of it is settled, claimed or expanded."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import Api, Clock, eventually
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import TenantHaltedError
from postdate.halt.change import FreezeWindow, Halting
from postdate.halt.spec import Halts
from postdate.job.spec.retry import RetryPolicies
from postdate.job.store import execution
from postdate.lane.store.lane import Lane
from postdate.ledger import batch, held
from postdate.ledger.prove import prove
from postdate.node import schedule as wiring
from postdate.payment.store import held_payment as held_store
from postdate.payment.store import settlement as settlement_store
from postdate.scheduler.expander import Expander
from postdate.settlement.halt_end import HaltEnds
from postdate.tenant.store import tenant as tenant_store
from postdate.timer.timer import LANE_HELD, LONG_AGO
from support.bank import Bank, DuePayment, drain, settler
from support.schedule import create, labels
from support.schedule import drain as expand_all
from support.worker import Handled, add_jobs, make_lane, make_worker, step

CLI = "cli"


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    made = Bank(database, tenant_id)
    await made.open({"alice": 10_000, "bob": 0})
    return made


@pytest.fixture
def halting(database: Database) -> Halting:
    return Halting(database, Halts())


def ends(database: Database) -> HaltEnds:
    return HaltEnds(database, lambda: None)


def window(hours: float = 1.0, mode: str = "hold") -> FreezeWindow:
    until = datetime.now(UTC) + timedelta(hours=hours)
    return FreezeWindow(from_at=None, until_at=until, mode="drain" if mode == "drain" else "hold")


async def outcomes(database: Database, tenant_id: int) -> int:
    found: int = await database.writer.fetchval(
        "SELECT count(*) FROM outcome WHERE tenant_id = $1", tenant_id
    )
    return found


async def test_a_killed_tenants_payments_wait_and_others_are_paid(
    database: Database, bank: Bank, halting: Halting
) -> None:
    async with database.write() as connection:
        other_id = await tenant_store.create(connection, f"other-{uuid4().hex[:8]}")
    assert other_id is not None
    other = Bank(database, other_id)
    await other.open({"carol": 10, "dave": 0})
    held = await bank.due("alice", "bob", 7, ago=60.0)
    free = await other.due("carol", "dave", 3)
    await halting.kill(bank.tenant_id, "stolen key", CLI)
    await drain(settler(database))
    assert (await other.outcome(free))["status"] == "COMPLETED"
    assert await bank.outcome(held) is None
    assert (await bank.timer(held))["lane_id"] == LANE_HELD
    assert (await prove(database, bank.tenant_id)).findings == []
    await halting.lift(bank.tenant_id, "kill", CLI)
    await ends(database).run_once()
    await drain(settler(database))
    assert (await bank.outcome(held))["status"] == "COMPLETED"


async def begin(connection: Connection, key: tuple[int, UUID]) -> Callable[..., Awaitable[Any]]:
    """Lock a payment to be decided in Python; return what settles it."""
    payments, halted = await settlement_store.lock(connection, [key])
    assert halted == []
    return lambda settling: batch.settle(connection, payments, settling)


async def begin_held(
    connection: Connection, key: tuple[int, UUID]
) -> Callable[..., Awaitable[Any]]:
    """Take a payment off the queue in the database; return what settles it."""
    taken = await held_store.take(connection, [key])
    assert taken is not None
    return lambda settling: held.settle(connection, taken, settling)


@pytest.mark.parametrize("begun", [begin, begin_held])
async def test_the_switch_waits_for_a_settlement_that_has_begun(
    database: Database, bank: Bank, halting: Halting, begun: Any
) -> None:
    payment = await bank.due("alice", "bob", 5)
    async with database.write() as connection:
        key = (await bank.timer(payment))["bucket"], payment
        settle = await begun(connection, key)
        killing = asyncio.create_task(halting.kill(bank.tenant_id, "now", CLI))
        await eventually(lambda: waits(database))
        assert not killing.done()
        await settle(batch.Settling(unix_ms=database.unix_ms(), retry_seconds=1.0))
    await killing
    assert (await bank.outcome(payment))["status"] == "COMPLETED"


async def waits(database: Database) -> bool:
    found: bool = await database.writer.fetchval(
        "SELECT EXISTS (SELECT FROM pg_locks "
        "WHERE relation = 'halt_lock'::regclass AND NOT granted)"
    )
    return found


async def test_nothing_is_paid_after_the_switch_was_acknowledged(
    database: Database, bank: Bank, halting: Halting
) -> None:
    due = await bank.now() - timedelta(seconds=5)
    await bank.pay([DuePayment("alice", "bob", 1, due) for _ in range(300)])
    settling = [asyncio.create_task(drain(settler(database), 4)) for _ in range(3)]
    await eventually(lambda: outcomes(database, bank.tenant_id), step=0.001)
    await halting.kill(bank.tenant_id, "in the middle", CLI)
    paid = await outcomes(database, bank.tenant_id)
    await asyncio.gather(*settling)
    assert 0 < paid < 300
    assert await outcomes(database, bank.tenant_id) == paid
    assert (await prove(database, bank.tenant_id)).findings == []


async def test_a_window_holds_until_its_end_and_ends_by_itself(
    database: Database, bank: Bank, halting: Halting, clock: Clock
) -> None:
    await halting.freeze(bank.tenant_id, window(), "maintenance", CLI)
    held = await bank.due("alice", "bob", 1)
    await drain(settler(database))
    await ends(database).run_once()
    assert await bank.outcome(held) is None
    await clock.advance(3700)
    await ends(database).run_once()
    await drain(settler(database))
    assert (await bank.outcome(held))["status"] == "COMPLETED"
    assert "tenant.thawed" in await told(database, bank.tenant_id)


async def told(database: Database, tenant_id: int) -> list[str]:
    rows = await database.writer.fetch(
        "SELECT type FROM event WHERE tenant_id = $1 AND type LIKE 'tenant.%' "
        "ORDER BY time, event_id",
        tenant_id,
    )
    return [row[0] for row in rows]


async def test_a_drain_pays_what_is_due_and_takes_nothing_new(
    database: Database, bank: Bank, halting: Halting
) -> None:
    due = await bank.due("alice", "bob", 1)
    await halting.freeze(bank.tenant_id, window(mode="drain"), "moving out", CLI)
    await drain(settler(database))
    assert (await bank.outcome(due))["status"] == "COMPLETED"
    with pytest.raises(TenantHaltedError):
        await bank.due("alice", "bob", 1)


async def test_jobs_of_a_killed_tenant_are_not_claimed(
    database: Database, tenant_id: int, halting: Halting
) -> None:
    lane = await make_lane(database, tenant_id)
    await add_jobs(database, lane, 3)
    await halting.kill(tenant_id, "why", CLI)
    worker = await make_worker(database, Handled(), tenant_id)
    assert await step(worker) == 0
    assert await take_all(database, lane) == 0
    await halting.lift(tenant_id, "kill", CLI)
    assert await take_all(database, lane) == 3


async def take_all(database: Database, lane: Lane) -> int:
    """Claim as a node would that has not heard of the switch."""
    taken = 0
    async with database.write() as connection:
        for bucket in lane.buckets:
            wanted: dict[str, Any] = {"low": LONG_AGO, "limit": 10, "lease_seconds": 5.0}
            wanted["claimed_by"] = uuid4()
            policies = RetryPolicies(Settings())
            taken += len(await execution.take(connection, lane, bucket, policies, **wanted))
    return taken


async def test_schedules_of_a_killed_tenant_wait(api: Api, halting: Halting, clock: Clock) -> None:
    expander = Expander(api.node.database, wiring.occurrences(api.node))
    made = await create(api, every_seconds=60)
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    await halting.kill(tenant_id, "why", CLI)
    await clock.advance(61)
    assert await expand_all(expander) == 0
    await halting.lift(tenant_id, "kill", CLI)
    assert await expand_all(expander) == 1
    assert await labels(api, made["schedule_id"]) == ["FIRED"]
