"""Too much at once, too much of one tenant, and a snapshot that somebody forgot."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from conftest import eventually
from postdate.monitor.store import vital
from postdate_lab.bench import database as job_figures
from postdate_lab.bench import payment, testbed
from postdate_lab.bench.bank import Bank, open_bank
from postdate_lab.bench.payment_database import Due
from postdate_lab.bench.worker import Accepting, Bench

pytestmark = pytest.mark.soak

SPIKE = int(os.environ.get("POSTDATE_TEST_SPIKE", "100000"))
SETTLEMENTS = int(os.environ.get("POSTDATE_TEST_SETTLEMENTS", "400000"))
ACCOUNTS = 1000
PAYMENTS = 2000
OTHERS = 10
END_SECONDS = 600.0
CLAIM_MS = 25.0
LATE_MS = 1000.0
BUSY = 1.5
"""How much worse than the same work alone something may be; timings of one run are compared."""

EARLY = "SELECT count(*) FROM outcome WHERE tenant_id = $1 AND started_at < due_at"


@pytest.fixture
async def at() -> AsyncIterator[testbed.Testbed]:
    async with testbed.testbed() as made:
        yield made


async def settled(bank: Bank, count: int) -> float:
    """Wait until so many payments have ended; return their lateness p99 in milliseconds."""

    async def all_ended() -> bool:
        return (await bank.count_endings()).ended == count

    await eventually(all_ended, END_SECONDS, 0.2)
    ended = await bank.count_endings()
    assert ended.early == 0
    return ended.p99


async def pay_over(at: testbed.Testbed, ahead_seconds: float) -> Bank:
    """Make payments that become due over four seconds, beginning so far ahead."""
    bank = await open_bank(at, ACCOUNTS)
    begin = await bank.now() + timedelta(seconds=ahead_seconds)
    await bank.fill(PAYMENTS, due=Due(begin, timedelta(seconds=4) / PAYMENTS))
    return bank


async def test_a_spike_of_jobs_starts_nothing_early_and_holds_up_no_payment(
    at: testbed.Testbed,
) -> None:
    async with payment._settling(at, 2):
        alone = await settled(await pay_over(at, 10), PAYMENTS)
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")
    due = await adding.now() + timedelta(seconds=20 + SPIKE / 1000)
    await adding.add(lane, [due + timedelta(seconds=n / SPIKE) for n in range(SPIKE)])
    left = (due - await adding.now()).total_seconds()
    assert left > 0, "accepting took longer than planned"
    bank = await pay_over(at, left)
    async with worker.running(), payment._settling(at, 2):
        beside = await settled(bank, PAYMENTS)
        await worker.until(SPIKE)
        seconds = (await adding.now() - due).total_seconds()
    async with at.superuser() as connection:
        assert await connection.fetchval(EARLY, lane.tenant_id) == 0
    print(
        f"{SPIKE} jobs of one second drained in {seconds:.1f} s; payments' lateness p99 "
        f"{beside:.0f} ms beside them, {alone:.0f} ms alone"
    )
    assert beside <= max(LATE_MS, BUSY * alone)


async def little(at: testbed.Testbed, worker: Bench, beside: int) -> float:
    """Run a few jobs of some tenants, beside what is due already; return their worst p99 in ms."""
    adding, few = Accepting(at), SPIKE // 20 // OTHERS
    quiet = [await at.lane() for _ in range(OTHERS)]
    now = await adding.now()
    for lane in quiet:
        await adding.add(lane, [now + timedelta(seconds=2 + 10 * n / few) for n in range(few)])
    async with worker.running():
        await worker.until(beside + few * OTHERS)
    async with at.node.database.connection() as connection:
        return max([(await job_figures.lateness(connection, lane.tenant_id)).p99 for lane in quiet])


async def test_who_sends_a_little_is_not_late_beside_who_sends_nearly_everything(
    at: testbed.Testbed,
) -> None:
    alone = await little(at, Bench(at, "worker"), 0)
    many = SPIKE * 95 // 100
    await Accepting(at).add(await at.lane(), [None] * many)
    await at.settle()
    beside = await little(at, Bench(at, "worker"), many)
    print(f"p99 of {OTHERS} tenants {beside:.0f} ms beside {many} jobs of one, {alone:.0f} alone")
    assert beside <= max(LATE_MS, BUSY * alone)


async def test_a_forgotten_snapshot_is_named_and_costs_claims_nothing(at: testbed.Testbed) -> None:
    bank = await open_bank(at, ACCOUNTS)
    await bank.fill(SETTLEMENTS)
    lane, adding = await at.lane(), Accepting(at)
    p99 = {}
    for name in ("free", "pinned"):
        worker = Bench(at, "worker")
        await adding.add(lane, [None] * PAYMENTS * 5)
        if name == "free":
            async with worker.running():
                await worker.until(PAYMENTS * 5)
        else:
            async with at.pinned():
                async with payment._settling(at, 2):
                    await settled(bank, SETTLEMENTS)
                async with worker.running():
                    await worker.until(PAYMENTS * 5)
                async with at.node.database.connection() as connection:
                    pin = await vital.pin(connection)
        p99[name] = testbed.percentile(worker.claim_ms, 0.99)
    print(f"{SETTLEMENTS} settled under a snapshot; claim p99 in ms: {p99}")
    assert pin is not None, "the session is not named"
    assert p99["pinned"] <= max(CLAIM_MS, BUSY * p99["free"])
