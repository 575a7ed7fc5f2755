"""A transaction from outside holds one job's timer: that job waits, and no other."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID, uuid4

import pytest

from conftest import Clock, eventually
from faults.pg_proxy import wait_a_moment
from postdate.core.ids import bucket_of
from postdate.core.limit import Limit
from postdate.core.setting.setting import Settings
from postdate.database.connection import error
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import DatabaseError, LockNotAvailableError
from postdate.job.spec.retry import RetryPolicies
from postdate.job.store import execution
from postdate.job.store.execution import ClaimedExecution, Recorded
from postdate.lane.store import permit
from postdate.lane.store.lane import Lane
from postdate.lane.store.permit import lane_limits
from postdate.lease.change.lease import NOT_RUN
from postdate.lease.change.release import LeaseReturns
from postdate.runtime import node as node_store
from postdate.runtime.node import LIVE_SECONDS
from postdate.runtime.share import EVERY_BUCKET
from postdate.timer.timer import LONG_AGO
from postdate.worker.lane_bucket import VAIN_SECONDS
from postdate.worker.permit import HeldPermits, Permits
from postdate.worker.worker import JobWorker
from support.worker import Handled, add_jobs, make_lane, make_worker, one

JOBS = 40
HELD = {"on_unknown": "hold"}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[DatabaseError]:
    """Gather the waits for a lock that have ended in vain: a busy machine makes none of them."""
    found: list[DatabaseError] = []
    meaning = error._meaning

    def kept(raised: Exception) -> DatabaseError:
        meant = meaning(raised)
        if isinstance(meant, LockNotAvailableError):
            found.append(meant)
        return meant

    monkeypatch.setattr(error, "_meaning", kept)
    return found


@asynccontextmanager
async def locked(database: Database, job_id: UUID) -> AsyncIterator[None]:
    """Hold the timer of a job as a stranger's open transaction does."""
    async with database.connection() as connection, connection.transaction():
        await connection.execute("SELECT FROM timer WHERE subject = $1 FOR UPDATE", job_id)
        yield


async def running(
    database: Database, tenant_id: int, handler: Handled, lease_seconds: float = 30.0
) -> tuple[JobWorker, list[UUID]]:
    """Have many jobs claimed and begun."""
    lane = await make_lane(database, tenant_id, width=1)
    jobs = await add_jobs(database, lane, JOBS, retry=HELD)
    handler.gate.clear()
    worker = await make_worker(
        database, handler, tenant_id, settings={"worker.lease_seconds": lease_seconds}
    )

    async def begun() -> bool:
        await worker.run_once(JOBS)
        return handler.running == JOBS

    await eventually(begun)
    return worker, jobs


async def ended(database: Database, jobs: list[UUID]) -> int:
    found: int = await database.writer.fetchval(
        "SELECT count(*) FROM outcome WHERE subject = ANY ($1) AND status = 'COMPLETED'", jobs
    )
    return found


