"""What a claim, a renewal and a broken start leave alone: holes that seeded bugs have shown."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conftest import Clock
from postdate.core.ids import bucket_of
from postdate.core.limit import Limit
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Delivery
from postdate.job.spec.tally import Tally
from postdate.job.spec.verdict import Keep, Move
from postdate.job.store import execution
from postdate.job.store.execution import HeldLease
from postdate.runtime.low_water import MARGIN, WIDE_MARGIN, WIDE_SECONDS, LowWaterMark
from postdate.worker.claimed_job import ClaimedJob
from postdate.worker.permit import HeldPermits, Permits
from postdate.worker.recorder import OutcomeRecorder
from support.worker import Handled, add_jobs, make_lane, make_worker, one, step


async def test_what_is_due_takes_nothing_along_that_is_not(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    # Two in each bucket of the lane, one of them due.
    width = len(lane.buckets)
    ids = await add_jobs(database, lane, 2 * width, in_seconds=[0] * width + [60] * width)
    handler = Handled()
    await step(await make_worker(database, handler, tenant_id))
    assert {each.job_id for each in handler.deliveries} == set(ids[:width])
    for job_id in ids[width:]:
        assert (await one(database, "timer", job_id))["claimed_at"] is None


async def test_a_worker_helps_out_at_another_database_node_when_it_has_nothing_to_do(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    width = len(lane.buckets)
    ids = await add_jobs(database, lane, width, in_seconds=[-5])
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)
    worker.claimer.mine = frozenset(lane.buckets[: width // 2])
    worker.claimer.afar = frozenset(lane.buckets[width // 2 :])
    assert await worker.run_once(1000) == width // 2
    await worker.runner.wait_idle()
    assert {bucket_of(each.job_id) for each in handler.deliveries} == worker.claimer.mine
    assert await step(worker) == width - width // 2
    assert {each.job_id for each in handler.deliveries} == set(ids)


async def test_an_old_token_renews_nothing(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    tokens, handler = [], Handled()
    handler.gate.clear()
    workers = [await make_worker(database, handler, tenant_id) for _ in range(2)]
    for worker in workers:
        assert await worker.run_once(10) == 1
        tokens.append((await one(database, "timer", job_id))["token"])
        await clock.advance(31)
    before = await one(database, "timer", job_id)
    assert await execution.renew(database, [(HeldLease(job_id, tokens[0], 1), Keep(60.0))]) == {}
    assert await one(database, "timer", job_id) == before
    renewed = await execution.renew(database, [(HeldLease(job_id, tokens[1], 2), Keep(60.0))])
    assert renewed[job_id] is not None
    handler.gate.set()
    for worker in workers:
        await worker.runner.wait_idle()


async def test_permits_taken_before_a_limit_that_cannot_be_asked_are_given_back(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = await make_lane(database, tenant_id)
    await add_jobs(database, lane, 3)
    first, second = (Limit(f"{name}:{tenant_id}", max_running=5) for name in ("first", "second"))
    acquire_one = Permits._acquire_one

    async def broken(self: Permits, held: HeldPermits, limit: Limit) -> float:
        if limit is second:
            raise ConnectionResetError("the database is away")
        return await acquire_one(self, held, limit)

    monkeypatch.setattr(Permits, "_acquire_one", broken)

    async def limits_of(_: Delivery) -> Sequence[Limit]:
        return [first, second]

    worker = await make_worker(database, Handled(), tenant_id, limits_of=limits_of)
    await worker.run_once(10)
    await worker.runner.wait_idle()
    assert worker.permits.used(first.scope) == 0


def a_flight() -> ClaimedJob:
    """One whose lease of 3 s was taken at 10 s, by the monotonic clock."""
    claim = cast("Any", SimpleNamespace(lease_seconds=3.0, in_doubt=False))
    return ClaimedJob(cast("Any", None), claim, renew_at=11.0)


def test_nothing_starts_on_a_lease_that_may_have_run_out() -> None:
    flight = a_flight()
    assert flight.may_start(12.9)
    assert not flight.may_start(13.1)
    flight.stop("worker_stopped")
    assert not flight.may_start(12.9)


async def test_a_flight_has_one_verdict_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutcomeRecorder, "resume", lambda _: None)
    recorder = OutcomeRecorder(
        cast("Any", None), Tally(), begun=lambda _: None, landed=lambda _: None
    )
    flight, first = a_flight(), Move(seconds=1.0)
    recorder.submit(flight, first)
    recorder.submit(flight, Move(seconds=2.0))
    assert (list(recorder._waiting), flight.verdict) == ([flight], first)


def test_a_mark_trails_a_little_and_once_a_second_as_far_as_a_transaction_lasts() -> None:
    mark, at = LowWaterMark(), datetime(2030, 1, 1, tzinfo=UTC)
    mark.current(100.0)
    mark.learn_empty_below(at + timedelta(seconds=5), at)
    assert mark.current(100.1) == at - MARGIN
    assert mark.current(100.0 + WIDE_SECONDS) == at - WIDE_MARGIN
    assert mark.current(100.1 + WIDE_SECONDS) == at - MARGIN
