"""Whatever breaks while a worker claims, admits or records: everything runs, nothing leaks."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest

from conftest import eventually
from postdate.core.limit import Limit
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.job.spec.outcome import Completed, Delivery, Outcome
from postdate.secret.payload_encryption import MARK
from postdate.secret.secret import SecretError
from support.call_faults import FAULTS, BreakingDatabase, Fault
from support.worker import (
    Handled,
    add_jobs,
    look,
    make_lane,
    make_tenant,
    make_worker,
    step,
    told,
)

if TYPE_CHECKING:
    from uuid import UUID

    from postdate.worker.worker import JobWorker

AT_ONCE = 8
TURNS = 5
"""How many turns of the event loop a handler takes: others may start meanwhile."""

MANY_CALLS = 50
"""At least so many calls are broken, one by one: fewer, and the scene has lost its subject."""

LANE_LIMIT = 1
DESTINATION_LIMIT = 2
JOBS = 2


class Scene:
    """A worker on a database that breaks, with an unlimited lane and a limited one."""

    def __init__(self, tenant_id: int, breaking: BreakingDatabase) -> None:
        self.tenant_id = tenant_id
        self.breaking = breaking
        self.delivered: list[UUID] = []
        self.running: Counter[str] = Counter()
        self.most_running: Counter[str] = Counter()
        self.jobs: list[UUID] = []
        self.worker: JobWorker

    async def make(self, database: Database) -> None:
        """Put jobs into both lanes, none of which may ever be delivered twice."""
        for name, most in (("free", None), ("limited", LANE_LIMIT)):
            lane = await make_lane(database, self.tenant_id, name, width=1, max_running=most)
            self.jobs += await add_jobs(database, lane, JOBS, retry={"on_unknown": "hold"})
        self.worker = await make_worker(
            self.breaking, self.handle, self.tenant_id, limits_of=self.limits_of, window_size=50
        )
        self.breaking.calls.clear()

    async def handle(self, delivery: Delivery) -> Outcome:
        """Take a moment, and note how many run at once."""
        self.delivered.append(delivery.job_id)
        self.running[delivery.lane] += 1
        self.most_running |= self.running
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self.running[delivery.lane] -= 1
        return Completed()

    async def limits_of(self, delivery: Delivery) -> Sequence[Limit]:
        """Limit what the limited lane sends; reading the limits can break, too."""
        async with self.breaking.connection() as connection:
            await connection.fetchval("SELECT 1")
        if delivery.lane == "free":
            return []
        scope = f"destination:{self.tenant_id}"
        return [Limit(scope, max_running=DESTINATION_LIMIT, rate_per_second=1000.0)]

    async def step(self) -> None:
        """Do what the loops do; a broken step is tried again."""
        look(self.worker)
        for once in (self.worker.run_once, self.worker.renew):
            with suppress(DatabaseError, asyncio.CancelledError):
                await once(100)

    async def run(self) -> None:
        """Step until all jobs have ended."""

        async def all_ended() -> bool:
            await self.step()
            query = "SELECT count(*) FROM outcome WHERE tenant_id = $1 AND status = 'COMPLETED'"
            return bool(await self.breaking.pool.fetchval(query, self.tenant_id) == len(self.jobs))

        await eventually(all_ended, seconds=30)
        await asyncio.wait_for(self.worker.runner.wait_idle(), 10)

    async def check(self) -> None:
        """Nothing is left behind, nothing went beyond a limit, nothing was delivered twice."""
        assert sorted(self.delivered) == sorted(self.jobs)
        assert self.most_running["limited"] <= LANE_LIMIT
        assert self.worker.claimer.capacity.running == 0
        permits = self.worker.permits
        for scope in (f"lane:{self.tenant_id}/limited", f"destination:{self.tenant_id}"):
            assert permits.used(scope) == 0
        assert not any(place.busy for place in self.worker.claimer.lane_buckets)
        await permits.give_back()
        left = "SELECT count(*) FROM permit WHERE scope LIKE '%:' || $1 || '%'"
        assert await self.breaking.pool.fetchval(left, str(self.tenant_id)) == 0


async def play(database: Database, name: str, fault: Fault, position: int) -> bool:
    """Break one call, let all run, and check; say whether there was such a call."""
    breaking = BreakingDatabase(database)
    scene = Scene(await make_tenant(database, f"{name}-{position}"), breaking)
    await scene.make(database)
    breaking.fault, breaking.break_at = fault, position
    await scene.run()
    breaking.break_at = None
    await scene.check()
    return len(breaking.calls) > position


async def play_all(database: Database, name: str, faults: Sequence[Fault]) -> None:
    """Break every call, some of them at a time in worlds of their own, until there is none."""
    position, broken = 0, True
    while broken:
        positions = range(position, position + AT_ONCE)
        plays = [play(database, name, faults[each % len(faults)], each) for each in positions]
        broken = all(await asyncio.gather(*plays))
        position += AT_ONCE
    assert position > MANY_CALLS


async def test_everything_runs_once_wherever_a_call_breaks(
    database: Database, tenant_id: int
) -> None:
    await play_all(database, f"any-{tenant_id}", FAULTS)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
async def test_everything_runs_once_wherever_a_call_breaks_in_one_way(
    database: Database, tenant_id: int, fault: Fault
) -> None:
    await play_all(database, f"{fault}-{tenant_id}", [fault])


async def test_a_lane_that_cannot_be_claimed_does_not_stop_those_claimed_with_it(
    database: Database, tenant_id: int
) -> None:
    for name in ("a", "b", "c"):
        await add_jobs(database, await make_lane(database, tenant_id, name, width=1))
    bad = await make_lane(database, tenant_id, "bad", width=1)
    # Sealed, and this worker has no key: it must leave the job to another node.
    await add_jobs(database, bad, payload=MARK)
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)

    async def others_ran() -> bool:
        with suppress(SecretError):
            await worker.run_once(100)
        return len(handler.deliveries) == 3

    await eventually(others_ran, seconds=5)


async def test_a_destination_whose_limits_cannot_be_read_holds_up_only_its_own_jobs(
    database: Database, tenant_id: int
) -> None:
    for name in ("bad", "good"):
        lane = await make_lane(database, tenant_id, name)
        await add_jobs(database, lane, to={"type": "webhook", "name": name})
    handler = Handled()
    broken = True

    async def limits_of(delivery: Delivery) -> Sequence[Limit]:
        if delivery.lane == "bad" and broken:
            raise ValueError("a surprise")
        return []

    worker = await make_worker(database, handler, tenant_id, limits_of=limits_of)
    await step(worker)
    assert [each.lane for each in handler.deliveries] == ["good"]
    broken = False

    async def both_ran() -> bool:
        await step(worker)
        return len(handler.deliveries) == 2

    await eventually(both_ran)


@pytest.mark.parametrize("outcome", [None, asyncio.CancelledError()])
async def test_a_handler_that_ends_in_no_known_way_leaves_doubt_and_no_flight(
    database: Database, tenant_id: int, outcome: Any
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry={"on_unknown": "hold"})

    async def handler(_: Delivery) -> Outcome:
        if outcome is not None:
            raise outcome
        return cast("Outcome", None)

    worker = await make_worker(database, handler, tenant_id)
    await asyncio.wait_for(step(worker), 10)
    assert await told(database, job_id) == ["job.unknown"]
