"""What is too much for a thread is computed in processes that can be ended, and is ended."""

import asyncio
import operator
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from conftest import eventually
from postdate.core.work import spend
from postdate.database.connection import compute_pool, off_loop
from postdate.database.connection.compute_pool import MAX_WAITING, ComputePool, PoolLimits
from postdate.database.connection.off_loop import THREAD_STEPS, computed, in_process
from postdate.recurrence import zone
from postdate.words.error import Code, RefusedError

SOON = 30.0


@pytest.fixture
def pool() -> Iterator[ComputePool]:
    made = ComputePool(PoolLimits(memory_bytes=128 << 20, cpu_seconds=1, idle_seconds=0.5))
    yield made
    made.close()


@pytest.fixture
def door(pool: ComputePool, monkeypatch: pytest.MonkeyPatch) -> ComputePool:
    monkeypatch.setattr(off_loop, "POOL", pool)
    return pool


def _refused(pool: ComputePool, function: object, *arguments: object) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        pool.submit(1, function, *arguments).future.result(SOON)  # type: ignore[arg-type]
    return refused.value


def test_a_result_comes_back_and_so_does_a_refusal(pool: ComputePool) -> None:
    assert pool.submit(1, operator.add, 2, 3).future.result(SOON) == 5
    refused = _refused(pool, zone.get, "Atlantis")
    assert (refused.refusal.code, refused.refusal.field) == (Code.INVALID_FIELD, "timezone")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        pool.submit(1, operator.truediv, 1, 0).future.result(SOON)
    assert len(pool.pids) == 1, "all of them in one process"


def test_memory_and_time_have_limits_that_the_answer_names(pool: ComputePool) -> None:
    refused = _refused(pool, bytearray, 1 << 30).refusal
    assert (refused.code, refused.status) == (Code.TOO_COSTLY, 422)
    assert "128 MiB of memory" in refused.detail
    refused = _refused(pool, operator.pow, 3, 1 << 28).refusal
    assert refused.code is Code.TOO_COSTLY
    assert "1 s of CPU time" in refused.detail
    refused = _refused(pool, bytes, 20 << 20).refusal
    assert (refused.code, "an answer of 16 MiB" in refused.detail) == (Code.TOO_COSTLY, True)
    assert pool.submit(1, operator.add, 2, 3).future.result(SOON) == 5, "the next one is served"


async def test_a_process_that_is_killed_is_told_and_replaced(pool: ComputePool) -> None:
    task = pool.submit(1, time.sleep, 60)

    async def runs() -> bool:
        return task.process is not None

    assert await eventually(runs)
    [killed] = pool.pids
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(RefusedError) as refused:
        task.future.result(SOON)
    assert refused.value.refusal.code is Code.OVERLOADED
    assert refused.value.refusal.extra == {"retry_after_seconds": 1}
    assert pool.submit(1, os.getpid).future.result(SOON) != killed


def test_a_tenant_keeps_one_process_busy_and_others_go_on(pool: ComputePool) -> None:
    slow = [pool.submit(1, time.sleep, 60) for _ in range(5)]
    assert pool.submit(2, operator.add, 2, 3).future.result(SOON) == 5
    assert pool.submit(3, operator.add, 2, 4).future.result(SOON) == 6
    assert not any(each.future.done() for each in slow)
    for each in reversed(slow):
        pool.abandon(each)
    assert pool.submit(1, operator.add, 2, 5).future.result(SOON) == 7


def _append(order: list[int], tenant: int, _: object) -> None:
    order.append(tenant)


def test_tenants_take_turns_however_much_one_of_them_asks() -> None:
    pool = ComputePool(PoolLimits(idle_seconds=0.5), processes=1)
    order: list[int] = []
    try:
        first = pool.submit(1, time.sleep, 0.5)
        many = [(1, pool.submit(1, operator.add, 1, n)) for n in range(10)]
        late = [(tenant, pool.submit(tenant, operator.add, 1, 1)) for tenant in (2, 3)]
        for tenant, task in [*many, *late]:
            task.future.add_done_callback(partial(_append, order, tenant))
        assert [task.future.result(SOON) for _, task in [*many, *late]]
        first.future.result(SOON)
    finally:
        pool.close()
    assert {2, 3} <= {*order[:4]}, order


def test_no_more_than_so_many_wait(pool: ComputePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_max_threads", 0)
    for tenant in range(MAX_WAITING):
        pool.submit(tenant, operator.add, 2, 3)
    with pytest.raises(RefusedError) as refused:
        pool.submit(99, operator.add, 2, 3)
    assert refused.value.refusal.code is Code.OVERLOADED


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


async def test_a_question_that_is_given_up_ends_its_process(door: ComputePool) -> None:
    asking = asyncio.create_task(in_process(1, time.sleep, 60))

    async def runs() -> bool:
        return bool(door.pids)

    assert await eventually(runs)
    [pid] = door.pids
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    async def ended() -> bool:
        return _is_gone(pid) and pid not in door.pids

    assert await eventually(ended)
    assert not off_loop._under_way


async def test_idle_processes_end(door: ComputePool) -> None:
    assert await in_process(1, operator.add, 2, 3) == 5

    async def ended() -> bool:
        return not door.pids

    assert await eventually(ended)
    assert await in_process(1, operator.add, 2, 3) == 5


async def test_a_thread_has_an_allowance_and_a_process_goes_on_where_it_ends(
    door: ComputePool,
) -> None:
    await computed(1, spend, THREAD_STEPS)
    assert not door.pids, "a little is computed in a thread"
    await computed(1, spend, THREAD_STEPS + 1)
    assert door.pids


def test_the_limits_leave_room_on_a_node() -> None:
    """The goal is 400 MB for a node under attack; the processes are small until they are asked."""
    assert compute_pool.PROCESSES * compute_pool.MAX_MEMORY_BYTES <= 512 << 20
