"""Records of what ran: none is forgotten, and the next run while they are written."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from conftest import eventually
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Completed
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import DONE
from postdate.job.store import execution
from postdate.job.store.execution import ClaimedExecution, HeldLease
from postdate.lane.store.lane import Lane
from postdate.runtime.capacity import Capacity
from postdate.worker import recorder
from postdate.worker.claim import LaneClaim
from postdate.worker.claimed_job import ClaimedJob
from postdate.worker.lane_bucket import LaneBucket
from postdate.worker.recorder import ClaimedGroup, OutcomeRecorder
from support.worker import Handled, add_jobs, make_lane, make_worker, one

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LANE = Lane(16, 1, "default", "push", 1, 8, None, None, None, None, None, NOW, NOW)
CLAIM = LaneClaim(LaneBucket(LANE, 0), LANE, [], Capacity(1).take(1, 1), 30.0)


def flight() -> ClaimedJob:
    policy = RetryPolicies(Settings()).policy_of(None, 1)
    held = HeldLease(uuid4(), 1, 1)
    return ClaimedJob(ClaimedExecution(held, NOW, 0.0, policy, None, None, None, None), CLAIM, 10.0)


class Written(OutcomeRecorder):
    """Writes nowhere, and says that it did."""

    async def _write(self, group: ClaimedGroup, **_: Any) -> execution.Written:
        return execution.Written({flight.execution.held.job_id for flight in group}, set())


async def test_a_verdict_that_comes_as_the_last_group_ends_is_written_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_GROUPS", 1)
    late = flight()
    landed: list[ClaimedJob] = []

    def land(flights: Sequence[ClaimedJob]) -> None:
        landed.extend(flights)
        if late not in landed:
            asyncio.get_running_loop().call_soon(written.submit, late, DONE)

    written = Written(database, Tally(), lambda _: None, land)
    written.submit(flight(), DONE)

    async def both() -> bool:
        return late in landed

    await eventually(both)


async def test_the_next_is_claimed_and_run_while_the_last_is_being_recorded(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id, width=1)
    jobs = await add_jobs(database, lane, 2)
    held = asyncio.Event()

    async def reach(point: str) -> None:
        if point == "record.before":
            await held.wait()

    handler = Handled(Completed(), Completed())
    worker = await make_worker(database, handler, tenant_id, window_size=1, checkpoint=reach)

    async def again() -> bool:
        return await worker.run_once(10) == 1

    await eventually(again)
    await eventually(again)

    async def ran() -> bool:
        return len(handler.deliveries) == 2

    await eventually(ran)
    assert [await one(database, "outcome", job) for job in jobs] == [None, None]
    held.set()
    await worker.runner.wait_idle()
    for job in jobs:
        assert (await one(database, "outcome", job))["status"] == "COMPLETED"


async def test_a_permit_is_used_again_before_its_job_is_recorded(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id, width=1, max_running=1)
    await add_jobs(database, lane, 3)
    held = asyncio.Event()

    async def reach(point: str) -> None:
        if point == "record.before":
            await held.wait()

    handler = Handled()
    worker = await make_worker(database, handler, tenant_id, checkpoint=reach)

    async def all_ran() -> bool:
        await worker.run_once(10)
        return len(handler.deliveries) == 3

    await eventually(all_ran)
    assert handler.most_running == 1
    held.set()
    await worker.runner.wait_idle()
