"""Every edge of a job's way through a worker, with the settable clock and fake handlers."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from conftest import Clock, eventually
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Completed, Failed, Running, Throttled, Unknown
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.verdict import End, Move
from postdate.job.store import execution
from postdate.job.store.execution import HeldLease, Recorded
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate.timer.timer import LONG_AGO
from support.worker import Handled, add_jobs, make_lane, make_worker, one, refresh, rows, step, told

FIXED = {"backoff": "fixed", "initial_seconds": 10.0, "jitter": 0.0}


async def test_a_due_job_runs_once_and_leaves_outcome_and_event(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, in_seconds=[60])
    handler = Handled(Completed(200, b"ok"))
    worker = await make_worker(database, handler, tenant_id)
    assert await step(worker) == 0
    await clock.advance(60)
    assert await step(worker) == 1
    outcome = await one(database, "outcome", job_id)
    assert (outcome["status"], outcome["http_status"], outcome["response"]) == (
        "COMPLETED",
        200,
        b"ok",
    )
    assert outcome["attempt"] == 1
    assert outcome["node_id"] == worker.node_id
    assert outcome["due_at"] <= outcome["started_at"] <= outcome["finished_at"]
    assert await one(database, "timer", job_id) is None
    assert await told(database, job_id) == ["job.completed"]
    [delivery] = handler.deliveries
    assert (delivery.job_id, delivery.attempt) == (job_id, 1)
    assert delivery.payload == b'{"n":1}'
    assert delivery.destination["url"] == "https://example.com/hook"
    assert await step(worker) == 0


async def test_a_failure_is_retried_with_backoff_until_the_attempts_are_used_up(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry={**FIXED, "max_attempts": 2})
    failed = Failed(code="http_500", error="broken", http_status=500, response=b"no")
    handler = Handled(failed, failed)
    worker = await make_worker(database, handler, tenant_id)
    await step(worker)
    [attempt] = await rows(database, "attempt", job_id, "attempt")
    assert (attempt["status"], attempt["code"], attempt["http_status"]) == (
        "FAILED",
        "http_500",
        500,
    )
    waited = attempt["retry_at"] - attempt["finished_at"]
    assert timedelta(seconds=9.9) < waited < timedelta(seconds=10.1)
    await clock.advance(9)
    assert await step(worker) == 0
    await clock.advance(1.1)
    assert await step(worker) == 1
    outcome = await one(database, "outcome", job_id)
    assert (outcome["status"], outcome["code"], outcome["attempt"]) == ("FAILED", "http_500", 2)
    assert [d.attempt for d in handler.deliveries] == [1, 2]
    assert await told(database, job_id) == [
        "job.retried",
        "job.failed",
    ]


async def test_a_failure_that_no_retry_can_mend_ends_at_once(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    worker = await make_worker(
        database, Handled(Failed(code="gone", error="gone\0for good", retryable=False)), tenant_id
    )
    await step(worker)
    outcome = await one(database, "outcome", job_id)
    assert (outcome["status"], outcome["code"]) == ("FAILED", "gone")
    assert "for good" in outcome["error"]
    assert await rows(database, "attempt", job_id, "attempt") == []


async def test_a_retry_comes_no_sooner_than_the_destination_asked(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry=FIXED)
    worker = await make_worker(
        database,
        Handled(Failed(code="http_429", error="slow down", retry_after_seconds=120)),
        tenant_id,
    )
    await step(worker)
    [attempt] = await rows(database, "attempt", job_id, "attempt")
    assert attempt["retry_at"] - attempt["finished_at"] > timedelta(seconds=119)


@pytest.mark.parametrize(
    "outcome", [Unknown(code="timeout", error="no answer"), ValueError("surprise")]
)
async def test_doubt_is_held_for_a_person_when_the_policy_says_so(
    database: Database, tenant_id: int, clock: Clock, outcome: Any
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry={"on_unknown": "hold"})
    handler = Handled(outcome)
    worker = await make_worker(database, handler, tenant_id)
    await step(worker)
    timer = await one(database, "timer", job_id)
    assert timer["claimed_at"] is None
    assert timer["due_at"].year > 9000
    [attempt] = await rows(database, "attempt", job_id, "attempt")
    assert (attempt["status"], attempt["retry_at"]) == ("UNKNOWN", None)
    assert await told(database, job_id) == ["job.unknown"]
    await clock.advance(10 * 86400)
    assert await step(worker) == 0
    assert len(handler.deliveries) == 1


async def test_doubt_is_retried_by_default(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry=FIXED)
    worker = await make_worker(
        database, Handled(Unknown(code="timeout", error="no answer")), tenant_id
    )
    await step(worker)
    [attempt] = await rows(database, "attempt", job_id, "attempt")
    assert attempt["status"] == "UNKNOWN"
    assert attempt["retry_at"] is not None
    await clock.advance(11)
    await step(worker)
    assert (await one(database, "outcome", job_id))["status"] == "COMPLETED"


async def test_what_was_not_tried_counts_no_attempt_and_tells_nothing(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry={"max_attempts": 1})
    handler = Handled(Throttled(seconds=5), Throttled(seconds=5))
    worker = await make_worker(database, handler, tenant_id)
    for _ in range(3):
        assert await step(worker) == 1
        await clock.advance(5.1)
    assert [d.attempt for d in handler.deliveries] == [1, 1, 1]
    tokens = [d.token for d in handler.deliveries]
    assert tokens == sorted(set(tokens))
    assert (await one(database, "outcome", job_id))["status"] == "COMPLETED"
    assert await told(database, job_id) == ["job.completed"]


async def test_work_that_goes_on_elsewhere_keeps_its_lease(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    worker = await make_worker(database, Handled(Running(until_seconds=600)), tenant_id)
    await step(worker)
    timer = await one(database, "timer", job_id)
    assert timer["claimed_at"] is not None
    assert timer["due_at"] - timer["claimed_at"] > timedelta(seconds=590)
    await clock.advance(500)
    assert await step(worker) == 0
    held = HeldLease(job_id, timer["token"], 1)
    done, _ = await execution.record(database, [Recorded(held, End(status="COMPLETED"))])
    assert done == {job_id}


async def test_an_expired_or_overaged_job_never_runs(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [expired] = await add_jobs(database, lane, expires_in=10)
    [old] = await add_jobs(database, lane, retry={"max_age_seconds": 10})
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)
    await clock.advance(11)
    await step(worker)
    assert handler.deliveries == []
    for job_id, code in ((expired, "expired"), (old, "too_old")):
        outcome = await one(database, "outcome", job_id)
        assert (outcome["code"], outcome["attempt"], outcome["started_at"]) == (code, 0, None)


async def test_no_retry_is_planned_beyond_the_expiry(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry=FIXED, expires_in=5)
    worker = await make_worker(
        database, Handled(Failed(code="http_500", error="broken")), tenant_id
    )
    await step(worker)
    assert (await one(database, "outcome", job_id))["code"] == "http_500"


async def claim_and_die(database: Database, lane: Lane, job_id: UUID) -> int:
    """Claim as a worker that is never heard of again; give its token."""
    async with database.write() as connection:
        taken = await execution.take(
            connection,
            lane,
            bucket_of(job_id),
            RetryPolicies(Settings()),
            low=LONG_AGO,
            limit=10,
            lease_seconds=30.0,
            claimed_by=job_id,
        )
    assert [each.held.job_id for each in taken] == [job_id]
    return taken[0].held.token


async def test_a_lost_lease_is_written_down_and_the_job_runs_again(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    await claim_and_die(database, lane, job_id)
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)
    await clock.advance(29)
    assert await step(worker) == 0
    await clock.advance(1.5)
    assert await step(worker) == 1
    [attempt] = await rows(database, "attempt", job_id, "attempt")
    assert (attempt["status"], attempt["attempt"], attempt["node_id"]) == ("LOST", 1, job_id)
    assert attempt["due_at"] <= attempt["started_at"] < attempt["finished_at"]
    assert [d.attempt for d in handler.deliveries] == [2]
    # The one that died cannot count it: the one that took the job over does.
    assert worker.tally.counts["lease_lost"] == worker.tally.classes["retried", "lost"] == 1


async def test_a_job_that_kills_its_workers_ends_in_the_dead_letters(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry={"max_attempts": 2})
    for _ in range(2):
        await claim_and_die(database, lane, job_id)
        await clock.advance(31)
    survivor = Handled()
    await step(await make_worker(database, survivor, tenant_id))
    assert survivor.deliveries == []
    outcome = await one(database, "outcome", job_id)
    assert (outcome["status"], outcome["code"]) == ("FAILED", "worker_lost")
    assert [a["status"] for a in await rows(database, "attempt", job_id, "attempt")] == ["LOST"] * 2


async def test_a_lost_lease_is_doubt_when_the_policy_holds(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane, retry={"on_unknown": "hold"})
    await claim_and_die(database, lane, job_id)
    await clock.advance(31)
    handler = Handled()
    await step(await make_worker(database, handler, tenant_id))
    assert handler.deliveries == []
    assert (await one(database, "timer", job_id))["due_at"].year > 9000
    assert await told(database, job_id) == ["job.unknown"]


@pytest.mark.parametrize(
    "verdict", [End(status="COMPLETED"), Move(seconds=0.0), Move(seconds=None)]
)
async def test_a_stale_token_changes_nothing(
    database: Database, tenant_id: int, clock: Clock, verdict: Any
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    old = await claim_and_die(database, lane, job_id)
    await clock.advance(31)
    new = await claim_and_die(database, lane, job_id)
    assert new > old
    before = await one(database, "timer", job_id)
    stale = Recorded(HeldLease(job_id, old, 1), verdict)
    assert await execution.record(database, [stale]) == (set(), set())
    assert await one(database, "timer", job_id) == before
    assert await one(database, "outcome", job_id) is None
    fresh = Recorded(HeldLease(job_id, new, 2), Move(seconds=0.0))
    assert await execution.record(database, [fresh, fresh]) == ({job_id}, set())
    # Released: the same token owns nothing any more, although no other claim has raised it.
    again = Recorded(HeldLease(job_id, new, 2), verdict)
    assert await execution.record(database, [again]) == (set(), set())


async def test_a_handler_is_stopped_when_its_job_is_taken_away(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    handler = Handled()
    handler.gate.clear()
    worker = await make_worker(database, handler, tenant_id, settings={"worker.lease_seconds": 0.3})
    assert await worker.run_once(10) == 1

    async def started() -> bool:
        return handler.running == 1

    await eventually(started)
    await database.writer.execute("DELETE FROM timer WHERE subject = $1", job_id)

    async def stopped() -> bool:
        await worker.runner.renew()
        return handler.running == 0

    await eventually(stopped)
    await worker.runner.wait_idle()
    assert await one(database, "outcome", job_id) is None


async def test_leases_are_renewed_while_a_handler_runs(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id)
    [job_id] = await add_jobs(database, lane)
    handler = Handled()
    handler.gate.clear()
    worker = await make_worker(database, handler, tenant_id, settings={"worker.lease_seconds": 0.4})
    other = await make_worker(database, Handled(), tenant_id)
    assert await worker.run_once(10) == 1
    first = (await one(database, "timer", job_id))["due_at"]

    async def renewed_twice() -> bool:
        await worker.runner.renew()
        assert await step(other) == 0
        timer = await one(database, "timer", job_id)
        return bool(timer["due_at"] - first > timedelta(seconds=0.6))

    await eventually(renewed_twice)
    handler.gate.set()
    await worker.runner.wait_idle()
    assert (await one(database, "outcome", job_id))["attempt"] == 1


async def test_a_drain_gives_back_what_has_not_begun_and_stops_what_hangs(
    database: Database, tenant_id: int
) -> None:
    lane = await make_lane(database, tenant_id)
    await add_jobs(database, lane, 20)
    handler = Handled()
    handler.gate.clear()
    worker = await make_worker(database, handler, tenant_id, window_size=100)
    await worker.run_once(10)
    await eventually_running(handler)
    await worker.runner.drain(0.1)
    assert len(worker.runner) == 0
    left = await database.writer.fetch(
        "SELECT claimed_at FROM timer WHERE tenant_id = $1", tenant_id
    )
    assert len(left) == 20
    assert all(timer["claimed_at"] is None for timer in left)


async def eventually_running(handler: Handled) -> None:
    async def started() -> bool:
        return handler.running > 0

    await eventually(started)


async def test_a_paused_lane_is_never_touched(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id)
    await add_jobs(database, lane, 5)
    handler = Handled()
    worker = await make_worker(database, handler, tenant_id)
    async with database.write() as connection:
        await lane_store.pause(connection, tenant_id, lane.name, paused=True)
    await refresh(worker)
    assert await step(worker) == 0
    async with database.write() as connection:
        await lane_store.pause(connection, tenant_id, lane.name, paused=False)
    await refresh(worker)
    assert await step(worker) == 5