async def test_the_others_are_recorded_while_a_stranger_holds_one_timer(
    database: Database, tenant_id: int, waits: list[DatabaseError]
) -> None:
    handler = Handled()
    worker, jobs = await running(database, tenant_id, handler)

    async def all_but_one() -> bool:
        return await ended(database, jobs) == JOBS - 1

    async with locked(database, jobs[JOBS // 2]):
        handler.gate.set()
        await eventually(all_but_one, 30)
        assert len(waits) == 1  # not one for each halving
        assert len(worker.runner) == 1
    await asyncio.wait_for(worker.runner.wait_idle(), 3)
    assert await ended(database, jobs) == JOBS


async def test_the_others_are_renewed_while_a_stranger_holds_one_timer(
    database: Database, tenant_id: int, waits: list[DatabaseError]
) -> None:
    handler = Handled()
    worker, jobs = await running(database, tenant_id, handler, lease_seconds=3.0)
    before = {job: (await one(database, "timer", job))["due_at"] for job in jobs}
    async with locked(database, jobs[0]):
        for flight in worker.runner._jobs:
            flight.renew_at = 0.0
        await worker.runner.renew()
        assert waits == []
        after = {job: (await one(database, "timer", job))["due_at"] for job in jobs}
        assert {job for job in jobs if after[job] <= before[job]} == {jobs[0]}
        assert handler.running == JOBS  # a lease that is only locked is not lost
    await worker.runner.renew()
    assert (await one(database, "timer", jobs[0]))["due_at"] > before[jobs[0]]
    handler.gate.set()
    await worker.runner.wait_idle()
    assert await ended(database, jobs) == JOBS


async def test_the_other_lanes_run_while_a_stranger_holds_the_limits_of_one(
    database: Database, tenant_id: int, waits: list[DatabaseError]
) -> None:
    narrow = await make_lane(database, tenant_id, "narrow", max_running=5)
    free = await make_lane(database, tenant_id, "free")
    worker = await make_worker(database, Handled(), tenant_id)
    [limit] = lane_limits(narrow, worker.settings)
    await add_jobs(database, narrow, JOBS)
    jobs = await add_jobs(database, free, 8)

    async def all_free() -> bool:
        with suppress(LockNotAvailableError):
            await worker.run_once(1)
        return await ended(database, jobs) == len(jobs)

    async with database.write() as connection:
        await permit.lock(connection, limit)
        await eventually(all_free, 30)
        assert len(waits) == 1  # not one for each bucket


async def take(connection: Connection, lane: Lane) -> list[ClaimedExecution]:
    return await execution.take(
        connection,
        lane,
        lane.buckets[0],
        RetryPolicies(Settings()),
        low=LONG_AGO,
        limit=10,
        lease_seconds=30.0,
        claimed_by=uuid4(),
    )


async def test_leases_go_back_whose_claim_commits_after_they_were_given_back(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id, kind="pull", width=1)
    [job_id] = await add_jobs(database, lane, retry=HELD)
    returns = LeaseReturns(database)
    async with database.write() as connection:
        taken = await take(connection, lane)
        returns.give_back([Recorded(each.held, NOT_RUN) for each in taken], [])
        await wait_a_moment(0.3)

    async def free() -> bool:
        return (await one(database, "timer", job_id))["claimed_at"] is None

    await eventually(free)


async def test_slots_go_back_whose_grant_commits_after_it_was_given_up(
    database: Database, tenant_id: int
) -> None:
    limit = Limit(f"lane:{tenant_id}/late", max_running=2)
    node_id = uuid4()
    permits = Permits(database, node_id)
    held = HeldPermits()
    await permits.acquire(held, [limit], 1)
    held.end()
    await permits.give_back()
    share = permits._shares[limit.scope]
    share.unsure = True  # as after a commit that got no answer

    granting, committing = asyncio.Event(), asyncio.Event()

    async def grant() -> None:
        async with database.write() as connection:
            await permit.acquire(connection, limit, node_id, 0, 2, 30.0)
            granting.set()
            await committing.wait()

    granted = asyncio.create_task(grant())
    await granting.wait()
    keeping = asyncio.create_task(permits.renew())
    await wait_a_moment(0.2)
    committing.set()
    await granted
    with suppress(LockNotAvailableError):
        await keeping
    await permits.renew()  # the loop's next step, if this one did not wait long enough
    slots = await database.writer.fetchval(
        "SELECT coalesce(sum(slots), 0) FROM permit WHERE holder = $1", node_id
    )
    assert slots == 0


async def test_a_limit_holds_though_a_stranger_keeps_its_slots_from_being_renewed(
    database: Database, clock: Clock, tenant_id: int
) -> None:
    """Slots run out after 30 s; those of a node that lives and runs its jobs count all the same."""
    limit = Limit(f"lane:{tenant_id}/held", max_running=2)
    busy, other, gone = uuid4(), uuid4(), uuid4()
    permits = Permits(database, busy)
    await permits.acquire(HeldPermits(), [limit], 2)
    async with database.connection() as stranger, stranger.transaction():
        await stranger.execute("SELECT FROM permit WHERE holder = $1 FOR UPDATE", busy)
        await clock.advance(31)
        async with database.write() as connection:
            await permit.sweep(
                connection, limit.scope
            )  # waits for nobody, also if the node is gone
            await node_store.beat(connection, busy, "n", ["worker"], "1")
            await permit.sweep(connection, limit.scope)
            grant = await permit.acquire(connection, limit, other, 0, 1, 30.0)
    assert grant.starts == 0, "two run already"
    await clock.advance(LIVE_SECONDS + 1)
    async with database.write() as connection:
        await permit.sweep(connection, limit.scope)
        assert (await permit.acquire(connection, limit, gone, 0, 1, 30.0)).starts == 1


async def test_a_timer_that_a_stranger_holds_is_left_alone_for_longer_and_longer(
    database: Database, tenant_id: int
) -> None:
    """A claim in vain was repeated at once: hundreds of statements a second for one row."""
    lane = await make_lane(database, tenant_id, width=1)
    [job] = await add_jobs(database, lane)
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)
    # Nodes of other tests may still count as alive: it would leave their buckets to them at first.
    worker.claimer.mine = EVERY_BUCKET
    lane_bucket = worker.claimer.lane_buckets.watch(lane, bucket_of(job))
    rests = []
    async with locked(database, job):
        for _ in range(4):
            began = time.monotonic()
            worker.claimer.lane_buckets.plan(lane_bucket, began)
            assert await worker.run_once(1) == 0
            rests.append(lane_bucket.rest_seconds())
            assert lane_bucket.look_at >= began + rests[-1]
    assert rests == [0.0, VAIN_SECONDS, 2 * VAIN_SECONDS, 4 * VAIN_SECONDS]
    await eventually(partial(_ran, worker, handler))


async def _ran(worker: JobWorker, handler: Handled) -> bool:
    await worker.run_once(1)
    return len(handler.deliveries) == 1
