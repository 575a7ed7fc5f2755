"""How long the event loop was held is measured, told in a metric, and forgotten again."""

import asyncio
import re
import threading
import time

import msgspec

from postdate.http import request_reader
from postdate.http.endpoint import Body
from postdate.node.event_loop import (
    CPU_SECONDS,
    SAMPLE_SECONDS,
    TICK_SECONDS,
    WINDOW_SECONDS,
    LoopHold,
    LoopWatch,
)
from support.loop_holds import server_holds
from tidy.reference import metric_names


async def test_what_holds_the_loop_is_measured() -> None:
    watch = LoopWatch()
    running = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    until = time.monotonic() + TICK_SECONDS + 0.3
    while time.monotonic() < until:
        re.fullmatch(r"a+b", "a" * 1000)
    async with asyncio.timeout(5):
        while not watch.longest_seconds:  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0)
    running.cancel()
    assert watch.longest_seconds >= 0.2


def test_the_longest_time_is_told_for_a_while() -> None:
    watch, now = LoopWatch(), time.monotonic()
    watch.record(0.5, now)
    watch.record(0.1, now + 1)
    assert watch.longest_seconds == 0.5
    watch.record(0.1, now + WINDOW_SECONDS + 1)
    assert watch.longest_seconds == 0.5
    watch.record(0.2, now + 2 * WINDOW_SECONDS + 2)
    assert watch.longest_seconds == 0.2


async def test_what_uses_the_cpu_of_the_loop_is_recorded_with_its_stack() -> None:
    watch = LoopWatch()
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(10):
        while not watch.holds:
            await asyncio.sleep(0)
            burn(CPU_SECONDS + 3 * SAMPLE_SECONDS)
    running.cancel()
    hold = watch.holds[0]
    assert hold.cpu_seconds > CPU_SECONDS
    assert "burn" in hold.stack[-1]
    assert "test_what_uses_the_cpu" in hold.stack[-2]


async def test_what_only_waits_is_not_recorded() -> None:
    watch = LoopWatch()
    running = asyncio.create_task(watch.run())
    for _ in range(3):
        await asyncio.sleep(0)
        # The loop stands still without work, as on a busy machine.
        threading.Event().wait(CPU_SECONDS + 2 * SAMPLE_SECONDS)
    await asyncio.sleep(0)
    running.cancel()
    assert not watch.holds


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_only_the_holds_of_the_server_fail_a_test() -> None:
    runner, own, served = (
        "/lib/asyncio/runners.py:118 run",
        "/tests/a.py:1 a",
        "/src/postdate/b.py:2 b",
    )
    stacks = [[own, runner, served], [own, runner, own, served], [served], [own], []]
    holds = [LoopHold(1.0, stack) for stack in stacks] + [LoopHold(0.1, [served])]
    assert server_holds(holds) == [holds[0], holds[2]]


def test_numbers_that_are_hard_to_read_cost_no_more_than_others() -> None:
    class AnyPayload(Body):
        payload: msgspec.Raw

    decoder = msgspec.json.Decoder(AnyPayload)

    def cost(number: bytes) -> float:
        body = b'{"payload":[' + b",".join([number] * 10_000) + b"]}"
        before = time.thread_time()
        request_reader.decode(body, decoder, 32, whole=True)
        return time.thread_time() - before

    plain = min(cost(b"1.5") for _ in range(3))
    for number in (b"1e308", b"1.7976931348623157081e308", b"2.2250738585072011e-308"):
        assert min(cost(number) for _ in range(3)) < 8 * plain


def test_it_is_a_metric() -> None:
    assert metric_names()["postdate_event_loop_held_seconds"][0] == "gauge"
