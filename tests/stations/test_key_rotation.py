"""Limits for each key of a lane: exact through kills and takeovers, and no key is in the way."""

from collections import Counter
from typing import Any
from uuid import UUID

import msgspec
import pytest

from conftest import Clock, eventually
from faults.pg_proxy import wait_a_moment
from postdate.core.ids import MIN_ID
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.retry import RetryPolicies
from postdate.job.store import execution
from postdate.lane.spec import PerKey, key_id
from postdate.lane.store import lane as lane_store
from postdate.lane.store import lane_key
from postdate.lane.store.lane import Lane
from postdate.runtime.key_rotation import KeyState
from postdate.timer.timer import LONG_AGO
from postdate.worker.worker import JobWorker
from support.worker import Handled, add_jobs, look, make_lane, make_worker, refresh, step


async def keyed_lane(database: Database, tenant_id: int, **per_key: Any) -> Lane:
    return await make_lane(database, tenant_id, keyed=True, per_key=PerKey(**per_key))


async def change(database: Database, lane: Lane, per_key: PerKey | None) -> None:
    async with database.write() as connection:
        [found, *_] = await lane_store.find(connection, [(lane.tenant_id, lane.name)])
        found = msgspec.structs.replace(found, per_key=per_key)
        await lane_store.change(connection, found)


class ByKey(Handled):
    """A handler that counts what runs of each key at once."""

    def __init__(self, keys: dict[UUID, str]) -> None:
        super().__init__()
        self.keys = keys
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    async def __call__(self, delivery: Any) -> Any:
        key = self.keys[delivery.job_id]
        self.order.append(key)
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])
        try:
            return await super().__call__(delivery)
        finally:
            self.now[key] -= 1


async def jobs_of(database: Database, lane: Lane, keys: dict[UUID, str], **counts: int) -> None:
    for key, count in counts.items():
        keys.update(dict.fromkeys(await add_jobs(database, lane, count, key=key), key))


async def run_all(handler: ByKey, *workers: JobWorker) -> None:
    async def done() -> bool:
        for worker in workers:
            while await worker.run_once(100):
                pass
        await wait_a_moment(0.002)
        return len(handler.order) >= len(handler.keys) and not handler.running

    await eventually(done)
    for worker in workers:
        await worker.runner.wait_idle()


async def test_a_key_runs_no_more_than_its_limit(database: Database, tenant_id: int) -> None:
    lane = await keyed_lane(database, tenant_id, max_running=2)
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=9, b=3, c=1)
    handler = ByKey(keys)
    handler.gate.clear()
    workers = [await make_worker(database, handler, tenant_id) for _ in range(2)]
    for worker in workers:
        look(worker)
        while await worker.run_once(100):
            pass

    async def begun() -> bool:
        return len(handler.order) == 5

    await eventually(begun)
    assert handler.now == {"a": 2, "b": 2, "c": 1}
    handler.gate.set()
    await run_all(handler, *workers)
    assert handler.most == {"a": 2, "b": 2, "c": 1}
    assert Counter(handler.order) == {"a": 9, "b": 3, "c": 1}


async def test_keys_take_turns_by_weight(database: Database, tenant_id: int) -> None:
    lane = await keyed_lane(database, tenant_id, weight={"b": 2})
    # Keys of one bucket, or they would not meet.
    near = [f"k{n}" for n in range(200) if lane.buckets_of(f"k{n}") == lane.buckets_of("b")][:2]
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, **{near[0]: 8, "b": 8, near[1]: 2})
    handler = ByKey(keys)
    worker = await make_worker(database, handler, tenant_id)
    look(worker)
    while await worker.run_once(4):
        await worker.runner.wait_idle()
        look(worker)
        await wait_a_moment(0.03)
    assert len(handler.order) == 18
    assert Counter(handler.order[:8]) == {near[0]: 2, "b": 4, near[1]: 2}


async def test_a_backlog_at_its_limit_is_walked_once(database: Database, tenant_id: int) -> None:
    lane = await keyed_lane(database, tenant_id, max_running=1)
    near = next(f"k{n}" for n in range(200) if lane.buckets_of(f"k{n}") == lane.buckets_of("a"))
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=3000)
    handler = ByKey(keys)
    handler.gate.clear()
    worker = await make_worker(database, handler, tenant_id)
    look(worker)
    while await worker.run_once(100):
        pass
    await jobs_of(database, lane, keys, **{near: 5})

    async def other() -> bool:
        look(worker)
        await worker.run_once(100)
        return near in handler.order

    await eventually(other)
    assert handler.now == {"a": 1, near: 1}
    handler.gate.set()
    await worker.runner.drain(5)


