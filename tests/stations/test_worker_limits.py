"""Limits hold across workers, and nobody's backlog holds up the others."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from conftest import Clock, eventually
from postdate.core.limit import Limit
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Completed, Delivery, Outcome
from postdate.runtime.capacity import MIN_SIZE, Capacity
from postdate.worker.claimed_job import ClaimedJob
from postdate.worker.fair_order import FairOrder
from postdate.worker.worker import JobWorker
from support.worker import Handled, add_jobs, look, make_lane, make_tenant, make_worker, one, step


async def start_all(*workers: JobWorker) -> None:
    """Let every worker claim whatever it may."""
    for worker in workers:
        look(worker)
        while await worker.run_once(100):
            pass


async def test_a_lanes_limit_holds_across_workers(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id, max_running=3)
    await add_jobs(database, lane, 12)
    handler = Handled()
    handler.gate.clear()
    workers = [await make_worker(database, handler, tenant_id) for _ in range(2)]
    await eventually_running(handler, 3, *workers)
    await start_all(*workers)
    handler.gate.set()

    async def all_done() -> bool:
        await start_all(*workers)
        return len(handler.deliveries) == 12

    await eventually(all_done)
    assert handler.most_running == 3
    assert {d.attempt for d in handler.deliveries} == {1}


async def test_a_tenants_limit_spans_its_lanes(database: Database, tenant_id: int) -> None:
    for name in ("a", "b", "c"):
        await add_jobs(database, await make_lane(database, tenant_id, name), 4)
    handler = Handled()
    handler.gate.clear()
    settings = {"worker.max_running": 5}
    workers = [await make_worker(database, handler, tenant_id, settings=settings) for _ in range(2)]
    await eventually_running(handler, 5, *workers)
    await start_all(*workers)
    handler.gate.set()
    for worker in workers:
        await worker.runner.wait_idle()
    assert handler.most_running == 5


async def test_the_permits_of_the_dead_run_out(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id, max_running=2)
    await add_jobs(database, lane, 4)
    dead, alive = Handled(), Handled()
    dead.gate.clear()
    alive.gate.clear()
    await eventually_running(dead, 2, await make_worker(database, dead, tenant_id))
    survivor = await make_worker(database, alive, tenant_id)
    await start_all(survivor)
    assert alive.running == 0
    await clock.advance(31)
    await eventually_running(alive, 2, survivor)


async def eventually_running(handler: Handled, count: int, *workers: JobWorker) -> None:
    async def enough() -> bool:
        await start_all(*workers)
        return handler.running == count

    await eventually(enough)


async def test_free_slots_go_back_for_others_to_take(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id, max_running=2)
    await add_jobs(database, lane, 2)
    first, second = Handled(), Handled()
    idle = await make_worker(database, first, tenant_id)
    first.gate.clear()
    await eventually_running(first, 2, idle)
    first.gate.set()
    await idle.runner.wait_idle()
    await add_jobs(database, lane, 2)
    other = await make_worker(database, second, tenant_id)
    second.gate.clear()

    async def taken_over() -> bool:
        await idle.permits.renew()
        await start_all(other)
        return second.running == 2

    await eventually(taken_over)


async def test_a_rate_holds_across_workers(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id, rate_per_second=20.0)
    await add_jobs(database, lane, 40)
    times: list[float] = []

    async def note(_: Delivery) -> Outcome:
        times.append(time.monotonic())
        return Completed()

    workers = [await make_worker(database, note, tenant_id) for _ in range(2)]

    async def all_done() -> bool:
        await start_all(*workers)
        return len(times) == 40

    await eventually(all_done, seconds=20)
    burst = Limit("", rate_per_second=20.0).burst
    for began in times:
        within = sum(began <= at < began + 1 for at in times)
        assert within <= 20 + burst + 1
    assert times[-1] - times[0] >= (40 - burst - 1) / 20 * 0.95


async def test_a_destinations_limit_puts_off_without_an_attempt(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    ids = await add_jobs(database, lane, 9)
    handler = Handled()

    async def limits_of(_: Delivery) -> Sequence[Limit]:
        return [Limit(f"destination:{tenant_id}", max_running=2)]

    worker = await make_worker(database, handler, tenant_id, limits_of=limits_of)
    handler.gate.clear()
    look(worker)
    await worker.run_once(100)
    await eventually_running(handler, 2, worker)
    handler.gate.set()
    await worker.runner.wait_idle()
    for _ in range(8):
        await clock.advance(31)
        await step(worker)
    assert handler.most_running == 2
    assert {d.attempt for d in handler.deliveries} == {1}
    for job_id in ids:
        assert (await one(database, "outcome", job_id))["status"] == "COMPLETED"


async def test_a_tenants_backlog_does_not_hold_up_another(
    database: Database, tenant_id: int
) -> None:
    other_id = await make_tenant(database, f"other-{tenant_id}")
    await add_jobs(database, await make_lane(database, tenant_id), 2000)
    await add_jobs(database, await make_lane(database, other_id), 40)
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id, other_id)
    await step(worker, limit=100)
    assert len(handler.deliveries) == 2040
    places = [n for n, d in enumerate(handler.deliveries) if d.tenant_id == other_id]
    assert max(places) < 600


async def test_hanging_handlers_of_one_tenant_leave_room_for_others(
    database: Database, tenant_id: int
) -> None:
    other_id = await make_tenant(database, f"quick-{tenant_id}")
    await add_jobs(database, await make_lane(database, tenant_id), 200)
    hanging, quick = asyncio.Event(), Handled()

    async def handler(delivery: Delivery) -> Outcome:
        if delivery.tenant_id == tenant_id:
            await hanging.wait()
            return Completed()
        return await quick(delivery)

    worker = await make_worker(database, handler, tenant_id, other_id, window_size=40)
    await start_all(worker)
    assert len(worker.runner) == 30
    await add_jobs(database, await make_lane(database, other_id), 30)
    await worker.lanes.refresh()
    await worker.claimer.refresh()

    async def quick_done() -> bool:
        await start_all(worker)
        return len(quick.deliveries) == 30

    await eventually(quick_done)
    hanging.set()
    await worker.runner.wait_idle()


async def test_lanes_share_a_tenants_turn_by_weight(database: Database, tenant_id: int) -> None:
    heavy = await make_lane(database, tenant_id, "heavy", weight=3)
    light = await make_lane(database, tenant_id, "light")
    for lane in (heavy, light):
        await add_jobs(database, lane, 400)
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)
    await step(worker, limit=10)
    first = Counter(d.lane for d in handler.deliveries[:400])
    assert 270 <= first["heavy"] <= 330


def test_whoever_comes_back_starts_level_with_the_others() -> None:
    turns: FairOrder[str] = FairOrder()
    for _ in range(100):
        turns.spend(turns.choose(["a"]), 10)
    order = []
    for _ in range(10):
        chosen = turns.choose(["a", "b"])
        turns.spend(chosen, 10)
        order.append(chosen)
    assert order.count("b") in {5, 6}


def test_a_window_never_fills_beyond_its_size() -> None:
    window = Capacity(8)
    for tenant_id in range(20):
        window.take(tenant_id, window.free(tenant_id))
    assert window.running == 8
    assert [window.free(tenant_id) for tenant_id in range(20)] == [0] * 20


async def test_a_worker_claims_less_while_its_leases_run_out_and_more_again_after(
    database: Database,
) -> None:
    """One that is too slow for all it holds would have it taken away again and again."""
    tenant_id = await make_tenant(database, "slow-worker")
    lane = await make_lane(database, tenant_id)
    await add_jobs(database, lane, 1200)
    handler = Handled()
    worker = await make_worker(
        database, handler, tenant_id, settings={"worker.lease_seconds": 0.3}, window_size=400
    )

    async def run_late() -> int:
        handler.gate.clear()
        look(worker)
        while await worker.run_once(1000):
            pass
        jobs = list(worker.runner._jobs)
        await eventually(partial(_have_run_out, jobs))
        handler.gate.set()
        await worker.runner.wait_idle()
        return len(jobs)

    assert await run_late() == 300
    assert await run_late() <= 150
    assert await run_late() <= 75
    small = worker.claimer.capacity.size
    assert small >= MIN_SIZE

    async def all_delivered() -> bool:
        await step(worker)
        return len({each.job_id for each in handler.deliveries}) == 1200

    await eventually(all_delivered)
    assert worker.claimer.capacity.size > 4 * small


async def _have_run_out(jobs: Sequence[ClaimedJob]) -> bool:
    return not any(job.holds_lease(time.monotonic()) for job in jobs)


async def test_a_limited_job_is_claimed_once_and_asks_for_its_permit_in_a_group(
    database: Database, tenant_id: int
) -> None:
    """The cost of a limit is the number of claims and of questions for permits."""
    lane = await make_lane(database, tenant_id, width=1)
    await add_jobs(database, lane, 100)
    counting = CountingDatabase(database)
    handler = Handled()

    async def limits_of(_: Delivery) -> Sequence[Limit]:
        return [Limit(f"destination:{tenant_id}", max_running=2)]

    worker = await make_worker(counting, handler, tenant_id, limits_of=limits_of)
    await step(worker)
    assert handler.most_running <= 2
    assert len(handler.deliveries) == 100
    assert counting.writes["claim"] <= 3
    assert counting.writes["permit.ask"] == 1
    assert worker.tally.counts["throttled"] == 0


class CountingDatabase(Database):
    """The same database; it counts the transactions by their failpoint."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.writer, database.reader)
        self.writes: Counter[str] = Counter()

    def write(self, failpoint: str = "") -> Any:
        self.writes[failpoint] += 1
        return super().write(failpoint)
