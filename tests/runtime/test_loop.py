import asyncio
import time

import pytest

from faults.pg_proxy import wait_a_moment
from postdate.runtime.loop import STALLED_SECONDS, Loop


async def run(loop: Loop, until: asyncio.Event) -> None:
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(5):
        await until.wait()
    loop.stop()
    await running


async def test_full_steps_follow_each_other_without_a_pause() -> None:
    counts = [10, 10, 3]
    done = asyncio.Event()

    async def step(limit: int) -> int:
        count = counts.pop(0) if counts else 0
        if not counts:
            done.set()
        return min(count, limit)

    began = time.monotonic()
    await run(Loop("x", step, limit=10, poll_seconds=60), done)
    assert time.monotonic() - began < 1


async def test_it_sleeps_until_the_next_is_due_and_a_hint_wakes_it() -> None:
    steps: list[float] = []
    twice, thrice = asyncio.Event(), asyncio.Event()
    due = [0.05]

    async def step(_: int) -> int:
        steps.append(time.monotonic())
        if len(steps) == 2:
            twice.set()
        if len(steps) == 3:
            thrice.set()
        return 0

    async def next_due() -> float | None:
        return due.pop() if due else None

    loop = Loop("x", step, limit=10, next_due=next_due, poll_seconds=60)
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(5):
        await twice.wait()
        assert steps[1] - steps[0] >= 0.04
        loop.wake()
        await thrice.wait()
    loop.stop()
    await running


async def test_a_loop_rests_while_somebody_else_holds_what_is_due() -> None:
    """The row was locked: due at once, and nothing to take, hundreds of times a second."""
    steps, woken = 0, asyncio.Event()

    async def step(_: int) -> int:
        nonlocal steps
        steps += 1
        if woken.is_set():
            done.set()
        return 0

    async def next_due() -> float | None:
        return -1.0

    done = asyncio.Event()
    loop = Loop("x", step, limit=10, next_due=next_due)
    running = asyncio.create_task(loop.run())
    await wait_a_moment(0.6)
    assert 3 <= steps <= 10
    woken.set()
    began = time.monotonic()
    loop.wake()
    async with asyncio.timeout(5):
        await done.wait()
    assert time.monotonic() - began < 0.2, "a hint ends the rest"
    loop.stop()
    await running


async def test_a_failing_step_is_tried_again() -> None:
    tries = 0
    done = asyncio.Event()

    async def step(_: int) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError("gone")
        done.set()
        return 0

    await run(Loop("x", step, limit=1), done)
    assert tries == 3


@pytest.mark.parametrize(
    ("poll", "silent", "stalled"),
    [
        (1, STALLED_SECONDS, False),
        (1, STALLED_SECONDS + 2, True),
        (3600, 3000, False),
        (3600, 3600 + STALLED_SECONDS + 1, True),
    ],
)
async def test_a_loop_is_stalled_when_it_is_silent_for_longer_than_it_sleeps(
    monkeypatch: pytest.MonkeyPatch, poll: float, silent: float, *, stalled: bool
) -> None:
    async def step(_: int) -> int:
        return 0

    loop = Loop("x", step, limit=1, poll_seconds=poll)
    later = time.monotonic() + silent
    monkeypatch.setattr("postdate.runtime.loop.time.monotonic", lambda: later)
    assert (loop.stalled() is not None) == stalled


async def test_a_loop_that_is_cancelled_as_it_is_woken_ends() -> None:
    """Seed 93003984 of the simulated workers: Python 3.11's `wait_for` forgot the cancellation."""

    async def step(_: int) -> int:
        return 0

    loop = Loop("x", step, limit=1, poll_seconds=60)
    running = asyncio.create_task(loop.run())
    await wait_a_moment(0.05)
    loop.wake()
    running.cancel()
    await asyncio.wait({running}, timeout=1)
    assert running.cancelled()