async def test_the_slots_of_a_dead_worker_come_back(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await keyed_lane(database, tenant_id, max_running=1)
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=3)
    dead = ByKey(keys)
    dead.gate.clear()
    gone = await make_worker(database, dead, tenant_id)
    look(gone)
    assert await gone.run_once(100) == 1
    handler = ByKey(keys)
    worker = await make_worker(database, handler, tenant_id)
    assert await step(worker) == 0
    await clock.advance(60)
    await run_all_looking(handler, worker, 3)
    assert handler.most == {"a": 1}
    assert sorted(each.attempt for each in handler.deliveries) == [1, 1, 2]
    dead.gate.set()
    await gone.runner.wait_idle()


async def run_all_looking(handler: ByKey, worker: JobWorker, count: int) -> None:
    async def done() -> bool:
        await step(worker)
        await wait_a_moment(0.03)
        return len(handler.order) >= count

    await eventually(done)


async def test_a_rate_holds_for_each_key(database: Database, tenant_id: int, clock: Clock) -> None:
    lane = await keyed_lane(database, tenant_id, rate_per_second=0.1, rate_burst=2)
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=6, b=1)
    handler = ByKey(keys)
    worker = await make_worker(database, handler, tenant_id)
    await run_all_looking(handler, worker, 3)
    assert Counter(handler.order) == {"a": 2, "b": 1}
    for seconds, starts in ((9, 3), (10, 4), (100, 6)):
        await clock.advance(seconds)
        await run_all_looking(handler, worker, starts)
        await step(worker)
        assert len(handler.order) == starts
    rates = "SELECT count(*) FROM lane_key WHERE key_id = $1"
    assert await database.writer.fetchval(rates, key_id(tenant_id, "default", "a")) == 1


async def test_limits_change_while_jobs_run(database: Database, tenant_id: int) -> None:
    lane = await keyed_lane(database, tenant_id, max_running=3)
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=9)
    handler = ByKey(keys)
    handler.gate.clear()
    worker = await make_worker(database, handler, tenant_id)
    look(worker)
    assert await worker.run_once(100) == 3
    # The worker does not know yet, and obeys all the same.
    await change(database, lane, PerKey(max_running=4))
    look(worker)
    assert await worker.run_once(100) == 1
    await change(database, lane, PerKey(max_running=1))
    look(worker)
    assert await worker.run_once(100) == 0
    await change(database, lane, None)
    await refresh(worker)
    look(worker)
    assert await worker.run_once(100) == 5
    handler.gate.set()
    await worker.runner.wait_idle()


@pytest.mark.parametrize("known", [False, True])
async def test_a_limit_that_is_new_holds_at_once(
    database: Database, tenant_id: int, *, known: bool
) -> None:
    lane = await make_lane(database, tenant_id, keyed=True)
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=4)
    handler = ByKey(keys)
    handler.gate.clear()
    worker = await make_worker(database, handler, tenant_id)
    await change(database, lane, PerKey(max_running=1))
    if known:
        await refresh(worker)
    look(worker)
    assert await worker.run_once(100) == int(known)
    handler.gate.set()
    await worker.runner.wait_idle()


async def test_a_lost_lease_keeps_its_slot_until_it_is_taken_over(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await keyed_lane(database, tenant_id, max_running=1)
    [bucket] = lane.buckets_of("a")
    [first] = await add_jobs(database, lane, key="a")
    async with database.write() as connection:
        policies = RetryPolicies(Settings())
        held: dict[str, Any] = {"lease_seconds": 10.0, "claimed_by": first}
        await execution.take(connection, lane, bucket, policies, only=[first], **held)
    await clock.advance(11)
    [second] = await add_jobs(database, lane, key="a")
    # A claim that does not know of the lost lease asks for the key.
    state = KeyState(key_id(tenant_id, lane.name, "a"), (LONG_AGO, MIN_ID), quota=5)
    async with database.write() as connection:
        [answer] = await lane_key.choose(connection, bucket, lane.lane_id, [state])
    assert (answer.fresh, answer.more) == ([], True)
    assert answer.lost == [first]
    assert second not in answer.subjects


async def test_lost_leases_beyond_a_lower_limit_are_given_back(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lane = await keyed_lane(database, tenant_id, max_running=3)
    keys: dict[UUID, str] = {}
    await jobs_of(database, lane, keys, a=3)
    dead = ByKey(keys)
    dead.gate.clear()
    gone = await make_worker(database, dead, tenant_id)
    look(gone)
    assert await gone.run_once(100) == 3
    await change(database, lane, PerKey(max_running=1))
    await clock.advance(60)
    handler = ByKey(keys)
    worker = await make_worker(database, handler, tenant_id)
    await run_all_looking(handler, worker, 3)
    assert handler.most == {"a": 1}
    dead.gate.set()
    await gone.runner.wait_idle()
