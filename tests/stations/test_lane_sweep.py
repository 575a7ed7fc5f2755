"""The sweep finds every lane that has timers, and a worker loses none that it found."""

import time
from typing import Any

import pytest

from postdate.core.ids import bucket_of
from postdate.database.connection.database import Database
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate.runtime import lane_sweep
from postdate.runtime.lane_sweep import LaneSweep
from postdate.runtime.loop import next_tick
from postdate.timer import timer
from postdate.worker import lane_bucket
from postdate.worker.lane_bucket import KEPT_SECONDS
from postdate.worker.worker import JobWorker
from support.worker import Handled, add_jobs, look, make_lane, make_worker, refresh, step


async def _all(database: Database, sweep: LaneSweep) -> set[tuple[int, int]]:
    """Sweep to the end; return what was found."""
    found: set[tuple[int, int]] = set()
    while True:
        async with database.connection() as connection:
            heads = await sweep.step(connection)
        for head in heads:
            assert (head.bucket, head.lane_id) not in found
            sweep.add(head.bucket, head.lane_id)
            found.add((head.bucket, head.lane_id))
        if not heads and sweep.at_end:
            return found


@pytest.mark.parametrize(("max_gaps", "max_each"), [(2000, 32), (3, 1)])
async def test_it_finds_each_lane_with_timers_once_and_no_other(
    database: Database,
    tenant_id: int,
    monkeypatch: pytest.MonkeyPatch,
    max_gaps: int,
    max_each: int,
) -> None:
    monkeypatch.setattr(lane_sweep, "MAX_GAPS", max_gaps)
    monkeypatch.setattr(lane_sweep, "MAX_EACH", max_each)
    lanes = [await make_lane(database, tenant_id, f"lane-{n}", width=2) for n in range(9)]
    expected = set()
    for lane in lanes[::2]:
        jobs = await add_jobs(database, lane, 2, in_seconds=(-1, 3600))
        expected |= {(bucket_of(job), lane.lane_id) for job in jobs}
    sweep, own = LaneSweep(), {lane.lane_id for lane in lanes}
    assert {key for key in await _all(database, sweep) if key[1] in own} == expected
    [more] = await add_jobs(database, lanes[1])
    assert {key for key in await _all(database, sweep) if key[1] in own} == {
        (bucket_of(more), lanes[1].lane_id)
    }
    sweep.discard(bucket_of(more), lanes[1].lane_id)
    assert (bucket_of(more), lanes[1].lane_id) in await _all(database, sweep)


async def test_a_lane_is_not_lost_when_the_look_after_the_sweep_fails(
    database: Database, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = Handled()
    worker = await make_worker(database, handled, tenant_id)
    await add_jobs(database, await make_lane(database, tenant_id))
    await refresh(worker)
    failing = worker.lanes.load

    async def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("gone")

    monkeypatch.setattr(worker.lanes, "load", fail)
    look(worker)
    with pytest.raises(ConnectionError):
        await worker.run_once(10)
    monkeypatch.setattr(worker.lanes, "load", failing)
    await step(worker)
    assert len(handled.deliveries) == 1


async def test_a_paused_lane_is_set_aside_and_comes_back(
    database: Database, tenant_id: int
) -> None:
    handled = Handled()
    lane = await make_lane(database, tenant_id)
    worker = await make_worker(database, handled, tenant_id)
    await _pause(database, worker, lane, paused=True)
    await add_jobs(database, lane, 3)
    assert await step(worker) == 0
    assert len(worker.claimer.lane_buckets) == 0
    await _pause(database, worker, lane, paused=False)
    assert len(worker.claimer.lane_buckets) > 0
    await worker.run_once(100)
    await worker.runner.wait_idle()
    assert len(handled.deliveries) == 3
    await _pause(database, worker, lane, paused=True)
    await add_jobs(database, lane, 3)
    assert await step(worker) == 0


async def _pause(database: Database, worker: JobWorker, lane: Lane, *, paused: bool) -> None:
    async with database.write() as connection:
        await lane_store.pause(connection, lane.tenant_id, lane.name, paused=paused)
    await refresh(worker)


async def test_an_empty_bucket_is_forgotten_and_found_again(
    database: Database, tenant_id: int
) -> None:
    handled = Handled()
    lane = await make_lane(database, tenant_id, width=1)
    worker = await make_worker(database, handled, tenant_id)
    await add_jobs(database, lane)
    assert await step(worker) == 1
    [watched] = worker.claimer.lane_buckets
    watched.active_until = time.monotonic() - KEPT_SECONDS - 1
    assert await step(worker) == 0
    assert not list(worker.claimer.lane_buckets)
    await add_jobs(database, lane)
    assert await step(worker) == 1


async def test_a_hint_of_an_unknown_lane_has_it_loaded(database: Database, tenant_id: int) -> None:
    handled = Handled()
    worker = await make_worker(database, handled, tenant_id)
    lane = await make_lane(database, tenant_id)
    await add_jobs(database, lane)
    worker.claimer.lane_buckets.sweep_at = time.monotonic() + 3600
    assert not worker.claimer.hint(lane.lane_id)
    await worker.claimer.refresh()
    assert worker.claimer.hint(lane.lane_id)
    await worker.run_once(10)
    await worker.runner.wait_idle()
    assert len(handled.deliveries) == 1


def test_a_sweep_rests_in_proportion_to_what_it_looks_into() -> None:
    buckets, now = lane_bucket.LaneBuckets(), 1000.0
    buckets.sweep.looked = 64
    buckets.plan_sweep(now, 0.001)
    assert buckets.sweep_at == next_tick(now)
    buckets.sweep.looked = 8000
    buckets.plan_sweep(now, 0.001)
    assert buckets.sweep_at == now + 2.0
    buckets.plan_sweep(now, 1.0)  # it walked over dead rows
    assert buckets.sweep_at == now + 10.0
    buckets.sweep.found_any = True
    buckets.plan_sweep(now, 1.0)
    assert buckets.sweep_at == now


async def test_the_statement_goes_from_lane_to_lane_by_the_index(database: Database) -> None:
    async with database.connection() as connection:
        plan = await connection.fetch(
            "EXPLAIN (COSTS OFF) SELECT * FROM timer_lanes('{1,2}', '{15,15}', '{99,99}', 8)"
        )
        assert await timer.lanes(connection, [(1, 15, 16)], 8) == []
    lines = "\n".join(row[0] for row in plan)
    assert lines.count("using timer_due") == 2, lines
    assert "Sort" not in lines
