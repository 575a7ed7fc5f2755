"""A token belongs to one claim only, and what it cannot own it cannot change."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID, uuid4

import pytest

from conftest import Clock, eventually
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CommitUnknownError
from postdate.job.spec.outcome import Failed, Throttled
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import LAST_CALL_SECONDS
from postdate.job.store import execution
from postdate.job.view import JobViews
from postdate.lane.store.lane import Lane
from postdate.lease.change.lease import ClaimAsk, LeaseClaims, Leased
from postdate.timer.timer import LONG_AGO
from support.call_faults import FAULTS, BreakingDatabase, Fault
from support.worker import (
    Handled,
    OwnLanes,
    add_jobs,
    look,
    make_lane,
    make_worker,
    one,
    rows,
    step,
    told,
)

HOLD = {"on_unknown": "hold"}


async def take(connection: Connection, lane: Lane, job_id: UUID) -> int:
    [taken] = await execution.take(
        connection,
        lane,
        bucket_of(job_id),
        RetryPolicies(Settings()),
        low=LONG_AGO,
        limit=1,
        lease_seconds=30.0,
        claimed_by=uuid4(),
    )
    return taken.held.token


async def test_a_claim_that_was_rolled_back_shares_no_token_with_the_next(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    tokens = []
    for _ in range(5):
        with suppress(CommitUnknownError):
            async with database.write() as connection:
                tokens.append(await take(connection, lane, job_id))
                raise CommitUnknownError("lost, and rolled back")
    assert len(set(tokens)) == len(tokens)
    assert max(tokens) < 2**53


async def test_a_token_rises_although_the_clock_goes_back(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    await clock.advance(3600)
    async with database.write() as connection:
        first = await take(connection, lane, job_id)
    await clock.advance(-3000)
    await database.writer.execute("UPDATE timer SET due_at = clock() WHERE subject = $1", job_id)
    async with database.write() as connection:
        assert await take(connection, lane, job_id) > first


async def test_a_lost_claim_cannot_give_back_the_lease_of_another_node(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry=HOLD)
    breaking, go_on = BreakingDatabase(database), asyncio.Event()

    async def reach(point: str) -> None:
        if point == "record.before":
            await go_on.wait()

    unlucky = await make_worker(breaking, Handled(), tenant_id, checkpoint=reach)
    breaking.break_next = "commit"
    with pytest.raises(CommitUnknownError):
        await unlucky.run_once(10)
    handler = Handled()
    handler.gate.clear()
    other = await make_worker(database, handler, tenant_id)
    look(other)
    assert await other.run_once(10) == 1
    before = await one(database, "timer", job_id)
    go_on.set()
    await asyncio.wait_for(unlucky.runner.wait_idle(), 10)
    assert await one(database, "timer", job_id) == before
    handler.gate.set()
    await other.runner.wait_idle()
    assert len(handler.deliveries) == 1
    assert await told(database, job_id) == ["job.completed"]


async def test_attempts_count_what_was_tried_and_not_the_claims(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    retry = {"backoff": "fixed", "initial_seconds": 1.0, "jitter": 0.0}
    [job_id] = await add_jobs(database, lane, retry=retry)
    failed, put_off = Failed(code="http_500", error="no"), Throttled(seconds=1.0)
    handler = Handled(put_off, failed, put_off, put_off, failed)
    worker = await make_worker(database, handler, tenant_id)
    for _ in range(6):
        assert await step(worker) == 1
        await clock.advance(2)
    assert [d.attempt for d in handler.deliveries] == [1, 1, 2, 2, 2, 3]
    views = JobViews(database, worker.lanes)
    shown = await views.attempts(tenant_id, job_id, 0, 10)
    assert shown is not None
    assert [(each.attempt, each.status) for each in shown] == [
        (1, "FAILED"),
        (2, "FAILED"),
        (3, "COMPLETED"),
    ]
    found = await views.find(tenant_id, job_id)
    assert found is not None
    assert found.attempt == 3
    assert found.lateness_ms is not None
    assert found.lateness_ms >= 10_000, "counted from the first due instant"


async def test_a_job_that_never_ran_shows_no_attempt(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [expired] = await add_jobs(database, lane, expires_in=10)
    [held_back] = await add_jobs(database, lane, expires_in=600)
    worker = await make_worker(database, Handled(*[Throttled(seconds=3600.0)] * 2), tenant_id)
    await clock.advance(11)
    await step(worker)
    await clock.advance(589 - LAST_CALL_SECONDS / 2)
    await step(worker)
    views = JobViews(database, worker.lanes)
    for job_id in (expired, held_back):
        found = await views.find(tenant_id, job_id)
        assert found is not None
        assert (found.status, found.code) == ("FAILED", "expired")
        assert (found.attempt or 0, found.lateness_ms) == (0, None)
        assert await views.attempts(tenant_id, job_id, 0, 10) == []


def ask(tenant_id: int) -> ClaimAsk:
    return ClaimAsk(
        tenant_id=tenant_id,
        lane="mail",
        holder=uuid4(),
        max_leases=2,
        lease_seconds=600.0,
        wait_seconds=0.0,
        gone=asyncio.Event(),
    )


async def claim_broken(claims: LeaseClaims, tenant_id: int) -> Sequence[Leased]:
    with suppress(Exception, asyncio.CancelledError):
        return await claims.claim(ask(tenant_id))
    return []


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_pull_claim_that_breaks_leaves_neither_a_lease_nor_a_slot(
    database: Database, tenant_id: int, fault: Fault
) -> None:
    lane = await make_lane(database, tenant_id, "mail", "pull", width=1, max_running=2)
    ids = await add_jobs(database, lane, 2, retry=HOLD)
    lanes = OwnLanes(database, [tenant_id])
    await lanes.refresh()
    position = 0
    while True:
        breaking = BreakingDatabase(database)
        claims = LeaseClaims(breaking, lanes, Settings(), Tally())
        breaking.fault, breaking.break_at = fault, position
        got = await claim_broken(claims, tenant_id)
        if len(breaking.calls) <= position:
            break
        position += 1

        async def free() -> bool:
            timers = [await one(database, "timer", each) for each in ids]
            query = "SELECT count(*) FROM permit WHERE scope LIKE $1"
            held = await database.writer.fetchval(query, f"lane:{tenant_id}/%")
            return held == 0 and all(timer["claimed_at"] is None for timer in timers)

        assert got == []
        await eventually(free)
    assert position > 10
    assert [each.delivery.attempt for each in got] == [1, 1]
    assert await rows(database, "attempt", ids[0], "attempt") == []
